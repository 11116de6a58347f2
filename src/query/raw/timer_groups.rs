//! Raw timers in memory, summed up by any tags without a report for them.
//!
//! A walk over the newest requests, as [`slowest`](super::slowest): some rows under one hold of the lock, and an end
//! after as many requests and timers as the caller allows. Tag sets repeat, so what a set means for the question is found out
//! once per hold and remembered by number.

use ahash::AHashMap;

use super::{CHUNK, RawReader, answering, timer_detail, walk_down};
use crate::input::record::micros;
use crate::pool::Pool;
use crate::pool::requests::RequestRow;
use crate::pool::strings::NONE;
use crate::query::read_model::{TimerGroups, TimerSearch};
use crate::query::timer_groups::{Numbers, ONE, Of, TimerSums};
use crate::report::definition::{Field, KeySource};
use crate::report::field_word;

/// Timers looked at under one hold of the lock, with those of the request that is under way: less than a millisecond.
const CHUNK_TIMERS: u64 = 16_384;

impl RawReader {
    /// Sums up the timers of the newest requests that match.
    #[must_use]
    pub fn timer_groups(&self, search: &TimerSearch) -> TimerGroups {
        let mut sums = TimerSums::new(search);
        let mut before = u64::MAX;
        let mut more = true;
        let most = search.scanned_max as u64;
        while more && sums.scanned.requests < most && sums.timers_scanned < most {
            more = self.timers_chunk(&mut before, &mut sums);
        }
        sums.scanned.all = !more;
        sums.finish()
    }

    /// Looks at some requests below `before`, which moves down; false when there is nothing older.
    fn timers_chunk(&self, before: &mut u64, sums: &mut TimerSums<'_>) -> bool {
        // Numbers may stand for something else after the lock was let go.
        let mut known: AHashMap<(u32, u32, u32), Option<usize>> = AHashMap::new();
        let search = sums.search;
        let enough = (sums.timers_scanned + CHUNK_TIMERS).min(search.scanned_max as u64);
        let live = answering(&self.live);
        walk_down(
            &live.pool,
            &search.requests,
            before,
            CHUNK,
            |matcher, request, row| {
                sums.scanned.requests += 1;
                sums.scanned.oldest = row.timestamp;
                if !matcher.matches(&row) {
                    return true;
                }
                let pool = matcher.pool;
                let of = Of {
                    received: row.timestamp,
                    run: None,
                    id: request,
                    parts: ONE,
                };
                for (id, timer) in pool.timers_of(&row) {
                    sums.timers_scanned += 1;
                    let asked = (row.origin, row.request_tags, timer.tags);
                    let place = known.entry(asked);
                    let place = *place.or_insert_with(|| place_of(sums, pool, &row, timer.tags));
                    let Some(at) = place else {
                        continue;
                    };
                    let numbers = Numbers {
                        id,
                        hits: u64::from(timer.hit_count.max(1)),
                        value_us: micros(timer.value),
                        ru_utime_us: micros(timer.ru_utime),
                        ru_stime_us: micros(timer.ru_stime),
                    };
                    sums.add(at, of, numbers, || {
                        let script = shown_field(pool, &row, Field::ScriptName);
                        (script, timer_detail(pool, id, &timer))
                    });
                }
                sums.timers_scanned < enough
            },
        )
    }
}

/// The row of timers with these tags, in a request like this; `None` when they are not wanted.
fn place_of(sums: &mut TimerSums<'_>, pool: &Pool, row: &RequestRow, set: u32) -> Option<usize> {
    let texts = |set| {
        let text = |string| pool.strings.text(string);
        let pairs = pool.tag_sets.pairs(set);
        pairs.map(move |(name, value)| (text(name), text(value)))
    };
    let by = &sums.search.by;
    sums.place(texts(set), |at| match &by[at] {
        KeySource::Field(field) | KeySource::TimerTagOrField(_, field) => {
            Some(shown_field(pool, row, *field))
        }
        KeySource::RequestTag(name) => {
            let mut tags = texts(row.request_tags);
            let (_, value) = tags.find(|(tag, _)| tag == name)?;
            Some(value.to_owned())
        }
        KeySource::TimerTag(_) => None,
    })
}

/// A field of a request as text.
fn shown_field(pool: &Pool, row: &RequestRow, field: Field) -> String {
    let origin = pool.origins.get(row.origin);
    match field_word(origin, field) {
        Some(NONE) => String::new(),
        Some(string) => pool.strings.text(string).to_owned(),
        None => origin.status.to_string(),
    }
}
