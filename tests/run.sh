#!/usr/bin/env bash
# Every check of this repository, in one command: bash tests/run.sh
#
#   format, lints, tests (unit, end to end, documentation), documentation; benches are compiled, not run; so many seconds
#   of each fuzz target (PINBAD_FUZZ_SECONDS, 10 without it, 0: none); Miri over every `unsafe`, where it is installed.
#
# It needs a Rust toolchain, and a C compiler, PHP with the Pinba extension, Chromium and MySQL's clients (MariaDB's, PHP's,
# Go's, Java's, Node, Python), which it installs from Debian's packages when it may (as root); Prometheus, which it unpacks from
# Debian's package; and Python's and Node's drivers, which pip and npm put beside what is built. What it cannot have it
# leaves out, and says so. All steps run even when one fails; the exit code is 0 only when none did. It can be run again
# and again: what is built is kept in CARGO_TARGET_DIR (default: ~/.cache/pinbad-target).
#
# Up to three tests that failed are run once more, each alone: on a machine that does something else at the same time one may
# fail for want of a processor. Which ones passed only then is said at the end. More than three are no accident.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${HOME:?}/.cache/pinbad-target}"
# For this script alone: the program under test takes a variable that begins like this for a setting that it does not know.
export -n PINBAD_FUZZ_SECONDS
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-never}"
export RUST_BACKTRACE="${RUST_BACKTRACE:-1}"
# What is left of an earlier tree has made the compiler crash.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
# A new machine may have cargo where rustup puts it, and a shell that does not look there.
command -v cargo >/dev/null || PATH="$HOME/.cargo/bin:$PATH"

steps_failed=()
passed_again=()
left_out=()
skip=()
log=$(mktemp)
again_log=$(mktemp)
trap 'rm -f "$log" "$again_log"' EXIT

say() { printf '\n==> %s\n' "$*"; }

# --- what the machine has to have ---------------------------------------------------------------------------------

# Not `grep -q`: it ends with the first match, and what still writes into the pipe then has failed.
have_php_pinba() { command -v php >/dev/null && php -m 2>/dev/null | grep -ix pinba >/dev/null; }

have_browser() { command -v chromium >/dev/null && command -v chromedriver >/dev/null; }

have_squid() { [ -x /usr/sbin/squid ]; }

packages=()
command -v cc >/dev/null || packages+=(gcc libc6-dev)
[ "${PINBAD_FUZZ_SECONDS:-10}" = 0 ] || command -v c++ >/dev/null || packages+=(g++)
have_php_pinba || packages+=(php-cli php-pinba)
have_browser || packages+=(chromium chromium-driver fonts-dejavu-core)
have_squid || packages+=(squid)
command -v curl >/dev/null || packages+=(curl)
# MySQL's clients. Those that cannot be had are left out, and so are those that PINBAD_TESTS_WITHOUT names: it may hold
# mariadb, php, python, node, go, java and alertmanager, apart by commas. Of these packages, squid and prometheus-alertmanager
# would start a service.
without=",${PINBAD_TESTS_WITHOUT:-},"
wanted() { [[ $without != *",$1,"* ]]; }
have_mariadb() { command -v mariadb >/dev/null && command -v mariadb-dump >/dev/null && [ -x /usr/sbin/mariadbd ]; }
have_php_mysql() { command -v php >/dev/null && php -m 2>/dev/null | grep -ix pdo_mysql >/dev/null; }
have_python() { command -v python3 >/dev/null && python3 -c 'import venv, ensurepip' 2>/dev/null; }
have_python_headers() { python3 -c 'import os, sysconfig as s; os.stat(s.get_path("include") + "/Python.h")' 2>/dev/null; }
have_go_driver() { command -v go >/dev/null && [ -d /usr/share/gocode/src/github.com/go-sql-driver/mysql ]; }
if wanted mariadb; then have_mariadb || packages+=(mariadb-client mariadb-server-core); fi
if wanted php; then have_php_mysql || packages+=(php-cli php-mysql); fi
if wanted python; then
    have_python || packages+=(python3-venv)
    have_python_headers || packages+=(python3-dev)
    command -v mariadb_config >/dev/null || packages+=(libmariadb-dev)
    command -v pkg-config >/dev/null || packages+=(pkg-config)
