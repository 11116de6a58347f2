//! Compares shipped rows with written ones, through flushes, publishing and restarts in the middle.

mod unreadable;

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::history::disk::READ_TRIES;
use crate::history::part::is_published;
use crate::history::pending::tests::BAD_SECTOR;
use crate::history::{Dataset, Gain, Retention, Store, StoreError, UnflushedRows};
use crate::report::histogram::BucketLayout;
use crate::report::row_key::push_key;
use crate::shutdown::Shutdown;
use crate::state::faults::Faults;

/// 2024-02-28, 12:57:00 UTC.
const NOON: u64 = 1_709_125_020;

const FOR_EVER: Retention = Retention { secs: [u64::MAX; 3], size_max: u64::MAX, free_min: 0 };

const ALL: &[ShippedRows] = &[ShippedRows::Rollups, ShippedRows::Requests];

fn dataset() -> Arc<Dataset> {
    Arc::new(Dataset {
        report: "by script".to_owned(),
        hash: "0123456789abcdef".to_owned(),
        keys: vec!["script_name".to_owned()],
        ..Dataset::coverage()
    })
}

fn named(collector: &str) -> Identity {
    Identity { collector: collector.to_owned(), dc: "ams".to_owned() }
}

/// Requests and microseconds by minute and key.
type Sums = BTreeMap<(u64, Vec<u8>), (u64, u128)>;

/// A store and the content of ClickHouse, also by part.
struct Place {
    dir: tempfile::TempDir,
    store: Option<(Store, Shipping)>,
    /// Whether the store opens without ClickHouse.
    is_off: bool,
    what: &'static [ShippedRows],
    flushed: Sums,
    taken: BTreeMap<(u64, u32, Vec<u8>), (u64, u128)>,
}

impl Place {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            store: None,
            is_off: false,
            what: ALL,
            flushed: Sums::new(),
            taken: BTreeMap::new(),
        }
    }

    fn open(&mut self) -> &mut (Store, Shipping) {
        let dir = self.dir.path();
        self.store.get_or_insert_with(|| {
            let mut store = Store::open(dir, FOR_EVER).unwrap();
            let shipping = match self.is_off {
                false => store.ship(Some(self.what)).unwrap().unwrap(),
                true => {
                    store.ship(None).unwrap();
                    let nowhere = tempfile::tempdir().unwrap();
                    let other = Store::open(nowhere.path(), FOR_EVER).unwrap().ship(Some(ALL));
                    other.unwrap().unwrap()
                }
            };
            (store, shipping)
        })
    }

    fn flush(&mut self, now: u64, minutes: &[u64]) {
        let mut batch = UnflushedRows::default();
        for (number, minute) in (1..).zip(minutes) {
            let (time, mut key) = (minute / 60 * 60, Vec::new());
            push_key(&mut key, &format!("/{}", number % 3));
            let gain = Gain::of_times(&BucketLayout::LogLinear, [(1_000 * number, 2)].into_iter());
            batch.add(&dataset(), time, &key, false, &gain);
            let sums = self.flushed.entry((time, key)).or_default();
            sums.0 += 2;
            sums.1 += u128::from(2_000 * number);
        }
        let (store, _) = self.open();
        store.flush(&batch, now, || ()).unwrap();
    }

    fn publish(&mut self, now: u64) {
        let (store, _) = self.open();
        while store.publish_due(now, &mut |_| Ok(())).unwrap() {}
        store.delete_removed();
    }

    /// Ships the next rows, at most `rows_max`.
    fn ship(&mut self, now: u64, rows_max: usize) -> bool {
        let (_, shipping) = self.open();
        let Some(shipment) = shipping.next(now).unwrap() else {
            return false;
        };
        let shipping = shipping.clone();
        shipping.begin(&shipment, &named("a")).unwrap();
        let mut left = rows_max;
        for dataset in shipment.datasets() {
            let rows = shipment.rows(&dataset, &Shutdown::new(), &mut |row| {
                let totals = row.gain.sum.totals;
                let place = (row.time, shipment.units.part(), row.key.to_vec());
                let sums = (totals.requests, totals.time);
                left = left.saturating_sub(1);
                if left > 0 {
                    let before = self.taken.insert(place, sums);
                    assert!(before.is_none_or(|before| before == sums), "another row");
                }
                if left > 0 { Ok(()) } else { Err(StoreError::Stopped) }
            });
            assert_eq!(rows.is_ok(), left > 0);
            if left == 0 {
                break;
            }
        }
        if left > 0 {
            shipping.end(&shipment, Vec::new()).unwrap();
        }
        left > 0
    }

    fn taken(&self) -> Sums {
        let mut sums = Sums::new();
        for ((time, _, key), (requests, us)) in &self.taken {
            let sum = sums.entry((*time, key.clone())).or_default();
            sum.0 += requests;
            sum.1 += us;
        }
        sums
    }
}

