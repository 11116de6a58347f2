//! Pools saved piece by piece while in use, and restored: whole, into smaller ones, and from
//! invalid chunks.

use std::time::Duration;

use super::super::strings::EMPTY;
use super::*;
use crate::config::PoolConfig;
use crate::input::Decode as _;
use crate::input::pinba::{Decoder, model};
use crate::input::record::{Hasher, Record, TextLimits};
use prost::Message as _;

fn config(requests: usize, timers: usize) -> PoolConfig {
    PoolConfig {
        request_pool_size: requests,
        timer_pool_size: timers,
        stats_history: Duration::from_secs(60),
        words_memory: 4 << 20,
    }
}

/// A pool and its decoder.
struct Filled {
    pool: Pool,
    decoder: Decoder,
}

impl Filled {
    fn new(requests: usize, timers: usize) -> Self {
        let hasher = Hasher::new();
        Self {
            pool: Pool::new(&config(requests, timers), hasher.clone()),
            decoder: Decoder::new(TextLimits::default(), hasher),
        }
    }

    /// Sends requests number `from..until`, a hundred a second.
    fn send(&mut self, from: u64, until: u64) {
        let mut timers = Vec::new();
        for n in from..until {
            let mut sent =
                model::Request::named("web", format!("s{}", n % 3), format!("/{}", n % 700));
            sent.request_time = Some(n as f32 / 1000.0);
            sent.schema = (n % 2 == 0).then(|| b"https".to_vec());
            sent.status = Some(200 + (n % 4) as u32);
            for timer in 0..n % 4 {
                let op = format!("op{}", (n + timer) % 50);
                sent.add_timer(1 + timer as u32, 0.25, &[("group", "db"), ("op", &op)]);
            }
            let mut bytes = Vec::new();
            self.decoder
                .decode(&sent.encode_to_vec(), 1_700_000_000 + n as u32, &mut bytes)
                .unwrap();
            let record = Record::next(&mut &bytes[..]).unwrap();
            timers.clear();
            self.pool.append(&record, n / 100, n * 10, &mut timers);
            self.pool.notify_freed(|_| {});
        }
    }

    /// All rows as text, with names.
    fn rows(&self, now_ms: u64) -> Vec<String> {
        let pool = &self.pool;
        let ids = pool.requests.oldest_id()..pool.requests.next_id();
        ids.map(|id| {
            let row = pool.requests.get(id).unwrap();
            let origin = pool.origins.get(row.origin);
            let text = |string| pool.strings.text(string).to_owned();
            let timers: Vec<_> = pool
                .timers_of(&row)
                .map(|(id, timer)| {
                    let tags = pool.tag_sets.pairs(timer.tags);
                    let tags: Vec<_> = tags.map(|(n, v)| (text(n), text(v))).collect();
                    (id, tags, TimerRow { tags: 0, ..timer })
                })
                .collect();
            let shown = RequestRow { origin: 0, request_tags: 0, first_timer: 0, ..row };
            format!(
                "{id} {} {} {} {} {} {} {timers:?} {shown:?}",
                text(origin.hostname),
                text(origin.server_name),
                text(origin.script_name),
                origin.schema == NONE || text(origin.schema) == "https",
                origin.status,
                row.merged_at(now_ms),
            )
        })
        .collect()
    }

    fn chunks(&self, now_ms: u64) -> Vec<Vec<u8>> {
        let mut from = 1;
        let mut chunks = Vec::new();
        while let Some(chunk) = self.pool.copy_rows(from, u64::MAX, now_ms) {
            from = chunk.next();
            chunks.push(postcard::to_stdvec(&chunk).unwrap());
        }
        chunks
    }

    fn restore(&mut self, chunks: &[Vec<u8>], gone: Option<u64>, now_ms: u64) -> u64 {
        let tick = |ms| ms / 1000;
        let taken = chunks.iter().map(|chunk| {
            let chunk = postcard::from_bytes(chunk).unwrap();
            self.pool.restore_rows(&chunk, tick, gone, now_ms).unwrap()
        });
        taken.sum()
    }
}

#[test]
fn rows_come_back_as_they_were_and_go_on() {
    let mut before = Filled::new(5_000, 20_000);
    before.send(1, 9_000);
    let now_ms = 90_000;
    let mut after = Filled::new(5_000, 20_000);
    assert_eq!(
        after.restore(&before.chunks(now_ms), None, now_ms),
        before.pool.requests.len() as u64
    );
    after.pool.restore_ids(before.pool.ids());
    assert_eq!(after.rows(now_ms), before.rows(now_ms));
    assert_eq!(after.pool.ids(), before.pool.ids());
    // Equal names are one name, before and after.
    before.send(9_000, 9_700);
    after.send(9_000, 9_700);
    assert_eq!(after.rows(now_ms), before.rows(now_ms));
    assert_eq!(after.pool.origins.len(), before.pool.origins.len());
    assert_eq!(after.pool.tag_sets.len(), before.pool.tag_sets.len());
    // All are released with the last row: nothing restored is held twice.
    for filled in [&mut before, &mut after] {
        filled.pool.clear();
        filled.pool.go_on_from(1 << 40, 1 << 41);
        assert_eq!(filled.pool.strings.len(), 0);
        assert_eq!((filled.pool.origins.len(), filled.pool.tag_sets.len()), (0, 0));
    }
}

