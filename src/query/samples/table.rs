//! Table `sample`: every member of each sample kept, newest first.

use std::borrow::Cow;
use std::sync::Arc;

use crate::input::stat::line::UNITS;
use crate::profile::{Frame, Segment, Snapshot};
use crate::value::Value;

/// Samples as rows.
pub(super) struct Samples {
    /// Newest first.
    segments: Vec<Arc<Segment>>,
    /// The number of samples up to the end of each segment.
    ends: Vec<usize>,
    /// Offset from the monotonic clock's microseconds to those since 1970.
    unix_us: i64,
}

impl Samples {
    pub(super) fn new(snapshot: Snapshot, unix_us: i64) -> Self {
        let mut segments = snapshot.segments;
        segments.reverse();
        let mut all = 0;
        let ends = segments.iter().map(|it| {
            all += it.samples.len();
            all
        });
        Self { ends: ends.collect(), segments, unix_us }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns a value of table `sample`.
    pub(super) fn value(&self, row: usize, column: usize) -> Value<'_> {
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

/// Returns the file, scope or function of a frame.
fn member(frame: Option<&Frame>, number: usize) -> Value<'_> {
    let member = frame.and_then(|it| [&it.file, &it.scope, &it.function][number].as_deref());
    optional(member)
}
