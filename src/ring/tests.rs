//! The ring, by kind: smoke, capacity, spsc, mpsc, full, order, drops. A record here is 16 bytes:
//! the lane that pushed it, and a growing number, so that output can be compared with input.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

const RECORD_BYTES: usize = 16;

/// Miri is some thousand times slower.
const MANY: u64 = if cfg!(miri) { 2_000 } else { 300_000 };

fn ring(
    requests: usize,
    bytes: usize,
    receivers: usize,
) -> (Arc<TempRing>, Vec<Producer>, Consumer, Vec<Arc<SocketCounters>>) {
    let counters: Vec<_> = (0..receivers).map(|_| Arc::default()).collect();
    let (ring, producers, consumer) =
        TempRing::new(RingPlan::new(requests, bytes, receivers), &counters);
    (ring, producers, consumer, counters)
}

fn push(producer: &mut Producer, lane: u64, number: u64) {
    let to = producer.reserve(RECORD_BYTES).unwrap();
    to.extend_from_slice(&lane.to_le_bytes());
    to.extend_from_slice(&number.to_le_bytes());
}

fn records(block: &Block) -> Vec<(u64, u64)> {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let records = block.bytes.chunks_exact(RECORD_BYTES);
    records.map(|record| (number(&record[..8]), number(&record[8..]))).collect()
}

/// Takes all records; also checks the counts of the blocks.
fn drain(consumer: &mut Consumer) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    while let Some(block) = consumer.pop() {
        let records = records(&block);
        assert_eq!(records.len(), block.requests as usize);
        assert!(records.iter().all(|(lane, _)| *lane == block.lane as u64));
        all.extend(records);
        consumer.give_back(block);
    }
    all
}

fn numbers(records: &[(u64, u64)]) -> Vec<u64> {
    records.iter().map(|(_, number)| *number).collect()
}

/// Blocks in the shared queues and in those of the lanes.
fn blocks_at_rest(ring: &TempRing) -> usize {
    let lanes: usize = ring.lanes.iter().map(|lane| lane.open.len() + lane.returned.len()).sum();
    ring.filled.len() + ring.spare.len() + ring.untouched.len() + lanes
}

#[test]
fn smoke() {
    let (ring, mut producers, mut consumer, counters) = ring(100, 0, 1);
    assert!(consumer.pop().is_none());
    push(&mut producers[0], 0, 1);
    assert_eq!(ring.depth(), 0, "a batch counts when it is published");
    assert!(consumer.pop().is_none());
    producers[0].publish();
    assert_eq!(ring.depth(), 1);
    assert_eq!(drain(&mut consumer), [(0, 1)]);
    assert_eq!(ring.depth(), 0);
    assert!(consumer.pop().is_none());
    assert_eq!((counters[0].requests_pushed.get(), counters[0].requests_popped.get()), (1, 1));
}

#[test]
fn a_batch_goes_on_in_the_open_block() {
    let (_, mut producers, mut consumer, _) = ring(100, 0, 1);
    for number in 0..5 {
        push(&mut producers[0], 0, number);
        producers[0].publish();
    }
    let block = consumer.pop().unwrap();
    assert_eq!(block.requests, 5, "one block, not five");
    consumer.give_back(block);
    assert!(consumer.pop().is_none());
}

#[test]
fn capacity_of_the_plan() {
    // The defaults: 262,144 requests, 512 bytes for each.
    let plan = RingPlan::new(262_144, 262_144 * 512, 2);
    assert_eq!((plan.blocks, plan.block_requests_max), (512, 515));
    assert_eq!(plan.bytes(), 128 << 20);
    assert!(plan.requests_max() - 262_144 < 2000);
    // The minimum.
    assert_eq!(RingPlan::new(0, 0, 1), RingPlan { blocks: 10, block_requests_max: 1 });
    assert_eq!(RingPlan::new(10, 0, 16).blocks, 40);
    for receivers in [1, 2, 7, 64] {
        for requests in [1, 10, 1000, 262_144, 5_000_000] {
            let plan = RingPlan::new(requests, requests * 512, receivers);
            let sure = (plan.blocks - receivers) * plan.block_requests_max as usize;
            assert!(sure >= requests);
            assert!(plan.requests_max() < 2 * requests + plan.blocks);
        }
    }
}