#[test]
fn what_expired_is_left_out_and_smaller_pools_keep_the_newest() {
    let mut before = Filled::new(5_000, 20_000);
    before.send(1, 4_000);
    let now_ms = 40_000;
    let chunks = before.chunks(now_ms);
    let mut later = Filled::new(5_000, 20_000);
    // Ticks 0 to 19 are gone: requests 1 to 1,999.
    assert_eq!(later.restore(&chunks, Some(19), now_ms), 2_000);
    assert_eq!(later.rows(now_ms), before.rows(now_ms)[1_999..]);
    let mut smaller = Filled::new(10, 12);
    smaller.restore(&chunks, None, now_ms);
    smaller.pool.restore_ids(before.pool.ids());
    assert_eq!(smaller.pool.ids().next_request, 4_000);
    let last = smaller.pool.requests.get(3_999).unwrap();
    let origin = smaller.pool.origins.get(last.origin);
    assert_eq!(smaller.pool.strings.text(origin.script_name), "/499");
    assert!(smaller.pool.requests.len() <= 10 && smaller.pool.timers.len() <= 12);
    let mut none = Filled::new(0, 0);
    none.restore(&chunks, None, now_ms);
    none.pool.restore_ids(before.pool.ids());
    assert_eq!(none.pool.ids().next_request, 4_000);
    assert!(none.pool.requests.is_empty());
}

#[test]
fn timers_that_a_smaller_pool_did_not_keep_are_not_taken_from_the_next_request() {
    let mut before = Filled::new(500, 2);
    before.send(1, 12);
    let mut after = Filled::new(500, 2_000);
    after.restore(&before.chunks(600), None, 600);
    after.send(12, 16);
    // The result can be saved and restored again.
    let mut again = Filled::new(500, 2_000);
    again.restore(&after.chunks(600), None, 600);
    assert_eq!(again.rows(600), after.rows(600));
    let rows = &after.pool.requests;
    let timers = (11..16).map(|id| {
        let row = rows.get(id).unwrap();
        (row.timers, after.pool.timers_of(&row).count())
    });
    // Two of the last one's three were left.
    assert_eq!(timers.collect::<Vec<_>>(), [(2, 2), (0, 0), (1, 1), (2, 2), (3, 3)]);
}

#[test]
fn rows_that_left_while_others_were_copied_leave_no_hole() {
    let mut before = Filled::new(3_000, 20_000);
    before.send(1, 3_000);
    let first = before.pool.copy_rows(1, 3_000, 30_000).unwrap();
    before.send(3_000, 5_900);
    let second = before.pool.copy_rows(first.next(), 3_000, 60_000).unwrap();
    let chunks = [first, second].map(|chunk| postcard::to_stdvec(&chunk).unwrap());
    let mut after = Filled::new(3_000, 20_000);
    after.restore(&chunks, None, 60_000);
    let rows = &after.pool.requests;
    assert_eq!((rows.oldest_id(), rows.next_id()), (2_900, 3_000));
    assert_eq!(after.rows(60_000)[0], before.rows(60_000)[0]);
}

#[test]
fn chunks_that_cannot_be_end_in_an_error_and_nothing_worse() {
    let mut before = Filled::new(500, 2_000);
    before.send(1, 12);
    let chunk = &before.chunks(600)[0];
    let mut refused = 0;
    let mut attempt = |bytes: &[u8]| {
        let mut after = Filled::new(500, 2_000);
        let read = postcard::from_bytes(bytes).ok();
        let restored = read.and_then(|chunk| {
            let restored = after.pool.restore_rows(&chunk, |ms| ms / 1000, None, 600);
            restored.ok()
        });
        refused += u64::from(restored.is_none());
        // The pool works regardless.
        after.send(100, 110);
        after.pool.clear();
        restored.is_some()
    };
    for end in 0..chunk.len() {
        assert!(!attempt(&chunk[..end]), "cut at {end}");
    }
    for at in 0..chunk.len() {
        for bit in [0x01, 0x80] {
            let mut bytes = chunk.clone();
            bytes[at] ^= bit;
            attempt(&bytes);
        }
    }
    assert!(refused > chunk.len() as u64);
}

#[test]
fn what_is_saved_is_the_same_string_elsewhere() {
    let mut here = StringInterner::new(1 << 20, Hasher::new());
    let text = here.intern(OTHER_TEXT.as_bytes());
    let mut saved = SavedStrings::default();
    assert!(saved.add(text, &here) > OTHER_TEXT.len());
    let mut there = StringInterner::new(1 << 20, Hasher::new());
    let found = saved.restore(text, &mut there).unwrap();
    assert_eq!(there.find(OTHER_TEXT.as_bytes()), Some(found));
    for id in [EMPTY, OTHER, NONE] {
        assert_eq!(saved.add(id, &here), 0);
        assert_eq!(saved.restore(id, &mut there), Ok(id));
    }
    assert!(saved.restore(7, &mut there).is_err());
    saved.0.insert(8, "x".repeat(TEXT_BYTES_MAX + 1));
    assert!(saved.restore(8, &mut there).is_err());
    there.release(found);
    assert!(there.is_empty(), "held once");
}