fi
if wanted node; then command -v npm >/dev/null || packages+=(nodejs npm); fi
have_jdbc() { command -v javac >/dev/null && [ -e /usr/share/java/mariadb-java-client.jar ]; }
have_alertmanager() { command -v prometheus-alertmanager >/dev/null; }
if wanted alertmanager; then have_alertmanager || packages+=(prometheus-alertmanager); fi
if wanted go; then have_go_driver || packages+=(golang-go golang-github-go-sql-driver-mysql-dev); fi
if wanted java; then have_jdbc || packages+=(openjdk-17-jdk-headless libmariadb-java); fi
if [ ${#packages[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "Installing ${packages[*]}"
        export DEBIAN_FRONTEND=noninteractive
        install=(apt-get install -y -q --no-install-recommends "${packages[@]}")
        # Some packages would start a service; this file keeps them from that.
        policy=/usr/sbin/policy-rc.d
        if [ -e $policy ]; then policy=''; else printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy; fi
        # The lists of a new machine are empty or old: they are fetched only if it does not go without.
        "${install[@]}" >"$log" 2>&1 </dev/null ||
            { apt-get update -q </dev/null && "${install[@]}" </dev/null; } >"$log" 2>&1 ||
            # One that is not to be had shall not keep out the others.
            for package in "${packages[@]}"; do
                apt-get install -y -q --no-install-recommends "$package" >"$log" 2>&1 </dev/null ||
                    { tail -n 5 "$log"; echo "This package could not be installed: $package"; }
            done
        [ -z "$policy" ] || rm -f "$policy"
    else
        echo "Not installed, and only root could change that: ${packages[*]}"
    fi
fi
if ! have_php_pinba; then
    # They fail without PHP, so that nobody leaves them out unseen; here they are skipped and counted as that.
    export PINBAD_TESTS_WITHOUT="${PINBAD_TESTS_WITHOUT:-},php"
    skip+=(--skip php::)
    left_out+=("the tests with real PHP: php-cli or php-pinba is missing")
fi
# What comes from PyPI and npm, and MariaDB's engine for tables elsewhere (its package would start a service), is kept
# beside what is built.
clients="$CARGO_TARGET_DIR/clients"
mkdir -p "$clients"
# Leaves out tests: the clients that are missing, why, and the names of the tests.
leave_out() {
    local client=$1 reason=$2 name
    shift 2
    wanted "$client" || reason="PINBAD_TESTS_WITHOUT has it"
    export PINBAD_TESTS_WITHOUT="${PINBAD_TESTS_WITHOUT:-},$client"
    for name in "$@"; do skip+=(--skip "$name"); done
    left_out+=("the tests $*: $reason")
}
if ! { wanted mariadb && have_mariadb; }; then
    leave_out mariadb "mariadb-client or mariadb-server-core is missing" \
        mysql::cli:: mysql::federated:: mysql::login::users_ sql_mariadb::
else
    plugin=usr/lib/mysql/plugin/ha_federatedx.so
    if [ ! -e "/$plugin" ] && [ ! -e "$clients/mariadb/$plugin" ] && command -v apt-get >/dev/null; then
        say "Unpacking mariadb-server"
        mkdir -p "$clients/mariadb"
        (cd "$clients/mariadb" && apt-get download -q mariadb-server && dpkg-deb -x mariadb-server_*.deb .) >"$log" 2>&1 </dev/null ||
            tail -n 20 "$log"
    fi
    if [ ! -e "/$plugin" ] && [ ! -e "$clients/mariadb/$plugin" ]; then
        skip+=(--skip mysql::federated::)
        left_out+=("the tests mysql::federated: ha_federatedx.so of mariadb-server is missing")
    fi
fi
if ! { wanted alertmanager && have_alertmanager; }; then
    leave_out alertmanager "prometheus-alertmanager is missing" alerts::alertmanager
fi
if ! { wanted php && have_php_mysql; }; then
    skip+=(--skip mysql::drivers::php)
    left_out+=("the tests mysql::drivers::php: php-mysql is missing")
fi
# The connector's newer releases have no C extension for every Python; this one is both.
python_packages=(PyMySQL mysqlclient mysql-connector-python==9.1.0 SQLAlchemy pandas)
have_python_packages() { [ "$(cat "$clients/python/packages" 2>/dev/null)" = "${python_packages[*]}" ]; }
if wanted python && have_python && ! have_python_packages; then
    say "Installing ${python_packages[*]}"
    { python3 -m venv --clear "$clients/python" &&
        "$clients/python/bin/pip" install -q --disable-pip-version-check "${python_packages[@]}" &&
        echo "${python_packages[*]}" >"$clients/python/packages"; } >"$log" 2>&1 </dev/null || tail -n 20 "$log"
fi
if ! { wanted python && have_python_packages; }; then
    leave_out python "one of ${python_packages[*]} could not be had" mysql::drivers::python:: mysql::login::users_ mysql::login::caching_
fi
# What reads the files of history: in a folder of their own, since drivers are of no use without the others.
reader_packages=(duckdb pyarrow pandas)
# ClickHouse's engine: 180 MB.
have_chdb() { "$clients/readers/bin/python" -c 'import chdb' 2>/dev/null; }
have_readers() { [ "$(cat "$clients/readers/packages" 2>/dev/null)" = "${reader_packages[*]}" ]; }
if wanted python && have_python && ! have_readers; then
    say "Installing ${reader_packages[*]}"
    { python3 -m venv --clear "$clients/readers" &&
        "$clients/readers/bin/pip" install -q --disable-pip-version-check "${reader_packages[@]}" &&
        echo "${reader_packages[*]}" >"$clients/readers/packages"; } >"$log" 2>&1 </dev/null || tail -n 20 "$log"
fi
if ! { wanted python && have_readers; }; then
    skip+=(--skip past::others_ --skip clickhouse::)
    left_out+=("the tests past::others_ and clickhouse::: one of ${reader_packages[*]} could not be had")
elif ! have_chdb; then
    say "Installing chdb-core"
    "$clients/readers/bin/pip" install -q --disable-pip-version-check chdb-core >"$log" 2>&1 </dev/null || tail -n 20 "$log"
    have_chdb || left_out+=("the tests clickhouse::, and ClickHouse in past::others_read: chdb-core could not be had")
fi
# What sends spans.
otel_packages=(opentelemetry-distro opentelemetry-exporter-otlp-proto-http opentelemetry-instrumentation-flask opentelemetry-instrumentation-sqlite3 flask)
have_otel() { [ "$(cat "$clients/otel/packages" 2>/dev/null)" = "${otel_packages[*]}" ]; }
if wanted python && have_python && ! have_otel; then
    say "Installing ${otel_packages[*]}"
    { python3 -m venv --clear "$clients/otel" &&
        "$clients/otel/bin/pip" install -q --disable-pip-version-check "${otel_packages[@]}" &&
        echo "${otel_packages[*]}" >"$clients/otel/packages"; } >"$log" 2>&1 </dev/null || tail -n 20 "$log"
fi
if ! { wanted python && have_otel; }; then
    skip+=(--skip otlp::python_ --skip otlp_push::python_)
    left_out+=("the tests otlp::python_ and otlp_push::python_: one of ${otel_packages[*]} could not be had")
fi
have_otel_node() { [ -d "$clients/otel-node/node_modules/express" ] && [ -d "$clients/otel-node/node_modules/@opentelemetry/auto-instrumentations-node" ]; }
if wanted node && command -v npm >/dev/null && ! have_otel_node; then
    say "Installing @opentelemetry/auto-instrumentations-node"
    mkdir -p "$clients/otel-node"
    (cd "$clients/otel-node" && npm install --silent --no-fund --no-audit @opentelemetry/api @opentelemetry/auto-instrumentations-node express) \
        >"$log" 2>&1 </dev/null || tail -n 20 "$log"
fi
if ! { wanted node && command -v node >/dev/null && have_otel_node; }; then
    skip+=(--skip otlp::node_)
    left_out+=("the test otlp::node_: node, npm or what sends its spans is missing")
fi
if wanted node && command -v npm >/dev/null && [ ! -d "$clients/node/node_modules/mysql2" ]; then
    say "Installing mysql2"
    mkdir -p "$clients/node"
    (cd "$clients/node" && npm install --silent --no-fund --no-audit mysql2) >"$log" 2>&1 </dev/null || tail -n 20 "$log"
fi
if ! { wanted node && command -v node >/dev/null && [ -d "$clients/node/node_modules/mysql2" ]; }; then
    leave_out node "node, npm or mysql2 is missing" mysql::drivers::node::
fi
if ! { wanted go && have_go_driver; }; then
    leave_out go "golang-go or golang-github-go-sql-driver-mysql-dev is missing" mysql::drivers::go::
fi
if ! { wanted java && have_jdbc; }; then
    leave_out java "openjdk-17-jdk-headless or libmariadb-java is missing" mysql::drivers::java::
fi
# Prometheus is unpacked beside what is built and not installed: the package would start a service.
if ! command -v prometheus >/dev/null || ! command -v promtool >/dev/null; then
    prometheus_dir="$CARGO_TARGET_DIR/prometheus"
    if [ ! -x "$prometheus_dir/usr/bin/promtool" ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
        say "Unpacking prometheus"
        mkdir -p "$prometheus_dir"
        download() { (cd "$prometheus_dir" && apt-get download -q prometheus) >"$log" 2>&1 </dev/null; }
        # As above: the lists are fetched only by who may, and only if it does not go without.
        { download || { [ "$(id -u)" = 0 ] && apt-get update -q >"$log" 2>&1 </dev/null && download; }; } &&
            dpkg-deb -x "$prometheus_dir"/prometheus_*.deb "$prometheus_dir" ||
            { tail -n 20 "$log"; echo "prometheus could not be had"; }
    fi
    PATH="$prometheus_dir/usr/bin:$PATH"
fi
if ! command -v prometheus >/dev/null || ! command -v promtool >/dev/null; then
    skip+=(--skip metrics::promtool --skip metrics::rules --skip metrics::prometheus)
    left_out+=("the tests with a real Prometheus: the package prometheus is missing")
fi
if ! have_squid; then
    skip+=(--skip squid::real_)
    left_out+=("the test with a real Squid: the package squid is missing")
fi
if ! have_browser; then
    skip+=(--skip browser::)
    left_out+=("the tests of the pages in a browser: chromium or chromium-driver is missing")
fi
if ! command -v curl >/dev/null; then
    export PINBAD_TESTS_WITHOUT="${PINBAD_TESTS_WITHOUT:-},curl"
    left_out+=("the commands of README and manual that use curl: curl is missing")
fi
if ! command -v cargo >/dev/null; then
    echo "cargo is missing: install a Rust toolchain first, see https://rustup.rs"
    echo "0 passed, 1 failed"
    exit 1
fi

# --- the steps ----------------------------------------------------------------------------------------------------

step() {
    local name=$1 start=$SECONDS
    shift
    say "$name: $*"
    if "$@" </dev/null; then
        echo "$name: passed in $((SECONDS - start)) s"
    else
        echo "$name: FAILED after $((SECONDS - start)) s"
        steps_failed+=("$name")
    fi
}

# Keeps the output, so that the tests can be counted at the end.
tests() { cargo test --locked --no-fail-fast -- "${skip[@]}" 2>&1 | tee -a "$log"; }

# The tests that failed, a line each: what cargo calls their binary, a bar, their name. A binary that failed otherwise (it
# crashed, it has not the tests that it counts, they are examples of the documentation) is there with a `?` for a name.
failed_tests() {
    awk '
        function close_list() { if (listing && names > 0) listing = 0 }
        /^ *Running / {
            target = "?"
            if ($0 ~ / unittests src\/lib\.rs /) target = "--lib"
            if ($0 ~ / unittests src\/main\.rs /) target = "--bin pinbad"
            if (match($0, /Running tests\/[a-z_]+/)) target = "--test " substr($0, RSTART + 14, RLENGTH - 14)
        }
        /^ *Doc-tests / { target = "--doc" }
        /^failures:$/ { listing = 1; names = 0; next }
        /^---- / { listing = 0 }
        /^$/ { close_list() }
        listing && /^    [^ ]/ { name[target, ++names] = substr($0, 5) }
        /^test result: FAILED/ {
            match($0, /[0-9]+ failed/)
            known[target] = names == substr($0, RSTART, RLENGTH - 7) + 0 ? names : 0
            listing = 0
        }
        # What cargo says last.
        /^error: (test failed|doctest failed|[0-9]+ targets? failed)/ { said = 1 }
        said && match($0, /`--[^`]*`/) {
            target = substr($0, RSTART + 1, RLENGTH - 2)
            if (told[target]++) next
            if (!known[target] || target == "--doc") print target "|?"
            for (at = 1; at <= known[target] && target != "--doc"; at++) print target "|" name[target, at]
        }
    ' "$log"
}

# Runs each of these once more, alone.
again() {
    local line target code=0
    for line in "$@"; do
        read -ra target <<<"${line%%|*}"
        if cargo test --locked "${target[@]}" -- --exact "${line#*|}" --test-threads=1 2>&1 | tee "$again_log" &&
            grep -q '^test result: ok\. 1 passed' "$again_log"; then
            passed_again+=("${line#*|}")
        else
            code=1
        fi
    done
    return $code
}

: >"$log"
start=$SECONDS
if cargo fmt --version >/dev/null 2>&1; then
    step format cargo fmt --check
else
    left_out+=("format: rustfmt is missing, \`rustup component add rustfmt\`")
fi
if cargo clippy --version >/dev/null 2>&1; then
    step lints cargo clippy --locked --all-targets -- -D warnings
else
    left_out+=("lints: clippy is missing, \`rustup component add clippy\`")
fi
step 'build without SQL' cargo check --locked --no-default-features --tests
step tests tests
if [[ " ${steps_failed[*]} " == *' tests '* ]]; then
    mapfile -t failed_tests < <(failed_tests)
    if [ ${#failed_tests[@]} -ge 1 ] && [ ${#failed_tests[@]} -le 3 ] && [[ "${failed_tests[*]}" != *'|?'* ]]; then
        step 'failed tests, each once more alone' again "${failed_tests[@]}"
        # What counts is what came of that.
        for at in "${!steps_failed[@]}"; do
            [ "${steps_failed[at]}" != tests ] || unset "steps_failed[at]"
        done
    fi
fi
# That the list is kept; the guards themselves are taken out at full size, below.
step 'list of guards' bash tests/guards.sh --lines
step documentation env RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items
# In the profile of the tests: what is built for them serves here too, and nothing is measured.
step benches cargo bench --locked --no-run --profile dev
# The corpus is run by the tests; beyond it a minute or so for all targets together, or what PINBAD_FUZZ_SECONDS says for each.
if [ "${PINBAD_FUZZ_SECONDS:=10}" = 0 ]; then
    left_out+=("fuzzing beyond the corpus: PINBAD_FUZZ_SECONDS is 0")
elif command -v c++ >/dev/null; then
    step fuzzing bash tests/fuzz.sh "$PINBAD_FUZZ_SECONDS"
else
    left_out+=("fuzzing: a C++ compiler is missing, g++")
fi
if cargo +nightly miri --version >/dev/null 2>&1; then
    step miri bash tests/miri.sh
else
    left_out+=("Miri: it is missing, \`rustup toolchain install nightly --component miri --component rust-src\`")
fi
# Hours of a processor: restarts, kills, names and the soak at full size with a release build, the package, a test for every
# guard.
if [ -n "${PINBAD_TEST_FULL:-}" ]; then
    step release cargo build --locked --release
    step 'restarts and kills at full size' env PINBAD_TEST_PROGRAM="$CARGO_TARGET_DIR/release/pinbad" \
        PINBAD_RESTART_PACKETS=1000000 PINBAD_RESTART_RATE=50000 PINBAD_KILLS=100 PINBAD_HISTORY_KILLS=100 PINBAD_KILL_RATE=5000 \
        cargo test --locked --test it -- --nocapture ten_restarts killed_
    step 'disks that fail' env PINBAD_FAULT_RUNS=100000 cargo test --locked --release --lib -- --nocapture seeded
    step 'ten million names' env PINBAD_TEST_PROGRAM="$CARGO_TARGET_DIR/release/pinbad" PINBAD_TEST_NAMES=10000000 \
        cargo test --locked --test it -- --nocapture hostile::
    step package bash tests/deb.sh
    step image bash tests/container.sh "$CARGO_TARGET_DIR/release/pinbad"
    step guards bash tests/guards.sh
    step soak bash tests/soak.sh 30m 100000
else
    left_out+=("full size: a million packets over ten restarts, a hundred kills, a million requests shipped over twenty kills, ten million names, the package, the image, every guard taken out, a soak of 30 minutes; PINBAD_TEST_FULL=1 runs them")
fi

# --- the end ------------------------------------------------------------------------------------------------------

count() { grep '^test result:' "$log" | grep -Eo "[0-9]+ $1" | awk '{ sum += $1 } END { print sum + 0 }'; }
passed=$(($(count passed) + ${#passed_again[@]}))
failed=$(($(count failed) - ${#passed_again[@]}))
skipped=$(($(count ignored) + $(count 'filtered out')))
say "Done in $((SECONDS - start)) s"
for reason in "${left_out[@]}"; do
    echo "left out: $reason"
done
for name in "${steps_failed[@]}"; do
    echo "FAILED: $name"
done
for name in "${passed_again[@]}"; do
    echo "passed only when run again alone: $name"
done
# A step that failed without a failed test (it did not compile, say) is a failure too.
if [ ${#steps_failed[@]} -gt 0 ] && [ "$failed" = 0 ]; then
    failed=${#steps_failed[@]}
fi
if [ "$passed" = 0 ] && [ "$failed" = 0 ]; then
    echo "No test was run."
    failed=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
