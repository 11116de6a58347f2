//! Requests of each release and script in blocks of time, and the releases themselves.
//!
//! ```text
//!   seconds -> block of 10 min -> .. 27 blocks ..                  windows of half an hour, over a day
//!           -> block of 8 h    -> ..                               windows of a day, over two weeks
//!                                 | w2 | w1 | w0 |x| new release    x: the block in which it began
//! ```
//!
//! Windows are whole blocks that end where the new release begins, so none spans it. Bounded by
//! [`RELEASES_MAX`] and, in each of some 200 blocks, [`RELEASE_CELLS_MAX`]: four times as many pairs
//! of release and script find room while a block runs, then those with the most requests stay.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::judge::{Cell, DAYS, HALF_HOURS, Method, NOT_ENOUGH, Script, Verdict, judge};
use crate::limits::{RELEASE_CELLS_MAX, RELEASE_MARKS_MAX, RELEASE_SCRIPT_BYTES_MAX, RELEASES_MAX};
use crate::report::gain::Pairs;
use crate::report::histogram::{BucketLayout, LOG_LINEAR_BUCKETS, Rank, Rounding};
use crate::report::totals::Totals;
use crate::value::text::roughly;

/// Blocks of a window.
const PARTS: u64 = 3;
const DAY: u64 = 86_400;
/// Requests from which a release counts as one.
const REQUESTS_MIN: u64 = 20;
/// Longest time after which the place of a release that sends nothing can be taken, seconds.
const IDLE_SECS: u64 = 3_600;

/// Logarithm of the time in the middle of each bucket.
static LN: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let middle = |bucket| {
        let (low, high) = BucketLayout::LogLinear.ends(bucket);
        f64::midpoint(low as f64, high as f64).max(1.0).ln()
    };
    (0..LOG_LINEAR_BUCKETS).map(middle).collect()
});

/// A release.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Release {
    /// Its number; not reused.
    id: u32,
    /// The value of the tag.
    pub name: String,
    /// First and last second with a request, unix.
    pub first_seen: u64,
    /// The last one.
    pub last_seen: u64,
    /// Requests.
    pub requests: u64,
    /// Requests with an error status.
    pub errors: u64,
    /// User and system CPU, microseconds.
    cpu_us: u64,
    /// Memory footprints, bytes.
    memory: u64,
    /// Requests of all releases before the first of this one, and up to its last.
    all: (u64, u64),
    /// Requests by bucket of their time.
    times: BTreeMap<u32, u64>,
    /// Requests by script and status.
    statuses: BTreeMap<(String, u32), u64>,
    /// Whether some of these were left out.
    is_partial: bool,
    /// Whether it has an annotation, or shall have none.
    is_marked: bool,
    /// When it is to be judged next, unix seconds; 0: never again.
    due: u64,
    /// What is known of the difference it makes.
    pub verdict: Option<Verdict>,
}

impl Release {
    /// Returns true if it has enough requests to count as a release.
    #[must_use]
    pub const fn is_shown(&self) -> bool {
        self.requests >= REQUESTS_MIN
    }

    /// Share of the requests between its first and its last one.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.requests as f64 / (self.all.1 - self.all.0).max(1) as f64
    }

    /// Requests a second between its first and its last one.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let secs = self.last_seen.saturating_sub(self.first_seen) + 1;
        self.requests as f64 / secs as f64
    }

    /// The time that `percent` of its requests do not exceed, seconds.
    #[must_use]
    pub fn quantile(&self, percent: f64) -> Option<f64> {
        let (total, rank) = (
            self.times.values().sum(),
            Rank::percent(percent, Rounding::Up)?,
        );
        let times = self.times.iter().map(|(bucket, count)| (*bucket, *count));
        (total > 0).then(|| BucketLayout::LogLinear.quantile(rank, total, times))
    }

    /// Mean CPU of a request, seconds.
    #[must_use]
    pub fn cpu(&self) -> f64 {
        self.cpu_us as f64 / 1e6 / self.requests.max(1) as f64
    }

    /// Mean memory footprint of a request, bytes.
    #[must_use]
    pub fn memory(&self) -> f64 {
        self.memory as f64 / self.requests.max(1) as f64
    }

    /// Requests of a script by status.
    fn statuses_of(&self, script: &str) -> impl Iterator<Item = (u32, u64)> {
        let from = self.statuses.range((script.to_owned(), 0)..);
        let of_script = from.take_while(move |it| it.0.0 == script);
        of_script.map(|((_, status), count)| (*status, *count))
    }
}

