//! See `pinbad::fuzz::squid`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pinbad::fuzz::squid(bytes));
