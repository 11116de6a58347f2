//! The releases: when each was seen, what it got in [`blocks`](super::blocks) of time, and when its
//! verdict is due. Bounded by [`RELEASES_MAX`].

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::blocks::{BLOCKS_PER_WINDOW, Blocks, Times, Window, add, quantile, trim};
use super::judge::{Cell, DAYS, SHORT_WINDOWS, Script, judge};
use super::running::Running;
use super::verdict::Verdict;
use crate::limits::{RELEASE_CELLS_MAX, RELEASE_MARKS_MAX, RELEASE_SCRIPT_BYTES_MAX, RELEASES_MAX};
use crate::report::histogram::BucketLayout;
use crate::report::totals::Totals;
use crate::state::annotations::Annotation;
use crate::value::text::roughly;

const DAY: u64 = 86_400;
/// Most scripts of a block or statuses of a release while it is counted.
const OPEN_CELLS_MAX: usize = 4 * RELEASE_CELLS_MAX;
/// Fewest requests of a release that is shown and judged.
const SHOWN_REQUESTS_MIN: u64 = 20;
/// Buckets of the usual histogram in one of those of a block: 16 of a doubling are left.
pub(super) const COARSE: u32 = 4;
/// Marks the form of the state file.
pub(super) const FORM: u32 = 0x5245_4c02;
/// Time without requests after which a release can give way, seconds.
const IDLE_SECS: u64 = 3_600;

/// A release, for front ends.
#[derive(Debug, Serialize)]
pub struct Release {
    /// The value of the tag.
    pub release: String,
    /// Time of the first request, unix seconds.
    pub first_seen: u64,
    /// Time of the last one.
    pub last_seen: u64,
    /// Part of all requests in between.
    pub share: f64,
    /// Requests.
    pub requests: u64,
    /// Requests per second in between.
    pub requests_per_second: f64,
    /// Requests with an error status.
    pub errors: u64,
    /// Median of the request time, seconds.
    pub p50: Option<f64>,
    /// 95th percentile of the request time, seconds.
    pub p95: Option<f64>,
    /// User and system CPU of a request, mean, seconds; `None` if it is known of none.
    pub cpu: Option<f64>,
    /// Memory footprint of a request, mean, bytes; likewise.
    pub memory: Option<f64>,
    /// Since when nearly all requests have been of it, if they are; later than `first_seen` after a
    /// rollback to it.
    pub running_since: Option<u64>,
    /// The difference it makes, once that is known.
    pub verdict: Option<Verdict>,
}

impl Release {
    /// Since when it is running again, after a rollback to it.
    pub(crate) fn back_since(&self) -> Option<u64> {
        self.running_since.filter(|since| *since > self.first_seen)
    }
}

/// A release as it is counted.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Counted {
    /// Its number; not reused.
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) first_seen: u64,
    last_seen: u64,
    requests: u64,
    errors: u64,
    cpu_us: u64,
    memory: u64,
    /// Requests without CPU times and memory, which averages of these leave out.
    #[serde(skip)]
    pub(super) unmeasured: u64,
    /// Requests of all releases before the first of this one, and up to its last.
    all: (u64, u64),
    times: Times,
    /// Requests by script and status.
    statuses: BTreeMap<(String, u32), u64>,
    /// Whether some of these were left out.
    is_partial: bool,
    /// Whether it is annotated already, or must not be.
    is_marked: bool,
    /// When it is to be judged next, unix seconds; 0: never again.
    due: u64,
    verdict: Option<Verdict>,
}

impl Counted {
    /// Whether it has enough requests to count as a release.
    pub(super) const fn is_shown(&self) -> bool {
        self.requests >= SHOWN_REQUESTS_MIN
    }

    pub(super) fn shown(&self, running: &Running) -> Release {
        let running = running.now.as_ref().filter(|(name, _)| *name == self.name);
        let part = |sum: u64, of: u64| sum as f64 / of.max(1) as f64;
        let measured = self.requests.saturating_sub(self.unmeasured);
        let mean = |sum: u64| (measured > 0).then(|| part(sum, measured));
        Release {
            release: self.name.clone(),
            first_seen: self.first_seen,
            last_seen: self.last_seen,
            share: part(self.requests, self.all.1 - self.all.0),
            requests: self.requests,
            requests_per_second: part(self.requests, self.last_seen - self.first_seen + 1),
            errors: self.errors,
            p50: quantile(&self.times, 50.0),
            p95: quantile(&self.times, 95.0),
            cpu: mean(self.cpu_us).map(|us| us / 1e6),
            memory: mean(self.memory),
            running_since: running.map(|(_, since)| *since),
            verdict: self.verdict.clone(),
        }
    }

