//! Rules: `[[alert]]` and `[[slo]]` entries bound to existing reports.
//!
//! Built at start, on reload and by `pinbad check`; an entry that names an unknown report, key or
//! column is refused. A rule judges the rows of a window; `state` turns these judgements into
//! alerts.

mod words;

use std::sync::Arc;

pub(super) use self::words::secs;
pub use self::words::shown;
use super::expression::Expression;
use super::objective::{BURNS, Objective};
use crate::config::{AlertEntry, Config, Entry, SloEntry};
use crate::report::definition::{Defaults, Definition, Level, Pattern};
use crate::report::histogram::Histogram;
use crate::report::reading::{Extremes, Reading};
use crate::report::row_key::key_texts;
use crate::report::totals::Totals;
use crate::report::{DefinedBy, key_names};

/// Default for the fewest requests that are judged.
const MIN_REQUESTS: u64 = 30;

/// A rule that is ready to judge rows.
#[derive(Debug)]
pub struct Rule {
    /// Its configuration.
    pub entry: AlertEntry,
    /// Definition of the report, to check that a watched one is the same.
    pub report: Definition,
    /// The same definition with all columns that the condition names.
    definition: Definition,
    /// Names of the report's keys.
    pub keys: Vec<String>,
    labels: Vec<String>,
    conditions: Conditions,
    condition: Condition,
    has_quantiles: bool,
    /// Fewest requests that are judged.
    pub min_requests: u64,
    /// Evaluation interval, seconds.
    pub step: u64,
}

/// Condition of a rule.
#[derive(Debug)]
enum Condition {
    /// A comparison over a row's gain holds.
    Holds(Expression),
    /// No requests arrived.
    Absent,
    /// The budget of an objective burns too fast.
    Burns(Arc<Objective>),
}

/// An invalid entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {list}.{key}: {problem}")]
pub struct RuleError {
    place: String,
    list: &'static str,
    /// The number of the entry in its list.
    index: usize,
    key: &'static str,
    problem: String,
}

impl RuleError {
    fn of(list: &'static str, index: usize, entry: &Entry, (key, problem): Wrong) -> Self {
        Self { place: entry.location_of(key).to_string(), list, index, key, problem }
    }

    /// The error with the number of its entry in place of a location, for lists that came without a
    /// file.
    #[must_use]
    pub fn in_list(&self) -> String {
        let Self { list, index, key, problem, .. } = self;
        format!("{}: {problem}", place_in_list(list, *index, key))
    }
}

/// How errors name a key of the entry at `index`.
#[must_use]
pub fn place_in_list(list: &str, index: usize, key: &str) -> String {
    format!("{list}[{index}].{key}")
}

/// The offending key of an entry, and what is wrong with it.
type Wrong = (&'static str, String);
/// Conditions on keys, with the position of each key.
pub(super) type Conditions = Vec<(usize, Pattern)>;

/// Result of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Too little is known to decide.
    Unknown,
}

/// Gain of a row in a window.
#[derive(Debug)]
pub struct WindowRow<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Sums.
    pub totals: Totals,
    /// Extremes.
    pub extremes: Extremes,
    /// Histogram, if a rule needs it and it is complete.
    pub(crate) histogram: Option<Histogram>,
    /// True if part of the gain was dropped for lack of memory.
    pub is_partial: bool,
}

/// Facts about a window beside its rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Window {
    /// Seconds in which requests were counted.
    pub covered_secs: u64,
    /// True if some gain went to `(other)`.
    pub has_other: bool,
    /// Totals of all rows of the report.
    pub grand: Totals,
}

impl Rule {
    /// Builds the rules of a configuration over these reports: those of `[[alert]]`, then two for
    /// each `[[slo]]`.
    ///
    /// # Errors
    /// Every invalid entry.
    pub fn all(
        config: &Config,
        reports: &[(Definition, DefinedBy)],
        defaults: &Defaults,
    ) -> Result<Vec<Arc<Self>>, Vec<RuleError>> {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for (index, entry) in config.alerts.iter().enumerate() {
            match Self::new(entry, reports, defaults) {
                Ok(rule) => rules.push(Arc::new(rule)),
                Err(wrong) => errors.push(RuleError::of("alert", index, &entry.entry, wrong)),
            }
        }
        for (index, entry) in config.slos.iter().enumerate() {
            match Self::of_objective(entry, reports) {
                Ok(both) => rules.extend(both.map(Arc::new)),
                Err(wrong) => errors.push(RuleError::of("slo", index, &entry.entry, wrong)),
            }
        }
        match errors.is_empty() {
            true => Ok(rules),
            false => Err(errors),
        }
    }

