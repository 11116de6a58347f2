//! Raw rows on their way into a snapshot, and back out of one.
//!
//! Rows never change once they are appended, so the snapshot writer copies them a thousand at a time ([`Pool::copy_rows`]),
//! each time under the lock for about a millisecond, while the merger goes on. A chunk ([`SavedRows`]) brings all strings
//! that its rows use and refers to nothing outside, because the ids of strings may be reused before the next chunk is
//! copied. At start, before anything is merged, [`Pool::restore_rows`] appends the chunks again, under the same request
//! ids. What has left the history meanwhile is skipped; in smaller pools the oldest give way as they always do. Nothing
//! that is read back is trusted.

use std::collections::HashMap;

use ahash::RandomState;
use serde::{Deserialize, Serialize};

use super::Pool;
use super::dimensions::OTHER_ORIGIN;
use super::requests::RequestRow;
use super::strings::{NONE, SavedString, StringInterner};
use super::tag_sets::OTHER_SET;
use super::timers::TimerRow;
use crate::limits::{SECONDS_END, TIMER_TAGS_MAX};

/// Rows of a chunk at most.
const CHUNK_ROWS: u64 = 1_024;

/// A chunk ends when it takes more than about this; the last request may make it several times as long.
const CHUNK_BYTES: usize = 512 << 10;

/// The largest id there can be: what a JSON number holds exactly.
const ID_MAX: u64 = 1 << 53;

/// Why something in a snapshot cannot be what the daemon wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(pub &'static str);

/// Where the ids go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolIds {
    /// The next request gets this one.
    pub next_request: u64,
    /// The next timer gets this one.
    pub next_timer: u64,
    /// The last receive second that a row shows; it never goes back.
    pub last_timestamp: u32,
}

impl PoolIds {
    /// These ids, read back.
    ///
    /// # Errors
    /// When no pool could have them.
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

/// A chunk of rows. `origin`, `request_tags` and `tags` of its rows are places in the lists here.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SavedRows {
    /// Id of the first request; the others follow without a gap.
    first: u64,
    first_timer: u64,
    /// The time that `merged_ms` of the rows is relative to.
    now_ms: u64,
    strings: Vec<SavedString>,
    /// Host, server, script and schema in `strings`, and the status. From 1; 0 is [`OTHER_ORIGIN`].
    origins: Vec<([u32; 4], u32)>,
    /// Names and values in `strings`. From 2; up to [`OTHER_SET`] they are the fixed ones.
    tag_sets: Vec<Vec<(u32, u32)>>,
    /// Rows, and how many of its timers each has in `timers`: fewer than it had where the pool was smaller than that.
    requests: Vec<(RequestRow, u16)>,
    timers: Vec<TimerRow>,
}

impl SavedRows {
    /// How many requests are in it.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.len() as u64
    }

    /// The id to go on with.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.first + self.requests()
    }
}

/// Which place in a list of the chunk an id of the pool has.
type Places = HashMap<u32, u32, RandomState>;

/// A chunk that is being put together.
struct Copying<'a> {
    pool: &'a Pool,
    chunk: SavedRows,
    strings: Places,
    origins: Places,
    tag_sets: Places,
    bytes: usize,
}

impl Copying<'_> {
    fn string(&mut self, id: u32) -> u32 {
        let strings = &mut self.chunk.strings;
        *self.strings.entry(id).or_insert_with(|| {
            self.bytes += 1 + self.pool.strings.bytes(id).len();
            strings.push(self.pool.strings.save(id));
            strings.len() as u32 - 1
        })
    }

    fn origin(&mut self, id: u32) -> u32 {
        if id == OTHER_ORIGIN {
            return id;
        }
        if let Some(&place) = self.origins.get(&id) {
            return place;
        }
        let origin = self.pool.origins.get(id);
        let strings = origin.strings().map(|string| self.string(string));
        self.chunk.origins.push((strings, origin.status));
        let place = self.chunk.origins.len() as u32;
        self.origins.insert(id, place);
        place
    }

    fn tag_set(&mut self, id: u32) -> u32 {
        if id <= OTHER_SET {
            return id;
        }
        if let Some(&place) = self.tag_sets.get(&id) {
            return place;
        }
        let pairs = self.pool.tag_sets.pairs(id);
        let pairs = pairs.map(|(name, value)| (self.string(name), self.string(value)));
        let pairs: Vec<_> = pairs.collect();
        self.bytes += pairs.len() * size_of::<(u32, u32)>();
        self.chunk.tag_sets.push(pairs);
        let place = OTHER_SET + self.chunk.tag_sets.len() as u32;
        self.tag_sets.insert(id, place);
        place
    }

    fn request(&mut self, row: RequestRow) {
        let before = self.chunk.timers.len();
        for (_, timer) in self.pool.timers_of(&row) {
            let tags = self.tag_set(timer.tags);
            self.chunk.timers.push(TimerRow { tags, ..timer });
            self.bytes += size_of::<TimerRow>();
        }
        let kept = (self.chunk.timers.len() - before) as u16;
        let row = RequestRow {
            origin: self.origin(row.origin),
            request_tags: self.tag_set(row.request_tags),
            ..row
        };
        self.chunk.requests.push((row, kept));
        self.bytes += size_of::<RequestRow>();
    }
}

