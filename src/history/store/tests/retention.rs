//! Removals, and their order.

use super::*;
use crate::clock::{Clock as _, ManualClock};
use crate::state::snapshot_writer::PiecesCut;

/// Far from the end of the month.
const NOON: u64 = super::NOON - 15 * DAY;

/// A row an hour, for forty hours, published as minutes and hours, and rolled up to two days.
fn two_days(dir: &Path) -> (Store, Rows) {
    let mut store = open(dir);
    let mut model = Rows::new();
    for hour in 0..40 {
        let time = NOON + hour * HOUR;
        let gained = gained(&[time], 1);
        store.flush(&gained.batch, time + 60, || ()).unwrap();
        publish_all(&mut store, time + 60).unwrap();
        model.extend(gained.rows);
    }
    for hour in 60..63 {
        publish_all(&mut store, NOON + hour * HOUR).unwrap();
    }
    check(&store, &model, Resolution::Minute);
    (store, model)
}

/// (resolution, begin) of all published files, and the bytes of all.
fn files(store: &Store) -> (Vec<(Resolution, u64)>, u64) {
    let parts = Arc::clone(&store.parts().read());
    let published = parts.iter().filter(|part| part.is_published());
    let files = published.map(|part| (part.resolution, part.span.start));
    let mut files: Vec<_> = files.collect();
    files.sort_unstable();
    (files, parts.iter().map(|part| part.bytes).sum())
}

#[test]
fn what_is_too_old_goes() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, model) = two_days(dir.path());
    store.retention.secs[0] = 30 * HOUR;
    store.expire(NOON + 45 * HOUR).unwrap();
    let files = files(&store).0;
    let minutes = files.iter().filter(|it| it.0 == Resolution::Minute);
    assert_eq!(minutes.map(|it| it.1).min(), Some(NOON + 15 * HOUR));
    // Three datasets.
    assert_eq!(store.counters.files_expired.get(), 3 * 15);
    check(&store, &model, Resolution::Hour);
    let on_disk = files_of(dir.path()).unwrap().len();
    assert_eq!(on_disk, store.parts().read().len());
    // Of pieces those of days go too: nothing is coarser. Others' data is nowhere else.
    store.retention.secs = [0; 3];
    store.expire(NOON + 80 * HOUR).unwrap();
    assert!(store.parts().read().is_empty());
    let time = NOON + 80 * HOUR;
    let gained = gained(&[time], 1);
    store.flush(&gained.batch, time, || ()).unwrap();
    store.expire(time + 10 * DAY).unwrap();
    assert_eq!(store.parts().read().len(), 1);
}

/// Booted with a clock three years ahead, started again in it, corrected after an hour.
#[test]
fn a_clock_that_is_wrong_for_an_hour_takes_a_few_hours_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, model) = two_days(dir.path());
    let keep = Retention { secs: [30 * HOUR, 40 * DAY, 400 * DAY], ..FOR_EVER };
    store.retention = keep;
    let right = NOON + 45 * HOUR;
    let clock = ManualClock::new(right * 1_000);
    let retain = |store: &mut Store| {
        store.advance_age(&clock);
        store.expire(clock.unix_ms() / 1_000).unwrap();
        let minutes = files(store).0.into_iter();
        let minutes = minutes.filter(|it| it.0 == Resolution::Minute);
        minutes.map(|it| it.1).min().unwrap()
    };
    assert_eq!(retain(&mut store), NOON + 15 * HOUR);
    let ahead = 3 * 365 * DAY;
    clock.set_unix_ms((right + ahead) * 1_000);
    for _ in 0..2 {
        drop(store);
        store = Store::open(dir.path(), keep).unwrap();
        retain(&mut store);
        for _ in 0..30 {
            clock.advance_ms(60_000);
            retain(&mut store);
        }
    }
    assert_eq!(retain(&mut store), NOON + 19 * HOUR);
    check(&store, &model, Resolution::Hour);
    clock.set_unix_ms((right + HOUR) * 1_000);
    assert_eq!(retain(&mut store), NOON + 19 * HOUR);
    // Age goes on with time.
    clock.advance_ms(5 * HOUR * 1_000);
    assert_eq!(retain(&mut store), NOON + 21 * HOUR);
    // A clock that is right in the end is followed.
    clock.set_unix_ms((right + 20 * HOUR) * 1_000);
    clock.advance_ms(4 * HOUR * 1_000);
    assert_eq!(retain(&mut store), NOON + 37 * HOUR);
}

