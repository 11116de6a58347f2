//! A report read piece by piece while requests are merged has the same sums as one read at once.

use std::cell::Cell;
use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::super::test_harness;
use super::super::*;
use super::memory::empty_live;
use crate::input::pinba::{Decoder, model};
use crate::input::record::{Hasher, TextLimits};
use crate::report::Entry;
use crate::report::definition::Kind;
use crate::report::read::reading::{Reading, Want};
use crate::report::read::selection::RowSelection;
use crate::report::read::{ReadLock, read_into, read_together};
use crate::report::totals::Totals;

pub(super) const ALL: Want = Want { keys: true, quantiles: true, histograms: true };

pub(super) type Rows = BTreeMap<String, (Totals, Vec<Option<f64>>, Vec<(u32, u64)>)>;

pub(super) fn rows(entry: &Entry, reading: &Reading) -> Rows {
    let key = |row, key| format!("{} ", reading.key(row, key).unwrap_or("(other)"));
    let row = |row: usize| {
        let keys = (0..entry.definition.keys.len()).map(|at| key(row, at));
        let quantiles = (0..entry.definition.ranks().len()).map(|at| reading.quantile(row, at));
        let histogram = reading.histograms[row].clone();
        (keys.collect(), (reading.totals[row], quantiles.collect(), histogram))
    };
    (0..reading.len()).map(row).collect()
}

fn merge(live: &mut Live, decoder: &mut Decoder, random: &mut StdRng, now_ms: u64) {
    let mut records = Vec::new();
    for _ in 0..random.random_range(0..20) {
        let host = format!("h{}", random.random_range(0..8));
        let script = format!("/s{}", random.random_range(0..40));
        let mut sent = model::Request::named(host, "s", script);
        sent.request_time = Some(random.random_range(0..1_000) as f32 / 100.0);
        sent.status = Some(200 + random.random_range(0..2) * 300);
        sent.add_tag("env", format!("e{}", random.random_range(0..5)));
        for _ in 0..random.random_range(0..4) {
            let group = format!("g{}", random.random_range(0..3));
            sent.add_timer(random.random_range(1..3), 0.5, &[("group", &*group)]);
        }
        test_harness::decode(decoder, &sent, &mut records);
    }
    live.merge(&records, now_ms);
}

/// A reader that is interrupted all the time: requests are merged then, and sometimes a tick ends.
struct Interrupted {
    live: Live,
    decoder: Decoder,
    random: StdRng,
    now_ms: u64,
    merges: bool,
    pieces: u64,
    was_over: Cell<bool>,
    entry: Entry,
    /// The report as it is read at once, at each moment since it began to be read in pieces.
    at_once: Vec<Reading>,
}

impl Interrupted {
    fn new() -> (Self, Vec<Entry>) {
        let hasher = Hasher::new();
        let live = empty_live(&hasher);
        let entries: Vec<Entry> = live.reports.iter().cloned().collect();
        let held = Self {
            live,
            decoder: Decoder::new(TextLimits::default(), hasher),
            random: StdRng::seed_from_u64(3),
            now_ms: 0,
            merges: true,
            pieces: 0,
            was_over: Cell::new(false),
            entry: entries[0].clone(),
            at_once: Vec::new(),
        };
        (held, entries)
    }

    fn read_at_once(&mut self) {
        let Live { reports, pool, .. } = &self.live;
        self.at_once.push(reports.read(&self.entry, ALL, pool, 0));
    }
}

impl ReadLock for Interrupted {
    fn live(&self) -> (&Reports, &StringInterner) {
        (&self.live.reports, &self.live.pool.strings)
    }

    fn is_over(&self) -> bool {
        self.was_over.replace(!self.was_over.get())
    }

    fn unlocked(&mut self, work: impl FnOnce()) {
        self.pieces += 1;
        work();
        if self.merges {
            merge(&mut self.live, &mut self.decoder, &mut self.random, self.now_ms);
            if self.random.random_range(0..100) == 0 {
                self.now_ms += 3_000;
                self.live.advance(self.now_ms);
            }
            self.read_at_once();
        }
    }
}

#[test]
fn pieces_are_of_one_moment() {
    let (mut held, entries) = Interrupted::new();
    for round in 0..100 {
        let entry = entries[round % entries.len()].clone();
        let name = &entry.definition.name;
        held.entry = entry.clone();
        held.now_ms += held.random.random_range(0..500);
        held.live.advance(held.now_ms);
        for _ in 0..5 {
            merge(&mut held.live, &mut held.decoder, &mut held.random, held.now_ms);
        }
        held.at_once.clear();
        held.read_at_once();
        // While nothing is merged, everything is equal.
        held.merges = false;
        let read = |held: &mut Interrupted, selection| {
            read_into(Reading::default(), held, &entry, ALL, selection, 0).unwrap()
        };
        let whole = read(&mut held, None);
        assert_eq!(whole.version, Some(held.live.reports.version(&entry)));
        let now = rows(&entry, &held.at_once[0]);
        assert_eq!(rows(&entry, &whole.reading), now, "{name}");
        held.merges = true;
        let layout = &entry.definition.layout;
        let sum = (0..layout.columns().len()).find(|at| layout.want([*at]) == Want::default());
        let selection = RowSelection {
            order: vec![(sum.unwrap(), true)],
            offset: 1,
            limit: 7,
            ..RowSelection::default()
        };
        let some = read(&mut held, Some(&selection));
        let selected = some.selected.unwrap();
        let sums = |reading: &Reading| {
            let totals = reading.totals.iter().zip(0..);
            let sums =
                totals.map(|(totals, at)| format!("{totals:?} {:?}", reading.extremes.get(at)));
            let mut sums: Vec<String> = sums.collect();
            sums.sort();
            (sums, reading.grand, reading.covered_secs)
        };
        let from = sums(&selected.from);
        let moment = held.at_once.iter().find(|moment| sums(moment) == from);
        let all = rows(&entry, moment.unwrap_or_else(|| panic!("{name}: of no one moment")));
        assert_eq!(selected.total, all.len(), "{name}");
        let some = rows(&entry, &some.reading);
        assert_eq!(some.len(), (all.len() - 1).min(7), "{name}");
        for (key, (totals, _, histogram)) in some {
            let (sums, _, before) = &all[&key];
            assert_eq!(&totals, sums, "{name}: {key}");
            let count = |pairs: &[(u32, u64)]| pairs.iter().map(|it| it.1).sum::<u64>();
            assert!(count(&histogram) >= count(before), "{name}: {key}");
        }
    }
    assert!(held.pieces > 1_000, "{}", held.pieces);
}

#[test]
fn reports_that_are_read_together_are_of_one_moment() {
    let (mut held, mut entries) = Interrupted::new();
    entries.retain(|it| it.definition.kind == Kind::Base);
    let asked: Vec<(&Entry, Want)> = entries.iter().map(|entry| (entry, ALL)).collect();
    assert!(asked.len() > 5);
    for _ in 0..30 {
        let read = read_together(&mut held, &asked, 0).unwrap();
        let of_each: Vec<Totals> = read.iter().map(|reading| reading.grand).collect();
        assert!(of_each.iter().all(|it| *it == of_each[0]), "{of_each:?}");
        held.at_once.clear();
    }
    assert!(held.pieces > 1_000, "{}", held.pieces);
}
