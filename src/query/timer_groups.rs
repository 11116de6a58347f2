//! Raw timers grouped by any tags: question, answer, and summation, for timers in memory
//! (`requests`) and in the past (`catalog`).
//!
//! Bounds: the rows, the memory of rows until it is known which are the largest, the names of tags,
//! and the single timers shown. A request that stands for several counts as several; percentiles
//! come from the same buckets as in reports.

use std::cmp::Reverse;

use ahash::{AHashMap, RandomState};
use indexmap::IndexMap;

use super::answer::{Scanned, TimerDetail};
use super::question::RequestSearch;
use super::requests::Slowest;
use crate::pool::resolved::Timer;
use crate::report::definition::KeySource;
use crate::report::histogram::{BucketLayout, Histogram, Rank, Rounding, per_hit, within};

/// A search for raw timers, and the keys to sum by.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TimerSearch {
    /// The requests whose timers count; `limit` and `before_id` are ignored.
    pub requests: RequestSearch,
    /// Timer tags, by name and value: the first tag of that name must have that value.
    pub tags: Vec<(String, String)>,
    /// The keys of the rows.
    pub by: Vec<KeySource>,
    /// Most requests and timers to read; if there are more, a sample stands for all.
    pub scanned_max: usize,
    /// Most rows: those with the most time, or the most hits for
    /// [`per_request`](Self::per_request); all others are added up in [`TimerGroups::other`].
    pub groups_max: usize,
    /// Number of single timers to show, those with the longest time per hit.
    pub slowest_max: usize,
    /// Whether [`TimerGroup::per_request`] is wanted.
    pub per_request: bool,
}

/// Raw timers summed up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TimerGroups {
    /// One for each combination of keys, those with the most time or hits first.
    pub rows: Vec<TimerGroup>,
    /// Sums over all keys that have no row. The number of requests is not known (0), because one
    /// request can have several such keys.
    pub other: Option<TimerGroup>,
    /// The timers with the longest time per hit, longest first.
    pub slowest: Vec<SlowTimer>,
    /// The names of timer tags found, those that most requests have first; at most
    /// [`TAG_NAMES_MAX`].
    pub tag_names: Vec<String>,
    /// The raw rows that the sums are based on.
    pub scanned: Scanned,
    /// Timers read, whether they matched or not.
    pub timers_scanned: u64,
    /// Missing data, for people.
    pub partial: Vec<String>,
    /// If the rows come from a report rather than from raw timers: its name and the time that it
    /// covers, in words.
    pub from_report: Option<String>,
}

/// Most names of tags in [`TimerGroups`].
pub const TAG_NAMES_MAX: usize = 200;

/// Most names of tags that are counted: more than one packet can bring.
const NAMES_COUNTED_MAX: usize = 20_000;

/// Bytes of rows that are held until it is known which are the largest; further keys have no row.
pub const HELD_BYTES_MAX: usize = 6_144_000;
/// Bytes of a row without its keys and histograms, with its place in the table of keys.
const ROW_BYTES: usize = 512;

/// Raw timers with the same keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TimerGroup {
    /// In the order of [`TimerSearch::by`]; `None` if the timer or its request has no such tag.
    pub keys: Vec<Option<String>>,
    /// Requests with such timers.
    pub requests: u64,
    /// Number of timers.
    pub timers: u64,
    /// Their hits.
    pub hits: u64,
    /// Total of all hits, in microseconds.
    pub value_us: u64,
    /// User and system CPU of those whose CPU is known, microseconds.
    pub cpu_us: u64,
    /// Whether that is the case for any.
    pub is_measured: bool,
    /// Median, 95th and 99th percentile of the time per hit, seconds.
    pub quantiles: [f64; 3],
    /// Longest time per hit, microseconds.
    pub max_us: u64,
    /// The distribution of hits over requests, if wanted.
    pub per_request: Option<HitsPerRequest>,
}

/// Hits of a row in requests with such timers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HitsPerRequest {
    /// On average.
    pub mean: f64,
    /// 95th percentile, exact below 128.
    pub p95: u64,
    /// The most.
    pub max: u64,
    /// The request with the most, the newest of equals; with its run, where it is one of the past.
    pub request: (Option<u64>, u64),
}

/// A single timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowTimer {
    /// The run of its request, for one of the past.
    pub run: Option<u64>,
    /// Its request.
    pub request_id: u64,
    /// The request's script.
    pub script_name: String,
    /// When the request was received, in unix seconds.
    pub timestamp: u32,
    /// The timer.
    pub timer: TimerDetail,
}

/// Fixed-point unit for counts of requests, so that one may stand for one and a half.
pub(super) const ONE: u64 = 1024;

/// Most that is added to a histogram at once, in units of 1/[`ONE`].
const PARTS_MAX: u64 = u64::MAX >> 16;

