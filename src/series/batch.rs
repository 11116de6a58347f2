//! A batch: some requests with their timers, copied out of the pool, and the row of each in every tracked report.
//!
//! Rows are copied and looked up under the lock of [`Live`](crate::merger::Live), on the series thread; one report after
//! the other, so that what a report remembers is at hand for the whole batch. A record's row depends on its origin and on
//! what the report sees of its tag sets; both lead to an identity, and the table's cache from there to the row. Texts are
//! looked at only for what the caches do not know. A batch is bounded in requests and in timers.

use std::ops::Range;
use std::sync::Arc;

use super::current_second::{CurrentSecond, Gain, NOT_COUNTED};
use crate::input::record::micros;
use crate::pool::Pool;
use crate::pool::dimensions::Origin;
use crate::pool::requests::RequestRow;
use crate::pool::timers::TimerRow;
use crate::report::definition::Definition;
use crate::report::histogram::BucketLayout;
use crate::report::per_hit;
use crate::report::row_key::{RecordIds, RecordPart, RowKeys};

/// Requests of a batch: few enough that they, and what is known of one report, stay in a core's cache.
const REQUESTS: usize = 512;

/// Timers of a batch, those of the last request apart: what is copied of them is bounded too.
const TIMERS: usize = 4_096;

/// Requests and timers, in the order in which they were merged.
#[derive(Debug, Default)]
pub(super) struct Batch {
    rows: Vec<RequestRow>,
    origins: Vec<Origin>,
    pub(super) requests: Vec<Request>,
    pub(super) timers: Vec<Timer>,
}

/// A request of a batch.
#[derive(Debug)]
pub(super) struct Request {
    id: u64,
    row: RequestRow,
    origin: Origin,
    /// Of its tags.
    tags_hash: u64,
    /// Microseconds.
    time: u64,
    pub(super) merged_ms: u64,
    /// Where its timers are in the batch.
    timers: Range<u32>,
}

/// A timer of a batch.
#[derive(Debug)]
pub(super) struct Timer {
    request: u64,
    row: TimerRow,
    tags_hash: u64,
}

impl Batch {
    /// Copies requests from the first of `ids` on, with their timers if asked; says where it stopped.
    pub(super) fn copy(
        &mut self,
        pool: &Pool,
        ids: Range<u64>,
        with_timers: bool,
        now_ms: u64,
    ) -> u64 {
        // One column of work after the other: what is far away in memory is then waited for together.
        self.rows.clear();
        self.origins.clear();
        self.requests.clear();
        self.timers.clear();
        let mut timers = 0;
        for row in ids
            .clone()
            .take(REQUESTS)
            .map_while(|id| pool.requests.get(id))
        {
            self.rows.push(row);
            timers += usize::from(row.timers);
            if with_timers && timers >= TIMERS {
                break;
            }
        }
        let origins = self.rows.iter().map(|row| *pool.origins.get(row.origin));
        self.origins.extend(origins);
        for ((id, row), origin) in ids.clone().zip(&self.rows).zip(&self.origins) {
            let before = self.timers.len() as u32;
            if with_timers {
                let timers = pool.timers_of(row).map(|(_, row)| Timer {
                    request: id,
                    row,
                    tags_hash: pool.tag_sets.hash(row.tags),
                });
                self.timers.extend(timers);
            }
            self.requests.push(Request {
                id,
                row: *row,
                origin: *origin,
                tags_hash: pool.tag_sets.hash(row.request_tags),
                time: micros(row.request_time),
                merged_ms: row.merged_at(now_ms),
                timers: before..self.timers.len() as u32,
            });
        }
        // A request may have had more timers than usual.
        self.timers.shrink_to(2 * TIMERS);
        ids.start + self.requests.len() as u64
    }

    /// The timers of these requests.
    pub(super) fn timers_of(&self, requests: &Range<usize>) -> Range<usize> {
        let requests = &self.requests[requests.clone()];
        match (requests.first(), requests.last()) {
            (Some(first), Some(last)) => first.timers.start as usize..last.timers.end as usize,
            _ => 0..0,
        }
    }
}

impl Request {
    /// What it adds to its rows.
    pub(super) fn gain(&self, error_status: u32) -> Gain {
        Gain {
            request: self.id,
            time: self.time,
            ru_utime: micros(self.row.ru_utime),
            ru_stime: micros(self.row.ru_stime),
            traffic: self.row.document_size,
            memory: self.row.memory_footprint,
            hits: u32::from(self.row.timers),
            error: self.origin.status >= error_status,
            sample: self.time,
            bucket: BucketLayout::LogLinear.bucket(self.time),
            weight: 1,
        }
    }
}

impl Timer {
    /// What it adds to its rows.
    pub(super) fn gain(&self) -> Gain {
        let value = micros(self.row.value);
        let sample = per_hit(value, self.row.hit_count);
        Gain {
            request: self.request,
            time: value,
            ru_utime: micros(self.row.ru_utime),
            ru_stime: micros(self.row.ru_stime),
            traffic: 0,
            memory: 0,
            hits: self.row.hit_count,
            error: false,
            sample,
            bucket: BucketLayout::LogLinear.bucket(sample),
            weight: self.row.hit_count,
        }
    }
}

