//! Records that leave out tags, compared with records of the same packets that do not: over a ring
//! that loses some of them, rows that are evicted and expire, and words without room.

use std::collections::{BTreeMap, VecDeque};

use prost::Message as _;

use super::super::test_harness::{self, Limits, RECEIVED};
use super::super::*;
use super::counted;
use crate::dice::Dice;
use crate::input::Decode as _;
use crate::input::pinba::{Decoder, model};
use crate::input::record::{Hasher, TextLimits};

/// Tags with their texts.
type Tags = Vec<(String, String)>;

/// Every raw request by id: the tags of it and of its timers.
fn rows(live: &Live) -> BTreeMap<u64, Vec<Tags>> {
    let pool = &live.pool;
    let text = |id| String::from_utf8_lossy(pool.strings.bytes(id)).into_owned();
    let tags = |set| pool.tag_sets.pairs(set).map(|(name, value)| (text(name), text(value)));
    let ids = pool.requests.oldest_id()..pool.requests.next_id();
    ids.map(|id| {
        let row = pool.requests.get(id).unwrap();
        let of_timers = pool.timers_of(&row).map(|(_, timer)| timer.tags);
        let sets = std::iter::once(row.request_tags).chain(of_timers);
        (id, sets.map(|set| tags(set).collect()).collect())
    })
    .collect()
}

/// One of this many kinds of packets, which are others in each phase.
fn packet(dice: &mut Dice, kinds: u64, phase: u64) -> Vec<u8> {
    let kind = phase * 1_000 + dice.below(kinds);
    let mut sent = model::Request::named("h", "s", format!("/{}", kind % 7));
    if kind.is_multiple_of(3) {
        sent.add_tag("env", format!("e{}", kind % 5));
    }
    for timer in 0..kind % 4 {
        let group = format!("g{}", kind + timer);
        // A timer without hits takes its tags along.
        let hits = u32::from(dice.below(40) > 0);
        sent.add_timer(hits, 0.5, &[("group", &*group), ("op", "get")]);
    }
    sent.encode_to_vec()
}

#[test]
fn nothing_changes_when_records_leave_out_tags() {
    // Kinds of packets, bytes for words, rows.
    for (kinds, words, requests) in [
        // Names whose sets leave the pool before they come again.
        (8, 1 << 20, 1_000),
        // No raw rows.
        (8, 1 << 20, 0),
        // More kinds than have names.
        (300, 1 << 20, 1_000),
        // More sets than have room.
        (20_000, 1 << 18, 40_000),
    ] {
        let hasher = Hasher::new();
        let own = [("by_group", r#"{"level": "timer", "keys": ["@group", "+env"]}"#)];
        let reports =
            || test_harness::with_own(&test_harness::defaults(Limits::SMALL.window), &own);
        let limits = Limits { requests, timers: requests * 2, words, ..Limits::SMALL };
        let mut plain = limits.live(&hasher, reports());
        let mut short = limits.live(&hasher, reports());
        let mut decoder = Decoder::new(TextLimits::default(), hasher.clone());
        let mut repeating = test_harness::decoder(hasher, &mut short);
        let mut dice = Dice(kinds);
        let mut ring = VecDeque::new();
        let (mut bytes, mut short_bytes, mut now_ms) = (0, 0, 0);
        for block in 0..480_u64 {
            let mut records = [Vec::new(), Vec::new()];
            // Now and then all rows expire.
            now_ms += if block % 97 == 96 { 90_000 } else { 20 };
            for _ in 0..dice.below(300) {
                // A phase comes again after 160 blocks, or three epochs.
                let packet = packet(&mut dice, kinds, block / 80 % 3);
                decoder.decode(&packet, RECEIVED, &mut records[0]).unwrap();
                repeating.decode(&packet, RECEIVED, &mut records[1]).unwrap();
            }
            (bytes, short_bytes) = (bytes + records[0].len(), short_bytes + records[1].len());
            ring.push_back(records);
            while ring.len() as u64 > block % 5 {
                let [full, left_out] = ring.pop_front().unwrap();
                if dice.below(6) == 0 {
                    continue;
                }
                for (live, records) in [(&mut plain, full), (&mut short, left_out)] {
                    live.advance(now_ms);
                    live.merge(&records, now_ms);
                }
            }
            if block % 20 == 0 {
                assert_eq!(rows(&short), rows(&plain), "{kinds} kinds, block {block}");
                assert_eq!(short.pool.overflowed(), plain.pool.overflowed());
            }
        }
        for report in ["by_group", "report_by_script_name"] {
            assert_eq!(counted(&short, report), counted(&plain, report));
        }
        let sets = |live: &Live| (live.pool.tag_sets.len(), live.pool.strings.len());
        assert_eq!(sets(&short), sets(&plain), "names hold nothing");
        assert!(kinds > 8 || short_bytes * 5 < bytes * 4, "{short_bytes} of {bytes}");
    }
}
