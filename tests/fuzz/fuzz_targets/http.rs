//! See `pinbad::fuzz::http`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pinbad::fuzz::http(bytes));
