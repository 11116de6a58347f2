//! Rules: `[[alert]]` and `[[slo]]` entries bound to existing reports.
//!
//! Built at start, on reload and by `pinbad check`; an entry that names an unknown report, key or
//! column is refused. A rule judges the rows of a window; `state` turns these judgements into
//! alerts.

mod words;

use std::sync::Arc;

pub(crate) use self::words::budget;
pub(super) use self::words::secs;
use super::expression::Expression;
use super::objective::{BURNS, Objective};
use super::row::Row;
use super::state::{Judged, Judgement};
use crate::config::alert::OWN_LABELS;
use crate::config::suggest::accepting;
use crate::config::{AlertEntry, Config, Entry, SloEntry};
use crate::grammar::percentile::percentile_of_name;
use crate::report::definition::{Defaults, Definition, Level, Pattern};
use crate::report::read::reading::Reading;
use crate::report::row_key::key_texts;
use crate::report::totals::Totals;
use crate::report::{DefinedBy, key_names, label_names};

/// Default for the fewest requests that are judged.
const MIN_REQUESTS: u64 = 30;

/// A rule that is ready to judge rows.
#[derive(Debug)]
pub struct Rule {
    /// Its configuration.
    pub entry: AlertEntry,
    /// Definition of the report, to check that a watched one is the same.
    pub report: Definition,
    /// Names of the report's keys.
    pub keys: Vec<String>,
    /// Names of their labels.
    labels: Vec<String>,
    conditions: Conditions,
    condition: Condition,
    /// Fewest requests that are judged; 0 for a rule of absence.
    pub min_requests: u64,
    /// Evaluation interval, seconds.
    pub step: u64,
}

/// Condition of a rule.
#[derive(Debug)]
enum Condition {
    /// A comparison over a row's gain holds.
    Holds(Box<Expression>),
    /// No requests arrived.
    Absent,
    /// The budget of an objective burns too fast.
    Burns(Arc<Objective>),
}

/// An invalid entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct RuleError {
    /// Location of the entry, list and key.
    pub place: String,
    /// The number of the entry in its list, and key: its place in lists that came without a file.
    pub place_in_list: String,
    /// What is wrong with it.
    pub problem: String,
}

/// How errors name a key of the entry at `index`.
pub(crate) fn place_in_list(list: &str, index: usize, key: &str) -> String {
    format!("{list}[{index}].{key}")
}

/// Reports that rules may be over.
type Reports = [(Definition, DefinedBy)];
/// The offending key of an entry, and what is wrong with it.
type Wrong = (&'static str, String);
/// Conditions on keys, with the position of each key.
pub(super) type Conditions = Vec<(usize, Pattern)>;

/// Facts about a window beside its rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Window {
    /// Seconds in which requests were counted.
    pub covered_secs: u64,
    /// True if some gain went to `(other)`.
    pub has_other: bool,
    /// Totals of all rows of the report.
    pub grand: Totals,
    /// Its last step.
    pub step: u64,
}

impl Rule {
    /// Builds the rules of a configuration over these reports: those of `[[alert]]`, then two for
    /// each `[[slo]]`.
    ///
    /// # Errors
    /// Every invalid entry.
    pub fn all(
        config: &Config,
        reports: &Reports,
        defaults: &Defaults,
    ) -> Result<Vec<Arc<Self>>, Vec<RuleError>> {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        let mut add = |list, index, entry: &Entry, built: Result<Vec<Self>, Wrong>| match built {
            Ok(built) => rules.extend(built.into_iter().map(Arc::new)),
            Err((key, problem)) => errors.push(RuleError {
                place: format!("{}: {list}.{key}", entry.location_of(key)),
                place_in_list: place_in_list(list, index, key),
                problem,
            }),
        };
        for (index, entry) in config.alerts.iter().enumerate() {
            let rule = Self::new(entry, reports, defaults);
            add("alert", index, &entry.entry, rule.map(|it| vec![it]));
        }
        for (index, entry) in config.slos.iter().enumerate() {
            add("slo", index, &entry.entry, Self::of_objective(entry, reports));
        }
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }

