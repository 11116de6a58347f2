//! What can be drawn over time: the numbers that a row's sums and histogram give for a span of seconds.
//!
//! Pure arithmetic. Times and CPU are in seconds, sizes in bytes; a number per second is over the seconds that are known,
//! so the running, unfinished point of a line shows the right height.

use crate::report::definition::{Definition, Level};
use crate::report::histogram::Rank;
use crate::report::packed::Sum;

/// One number of a row over some seconds.
#[derive(Debug, Clone, Copy)]
pub struct Metric(Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    Named(&'static Named),
    /// The request time (timer value per hit) that so many percent do not exceed, seconds.
    Percentile(f64),
}

/// Name, unit, and the number for a row; `None`: there is none.
type Named = (&'static str, &'static str, fn(&Span<'_>) -> Option<f64>);

/// All but percentiles. Sums of times are of all requests (or timers) together, so a second's time is how many were at work at
/// once, on average. Averages are by request, in timer reports by hit. Traffic, memory and errors are 0 in timer reports.
#[rustfmt::skip]
static NAMED: [Named; 16] = [
    ("req_count", "requests", |it| Some(it.requests())),
    ("req_per_sec", "requests/s", |it| it.per_sec(it.requests())),
    ("hit_count", "hits", |it| Some(it.hits())),
    ("hit_per_sec", "hits/s", |it| it.per_sec(it.hits())),
    ("time_total", "s", |it| Some(it.time())),
    ("time_avg", "s", |it| it.average(it.time())),
    ("time_per_sec", "s/s", |it| it.per_sec(it.time())),
    ("cpu", "s", |it| Some(it.cpu())),
    ("cpu_avg", "s", |it| it.average(it.cpu())),
    ("cpu_per_sec", "s/s", |it| it.per_sec(it.cpu())),
    ("traffic", "bytes", |it| Some(it.sum.totals.traffic as f64)),
    ("traffic_per_sec", "bytes/s", |it| it.per_sec(it.sum.totals.traffic as f64)),
    ("memory_avg", "bytes", |it| it.average(it.sum.totals.memory as f64)),
    ("errors", "errors", |it| Some(it.errors())),
    ("errors_per_sec", "errors/s", |it| it.per_sec(it.errors())),
    ("error_percent", "%", |it| it.average(it.errors() * 100.0)),
];

impl Metric {
    /// The names of all, of the percentiles those of the three usual ones.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let names = NAMED.iter().map(|(name, ..)| *name);
        names.chain(["p50", "p95", "p99"])
    }

    /// The metric of this name: `req_per_sec`, `p95`, `p99_9` (`p99.9` too), ...
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(percent) = name.strip_prefix('p').and_then(percent) {
            return Some(Self(Kind::Percentile(percent)));
        }
        let named = NAMED.iter().find(|it| it.0 == name)?;
        Some(Self(Kind::Named(named)))
    }

    /// Its name, as [`parse`](Self::parse) takes it; percentiles as in the names of report columns.
    #[must_use]
    pub fn name(&self) -> String {
        match self.0 {
            Kind::Named((name, ..)) => (*name).to_owned(),
            Kind::Percentile(percent) => format!("p{percent}").replace('.', "_"),
        }
    }

    /// Whether histograms are needed for it.
    #[cfg(feature = "sql")]
    pub(crate) fn is_percentile(&self) -> bool {
        matches!(self.0, Kind::Percentile(_))
    }

    /// What its numbers are in.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        match self.0 {
            Kind::Named((_, unit, _)) => unit,
            Kind::Percentile(_) => "s",
        }
    }

    /// The number for a row that gained `span` in `span.secs` known seconds; `None` when there is none.
    pub(crate) fn of(&self, span: &Span<'_>) -> Option<f64> {
        match self.0 {
            Kind::Named((.., number)) => number(span),
            Kind::Percentile(percent) => span.percentile(percent),
        }
    }
}

/// A rank in percent, with up to three decimals: more than 0, at most 100.
fn percent(text: &str) -> Option<f64> {
    let (whole, decimals) = text.split_once(['_', '.']).unwrap_or((text, "0"));
    let digits = |text: &str| {
        (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let percent = format!("{whole}.{decimals}").parse().ok()?;
    let in_range = percent > 0.0 && percent <= 100.0;
    (digits(whole) && digits(decimals) && in_range).then_some(percent)
}

/// What a row gained in some seconds.
#[derive(Debug)]
pub(crate) struct Span<'a> {
    /// Of the report, which says how ranks are rounded and times counted.
    pub(crate) definition: &'a Definition,
    /// How many seconds of it are known: at least 1.
    pub(crate) secs: u64,
    pub(crate) sum: Sum,
}

impl Span<'_> {
    fn requests(&self) -> f64 {
        self.sum.totals.requests as f64
    }

    fn hits(&self) -> f64 {
        self.sum.totals.hits as f64
    }

    fn time(&self) -> f64 {
        self.sum.totals.time as f64 / 1e6
    }

    fn cpu(&self) -> f64 {
        (self.sum.totals.ru_utime + self.sum.totals.ru_stime) as f64 / 1e6
    }

    fn errors(&self) -> f64 {
        self.sum.totals.errors as f64
    }

    fn per_sec(&self, sum: f64) -> Option<f64> {
        Some(sum / self.secs as f64)
    }

    fn average(&self, sum: f64) -> Option<f64> {
        let events = match self.definition.level {
            Level::Timer => self.hits(),
            _ => self.requests(),
        };
        (events > 0.0).then(|| sum / events)
    }

    fn percentile(&self, percent: f64) -> Option<f64> {
        let histogram = self.sum.histogram()?;
        let total: u64 = histogram.iter().map(|(_, count)| count).sum();
        let rank = Rank::percent(percent, self.definition.kind.rounding())?;
        let quantile = || {
            let buckets = &self.definition.buckets;
            buckets.quantile(rank, total, histogram.iter())
        };
        (total > 0).then(quantile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::builtin;
    use crate::report::definition::Defaults;

    #[test]
    fn every_metric_is_found_by_its_name() {
        for name in Metric::names() {
            let metric = Metric::parse(name).unwrap();
            assert_eq!(metric.name(), name);
            assert!(!metric.unit().is_empty());
        }
        for (given, name) in [
            ("p99.9", "p99_9"),
            ("p99_90", "p99_9"),
            ("p99_95", "p99_95"),
            ("p0_001", "p0_001"),
            ("p100", "p100"),
            ("p095", "p95"),
        ] {
            assert_eq!(
                Metric::parse(given).map(|metric| metric.name()),
                Some(name.into())
            );
        }
        for none in [
            "p", "p0", "p0_000", "p101", "p100_1", "p0095", "p1e1", "p-5", "p95.", "p99.9999", "",
            "req",
        ] {
            assert!(Metric::parse(none).is_none(), "{none}");
        }
    }

    #[test]
    fn averages_of_nothing_are_unknown_and_sums_are_nought() {
        let definitions = builtin::reports(&Defaults::default());
        let span = Span {
            definition: &definitions[0],
            secs: 1,
            sum: Sum::default(),
        };
        for name in Metric::names() {
            let unknown =
                name.ends_with("_avg") || name == "error_percent" || name.starts_with('p');
            let number = Metric::parse(name).unwrap().of(&span);
            assert_eq!(number, (!unknown).then_some(0.0), "{name}");
        }
    }
}
