//! The daemon's own numbers as points: counters become sums since the start of the push, all others
//! gauges.

use std::collections::HashMap;

use prometheus_client::registry::Unit;
use serde_json::Value as Json;

use super::body::{Bodies, Interval};
use crate::input::otlp::messages::{KeyValue, NumberPoint};
use crate::metrics::status::named;
use crate::telemetry::reading::{Group, Kind, Reading};

/// Name and labels.
type Series = (String, Vec<(String, String)>);

/// Counters as last sent, or as of the start of the push: a snapshot lets counters continue from
/// another process, whose counts must not be sent again.
#[derive(Debug, Default)]
pub(super) struct Own {
    told: HashMap<Series, u64>,
    /// Start of the sums; `None` if each starts where the last ended.
    started_ms: Option<u64>,
}

impl Own {
    /// Counts from these values on.
    pub(super) fn begin(groups: &[Group], started_ms: Option<u64>) -> Self {
        let mut told = HashMap::new();
        for (_, reading, series) in all(groups) {
            if reading.kind == Kind::Counter {
                let counts = series.into_iter().map(|(it, value)| (it, whole(&value)));
                told.extend(counts);
            }
        }
        Self { told, started_ms }
    }

    /// Makes points of all numbers.
    pub(super) fn cut(&mut self, groups: &[Group], interval: &Interval, bodies: &mut Bodies<'_>) {
        let (start, time) = interval.times(self.started_ms.unwrap_or(interval.start_ms));
        for ((unit, per_unit), reading, all) in all(groups) {
            let Some(((name, _), _)) = all.first() else {
                continue;
            };
            let grows = reading.kind == Kind::Counter;
            let unit = match unit {
                Some(Unit::Seconds) => "s",
                Some(Unit::Bytes) => "By",
                _ => "",
            };
            bodies.begin_sum(name, reading.help.trim_end_matches('.'), unit, grows);
            for (series, value) in all {
                let labels = series.1.iter();
                let attributes = labels.map(|(name, is)| KeyValue::text(name, is)).collect();
                let mut point = NumberPoint {
                    time,
                    attributes,
                    ..NumberPoint::default()
                };
                match (grows, value.as_f64()) {
                    (true, _) => {
                        let (now, told) = (whole(&value), self.told.entry(series).or_default());
                        let count = now.saturating_sub(*told);
                        if self.started_ms.is_none() {
                            *told = now;
                        }
                        point.start = start;
                        point.as_int = Some(i64::try_from(count).unwrap_or(i64::MAX));
                    }
                    (false, Some(number)) => point.as_double = Some(number / per_unit),
                    (false, None) => continue,
                }
                bodies.number(point);
            }
        }
    }
}

/// A number: its unit and the divisor into it, its declaration, and its values by series.
type Number<'a> = ((Option<Unit>, f64), &'a Reading, Vec<(Series, Json)>);

/// Returns all numbers.
fn all(groups: &[Group]) -> impl Iterator<Item = Number<'_>> {
    let alike = groups.chunk_by(|a, b| a.place == b.place);
    let readings = alike.flat_map(|alike| {
        let readings = alike[0].readings.iter().enumerate();
        readings.map(move |(at, reading)| (alike, at, reading))
    });
    let numbers = readings.filter(|(_, _, reading)| {
        reading.kind != Kind::Alias && !matches!(reading.value, Json::String(_))
    });
    numbers.map(|(alike, at, reading)| {
        let (name, unit, per_unit) = named(alike[0].place, reading);
        let values = alike.iter().flat_map(|group| {
            let value = &group.readings[at].value;
            let labels = group.labels.iter();
            let labels: Vec<_> = labels
                .map(|(name, is)| ((*name).to_owned(), is.clone()))
                .collect();
            match value {
                Json::Object(reasons) if labels.is_empty() => {
                    let reasons = reasons.iter();
                    let one = |(reason, count): (&String, &Json)| {
                        (vec![("reason".to_owned(), reason.clone())], count.clone())
                    };
                    reasons.map(one).collect()
                }
                Json::Object(_) => vec![(labels, group.readings[at].total().into())],
                value => vec![(labels, value.clone())],
            }
        });
        let series = values.map(|(labels, value)| ((name.clone(), labels), value));
        ((unit, per_unit), reading, series.collect())
    })
}

fn whole(value: &Json) -> u64 {
    let float = || value.as_f64().map(|it| it as u64);
    value.as_u64().or_else(float).unwrap_or_default()
}