/// What was counted in a block.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Block {
    /// Unix seconds.
    start: u64,
    covered_secs: u64,
    /// Requests of all releases.
    requests: u64,
    /// By release and script.
    cells: BTreeMap<(u32, String), Cell>,
}

/// Consecutive blocks of one length.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Blocks {
    secs: u64,
    list: VecDeque<Block>,
}

/// A window: what one release got in it.
#[derive(Debug, Default)]
struct Window<'a> {
    covered_secs: u64,
    /// Requests of all releases, and of this one.
    requests: [u64; 2],
    cells: HashMap<&'a str, Cell>,
}

impl Window<'_> {
    fn share(&self) -> f64 {
        self.requests[1] as f64 / self.requests[0].max(1) as f64
    }

    fn cell(&self, script: &str) -> Cell {
        self.cells.get(script).copied().unwrap_or_default()
    }
}

/// Keeps the entries with the largest counts; returns whether others went.
fn trim<K: Ord, V>(map: &mut BTreeMap<K, V>, count: impl Fn(&V) -> u64) -> bool {
    let mut counts: Vec<u64> = map.values().map(&count).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let least = counts.get(RELEASE_CELLS_MAX);
    map.retain(|_, it| least.is_none_or(|least| count(it) > *least));
    least.is_some()
}

impl Blocks {
    /// The block of a second, and whether it is a new one. Where the clock was set back it is the
    /// last one.
    fn at(&mut self, unix: u64, most: usize) -> (&mut Block, bool) {
        let start = unix - unix % self.secs;
        let is_new = self.list.back().is_none_or(|it| it.start < start);
        if is_new {
            if let Some(over) = self.list.back_mut() {
                trim(&mut over.cells, |it| it.requests);
            }
            self.list.push_back(Block {
                start,
                ..Block::default()
            });
            let over = self.list.len().saturating_sub(most);
            self.list.drain(..over);
        }
        (self.list.back_mut().expect("one was added"), is_new)
    }

    /// Sums over the blocks that begin in this span.
    fn window(&self, release: u32, span: &Range<u64>) -> Window<'_> {
        let mut window = Window::default();
        let first = self.list.partition_point(|it| it.start < span.start);
        let blocks = self.list.iter().skip(first);
        for block in blocks.take_while(|it| it.start < span.end) {
            window.covered_secs += block.covered_secs;
            window.requests[0] += block.requests;
            let cells = block.cells.range((release, String::new())..);
            for ((_, script), cell) in cells.take_while(|it| it.0.0 == release) {
                window.requests[1] += cell.requests;
                *window.cells.entry(script).or_default() += cell;
            }
        }
        window
    }
}

/// All releases, and what they got: the content of the state file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Tracker {
    /// The request tag in use; empty while none was seen.
    pub(super) tag: String,
    /// In order of their first request.
    pub(super) releases: Vec<Release>,
    /// Requests of all releases.
    all: u64,
    next_id: u32,
    /// Short and long blocks.
    blocks: [Blocks; 2],
    /// Days since 1970, and the annotations made on that day.
    marks: (u64, usize),
    /// End of the last second, unix.
    pub(super) now: u64,
    #[serde(skip)]
    pub(super) after: u64,
    #[serde(skip)]
    pub(super) error_status: u32,
    /// Set when the state has to be written soon.
    #[serde(skip)]
    pub(super) is_changed: bool,
}

impl Tracker {
    /// Prepares it for these settings: windows of `after` seconds. Blocks of another length are
    /// given up.
    pub(super) fn begin(&mut self, after: u64, error_status: u32) {
        (self.after, self.error_status) = (after, error_status);
        for (blocks, span) in self.blocks.iter_mut().zip([after, DAY]) {
            let secs = (span / PARTS).max(1);
            if blocks.secs != secs {
                *blocks = Blocks {
                    secs,
                    list: VecDeque::new(),
                };
            }
        }
    }

    /// Method, length of the window and of the kept past of each kind of block.
    fn kinds(&self) -> [(Method, u64, usize); 2] {
        [(HALF_HOURS, self.after), (DAYS, DAY)].map(|(method, span)| {
            let blocks = span / (span / PARTS).max(1);
            // One more for the new window, and one that it cuts.
            let windows = method.before + method.placebos[1] + 2;
            (method, span, windows * blocks as usize)
        })
    }

    /// Begins a second, whose rows follow.
    pub(super) fn begin_second(&mut self, unix: u64) {
        self.cover(unix, 0);
    }

