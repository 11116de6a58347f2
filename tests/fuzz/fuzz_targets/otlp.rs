//! See `pinbad::fuzz::otlp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pinbad::fuzz::otlp(bytes));