/// A tracked report as the fold sees it.
#[derive(Debug)]
pub(super) struct Counting {
    pub(super) definition: Arc<Definition>,
    pub(super) keys: RowKeys,
    pub(super) current: CurrentSecond,
    request_tags: Sights,
    timer_tags: Sights,
    /// For each request (timer, in a report of timers) of the batch its row.
    pub(super) slots: Vec<u32>,
    key: Vec<u8>,
}

impl Counting {
    pub(super) fn new(definition: Arc<Definition>, current: CurrentSecond) -> Self {
        let keys = RowKeys::of(&definition);
        Self {
            request_tags: Sights::new(keys.looks_at(RecordPart::RequestTags)),
            timer_tags: Sights::new(keys.looks_at(RecordPart::TimerTags)),
            definition,
            keys,
            current,
            slots: Vec::new(),
            key: Vec::new(),
        }
    }

    /// Finds the row of every record of the batch, [`NOT_COUNTED`] where it is none of this report's.
    pub(super) fn find_rows(&mut self, pool: &Pool, batch: &Batch) {
        self.slots.clear();
        for request in &batch.requests {
            let timers = match self.keys.of_timers() {
                true => &batch.timers[request.timers.start as usize..request.timers.end as usize],
                false => &[],
            };
            if !self.keys.time_passes(request.time) {
                let records = if self.keys.of_timers() {
                    timers.len()
                } else {
                    1
                };
                self.slots.extend(std::iter::repeat_n(NOT_COUNTED, records));
                continue;
            }
            let of_origin = self.keys.of_origin(&request.origin);
            let set = (request.row.request_tags, request.tags_hash);
            let of_request_tags = self.request_tags.of(set, || {
                self.keys.of_tags(pool, RecordPart::RequestTags, set.0)
            });
            let mut of = RecordIds {
                origin: request.row.origin,
                request_tags: request.row.request_tags,
                timer_tags: 0,
            };
            if !self.keys.of_timers() {
                let identity = self.keys.identity(of_origin, of_request_tags, 0);
                let slot = self.slot_of(pool, of, identity);
                self.slots.push(slot);
            }
            for timer in timers {
                let set = (timer.row.tags, timer.tags_hash);
                let of_timer_tags = self.timer_tags.of(set, || {
                    self.keys.of_tags(pool, RecordPart::TimerTags, set.0)
                });
                of.timer_tags = timer.row.tags;
                let identity = self
                    .keys
                    .identity(of_origin, of_request_tags, of_timer_tags);
                let slot = self.slot_of(pool, of, identity);
                self.slots.push(slot);
            }
        }
    }

    #[inline]
    fn slot_of(&mut self, pool: &Pool, of: RecordIds, identity: u64) -> u32 {
        match self.current.cached(identity) {
            Some(slot) => slot,
            None => self.find_slot(pool, of, identity),
        }
    }

    #[cold]
    fn find_slot(&mut self, pool: &Pool, of: RecordIds, identity: u64) -> u32 {
        if self.keys.read(pool, of, &mut self.key) {
            self.current.row_of(identity, &self.key)
        } else {
            self.current.skip(identity);
            NOT_COUNTED
        }
    }

    /// Adds some records of a batch to their rows; `gains` are those of all.
    pub(super) fn add(&mut self, records: Range<usize>, gains: &[Gain]) {
        self.current
            .add_all(&self.slots[records.clone()], &gains[records]);
    }
}

/// What a report sees of tag sets, remembered by their numbers.
#[derive(Debug)]
struct Sights {
    /// Hash of a set, and what is seen of it; empty when the report looks at no such tags.
    places: Box<[(u64, u64)]>,
}

/// Sets that are remembered: a power of two.
const SIGHTS: usize = 1 << 12;

/// Bytes that what a report sees of both kinds of tag sets takes.
pub(super) const SIGHTS_BYTES: usize = 2 * SIGHTS * size_of::<(u64, u64)>();

impl Sights {
    fn new(are_needed: bool) -> Self {
        let places = if are_needed { SIGHTS } else { 0 };
        Self {
            // Not known, but for the empty set: its hash is 0, and to the report it may be 0 as well.
            places: vec![(0, 0); places].into(),
        }
    }

    /// What is seen of a set with this number and hash; asked for when it is not known.
    #[inline]
    fn of(&mut self, (set, hash): (u32, u64), ask: impl FnOnce() -> u64) -> u64 {
        if self.places.is_empty() {
            return 0;
        }
        let at = set as usize % SIGHTS;
        let (known, seen) = self.places[at];
        if known == hash {
            return seen;
        }
        let seen = ask();
        self.places[at] = (hash, seen);
        seen
    }
}