    /// Builds one rule for each severity; a firing page suppresses the ticket.
    fn of_objective(
        slo: &SloEntry,
        reports: &[(Definition, DefinedBy)],
    ) -> Result<[Self; 2], Wrong> {
        let report = find(&slo.report, reports)?;
        if report.level == Level::Timer {
            let problem = format!("{:?} counts timers; accepted: a report of requests", slo.report);
            return Err(("report", problem));
        }
        let (_, conditions) = conditions(&slo.conditions, report)?;
        let objective = Arc::new(Objective::new(slo, report, conditions));
        Ok(["page", "ticket"].map(|severity| {
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
                definition: report.clone(),
                keys: Vec::new(),
                labels: Vec::new(),
                conditions: Vec::new(),
                condition: Condition::Burns(Arc::clone(&objective)),
                has_quantiles: false,
                min_requests: slo.min_requests,
                step: 1,
            }
        }))
    }

    fn new(
        entry: &AlertEntry,
        reports: &[(Definition, DefinedBy)],
        defaults: &Defaults,
    ) -> Result<Self, Wrong> {
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
        let mut definition = report.clone();
        let (mut condition, mut wanted, mut needed) = (Condition::Absent, Vec::new(), 0);
        if let Some(text) = &entry.when {
            let read = Expression::parse(text, report, defaults);
            let (when, with_columns) =
                read.map_err(|problem| ("when", format!("{text:?}: {problem}")))?;
            let for_rank = |percent: f64| (500.0 / (100.0 - percent).max(1e-3)).round() as u64;
            let ranks = when.percentiles().into_iter();
            needed = ranks.map(for_rank).max().unwrap_or_default();
            when.each_column(&mut |at, _| wanted.push(at));
            condition = Condition::Holds(when);
            definition = with_columns;
        }
        Ok(Self {
            entry: entry.clone(),
            labels: keys.iter().map(|key| label(key, entry)).collect(),
            keys,
            conditions,
            has_quantiles: definition.layout.want(wanted).quantiles,
            report: report.clone(),
            definition,
            condition,
            min_requests: entry.min_requests.unwrap_or(needed.max(MIN_REQUESTS)),
            step,
        })
    }

    /// Returns the rule's identity; while a new configuration keeps it, alerts are kept too.
    #[must_use]
    pub fn identity(&self) -> String {
        let AlertEntry { report, conditions, when, window, .. } = &self.entry;
        match self.objective() {
            None => format!("{report} {conditions:?} {when:?} {window}"),
            Some(it) => {
                let SloEntry { good_us, budget, .. } = it.entry;
                let severity = &self.entry.severity;
                format!("{report} {conditions:?} {good_us:?} {budget} {severity}")
            }
        }
    }

    /// Returns true for a rule of absence.
    #[must_use]
    pub fn is_of_absence(&self) -> bool {
        matches!(self.condition, Condition::Absent)
    }

    /// Returns the objective whose budget it watches.
    #[must_use]
    pub fn objective(&self) -> Option<&Arc<Objective>> {
        match &self.condition {
            Condition::Burns(objective) => Some(objective),
            _ => None,
        }
    }

    fn when(&self) -> Option<&Expression> {
        match &self.condition {
            Condition::Holds(when) => Some(when),
            _ => None,
        }
    }

    /// Returns true if the rule judges the row of this key.
    #[must_use]
    pub fn concerns(&self, key: &[u8]) -> bool {
        fits(&self.conditions, key)
    }

    /// Returns a text that a key of each selected row has or begins with, and the key's position.
    pub(super) fn wanted_text(&self) -> Option<(usize, &str)> {
        self.conditions.iter().find_map(|(at, pattern)| match pattern {
            Pattern::Equals(text) | Pattern::StartsWith(text) => Some((*at, text.as_str())),
            Pattern::Differs(_) => None,
        })
    }

    /// Returns true if enough seconds of the window are covered for a judgement.
    fn is_covered(&self, window: &Window) -> bool {
        window.covered_secs * 2 >= self.entry.window
    }

    /// Returns true if judging a row with so many requests needs its histogram.
    #[must_use]
    pub fn wants_histogram(&self, totals: &Totals) -> bool {
        self.has_quantiles && totals.requests >= self.min_requests
    }

    /// Judges rows: returns the result for each and the value of the left side.
    #[must_use]
    pub fn judge(&self, window: &Window, rows: &[WindowRow<'_>]) -> Vec<(Truth, Option<f64>)> {
        let covered = self.is_covered(window);
        let Some(when) = self.when().filter(|_| covered) else {
            // Requests arrived.
            let truth = if covered { Truth::False } else { Truth::Unknown };
            return vec![(truth, None); rows.len()];
        };
        let sums = rows.iter().map(|row| (row.key, false, row.totals, row.extremes));
        let mut reading = Reading::of_rows(&self.definition, sums);
        reading.covered_secs = window.covered_secs.max(1);
        reading.window_secs = reading.covered_secs as f64;
        reading.grand = window.grand;
        let judged = rows.iter().enumerate().map(|(at, row)| {
            if row.is_partial || row.totals.requests < self.min_requests {
                return (Truth::Unknown, None);
            }
            if let Some(histogram) = &row.histogram {
                let ends = |bucket| self.definition.buckets.ends(bucket);
                reading.know(at, &self.definition, histogram, |secs| secs, ends);
            }
            let column = |column| self.definition.layout.value(&reading, at, column).number();
            match when.holds(&column) {
                Some((true, value)) => (Truth::True, Some(value)),
                Some((false, value)) => (Truth::False, Some(value)),
                None => (Truth::Unknown, None),
            }
        });
        judged.collect()
    }

    /// Judges a row that has no gain in the window.
    #[must_use]
    pub fn judge_missing(&self, window: &Window, key: &[u8]) -> (Truth, Option<f64>) {
        if window.has_other || !self.is_covered(window) {
            return (Truth::Unknown, None);
        }
        if self.is_of_absence() {
            return (Truth::True, None);
        }
        let nothing = WindowRow {
            key,
            totals: Totals::ZERO,
            extremes: Extremes::NOTHING,
            histogram: None,
            is_partial: false,
        };
        self.judge(window, &[nothing])[0]
    }

    /// Judges the rows without an alert of their own when the condition holds for none of them.
    #[must_use]
    pub fn of_the_rest(&self, window: &Window) -> Truth {
        match self.is_covered(window) {
            true => Truth::False,
            false => Truth::Unknown,
        }
    }
}