    /// Builds one rule for each severity; a firing page suppresses the ticket.
    fn of_objective(slo: &SloEntry, reports: &Reports) -> Result<Vec<Self>, Wrong> {
        let report = find(&slo.report, reports)?;
        if report.level == Level::Timer {
            let problem = format!("{:?} counts timers; accepted: a report of requests", slo.report);
            return Err(("report", problem));
        }
        let (_, conditions) = conditions(&slo.conditions, report)?;
        let objective = Arc::new(Objective::new(slo, report, conditions));
        let both = ["page", "ticket"].map(|severity| {
            let shorts = BURNS.iter().filter(|it| it.severity == severity);
            let entry = AlertEntry {
                entry: slo.entry.clone(),
                name: slo.name.clone(),
                report: slo.report.clone(),
                conditions: slo.conditions.clone(),
                when: None,
                window: shorts.map(|it| it.short).max().unwrap_or_default(),
                hold: 0,
                keep: 0,
                min_requests: Some(slo.min_requests),
                severity: severity.to_owned(),
                labels: slo.labels.clone(),
            };
            Self {
                entry,
                report: report.clone(),
                keys: Vec::new(),
                labels: Vec::new(),
                conditions: Vec::new(),
                condition: Condition::Burns(Arc::clone(&objective)),
                min_requests: slo.min_requests,
                step: 1,
            }
        });
        Ok(both.into())
    }

    fn new(entry: &AlertEntry, reports: &Reports, defaults: &Defaults) -> Result<Self, Wrong> {
        let report = find(&entry.report, reports)?;
        let (keys, conditions) = conditions(&entry.conditions, report)?;
        let step = match entry.window {
            0..=60 => 1,
            61..=3600 => 10,
            _ => 60,
        };
        if !entry.window.is_multiple_of(step) {
            let problem = format!(
                "{} is not a whole number of {step} s, at which windows of that length are looked at",
                secs(entry.window)
            );
            return Err(("window", problem));
        }
        let (mut condition, mut min_requests) = (Condition::Absent, 0);
        if let Some(text) = &entry.when {
            let when = Expression::parse(text, report, defaults);
            let when = when.map_err(|problem| ("when", format!("{text:?}: {problem}")))?;
            let percents = when.columns.iter().filter_map(|it| percentile_of_name(&it.1));
            let least = percents.map(|it| (500.0 / (100.0 - it).max(1e-3)).round() as u64);
            min_requests = entry.min_requests.unwrap_or(least.fold(MIN_REQUESTS, u64::max));
            condition = Condition::Holds(Box::new(when));
        }
        let is_taken = |name: &str| {
            OWN_LABELS.contains(&name) || name == "row" || entry.labels.contains_key(name)
        };
        Ok(Self {
            entry: entry.clone(),
            report: report.clone(),
            labels: label_names(&keys, "_", is_taken),
            keys,
            conditions,
            condition,
            min_requests,
            step,
        })
    }

    /// Returns the rule's identity; while a new configuration keeps it, alerts are kept too.
    pub(super) fn identity(&self) -> String {
        let AlertEntry { report, conditions, when, window, severity, .. } = &self.entry;
        let keys: Vec<_> = self.report.keys.iter().map(|it| it.source.to_string()).collect();
        let rows = format!("{keys:?} {report} {conditions:?}");
        match self.objective() {
            None => format!("{rows} {when:?} {window}"),
            Some(it) => format!("{rows} {:?} {} {severity}", it.entry.good_us, it.entry.budget),
        }
    }

