//! What a scan shows of the pool: columns on their way into a batch, and values in the form that Pinba has them.
//!
//! Seconds are those that count, to the microsecond; sizes are in KiB; a tag set is one text. Called by the walk and by its
//! conditions (`matcher`), so that both see the same values.

use super::condition::Kind;
use super::raw::Lane;
use crate::pool::Pool;
use crate::pool::requests::RequestSlices;
use crate::wire::micros;

/// A column on its way.
#[derive(Debug)]
pub(super) enum Out {
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    /// Places in a list of texts.
    Texts(List, Vec<u32>),
}

/// Which list has the texts of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Sets,
    Words,
}

impl Out {
    pub(super) fn of(lane: Lane) -> Self {
        match lane.kind() {
            Kind::Int => Self::Ints(Vec::new()),
            Kind::Float => Self::Floats(Vec::new()),
            Kind::Text if lane == Lane::Tags => Self::Texts(List::Sets, Vec::new()),
            Kind::Text => Self::Texts(List::Words, Vec::new()),
        }
    }
}

/// The columns of requests that are shown as floats.
pub(super) enum Floats<'a> {
    Bytes(&'a [u32]),
    Seconds(&'a [f32]),
}

pub(super) fn request_floats<'a>(requests: &RequestSlices<'a>, lane: Lane) -> Floats<'a> {
    match lane {
        Lane::DocumentSize => Floats::Bytes(requests.document_size),
        Lane::MemoryPeak => Floats::Bytes(requests.memory_peak),
        Lane::MemoryFootprint => Floats::Bytes(requests.memory_footprint),
        Lane::RuUtime => Floats::Seconds(requests.ru_utime),
        Lane::RuStime => Floats::Seconds(requests.ru_stime),
        _ => Floats::Seconds(requests.request_time),
    }
}

/// Seconds as they count: to the microsecond.
#[inline]
pub(super) fn seconds(sent: f32) -> f32 {
    (micros(sent) as f64 / 1e6) as f32
}

#[inline]
pub(super) fn kib(bytes: u32) -> f32 {
    (f64::from(bytes) / 1024.0) as f32
}

#[inline]
pub(super) fn gather<T: Copy, U>(
    rows: &[u32],
    column: &[T],
    out: &mut Vec<U>,
    mut shown: impl FnMut(T) -> U,
) {
    out.extend(rows.iter().map(|&row| shown(column[row as usize])));
}

pub(super) fn ids(rows: &[u32], base: u64, out: &mut Vec<i64>) {
    out.extend(
        rows.iter()
            .map(|&row| (base + u64::from(row)).cast_signed()),
    );
}

pub(super) fn origin_word(origin: &crate::pool::origins::Origin, lane: Lane) -> u32 {
    match lane {
        Lane::Hostname => origin.hostname,
        Lane::ServerName => origin.server_name,
        Lane::ScriptName => origin.script_name,
        _ => origin.schema,
    }
}

/// `name=value,name=value`, in packet order.
pub(super) fn tags_text(pool: &Pool, set: u32) -> String {
    let mut text = String::new();
    for (name, value) in pool.tag_sets.pairs(set) {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(pool.words.text(name));
        text.push('=');
        text.push_str(pool.words.text(value));
    }
    text
}
