//! The shapes of Pinba's own kinds: `info`, `report1` to `report18`, the timer-tag and the request-tag reports.
//!
//! Names, order and types are those that clients bind to by position. What differs from Pinba is what the numbers
//! are: true totals (also `ru_stime_total`), times to the microsecond, rates over the seconds that the data spans,
//! shares of nothing 0. Sums of bytes are in KiB. Runs once when a report is defined.

use super::list::{List, key_length};
use super::view::{self, HistogramView};
use super::{Cell, Denominator, Measure, OfNothing, Part, Shape, Unit};
use crate::report::definition::{Defaults, Field, Key, KeySource};
use crate::report::histogram::Layout;
use crate::value::ColumnType::{self, Float, Int, Varchar};

use Denominator::Covered;
use OfNothing::Zero;

/// The one row of `info`.
pub(in crate::report) fn info(percentiles: &[f64]) -> Shape {
    let mut list = List::default();
    list.push("req_count", Int, Cell::Count(Measure::Requests));
    list.push("time_total", Float, Cell::Seconds(Measure::Time));
    list.push("ru_utime_total", Float, Cell::Seconds(Measure::RuUtime));
    list.push("ru_stime_total", Float, Cell::Seconds(Measure::RuStime));
    list.push("time_interval", Int, Cell::TimeInterval);
    list.push("kbytes_total", Float, Cell::Kib(Measure::Traffic));
    list.push("memory_footprint", Float, Cell::Kib(Measure::Memory));
    list.push("req_time_median", Float, Cell::Quantile(0));
    list.percentiles(percentiles, Float);
    list.shape()
}

/// A base report: 14 sums, the key columns, memory, median, `index_value`, percentiles.
pub(in crate::report) fn base(
    keys: &[Key],
    index: &[Part],
    percentiles: &[f64],
    defaults: &Defaults,
) -> Shape {
    let mut list = List::default();
    request_sums(&mut list);
    for (place, key) in keys.iter().enumerate() {
        // Base reports have fields only, and fields are shown by their names.
        list.push(
            key.source.to_string(),
            key_type(&key.source, defaults),
            Cell::Key(place),
        );
    }
    memory_and_median(&mut list);
    index_value(&mut list, index, keys, defaults);
    list.percentiles(percentiles, Float);
    list.shape()
}

/// A request-tag report: hostname (in the `_report` kinds) and tag values, then what base reports have.
pub(in crate::report) fn request_tags(
    keys: &[Key],
    numbered: bool,
    index: &[Part],
    percentiles: &[f64],
    defaults: &Defaults,
) -> Shape {
    let mut list = List::default();
    for (place, name) in value_names(keys, numbered).enumerate() {
        list.push(
            name,
            key_type(&keys[place].source, defaults),
            Cell::Key(place),
        );
    }
    request_sums(&mut list);
    memory_and_median(&mut list);
    index_value(&mut list, index, keys, defaults);
    list.percentiles(percentiles, Float);
    list.shape()
}

/// A timer-tag report: script name (in the `_report` kinds) and tag values, the sums, host and server (in the
/// `_report2` kinds) between `timer_value` and `timer_median`.
pub(in crate::report) fn timer_tags(
    keys: &[Key],
    numbered: bool,
    index: &[Part],
    percentiles: &[f64],
    defaults: &Defaults,
) -> Shape {
    let mut list = List::default();
    let mut after_value = List::default();
    for (place, name) in value_names(keys, numbered).enumerate() {
        let source = &keys[place].source;
        let side = match source {
            KeySource::Field(Field::Hostname | Field::ServerName) => &mut after_value,
            _ => &mut list,
        };
        side.push(name, key_type(source, defaults), Cell::Key(place));
    }
    list.push("req_count", Int, Cell::Count(Measure::Requests));
    list.push(
        "req_per_sec",
        Float,
        Cell::PerSec(Measure::Requests, Unit::Count, Covered),
    );
    list.push("hit_count", Int, Cell::Count(Measure::Hits));
    list.push(
        "hit_per_sec",
        Float,
        Cell::PerSec(Measure::Hits, Unit::Count, Covered),
    );
    list.push("timer_value", Float, Cell::Seconds(Measure::Time));
    list.append(after_value);
    list.push("timer_median", Float, Cell::Quantile(0));
    list.push("ru_utime_value", Float, Cell::Seconds(Measure::RuUtime));
    list.push("ru_stime_value", Float, Cell::Seconds(Measure::RuStime));
    index_value(&mut list, index, keys, defaults);
    list.percentiles(percentiles, Float);
    list.shape()
}

