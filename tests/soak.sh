#!/usr/bin/env bash
# A daemon under a steady load, and whether it stays as it is: bash tests/soak.sh [DURATION] [RATE]
#
#   bash tests/soak.sh                 30 minutes at 20,000 packets/s
#   bash tests/soak.sh 30m 100000      what the documentation shows
#
# It starts the daemon on free ports of loopback with a state.dir of its own, and `pinbad load` against it. All the time
# somebody asks: reports, raw rows, SQL, metrics, the page. Snapshots are written, and SIGHUP comes once a minute. A
# line a minute says what the daemon takes and how late it is. At the end:
#
#   flat       resident memory after the warm-up: the largest of the last quarter is at most 2 % above the mean of the first
#   planned    never more than the memory plan that the daemon logs at start
#   open files no more at the end than after the warm-up, connections of the moment apart
#   accounted  at every look, or the one after it, received = accepted + invalid, and at rest also decoded = merged + overwritten + invalid;
#              what was sent = received + dropped by the kernel
#   lost       kernel_drops and requests_overwritten: none, or LOST_MAX (packets in a million, default 0)
#   stopped    SIGTERM ends it within ten seconds with exit code 0
#   past       with PAST=1: "pinbad history verify" finds nothing, and history and ClickHouse have each request that was merged,
#              once
#
# The exit code is 0 only when all of them hold, 1 when one does not, 2 for a wrong argument. The windows of reports are a
# sixth of the duration, the pools of raw rows hold half of that and a million rows at most, and the budget of the last hour
# (series.memory) is small, so that all of them have been full for long when memory is looked at.
#
# PINBAD         the program (default: target/release/pinbad, built if it is not there)
# LOAD           more arguments for `pinbad load` (default: 3 timers a request; see `pinbad load --help`)
# SETTINGS       more arguments for `pinbad serve`
# PAST           1: with history, ClickHouse's engine behind it (PYTHON: a Python that has chdb) and lines of Squid, 1,000 a second
# RUN_DAEMON, RUN_LOAD   what goes before the two commands, for instance `taskset -c 0` or `nice -n -10`
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { echo "usage: bash tests/soak.sh [DURATION: 90s, 30m, 2h] [RATE: packets a second]" >&2; exit 2; }

[ $# -le 2 ] || usage
duration=${1:-30m}
rate=${2:-20000}
case $duration in
    *[!0-9smh]* | '') usage ;;
    *h) seconds=$((${duration%h} * 3600)) ;;
    *m) seconds=$((${duration%m} * 60)) ;;
    *) seconds=${duration%s} ;;
esac
case $rate in *[!0-9]* | '' | 0) usage ;; esac
[ "$seconds" -ge 60 ] || { echo "DURATION: at least 60s, or there is nothing to compare" >&2; exit 2; }

target="${CARGO_TARGET_DIR:-target}"
program="${PINBAD:-$target/release/pinbad}"
[ -n "${PINBAD:-}" ] || cargo build --release --locked
"$program" --version >/dev/null || exit 2
read -ra load_more <<<"${LOAD:---timers 3 --scripts 2000}"
read -ra settings_more <<<"${SETTINGS:-}"
read -ra run_daemon <<<"${RUN_DAEMON:-}"
read -ra run_load <<<"${RUN_LOAD:-}"