#[test]
fn every_row_is_shipped_once_whatever_happens_when() {
    let seeds = match std::env::var_os("PINBAD_TEST_FULL") {
        Some(_) => 100,
        None => 6,
    };
    for seed in 0..seeds {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut place, mut now) = (Place::new(), NOON);
        // Some of them existed before there was a ClickHouse.
        for _ in 0..random.random_range(0..5) {
            place.store = Some((Store::open(place.dir.path(), FOR_EVER).unwrap(), {
                let other = tempfile::tempdir().unwrap();
                let mut store = Store::open(other.path(), FOR_EVER).unwrap();
                store.ship(Some(ALL)).unwrap().unwrap()
            }));
            place.flush(now, &[now, now - 60]);
            now += 3_000;
            place.publish(now);
            place.store = None;
        }
        for _ in 0..60 {
            match random.random_range(0..10) {
                0..=3 => {
                    let late = random.random_range(0..8_000);
                    place.flush(now, &[now, now - 60, now - 1, now - late]);
                }
                // As after a clock that was set back.
                4 if seed % 4 == 0 => place.flush(now + 90_000, &[now + 90_000, now]),
                4 | 5 => place.publish(now),
                6 => place.store = None,
                7 => {
                    place.ship(now, random.random_range(0..4));
                    place.store = None;
                }
                _ => while place.ship(now, usize::MAX) {},
            }
            now += random.random_range(0..150);
        }
        now += 200_000;
        place.publish(now);
        while place.ship(now, usize::MAX) {}
        assert_eq!(place.taken(), place.flushed, "seed {seed}");
        let left = fs::read_dir(place.dir.path().join(UNSHIPPED)).unwrap();
        let left: Vec<_> = left.map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, [CURSOR], "seed {seed}");
        let (_, shipping) = place.open();
        assert_eq!(shipping.waiting(), Default::default());
    }
}

/// As `clickhouse.url` set, not set for a day in which hours are published, and set again.
#[test]
fn without_clickhouse_what_it_lacks_is_kept() {
    let (mut place, mut now) = (Place::new(), NOON);
    for day in 0..5 {
        place.store = None;
        // Off at first: existing rows are shipped when ClickHouse comes, and nothing is kept for
        // nobody.
        place.is_off = day % 2 == 0;
        for _ in 0..6 {
            place.flush(now, &[now, now - 60]);
            now += 3_700;
            place.publish(now);
        }
        let is_kept = place.dir.path().join(UNSHIPPED).exists();
        assert_eq!(is_kept, day > 0);
        if !place.is_off {
            while place.ship(now, usize::MAX) {}
            assert_eq!(place.taken(), place.flushed);
        }
    }
    // Retention removes that too, and it is counted, whether or not anybody looks.
    let (store, _) = place.open();
    store.retention.size_max = 0;
    store.expire(now).unwrap();
    assert_eq!(fs::read_dir(place.dir.path().join(UNSHIPPED)).unwrap().count(), 1);
    place.store = None;
    place.is_off = false;
    let (_, shipping) = place.open();
    assert!(shipping.waiting().dropped > 0);
}