#[test]
fn capacity_in_requests_is_never_below_what_was_asked() {
    for receivers in [1, 3] {
        for requests in [10, 1000, 12_345] {
            let (ring, mut producers, mut consumer, _) = ring(requests, requests * 512, receivers);
            // The others hold one block each, almost empty: the worst case.
            for (lane, producer) in producers.iter_mut().enumerate().skip(1) {
                push(producer, lane as u64, 0);
                producer.publish();
            }
            let mut lowest = u64::MAX;
            let pushed = 3 * requests as u64;
            for number in 0..pushed {
                push(&mut producers[0], 0, number);
                producers[0].publish();
                if number >= requests as u64 {
                    lowest = lowest.min(ring.depth());
                }
                assert!(ring.depth() <= ring.plan().requests_max() as u64);
            }
            assert!(lowest >= requests as u64, "{lowest} of {requests}");
            let kept: Vec<_> =
                drain(&mut consumer).into_iter().filter(|(lane, _)| *lane == 0).collect();
            assert_eq!(kept.last(), Some(&(0, pushed - 1)));
            assert!(kept.len() >= requests);
        }
    }
}

#[test]
fn capacity_in_bytes_bounds_large_records() {
    let (ring, mut producers, mut consumer, counters) = ring(1_000_000, 12 * BLOCK_BYTES, 1);
    let record = vec![7; BLOCK_BYTES / 2];
    for _ in 0..100 {
        producers[0].reserve(record.len()).unwrap().extend_from_slice(&record);
    }
    producers[0].publish();
    assert_eq!(ring.depth(), 24);
    assert_eq!(counters[0].requests_overwritten.get(), 76);
    while let Some(block) = consumer.pop() {
        assert_eq!((block.bytes.len(), block.requests), (BLOCK_BYTES, 2));
        consumer.give_back(block);
    }
}

#[test]
fn a_record_as_long_as_a_block_fits_and_a_longer_one_never() {
    let (_, mut producers, mut consumer, _) = ring(10, 0, 1);
    push(&mut producers[0], 0, 1);
    assert!(producers[0].reserve(BLOCK_BYTES + 1).is_none());
    let to = producers[0].reserve(BLOCK_BYTES).unwrap();
    assert!(to.is_empty() && to.capacity() == BLOCK_BYTES, "a new block, never grown");
    to.resize(BLOCK_BYTES, 1);
    push(&mut producers[0], 0, 2);
    producers[0].publish();
    let mut lens = Vec::new();
    while let Some(block) = consumer.pop() {
        lens.push(block.bytes.len());
        consumer.give_back(block);
    }
    assert_eq!(lens, [RECORD_BYTES, BLOCK_BYTES, RECORD_BYTES]);
}

#[test]
fn full_overwrites_the_oldest_and_counts_it() {
    let (ring, mut producers, mut consumer, counters) = ring(90, 0, 1);
    // Ten blocks of ten.
    assert_eq!(ring.plan(), RingPlan { blocks: 10, block_requests_max: 10 });
    for number in 0..101 {
        push(&mut producers[0], 0, number);
    }
    producers[0].publish();
    assert_eq!(counters[0].requests_overwritten.get(), 10);
    assert_eq!(ring.depth(), 91);
    assert_eq!(numbers(&drain(&mut consumer)), (10..101).collect::<Vec<_>>());
    assert_eq!(blocks_at_rest(&ring), 10);
}

#[test]
fn full_books_the_loss_on_the_socket_that_lost() {
    let (_, mut producers, mut consumer, counters) = ring(110, 0, 2);
    for number in 0..30 {
        push(&mut producers[0], 0, number);
    }
    producers[0].publish();
    for number in 0..1000 {
        push(&mut producers[1], 1, number);
    }
    producers[1].publish();
    // Two of three blocks were in the queue; the third is open and blocks nobody.
    assert_eq!(counters[0].requests_overwritten.get(), 22);
    drain(&mut consumer);
    for (socket, pushed) in counters.iter().zip([30, 1000]) {
        let counts = socket.counts();
        assert_eq!(counts.requests_pushed.get(), pushed);
        assert_eq!(counts.requests_popped.get() + counts.requests_overwritten.get(), pushed);
    }
}

