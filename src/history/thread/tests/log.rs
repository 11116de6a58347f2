//! The log of seconds through kills, torn ends, full disks and switches.

use std::fs::{self, File};
use std::ops::Range;

use super::super::super::{Parts, UnflushedRows, inspect};
use super::seeded::has_log;
use super::*;
use crate::delta::Reached;
use crate::input::squid::file::Position;
use crate::input::squid::{Positions, Progress, Reading, Tally};
use crate::state::snapshot_writer::CutHistory as _;

/// A writer with a log, unless it is switched off.
pub(super) fn logging(dir: &Path, faults: &Faults, bytes_max: usize) -> (History, Writer) {
    let faults = faults.clone();
    let mut store = Store::open_on(Disk { faults }, dir, KEEP).unwrap();
    let (history, parts) = unopened(bytes_max);
    store.share(parts);
    let period = Duration::from_secs(60);
    let writer = Writer::new(history.clone(), once(store, &history), period);
    (history, writer)
}

/// A history whose store is not open yet, and the parts that they share.
fn unopened(log_bytes_max: usize) -> (History, Parts) {
    let parts = Parts::default();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(NOON * 1_000));
    let history = History::new(Arc::clone(&parts), 1 << 24, clock);
    history.keep_log(log_bytes_max, Vec::new());
    (history, parts)
}

/// A process that counted a request, wrote its log and was killed.
fn leave_log(dir: &Path, faults: &Faults) {
    let (history, mut writer) = logging(dir, faults, 1 << 20);
    count(&history, NOON);
    writer.write_log();
}

impl Writer {
    pub(super) fn write_log(&mut self) {
        self.work.write_log(self.store.as_mut().unwrap());
    }

    pub(super) fn flush(&mut self) -> bool {
        self.work.flush(self.store.as_mut().unwrap(), true)
    }
}

pub(super) fn logs(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir.join("pending")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut logs: Vec<_> = paths.filter(|path| path.extension() == Some("log".as_ref())).collect();
    logs.sort();
    logs
}

#[test]
fn a_kill_takes_what_is_not_in_the_log_and_nothing_comes_twice() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let start = || logging(dir.path(), &faults, 1 << 20);
    let (history, mut writer) = start();
    count(&history, NOON);
    writer.write_log();
    count_script(&history, NOON, "/y");
    count(&history, NOON + 60);
    writer.write_log();
    count(&history, NOON + 60);
    drop(writer);
    // Killed this often before it flushes.
    for _ in 0..3 {
        let (history, writer) = start();
        assert_eq!(found(&history), 3);
        assert_eq!(history.status().count("log_rows_restored"), 3);
        drop(writer);
    }
    let (history, mut writer) = start();
    count(&history, NOON + 120);
    writer.write_log();
    drop(writer);
    let (history, mut writer2) = start();
    assert_eq!((found(&history), logs(dir.path()).len()), (4, 2));
    assert!(writer2.flush());
    assert_eq!((found(&history), logs(dir.path()).len()), (4, 0));
    assert_eq!(history.status().count("log_disk_bytes"), 0);
    // Additions during a flush belong to the next file.
    count(&history, NOON + 180);
    writer2.write_log();
    assert_eq!(logs(dir.path()).len(), 1);
    drop(writer2);
    let (history, _) = start();
    assert_eq!(found(&history), 5);
}

/// As on a disk that is full at the start after a kill, while a snapshot is due.
#[test]
fn what_waits_for_a_store_is_not_lost_to_what_its_log_restores() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    leave_log(dir.path(), &faults);
    // The next process counts before it can open the store.
    let (history, parts) = unopened(1 << 20);
    count(&history, NOON);
    history.seal(1);
    history.take(0, 0, Reached { second: 1, ..Reached::default() }, |_| ());
    let mut store = Store::open_on(Disk { faults }, dir.path(), KEEP).unwrap();
    store.share(parts);
    history.replay(&mut store);
    assert_eq!(found(&history), 2);
}

