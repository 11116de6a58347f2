//! Sums by thread and over all threads: both are derived from the same reading, so they agree.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::registry::{Instrument, Kind, registry};
use super::sums::{self, Totals, epochs};
use super::thread::{self, Thread};

/// Sums that TRUNCATE took, by instrument: those since the start of the daemon only grow.
static TAKEN: Mutex<BTreeMap<&str, Totals>> = Mutex::new(BTreeMap::new());

/// Resets the sums of a kind, for every thread and so for all together.
pub(crate) fn truncate(kind: Kind) {
    let mut taken = TAKEN.lock();
    for (instrument, totals) in Summary::read().global(kind) {
        taken.entry(instrument.name).or_default().add(&totals);
    }
    sums::next_epoch(kind);
}

/// Returns the sums since the start of the daemon, of each instrument that has counted.
pub(crate) fn since_start() -> Vec<(&'static Instrument, Totals)> {
    let taken = TAKEN.lock();
    let summary = Summary::read();
    let all = Kind::ALL.into_iter().flat_map(|kind| summary.global(kind));
    let all = all.map(|(instrument, mut totals)| {
        totals.add(&taken.get(instrument.name).copied().unwrap_or_default());
        (instrument, totals)
    });
    all.filter(|(_, totals)| totals.count > 0).collect()
}

/// Sums of all threads at one moment, as nearly as this is possible without stopping them.
#[derive(Debug)]
pub struct Summary {
    instruments: Vec<&'static Instrument>,
    /// Sums by thread, in the order of `instruments`.
    threads: Vec<(&'static Thread, Vec<Totals>)>,
}

impl Summary {
    /// Reads the present sums.
    pub(crate) fn read() -> Self {
        let instruments = registry().map(|it| it.all()).unwrap_or_default();
        let placed = |it: &'static Instrument| Some((it, it.class.kind()?, it.place()?));
        let placed: Vec<_> = instruments.into_iter().filter_map(placed).collect();
        let epochs = epochs();
        let threads = thread::all().map(|thread| {
            let sums = placed.iter();
            let sums = sums.map(|(_, kind, at)| thread.sums[*at].read(epochs[*kind as usize]));
            (thread, sums.collect())
        });
        Self {
            threads: threads.collect(),
            instruments: placed.into_iter().map(|(it, ..)| it).collect(),
        }
    }

    /// Returns the sums of each instrument of a kind, over all threads.
    pub(crate) fn global(&self, kind: Kind) -> impl Iterator<Item = (&'static Instrument, Totals)> {
        let instruments = self.instruments.iter().enumerate();
        let of_kind = instruments.filter(move |(_, it)| it.class.kind() == Some(kind));
        of_kind.map(|(at, instrument)| {
            let mut totals = Totals::default();
            self.threads.iter().for_each(|(_, sums)| totals.add(&sums[at]));
            (*instrument, totals)
        })
    }

    /// Returns the sums of each instrument of a kind, by thread.
    pub(crate) fn by_thread(
        &self,
        kind: Kind,
    ) -> impl Iterator<Item = (&'static Thread, &'static Instrument, Totals)> {
        self.threads.iter().flat_map(move |(thread, sums)| {
            let all = self.instruments.iter().zip(sums);
            let of_kind = all.filter(move |(it, _)| it.class.kind() == Some(kind));
            of_kind.map(move |(instrument, totals)| (*thread, *instrument, *totals))
        })
    }
}
