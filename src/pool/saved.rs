//! Raw rows on their way into a snapshot, and out of one.
//!
//! Rows never change once they are appended, so they are copied a thousand at a time, each time under the lock for about
//! a millisecond, while the merger goes on. A chunk has all the texts that its rows use and refers to nothing
//! outside, because the numbers of names may stand for others by the time the next chunk is copied.
//!
//! ```text
//! id of the first request, of its first timer | rows | words | origins | tag sets |
//! words:    text ..                      (number 0, 1, .. within the chunk)
//! origins:  four words, status ..        (number 1, 2, ..; 0 is the one of what found no room)
//! tag sets: pairs of words ..            (number 2, 3, ..; 0 has no tags, 1 found no room)
//! rows:     request, its timers ..
//! ```
//!
//! The state's writer calls [`Pool::copy_rows`] under the lock; at start, before anything is merged, the pool takes each
//! chunk in with [`Pool::restore_rows`]. Rows keep their ids. What has left the history meanwhile is skipped, and when
//! the pools are smaller than they were the oldest give way as they always do.

use std::collections::HashMap;

use ahash::RandomState;

use super::Pool;
use super::origins::OTHER_ORIGIN;
use super::requests::RequestRow;
use super::tag_sets::OTHER_SET;
use super::timers::TimerRow;
use super::words::{EMPTY, NONE, OTHER, Packed, Words};
use crate::packed::{Damage, Packer, Unpacker};

/// Rows of a chunk at most.
const CHUNK_ROWS: u64 = 1_024;

/// A chunk ends when it has become longer than this; the last request may make it several times as long.
const CHUNK_BYTES: usize = 512 << 10;

/// The largest id there can be: what a JSON number holds exactly.
pub const ID_MAX: u64 = 1 << 53;

/// Names of one kind in one chunk at most: many times what its rows can use.
const CHUNK_NAMES_MAX: u64 = 1 << 19;

/// Pairs of a tag set at most.
const PAIRS_MAX: u64 = crate::limits::TIMER_TAGS_MAX as u64;

/// Where the ids go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolIds {
    /// The next request gets this one.
    pub next_request: u64,
    /// The next timer gets this one.
    pub next_timer: u64,
    /// The last receive second that a row shows; it never goes back.
    pub last_timestamp: u32,
}

/// A chunk that is being put together; used again for the next one.
#[derive(Debug, Default)]
pub struct RowsCopy {
    words: Names,
    origins: Names,
    tag_sets: Names,
    rows: Packer,
    rows_count: u64,
    whole: Packer,
}

/// Names of one kind, by their number in the pool.
#[derive(Debug, Default)]
struct Names {
    numbers: HashMap<u32, u64, RandomState>,
    packed: Packer,
}

impl Names {
    fn clear(&mut self) {
        self.numbers.clear();
        self.packed.clear();
    }

    /// The number of `id` in the chunk, and whether it is new.
    fn number(&mut self, id: u32) -> (u64, bool) {
        let next = self.numbers.len() as u64;
        let number = *self.numbers.entry(id).or_insert(next);
        (number, number == next)
    }
}