/// Also if the disk was full at the start; until then they are in memory, apart from others.
#[test]
fn what_comes_back_is_in_files_before_anything_else() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let start = || logging(dir.path(), &faults, 1 << 20);
    let (history, mut writer) = start();
    count(&history, NOON);
    writer.write_log();
    drop(writer);
    let (history, mut writer) = start();
    let (sender, calls) = mpsc::channel();
    let of_call = history.clone();
    writer.on_restored(Box::new(move || sender.send(of_call.earlier().unwrap()).unwrap()));
    faults.set_full(true);
    assert!(!writer.flush());
    count(&history, NOON);
    let earlier = history.earlier().unwrap();
    let rows: usize = earlier.unflushed.unwrap().lens().map(|(_, rows)| rows).sum();
    assert_eq!((rows, earlier.parts.len()), (1, 0));
    // The log still has the one, and would have the other if it could be written.
    let waiting = || {
        let (all, lost) = history.waiting();
        (all, lost.into_iter().collect::<Vec<_>>())
    };
    assert_eq!(waiting(), (2, vec![]));
    writer.write_log();
    assert_eq!(waiting(), (2, vec![("by script".to_owned(), 1)]));
    faults.set_full(false);
    assert!(calls.try_recv().is_err() && writer.flush());
    let earlier = calls.try_recv().unwrap();
    assert!(earlier.unflushed.is_none() && earlier.parts.len() == 1 && calls.try_recv().is_err());
    assert_eq!((found(&history), history.earlier().unwrap().parts.len()), (2, 2));
}

/// A writer with a log, that follows a file.
pub(super) fn following(dir: &Path) -> (History, Writer) {
    let store = Store::open_on(Disk::default(), dir, KEEP).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(NOON * 1_000));
    let history = History::new(store.parts(), 1 << 24, clock);
    history.keep_log(1 << 20, vec!["f".to_owned()]);
    let writer = Writer::new(history.clone(), once(store, &history), Duration::ZERO);
    (history, writer)
}

/// Counts a line of the file, up to which the source has so many more requests, and twice as many
/// swaps, than is known, and has begun so many files.
pub(super) fn read(history: &History, known: &Reading, more: u64, files_begun: u64) {
    let reading = Reading {
        progress: Progress { files_begun, ..Progress::default() },
        requests: known.requests.at(known.requests.lines + more),
        swaps: known.swaps.at(known.swaps.lines + 2 * more),
    };
    read_to(history, reading);
}

/// Counts a line of the file, up to which it was read to here.
fn read_to(history: &History, reading: Reading) {
    let reached = Reached {
        second: 0,
        next_id: 0,
        files: Some(Arc::new(Positions::from([("f".to_owned(), reading)]))),
    };
    history.take(0, 0, reached, |running| {
        let mut key = Vec::new();
        push_key(&mut key, "/x");
        let totals = Totals { requests: 1, ..Totals::ZERO };
        let sum = Sum::of(totals, None);
        let gain = Gain { sum, ..Gain::default() };
        running.add(&dataset(), NOON, &key, false, &gain);
    });
}

/// What is on disk of the file.
pub(super) fn known(writer: &Writer) -> Reading {
    let files = writer.store.as_ref().unwrap().files();
    files.get("f").cloned().unwrap_or_default()
}

