//! The texts of a rule: labels, threshold and summary of its alerts, the rule in words, and what
//! its chart shows.

use std::collections::BTreeMap;

use super::{Condition, Rule};
use crate::config::alert::OWN_LABELS;
use crate::config::units::exact_duration;
use crate::grammar::percentile::percentile_of_name;
use crate::limits::ALERT_KNOWN_ROWS_MAX;
use crate::report::definition::Level;
use crate::report::row_key::key_texts;
use crate::value::text::{MINUS, counted, name_or_empty, number};

impl Rule {
    /// Returns the labels of a row's alert; `None` stands for the rows without one of their own.
    pub(crate) fn labels(&self, key: Option<&[u8]>) -> BTreeMap<String, String> {
        let entry = &self.entry;
        let mut labels = entry.labels.clone();
        let own = OWN_LABELS.into_iter().zip([&entry.name, &entry.severity, &entry.report]);
        labels.extend(own.map(|(name, text)| (name.to_owned(), text.clone())));
        let more = key.is_none().then(|| ("row".to_owned(), "(more)".to_owned()));
        let texts = key_texts(key.unwrap_or_default()).map(str::to_owned);
        labels.extend(self.labels.iter().cloned().zip(texts).chain(more));
        // Alertmanager drops empty labels.
        labels.retain(|_, text| !text.is_empty());
        labels
    }

    /// Returns the names of the labels that its alerts may have.
    pub fn label_names(&self) -> impl Iterator<Item = &str> {
        let given = self.entry.labels.keys().chain(&self.labels);
        OWN_LABELS.into_iter().chain(["row"]).chain(given.map(String::as_str))
    }

    /// Returns what its chart shows: a title, and the metrics that the rule watches.
    pub(crate) fn chart(&self) -> (&'static str, Vec<String>) {
        let (times, events) = match self.report.level {
            Level::Timer => ("Time per hit", ("Hits per second", "hit_per_sec")),
            Level::Packet | Level::Request => {
                ("Request time", ("Requests per second", "req_per_sec"))
            }
        };
        let columns = match &self.condition {
            Condition::Burns(it) if it.entry.good_us.is_some() => vec!["req_time_max"],
            Condition::Burns(_) => vec!["error_count"],
            Condition::Holds(when) => when.columns.iter().map(|it| &*it.1).collect(),
            Condition::Absent => Vec::new(),
        };
        let ranks = columns.iter().filter_map(|name| match name.contains("median") {
            true => Some("p50".to_owned()),
            false => percentile_of_name(name).map(|_| (*name).to_owned()),
        });
        let ranks: Vec<String> = ranks.collect();
        if !ranks.is_empty() {
            return (times, ranks);
        }
        let kinds = [
            // Of times the least and the most.
            ("time_m", (times, "p99 p95 p50")),
            ("error", ("Errors per second", "errors_per_sec")),
            ("ru_", ("CPU, cores", "cpu_per_sec")),
            ("memory", ("Memory of a request", "memory_avg")),
            ("traffic", ("Traffic per second", "traffic_per_sec")),
            ("req_time", ("Time per second", "time_per_sec")),
            ("time_total", ("Time per second", "time_per_sec")),
            ("timer_value", ("Time per second", "time_per_sec")),
        ];
        let found = kinds.into_iter().find(|(part, _)| columns.iter().any(|it| it.contains(part)));
        let (title, metrics) = found.map_or(events, |it| it.1);
        (title, metrics.split(' ').map(str::to_owned).collect())
    }

    /// Returns a value of the left side with its unit; of the rows without an alert of their own it
    /// is their number.
    pub(in crate::alert) fn value_text(&self, key: Option<&[u8]>, value: f64) -> String {
        match &self.condition {
            _ if key.is_none() => counted(value as u64, "row"),
            Condition::Holds(when) => when.text(value),
            Condition::Absent | Condition::Burns(_) => shown(value),
        }
    }

    /// Returns the condition as text: `p95 > 800 ms`.
    pub(crate) fn condition_text(&self) -> String {
        match &self.condition {
            Condition::Holds(when) => when.to_string(),
            Condition::Absent => self.threshold(),
            Condition::Burns(_) => format!("burn rate {}", self.threshold()),
        }
    }

