//! The columns of the raw tables, in Pinba's units: seconds to the microsecond, sizes in KiB, a tag
//! set as one text.
//!
//! Each column is a function that reads it for some rows of a [`Piece`], under the lock of `Live`.
//! Texts are indexes into the dictionary of the scan; arrays of them are built without the lock.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array};

use super::texts::Texts;
use crate::input::record::{is_unmeasured, micros};
use crate::input::squid::activity::{Activity, Measure, Measures};
use crate::pool::Pool;
use crate::pool::dimensions::Origin;
use crate::pool::requests::RequestSlices;
use crate::pool::resolved::tags_text;
use crate::pool::strings::NONE;
use crate::pool::timers::TimerSlices;

/// Reads one column.
pub(super) type Read = fn(&mut Piece<'_>) -> Values;

pub(super) const REQUEST: [Read; 17] = [
    |it| it.ids(),
    |it| it.names(|of| of.hostname),
    |it| it.ints(it.requests.map(|of| of.request_count), |n| n.max(1).into()),
    |it| it.names(|of| of.server_name),
    |it| it.names(|of| of.script_name),
    |it| it.floats(it.requests.map(|of| of.document_size), kib),
    |it| it.measured(|of| of.memory_peak, kib),
    |it| it.floats(it.requests.map(|of| of.request_time), seconds),
    |it| it.measured(|of| of.ru_utime, seconds),
    |it| it.measured(|of| of.ru_stime, seconds),
    |it| it.ints(it.requests.map(|of| of.timers), i64::from),
    |it| {
        let of_origin = |origin| it.pool.origins.get(origin).status.into();
        it.ints(it.requests.map(|of| of.origin), of_origin)
    },
    |it| it.measured(|of| of.memory_footprint, kib),
    |it| it.names(|of| of.schema),
    |it| {
        let of_set = |set| it.pool.tag_sets.pairs(set).len() as i64;
        it.ints(it.requests.map(|of| of.request_tags), of_set)
    },
    |it| it.tags(),
    |it| it.ints(it.requests.map(|of| of.timestamp), i64::from),
];

pub(super) const TIMER: [Read; 4] = [
    |it| it.ids(),
    |it| it.ints([it.owners, &[]], |id| id),
    |it| it.ints(it.timers.map(|of| of.hit_count), i64::from),
    |it| it.floats(it.timers.map(|of| of.value), seconds),
];

pub(super) const TIMER_TAG: [Read; 3] = [
    |it| it.ints([&it.pairs.ids, &[]], |id| id),
    |it| it.ints([&it.pairs.names, &[]], i64::from),
    |it| it.strings(&it.pairs.values),
];

pub(super) const TAG: [Read; 2] =
    [|it| it.ints([&it.pairs.ids, &[]], |id| id), |it| it.strings(&it.pairs.names)];

pub(super) const REQUEST_TAG: [Read; 3] = [
    |it| it.ints([&it.pairs.ids, &[]], |id| id),
    |it| it.strings(&it.pairs.names),
    |it| it.strings(&it.pairs.values),
];

pub(super) const SQUID_ACTIVITY: [Read; 7] = [
    |it| it.ints([&it.pairs.ids, &[]], |id| id),
    |it| it.words(0, |(activity, _)| (*activity as usize, activity.name())),
    |it| it.words(Activity::COUNT, |(_, known)| (known.state() as usize, known.state().name())),
    |it| it.doubles(|of| Some(of.start_us? as f64 / 1e6)),
    |it| it.doubles(|of| Some(of.first_delay_us? as f64 / 1e6)),
    |it| it.doubles(|of| Some(of.total_us? as f64 / 1e6)),
    |it| it.doubles(|of| Some(of.resident_ms? as f64 / 1e3)),
];

/// The values of a column for some rows.
#[derive(Debug, Clone)]
pub(super) enum Values {
    Array(ArrayRef),
    /// Indexes into the dictionary.
    Texts(Vec<u32>),
}

/// Pool rows read under one hold of the lock; they may lie in two parts.
pub(super) struct Piece<'a> {
    pub(super) pool: &'a Pool,
    /// The id of the first row.
    pub(super) first: u64,
    /// The rows to read.
    pub(super) rows: &'a [u32],
    pub(super) requests: [RequestSlices<'a>; 2],
    pub(super) timers: [TimerSlices<'a>; 2],
    /// The requests that the timers belong to.
    pub(super) owners: &'a [i64],
    /// Pairs, for tables with one row per tag.
    pub(super) pairs: &'a Pairs,
    pub(super) texts: &'a mut Texts,
}

/// Rows of tags: the id of the tag's owner, its name and its value. Or rows of activities: the id
/// of the request and its details.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) ids: Vec<i64>,
    pub(super) names: Vec<u32>,
    pub(super) values: Vec<u32>,
    activities: Vec<(Activity, Measure)>,
}

impl Pairs {
    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.names.clear();
        self.values.clear();
        self.activities.clear();
    }

    #[inline]
    pub(super) fn push(&mut self, id: u64, name: u32, value: u32) {
        self.ids.push(id.cast_signed());
        self.names.push(name);
        self.values.push(value);
    }

    /// Adds the activities of those of these requests that came from Squid.
    pub(super) fn push_activities(&mut self, pool: &Pool, requests: &Range<u64>, reverse: bool) {
        let mut found: Vec<(u64, Measures)> = pool.activities.within(requests).collect();
        if reverse {
            found.reverse();
        }
        for (id, measures) in found {
            for known in Activity::ALL.into_iter().zip(measures) {
                self.ids.push(id.cast_signed());
                self.activities.push(known);
            }
        }
    }
}