/// With a manifest restored from a backup, new pieces do not get the numbers of kept ones.
#[test]
fn numbers_of_kept_pieces_are_not_used_again() {
    let mut place = Place::new();
    place.open();
    let manifest = place.dir.path().join("manifest");
    let before = fs::read(&manifest).unwrap();
    place.flush(NOON, &[NOON]);
    place.publish(NOON + 7_200);
    let kept = place.open().1.kept()[0].number();
    place.store = None;
    for folder in ["pending", "rollup", "coverage"] {
        let _may_be_missing = fs::remove_dir_all(place.dir.path().join(folder));
    }
    fs::write(manifest, before).unwrap();
    let (store, _) = place.open();
    assert!(kept < store.manifest.next);
    place.flush(NOON + 7_200, &[NOON + 7_200]);
    while place.ship(NOON + 14_400, usize::MAX) {}
    assert_eq!(place.taken(), place.flushed);
}

/// Everything was removed but what is kept for ClickHouse, hours after the last shipment.
#[test]
fn a_new_manifest_goes_on_behind_what_was_shipped() {
    let mut place = Place::new();
    (0..3).for_each(|minute| place.flush(NOON + minute * 60, &[NOON + minute * 60]));
    while place.ship(NOON + 7_200, usize::MAX) {}
    place.store = None;
    fs::remove_file(place.dir.path().join("manifest")).unwrap();
    fs::remove_dir_all(place.dir.path().join("pending")).unwrap();
    place.flush(NOON + 7_200, &[NOON + 7_200]);
    while place.ship(NOON + 14_400, usize::MAX) {}
    assert_eq!(place.taken(), place.flushed);
}

/// Like a container that has another name after each start: a piece, and a file that existed
/// before.
#[test]
fn what_was_begun_under_some_names_ends_under_these() {
    let mut place = Place::new();
    place.is_off = true;
    place.flush(NOON, &[NOON]);
    place.publish(NOON + 7_200);
    let mut now = NOON + 14_400;
    for (name, minutes) in [("a", 0), ("b", 1), ("c", 2)] {
        place.store = None;
        place.is_off = false;
        let first = named(name);
        place.open();
        for _ in 0..minutes {
            place.flush(now, &[now]);
            now += 4_000;
        }
        let (_, shipping) = place.open();
        let shipment = shipping.next(now).unwrap().unwrap();
        assert_eq!(matches!(shipment.units, ShipmentRows::File(_)), name == "a");
        assert_eq!(shipping.begin(&shipment, &first).unwrap(), first);
        drop(shipment);
        place.store = None;
        let (_, shipping) = place.open();
        let shipment = shipping.next(now).unwrap().unwrap();
        assert_eq!(shipping.begin(&shipment, &named("other")).unwrap(), first);
        shipping.end(&shipment, Vec::new()).unwrap();
    }
}

/// What a killed process renamed and did not sync is there for the next one, and gone after a power
/// cut.
#[test]
fn what_was_begun_is_the_same_after_a_power_cut() {
    let mut change = 0;
    loop {
        change += 1;
        let (mut place, faults) = (Place::new(), Faults::default());
        place.flush(NOON, &[NOON]);
        place.store = None;
        let open = || {
            let faults = faults.clone();
            let mut store = Store::open_on(Disk { faults }, place.dir.path(), FOR_EVER).unwrap();
            let shipping = store.ship(Some(ALL)).unwrap().unwrap();
            (store, shipping)
        };
        let begin = |now, (_, shipping): &(Store, Shipping)| {
            let shipment = shipping.next(now).unwrap().unwrap();
            let begun = shipping.begin(&shipment, &named("a"));
            begun.map(|_| shipment.units)
        };
        let killed = open();
        faults.die_at(change);
        let _tried = begin(NOON + 300, &killed);
        let was_killed = faults.was_reached();
        drop(killed);
        faults.recover();
        let sent = begin(NOON + 300, &open()).unwrap();
        faults.cut_power();
        assert_eq!(begin(NOON + 4_000, &open()).unwrap(), sent, "{change}");
        if !was_killed {
            break;
        }
    }
    assert!(change > 3);
}

