//! Saves raw rows to a snapshot, and restores them.
//!
//! Rows never change once appended, so the snapshot writer copies them a thousand at a time
//! ([`Pool::copy_rows`]), each time under the lock for about a millisecond, while the merger
//! continues. A chunk ([`SavedRows`]) contains all strings that its rows use and refers to nothing
//! outside, because ids of strings may be reused before the next chunk is copied. At start, before
//! anything is merged, [`Pool::restore_rows`] appends the chunks again, under the same request ids.
//! Rows that have left the raw window meanwhile are skipped; in smaller pools the oldest are
//! evicted as usual. Restored data is not trusted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use ahash::RandomState;
use serde::{Deserialize, Serialize};

use super::Pool;
use super::dimensions::{Dimensions, OTHER_ORIGIN, Origin};
use super::requests::RequestRow;
use super::strings::{NONE, OTHER, OTHER_TEXT, StringInterner, is_fixed};
use super::tag_sets::OTHER_SET;
use super::timers::TimerRow;
use crate::limits::{SECONDS_END, TEXT_BYTES_MAX, TIMER_TAGS_MAX};

/// Most rows of a chunk.
const CHUNK_ROWS: u64 = 1_024;

/// A chunk ends when it exceeds about this size; the last request may make it several times as
/// long.
const CHUNK_BYTES: usize = 512 << 10;

/// Largest possible id: exactly representable as a JSON number.
const ID_MAX: u64 = 1 << 53;

/// Why a part of a snapshot cannot have been written by the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(pub &'static str);

/// The ids to continue with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolIds {
    /// Id of the next request.
    pub next_request: u64,
    /// Id of the next timer.
    pub next_timer: u64,
    /// Latest second of reception in a row; it never goes back.
    pub last_timestamp: u32,
}

impl PoolIds {
    /// Validates restored ids.
    ///
    /// # Errors
    /// Fails if no pool could have them.
    pub fn checked(self) -> Result<Self, Damage> {
        check_ids([self.next_request, self.next_timer]).map(|()| self)
    }
}

fn check_ids(ids: [u64; 2]) -> Result<(), Damage> {
    match ids.iter().all(|id| (1..=ID_MAX).contains(id)) {
        true => Ok(()),
        false => Err(Damage("an id is out of range")),
    }
}

/// Data of a snapshot by the pool's ids.
type ByNumber<T> = HashMap<u32, T, RandomState>;

/// Texts of strings by their former ids. Ids without a text of their own are the same everywhere.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SavedStrings(ByNumber<String>);

impl SavedStrings {
    /// Adds a string; returns the approximate number of bytes added.
    pub fn add(&mut self, id: u32, strings: &StringInterner) -> usize {
        match self.0.entry(id) {
            Entry::Vacant(place) if !is_fixed(id) => {
                8 + place.insert(strings.text(id).to_owned()).len()
            }
            _ => 0,
        }
    }

    fn text(&self, id: u32) -> Result<&[u8], Damage> {
        match self.0.get(&id) {
            _ if id == OTHER => Ok(OTHER_TEXT.as_bytes()),
            _ if is_fixed(id) => Ok(b""),
            None => Err(Damage("a string is missing")),
            Some(text) if text.len() > TEXT_BYTES_MAX => Err(Damage("a string is too long")),
            Some(text) => Ok(text.as_bytes()),
        }
    }

    /// The id of a string in `strings`, where it is held once more.
    ///
    /// # Errors
    /// Fails if it is missing, or too long.
    pub fn restore(&self, id: u32, strings: &mut StringInterner) -> Result<u32, Damage> {
        match is_fixed(id) {
            true => Ok(id),
            false => Ok(strings.intern(self.text(id)?)),
        }
    }
}

/// A chunk of rows, with everything their ids refer to.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SavedRows {
    /// Id of the first request; the others follow without a gap.
    first: u64,
    first_timer: u64,
    /// The time to which `merged_ms` of the rows is relative.
    now_ms: u64,
    strings: SavedStrings,
    origins: ByNumber<Origin>,
    /// Names and values.
    tag_sets: ByNumber<Vec<(u32, u32)>>,
    /// Rows, each with the number of its timers in `timers`: fewer than it had if the pool was
    /// smaller than that.
    requests: Vec<(RequestRow, u16)>,
    timers: Vec<TimerRow>,
    /// Approximate bytes of the chunk.
    #[serde(skip)]
    bytes: usize,
}

impl SavedRows {
    /// Number of requests.
    pub fn requests(&self) -> u64 {
        self.requests.len() as u64
    }

