#!/usr/bin/env bash
# Miri over every `unsafe` of the program: bash tests/miri.sh
#
# The calls into the kernel with a pointer: Miri has no sockets, so for `input/udp/batch.rs` a stand-in for the kernel writes
# through every pointer that it is given, and Miri sees whether it may. `input/udp/kernel.rs`, `cli/load/sender.rs` and
# `instruments/timers.rs` give the kernel one array, number or struct on the stack and have nothing to run, nor has
# `daemon/malloc.rs`, which gives the C library two numbers.
# It needs a nightly toolchain: rustup component add --toolchain nightly miri rust-src
set -euo pipefail
cd "$(dirname "$0")/.."

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${HOME:?}/.cache/pinbad-target}/miri"
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "Miri is missing: rustup toolchain install nightly --component miri --component rust-src"
    exit 2
fi
# Nothing is read from outside but the standard library's own sources.
exec cargo +nightly miri test --locked --no-default-features --lib in_miri