    /// Returns the right side of the condition as text.
    pub(crate) fn threshold(&self) -> String {
        match &self.condition {
            Condition::Holds(when) => when.threshold(),
            Condition::Absent => format!("nothing for {}", secs(self.entry.window)),
            Condition::Burns(objective) => {
                format!("> {}", objective.burn_words(&self.entry.severity))
            }
        }
    }

    /// Describes the state of a row in one line.
    pub(in crate::alert) fn summary(&self, key: Option<&[u8]>, value: Option<f64>) -> String {
        let window = secs(self.entry.window);
        let row = match key {
            None => "further rows".to_owned(),
            Some([]) => "all requests".to_owned(),
            Some(key) => {
                let texts = self.key_texts(key);
                let texts = texts.map(|(key, text)| format!("{key} {}", name_or_empty(text)));
                texts.collect::<Vec<_>>().join(", ")
            }
        };
        match (&self.condition, value) {
            (Condition::Absent, _) => format!("{row}: nothing arrived for {window}"),
            (Condition::Holds(when), Some(value)) if key.is_some() => {
                format!("{row}: {when} over {window}; last value {}", when.text(value))
            }
            (Condition::Holds(when), _) => format!("{row}: {when} over {window}"),
            (Condition::Burns(objective), value) => {
                let times = value.map(|it| format!("{} times as fast as it may", shown(it)));
                let times = times.as_deref().unwrap_or("too fast");
                format!("the error budget burns {times}: {}", objective.words())
            }
        }
    }

    /// Describes the rule in words.
    pub(crate) fn words(&self) -> String {
        let entry = &self.entry;
        let what = match &self.condition {
            Condition::Absent => format!("nothing arrived from a row of {}", entry.report),
            Condition::Holds(when) => format!("a row of {} has {when}", entry.report),
            Condition::Burns(objective) => {
                let remark = match objective.is_exact {
                    true => "",
                    false => "; slow errors count twice, since the report cannot tell them apart",
                };
                return format!(
                    "{} ({}): {}; fires while the budget for the others burns too fast: more than {}; no verdict \
                     while less than half of a window is covered or the longer one has fewer than {} requests, and no \
                     alert while that has fewer than 5 bad ones{remark}",
                    entry.name,
                    entry.severity,
                    objective.words(),
                    objective.burn_words(&entry.severity),
                    self.min_requests,
                );
            }
        };
        let rows = Some(entry.conditions.join(" and ")).filter(|it| !it.is_empty());
        let rows = rows.map(|it| format!(" (rows with {it})")).unwrap_or_default();
        let hold = match entry.hold {
            0 => "at once".to_owned(),
            hold => format!("once this has held for {}", secs(hold)),
        };
        let keep = match entry.keep {
            0 => "resolves when it no longer holds".to_owned(),
            keep => format!("resolves once it has not held for {}", secs(keep)),
        };
        let (part, few) = match self.is_of_absence() {
            true => ("all", format!("; it knows up to {ALERT_KNOWN_ROWS_MAX} rows")),
            false if self.min_requests == 0 => ("half", String::new()),
            false => ("half", format!(" or it has fewer than {} requests", self.min_requests)),
        };
        format!(
            "{} ({}): {what} over {}{rows}; fires {hold}, {keep}; evaluated every {}; no verdict while less than {part} of \
             the window is covered{few}",
            entry.name,
            entry.severity,
            secs(entry.window),
            secs(self.step),
        )
    }
}

/// Formats a part of an error budget, of which many times the whole may be gone.
pub(crate) fn budget(part: f64) -> String {
    let percent = part * 100.0;
    let text = match percent.abs() < 1_000.0 {
        true => shown(percent).replace('-', &MINUS.to_string()),
        false => number(percent),
    };
    format!("{text} %")
}

/// Formats a number for alerts.
pub(crate) fn shown(value: f64) -> String {
    let digits = if value.abs() < 10.0 { 4 } else { 1 };
    format!("{value:.digits$}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(in crate::alert) fn secs(secs: u64) -> String {
    exact_duration(std::time::Duration::from_secs(secs))
}