/// The histogram view of any of them. `None` when the layout has no segments to show (it is not linear).
pub(in crate::report) fn histogram_view(
    keys: &[Key],
    index: &[Part],
    layout: Layout,
    count: Measure,
    defaults: &Defaults,
) -> Option<Shape> {
    let Layout::Linear { max_us, size } = layout else {
        return None;
    };
    let view = HistogramView {
        parts: index.into(),
        max_us,
        size,
        count,
    };
    Some(view::shape(view, index_length(index, keys, defaults)))
}

/// Positions 0 to 13 of base reports.
fn request_sums(list: &mut List) {
    list.push("req_count", Int, Cell::Count(Measure::Requests));
    list.push(
        "req_per_sec",
        Float,
        Cell::PerSec(Measure::Requests, Unit::Count, Covered),
    );
    for (total, percent, per_sec, measure) in [
        (
            "req_time_total",
            "req_time_percent",
            "req_time_per_sec",
            Measure::Time,
        ),
        (
            "ru_utime_total",
            "ru_utime_percent",
            "ru_utime_per_sec",
            Measure::RuUtime,
        ),
        (
            "ru_stime_total",
            "ru_stime_percent",
            "ru_stime_per_sec",
            Measure::RuStime,
        ),
    ] {
        list.push(total, Float, Cell::Seconds(measure));
        list.push(percent, Float, Cell::Percent(measure, Zero));
        list.push(
            per_sec,
            Float,
            Cell::PerSec(measure, Unit::Seconds, Covered),
        );
    }
    list.push("traffic_total", Float, Cell::Kib(Measure::Traffic));
    list.push(
        "traffic_percent",
        Float,
        Cell::Percent(Measure::Traffic, Zero),
    );
    list.push(
        "traffic_per_sec",
        Float,
        Cell::PerSec(Measure::Traffic, Unit::Kib, Covered),
    );
}

fn memory_and_median(list: &mut List) {
    list.push("memory_footprint_total", Float, Cell::Kib(Measure::Memory));
    list.push(
        "memory_footprint_percent",
        Float,
        Cell::Percent(Measure::Memory, Zero),
    );
    list.push("req_time_median", Float, Cell::Quantile(0));
}

fn index_value(list: &mut List, index: &[Part], keys: &[Key], defaults: &Defaults) {
    let length = index_length(index, keys, defaults);
    list.push(
        "index_value",
        Varchar(length),
        Cell::IndexValue(index.into()),
    );
}

/// Longest `index_value`: its keys and separators. Pinba declares 256 and lets long ones be cut.
fn index_length(index: &[Part], keys: &[Key], defaults: &Defaults) -> u16 {
    let longest = index.iter().map(|part| match part {
        Part::Key(key) => keys
            .get(*key)
            .map_or(0, |key| key_length(&key.source, defaults)),
        Part::Text(text) => u16::try_from(text.len()).unwrap_or(u16::MAX),
    });
    // A view without keys still has the column.
    longest.fold(0, u16::saturating_add).max(1)
}

/// Column names of the keys of tag reports: fields by name; tags `tag_value` in the kinds of one tag, else
/// `tag1_value`, `tag2_value`, ...
fn value_names(keys: &[Key], numbered: bool) -> impl Iterator<Item = String> + '_ {
    let mut tag = 0;
    keys.iter().map(move |key| match &key.source {
        KeySource::Field(field) => field.name().to_owned(),
        _ if numbered => {
            tag += 1;
            format!("tag{tag}_value")
        }
        _ => "tag_value".to_owned(),
    })
}

/// The column type of a key.
fn key_type(source: &KeySource, defaults: &Defaults) -> ColumnType {
    match source {
        KeySource::Field(Field::Status) => Int,
        _ => Varchar(key_length(source, defaults)),
    }
}
