//! Kills and failing disks.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tempfile::TempDir;

use super::*;
use crate::shutdown::Shutdown;

/// A change of the store in the run that is stopped everywhere.
enum Step {
    Flush(&'static [i64]),
    Publish,
    /// A flush during a publication.
    PublishBeside(&'static [i64]),
    Retain,
}

/// Minutes from [`NOON`] at which a step happens.
const STEPS: &[(i64, Step)] = &[
    (1, Step::Flush(&[0])),
    (4, Step::Flush(&[1, 2, 3])),
    (6, Step::Publish),
    // Late, with published rows already present.
    (10, Step::Flush(&[-20, 5])),
    (12, Step::PublishBeside(&[6, 7])),
    (11 * 60, Step::Flush(&[11 * 60])),
    (12 * 60, Step::Publish),
    (12 * 60 + 5, Step::Publish),
    (3 * 24 * 60, Step::Publish),
    (3 * 24 * 60 + 5, Step::Publish),
    (20 * 24 * 60, Step::Retain),
    (20 * 24 * 60 + 1, Step::Flush(&[20 * 24 * 60])),
];

pub(super) fn keep() -> Retention {
    Retention { secs: [14 * DAY, u64::MAX, u64::MAX], ..FOR_EVER }
}

fn second(minute: i64) -> u64 {
    NOON.checked_add_signed(minute * 60).unwrap()
}

fn batch_of(step: usize, minutes: &[i64]) -> Gained {
    let times: Vec<u64> = minutes.iter().map(|&it| second(it)).collect();
    gained(&times, mark(step as u32))
}

/// Runs a step; adds flushed rows to `counted` on success.
pub(super) fn run(store: &mut Store, step: usize, counted: &mut Rows) -> Result<(), StoreError> {
    let (minute, what) = &STEPS[step];
    let now = second(*minute);
    match what {
        Step::Flush(minutes) => {
            let gained = batch_of(step, minutes);
            store.flush(&gained.batch, now, || ())?;
            counted.extend(gained.rows);
            Ok(())
        }
        Step::Publish => publish_all(store, now),
        Step::PublishBeside(minutes) => {
            let gained = batch_of(step, minutes);
            let mut is_flushed = gained.rows.keys().all(|row| counted.contains_key(row));
            let mut flush = |store: &mut Store| {
                if is_flushed {
                    return Ok(());
                }
                store.flush(&gained.batch, now, || ())?;
                counted.extend(gained.rows.clone());
                is_flushed = true;
                Ok(())
            };
            while store.publish_due(now, &mut flush)? {}
            flush(store)
        }
        Step::Retain => store.expire(now),
    }
}

/// Requests by day, as all parts have them together.
fn counted_days(store: &Store) -> BTreeMap<Place, u128> {
    let mut rows = Rows::new();
    for part in store.parts().read().iter().filter(|part| !part.is_rolled()) {
        rows_of(part, &mut rows);
    }
    days(&rows)
}

fn days(rows: &Rows) -> BTreeMap<Place, u128> {
    let days = at(Resolution::Day, rows).into_iter();
    days.map(|(row, sums)| (row, sums[0])).collect()
}

/// The finest resolution of which nothing was removed.
fn finest(steps: usize) -> Resolution {
    let mut steps = STEPS.iter().take(steps);
    match steps.any(|it| matches!(it.1, Step::Retain)) {
        true => Resolution::Hour,
        false => Resolution::Minute,
    }
}

pub(super) fn open_on(faults: &Faults, dir: &Path) -> Result<Store, StoreError> {
    let faults = faults.clone();
    Store::open_on(Disk { faults }, dir, keep())
}

/// An empty store on a disk that can fail.
pub(super) fn with_faults() -> (TempDir, Faults, Store) {
    let (dir, faults) = (tempfile::tempdir().unwrap(), Faults::default());
    let store = open_on(&faults, dir.path()).unwrap();
    (dir, faults, store)
}

/// The end of a run.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Kill,
    PowerCut,
    /// It continues: only one change fails.
    Failure,
}

/// Stopped before the `n`th change; returns whether there were so many.
fn stopped_at(n: u64, end: End) -> bool {
    let is_kill = end != End::Failure;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("history");
    let faults = Faults::default();
    match is_kill {
        true => faults.die_at(n),
        false => faults.fail_at(n),
    }
    let (mut step, mut counted) = (0, Rows::new());
    let mut store = open_on(&faults, &dir).ok();
    if let Some(store) = &mut store {
        while step < STEPS.len() && run(store, step, &mut counted).is_ok() {
            step += 1;
        }
    }
    if is_kill {
        store = None;
    }
    if end == End::PowerCut {
        faults.cut_power();
    }
    let mut store = store.unwrap_or_else(|| Store::open(&dir, keep()).unwrap());
    if let Some((_, Step::Flush(minutes) | Step::PublishBeside(minutes))) = STEPS.get(step) {
        // All of the flush counts, or nothing of it.
        let mut both = counted.clone();
        both.extend(batch_of(step, minutes).rows);
        let found = counted_days(&store);
        if is_kill && found == days(&both) {
            counted = both;
            step += 1;
        } else {
            assert_eq!(found, days(&counted), "{n}");
        }
    }
    check(&store, &counted, finest(step + 1));
    check_published(&dir, &counted);
    // It continues from there; not after each, since that takes time.
    if n.is_multiple_of(7) {
        for step in step..STEPS.len() {
            run(&mut store, step, &mut counted).unwrap();
        }
        check_published(&dir, &counted);
        check(&store, &counted, Resolution::Hour);
    }
    drop(store);
    // Nothing is left that does not count.
    let store = Store::open(&dir, keep()).unwrap();
    let parts = store.manifest.parts();
    let mut known: Vec<PathBuf> = parts.map(|part| part.path.clone()).collect();
    known.sort_unstable();
    assert_eq!(files_of(&dir).unwrap(), known, "{n}");
    faults.was_reached()
}

#[test]
fn killed_before_any_change_nothing_is_there_twice() {
    let changes = (1..).take_while(|&n| stopped_at(n, End::Kill)).count();
    assert!(changes > 100, "{changes}");
}

#[test]
fn what_was_committed_outlasts_a_power_cut() {
    // Every third change, since it takes time: others in each of the repeated steps.
    let changes = (1..).map(|n| n * 3);
    let changes = changes.take_while(|&n| stopped_at(n, End::PowerCut));
    assert!(changes.count() > 33);
}

/// What a start goes by was written, but perhaps not synced, by a process that was killed: it
/// removes nothing for it that the manifest has again after a power cut.
#[test]
fn a_start_that_ends_in_a_power_cut_has_removed_nothing_that_counts() {
    let mut starts = 0;
    for killed_at in 1..3 {
        for cut_at in 1.. {
            let (dir, faults, mut store) = with_faults();
            let gained = gained(&[NOON], mark(0));
            store.flush(&gained.batch, NOON, || ()).unwrap();
            let later = NOON + 20 * DAY;
            publish_all(&mut store, later).unwrap();
            faults.die_at(killed_at);
            store.expire(later).unwrap_err();
            drop(store);
            faults.die_at(cut_at);
            let _cut_short = open_on(&faults, dir.path()).map(drop);
            let is_cut_short = faults.was_reached();
            faults.recover();
            faults.cut_power();
            let store = Store::open(dir.path(), keep()).unwrap();
            assert_eq!(store.counters.files_missing.get(), 0, "{killed_at}, {cut_at}");
            check(&store, &gained.rows, Resolution::Hour);
            if !is_cut_short {
                break;
            }
            starts += 1;
        }
    }
    assert!(starts > 10, "{starts}");
}

#[test]
fn a_change_that_fails_is_made_later() {
    let changes = (1..).take_while(|&n| stopped_at(n, End::Failure)).count();
    assert!(changes > 100, "{changes}");
}

#[test]
fn who_reads_the_tree_between_any_two_changes_counts_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (faults, path) = (Faults::default(), dir.path().to_owned());
    let mut store = open_on(&faults, &path).unwrap();
    let all = Arc::new(Mutex::new(Rows::new()));
    let looks = Arc::new(AtomicU64::new(0));
    let (seen, looked) = (Arc::clone(&all), Arc::clone(&looks));
    faults.set_watch(move || {
        check_published(&path, &seen.lock());
        looked.fetch_add(1, Ordering::Relaxed);
    });
    for (step, (_, what)) in STEPS.iter().enumerate() {
        if let Step::Flush(minutes) | Step::PublishBeside(minutes) = what {
            all.lock().extend(batch_of(step, minutes).rows);
        }
        run(&mut store, step, &mut Rows::new()).unwrap();
    }
    assert!(looks.load(Ordering::Relaxed) > 100);
}

