//! See `pinbad::fuzz::comment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pinbad::fuzz::comment(bytes));
