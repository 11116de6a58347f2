//! What comes back from history after a kill, and what is said to be lacking.

use std::time::Duration;

use super::*;
use crate::clock::ManualClock;
use crate::grammar::builtin;
use crate::history::{Retention, Store};
use crate::report::definition::Defaults;
use crate::report::row_key::key_of;
use crate::report::totals::Totals;

impl Refill {
    /// The requests that it adds to a dataset, by key.
    pub(crate) fn sums(&self, dataset: &Dataset) -> HashMap<Vec<u8>, u64> {
        let mut sums = HashMap::new();
        self.rows.rows(dataset, 0..u64::MAX, |row| {
            *sums.entry(row.key.to_vec()).or_default() += row.gain.sum.totals.requests;
        });
        sums
    }
}

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// Killed after four minutes with requests, and started with a clock that was set back.
#[test]
fn seconds_are_covered_although_the_clock_was_set_back() {
    let report = builtin::reports(&Defaults::default()).into_iter().next().unwrap();
    let dataset = Arc::new(Dataset::of(&report, 500));
    let own = dataset.coverage_key();
    let coverage = Arc::new(Dataset::coverage());
    let killed = 1_700_000_040;
    for (set_back, downtime) in [(0, 5), (10, 0), (100, 5), (600, 5), (86_400, 5)] {
        let mut rows = UnflushedRows::default();
        for minute in 1..=6 {
            let minute_of = Coverage { secs: 60, ..Coverage::default() };
            rows.add(&coverage, killed - 60 * minute, &own, false, &minute_of.gain());
            if minute <= 4 {
                let one = Totals { requests: 1, ..Totals::ZERO };
                let gain = Gain { sum: Sum::of(one, None), ..Gain::default() };
                rows.add(&dataset, killed - 60 * minute, &[], false, &gain);
            }
        }
        let start = killed + downtime - set_back;
        let refill = Refill {
            rows,
            error_status: 500,
            window_secs: 900,
            lost: vec![Lost { start: 0, end: start, below: u64::MAX, from: 0, store: 1 }],
            is_read: true,
            filled: killed - 360..start,
            lacking: None,
        };
        // The time in between counts too, as far as the clock shows it.
        let between = if set_back == 0 { downtime } else { 0 };
        for up in [1, 3, 100] {
            let covered = refill.covered_secs(&own, 0..u64::MAX, up, start + up);
            assert_eq!(covered, 240 + between + up, "set back by {set_back}");
        }
        // When all of it has left the window, a report without keys still has its row.
        let row = iter::once((&b""[..], false, Totals::ZERO, Extremes::NOTHING));
        let mut live = Reading::of_rows(&report, row);
        live.as_of_ms = (start + DAY + HOUR) * 1_000;
        let all = refill.add_to(&live, &report, &report, Want::default());
        assert_eq!((all.len(), all.covered_secs), (1, 0));
    }
}

