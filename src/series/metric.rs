//! What can be drawn over time: the numbers that a row's sums and histogram give for a span of seconds.
//!
//! Pure arithmetic. Times and CPU are in seconds, sizes in bytes; a number per second is over the seconds that are known,
//! so the running, unfinished point of a line shows the right height.

use crate::report::counts::Histogram;
use crate::report::histogram::{BucketLayout, Rank, Rounding};
use crate::report::totals::Totals;

/// One number of a row over some seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Requests.
    ReqCount,
    /// Requests a second.
    ReqPerSec,
    /// Timer reports: hits. Others: timers.
    HitCount,
    /// The same a second.
    HitPerSec,
    /// Request time, or timer value, of all together, seconds.
    TimeTotal,
    /// The same divided by requests (by hits in timer reports), seconds.
    TimeAvg,
    /// The same a second: how many requests were at work at once, on average.
    TimePerSec,
    /// The request time (timer value per hit) that so many percent do not exceed, seconds.
    Percentile(Percent),
    /// User and system CPU, seconds.
    Cpu,
    /// The same divided by requests (by hits in timer reports), seconds.
    CpuAvg,
    /// The same a second: how many cores were busy.
    CpuPerSec,
    /// Document sizes, bytes. 0 in timer reports.
    Traffic,
    /// The same a second.
    TrafficPerSec,
    /// Memory footprint, average of the requests, bytes. 0 in timer reports.
    MemoryAvg,
    /// Requests with an error status. 0 in timer reports.
    Errors,
    /// The same a second.
    ErrorsPerSec,
    /// Their share of the requests, percent.
    ErrorPercent,
}

/// A rank in percent, with up to three decimals: more than 0, at most 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Percent {
    thousandths: u32,
}

impl Percent {
    fn parse(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once(['_', '.']).unwrap_or((text, "0"));
        let digits = |text: &str, most: usize| {
            (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(whole, 3) || !digits(decimals, 3) {
            return None;
        }
        // Three digits, so that they are thousandths.
        let thousandths = format!("{whole}{decimals:0<3}").parse().ok()?;
        (1..=100_000)
            .contains(&thousandths)
            .then_some(Self { thousandths })
    }
}

/// `95`, `99_9`: as in the names of report columns.
impl std::fmt::Display for Percent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, rest) = (self.thousandths / 1000, self.thousandths % 1000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let decimals = format!("{rest:03}");
        write!(f, "{whole}_{}", decimals.trim_end_matches('0'))
    }
}

/// A metric with its name, its unit, and the number for a row; `None`: there is none.
type Line = (
    Metric,
    &'static str,
    &'static str,
    fn(&Span<'_>) -> Option<f64>,
);

/// All, of the percentiles the three usual ones; the names of others follow a rule.
#[rustfmt::skip]
const LINES: [Line; 19] = [
    (Metric::ReqCount, "req_count", "requests", |it| Some(it.requests())),
    (Metric::ReqPerSec, "req_per_sec", "requests/s", |it| it.per_sec(it.requests())),
    (Metric::HitCount, "hit_count", "hits", |it| Some(it.hits())),
    (Metric::HitPerSec, "hit_per_sec", "hits/s", |it| it.per_sec(it.hits())),
    (Metric::TimeTotal, "time_total", "s", |it| Some(it.time())),
    (Metric::TimeAvg, "time_avg", "s", |it| it.average(it.time())),
    (Metric::TimePerSec, "time_per_sec", "s/s", |it| it.per_sec(it.time())),
    (Metric::P50, "p50", "s", |it| it.percentile(50.0)),
    (Metric::P95, "p95", "s", |it| it.percentile(95.0)),
    (Metric::P99, "p99", "s", |it| it.percentile(99.0)),
    (Metric::Cpu, "cpu", "s", |it| Some(it.cpu())),
    (Metric::CpuAvg, "cpu_avg", "s", |it| it.average(it.cpu())),
    (Metric::CpuPerSec, "cpu_per_sec", "s/s", |it| it.per_sec(it.cpu())),
    (Metric::Traffic, "traffic", "bytes", |it| Some(it.totals.traffic as f64)),
    (Metric::TrafficPerSec, "traffic_per_sec", "bytes/s", |it| it.per_sec(it.totals.traffic as f64)),
    (Metric::MemoryAvg, "memory_avg", "bytes", |it| it.average(it.totals.memory as f64)),
    (Metric::Errors, "errors", "errors", |it| Some(it.totals.errors as f64)),
    (Metric::ErrorsPerSec, "errors_per_sec", "errors/s", |it| it.per_sec(it.totals.errors as f64)),
    (Metric::ErrorPercent, "error_percent", "%", |it| it.average(it.totals.errors as f64 * 100.0)),
];

impl Metric {
    /// The median.
    pub const P50: Self = Self::Percentile(Percent {
        thousandths: 50_000,
    });
    /// What one in twenty exceeds.
    pub const P95: Self = Self::Percentile(Percent {
        thousandths: 95_000,
    });
    /// What one in a hundred exceeds.
    pub const P99: Self = Self::Percentile(Percent {
        thousandths: 99_000,
    });

    /// All of them, of the percentiles the three usual ones.
    pub fn all() -> impl Iterator<Item = Self> {
        LINES.iter().map(|(metric, ..)| *metric)
    }

    /// The metric of this name: `req_per_sec`, `p95`, `p99_9` (`p99.9` too), ...
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(percent) = name.strip_prefix('p').and_then(Percent::parse) {
            return Some(Self::Percentile(percent));
        }
        let line = LINES.iter().find(|(_, known, ..)| *known == name)?;
        Some(line.0)
    }

    /// Its name, as [`parse`](Self::parse) takes it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Percentile(percent) => format!("p{percent}"),
            _ => self
                .line()
                .map_or_else(String::new, |line| line.1.to_owned()),
        }
    }

    /// What its numbers are in.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        self.line().map_or("s", |line| line.2)
    }

    fn line(&self) -> Option<&'static Line> {
        LINES.iter().find(|(metric, ..)| metric == self)
    }

    /// Whether the histogram is needed.
    pub(super) fn needs_histogram(&self) -> bool {
        matches!(self, Self::Percentile(_))
    }

    /// The number for a row that gained `span` in `span.secs` known seconds; `None` when there is none.
    pub(super) fn of(&self, span: &Span<'_>) -> Option<f64> {
        match self {
            Self::Percentile(percent) => span.percentile(f64::from(percent.thousandths) / 1e3),
            _ => self.line()?.3(span),
        }
    }
}

