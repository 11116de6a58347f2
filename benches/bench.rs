//! The benchmarks: one binary, one module a stage, named as the folder of `src` it measures.
//!
//! `cargo bench --bench bench -- decode` runs one stage. Nothing here asserts; tests do.

mod decode;
mod path;
mod query;
mod report;
mod ring;
mod stage;

criterion::criterion_main!(
    decode::benches,
    ring::benches,
    path::benches,
    report::benches,
    query::benches
);
