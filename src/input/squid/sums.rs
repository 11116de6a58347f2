//! Sums that no single request contains: objects moved to or from disk, and savings from
//! revalidation.
//!
//! Each source has its own, written by its thread; the tables `squid_swap` and `squid_savings` add
//! them up over the sources. Data leaves the window piece by piece. Beyond `ENTRIES_MAX` keys new
//! ones count as `(other)`, which has no savings, since there is no median of comparable misses.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write as _;

use ahash::RandomState;
use serde::{Deserialize, Serialize};

use super::LineNumbers;
use super::file::Position;
use super::line::{Swap, Transaction};
use crate::input::url::url_parts;

/// Pieces of the window.
const PIECES: u32 = 24;
/// Most keys and times in all pieces together.
const ENTRIES_MAX: usize = 16_384;
/// Most keys of objects that moved and are not in history yet: further ones are `(other)` there.
const MOVES_MAX: usize = 4_096;
/// Bytes of one part of a key.
const PART_BYTES: usize = 128;
/// Bytes of the sums of one source, for the memory plan: with the longest keys.
pub const SUMS_BYTES: usize = (2 * ENTRIES_MAX + 4 * MOVES_MAX) * (3 * PART_BYTES + 128);
/// The overflow key.
const OTHER: [&[u8]; 3] = [b"(other)"; 3];
/// Keys in one record of a snapshot: a megabyte at most.
const SAVED_MAX: usize = 1_024;
/// So many misses tell what one takes.
pub const MISSES_MIN: u64 = 10;

/// The sums of a source.
#[derive(Debug, Default)]
pub struct Sums {
    /// Length of the window in seconds.
    pub window_secs: u32,
    /// Moved objects that are not in history yet, if there is history.
    pub fresh: Option<Moves>,
    /// The first lines that are not in the sums.
    pub next: LineNumbers,
    /// Requests that live rows have from the snapshot and that are read again for history, which
    /// lacks them.
    pub counted_again: u64,
    /// The file that was begun last: how far it was read, and its first lines.
    pub file: Option<(Position, LineNumbers)>,
    swaps: Windowed<Swaps>,
    answers: Windowed<Answers>,
}

/// Objects that moved, by action, size class and type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swaps {
    /// Number of objects.
    pub count: u64,
    /// Their sizes.
    pub bytes: u64,
    /// Number of those with known times.
    pub timed: u64,
    /// Sum of times until the first piece, in microseconds.
    pub first_delay_us: u64,
    /// Sum of times until the end, in microseconds.
    pub total_us: u64,
}

/// Objects that moved, by action, size class and type: the parts of a key are separated by zeros.
#[derive(Debug, Default)]
pub struct Moves(BTreeMap<Box<[u8]>, Swaps>);

impl Moves {
    /// Adds those of a key, or of the one for all others once there are many.
    pub(crate) fn add(&mut self, key: &[u8], more: &Swaps) {
        if let Some(sum) = self.0.get_mut(key) {
            sum.add(more);
            return;
        }
        let mut other = Vec::new();
        join(&mut other, OTHER);
        let has_room = self.0.len() < MOVES_MAX;
        let key = if has_room { key } else { &other };
        self.0.entry(key.into()).or_default().add(more);
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        const ENTRY: usize = size_of::<Swaps>() + 2 * size_of::<usize>();
        self.0.keys().map(|key| key.len().saturating_add(ENTRY)).sum()
    }

    /// Adds others.
    pub fn absorb(&mut self, others: &mut Self) {
        let others = std::mem::take(&mut others.0);
        others.iter().for_each(|(key, sum)| self.add(key, sum));
    }

    /// The sums, with the texts of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (Vec<String>, &Swaps)> {
        self.0.iter().map(|(key, sum)| (shown(key), sum))
    }
}

/// Answers to requests, by server, type and code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// Number of responses.
    pub count: u64,
    /// Their total time in milliseconds.
    pub time_ms: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Number of those for which the bytes fetched are known.
    pub known: u64,
    /// Bytes sent with those of them that the server had not changed and for which no body was
    /// fetched; minus what the bodies of others had more than was sent.
    pub saved_bytes: i64,
    /// Misses by time in milliseconds.
    times: BTreeMap<u64, u64>,
}

