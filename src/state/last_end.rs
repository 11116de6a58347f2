//! Records whether the previous process ended cleanly, which lost spans history replaces, and what
//! history itself lost at stops.
//!
//! ```text
//!   running    {"clean": false, "refilled": [{"start": 1795500000, "end": 1795500600, "below": 17, "from": 9, "store": 4711}], "reset_ms": 0,
//!               "lost_at_stops": [{"start": 1795500660, "end": 1795500702, "rows": true, ..}]}
//! ```
//!
//! The file exists while a process runs, in `state.dir` or without one in `history.dir`; a clean
//! stop removes it, or leaves it with `clean` as long as rows of history replace lost ones
//! (`query::catalog::past::refill`), and after a reset or a loss of history. It is written last
//! during start, so a failed start changes nothing. It is written again whenever those rows are
//! read anew, and at a reset, so that cleared data stays cleared after a kill, or if the snapshot
//! of a clean stop gets lost. A stop that cannot write its snapshot renames it to `unsaved`, which
//! even a full disk has room for.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::files;
use super::snapshot::HistoryFrom;

const FILE: &str = "running";

/// The same after a stop that could not write its snapshot.
const UNSAVED: &str = "unsaved";

/// Most spans remembered; a daemon killed more often within a window lacks the oldest.
const SPANS_MAX: usize = 64;

/// Most stops remembered that lost history; of more the oldest are forgotten.
const STOPS_MAX: usize = 16;

/// A span whose counts are missing in live reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Unix seconds.
    pub start: u64,
    /// Start of the first process that lacks it.
    pub end: u64,
    /// Files of history below this number were written before; `u64::MAX` as long as that is not
    /// known.
    pub below: u64,
    /// Files of history from this number on have nothing that was restored, and those before have
    /// nothing else, whatever the times of their rows; by default that is not known of any.
    #[serde(default = "no_file")]
    pub from: u64,
    /// The history that has these counts; 0 if that is not known.
    #[serde(default)]
    pub store: u64,
}

const fn no_file() -> u64 {
    u64::MAX
}

impl Lost {
    /// The history of a span whose counts it has, but nobody knows which they are.
    pub const NO_STORE: u64 = u64::MAX;

    /// Whether files tell what is missing; otherwise only the times of rows do.
    pub(crate) fn is_by_file(&self) -> bool {
        self.from < self.below
    }

    fn is_empty(&self) -> bool {
        !self.is_by_file() && self.start >= self.end
    }
}

/// What history lost at a stop because it could not be written, or by a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostAtStop {
    /// The first minute of it, in unix seconds.
    pub start: u64,
    /// The stop; for a kill the end of the last minute that was counted, or the next start.
    pub end: u64,
    /// Whether rows of reports were lost.
    pub rows: bool,
    /// Raw requests; for a kill the most that can be, or 0 if that is not known.
    pub requests: u64,
    /// The history; 0 if it was never open.
    pub store: u64,
    /// Whether it was a kill: raw requests wait for a flush in memory alone.
    #[serde(default)]
    pub killed: bool,
}

/// How the previous process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastEnd {
    /// Whether it saved its data; true if nothing is known.
    pub clean: bool,
    /// Whether it stopped when told to, but could not write its snapshot.
    #[serde(skip)]
    pub unsaved: bool,
    /// Lost spans that rows of history replace, in unix seconds.
    pub refilled: Vec<Lost>,
    /// When everything was cleared, in unix milliseconds; 0: it was not.
    #[serde(default)]
    pub reset_ms: u64,
    /// What history lost at this and earlier ends.
    #[serde(default)]
    pub lost_at_stops: Vec<LostAtStop>,
}

impl LastEnd {
    /// Adds what history lost at this end; of many the oldest are forgotten.
    pub(crate) fn add_lost(&mut self, lost: LostAtStop) {
        add_lost(&mut self.lost_at_stops, lost);
    }

    /// Whether everything was cleared after a snapshot of this unix second.
    pub(crate) fn was_reset_after(&self, snapshot: f64) -> bool {
        !self.clean && snapshot < self.reset_ms as f64 / 1e3
    }

