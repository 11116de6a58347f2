//! The daemon's own columns, for reports that are asked for by level and keys.
//!
//! Keys are named for what they are (`script_name`, `tag_env`, `timer_group`); a name that another column has is
//! prefixed once more. Sums of bytes are in bytes, rates are over the seconds that the data spans, shares of
//! nothing are 0, times are in seconds. Runs once when a report is defined.
//!
//! | level | columns after the keys |
//! |---|---|
//! | packet, request | `req_count` `req_per_sec` `req_percent` `error_count` `timer_count`, `req_time_` `total` `per_sec` `percent` `min` `max` `median`, percentiles, `ru_utime_` and `ru_stime_` `total` `per_sec` `percent`, `traffic_` and `memory_footprint_` `total` `per_sec` `percent`, `memory_peak_max` |
//! | timer | `req_count` `req_per_sec` `req_percent`, `hit_count` `hit_per_sec` `hit_percent`, `timer_value`, `timer_value_` `per_sec` `percent` `min` `max`, `timer_median`, percentiles, `ru_utime_` and `ru_stime_` `total` `per_sec` `percent` |
//!
//! Reports with `hv=` buckets end with `histogram_data`.

use super::list::{List, Listed, key_prefix, key_type};
use super::{Cell, ColumnLayout, Denominator, Measure, OfNothing, Unit};
use crate::report::definition::{Defaults, Key, KeySource, Level};
use crate::report::histogram::BucketLayout;
use crate::value::ColumnType::{BigInt, Double, Text};

use Cell::{MemoryPeakMax, Quantile, Sum, TimeMax, TimeMin};
use Measure::{Errors, Hits, Memory, Requests, RuStime, RuUtime, Time, Traffic};
use Unit::{Bytes, Count, Seconds};

const fn per_sec(measure: Measure, unit: Unit) -> Cell {
    Cell::PerSec(measure, unit, Denominator::Covered)
}

const fn percent(measure: Measure) -> Cell {
    Cell::Percent(measure, OfNothing::Zero)
}

/// At the levels packet and request; percentiles and [`RUSAGE`] follow.
static REQUEST: [Listed; 11] = [
    ("req_count", BigInt, Sum(Requests, Count)),
    ("req_per_sec", Double, per_sec(Requests, Count)),
    ("req_percent", Double, percent(Requests)),
    ("error_count", BigInt, Sum(Errors, Count)),
    ("timer_count", BigInt, Sum(Hits, Count)),
    ("req_time_total", Double, Sum(Time, Seconds)),
    ("req_time_per_sec", Double, per_sec(Time, Seconds)),
    ("req_time_percent", Double, percent(Time)),
    ("req_time_min", Double, TimeMin),
    ("req_time_max", Double, TimeMax),
    ("req_time_median", Double, Quantile(0)),
];

/// At level timer; percentiles and [`RUSAGE`] follow.
static TIMER: [Listed; 12] = [
    ("req_count", BigInt, Sum(Requests, Count)),
    ("req_per_sec", Double, per_sec(Requests, Count)),
    ("req_percent", Double, percent(Requests)),
    ("hit_count", BigInt, Sum(Hits, Count)),
    ("hit_per_sec", Double, per_sec(Hits, Count)),
    ("hit_percent", Double, percent(Hits)),
    ("timer_value", Double, Sum(Time, Seconds)),
    ("timer_value_per_sec", Double, per_sec(Time, Seconds)),
    ("timer_value_percent", Double, percent(Time)),
    ("timer_value_min", Double, TimeMin),
    ("timer_value_max", Double, TimeMax),
    ("timer_median", Double, Quantile(0)),
];

static RUSAGE: [Listed; 6] = [
    ("ru_utime_total", Double, Sum(RuUtime, Seconds)),
    ("ru_utime_per_sec", Double, per_sec(RuUtime, Seconds)),
    ("ru_utime_percent", Double, percent(RuUtime)),
    ("ru_stime_total", Double, Sum(RuStime, Seconds)),
    ("ru_stime_per_sec", Double, per_sec(RuStime, Seconds)),
    ("ru_stime_percent", Double, percent(RuStime)),
];

/// At the levels packet and request, behind [`RUSAGE`].
static BYTES: [Listed; 7] = [
    ("traffic_total", BigInt, Sum(Traffic, Bytes)),
    ("traffic_per_sec", Double, per_sec(Traffic, Bytes)),
    ("traffic_percent", Double, percent(Traffic)),
    ("memory_footprint_total", BigInt, Sum(Memory, Bytes)),
    ("memory_footprint_per_sec", Double, per_sec(Memory, Bytes)),
    ("memory_footprint_percent", Double, percent(Memory)),
    ("memory_peak_max", BigInt, MemoryPeakMax),
];

/// The columns of a native report.
pub(in crate::report) fn table(
    level: Level,
    keys: &[Key],
    percentiles: &[f64],
    buckets: BucketLayout,
    defaults: &Defaults,
) -> ColumnLayout {
    let mut list = List::default();
    let (sums, bytes): (&[Listed], &[Listed]) = match level {
        Level::Packet | Level::Request => (&REQUEST, &BYTES),
        Level::Timer => (&TIMER, &[]),
    };
    list.extend(sums);
    list.percentiles(percentiles, Double);
    list.extend(&RUSAGE);
    list.extend(bytes);
    if let BucketLayout::V2(buckets) = buckets {
        list.push("histogram_data", Text, Cell::HistogramText(buckets, ":"));
    }
    list.prepend_keys(keys.iter().zip(0..).map(|(key, at)| {
        let source = &key.source;
        let name = match source {
            KeySource::Field(field) => field.name().to_owned(),
            KeySource::RequestTag(name)
            | KeySource::TimerTag(name)
            | KeySource::TimerTagOrField(name, _) => format!("{}{name}", key_prefix(source)),
        };
        (name, source, key_type(source, defaults), Cell::Key(at))
    }));
    list.layout()
}