/// Some of the sums of a source, in a snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedSums {
    /// The place that the source is read from.
    pub from: String,
    swaps: Vec<SavedSum<Swaps>>,
    answers: Vec<SavedSum<Answers>>,
}

/// The start of a piece of the window, seconds of the monotonic clock, a key, and its sum there.
type SavedSum<S> = (u32, Box<[u8]>, S);

/// The savings of requests with one code.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// Server, type and code.
    pub key: Vec<String>,
    /// The responses.
    pub answers: Answers,
    /// Misses of the same server and type.
    pub misses: u64,
    /// Their median in milliseconds; `None` if they were too few.
    pub miss_median_ms: Option<f64>,
}

impl Answers {
    /// Number of misses with known times, and their median.
    fn median_ms(&self) -> (u64, Option<f64>) {
        let count: u64 = self.times.values().sum();
        let at = |rank: u64| {
            let mut seen = 0_u64;
            let mut times = self.times.iter();
            let found = times.find(|(_, count)| {
                seen = seen.saturating_add(**count);
                seen > rank
            });
            found.map_or(0.0, |(ms, _)| *ms as f64)
        };
        let median = || f64::midpoint(at(count.saturating_sub(1) / 2), at(count / 2));
        (count, (count >= MISSES_MIN).then(median))
    }
}

/// Sums that can be added up.
trait Add: Default + Clone {
    fn add(&mut self, other: &Self);

    /// Keys and times that it takes up.
    fn entries(&self) -> usize {
        1
    }
}

impl Add for Swaps {
    fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.timed = self.timed.saturating_add(other.timed);
        self.first_delay_us = self.first_delay_us.saturating_add(other.first_delay_us);
        self.total_us = self.total_us.saturating_add(other.total_us);
    }
}

impl Add for Answers {
    fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.time_ms = self.time_ms.saturating_add(other.time_ms);
        self.sent_bytes = self.sent_bytes.saturating_add(other.sent_bytes);
        self.known = self.known.saturating_add(other.known);
        self.saved_bytes = self.saved_bytes.saturating_add(other.saved_bytes);
        for (ms, count) in &other.times {
            let sum = self.times.entry(*ms).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    fn entries(&self) -> usize {
        self.times.len().saturating_add(1)
    }
}

/// Sums by key; the parts of a key are separated by zeros, which no line contains.
type ByKey<S> = HashMap<Box<[u8]>, S, RandomState>;

/// Sums of the pieces of the window, the current one last.
#[derive(Debug, Default)]
struct Windowed<S> {
    pieces: VecDeque<(u32, ByKey<S>)>,
    entries: usize,
    key: Vec<u8>,
}

impl<S: Add> Windowed<S> {
    /// The sum of a key in the current piece, and whether there is room for more in it.
    fn sum(&mut self, piece: u32, parts: [&[u8]; 3]) -> Option<(&mut S, bool)> {
        if self.pieces.back().is_none_or(|(last, _)| *last < piece) {
            while let Some((first, sums)) = self.pieces.front()
                && first.saturating_add(PIECES) <= piece
            {
                let gone: usize = sums.values().map(S::entries).sum();
                self.entries = self.entries.saturating_sub(gone);
                self.pieces.pop_front();
            }
            self.pieces.push_back((piece, ByKey::default()));
        }
        join(&mut self.key, parts);
        let (_, sums) = self.pieces.back_mut()?;
        let has_room = self.entries < ENTRIES_MAX;
        if !has_room && !sums.contains_key(&self.key[..]) {
            join(&mut self.key, OTHER);
        }
        let sum = match sums.contains_key(&self.key[..]) {
            true => sums.get_mut(&self.key[..])?,
            false => {
                self.entries = self.entries.saturating_add(1);
                sums.entry(self.key.as_slice().into()).or_default()
            }
        };
        Some((sum, has_room))
    }