/// A live report has no room for another row, or for another script of a host.
#[test]
fn what_comes_back_of_keys_without_a_row_belongs_to_other() {
    let counts = |name: &str, live: &[(&[&str], bool)]| {
        let reports = builtin::reports(&Defaults::default());
        let report = reports.into_iter().find(|it| it.name == name).unwrap();
        let dataset = Arc::new(Dataset::of(&report, 500));
        let totals = |requests| Totals { requests, ..Totals::ZERO };
        let minute = 1_700_006_400;
        let mut rows = UnflushedRows::default();
        for key in [["a", "x"], ["b", "y"]] {
            let gain = Gain { sum: Sum::of(totals(1), None), ..Gain::default() };
            rows.add(&dataset, minute, &key_of(&key[..report.keys.len()]), false, &gain);
        }
        let refill = Refill {
            rows,
            error_status: 500,
            window_secs: 900,
            lost: vec![Lost { start: 0, end: minute + 60, below: u64::MAX, from: 0, store: 1 }],
            is_read: true,
            filled: minute..minute + 60,
            lacking: None,
        };
        let live: Vec<_> = live.iter().map(|(key, is_other)| (key_of(*key), *is_other)).collect();
        let live = live.iter().map(|(key, is_other)| (&**key, *is_other, totals(2)));
        let live = live.map(|(key, is_other, sums)| (key, is_other, sums, Extremes::NOTHING));
        let mut live = Reading::of_rows(&report, live);
        live.as_of_ms = (minute + 61) * 1_000;
        let want = Want { keys: true, ..Want::default() };
        let all = refill.add_to(&live, &report, &report, want);
        let key = |row| {
            let texts = (0..report.keys.len()).map(|at| all.key(row, at).unwrap_or("other"));
            texts.collect::<Vec<_>>().join("/")
        };
        let mut counts: Vec<_> = (0..all.len())
            .map(|row| format!("{} {}", key(row), all.totals[row].requests))
            .collect();
        counts.sort();
        counts.join(", ")
    };
    let other = OTHER_TEXT;
    let by_script = |live: &[(&[&str], bool)]| counts("report_by_script_name", live);
    assert_eq!(by_script(&[(&["a"], false)]), "a 3, b 1");
    assert_eq!(by_script(&[(&["a"], false), (&[other], true)]), "a 3, other 3");
    let by_both = |live: &[(&[&str], bool)]| counts("report_by_hostname_and_script", live);
    let [a, b, c] = ["a", "b", "c"].map(|host| [host, other]);
    let all = [other; 2];
    assert_eq!(
        by_both(&[(&a, true), (&b, true), (&c, true), (&all, true)]),
        "a/other 3, b/other 3, c/other 2, other/other 2"
    );
    assert_eq!(by_both(&[(&c, true), (&all, true)]), "c/other 2, other/other 4");
    assert_eq!(by_both(&[(&c, true)]), "a/x 1, b/y 1, c/other 2");
}

/// A window reaches further back than minutes are kept.
#[test]
fn all_minutes_that_are_kept_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let secs = [2 * DAY, u64::MAX, u64::MAX];
    let mut store =
        Store::open(dir.path(), Retention { secs, size_max: u64::MAX, free_min: 0 }).unwrap();
    let reports = builtin::reports(&Defaults::default()).into_iter();
    let mut report = reports.last().unwrap();
    report.window = Duration::from_secs(7 * DAY);
    let dataset = Arc::new(Dataset::of(&report, 500));
    let key = key_of(dataset.keys.iter().map(|_| "/"));
    let one = Sum::of(Totals { requests: 1, ..Totals::ZERO }, None);
    let (begin, hours) = (1_700_006_400, 100);
    let end = begin + hours * HOUR;
    for hour in 0..hours {
        let mut rows = UnflushedRows::default();
        let gain = Gain { sum: one.clone(), ..Gain::default() };
        rows.add(&dataset, begin + hour * HOUR, &key, false, &gain);
        store.flush(&rows, begin + hour * HOUR, || ()).unwrap();
    }
    while store.publish_due(end, &mut |_| Ok(())).unwrap() {}
    store.expire(end).unwrap();
    let clock = Arc::new(ManualClock::new(end * 1_000));
    let history = History::new(store.parts(), 1 << 20, clock);
    let lost = Lost { start: 0, end, below: u64::MAX, from: 0, store: 0 };
    let refill = Refill::read(Some(&history), [&report].into_iter(), 500, &[lost]).unwrap();
    let mut requests = 0;
    refill.rows.rows(&dataset, 0..u64::MAX, |row| requests += row.gain.sum.totals.requests);
    assert_eq!(requests, 48);
}

/// Writes a request of that minute, as if the series thread had counted it.
fn count(store: &mut Store, dataset: &Arc<Dataset>, minute: u64, written: u64) {
    let key = key_of(dataset.keys.iter().map(|_| "/"));
    let one = Sum::of(Totals { requests: 1, ..Totals::ZERO }, None);
    let mut rows = UnflushedRows::default();
    rows.add(dataset, minute, &key, false, &Gain { sum: one, ..Gain::default() });
    store.flush(&rows, written, || ()).unwrap();
    let parts = store.parts();
    let counted = |part: &Arc<Part>| {
        let mut part = Part::clone(part);
        part.is_imported = false;
        Arc::new(part)
    };
    let all: Vec<_> = parts.read().iter().map(counted).collect();
    *parts.write() = all.into();
}