/// Rows of a followed file come back with the numbers of their lines: what is read again up to
/// there is not in rows again. The first flush says where that file begins.
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range")]
#[test]
fn a_log_says_which_lines_of_a_file_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let start = || following(dir.path());
    let read = |history: &History, known: &Reading, more| read(history, known, more, 0);
    let tally = |lines, ahead: &[Range<u64>]| Tally { lines, ahead: ahead.to_vec() };
    let (history, mut writer) = start();
    read(&history, &Reading::default(), 1);
    writer.write_log();
    assert_eq!(logs(dir.path()).len(), 0, "no position on disk yet");
    assert!(writer.flush());
    let begun_at = known(&writer);
    assert_eq!((&begun_at.requests, &begun_at.swaps), (&tally(1, &[]), &tally(2, &[])));
    read(&history, &begun_at, 1);
    read(&history, &begun_at, 2);
    writer.write_log();
    read(&history, &begun_at, 3);
    drop(writer);
    let (history, writer) = start();
    assert_eq!((found(&history), known(&writer).requests), (3, tally(1, &[1..3])));
    assert_eq!(known(&writer).swaps, tally(2, &[2..6]));
    // Killed after a flush that has not reached them.
    let (history, mut writer) = (history, writer);
    let begun_at = known(&writer);
    read(&history, &begun_at, 1);
    assert!(writer.flush());
    drop(writer);
    let (history, mut writer) = start();
    assert_eq!((found(&history), known(&writer).requests), (4, tally(2, &[1..3])));
    // It goes on behind them, also in the log.
    let begun_at = known(&writer);
    read(&history, &begun_at, 2);
    writer.write_log();
    drop(writer);
    let (history, writer) = start();
    assert_eq!((found(&history), known(&writer).requests), (5, tally(2, &[1..4])));
    drop(writer);
    // What another process followed stays with what it has of it.
    let (history, mut writer) = logging(dir.path(), &faults, 1 << 20);
    assert!(writer.flush());
    drop(writer);
    assert_eq!(known(&start().1).requests, tally(2, &[1..4]));
    assert_eq!(found(&history), 5);
}

/// It has lines of the file in which the position on disk is. A file that was begun since may not
/// be the one that the next process reads behind that: its lines wait for a flush, which comes at
/// once.
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range")]
#[test]
fn a_log_has_no_line_of_a_file_that_was_begun_since_the_flush() {
    let dir = tempfile::tempdir().unwrap();
    let (history, mut writer) = following(dir.path());
    read(&history, &Reading::default(), 1, 1);
    assert!(history.is_wanted() && writer.flush());
    let begun_at = known(&writer);
    read(&history, &begun_at, 1, 1);
    assert!(!history.is_wanted());
    writer.write_log();
    for more in [2, 3] {
        read(&history, &begun_at, more, 2);
        assert!(history.is_wanted() && !has_log(&history));
        writer.write_log();
    }
    drop(writer);
    let (history, mut writer) = following(dir.path());
    assert_eq!((found(&history), known(&writer).requests.ahead), (2, Vec::from([1..2])));
    // It is not there any more, and another one is begun behind all numbers, while rows are written
    // with the position in the one before.
    assert!(writer.flush());
    let begun_at = known(&writer);
    assert_eq!(begun_at.requests, Tally { lines: 1, ahead: Vec::from([1..2]) });
    read(&history, &begun_at, 0, 0);
    history.begin_flush();
    read(&history, &begun_at, 1, 1);
    assert!(writer.flush());
    assert_eq!(known(&writer).requests, begun_at.requests);
    read(&history, &begun_at, 2, 1);
    assert!(history.is_wanted() && !has_log(&history));
    assert!(writer.flush());
    assert_eq!(known(&writer).requests, Tally { lines: 3, ahead: Vec::new() });
    assert!(!history.is_wanted() && has_log(&history));
    let begun_at = known(&writer);
    read(&history, &begun_at, 1, 1);
    writer.write_log();
    drop(writer);
    let (history, writer) = following(dir.path());
    assert_eq!((found(&history), known(&writer).requests.ahead), (6, Vec::from([3..4])));
}

/// As of one that was begun: before its first line nothing tells it from what it may have next.
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range")]
#[test]
fn a_log_has_no_line_of_a_file_whose_position_on_disk_is_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let (history, mut writer) = following(dir.path());
    let read = |offset: u64, lines: u64| {
        let mut reading = Reading::default();
        reading.progress.file = Position::of([1, 2, offset, 3]);
        reading.requests.lines = lines;
        read_to(&history, reading);
    };
    read(0, 0);
    assert!(writer.flush() && has_log(&history));
    // Packets come meanwhile.
    read(0, 0);
    assert!(has_log(&history) && !history.is_wanted());
    writer.write_log();
    for lines in [1, 2] {
        read(100, lines);
        assert!(!has_log(&history) && history.is_wanted());
        writer.write_log();
    }
    assert!(writer.flush() && has_log(&history) && !history.is_wanted());
    read(300, 3);
    assert!(has_log(&history) && !history.is_wanted());
    writer.write_log();
    drop(writer);
    let (history, writer) = following(dir.path());
    let known = known(&writer);
    assert_eq!(known.requests, Tally { lines: 2, ahead: Vec::from([2..3]) });
    assert_eq!((known.progress.file, found(&history)), (Position::of([1, 2, 100, 3]), 5));
}