    /// All sums, where a piece has so many seconds.
    fn save(&self, secs: u32) -> Vec<SavedSum<S>> {
        let pieces = self.pieces.iter();
        let sums = pieces.flat_map(|(piece, sums)| {
            let begin = piece.saturating_mul(secs);
            sums.iter().map(move |(key, sum)| (begin, key.clone(), sum.clone()))
        });
        sums.collect()
    }

    /// Adds sums that were saved until `now` to their pieces of so many seconds, as far as there is
    /// room.
    fn restore(&mut self, saved: Vec<SavedSum<S>>, piece_secs: u32, now: u32) {
        for (secs, key, sum) in saved.into_iter().filter(|it| it.0 <= now) {
            let has_room = self.entries.saturating_add(sum.entries()) <= ENTRIES_MAX;
            if !has_room || key.len() > 3 * PART_BYTES + 2 {
                continue;
            }
            let piece = secs.checked_div(piece_secs).unwrap_or(0);
            let at = self.pieces.partition_point(|(number, _)| *number < piece);
            if self.pieces.get(at).is_none_or(|(number, _)| *number != piece) {
                self.pieces.insert(at, (piece, ByKey::default()));
            }
            if let Some((_, sums)) = self.pieces.get_mut(at) {
                let before = sums.get(&key).map_or(0, S::entries);
                let all = sums.entry(key).or_default();
                all.add(&sum);
                self.entries = self.entries.saturating_sub(before).saturating_add(all.entries());
            }
        }
    }

    /// The oldest piece.
    fn oldest(&self) -> Option<u32> {
        self.pieces.front().map(|(piece, _)| *piece)
    }

    /// Adds all that is inside the window to `into`.
    fn read(&self, piece: u32, into: &mut BTreeMap<Box<[u8]>, S>) {
        for (number, sums) in &self.pieces {
            if number.saturating_add(PIECES) > piece {
                for (key, sum) in sums {
                    into.entry(key.clone()).or_default().add(sum);
                }
            }
        }
    }
}

fn join(key: &mut Vec<u8>, parts: [&[u8]; 3]) {
    key.clear();
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 {
            key.push(0);
        }
        key.extend_from_slice(part.get(..PART_BYTES).unwrap_or(part));
    }
}

/// The parts of a key as text; invalid bytes become `\xNN`.
fn shown(key: &[u8]) -> Vec<String> {
    let part = |part: &[u8]| {
        let mut text = String::new();
        for chunk in part.utf8_chunks() {
            text.push_str(chunk.valid());
            for byte in chunk.invalid() {
                let _written = write!(text, "\\x{byte:02x}");
            }
        }
        text
    };
    key.split(|byte| *byte == 0).map(part).collect()
}

/// Size classes: upper bound in bytes, and name.
const SIZES: [(u64, &str); 7] = [
    (1 << 10, "0-1 KiB"),
    (4 << 10, "1-4 KiB"),
    (16 << 10, "4-16 KiB"),
    (64 << 10, "16-64 KiB"),
    (256 << 10, "64-256 KiB"),
    (1 << 20, "256-1024 KiB"),
    (u64::MAX, "1024- KiB"),
];

impl Sums {
    fn piece_secs(&self) -> u32 {
        (self.window_secs / PIECES).max(1)
    }

    fn piece(&self, secs: u32) -> u32 {
        secs.checked_div(self.piece_secs()).unwrap_or(0)
    }

    /// Seconds of the window that ends at `secs`, back to its oldest data or the start of the
    /// daemon, `uptime` ago.
    fn covered(&self, secs: u32, uptime: u32) -> u32 {
        let first = self.piece(secs).saturating_add(1).saturating_sub(PIECES);
        let oldest = [self.swaps.oldest(), self.answers.oldest()].into_iter().flatten().min();
        let [begin, oldest] = [first, oldest.unwrap_or(u32::MAX)]
            .map(|piece| piece.saturating_mul(self.piece_secs()));
        let from = oldest.min(secs.saturating_sub(uptime)).max(begin);
        secs.saturating_sub(from)
    }

