//! The main pool: raw requests and timers of the last `stats_history`, in memory of fixed size.
//!
//! The merger alone writes, record by record ([`Pool::append`]); readers use the lock in
//! [`Live`](crate::merger::Live). Contents:
//!
//! | part | holds | bounded by |
//! |---|---|---|
//! | [`requests`] | one row per request | `request_pool_size` |
//! | [`timers`] | one row per timer | `timer_pool_size` |
//! | [`activities`] | activities of Squid requests | both |
//! | [`dimensions`] | host, server, script, schema, status | rows + two epochs |
//! | [`tag_sets`] | tags of timers and requests | a quarter of `words_memory` |
//! | [`strings`] | every distinct text | three quarters of `words_memory` |
//! | `repeated_tags` | tags that records name instead of repeating them | places at the receivers |
//!
//! When a pool of rows is full the oldest request is evicted with all its timers, and counted; rows
//! older than the raw window are removed with their tick. Neither affects the reports. Removed rows
//! are held a little longer, in spare slots and with their names, so that running queries can
//! finish: until the slot is needed, and at most [`HELD_MS`].

pub mod activities;
mod arena;
pub mod dimensions;
mod expiry;
mod reclaim;
mod repeated_tags;
pub mod requests;
pub mod resolved;
pub mod rows;
pub mod snapshot;
pub mod strings;
pub(crate) mod table;
pub mod tag_sets;
pub mod timers;

use std::collections::VecDeque;
use std::hint::black_box;

use self::activities::Activities;
use self::dimensions::{Dimensions, Origins};
pub use self::expiry::HELD_MS;
use self::reclaim::{EPOCH_REQUESTS, EPOCHS_WITHOUT_ROWS, Epochs};
use self::repeated_tags::RepeatedTags;
use self::requests::{REQUEST_ROW_BYTES, RequestPool, RequestRow};
use self::strings::{NONE, StringInterner};
use self::tag_sets::{EMPTY_SET, TagSets};
use self::timers::{TIMER_ROW_BYTES, TimerPool, TimerRow};
use crate::config::PoolConfig;
use crate::input::record::{Confirmed, Hasher, Record, Timer};

/// Spare slots for this many rows: four epochs or a sixteenth, and no more than rows.
const fn spare(rows: usize) -> usize {
    let epochs = 4 * EPOCH_REQUESTS as usize;
    let least = if rows < epochs { rows } else { epochs };
    if rows / 16 > least { rows / 16 } else { least }
}

/// Raw rows and their texts.
#[derive(Debug)]
pub struct Pool {
    /// The raw requests.
    pub requests: RequestPool,
    /// The raw timers.
    pub timers: TimerPool,
    /// Activities of requests from Squid; without capacity unless configured.
    pub activities: Activities,
    /// Distinct (host, server, script, schema, status).
    pub origins: Origins,
    /// Distinct tag sets.
    pub tag_sets: TagSets,
    /// Distinct texts.
    pub strings: StringInterner,
    repeats: RepeatedTags,
    epochs: Epochs,
    /// For each tick with merged requests: its number and the id of its first request.
    ticks: VecDeque<(u64, u64)>,
    /// Rows removed with their tick but still held: until when, and the first id not included.
    leaving: VecDeque<(u64, u64)>,
    freed: Freed,
    /// Likely ids for the current records' origins and their timers' tag sets.
    guessed_origins: VecDeque<u32>,
    guessed_tag_sets: VecDeque<u32>,
    rows_evicted: u64,
    /// The oldest id after the last of these evictions.
    evicted_to: u64,
    last_timestamp: u32,
}

/// Reused ids; caches keyed by them must be invalidated.
#[derive(Debug, Default)]
pub struct Freed {
    /// Ids of origins.
    pub origins: Vec<u32>,
    /// Ids of tag sets.
    pub tag_sets: Vec<u32>,
}

/// Bytes of a full pool, by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolBytes {
    /// The rows of requests.
    pub requests: usize,
    /// The rows of timers.
    pub timers: usize,
    /// Origins.
    pub origins: usize,
    /// Strings and tag sets.
    pub strings: usize,
    /// Origins and tag sets in use, by epoch.
    pub epochs: usize,
    /// Rows of requests, in `requests`, that are spare for evicted ones that may still be read.
    pub spare_requests: usize,
    /// Likewise for timers.
    pub spare_timers: usize,
}

fn timers_max(config: &PoolConfig) -> usize {
    if config.request_pool_size == 0 { 0 } else { config.timer_pool_size }
}

fn origins_max(config: &PoolConfig) -> usize {
    let epochs = (EPOCHS_WITHOUT_ROWS * EPOCH_REQUESTS) as usize;
    let rows = config.request_pool_size + spare(config.request_pool_size);
    rows.max(epochs) + 2 * EPOCH_REQUESTS as usize
}