/// A committed flush includes the log, even if that still exists.
#[test]
fn a_log_that_was_flushed_is_not_read_again() {
    for killed_at in 1.. {
        let dir = tempfile::tempdir().unwrap();
        let faults = Faults::default();
        let (history, mut writer) = logging(dir.path(), &faults, 1 << 20);
        count(&history, NOON);
        writer.write_log();
        faults.die_at(killed_at);
        writer.flush();
        drop(writer);
        let was_killed = faults.was_reached();
        faults.recover();
        let (history, mut writer) = logging(dir.path(), &faults, 1 << 20);
        assert_eq!(found(&history), 1, "{killed_at}");
        assert!(writer.flush());
        assert_eq!((found(&history), logs(dir.path()).len()), (1, 0), "{killed_at}");
        assert_eq!(writer.store.as_ref().unwrap().counters.files_orphaned.get(), 0);
        if !was_killed {
            assert!(killed_at > 5, "{killed_at}");
            break;
        }
    }
}

/// As one that is not there yet: a flush says so at once, so that a log can begin.
#[test]
fn a_file_that_history_does_not_know_is_flushed_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (history, mut writer) = following(dir.path());
    for is_known in [false, true] {
        assert_eq!(has_log(&history), is_known);
        read(&history, &Reading::default(), 0, 0);
        assert_eq!(history.is_wanted(), !is_known);
        assert!(writer.flush());
    }
}

/// As with too many open files, for a moment.
#[test]
fn a_log_that_cannot_be_opened_is_there_at_the_next_try() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    leave_log(dir.path(), &faults);
    let log = logs(dir.path()).remove(0);
    faults.set_unreadable(Some(&log));
    let disk = Disk { faults: faults.clone() };
    let error = Store::open_on(disk, dir.path(), KEEP).unwrap_err();
    assert!(error.to_string().contains(log.to_str().unwrap()), "{error}");
    faults.set_unreadable(None);
    assert_eq!(found(&logging(dir.path(), &faults, 1 << 20).0), 1);
}

#[test]
fn a_torn_end_is_cut_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (history, mut writer) = logging(dir.path(), &faults, 1 << 20);
    let mut ends = vec![0];
    let mut log = None;
    for minute in 0..3 {
        count(&history, NOON + minute * 60);
        writer.write_log();
        let path = logs(dir.path()).remove(0);
        ends.push(fs::metadata(&path).unwrap().len());
        log = Some(path);
    }
    drop(writer);
    let log = log.unwrap();
    let whole = fs::read(&log).unwrap();
    let verify = || inspect::verify(dir.path()).unwrap().problems;
    for len in (0..whole.len()).step_by(5) {
        fs::write(&log, &whole[..len]).unwrap();
        assert_eq!(verify(), [""; 0]);
        let (history, _) = logging(dir.path(), &faults, 1 << 20);
        let records = ends.iter().filter(|&&end| end > 0 && end <= len as u64).count();
        assert_eq!(found(&history), records as u64, "{len} bytes");
        let torn = len as u64 - ends[records];
        assert_eq!(history.status().count("log_bytes_torn"), torn);
        assert_eq!(fs::metadata(&log).unwrap().len(), ends[records]);
    }
    // A flipped bit ends it too, and so do zeros.
    let mut flipped = whole.clone();
    flipped[ends[1] as usize + 20] ^= 1;
    fs::write(&log, &flipped).unwrap();
    let problems = verify();
    assert_eq!(problems.len(), 1);
    let rest = format!("leaves out its last {} bytes", whole.len() as u64 - ends[1]);
    assert_has!(problems[0] => log.to_str().unwrap(), "a checksum is wrong", &*rest);
    assert_eq!(found(&logging(dir.path(), &faults, 1 << 20).0), 1);
    fs::write(&log, &whole).unwrap();
    let file = File::options().write(true).open(&log).unwrap();
    file.set_len(whole.len() as u64 + 4_096).unwrap();
    let (history, _) = logging(dir.path(), &faults, 1 << 20);
    assert_eq!(found(&history), 3);
    assert_eq!(history.status().count("log_bytes_torn"), 4_096);
}