    /// Their ids.
    pub fn ids(&self) -> Range<u64> {
        self.first..self.next()
    }

    /// The id to continue with.
    pub fn next(&self) -> u64 {
        self.first + self.requests()
    }

    fn tag_set(&mut self, id: u32, pool: &Pool) {
        if let Entry::Vacant(place) = self.tag_sets.entry(id) {
            let pairs = place.insert(pool.tag_sets.pairs(id).collect());
            self.bytes += size_of_val(&pairs[..]);
            for string in pairs.iter().flat_map(|&(name, value)| [name, value]) {
                self.bytes += self.strings.add(string, &pool.strings);
            }
        }
    }

    /// Adds a row of the pool.
    fn request(&mut self, row: RequestRow, pool: &Pool) {
        if let Entry::Vacant(place) = self.origins.entry(row.origin) {
            let origin = place.insert(*pool.origins.get(row.origin));
            for string in origin.strings() {
                self.bytes += self.strings.add(string, &pool.strings);
            }
        }
        self.tag_set(row.request_tags, pool);
        let timers_before = self.timers.len();
        for (_, timer) in pool.timers_of(&row) {
            self.tag_set(timer.tags, pool);
            self.timers.push(timer);
        }
        let timers = self.timers.len() - timers_before;
        self.requests.push((row, timers as u16));
        self.bytes += size_of::<RequestRow>() + timers * size_of::<TimerRow>();
    }
}

impl Pool {
    /// The ids to continue with.
    pub fn ids(&self) -> PoolIds {
        PoolIds {
            next_request: self.requests.next_id(),
            next_timer: self.timers.next_id(),
            last_timestamp: self.last_timestamp,
        }
    }

    /// Copies rows from id `from` on, or from the oldest one left, but none from `until` on; `None`
    /// if there are none. `now_ms` is the monotonic time of the last merge.
    pub fn copy_rows(&self, from: u64, until: u64, now_ms: u64) -> Option<SavedRows> {
        let first = from.max(self.requests.oldest_id());
        let end = until.min(self.requests.next_id()).min(first.saturating_add(CHUNK_ROWS));
        let mut chunk = SavedRows {
            first,
            first_timer: self.timers.full_id(self.requests.get(first)?.first_timer),
            now_ms,
            ..SavedRows::default()
        };
        let rows = (first..end).map_while(|id| self.requests.get(id));
        for row in rows {
            chunk.request(row, self);
            if chunk.bytes > CHUNK_BYTES {
                break;
            }
        }
        Some(chunk).filter(|chunk| !chunk.requests.is_empty())
    }

    /// Restores the rows of one chunk, in the order of copying. Skips rows of ticks up to
    /// `last_gone`; `tick_of` returns the tick of a time, which may not be after `now_ms`. Returns
    /// how many were restored.
    ///
    /// # Errors
    /// Fails if the chunk is invalid. The pool is sound then, but its content useless.
    pub fn restore_rows(
        &mut self,
        chunk: &SavedRows,
        tick_of: impl Fn(u64) -> u64,
        last_gone: Option<u64>,
        now_ms: u64,
    ) -> Result<u64, Damage> {
        check_ids([chunk.first, chunk.first_timer])?;
        let mut numbers =
            Numbers { chunk, origins: ByNumber::default(), tag_sets: ByNumber::default() };
        let mut taken = 0;
        let mut next_timer = chunk.first_timer;
        let mut timers_left = &chunk.timers[..];
        let mut timers = Vec::new();
        for (id, (row, kept)) in (chunk.first..).zip(&chunk.requests) {
            let (own, rest) = timers_left
                .split_at_checked((*kept).into())
                .filter(|_| *kept <= row.timers)
                .ok_or(Damage("a request lacks timers"))?;
            let first_timer = next_timer;
            timers_left = rest;
            next_timer += own.len() as u64;
            check_seconds([row.request_time, row.ru_utime, row.ru_stime.abs()])?;
            let merged_ms = row.merged_at(chunk.now_ms);
            let tick = tick_of(merged_ms);
            let follows = self.ticks.back().is_none_or(|&(last, _)| tick >= last);
            if merged_ms > now_ms || !follows {
                return Err(Damage("a row is of a time that cannot be"));
            }
            if last_gone.is_some_and(|gone| tick <= gone) {
                continue;
            }
            if id != self.requests.next_id() {
                // The first row, or one after a gap: rows before the gap had to leave.
                self.go_on_from(id, first_timer);
            }
            timers.clear();
            for timer in own {
                check_seconds([timer.value, timer.ru_utime, timer.ru_stime.abs()])?;
                let tags = numbers.tag_set(timer.tags, self)?;
                timers.push(TimerRow { tags, ..*timer });
            }
            let mut row = RequestRow {
                origin: numbers.origin(row.origin, self)?,
                request_tags: numbers.tag_set(row.request_tags, self)?,
                merged_ms: merged_ms as u32,
                ..*row
            };
            if own.len() < usize::from(row.timers).min(self.timers.size() as usize) {
                // It was saved by a pool smaller than its number of timers, and this one is larger:
                // the others are gone, and the next timers here are not its own.
                row.timers = *kept;
            }
            self.last_timestamp = self.last_timestamp.max(row.timestamp);
            self.hold(id, &row, &timers);
            self.append_rows(row, tick, &timers);
            taken += 1;
        }
        // Not before: ids that the chunk refers to must not be reused during the restore.
        self.release_epochs();
        Ok(taken)
    }

