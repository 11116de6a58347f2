//! See `pinbad::fuzz::packet`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pinbad::fuzz::packet(bytes));