/// It begins after a flush, in which more came.
#[test]
fn a_log_that_begins_beside_rows_has_their_keys() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (history, mut writer) = logging(dir.path(), &faults, 1 << 20);
    history.end_log("of a test".to_owned());
    count(&history, NOON);
    history.begin_flush();
    // This a kill takes.
    count(&history, NOON);
    assert!(writer.flush());
    count(&history, NOON);
    writer.write_log();
    drop(writer);
    let (history, _) = logging(dir.path(), &faults, 1 << 20);
    assert_eq!(found(&history), 2);
    assert_eq!(history.status().count("log_bytes_torn"), 0);
}

/// Coverage then says what is missing, which is not logged: its key is, with what comes next.
#[test]
fn what_shrinks_beside_a_log_does_not_end_it() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (history, mut writer) = logging(dir.path(), &faults, 1 << 20);
    let cover = |history: &History| {
        let second = Coverage { secs: 1, ..Coverage::default() };
        history.add(|running| running.cover(&dataset().coverage_key(), NOON, second));
    };
    history.end_log("of a test".to_owned());
    count(&history, NOON);
    history.begin_flush();
    cover(&history);
    count(&history, NOON);
    assert!(writer.flush());
    history.add(|running| assert_eq!(running.shrink(1).keys_folded, 1));
    cover(&history);
    count_script(&history, NOON, "/y");
    writer.write_log();
    drop(writer);
    let (history, _) = logging(dir.path(), &faults, 1 << 20);
    let status = history.status();
    assert_eq!((status.count("log_rows_restored"), status.count("log_bytes_torn")), (2, 0));
}

/// Nobody notices but the status; after a flush there is a log again.
#[test]
fn a_disk_that_takes_nothing_ends_the_log_until_it_does() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (history, mut writer) = logging(dir.path(), &faults, 1 << 20);
    let why = || history.status().texts["log"].as_str().map(str::to_owned);
    count(&history, NOON);
    faults.fail_at(1);
    writer.write_log();
    faults.recover();
    assert!(why().unwrap().contains("a fault of the test"));
    assert_has!(history.why_failing().unwrap() => "has no log of seconds");
    count(&history, NOON);
    writer.write_log();
    assert!(logs(dir.path()).is_empty());
    assert!(writer.flush());
    assert_eq!((why(), history.why_failing()), (None, None));
    count(&history, NOON);
    writer.write_log();
    assert_eq!((logs(dir.path()).len(), found(&history)), (1, 3));
    // Its bytes do not reach the disk, or may not.
    count(&history, NOON);
    faults.set_full(true);
    writer.work.history.begin_flush();
    count(&history, NOON);
    writer.write_log();
    assert!(why().is_some());
    faults.set_full(false);
    assert!(writer.flush() && why().is_none());
    faults.set_free(5);
    writer.store.as_mut().unwrap().retention.free_min = 6;
    count(&history, NOON);
    writer.write_log();
    assert!(why().unwrap().contains("history.free_min"));
    faults.set_free(7);
    assert!(writer.flush() && writer.flush() && why().is_none());
    assert_eq!(found(&history), 6);
}

/// What came after a failed flush is in no log: it is written as soon as that flush is.
#[test]
fn after_a_failure_everything_that_waited_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let start = || logging(dir.path(), &faults, 1 << 20);
    let (history, mut writer) = start();
    count(&history, NOON);
    faults.set_full(true);
    let Writer { store: Some(store), work, .. } = &mut writer else { panic!("no store") };
    work.flush_ms = 0;
    work.flush_due(store);
    assert!(history.why_failing().is_some());
    count(&history, NOON);
    work.flush_due(store);
    faults.set_full(false);
    work.writing.next_ms = 0;
    work.flush_due(store);
    assert!(history.why_failing().is_none());
    drop(writer);
    let (history, _) = start();
    assert_eq!(found(&history), 2);
}

