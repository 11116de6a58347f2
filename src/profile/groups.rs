//! Samples summed up by keys: the rows of a report.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;

use super::definition::{SampleKey, SampleReport, Wanted};
use super::pool::{Frame, Sample, Segment};
use super::recent::{Recent, Seen};
use crate::input::stat::line::{SampleType, UNITS};

/// Rows of a report; samples with further keys are counted in one that is called `(other)`.
pub const ROWS_MAX: usize = 100_000;

const OTHER: &str = "(other)";

/// What a key shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyValue {
    /// Nothing.
    Absent,
    /// A number.
    Number(i64),
    /// A text.
    Text(Arc<str>),
}

/// Samples with the same keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// What they show, in the order of the report's keys.
    pub keys: Vec<KeyValue>,
    /// How many there are.
    pub samples: u64,
    /// How many of them had nothing running.
    pub idle: u64,
    /// The time that those with something running stand for.
    pub seconds: f64,
    /// Bytes in use, summed up.
    pub memory_sum: u128,
    /// Most bytes in use.
    pub memory_max: u64,
    /// Growth of memory since the request's sample before, summed up.
    pub memory_growth: i64,
}

/// The rows of a report.
#[derive(Debug, Default)]
pub struct Groups {
    /// In no order.
    pub rows: Vec<Group>,
    /// Samples that the report counts with something running: what shares are of.
    pub busy: u64,
}

/// The function of a sample, as it is shown.
#[must_use]
pub fn function(sample_type: SampleType, symbol: Option<&Frame>) -> Option<Arc<str>> {
    match (sample_type, symbol) {
        (SampleType::Memory, _) => Some("(idle)".into()),
        (SampleType::User, None) => Some("{main}".into()),
        (SampleType::User, Some(it)) => {
            Some(it.function.clone().unwrap_or_else(|| "{main}".into()))
        }
        (SampleType::Internal, symbol) => symbol?.function.clone(),
    }
}

/// A frame in one text: `Class::function`, or `{main}` and the file.
#[must_use]
pub fn frame_text(frame: &Frame) -> Arc<str> {
    match (&frame.scope, &frame.function, &frame.file) {
        (Some(scope), Some(function), _) => format!("{scope}::{function}").into(),
        (_, Some(function), _) => Arc::clone(function),
        (_, None, Some(file)) => format!("{{main}} {file}").into(),
        (_, None, None) => "{main}".into(),
    }
}

/// What a key shows of a sample.
fn shown(key: SampleKey, segment: &Segment, sample: &Sample) -> KeyValue {
    let request = segment.request(sample);
    let symbol = segment.symbol(sample);
    let text = match key {
        SampleKey::Line => {
            return sample
                .line()
                .map_or(KeyValue::Absent, |line| KeyValue::Number(line.into()));
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

fn holds(wanted: &Wanted, value: &KeyValue) -> bool {
    match value {
        KeyValue::Absent => wanted.holds(""),
        KeyValue::Number(number) => wanted.holds(&number.to_string()),
        KeyValue::Text(text) => wanted.holds(text),
    }
}

/// Whether a sample shows all that is wanted.
#[must_use]
pub fn is_wanted(filters: &[(SampleKey, Wanted)], segment: &Segment, sample: &Sample) -> bool {
    let mut filters = filters.iter();
    filters.all(|(key, wanted)| holds(wanted, &shown(*key, segment, sample)))
}

/// What of a sample decides about all its keys, within a segment.
type Alike = (u32, u32, u32, u32, u32, SampleType);

impl Groups {
    /// Sums up the samples of a window.
    #[must_use]
    pub fn new(report: &SampleReport, recent: &Recent) -> Self {
        let mut groups = Self::default();
        let mut rows: HashMap<Vec<KeyValue>, usize, RandomState> = HashMap::default();
        let mut other = None;
        // Within a segment samples that are alike fall into the same row.
        let mut alike: HashMap<Alike, Option<usize>, RandomState> = HashMap::default();
        let mut of_segment = usize::MAX;
        for seen in recent.iter() {
            if seen.segment != of_segment {
                of_segment = seen.segment;
                alike.clear();
            }
            let segment = &*recent.snapshot.segments[seen.segment];
            let row = *alike.entry(seen.sample.alike()).or_insert_with(|| {
                if !is_wanted(&report.filters, segment, seen.sample) {
                    return None;
                }
                let keys: Vec<_> = report
                    .keys
                    .iter()
                    .map(|key| shown(*key, segment, seen.sample))
                    .collect();
                if let Some(row) = rows.get(&keys) {
                    return Some(*row);
                }
                if groups.rows.len() >= ROWS_MAX {
                    return Some(*other.get_or_insert_with(|| {
                        groups.begin(
                            report
                                .keys
                                .iter()
                                .map(|key| match key.is_number() {
                                    true => KeyValue::Absent,
                                    false => KeyValue::Text(OTHER.into()),
                                })
                                .collect(),
                        )
                    }));
                }
                let row = groups.begin(keys.clone());
                rows.insert(keys, row);
                Some(row)
            });
            if let Some(row) = row {
                groups.busy += u64::from(seen.sample.sample_type != SampleType::Memory);
                groups.rows[row].add(&seen, recent);
            }
        }
        groups
    }

    fn begin(&mut self, keys: Vec<KeyValue>) -> usize {
        self.rows.push(Group {
            keys,
            ..Group::default()
        });
        self.rows.len() - 1
    }
}

impl Group {
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
