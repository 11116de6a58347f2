//! The store over simulated months, stopped after every change to the disk, and beside readers of
//! the published tree.

use std::collections::BTreeMap;

use super::super::file_names::files_of;
use super::super::parquet::Want;
use super::super::{Dataset, Gain, Resolution, Retention, Section, UnflushedRows};
use super::*;
use crate::report::encoded_gain::Sum;
use crate::report::histogram::{BucketLayout, Histogram};
use crate::report::row_key::{key_texts, push_key};
use crate::report::totals::{Extremes, Totals};
use crate::state::faults::Faults;

mod crash;
mod damage;
mod retention;

const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;
/// 2024-02-28, 12:57:00 UTC: a leap day follows, then a month.
const NOON: u64 = 1_709_125_020;

const FOR_EVER: Retention = Retention { secs: [u64::MAX; 3], size_max: u64::MAX, free_min: 0 };

/// By report, time and key.
type Rows = BTreeMap<Place, Sums>;

type Place = (String, u64, Vec<String>);

/// Requests, time, hits, records in the histogram, longest time.
type Sums = [u128; 5];

fn add(to: &mut Rows, row: Place, sums: Sums) {
    let sum = to.entry(row).or_default();
    for (to, more) in sum.iter_mut().zip(sums).take(4) {
        *to += more;
    }
    sum[4] = sum[4].max(sums[4]);
}

fn datasets() -> Vec<Arc<Dataset>> {
    let linear = BucketLayout::linear(10, 100).unwrap();
    let of = |report: &str, buckets, keys: &[&str]| {
        Arc::new(Dataset {
            report: report.to_owned(),
            hash: "0123456789abcdef".to_owned(),
            keys: keys.iter().map(|&key| key.to_owned()).collect(),
            buckets,
            extremes: buckets == BucketLayout::LogLinear,
            ..Dataset::coverage()
        })
    };
    vec![
        of("by script", BucketLayout::LogLinear, &["script_name", "hostname"]),
        of("100%/a=b", linear, &["hostname"]),
        Arc::new(Dataset::coverage()),
    ]
}

/// A batch, and its expected content.
#[derive(Default)]
struct Gained {
    batch: UnflushedRows,
    rows: Rows,
}

impl Gained {
    /// Adds gains of some keys in a minute; adds `mark` to their hits.
    fn add(&mut self, time: u64, keys: std::ops::Range<u64>, mark: u128) {
        assert_eq!(time % MINUTE, 0);
        for dataset in datasets() {
            for number in keys.clone() {
                let texts: Vec<String> = dataset
                    .keys
                    .iter()
                    .map(|name| format!("{name}{}{number}", "z".repeat(number as usize % 3)))
                    .collect();
                let mut key = Vec::new();
                texts.iter().for_each(|text| push_key(&mut key, text));
                let us = 1_000 * (number + 1);
                let totals = Totals {
                    requests: 3,
                    time: u128::from(us) * 3,
                    hits: if dataset.is_coverage() { 1 } else { mark },
                    ..Totals::ZERO
                };
                let mut histogram = Histogram::new();
                histogram.add(dataset.buckets.bucket(us), 3);
                let mut gain = Gain { sum: Sum::of(totals, Some(histogram)), ..Gain::default() };
                if dataset.extremes {
                    gain.extremes = Extremes { time_min: us, time_max: us, memory_peak_max: 7 };
                }
                self.batch.add(&dataset, time, &key, false, &gain);
                add(&mut self.rows, (dataset.report.clone(), time, texts), sums(&gain));
            }
        }
    }
}

fn gained(times: &[u64], mark: u128) -> Gained {
    let mut gained = Gained::default();
    times.iter().for_each(|&time| gained.add(time, 0..2, mark));
    gained
}

fn sums(gain: &Gain) -> Sums {
    let totals = &gain.sum.totals;
    // Coverage has none in files.
    let histogram = gain.sum.histogram().into_iter();
    let records: u64 = histogram.flat_map(|it| it.iter()).map(|it| it.1).sum();
    let longest = match gain.extremes {
        Extremes::NOTHING => 0,
        seen => seen.time_max,
    };
    [totals.requests.into(), totals.time, totals.hits, records.into(), longest.into()]
}

/// Rows at the times of a resolution.
fn at(resolution: Resolution, rows: &Rows) -> Rows {
    let mut folded = Rows::new();
    for ((report, time, key), sums) in rows {
        add(&mut folded, (report.clone(), resolution.begin(*time), key.clone()), *sums);
    }
    folded
}