work=$(mktemp -d)
daemon='' load='' asker='' proxy='' clickhouse=''
clean_up() {
    [ -z "$load" ] || { kill -TERM "$load" 2>/dev/null && wait "$load" 2>/dev/null; } || true
    for pid in $asker $proxy $daemon $clickhouse; do kill -KILL "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

window=$((seconds / 6 > 900 ? 900 : seconds / 6))
rows=$((rate * window / 2 > 1000000 ? 1000000 : rate * window / 2))
: >"$work/pinbad.toml"
if [ -n "${PAST:-}" ]; then
    printf '[[squid]]\nlisten = "udp://127.0.0.1:0"\nname = "proxy"\n' >"$work/pinbad.toml"
    python=${PYTHON:-$target/clients/readers/bin/python}
    mkfifo "$work/ports"
    "$python" tests/clients/clickhouse.py "$work" >"$work/ports" 2>/dev/null &
    clickhouse=$!
    read -r clickhouse_port _ <"$work/ports" || { echo "PAST=1 wants a Python with chdb: PYTHON" >&2; exit 2; }
    settings_more+=(--set history.dir="$work/history" --set history.free_min=0
        --set clickhouse.url="http://127.0.0.1:$clickhouse_port/" --set clickhouse.create_tables=true)
fi
# The value of a member in the first line of the log that has this message.
logged() { grep -m1 "\"message\":\"$1\"" "$work/log" | grep -o "\"$2\":[^,}]*" | head -n1 | cut -d: -f2- | tr -d '"'; }
# Starts the daemon; its log is a new one.
serve() {
    "${run_daemon[@]}" "$program" serve --config "$work/pinbad.toml" --udp 127.0.0.1:0 --http 127.0.0.1:0 --mysql '' \
        --log-format json --set log.level=debug --set pool.request_pool_size=$rows --set pool.timer_pool_size=$((5 * rows)) \
        --set series.memory=8MiB --set state.dir="$work/state" --set state.snapshot_period="${window}s" \
        --set pool.stats_history="${window}s" "${settings_more[@]}" 2>"$work/log" &
    daemon=$!
    for _ in $(seq 100); do
        http=$(logged 'Ready\.' http || true)
        [ -z "$http" ] || break
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.1
    done
    [ -n "${http:-}" ] || { cat "$work/log"; echo "It does not start."; exit 1; }
}
serve
udp=$(logged 'Ready\.' udp)
planned=$(logged 'Planned memory in all, [^"]*' bytes)

ask() { curl -fsS --max-time 20 "http://$http$1"; }
status=''
look() { status=$(ask /api/v1/status) && [ -n "$status" ]; }
# A counter of the whole daemon: they stand before those of each socket.
count() { grep -o "\"$1\":[0-9]*" <<<"$status" | head -n1 | cut -d: -f2; }
# Received, and neither accepted nor refused.
apart() { echo $(($(count datagrams_received) - $(count datagrams_accepted) - $(count invalid_packets))); }
resident() { awk '/^VmRSS:/ { print $2 * 1024 }' "/proc/$daemon/status"; }
descriptors() { find "/proc/$daemon/fd" -mindepth 1 | wc -l; }
mib() { awk -v bytes="$1" 'BEGIN { printf "%.1f", bytes / 1048576 }'; }

# What people and dashboards ask, once a second something else; answers that do not come are counted.
ask_on() {
    local paths=(/metrics '/api/v1/reports/report_by_script_name?sort=-req_time_total' '/api/v1/requests?min_time=0.5'
        /api/v1/reports / '/api/v1/reports/info' /api/v1/sql?query=SELECT%20count%28*%29%20FROM%20request)
    local at=0
    while :; do
        ask "${paths[at % ${#paths[@]}]}" >/dev/null 2>>"$work/unanswered" || echo "${paths[at % ${#paths[@]}]}" >>"$work/failed"
        at=$((at + 1))
        [ $((at % 60)) != 0 ] || kill -HUP "$daemon"
        sleep 1
    done
}
: >"$work/failed"
ask_on &
asker=$!

# Lines of Squid, 1,000 a second until it is ended, which fill their pool within an hour; then as many as were sent are in a file.
proxy_on() {
    exec "$python" - "$1" "$work/lines" <<'PYTHON'
import signal, socket, sys, time
host, _, port = sys.argv[1].rpartition(":")
sender, sent, ended = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0, []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
begun = time.monotonic()
while not ended:
    line = "%.3f %d 10.0.0.1 TCP_MISS/200 5342 GET http://origin-%d.example/page - HIER_DIRECT/10.0.0.2 text/html\n"
    sender.sendto((line % (time.time(), sent % 900, sent % 7)).encode(), (host, int(port)))
    sent += 1
    time.sleep(max(0, begun + sent / 1000 - time.monotonic()))
open(sys.argv[2], "w").write(str(sent))
PYTHON
}
if [ -n "${PAST:-}" ]; then
    look
    proxy_on "$(grep -o '"from":"udp:[^"]*' <<<"$status" | head -n1 | sed 's,.*//,,')" &
    proxy=$!
fi

# Half a minute at a time: what one could not send because the machine was busy the next one does not make up for, so the
# rate is never above what was asked for for long.
send() {
    local until=$((SECONDS + seconds)) left
    trap 'kill "$sender" 2>/dev/null; exit 1' TERM
    while left=$((until - SECONDS)) && [ $left -gt 0 ]; do
        "${run_load[@]}" "$program" load --target "$udp" --rate "$rate" --duration "$((left < 30 ? left : 30))s" \
            --format json "${load_more[@]}" >>"$work/load" 2>"$work/load.err" &
        sender=$!
        wait $sender || return 1
    done
}
send &
load=$!

problems=()
problem() { problems+=("$1"); }

echo "$("$program" --version), $(nproc) cores, $rate packets/s for $duration, windows of $window s, plan $(mib "$planned") MiB"
# In MiB: what is resident, and of it what the reports and the last hour hold.
printf '%6s %12s %10s %9s %9s %6s %8s %8s %8s %8s %6s\n' \
    minute received /s dropped overwr. ring 'lag ms' RSS reports hour files
# From here on memory is compared. With a past, and time for it, the files of a whole hour were made by then: the allocator
# keeps the room of that for the next ones. They are made two minutes after the hour at the earliest, and when there is a
# snapshot behind it.
warm=$((seconds / 3))
if [ -n "${PAST:-}" ] && [ "$seconds" -ge 5400 ]; then
    published=$((2 * 3600 - $(date +%s) % 3600 + 120))
    published=$(((published + window - 1) / window * window + 120))
    if [ $published -le $((seconds * 4 / 5)) ]; then
        warm=$((published > warm ? published : warm))
    else
        echo "The first whole hour is published after $((published / 60)) minutes: begin in the second half of an hour, or take longer."
    fi
fi
quarter=$(((seconds - warm) / 4))
start=$SECONDS
next=60 before=0 before_at=0
hour=0 all_max=0 first_sum=0 first_looks=0 last_max=0 files_warm=0 lag_max=0
while kill -0 "$load" 2>/dev/null; do
    sleep 1
    kill -0 "$daemon" 2>/dev/null || { tail -n 5 "$work/log"; echo "The daemon has ended."; exit 1; }
    at=$((SECONDS - start))
    bytes=$(resident)
    all_max=$((bytes > all_max ? bytes : all_max))
    if [ $at -ge $warm ]; then
        files=$(descriptors)
        if [ $at -lt $((warm + quarter)) ]; then
            first_sum=$((first_sum + bytes)) first_looks=$((first_looks + 1))
            files_warm=$((files > files_warm ? files : files_warm))
        elif [ $at -ge $((seconds - quarter)) ] && [ $at -le "$seconds" ]; then
            last_max=$((bytes > last_max ? bytes : last_max))
        fi
    fi
    [ $at -ge $next ] || [ $((at % 5)) = 0 ] || continue
    look || { problem "no answer to /api/v1/status after $at s"; continue; }
    hour=$(grep -o '"series":{"memory_bytes":[0-9]*' <<<"$status" | grep -o '[0-9]*$')
    lag=$(count merge_lag_us)
    lag_max=$((lag > lag_max ? lag : lag_max))
    # One look may fall between the counters of a batch.
    difference=$(apart)
    [ "$difference" = 0 ] || { look && difference=$(apart); }
    [ "$difference" = 0 ] || problem "after $at s: received - accepted - invalid = $difference"
    if [ $at -ge $next ]; then
        received=$(count datagrams_received)
        printf '%6d %12d %10d %9d %9d %6d %8s %8s %8s %8s %6d\n' $((at / 60)) "$received" \
            $(((received - before) / (at - before_at))) "$(count kernel_drops)" "$(count requests_overwritten)" \
            "$(count ring_depth)" "$(awk -v us=$lag_max 'BEGIN { printf "%.1f", us / 1000 }')" "$(mib "$(resident)")" \
            "$(mib "$(count report_memory_bytes)")" "$(mib "$hour")" "$(descriptors)"
        before=$received before_at=$at next=$((next + 60)) lag_max=0
    fi
done
wait "$load" || { cat "$work/load.err"; problem "the load generator failed"; }
load=''
kill "$asker" && wait "$asker" 2>/dev/null || true
asker=''
lines=0
if [ -n "$proxy" ]; then
    kill "$proxy" && wait "$proxy" || true
    proxy='' lines=$(cat "$work/lines")
fi

# --- the verdict ----------------------------------------------------------------------------------------------------

sent=$(grep -o '"packets":[0-9]*' "$work/load" | cut -d: -f2 | awk -v lines="$lines" '{ sum += $1 } END { printf "%d", sum + lines }')
for _ in $(seq 100); do
    look || break
    [ $(($(count datagrams_received) + $(count kernel_drops))) != "$sent" ] || [ "$(count ring_depth)" != 0 ] || break
    sleep 0.1
done
look
received=$(count datagrams_received) drops=$(count kernel_drops) overwritten=$(count requests_overwritten)
files_end=$(descriptors)

verdict() { printf '%-10s %s: %s\n' "$1" "$2" "$3"; [ "$2" = ok ] || problem "$1"; }
holds() { if [ "$1" -eq 1 ]; then echo ok; else echo FAILED; fi; }

echo
first=$((first_sum / (first_looks > 0 ? first_looks : 1)))
grown=$(awk -v a=$first -v b=$last_max 'BEGIN { printf "%.2f", (b / a - 1) * 100 }')
verdict flat "$(awk -v g="$grown" 'BEGIN { print g <= 2 ? "ok" : "FAILED" }')" \
    "$(mib $first) MiB on average in the first quarter after the warm-up, $(mib $last_max) MiB at most in the last ($grown %)"
verdict planned "$(holds $((all_max <= planned)))" "$(mib $all_max) MiB at most, of $(mib "$planned") MiB"
verdict 'open files' "$(holds $((files_end <= files_warm)))" "$files_end at the end, up to $files_warm after the warm-up"
accounted=$((sent == received + drops \
    && received == $(count datagrams_accepted) + $(count invalid_packets) \
    && $(count requests_decoded) == $(count requests_merged) + overwritten + $(count requests_invalid)))
verdict accounted "$(holds $accounted)" "sent $sent = received $received + dropped $drops; decoded $(count requests_decoded) = merged $(count requests_merged) + overwritten $overwritten + invalid $(count requests_invalid)"
lost_max=$((sent / 1000 * ${LOST_MAX:-0} / 1000))
verdict lost "$(holds $((drops + overwritten <= lost_max)))" "$drops by the kernel, $overwritten overwritten; accepted: $lost_max"
unanswered=$(wc -l <"$work/failed")
verdict answered "$(holds $((unanswered == 0)))" "$unanswered questions had no answer$([ "$unanswered" = 0 ] || sort "$work/failed" | uniq -c | tr '\n' ';')"
snapshots=$(grep -o '"written":[0-9]*' <<<"$status" | head -n1 | cut -d: -f2)
errors=$(grep -c '"level":"ERROR"' "$work/log" || true)
verdict log "$(holds $((errors == 0)))" "$errors errors; ${snapshots:-0} snapshots written, $(grep -c 'Reloaded the configuration' "$work/log" || true) reloads"
stop=$(date +%s%N)
kill -TERM "$daemon"
code=0
wait "$daemon" || code=$?
took=$((($(date +%s%N) - stop) / 1000000))
daemon=''
verdict stopped "$(holds $((code == 0 && took <= 10000)))" "exit code $code after $took ms"
if [ -n "${PAST:-}" ]; then
    merged=$(count requests_merged)
    verified=ok
    "$program" history verify --dir "$work/history" >"$work/verified" 2>&1 || { verified=FAILED && cat "$work/verified"; }
    # What the stop wrote is shipped when its minute has been over for two minutes.
    serve
    kept=$("$program" query --url "http://$http" 'SELECT SUM(req_count) FROM history.info' | tail -n 1 | tr -d '\r')
    shipped=''
    for _ in $(seq 300); do
        shipped=$(curl -fsS "http://127.0.0.1:$clickhouse_port/" \
            --data-binary "SELECT sum(req_count) FROM pinba.rollup FINAL WHERE report = 'info'")
        [ "$shipped" -lt "$merged" ] || break
        sleep 1
    done
    kill -TERM "$daemon" && wait "$daemon" || true
    daemon=''
    [ "$kept,$shipped" = "$merged,$merged" ] || verified=FAILED
    verdict past "$verified" "$(tail -n 1 "$work/verified"); merged $merged, in history $kept, in ClickHouse $shipped"
fi
if [ "$errors" != 0 ]; then grep -m5 '"level":"ERROR"' "$work/log"; fi

if [ ${#problems[@]} -gt 0 ]; then
    printf '\nNot steady: %s\n' "$(IFS=';'; echo "${problems[*]}")"
    exit 1
fi
printf '\nSteady.\n'
