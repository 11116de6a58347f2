//! The benchmarks: one binary, one module a stage, named as the folder of `src` it measures.
//!
//! `cargo bench --bench bench -- decode` runs one stage. Nothing here asserts; tests do.

mod decode;
mod path;
mod query;
mod receive;
mod report;
mod ring;
#[cfg(feature = "sql")]
mod sql;
mod stage;

/// Stands in for what was left out.
#[cfg(not(feature = "sql"))]
mod sql {
    criterion::criterion_group!(benches, nothing);

    fn nothing(_: &mut criterion::Criterion) {}
}

criterion::criterion_main!(
    decode::benches,
    receive::benches,
    ring::benches,
    path::benches,
    report::benches,
    query::benches,
    sql::benches
);
