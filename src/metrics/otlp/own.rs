//! The daemon's own numbers as points: counters become sums since the start of the push, all others
//! gauges.

use super::body::{self, Bodies, Interval, unit_name};
use crate::input::otlp::messages::{KeyValue, NumberPoint};
use crate::metrics::status::{counts, numbers};
use crate::telemetry::reading::{Group, Kind, SeriesCounts};

/// Counters as last sent, or as of the start of the push: a snapshot lets counters continue from
/// another process, whose counts must not be sent again.
#[derive(Debug)]
pub(super) struct Own {
    told: SeriesCounts,
    /// Start of the sums; `None` if each starts where the last ended.
    started_ms: Option<u64>,
}

impl Own {
    /// Counts from these values on, of each number from the last of them.
    pub(super) fn begin(groups: &[Group], started_ms: Option<u64>) -> Self {
        Self { told: counts(groups), started_ms }
    }

    /// Makes points of all numbers.
    pub(super) fn cut(&mut self, groups: &[Group], interval: &Interval, bodies: &mut Bodies) {
        let start_ms = self.started_ms.unwrap_or(interval.start_ms);
        let [start, time] = [start_ms, interval.end_ms].map(|ms| ms * 1_000_000);
        for number in numbers(groups) {
            let is_count = number.reading.kind == Kind::Counter;
            let kind = if is_count { body::Kind::Sum } else { body::Kind::Gauge };
            let help = number.reading.help.trim_end_matches('.');
            let name = format!("pinbad.{}", number.name);
            let unit = unit_name(number.unit.as_ref()).unwrap_or_default();
            let metric = bodies.metric(name, help, unit, kind);
            for (labels, value) in number.values {
                let attributes = labels.iter().map(|(name, is)| KeyValue::text(name, is)).collect();
                let mut point = NumberPoint { time, attributes, ..NumberPoint::default() };
                if is_count {
                    let told = self.told.get(&(number.name.clone(), labels)).copied();
                    let now = value.as_u64().unwrap_or_default();
                    let gained = now.saturating_sub(told.unwrap_or_default());
                    point.start = start;
                    point.as_int = gained.try_into().ok().or(Some(i64::MAX));
                } else if let Some(value) = value.as_f64() {
                    point.as_double = Some(value / number.per_unit);
                } else {
                    // A text.
                    continue;
                }
                bodies.point(metric, &point);
            }
        }
        if self.started_ms.is_none() {
            self.told = counts(groups);
        }
    }
}
