//! `[[slo]]`: what share of the requests must be good, and over how long. What the report has for
//! keys is checked where the reports are known (`crate::alert::rule`).

use std::collections::BTreeMap;
use std::time::Duration;

use super::alert::{AlertEntry, KEYS, conditions, labels, some};
use super::kinds::{Kind, name, span, whole};
use super::list_entry::EntryReader;
use super::raw_value::Entry;
use super::units::parse_duration;
use crate::limits::SLO_PERIOD_SECS_MAX;

/// Requests in the longer window below which nothing is said.
const MIN_REQUESTS: u64 = 100;
/// The period without another one: 30 days.
const PERIOD: u64 = 30 * 86_400;
const DAY: u64 = 86_400;

/// An entry, checked as far as that needs no report.
#[derive(Debug, Clone, PartialEq)]
pub struct SloEntry {
    /// As it was given, for what is found wrong later.
    pub entry: Entry,
    /// Its name, and that of its alerts.
    pub name: String,
    /// The report.
    pub report: String,
    /// The rows of the report.
    pub conditions: Vec<String>,
    /// A good request takes no more microseconds; `None`: any that is not an error is good.
    pub good_us: Option<u64>,
    /// How many of 100,000 requests may be bad.
    pub budget: u64,
    /// Over how many seconds.
    pub period: u64,
    /// Requests in the longer window below which nothing is said.
    pub min_requests: u64,
    /// Labels of its alerts.
    pub labels: BTreeMap<String, String>,
}

/// The keys of an entry that an `[[alert]]` has not.
const OWN_KEYS: [&str; 3] = ["good", "objective", "period"];

impl EntryReader<'_> {
    /// Reads an objective.
    pub(super) fn slo(&mut self, before: &[SloEntry], alerts: &[AlertEntry]) -> Option<SloEntry> {
        self.refuse_unknown(&[&KEYS[..], &OWN_KEYS].concat(), |_| None);
        let [least, most] = [DAY, SLO_PERIOD_SECS_MAX].map(Duration::from_secs);
        let period = span(least, most).in_whole_seconds();
        let slo = SloEntry {
            entry: self.entry.clone(),
            name: self.required("name", &some(name("the objective"))).unwrap_or_default(),
            report: self.required("report", &some(name("a report"))).unwrap_or_default(),
            conditions: self.read("where", &conditions()).unwrap_or_default(),
            good_us: self.read("good", &good()),
            budget: self.required("objective", &objective()).unwrap_or_default(),
            period: self.read("period", &period).map_or(PERIOD, |it| it.as_secs()),
            min_requests: self
                .read("min_requests", &whole(1, u64::MAX >> 1))
                .unwrap_or(MIN_REQUESTS),
            labels: self.read("labels", &labels()).unwrap_or_default(),
        };
        let alerts = alerts.iter().map(|it| (&it.name, &it.entry));
        let taken = alerts.chain(before.iter().map(|it| (&it.name, &it.entry)));
        let same = taken.filter(|it| *it.0 == slo.name).map(|it| &it.1.location);
        self.once("name", same, "a name of its own: its alerts have it");
        Some(slo)
    }
}

/// `req_time <= 500ms`, microseconds.
fn good() -> Kind<u64> {
    let accepted = "\"req_time <= DURATION\", as in \"req_time <= 500ms\"; without it every request that is not an error is good";
    Kind::new(accepted, |given| {
        let text = given.text().ok_or("not a text")?;
        let (column, longest) = text.split_once("<=").ok_or("no <=")?;
        if column.trim() != "req_time" {
            return Err("not about req_time".into());
        }
        let us = parse_duration(longest)?.as_micros();
        u64::try_from(us).ok().filter(|us| *us > 0).ok_or("not a time that requests take".into())
    })
}

/// A part in percent; gives how many of 100,000 may be bad.
fn objective() -> Kind<u64> {
    Kind::new("50 to 99.999 percent, as in 99.5", |given| {
        let text = given.text_or_number().ok_or("not a number")?;
        let number = text.trim().trim_end_matches('%').trim_end();
        let percent: f64 = number.parse().map_err(|_| "not a number")?;
        let bad = (100.0 - percent) * 1_000.0;
        match bad.round() {
            _ if !(50.0..=99.999).contains(&percent) => Err("out of range".into()),
            whole if (bad - whole).abs() > 1e-6 => Err("more than three decimals".into()),
            whole => Ok(whole as u64),
        }
    })
}
