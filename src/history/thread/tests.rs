//! The history thread with a disk that fails, is slow or has unreadable pieces.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::mpsc;

use super::super::disk::{Disk, failed};
use super::super::parquet::Want;
use super::super::{Coverage, Dataset, Gain, Retention};
use super::*;
use crate::clock::{Clock, ManualClock};
use crate::report::encoded_gain::Sum;
use crate::report::row_key::push_key;
use crate::report::totals::Totals;
use crate::state::faults::Faults;

mod log;
mod log_away;
mod seeded;

const HOUR: u64 = 3_600;
/// 2024-02-28, 12:57:00 UTC.
const NOON: u64 = 1_709_125_020;

fn dataset() -> Arc<Dataset> {
    Arc::new(Dataset {
        report: "by script".to_owned(),
        hash: "0123456789abcdef".to_owned(),
        keys: vec!["script_name".to_owned()],
        ..Dataset::coverage()
    })
}

const KEEP: Retention =
    Retention { secs: [2 * 24 * HOUR, u64::MAX, u64::MAX], size_max: u64::MAX, free_min: 0 };

fn writer(dir: &Path, faults: &Faults, clock: &Arc<ManualClock>) -> (History, Writer) {
    let faults = faults.clone();
    let store = Store::open_on(Disk { faults }, dir, KEEP).unwrap();
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
    let history = History::new(store.parts(), 1 << 24, clock);
    let writer = Writer::new(history.clone(), once(store, &history), Duration::ZERO);
    (history, writer)
}

/// Opens this store, once.
fn once(store: Store, history: &History) -> (PathBuf, OpenStore) {
    let dir = store.dir().to_owned();
    let (mut store, history) = (Some(store), history.clone());
    let open = move || {
        let mut store = store.take().unwrap();
        history.replay(&mut store);
        Ok(store)
    };
    (dir, Box::new(open))
}

fn count(history: &History, minute: u64) {
    count_script(history, minute, "/x");
}

fn count_script(history: &History, minute: u64, script: &str) {
    let dataset = dataset();
    let mut key = Vec::new();
    push_key(&mut key, script);
    let totals = Totals { requests: 1, ..Totals::ZERO };
    let gain = Gain { sum: Sum::of(totals, None), ..Gain::default() };
    history.add(|running| {
        running.add(&dataset, minute, &key, false, &gain);
    });
}

/// Returns the number of requests that a reader finds.
fn found(history: &History) -> u64 {
    let dataset = dataset();
    let mut found = 0;
    let parts = history.view(|batch| {
        batch.rows(&dataset, 0..u64::MAX, |row| {
            found += row.gain.sum.totals.requests;
        });
    });
    for part in parts.iter().filter(|part| !part.is_rolled()) {
        let mut add = |row: &super::super::Row| found += row.gain.sum.totals.requests;
        part.read(&dataset, 0..u64::MAX, Want::Sums, &mut add).unwrap();
    }
    found
}

#[test]
fn old_files_go_while_nothing_can_be_published() {
    let dir = tempfile::tempdir().unwrap();
    let (faults, stop) = (Faults::default(), Shutdown::new());
    let clock = Arc::new(ManualClock::new((NOON + HOUR) * 1_000));
    let (history, mut writer) = writer(dir.path(), &faults, &clock);
    count(&history, NOON);
    assert!(writer.work.flush(writer.store.as_mut().unwrap(), true));
    clock.advance_ms(120_000);
    writer.work.maintain(writer.store.as_mut().unwrap(), &stop);
    assert_eq!(history.status().count("files_published"), 1);
    // Days later, when an hour is over again.
    clock.advance_ms(3 * 24 * HOUR * 1_000);
    writer.store.as_mut().unwrap().advance_age(&*clock);
    count(&history, NOON + 3 * 24 * HOUR);
    assert!(writer.work.flush(writer.store.as_mut().unwrap(), true));
    clock.advance_ms(2 * HOUR * 1_000);
    writer.store.as_mut().unwrap().advance_age(&*clock);
    faults.set_full(true);
    writer.work.maintain(writer.store.as_mut().unwrap(), &stop);
    let status = history.status();
    assert_eq!(status.count("files_expired"), 1);
    assert!(writer.work.maintenance.error.is_some() && status.count("failures") == 1);
    // Flushes succeed although the error of maintenance remains.
    faults.set_full(false);
    count(&history, NOON + 3 * 24 * HOUR + 60);
    assert!(writer.work.flush(writer.store.as_mut().unwrap(), true));
    assert!(writer.work.maintenance.error.is_some());
    clock.advance_ms(1_000);
    writer.work.maintain(writer.store.as_mut().unwrap(), &stop);
    assert!(writer.work.maintenance.error.is_none());
    assert_eq!(found(&history), 3);
}