impl RowsCopy {
    /// Nothing in it, and no memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The chunk that [`Pool::copy_rows`] put together.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.whole.bytes()
    }

    /// How many requests are in it.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows_count
    }

    fn word(&mut self, id: u32, words: &Words) -> u64 {
        let (number, new) = self.words.number(id);
        if new {
            words.pack(id, &mut self.words.packed);
        }
        number
    }

    fn origin(&mut self, id: u32, pool: &Pool) -> u64 {
        if id == OTHER_ORIGIN {
            return 0;
        }
        let (number, new) = self.origins.number(id);
        if new {
            let origin = pool.origins.get(id);
            let texts = [
                origin.hostname,
                origin.server_name,
                origin.script_name,
                origin.schema,
            ];
            for id in texts {
                let word = self.word(id, &pool.words);
                self.origins.packed.number(word);
            }
            self.origins.packed.number(origin.status.into());
        }
        number + 1
    }

    fn tag_set(&mut self, id: u32, pool: &Pool) -> u64 {
        if id <= OTHER_SET {
            return id.into();
        }
        let (number, new) = self.tag_sets.number(id);
        if new {
            let pairs = pool.tag_sets.pairs(id);
            self.tag_sets.packed.number(pairs.len() as u64);
            for (name, value) in pairs {
                let (name, value) = (self.word(name, &pool.words), self.word(value, &pool.words));
                self.tag_sets.packed.number(name);
                self.tag_sets.packed.number(value);
            }
        }
        number + 2
    }

    fn request(&mut self, row: &RequestRow, merged_ms: u64, kept: u64, pool: &Pool) {
        let origin = self.origin(row.origin, pool);
        let tags = self.tag_set(row.request_tags, pool);
        for number in [
            origin,
            tags,
            merged_ms,
            row.timestamp.into(),
            row.request_count.into(),
            row.document_size.into(),
            row.memory_peak.into(),
            row.memory_footprint.into(),
            row.timers.into(),
            kept,
        ] {
            self.rows.number(number);
        }
        for seconds in [row.request_time, row.ru_utime, row.ru_stime] {
            self.rows.float(seconds);
        }
    }

    fn timer(&mut self, row: &TimerRow, pool: &Pool) {
        let tags = self.tag_set(row.tags, pool);
        self.rows.number(tags);
        self.rows.number(row.hit_count.into());
        for seconds in [row.value, row.ru_utime, row.ru_stime] {
            self.rows.float(seconds);
        }
    }

    fn finish(&mut self, first: u64, first_timer: u64, rows: u64) {
        self.rows_count = rows;
        self.whole.clear();
        for number in [
            first,
            first_timer,
            rows,
            self.words.numbers.len() as u64,
            self.origins.numbers.len() as u64,
            self.tag_sets.numbers.len() as u64,
        ] {
            self.whole.number(number);
        }
        for part in [
            &self.words.packed,
            &self.origins.packed,
            &self.tag_sets.packed,
            &self.rows,
        ] {
            self.whole.raw(part.bytes());
        }
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

    /// Copies some rows from `from` on, or from the oldest that is left, but none from `until` on. Returns the id to go on
    /// with, `None` when there was none to copy. `now_ms` is the monotonic time of the last merge.
    pub fn copy_rows(&self, from: u64, until: u64, now_ms: u64, to: &mut RowsCopy) -> Option<u64> {
        let first = from.max(self.requests.oldest_id());
        let end = until
            .min(self.requests.next_id())
            .min(first.saturating_add(CHUNK_ROWS));
        let first_timer = self.timers.full_id(self.requests.get(first)?.first_timer);
        to.words.clear();
        to.origins.clear();
        to.tag_sets.clear();
        to.rows.clear();
        let mut next = first;
        while next < end && to.rows.len() + to.words.packed.len() < CHUNK_BYTES {
            let row = self.requests.get(next)?;
            let kept = u64::from(row.timers).min(self.timers.size());
            to.request(&row, row.merged_at(now_ms), kept, self);
            for (_, timer) in self.timers_of(&row) {
                to.timer(&timer, self);
            }
            next += 1;
        }
        if next == first {
            return None;
        }
        to.finish(first, first_timer, next - first);
        Some(next)
    }

    /// Takes in the rows of one chunk, in the order in which chunks were copied. Rows of ticks up to `last_gone` are
    /// skipped; `tick_of` gives the tick of a moment, none of which may be after `now_ms`. Returns how many were taken.
    ///
    /// # Errors
    /// When the chunk cannot be one. The pool is sound then, and what it holds of no use.
    pub fn restore_rows(
        &mut self,
        from: &mut Unpacker<'_>,
        tick_of: impl Fn(u64) -> u64,
        last_gone: Option<u64>,
        now_ms: u64,
    ) -> Result<u64, Damage> {
        let mut chunk = Chunk::unpack(from)?;
        let taken = self.restore_chunk(&mut chunk, from, tick_of, last_gone, now_ms);
        for &word in &chunk.resolved_words {
            self.words.release(word);
        }
        // Not before: the chunk knows names by numbers that must not be given away while it does.
        self.release_epochs();
        from.finish()?;
        taken
    }

    fn restore_chunk(
        &mut self,
        chunk: &mut Chunk<'_>,
        from: &mut Unpacker<'_>,
        tick_of: impl Fn(u64) -> u64,
        last_gone: Option<u64>,
        now_ms: u64,
    ) -> Result<u64, Damage> {
        let mut taken = 0;
        let mut timers = Vec::new();
        let mut first_timer = chunk.first_timer;
        for id in chunk.first..chunk.first + chunk.rows {
            let packed = PackedRow::unpack(from)?;
            let tick = tick_of(packed.merged_ms);
            let follows = self.ticks.back().is_none_or(|&(last, _)| tick >= last);
            if packed.merged_ms > now_ms || !follows {
                return Err(Damage("a row is of a time that cannot be"));
            }
            let gone = last_gone.is_some_and(|gone| tick <= gone);
            timers.clear();
            if !gone && id != self.requests.next_id() {
                // The first row, or one after a gap: what was before the gap had to leave in the meantime.
                self.go_on_from(id, first_timer);
            }
            for _ in 0..packed.kept {
                let timer = chunk.timer(from, |set, chunk| {
                    if gone {
                        Ok(0)
                    } else {
                        chunk.tag_set(set, self)
                    }
                })?;
                timers.push(timer);
            }
            first_timer += packed.kept;
            if gone {
                continue;
            }
            let origin = chunk.origin(packed.origin, self)?;
            let request_tags = chunk.tag_set(packed.request_tags, self)?;
            let (epoch, lists) = self.epochs.open(id);
            lists.hold_origin(origin, epoch, &mut self.origins);
            lists.hold_tag_set(request_tags, epoch, &mut self.tag_sets);
            for timer in &timers {
                lists.hold_tag_set(timer.tags, epoch, &mut self.tag_sets);
                self.tag_sets.used_by_timer(timer.tags, &mut self.words);
            }
            let mut row = RequestRow {
                origin,
                request_tags,
                merged_ms: packed.merged_ms as u32,
                ..packed.row
            };
            if packed.kept < u64::from(row.timers).min(self.timers.size()) {
                // The pool that it was kept in was smaller than its timers are many, and this one is not: the others are
                // gone, and what comes next in this pool is not its own.
                row.timers = timers.len() as u16;
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

impl PoolIds {
    /// Writes them out.
    pub fn pack(&self, to: &mut Packer) {
        to.number(self.next_request);
        to.number(self.next_timer);
        to.number(self.last_timestamp.into());
    }

    /// Reads what [`pack`](Self::pack) wrote.
    ///
    /// # Errors
    /// When no pool could have such ids.
    pub fn unpack(from: &mut Unpacker<'_>) -> Result<Self, Damage> {
        let ids = Self {
            next_request: from.at_most(ID_MAX, "an id is too large")?,
            next_timer: from.at_most(ID_MAX, "an id is too large")?,
            last_timestamp: from.small()?,
        };
        if ids.next_request == 0 || ids.next_timer == 0 {
            return Err(Damage("ids begin with 1"));
        }
        Ok(ids)
    }
}

/// A request as it stands in a chunk: `origin` and `request_tags` are the chunk's numbers.
struct PackedRow {
    origin: u64,
    request_tags: u64,
    merged_ms: u64,
    kept: u64,
    /// The rest.
    row: RequestRow,
}

impl PackedRow {
    fn unpack(from: &mut Unpacker<'_>) -> Result<Self, Damage> {
        let (origin, request_tags, merged_ms) = (from.number()?, from.number()?, from.number()?);
        let timestamp = from.small()?;
        let request_count = from.small()?;
        let document_size = from.small()?;
        let memory_peak = from.small()?;
        let memory_footprint = from.small()?;
        let timers = from.at_most(u16::MAX.into(), "a request has too many timers")?;
        // Fewer when the pool was smaller than that.
        let kept = from.at_most(timers, "a request has more timers than it had")?;
        Ok(Self {
            origin,
            request_tags,
            merged_ms,
            kept,
            row: RequestRow {
                origin: 0,
                request_tags: 0,
                merged_ms: 0,
                timestamp,
                request_count,
                document_size,
                memory_peak,
                memory_footprint,
                request_time: from.seconds()?,
                ru_utime: from.seconds()?,
                ru_stime: from.seconds()?,
                first_timer: 0,
                timers: timers as u16,
            },
        })
    }
}

/// Not looked up yet.
const UNKNOWN: u32 = u32::MAX - 1;

/// The names of a chunk: looked up when the first row that is kept uses them.
struct Chunk<'a> {
    first: u64,
    first_timer: u64,
    rows: u64,
    words: Vec<(Packed<'a>, u32)>,
    /// Held until the chunk is done.
    resolved_words: Vec<u32>,
    origins: Vec<([u32; 4], u32, u32)>,
    /// Where its pairs are in `pairs`, and its number in the pool.
    tag_sets: Vec<(std::ops::Range<usize>, u32)>,
    pairs: Vec<(u32, u32)>,
}

impl<'a> Chunk<'a> {
    fn unpack(from: &mut Unpacker<'a>) -> Result<Self, Damage> {
        let first = from.at_most(ID_MAX, "an id is too large")?;
        let first_timer = from.at_most(ID_MAX, "an id is too large")?;
        if first == 0 || first_timer == 0 {
            return Err(Damage("ids begin with 1"));
        }
        let rows = from.at_most(CHUNK_ROWS, "a chunk has too many rows")?;
        let mut counts = [0; 3];
        for count in &mut counts {
            *count = from.at_most(CHUNK_NAMES_MAX, "a chunk has too many names")?;
        }
        let mut chunk = Self {
            first,
            first_timer,
            rows,
            words: Vec::new(),
            resolved_words: Vec::new(),
            origins: Vec::new(),
            tag_sets: Vec::new(),
            pairs: Vec::new(),
        };
        for _ in 0..counts[0] {
            chunk.words.push((Words::unpack_text(from)?, UNKNOWN));
        }
        for _ in 0..counts[1] {
            let mut texts = [0; 4];
            for text in &mut texts {
                *text = chunk.word_number(from)?;
            }
            chunk.origins.push((texts, from.small()?, UNKNOWN));
        }
        for _ in 0..counts[2] {
            let begin = chunk.pairs.len();
            for _ in 0..from.at_most(PAIRS_MAX, "a tag set is too long")? {
                let pair = (chunk.word_number(from)?, chunk.word_number(from)?);
                chunk.pairs.push(pair);
            }
            chunk.tag_sets.push((begin..chunk.pairs.len(), UNKNOWN));
        }
        Ok(chunk)
    }

    fn word_number(&self, from: &mut Unpacker<'_>) -> Result<u32, Damage> {
        let last = (self.words.len() as u64)
            .checked_sub(1)
            .ok_or(Damage("a chunk has no words"))?;
        Ok(from.at_most(last, "a chunk lacks a word")? as u32)
    }

    /// The word in the pool; held by the chunk.
    fn word(&mut self, number: u32, words: &mut Words) -> u32 {
        let (packed, known) = &mut self.words[number as usize];
        if *known == UNKNOWN {
            *known = match *packed {
                Packed::Fixed(id) => id,
                Packed::Text(text) => words.intern(text),
            };
            self.resolved_words.push(*known);
        }
        *known
    }

    fn origin(&mut self, number: u64, pool: &mut Pool) -> Result<u32, Damage> {
        let Some(at) = number.checked_sub(1) else {
            return Ok(OTHER_ORIGIN);
        };
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let &(texts, status, known) = self
            .origins
            .get(at)
            .ok_or(Damage("a chunk lacks an origin"))?;
        if known != UNKNOWN {
            return Ok(known);
        }
        let held = texts.map(|text| self.word(text, &mut pool.words));
        if held[..3].contains(&NONE) {
            return Err(Damage("an origin lacks a text"));
        }
        held.into_iter().for_each(|word| pool.words.hold(word));
        let id = pool.origins.intern_words(held, status, &mut pool.words);
        self.origins[at].2 = id;
        Ok(id)
    }

    fn tag_set(&mut self, number: u64, pool: &mut Pool) -> Result<u32, Damage> {
        let Some(at) = number.checked_sub(2) else {
            return Ok(number as u32);
        };
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let (range, known) = self
            .tag_sets
            .get(at)
            .cloned()
            .ok_or(Damage("a chunk lacks a tag set"))?;
        if known != UNKNOWN {
            return Ok(known);
        }
        let mut pairs = Vec::with_capacity(range.len());
        for place in range {
            let (name, value) = self.pairs[place];
            let words = &mut pool.words;
            let pair = (self.word(name, words), self.word(value, words));
            if pair.0 == NONE || pair.1 == NONE {
                return Err(Damage("a tag lacks a text"));
            }
            pairs.push(pair);
        }
        let id = pool.tag_sets.intern_pairs(&pairs, &mut pool.words);
        self.tag_sets[at].1 = id;
        Ok(id)
    }

    fn timer(
        &mut self,
        from: &mut Unpacker<'_>,
        tag_set: impl FnOnce(u64, &mut Self) -> Result<u32, Damage>,
    ) -> Result<TimerRow, Damage> {
        let tags = from.number()?;
        Ok(TimerRow {
            tags: tag_set(tags, self)?,
            hit_count: from.small()?,
            value: from.seconds()?,
            ru_utime: from.seconds()?,
            ru_stime: from.seconds()?,
        })
    }
}

// The words that are always there have numbers of their own; none of them can be mistaken for one not looked up.
const _: () = assert!(EMPTY < UNKNOWN && OTHER < UNKNOWN && NONE != UNKNOWN);

#[cfg(test)]
mod tests;
