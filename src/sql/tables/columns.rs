//! Columns on their way from the pool into a batch, in Pinba's units: seconds to the microsecond, sizes in KiB, a tag set as one text.
//!
//! Texts are places in a dictionary of the scan. Rows are read under the lock of `Live`; arrays are made without it.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float32Array, Int64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::raw::RowField;
use super::texts::Texts;
use crate::input::record::micros;
use crate::pool::Pool;
use crate::pool::requests::RequestSlices;
use crate::pool::strings::NONE;
use crate::pool::timers::TimerSlices;

/// The values of a column so far.
#[derive(Debug)]
pub(super) enum Buffer {
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    /// Places in a dictionary.
    Texts(Dictionary, Vec<u32>),
}

/// Which dictionary has the texts of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dictionary {
    Strings,
    TagSets,
}

/// The dictionaries of a scan.
#[derive(Debug, Default)]
pub(super) struct Dictionaries {
    pub(super) strings: Texts,
    pub(super) tag_sets: Texts,
}

impl Dictionaries {
    pub(super) fn of(&mut self, which: Dictionary) -> &mut Texts {
        match which {
            Dictionary::Strings => &mut self.strings,
            Dictionary::TagSets => &mut self.tag_sets,
        }
    }

    /// Takes the values out of a buffer.
    pub(super) fn array(&mut self, buffer: &mut Buffer) -> Result<ArrayRef> {
        Ok(match buffer {
            Buffer::Ints(ints) => Arc::new(Int64Array::from(std::mem::take(ints))),
            Buffer::Floats(floats) => Arc::new(Float32Array::from(std::mem::take(floats))),
            Buffer::Texts(which, places) => self.of(*which).at(std::mem::take(places))?,
        })
    }
}

impl Buffer {
    pub(super) fn new(field: RowField, data_type: &DataType) -> Self {
        match data_type {
            DataType::Int64 => Self::Ints(Vec::new()),
            DataType::Float32 => Self::Floats(Vec::new()),
            _ if field == RowField::Tags => Self::Texts(Dictionary::TagSets, Vec::new()),
            _ => Self::Texts(Dictionary::Strings, Vec::new()),
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::Ints(ints) => ints.clear(),
            Self::Floats(floats) => floats.clear(),
            Self::Texts(_, places) => places.clear(),
        }
    }
}

/// Rows of a pool that were found under one hold of its lock; they may lie in two parts.
#[derive(Clone, Copy)]
pub(super) enum Rows<'a> {
    Requests(&'a [RequestSlices<'a>; 2]),
    /// With the requests that the timers belong to, if they are wanted.
    Timers([TimerSlices<'a>; 2], &'a [i64]),
    /// One row for each tag of them.
    Pairs(&'a Pairs),
}

/// Rows of tags: the id of what has the tag, its name and its value.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) ids: Vec<i64>,
    pub(super) names: Vec<u32>,
    pub(super) values: Vec<u32>,
}