/// Finds a report by name whose rows can be judged.
fn find<'a>(name: &str, reports: &'a [(Definition, DefinedBy)]) -> Result<&'a Definition, Wrong> {
    let mut all = reports.iter().map(|it| &it.0);
    let report = all.find(|it| it.name == name);
    let report = report.filter(|it| !it.layout.is_histogram_view());
    report.ok_or_else(|| {
        let known: Vec<&str> = reports.iter().map(|it| it.0.name.as_str()).collect();
        let near = crate::config::suggest::meant(name, known.iter().copied());
        let hint = near.map_or_else(
            || format!("accepted: {}", known.join(", ")),
            |near| format!("did you mean {near:?}?"),
        );
        let problem = format!("there is no report called {name:?}; {hint}");
        ("report", problem)
    })
}

/// Returns the names of a report's keys, and the parsed conditions on them.
fn conditions(texts: &[String], report: &Definition) -> Result<(Vec<String>, Conditions), Wrong> {
    let keys = key_names(report);
    let read = texts.iter().map(|text| condition(text, &keys));
    let read: Result<_, _> = read.collect();
    Ok((keys, read.map_err(|problem| ("where", problem))?))
}

/// Returns true if a key meets all conditions.
pub(super) fn fits(conditions: &[(usize, Pattern)], key: &[u8]) -> bool {
    conditions.iter().all(|(at, pattern)| {
        let text = key_texts(key).nth(*at).unwrap_or_default();
        pattern.matches(text.as_bytes())
    })
}

/// Parses `KEY=text`, `KEY!=text` or `KEY=prefix*`.
fn condition(text: &str, keys: &[String]) -> Result<(usize, Pattern), String> {
    let accepted = || match keys {
        [] => "none: this report has one row".to_owned(),
        _ => format!("KEY=text, KEY!=text or KEY=prefix*, where KEY is {}", keys.join(", ")),
    };
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is not a condition; accepted: {}", accepted()))?;
    let (key, pattern) = match (key.strip_suffix('!'), value.strip_suffix('*')) {
        (Some(key), None) => (key, Pattern::Differs(value.to_owned())),
        (Some(_), Some(_)) => {
            return Err(format!("{text:?}: != takes no prefix; accepted: {}", accepted()));
        }
        (None, None) => (key, Pattern::Equals(value.to_owned())),
        (None, Some(prefix)) => (key, Pattern::StartsWith(prefix.to_owned())),
    };
    let at = keys.iter().position(|it| it == key.trim());
    let at = at.ok_or_else(|| format!("there is no key {key:?}; accepted: {}", accepted()))?;
    Ok((at, pattern))
}

/// Turns a key's name into a valid label name that has no other meaning.
fn label(key: &str, entry: &AlertEntry) -> String {
    let mut label = key.replace(|it: char| !it.is_ascii_alphanumeric(), "_");
    if !label.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_') {
        label.insert(0, '_');
    }
    let is_taken = |label: &str| {
        crate::config::alert::OWN_LABELS.contains(&label)
            || label == "row"
            || entry.labels.contains_key(label)
    };
    while is_taken(&label) {
        label.push('_');
    }
    label
}
