//! Replays alert rules over the past: when each would have fired, minute by minute of history.
//!
//! Runs the daemon's own engine on minutes instead of seconds. Called on a front end's thread;
//! bounded by the memory of its windows and by a time limit.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ahash::RandomState;
use serde_json::{Map, Value as Json, json};

use super::Catalog;
use crate::alert::engine::Engine;
use crate::alert::objective::{BURNS, Count, Objective};
use crate::alert::refill::{Counts, Past};
use crate::alert::rule::Rule;
use crate::alert::state::{Event, Phase, RowKey};
use crate::alert::windows::{Gain, ReportGain, RowGain};
use crate::clock::rfc3339;
use crate::history::Resolution;
use crate::history::sums::Sums;
use crate::limits::{ALERT_REPLAY_BYTES_MAX, ALERT_REPLAY_MS_MAX};
use crate::query::error::QueryError;
use crate::report::encoded_gain::Sum;
use crate::report::histogram::Histogram;
use crate::value::text::lasting;

/// Length of the steps of history that are played, seconds.
const MINUTE: u64 = 60;

impl Catalog {
    /// When these rules would have fired in a span of unix seconds, and for how long; and what
    /// could not be evaluated. It stops once nobody waits for it: `is_left`.
    ///
    /// # Errors
    /// Fails if no past of their reports is kept.
    pub fn replay_alerts(
        &self,
        rules: &[Arc<Rule>],
        span: &Range<u64>,
        is_left: impl Fn() -> bool,
    ) -> Result<Json, QueryError> {
        let unfit = |rule: &Arc<Rule>| {
            let entry = &rule.entry;
            let keys = [("window", entry.window), ("for", entry.hold), ("keep", entry.keep)];
            keys.into_iter().find(|(_, secs)| !secs.is_multiple_of(MINUTE)).map(|it| it.0)
        };
        let (whole, others): (Vec<_>, Vec<_>) =
            rules.iter().cloned().partition(|it| unfit(it).is_none());
        let why = |key| format!("history has minutes, and its {key} is no whole number of them");
        let others = others.iter().filter_map(|it| Some((it, unfit(it)?)));
        let others = others.map(|(it, key)| format!("{}: {}", it.entry.name, why(key)));
        let mut partial: Vec<String> = others.collect();
        let mut reports: Vec<&str> = whole.iter().map(|it| it.entry.report.as_str()).collect();
        reports.sort_unstable();
        reports.dedup();
        let mut kept = Vec::new();
        for (at, report) in reports.iter().enumerate() {
            match self.kept(report) {
                Ok(it) => kept.push((*report, it.rows())),
                // The others are played: rules without gain are not judged.
                Err(QueryError::NoHistory(why)) if !kept.is_empty() || at + 1 < reports.len() => {
                    partial.push(why);
                }
                Err(error) => return Err(error),
            }
        }
        let mut engine = Engine::new(&whole, ALERT_REPLAY_BYTES_MAX, MINUTE);
        let mut found = Found::default();
        let give_up = self.clock.mono_ms() + ALERT_REPLAY_MS_MAX;
        let mut timed_out = None;
        // Before that there is nothing to play.
        let begins = kept.iter().filter_map(|(_, rows)| rows.covered_from());
        let start = begins.min().unwrap_or(span.end).max(span.start);
        let minutes = start - start % MINUTE..span.end - span.end % MINUTE;
        partial.extend(whole.iter().filter_map(|it| began_empty(it, &minutes)));
        for minute in minutes.step_by(MINUTE as usize) {
            if is_left() {
                break;
            }
            if self.clock.mono_ms() > give_up {
                let (minute, end) = (rfc3339(minute), rfc3339(span.end));
                let late = format!("timed out: nothing from {minute} to {end} was evaluated");
                timed_out = Some(late);
                break;
            }
            let mut gain = Gain { unix: minute, secs: MINUTE, ..Gain::default() };
            for (report, rows) in &kept {
                let plan = rows.plan(minute..minute + MINUTE);
                if plan.resolution != Resolution::Minute || plan.span != (minute..minute + MINUTE) {
                    continue;
                }
                let covered = rows.covered(&plan.span).own.secs;
                // Reports are counted together.
                gain.covered_secs = gain.covered_secs.max(covered.min(MINUTE));
                if covered > 0 {
                    let sums = rows.sums(&plan);
                    gain.reports.push(gained(report, &sums, &whole, &mut partial));
                    let objectives = Objective::each(&whole).into_iter();
                    for objective in objectives.filter(|it| it.entry.report == *report) {
                        let mut count = counted(objective, &sums);
                        count.covered_secs = covered.min(MINUTE);
                        gain.counts.push((Arc::clone(objective), count));
                    }
                }
            }
            engine.take(&gain, &mut |rule, event| found.add(rule, event));
        }
        partial.sort();
        partial.dedup();
        let partial: Vec<String> = timed_out.into_iter().chain(partial).collect();
        let is_played = |rule: &&Arc<Rule>| kept.iter().any(|it| it.0 == rule.entry.report);
        let played = whole.iter().filter(is_played).count();
        Ok(json!({"rows": found.rows(), "partial": partial, "played": played}))
    }
}

