//! Raw timers in memory, summed by any tags, without a report for them.
//!
//! When there are more timers than the caller allows, a sample of the requests stands for all of
//! them, spread evenly over the time asked for: one of two, of four and so on, chosen by id, so
//! that the same question has the same answer while rows come and go. The first walk counts the
//! timers, the second adds them up; each examines some rows under one hold of the lock. Tag sets
//! repeat, so the row of a set is determined once per hold and remembered by the set's number.

use std::ops::Range;

use ahash::AHashMap;

use super::{CHUNK, Look, Matcher, RawReader, answering};
use crate::pool::Pool;
use crate::pool::requests::RequestRow;
use crate::pool::resolved::PoolTags;
use crate::pool::rows::first_from;
use crate::pool::strings::NONE;
use crate::query::question::RequestSearch;
use crate::query::timer_groups::{ONE, Of, Place, TimerGroups, TimerSearch, TimerSums};
use crate::report::definition::{Field, KeySource};
use crate::report::field_string;

/// Timers examined under one hold of the lock, in addition to those of the current request: less
/// than a millisecond.
const CHUNK_TIMERS: u64 = 16_384;
/// Multiplier that spreads consecutive ids evenly over all 64-bit numbers, out of step with any
/// rhythm of the requests.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sample of one request in `1 << shift`.
#[derive(Debug, Clone, Copy)]
struct Sample {
    shift: u32,
}

impl Sample {
    /// Chooses a sample that leaves at most `most` of `all`, as far as repeated halving can.
    fn of(all: u64, most: usize) -> Self {
        let parts = all.div_ceil((most as u64).max(1)).max(1);
        let shift = parts.next_power_of_two().trailing_zeros();
        Self { shift }
    }

    fn has(self, id: u64) -> bool {
        self.shift == 0 || id.wrapping_mul(GOLDEN) >> (64 - self.shift) == 0
    }
}

impl RawReader {
    /// Sums the timers of the matching requests, or estimates the sums from a sample.
    pub fn timer_groups(&self, search: &TimerSearch) -> TimerGroups {
        let mut sums = TimerSums::new(search);
        let (ids, oldest, is_cut) = {
            let pool = &answering(&self.live).pool;
            let ids = ids_of(pool, &search.requests);
            let oldest = pool.requests.timestamp(ids.start).unwrap_or_default();
            let is_cut = pool.is_cut() && ids.start == pool.requests.oldest_id();
            (ids, oldest, is_cut)
        };
        let narrowed = search.requests.narrows();
        // Of those that match, which may be few of all.
        let first = match narrowed {
            true => Sample { shift: 0 },
            false => Sample::of(ids.end - ids.start, search.scanned_max),
        };
        let mut timers = 0;
        let found = self.sampled(ids.clone(), &search.requests, first, |_, _, row| {
            timers += u64::from(row.timers);
            0
        });
        let all = if narrowed { found } else { ids.end - ids.start };
        let costs = timers.max(found);
        let sample = Sample { shift: first.shift + Sample::of(costs, search.scanned_max).shift };
        self.add_timers(ids, sample, &mut sums);
        sums.scanned.narrowed = narrowed;
        sums.scanned.oldest = oldest;
        sums.scanned.all = sample.shift == 0 && !is_cut;
        sums.scanned.sample_of = (sample.shift > 0).then_some(all);
        sums.finish()
    }

    fn add_timers(&self, ids: Range<u64>, sample: Sample, sums: &mut TimerSums<'_>) {
        let search = sums.search;
        // Numbers may have been reused after the lock was released.
        let mut known: AHashMap<(u32, u32, u32), Place> = AHashMap::new();
        let mut hold = 0;
        let looked_at = self.sampled(ids, &search.requests, sample, |matcher, id, row| {
            let pool = matcher.pool;
            if std::mem::replace(&mut hold, matcher.hold) != matcher.hold {
                known.clear();
            }
            let of = Of { received: row.timestamp, run: None, id, parts: ONE << sample.shift };
            for timer in pool.resolve_timers(row) {
                sums.timers_scanned += 1;
                let asked = (row.origin, row.request_tags, timer.tags.set);
                let place = known.entry(asked);
                let place = *place.or_insert_with(|| place_of(sums, pool, row, timer.tags));
                sums.add(place, of, timer, |timer| {
                    let script = shown_field(pool, row, Field::ScriptName);
                    (script, timer.map_tags(PoolTags::to_vec))
                });
            }
            u64::from(row.timers)
        });
        sums.scanned.requests = looked_at;
    }

    /// Passes the matching requests of a sample to `look`, newest first; `look` returns the number
    /// of timers it examined. Returns their number.
    fn sampled(
        &self,
        ids: Range<u64>,
        search: &RequestSearch,
        sample: Sample,
        mut look: impl FnMut(&mut Matcher<'_>, u64, &RequestRow) -> u64,
    ) -> u64 {
        let (mut requests, mut timers) = (0, 0);
        let most = CHUNK << sample.shift.min(4);
        self.walk(search, ids.rev(), most, |matcher, id| {
            let row = sample.has(id).then(|| matcher.pool.requests.get(id));
            let Some(row) = row.flatten() else { return Look::On };
            if matcher.matches(&row) {
                requests += 1;
                timers += look(matcher, id, &row);
            }
            if timers < CHUNK_TIMERS {
                return Look::On;
            }
            timers = 0;
            Look::Release
        });
        requests
    }
}

/// Returns the ids of the requests in memory that were received in the time of a search.
fn ids_of(pool: &Pool, search: &RequestSearch) -> Range<u64> {
    let requests = &pool.requests;
    let held = requests.oldest_id()..requests.next_id();
    let first = |is_before: &dyn Fn(u64) -> bool| {
        let is_before = |id| Some(is_before(requests.timestamp(id)?.into()));
        first_from(held.clone(), is_before).unwrap_or(held.end)
    };
    let since = search.since.map(|since| first(&|at| at < since));
    let until = search.until.map(|until| first(&|at| at <= until));
    let start = since.unwrap_or(held.start);
    start..until.unwrap_or(held.end).max(start)
}

/// Returns the place for timers with these tags in a request like this.
fn place_of(sums: &mut TimerSums<'_>, pool: &Pool, row: &RequestRow, tags: PoolTags<'_>) -> Place {
    let by = &sums.search.by;
    sums.place(tags.pairs(), |at| match &by[at] {
        KeySource::Field(field) | KeySource::TimerTagOrField(_, field) => {
            Some(shown_field(pool, row, *field))
        }
        KeySource::RequestTag(name) => {
            let mut tags = pool.tags(row.request_tags).pairs();
            let (_, value) = tags.find(|(tag, _)| tag == name)?;
            Some(value.to_owned())
        }
        KeySource::TimerTag(_) => None,
    })
}

/// Returns a field of a request as text.
pub(crate) fn shown_field(pool: &Pool, row: &RequestRow, field: Field) -> String {
    let origin = pool.origins.get(row.origin);
    match field_string(origin, field) {
        Some(NONE) => String::new(),
        Some(string) => pool.strings.text(string).to_owned(),
        None => origin.status.to_string(),
    }
}