#[test]
fn full_still_finds_a_block_when_the_merger_keeps_all_it_may() {
    let (ring, mut producers, mut consumer, counters) = ring(20, 0, 2);
    for number in 0..20 {
        push(&mut producers[0], 0, number);
    }
    producers[0].publish();
    let held: Vec<_> = std::iter::from_fn(|| consumer.pop()).collect();
    assert_eq!(held.len(), HELD_MAX);
    for number in 0..1000 {
        for (lane, producer) in producers.iter_mut().enumerate() {
            push(producer, lane as u64, number);
            producer.publish();
        }
    }
    held.into_iter().for_each(|block| consumer.give_back(block));
    let rest = drain(&mut consumer);
    // The walk that the held blocks interrupted ends first.
    let rest = rest.len() + drain(&mut consumer).len();
    assert!(rest > 0);
    let total: u64 = counters.iter().map(|socket| socket.requests_overwritten.get()).sum();
    let popped: u64 = counters.iter().map(|socket| socket.requests_popped.get()).sum();
    assert_eq!(total + popped, 2020);
    assert_eq!(ring.depth(), 0);
}

#[test]
fn order_of_one_receiver_is_kept() {
    let (_, mut producers, mut consumer, _) = ring(1000, 0, 1);
    let mut got = Vec::new();
    for number in 0..900 {
        push(&mut producers[0], 0, number);
        if number % 7 == 0 {
            producers[0].publish();
        }
        if number % 333 == 0 {
            got.extend(drain(&mut consumer));
        }
    }
    producers[0].publish();
    got.extend(drain(&mut consumer));
    assert_eq!(numbers(&got), (0..900).collect::<Vec<_>>());
}

#[test]
fn order_is_kept_when_a_receiver_overtakes_the_walk() {
    let (ring, mut producers, mut consumer, _) = ring(90, 0, 1);
    let each = u64::from(ring.plan().block_requests_max);
    for number in 0..each + 1 {
        push(&mut producers[0], 0, number);
    }
    producers[0].publish();
    // The walk takes the one filled block; before it comes to the open one, two more are filled.
    let mut got = records(&consumer.pop().unwrap());
    for number in each + 1..3 * each + 1 {
        push(&mut producers[0], 0, number);
    }
    producers[0].publish();
    got.extend(drain(&mut consumer));
    assert_eq!(numbers(&got), (0..3 * each + 1).collect::<Vec<_>>());
}

#[test]
fn order_is_kept_when_overwriting_overtakes_the_walk() {
    let (ring, mut producers, mut consumer, _) = ring(90, 0, 1);
    let mut next = 0;
    let mut push_blocks = |blocks: u32| {
        for _ in 0..=blocks * ring.plan().block_requests_max {
            push(&mut producers[0], 0, next);
            next += 1;
        }
        producers[0].publish();
    };
    push_blocks(1);
    let mut got = records(&consumer.pop().unwrap());
    push_blocks(3);
    // The walk sets the open block aside and returns the first of three filled ones that are
    // older...
    got.extend(records(&consumer.pop().unwrap()));
    // ...and now all that are left in the queue are younger.
    push_blocks(20);
    got.extend(drain(&mut consumer));
    got.extend(drain(&mut consumer));
    let numbers = numbers(&got);
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    assert_eq!(numbers.last(), Some(&(next - 1)));
}

#[test]
fn a_walk_ends_though_the_receiver_goes_on() {
    let (ring, mut producers, mut consumer, _) = ring(90, 0, 1);
    let mut number = 0;
    let mut blocks = 0;
    loop {
        for _ in 0..ring.plan().block_requests_max {
            push(&mut producers[0], 0, number);
            number += 1;
        }
        producers[0].publish();
        let Some(block) = consumer.pop() else { break };
        consumer.give_back(block);
        blocks += 1;
        assert!(blocks <= 2 * ring.plan().blocks, "a walk without end");
    }
}

#[test]
fn few_blocks_go_round_when_the_merger_keeps_up() {
    let (ring, mut producers, mut consumer, _) = ring(262_144, 262_144 * 512, 1);
    for number in 0..20_000 {
        push(&mut producers[0], 0, number);
        if number % 1000 == 0 {
            producers[0].publish();
            drain(&mut consumer);
        }
    }
    let touched = ring.plan().blocks - ring.untouched.len();
    assert!(touched <= 4, "{touched}");
}

