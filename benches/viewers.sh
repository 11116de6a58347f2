#!/usr/bin/env bash
# What people who look at the pages cost ingest: bash benches/viewers.sh [VIEWERS [RATE [SECONDS [ROUNDS]]]]
#
# Machine fact: processor time of the receivers and the merger for each packet, and packets lost, with nobody looking and with
# so many viewers, in turn, so that what else the machine does falls on both. The reports behind the pages have 10,000 rows. A viewer does
# what a browser does: it follows /events, and when a second has passed it asks for its page again; half of them look at the
# overview, the others at a report and at a row. PINBAD names the program, without it the one that cargo builds for distribution.
# Goal: no difference beyond that between two rounds, and no loss that is not there without viewers.
set -euo pipefail
cd "$(dirname "$0")/.."

viewers=${1:-10} rate=${2:-100000} secs=${3:-20} rounds=${4:-3}
pinbad=${PINBAD:-}
if [ -z "$pinbad" ]; then
    cargo build --profile dist --locked --quiet
    pinbad=${CARGO_TARGET_DIR:-target}/dist/pinbad
fi
dir=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null; wait; rm -rf "$dir"' EXIT

# One receiver: what it takes is then easy to tell from what others take.
"$pinbad" serve --udp 127.0.0.1:0 --http 127.0.0.1:0 --mysql '' --set ingest.receivers=1 --set pool.stats_history=60s \
    --log-format json 2>"$dir/log" &
daemon=$!
address() { sed -nE "s/.*\"message\":\"Ready[.]\".*\"$1\":\"([0-9.:]+)\".*/\1/p" "$dir/log" | head -n 1; }
for _ in $(seq 100); do
    udp=$(address udp) http=$(address http)
    [ -n "$udp" ] && [ -n "$http" ] && break
    sleep 0.1
done
[ -n "$udp" ] && [ -n "$http" ] || { cat "$dir/log"; exit 1; }

traffic=(--target "$udp" --scripts 10000 --distribution uniform --corpus 100000 --rate "$rate" --gso 8)
page() {
    case $(($1 % 4)) in
    0 | 2) echo "http://$http/" ;;
    1) echo "http://$http/reports/report_by_script_name?sort=-p95" ;;
    3) echo "http://$http/reports/report_by_hostname/row?hostname=$host" ;;
    esac
}
# Hundredths of a second of processor time: of the threads that take packets in, and of all, those that have ended included.
cpu() {
    awk '{ name = $0; sub(/^[^(]*\(/, "", name); sub(/\).*/, "", name); sub(/.*\) /, ""); split($0, f, " "); used = f[12] + f[13]
           if (FILENAME !~ /task/) all = used; else if (name ~ /^(receive|merge)/) ingest += used }
         END { print ingest + 0, all + 0 }' /proc/"$daemon"/stat /proc/"$daemon"/task/*/stat
}
count() { curl -s "http://$http/api/v1/status" | sed -E "s/.*\"$1\":([0-9]+).*/\1/"; }
lost() { echo $(($(count kernel_drops) + $(count requests_overwritten))); }
view() {
    curl -sN --max-time "$secs" "http://$http/events" | while read -r line; do
        case $line in "event: second"*) curl -s -o /dev/null -w '%{time_total} %{size_download} %{http_code}\n' "$1" ;; esac
    done
}

"$pinbad" load "${traffic[@]}" --duration 5s >/dev/null
host=$(curl -s "http://$http/api/v1/reports/report_by_hostname?limit=1" | sed -E 's/.*"hostname":"([^"]*)".*/\1/')
printf 'viewers | packets/s | ingest, ns a packet | all else, cores | lost | pages | p50, ms | p95, ms | largest, kB\n'
printf '%s\n' '---|---|---|---|---|---|---|---|---'
for round in $(seq "$rounds"); do
    for number in 0 "$viewers"; do
        rm -f "$dir"/page.*
        read -r ingest all < <(cpu)
        merged=$(count requests_merged) before=$(lost)
        for at in $(seq "$number"); do view "$(page "$at")" >"$dir/page.$at" & done
        "$pinbad" load "${traffic[@]}" --duration "${secs}s" >/dev/null
        # Not the daemon, which goes on.
        for job in $(jobs -rp); do [ "$job" = "$daemon" ] || wait "$job" || true; done
        packets=$(($(count requests_merged) - merged)) gone=$(($(lost) - before))
        read -r ingest_now all_now < <(cpu)
        cat "$dir"/page.* 2>/dev/null | sort -n >"$dir/times" || true
        awk -v viewers="$number" -v packets="$packets" -v secs="$secs" -v gone="$gone" \
            -v ingest=$((ingest_now - ingest)) -v others=$((all_now - all - ingest_now + ingest)) '
            $3 != 200 { bad++ } { time[NR] = $1 * 1000; if ($2 > size) size = $2 }
            END { printf "%d | %d | %.0f | %.3f | %d | %d%s | %.1f | %.1f | %.1f\n", viewers, packets / secs, ingest * 1e7 / packets,
                  others / 100 / secs, gone, NR, bad ? " (" bad " refused)" : "", time[int((NR + 1) / 2)], time[int(NR * 0.95)], size / 1000 }' "$dir/times"
    done
done
echo "$viewers viewers, $rate packets/s asked for, $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