/// The request of a timer, ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Of {
    /// Unix seconds.
    pub(super) received: u32,
    /// The run of the id, for one of the past.
    pub(super) run: Option<u64>,
    pub(super) id: u64,
    /// Its weight, in units of 1/[`ONE`].
    pub(super) parts: u64,
}

/// The sums of one row.
#[derive(Debug, Default)]
struct Row {
    group: TimerGroup,
    /// Requests, timers, hits, value, user and system CPU, in units of 1/[`ONE`].
    sums: [u128; 5],
    /// The last request counted.
    last: Option<Of>,
    /// Hits by their time, likewise.
    times: Histogram,
    /// Hits of the request that was counted last.
    hits: u64,
    /// The most of a request.
    most: (u64, Option<Of>),
    /// Requests by their hits, in parts, where that is wanted.
    requests: Option<Histogram>,
    /// Shortest time per hit, microseconds.
    min_us: u64,
}

impl Row {
    fn new(search: &TimerSearch, keys: Vec<Option<String>>) -> Self {
        Self {
            group: TimerGroup { keys, ..TimerGroup::default() },
            requests: search.per_request.then(Histogram::new),
            min_us: u64::MAX,
            ..Self::default()
        }
    }

    /// Counts the hits of the request that was counted last: all of its timers have been seen.
    fn close(&mut self) {
        let hits = std::mem::take(&mut self.hits);
        if let (Some(of), Some(requests)) = (self.last, &mut self.requests) {
            requests.add(BucketLayout::LogLinear.bucket(hits), of.parts.min(PARTS_MAX));
            self.most = self.most.max((hits, Some(of)));
        }
    }

    fn add<T>(&mut self, of: Of, timer: &Timer<T>) {
        let is_first = self.last != Some(of);
        if is_first {
            self.close();
            self.last = Some(of);
        }
        let hits = u64::from(timer.hit_count.max(1));
        self.hits = self.hits.saturating_add(hits);
        let value_us = timer.value_us;
        let cpu_us = timer.rusage.cpu_us();
        self.group.is_measured |= cpu_us.is_some();
        let more = [is_first.into(), 1, hits, value_us, cpu_us.unwrap_or(0)];
        for (sum, more) in self.sums.iter_mut().zip(more) {
            *sum += u128::from(more) * u128::from(of.parts);
        }
        let each_us = per_hit(value_us, timer.hit_count);
        self.group.max_us = self.group.max_us.max(each_us);
        self.min_us = self.min_us.min(each_us);
        let parts = hits.saturating_mul(of.parts).min(PARTS_MAX);
        self.times.add(BucketLayout::LogLinear.bucket(each_us), parts);
    }

    /// The hits of requests: needs the sums.
    fn per_request(&self) -> Option<HitsPerRequest> {
        let (max, of) = (self.most.0, self.most.1?);
        let by_hits = self.requests.as_ref()?;
        let rank = Rank::percent(95.0, Rounding::Up)?;
        let p95 = BucketLayout::LogLinear.quantile(rank, total(by_hits), by_hits.iter());
        let [requests, _, hits, ..] = self.sums;
        Some(HitsPerRequest {
            mean: hits as f64 / requests.max(1) as f64,
            p95: ((p95 * 1e6).round() as u64).min(max),
            max,
            request: (of.run, of.id),
        })
    }

    /// Adds the sums of another row.
    fn merge(&mut self, other: Self) {
        self.group.is_measured |= other.group.is_measured;
        self.group.max_us = self.group.max_us.max(other.group.max_us);
        self.min_us = self.min_us.min(other.min_us);
        for (sum, more) in self.sums.iter_mut().zip(other.sums) {
            *sum += more;
        }
        other.times.iter().for_each(|(bucket, parts)| self.times.add(bucket, parts));
    }

    fn finish(mut self, ranks: &[Rank]) -> TimerGroup {
        self.group.per_request = self.per_request();
        let mut quantiles = Vec::new();
        let (all, times) = (total(&self.times), self.times.iter());
        BucketLayout::LogLinear.quantiles(ranks, all, times, &mut quantiles);
        let group = &mut self.group;
        for (slot, value) in group.quantiles.iter_mut().zip(quantiles) {
            // The middle of a bucket may be beyond the times in it.
            *slot = within(value, Some((self.min_us as f64 / 1e6, group.max_us as f64 / 1e6)));
        }
        let one = u128::from(ONE);
        let whole = self.sums.map(|sum| (sum + one / 2) / one);
        [group.requests, group.timers, group.hits, group.value_us, group.cpu_us] =
            whole.map(|sum| u64::try_from(sum).unwrap_or(u64::MAX));
        self.group
    }
}

fn total(histogram: &Histogram) -> u64 {
    histogram.iter().map(|(_, parts)| parts).fold(0, u64::saturating_add)
}

