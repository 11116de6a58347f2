//! Files that are damaged, unreadable, missing or unknown.

use super::super::super::disk::READ_TRIES;
use super::super::super::file_names::{ROLLUP, set_aside};
use super::super::super::inspect::verify;
use super::crash::{flushed, keep, open_on, restore, run, with_faults};
use super::*;

/// It is noticed, its rows are lost, all others are published.
#[test]
fn a_damaged_piece_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let (damaged, whole) = (gained(&[NOON], 1), gained(&[NOON + MINUTE], 1));
    store.flush(&damaged.batch, NOON, || ()).unwrap();
    store.flush(&whole.batch, NOON, || ()).unwrap();
    drop(store);
    let files = listing(dir.path());
    let (path, bytes) = &files[0];
    // The header is there for people.
    for at in (8..bytes.len()).step_by(61).chain([bytes.len() - 1]) {
        for file in files_of(dir.path()).unwrap() {
            fs::remove_file(file).unwrap();
        }
        restore(&files);
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        fs::write(path, bytes).unwrap();
        let mut store = open(dir.path());
        publish_all(&mut store, NOON + HOUR).unwrap();
        assert_eq!(store.counters.pieces_damaged.get(), 1, "{at}");
        check(&store, &whole.rows, Resolution::Minute);
        assert!(path.with_extension("damaged").exists());
    }
}

/// Others wait for it some times, and are then published without it.
#[test]
fn what_the_disk_cannot_read_is_set_aside_after_some_tries() {
    let (dir, faults, mut store) = with_faults();
    let (bad, good) = (gained(&[NOON], 1), gained(&[NOON + MINUTE], 1));
    store.flush(&bad.batch, NOON, || ()).unwrap();
    store.flush(&good.batch, NOON, || ()).unwrap();
    let parts = Arc::clone(&store.parts().read());
    let piece = &parts[0];
    let publish = |store: &mut Store| store.publish_due(NOON + HOUR, &mut |_| Ok(()));
    faults.set_unreadable(Some(&piece.path));
    for _ in 0..5 {
        let error = publish(&mut store).unwrap_err().to_string();
        assert_has!(error => piece.path.to_str().unwrap(), "Input/output error");
    }
    let mut both = good.rows.clone();
    both.extend(bad.rows);
    check(&store, &both, Resolution::Minute);
    let failed = (0..100).take_while(|_| publish(&mut store).is_err());
    assert_eq!(failed.count(), 2);
    publish_all(&mut store, NOON + HOUR).unwrap();
    check(&store, &good.rows, Resolution::Minute);
    assert_eq!(store.counters.pieces_damaged.get(), 1);
    let aside = piece.path.with_extension("damaged");
    assert_eq!(set_aside(dir.path()), [aside]);
    let lost = store.lost.iter().map(|(_, time, what)| (*time, what.rows_lost));
    assert!(lost.eq([(NOON, 2); 3]), "{:?}", store.lost);
    assert_eq!(faults.set_unreadable(None), 8);
}

#[test]
fn a_file_that_is_gone_is_left_out_and_strangers_stay() {
    let (dir, _, counted) = flushed();
    let stranger = dir.path().join("rollup/notes.parquet");
    fs::write(&stranger, "mine").unwrap();
    let store = Store::open(dir.path(), keep()).unwrap();
    check(&store, &counted, Resolution::Minute);
    let parts = Arc::clone(&store.parts().read());
    let part = parts.iter().find(|part| part.is_published()).unwrap();
    drop(store);
    fs::remove_file(&part.path).unwrap();
    let store = Store::open(dir.path(), keep()).unwrap();
    assert_eq!(store.counters.files_missing.get(), 1);
    assert!(store.parts().read().iter().all(|it| it.path != part.path));
    let missing: Vec<_> = store.manifest.missing.values().cloned().collect();
    let lost = missing.iter().map(|it| (it.span.start, it.rows()));
    let expected = [(part.span.start, part.rows())];
    assert!(lost.eq(expected), "{missing:?}");
    assert!(stranger.exists());
}

/// Like a file system that is not mounted at one start.
#[test]
fn a_folder_that_vanishes_for_some_starts_counts_again_when_it_is_back() {
    let (dir, _, mut counted) = flushed();
    let (rollup, away) = (dir.path().join(ROLLUP), dir.path().join("away"));
    fs::rename(&rollup, &away).unwrap();
    let mut store = Store::open(dir.path(), keep()).unwrap();
    let missing = store.counters.files_missing.get();
    assert!(missing > 0);
    run(&mut store, 5, &mut counted).unwrap();
    drop(store);
    let store = Store::open(dir.path(), keep()).unwrap();
    assert_eq!((store.counters.files_missing.get(), store.lost.len()), (0, 0));
    assert_eq!(store.manifest.missing.len() as u64, missing);
    assert_eq!(verify(dir.path()).unwrap().missing.len() as u64, missing);
    drop(store);
    fs::rename(&away, &rollup).unwrap();
    let store = Store::open(dir.path(), keep()).unwrap();
    let counts = &store.counters;
    assert_eq!((counts.files_returned.get(), counts.files_orphaned.get()), (missing, 0));
    check(&store, &counted, Resolution::Minute);
    let verified = verify(dir.path()).unwrap();
    assert_eq!((verified.problems.len(), verified.missing.len()), (0, 0));
}

