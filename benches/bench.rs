//! The benchmarks of single stages, in this process: a module each, named as the part of `src` that it measures.
//!
//! `cargo bench --bench bench -- decode` runs one stage. Nothing here asserts; tests do. `daemon` measures the whole.

mod decode;
mod path;
mod query;
mod receive;
mod report;
mod ring;
mod stage;

criterion::criterion_main!(
    decode::benches,
    receive::benches,
    ring::benches,
    path::benches,
    report::benches,
    query::benches
);
