//! Requests of each release and script in blocks of time.
//!
//! ```text
//!   seconds -> block of 10 min -> .. 162 blocks ..                 windows of half an hour by default, over a day
//!           -> block of 8 h    -> .. 48 blocks ..                  windows of a day, over two weeks
//!                                 | w2 | w1 | w0 |x| new release   x: the block in which it began
//! ```
//!
//! Windows are whole blocks that end where the new release begins, so none spans it. Bounded in
//! each block by [`RELEASE_CELLS_MAX`]: four times as many pairs of release and script find room
//! while it runs, then those with the most requests stay.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::judge::{Cell, Method};
use crate::limits::{RELEASE_CELLS_MAX, RELEASE_TIMES_MAX};
use crate::report::histogram::{BucketLayout, Rank, Rounding, within};

/// Number of blocks in a window.
pub(super) const BLOCKS_PER_WINDOW: usize = 3;

/// By release and script.
pub(super) type ByScript<V> = BTreeMap<(u32, String), V>;

/// The counts of a block.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Block {
    /// Unix seconds.
    pub(super) start: u64,
    /// Requests of all releases.
    pub(super) requests: u64,
    pub(super) cells: ByScript<Cell>,
    /// The times of the [`RELEASE_TIMES_MAX`] busiest of these, in the newest blocks alone.
    pub(super) times: ByScript<Times>,
}

/// Requests by bucket of their time.
pub(super) type Times = BTreeMap<u32, u64>;

/// Returns a percentile of these times, seconds; never above the longest one.
pub(super) fn quantile(times: &Times, percent: f64) -> Option<f64> {
    const BUCKETS: BucketLayout = BucketLayout::LogLinear;
    let total: u64 = times.values().sum();
    let rank = Rank::percent(percent, Rounding::Up).filter(|_| total > 0)?;
    let counts = times.iter().map(|(bucket, count)| (*bucket, *count));
    let bounds = BucketLayout::bounds_of(0, counts.clone(), |it| BUCKETS.ends(it));
    Some(within(BUCKETS.quantile(rank, total, counts), bounds))
}

/// Consecutive blocks of so many seconds; those without requests are left out.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Blocks {
    pub(super) secs: u64,
    pub(super) list: VecDeque<Block>,
}

/// The counts of one release in a window.
#[derive(Debug, Default)]
pub(super) struct Window<'a> {
    /// Its part of the requests of all.
    pub(super) share: f64,
    pub(super) scripts: BTreeMap<&'a str, (Cell, Times)>,
}

/// Keeps `most` entries with the largest counts, of equal ones the first; returns whether others
/// went.
pub(super) fn trim<K: Ord, V>(
    map: &mut BTreeMap<K, V>,
    most: usize,
    count: impl Fn(&V) -> u64,
) -> bool {
    let is_over = map.len() > most;
    if is_over {
        let mut all: Vec<(K, V)> = std::mem::take(map).into_iter().collect();
        all.sort_by_key(|it| Reverse(count(&it.1)));
        map.extend(all.into_iter().take(most));
    }
    is_over
}

/// The entries of a release, by script.
pub(super) fn of_release<V>(map: &ByScript<V>, release: u32) -> impl Iterator<Item = (&str, &V)> {
    let entries = map.range((release, String::new())..(release + 1, String::new()));
    entries.map(|((_, script), it)| (script.as_str(), it))
}

pub(super) fn add(sum: &mut Times, times: &Times) {
    times.iter().for_each(|(bucket, count)| *sum.entry(*bucket).or_default() += count);
}

impl Blocks {
    /// Begins the block of a second; returns whether it is a new one. Where the clock was set back
    /// the last one goes on.
    pub(super) fn begin(&mut self, unix: u64, method: Method) -> bool {
        // One more window for the new release, and one for the window in which it began.
        let most = (method.windows() + 2) * BLOCKS_PER_WINDOW;
        let timed = (method.before + 2) * BLOCKS_PER_WINDOW;
        let start = unix - unix % self.secs;
        let is_new = self.list.back().is_none_or(|it| it.start < start);
        if is_new {
            if let Some(Block { cells, times, .. }) = self.list.back_mut() {
                trim(cells, RELEASE_CELLS_MAX, |cell| cell.requests);
                trim(times, RELEASE_TIMES_MAX, |it| it.values().sum());
            }
            self.list.push_back(Block { start, ..Block::default() });
            self.list.drain(..self.list.len().saturating_sub(most));
            self.list.iter_mut().rev().skip(timed).for_each(|it| it.times.clear());
        }
        is_new
    }

    /// Sums over the blocks that begin in a span of so many seconds before `end`.
    pub(super) fn window(&self, release: u32, end: u64, secs: u64) -> Window<'_> {
        let (mut window, mut requests) = (Window::default(), [0, 0]);
        let span = end.saturating_sub(secs)..end;
        for block in self.list.iter().filter(|it| span.contains(&it.start)) {
            requests[0] += block.requests;
            for (script, cell) in of_release(&block.cells, release) {
                requests[1] += cell.requests;
                window.scripts.entry(script).or_default().0 += cell;
            }
            for (script, times) in of_release(&block.times, release) {
                add(&mut window.scripts.entry(script).or_default().1, times);
            }
        }
        window.share = requests[1] as f64 / requests[0].max(1) as f64;
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_counts_as_many_stay_as_there_is_room_for() {
        let most = RELEASE_CELLS_MAX;
        let mut map: BTreeMap<usize, u64> = (0..most + 100).map(|key| (key, 1)).collect();
        map.insert(most + 50, 7);
        assert!(trim(&mut map, most, |it| *it));
        assert_eq!((map.len(), map.get(&(most + 50))), (most, Some(&7)));
        assert!(!trim(&mut map, most, |it| *it));
        assert_eq!(map.len(), most);
    }

    #[test]
    fn narrower_counts_of_older_files_are_read() {
        let older = BTreeMap::from([(3_u16, 7_u32), (u16::MAX, u32::MAX)]);
        let bytes = postcard::to_stdvec(&older).unwrap();
        let times: Times = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(times, Times::from([(3, 7), (u16::MAX.into(), u32::MAX.into())]));
    }
}