/// The budgets of strings and of tag sets.
fn budgets(config: &PoolConfig) -> [usize; 2] {
    [config.words_memory / 4 * 3, config.words_memory / 4]
}

impl Pool {
    /// Bytes of a full pool as configured.
    pub fn bytes_max(config: &PoolConfig) -> PoolBytes {
        let [words_bytes, tag_sets_bytes] = budgets(config);
        let (requests, timers) = (config.request_pool_size, timers_max(config));
        let (spare_requests, spare_timers) = (spare(requests), spare(timers));
        let (requests, timers) = (requests + spare_requests, timers + spare_timers);
        PoolBytes {
            requests: requests * REQUEST_ROW_BYTES,
            timers: timers * TIMER_ROW_BYTES,
            origins: Origins::bytes_max(origins_max(config)),
            strings: StringInterner::bytes_max(words_bytes) + TagSets::bytes_max(tag_sets_bytes),
            // An id for the origin and the request tags of each row and for the tags of each timer,
            // if no two in an epoch are the same.
            epochs: (2 * requests + timers) * size_of::<u32>(),
            spare_requests,
            spare_timers,
        }
    }

    /// A pool as configured; later stages allocate nothing.
    pub fn new(config: &PoolConfig, hasher: Hasher) -> Self {
        let [words_bytes, tag_sets_bytes] = budgets(config);
        let (requests, timers) = (config.request_pool_size, timers_max(config));
        Self {
            requests: RequestPool::new(requests, spare(requests)),
            timers: TimerPool::new(timers, spare(timers)),
            activities: Activities::default(),
            origins: Origins::new(origins_max(config)),
            tag_sets: TagSets::new(tag_sets_bytes),
            strings: StringInterner::new(words_bytes, hasher),
            repeats: RepeatedTags::default(),
            epochs: Epochs::new(),
            ticks: VecDeque::new(),
            leaving: VecDeque::new(),
            freed: Freed::default(),
            guessed_origins: VecDeque::new(),
            guessed_tag_sets: VecDeque::new(),
            rows_evicted: 0,
            evicted_to: 0,
            last_timestamp: 0,
        }
    }

    /// Bytes for so many names of tags that repeat, for the memory plan.
    pub const fn repeats_bytes(numbers: usize) -> usize {
        RepeatedTags::bytes(numbers)
    }

    /// Confirms names of tags from now on, so that records can leave the tags out.
    pub fn confirm_repeats(&mut self, confirmed: Confirmed) {
        self.repeats = RepeatedTags::new(confirmed);
    }