    /// Requests of a script by status.
    fn statuses_of(&self, script: &str) -> impl Iterator<Item = (u32, u64)> {
        let of_script = self.statuses.range((script.to_owned(), 0)..=(script.to_owned(), u32::MAX));
        of_script.map(|((_, status), count)| (*status, *count))
    }
}

/// All releases, and what they got: the content of the state file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Tracker {
    /// [`FORM`] in a file of this form.
    pub(super) form: u32,
    /// The request tag in use; empty while none was seen.
    pub(super) tag: String,
    /// In order of their first request.
    pub(super) releases: Vec<Counted>,
    /// Requests of all releases.
    all: u64,
    next_id: u32,
    /// Short and long blocks.
    blocks: [Blocks; 2],
    /// Days since 1970, and the annotations made on that day.
    marks: (u64, usize),
    /// End of the last second, unix.
    now: u64,
    /// The running second, unix.
    #[serde(skip)]
    second: u64,
    /// Requests of all releases before it.
    #[serde(skip)]
    before: u64,
    /// Whether the rows of the report being read are counted.
    #[serde(skip)]
    pub(super) is_read: bool,
    #[serde(skip)]
    pub(super) running: Running,
    #[serde(skip)]
    pub(super) after: u64,
    #[serde(skip)]
    pub(super) error_status: u32,
    /// Set when the state has to be written.
    #[serde(skip)]
    pub(super) is_changed: bool,
}

impl Tracker {
    /// Prepares it for these settings: windows of `after` seconds. Blocks of another length are
    /// given up.
    pub(super) fn begin(&mut self, after: u64, error_status: u32) {
        (self.after, self.error_status) = (after, error_status);
        self.form = FORM;
        for (blocks, span) in self.blocks.iter_mut().zip([after, DAY]) {
            let secs = (span / BLOCKS_PER_WINDOW as u64).max(1);
            if blocks.secs != secs {
                *blocks = Blocks { secs, ..Blocks::default() };
            }
        }
    }

    /// Begins a second, whose rows follow, with as many more in which nothing came.
    pub(super) fn begin_second(&mut self, unix: u64, secs: u64) {
        // All requests of a second count for each release that had some.
        for release in self.releases.iter_mut().filter(|it| it.last_seen == self.second) {
            release.all.1 = self.all;
        }
        (self.second, self.before) = (unix, self.all);
        self.now = self.now.max(unix + secs);
        self.is_changed |= self.running.begin_second(unix, &self.releases);
        for (blocks, method) in self.blocks.iter_mut().zip([SHORT_WINDOWS, DAYS]) {
            if blocks.begin(unix, method) {
                self.is_changed = true;
                for release in &mut self.releases {
                    release.is_partial |= trim(&mut release.statuses, RELEASE_CELLS_MAX, |it| *it);
                }
            }
        }
    }

    /// Adds the requests of a script and status in this second.
    pub(super) fn add(
        &mut self,
        [release, script, status]: [&str; 3],
        totals: &Totals,
        times: impl Iterator<Item = (u32, u64)>,
    ) {
        let Totals { requests, errors, .. } = *totals;
        let (second, all) = (self.second, self.all + requests);
        let Some(found) = self.release(release) else { return };
        let mut cell = Cell { requests, errors, time_us: totals.time as u64, ..Cell::default() };
        let mut coarse = Times::new();
        for (bucket, count) in times {
            *coarse.entry(bucket / COARSE).or_default() += count;
            // Of the time in the middle of the bucket.
            let (low, high) = BucketLayout::LogLinear.ends(bucket);
            let ln = f64::midpoint(low as f64, high as f64).max(1.0).ln();
            cell.timed += count;
            cell.ln += ln * count as f64;
            cell.ln_squared += ln * ln * count as f64;
            *found.times.entry(bucket).or_default() += count;
        }
        found.last_seen = found.last_seen.max(second);
        found.requests += requests;
        found.errors += errors;
        found.cpu_us += (totals.ru_utime + totals.ru_stime) as u64;
        found.memory += totals.memory as u64;
        found.unmeasured += totals.unmeasured as u64;
        let is_short = script.len() <= RELEASE_SCRIPT_BYTES_MAX;
        let key = (script.to_owned(), status.parse().unwrap_or_default());
        match is_short && found.statuses.len() < OPEN_CELLS_MAX {
            true => *found.statuses.entry(key).or_default() += requests,
            false => found.is_partial = true,
        }
        let key = (found.id, script.to_owned());
        found.all.1 = all;
        self.all = all;
        *self.running.counts.entry(key.0).or_default() += requests;
        for block in self.blocks.iter_mut().filter_map(|it| it.list.back_mut()) {
            block.requests += requests;
            let has_room = block.cells.len() < OPEN_CELLS_MAX || block.cells.contains_key(&key);
            if is_short && has_room {
                *block.cells.entry(key.clone()).or_default() += &cell;
                add(block.times.entry(key.clone()).or_default(), &coarse);
            }
        }
    }