/// Rows that were unwanted and are wanted again: those that can be shipped are, the rest is
/// counted.
#[test]
fn what_was_published_while_it_was_not_shipped_is_counted_when_it_is_again() {
    let raw_alone = &[ShippedRows::Requests];
    let mut place = Place::new();
    place.flush(NOON, &[NOON]);
    let mut now = NOON + 600;
    while place.ship(now, usize::MAX) {}
    let shipped = place.flushed.clone();
    place.store = None;
    place.what = raw_alone;
    place.flush(now, &[now, now - 60]);
    place.publish(now + 7_200);
    now += 14_400;
    // It still waits when it is wanted again.
    place.flush(now, &[now]);
    let dropped = |place: &mut Place| {
        let (_, shipping) = place.open();
        shipping.waiting().dropped
    };
    assert_eq!(dropped(&mut place), 0);
    // Without ClickHouse for a while nobody asks for more.
    for is_off in [true, false] {
        place.store = None;
        place.is_off = is_off;
        assert_eq!(dropped(&mut place), 0);
    }
    place.store = None;
    place.what = ALL;
    for _ in 0..2 {
        place.store = None;
        // The row of the first flush was published with them, and is there already.
        assert_eq!(dropped(&mut place), 2);
    }
    while place.ship(now + 600, usize::MAX) {}
    let mut expected = shipped;
    let last = place.flushed.iter().next_back();
    expected.extend(last.map(|(place, sums)| (place.clone(), *sums)));
    assert_eq!(place.taken(), expected);
}

/// Whatever is shipped in between, and whenever a kind is turned off and on: what ClickHouse lacks
/// is what was counted.
#[test]
fn what_is_dropped_while_a_kind_is_off_is_exactly_what_is_lacking() {
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut place, mut now) = (Place::new(), NOON);
        for _ in 0..60 {
            match random.random_range(0..8) {
                0..=2 => place.flush(now, &[now, now - 60]),
                3 => {
                    now += random.random_range(0..8_000);
                    place.publish(now);
                }
                4 => {
                    place.store = None;
                    place.what = [ALL, &[ShippedRows::Requests]][random.random_range(0..2)];
                }
                5 => {
                    place.ship(now, random.random_range(0..4));
                    place.store = None;
                }
                _ => while place.ship(now, usize::MAX) {},
            }
            now += random.random_range(0..200);
        }
        (place.store, place.what) = (None, ALL);
        now += 20_000;
        place.publish(now);
        while place.ship(now, usize::MAX) {}
        let (_, shipping) = place.open();
        let dropped = shipping.waiting().dropped;
        let sum = |of: &Sums| of.values().map(|it| it.0).sum::<u64>();
        // Each row of a piece has two requests at least, and all of them twice as many as rows.
        let rows = (sum(&place.flushed) - sum(&place.taken())) / 2;
        assert_eq!(dropped, rows, "seed {seed}");
    }
}

#[test]
fn rows_of_a_minute_go_together_when_it_is_over() {
    let mut place = Place::new();
    let minute = NOON / 60 * 60;
    place.flush(minute + 30, &[minute + 10]);
    place.flush(minute + 90, &[minute + 50, minute + 70]);
    assert!(!place.ship(minute + 170, usize::MAX));
    assert!(place.ship(minute + 180, usize::MAX));
    assert!(!place.ship(minute + 180, usize::MAX));
    // The second one waits for its minute.
    assert_eq!(place.taken.len(), 1);
    assert!(place.ship(minute + 240, usize::MAX));
    assert_eq!(place.taken(), place.flushed);
}

