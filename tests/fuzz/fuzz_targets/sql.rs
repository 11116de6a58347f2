//! See `pinbad::fuzz::sql`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pinbad::fuzz::sql(bytes));