/// A remark on a rule with a window that the span does not fill.
fn began_empty(rule: &Rule, minutes: &Range<u64>) -> Option<String> {
    let entry = &rule.entry;
    let burns =
        BURNS.iter().filter(|it| rule.objective().is_some() && it.severity == entry.severity);
    let longest = burns.map(|it| it.long).fold(entry.window, u64::max);
    let is_longer = longest > minutes.end.saturating_sub(minutes.start);
    is_longer.then(|| {
        let (name, window, start) = (&entry.name, lasting(longest), rfc3339(minutes.start));
        format!("{name}: its window of {window} begins empty at {start}: live it may have fired where it does not here")
    })
}

impl Past for Catalog {
    fn of(&self, objective: &Arc<Objective>) -> Option<Option<Counts>> {
        // What it has is known once it is on.
        if self.status.history.as_ref().is_some_and(|it| it.why_off().is_some()) {
            return None;
        }
        let Ok(kept) = self.kept(&objective.entry.report) else { return Some(None) };
        let (rows, objective) = (kept.rows(), Arc::clone(objective));
        Some(Some(Box::new(move |span| {
            let plan = rows.plan(span.clone());
            let covered = rows.covered(&plan.span).own.secs;
            let mut count = Count::default();
            if plan.span.start == span.start && covered > 0 {
                count = counted(&objective, &rows.sums(&plan));
                count.covered_secs = covered.min(plan.span.end - plan.span.start);
            }
            (count, plan.span.end)
        })))
    }
}

/// The counts of an objective in some rows.
fn counted(objective: &Objective, sums: &Sums) -> Count {
    let rows = sums.rows.all.iter().enumerate();
    let concerned = rows.filter(|(_, (key, row))| objective.concerns(key, row.is_other));
    let places: Vec<usize> = concerned.map(|it| it.0).collect();
    let mut count = Count::default();
    // Rows whose histograms cannot be read are not counted.
    let _unread = sums.histograms(&places, &mut |place, histogram| {
        let row = &sums.rows.all[place];
        count += &objective.count(&row.totals, histogram.map(Histogram::iter), row.is_other);
    });
    count
}