    /// All of them, for a snapshot: those of what is read from there.
    pub(crate) fn save(&self, from: &str) -> Vec<SavedSums> {
        let secs = self.piece_secs();
        let (swaps, answers) = (self.swaps.save(secs), self.answers.save(secs));
        let saved = |swaps: &[_], answers: &[_]| SavedSums {
            from: from.to_owned(),
            swaps: swaps.to_vec(),
            answers: answers.to_vec(),
        };
        let of_swaps = swaps.chunks(SAVED_MAX).map(|swaps| saved(swaps, &[]));
        let of_answers = answers.chunks(SAVED_MAX).map(|answers| saved(&[], answers));
        of_swaps.chain(of_answers).collect()
    }

    /// Adds those of a snapshot, as far as there is room. What has left the window meanwhile is not
    /// shown, and goes. `now`: what is later is from a version that counted by the wall clock.
    pub(crate) fn restore(&mut self, saved: SavedSums, now: u32) {
        let piece_secs = self.piece_secs();
        self.swaps.restore(saved.swaps, piece_secs, now);
        self.answers.restore(saved.answers, piece_secs, now);
    }

    /// Records that a file was read up to here, if it is the one begun last.
    pub(super) fn reach(&mut self, position: Position) {
        let known = self.file.iter_mut().map(|(at, _)| at);
        known.filter(|at| at.is_in_file_of(position)).for_each(|at| *at = position);
    }

    /// A file begins, whose first lines have these numbers, behind `next`. If it was begun last by
    /// the process before, as many of its lines are in the sums.
    pub(super) fn begin_file(
        &mut self,
        begin: LineNumbers,
        at: Option<Position>,
        is_it: impl FnOnce(Position) -> bool,
    ) {
        if let Some((position, first)) = self.file
            && is_it(position)
        {
            let behind = |begin: u64, first: u64, next: u64| {
                begin.saturating_add(next.saturating_sub(first))
            };
            self.next = LineNumbers {
                requests: behind(begin.requests, first.requests, self.next.requests),
                swaps: behind(begin.swaps, first.swaps, self.next.swaps),
            };
        }
        self.file = at.map(|at| (at, begin));
    }

    /// Counts a moved object, of the swap with this number; history has it unless it `is_new`.
    pub(super) fn swap(&mut self, swap: &Swap<'_>, secs: u32, number: u64, is_new: bool) {
        let class = |bytes| SIZES.iter().find(|(below, _)| bytes < *below);
        let class = swap.object_bytes.and_then(class).map_or("", |(_, name)| name);
        let piece = self.piece(secs);
        let key = [swap.action, class.as_bytes(), swap.mime];
        let moved = Swaps {
            count: 1,
            bytes: swap.object_bytes.unwrap_or(0),
            timed: swap.total_us.is_some().into(),
            first_delay_us: swap.first_delay_us.unwrap_or(0),
            total_us: swap.total_us.unwrap_or(0),
        };
        if number >= self.next.swaps {
            self.next.swaps = number.saturating_add(1);
            if let Some((sum, _)) = self.swaps.sum(piece, key) {
                sum.add(&moved);
            }
        }
        if let Some(fresh) = self.fresh.as_mut().filter(|_| is_new) {
            join(&mut self.swaps.key, key);
            fresh.add(&self.swaps.key, &moved);
        }
    }

