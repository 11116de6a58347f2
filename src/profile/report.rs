//! Reports over samples: rows that sum up the samples with the same keys, and a single row over
//! steps of time.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;

use super::definition::{SampleKey, SampleReport};
use super::pool::{Frame, Sample, Segment};
use super::recent::{Recent, Seen};
use crate::input::stat::line::{SampleType, UNITS};
use crate::report::definition::Pattern;

/// Maximum number of rows; samples with further keys are counted in `(other)`.
pub const ROWS_MAX: usize = 100_000;

const OTHER: &str = "(other)";

/// Value of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyValue {
    /// No value.
    Absent,
    /// A number.
    Number(i64),
    /// A text.
    Text(Arc<str>),
}

/// Samples with the same keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampleRow {
    /// Values of the report's keys, in the same order.
    pub keys: Vec<KeyValue>,
    /// Number of samples.
    pub samples: u64,
    /// Samples in which nothing was running.
    pub idle: u64,
    /// Time represented by the samples in which something was running, seconds.
    pub seconds: f64,
    /// Sum of memory in use, bytes.
    pub memory_sum: u128,
    /// Most memory in use, bytes.
    pub memory_max: u64,
    /// Sum of the growth of memory since the request's previous sample, bytes.
    pub memory_growth: i64,
}

/// Rows of a report.
#[derive(Debug, Default)]
pub struct SampleRows {
    /// Rows, in no order.
    pub rows: Vec<SampleRow>,
    /// Samples counted by the report in which something was running; the base of percentages.
    pub busy: u64,
}

/// Returns the display name of a sample's function.
pub(crate) fn function(sample_type: SampleType, symbol: Option<&Frame>) -> Option<Arc<str>> {
    match (sample_type, symbol) {
        (SampleType::Memory, _) => Some("(idle)".into()),
        (SampleType::User, None) => Some("{main}".into()),
        (SampleType::User, Some(it)) => {
            Some(it.function.clone().unwrap_or_else(|| "{main}".into()))
        }
        (SampleType::Internal, symbol) => symbol?.function.clone(),
    }
}

/// Formats a frame as `Class::function`, or as `{main}` and the file.
pub(crate) fn frame_text(frame: &Frame) -> Arc<str> {
    match (&frame.scope, &frame.function, &frame.file) {
        (Some(scope), Some(function), _) => format!("{scope}::{function}").into(),
        (_, Some(function), _) => Arc::clone(function),
        (_, None, Some(file)) => format!("{{main}} {file}").into(),
        (_, None, None) => "{main}".into(),
    }
}

/// Returns the value of a key in a sample.
fn shown(key: SampleKey, segment: &Segment, sample: &Sample) -> KeyValue {
    let request = segment.request(sample);
    let symbol = segment.symbol(sample);
    let text = match key {
        SampleKey::Line => {
            return sample.line().map_or(KeyValue::Absent, |line| KeyValue::Number(line.into()));
        }
        SampleKey::Pid => return KeyValue::Number(request.pid),
        SampleKey::Host => Some(Arc::clone(&request.run.host)),
        SampleKey::Script => request.script.clone(),
        SampleKey::Method => request.method.clone(),
        SampleKey::Uri => request.uri.clone(),
        SampleKey::Function => function(sample.sample_type, symbol),
        SampleKey::Scope => symbol.and_then(|it| it.scope.clone()),
        SampleKey::File => symbol.and_then(|it| it.file.clone()),
        SampleKey::Opcode => segment.opcode(sample).map(Arc::from),
        SampleKey::Caller => segment.caller(sample).map(frame_text),
        SampleKey::Type => Some(sample.sample_type.name().into()),
    };
    text.map_or(KeyValue::Absent, KeyValue::Text)
}

fn holds(wanted: &Pattern, value: &KeyValue) -> bool {
    match value {
        KeyValue::Absent => wanted.matches(b""),
        KeyValue::Number(number) => wanted.matches(number.to_string().as_bytes()),
        KeyValue::Text(text) => wanted.matches(text.as_bytes()),
    }
}

/// Returns true if a sample meets all conditions.
pub(crate) fn is_wanted(
    filters: &[(SampleKey, Pattern)],
    segment: &Segment,
    sample: &Sample,
) -> bool {
    let mut filters = filters.iter();
    filters.all(|(key, wanted)| holds(wanted, &shown(*key, segment, sample)))
}

/// Parts of a sample that determine its keys within a segment.
type Alike = (u32, u32, u32, u32, u32, SampleType);

/// Calls `each` for the samples of a window with the result of `decide`, which is called once for
/// all samples of a segment with the same keys.
fn each_sample<'a, T: Copy>(
    recent: &'a Recent,
    mut decide: impl FnMut(&Segment, &Sample) -> T,
    mut each: impl FnMut(T, &Segment, &Seen<'a>),
) {
    let mut alike: HashMap<Alike, T, RandomState> = HashMap::default();
    let mut of_segment = usize::MAX;
    for seen in recent.iter() {
        if seen.segment != of_segment {
            of_segment = seen.segment;
            alike.clear();
        }
        let segment = &*recent.snapshot.segments[seen.segment];
        let decided =
            alike.entry(seen.sample.alike()).or_insert_with(|| decide(segment, seen.sample));
        each(*decided, segment, &seen);
    }
}

