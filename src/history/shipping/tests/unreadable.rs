//! Pieces that are damaged, cannot be read or are missing.

use super::*;
use crate::history::file_names::files_in;
use crate::history::inspect;

/// Rows sent before the damage was found are not replaced by fewer.
#[test]
fn a_piece_that_is_damaged_further_on_counts_up_to_there_each_time() {
    let mut place = Place::new();
    let keys = 6_000;
    for part in 0..2 {
        let mut batch = UnflushedRows::default();
        for number in 0..keys {
            let mut key = Vec::new();
            push_key(&mut key, &format!("/{number:06}"));
            let gain = Gain::of_times(&BucketLayout::LogLinear, [(1_000 + part, 2)].into_iter());
            batch.add(&dataset(), NOON / 60 * 60, &key, false, &gain);
        }
        let (store, _) = place.open();
        store.flush(&batch, NOON, || ()).unwrap();
    }
    let (store, shipping) = place.open();
    let shipment = shipping.next(NOON + 600).unwrap().unwrap();
    let read = |enough: usize| {
        let mut rows = Vec::new();
        let unread = shipment.rows(&dataset(), &Shutdown::new(), &mut |row| {
            rows.push((row.key.to_vec(), row.gain.sum.totals.requests));
            if rows.len() < enough { Ok(()) } else { Err(StoreError::Stopped) }
        });
        (rows, unread)
    };
    let path = store.parts().read()[1].path.clone();
    let mut bytes = fs::read(&path).unwrap();
    let late = bytes.len() * 2 / 3;
    bytes[late] ^= 1;
    fs::write(&path, bytes).unwrap();
    let (first, unread) = read(100);
    assert!(first.len() == 100 && matches!(unread, Err(StoreError::Stopped)));
    assert!(first.iter().all(|row| row.1 == 4));
    for _ in 0..2 {
        let (rows, unread) = read(usize::MAX);
        assert_eq!(rows.len(), keys);
        assert_eq!(rows[..100], first);
        let sent: u64 = rows.iter().map(|row| row.1).sum();
        let [Unread { rows: lost, .. }] = &*unread.unwrap() else {
            panic!("not one piece is damaged");
        };
        assert!(*lost > 0 && sent + 2 * lost == 4 * keys as u64, "{lost}");
    }
    // Set aside by publishing, it waits as before.
    let before = shipping.waiting();
    place.publish(NOON + 7_200);
    let (store, shipping) = place.open();
    assert_eq!((store.counters.pieces_damaged.get(), shipping.waiting()), (1, before.clone()));
    // One that is gone is waited for.
    place.flush(NOON + 7_200, &[NOON + 7_200]);
    let (store, shipping) = place.open();
    let parts = Arc::clone(&store.parts().read());
    let newest = parts.iter().max_by_key(|part| part.number()).unwrap();
    fs::remove_file(&newest.path).unwrap();
    while !matches!(store.publish_due(NOON + 14_400, &mut |_| Ok(())), Ok(false)) {}
    let waiting = shipping.waiting();
    assert_eq!((waiting.rows, waiting.dropped), (before.rows + 1, 0));
}

/// Fails to plan the next shipment as often as a file is tried, but for the last time.
fn tried(shipping: &Shipping, now: u64) {
    for _ in 1..READ_TRIES {
        let error = shipping.next(now).unwrap_err();
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
    }
}

/// Like a file system that is not mounted at one start: a piece, and a file that existed before.
#[test]
fn what_is_missing_at_a_start_is_waited_for_and_counted_in_the_end() {
    for (is_file, is_back) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut place = Place::new();
        place.is_off = is_file;
        place.flush(NOON, &[NOON]);
        if is_file {
            place.publish(NOON + 7_200);
        }
        let parts = Arc::clone(&place.open().0.parts().read());
        let (path, away) = (&parts[usize::from(is_file)].path, place.dir.path().join("away"));
        assert_eq!(is_published(path), is_file);
        place.store = None;
        place.is_off = false;
        fs::rename(path, &away).unwrap();
        let now = NOON + 15_000;
        place.flush(now - 600, &[now - 600]);
        if is_file {
            assert!(place.ship(now, usize::MAX));
        }
        let (_, shipping) = place.open();
        tried(shipping, now);
        let waiting = shipping.waiting();
        assert_eq!((waiting.rows, waiting.dropped), (2 - u64::from(is_file), 0));
        if is_back {
            place.store = None;
            fs::rename(&away, path).unwrap();
            while place.ship(now, usize::MAX) {}
            assert_eq!(place.taken(), place.flushed);
            continue;
        }
        // Others go on, and what was counted is not shipped later.
        for _ in 0..2 {
            while place.ship(now, usize::MAX) {}
            assert_eq!(place.taken.len(), 1);
            let waiting = place.open().1.waiting();
            assert_eq!((waiting.rows, waiting.dropped), (0, 1));
            place.store = None;
            let _back = fs::rename(&away, path);
        }
    }
}

