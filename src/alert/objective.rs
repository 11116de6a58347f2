//! Objectives: the required share of good requests, the rate at which the error budget burns, and
//! the budget that is left.
//!
//! ```text
//!   b = 1 - objective      burn = (bad / total) / b      left = 1 - bad / (b x total), over the period
//! ```
//!
//! Both windows of a pair in [`BURNS`] must exceed its burn rate: the long one shows that the
//! problem matters, the short one that it still goes on. Sums are integers, so comparisons are
//! exact. The far end of a window of up to an hour is exact to the second, that of 6 h to 10 s, of
//! 3 d to a minute, and of the period to an hour. Bounded by [`BYTES_MAX`] per objective. Pure: no
//! clock, no thread.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use super::rule::{Conditions, Rule, fits, secs};
use super::state::Judgement;
use crate::config::SloEntry;
use crate::limits::SLO_PERIOD_SECS_MAX;
use crate::report::definition::{Definition, Field, Filter, KeySource, Pattern};
use crate::report::totals::Totals;
use crate::value::number_by_number;
use crate::value::text::micros;

/// Denominator of [`SloEntry::budget`]: the budget is the number of bad requests allowed in this
/// many.
const WHOLE: u128 = 100_000;
/// Fewest bad requests in the long window for an alert.
const BAD_MIN: u64 = 5;

/// A burn rate that raises an alert.
#[derive(Debug, PartialEq, Eq)]
pub struct BurnRate {
    /// Severity of the alert.
    pub severity: &'static str,
    /// Long window, seconds.
    pub long: u64,
    /// Short window, seconds: ends the alert soon after the problem is over.
    pub short: u64,
    /// Threshold in tenths.
    tenths: u64,
}

/// The pairs recommended by Google's SRE Workbook.
pub const BURNS: [BurnRate; 3] = [
    BurnRate { severity: "page", long: 3_600, short: 300, tenths: 144 },
    BurnRate { severity: "page", long: 21_600, short: 1_800, tenths: 60 },
    BurnRate { severity: "ticket", long: 259_200, short: 21_600, tenths: 10 },
];

impl BurnRate {
    /// Returns the burn rate that both windows must exceed.
    pub(crate) fn threshold(&self) -> f64 {
        self.tenths as f64 / 10.0
    }
}

/// Maximum memory of an objective, bytes.
pub const BYTES_MAX: usize =
    size_of::<Count>() * (3_600 + 2_160 + 4_320 + (SLO_PERIOD_SECS_MAX / 3_600) as usize) * 2;

/// Requests counted, and how many of them were bad.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Seconds in which requests were counted.
    pub covered_secs: u64,
    /// All requests.
    pub total: u64,
    /// Requests that took too long; excludes errors if the two are told apart.
    pub slow: u64,
    /// Requests with an error.
    pub errors: u64,
    /// Requests that may be among both, although the two are told apart: of rows in `(other)`.
    pub blurred: u64,
}

impl Count {
    /// Returns whether at least half of a window of `secs` seconds was counted.
    fn covers_half_of(&self, secs: u64) -> bool {
        self.covered_secs * 2 >= secs
    }

    /// Returns the number of bad requests. This is an upper bound, because an error may also have
    /// been slow.
    pub(crate) fn bad(&self) -> u64 {
        self.total.min(self.slow + self.errors)
    }
}

number_by_number!(Count: covered_secs total slow errors blurred);

/// An objective bound to an existing report.
#[derive(Debug)]
pub struct Objective {
    /// Its configuration.
    pub entry: SloEntry,
    /// Definition of the report.
    pub report: Definition,
    conditions: Conditions,
    /// Shortest time of a slow request, microseconds, rounded to a boundary at which hourly history
    /// tells times apart; `None` if no time is too long.
    pub slow_from_us: Option<u64>,
    /// True if slow requests and errors are told apart.
    pub is_exact: bool,
}

impl Objective {
    /// Returns the objectives of these rules, each once.
    pub(crate) fn each(rules: &[Arc<Rule>]) -> Vec<&Arc<Self>> {
        let mut all: Vec<_> = rules.iter().filter_map(|it| it.objective()).collect();
        // Each has a rule for each severity.
        all.dedup_by(|a, b| Arc::ptr_eq(a, b));
        all
    }

    /// Seconds of the whole hours that the budget keeps: with the running one no more than the
    /// period.
    pub(super) fn hours(&self) -> u64 {
        self.entry.period - 3_600
    }

    pub(super) fn new(entry: &SloEntry, report: &Definition, conditions: Conditions) -> Self {
        let of_one = |it: &Filter| matches!(it, Filter::Field(Field::Status, Pattern::Equals(_)));
        let is_status = KeySource::Field(Field::Status);
        let has_status = report.keys.iter().any(|it| it.source == is_status)
            || report.filters.iter().any(of_one);
        Self {
            entry: entry.clone(),
            report: report.clone(),
            conditions,
            slow_from_us: entry.good_us.map(|us| report.buckets.told_apart_from(us)),
            is_exact: has_status || entry.good_us.is_none(),
        }
    }

