#!/usr/bin/env bash
# Fuzzing: bash tests/fuzz.sh [seconds] [target ...]
#
#   seconds   processor time for each target, default 60
#   target    packet squid stat otlp http config comment snapshot sql mysql; default: all
#
# Each target takes any bytes as one of the things that the daemon reads: a datagram, a log of Squid, spans, an address over HTTP, its
# configuration, a COMMENT, a snapshot, SQL, a MySQL client (tests/fuzz/entries says what has to hold). Stable Rust is enough,
# and a C++ compiler for libFuzzer. What a run finds worth keeping stays in CARGO_TARGET_DIR for the next one; an input
# that breaks something is kept in tests/output/fuzz, and its place, once that is mended, is tests/fuzz/corpus, which
# `cargo test` runs too. The runs of each target are counted there too, over all calls. PINBAD_FUZZ_SQL=0 leaves out what
# needs DataFusion. PINBAD_FUZZ_RELEASE=1 builds as a release is built, with the same checks: many times the runs in the same
# time, for a build that takes minutes more. The exit code is 0 if nothing was found.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${HOME:?}/.cache/pinbad-target}"
seconds=60
if [ $# -gt 0 ]; then
    case $1 in
    '' | *[!0-9]*) ;;
    *) seconds=$1 && shift ;;
    esac
fi
if [ "$seconds" = 0 ]; then
    # To libFuzzer no time is all the time there is.
    echo "0 seconds are no time to look; accepted: from 1 on"
    exit 2
fi
all=(packet squid stat otlp http config comment snapshot)
[ "${PINBAD_FUZZ_SQL:-1}" = 0 ] || all+=(sql mysql)
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=("${all[@]}")
for target in "${targets[@]}"; do
    case " ${all[*]} " in
    *" $target "*) ;;
    *)
        echo "There is no target $target; accepted: ${all[*]}"
        exit 2
        ;;
    esac
done

# Dependencies are built as for the tests, in the same folder; `rustc.sh` has what is fuzzed count how it is run through.
build=(cargo build --manifest-path tests/fuzz/Cargo.toml)
[ "${PINBAD_FUZZ_SQL:-1}" = 0 ] && build+=(--no-default-features)
for target in "${targets[@]}"; do
    build+=(--bin "$target")
done
found=0 folder=debug
log=$(mktemp) timed=$(mktemp) release=$(mktemp --suffix .toml)
trap 'rm -f "$log" "$timed" "$release"' EXIT
if [ "${PINBAD_FUZZ_RELEASE:-0}" = 1 ]; then
    folder=release
    # Dependencies are built as for a release, and what is fuzzed checks its sums as in a debug build.
    {
        awk '/^\[/ { is_release = /^\[profile\.release/ && !/\.pinbad\]/ } is_release' Cargo.toml
        printf '[profile.release.package.%s]\nopt-level = 3\ndebug-assertions = true\noverflow-checks = true\n' \
            pinbad libfuzzer-sys
    } >"$release"
    build+=(--release --config "$release")
fi
RUSTC_WRAPPER="$PWD/tests/fuzz/rustc.sh" "${build[@]}" || exit 1

TIMEFORMAT='%U %S'
for target in "${targets[@]}"; do
    kept="$CARGO_TARGET_DIR/fuzz/corpus/$target"
    broken="$PWD/tests/output/fuzz/$target"
    counted="$CARGO_TARGET_DIR/fuzz/runs/$target"
    mkdir -p "$kept" "$broken" "${counted%/*}"
    arguments=("$kept" "tests/fuzz/corpus/$target")
    [ "$target" = packet ] && arguments+=(tests/corpus)
    dictionary="tests/fuzz/dictionaries/$target"
    [ -e "$dictionary" ] && arguments+=("-dict=$dictionary")
    case $target in
    packet) arguments+=(-max_len=65507) ;;
    http | sql) arguments+=(-max_len=4096) ;;
    *) arguments+=(-max_len=16384) ;;
    esac
    used=0 runs=0 code=0
    # libFuzzer knows the clock on the wall only: on a busy machine a run gets less than it asks for, and goes on.
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
        {
            time "$CARGO_TARGET_DIR/$folder/$target" "${arguments[@]}" -max_total_time=$((seconds - used)) -timeout=120 \
                -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$broken/" >"$log" 2>&1 </dev/null
        } 2>"$timed"
        code=$?
        used=$(awk -v used=$used '{ print int(used + $1 + $2 + 0.5) }' "$timed")
        runs=$((runs + $(awk '/stat::number_of_executed_units/ { count = $2 } END { print count + 0 }' "$log")))
        [ $code = 0 ] && [ "$used" -lt "$seconds" ] || break
    done
    total=$((runs + $(cat "$counted" 2>/dev/null || echo 0)))
    echo $total >"$counted"
    coverage=$(grep -o 'cov: [0-9]* ft: [0-9]*' "$log" | tail -n 1)
    echo "fuzz $target: $runs runs in $used s of processor time, $coverage, $(find "$kept" -type f | wc -l) inputs kept, $total runs in all"
    if [ $code != 0 ]; then
        found=1
        # Last comes what broke it: libFuzzer's own lines tell the bytes of a short input. A stack that is full ends the
        # program without them, and the seed finds the way there again.
        grep -Ev '^#|NEW_FUNC' "$log" | tail -n 60
        echo "FOUND by $target (exit code $code, $(grep -o 'Seed: [0-9]*' "$log")): what broke it is in $broken, if anything"
    fi
done
sum=$(cat "$CARGO_TARGET_DIR"/fuzz/runs/* | awk '{ sum += $1 } END { print sum }')
echo "fuzz: $sum runs of all targets in all"
exit $found
