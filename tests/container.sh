#!/usr/bin/env bash
# The image as an operator gets it: built by its Containerfile, refused without a word on who may read, run as an ordinary user, asked
# for its health, limited in memory, stopped and started again.
#
#   bash tests/container.sh [PROGRAM]    with a program that was built before (target/{dist,release,debug}/pinbad)
#   PINBAD_CONTAINER_BUILD=1 bash tests/container.sh    builds it in the image, from source, with the images of docker.io
#
# It needs root, buildah, mmdebstrap and podman (all of Debian). The images of docker.io that the Containerfile names are made on this
# machine under the same names: Debian by mmdebstrap, and Rust with a stand-in for cargo that hands out PROGRAM. The image is run by podman
# where that can run containers (tests/podman.sh), and in namespaces of our own, as its configuration says. It takes some two
# minutes, most of them for Debian. What is missing is named, and the exit code is 0 then, because nothing was found wrong.
set -euo pipefail
cd "$(dirname "$0")/.."

left_out() { echo "left out: $1"; exit 0; }
failed=0
check() { # WHAT COMMAND...
    local what=$1
    shift
    if "$@" >"$work/log" 2>&1 </dev/null; then
        echo "ok      $what"
    else
        echo "FAILED  $what"
        sed 's/^/        /' "$work/log"
        failed=1
    fi
}

# --- compose.yaml: what it names is there ----------------------------------------------------------------------------

