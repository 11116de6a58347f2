//! The benchmarks of single stages, in this process: a module each, named as the part of `src` that
//! it measures.
//!
//! `cargo bench --bench bench -- decode` runs one stage. Nothing here asserts; tests do. `daemon`
//! measures the whole.
#![expect(clippy::print_stderr, reason = "what a case takes is for the terminal")]

mod decode;
mod path;
mod ring;
mod stage;

criterion::criterion_main!(decode::benches, ring::benches, path::benches);