/// While there is no room attempts become rare; once there is, nothing waits for the next one.
#[test]
fn room_that_was_made_is_used_within_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let (faults, clock) = (Faults::default(), Arc::new(ManualClock::new(NOON * 1_000)));
    let (history, mut writer) = writer(dir.path(), &faults, &clock);
    let Writer { store: Some(store), work, .. } = &mut writer else { panic!("no store") };
    store.retention.free_min = 6;
    faults.set_free(5);
    let mut pass = |ms| {
        clock.advance_ms(ms);
        work.look(store);
        work.flush_due(store);
        (history.status().count("failures"), history.why_failing())
    };
    count(&history, NOON);
    let failures = (0..7).map(|_| pass(60_000).0).max().unwrap();
    let (again, why) = pass(20_000);
    assert_eq!(again, failures, "it is not tried all the time");
    assert_has!(why.unwrap() => "make room on that disk, lower history.free_min, or");
    faults.set_free(6);
    assert_eq!(pass(LOOK_MS), (failures, None));
    assert_eq!(history.status().count("rows_written"), 1);
    // A disk may have some room left, and yet too little.
    faults.set_full(true);
    count(&history, NOON);
    let failures = (0..7).map(|_| pass(60_000).0).max().unwrap();
    assert_eq!(pass(20_000).0, failures);
    faults.set_full(false);
    faults.set_free(6 + LEAST_ROOM);
    assert_eq!(pass(LOOK_MS), (failures, None));
}

/// Whatever keeps the store from being opened, rows wait in memory and are written once it opens.
#[test]
fn a_store_that_cannot_be_opened_is_opened_later() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(NOON * 1_000));
    let parts = super::super::Parts::default();
    let history = History::new(Arc::clone(&parts), 1 << 24, Arc::clone(&clock) as Arc<_>);
    let path = dir.path().to_owned();
    drop(Store::open(&path, KEEP).unwrap());
    let manifest = path.join("manifest");
    let whole = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, &whole[1..]).unwrap();
    let open = move || {
        let mut store = Store::open(&path, KEEP)?;
        store.share(Arc::clone(&parts));
        Ok(store)
    };
    history.keep_log(0, vec!["access.log".to_owned()]);
    let writer =
        Writer::new(history.clone(), (dir.path().to_owned(), Box::new(open)), Duration::ZERO);
    let off = || history.why_off();
    assert_has!(off().unwrap() => "is damaged", "followed logs of Squid are not read");
    count(&history, NOON);
    let stop = Shutdown::new();
    std::thread::scope(|scope| {
        scope.spawn(|| writer.run(&stop));
        std::fs::write(&manifest, &whole).unwrap();
        while off().is_some() || history.status().count("flushes") == 0 {
            clock.advance_ms(1_000);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!((history.run(), found(&history)), (2, 1));
        stop.request();
    });
    assert_eq!(history.status().count("rows_written"), 1);
}