impl<'a> Piece<'a> {
    fn ids(&self) -> Values {
        let id = |row: &u32| (self.first + u64::from(*row)).cast_signed();
        Values::Array(Arc::new(Int64Array::from_iter_values(self.rows.iter().map(id))))
    }

    fn ints<T: Copy>(&self, of: [&[T]; 2], shown: impl Fn(T) -> i64) -> Values {
        Values::Array(Arc::new(Int64Array::from(gather(self.rows, of, shown))))
    }

    fn floats<T: Copy>(&self, of: [&[T]; 2], shown: impl Fn(T) -> f32) -> Values {
        Values::Array(Arc::new(Float32Array::from(gather(self.rows, of, shown))))
    }

    /// A number of requests that is NULL where CPU times and memory are not known.
    fn measured<T: Copy + 'a>(
        &self,
        of: impl Fn(&RequestSlices<'a>) -> &'a [T],
        shown: impl Fn(T) -> f32,
    ) -> Values {
        let system = gather(self.rows, self.requests.map(|it| it.ru_stime), |it| it);
        let numbers = gather(self.rows, self.requests.each_ref().map(of), shown);
        let known = numbers.into_iter().zip(system);
        let known = known.map(|(number, system)| (!is_unmeasured(system)).then_some(number));
        Values::Array(Arc::new(Float32Array::from_iter(known)))
    }

    fn doubles(&self, shown: impl Fn(&Measure) -> Option<f64>) -> Values {
        let of = |row: &u32| shown(&self.pairs.activities[*row as usize].1);
        Values::Array(Arc::new(Float64Array::from_iter(self.rows.iter().map(of))))
    }

    /// Adds words of activities, which have dictionary numbers from `first` on.
    fn words(
        &mut self,
        first: usize,
        word: impl Fn(&(Activity, Measure)) -> (usize, &'static str),
    ) -> Values {
        let of = |row: &u32| {
            let (number, word) = word(&self.pairs.activities[*row as usize]);
            self.texts.place(first + number, || Some(word))
        };
        Values::Texts(self.rows.iter().map(of).collect())
    }

    /// Texts of requests.
    fn names(&mut self, of: impl Fn(&Origin) -> u32) -> Values {
        let (pool, origins) = (self.pool, self.requests.map(|it| it.origin));
        Values::Texts(gather(self.rows, origins, |origin| {
            self.string(of(pool.origins.get(origin)))
        }))
    }

    fn strings(&mut self, of: &'a [u32]) -> Values {
        Values::Texts(gather(self.rows, [of, &[]], |id| self.string(id)))
    }

    /// Tags of requests.
    fn tags(&mut self) -> Values {
        let (pool, sets) = (self.pool, self.requests.map(|it| it.request_tags));
        Values::Texts(gather(self.rows, sets, |set| {
            let number = 2 + 2 * set as usize;
            self.texts.place(number, || Some(tags_text(pool.tags(set).pairs())))
        }))
    }

    /// The dictionary index of a text. Number 0 is no text; strings have odd numbers, tag sets even
    /// ones.
    #[inline]
    fn string(&mut self, id: u32) -> u32 {
        let pool = self.pool;
        match id {
            NONE => self.texts.place(0, || None::<&str>),
            id => {
                let number = 1 + 2 * id as usize;
                self.texts.place(number, || Some(pool.strings.text(id)))
            }
        }
    }
}

#[inline]
fn gather<T: Copy, U>(
    rows: &[u32],
    [first, second]: [&[T]; 2],
    mut shown: impl FnMut(T) -> U,
) -> Vec<U> {
    let values = rows.iter().map(|&row| {
        let row = row as usize;
        shown(match first.get(row) {
            Some(value) => *value,
            None => second[row - first.len()],
        })
    });
    values.collect()
}

/// Seconds as they are counted: to the microsecond.
#[inline]
fn seconds(sent: f32) -> f32 {
    (micros(sent) as f64 / 1e6) as f32
}

#[inline]
fn kib(bytes: u32) -> f32 {
    (f64::from(bytes) / 1024.0) as f32
}
