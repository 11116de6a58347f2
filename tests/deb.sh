#!/usr/bin/env bash
# The Debian package as an operator gets it: built, installed, run, upgraded over an edited configuration, removed, purged.
#
#   bash tests/deb.sh            builds it (config/deb.sh) and tries it on this machine
#   bash tests/deb.sh FILE.deb   tries a package that is there already
#
# It needs Debian and root, and cargo-deb (`cargo install cargo-deb`) to build: what is missing is named, and the exit code is 0
# then, because nothing was found wrong. It leaves a machine that has pinbad installed already alone. The units are started, and a
# restart and a wrong configuration are tried, under systemd, where it runs, or in a container that podman runs (tests/podman.sh), with
# Debian from mmdebstrap.
set -euo pipefail
cd "$(dirname "$0")/.."

left_out() { echo "left out: $1"; exit 0; }
failed=0
check() { # WHAT COMMAND...
    local what=$1
    shift
    if "$@" >"$log" 2>&1 </dev/null; then
        echo "ok      $what"
    else
        echo "FAILED  $what"
        sed 's/^/        /' "$log"
        failed=1
    fi
}
log=$(mktemp)
state=$(mktemp -d)

# --- under systemd --------------------------------------------------------------------------------------------------

under_systemd() {
    dpkg -i "$package" >"$log" 2>&1
    status() { curl -fsS --max-time 5 http://127.0.0.1:30080/api/v1/status; }
    check "installing it has started nothing" sh -c '! systemctl is-active pinbad.socket && ! systemctl is-active pinbad.service'
    check "systemd starts the socket and the service" systemctl start pinbad.socket pinbad.service
    check "it says that it is ready" systemctl is-active pinbad.service
    check "packets are sent to it" pinbad load --count 100 --rate 1000
    check "systemd restarts it" systemctl restart pinbad.service
    check "packets are sent to it again" pinbad load --count 100 --rate 1000
    check "what came before and after the restart is there" \
        sh -c 'for _ in $(seq 100); do curl -fsS http://127.0.0.1:30080/api/v1/info | grep -q "\"req_count\":200[,}]" && exit; sleep 0.1; done; exit 1'
    since() { systemctl show --property "$1" --value "$2"; }
    process=$(since MainPID pinbad.service) socket=$(since ActiveEnterTimestampMonotonic pinbad.socket)
    check "dpkg -i over it works while it runs" dpkg -i --force-confold "$package"
    check "it has restarted the service" sh -c '[ "$1" != 0 ] && [ "$1" != "$2" ]' sh "$(since MainPID pinbad.service)" "$process"
    check "and not the socket" [ "$(since ActiveEnterTimestampMonotonic pinbad.socket)" = "$socket" ]
    check "its socket is systemd's" grep -q '"handed_over":true' <(status)
    cp /etc/pinbad/pinbad.toml "$state/right.toml"
    echo 'wrong = 1' >>/etc/pinbad/pinbad.toml
    starts() { journalctl --no-pager --output cat --unit pinbad.service | grep -c '^Starting '; }
    before=$(starts)
    check "with a wrong configuration systemd says that it does not start" sh -c '! systemctl restart pinbad.service'
    check "packets are sent meanwhile" pinbad load --count 1000 --rate 200
    check "the socket stays open" systemctl is-active pinbad.socket
    tried=$(($(starts) - before))
    check "it was tried once a second, not for each packet ($tried times)" [ $tried -le 8 ]
    cp "$state/right.toml" /etc/pinbad/pinbad.toml
    check "once it is right the next try succeeds, and what came before and since is there" \
        sh -c 'for _ in $(seq 100); do curl -fsS http://127.0.0.1:30080/api/v1/info | grep -q "\"req_count\":1200[,}]" && exit; sleep 0.1; done; exit 1'
    check "systemd stops it" systemctl stop pinbad.service pinbad.socket
}

# In a container of its own, which this script calls itself in.
if [ "${1:-}" = --under-systemd ]; then
    package=$2
    under_systemd
    exit $failed
fi

# Debian with systemd as process 1.
by_podman() {
    local name=pinbad-test-$$ image=localhost/pinbad-systemd
    if ! command -v mmdebstrap >/dev/null; then echo "left out: under systemd, which does not run here: mmdebstrap and podman are missing"; return; fi
    work=$state storage=(--root "$state/root" --runroot "$state/run" --storage-driver vfs)
    . tests/podman.sh
    if ! mmdebstrap --quiet --variant=essential --include=systemd,systemd-sysv,dbus,curl,procps bookworm "$state/base.tar" >"$log" 2>&1; then
        echo "left out: under systemd, which does not run here: no packages of Debian can be had: $(tail -n 1 "$log")"
        return
    fi
    podman "${storage[@]}" --tmpdir "$state/podman" import "$state/base.tar" $image >"$log" 2>&1 || true
    rm "$state/base.tar"
    local systemd=(--privileged --systemd=always --cgroupns=private --tmpfs /run --network none -v "$PWD:/src:ro" -v "$(realpath "$package"):/pinbad.deb:ro")
    if ! podman_runs $image -- /bin/true || ! pod run "${pod_options[@]}" -d --name "$name" "${systemd[@]}" $image /sbin/init >"$log" 2>&1; then
        echo "left out: under systemd, which does not run here, nor in podman: ${podman_why:-$(tail -n 1 "$log")}"
        return
    fi
    for _ in $(seq 100); do
        case $(pod exec "$name" systemctl is-system-running 2>/dev/null || true) in running | degraded) break ;; esac
        sleep 0.2
    done
    echo "in a container, with $(pod exec "$name" systemctl --version | head -n 1):"
    pod exec "$name" bash /src/tests/deb.sh --under-systemd /pinbad.deb || failed=1
    pod exec "$name" systemd-analyze verify --man=no pinbad.service pinbad.socket || failed=1
}

