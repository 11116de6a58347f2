//! The daemon's own shape, for reports that are asked for by level and keys.
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

use super::list::{List, key_length, key_prefix};
use super::{Cell, Denominator, Measure, OfNothing, Shape, Unit};
use crate::report::definition::{Defaults, Field, Key, KeySource, Level};
use crate::report::histogram::Layout;
use crate::value::ColumnType::{self, BigInt, Double, Int, Text, Varchar};

/// The columns of a native report.
pub(in crate::report) fn shape(
    level: Level,
    keys: &[Key],
    percentiles: &[f64],
    layout: Layout,
    defaults: &Defaults,
) -> Shape {
    let mut list = List::default();
    list.push("req_count", BigInt, Cell::Count(Measure::Requests));
    rates(&mut list, "req", Measure::Requests, Unit::Count);
    match level {
        Level::Packet | Level::Request => request_columns(&mut list, percentiles),
        Level::Timer => timer_columns(&mut list, percentiles),
    }
    if let Layout::V2(buckets) = layout {
        list.push("histogram_data", Text, Cell::HistogramText(buckets, ":"));
    }
    list.prepend_keys(keys.iter().enumerate().map(|key| column(key, defaults)));
    list.shape()
}

fn request_columns(list: &mut List, percentiles: &[f64]) {
    list.push("error_count", BigInt, Cell::Count(Measure::Errors));
    list.push("timer_count", BigInt, Cell::Count(Measure::Hits));
    list.push("req_time_total", Double, Cell::Seconds(Measure::Time));
    rates(list, "req_time", Measure::Time, Unit::Seconds);
    list.push("req_time_min", Double, Cell::TimeMin);
    list.push("req_time_max", Double, Cell::TimeMax);
    list.push("req_time_median", Double, Cell::Quantile(0));
    list.percentiles(percentiles, Double);
    rusage(list);
    for (name, measure) in [
        ("traffic", Measure::Traffic),
        ("memory_footprint", Measure::Memory),
    ] {
        list.push(format!("{name}_total"), BigInt, Cell::Bytes(measure));
        rates(list, name, measure, Unit::Bytes);
    }
    list.push("memory_peak_max", BigInt, Cell::MemoryPeakMax);
}

fn timer_columns(list: &mut List, percentiles: &[f64]) {
    list.push("hit_count", BigInt, Cell::Count(Measure::Hits));
    rates(list, "hit", Measure::Hits, Unit::Count);
    list.push("timer_value", Double, Cell::Seconds(Measure::Time));
    rates(list, "timer_value", Measure::Time, Unit::Seconds);
    list.push("timer_value_min", Double, Cell::TimeMin);
    list.push("timer_value_max", Double, Cell::TimeMax);
    list.push("timer_median", Double, Cell::Quantile(0));
    list.percentiles(percentiles, Double);
    rusage(list);
}

fn rusage(list: &mut List) {
    for (name, measure) in [
        ("ru_utime", Measure::RuUtime),
        ("ru_stime", Measure::RuStime),
    ] {
        list.push(format!("{name}_total"), Double, Cell::Seconds(measure));
        rates(list, name, measure, Unit::Seconds);
    }
}

fn rates(list: &mut List, name: &str, measure: Measure, unit: Unit) {
    let per_sec = Cell::PerSec(measure, unit, Denominator::Covered);
    list.push(format!("{name}_per_sec"), Double, per_sec);
    list.push(
        format!("{name}_percent"),
        Double,
        Cell::Percent(measure, OfNothing::Zero),
    );
}

fn column(
    (place, key): (usize, &Key),
    defaults: &Defaults,
) -> (String, &'static str, ColumnType, Cell) {
    let prefix = key_prefix(&key.source);
    let name = match &key.source {
        KeySource::Field(field) => field.name().to_owned(),
        KeySource::RequestTag(name)
        | KeySource::TimerTag(name)
        | KeySource::TimerTagOrField(name, _) => format!("{prefix}{name}"),
    };
    let column_type = match key.source {
        KeySource::Field(Field::Status) => Int,
        _ => Varchar(key_length(&key.source, defaults)),
    };
    (name, prefix, column_type, Cell::Key(place))
}