    /// Counts a response, of the request with this number: a miss, or a revalidation. Others are
    /// not counted here.
    pub(super) fn answer(&mut self, request: &Transaction<'_>, secs: u32, number: u64) {
        if number < self.next.requests {
            return;
        }
        self.next.requests = number.saturating_add(1);
        let code = request.code;
        let has = |word: &[u8]| code.windows(word.len()).any(|it| it == word);
        let is_miss = code == b"TCP_MISS";
        if !is_miss && !has(b"IMS") && !has(b"REFRESH") {
            return;
        }
        // No server was asked, so nothing was fetched.
        let fetched = request.fetched_bytes.or(request.peer.is_none().then_some(0));
        let [sent, body] = [request.sent_bytes, fetched.unwrap_or(0)]
            .map(|it| i64::try_from(it).unwrap_or(i64::MAX));
        // Errors, and what the server answered anew, if with an empty body.
        let is_new =
            || has(b"_ERR") || request.peer.is_some() && (has(b"_MODIFIED") || has(b"_MISS"));
        let saved = match fetched {
            None => 0,
            Some(0) if is_new() => 0,
            Some(0) => sent,
            // What is sent beside a body that was fetched is the head of the answer.
            Some(_) => sent.saturating_sub(body).min(0),
        };
        let piece = self.piece(secs);
        let url = request.url.as_deref().unwrap_or_default();
        let host = url_parts(url, request.method == Some(b"CONNECT")).host;
        let key = [host, request.mime.as_deref().unwrap_or_default(), code];
        let Some((sum, has_room)) = self.answers.sum(piece, key) else { return };
        sum.add(&Answers {
            count: 1,
            time_ms: request.elapsed_ms,
            sent_bytes: request.sent_bytes,
            known: fetched.is_some().into(),
            saved_bytes: saved,
            times: BTreeMap::new(),
        });
        let ms = request.elapsed_ms;
        if is_miss && (has_room || sum.times.contains_key(&ms)) {
            let before = sum.times.len();
            let count = sum.times.entry(ms).or_default();
            *count = count.saturating_add(1);
            let more = sum.times.len().saturating_sub(before);
            self.answers.entries = self.answers.entries.saturating_add(more);
        }
    }

    /// Clears all sums.
    pub fn clear(&mut self) {
        let (window_secs, fresh, file) = (self.window_secs, self.fresh.take(), self.file);
        *self = Self { window_secs, fresh, file, ..Self::default() };
    }
}

/// Seconds of the monotonic clock, on which sums leave their window.
pub(crate) fn now(mono_ms: u64) -> u32 {
    u32::try_from(mono_ms / 1_000).unwrap_or(u32::MAX)
}

/// Seconds that the window reaches back from `secs`, over all sources of a daemon that runs for
/// `uptime`. It ends piece by piece, so it is up to one piece shorter than its length.
pub fn covered<'a>(
    sources: impl Iterator<Item = &'a super::Source>,
    secs: u32,
    uptime: u32,
) -> u32 {
    sources.map(|source| source.sums.lock().covered(secs, uptime)).max().unwrap_or(uptime)
}

/// Objects moved in the window that ends at `secs`, over all sources.
pub fn swaps<'a>(
    sources: impl Iterator<Item = &'a super::Source>,
    secs: u32,
) -> Vec<(Vec<String>, Swaps)> {
    let mut all = BTreeMap::new();
    for source in sources {
        let sums = source.sums.lock();
        sums.swaps.read(sums.piece(secs), &mut all);
    }
    all.into_iter().map(|(key, sum)| (shown(&key), sum)).collect()
}

/// Savings from revalidation in the window that ends at `secs`, over all sources.
pub fn savings<'a>(sources: impl Iterator<Item = &'a super::Source>, secs: u32) -> Vec<Saved> {
    let mut all = BTreeMap::new();
    for source in sources {
        let sums = source.sums.lock();
        sums.answers.read(sums.piece(secs), &mut all);
    }
    let miss_of = |key: &[u8]| {
        let code = key.iter().rposition(|byte| *byte == 0)?;
        let mut miss = key.get(..=code)?.to_vec();
        miss.extend_from_slice(b"TCP_MISS");
        all.get(&miss[..]).map(Answers::median_ms)
    };
    let savings = all.iter().filter_map(|(key, answers)| {
        let (misses, miss_median_ms) = miss_of(key).unwrap_or_default();
        let key = shown(key);
        (key.get(2).is_none_or(|code| code != "TCP_MISS")).then(|| Saved {
            key,
            answers: answers.clone(),
            misses,
            miss_median_ms,
        })
    });
    savings.collect()
}

#[cfg(test)]
mod tests;
