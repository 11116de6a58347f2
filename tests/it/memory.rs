//! The path takes no memory per packet: datagram, record, ring, pool, reports, with an allocator
//! that counts.
//!
//! The counts are kept per thread, so other tests of this binary do not show in them. The stages
//! are called here as the receiver and the merger call them, without sockets and threads, and time
//! is moved by hand.

#![expect(
    unsafe_code,
    reason = "counting allocations takes a global allocator, which is an unsafe trait"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use pinbad::cli::load::TrafficOptions;
use pinbad::cli::load::traffic::Traffic;
use pinbad::config::Config;
use pinbad::daemon;
use pinbad::grammar::builtin;
use pinbad::input::Decode as _;
use pinbad::input::pinba::{Decoder, model};
use pinbad::input::record::{Hasher, TextLimits};
use pinbad::input::rewrite::{NameRules, RuleCounters};
use pinbad::merger::Live;
use pinbad::pool::Pool;
use pinbad::report::{DefinedBy, Reports, Ticks};
use pinbad::ring::{Consumer, Producer, RingPlan, TempRing};
use prost::Message as _;

/// Counts what this thread takes and gives back.
struct Counting;

thread_local! {
    // No destructor and no lazy start: the allocator may look at these at any time of a thread's
    // life.
    static TAKEN: Cell<u64> = const { Cell::new(0) };
    static HELD_BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count(times: u64, bytes: i64) {
    // At the very end of a thread they may be gone; nobody asks then.
    let _late = TAKEN.try_with(|taken| taken.set(taken.get() + times));
    let _late = HELD_BYTES.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: every call is handed on to the system's allocator as it came; counting neither allocates
// nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size().cast_signed() as i64);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size().cast_signed() as i64);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size().cast_signed() as i64));
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(1, bytes.cast_signed() as i64 - layout.size().cast_signed() as i64);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often this thread took memory while `work` ran.
fn taken(work: impl FnOnce()) -> u64 {
    let before = TAKEN.get();
    work();
    TAKEN.get() - before
}

const PACKETS_PER_MERGE: usize = 500;
const PERIOD_MS: u64 = 50;
const HISTORY: Duration = Duration::from_secs(4);

/// The stages from the datagram to the reports.
struct Path {
    decoder: Decoder,
    producer: Producer,
    consumer: Consumer,
    live: Live,
    now_ms: u64,
    corpus: Vec<Vec<u8>>,
    next: usize,
}

/// How often each step took memory.
#[derive(Debug, Default)]
struct Counts {
    decode: u64,
    /// While a tick runs.
    merge: u64,
    /// Blocks that were merged.
    blocks: u64,
    /// Time passing: a tick that closes leaves a journal.
    advance: u64,
}

impl Path {
    fn new(traffic: &TrafficOptions, packets: usize) -> Self {
        let mut config = Config::default();
        config.pool.stats_history = HISTORY;
        config.pool.request_pool_size = 100_000;
        config.pool.timer_pool_size = 300_000;
        let hasher = Hasher::new();
        let history = Ticks::of(HISTORY);
        let pool = Pool::new(&config.pool, hasher.clone());
        let mut reports = Reports::new(&config.reports, history);
        let definitions = builtin::reports(&daemon::defaults(&config))
            .into_iter()
            .map(|definition| (definition, DefinedBy::BuiltIn))
            .collect();
        reports.define_at_start(definitions, &pool, 0);
        let plan = RingPlan::new(10_000, 8 << 20, 1);
        let (_, mut producers, consumer) = TempRing::new(plan, &[Default::default()]);
        let mut traffic = Traffic::new(traffic);
        Self {
            decoder: Decoder::new(TextLimits::default(), hasher),
            producer: producers.remove(0),
            consumer,
            live: Live::new(pool, reports, history),
            now_ms: 0,
            corpus: (0..packets).map(|_| traffic.packet()).collect(),
            next: 0,
        }
    }

    /// So many packets, a gathering period's worth at a time.
    fn run(&mut self, packets: usize) -> Counts {
        let mut counts = Counts::default();
        for _ in 0..packets / PACKETS_PER_MERGE {
            counts.decode += taken(|| {
                for _ in 0..PACKETS_PER_MERGE {
                    let packet = &self.corpus[self.next];
                    self.next = (self.next + 1) % self.corpus.len();
                    let decoded = self.decoder.decode(packet, 1_700_000_000, &mut self.producer);
                    assert_eq!(decoded, Ok(1));
                }
                self.producer.publish();
            });
            counts.advance += taken(|| self.live.advance(self.now_ms));
            counts.merge += taken(|| {
                while let Some(block) = self.consumer.pop() {
                    counts.blocks += 1;
                    self.live.merge(&block.bytes, self.now_ms);
                    self.consumer.give_back(block);
                }
            });
            self.now_ms += PERIOD_MS;
        }
        counts
    }
}

fn options() -> TrafficOptions {
    TrafficOptions { timers: 2, request_tags: 2, ..TrafficOptions::default() }
}

/// Every key comes back before it leaves the window: nothing at all is taken but by ticks that
/// close.
#[test]
fn a_hundred_thousand_packets_of_known_keys_take_no_memory() {
    let mut path = Path::new(&options(), 2_000);
    // Two windows and a half, so that everything has come, stayed and left.
    path.run(100_000);
    let held = HELD_BYTES.get();
    let counts = path.run(100_000);
    assert_eq!(counts.decode, 0, "{counts:?}");
    // A block of some hundred packets has one list of what is in it, and now and then an epoch has
    // a longer one.
    assert!(counts.merge <= counts.blocks * 3 / 2 && counts.blocks < 1_000, "{counts:?}");
    // Ten ticks closed, each with a journal.
    assert!(counts.advance < 200, "{counts:?}");
    let grown = HELD_BYTES.get() - held;
    assert!(grown < 64 * 1024, "{grown} bytes after {counts:?}");
    assert_eq!(path.live.pool.requests.len(), 40_000);
}

/// Keys that come and go: a new one may take memory, a packet does not, and what was taken is used
/// again.
#[test]
fn keys_that_come_and_go_do_not_grow_the_daemon() {
    let traffic = TrafficOptions { hosts: 200, scripts: 5_000, ..options() };
    let mut path = Path::new(&traffic, 60_000);
    path.run(60_000);
    let held = HELD_BYTES.get();
    let counts = path.run(60_000);
    assert_eq!(counts.decode, 0, "{counts:?}");
    assert!(counts.merge < counts.blocks + 600, "{counts:?}");
    let grown = HELD_BYTES.get() - held;
    assert!(grown < 1 << 20, "{grown} bytes after {counts:?}");
}

/// Rules of every form, over names that have never been seen.
#[test]
fn name_rules_take_no_memory_for_a_packet() {
    let rules = Config::from_toml(
        "rules.toml",
        "[[rewrite]]\nfield = 'script_name'\ncut = '?'\n\
         [[rewrite]]\nfield = 'script_name'\npattern = '/([a-z]+)/\\d+'\nreplace = '/$1/*'\n\
         [[rewrite]]\nfield = 'hostname'\ndigits = '*'\n\
         [[rewrite]]\nfield = 'server_name'\nprefix = 'www'\nreplace = 'web'\n\
         [[rewrite]]\nfield = '@server'\npattern = '\\d+$'\nreplace = '*'\n\
         [[rewrite]]\nfield = '+user'\ncut = 'r'\n",
    )
    .unwrap()
    .rewrites;
    let counters = Arc::new(RuleCounters::new(rules.len()));
    let hasher = Hasher::new();
    let of_receiver = NameRules::new(&rules, hasher.clone(), Arc::clone(&counters));
    let mut decoder = Decoder::with_rules(TextLimits::default(), hasher, of_receiver);
    let packets: Vec<_> = (0..4_000)
        .map(|number| {
            let script = format!("/größe/{number}/user/{number}/edit?{number}");
            let mut packet = model::Request::named(format!("a/{number}/b"), "www.a", script);
            packet.add_tag("user", format!("user-{number}"));
            for timer in 0..5 {
                packet.add_timer(1, 1.0, &[("server", format!("db-{}", number + timer))]);
            }
            packet.encode_to_vec()
        })
        .collect();
    let mut block = Vec::with_capacity(1 << 20);
    let mut decode = |packets: &[Vec<u8>]| {
        for packet in packets {
            block.clear();
            assert_eq!(decoder.decode(packet, 1_700_000_000, &mut block), Ok(1));
        }
        decoder.take_counts();
    };
    let (first, later) = packets.split_at(1_000);
    decode(first);
    assert_eq!(taken(|| decode(later)), 0);
    let matched: Vec<u64> = counters.counts().iter().map(|counts| counts.matched).collect();
    assert_eq!(matched, [4_000, 4_000, 4_000, 4_000, 20_000, 4_000]);
}

/// The counter counts: a vector that grows is seen.
#[test]
fn an_allocation_is_seen() {
    let mut kept = Vec::new();
    let before = HELD_BYTES.get();
    assert_eq!(taken(|| kept = Vec::<u8>::with_capacity(1000)), 1);
    assert_eq!(HELD_BYTES.get() - before, 1000);
    assert_eq!(taken(|| kept.push(1)), 0);
    assert_eq!(taken(|| kept.reserve_exact(2000)), 1);
    drop(kept);
    assert_eq!(HELD_BYTES.get(), before);
}