impl Pool {
    /// Where the ids go on.
    #[must_use]
    pub fn ids(&self) -> PoolIds {
        PoolIds {
            next_request: self.requests.next_id(),
            next_timer: self.timers.next_id(),
            last_timestamp: self.last_timestamp,
        }
    }

    /// Copies some rows from id `from` on, or from the oldest that is left, but none from `until` on; `None` when there is
    /// none. `now_ms` is the monotonic time of the last merge.
    #[must_use]
    pub fn copy_rows(&self, from: u64, until: u64, now_ms: u64) -> Option<SavedRows> {
        let first = from.max(self.requests.oldest_id());
        let end = until
            .min(self.requests.next_id())
            .min(first.saturating_add(CHUNK_ROWS));
        let mut copying = Copying {
            pool: self,
            chunk: SavedRows {
                first,
                first_timer: self.timers.full_id(self.requests.get(first)?.first_timer),
                now_ms,
                ..SavedRows::default()
            },
            strings: Places::default(),
            origins: Places::default(),
            tag_sets: Places::default(),
            bytes: 0,
        };
        let rows = (first..end).map_while(|id| self.requests.get(id));
        for row in rows {
            copying.request(row);
            if copying.bytes > CHUNK_BYTES {
                break;
            }
        }
        Some(copying.chunk).filter(|chunk| !chunk.requests.is_empty())
    }

    /// Takes in the rows of one chunk, in the order in which chunks were copied. Rows of ticks up to `last_gone` are
    /// skipped; `tick_of` gives the tick of a moment, none of which may be after `now_ms`. Returns how many were taken.
    ///
    /// # Errors
    /// When the chunk cannot be one. The pool is sound then, and what it holds of no use.
    pub fn restore_rows(
        &mut self,
        chunk: &SavedRows,
        tick_of: impl Fn(u64) -> u64,
        last_gone: Option<u64>,
        now_ms: u64,
    ) -> Result<u64, Damage> {
        let mut names = Names::new(chunk);
        let taken = self.restore_chunk(chunk, &mut names, tick_of, last_gone, now_ms);
        for &string in &names.held {
            self.strings.release(string);
        }
        // Not before: the chunk's names stand for ids that must not be given away while it does.
        self.release_epochs();
        taken
    }