    /// Returns true if requests counted for one are valid for the other.
    pub(super) fn counts_as(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|it| {
            let SloEntry { name, conditions, good_us, period, .. } = &it.entry;
            (name, conditions, good_us, period, &it.report)
        });
        own == others
    }

    /// Returns true if the objective counts this row. `(other)` may contain any key, so only an
    /// objective without conditions counts it.
    pub(crate) fn concerns(&self, key: &[u8], is_other: bool) -> bool {
        self.conditions.is_empty() || !is_other && fits(&self.conditions, key)
    }

    /// Returns the texts of the keys of the one row that it counts, in the order of the report's
    /// keys: none if it counts all rows, `None` if it may count several of them.
    pub(crate) fn only_row(&self) -> Option<Vec<&str>> {
        let keys = if self.conditions.is_empty() { 0 } else { self.report.keys.len() };
        let text = |key: usize| match self.conditions.iter().find(|it| it.0 == key) {
            Some((_, Pattern::Equals(text))) => Some(text.as_str()),
            _ => None,
        };
        (self.conditions.len() == keys).then(|| (0..keys).map(text).collect()).flatten()
    }

    /// Counts a row's requests. Returns an empty count if times are needed but unknown.
    pub(crate) fn count(
        &self,
        totals: &Totals,
        times: Option<impl Iterator<Item = (u32, u64)>>,
        is_other: bool,
    ) -> Count {
        let slow = match (self.slow_from_us, times) {
            (None, _) => 0,
            (Some(_), None) => return Count::default(),
            (Some(us), Some(times)) => {
                let is_slow = |it: &(u32, u64)| self.report.buckets.ends(it.0).0 >= us;
                times.filter(is_slow).map(|it| it.1).sum()
            }
        };
        let errors = totals.errors;
        // All requests of a row with a status are errors, or none is.
        let (slow, blurred) = match (self.is_exact, is_other) {
            (true, true) => (slow, slow.min(errors)),
            (true, false) if errors > 0 => (0, 0),
            _ => (slow, 0),
        };
        Count { covered_secs: 0, total: totals.requests, slow, errors, blurred }
    }

    /// Returns the rate at which the budget burns, or `None` without requests.
    pub(super) fn burn(&self, count: &Count) -> Option<f64> {
        let budget = u128::from(count.total) * u128::from(self.entry.budget);
        let bad = u128::from(count.bad()) * WHOLE;
        (budget > 0).then(|| bad as f64 / budget as f64)
    }

    /// Returns the burn rate over a window of `secs` seconds; `None` without requests, or if less
    /// than half of the window was counted.
    pub(super) fn burn_in_window(&self, secs: u64, count: &Count) -> Option<f64> {
        self.burn(count).filter(|_| count.covers_half_of(secs))
    }

    /// Tests whether both windows exceed the rate; `None` if too little is known for that.
    fn holds(&self, rate: &BurnRate, long: &Count, short: &Count) -> Option<bool> {
        let is_covered = long.covers_half_of(rate.long) && short.covers_half_of(rate.short);
        let is_known = is_covered && long.total >= self.entry.min_requests;
        let exceeds = |count: &Count| {
            let most = u128::from(rate.tenths * self.entry.budget) * u128::from(count.total);
            u128::from(count.bad()) * WHOLE * 10 > most
        };
        let holds = exceeds(long) && exceeds(short);
        (is_known && (!holds || long.bad() >= BAD_MIN)).then_some(holds)
    }

    /// Returns the required share of good requests, percent.
    pub(crate) fn percent(&self) -> f64 {
        (WHOLE - u128::from(self.entry.budget)) as f64 / 1_000.0
    }

    /// Describes a good request in words.
    pub(crate) fn words(&self) -> String {
        let entry = &self.entry;
        let rows = Some(entry.conditions.join(" and ")).filter(|it| !it.is_empty());
        let rows = rows.map(|it| format!(" ({it})")).unwrap_or_default();
        let fast = self.slow_from_us.map(|us| format!("take less than {} and ", micros(us)));
        let good = fast.unwrap_or_default() + "are not errors";
        let (percent, report, period) = (self.percent(), &entry.report, secs(entry.period));
        format!("{percent} % of the requests of {report}{rows} {good}, over {period}")
    }

    /// Describes the burn rates of a severity, and names those that cannot be reached.
    pub(super) fn burn_words(&self, severity: &str) -> String {
        let words = BURNS.iter().filter(|it| it.severity == severity).map(|rate| {
            let never = match u128::from(rate.tenths * self.entry.budget) >= WHOLE * 10 {
                true => " (never: not even with every request bad)",
                false => "",
            };
            let (long, short) = (secs(rate.long), secs(rate.short));
            let times = match rate.tenths {
                10 => String::new(),
                _ => format!("{} times ", rate.threshold()),
            };
            format!("{times}its even pace over both {long} and {short}{never}")
        });
        words.collect::<Vec<_>>().join(", or more than ")
    }
}