    /// Returns true for a rule of the same name and [identity](Self::identity).
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.entry.name == other.entry.name && self.identity() == other.identity()
    }

    /// Returns true for a rule of absence.
    pub(super) fn is_of_absence(&self) -> bool {
        matches!(self.condition, Condition::Absent)
    }

    /// Returns the objective whose budget it watches.
    pub(crate) fn objective(&self) -> Option<&Arc<Objective>> {
        let Condition::Burns(objective) = &self.condition else { return None };
        Some(objective)
    }

    /// Returns true if it watches the budget of this objective.
    pub(super) fn is_of(&self, objective: &Arc<Objective>) -> bool {
        self.objective().is_some_and(|it| Arc::ptr_eq(it, objective))
    }

    /// Returns the texts of a row's key, paired with the names of the report's keys.
    pub fn key_texts<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.keys.iter().map(String::as_str).zip(key_texts(key))
    }

    /// Returns true if the rule judges the row of this key.
    pub(crate) fn concerns(&self, key: &[u8]) -> bool {
        fits(&self.conditions, key)
    }

    /// Returns a text that a key of each selected row has or begins with, and the key's position.
    pub(super) fn wanted_text(&self) -> (usize, &str) {
        let wanted = self.conditions.iter().find_map(|(at, pattern)| match pattern {
            Pattern::Equals(text) | Pattern::StartsWith(text) => Some((*at, text.as_str())),
            Pattern::Differs(_) => None,
        });
        wanted.unwrap_or_default()
    }

    /// Returns true if enough seconds of the window are covered for a judgement.
    fn is_covered(&self, window: &Window) -> bool {
        window.covered_secs * 2 >= self.entry.window
    }

    /// Judges rows, and returns the judgement for each key.
    pub(super) fn judge<'a>(&self, window: &Window, rows: &[&'a Row]) -> Vec<Judged<'a>> {
        let Condition::Holds(when) = &self.condition else {
            let judgement = self.judge_present(window);
            return rows.iter().map(|row| (&*row.key, judgement)).collect();
        };
        let sums = rows.iter().map(|row| (&*row.key, false, row.totals, row.extremes()));
        let definition = &when.definition;
        let mut reading = Reading::of_rows(definition, sums);
        reading.covered_secs = window.covered_secs.max(1);
        reading.window_secs = reading.covered_secs as f64;
        reading.grand = window.grand;
        let is_covered = self.is_covered(window);
        let is_whole = window.covered_secs >= self.entry.window;
        let mut judge = |at: usize, row: &Row| {
            let is_known = is_covered && window.step >= row.whole_from;
            if !is_known || row.totals.requests < self.min_requests {
                return None;
            }
            if when.has_quantiles {
                let ends = |bucket| definition.buckets.ends(bucket);
                reading.know(at, definition, &row.histogram()?, |secs| secs, ends);
            }
            let column = |column| definition.layout.value(&reading, at, column).number();
            let held = when.holds(&column).filter(|it| is_whole || when.is_final(it.0));
            held.map(|(holds, value)| (holds, Some(value)))
        };
        rows.iter().enumerate().map(|(at, row)| (&*row.key, judge(at, row))).collect()
    }

    /// Judges a row that has no gain in the window.
    pub(super) fn judge_missing(&self, window: &Window, key: &[u8]) -> Judgement {
        if window.has_other || !self.is_covered(window) {
            return None;
        }
        if self.is_of_absence() {
            return (window.covered_secs >= self.entry.window).then_some((true, None));
        }
        let row = Row { key: key.into(), ..Row::default() };
        self.judge(window, &[&row])[0].1
    }

    /// Judges that the condition does not hold: a row of a rule of absence from which requests
    /// arrived, or the rows without an alert of their own.
    pub(super) fn judge_present(&self, window: &Window) -> Judgement {
        self.is_covered(window).then_some((false, None))
    }
}

/// Finds a report by name whose rows can be judged.
fn find<'a>(name: &str, reports: &'a Reports) -> Result<&'a Definition, Wrong> {
    let mut all = reports.iter().map(|it| &it.0);
    let report = all.find(|it| it.name == name && !it.layout.is_histogram_view());
    report.ok_or_else(|| {
        let known: Vec<&str> = reports.iter().map(|it| it.0.name.as_str()).collect();
        ("report", format!("there is no report called {name:?}{}", accepting(name, &known)))
    })
}

/// Returns the names of a report's keys, and the parsed conditions on them.
fn conditions(texts: &[String], report: &Definition) -> Result<(Vec<String>, Conditions), Wrong> {
    let keys = key_names(report);
    let read = texts.iter().map(|text| condition(text, &keys));
    let read = read.collect::<Result<_, _>>().map_err(|problem| ("where", problem))?;
    Ok((keys, read))
}

/// Returns true if a key meets all conditions.
pub(super) fn fits(conditions: &[(usize, Pattern)], key: &[u8]) -> bool {
    conditions.iter().all(|(at, pattern)| {
        pattern.matches(key_texts(key).nth(*at).unwrap_or_default().as_bytes())
    })
}

/// Parses `KEY=text`, `KEY!=text` or `KEY=prefix*`.
fn condition(text: &str, keys: &[String]) -> Result<(usize, Pattern), String> {
    let accepted = || match keys {
        [] => "none: this report has one row".to_owned(),
        _ => format!("KEY=text, KEY!=text or KEY=prefix*, where KEY is {}", keys.join(", ")),
    };
    let (key, pattern) = Pattern::of_condition(text)
        .ok_or_else(|| format!("{text:?} is not a condition; accepted: {}", accepted()))?;
    let pattern =
        pattern.ok_or_else(|| format!("{text:?}: != takes no prefix; accepted: {}", accepted()))?;
    let at = keys.iter().position(|it| it == key);
    let at = at.ok_or_else(|| format!("there is no key {key:?}; accepted: {}", accepted()))?;
    Ok((at, pattern))
}
