//! The temporary ring: nanoseconds a request to push and pop records of 160 bytes in batches of 64,
//! as a receiver and the merger do.
//!
//! Goal: below 10 ns a request over the copy itself (`copy_alone` is that copy, into one buffer
//! that stays warm), so that the hand-over is lost in the 100 ns and more that decoding takes.
//! `overwriting` is the ring with a merger that never comes; `two_threads` the hand-over between
//! two processors, with the cache lines that move.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group};
use pinbad::input::record::RecordSink as _;
use pinbad::ring::{Consumer, Producer, RingPlan, TempRing};

const BATCH: u64 = 64;
const RECORD: [u8; 160] = [7; 160];

fn ring() -> (Producer, Consumer) {
    let plan = RingPlan::new(262_144, 262_144 * 512, 1);
    let (_, mut producers, consumer) = TempRing::new(plan, &[Arc::default()]);
    (producers.remove(0), consumer)
}

fn push_batch(producer: &mut Producer) {
    for _ in 0..BATCH {
        if let Some(to) = producer.reserve(RECORD.len()) {
            to.extend_from_slice(black_box(&RECORD));
        }
    }
    producer.publish();
}

/// Takes what is there and returns how many requests that were.
fn drain(consumer: &mut Consumer) -> u64 {
    let mut requests = 0;
    while let Some(block) = consumer.pop() {
        requests += u64::from(block.requests);
        black_box(&block.bytes);
        consumer.give_back(block);
    }
    requests
}

fn ring_benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring");
    group.throughput(Throughput::Elements(BATCH));

    let mut buffer = Vec::with_capacity(RECORD.len() * 64);
    group.bench_function("copy_alone", |b| {
        b.iter(|| {
            buffer.clear();
            for _ in 0..BATCH {
                buffer.extend_from_slice(black_box(&RECORD));
            }
            black_box(&buffer);
        });
    });

    let (mut producer, mut consumer) = ring();
    group.bench_function("push_pop", |b| {
        b.iter(|| {
            push_batch(&mut producer);
            drain(&mut consumer)
        });
    });

    group.bench_function("overwriting", |b| b.iter(|| push_batch(&mut producer)));

    let (mut producer, mut consumer) = ring();
    group.bench_function("two_threads", |b| {
        b.iter_custom(|batches| {
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    loop {
                        let last = done.load(Ordering::Acquire);
                        if drain(&mut consumer) == 0 && last {
                            return;
                        }
                    }
                });
                let start = Instant::now();
                for _ in 0..batches {
                    push_batch(&mut producer);
                }
                let elapsed = start.elapsed();
                done.store(true, Ordering::Release);
                elapsed
            })
        });
    });
    group.finish();
}

criterion_group!(benches, ring_benches);