/// Stored by ClickHouse, killed before it answered, and then a piece is gone: fewer rows would
/// replace those that are there.
#[test]
fn what_has_begun_is_not_sent_again_with_less() {
    for is_back in [true, false] {
        let mut place = Place::new();
        place.flush(NOON, &[NOON]);
        place.flush(NOON, &[NOON]);
        let now = NOON + 600;
        let (store, shipping) = place.open();
        let shipment = shipping.next(now).unwrap().unwrap();
        shipping.begin(&shipment, &named("a")).unwrap();
        let path = store.parts().read()[1].path.clone();
        drop(shipment);
        place.store = None;
        let away = place.dir.path().join("away");
        fs::rename(&path, &away).unwrap();
        tried(&place.open().1, now);
        if is_back {
            place.store = None;
            fs::rename(&away, &path).unwrap();
            // Also if its kind is not wanted any more.
            place.what = &[ShippedRows::Requests];
            assert!(place.ship(now, usize::MAX));
            assert_eq!(place.taken(), place.flushed);
            continue;
        }
        for _ in 0..2 {
            assert!(!place.ship(now + 600, usize::MAX));
            let waiting = place.open().1.waiting();
            assert_eq!((waiting.rows, waiting.dropped, place.taken.len()), (0, 2, 0));
            place.store = None;
            let _back = fs::rename(&away, &path);
        }
    }
}

/// Reads fail now and then while the minutes of a piece are shipped one by one: only that many
/// consecutive failures give it up.
#[test]
fn what_can_be_read_in_between_is_not_given_up() {
    let mut place = Place::new();
    place.flush(NOON, &[NOON]);
    let (store, shipping) = place.open();
    let path = store.parts().read()[0].path.clone();
    for _ in 0..3 {
        store.disk.faults.set_unreadable(Some(&path));
        tried(shipping, NOON + 600);
        store.disk.faults.set_unreadable(None);
        assert!(shipping.next(NOON + 600).unwrap().is_some());
    }
    assert!(place.ship(NOON + 600, usize::MAX));
    assert_eq!(place.taken(), place.flushed);
}

/// A bad sector: after some tries the piece ends there, and all others go.
#[test]
fn a_piece_that_cannot_be_read_on_ends_there_after_some_tries() {
    let mut place = Place::new();
    let mut batch = UnflushedRows::default();
    for number in 0..6_000 {
        let mut key = Vec::new();
        push_key(&mut key, &format!("/{number:06}"));
        let gain = Gain::of_times(&BucketLayout::LogLinear, [(1_000, 2)].into_iter());
        batch.add(&dataset(), NOON / 60 * 60, &key, false, &gain);
    }
    let (store, shipping) = place.open();
    store.flush(&batch, NOON, || ()).unwrap();
    let mut shipment = shipping.next(NOON + 600).unwrap().unwrap();
    let part = Arc::clone(&store.parts().read()[0]);
    BAD_SECTOR.set(Some((part.bytes / 4, part.bytes * 9 / 10)));
    let read = |shipment: &Shipment| {
        let mut rows = 0;
        let read = shipment.rows(&dataset(), &Shutdown::new(), &mut |_| {
            rows += 1;
            Ok::<_, StoreError>(())
        });
        (rows, read)
    };
    let (before, _) = read(&shipment);
    assert!(before > 100 && before < 6_000, "{before}");
    for tries in 1..=READ_TRIES {
        let (rows, read) = read(&shipment);
        assert!(rows == before && matches!(read, Err(StoreError::Unreadable { .. })), "{read:?}");
        assert_eq!(shipment.unread(&part.path), tries);
    }
    let (rows, unread) = read(&shipment);
    BAD_SECTOR.set(None);
    let unread = unread.unwrap();
    // The last row before it was not complete otherwise.
    assert!(
        rows == before + 1 && unread.len() == 1 && rows + unread[0].rows == 6_000,
        "{unread:?}"
    );
}