/// A merger that is late repeatedly needs no more blocks than the first time.
#[test]
fn blocks_that_were_in_use_are_used_again() {
    let (ring, mut producers, mut consumer, _) = ring(262_144, 262_144 * 512, 1);
    let late = RETURNED_MAX * 3;
    let mut touched = 0;
    for round in 0..100 {
        for number in 0..late as u64 * u64::from(ring.plan().block_requests_max) {
            push(&mut producers[0], 0, number);
        }
        producers[0].publish();
        drain(&mut consumer);
        let blocks = ring.plan().blocks - ring.untouched.len();
        assert!(round == 0 || blocks == touched, "{touched} {blocks}");
        touched = blocks;
    }
    assert!((late..late + 4).contains(&touched), "{touched}");
}

#[test]
fn spsc() {
    let (ring, mut producers, mut consumer, counters) = ring(4000, 0, 1);
    let mut producer = producers.remove(0);
    let done = AtomicBool::new(false);
    let got = thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..MANY {
                push(&mut producer, 0, number);
                if number % 64 == 0 {
                    producer.publish();
                }
            }
            producer.publish();
            done.store(true, Ordering::Release);
        });
        drain_until(&mut consumer, &done)
    });
    let numbers = numbers(&got);
    assert!(numbers.is_sorted_by(|one, next| one < next), "in order, none twice");
    let overwritten = counters[0].requests_overwritten.get();
    assert_eq!(numbers.len() as u64 + overwritten, MANY);
    assert_eq!(numbers.last(), Some(&(MANY - 1)), "the newest is never the one to go");
    assert_eq!((ring.depth(), blocks_at_rest(&ring)), (0, ring.plan().blocks));
}

fn drain_until(consumer: &mut Consumer, done: &AtomicBool) -> Vec<(u64, u64)> {
    let mut got = Vec::new();
    loop {
        let last = done.load(Ordering::Acquire);
        got.extend(drain(consumer));
        if last {
            return got;
        }
        thread::yield_now();
    }
}

#[test]
fn mpsc_every_request_is_popped_or_counted() {
    // Small: overwritten all the time. Large: hardly ever.
    for requests in [50, 100_000] {
        let receivers = 3;
        let (ring, mut producers, mut consumer, counters) =
            ring(requests, requests * 512, receivers);
        let done = AtomicBool::new(false);
        let got = thread::scope(|scope| {
            let pushers: Vec<_> = producers
                .iter_mut()
                .enumerate()
                .map(|(lane, producer)| {
                    scope.spawn(move || {
                        for number in 0..MANY {
                            push(producer, lane as u64, number);
                            if number % (1 + 31 * lane as u64) == 0 {
                                producer.publish();
                            }
                        }
                        producer.publish();
                    })
                })
                .collect();
            let done = &done;
            scope.spawn(move || {
                for pusher in pushers {
                    pusher.join().unwrap();
                }
                done.store(true, Ordering::Release);
            });
            drain_until(&mut consumer, done)
        });
        for (lane, socket) in counters.iter().enumerate() {
            let of_lane: Vec<_> =
                got.iter().filter(|(from, _)| *from == lane as u64).copied().collect();
            let numbers = numbers(&of_lane);
            assert!(
                numbers.is_sorted_by(|one, next| one < next),
                "lane {lane}: in order, none twice"
            );
            let counts = socket.counts();
            assert_eq!(counts.requests_pushed.get(), MANY);
            assert_eq!(counts.requests_popped.get(), numbers.len() as u64);
            assert_eq!(counts.requests_popped.get() + counts.requests_overwritten.get(), MANY);
        }
        assert_eq!((ring.depth(), blocks_at_rest(&ring)), (0, ring.plan().blocks));
    }
}

#[test]
fn drops_of_an_inlet_publish_what_it_held() {
    let (ring, mut producers, mut consumer, _) = ring(100, 0, 2);
    push(&mut producers[1], 1, 5);
    drop(producers);
    assert_eq!(drain(&mut consumer), [(1, 5)]);
    drop(consumer);
    assert_eq!(ring.depth(), 0);
}

#[test]
fn drops_of_everything_in_any_order_are_clean() {
    for order in 0..3 {
        let (ring, mut producers, mut consumer, _) = ring(100, 0, 2);
        push(&mut producers[0], 0, 1);
        producers[0].publish();
        push(&mut producers[1], 1, 2);
        let held = consumer.pop();
        match order {
            0 => drop((ring, producers, consumer, held)),
            1 => drop((consumer, held, producers, ring)),
            _ => drop((held, consumer, ring, producers)),
        }
    }
}