/// In how many requests a name of timer tags was found.
#[derive(Debug, Default)]
struct TagName {
    last: Option<Of>,
    /// In units of 1/[`ONE`].
    parts: u64,
}

/// Where timers with the same tags are counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Their row; `None` if they are not wanted.
    row: Option<usize>,
    /// The set of the names of their tags.
    names: usize,
}

/// Accumulates sums.
pub(super) struct TimerSums<'a> {
    pub(super) search: &'a TimerSearch,
    /// The first one holds keys without a row.
    rows: Vec<Row>,
    /// Bytes of all of them.
    held: usize,
    places: AHashMap<Vec<Option<String>>, usize>,
    /// Among equals the newest, and among those of a request the first.
    slowest: Slowest<(u64, Of, Reverse<u64>), SlowTimer>,
    tag_names: IndexMap<String, TagName, RandomState>,
    /// Sets of names, by their places, and the last request counted there.
    name_sets: IndexMap<Vec<usize>, Option<Of>, RandomState>,
    pub(super) scanned: Scanned,
    pub(super) timers_scanned: u64,
}

impl<'a> TimerSums<'a> {
    pub(super) fn new(search: &'a TimerSearch) -> Self {
        Self {
            search,
            rows: vec![Row::new(search, Vec::new())],
            held: 0,
            places: AHashMap::new(),
            slowest: Slowest::new(search.slowest_max),
            tag_names: IndexMap::default(),
            name_sets: IndexMap::default(),
            scanned: Scanned::default(),
            timers_scanned: 0,
        }
    }

