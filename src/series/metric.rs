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
    fn rank(self, rounding: Rounding) -> Option<Rank> {
        Rank::percent(f64::from(self.thousandths) / 1e3, rounding)
    }

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

/// All with names and units, of the percentiles the three usual ones; the names of others follow a rule.
const NAMES: [(Metric, &str, &str); 19] = [
    (Metric::ReqCount, "req_count", "requests"),
    (Metric::ReqPerSec, "req_per_sec", "requests/s"),
    (Metric::HitCount, "hit_count", "hits"),
    (Metric::HitPerSec, "hit_per_sec", "hits/s"),
    (Metric::TimeTotal, "time_total", "s"),
    (Metric::TimeAvg, "time_avg", "s"),
    (Metric::TimePerSec, "time_per_sec", "s/s"),
    (Metric::P50, "p50", "s"),
    (Metric::P95, "p95", "s"),
    (Metric::P99, "p99", "s"),
    (Metric::Cpu, "cpu", "s"),
    (Metric::CpuAvg, "cpu_avg", "s"),
    (Metric::CpuPerSec, "cpu_per_sec", "s/s"),
    (Metric::Traffic, "traffic", "bytes"),
    (Metric::TrafficPerSec, "traffic_per_sec", "bytes/s"),
    (Metric::MemoryAvg, "memory_avg", "bytes"),
    (Metric::Errors, "errors", "errors"),
    (Metric::ErrorsPerSec, "errors_per_sec", "errors/s"),
    (Metric::ErrorPercent, "error_percent", "%"),
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
        NAMES.into_iter().map(|(metric, ..)| metric)
    }

    /// The metric of this name: `req_per_sec`, `p95`, `p99_9` (`p99.9` too), ...
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(percent) = name.strip_prefix('p').and_then(Percent::parse) {
            return Some(Self::Percentile(percent));
        }
        let line = NAMES.iter().find(|(_, known, _)| *known == name)?;
        Some(line.0)
    }

    /// Its name, as [`parse`](Self::parse) takes it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Percentile(percent) => format!("p{percent}"),
            _ => self.line().1.to_owned(),
        }
    }

    /// What its numbers are in.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        self.line().2
    }

    fn line(&self) -> (Self, &'static str, &'static str) {
        let line = NAMES.iter().find(|(metric, ..)| metric == self);
        line.copied().unwrap_or((*self, "", "s"))
    }

    /// Whether the histogram is needed.
    pub(super) fn needs_histogram(&self) -> bool {
        matches!(self, Self::Percentile(_))
    }

    /// The number for a row that gained `span` in `span.secs` known seconds; `None` when there is none.
    pub(super) fn of(&self, span: &Span<'_>) -> Option<f64> {
        let totals = &span.totals;
        let (secs, requests) = (span.secs as f64, totals.requests as f64);
        let events = if span.of_timers {
            totals.hits as f64
        } else {
            requests
        };
        let average = |sum: f64| (events > 0.0).then(|| sum / events);
        let time = seconds(totals.time);
        let cpu = seconds(totals.ru_utime + totals.ru_stime);
        let hits = totals.hits as f64;
        Some(match self {
            Self::ReqCount => requests,
            Self::ReqPerSec => requests / secs,
            Self::HitCount => hits,
            Self::HitPerSec => hits / secs,
            Self::TimeTotal => time,
            Self::TimeAvg => return average(time),
            Self::TimePerSec => time / secs,
            Self::Percentile(percent) => return span.percentile(*percent),
            Self::Cpu => cpu,
            Self::CpuAvg => return average(cpu),
            Self::CpuPerSec => cpu / secs,
            Self::Traffic => totals.traffic as f64,
            Self::TrafficPerSec => totals.traffic as f64 / secs,
            Self::MemoryAvg => return average(totals.memory as f64),
            Self::Errors => totals.errors as f64,
            Self::ErrorsPerSec => totals.errors as f64 / secs,
            Self::ErrorPercent => {
                return average(totals.errors as f64 * 100.0);
            }
        })
    }
}

fn seconds(us: u128) -> f64 {
    us as f64 / 1e6
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
    /// `None`: not kept.
    pub(super) histogram: Option<&'a Histogram>,
}

impl Span<'_> {
    fn percentile(&self, percent: Percent) -> Option<f64> {
        let histogram = self.histogram?;
        let total: u64 = histogram.iter().map(|(_, count)| count).sum();
        if total == 0 {
            return None;
        }
        let rank = percent.rank(self.rounding)?;
        Some(BucketLayout::LogLinear.quantile(rank, total, histogram.iter()))
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