    /// Ends it, and as many more in which nothing came.
    pub(super) fn pass(&mut self, unix: u64, secs: u64) {
        self.now = self.now.max(unix + secs);
        let mut at = unix;
        while at < unix + secs.min(DAY) {
            let passed = (self.blocks[0].secs - at % self.blocks[0].secs).min(unix + secs - at);
            self.cover(at, passed);
            at += passed;
        }
    }

    fn cover(&mut self, unix: u64, secs: u64) {
        let kinds = self.kinds().into_iter().zip(&mut self.blocks);
        let is_new = kinds.fold(false, |is_new, ((.., most), blocks)| {
            let (block, is_next) = blocks.at(unix, most);
            block.covered_secs += secs;
            is_new | is_next
        });
        if is_new {
            for release in &mut self.releases {
                release.is_partial |= trim(&mut release.statuses, |it| *it);
            }
            self.is_changed = true;
        }
    }

    /// Adds the requests of a script and status in the second before.
    pub(super) fn add(
        &mut self,
        [release, script, status]: [&str; 3],
        totals: &Totals,
        times: Option<Pairs<'_>>,
        unix: u64,
    ) {
        let Some(at) = self.release(release, unix) else {
            return;
        };
        let found = &mut self.releases[at];
        found.last_seen = found.last_seen.max(unix);
        found.requests += totals.requests;
        found.errors += totals.errors;
        let narrow = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
        let cpu_us = narrow(totals.ru_utime + totals.ru_stime);
        found.cpu_us = found.cpu_us.saturating_add(cpu_us);
        found.memory = found.memory.saturating_add(narrow(totals.memory));
        self.all += totals.requests;
        found.all.1 = self.all;
        let mut cell = Cell {
            requests: totals.requests,
            errors: totals.errors,
            time_us: narrow(totals.time),
            ..Cell::default()
        };
        for (bucket, count) in times.into_iter().flatten() {
            let ln = LN.get(bucket as usize).copied().unwrap_or_default();
            cell.timed += count;
            cell.ln += ln * count as f64;
            cell.ln_squared += ln * ln * count as f64;
            *found.times.entry(bucket).or_default() += count;
        }
        let is_short = script.len() <= RELEASE_SCRIPT_BYTES_MAX;
        let has_room = |len: usize| is_short && len < 4 * RELEASE_CELLS_MAX;
        let key = (script.to_owned(), status.parse().unwrap_or_default());
        match has_room(found.statuses.len()) {
            true => *found.statuses.entry(key).or_default() += totals.requests,
            false => found.is_partial = true,
        }
        let key = (found.id, script.to_owned());
        for block in self.blocks.iter_mut().filter_map(|it| it.list.back_mut()) {
            block.requests += totals.requests;
            if has_room(block.cells.len()) || block.cells.contains_key(&key) {
                *block.cells.entry(key.clone()).or_default() += &cell;
            }
        }
    }

    /// The place of a release, a new one if there is room.
    fn release(&mut self, name: &str, unix: u64) -> Option<usize> {
        if let Some(at) = self.releases.iter().position(|it| it.name == name) {
            return Some(at);
        }
        if self.releases.len() >= RELEASES_MAX {
            // One of few requests goes first, else one that has been idle for long.
            let idle = |it: &Release| it.last_seen + IDLE_SECS < unix;
            let old = self.releases.iter().enumerate();
            let old = old.filter(|(_, it)| it.last_seen < unix && (!it.is_shown() || idle(it)));
            let (at, _) = old.min_by_key(|(_, it)| (it.is_shown(), it.last_seen))?;
            let gone = self.releases.remove(at).id;
            for block in self.blocks.iter_mut().flat_map(|it| &mut it.list) {
                block.cells.retain(|it, _| it.0 != gone);
            }
        }
        self.next_id += 1;
        self.releases.push(Release {
            id: self.next_id,
            name: name.to_owned(),
            first_seen: unix,
            due: unix + self.after,
            all: (self.all, self.all),
            ..Release::default()
        });
        Some(self.releases.len() - 1)
    }

    /// Judges the releases that are due, and returns those that need an annotation: time and name.
    pub(super) fn turn(&mut self) -> Vec<(u64, String)> {
        let is_due = |it: &Release| it.due > 0 && it.due <= self.now && it.is_shown();
        let due = (0..self.releases.len()).filter(|at| is_due(&self.releases[*at]));
        for at in due.collect::<Vec<_>>() {
            self.judge(at);
        }
        if self.marks.0 != self.now / DAY {
            self.marks = (self.now / DAY, 0);
        }
        let mut news = Vec::new();
        for release in &mut self.releases {
            if release.is_shown() && !release.is_marked {
                (release.is_marked, self.is_changed) = (true, true);
                self.marks.1 += 1;
                if self.marks.1 <= RELEASE_MARKS_MAX {
                    news.push((release.first_seen, release.name.clone()));
                }
            }
        }
        news
    }