#[test]
fn a_log_is_bounded_in_memory_and_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (history, mut writer) = logging(dir.path(), &faults, 300);
    let why = || history.status().texts["log"].as_str().map(str::to_owned);
    (0..10).for_each(|script| count_script(&history, NOON, &format!("/{script}")));
    writer.write_log();
    assert!(why().unwrap().contains("make history.memory larger"));
    assert!(writer.flush() && why().is_none());
    count(&history, NOON);
    writer.write_log();
    let store = writer.store.as_mut().unwrap();
    store.seconds.bytes_max = store.seconds.bytes() / 2 * 3;
    assert!(why().is_none() && store.seconds.is_large());
    // There is a flush before its time.
    writer.work.flush_due(writer.store.as_mut().unwrap());
    assert_eq!(history.status().count("log_disk_bytes"), 0);
    count(&history, NOON);
    writer.write_log();
    count(&history, NOON);
    writer.write_log();
    assert!(why().unwrap().contains("an eighth of history.size_max"));
    assert!(writer.flush() && why().is_none());
    assert_eq!(found(&history), 13);
}

#[test]
fn without_a_log_none_is_written_and_one_that_is_there_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (history, mut writer) = logging(dir.path(), &faults, 0);
    count(&history, NOON);
    writer.write_log();
    assert!(logs(dir.path()).is_empty());
    assert!(writer.flush());
    drop(writer);
    let (history, mut writer) = logging(dir.path(), &faults, 1 << 20);
    count(&history, NOON);
    writer.write_log();
    drop(writer);
    let (history, mut writer) = logging(dir.path(), &faults, 0);
    assert_eq!(found(&history), 2);
    assert!(writer.flush() && logs(dir.path()).is_empty());
    drop(writer);
    assert_eq!(found(&logging(dir.path(), &faults, 0).0), 2);
}

/// Rows that overflowed in memory do so again when the log is read: the overflow is not logged.
#[test]
fn what_gives_way_is_not_logged() {
    let mut batch = UnflushedRows::default();
    batch.fresh = Some(super::super::super::log_of_seconds::Fresh::new(1, 1 << 20));
    let dataset = dataset();
    for script in 0..100 {
        let mut key = Vec::new();
        push_key(&mut key, &format!("/{script}"));
        batch.add(&dataset, NOON, &key, false, &Gain::default());
    }
    let shrunk = batch.shrink(batch.bytes() / 2);
    assert!(shrunk.keys_folded > 0 && batch.datasets().count() == 2);
    let mut fresh = batch.fresh.take().unwrap();
    assert_eq!(fresh.take().unwrap().rows, 100);
}

/// Percentiles, extremes, sums past 63 bits and overflow rows come back unchanged.
#[test]
fn rows_come_back_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (history, mut writer) = logging(dir.path(), &faults, 1 << 20);
    let dataset = Arc::new(Dataset { extremes: true, ..(*dataset()).clone() });
    let mut key = Vec::new();
    push_key(&mut key, "/x");
    history.add(|running| {
        for (us, is_other) in [(10, false), (2_000_000, false), (77, true)] {
            let totals = Totals { requests: 1, time: u128::from(u64::MAX), ..Totals::ZERO };
            let mut histogram = crate::report::histogram::Histogram::new();
            histogram.add(dataset.buckets.bucket(us), 1);
            let extremes =
                crate::report::totals::Extremes { time_min: us, time_max: us, memory_peak_max: 3 };
            let sum = Sum::of(totals, Some(histogram));
            running.add(&dataset, NOON, &key, is_other, &Gain { sum, extremes });
        }
    });
    let rows = |history: &History| {
        let mut rows = Vec::new();
        history.view(|batch| {
            batch.rows(&dataset, 0..u64::MAX, |row| rows.push(format!("{row:?}")));
        });
        rows.sort();
        rows
    };
    let before = rows(&history);
    assert_eq!(before.len(), 2);
    writer.write_log();
    drop(writer);
    assert_eq!(rows(&logging(dir.path(), &faults, 0).0), before);
}
