//! Rows compared with a recount, and the order in which things give way when memory is short.

use std::collections::HashMap;

use super::*;
use crate::pool::strings::OTHER_TEXT;
use crate::report::encoded_gain::{EncodedGain, encode};
use crate::report::row_key::{key_texts, push_key};
use crate::report::totals::Totals;

fn dataset(report: &str) -> Arc<Dataset> {
    let report = report.to_owned();
    let hash = "0123456789abcdef".to_owned();
    Arc::new(Dataset { report, hash, ..Dataset::coverage() })
}

fn key(number: u64) -> Vec<u8> {
    let mut key = Vec::new();
    push_key(&mut key, &format!("/{number}"));
    push_key(&mut key, "");
    key
}

/// Returns a gain of that many requests for each of 100 different times.
fn gain(requests: u64) -> Gain {
    let totals = Totals { requests, time: u128::from(requests) * 1_000, ..Totals::ZERO };
    let mut packed = Vec::new();
    let pairs = (0..100).map(|step| (700 + step * 3, requests));
    encode(&mut packed, &totals, Some(pairs));
    let mut gain = Gain::default();
    gain.sum.add(EncodedGain(&packed));
    gain
}

/// Returns requests, rows, and rows with histograms, by time and by whether they stand for others.
fn sums(batch: &UnflushedRows, dataset: &Dataset) -> BTreeMap<(u64, bool), (u64, usize, usize)> {
    let mut sums = BTreeMap::new();
    batch.rows(dataset, 0..u64::MAX, |row| {
        let sum: &mut (u64, usize, usize) = sums.entry((row.time, row.is_other)).or_default();
        sum.0 += row.gain.sum.totals.requests;
        sum.1 += 1;
        sum.2 += usize::from(row.gain.sum.histogram().is_some());
        let mut texts = key_texts(&row.key);
        assert_eq!(texts.all(|text| text == OTHER_TEXT), row.is_other);
    });
    sums
}

/// The bytes of all rows, counted one by one.
fn counted_bytes(batch: &UnflushedRows) -> usize {
    let moments = batch.parts.iter().flat_map(|part| part.moments.values());
    moments.map(|rows| MOMENT_BYTES + rows.counted_bytes()).sum()
}

#[test]
fn what_is_added_to_a_row_adds_up() {
    let mut batch = UnflushedRows::default();
    assert!(batch.is_empty() && batch.span().is_empty());
    let (scripts, hosts) = (dataset("scripts"), dataset("hosts"));
    for second in 0..180 {
        for row in 0..10 {
            batch.add(&scripts, 600 + second / 60 * 60, &key(row), false, &gain(1));
        }
        // The same, as it is known elsewhere.
        let again = Arc::new(Dataset::clone(&hosts));
        batch.add(&again, 600, &key(7), false, &gain(2));
        batch.add(&again, 600, &[], true, &gain(5));
    }
    assert_eq!(batch.datasets().count(), 2);
    assert_eq!(batch.span(), 600..721);
    let of_scripts = [600, 660, 720].map(|time| ((time, false), (600, 10, 10)));
    assert_eq!(sums(&batch, &scripts), of_scripts.into());
    let of_hosts = [((600, false), (360, 1, 1)), ((600, true), (900, 1, 1))];
    assert_eq!(sums(&batch, &hosts), of_hosts.into());
    let mut within = 0;
    batch.rows(&scripts, 601..720, |row| within += row.time);
    assert_eq!(within, 6_600);
    batch.rows(&scripts, 700..700, |_| panic!("an empty span"));
    batch.rows(&dataset("none"), 0..u64::MAX, |_| panic!("no such dataset"));
    assert_eq!(batch.bytes(), counted_bytes(&batch));
}

