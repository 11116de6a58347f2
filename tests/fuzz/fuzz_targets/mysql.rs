//! See `pinbad::fuzz::mysql`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pinbad::fuzz::mysql(bytes));
