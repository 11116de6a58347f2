//! `[[alert]]`: rules over reports. Reports, columns and keys are checked later, where the reports
//! are known (`crate::alert::rule`).

use std::collections::BTreeMap;
use std::time::Duration;

use super::kinds::{Kind, is_identifier, list, name, span, switch, table, whole};
use super::list_entry::EntryReader;
use super::raw_value::Entry;
use crate::limits::{ALERT_LABELS_MAX, ALERT_WINDOW_SECS_MAX};

/// An `[[alert]]` entry, checked as far as possible without its report.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertEntry {
    /// The entry as given, for errors found later.
    pub entry: Entry,
    /// The label `alertname`.
    pub name: String,
    /// The report to watch.
    pub report: String,
    /// Conditions on the rows to watch: `KEY=text`, `KEY!=text`, `KEY=prefix*`. Empty means all
    /// rows.
    pub conditions: Vec<String>,
    /// The condition; `None` fires when nothing arrived.
    pub when: Option<String>,
    /// Length of the window in seconds.
    pub window: u64,
    /// Seconds the condition must hold before the alert fires.
    pub hold: u64,
    /// Seconds the condition must be false before the alert resolves.
    pub keep: u64,
    /// Fewest requests needed for a verdict; `None` uses the minimum of the condition.
    pub min_requests: Option<u64>,
    /// The label `severity`.
    pub severity: String,
    /// Further labels.
    pub labels: BTreeMap<String, String>,
}

/// The keys of an entry that an `[[slo]]` has too, and the others.
pub(super) const KEYS: [&str; 5] = ["name", "report", "where", "min_requests", "labels"];
const OWN_KEYS: [&str; 6] = ["when", "absent", "window", "for", "keep", "severity"];

/// Labels that every alert has, in addition to the keys of its report.
pub const OWN_LABELS: [&str; 3] = ["alertname", "severity", "report"];

const ONE: &str = "one of when = \"CONDITION\", absent = true";

impl EntryReader<'_> {
    /// Reads a rule.
    pub(super) fn alert(&mut self, before: &[AlertEntry]) -> Option<AlertEntry> {
        self.refuse_unknown(&[&KEYS[..], &OWN_KEYS].concat(), |_| None);
        let text = |of| some(name(of));
        let rule = AlertEntry {
            entry: self.entry.clone(),
            name: self.required("name", &text("the alert")).unwrap_or_default(),
            report: self.required("report", &text("a report")).unwrap_or_default(),
            conditions: self.read("where", &conditions()).unwrap_or_default(),
            when: self.read("when", &text("a condition, as in \"p95 > 800ms\"")),
            window: self.read("window", &seconds(1)).unwrap_or(60),
            hold: self.read("for", &seconds(0)).unwrap_or(0),
            keep: self.read("keep", &seconds(0)).unwrap_or(0),
            min_requests: self.read("min_requests", &whole(0, u64::MAX >> 1)),
            severity: self.read("severity", &text("a severity")).unwrap_or("warning".to_owned()),
            labels: self.read("labels", &labels()).unwrap_or_default(),
        };
        let absent = self.read("absent", &switch());
        match (&self.given(["when", "absent"])[..], absent) {
            (["when", _], Some(true)) => self.refuse("absent", "there is when too", ONE)?,
            ([], _) | (["absent"], Some(false)) => self.missing("no condition", ONE)?,
            _ => {}
        }
        let same = before.iter().filter(|it| it.name == rule.name);
        self.once("name", same.map(|it| &it.entry.location), "each name once");
        Some(rule)
    }
}

pub(super) fn some(kind: Kind<String>) -> Kind<String> {
    kind.refusing(|text| text.trim().is_empty().then_some("empty"))
}

fn seconds(least: u64) -> Kind<u64> {
    let (least, most) = (Duration::from_secs(least), Duration::from_secs(ALERT_WINDOW_SECS_MAX));
    span(least, most).in_whole_seconds().and_then(|span| Ok(span.as_secs()))
}

pub(super) fn conditions() -> Kind<Vec<String>> {
    let accepted = "up to 16 conditions on keys of the report, as in [\"script_name=/checkout*\", \"hostname!=test1\"]";
    list((16, "conditions"), accepted, |given, _| Ok(given.text().ok_or("not a text")?.to_owned()))
}

pub(super) fn labels() -> Kind<BTreeMap<String, String>> {
    let accepted = format!(
        "up to {ALERT_LABELS_MAX} names of letters, digits and _ with a text each, as in {{team = \"shop\"}}, none of {}",
        OWN_LABELS.join(", ")
    );
    table((ALERT_LABELS_MAX, "too many"), accepted, |name, text| {
        // As Alertmanager accepts them.
        let is_label = is_identifier(name) && !OWN_LABELS.contains(&name);
        match text.is_some_and(|text| text.len() <= 1024) && is_label {
            true => Ok(()),
            false => Err(format!("{name:?} is not a label, or has no text")),
        }
    })
}
