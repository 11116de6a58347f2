//! The rows of a report in a second: sums over groups of one row.
//!
//! Rows come in order of their numbers, so that they are summed one after the other and none is
//! stored. Most rows have one group, whose gain is passed on as encoded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Second;
use crate::input::squid::sums::Moves;
use crate::report::encoded_gain::{EncodedGain, PairSums, Pairs, encode};
use crate::report::totals::{Extremes, Totals};
use crate::report::{KnownGroups, SecondLog, SecondPart, Watched};

/// Records prefetched at once: in row order they are scattered, and memory takes as long for one as
/// for all of them.
const AHEAD: usize = 16;

/// The gain of a row.
#[derive(Debug)]
pub struct RowDelta<'a> {
    /// Its id; [`OTHER_ID`](crate::report::OTHER_ID) for the overflow row.
    pub id: u64,
    /// Its key.
    pub key: RowKey<'a>,
    /// Its gain, sums and histogram.
    pub encoded: EncodedGain<'a>,
    /// The sums.
    pub totals: Totals,
    /// Its histogram; `None` if it has none.
    pub times: Option<Pairs<'a>>,
    /// [`Extremes::NOTHING`] if the report keeps none.
    pub extremes: Extremes,
}

/// Bytes that most keys fit in.
const KEY_BYTES: usize = 64;

/// The key of a row.
#[derive(Debug, Clone, Copy)]
pub enum RowKey<'a> {
    /// The key itself.
    Bytes(&'a [u8]),
    /// The row of a group in a report.
    OfGroup(&'a Watched, &'a KnownGroups, u32),
}

impl<'a> RowKey<'a> {
    /// Its texts: see [`key_texts`](crate::report::row_key::key_texts). Most readers need them once
    /// per row.
    pub fn bytes(&self) -> Cow<'a, [u8]> {
        match *self {
            Self::Bytes(key) => key.into(),
            Self::OfGroup(report, groups, group) => {
                let mut key = Vec::with_capacity(KEY_BYTES);
                report.keys.row_of(groups, group, &mut key);
                key.into()
            }
        }
    }
}

/// Receives the rows of a second, report by report.
pub trait RowReader {
    /// Starts the rows of a report.
    fn begin(&mut self, report: &Watched);
    /// Receives one row.
    fn row(&mut self, row: &RowDelta<'_>);
    /// Ends the rows of the report.
    fn end(&mut self) {}
}

impl Second {
    /// Passes every row to all readers: each is assembled once.
    pub fn read(&self, readers: &mut [&mut dyn RowReader]) {
        for report in self.reports() {
            readers.iter_mut().for_each(|it| it.begin(report));
            self.rows(report, |row| {
                readers.iter_mut().for_each(|it| it.row(row));
            });
            readers.iter_mut().for_each(|it| it.end());
        }
    }

    /// The reports watched in it, each once.
    pub fn reports(&self) -> impl Iterator<Item = &Arc<Watched>> {
        let all = self.parts.iter().flat_map(|it| it.reports.iter());
        let by_number: BTreeMap<u64, &Arc<Watched>> = all.map(|it| (it.number, it)).collect();
        by_number.into_values()
    }

    /// The logs of the groups that a report may count.
    pub(super) fn logs(&self, report: &Watched) -> Vec<&SecondLog> {
        self.parts.iter().filter_map(|it| it.of(report)).collect()
    }

    /// Records of such groups that found no room.
    pub fn folded(&self, report: &Watched) -> u64 {
        self.logs(report).iter().map(|it| it.overflowed).sum()
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        let own = size_of::<Self>() - size_of::<Moves>() + self.moves.bytes();
        own + self.parts.iter().map(SecondPart::bytes).sum::<usize>()
    }

    /// Passes every row of a report with a gain to `each`, always in the same order.
    pub fn rows(&self, report: &Watched, mut each: impl FnMut(&RowDelta<'_>)) {
        let logs = self.logs(report);
        let Some((groups, rows)) = self.groups.of(report, &logs) else { return };
        let place = |record: u32| {
            let mut at = record as usize;
            let mut logs = logs.iter().skip_while(|log| {
                let is_behind = log.groups().len() <= at;
                at -= if is_behind { log.groups().len() } else { 0 };
                is_behind
            });
            let log = logs.next().expect("a record is of one of the logs");
            (log, at)
        };
        let (records, mut ahead) = (rows.records(), 0);
        let mut record = |at: usize| {
            if at >= ahead {
                let coming = records[at..].iter().take(AHEAD).map(|&it| place(it));
                coming.for_each(|(log, at)| log.touch(at));
                ahead = at + AHEAD;
            }
            let (log, at) = place(records[at]);
            log.record(at)
        };
        let (mut sums, mut encoded) = (PairSums::default(), Vec::new());
        for (id, places) in rows.rows() {
            let (log, at) = place(records[places.start]);
            let group = log.groups()[at];
            let (mut extremes, mut gain) = record(places.start);
            if places.len() > 1 {
                let (mut all, mut has_times) = (Totals::ZERO, true);
                for (more, gain) in places.map(&mut record) {
                    extremes.widen(&more);
                    let (totals, times) = gain.read();
                    all += &totals;
                    has_times &= times.is_some();
                    times.into_iter().for_each(|times| sums.add(times));
                }
                encoded.clear();
                encode(&mut encoded, &all, has_times.then(|| sums.drain()));
                if !has_times {
                    sums = PairSums::default();
                }
                gain = EncodedGain(&encoded);
            }
            if !report.definition.extremes {
                extremes = Extremes::NOTHING;
            }
            let (totals, times) = gain.read();
            each(&RowDelta {
                id,
                key: RowKey::OfGroup(report, groups, group),
                encoded: gain,
                totals,
                times,
                extremes,
            });
        }
    }
}
