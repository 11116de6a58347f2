//! The shapes of pinba2: `v2/packet`, `v2/request`, `v2/timer`.
//!
//! Keys in COMMENT order, then the sums, then percentiles and the histogram's text. All keys are text, sums of
//! bytes are bytes, rates are over the whole window, shares of nothing are NULL. Runs once when a report is defined.

use super::list::{List, key_length, key_prefix};
use super::{Cell, Denominator, Measure, OfNothing, Shape, Unit};
use crate::report::definition::{Defaults, Field, Key, KeySource};
use crate::report::histogram::Layout;
use crate::value::ColumnType::{BigInt, Double, Float, Text, Varchar};

/// `v2/packet`: one row of seven sums.
pub(in crate::report) fn packet(percentiles: &[f64], layout: Layout) -> Shape {
    let mut list = List::default();
    list.push("req_count", BigInt, Cell::Count(Measure::Requests));
    list.push("timer_count", BigInt, Cell::Count(Measure::Hits));
    list.push("time_total", Double, Cell::Seconds(Measure::Time));
    list.push("ru_utime_total", Double, Cell::Seconds(Measure::RuUtime));
    list.push("ru_stime_total", Double, Cell::Seconds(Measure::RuStime));
    list.push("traffic", BigInt, Cell::Bytes(Measure::Traffic));
    list.push("memory_footprint", BigInt, Cell::Bytes(Measure::Memory));
    quantiles(&mut list, percentiles, layout, ": ");
    list.shape()
}

/// `v2/request`: 18 columns after the keys.
pub(in crate::report) fn request(
    keys: &[Key],
    percentiles: &[f64],
    layout: Layout,
    defaults: &Defaults,
) -> Shape {
    let mut list = List::default();
    counts(&mut list, "req", Measure::Requests);
    times(&mut list, "req_time", Measure::Time);
    times(&mut list, "ru_utime", Measure::RuUtime);
    times(&mut list, "ru_stime", Measure::RuStime);
    for (total, name, measure) in [
        ("traffic_total", "traffic", Measure::Traffic),
        ("memory_footprint", "memory", Measure::Memory),
    ] {
        list.push(total, BigInt, Cell::Bytes(measure));
        rates(&mut list, name, measure, Unit::Bytes);
    }
    quantiles(&mut list, percentiles, layout, ":");
    list.prepend_keys(keys.iter().enumerate().map(|key| column(key, defaults)));
    list.shape()
}

/// `v2/timer`: 15 columns after the keys.
pub(in crate::report) fn timer(
    keys: &[Key],
    percentiles: &[f64],
    layout: Layout,
    defaults: &Defaults,
) -> Shape {
    let mut list = List::default();
    counts(&mut list, "req", Measure::Requests);
    counts(&mut list, "hit", Measure::Hits);
    times(&mut list, "time", Measure::Time);
    times(&mut list, "ru_utime", Measure::RuUtime);
    times(&mut list, "ru_stime", Measure::RuStime);
    quantiles(&mut list, percentiles, layout, ":");
    list.prepend_keys(keys.iter().enumerate().map(|key| column(key, defaults)));
    list.shape()
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

/// A key as the COMMENT writes it, without its mark.
fn column(
    (place, key): (usize, &Key),
    defaults: &Defaults,
) -> (String, &'static str, crate::value::ColumnType, Cell) {
    let name = match &key.source {
        KeySource::Field(field) => field_name(*field).to_owned(),
        KeySource::RequestTag(name)
        | KeySource::TimerTag(name)
        | KeySource::TimerTagOrField(name, _) => name.clone(),
    };
    let length = Varchar(key_length(&key.source, defaults));
    (name, key_prefix(&key.source), length, Cell::KeyText(place))
}

fn counts(list: &mut List, name: &str, measure: Measure) {
    list.push(format!("{name}_count"), BigInt, Cell::Count(measure));
    rates(list, name, measure, Unit::Count);
}

fn times(list: &mut List, name: &str, measure: Measure) {
    list.push(format!("{name}_total"), Float, Cell::Seconds(measure));
    rates(list, name, measure, Unit::Seconds);
}

fn rates(list: &mut List, name: &str, measure: Measure, unit: Unit) {
    let per_sec = Cell::PerSec(measure, unit, Denominator::Window);
    list.push(format!("{name}_per_sec"), Float, per_sec);
    list.push(
        format!("{name}_percent"),
        Float,
        Cell::Percent(measure, OfNothing::Null),
    );
}

/// Percentiles, and the text of `hv=` buckets.
fn quantiles(list: &mut List, percentiles: &[f64], layout: Layout, gap: &'static str) {
    list.percentiles(percentiles, Float);
    if let Layout::V2(buckets) = layout {
        list.push("histogram_data", Text, Cell::HistogramText(buckets, gap));
    }
}