work=$(mktemp -d)
. tests/podman.sh
process=''
group=''
clean_up() {
    for pid in $process ${runner:-}; do kill -KILL "$pid" 2>/dev/null || true; done
    podman_ends
    [ -z "${mounted:-}" ] || store umount --all >/dev/null 2>&1 || true
    [ -z "$group" ] || rmdir "$group" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

compose=config/container/compose.yaml
named_files() {
    grep -oE '^ +- \.{1,2}/[^:]+' "$compose" | sed 's/^ *- //' | while read -r file; do
        [ -e "config/container/$file" ] || { echo "$file is not there"; return 1; }
    done
}
check "the files that compose.yaml names are there" named_files
if python3 -c 'import yaml' 2>/dev/null; then
    check "compose.yaml is YAML, with the five services" python3 -c '
import sys, yaml
services = yaml.safe_load(open(sys.argv[1]))["services"]
assert sorted(services) == ["grafana", "php", "pinbad", "prometheus", "web"], services' "$compose"
else
    echo "left out: reading compose.yaml, because Python has no yaml"
fi
if command -v promtool >/dev/null; then
    cp config/prometheus/pinbad.rules.yml config/container/prometheus.yml "$work"
    check "Prometheus takes its configuration" promtool check config "$work/prometheus.yml"
fi

# --- the image -------------------------------------------------------------------------------------------------------

[ "$(id -u)" = 0 ] || left_out "the image: only root can build it here"
for tool in buildah mmdebstrap; do
    command -v $tool >/dev/null || left_out "the image: $tool is missing, \`apt-get install buildah mmdebstrap podman\`"
done
program=${1:-}
for built in dist release debug; do
    [ -n "$program" ] || [ ! -x "${CARGO_TARGET_DIR:-target}/$built/pinbad" ] || program=${CARGO_TARGET_DIR:-target}/$built/pinbad
done
[ -n "$program" ] || left_out "the image: there is no program, \`cargo build --release\`"

# A store of its own: nobody's images are touched.
storage=(--root "$work/root" --runroot "$work/run" --storage-driver vfs)
store() { local command=$1; shift; buildah "${storage[@]}" "$command" "$@"; }
rust=$(sed -n 's/^FROM \(.*\) AS build$/\1/p' config/container/Containerfile)
debian=$(sed -n 's/^FROM \([^ ]*\)$/\1/p' config/container/Containerfile)
pull=--pull-never
if [ "${PINBAD_CONTAINER_BUILD:-0}" = 1 ]; then
    pull=--pull
else
    mmdebstrap --quiet --variant=essential "$(sed 's/.*:\([a-z]*\).*/\1/' <<<"$debian")" "$work/base.tar" >"$work/log" 2>&1 ||
        left_out "the image: no packages of Debian can be had: $(tail -n 1 "$work/log")"
    base=$(store from scratch)
    store add -q "$base" "$work/base.tar" / >/dev/null
    store commit -q "$base" "$debian" >/dev/null
    mkdir "$work/toolchain"
    cp "$program" "$work/toolchain/pinbad"
    printf '#!/bin/sh\nset -e\ninstall -D /opt/pinbad target/dist/pinbad\n' >"$work/toolchain/cargo"
    chmod +x "$work/toolchain/cargo"
    printf 'FROM %s\nCOPY cargo /usr/local/bin/\nCOPY pinbad /opt/\n' "$debian" >"$work/toolchain/Containerfile"
    store bud -q --isolation chroot --pull-never -t "$rust" "$work/toolchain" >/dev/null
    rm "$work/base.tar"
    echo "left out: building from source in the image, whose compiler comes from docker.io (PINBAD_CONTAINER_BUILD=1)"
fi
check "the image is built" store bud --isolation chroot --format docker $pull -f config/container/Containerfile -t pinbad .
[ $failed = 0 ] || exit 1
said() { store inspect --type image --format "{{.Docker.Config.$1}}" localhost/pinbad; }
check "it runs as an ordinary user" [ "$(said User)" = 30002:30002 ]
check "it has a health check" grep -q 'doctor --ready' <(said Healthcheck)
check "what it keeps is a volume" grep -q '/var/lib/pinbad' <(said Volumes)
check "SIGTERM stops it" [ "$(said StopSignal)" = SIGTERM ]

# --- running it ------------------------------------------------------------------------------------------------------

http=39480
udp=39402
settings=(PINBAD_HTTP_LISTEN=0.0.0.0:$http PINBAD_INGEST_LISTEN=0.0.0.0:$udp PINBAD_MYSQL_LISTEN= PINBAD_INGEST_RECEIVERS=1)
mkdir "$work/volume"
chown 30002:30002 "$work/volume"
container=$(store from --pull-never localhost/pinbad)
files=$(store mount "$container")
mounted=yes
by_podman() {
    local name=pinbad-test-$$ http=39481 udp=39403
    local run=(pod run "${pod_options[@]}") anonymous=(-e PINBAD_HTTP_ALLOW_ANONYMOUS=true) image=localhost/pinbad
    local ports=(-p 127.0.0.1:$http:30080 -p 127.0.0.1:$udp:30002/udp)
    check "podman: with a gigabyte (compose.yaml) the plan gets smaller" "${run[@]}" --rm --network none --no-healthcheck --memory 1g "${anonymous[@]}" \
        $image check --config /etc/pinbad/pinbad.toml
    mkdir "$work/roots"
    not_ours() {
        "${run[@]}" --rm --network none --no-healthcheck "${anonymous[@]}" -v "$work/roots:/var/lib/pinbad" $image >"$work/said" 2>&1 && return 1
        cat "$work/said"
        grep -q 'Permission denied' "$work/said"
    }
    check "podman: with a volume in which it cannot write it does not start, and says why" not_ours
    if ! "${run[@]}" -d --name "$name" "${ports[@]}" "${anonymous[@]}" -v pinbad-test:/var/lib/pinbad $image >"$work/log" 2>&1; then
        echo "left out: podman with a network: $(tail -n 1 "$work/log")"
        return
    fi
    counts() { for _ in $(seq 150); do curl -fsS "http://127.0.0.1:$http/api/v1/info" 2>/dev/null | grep -q "\"req_count\":$1[,}]" && return; sleep 0.1; done; pod logs "$name"; return 1; }
    stops() { pod stop --time 10 "$name" && [ "$(pod inspect --format '{{.State.ExitCode}}' "$name")" = 0 ]; }
    check "podman: it starts, and answers on a published port" counts 0
    check "podman: packets are sent to it" "$program" load --target 127.0.0.1:$udp --count 1000 --rate 10000
    check "podman: it counts them" counts 1000
    check "podman: its health check says that it is ready" pod healthcheck run "$name"
    check "podman: it stops with exit code 0" stops
    check "podman: it starts again" pod start "$name"
    check "podman: what it had is there" counts 1000
    check "podman: it stops again" stops
    pod rm -f "$name" >/dev/null 2>&1 || true
}
if podman_runs localhost/pinbad --entrypoint /usr/bin/pinbad -- --version; then
    by_podman
else
    echo "left out: running it by podman: $podman_why"
fi

# Process 1 of its own processes, with its own files, user and volume: no /etc/passwd entry, no capabilities, no way to the host's files.
run=(unshare --mount --pid --fork --kill-child --ipc --uts sh -ec '
    files=$1 volume=$2
    shift 2
    mount --make-rprivate /
    mount -t proc proc "$files/proc"
    mount --rbind /sys "$files/sys"
    mount --bind "$volume" "$files/var/lib/pinbad"
    hostname "container-$$"
    exec chroot "$files" setpriv --reuid 30002 --regid 30002 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
' sh "$files" "$work/volume")
"${run[@]}" /usr/bin/pinbad --version >"$work/log" 2>&1 || left_out "running it: $(tail -n 1 "$work/log")"
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "${settings[@]}" "${more[@]}" "${run[@]}" "$@"; }
serve=(/usr/bin/pinbad serve --config /etc/pinbad/pinbad.toml)
more=()
refused() {
    local code=0
    inside "${serve[@]}" >"$work/said" 2>&1 || code=$?
    cat "$work/said"
    [ $code = 2 ] && grep -q 'allow_anonymous = true' "$work/said"
}
check "without users it answers on no address of the container, and says what is needed" refused

more=(PINBAD_HTTP_ALLOW_ANONYMOUS=true)
not_ours() {
    local code=0
    chown 0:0 "$work/volume"
    inside "${serve[@]}" >"$work/said" 2>&1 || code=$?
    chown 30002:30002 "$work/volume"
    cat "$work/said"
    [ $code = 1 ] && grep -q 'state.dir: cannot make the folder /var/lib/pinbad/state: Permission denied' "$work/said"
}
check "with a volume in which it cannot write it does not start, and says why" not_ours
start() {
    inside "${serve[@]}" >>"$work/daemon.log" 2>&1 &
    runner=$!
    for _ in $(seq 300); do
        # Process 1 there, below the shell and unshare here.
        process=$runner
        while [ -n "$process" ] && [ "$(cat "/proc/$process/comm" 2>/dev/null)" != pinbad ]; do process=$(pgrep -P "$process" || true); done
        if [ -n "$process" ] && curl -fsS --max-time 5 "http://127.0.0.1:$http/readyz" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    cat "$work/daemon.log"
    return 1
}
stop() {
    local began=$SECONDS code=0
    kill -TERM "$process"
    wait $runner || code=$?
    process=''
    cat "$work/daemon.log"
    [ $code = 0 ] && [ $((SECONDS - began)) -le 10 ]
}
counted() { for _ in $(seq 100); do curl -fsS "http://127.0.0.1:$http/api/v1/info" | grep -q "\"req_count\":$1[,}]" && return; sleep 0.1; done; return 1; }
ended() { grep -q "Keeping data on disk.*/var/lib/pinbad" "$work/daemon.log"; }
started() { start; }
if start; then echo "ok      it starts"; else echo "FAILED  it starts"; exit 1; fi
check "what it keeps lies in the volume" ended
check "it is not root" [ "$(stat -c %u /proc/"$process")" = 30002 ]
check "packets are sent to it" "$program" load --target 127.0.0.1:$udp --count 1000 --rate 10000
check "it counts them" counted 1000
check "its health check says that it is ready" inside /usr/bin/pinbad doctor --ready http://127.0.0.1:$http
check "SIGTERM ends it, as process 1, within ten seconds" stop
if start; then echo "ok      it starts again, under another host name"; else echo "FAILED  it starts again"; failed=1; fi
check "what it had is there" counted 1000
check "SIGTERM ends it again" stop

# --- a limit of its memory -------------------------------------------------------------------------------------------

for dir in /sys/fs/cgroup/memory /sys/fs/cgroup; do
    [ -z "$group" ] && mkdir "$dir/pinbad-test-$$" 2>/dev/null && group=$dir/pinbad-test-$$
done
limit() { # BYTES: the limit of the control group
    if [ -e "$group/memory.max" ]; then echo "$1" >"$group/memory.max"; else echo "$1" >"$group/memory.limit_in_bytes"; fi
}
limited() { (echo $BASHPID >"$group/cgroup.procs" && inside /usr/bin/pinbad check --config /etc/pinbad/pinbad.toml); }
if [ -n "$group" ] && limit 805306368 2>/dev/null; then
    fits() { limited | tee "$work/said"; grep -q 'may have 768.0 MiB of memory; reduced because of that: .*reports.memory=' "$work/said"; }
    check "with 768 MiB the plan gets smaller, and that is said" fits
    limit 67108864
    too_small() {
        local code=0
        limited >"$work/said" 2>&1 || code=$?
        cat "$work/said"
        [ $code = 2 ] && grep -q 'memory: the plan needs at least .*; this one has 64 MiB; accepted:' "$work/said"
    }
    check "with 64 MiB it does not start, and says why" too_small
else
    echo "left out: a limit of its memory, because there is no control group to be had here"
fi

[ $failed = 0 ] && echo "The image is right." || echo "The image is not right."
exit $failed
