//! Metrics over time: numbers computed from a row's sums and histogram over a span of seconds.
//!
//! Pure arithmetic. Times and CPU are in seconds, sizes in bytes; rates are over the known seconds,
//! so that the running, unfinished point of a line has the right height.

use crate::grammar::percentile::percentile_of_name;
use crate::report::definition::{Definition, Level};
use crate::report::encoded_gain::Sum;
use crate::report::histogram::{BucketLayout, Rank, Rounding, within};
use crate::report::layout::Measure;
use crate::report::layout::Measure::{
    Errors, Hits, Memory, Requests, RuStime, RuUtime, Time, Traffic,
};
use crate::report::totals::Extremes;
use crate::value;

/// One number of a row over some seconds.
#[derive(Debug, Clone, Copy)]
pub enum Metric {
    /// A sum, its rate, or its average.
    Named(&'static Named),
    /// The request time (timer value per hit) not exceeded by this percentage, in seconds.
    Percentile(f64),
}

/// Name, unit, summed measures, and their divisor.
type Named = (&'static str, &'static str, &'static [Measure], Per);

/// The divisor of a sum.
#[derive(Debug, Clone, Copy)]
pub enum Per {
    /// None.
    All,
    /// Known seconds.
    Second,
    /// Requests, or hits in timer reports.
    Event,
    /// Those whose CPU times and memory are known.
    Measured,
}

/// All metrics except percentiles. Sums of times cover all requests (or timers), so time per second
/// is the average number of concurrent ones. Timers have no traffic, memory and errors.
static NAMED: [Named; 16] = [
    ("req_count", "requests", &[Requests], Per::All),
    ("req_per_sec", "requests/s", &[Requests], Per::Second),
    ("hit_count", "hits", &[Hits], Per::All),
    ("hit_per_sec", "hits/s", &[Hits], Per::Second),
    ("time_total", "s", &[Time], Per::All),
    ("time_avg", "s", &[Time], Per::Event),
    ("time_per_sec", "s/s", &[Time], Per::Second),
    ("cpu", "s", &[RuUtime, RuStime], Per::All),
    ("cpu_avg", "s", &[RuUtime, RuStime], Per::Measured),
    ("cpu_per_sec", "s/s", &[RuUtime, RuStime], Per::Second),
    ("traffic", "bytes", &[Traffic], Per::All),
    ("traffic_per_sec", "bytes/s", &[Traffic], Per::Second),
    ("memory_avg", "bytes", &[Memory], Per::Measured),
    ("errors", "errors", &[Errors], Per::All),
    ("errors_per_sec", "errors/s", &[Errors], Per::Second),
    ("error_percent", "%", &[Errors], Per::Event),
];

impl Metric {
    /// The names of all metrics, with the three usual percentiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, ..)| *name).chain(["p50", "p95", "p99"])
    }

    /// Parses a name: `req_per_sec`, `p95`, `p99_9` (`p99.9` too), ...
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(percent) = percentile_of_name(name) {
            return Some(Self::Percentile(percent));
        }
        NAMED.iter().find(|it| it.0 == name).map(Self::Named)
    }

    /// Its name, as [`parse`](Self::parse) accepts it; percentiles are spelt as in report columns.
    pub fn name(&self) -> String {
        match self {
            Self::Named((name, ..)) => (*name).to_owned(),
            Self::Percentile(percent) => format!("p{percent}").replace('.', "_"),
        }
    }

    /// Whether it needs histograms.
    pub(crate) fn is_percentile(&self) -> bool {
        matches!(self, Self::Percentile(_))
    }

    /// The unit of its numbers.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Named((_, unit, ..)) => unit,
            Self::Percentile(_) => "s",
        }
    }

    /// The value for a row with this gain over `span.secs` known seconds; `None` if there is none.
    pub(crate) fn of(&self, span: &Span<'_>) -> Option<f64> {
        let totals = &span.sum.totals;
        let (unit, measures, per) = match self {
            Self::Percentile(percent) => return span.percentile(*percent),
            Self::Named((_, unit, measures, per)) => (*unit, measures, per),
        };
        let is_of_requests = matches!(measures[0], Traffic | Memory | Errors);
        if is_of_requests && span.definition.level == Level::Timer {
            return None;
        }
        if !span.definition.has_rusage && measures[0].is_rusage() {
            return None;
        }
        let sum = measures.iter().map(|it| it.of(totals)).sum::<u128>() as f64;
        let sum = match measures[0].unit() {
            value::Unit::Seconds => sum / 1e6,
            _ if unit == "%" => sum * 100.0,
            _ => sum,
        };
        let events = match (per, span.definition.level) {
            (Per::All, _) => return Some(sum),
            (Per::Second, level)
                if measures[0].is_rusage()
                    && totals.unmeasured > 0
                    && totals.measured(level) == 0 =>
            {
                return None;
            }
            (Per::Second, _) => return (span.secs > 0).then(|| sum / span.secs as f64),
            (Per::Measured, level) => totals.measured(level) as f64,
            (Per::Event, Level::Timer) => totals.hits as f64,
            (Per::Event, _) => totals.requests as f64,
        };
        (events > 0.0).then(|| sum / events)
    }
}