/// Where there is no room to rewrite the manifest at a start, what is back is appended to it.
#[test]
fn what_is_back_can_be_published_although_the_manifest_was_not_rewritten() {
    let (dir, faults, mut store) = with_faults();
    let gained = gained(&[NOON], 1);
    store.flush(&gained.batch, NOON, || ()).unwrap();
    drop(store);
    let (pending, away) = (dir.path().join(PENDING), dir.path().join("away"));
    fs::rename(&pending, &away).unwrap();
    drop(open_on(&faults, dir.path()).unwrap());
    fs::remove_dir(&pending).unwrap();
    fs::rename(&away, &pending).unwrap();
    // Manifest and folder are synced before.
    faults.fail_at(3);
    let mut store = open_on(&faults, dir.path()).unwrap();
    assert!(faults.was_reached());
    assert_eq!(store.counters.files_returned.get(), 1);
    publish_all(&mut store, NOON + 2 * HOUR).unwrap();
    drop(store);
    let store = open_on(&faults, dir.path()).unwrap();
    check(&store, &gained.rows, Resolution::Minute);
}

/// Like a file system that is unmounted for a while beneath a running daemon.
#[test]
fn a_folder_that_vanishes_while_its_hour_is_published_counts_again_at_the_next_start() {
    let (dir, faults, mut store) = with_faults();
    let mut counted = Rows::new();
    let flush = |store: &mut Store, counted: &mut Rows, minute| {
        let gained = gained(&[minute], 1);
        store.flush(&gained.batch, NOON, || ()).unwrap();
        counted.extend(gained.rows);
    };
    flush(&mut store, &mut counted, NOON);
    let (pending, away) = (dir.path().join(PENDING), dir.path().join("away"));
    fs::rename(&pending, &away).unwrap();
    fs::create_dir(&pending).unwrap();
    let publish = |store: &mut Store| store.publish_due(NOON + HOUR, &mut |_| Ok(()));
    let failed = (0..100).take_while(|_| publish(&mut store).is_err());
    assert_eq!(failed.count() as u32, READ_TRIES - 1);
    assert_eq!((store.manifest.missing.len(), store.lost.len()), (1, 0));
    // Others are published meanwhile.
    flush(&mut store, &mut counted, NOON + MINUTE);
    publish_all(&mut store, NOON + HOUR).unwrap();
    for file in fs::read_dir(&away).unwrap() {
        let file = file.unwrap();
        fs::rename(file.path(), pending.join(file.file_name())).unwrap();
    }
    drop(store);
    let mut store = open_on(&faults, dir.path()).unwrap();
    publish_all(&mut store, NOON + 2 * HOUR).unwrap();
    assert_eq!(store.counters.files_orphaned.get(), 0);
    check(&store, &counted, Resolution::Minute);
}

/// Like a disk that is mounted over it late, or unmounted beneath it.
#[test]
fn nothing_is_written_to_another_folder_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let (here, away) = (dir.path().join("here"), dir.path().join("away"));
    let mut store = open(&here);
    let mut counted = Rows::new();
    let mut flush = |store: &mut Store, minute| {
        let gained = gained(&[minute], 1);
        store.flush(&gained.batch, NOON, || ())?;
        counted.extend(gained.rows);
        Done::Ok(())
    };
    flush(&mut store, NOON).unwrap();
    fs::rename(&here, &away).unwrap();
    // With a history of its own.
    let mut other = open(&here);
    let own = gained(&[NOON], 1);
    other.flush(&own.batch, NOON, || ()).unwrap();
    let files = listing(&here);
    let refused = |done: Done| {
        let error = done.unwrap_err().to_string();
        assert_has!(error => "history.dir: cannot write to", "another folder");
    };
    refused(flush(&mut store, NOON + MINUTE));
    refused(store.expire(NOON + 100 * HOUR));
    refused(store.publish_due(NOON + HOUR, &mut |_| Ok(())).map(drop));
    // Asked before each record of the log of seconds.
    refused(store.check_room());
    assert_eq!(listing(&here), files);
    drop(other);
    fs::remove_dir_all(&here).unwrap();
    store.check_room().unwrap_err();
    fs::rename(&away, &here).unwrap();
    flush(&mut store, NOON + MINUTE).unwrap();
    check(&store, &counted, Resolution::Minute);
}