/// The gain of a report in a minute.
fn gained(report: &str, sums: &Sums, rules: &[Arc<Rule>], partial: &mut Vec<String>) -> ReportGain {
    let mut gain = ReportGain::nothing(report);
    // The same in each minute.
    let ids = RandomState::with_seeds(1, 2, 3, 4);
    let mut places = Vec::new();
    for (place, (key, row)) in sums.rows.all.iter().enumerate() {
        gain.grand += &row.totals;
        gain.has_other |= row.is_other;
        let concerns = |rule: &Arc<Rule>| {
            let is_own = rule.entry.report == report && rule.objective().is_none();
            is_own && rule.concerns(key)
        };
        if !row.is_other && rules.iter().any(concerns) {
            places.push(place);
        }
    }
    let read = sums.histograms(&places, &mut |place, histogram| {
        let Some((key, row)) = sums.rows.all.get_index(place) else { return };
        let mut packed = Vec::new();
        Sum::of(row.totals, histogram.cloned()).encode(&mut packed, true);
        let id = ids.hash_one(&**key);
        let (key, packed) = (key.clone(), packed.into());
        gain.rows.push(RowGain { id, key, packed, extremes: row.extremes });
    });
    partial.extend(read.err());
    gain
}

/// When alerts fired, and when they were over.
#[derive(Default)]
struct Found {
    over: Vec<(u64, Json)>,
    /// Open alerts by rule, severity (an objective has a rule for each) and row.
    open: BTreeMap<(String, String, RowKey), (u64, Json)>,
}

impl Found {
    fn add(&mut self, rule: &Rule, event: &Event<'_>) {
        let entry = &rule.entry;
        let id = (entry.name.clone(), entry.severity.clone(), event.key.map(Box::from));
        if event.episode.is_some_and(|it| it.phase == Phase::Firing) {
            let key = event.key.unwrap_or_default();
            let key = rule.key_texts(key).map(|(name, text)| (name.to_owned(), text.into()));
            let key: Map<String, Json> = key.collect();
            let row = json!({
                "alert": entry.name, "severity": entry.severity, "report": entry.report, "key": key,
                "started": event.unix, "ended": null, "seconds": null, "reason": "",
            });
            self.open.insert(id, (event.unix, row));
        } else if let Some((started, mut row)) = self.open.remove(&id) {
            row["ended"] = event.unix.into();
            row["seconds"] = (event.unix - started).into();
            row["reason"] = event.episode.map_or("", |it| &it.reason).into();
            self.over.push((started, row));
        }
    }

    /// By time.
    fn rows(mut self) -> Vec<Json> {
        self.over.extend(self.open.into_values());
        self.over.sort_by_key(|it| it.0);
        self.over.into_iter().map(|it| it.1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::state::Episode;
    use crate::config::Config;
    use crate::grammar::builtin;
    use crate::report::DefinedBy;
    use crate::report::definition::Defaults;

    /// An objective has a rule for each severity, under one name.
    #[test]
    fn a_ticket_does_not_end_a_page() {
        let text = "[[slo]]\nname = 'shop'\nreport = 'report_by_script_name'\nobjective = 99\n";
        let config = Config::from_toml("pinbad.toml", text).unwrap();
        let defaults = Defaults::default();
        let reports = builtin::reports(&defaults).into_iter();
        let reports: Vec<_> = reports.map(|it| (it, DefinedBy::BuiltIn)).collect();
        let rules = Rule::all(&config, &reports, &defaults).unwrap();
        let [page, ticket] = &rules[..] else { panic!("{rules:?}") };
        let mut found = Found::default();
        let told = [
            (page, 60, Phase::Firing),
            (ticket, 120, Phase::Firing),
            (page, 180, Phase::Resolved),
            (ticket, 300, Phase::Resolved),
        ];
        for (rule, unix, phase) in told {
            let mut episode = Episode::default();
            episode.phase = phase;
            found.add(rule, &Event { key: None, unix, episode: Some(&episode) });
        }
        let rows = found.rows().into_iter();
        let rows =
            rows.map(|it| (it["severity"].clone(), it["started"].clone(), it["seconds"].clone()));
        let expected = [("page", 60, 120), ("ticket", 120, 180)];
        let expected =
            expected.map(|(severity, at, secs)| (severity.into(), at.into(), secs.into()));
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }
}