/// The gain of a row in some seconds.
#[derive(Debug)]
pub(crate) struct Span<'a> {
    /// The report's definition, which sets the rounding of ranks and the counting of times.
    pub(crate) definition: &'a Definition,
    /// Known seconds in the span; 0 if the process that counted something ended within the first.
    pub(crate) secs: u64,
    pub(crate) sum: Sum,
    /// [`Extremes::NOTHING`] where they are not kept.
    pub(crate) extremes: Extremes,
}

impl Span<'_> {
    /// The time in the middle of each bucket, microseconds, and how many it has; `None`: not known.
    pub(crate) fn spread(&self) -> Option<Vec<(u64, u64)>> {
        let middle = |bucket| {
            let (low, high) = self.definition.buckets.bounds(bucket);
            low.midpoint(high.saturating_sub(1).max(low))
        };
        let pairs = self.sum.histogram()?.iter();
        Some(pairs.map(|(bucket, count)| (middle(bucket), count)).collect())
    }

    fn percentile(&self, percent: f64) -> Option<f64> {
        let histogram = self.sum.histogram()?;
        let total: u64 = histogram.iter().map(|(_, count)| count).sum();
        // Charts share one rule, whatever the rule of the report's own table.
        let rank = Rank::percent(percent, Rounding::Up)?;
        let buckets = &self.definition.buckets;
        (total > 0).then(|| {
            let quantile = buckets.quantile(rank, total, histogram.iter());
            self.bounded(quantile, |bucket| buckets.ends(bucket))
        })
    }

    /// Limits a percentile, in seconds, to the extremes, as far as these are known; `ends` is as in
    /// [`BucketLayout::bounds_of`].
    pub(crate) fn bounded(&self, secs: f64, ends: impl Fn(u32) -> (u64, u64)) -> f64 {
        let histogram = self.sum.histogram().into_iter();
        let pairs = histogram.flat_map(|histogram| histogram.iter());
        let told = || BucketLayout::bounds_of(self.sum.totals.time, pairs, ends);
        within(secs, self.extremes.times_secs().or_else(told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::builtin;
    use crate::report::definition::Defaults;
    use crate::report::histogram::Histogram;
    use crate::report::totals::Totals;

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
            ("p99_999999", "p99_999999"),
            ("p100", "p100"),
            ("p095", "p95"),
        ] {
            assert_eq!(Metric::parse(given).map(|metric| metric.name()), Some(name.into()));
        }
        for none in [
            "p",
            "p0",
            "p0_000",
            "p101",
            "p100_1",
            "p0095",
            "p1e1",
            "p-5",
            "p95.",
            "p1_2_3",
            "p_5",
            "p99.9999999",
            "p0.0000001",
            "",
            "req",
        ] {
            assert!(Metric::parse(none).is_none(), "{none}");
        }
    }

    #[test]
    fn averages_of_cpu_and_memory_are_over_those_that_tell() {
        let definitions = builtin::reports(&Defaults::default());
        let of = |name: &str, unmeasured: u128| {
            let totals = Totals {
                requests: 10,
                time: 40_000_000,
                ru_utime: 3_000_000,
                ru_stime: 1_000_000,
                memory: 800,
                unmeasured,
                ..Totals::ZERO
            };
            let sum = Sum::of(totals, None);
            let extremes = Extremes::NOTHING;
            let span = Span { definition: &definitions[0], secs: 1, sum, extremes };
            Metric::parse(name).unwrap().of(&span)
        };
        assert_eq!(of("cpu_avg", 0), Some(0.4));
        assert_eq!((of("cpu_avg", 8), of("memory_avg", 8)), (Some(2.0), Some(400.0)));
        assert_eq!((of("cpu_avg", 10), of("memory_avg", 10)), (None, None));
        assert_eq!((of("cpu_per_sec", 9), of("cpu_per_sec", 10)), (Some(4.0), None));
        assert_eq!((of("time_avg", 10), of("cpu", 10)), (Some(4.0), Some(4.0)));
    }

    #[test]
    fn percentiles_are_between_the_shortest_and_the_longest_time() {
        let definitions = builtin::reports(&Defaults::default());
        let (mut histogram, mut totals) = (Histogram::new(), Totals::ZERO);
        // The middle of the first one's bucket is 22,143.
        for us in [22_200, 500_000, 500_001] {
            histogram.add(BucketLayout::LogLinear.bucket(us), 1);
            totals.time += u128::from(us);
        }
        let sum = Sum::of(totals, Some(histogram));
        let extremes = Extremes { time_min: 22_200, time_max: 500_001, memory_peak_max: 0 };
        let span = Span { definition: &definitions[0], secs: 1, sum, extremes };
        let of = |name: &str| Metric::parse(name).unwrap().of(&span);
        assert_eq!((of("p1"), of("p100")), (Some(0.0222), Some(0.500_001)));
    }

    #[test]
    fn averages_of_nothing_are_unknown_and_sums_are_nought() {
        let definitions = builtin::reports(&Defaults::default());
        let (sum, extremes) = (Sum::default(), Extremes::NOTHING);
        let span = Span { definition: &definitions[0], secs: 1, sum, extremes };
        for name in Metric::names() {
            let unknown =
                name.ends_with("_avg") || name == "error_percent" || name.starts_with('p');
            let number = Metric::parse(name).unwrap().of(&span);
            assert_eq!(number, (!unknown).then_some(0.0), "{name}");
        }
    }
}
