//! Raw timers summed up by any tags, without a report for them.
//!
//! A walk over the newest requests, as [`slowest`](super::slowest): some rows under one hold of the lock, and an end
//! after as many requests and timers as the caller allows. Tag sets repeat, so what a set means for the question is found out
//! once per hold and remembered by number. Bounded are the rows (what comes later goes to one row for all others), the
//! names of tags, and the single timers that are shown. Percentiles come from the buckets that reports have.

use std::collections::BTreeSet;

use ahash::AHashMap;

use super::{CHUNK, RawReader, Slowest, answering, timer_detail, walk_down};
use crate::input::record::micros;
use crate::pool::Pool;
use crate::pool::requests::RequestRow;
use crate::pool::strings::NONE;
use crate::pool::timers::TimerRow;
use crate::query::read_model::{
    Scanned, SlowTimer, TAG_NAMES_MAX, TimerGroup, TimerGroups, TimerSearch,
};
use crate::report::definition::{Field, KeySource};
use crate::report::field_word;
use crate::report::histogram::{BucketLayout, Rank, Ranks, Rounding};

/// Timers looked at under one hold of the lock, with those of the request that is under way: less than a millisecond.
const CHUNK_TIMERS: u64 = 16_384;

/// What one row has summed up.
#[derive(Debug, Default)]
struct TimerSums {
    group: TimerGroup,
    /// The request that was counted last.
    last_request: u64,
    /// Hits by bucket.
    buckets: AHashMap<u32, u64>,
}

impl TimerSums {
    fn add(&mut self, request: u64, timer: &TimerRow) {
        let group = &mut self.group;
        let (value, hits) = (micros(timer.value), u64::from(timer.hit_count.max(1)));
        group.requests += u64::from(self.last_request != request);
        self.last_request = request;
        group.timers += 1;
        group.hits += hits;
        group.value_us += value;
        group.ru_utime_us += micros(timer.ru_utime);
        group.ru_stime_us += micros(timer.ru_stime);
        group.max_us = group.max_us.max(value / hits);
        let bucket = BucketLayout::LogLinear.bucket(value / hits);
        *self.buckets.entry(bucket).or_default() += hits;
    }

    fn finish(mut self, ranks: &Ranks) -> TimerGroup {
        let mut buckets: Vec<(u32, u64)> = self.buckets.into_iter().collect();
        buckets.sort_unstable();
        let mut quantiles = Vec::new();
        BucketLayout::LogLinear.quantiles(ranks, self.group.hits, buckets, &mut quantiles);
        for (slot, value) in self.group.quantiles.iter_mut().zip(quantiles) {
            // The middle of a bucket may lie beyond its longest time, which is known here.
            *slot = value.min(self.group.max_us as f64 / 1e6);
        }
        self.group
    }
}

/// The sums in the making.
struct Sums<'a> {
    search: &'a TimerSearch,
    /// The first has what found no place among the others.
    rows: Vec<TimerSums>,
    places: AHashMap<Vec<Option<String>>, usize>,
    slowest: Slowest<SlowTimer>,
    tag_names: BTreeSet<String>,
    scanned: Scanned,
    timers_scanned: u64,
}

impl RawReader {
    /// Sums up the timers of the newest requests that match.
    #[must_use]
    pub fn timer_groups(&self, search: &TimerSearch) -> TimerGroups {
        let mut sums = Sums {
            search,
            rows: vec![TimerSums::default()],
            places: AHashMap::new(),
            slowest: Slowest::new(search.slowest_max),
            tag_names: BTreeSet::new(),
            scanned: Scanned::default(),
            timers_scanned: 0,
        };
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
    fn timers_chunk(&self, before: &mut u64, sums: &mut Sums<'_>) -> bool {
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
                for (id, timer) in pool.timers_of(&row) {
                    sums.timers_scanned += 1;
                    let asked = (row.origin, row.request_tags, timer.tags);
                    let place = known.entry(asked);
                    let place = *place.or_insert_with(|| sums.place(pool, &row, timer.tags));
                    let Some(at) = place else {
                        continue;
                    };
                    sums.rows[at].add(request, &timer);
                    sums.keep_slow(pool, (request, &row), (id, &timer));
                }
                sums.timers_scanned < enough
            },
        )
    }
}

impl Sums<'_> {
    /// The row of timers with these tags, in a request like this; `None` when they are not wanted.
    fn place(&mut self, pool: &Pool, row: &RequestRow, set: u32) -> Option<usize> {
        let text = |string| pool.strings.text(string);
        for (name, _) in pool.tag_sets.pairs(set) {
            if self.tag_names.len() < TAG_NAMES_MAX && !self.tag_names.contains(text(name)) {
                self.tag_names.insert(text(name).to_owned());
            }
        }
        let value = |set: u32, name: &str| {
            let mut pairs = pool.tag_sets.pairs(set);
            let (_, value) = pairs.find(|&(tag, _)| text(tag) == name)?;
            Some(text(value).to_owned())
        };
        let wanted = |(name, wanted): &(String, String)| value(set, name).as_ref() == Some(wanted);
        if !self.search.tags.iter().all(wanted) {
            return None;
        }
        let keys = self.search.by.iter().map(|source| match source {
            KeySource::Field(field) => Some(shown_field(pool, row, *field)),
            KeySource::RequestTag(name) => value(row.request_tags, name),
            KeySource::TimerTag(name) => value(set, name),
            KeySource::TimerTagOrField(name, field) => {
                Some(value(set, name).unwrap_or_else(|| shown_field(pool, row, *field)))
            }
        });
        let keys: Vec<Option<String>> = keys.collect();
        if let Some(at) = self.places.get(&keys) {
            return Some(*at);
        }
        if self.rows.len() > self.search.groups_max {
            return Some(0);
        }
        self.rows.push(TimerSums {
            group: TimerGroup {
                keys: keys.clone(),
                ..TimerGroup::default()
            },
            ..TimerSums::default()
        });
        let at = self.rows.len() - 1;
        self.places.insert(keys, at);
        Some(at)
    }

    /// Keeps a timer that is among the longest so far.
    fn keep_slow(
        &mut self,
        pool: &Pool,
        (request_id, row): (u64, &RequestRow),
        (id, timer): (u64, &TimerRow),
    ) {
        let time = micros(timer.value) / u64::from(timer.hit_count.max(1));
        if self.slowest.takes(time) {
            let slow = SlowTimer {
                request_id,
                script_name: shown_field(pool, row, Field::ScriptName),
                timestamp: row.timestamp,
                timer: timer_detail(pool, id, timer),
            };
            self.slowest.put(time, slow);
        }
    }

    fn finish(self) -> TimerGroups {
        let rank = |percent| Rank::percent(percent, Rounding::Up);
        let ranks = [50.0, 95.0, 99.0].into_iter().filter_map(rank);
        let ranks = Ranks::new(ranks.collect());
        let mut rows = self.rows.into_iter().map(|sums| sums.finish(&ranks));
        TimerGroups {
            other: rows.next().filter(|group| group.timers > 0),
            rows: rows.collect(),
            slowest: self.slowest.finish(),
            tag_names: self.tag_names.into_iter().collect(),
            scanned: self.scanned,
            timers_scanned: self.timers_scanned,
        }
    }
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
