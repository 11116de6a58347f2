//! The columns of pinba2's kinds: `v2/packet`, `v2/request`, `v2/timer`.
//!
//! Keys in COMMENT order, then the sums, then percentiles and the histogram's text. All keys are text, sums of
//! bytes are bytes, rates are over the whole window, shares of nothing are NULL. Runs once when a report is defined.

use super::list::{List, Listed, key_length};
use super::{Cell, ColumnLayout, Denominator, Measure, OfNothing, Unit};
use crate::report::definition::{Defaults, Field, Key, KeySource, Level};
use crate::report::histogram::BucketLayout;
use crate::value::ColumnType::{BigInt, Double, Float, Text, Varchar};

use Cell::Sum;
use Measure::{Hits, Memory, Requests, RuStime, RuUtime, Time, Traffic};
use Unit::{Bytes, Count, Seconds};

const fn per_sec(measure: Measure, unit: Unit) -> Cell {
    Cell::PerSec(measure, unit, Denominator::Window)
}

const fn percent(measure: Measure) -> Cell {
    Cell::Percent(measure, OfNothing::Null)
}

static PACKET: [Listed; 7] = [
    ("req_count", BigInt, Sum(Requests, Count)),
    ("timer_count", BigInt, Sum(Hits, Count)),
    ("time_total", Double, Sum(Time, Seconds)),
    ("ru_utime_total", Double, Sum(RuUtime, Seconds)),
    ("ru_stime_total", Double, Sum(RuStime, Seconds)),
    ("traffic", BigInt, Sum(Traffic, Bytes)),
    ("memory_footprint", BigInt, Sum(Memory, Bytes)),
];

static REQUEST: [Listed; 18] = [
    ("req_count", BigInt, Sum(Requests, Count)),
    ("req_per_sec", Float, per_sec(Requests, Count)),
    ("req_percent", Float, percent(Requests)),
    ("req_time_total", Float, Sum(Time, Seconds)),
    ("req_time_per_sec", Float, per_sec(Time, Seconds)),
    ("req_time_percent", Float, percent(Time)),
    ("ru_utime_total", Float, Sum(RuUtime, Seconds)),
    ("ru_utime_per_sec", Float, per_sec(RuUtime, Seconds)),
    ("ru_utime_percent", Float, percent(RuUtime)),
    ("ru_stime_total", Float, Sum(RuStime, Seconds)),
    ("ru_stime_per_sec", Float, per_sec(RuStime, Seconds)),
    ("ru_stime_percent", Float, percent(RuStime)),
    ("traffic_total", BigInt, Sum(Traffic, Bytes)),
    ("traffic_per_sec", Float, per_sec(Traffic, Bytes)),
    ("traffic_percent", Float, percent(Traffic)),
    ("memory_footprint", BigInt, Sum(Memory, Bytes)),
    ("memory_per_sec", Float, per_sec(Memory, Bytes)),
    ("memory_percent", Float, percent(Memory)),
];

static TIMER: [Listed; 15] = [
    ("req_count", BigInt, Sum(Requests, Count)),
    ("req_per_sec", Float, per_sec(Requests, Count)),
    ("req_percent", Float, percent(Requests)),
    ("hit_count", BigInt, Sum(Hits, Count)),
    ("hit_per_sec", Float, per_sec(Hits, Count)),
    ("hit_percent", Float, percent(Hits)),
    ("time_total", Float, Sum(Time, Seconds)),
    ("time_per_sec", Float, per_sec(Time, Seconds)),
    ("time_percent", Float, percent(Time)),
    ("ru_utime_total", Float, Sum(RuUtime, Seconds)),
    ("ru_utime_per_sec", Float, per_sec(RuUtime, Seconds)),
    ("ru_utime_percent", Float, percent(RuUtime)),
    ("ru_stime_total", Float, Sum(RuStime, Seconds)),
    ("ru_stime_per_sec", Float, per_sec(RuStime, Seconds)),
    ("ru_stime_percent", Float, percent(RuStime)),
];

/// The columns of a report.
pub(in crate::report) fn table(
    level: Level,
    keys: &[Key],
    percentiles: &[f64],
    buckets: BucketLayout,
    defaults: &Defaults,
) -> ColumnLayout {
    let mut list = List::default();
    // What stands between a bucket's number and its count.
    let gap = match level {
        Level::Packet => ": ",
        Level::Request | Level::Timer => ":",
    };
    list.extend(match level {
        Level::Packet => &PACKET,
        Level::Request => &REQUEST,
        Level::Timer => &TIMER,
    });
    list.percentiles(percentiles, Float);
    if let BucketLayout::V2(buckets) = buckets {
        list.push("histogram_data", Text, Cell::HistogramText(buckets, gap));
    }
    // A key is called as the COMMENT writes it, without its mark.
    list.prepend_keys(keys.iter().zip(0..).map(|(key, at)| {
        let name = match &key.source {
            KeySource::Field(field) => field_name(*field),
            KeySource::RequestTag(name)
            | KeySource::TimerTag(name)
            | KeySource::TimerTagOrField(name, _) => name,
        };
        let length = Varchar(key_length(&key.source, defaults));
        (name.to_owned(), &key.source, length, Cell::KeyText(at))
    }));
    list.layout()
}

/// pinba2's name of a field, without the `~`.
pub(in crate::report) const fn field_name(field: Field) -> &'static str {
    match field {
        Field::Hostname => "host",
        Field::ScriptName => "script",
        Field::ServerName => "server",
        Field::Schema => "schema",
        Field::Status => "status",
    }
}