/// The clock of ages moves slowly while files are away too: they are there again later.
#[test]
fn a_wrong_clock_while_files_are_away_takes_nothing_when_they_are_back() {
    let dir = tempfile::tempdir().unwrap();
    drop(two_days(dir.path()));
    let keep = Retention { secs: [2 * DAY, 40 * DAY, 400 * DAY], ..FOR_EVER };
    let right = NOON + 45 * HOUR;
    let clock = ManualClock::new(right * 1_000);
    let open = |clock: &ManualClock| {
        let mut store = Store::open(dir.path(), keep).unwrap();
        store.advance_age(clock);
        store.expire(clock.unix_ms() / 1_000).unwrap();
        store
    };
    // It is recorded with a commit.
    let mut store = open(&clock);
    store.flush(&gained(&[right], 1).batch, right, || ()).unwrap();
    let before = files(&store).0;
    drop(store);
    let elsewhere = tempfile::tempdir().unwrap();
    let folders = ["rollup", "coverage"];
    let folders = folders.map(|it| (dir.path().join(it), elsewhere.path().join(it)));
    for (folder, away) in &folders {
        fs::rename(folder, away).unwrap();
    }
    clock.set_unix_ms((right + 3_650 * DAY) * 1_000);
    let mut store = open(&clock);
    assert!(files(&store).0.is_empty());
    let now = clock.unix_ms() / 1_000;
    store.flush(&gained(&[now], 1).batch, now, || ()).unwrap();
    drop(store);
    for (folder, away) in &folders {
        let _new = fs::remove_dir_all(folder);
        fs::rename(away, folder).unwrap();
    }
    let store = open(&clock);
    assert_eq!(files(&store).0, before);
}

/// As on a machine whose clock is years behind until it has a network.
#[test]
fn a_clock_that_is_set_right_in_the_first_hour_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let keep = Retention { secs: [2 * DAY, 40 * DAY, 4_000 * DAY], ..FOR_EVER };
    let clock = ManualClock::new((NOON - 2_000 * DAY) * 1_000);
    for time in [NOON - 2_000 * DAY, NOON] {
        clock.set_unix_ms(time * 1_000);
        let mut store = Store::open(dir.path(), keep).unwrap();
        store.advance_age(&clock);
        store.flush(&gained(&[time], 1).batch, time, || ()).unwrap();
    }
    let mut store = Store::open(dir.path(), keep).unwrap();
    store.advance_age(&clock);
    publish_all(&mut store, NOON + 2 * HOUR).unwrap();
    let minutes = |store: &Store| {
        let files = files(store).0.into_iter();
        files.filter(|it| it.0 == Resolution::Minute).map(|it| it.1).collect::<Vec<_>>()
    };
    assert!(minutes(&store).contains(&NOON));
    clock.advance_ms(3 * DAY * 1_000);
    store.advance_age(&clock);
    store.expire(NOON + 3 * DAY).unwrap();
    assert!(minutes(&store).is_empty());
}

#[test]
fn the_oldest_and_finest_make_room() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = two_days(dir.path());
    let (all, bytes) = files(&store);
    for part in 1..12 {
        store.retention.size_max = bytes - bytes * part / 12;
        store.expire(NOON + 63 * HOUR).unwrap();
        let (left, bytes) = files(&store);
        assert!(bytes <= store.retention.size_max);
        assert_eq!(left, all[all.len() - left.len()..], "the first go");
        // Of each hour or day all three datasets are left or none.
        assert_eq!(left.len() % 3, 0);
        let on_disk = files_of(dir.path()).unwrap().len();
        assert_eq!(on_disk, store.parts().read().len());
    }
    assert!(files(&store).0.len() < 10);
    store.retention.size_max = 0;
    store.expire(NOON + 63 * HOUR).unwrap();
    // Only pending days are left.
    let parts = Arc::clone(&store.parts().read());
    let kept = parts.iter().map(|it| (it.resolution, it.is_published()));
    assert!(kept.eq([(Resolution::Day, false); 3]));
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.parts().read().len(), 3);
    let minutes = dir.path().join("rollup/report=by script/resolution=minute");
    let dates = fs::read_dir(minutes).unwrap();
    assert_eq!(dates.count(), 0, "dates without files go too");
}

#[test]
fn when_the_disk_is_full_old_files_go_and_then_history_pauses() {
    let dir = tempfile::tempdir().unwrap();
    drop(two_days(dir.path()));
    let faults = Faults::default();
    let keep = Retention { free_min: 1_000_000, ..FOR_EVER };
    let disk = Disk { faults: faults.clone() };
    let mut store = Store::open_on(disk, dir.path(), keep).unwrap();
    let before = files(&store).0;
    faults.set_free(1_000_000 - 10_000);
    let now = NOON + 70 * HOUR;
    store.expire(now).unwrap();
    let after = files(&store).0;
    assert!(!after.is_empty() && after.len() < before.len());
    let removed = before.len() - after.len();
    assert_eq!(after, before[removed..]);
    assert_eq!(store.counters.files_removed_by_free_space.get(), removed as u64);
    // Others fill the disk.
    faults.set_free(0);
    let gained = gained(&[now], 1);
    let error = store.flush(&gained.batch, now, || ()).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("history.dir: 0 bytes free for "), "{error}");
    assert!(error.contains(dir.path().to_str().unwrap()), "{error}");
    assert!(files(&store).0.is_empty());
    faults.set_free(u64::MAX);
    store.flush(&gained.batch, now, || ()).unwrap();
}