    /// Makes the verdict on a release, and says when the next is due: after a day, or after as long
    /// again if there was not enough to judge.
    fn judge(&mut self, at: usize) {
        let [short, long] = self.kinds();
        let release = &self.releases[at];
        let (due, first_seen) = (release.due, release.first_seen);
        let is_day = due == first_seen + DAY;
        let (kind, blocks) = match is_day {
            true => (long, &self.blocks[1]),
            false => (short, &self.blocks[0]),
        };
        let verdict = self.compared(release, blocks, kind, due);
        let is_enough = verdict.as_ref().is_some_and(|it| it.result != NOT_ENOUGH);
        let release = &mut self.releases[at];
        // What the first half hour told stands where days tell nothing.
        if is_enough || !is_day && verdict.is_some() {
            release.verdict = verdict;
        }
        let next = due + self.after;
        release.due = match is_day {
            true => 0,
            false if is_enough || next > first_seen + DAY => first_seen + DAY,
            false => next,
        };
        self.is_changed = true;
    }

    /// Compares a release with the one before it; `None` if there is none.
    fn compared(
        &self,
        release: &Release,
        blocks: &Blocks,
        (method, span, _): (Method, u64, usize),
        due: u64,
    ) -> Option<Verdict> {
        let begin = |unix: u64| unix - unix % blocks.secs;
        let length = span / blocks.secs * blocks.secs;
        let end = begin(release.first_seen);
        let back = |windows: usize| end.saturating_sub(length * windows as u64);
        let others = self.releases.iter().filter(|it| {
            (it.first_seen, it.id) < (release.first_seen, release.id) && it.is_shown()
        });
        let before = back(method.before)..end;
        let lately = |it: &&Release| blocks.window(it.id, &before).requests[1];
        let old = others.max_by_key(|it| (lately(it), it.last_seen))?;
        let windows = (0..method.before + method.placebos[1]).map(|at| {
            let from = back(at + 1);
            let window = blocks.window(old.id, &(from..back(at)));
            let is_covered = 2 * window.covered_secs >= length && from >= old.first_seen;
            (window, is_covered)
        });
        let windows: Vec<(Window<'_>, bool)> = windows.collect();
        let covered = windows.iter().filter(|it| it.1 && it.0.requests[0] > 0);
        let mut shares: Vec<f64> = covered.map(|it| it.0.share()).collect();
        shares.sort_by(f64::total_cmp);
        let usual = shares.get(shares.len() / 2).copied().unwrap_or_default();
        let is_usable = |it: &(Window<'_>, bool)| it.1 && 2.0 * it.0.share() >= usual;
        let usable = windows.iter().filter(|it| is_usable(it)).count();
        let needed = method.before + method.placebos[0];
        let too_short = (usable < needed).then(|| {
            let [has, needed] = [usable, needed].map(|it| roughly((it as u64 * length) as f64));
            format!("of the release before, {has} are known, and it takes {needed}")
        });
        let new = blocks.window(release.id, &(begin(due.saturating_sub(span))..due));
        let all = windows.iter().map(|it| &it.0).chain([&new]);
        let names: BTreeSet<&str> = all.flat_map(|it| it.cells.keys().copied()).collect();
        let scripts = names.into_iter().map(|name| {
            let before = |status| old.statuses_of(name).find(|it| it.0 == status);
            let statuses = release.statuses_of(name);
            Script {
                name: name.to_owned(),
                new: new.cell(name),
                old: windows
                    .iter()
                    .map(|it| is_usable(it).then(|| it.0.cell(name)))
                    .collect(),
                old_total: (!old.is_partial).then(|| old.statuses_of(name).map(|it| it.1).sum()),
                statuses: statuses
                    .map(|(status, count)| (status, count, before(status).map_or(0, |it| it.1)))
                    .collect(),
            }
        });
        let scripts: Vec<Script> = scripts.collect();
        Some(Verdict {
            at: due,
            against: old.name.clone(),
            ..judge(
                &scripts,
                method,
                self.error_status,
                too_short.as_deref(),
                span,
            )
        })
    }
}