/// What a row gained in some seconds.
#[derive(Debug)]
pub(super) struct Span<'a> {
    pub(super) totals: Totals,
    /// How many seconds of it are known: at least 1.
    pub(super) secs: u64,
    pub(super) of_timers: bool,
    /// As the report itself rounds ranks.
    pub(super) rounding: Rounding,
    /// As the report itself counts times.
    pub(super) buckets: BucketLayout,
    /// `None`: not kept.
    pub(super) histogram: Option<&'a Histogram>,
}

impl Span<'_> {
    fn requests(&self) -> f64 {
        self.totals.requests as f64
    }

    fn hits(&self) -> f64 {
        self.totals.hits as f64
    }

    fn time(&self) -> f64 {
        self.totals.time as f64 / 1e6
    }

    fn cpu(&self) -> f64 {
        (self.totals.ru_utime + self.totals.ru_stime) as f64 / 1e6
    }

    fn per_sec(&self, sum: f64) -> Option<f64> {
        Some(sum / self.secs as f64)
    }

    fn average(&self, sum: f64) -> Option<f64> {
        let events = if self.of_timers {
            self.hits()
        } else {
            self.requests()
        };
        (events > 0.0).then(|| sum / events)
    }

    fn percentile(&self, percent: f64) -> Option<f64> {
        let histogram = self.histogram?;
        let total: u64 = histogram.iter().map(|(_, count)| count).sum();
        if total == 0 {
            return None;
        }
        let rank = Rank::percent(percent, self.rounding)?;
        Some(self.buckets.quantile(rank, total, histogram.iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_found_by_its_name() {
        for metric in Metric::all() {
            assert_eq!(Metric::parse(&metric.name()), Some(metric));
            assert!(!metric.unit().is_empty());
        }
        assert_eq!(Metric::P95.name(), "p95");
        for (given, name) in [("p99.9", "p99_9"), ("p99_95", "p99_95"), ("p100", "p100")] {
            assert_eq!(
                Metric::parse(given).map(|metric| metric.name()),
                Some(name.into())
            );
        }
        for none in [
            "p", "p0", "p101", "p1e1", "p-5", "p95.", "p99.9999", "", "req",
        ] {
            assert_eq!(Metric::parse(none), None, "{none}");
        }
    }

    #[test]
    fn averages_of_nothing_are_unknown_and_sums_are_nought() {
        let span = Span {
            totals: Totals::ZERO,
            secs: 1,
            of_timers: false,
            rounding: Rounding::Down,
            buckets: BucketLayout::LogLinear,
            histogram: Some(&Histogram::new()),
        };
        for metric in Metric::all() {
            let unknown = matches!(
                metric,
                Metric::TimeAvg
                    | Metric::CpuAvg
                    | Metric::MemoryAvg
                    | Metric::ErrorPercent
                    | Metric::Percentile(_)
            );
            assert_eq!(metric.of(&span), (!unknown).then_some(0.0), "{metric:?}");
        }
    }
}