command -v dpkg >/dev/null || left_out "the Debian package: there is no dpkg"
[ "$(id -u)" = 0 ] || left_out "the Debian package: only root can install it"
if dpkg -s pinbad >/dev/null 2>&1; then left_out "the Debian package: pinbad is installed here already"; fi
if [ $# -ge 1 ]; then
    package=$1
else
    cargo deb --version >/dev/null 2>&1 || left_out "the Debian package: cargo-deb is missing, \`cargo install cargo-deb\`"
    bash config/deb.sh
    package=$(find "${CARGO_TARGET_DIR:-target}/debian" -name 'pinbad_*.deb' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2)
fi

daemon=''
clean_up() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    [ -z "${work:-}" ] || podman_ends
    dpkg --purge pinbad >/dev/null 2>&1 || true
    rm -rf "$log" "$state"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# --- what is in it --------------------------------------------------------------------------------------------------

contents=$(dpkg-deb --contents "$package" | awk '{ print $1, $2, $NF }')
holds() { grep -qE "^$1 (root/root|0/0) \./$2\$" <<<"$contents"; }
check "the program is in it, for everybody to run" holds '-rwxr-xr-x' 'usr/bin/pinbad'
check "the configuration is in it, with every key" holds '-rw-r--r--' 'etc/pinbad/pinbad.toml'
check "the units are in it" holds '-rw-r--r--' '(usr/)?lib/systemd/system/pinbad\.service'
check "the socket unit is in it" holds '-rw-r--r--' '(usr/)?lib/systemd/system/pinbad\.socket'
for page in pinbad pinbad-serve pinbad-query pinbad-top pinbad-doctor; do
    check "the man page $page(1) is in it" holds '-rw-r--r--' "usr/share/man/man1/$page\.1(\.gz)?"
done
check "completions of bash are in it" holds '-rw-r--r--' 'usr/share/bash-completion/completions/pinbad'
check "completions of zsh are in it" holds '-rw-r--r--' 'usr/share/zsh/vendor-completions/_pinbad'
check "completions of fish are in it" holds '-rw-r--r--' 'usr/share/fish/vendor_completions.d/pinbad\.fish'
check "the manual is in it" holds '-rw-r--r--' 'usr/share/doc/pinbad/src/manual/operations\.md'
check "licence and readme are in it" holds '-rw-r--r--' 'usr/share/doc/pinbad/copyright'
check "it depends on the system's C library" grep -q libc6 <(dpkg-deb --field "$package" Depends)
control=$(mktemp -d "$state/control.XXXX")
dpkg-deb --control "$package" "$control"
check "the configuration is a conffile" grep -qx /etc/pinbad/pinbad.toml "$control/conffiles"

# --- what its scripts ask of systemd --------------------------------------------------------------------------------

# Where systemd does not run, and without starting anything where it does: with stand-ins for its tools, and a /run of their own.
asked() { # SCRIPT ARGUMENTS...
    mkdir -p "$state/bin"
    for tool in systemctl deb-systemd-invoke; do
        printf '#!/bin/sh\necho "%s $*"\n' "$tool" >"$state/bin/$tool"
    done
    chmod +x "$state/bin"/*
    unshare --mount sh -ec 'mount -t tmpfs none /run; mkdir -p /run/systemd/system; PATH=$1:$PATH; shift; exec "$@"' \
        sh "$state/bin" "$@" | tee "$state/asked"
    cmp "$state/asked" "$state/expected"
}
asks() { # WHAT LINES SCRIPT ARGUMENTS...
    printf "$2" >"$state/expected"
    check "$1" asked "$control/$3" "${@:4}"
}
if unshare --mount sh -c 'mount -t tmpfs none /run' 2>/dev/null; then
    reload='systemctl --system daemon-reload\n'
    asks "the first installation starts nothing" "$reload" postinst configure ''
    asks "an upgrade keeps the old program until the new one is there" '' prerm upgrade 2.0
    asks "an upgrade restarts the service if it runs, and not the socket" \
        "${reload}deb-systemd-invoke try-restart pinbad.service\n" postinst configure 1.0
    asks "removing it stops and disables both" \
        'deb-systemd-invoke stop pinbad.socket pinbad.service\nsystemctl --quiet disable pinbad.socket pinbad.service\n' \
        prerm remove
    asks "what is gone is forgotten" "$reload" postrm remove
else
    echo "left out: what its scripts ask of systemd, because nothing can be mounted here"
fi

# --- installed ------------------------------------------------------------------------------------------------------

check "dpkg -i installs it" dpkg -i "$package"
check "the program runs" /usr/bin/pinbad --version
check "the shipped configuration is right" /usr/bin/pinbad check --config /etc/pinbad/pinbad.toml
if command -v systemd-analyze >/dev/null; then
    check "systemd finds nothing wrong with the units" \
        systemd-analyze verify --man=no /lib/systemd/system/pinbad.service /lib/systemd/system/pinbad.socket
fi

# Started as the unit does, with its configuration, on ports of its own; by systemd's own tool, which holds the socket.
run=(/usr/bin/pinbad serve --config /etc/pinbad/pinbad.toml --http 127.0.0.1:39080 --mysql '')
port=39002
answers() { # URL
    for _ in $(seq 100); do
        if curl -fsS --max-time 5 "http://127.0.0.1:39080$1" 2>/dev/null; then return 0; fi
        sleep 0.1
    done
    return 1
}
if command -v systemd-socket-activate >/dev/null; then
    systemd-socket-activate --datagram --fdname=udp --listen 127.0.0.1:$port --setenv=STATE_DIRECTORY="$state" \
        "${run[@]}" 2>"$state/log" &
    woken='started by the first packet, over a socket that is handed to it'
else
    STATE_DIRECTORY="$state" "${run[@]}" --udp 127.0.0.1:$port 2>"$state/log" &
    woken='started by hand: there is no systemd-socket-activate'
fi
daemon=$!
# Until somebody has the port: what is sent before that is refused.
for _ in $(seq 300); do
    grep -q "0100007F:$(printf %04X "$port") " /proc/net/udp && break
    sleep 0.1
done
counted() { for _ in $(seq 100); do answers /api/v1/info | grep -q "\"req_count\":$1[,}]" && return; sleep 0.1; done; return 1; }
traffic() { /usr/bin/pinbad load --target 127.0.0.1:$port --count 100 --rate 1000; }
check "packets are sent to it" traffic
check "it counts them ($woken)" counted 100
check "SIGTERM ends it" kill -TERM $daemon
code=0
wait $daemon || code=$?
daemon=''
check "its exit code is 0" [ $code = 0 ]
check "it has kept what it had" [ -s "$state/state/snapshot" ]

# --- upgraded, removed, purged --------------------------------------------------------------------------------------

echo '# edited by the operator' >>/etc/pinbad/pinbad.toml
check "dpkg -i over itself works" dpkg -i --force-confold "$package"
check "the edited configuration is kept" grep -q 'edited by the operator' /etc/pinbad/pinbad.toml
check "dpkg -r removes it" dpkg -r pinbad
check "the program is gone" [ ! -e /usr/bin/pinbad ]
check "its units, man pages and completions are gone" \
    sh -c '! find / -xdev \( -path /proc -o -path /tmp -o -path "$HOME" -o -path "$1" \) -prune -o \( -path "*/systemd/system/pinbad.*" -o -path "*/man1/pinbad*" -o -path "*/completions/pinbad" -o -path "*/usr/share/pinbad/*" \) -print | grep .' \
    sh "$PWD"
check "the configuration stays until it is purged" [ -e /etc/pinbad/pinbad.toml ]
check "dpkg --purge takes that too" dpkg --purge pinbad
check "nothing of it is left in /etc" [ ! -e /etc/pinbad ]

# --- under systemd, here or in a container ----------------------------------------------------------------------------

if [ -d /run/systemd/system ]; then
    under_systemd
else
    by_podman
fi

[ $failed = 0 ] && echo "The package is right." || echo "The package is not right."
exit $failed