    /// Guesses the numbers of origins and tag sets that [`append`](Self::append) will need for
    /// these records: the reads of memory that one waits for overlap with those of the others.
    pub fn prefetch(&mut self, records: &[Record<'_>]) {
        self.guessed_origins.clear();
        self.guessed_tag_sets.clear();
        for record in records {
            let origin = self.origins.guess(record.identity_hash());
            self.guessed_origins.push_back(origin);
            if record.leaves_out_tags() {
                continue;
            }
            for timer in record.timers() {
                let tags = self.tag_sets.guess(timer.tags.hash());
                self.guessed_tag_sets.push_back(tags);
            }
        }
        // What the sets are compared by lies apart from them.
        let known = self.guessed_tag_sets.iter().filter(|id| **id != NONE);
        let first_names = known.filter_map(|id| Some(self.tag_sets.pairs(*id).next()?.0));
        black_box(first_names.fold(self.repeats.touch(records), |seen, name| seen ^ name));
    }

    /// Whether the next request starts an epoch.
    pub fn begins_epoch(&self) -> bool {
        self.requests.next_id().is_multiple_of(EPOCH_REQUESTS)
    }

    /// Appends a record with its timers; evicts the oldest rows if there is no room.
    ///
    /// `tick` is the running tick of the raw window, `now_ms` the monotonic time of this merge.
    /// Returns id and row; the timers as reports need them are added to `timers`.
    pub fn append(
        &mut self,
        record: &Record<'_>,
        tick: u64,
        now_ms: u64,
        timers: &mut Vec<TimerRow>,
    ) -> (u64, RequestRow) {
        let before = timers.len();
        let id = self.requests.next_id();
        let sent = Dimensions::of(record);
        let guess = self.guessed_origins.pop_front().unwrap_or(NONE);
        let origin = self.origins.intern(&sent, guess, &mut self.strings);
        let (request_tags, is_held) = self.append_timers(record, id, timers);
        let timers = &timers[before..];
        // The wall clock may step back; timestamps of rows do not.
        self.last_timestamp = self.last_timestamp.max(record.received_secs());
        let row = RequestRow {
            origin,
            request_tags,
            merged_ms: now_ms as u32,
            timestamp: self.last_timestamp,
            request_count: record.request_count(),
            document_size: record.document_size(),
            memory_peak: record.memory_peak(),
            memory_footprint: record.memory_footprint(),
            request_time: record.request_time(),
            ru_utime: record.ru_utime(),
            ru_stime: record.ru_stime(),
            first_timer: 0,
            timers: timers.len().min(usize::from(u16::MAX)) as u16,
        };
        self.hold(id, &row, if is_held { &[] } else { timers });
        self.append_rows(row, tick, timers);
        if record.has_further() {
            self.activities.append(id, record.further());
        }
        self.release_epochs();
        (id, row)
    }

    /// Adds the timers of request `id` to `timers`. Returns the set of the request's own tags, and
    /// whether the epoch of the request holds the sets of its timers already.
    #[inline(always)]
    fn append_timers(
        &mut self,
        record: &Record<'_>,
        id: u64,
        timers: &mut Vec<TimerRow>,
    ) -> (u32, bool) {
        let row = |timer: Timer<'_>, tags: u32| TimerRow {
            hit_count: timer.hit_count,
            value: timer.value,
            ru_utime: timer.ru_utime,
            ru_stime: timer.ru_stime,
            tags,
        };
        let Self { tag_sets, strings, repeats, epochs, guessed_tag_sets, .. } = self;
        let (epoch, repeat) = (Epochs::of(id), record.repeat());
        if let Some(repeat) = repeat.filter(|_| record.leaves_out_tags()) {
            let (sets, is_held) = repeats.sets(repeat, epoch, epochs, tag_sets, strings);
            let (&request_tags, sets) = sets.split_first().unwrap_or((&EMPTY_SET, &[]));
            for (timer, tags) in record.timers().zip(sets) {
                timers.push(row(timer, *tags));
            }
            return (request_tags, is_held);
        }
        let overflowed = strings.overflowed() + tag_sets.overflowed();
        let before = timers.len();
        tag_sets.begin_record();
        let request_tags = tag_sets.intern(record, &record.request_tags(), NONE, strings);
        for timer in record.timers() {
            let guess = guessed_tag_sets.pop_front().unwrap_or(NONE);
            let tags = tag_sets.intern(record, &timer.tags, guess, strings);
            timers.push(row(timer, tags));
        }
        if let Some(repeat) = repeat
            && strings.overflowed() + tag_sets.overflowed() == overflowed
        {
            let sets = timers[before..].iter().map(|timer| timer.tags);
            repeats.learn(repeat, record, std::iter::once(request_tags).chain(sets), epoch);
        }
        (request_tags, false)
    }

    /// Writes the rows of one request, whose ids are known; sets its `first_timer`.
    fn append_rows(&mut self, mut row: RequestRow, tick: u64, timers: &[TimerRow]) {
        if self.requests.room() == 0 && !self.requests.is_empty() {
            self.evict_oldest();
        }
        // More timers than the whole pool holds: the first ones are kept.
        let kept = &timers[..timers.len().min(self.timers.size() as usize)];
        while self.timers.room() < kept.len() as u64 {
            self.evict_oldest();
        }
        while self.requests.slots_left() == 0 && self.requests.held_id() < self.requests.oldest_id()
            || self.timers.slots_left() < kept.len() as u64
        {
            self.let_go_before(self.requests.held_id() + 1);
        }
        row.first_timer = self.timers.next_id() as u32;
        self.timers.append(kept);
        let id = self.requests.append(&[row]);
        if self.ticks.back().is_none_or(|&(last, _)| last != tick) {
            self.ticks.push_back((tick, id));
        }
    }

    /// Texts and tag sets that found no room and became `(other)`, since start.
    pub fn overflowed(&self) -> u64 {
        self.strings.overflowed() + self.tag_sets.overflowed()
    }

    /// Requests evicted because a pool was full, since start.
    pub fn rows_evicted(&self) -> u64 {
        self.rows_evicted
    }

    /// Whether those before the oldest one were evicted because a pool was full.
    pub(crate) fn is_cut(&self) -> bool {
        self.evicted_to == self.requests.oldest_id()
    }

    /// The timers of a request row, with their ids, as far as they are held.
    pub fn timers_of(&self, row: &RequestRow) -> impl Iterator<Item = (u64, TimerRow)> + '_ {
        let first = self.timers.full_id(row.first_timer);
        let kept = u64::from(row.timers).min(self.timers.size());
        (first..first + kept).filter_map(|id| Some((id, self.timers.held(id)?)))
    }
}
