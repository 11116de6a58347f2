//! See `pinbad::fuzz::stat`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pinbad::fuzz::stat(bytes));
