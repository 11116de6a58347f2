//! The columns of Pinba's own kinds: `info`, `report1` to `report18`, the timer-tag and the request-tag reports.
//!
//! Names, order and types are those that clients bind to by position. What differs from Pinba is what the numbers
//! are: true totals (also `ru_stime_total`), times to the microsecond, rates over the seconds that the data spans,
//! shares of nothing 0. Sums of bytes are in KiB. Runs once when a report is defined.

use super::list::{List, Listed, key_length, key_type};
use super::view::{self, HistogramView};
use super::{Cell, ColumnLayout, Denominator, IndexPart, Measure, OfNothing, Unit};
use crate::report::definition::{Defaults, Key, KeySource, Level};
use crate::report::histogram::BucketLayout;
use crate::report::v1_kinds::{Tags, V1Kind};
use crate::value::ColumnType::{Float, Int, Varchar};

use Cell::{Quantile, Sum, TimeInterval};
use Measure::{Hits, Memory, Requests, RuStime, RuUtime, Time, Traffic};
use Unit::{Count, Kib, Seconds};

const fn per_sec(measure: Measure, unit: Unit) -> Cell {
    Cell::PerSec(measure, unit, Denominator::Covered)
}

const fn percent(measure: Measure) -> Cell {
    Cell::Percent(measure, OfNothing::Zero)
}

/// The one row of `info`.
static INFO: [Listed; 8] = [
    ("req_count", Int, Sum(Requests, Count)),
    ("time_total", Float, Sum(Time, Seconds)),
    ("ru_utime_total", Float, Sum(RuUtime, Seconds)),
    ("ru_stime_total", Float, Sum(RuStime, Seconds)),
    ("time_interval", Int, TimeInterval),
    ("kbytes_total", Float, Sum(Traffic, Kib)),
    ("memory_footprint", Float, Sum(Memory, Kib)),
    ("req_time_median", Float, Quantile(0)),
];

/// Base reports and request-tag reports begin with these, and have [`MEMORY_AND_MEDIAN`] after them.
static REQUEST_SUMS: [Listed; 14] = [
    ("req_count", Int, Sum(Requests, Count)),
    ("req_per_sec", Float, per_sec(Requests, Count)),
    ("req_time_total", Float, Sum(Time, Seconds)),
    ("req_time_percent", Float, percent(Time)),
    ("req_time_per_sec", Float, per_sec(Time, Seconds)),
    ("ru_utime_total", Float, Sum(RuUtime, Seconds)),
    ("ru_utime_percent", Float, percent(RuUtime)),
    ("ru_utime_per_sec", Float, per_sec(RuUtime, Seconds)),
    ("ru_stime_total", Float, Sum(RuStime, Seconds)),
    ("ru_stime_percent", Float, percent(RuStime)),
    ("ru_stime_per_sec", Float, per_sec(RuStime, Seconds)),
    ("traffic_total", Float, Sum(Traffic, Kib)),
    ("traffic_percent", Float, percent(Traffic)),
    ("traffic_per_sec", Float, per_sec(Traffic, Kib)),
];

static MEMORY_AND_MEDIAN: [Listed; 3] = [
    ("memory_footprint_total", Float, Sum(Memory, Kib)),
    ("memory_footprint_percent", Float, percent(Memory)),
    ("req_time_median", Float, Quantile(0)),
];

/// Timer-tag reports begin with these, and have [`TIMER_REST`] after them.
static TIMER_SUMS: [Listed; 5] = [
    ("req_count", Int, Sum(Requests, Count)),
    ("req_per_sec", Float, per_sec(Requests, Count)),
    ("hit_count", Int, Sum(Hits, Count)),
    ("hit_per_sec", Float, per_sec(Hits, Count)),
    ("timer_value", Float, Sum(Time, Seconds)),
];

static TIMER_REST: [Listed; 3] = [
    ("timer_median", Float, Quantile(0)),
    ("ru_utime_value", Float, Sum(RuUtime, Seconds)),
    ("ru_stime_value", Float, Sum(RuStime, Seconds)),
];

/// The columns of a report. Keys stand behind the sums in base reports and before them in tag reports; those behind the
/// tags of a timer-tag report stand behind `timer_value`.
pub(in crate::report) fn table(
    kind: &V1Kind,
    keys: &[Key],
    index: &[IndexPart],
    percentiles: &[f64],
    defaults: &Defaults,
) -> ColumnLayout {
    let mut list = List::default();
    let names = key_names(kind, keys);
    let mut key_columns = keys.iter().zip(names).enumerate().map(|(at, (key, name))| {
        let column_type = key_type(&key.source, defaults);
        (name, column_type, Cell::Key(at))
    });
    let mut push_keys = |list: &mut List, count: usize| {
        for (name, column_type, cell) in key_columns.by_ref().take(count) {
            list.push(name, column_type, cell);
        }
    };
    match (kind.level, kind.tags) {
        (Level::Packet, _) => list.extend(&INFO),
        (Level::Request, Tags::None) => {
            list.extend(&REQUEST_SUMS);
            push_keys(&mut list, keys.len());
            list.extend(&MEMORY_AND_MEDIAN);
        }
        (Level::Request, _) => {
            push_keys(&mut list, keys.len());
            list.extend(&REQUEST_SUMS);
            list.extend(&MEMORY_AND_MEDIAN);
        }
        (Level::Timer, _) => {
            push_keys(&mut list, keys.len() - kind.after.len());
            list.extend(&TIMER_SUMS);
            push_keys(&mut list, kind.after.len());
            list.extend(&TIMER_REST);
        }
    }
    if kind.level != Level::Packet {
        let length = Varchar(index_length(index, keys, defaults));
        list.push("index_value", length, Cell::IndexValue(index.into()));
    }
    list.percentiles(percentiles, Float);
    list.layout()
}

/// The histogram view of any of them. `None` when the buckets are no segments to show (they are not linear).
pub(in crate::report) fn histogram_view(
    kind: &V1Kind,
    keys: &[Key],
    index: &[IndexPart],
    buckets: BucketLayout,
    defaults: &Defaults,
) -> Option<ColumnLayout> {
    let BucketLayout::Linear { max_us, size } = buckets else {
        return None;
    };
    let view = HistogramView {
        parts: index.into(),
        max_us,
        size,
        count: match kind.level {
            Level::Timer => Hits,
            Level::Packet | Level::Request => Requests,
        },
    };
    Some(view::layout(view, index_length(index, keys, defaults)))
}

/// Longest `index_value`: its keys and separators. Pinba declares 256 and lets long ones be cut.
fn index_length(index: &[IndexPart], keys: &[Key], defaults: &Defaults) -> u16 {
    let longest = index.iter().map(|part| match part {
        IndexPart::Key(key) => keys
            .get(*key)
            .map_or(0, |key| key_length(&key.source, defaults)),
        IndexPart::Text(text) => u16::try_from(text.len()).unwrap_or(u16::MAX),
    });
    // A view without keys still has the column.
    longest.fold(0, u16::saturating_add).max(1)
}

/// Column names of keys: fields by name; tags `tag_value` in the kinds of one tag, else `tag1_value`, `tag2_value`, ...
fn key_names(kind: &V1Kind, keys: &[Key]) -> impl Iterator<Item = String> {
    let is_numbered = kind.tags != Tags::One;
    let mut tag = 0;
    keys.iter().map(move |key| match &key.source {
        KeySource::Field(field) => field.name().to_owned(),
        _ if is_numbered => {
            tag += 1;
            format!("tag{tag}_value")
        }
        _ => "tag_value".to_owned(),
    })
}