#[test]
fn what_is_light_gives_way() {
    let mut batch = UnflushedRows::default();
    let (scripts, coverage) = (dataset("scripts"), Arc::new(Dataset::coverage()));
    for row in 1..=1_000 {
        batch.add(&scripts, 60, &key(row), false, &gain(row));
    }
    batch.add(&coverage, 60, &key(1), false, &gain(1));
    // Histograms alone.
    let bytes = batch.bytes();
    let shrunk = batch.shrink(bytes - 1_000);
    assert!(shrunk.histograms_dropped > 100 && shrunk.keys_folded == 0, "{shrunk:?}");
    let full = 1_000 - shrunk.histograms_dropped;
    let full_at_first = shrunk.histograms_dropped;
    assert_eq!(sums(&batch, &scripts)[&(60, false)], (500_500, 1_000, full as usize));
    batch.rows(&scripts, 0..61, |row| {
        let is_heavy = row.gain.sum.totals.requests > shrunk.histograms_dropped;
        assert_eq!(row.gain.sum.histogram().is_some(), is_heavy);
    });
    // It does not come back.
    batch.add(&scripts, 60, &key(1), false, &gain(0));
    assert_eq!(sums(&batch, &scripts)[&(60, false)].2, full as usize);
    // Then rows.
    let shrunk = batch.shrink(100_000);
    assert!(
        batch.bytes() <= 100_000 && shrunk.keys_folded > 100 && shrunk.rows_lost == 0,
        "{shrunk:?}"
    );
    let sums_now = sums(&batch, &scripts);
    let (kept, folded) = (sums_now[&(60, false)], sums_now[&(60, true)]);
    assert_eq!((kept.0 + folded.0, folded.1, folded.2), (500_500, 1, 0));
    assert_eq!(folded.0, shrunk.keys_folded * (shrunk.keys_folded + 1) / 2);
    assert!(kept.2 > 5, "the heaviest keep their histograms: {kept:?}");
    // It is said of which report, and stays as long as anything does.
    let known = |batch: &UnflushedRows| {
        let mut known = HashMap::new();
        batch.rows(&coverage, 0..u64::MAX, |row| {
            let of = Coverage::of(&row.gain.sum.totals);
            assert!(known.insert(row.key.to_vec(), (row.time, of)).is_none());
        });
        known
    };
    let of_scripts = known(&batch)[&scripts.coverage_key()];
    assert_eq!(of_scripts.1.keys_folded, shrunk.keys_folded);
    assert!(of_scripts.1.histograms_dropped >= full_at_first);
    assert_eq!(known(&batch)[&key(1)].1.secs, 1);
    assert_eq!(batch.bytes(), counted_bytes(&batch));
}

#[test]
fn when_nothing_is_written_for_long_the_oldest_minutes_go() {
    let mut batch = UnflushedRows::default();
    let (scripts, coverage) = (dataset("scripts"), Arc::new(Dataset::coverage()));
    let mut shrunk = Coverage::default();
    for minute in 0..1_000 {
        for (dataset, row) in [(&scripts, 1), (&coverage, 2)] {
            batch.add(dataset, minute * 60, &key(row), false, &gain(1));
        }
        if batch.bytes() > 100_000 {
            let more = batch.shrink(100_000);
            shrunk.rows_lost += more.rows_lost;
            shrunk.keys_folded += more.keys_folded;
        }
        assert!(batch.bytes() <= 100_000);
    }
    assert!(shrunk.rows_lost > 500, "{shrunk:?}");
    assert_eq!(batch.span().end, 999 * 60 + 1);
    // The oldest coverage present counts the rows that are gone.
    let mut known = (0, 0);
    batch.rows(&coverage, 0..u64::MAX, |row| {
        if *row.key == *scripts.coverage_key() {
            let of = Coverage::of(&row.gain.sum.totals);
            known = (known.0 + of.rows_lost, known.1 + of.keys_folded);
        }
    });
    let minutes = |dataset| sums(&batch, dataset).into_keys().map(|it| it.0).min();
    assert_eq!(minutes(&scripts), minutes(&coverage));
    assert_eq!(known.1, shrunk.keys_folded);
    assert!((1..=shrunk.rows_lost).contains(&known.0), "{known:?} of {shrunk:?}");
}

/// Random times of rows that come in any order, against a count of all of them; with sums that 64
/// bits do not hold.
#[test]
fn rows_are_what_a_recount_says() {
    let scripts = dataset("scripts");
    let (mut batch, mut expected) = (UnflushedRows::default(), HashMap::new());
    let mut dice = crate::dice::Dice(1);
    let mut random = |below: u64| dice.below(below);
    for round in 0..300 {
        for row in 0..40 {
            if random(3) == 0 {
                continue;
            }
            let row = if round % 7 == 0 { random(50) } else { row };
            let times: Vec<(u64, u64)> = (0..1 + random(4) * random(4))
                .map(|_| {
                    (
                        1 << random(if row == 3 { 51 } else { 20 }),
                        1 << random(if row == 3 { 40 } else { 4 }),
                    )
                })
                .collect();
            let gain = Gain::of_times(&scripts.buckets, times.iter().copied());
            batch.add(&scripts, 60, &key(row), row == 5, &gain);
            let expected: &mut Gain = expected.entry(row).or_default();
            expected.add(&gain);
        }
        assert_eq!(batch.bytes(), counted_bytes(&batch));
    }
    let pairs = |gain: &Gain| gain.sum.histogram().unwrap().iter().collect::<Vec<_>>();
    let mut rows = 0;
    batch.rows(&scripts, 0..61, |row| {
        let number = (0..50).find(|&number| match number {
            5 => row.is_other,
            _ => *row.key == key(number),
        });
        let expected = &expected[&number.unwrap()];
        assert_eq!(row.gain.sum.totals, expected.sum.totals);
        assert_eq!(row.gain.extremes, expected.extremes);
        assert_eq!(pairs(&row.gain), pairs(expected));
        rows += 1;
    });
    assert_eq!(rows, expected.len());
    assert!(expected[&3].sum.totals.time > u128::from(u64::MAX));
}