/// That history is on again is said when what waited is written, not while there is no room.
#[test]
fn on_again_is_said_when_something_was_written() {
    for (free, is_back) in [(0, false), (1 << 40, true)] {
        let dir = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(NOON * 1_000));
        let parts = super::super::Parts::default();
        let history = History::new(Arc::clone(&parts), 1 << 24, clock);
        let (path, faults) = (dir.path().to_owned(), Faults::default());
        drop(Store::open(&path, KEEP).unwrap());
        let manifest = path.join("manifest");
        let whole = std::fs::read(&manifest).unwrap();
        std::fs::write(&manifest, &whole[1..]).unwrap();
        let (disk, keep) = (faults.clone(), Retention { free_min: 1 << 30, ..KEEP });
        let open = move || {
            let mut store = Store::open_on(Disk { faults: disk.clone() }, &path, keep)?;
            store.share(Arc::clone(&parts));
            Ok(store)
        };
        let folder = dir.path().to_owned();
        let mut writer = Writer::new(history.clone(), (folder, Box::new(open)), Duration::ZERO);
        assert!(history.why_off().is_some());
        count(&history, NOON);
        std::fs::write(&manifest, &whole).unwrap();
        faults.set_free(free);
        writer.open();
        assert_eq!((history.why_off(), writer.work.is_back), (None, is_back));
        writer.work.flush_due(writer.store.as_mut().unwrap());
        let written = u64::from(is_back);
        assert_eq!((history.status().count("flushes"), writer.work.is_back), (written, false));
    }
}

/// A sync that takes seconds blocks neither counting nor reading.
#[test]
fn a_slow_disk_holds_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (faults, stop) = (Faults::default(), Shutdown::new());
    let clock = Arc::new(ManualClock::new((NOON + HOUR) * 1_000));
    let (history, writer) = writer(dir.path(), &faults, &clock);
    let (begun, begins) = mpsc::channel();
    let (go, goes) = mpsc::channel::<()>();
    faults.set_watch(move || {
        let _nobody_asks = begun.send(());
        let _goes_on = goes.recv();
    });
    count(&history, NOON);
    std::thread::scope(|scope| {
        scope.spawn(|| writer.run(&stop));
        // The thread is in the middle of a change to the disk, whichever it is, and goes on when
        // told to.
        for counted in 2..=9 {
            begins.recv().unwrap();
            count(&history, NOON + counted * 60);
            assert_eq!(found(&history), counted);
            go.send(()).unwrap();
        }
        drop(go);
        stop.request();
    });
    assert_eq!(found(&history), 9);
    let status = history.status();
    assert!(status.count("rows_written") == 9 && status.count("failures") == 0);
}

/// A kill loses only what came since the last flush, not since a file began to be published.
#[test]
fn a_flush_does_not_wait_for_a_file_that_is_being_published() {
    let dir = tempfile::tempdir().unwrap();
    let (faults, stop) = (Faults::default(), Shutdown::new());
    let clock = Arc::new(ManualClock::new((NOON + HOUR) * 1_000));
    let (history, mut writer) = writer(dir.path(), &faults, &clock);
    let rows = u64::from(ROWS_PER_LOOK);
    for script in 0..rows {
        count_script(&history, NOON, &format!("/{script}"));
    }
    assert!(writer.work.flush(writer.store.as_mut().unwrap(), true));
    clock.advance_ms(120_000);
    let (begun, of_watch) = (std::sync::Once::new(), history.clone());
    faults.set_watch(move || begun.call_once(|| count(&of_watch, NOON + HOUR)));
    writer.work.maintain(writer.store.as_mut().unwrap(), &stop);
    let status = history.status();
    assert_eq!(status.count("files_published"), 1);
    assert_eq!(status.count("rows_written"), rows + 1);
    history.view(|rows| assert!(rows.is_empty()));
    assert_eq!(found(&history), rows + 1);
}