/// There is only the room reserved for the manifest, whatever failed before: old files go, and a
/// start works.
#[test]
fn on_a_disk_without_a_free_byte_old_files_go() {
    let dir = tempfile::tempdir().unwrap();
    let (store, mut model) = two_days(dir.path());
    drop(store);
    let faults = Faults::default();
    let disk = Disk { faults: faults.clone() };
    faults.set_full(true);
    let mut store = Store::open_on(disk, dir.path(), FOR_EVER).unwrap();
    assert_eq!(store.run(), 2);
    for n in 1.. {
        // Full from this change on, which fails.
        let (mut changes, to_fill) = (0, faults.clone());
        faults.set_full(false);
        faults.set_watch(move || {
            changes += 1;
            if changes == n {
                to_fill.set_full(true);
            }
        });
        faults.fail_at(n);
        let time = NOON + (40 + n) * HOUR;
        let gained = gained(&[time], 1);
        if store.flush(&gained.batch, time, || ()).is_ok() {
            model.extend(gained.rows);
        }
        let is_over = !faults.was_reached();
        faults.set_full(true);
        // As after many commits.
        store.compact_at = 0;
        let (before, bytes) = files(&store);
        store.retention.size_max = bytes - 1;
        store.expire(time).unwrap();
        assert!(files(&store).0.len() < before.len(), "{n}");
        let on_disk = files_of(dir.path()).unwrap().len();
        assert_eq!(on_disk, store.parts().read().len(), "{n}");
        if is_over {
            assert!(n > 5, "{n}");
            break;
        }
    }
    check(&store, &model, Resolution::Hour);
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.run(), 3);
    assert_eq!((store.counters.files_missing.get(), store.counters.files_orphaned.get()), (0, 0));
    check(&store, &model, Resolution::Hour);
}

#[test]
fn what_is_read_is_deleted_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let gained = gained(&[NOON], 1);
    store.flush(&gained.batch, NOON, || ()).unwrap();
    let view = Arc::clone(&store.parts().read());
    publish_all(&mut store, NOON + HOUR).unwrap();
    let mut rows = Rows::new();
    view.iter().for_each(|part| rows_of(part, &mut rows));
    assert_eq!(rows.len(), gained.rows.len());
    let piece = view[0].path.clone();
    drop(view);
    assert!(piece.exists());
    store.expire(NOON + HOUR).unwrap();
    assert!(!piece.exists());
}

#[test]
fn what_is_removed_while_it_is_published_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.flush(&gained(&[NOON], 1).batch, NOON, || ()).unwrap();
    // Minutes become hours, and these a day.
    publish_all(&mut store, NOON + 2 * DAY).unwrap();
    publish_all(&mut store, NOON + 3 * DAY).unwrap();
    // The month is over, and its days have expired.
    let now = NOON + 40 * DAY;
    store.retention.secs = [0; 3];
    let published = store.publish_due(now, &mut |store| store.expire(now));
    assert!(matches!(published, Err(StoreError::Stopped)));
    assert_eq!(names(dir.path()), [""; 0]);
    assert!(store.parts().read().is_empty());
}

/// After a kill live reports are refilled from pieces, which a published file would mix: minutes of
/// two processes, and rows on both sides of a snapshot whose times do not tell them apart.
#[test]
fn pieces_that_reports_are_refilled_from_are_not_published() {
    let due = NOON + HOUR;
    let until = due + HOUR;
    let cut = |file, secs| PiecesCut { file, secs, until };
    for (refilled, cut, waits) in [
        (None, None, false),
        (Some(NOON..NOON + MINUTE), None, true),
        (Some(NOON - DAY..NOON - HOUR), None, false),
        // The snapshot has it, although its minute is later; and the other way round.
        (None, Some(cut(u64::MAX, NOON)), true),
        (None, Some(cut(0, NOON + MINUTE)), true),
        // Both have some of its minute.
        (None, Some(cut(0, NOON + 1)), true),
        (None, Some(cut(u64::MAX, NOON + MINUTE)), false),
        (None, Some(cut(0, NOON)), false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        store.flush(&gained(&[NOON], 1).batch, NOON, || ()).unwrap();
        store.refilled = refilled.clone().map(|it| (it, until)).into_iter().collect();
        store.cuts = cut.into_iter().collect();
        publish_all(&mut store, due).unwrap();
        assert_eq!(files(&store).0.is_empty(), waits, "{refilled:?} {cut:?}");
        publish_all(&mut store, until).unwrap();
        assert!(!files(&store).0.is_empty(), "{refilled:?} {cut:?}");
    }
}
