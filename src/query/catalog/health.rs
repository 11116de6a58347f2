//! Troubles of the daemon itself: the lines that every page and `/readyz` show.

use super::Catalog;
use crate::clickhouse::ShipStatus;
use crate::clock::why_clock_behind;
use crate::history::History;
use crate::input::squid::Source;
use crate::query::answer::ReportAnswer;
use crate::value::text::{count, counted, roughly};

/// Seconds after which statements that were ended should no longer run.
const OVERDUE_SECS: u64 = 10;

impl Catalog {
    /// The reasons why the daemon is not ready: sockets not bound, merger dead or behind. Empty if
    /// ready.
    pub fn unready(&self) -> Vec<String> {
        let silent_ms = self.clock.mono_ms().saturating_sub(self.pulse.last_ms());
        let silent = format!("the merger has not run for {} s", silent_ms / 1000);
        let silent = (!self.merger_runs()).then_some(silent);
        silent.into_iter().chain(self.status.behind()).collect()
    }

    /// Returns the lines about the daemon itself: what does not work, and what was lost lately.
    pub fn troubles(&self) -> Vec<String> {
        let lost = self.status.lost_lately(self.clock.mono_ms());
        let lost = lost.map(|(lost, within_ms)| {
            let within = roughly((within_ms as f64 / 1e3).max(1.0));
            let lost = count(lost);
            format!("{lost} packets or requests lost in the last {within}")
        });
        let mut troubles = self.unready();
        troubles.extend(self.warnings());
        troubles.extend(lost);
        troubles
    }

    /// What does not work even though the daemon is ready, with the reason for each.
    pub fn warnings(&self) -> Vec<String> {
        let history = self.status.history.as_ref();
        let lacking = history.and_then(History::why_lacking);
        let failing = self.status.shipping.as_deref().and_then(ShipStatus::why_failing);
        let pushing = self.status.pushing.lock().clone().into_iter().flatten();
        self.cannot_keep()
            .into_iter()
            .chain(lacking)
            .chain(self.why_lacking())
            .chain(failing)
            .chain(pushing.map(|why| format!("not everything is pushed over OTLP: {why}")))
            .chain(self.why_sql_blocked(self.clock.mono_ms()))
            .chain(self.status.not_reloaded.lock().clone())
            .chain(why_clock_behind(&*self.clock, self.status.stored_until))
            .collect()
    }

    /// Why SQL is not answered at this monotonic time, or more slowly: statements that run on
    /// although they were ended.
    pub(crate) fn why_sql_blocked(&self, now_ms: u64) -> Option<String> {
        let mut overdue = self.status.overdue_statements.lock();
        overdue.retain(|(_, task)| !task.is_finished());
        let secs = now_ms.saturating_sub(overdue.first()?.0) / 1_000;
        (secs >= OVERDUE_SECS).then(|| {
            let statements = counted(overdue.len() as u64, "statement");
            let since = roughly(secs as f64);
            format!(
                "SQL may not be answered: {statements} ended up to {since} ago and still run, as nothing can interrupt what they do"
            )
        })
    }

    /// Whole seconds since the start.
    pub(crate) fn up_secs(&self) -> u64 {
        self.clock.mono_ms().saturating_sub(self.started_ms) / 1_000
    }

    /// Seconds that an answer covers: a live one without data has waited for it since the start.
    pub(crate) fn covered_secs(&self, answer: &ReportAnswer) -> u64 {
        match (answer.covered_seconds, &answer.of_span) {
            (0, None) => self.up_secs().min(answer.window_seconds as u64).max(1),
            (covered, _) => covered,
        }
    }

    /// A remark on requests that live rows inside a window of so many seconds may have more than
    /// once: those of a snapshot that were not in history.
    pub(crate) fn counted_again(&self, window_secs: f64) -> Option<String> {
        let again = |source: &Source| match source.sums.lock().counted_again {
            0 => None,
            requests => Some(format!("{} of {}", counted(requests, "request"), source.config.from)),
        };
        let again = self.squids().filter_map(again).collect::<Vec<_>>().join(", ");
        (!again.is_empty() && (self.up_secs() as f64) < window_secs).then(|| {
            format!(
                "{again} may be counted more than once: when the daemon stopped they were not in history, so they were read again"
            )
        })
    }

    /// Parts that cannot keep what they should, each with its reason.
    pub fn cannot_keep(&self) -> Vec<String> {
        let snapshots = self.status.snapshots.as_ref();
        let failing = snapshots.and_then(|snapshots| snapshots.why_failing());
        let failing = failing.map(|why| format!("no snapshot can be written: {why}"));
        let history = self.status.history.as_ref().and_then(History::why_failing);
        let kept = self.status.nothing_kept.clone();
        history.into_iter().chain(failing).chain(kept).collect()
    }
}
