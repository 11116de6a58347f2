//! Adds the seconds of the stream to the last hour. Runs on the series thread, the only writer.

use std::sync::Arc;

use parking_lot::RwLockWriteGuard;

use super::last_hour::{COARSE_SECS, FINE_SECS, HOUR_SECS, Report, Slot};
use super::{Shared, State, WRITE};
use crate::delta::{RowDelta, RowReader, Second};
use crate::report::encoded_gain::{EncodedGain, Sum};
use crate::report::totals::Totals;
use crate::report::{TOTAL_ID, Watched};

/// Adds seconds to the last hour.
#[derive(Debug)]
pub struct Fold {
    shared: Arc<Shared>,
    /// The next second, in the numbering of points, which continues even if the wall clock is set:
    /// a minute ago is still a minute ago.
    next: u64,
    packed: Vec<u8>,
}

impl Fold {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            // Leaves room for the hour before.
            next: 2 * HOUR_SECS,
            packed: Vec::new(),
        }
    }

    /// Adds a second with its rows from `read`. `missed`: requests of earlier seconds that were
    /// dropped unread.
    pub fn take_rows(
        &mut self,
        second: &Second,
        missed: u64,
        read: impl FnOnce(&mut dyn RowReader),
    ) {
        let number = self.next;
        self.next += second.secs;
        let watched = self.shared.watched.now();
        let mut state = WRITE.write(&self.shared.state);
        state.missed += missed;
        state.counted += second.requests;
        let hour = &mut state.last_hour;
        hour.base = second.unix_secs.saturating_sub(number);
        hour.folded = 0;
        for report in second.reports() {
            let new = Report { since: number, ..Report::default() };
            hour.reports.entry(report.number).or_insert(new);
        }
        let is_watched = |report| watched.iter().any(|it| it.number == report);
        hour.retain(is_watched);
        let mut adding = Adding {
            state,
            second: number,
            report: 0,
            has_keys: false,
            all: Sum::default(),
            packed: &mut self.packed,
        };
        read(&mut adding);
        let hour = &mut adding.state.last_hour;
        // After a long stop, not every second needs a point.
        let quiet = (number + 1).max(self.next.saturating_sub(FINE_SECS))..self.next;
        for second in std::iter::once(number).chain(quiet) {
            let missed = if second == number { missed } else { 0 };
            hour.slots.push_back(Slot { second, secs: 1, missed });
        }
        let ten = |second| (hour.base + second) / COARSE_SECS;
        if ten(self.next) != ten(number) {
            hour.age();
        }
    }
}

/// Adds the gains of rows, and their total per report.
struct Adding<'a> {
    state: RwLockWriteGuard<'a, State>,
    second: u64,
    /// Number of the current report.
    report: u64,
    /// The only row of a report without keys is its total.
    has_keys: bool,
    all: Sum,
    packed: &'a mut Vec<u8>,
}

impl Adding<'_> {
    fn add(&mut self, row: u64, weight: f64, gained: EncodedGain<'_>) {
        let (hour, row) = (&mut self.state.last_hour, (self.report, row));
        hour.add(self.second, row, weight, gained);
    }
}

impl RowReader for Adding<'_> {
    fn begin(&mut self, report: &Watched) {
        self.report = report.number;
        self.has_keys = !report.key_names.is_empty();
    }

    fn row(&mut self, row: &RowDelta<'_>) {
        self.all.add_read(&row.totals, row.times.clone());
        if self.has_keys {
            // Its time, plus a little per request, so that requests without time count too.
            let weight = row.totals.time as f64 + row.totals.requests as f64;
            self.add(row.id, weight, row.encoded);
        }
    }

    fn end(&mut self) {
        let all = std::mem::take(&mut self.all);
        if all.totals != Totals::ZERO {
            let mut packed = std::mem::take(self.packed);
            all.encode(&mut packed, true);
            self.add(TOTAL_ID, f64::INFINITY, EncodedGain(&packed));
            *self.packed = packed;
        }
        // Readers need not wait until all reports are added: the rows belong to a second that they
        // do not see yet.
        RwLockWriteGuard::bump(&mut self.state);
    }
}