impl Rows<'_> {
    /// Adds a column of some of them; the first of all has the id `first`.
    pub(super) fn read(
        &self,
        pool: &Pool,
        first: u64,
        rows: &[u32],
        field: RowField,
        texts: &mut Dictionaries,
        buffer: &mut Buffer,
    ) {
        let id = |row: &u32| (first + u64::from(*row)).cast_signed();
        match (self, buffer) {
            (Self::Requests(of), Buffer::Ints(out)) => match field {
                RowField::Id => out.extend(rows.iter().map(id)),
                RowField::RequestCount => {
                    gather(rows, of.map(|it| it.request_count), out, |n| {
                        i64::from(n.max(1))
                    });
                }
                RowField::TimersCount => gather(rows, of.map(|it| it.timers), out, i64::from),
                RowField::Timestamp => gather(rows, of.map(|it| it.timestamp), out, i64::from),
                RowField::Status => gather(rows, of.map(|it| it.origin), out, |origin| {
                    i64::from(pool.origins.get(origin).status)
                }),
                _ => gather(rows, of.map(|it| it.request_tags), out, |set| {
                    pool.tag_sets.pairs(set).len() as i64
                }),
            },
            (Self::Requests(of), Buffer::Floats(out)) => match field {
                RowField::DocumentSize => gather(rows, of.map(|it| it.document_size), out, kib),
                RowField::MemoryPeak => gather(rows, of.map(|it| it.memory_peak), out, kib),
                RowField::MemoryFootprint => {
                    gather(rows, of.map(|it| it.memory_footprint), out, kib);
                }
                RowField::RuUtime => gather(rows, of.map(|it| it.ru_utime), out, seconds),
                RowField::RuStime => gather(rows, of.map(|it| it.ru_stime), out, seconds),
                _ => gather(rows, of.map(|it| it.request_time), out, seconds),
            },
            (Self::Requests(of), Buffer::Texts(Dictionary::Strings, out)) => {
                gather(rows, of.map(|it| it.origin), out, |origin| {
                    let origin = pool.origins.get(origin);
                    let string = match field {
                        RowField::Hostname => origin.hostname,
                        RowField::ServerName => origin.server_name,
                        RowField::ScriptName => origin.script_name,
                        _ => origin.schema,
                    };
                    match string {
                        NONE => texts.strings.absent(),
                        id => texts.strings.place(id, || pool.strings.text(id)),
                    }
                });
            }
            (Self::Requests(of), Buffer::Texts(Dictionary::TagSets, out)) => {
                gather(rows, of.map(|it| it.request_tags), out, |set| {
                    texts.tag_sets.place(set, || tags_text(pool, set))
                });
            }
            (Self::Timers(_, owners), Buffer::Ints(out)) if field == RowField::Owner => {
                gather(rows, [owners, &[]], out, |id| id);
            }
            (Self::Timers(of, _), Buffer::Ints(out)) => match field {
                RowField::Id => out.extend(rows.iter().map(id)),
                _ => gather(rows, of.map(|it| it.hit_count), out, i64::from),
            },
            (Self::Timers(of, _), Buffer::Floats(out)) => {
                gather(rows, of.map(|it| it.value), out, seconds);
            }
            (Self::Pairs(of), Buffer::Ints(out)) => match field {
                RowField::Id => gather(rows, [&of.ids, &[]], out, |id| id),
                _ => gather(rows, [&of.names, &[]], out, i64::from),
            },
            (Self::Pairs(of), Buffer::Texts(_, out)) => {
                let strings = if field == RowField::Name {
                    &of.names
                } else {
                    &of.values
                };
                gather(rows, [strings, &[]], out, |id| {
                    texts.strings.place(id, || pool.strings.text(id))
                });
            }
            // No table has such columns.
            (Self::Timers(..), Buffer::Texts(..)) | (Self::Pairs(_), Buffer::Floats(_)) => {}
        }
    }
}

#[inline]
fn gather<T: Copy, U>(
    rows: &[u32],
    [first, second]: [&[T]; 2],
    out: &mut Vec<U>,
    mut shown: impl FnMut(T) -> U,
) {
    out.extend(rows.iter().map(|&row| {
        let row = row as usize;
        shown(match first.get(row) {
            Some(value) => *value,
            None => second[row - first.len()],
        })
    }));
}

/// Seconds as they count: to the microsecond.
#[inline]
fn seconds(sent: f32) -> f32 {
    (micros(sent) as f64 / 1e6) as f32
}

#[inline]
fn kib(bytes: u32) -> f32 {
    (f64::from(bytes) / 1024.0) as f32
}

/// `name=value,name=value`, in packet order.
fn tags_text(pool: &Pool, set: u32) -> String {
    let mut text = String::new();
    for (name, value) in pool.tag_sets.pairs(set) {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(pool.strings.text(name));
        text.push('=');
        text.push_str(pool.strings.text(value));
    }
    text
}
