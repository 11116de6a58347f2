//! The benchmarks: `cargo bench`, or one stage with `cargo bench -- ring`.

mod decode;
mod ring;

criterion::criterion_main!(decode::benches, ring::benches);