/// All rows of a part.
fn rows_of(part: &Arc<Part>, to: &mut Rows) {
    for Section { dataset, rows } in &part.sections {
        let mut seen = 0;
        let mut last: Option<(Vec<String>, u64)> = None;
        let read = part.read(dataset, 0..u64::MAX, Want::All, &mut |row| {
            seen += 1;
            assert!(part.span.contains(&row.time), "{part:?}");
            let key: Vec<String> = key_texts(&row.key).map(str::to_owned).collect();
            let place = Some((key.clone(), row.time));
            assert!(last < place, "{part:?}: not sorted, or a row twice");
            last = place;
            let mut sums = sums(&row.gain);
            if !dataset.extremes {
                sums[4] = 0;
            }
            // Coverage has none in files.
            if dataset.is_coverage() {
                (sums[1], sums[3]) = (0, 0);
            }
            add(to, (dataset.report.clone(), row.time, key), sums);
        });
        read.unwrap();
        assert_eq!(seen, *rows, "{part:?}");
    }
}

/// At each resolution the existing parts and those not rolled up yet contain all rows once.
fn check(store: &Store, model: &Rows, from: Resolution) {
    let parts = Arc::clone(&store.parts().read());
    let mut model = model.clone();
    for ((report, ..), sums) in &mut model {
        if report == "coverage" {
            (sums[1], sums[3]) = (0, 0);
        }
    }
    for resolution in Resolution::ALL.into_iter().filter(|it| *it >= from) {
        let mut rows = Rows::new();
        for part in parts.iter() {
            if part.resolution == resolution || part.resolution < resolution && !part.is_rolled() {
                rows_of(part, &mut rows);
            }
        }
        let (found, expected) = (at(resolution, &rows), at(resolution, &model));
        assert!(
            found == expected,
            "{resolution:?}: {found:#?}\nis not {expected:#?}\nin {parts:#?}"
        );
    }
}

/// Every file found by globbing the tree of a resolution, as (report, rows).
fn published(dir: &Path, resolution: Resolution) -> Rows {
    let mut rows = Rows::new();
    for file in files_of(dir).unwrap() {
        let folder = format!("/resolution={}/", resolution.name());
        let path = file.to_str().unwrap();
        if !path.contains(&folder) || !path.contains("/rollup/") {
            continue;
        }
        assert!(path.ends_with(".parquet"), "{path}");
        let dataset = datasets().into_iter().find(|dataset| {
            let name = dataset.report.replace('%', "%25").replace('/', "%2F").replace('=', "%3D");
            path.contains(&format!("/rollup/report={name}/"))
        });
        let dataset = dataset.unwrap_or_else(|| panic!("{path}: whose is it?"));
        let part = Part::of_file(&file);
        let read = part.read(&dataset, 0..u64::MAX, Want::All, &mut |row| {
            let key = key_texts(&row.key).map(str::to_owned).collect();
            add(&mut rows, (dataset.report.clone(), row.time, key), sums(&row.gain));
        });
        read.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    rows
}

/// No row marked by [`mark`] is in the published tree twice, or without having been counted.
fn check_published(dir: &Path, model: &Rows) {
    for resolution in Resolution::ALL {
        let model = at(resolution, model);
        for (row, sums) in published(dir, resolution) {
            let all = model.get(&row).unwrap_or_else(|| panic!("{row:?} was never counted"));
            // Each flush has its own hexadecimal digit, which counts minutes.
            for digit in 0..32 {
                let digit = |sum: u128| sum >> (digit * 4) & 0xf;
                assert!(
                    digit(sums[2]) <= digit(all[2]),
                    "{resolution:?} {row:?}: {sums:?}, of {all:?}"
                );
            }
        }
    }
}

fn mark(flush: u32) -> u128 {
    1 << (flush * 4)
}

fn open(dir: &Path) -> Store {
    Store::open(dir, FOR_EVER).unwrap()
}

fn publish_all(store: &mut Store, now: u64) -> Result<(), StoreError> {
    while store.publish_due(now, &mut |_| Ok(()))? {}
    Ok(())
}

fn listing(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = files_of(dir).unwrap();
    files.push(Manifest::path(dir));
    let files = files.into_iter();
    files.map(|file| (file.clone(), fs::read(file).unwrap_or_default())).collect()
}

fn names(dir: &Path) -> Vec<String> {
    let files = files_of(dir).unwrap().into_iter();
    let names = files.map(|file| file.strip_prefix(dir).unwrap().to_str().unwrap().to_owned());
    names.collect()
}

#[test]
fn an_hour_a_day_and_a_month() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    assert_eq!((store.run(), store.manifest.head.store.len()), (1, 32));
    let id = store.id();
    let mut model = Rows::new();
    for minute in 0..4 {
        let gained = gained(&[NOON + minute * MINUTE], mark(minute as u32));
        store.flush(&gained.batch, NOON + minute * MINUTE + 70, || ()).unwrap();
        model.extend(gained.rows);
        check(&store, &model, Resolution::Minute);
    }
    // 12:57 to 13:00. At 13:01:59 it has not been over for two minutes.
    let one = NOON + 3 * MINUTE;
    assert!(!store.publish_due(one + 119, &mut |_| Ok(())).unwrap());
    assert_eq!(names(dir.path()), ["1", "2", "3", "4"].map(|it| format!("pending/{it}.piece")));
    publish_all(&mut store, one + 130).unwrap();
    assert_eq!(
        names(dir.path()),
        [
            "coverage/resolution=minute/date=2024-02-28/12-8.parquet",
            "pending/4.piece",
            "pending/5.piece",
            "rollup/report=100%25%2Fa%3Db/resolution=minute/date=2024-02-28/12-01234567-7.parquet",
            "rollup/report=by script/resolution=minute/date=2024-02-28/12-01234567-6.parquet",
        ]
    );
    check(&store, &model, Resolution::Minute);
    // A late row.
    let late = gained(&[NOON - 10 * MINUTE], mark(4));
    store.flush(&late.batch, one + 200, || ()).unwrap();
    model.extend(late.rows);
    publish_all(&mut store, one + 210).unwrap();
    check(&store, &model, Resolution::Minute);
    publish_all(&mut store, one + 260).unwrap();
    check(&store, &model, Resolution::Minute);
    // The day after is the leap day.
    for (now, pending) in [(one + DAY, "day"), (one + 2 * DAY, "")] {
        publish_all(&mut store, now).unwrap();
        publish_all(&mut store, now + 120).unwrap();
        publish_all(&mut store, now + 240).unwrap();
        check(&store, &model, Resolution::Minute);
        let parts = Arc::clone(&store.parts().read());
        let pieces = parts.iter().filter(|part| !part.is_published());
        let pieces: Vec<_> = pieces.map(|part| part.resolution.name()).collect();
        assert_eq!(pieces.join(" "), pending, "{now}");
    }
    let days = names(dir.path()).into_iter().filter(|name| name.contains("resolution=day"));
    assert!(days.clone().all(|name| name.contains("/date=2024-02-01/")));
    assert_eq!(days.count(), 3);
    drop(store);
    let store = open(dir.path());
    assert_eq!((store.run(), store.id()), (2, id));
    check(&store, &model, Resolution::Minute);
}