    fn restore_chunk(
        &mut self,
        chunk: &SavedRows,
        names: &mut Names<'_>,
        tick_of: impl Fn(u64) -> u64,
        last_gone: Option<u64>,
        now_ms: u64,
    ) -> Result<u64, Damage> {
        check_ids([chunk.first, chunk.first_timer])?;
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
            check_seconds([row.request_time, row.ru_utime, row.ru_stime])?;
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
                // The first row, or one after a gap: what was before the gap had to leave in the meantime.
                self.go_on_from(id, first_timer);
            }
            timers.clear();
            for timer in own {
                check_seconds([timer.value, timer.ru_utime, timer.ru_stime])?;
                let tags = names.tag_set(timer.tags, self)?;
                timers.push(TimerRow { tags, ..*timer });
            }
            let origin = names.origin(row.origin, self)?;
            let request_tags = names.tag_set(row.request_tags, self)?;
            let (epoch, lists) = self.epochs.open(id);
            lists.hold_origin(origin, epoch, &mut self.origins);
            lists.hold_tag_set(request_tags, epoch, &mut self.tag_sets);
            for timer in &timers {
                lists.hold_tag_set(timer.tags, epoch, &mut self.tag_sets);
                self.tag_sets.used_by_timer(timer.tags, &mut self.strings);
            }
            let mut row = RequestRow {
                origin,
                request_tags,
                merged_ms: merged_ms as u32,
                ..*row
            };
            if own.len() < usize::from(row.timers).min(self.timers.size() as usize) {
                // The pool that it was kept in was smaller than its timers are many, and this one is not: the others are
                // gone, and what comes next in this pool is not its own.
                row.timers = *kept;
            }
            self.last_timestamp = self.last_timestamp.max(row.timestamp);
            self.append_rows(row, tick, &timers);
            taken += 1;
        }
        Ok(taken)
    }

    /// To be called after the last chunk: new rows get ids from these on.
    pub fn restore_ids(&mut self, ids: PoolIds) {
        if ids.next_request > self.requests.next_id() {
            self.go_on_from(ids.next_request, ids.next_timer);
        }
        self.last_timestamp = self.last_timestamp.max(ids.last_timestamp);
    }

    /// Drops all rows and goes on with these ids.
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

/// The ids in the pool of the names of a chunk: looked up when the first row that is kept uses them.
struct Names<'a> {
    chunk: &'a SavedRows,
    strings: Vec<Option<u32>>,
    origins: Vec<Option<u32>>,
    tag_sets: Vec<Option<u32>>,
    /// Strings that are held until the chunk is done.
    held: Vec<u32>,
}

impl<'a> Names<'a> {
    fn new(chunk: &'a SavedRows) -> Self {
        Self {
            chunk,
            strings: vec![None; chunk.strings.len()],
            origins: vec![None; chunk.origins.len()],
            tag_sets: vec![None; chunk.tag_sets.len()],
            held: Vec::new(),
        }
    }

    fn string(&mut self, place: u32, strings: &mut StringInterner) -> Result<u32, Damage> {
        let place = place as usize;
        let saved = self.chunk.strings.get(place);
        let saved = saved.ok_or(Damage("a chunk lacks a string"))?;
        if let Some(id) = self.strings[place] {
            return Ok(id);
        }
        let id = strings.restore(saved)?;
        self.strings[place] = Some(id);
        self.held.push(id);
        Ok(id)
    }

    fn origin(&mut self, place: u32, pool: &mut Pool) -> Result<u32, Damage> {
        let Some(place) = (place as usize).checked_sub(1) else {
            return Ok(OTHER_ORIGIN);
        };
        let origin = self.chunk.origins.get(place);
        let &(strings, status) = origin.ok_or(Damage("a chunk lacks request dimensions"))?;
        if let Some(id) = self.origins[place] {
            return Ok(id);
        }
        let mut held = [NONE; 4];
        for (held, string) in held.iter_mut().zip(strings) {
            *held = self.string(string, &mut pool.strings)?;
        }
        if held[..3].contains(&NONE) {
            return Err(Damage("request dimensions lack a string"));
        }
        held.into_iter()
            .for_each(|string| pool.strings.hold(string));
        let id = pool.origins.intern_words(held, status, &mut pool.strings);
        self.origins[place] = Some(id);
        Ok(id)
    }

    fn tag_set(&mut self, place: u32, pool: &mut Pool) -> Result<u32, Damage> {
        if place <= OTHER_SET {
            return Ok(place);
        }
        let place = (place - OTHER_SET - 1) as usize;
        let saved = self.chunk.tag_sets.get(place);
        let saved = saved.ok_or(Damage("a chunk lacks a tag set"))?;
        if let Some(id) = self.tag_sets[place] {
            return Ok(id);
        }
        if saved.len() > TIMER_TAGS_MAX {
            return Err(Damage("a tag set is too long"));
        }
        let mut pairs = Vec::with_capacity(saved.len());
        for &(name, value) in saved {
            let strings = &mut pool.strings;
            let pair = (self.string(name, strings)?, self.string(value, strings)?);
            if pair.0 == NONE || pair.1 == NONE {
                return Err(Damage("a tag lacks a string"));
            }
            pairs.push(pair);
        }
        let id = pool.tag_sets.intern_pairs(&pairs, &mut pool.strings);
        self.tag_sets[place] = Some(id);
        Ok(id)
    }
}

#[cfg(test)]
mod tests;
