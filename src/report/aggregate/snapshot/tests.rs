//! Restored data is not trusted.

use std::time::Duration;

use super::*;
use crate::config::PoolConfig;
use crate::input::record::Hasher;
use crate::pool::Pool;
use crate::report::budget::Budget;
use crate::report::histogram::BucketLayout;
use crate::report::tick_log::TickLogWriter;
use crate::report::window::Ticks;

fn pool() -> Pool {
    let config = PoolConfig {
        request_pool_size: 1,
        timer_pool_size: 1,
        stats_history: Duration::from_secs(60),
        words_memory: 1 << 20,
    };
    Pool::new(&config, Hasher::new())
}

/// An aggregate of one group in its fourth tick.
fn saved(extremes: bool) -> SavedAggregate {
    SavedAggregate {
        scope: Scope {
            level: crate::report::definition::Level::Request,
            ticks: Ticks { tick_ms: 1_000, count: 60 },
            buckets: BucketLayout::LogLinear,
            extremes,
            filters: Vec::new(),
            group_keys: Vec::new(),
        },
        tick: 3,
        flow: Flow::default(),
        overflow_groups: Vec::new(),
        reports: Vec::new(),
    }
}

/// A tick that still runs when its snapshot is restored, and when the next one is made: long
/// windows have ticks of hours.
#[test]
fn a_tick_that_came_back_is_saved_with_its_extremes_again() {
    let (mut budget, mut pool) = (Budget::new(1 << 20), pool());
    let mut restore =
        AggregateRestore::begin(saved(true), Vec::new(), 3_500, budget.limit).unwrap();
    let seen = Extremes { time_min: 10, time_max: 5_000, memory_peak_max: 7 };
    let before = Extremes { time_min: 1, ..seen };
    let extremes = vec![(2, before), (3, seen)];
    let group = SavedGroup { id: 0, key: Vec::new(), rows: Vec::new(), extremes };
    let memory = &mut Memory { pool: &mut pool, budget: &mut budget };
    let groups = SavedPart::Groups(SavedStrings::default(), vec![group]);
    restore.take(groups, memory).unwrap();
    let mut writer = TickLogWriter::default();
    writer.entry(0, &Totals { requests: 2, ..Totals::ZERO }, 0, std::iter::empty());
    let tick = writer.finish(TickHead::new(3));
    restore.restore_tick(tick.head, &tick.entries).unwrap();
    let (aggregate, _) = restore.finish(10, &mut pool.strings);
    let cut = aggregate.cut(0, &[]);
    let id = aggregate.groups.used().next().unwrap();
    let closed = aggregate.groups.closed.extremes(id);
    assert_eq!(cut.extremes(id, closed), [(2, before), (3, seen)]);
}

/// Found by fuzzing: such a group was removed with samples left in it, and the next expiring tick
/// subtracted them again.
#[test]
fn a_histogram_has_samples_of_requests_only() {
    let (mut budget, mut pool) = (Budget::new(1 << 20), pool());
    let mut restore =
        AggregateRestore::begin(saved(false), Vec::new(), 4_000, budget.limit).unwrap();
    let group = SavedGroup { id: 0, key: Vec::new(), rows: Vec::new(), extremes: Vec::new() };
    let memory = &mut Memory { pool: &mut pool, budget: &mut budget };
    let groups = SavedPart::Groups(SavedStrings::default(), vec![group]);
    restore.take(groups, memory).unwrap();
    let head = |tick: u64| TickHead {
        seen: Some((tick * 1_000, tick * 1_000 + 500)),
        ..TickHead::new(tick)
    };
    let tick = |requests, histogram: Vec<(u32, u64)>| {
        let totals = Totals { requests, ..Totals::ZERO };
        let mut writer = TickLogWriter::default();
        writer.entry(0, &totals, histogram.len(), histogram.into_iter());
        writer.finish(head(3))
    };
    let good = tick(2, vec![(7, 1), (10, 1)]);
    restore.restore_tick(good.head, &good.entries).unwrap();
    for (bad, why) in cases![
        tick(0, vec![(7, 1)]) => "no request";
        tick(1, vec![(7, 0)]) => "an empty bucket";
        tick(1, vec![(u32::MAX, 1)]) => "no such bucket";
        tick(1 << 40, Vec::new()) => "more than a tick can have";
        TickLog { head: head(4), ..tick(1, Vec::new()) } => "of the future";
        TickLog { head: head(2), ..tick(1, Vec::new()) } => "out of order";
        TickLog { head: TickHead { seen: Some((2_999, 3_500)), ..head(3) }, ..tick(1, Vec::new()) } =>
            "merged before its tick";
    ] {
        let TickLog { head, entries } = bad;
        assert!(restore.restore_tick(head, &entries).is_err(), "{why}");
    }
}