    /// The place of timers with these tags, in a request for which `of_request` returns the
    /// search's keys.
    pub(super) fn place<'t>(
        &mut self,
        tags: impl Iterator<Item = (&'t str, &'t str)> + Clone,
        of_request: impl Fn(usize) -> Option<String>,
    ) -> Place {
        let names = self.name_set(tags.clone().map(|(name, _)| name));
        let row = self.row(tags, of_request);
        Place { row, names }
    }

    fn name_set<'t>(&mut self, names: impl Iterator<Item = &'t str>) -> usize {
        let mut set = Vec::new();
        for name in names {
            match self.tag_names.get_index_of(name) {
                Some(known) => set.push(known),
                None if self.tag_names.len() >= NAMES_COUNTED_MAX => {}
                None => set.push(self.tag_names.insert_full(name.to_owned(), TagName::default()).0),
            }
        }
        self.name_sets.get_index_of(&set).unwrap_or_else(|| self.name_sets.insert_full(set, None).0)
    }

    fn row<'t>(
        &mut self,
        tags: impl Iterator<Item = (&'t str, &'t str)> + Clone,
        of_request: impl Fn(usize) -> Option<String>,
    ) -> Option<usize> {
        let value = |name: &str| {
            let (_, value) = tags.clone().find(|(tag, _)| *tag == name)?;
            Some(value)
        };
        let mut wanted = self.search.tags.iter();
        if !wanted.all(|(name, wanted)| value(name) == Some(wanted)) {
            return None;
        }
        let keys = self.search.by.iter().enumerate();
        let keys = keys.map(|(at, source)| match source {
            KeySource::TimerTag(name) => value(name).map(str::to_owned),
            KeySource::TimerTagOrField(name, _) => match value(name) {
                Some(value) => Some(value.to_owned()),
                None => of_request(at),
            },
            KeySource::Field(_) | KeySource::RequestTag(_) => of_request(at),
        });
        let keys: Vec<Option<String>> = keys.collect();
        if let Some(at) = self.places.get(&keys) {
            return Some(*at);
        }
        let bytes = keys.iter().flatten().map(String::len).sum::<usize>();
        let bytes = ROW_BYTES + 2 * (bytes + keys.len() * size_of::<Option<String>>());
        if self.held + bytes > HELD_BYTES_MAX {
            return Some(0);
        }
        self.held += bytes;
        self.rows.push(Row::new(self.search, keys.clone()));
        let at = self.rows.len() - 1;
        self.places.insert(keys, at);
        Some(at)
    }

    /// Counts the request of a timer for the names of its tags.
    fn count_names(&mut self, set: usize, of: Of) {
        let Some((names, last)) = self.name_sets.get_index_mut(set) else { return };
        if last.replace(of) == Some(of) {
            return;
        }
        for name in names {
            let name = &mut self.tag_names[*name];
            if name.last.replace(of) != Some(of) {
                name.parts = name.parts.saturating_add(of.parts);
            }
        }
    }

    /// Adds a timer to its row, if it is wanted; `slow` returns it in full, with its request's
    /// script, if it is among the longest.
    pub(super) fn add<T>(
        &mut self,
        place: Place,
        of: Of,
        timer: Timer<T>,
        slow: impl FnOnce(Timer<T>) -> (String, TimerDetail),
    ) {
        self.count_names(place.names, of);
        let Some(row) = place.row else { return };
        self.rows[row].add(of, &timer);
        let each_us = per_hit(timer.value_us, timer.hit_count);
        let key = (each_us, of, Reverse(timer.id));
        if self.slowest.takes(&key) {
            let (script_name, timer) = slow(timer);
            let slow = SlowTimer {
                run: of.run,
                request_id: of.id,
                script_name,
                timestamp: of.received,
                timer,
            };
            self.slowest.put(key, slow);
        }
    }

    pub(super) fn finish(mut self) -> TimerGroups {
        self.tag_names.sort_by_cached_key(|text, it| (Reverse(it.parts), text.clone()));
        let tag_names = self.tag_names.into_keys().take(TAG_NAMES_MAX).collect();
        let rank = |percent| Rank::percent(percent, Rounding::Up);
        let ranks: Vec<Rank> = [50.0, 95.0, 99.0].into_iter().filter_map(rank).collect();
        let mut rows = self.rows;
        rows.iter_mut().for_each(Row::close);
        let mut other = rows.remove(0);
        let partial = (other.sums[1] > 0).then(|| {
            format!(
                "there are more than {} different keys: the timers of those beyond are in (other), however long they took",
                rows.len()
            )
        });
        let is_by_hits = self.search.per_request;
        rows.sort_by_cached_key(|row| {
            let [_, _, hits, time, _] = row.sums;
            (Reverse(if is_by_hits { hits } else { time }), row.group.keys.clone())
        });
        let most = self.search.groups_max.min(rows.len());
        rows.drain(most..).for_each(|row| other.merge(row));
        let other = other.finish(&ranks);
        TimerGroups {
            other: (other.timers > 0).then_some(TimerGroup {
                requests: 0,
                per_request: None,
                ..other
            }),
            rows: rows.into_iter().map(|row| row.finish(&ranks)).collect(),
            slowest: self.slowest.finish(),
            tag_names,
            scanned: self.scanned,
            timers_scanned: self.timers_scanned,
            partial: partial.into_iter().collect(),
            from_report: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::resolved::Rusage;

    /// A row for each value of tag `q`: its hits, and its time in microseconds.
    fn summed(search: &TimerSearch, timers: impl Iterator<Item = (String, u64)>) -> TimerGroups {
        let mut sums = TimerSums::new(search);
        for (id, (value, value_us)) in timers.enumerate() {
            let of = Of { received: 1, run: None, id: id as u64, parts: ONE };
            let place = sums.place([("q", value.as_str())].into_iter(), |_| None);
            let rusage = Rusage::Times([0, 0]);
            let timer = Timer { id: 0, hit_count: 1, value_us, rusage, tags: () };
            sums.add(place, of, timer, |_| unreachable!("none is to be shown"));
        }
        sums.finish()
    }

    fn shown(groups: &TimerGroups) -> Vec<(&str, u64)> {
        groups.rows.iter().map(|it| (it.keys[0].as_deref().unwrap(), it.value_us)).collect()
    }

    #[test]
    fn the_rows_with_the_most_time_stay_whenever_they_came() {
        let by = vec![KeySource::TimerTag("q".to_owned())];
        let search = TimerSearch { by, groups_max: 2, ..TimerSearch::default() };
        let light = (0..5).map(|at| (format!("light {at}"), 10 + at));
        let heavy = [("heavy".to_owned(), 400), ("heavy".to_owned(), 400)];
        let groups = summed(&search, light.chain(heavy));
        assert_eq!(shown(&groups), [("heavy", 800), ("light 4", 14)]);
        // The middle of their bucket is 401.
        assert_eq!(groups.rows[0].quantiles, [0.000_4; 3]);
        let other = groups.other.unwrap();
        assert_eq!((other.timers, other.value_us, other.max_us), (4, 10 + 11 + 12 + 13, 13));
        assert_eq!(groups.partial, [""; 0]);
        let by_hits = TimerSearch { per_request: true, groups_max: 1, ..search.clone() };
        let often = ["a", "b", "b"].into_iter().zip([9, 1, 1]);
        let groups = summed(&by_hits, often.map(|(value, us)| (value.to_owned(), us)));
        assert_eq!(shown(&groups), [("b", 2)]);
    }

    #[test]
    fn keys_beyond_the_memory_of_rows_are_in_one() {
        let by = vec![KeySource::TimerTag("q".to_owned())];
        let search = TimerSearch { by, groups_max: 1, ..TimerSearch::default() };
        let keys = HELD_BYTES_MAX / ROW_BYTES;
        let groups = summed(&search, (0..keys).map(|at| (at.to_string(), 1)));
        assert_eq!(groups.other.unwrap().value_us + 1, keys as u64);
        assert!(groups.partial[0].contains("different keys"), "{:?}", groups.partial);
    }
}