    /// The release of this name, a new one if there is room.
    fn release(&mut self, name: &str) -> Option<&mut Counted> {
        let unix = self.second;
        if let Some(at) = self.releases.iter().position(|it| it.name == name) {
            return self.releases.get_mut(at);
        }
        if self.releases.len() >= RELEASES_MAX {
            // One of few requests goes first, else one that has been idle for long.
            let grace_secs = |it: &Counted| if it.is_shown() { IDLE_SECS } else { 0 };
            let old = self.releases.iter().enumerate();
            let old = old.filter(|(_, it)| it.last_seen + grace_secs(it) < unix);
            let (at, _) = old.min_by_key(|(_, it)| (it.is_shown(), it.last_seen))?;
            let gone = self.releases.remove(at).id;
            for block in self.blocks.iter_mut().flat_map(|it| &mut it.list) {
                block.cells.retain(|it, _| it.0 != gone);
                block.times.retain(|it, _| it.0 != gone);
            }
        }
        self.next_id += 1;
        self.releases.push(Counted {
            id: self.next_id,
            name: name.to_owned(),
            first_seen: unix,
            due: unix + self.after,
            all: (self.before, self.all),
            ..Counted::default()
        });
        self.releases.last_mut()
    }

    /// Judges the releases that are due, and returns annotations of those that began to run.
    pub(super) fn judge_due(&mut self) -> Vec<Annotation> {
        for at in 0..self.releases.len() {
            let release = &self.releases[at];
            if release.is_shown() && (1..=self.now).contains(&release.due) {
                self.judge(at);
            }
        }
        if self.marks.0 != self.now / DAY {
            self.marks = (self.now / DAY, 0);
        }
        let mut began = Vec::new();
        let back = self.running.back.take();
        for release in &mut self.releases {
            let back = back.as_ref().filter(|(name, _)| *name == release.name);
            if back.is_some() || release.is_shown() && !release.is_marked {
                (release.is_marked, self.is_changed) = (true, true);
                self.marks.1 += 1;
                if self.marks.1 <= RELEASE_MARKS_MAX {
                    let (time, more) = back.map_or((release.first_seen, ""), |it| (it.1, " again"));
                    let text = format!("Release {}{more}", release.name);
                    let tags = "release".to_owned();
                    began.push(Annotation { id: 0, time, text, tags, author: None });
                }
            }
        }
        began
    }

    /// Makes the verdict on a release, and says when the next is due: after a day, or after as long
    /// again if there was not enough to judge.
    fn judge(&mut self, at: usize) {
        let verdict = self.compared(&self.releases[at]);
        let is_enough = verdict.as_ref().is_some_and(|it| it.tests > 0);
        let release = &mut self.releases[at];
        let a_day = release.first_seen + DAY;
        let is_last = release.due == a_day;
        let next = release.due + if is_enough { DAY } else { self.after };
        // The earlier verdict stands if there are too few days to judge.
        if is_enough || !is_last {
            release.verdict = verdict;
        }
        release.due = if is_last { 0 } else { next.min(a_day) };
        self.is_changed = true;
    }

