#!/bin/sh
# Cargo calls this in the place of rustc (RUSTC_WRAPPER, see tests/fuzz.sh): what is fuzzed counts how it is run
# through, what it is linked with is built as ever, and with that is the same as for the tests.
rustc=$1
shift
case " $* " in
*" --crate-name pinbad "*)
    exec "$rustc" "$@" --cfg fuzzing \
        -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
esac
exec "$rustc" "$@"
