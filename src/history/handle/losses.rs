//! What history lost because it could not be written at a stop, or by a kill; and the remarks on it
//! in answers.

use std::ops::Range;

use super::{Earlier, History, MEMORY};
use crate::clock::rfc3339;
use crate::history::requests::RequestsSnapshot;
use crate::history::{Dataset, Resolution, UnflushedRows};
use crate::series::EVERYTHING;
use crate::state::last_end::LostAtStop;
use crate::value::text::{count, counted};

impl History {
    /// Records that raw requests, and rows of reports if there are any, are lost with the end of
    /// the process.
    pub(in crate::history) fn lose_at_stop(&self, rows: bool, requests: u64) {
        let memory = MEMORY.lock(&self.0.memory);
        let first = memory.rows(false).flat_map(UnflushedRows::times).min();
        let now = self.0.clock.unix_ms() / 1_000;
        let mut status = self.0.status.lock();
        let since = self.0.clock.mono_ms().saturating_sub(status.flushed_ms) / 1_000;
        let start = first.unwrap_or(now.saturating_sub(since));
        let (end, store) = (now.max(start + 1), status.store);
        status.lost_at_stop = Some(LostAtStop { start, end, rows, requests, store, killed: false });
    }

    /// The raw requests that the kill of the previous process lost, if they are kept and it can
    /// have lost any; before its rows in the log of seconds are written. These tell until when it
    /// counted, and how many requests came after the last flush.
    pub(crate) fn lost_by_kill(&self) -> Option<LostAtStop> {
        self.0.requests.get()?;
        let Earlier { store, parts, unflushed, .. } = self.earlier()?;
        let written = RequestsSnapshot::new(&parts, None).received().map(|it| it.end);
        let rows = unflushed.unwrap_or_default();
        let start = written.max(rows.times().min())?;
        let now = (self.0.clock.unix_ms() / 1_000).max(start + 1);
        let last = rows.times().max().map(|last| last + Resolution::Minute.secs());
        let end = last.map_or(now, |last| now.min(last.max(start + 1)));
        let mut requests = 0;
        for dataset in rows.datasets().filter(|it| *it.report == *EVERYTHING) {
            rows.rows(dataset, 0..u64::MAX, |row| requests += row.gain.sum.totals.requests);
        }
        let has_log = self.0.log.get().is_some_and(|(bytes_max, _)| *bytes_max > 0);
        (requests > 0 || !has_log).then_some(LostAtStop {
            start,
            end,
            rows: false,
            requests,
            store,
            killed: true,
        })
    }

    /// The rows and raw requests of history that the stop could not write, if any.
    pub(crate) fn lost_at_stop(&self) -> Option<LostAtStop> {
        self.0.status.lock().lost_at_stop
    }

    /// Remembers what earlier stops lost.
    pub(crate) fn keep_lost_at_stops(&self, lost: &[LostAtStop]) {
        self.0.status.lock().lost_at_stops = lost.to_vec();
    }

    /// Remarks on what earlier stops lost in a span, of a dataset.
    pub(crate) fn lost_at_stops(&self, dataset: &Dataset, span: &Range<u64>) -> Vec<String> {
        let but = match self.follows_files() {
            true => ", apart from lines of followed files, which are read again",
            false => "",
        };
        let status = self.0.status.lock();
        let is_here = |it: &&LostAtStop| it.store == 0 || it.store == status.store;
        let is_within = |it: &&LostAtStop| it.start < span.end && span.start < it.end;
        let lost = status.lost_at_stops.iter().filter(is_here).filter(is_within);
        let remark = |it: &LostAtStop| {
            let (start, end) = (rfc3339(it.start), rfc3339(it.end));
            if it.killed {
                // Rows of the log have the lines that were read before the kill.
                let but = match it.requests {
                    0 => but.to_owned(),
                    most => format!(", {} at most", count(most)),
                };
                let said = || format!("lost by a kill: raw requests from {start} to {end}{but}");
                return dataset.is_raw().then(said);
            }
            let what = match dataset.is_raw() {
                true if it.requests > 0 => counted(it.requests, "request"),
                false if it.rows => "what was counted".to_owned(),
                _ => return None,
            };
            Some(format!(
                "lost at a stop that could not write history: {what} from {start} to {end}{but}"
            ))
        };
        lost.filter_map(remark).collect()
    }
}