/// A manifest restored from a backup, and a file that somebody copied here.
#[test]
fn what_the_manifest_does_not_know_is_moved_away_and_never_deleted() {
    let (dir, before, _) = flushed();
    let path = Manifest::path(dir.path());
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    // The last flush, and the announcement of its files.
    fs::write(&path, lines[..lines.len() - 2].concat()).unwrap();
    let copied = Path::new("rollup/report=mine/13-4711.parquet");
    fs::create_dir(dir.path().join(copied).parent().unwrap()).unwrap();
    fs::write(dir.path().join(copied), "mine").unwrap();
    fs::write(dir.path().join("pending/998.new"), "mine").unwrap();
    let files = listing(dir.path());
    let store = Store::open(dir.path(), keep()).unwrap();
    check(&store, &before, Resolution::Minute);
    let orphans = ours_in(dir.path(), ORPHANS).unwrap();
    assert_eq!(store.counters.files_orphaned.get(), orphans.len() as u64);
    assert!(orphans.contains(&dir.path().join(ORPHANS).join(copied)));
    assert!(orphans.len() > 2, "{orphans:?}");
    for (file, bytes) in files.iter().filter(|it| it.0 != path) {
        let name = file.strip_prefix(dir.path()).unwrap();
        let found = fs::read(file).or_else(|_| fs::read(dir.path().join(ORPHANS).join(name)));
        assert_eq!(found.unwrap(), *bytes, "{name:?}");
    }
    drop(store);
    assert_eq!(open(dir.path()).counters.files_orphaned.get(), 0);
    assert_eq!(ours_in(dir.path(), ORPHANS).unwrap(), orphans);
}

#[test]
fn killed_while_it_is_set_aside_a_damaged_piece_is_kept_for_people() {
    for n in 1.. {
        let (dir, faults, mut store) = with_faults();
        for minute in [NOON, NOON + MINUTE] {
            let gained = gained(&[minute], 1);
            store.flush(&gained.batch, NOON, || ()).unwrap();
        }
        let piece = store.parts().read()[0].path.clone();
        let mut damaged = fs::read(&piece).unwrap();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0x10;
        fs::write(&piece, &damaged).unwrap();
        faults.die_at(n);
        let _killed = publish_all(&mut store, NOON + HOUR);
        drop(store);
        let mut store = open(dir.path());
        publish_all(&mut store, NOON + HOUR).unwrap();
        let aside = fs::read(piece.with_extension("damaged"));
        assert!(aside.is_ok_and(|it| it == damaged), "{n}");
        if !faults.was_reached() {
            assert!(n > 5, "{n}");
            break;
        }
    }
}

/// The output of the commands that run beside a daemon.
#[test]
fn it_is_listed_and_every_damage_is_found() {
    use super::super::super::inspect::{HeldRows, list};
    let (dir, _, counted) = flushed();
    let store = Store::open(dir.path(), keep()).unwrap();
    let held = list(dir.path()).unwrap();
    let minutes = held.iter().filter(|it| it.resolution == Resolution::Minute);
    let (rows, bytes) = minutes.fold((0, 0), |sum, it| (sum.0 + it.rows, sum.1 + it.bytes));
    assert_eq!(rows, counted.len() as u64);
    let is_sound = |it: &HeldRows| it.pending_rows <= it.rows && it.from < it.to;
    assert!(bytes > 0 && held.iter().all(is_sound));
    let verified = verify(dir.path()).unwrap();
    assert!(verified.problems.is_empty() && verified.uncounted.is_empty());
    let parts = Arc::clone(&store.parts().read());
    assert_eq!(verified.parts, parts.len() as u64);
    let rows = parts.iter().map(|part| part.rows()).sum::<u64>();
    assert_eq!(verified.rows, rows);
    drop(store);
    for file in files_of(dir.path()).unwrap() {
        let whole = fs::read(&file).unwrap();
        let mut damaged = whole.clone();
        damaged[whole.len() / 2] ^= 1;
        for bytes in [&damaged, &whole[..whole.len() - 1]] {
            fs::write(&file, bytes).unwrap();
            let problems = verify(dir.path()).unwrap().problems;
            assert_eq!(problems.len(), 1);
            assert_has!(problems[0] => file.to_str().unwrap());
        }
        fs::write(&file, whole).unwrap();
    }
    let uncounted = dir.path().join("pending/999.new");
    fs::write(&uncounted, "").unwrap();
    let verified = verify(dir.path()).unwrap();
    assert!(verified.problems.is_empty());
    assert_eq!(verified.uncounted, [uncounted]);
    verify(&dir.path().join(PENDING)).unwrap_err();
}