    /// Reads the file in a folder.
    pub(crate) fn of(dir: &Path) -> Self {
        let read = |file| {
            let text = fs::read(dir.join(file)).ok()?;
            // Cut off by the end of the machine, perhaps.
            Some(serde_json::from_slice(&text).unwrap_or_default())
        };
        let unsaved = || {
            let end: Self = read(UNSAVED)?;
            Some(Self { unsaved: true, ..end })
        };
        let clean = || Self { clean: true, ..Self::default() };
        read(FILE).or_else(unsaved).unwrap_or_else(clean)
    }

    /// The spans missing at `now`, after rows and reports were restored as of `restored` or not at
    /// all; with where history goes on, if that is known. Both in unix seconds.
    pub(crate) fn lacking(
        &self,
        restored: Option<(f64, Option<HistoryFrom>)>,
        now: u64,
    ) -> Vec<Lost> {
        // A second that had begun is in the snapshot.
        let restored = restored.map(|(secs, from)| (secs.ceil() as u64, from));
        // The clock was ahead then: by more than the rest of that second.
        let is_to_come = |secs: u64| secs > now + 1;
        let (start, from) = match restored {
            _ if self.clean => (now, no_file()),
            None => (0, 0),
            Some((_, Some(HistoryFrom::Time(start)))) => (start, no_file()),
            // What came later has earlier times, in files of its own.
            Some((_, Some(HistoryFrom::Cut { secs, file, .. }))) if is_to_come(secs) => (0, file),
            Some((start, Some(HistoryFrom::File(from)))) if is_to_come(start) => (0, from),
            Some((_, Some(HistoryFrom::Cut { secs, file, .. }))) => (secs, file),
            Some((start, Some(HistoryFrom::File(from)))) => (start, from),
            Some((start, None)) => (start, no_file()),
        };
        // In the minute of the reset, rows mix counts from before and after it: refilling begins
        // with the next one.
        let reset = self.reset_ms / 1000;
        let is_after = !self.clean && start <= reset && reset > 0;
        let (start, from) = if is_after { (reset, no_file()) } else { (start, from) };
        // Perhaps all of it came within a second.
        let end = if self.clean { now } else { now.max(start.saturating_add(1)) };
        let lost = match is_to_come(start) && from == no_file() {
            // Times do not tell what came later.
            true => Lost { start: 0, end: now, below: 0, from, store: Lost::NO_STORE },
            false => Lost { start, end, below: u64::MAX, from, store: 0 },
        };
        let before = self.refilled.iter().rev().take(SPANS_MAX).rev().map(|it| {
            // It is not known which files have its rows alone: its last minute, which may include
            // later counts, is left out.
            let is_mixed = it.below == u64::MAX && it.store != 0;
            let below = if is_mixed { 0 } else { it.below };
            match (Lost { below, ..*it }, lost.is_by_file()) {
                (it, _) if self.clean || it.store == Lost::NO_STORE => it,
                // Mostly they are in earlier files.
                (it, true) if it.is_by_file() && it.from < lost.from => {
                    Lost { below: it.below.min(lost.from), ..it }
                }
                (it, true) if it.is_by_file() => Lost { end: it.start, from: no_file(), ..it },
                (it, false) if it.end <= lost.start => it,
                (it, _) => Lost { end: it.end.min(lost.start), from: no_file(), ..it },
            }
        });
        before.chain([lost]).filter(|lost| !lost.is_empty()).collect()
    }
}

fn add_lost(all: &mut Vec<LostAtStop>, lost: LostAtStop) {
    all.push(lost);
    all.drain(..all.len().saturating_sub(STOPS_MAX));
}

/// The file that exists while this process runs.
#[derive(Debug)]
pub struct RunningMark {
    file: PathBuf,
    reset_ms: u64,
    lost_at_stops: Vec<LostAtStop>,
}