/// A reset just before the turn of a minute, a kill just after it, and then a clean restart, to
/// which the snapshot has brought all of the process before.
#[test]
fn what_a_later_process_counts_in_a_missing_minute_is_not_missing() {
    let dir = tempfile::tempdir().unwrap();
    let keep = Retention { secs: [u64::MAX; 3], size_max: u64::MAX, free_min: 0 };
    let mut store = Store::open(dir.path(), keep).unwrap();
    let report = builtin::reports(&Defaults::default()).into_iter().next().unwrap();
    let dataset = Arc::new(Dataset::of(&report, 500));
    let history = History::new(store.parts(), 1 << 20, Arc::new(ManualClock::new(0)));
    let minute = 1_700_006_400;
    let read = |lost: &[Lost]| Refill::read(Some(&history), [&report].into_iter(), 500, lost);
    let from = u64::MAX;
    let lost = Lost { start: minute + 57, end: minute + 61, below: u64::MAX, from, store: 0 };
    count(&mut store, &dataset, minute, minute + 10);
    let refill = read(&[lost]).unwrap();
    assert_eq!(refill.filled(), None);
    let missing = refill.for_the_next(minute + 70);
    assert_eq!(missing, [Lost { below: history.earlier().unwrap().next, ..lost }]);
    count(&mut store, &dataset, minute + 60, minute + 70);
    let refill = read(&missing);
    assert_eq!(refill.and_then(|it| it.filled()), None);

    // History has that minute only in the log, as far as it is known.
    let unknown = Refill { lost: vec![lost], ..read(&missing).unwrap() };
    assert_eq!(unknown.for_the_next(minute + 70), []);
    let unread = Refill { is_read: false, ..unknown };
    assert_eq!(unread.for_the_next(minute + 70), [lost]);
}

/// A snapshot ended within a minute and notes no file of history, since none could be written;
/// later ones could.
#[test]
fn what_history_has_as_one_sum_with_earlier_counts_is_said_to_be_lacking() {
    let dir = tempfile::tempdir().unwrap();
    let keep = Retention { secs: [u64::MAX; 3], size_max: u64::MAX, free_min: 0 };
    let mut store = Store::open(dir.path(), keep).unwrap();
    let report = builtin::reports(&Defaults::default()).into_iter().next().unwrap();
    let dataset = Arc::new(Dataset::of(&report, 500));
    let clock = Arc::new(ManualClock::new(0));
    let history = History::new(store.parts(), 1 << 20, clock);
    let minute = 1_700_006_400;
    let mut write = |minute: u64, written: u64| count(&mut store, &dataset, minute, written);
    let read = |start: u64, end: u64, from: u64| {
        let lost = Lost { start, end, below: u64::MAX, from, store: 0 };
        Refill::read(Some(&history), [&report].into_iter(), 500, &[lost])
    };
    let remark = |start: u64, end: u64, from: u64| {
        read(start, end, from).and_then(|it| it.why_lacking()).unwrap_or_default()
    };
    let said = |from: &str, to: &str, why: &str| {
        let span = format!("{from} to {to}");
        format!("live reports lack what was counted from {span}: {why}")
    };
    // Whatever history has was there before the snapshot.
    write(minute, minute + 10);
    assert_eq!(remark(minute + 24, minute + 50, u64::MAX), "");
    assert_eq!(remark(minute + 24, minute + 112, u64::MAX), "");
    // It went on, and the end came in the same minute.
    write(minute, minute + 37);
    let [begin, end] = ["2023-11-15T00:00:24Z", "2023-11-15T00:00:50Z"];
    assert_eq!(remark(minute + 24, minute + 50, u64::MAX), said(begin, end, ONE_SUM));
    assert_eq!(remark(minute, minute + 50, u64::MAX), "", "the whole minute comes back");
    assert_eq!(remark(minute + 24, minute + 50, 0), "", "its file tells");
    // It came later: the next minutes come back.
    write(minute + 60, minute + 61);
    let next = "2023-11-15T00:01:00Z";
    assert_eq!(remark(minute + 24, minute + 112, u64::MAX), said(begin, next, ONE_SUM));
    let refill = read(minute + 24, minute + 112, u64::MAX).unwrap();
    assert_eq!(refill.filled(), Some(minute + 60..minute + 112));
    // Without a snapshot all of the window comes back, which begins within a minute too.
    assert_eq!(remark(0, minute + 24 + report.window.as_secs(), u64::MAX), "");
}
