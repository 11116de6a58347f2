//! Sums by thread and over all threads: both are derived from the same reading, so they agree.

use super::registry::{Instrument, Kind, registry};
use super::sums::{Totals, epochs};
use super::thread::{self, Thread};

/// Sums of all threads at one moment, as nearly as this is possible without stopping them.
#[derive(Debug)]
pub struct Summary {
    instruments: Vec<(&'static Instrument, usize)>,
    /// Sums by thread, in the order of `instruments`.
    threads: Vec<(&'static Thread, Vec<Totals>)>,
}

impl Summary {
    /// Reads the present sums.
    #[must_use]
    pub fn read() -> Self {
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
            instruments: placed.into_iter().map(|(it, _, at)| (it, at)).collect(),
        }
    }

    /// Returns the sums of each instrument of a kind, over all threads.
    pub fn global(&self, kind: Kind) -> impl Iterator<Item = (&'static Instrument, Totals)> {
        let instruments = self.instruments.iter().enumerate();
        let of_kind = instruments.filter(move |(_, (it, _))| it.class.kind() == Some(kind));
        of_kind.map(|(at, (instrument, _))| {
            let mut totals = Totals::default();
            let threads = self.threads.iter();
            threads.for_each(|(_, sums)| totals.add(&sums[at]));
            (*instrument, totals)
        })
    }

    /// Returns the sums of each instrument of a kind, by thread.
    pub fn by_thread(
        &self,
        kind: Kind,
    ) -> impl Iterator<Item = (&'static Thread, &'static Instrument, Totals)> {
        self.threads.iter().flat_map(move |(thread, sums)| {
            let all = self.instruments.iter().zip(sums);
            let of_kind = all.filter(move |((it, _), _)| it.class.kind() == Some(kind));
            of_kind.map(move |((instrument, _), totals)| (*thread, *instrument, *totals))
        })
    }
}