impl RunningMark {
    /// Creates the file: from now on an unclean end is noticed. The reset of `last_end` holds for
    /// whatever comes back without a later snapshot; unless it is still to come, since the clock
    /// was ahead, and a clean stop has saved what came after it. `now_ms` is the wall clock's time.
    pub(crate) fn set(dir: &Path, last_end: &LastEnd, refilled: &[Lost], now_ms: u64) -> Self {
        let is_ahead = last_end.clean && last_end.reset_ms > now_ms;
        let reset_ms = if is_ahead { 0 } else { last_end.reset_ms };
        let lost_at_stops = last_end.lost_at_stops.clone();
        let mark = Self { file: dir.join(FILE), reset_ms, lost_at_stops };
        // First, since that needs no room on the disk. Mostly there is none.
        let _none = fs::rename(dir.join(UNSAVED), &mark.file);
        mark.record_missing(refilled);
        mark
    }

    /// Records which spans are refilled. A folder that cannot be written is reported where that
    /// matters more.
    pub(crate) fn record_missing(&self, refilled: &[Lost]) {
        if let Err(error) = self.write(false, refilled) {
            tracing::debug!(%error, file = %self.file.display(), "Cannot write down that a process runs.");
        }
    }

    /// Records that everything was cleared at this unix millisecond.
    pub(crate) fn reset(&mut self, unix_ms: u64) {
        self.reset_ms = unix_ms;
        if let Err(error) = self.write(false, &[]) {
            warn!(%error, file = %self.file.display(), "Cannot write down a reset: a kill before the next snapshot undoes it.");
        }
    }

    /// Adds what history loses at this stop, for the last record.
    pub(crate) fn add_lost(&mut self, lost: LostAtStop) {
        add_lost(&mut self.lost_at_stops, lost);
    }