/// Kept when its hour was published, and unreadable at the next start, temporarily or permanently.
#[test]
fn what_cannot_be_opened_at_a_start_is_shipped_later_or_counted() {
    for is_lost in [false, true] {
        let mut place = Place::new();
        place.flush(NOON, &[NOON]);
        place.open();
        place.publish(NOON + 7_200);
        place.flush(NOON + 7_200, &[NOON + 7_200]);
        let now = NOON + 14_400;
        let kept = place.open().1.kept();
        let path = kept[0].path.clone();
        drop(kept);
        place.store = None;
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        match is_lost {
            // Like too many levels of links: too many open files, no memory, no permission.
            false => std::os::unix::fs::symlink(&path, &path).unwrap(),
            true => fs::write(&path, &bytes[..bytes.len() - 1]).unwrap(),
        }
        let (_, shipping) = place.open();
        if is_lost {
            assert_eq!(shipping.waiting().dropped, 1);
            while place.ship(now, usize::MAX) {}
            assert_eq!(place.taken().len(), 1);
            assert!(path.with_extension("damaged").exists());
            continue;
        }
        for _ in 0..20 {
            let error = shipping.next(now).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
        }
        fs::remove_file(&path).unwrap();
        fs::write(&path, &bytes).unwrap();
        while place.ship(now, usize::MAX) {}
        assert_eq!(place.taken(), place.flushed);
    }
}

/// As one flipped bit does it: what ClickHouse has is not known.
#[test]
fn damage_of_the_cursor_stops_shipping_and_nothing_else() {
    let mut place = Place::new();
    place.flush(NOON, &[NOON, NOON + 60]);
    assert!(place.ship(NOON + 600, usize::MAX));
    place.flush(NOON + 700, &[NOON + 660]);
    let cursor = place.dir.path().join(UNSHIPPED).join(CURSOR);
    let whole = fs::read(&cursor).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&cursor, &damaged).unwrap();
    for (is_off, what) in [(false, &ALL[..1]), (true, ALL)] {
        (place.store, place.is_off, place.what) = (None, is_off, what);
        place.flush(NOON + 760, &[NOON + 720]);
        place.publish(NOON + 7_200);
        let problems = inspect::verify(place.dir.path()).unwrap().problems;
        assert!(problems.len() == 1 && problems[0].contains("cursor is damaged"), "{problems:?}");
        let (store, shipping) = place.open();
        let shipping = if is_off { store.shipping.as_ref().unwrap() } else { &*shipping };
        let error = shipping.next(NOON + 9_000).unwrap_err().to_string();
        assert!(
            error.contains("nothing is shipped until pinbad starts with a whole one"),
            "{error}"
        );
        assert_eq!(fs::read(&cursor).unwrap(), damaged);
    }
    // Everything was kept for it.
    fs::write(&cursor, whole).unwrap();
    (place.store, place.is_off) = (None, false);
    while place.ship(NOON + 9_000, usize::MAX) {}
    assert_eq!(place.taken(), place.flushed);
    let kept = |folder| files_in(vec![place.dir.path().join(folder)], |_| true).unwrap();
    assert_eq!(kept(UNSHIPPED), [cursor]);
}

#[test]
fn what_is_kept_for_clickhouse_is_verified_too() {
    let mut place = Place::new();
    place.flush(NOON, &[NOON]);
    place.publish(NOON + 7_200);
    let [kept] = &*place.open().1.kept() else { panic!("one piece is kept") };
    let verify = || inspect::verify(place.dir.path()).unwrap().problems;
    assert!(verify().is_empty());
    let mut bytes = fs::read(&kept.path).unwrap();
    bytes[20] ^= 1;
    fs::write(&kept.path, bytes).unwrap();
    assert!(verify()[0].ends_with("a checksum is wrong"), "{:?}", verify());
}

/// The disk fails between the link for ClickHouse and the commit, and then files have to go.
#[test]
fn a_piece_whose_publishing_failed_is_not_lost_to_clickhouse() {
    let mut linked = 0;
    for at in 1..40 {
        let mut place = Place::new();
        place.flush(NOON, &[NOON]);
        let (store, shipping) = place.open();
        let shipment = shipping.next(NOON + 600).unwrap().unwrap();
        shipping.begin(&shipment, &named("a")).unwrap();
        drop(shipment);
        store.disk.faults.fail_at(at);
        let published = store.publish_due(NOON + 7_200, &mut |_| Ok(()));
        store.disk.faults.recover();
        let is_pending = store.parts().read().iter().any(|part| part.number() == 1);
        if published.is_ok() || !is_pending || shipping.kept().is_empty() {
            continue;
        }
        linked += 1;
        store.retention.size_max = 0;
        store.expire(NOON + 7_200).unwrap();
        assert_eq!((shipping.waiting().rows, shipping.waiting().dropped), (1, 0));
        assert!(place.ship(NOON + 7_200, usize::MAX));
        assert_eq!(place.taken(), place.flushed);
    }
    assert!(linked > 0);
}