/// The sums of a row over a step of time.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// Sums of the row's samples.
    pub row: SampleRow,
    /// Samples of all rows in which something was running.
    pub busy: u64,
    /// Seconds of the step that are known.
    pub secs: f64,
}

impl Step {
    fn per_sec(&self, number: f64) -> f64 {
        number / self.secs
    }
}

/// A metric that can be charted for a row: name, unit, and value in a step.
pub type SampleMetric = (&'static str, &'static str, fn(&Step) -> Option<f64>);

/// All metrics. Percentage and seconds cover samples in which something was running, as in the
/// columns of reports; `seconds_per_sec` is the mean number of processes running it at once.
#[rustfmt::skip]
pub static METRICS: [SampleMetric; 8] = [
    ("samples", "samples", |it| Some(it.row.samples as f64)),
    ("samples_per_sec", "samples/s", |it| Some(it.per_sec(it.row.samples as f64))),
    ("samples_percent", "%", |it| (it.busy > 0).then(|| 100.0 * it.row.busy() as f64 / it.busy as f64)),
    ("seconds_estimated", "s", |it| Some(it.row.seconds)),
    ("seconds_per_sec", "s/s", |it| Some(it.per_sec(it.row.seconds))),
    ("memory_mean", "bytes", |it| it.row.memory_mean()),
    ("memory_max", "bytes", |it| (it.row.samples > 0).then_some(it.row.memory_max as f64)),
    ("memory_growth", "bytes", |it| Some(it.row.memory_growth as f64)),
];

/// Sums up a row's samples (those that meet all of `row`) in steps of `step_us` from `from_us` on,
/// both on the monotonic clock. Returns true if there is any such sample.
pub(crate) fn fill_steps(
    steps: &mut [Step],
    report: &SampleReport,
    row: &[(SampleKey, Pattern)],
    recent: &Recent,
    (from_us, step_us): (i64, i64),
) -> bool {
    let mut found = false;
    let decide = |segment: &Segment, sample: &Sample| {
        is_wanted(&report.filters, segment, sample).then(|| is_wanted(row, segment, sample))
    };
    each_sample(recent, decide, |decided, segment, seen| {
        let Some(is_row) = decided else { return };
        found |= is_row;
        let request = segment.request(seen.sample);
        let since_us = request.run.time_us(seen.sample.elapsed) - from_us;
        let at = usize::try_from(since_us.div_euclid(step_us));
        let Some(step) = at.ok().and_then(|at| steps.get_mut(at)) else { return };
        step.busy += u64::from(seen.sample.sample_type != SampleType::Memory);
        if is_row {
            step.row.add(seen, recent);
        }
    });
    found
}

impl SampleRows {
    /// Sums up the samples of a window.
    pub(crate) fn new(report: &SampleReport, recent: &Recent) -> Self {
        let mut keys: Vec<Vec<KeyValue>> = Vec::new();
        let mut rows: HashMap<Vec<KeyValue>, usize, RandomState> = HashMap::default();
        let mut all = Self::default();
        let decide = |segment: &Segment, sample: &Sample| {
            if !is_wanted(&report.filters, segment, sample) {
                return None;
            }
            let of_report = report.keys.iter();
            let mut shown: Vec<_> = of_report.map(|key| shown(*key, segment, sample)).collect();
            if keys.len() >= ROWS_MAX && !rows.contains_key(&shown) {
                let other = |key: &SampleKey| match key.is_number() {
                    true => KeyValue::Absent,
                    false => KeyValue::Text(OTHER.into()),
                };
                shown = report.keys.iter().map(other).collect();
            }
            Some(*rows.entry(shown).or_insert_with_key(|shown| {
                keys.push(shown.clone());
                keys.len() - 1
            }))
        };
        each_sample(recent, decide, |row, _, seen| {
            let Some(row) = row else { return };
            if row >= all.rows.len() {
                all.rows.push(SampleRow::default());
            }
            all.busy += u64::from(seen.sample.sample_type != SampleType::Memory);
            all.rows[row].add(seen, recent);
        });
        for (row, keys) in all.rows.iter_mut().zip(keys) {
            row.keys = keys;
        }
        all
    }
}

impl SampleRow {
    /// Returns the number of samples in which something was running.
    pub(crate) const fn busy(&self) -> u64 {
        self.samples - self.idle
    }

    /// Returns the texts of its keys; that of a number or of no value is empty.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| match key {
            KeyValue::Text(text) => &**text,
            KeyValue::Absent | KeyValue::Number(_) => "",
        })
    }

    /// Returns whether it stands for samples beyond [`ROWS_MAX`] rows.
    pub(crate) fn is_other(&self) -> bool {
        self.texts().all(|text| text == OTHER)
    }

    /// Returns the mean memory in use per sample, bytes; `None` without samples.
    pub(crate) fn memory_mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.memory_sum as f64 / self.samples as f64)
    }

    fn add(&mut self, seen: &Seen<'_>, recent: &Recent) {
        let sample = seen.sample;
        self.samples += 1;
        match sample.sample_type {
            SampleType::Memory => self.idle += 1,
            _ => self.seconds += recent.requests[seen.request].per_sample() / UNITS as f64,
        }
        self.memory_sum += u128::from(sample.used);
        self.memory_max = self.memory_max.max(sample.used);
        self.memory_growth = self.memory_growth.saturating_add(seen.growth);
    }
}