/// Twice, with rows of both times that wait when it is set back.
#[test]
fn after_a_clock_that_was_ahead_minutes_are_shipped_when_they_are_over() {
    let (mut place, mut now) = (Place::new(), NOON);
    for ahead in [NOON + 86_400, NOON + 90_000] {
        place.flush(ahead, &[ahead, ahead - 60]);
        while place.ship(ahead + 240, usize::MAX) {}
        assert_eq!(place.taken(), place.flushed);
        place.flush(ahead + 240, &[ahead + 240, ahead + 180]);
        for _ in 0..5 {
            place.flush(now, &[now, now - 60]);
            while place.ship(now, usize::MAX) {}
            now += 60;
        }
        now += 240;
        while place.ship(now, usize::MAX) {}
        assert_eq!(place.taken(), place.flushed, "ten minutes later");
    }
}

#[test]
fn what_has_begun_goes_on_without_what_retention_took() {
    let (later, now) = (NOON + 3_600, NOON + 3 * 3_600);
    for is_begun_before in [true, false] {
        let mut place = Place::new();
        place.flush(NOON, &[NOON]);
        place.flush(later, &[later]);
        place.publish(now);
        let (store, shipping) = place.open();
        let shipment = shipping.next(now).unwrap().unwrap();
        assert_eq!(shipment.rows_max(), 2);
        let begin = || shipping.begin(&shipment, &named("a")).map(drop).unwrap();
        if is_begun_before {
            begin();
        }
        store.retention.secs = [9_000, u64::MAX, u64::MAX];
        store.expire(now).unwrap();
        if !is_begun_before {
            begin();
        }
        let shipment = shipping.next(now).unwrap().unwrap();
        assert_eq!((shipment.rows_max(), shipping.waiting().dropped), (1, 1));
    }
}

#[test]
fn what_retention_takes_is_counted_and_what_was_refused_is_kept() {
    let mut place = Place::new();
    place.flush(NOON, &[NOON]);
    let now = NOON + 2 * 3_600;
    let (_, shipping) = place.open();
    let shipment = shipping.next(now).unwrap().unwrap();
    let refused = Refused {
        units: shipment.units,
        table: "rollup".to_owned(),
        rows: 1,
        error: "no such column".to_owned(),
        identity: Some(named("a")),
    };
    shipping.begin(&shipment, &named("a")).unwrap();
    shipping.end(&shipment, vec![refused.clone()]).unwrap();
    drop(shipment);
    let next = shipping.next(now).unwrap();
    assert_eq!(next.map(|it| it.units), None);
    place.publish(now);
    // It is there after a restart, unchanged.
    place.store = None;
    let (_, shipping) = place.open();
    let waiting = shipping.waiting();
    assert_eq!((waiting.rows, &*waiting.refused), (0, &[refused.clone()][..]));
    let again = shipping.refused();
    let mut rows = 0;
    let stop = Shutdown::new();
    for (_, shipment) in &again {
        shipment
            .rows(&dataset(), &stop, &mut |_| {
                rows += 1;
                Ok::<_, StoreError>(())
            })
            .unwrap();
    }
    assert_eq!(rows, 1);
    drop(again);
    shipping.end_refused(&refused).unwrap();
    assert_eq!(shipping.kept().len(), 0);
    // Retention does not wait for a ClickHouse that is down.
    place.flush(now, &[now]);
    place.publish(now + 7_200);
    let (store, shipping) = place.open();
    assert_eq!(shipping.kept().len(), 1);
    store.retention.secs = [3_600, u64::MAX, u64::MAX];
    store.expire(now + 7_200).unwrap();
    let waiting = shipping.waiting();
    assert_eq!((waiting.rows, waiting.dropped), (0, 1));
    assert_eq!(shipping.kept().len(), 0);
}