#[test]
fn what_is_set_aside_is_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let (faults, stop) = (Faults::default(), Shutdown::new());
    let clock = Arc::new(ManualClock::new((NOON + HOUR) * 1_000));
    let (history, mut writer) = writer(dir.path(), &faults, &clock);
    count(&history, NOON);
    assert!(writer.work.flush(writer.store.as_mut().unwrap(), true));
    clock.advance_ms(120_000);
    let piece = history.view(|_| ())[0].path.clone();
    let whole = std::fs::read(&piece).unwrap();
    std::fs::write(&piece, &whole[1..]).unwrap();
    writer.work.maintain(writer.store.as_mut().unwrap(), &stop);
    let status = history.status();
    assert_eq!(status.count("pieces_damaged"), 1);
    let aside = piece.with_extension("damaged");
    assert_eq!(status.texts["set_aside"], serde_json::json!([aside]));
    assert!(writer.work.flush(writer.store.as_mut().unwrap(), true));
    let mut known = Coverage::default();
    for part in history.view(|_| ()).iter() {
        let mut add = |row: &super::super::Row| {
            assert_eq!((row.time, &*row.key), (NOON, &*dataset().coverage_key()));
            known = Coverage::of(&row.gain.sum.totals);
        };
        let coverage = Dataset::coverage();
        part.read(&coverage, 0..u64::MAX, Want::Sums, &mut add).unwrap();
    }
    let lost = Coverage { rows_lost: 1, ..Coverage::default() };
    assert_eq!(known, lost);
}

#[test]
fn requests_that_are_missed_are_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(NOON * 1_000));
    let (history, mut writer) = writer(dir.path(), &Faults::default(), &clock);
    writer.work.note_missed(writer.store.as_mut().unwrap(), 5);
    writer.work.note_missed(writer.store.as_mut().unwrap(), 5);
    clock.advance_ms(60_000);
    writer.work.note_missed(writer.store.as_mut().unwrap(), 7);
    writer.work.maintain(writer.store.as_mut().unwrap(), &Shutdown::new());
    let (coverage, of) = (Dataset::coverage(), Dataset::raw(REQUEST));
    let mut found = Vec::new();
    history.view(|running| {
        running.rows(&coverage, 0..u64::MAX, |row| {
            assert_eq!(row.key, of.coverage_key());
            found.push((row.time, Coverage::of(&row.gain.sum.totals).missed));
        });
    });
    found.sort_unstable();
    assert_eq!(found, [(NOON, 5), (NOON + 60, 2)]);
}

#[test]
fn flushes_are_at_the_ends_of_minutes_that_lie_within_the_period() {
    let at = |secs: f64| (NOON as f64 * 1e3 + secs * 1e3) as u64;
    for (period_ms, secs, wait_ms) in [
        (60_000, 0.0, 900),
        (60_000, 0.9, 60_000),
        (60_000, 0.95, 59_950),
        (60_000, 40.9, 20_000),
        (10_000, 12.0, 10_000),
        (10_000, 55.0, 5_900),
        (150_000, 30.9, 150_000),
        (149_000, 30.9, 90_000),
        (0, 30.0, 0),
    ] {
        assert_eq!(until_flush(period_ms, at(secs)), wait_ms, "{period_ms} {secs}");
    }
}

/// Publishing may work, with nothing to publish, while flushes fail. What fails for one cause is
/// told once.
#[test]
fn history_is_written_again_once_nothing_fails() {
    let [mut flushing, mut publishing] = [(); 2].map(|()| Attempts::default());
    let (mut limit, dir) = (Limit::new(PAUSE_MS_MAX), Path::new("/h"));
    let failed = |what, file: &str, kind: ErrorKind| {
        Some(failed(what, &dir.join(file))(kind.into()).with_cause(dir))
    };
    let denied = ErrorKind::PermissionDenied;
    flushing.has_ended(failed("make", "1.new", denied), 0, Some(&mut limit), &publishing);
    flushing.has_ended(failed("remove", "1.new", denied), 1_000, Some(&mut limit), &publishing);
    publishing.has_ended(failed("remove", "1.new", denied), 9_000, Some(&mut limit), &flushing);
    assert_eq!(limit.overdue(PAUSE_MS_MAX), Some(2), "one line, and two held back");
    publishing.has_ended(
        failed("write", "2", ErrorKind::StorageFull),
        9_000,
        Some(&mut limit),
        &flushing,
    );
    assert_eq!(limit.pass(9_001), None, "told at once: another cause");
    assert!(!publishing.recovers(&flushing) && !flushing.recovers(&publishing));
    publishing.has_ended(None, 0, None, &flushing);
    assert!(flushing.recovers(&publishing) && !publishing.recovers(&flushing));
}