    /// Restores the activities of the rows of one chunk, after it.
    ///
    /// # Errors
    /// Fails if they are invalid.
    pub fn restore_activities(&mut self, saved: &[u8]) -> Result<(), Damage> {
        let Self { requests, activities, .. } = self;
        activities.restore(saved, |id| requests.get(id).is_some())
    }

    /// Call this after the last chunk: new rows continue with these ids.
    pub fn restore_ids(&mut self, ids: PoolIds) {
        if ids.next_request > self.requests.next_id() {
            self.go_on_from(ids.next_request, ids.next_timer);
        }
        self.last_timestamp = self.last_timestamp.max(ids.last_timestamp);
    }

    /// Removes all rows and continues with these ids.
    fn go_on_from(&mut self, request: u64, timer: u64) {
        self.clear();
        while let Some(epoch) = self.epochs.pop() {
            self.let_go(&epoch);
        }
        self.requests.go_on_from(request);
        self.timers.go_on_from(timer);
        self.epochs.go_on_from(request);
    }
}

/// Times are finite, not negative, and within what a packet can carry.
fn check_seconds(seconds: [f32; 3]) -> Result<(), Damage> {
    match seconds.iter().all(|it| (0.0..SECONDS_END).contains(it)) {
        true => Ok(()),
        false => Err(Damage("a time is out of range")),
    }
}

/// Maps ids of a chunk to the pool's ids, on first use by a row.
struct Numbers<'a> {
    chunk: &'a SavedRows,
    origins: ByNumber<u32>,
    tag_sets: ByNumber<u32>,
}

impl Numbers<'_> {
    fn origin(&mut self, number: u32, pool: &mut Pool) -> Result<u32, Damage> {
        let Entry::Vacant(place) = self.origins.entry(number) else {
            return Ok(self.origins[&number]);
        };
        if number == OTHER_ORIGIN {
            return Ok(number);
        }
        let saved = self.chunk.origins.get(&number);
        let saved = saved.ok_or(Damage("a chunk lacks request dimensions"))?;
        let text = |id| self.chunk.strings.text(id);
        let (hostname, server_name) = (text(saved.hostname)?, text(saved.server_name)?);
        let (script_name, status) = (text(saved.script_name)?, saved.status);
        let schema = Some(saved.schema).filter(|&schema| schema != NONE).map(text).transpose()?;
        let hasher = pool.strings.hasher();
        let hash = hasher.hash_identity(hostname, server_name, script_name, schema, status);
        let sent = Dimensions { hostname, server_name, script_name, schema, status, hash };
        Ok(*place.insert(pool.origins.intern(&sent, NONE, &mut pool.strings)))
    }

    fn tag_set(&mut self, number: u32, pool: &mut Pool) -> Result<u32, Damage> {
        let Entry::Vacant(place) = self.tag_sets.entry(number) else {
            return Ok(self.tag_sets[&number]);
        };
        if number <= OTHER_SET {
            return Ok(number);
        }
        let saved = self.chunk.tag_sets.get(&number).ok_or(Damage("a chunk lacks a tag set"))?;
        if saved.len() > TIMER_TAGS_MAX {
            return Err(Damage("a tag set is too long"));
        }
        let text = |id| self.chunk.strings.text(id);
        let tags = saved.iter().map(|&(name, value)| Ok((text(name)?, text(value)?)));
        let tags = tags.collect::<Result<Vec<_>, _>>()?;
        let hash = pool.strings.hasher().hash_tags(tags.iter().copied());
        Ok(*place.insert(pool.tag_sets.intern_texts(hash, &tags, &mut pool.strings)))
    }
}

#[cfg(test)]
mod tests;