    /// Records a clean end with the spans that are still refilled.
    pub(crate) fn clear(self, refilled: &[Lost]) {
        let is_over = refilled.is_empty() && self.reset_ms == 0;
        let cleared = match is_over && self.lost_at_stops.is_empty() {
            true => fs::remove_file(&self.file),
            false => self.write(true, refilled).or_else(|error| match is_over {
                // On a full disk it is more important that the end was clean.
                true => {
                    warn!(%error, file = %self.file.display(), "Cannot write down what history lost at stops: answers over the past will not say it.");
                    fs::remove_file(&self.file)
                }
                false => Err(error),
            }),
        };
        if let Err(error) = cleared
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(%error, file = %self.file.display(), "Cannot record a clean stop: the next start will treat it as a crash.");
        }
    }

    /// The process stops as it was told to, without its last snapshot.
    pub(crate) fn keep_unsaved(self, refilled: &[Lost]) {
        if !self.lost_at_stops.is_empty() {
            // Without room the last record stays.
            self.record_missing(refilled);
        }
        let unsaved = self.file.with_file_name(UNSAVED);
        // It is not there if the disk was full at the start already; for an empty file there is
        // mostly room.
        let kept =
            fs::rename(&self.file, &unsaved).or_else(|_| fs::File::create(&unsaved).map(drop));
        if let Err(error) = kept {
            tracing::debug!(%error, "Cannot write down that the last snapshot is missing.");
        }
    }

    fn write(&self, clean: bool, refilled: &[Lost]) -> io::Result<()> {
        let (refilled, reset_ms) = (refilled.to_vec(), self.reset_ms);
        let lost_at_stops = self.lost_at_stops.clone();
        let end = LastEnd { clean, unsaved: false, refilled, reset_ms, lost_at_stops };
        let text = serde_json::to_vec(&end).map_err(io::Error::other)?;
        files::replace(&self.file, |file| file.write_all(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_without_a_word_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let end = || LastEnd::of(dir.path());
        assert!(end().clean, "the first start");
        let set = |refilled: &[Lost]| RunningMark::set(dir.path(), &end(), refilled, 0);
        let mark = set(&[]);
        assert!(!end().clean);
        mark.clear(&[]);
        assert!(end().clean && !dir.path().join(FILE).exists());
        set(&[]).keep_unsaved(&[]);
        assert!(!end().clean && end().unsaved);
        let mark = set(&[]);
        assert!(!end().clean && !end().unsaved, "killed after that");
        mark.clear(&[]);
        assert!(end().clean && !end().unsaved);
        let lost = Lost { start: 7, end: 9, below: 3, from: 5, store: 1 };
        set(&[lost, lost]).clear(&[lost]);
        let said = end();
        assert!(said.clean);
        assert_eq!(said.refilled, [lost]);
        fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(!end().clean);
    }

    /// However later processes end.
    #[test]
    fn what_history_lost_at_stops_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let end = || LastEnd::of(dir.path());
        let set = || RunningMark::set(dir.path(), &end(), &[], 0);
        let lost =
            |end| LostAtStop { start: 60, end, rows: true, requests: 3, store: 1, killed: false };
        let mut mark = set();
        mark.add_lost(lost(70));
        mark.clear(&[]);
        assert!(end().clean);
        assert_eq!(end().lost_at_stops, [lost(70)]);
        let _killed = set();
        assert!(!end().clean);
        let mut mark = set();
        mark.reset(0);
        mark.add_lost(lost(80));
        mark.keep_unsaved(&[]);
        assert!(end().unsaved);
        set().clear(&[]);
        assert!(end().clean);
        assert_eq!(end().lost_at_stops, [lost(70), lost(80)]);
        let mut mark = set();
        (0..20).for_each(|end| mark.add_lost(lost(100 + end)));
        // No room for it: at least the end is clean.
        files::FAULTS.with_borrow(|faults| faults.fail_at(1));
        mark.clear(&[]);
        files::FAULTS.with_borrow(|faults| faults.recover());
        assert_eq!(end(), LastEnd { clean: true, ..LastEnd::default() });
        let mut mark = set();
        (0..20).for_each(|end| mark.add_lost(lost(100 + end)));
        mark.clear(&[]);
        assert_eq!(end().lost_at_stops, (4..20).map(|end| lost(100 + end)).collect::<Vec<_>>());
    }

    #[test]
    fn a_reset_holds() {
        let dir = tempfile::tempdir().unwrap();
        let end = || LastEnd::of(dir.path());
        let set = |refilled: &[Lost]| RunningMark::set(dir.path(), &end(), refilled, 200_000);
        let lost = Lost { start: 7, end: 9, below: 3, from: 5, store: 1 };
        set(&[lost]).reset(60_500);
        // Killed, and again before there is another snapshot.
        for _ in 0..2 {
            assert_eq!((end().clean, &*end().refilled), (false, &[][..]));
            assert!(end().was_reset_after(60.4) && !end().was_reset_after(60.5));
            let lacking = |restored| {
                let lacking = end().lacking(restored, 200);
                lacking.iter().map(|it| (it.start, it.end, it.from)).collect::<Vec<_>>()
            };
            assert_eq!(lacking(None), [(60, 200, u64::MAX)]);
            assert_eq!(lacking(Some((50.0, Some(HistoryFrom::File(7))))), [(60, 200, u64::MAX)]);
            assert_eq!(lacking(Some((70.0, Some(HistoryFrom::File(7))))), [(70, 200, 7)]);
            let _killed = set(&[]);
        }
        // The snapshot of a clean stop was made after the reset. If it does not come back, the
        // reset holds, also for those that are killed before there is another.
        set(&[]).clear(&[lost]);
        assert!(end().clean && !end().was_reset_after(60.4));
        for refilled in [&[lost][..], &[]] {
            let lost = LastEnd { clean: false, ..end() }.lacking(None, 200);
            let lost = lost.last().map(|it| (it.start, it.end, it.from));
            assert_eq!(lost, Some((60, 200, u64::MAX)));
            set(&[]).clear(refilled);
        }
        let _killed = set(&[]);
        assert!(end().was_reset_after(60.4) && !end().was_reset_after(60.5));
        // The clock was ahead.
        set(&[]).reset(300_000);
        set(&[]).clear(&[]);
        assert_eq!((end().reset_ms, end().lacking(None, 200)), (300_000, Vec::new()));
        set(&[]).clear(&[]);
        assert!(end().clean && !dir.path().join(FILE).exists());
    }

    #[test]
    fn each_second_is_lacking_once() {
        let lacking = |clean, refilled: &[(u64, u64)], restored: Option<f64>| {
            let refilled = refilled.iter().map(|&(start, end)| Lost {
                start,
                end,
                below: 3,
                from: no_file(),
                store: 1,
            });
            let refilled = refilled.collect();
            let end = LastEnd { clean, refilled, ..LastEnd::default() };
            let restored = restored.map(|secs| (secs, None));
            let lacking = end.lacking(restored, 100);
            let lacking = lacking.iter().map(|it| (it.start, it.end));
            lacking.collect::<Vec<_>>()
        };
        assert_eq!(lacking(true, &[], Some(50.0)), []);
        assert_eq!(lacking(true, &[(10, 20)], Some(90.0)), [(10, 20)]);
        assert_eq!(lacking(false, &[(10, 20)], Some(60.0)), [(10, 20), (60, 100)]);
        // Killed again before the first snapshot: only the older one exists.
        assert_eq!(lacking(false, &[(10, 20)], Some(5.0)), [(5, 100)]);
        assert_eq!(lacking(false, &[(10, 20)], Some(15.0)), [(10, 15), (15, 100)]);
        assert_eq!(lacking(false, &[(10, 20)], None), [(0, 100)]);
        // The snapshot has 0.4 s of a minute, and of the second of the next start.
        assert_eq!(lacking(false, &[], Some(60.4)), [(61, 100)]);
        assert_eq!(lacking(false, &[], Some(100.4)), [(101, 102)]);
    }

    /// Files of an earlier span end where those of the next begin, whatever the times.
    #[test]
    fn each_file_is_lacking_once() {
        let before = Lost { start: 50, end: 60, below: 9, from: 3, store: 1 };
        let end = LastEnd { refilled: vec![before], ..LastEnd::default() };
        let lacking = |secs: u32, file| {
            let from = HistoryFrom::Cut { secs: secs.into(), file, store: 1 };
            let lacking = end.lacking(Some((f64::from(secs), Some(from))), 40);
            lacking.iter().map(|it| (it.from, it.below)).collect::<Vec<_>>()
        };
        assert_eq!(lacking(70, 12), [(3, 9), (12, u64::MAX)]);
        assert_eq!(lacking(30, 12), [(3, 9), (12, u64::MAX)]);
        assert_eq!(lacking(50, 3), [(3, u64::MAX)], "the same snapshot");
        let clean = LastEnd { clean: true, ..end.clone() };
        assert_eq!(clean.lacking(None, 40), [before]);
    }

    #[test]
    fn history_goes_on_where_the_snapshot_ends() {
        let lacking = |after| {
            let end = LastEnd::default();
            let lacking = end.lacking(Some((125.0, after)), 200);
            (lacking[0].start, lacking[0].from)
        };
        assert_eq!(lacking(Some(HistoryFrom::Time(120))), (120, u64::MAX));
        assert_eq!(lacking(Some(HistoryFrom::File(7))), (125, 7));
        let ahead = LastEnd::default().lacking(Some((225.0, Some(HistoryFrom::File(7)))), 200);
        assert_eq!((ahead[0].start, ahead[0].end, ahead[0].from), (0, 200, 7));
        assert_eq!(lacking(None), (125, u64::MAX));
        assert_eq!(lacking(Some(HistoryFrom::Cut { secs: 123, file: 7, store: 1 })), (123, 7));
        // Of what came after a minute that is still to come, nobody knows which it is.
        let ahead = LastEnd::default().lacking(Some((225.0, Some(HistoryFrom::Time(240)))), 200);
        assert_eq!((ahead[0].end, ahead[0].store, ahead.len()), (200, Lost::NO_STORE, 1));
        let before = br#"{"start": 1, "end": 2, "below": 3}"#;
        let before: Lost = serde_json::from_slice(before).unwrap();
        assert_eq!(before.from, u64::MAX);
    }
}