/// Readers take the list before the rows are in parts and still in memory, or after.
#[test]
fn what_is_flushed_counts_at_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let parts = store.parts();
    let gained = gained(&[NOON], 1);
    let mut was_called = false;
    store
        .flush(&gained.batch, NOON, || {
            assert!(parts.try_read().is_none());
            was_called = true;
        })
        .unwrap();
    assert!(was_called);
    assert_eq!(parts.read().len(), 1);
    store.flush(&UnflushedRows::default(), NOON, || ()).unwrap();
    assert_eq!(parts.read().len(), 1);
}

#[test]
fn random_months_equal_a_recount() {
    for seed in 0..2 {
        random_months(seed);
    }
}

fn random_months(seed: u64) {
    let mut dice = crate::dice::Dice(seed);
    let mut random = |below: u64| dice.below(below);
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let (mut model, mut now, mut days) = (Rows::new(), NOON - random(20 * DAY), 0);
    let now_begun = now;
    while days < 35 {
        let minute = |secs| secs - secs % MINUTE;
        let mut gained = Gained::default();
        for _ in 0..random(4) {
            let time = match random(12) {
                0 => now - random(3 * DAY),
                1 => now - random(40 * DAY),
                2 => now + random(2 * HOUR),
                _ => now - random(90),
            };
            let first = random(6);
            gained.add(minute(time), first..first + 1 + random(3), 1);
        }
        store.flush(&gained.batch, now, || ()).unwrap();
        for (row, sums) in gained.rows {
            add(&mut model, row, sums);
        }
        now += match random(10) {
            0 => random(3 * DAY),
            1..4 => random(12 * HOUR),
            _ => 60 + random(2_000),
        };
        if random(20) == 0 {
            now -= random(3 * HOUR);
        }
        days = now.saturating_sub(now_begun) / DAY;
        publish_all(&mut store, now).unwrap();
        store.expire(now).unwrap();
        if random(10) == 0 {
            drop(store);
            store = open(dir.path());
        }
        if random(40) == 0 {
            check(&store, &model, Resolution::Minute);
        }
    }
    publish_all(&mut store, now + 40 * DAY).unwrap();
    publish_all(&mut store, now + 80 * DAY).unwrap();
    publish_all(&mut store, now + 120 * DAY).unwrap();
    check(&store, &model, Resolution::Minute);
    let parts = Arc::clone(&store.parts().read());
    assert!(parts.iter().all(|part| part.is_published()), "{parts:#?}");
}
