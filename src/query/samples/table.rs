//! Table `sample`: every member of each sample kept, newest first.

use std::borrow::Cow;
use std::sync::Arc;

use crate::input::stat::line::UNITS;
use crate::profile::{Frame, Segment, Snapshot};
use crate::query::table::Table;
use crate::value::{Column, Value};

/// Samples as rows.
pub(super) struct SampleTable {
    columns: Vec<Column>,
    /// Newest first.
    segments: Vec<Arc<Segment>>,
    /// The number of samples up to the end of each segment.
    ends: Vec<usize>,
    /// Offset from the monotonic clock's microseconds to those since 1970.
    unix_us: i64,
}

impl SampleTable {
    pub(super) fn new(columns: Vec<Column>, snapshot: Snapshot, unix_us: i64) -> Self {
        let mut segments = snapshot.segments;
        segments.reverse();
        let mut all = 0;
        let ends = segments.iter().map(|it| {
            all += it.samples.len();
            all
        });
        Self {
            columns,
            ends: ends.collect(),
            segments,
            unix_us,
        }
    }
}

/// A selection of the samples, in its own order.
pub(super) struct Chosen {
    pub(super) all: SampleTable,
    pub(super) rows: Vec<usize>,
}

impl Table for Chosen {
    fn columns(&self) -> &[Column] {
        &self.all.columns
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn value(&self, row: usize, column: usize) -> Value<'_> {
        self.all.value(self.rows[row], column)
    }
}

/// Converts a time of the extension to seconds.
pub(super) fn seconds(elapsed: u64) -> Value<'static> {
    Value::Float(elapsed as f64 / UNITS as f64)
}

/// Returns a text, or NULL if it is absent.
pub(super) fn optional(text: Option<&str>) -> Value<'_> {
    text.map_or(Value::Null, |text| Value::Text(Cow::Borrowed(text)))
}

/// Returns a count as a value.
pub(super) fn int(number: impl TryInto<i64>) -> Value<'static> {
    number.try_into().map_or(Value::Null, Value::Int)
}

impl Table for SampleTable {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn value(&self, row: usize, column: usize) -> Value<'_> {
        let at = self.ends.partition_point(|end| *end <= row);
        let segment = &*self.segments[at];
        let place = self.ends[at] - row - 1;
        let sample = &segment.samples[place];
        let request = segment.request(sample);
        let (symbol, caller) = (segment.symbol(sample), segment.caller(sample));
        match column {
            0 => int(segment.first_id + place as u64),
            1 => {
                let time_us = request.run.time_us(sample.elapsed) + self.unix_us;
                Value::Float(time_us as f64 / 1e6)
            }
            2 => optional(Some(&request.run.host)),
            3 => int(request.run.number),
            4 => optional(Some(sample.sample_type.name())),
            5 => Value::Int(request.pid),
            6 => seconds(request.elapsed),
            7 => optional(request.script.as_deref()),
            8 => optional(request.path.as_deref()),
            9 => optional(request.method.as_deref()),
            10 => optional(request.uri.as_deref()),
            11 => optional(request.uri_sent.as_deref()),
            12 => seconds(sample.elapsed),
            13 => int(sample.used),
            14 => int(sample.peak),
            15..=17 => member(symbol, column - 15),
            18 => optional(segment.arguments(sample)),
            19 => sample.line().map_or(Value::Null, int),
            20 => sample.offset().map_or(Value::Null, int),
            21 => optional(segment.opcode(sample)),
            _ => member(caller, column - 22),
        }
    }
}

/// Returns the file, scope or function of a frame.
fn member(frame: Option<&Frame>, number: usize) -> Value<'_> {
    let member = frame.and_then(|it| [&it.file, &it.scope, &it.function][number].as_deref());
    optional(member)
}