#[test]
fn a_full_disk_pauses_history() {
    let (dir, faults, mut store) = with_faults();
    let mut counted = Rows::new();
    for (step, (_, what)) in STEPS.iter().enumerate() {
        let before = listing(dir.path());
        if !matches!(what, Step::Retain) {
            faults.set_full(true);
            let tried = run(&mut store, step, &mut Rows::new());
            if let Step::Flush(_) = what {
                let error = tried.unwrap_err().to_string();
                assert_has!(error => "cannot write", "No space");
            }
            assert_eq!(listing(dir.path()), before);
            faults.set_full(false);
        }
        run(&mut store, step, &mut counted).unwrap();
        check(&store, &counted, finest(step + 1));
    }
}

/// A store with a flush as its last commit, what it has without that, and with it.
pub(super) fn flushed() -> (TempDir, Rows, Rows) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path(), keep()).unwrap();
    let mut counted = Rows::new();
    for step in 0..3 {
        run(&mut store, step, &mut counted).unwrap();
    }
    let before = counted.clone();
    run(&mut store, 3, &mut counted).unwrap();
    (dir, before, counted)
}

pub(super) fn restore(files: &[(PathBuf, Vec<u8>)]) {
    for (path, bytes) in files {
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn a_commit_that_was_cut_off_does_not_count() {
    let (dir, before, after) = flushed();
    let files = listing(dir.path());
    let path = Manifest::path(dir.path());
    let text = fs::read(&path).unwrap();
    let mut ends = text[..text.len() - 1].iter();
    let last = ends.rposition(|byte| *byte == b'\n').unwrap() + 1;
    for len in last..=text.len() {
        restore(&files);
        fs::write(&path, &text[..len]).unwrap();
        let store = Store::open(dir.path(), keep()).unwrap();
        if len % 32 == 0 || len + 2 > text.len() {
            let counted = if len == text.len() { &after } else { &before };
            check(&store, counted, Resolution::Minute);
        }
        let files = files_of(dir.path()).unwrap().len();
        assert_eq!(store.parts().read().len(), files);
    }
    // Possible content after a power cut in place of unwritten data.
    restore(&files);
    fs::write(&path, [&text[..last], &[0; 4096]].concat()).unwrap();
    let store = Store::open(dir.path(), keep()).unwrap();
    check(&store, &before, Resolution::Minute);
}

/// It may turn a newline or a space into what looks like an unfinished commit.
#[test]
fn a_flipped_bit_in_the_last_commit_takes_nothing_away() {
    let (dir, _, counted) = flushed();
    let (path, files) = (Manifest::path(dir.path()), listing(dir.path()));
    let text = fs::read(&path).unwrap();
    let last = text[..text.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let mut opened = 0;
    for at in last * 8..text.len() * 8 {
        let mut damaged = text.clone();
        damaged[at / 8] ^= 1 << (at % 8);
        let is_special = matches!(damaged[at / 8], 0 | b'\n') || at / 8 + 1 == text.len();
        if !is_special && at % 13 > 0 {
            continue;
        }
        fs::write(&path, &damaged).unwrap();
        match Store::open(dir.path(), keep()) {
            Ok(store) => {
                opened += 1;
                check(&store, &counted, Resolution::Minute);
                drop(store);
                restore(&files);
            }
            Err(error) => assert!(error.to_string().contains("is damaged"), "{at}: {error}"),
        }
    }
    // The newline, and letters of the checksum.
    assert!(opened >= 8, "{opened}");
}

#[test]
fn a_manifest_that_is_damaged_missing_or_newer_stops_it_and_nothing_is_touched() {
    let (dir, ..) = flushed();
    let path = Manifest::path(dir.path());
    let text = fs::read(&path).unwrap();
    let refused = |text: Option<&[u8]>| {
        match text {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let before = listing(dir.path());
        let error = Store::open(dir.path(), keep()).unwrap_err().to_string();
        assert_eq!(listing(dir.path()), before);
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        error
    };
    // Also as a start leaves it: a first line and one commit with everything.
    drop(Store::open(dir.path(), keep()).unwrap());
    let begun = fs::read(&path).unwrap();
    for text in [&text, &begun] {
        for at in (0..text.len() - 1).step_by(7).chain([text.len() - 2]) {
            let mut damaged = text.clone();
            damaged[at] ^= 1;
            assert!(refused(Some(&damaged)).contains("is damaged"), "at {at}");
        }
        let second = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in [second, second + 9] {
            assert!(refused(Some(&text[..cut])).contains("its first commit is not whole"));
        }
    }
    assert!(refused(Some(b"")).contains("is damaged"));
    assert!(refused(None).contains("it is missing"));
    let json = r#"{"format":2,"something":"else"}"#;
    let crc = crc32fast::hash(json.as_bytes());
    let error = refused(Some(format!("{crc:08x} {json}\nanything").as_bytes()));
    let known = "has format 2, and this program knows formats up to 1";
    assert!(error.contains(known), "{error}");
    fs::write(&path, &text).unwrap();
    Store::open(dir.path(), keep()).unwrap();
}

#[test]
fn one_daemon_has_the_folder() {
    let (dir, ..) = flushed();
    let store = Store::open(dir.path(), keep()).unwrap();
    let error = Store::open(dir.path(), keep()).unwrap_err().to_string();
    assert!(error.starts_with("history.dir: "), "{error}");
    assert!(error.contains("in use by another"), "{error}");
    let run = store.run();
    drop(store);
    assert_eq!(Store::open(dir.path(), keep()).unwrap().run(), run + 1);
}

#[test]
fn a_stop_leaves_everything_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let gained = gained(&[NOON], 1);
    store.flush(&gained.batch, NOON, || ()).unwrap();
    let before = listing(dir.path());
    let stop = Shutdown::new();
    stop.request();
    let mut unless_stopped = |_: &mut Store| StoreError::unless_stopped(&stop);
    let error = store.publish_due(NOON + HOUR, &mut unless_stopped).unwrap_err();
    assert!(matches!(error, StoreError::Stopped));
    assert_eq!(listing(dir.path()), before);
    check(&store, &gained.rows, Resolution::Minute);
}

#[test]
fn pieces_are_their_owners_alone_and_published_files_are_for_who_may_enter() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, ..) = flushed();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&Manifest::path(dir.path())), 0o600);
    assert_eq!(mode(&dir.path().join(PENDING)), 0o700);
    for file in files_of(dir.path()).unwrap() {
        let is_published = file.extension().unwrap() == "parquet";
        let modes = [(0o600, 0o700), (0o644, 0o755)][usize::from(is_published)];
        assert_eq!((mode(&file), mode(file.parent().unwrap())), modes);
    }
}