    /// Compares a release with the one before it; `None` if there is none.
    fn compared(&self, release: &Counted) -> Option<Verdict> {
        let due = release.due;
        let (method, blocks, span) = match due == release.first_seen + DAY {
            true => (DAYS, &self.blocks[1], DAY),
            false => (SHORT_WINDOWS, &self.blocks[0], self.after),
        };
        let length = blocks.secs * BLOCKS_PER_WINDOW as u64;
        let end = release.first_seen - release.first_seen % blocks.secs;
        let others = self.releases.iter().filter(|it| {
            it.is_shown() && (it.first_seen, it.id) < (release.first_seen, release.id)
        });
        // The one that had most of the requests right before.
        let share = |it: &Counted| blocks.window(it.id, end, length).share;
        let old = others.max_by(|a, b| share(a).total_cmp(&share(b)))?;
        let windows = (0..method.windows() as u64).map(|at| {
            let end = end.saturating_sub(at * length);
            let is_of_old = end.saturating_sub(length) >= old.first_seen;
            is_of_old.then(|| blocks.window(old.id, end, length))
        });
        let mut windows: Vec<Option<Window<'_>>> = windows.collect();
        let mut shares: Vec<f64> = windows.iter().flatten().map(|it| it.share).collect();
        shares.sort_by(f64::total_cmp);
        let usual = shares.get(shares.len() / 2).copied().unwrap_or_default();
        for window in &mut windows {
            window.take_if(|it| 2.0 * it.share < usual || it.share == 0.0);
        }
        let usable = windows.iter().flatten().count();
        let needed = method.before + method.placebos[0];
        let too_short = (usable < needed).then(|| {
            let [has, needed] = [usable, needed].map(|it| roughly((it as u64 * length) as f64));
            format!("of the release before, {has} are known, and it takes {needed}")
        });
        let begin = due - span - (due - span) % blocks.secs;
        let new = blocks.window(release.id, due, due - begin);
        let all = windows.iter().flatten().chain([&new]);
        let names: BTreeSet<&str> = all.flat_map(|it| it.scripts.keys().copied()).collect();
        let scripts = names.into_iter().map(|name| {
            let of = |it: &Window<'_>| it.scripts.get(name).cloned().unwrap_or_default();
            let had = |status| old.statuses.get(&(name.to_owned(), status)).copied();
            let statuses = release.statuses_of(name);
            let statuses = statuses.map(|(it, count)| (it, count, had(it).unwrap_or_default()));
            let (mut before, mut times) = (Cell::default(), Times::new());
            for (cell, more) in windows.iter().take(method.before).flatten().map(of) {
                before += &cell;
                add(&mut times, &more);
            }
            let (new, new_times) = of(&new);
            Script {
                name: name.to_owned(),
                new,
                before,
                old: windows.iter().map(|it| Some(of(it.as_ref()?).0)).collect(),
                times: [times, new_times],
                old_total: (!old.is_partial).then(|| old.statuses_of(name).map(|it| it.1).sum()),
                statuses: statuses.collect(),
            }
        });
        let scripts: Vec<Script> = scripts.collect();
        Some(Verdict {
            at: due,
            against: old.name.clone(),
            ..judge(&scripts, method, self.error_status, too_short.as_deref(), span)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::verdict::{ERRORS, NOT_ENOUGH, SLOWER};
    use super::*;

    #[test]
    fn a_release_that_gives_way_leaves_nothing_in_blocks() {
        let mut tracker = Tracker::default();
        tracker.begin(1_800, 500);
        let totals = Totals { requests: 1, ..Totals::ZERO };
        for second in 0..20 {
            tracker.begin_second(600_000 + second, 1);
            for name in 0..RELEASES_MAX {
                let name = format!("{second} {name}");
                tracker.add([&name, "/", "200"], &totals, [(100, 1)].into_iter());
            }
        }
        for blocks in &tracker.blocks {
            let block = blocks.list.back().unwrap();
            assert_eq!((block.cells.len(), block.times.len()), (RELEASES_MAX, RELEASES_MAX));
        }
    }

    /// A new status alone is shown if it is of errors, but ends no tries and replaces no test.
    #[test]
    fn what_was_not_tested_is_no_verdict() {
        let mut tracker = Tracker::default();
        tracker.begin(1_800, 500);
        let mut add = |unix, texts, requests| {
            tracker.begin_second(unix, 1);
            let totals = Totals { requests, ..Totals::ZERO };
            tracker.add(texts, &totals, std::iter::empty());
        };
        let start = 604_800;
        add(start, ["1", "/", "200"], 3_000);
        add(start + 3_600, ["2", "/", "200"], 3_000);
        add(start + 3_600, ["2", "/", "404"], 20);
        let found = |tracker: &Tracker| {
            let Counted { verdict, due, first_seen, .. } = &tracker.releases[1];
            let verdict = verdict.clone().unwrap();
            (verdict.result, verdict.findings.len(), due.saturating_sub(*first_seen))
        };
        tracker.judge(1);
        assert_eq!(found(&tracker), (NOT_ENOUGH.to_owned(), 1, 3_600));
        tracker.error_status = 404;
        tracker.judge(1);
        assert_eq!(found(&tracker), (ERRORS.to_owned(), 1, 5_400));
        let slower = Verdict { result: SLOWER.to_owned(), tests: 1, ..Verdict::default() };
        tracker.releases[1].verdict = Some(slower);
        tracker.releases[1].due = start + 3_600 + DAY;
        tracker.judge(1);
        assert_eq!(found(&tracker).0, SLOWER);
    }
}