/// Burn of a budget over a pair of windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Burn {
    /// The threshold.
    pub rate: &'static BurnRate,
    /// Over the long window; `None` without requests, or if less than half of it was counted.
    pub long: Option<f64>,
    /// Over the short window, likewise.
    pub short: Option<f64>,
    /// Whether both windows exceed the threshold; `None` if too little is known.
    pub holds: Option<bool>,
}

/// What had been counted at the ends of the last steps of one length.
#[derive(Debug)]
struct Steps {
    /// Length of a step, seconds.
    secs: u64,
    /// Length of the longest window, seconds.
    longest: u64,
    /// One more than there are steps in the longest window, oldest first.
    ends: VecDeque<Count>,
}

impl Steps {
    /// Returns the position of the first step in a window, and what had been counted before it.
    fn first(&self, window: u64) -> (usize, Count) {
        let first = self.ends.len().saturating_sub(window.div_ceil(self.secs) as usize);
        (first, first.checked_sub(1).map_or_else(Count::default, |at| self.ends[at]))
    }
}

/// An objective and the requests counted for it over its period.
#[derive(Debug)]
pub struct Budget {
    /// The objective.
    pub objective: Arc<Objective>,
    /// Whether its past has been read.
    pub has_past: bool,
    /// Everything counted so far, those of the running second included.
    pub(super) total: Count,
    steps: [Steps; 4],
}

impl Budget {
    /// Creates an empty budget.
    pub(super) fn new(objective: Arc<Objective>) -> Self {
        let steps = [(1, 3_600), (10, 21_600), (60, 259_200), (3_600, objective.hours())];
        let steps = steps.map(|(secs, longest)| Steps { secs, longest, ends: VecDeque::new() });
        Self { objective, has_past: false, total: Count::default(), steps }
    }

    /// Ends a second: `now` seconds of the stream have passed.
    pub(super) fn pass(&mut self, now: u64) {
        for steps in self.steps.iter_mut().filter(|it| now.is_multiple_of(it.secs)) {
            steps.ends.push_back(self.total);
            if steps.first(steps.longest).0 > 1 {
                steps.ends.pop_front();
            }
        }
    }

    /// Continues with the seconds of another budget, which ended with `now`.
    pub(super) fn go_on(&mut self, other: &Self, now: u64) {
        self.has_past = true;
        let (ends, mut before) = (&other.steps[0].ends, Count::default());
        for (second, end) in (now - ends.len() as u64..).zip(ends) {
            self.total += &(*end - std::mem::replace(&mut before, *end));
            self.pass(second + 1);
        }
    }

    /// Returns the count of the last `secs` seconds, the length of a window in [`BURNS`].
    pub(super) fn window(&self, secs: u64) -> Count {
        let steps = self.steps.iter().find(|it| secs <= it.longest);
        self.total - steps.map_or_else(Count::default, |it| it.first(secs).1)
    }

    /// Returns the count of the period.
    pub(super) fn period(&self) -> Count {
        self.total - self.steps[3].first(self.objective.hours()).1
    }

    /// Returns the burn over each pair of windows.
    pub(super) fn burns(&self) -> [Burn; 3] {
        BURNS.each_ref().map(|rate| {
            let [long, short] = [rate.long, rate.short].map(|secs| self.window(secs));
            let objective = &self.objective;
            Burn {
                rate,
                long: objective.burn_in_window(rate.long, &long),
                short: objective.burn_in_window(rate.short, &short),
                holds: objective.holds(rate, &long, &short),
            }
        })
    }

    /// Returns, for each hour of the period, the part of the period's budget left at its end.
    pub(super) fn course(&self) -> Vec<Option<f64>> {
        let hours = &self.steps[3];
        let (first, before) = hours.first(hours.longest);
        let budget = u128::from(self.period().total) * u128::from(self.objective.entry.budget);
        let left = hours.ends.range(first..).chain([&self.total]).map(|end| {
            let so_far = *end - before;
            let bad = u128::from(so_far.bad()) * WHOLE;
            (so_far.total > 0 && budget > 0).then(|| 1.0 - bad as f64 / budget as f64)
        });
        left.collect()
    }
}

/// Decides whether to alert at `severity`: one pair of windows over its threshold is enough. Also
/// returns the highest burn rate among these pairs.
pub(super) fn verdict(burns: &[Burn], severity: &str) -> Judgement {
    let of = |holds| {
        let alike = |it: &&Burn| it.rate.severity == severity && it.holds == Some(holds);
        let fastest = burns.iter().filter(alike).filter_map(|it| it.long).reduce(f64::max)?;
        Some((holds, Some(fastest)))
    };
    of(true).or_else(|| of(false))
}
