//! Written files are read back, for every kind of dataset; and other readers find plain columns.

use std::collections::BTreeMap;
use std::iter::repeat_n;

use parquet::arrow::arrow_reader::RowSelection;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::NamedTempFile;

use super::*;
use crate::history::columns::equal_to;
use crate::history::histogram::{decode, fold};
use crate::history::read_unit::{ReadUnit, Run};
use crate::history::{Gain, Part, Row};
use crate::report::definition::Level;
use crate::report::encoded_gain::Sum;
use crate::report::histogram::{BucketLayout, Histogram};
use crate::report::layout::OTHER;
use crate::report::row_key::push_key;
use crate::report::totals::{Extremes, Totals};

fn dataset(level: Level, keys: &[&str], buckets: BucketLayout, extremes: bool) -> Dataset {
    Dataset {
        report: "r".to_owned(),
        hash: "0123456789abcdef".to_owned(),
        level,
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        status: keys.iter().position(|key| *key == "status"),
        buckets,
        extremes,
    }
}

/// One of every kind.
fn datasets() -> Vec<Dataset> {
    let linear = BucketLayout::linear(10, 1024).unwrap();
    let hv = BucketLayout::v2(0, 60_000, 32_768).unwrap();
    let log = BucketLayout::LogLinear;
    vec![
        dataset(Level::Packet, &[], log, false),
        dataset(Level::Request, &["script_name", "status", "hostname"], log, true),
        dataset(Level::Request, &["time", "Histogram", "report", "key_time"], log, false),
        dataset(Level::Timer, &["group"], linear, true),
        dataset(Level::Timer, &["host", "tag_group"], hv, false),
        Dataset::coverage(),
    ]
}

/// A sum: mostly small, sometimes as large as there is.
fn number(random: &mut StdRng, most: u128) -> u128 {
    match random.random_range(0..40) {
        0 => most,
        1 => most.min(1 << 63),
        2 => most.min((1 << 63) - 1),
        _ => random.random_range(0..1 << 40),
    }
}

fn row(dataset: &Dataset, time: u64, key: u32, random: &mut StdRng) -> Row {
    let is_other = key == 0 && !dataset.keys.is_empty() && !dataset.is_coverage();
    let mut texts = Vec::new();
    for at in 0..dataset.keys.len() {
        match at {
            _ if is_other => push_key(&mut texts, OTHER),
            at if dataset.status == Some(at) => push_key(&mut texts, &(200 + key).to_string()),
            _ => push_key(
                &mut texts,
                &["", "ä\0", "/index.php?", "x"][key as usize % 4].repeat(at + 1),
            ),
        }
    }
    let mut histogram = Histogram::new();
    for _ in 0..random.random_range(0..40) {
        let most = 1_u64 << random.random_range(1..51);
        let us = random.random_range(0..most);
        histogram.add(dataset.buckets.bucket(us), random.random_range(1..9));
    }
    let is_of_requests = dataset.level != Level::Timer;
    let mut totals = Totals {
        requests: number(random, u64::MAX.into()) as u64,
        hits: number(random, u128::MAX),
        ..Totals::ZERO
    };
    if !dataset.is_coverage() {
        totals.time = number(random, u128::MAX);
        totals.ru_utime = number(random, u128::MAX);
        totals.ru_stime = number(random, 1 << 64);
    } else {
        totals = Totals { requests: totals.requests >> 1, hits: totals.hits >> 65, ..Totals::ZERO };
    }
    if is_of_requests && !dataset.is_coverage() {
        totals.traffic = number(random, u128::MAX);
        totals.memory = number(random, u128::MAX);
        totals.errors = number(random, u64::MAX.into()) as u64;
    }
    let mut extremes = Extremes::NOTHING;
    if dataset.extremes && random.random_range(0..9) > 0 {
        extremes = Extremes {
            time_min: random.random_range(0..1 << 20),
            time_max: random.random_range(1 << 20..1 << 51),
            memory_peak_max: if is_of_requests { random.random() } else { 0 },
        };
    }
    let known = !dataset.is_coverage() && random.random_range(0..9) > 0;
    let sum = Sum::of(totals, known.then_some(histogram));
    Row { time, key: texts, is_other, gain: Gain { sum, extremes } }
}

type Cells = (Totals, Extremes, Option<Vec<(u32, u64)>>);

fn cells(gain: &Gain, resolution: Option<(&Dataset, Resolution)>) -> Cells {
    let mut histogram = gain.sum.histogram().cloned();
    if let (Some(histogram), Some((dataset, resolution))) = (&mut histogram, resolution)
        && dataset.buckets == BucketLayout::LogLinear
    {
        fold(histogram, resolution.bucket_bits());
    }
    let pairs = histogram.map(|histogram| histogram.iter().collect());
    (gain.sum.totals, gain.extremes, pairs)
}

fn rows_of(
    dataset: &Dataset,
    resolution: Resolution,
    rows: usize,
    random: &mut StdRng,
) -> Vec<Row> {
    let keys = if dataset.keys.is_empty() { 1 } else { 4 };
    let mut rows: Vec<Row> = (0..rows)
        .map(|at| {
            let time = 1_700_000_000 / 86_400 * 86_400 + resolution.secs() * (at / keys) as u64;
            row(dataset, time, (at % keys) as u32, random)
        })
        .collect();
    rows.sort_by(|a, b| order((&a.key, a.time), (&b.key, b.time)));
    rows
}

fn empty_file() -> NamedTempFile {
    let file = tempfile::Builder::new().suffix(".parquet").tempfile();
    file.unwrap()
}

fn file_of(dataset: &Dataset, resolution: Resolution, rows: &[Row]) -> (NamedTempFile, u64) {
    let file = empty_file();
    let to = (file.path().to_owned(), file.reopen().unwrap());
    let mut writer = FileWriter::new(to, &Arc::new(dataset.clone()), resolution);
    rows.iter().for_each(|row| writer.add(|rows| rows.push(row)).unwrap());
    let (_, written) = writer.finish().unwrap();
    (file, written.rows)
}

#[test]
fn what_is_written_is_read() {
    let mut random = StdRng::seed_from_u64(17);
    for dataset in datasets() {
        for resolution in Resolution::ALL {
            for count in [0, 1, 999] {
                let rows = rows_of(&dataset, resolution, count, &mut random);
                let (file, written) = file_of(&dataset, resolution, &rows);
                assert_eq!(written, count as u64);
                let mut expected = rows.iter();
                let want = Want::All;
                let mut compare = |read: &Row| {
                    let row = expected.next().unwrap();
                    assert_eq!((read.time, read.is_other), (row.time, row.is_other));
                    assert_eq!(read.key, row.key, "{dataset:?}");
                    let expected = cells(&row.gain, Some((&dataset, resolution)));
                    assert_eq!(cells(&read.gain, None), expected, "{dataset:?}");
                };
                let part = Part::of_file(file.path());
                let read = part.read(&dataset, 0..u64::MAX, want, &mut compare);
                read.unwrap();
                assert!(expected.next().is_none());
            }
        }
    }
}

#[test]
fn a_span_a_key_and_some_places_are_read_alone() {
    let mut random = StdRng::seed_from_u64(18);
    let dataset = &datasets()[1];
    let rows = rows_of(dataset, Resolution::Minute, 20_000, &mut random);
    let (file, _) = file_of(dataset, Resolution::Minute, &rows);
    let from = rows.iter().map(|row| row.time).min().unwrap();
    let span = from + 600..from + 1_200;
    let mut seen = BTreeMap::new();
    let mut count = |read: &Row| {
        assert!(span.contains(&read.time) && read.gain.sum.histogram().is_none());
        *seen.entry(read.time).or_insert(0) += 1;
    };
    let part = Part::of_file(file.path());
    let read = part.read(dataset, span.clone(), Want::Sums, &mut count);
    read.unwrap();
    assert_eq!(seen.into_values().collect::<Vec<_>>(), [4; 10]);

    let columns = columns(dataset);
    let groups = |key: &[u8]| {
        let read_as = ReadAs { equal: equal_to(&columns, key), ..ReadAs::default() };
        let groups = Opened::new(file.path(), &read_as).unwrap().groups().unwrap();
        groups.into_iter().map(|(_, rows)| rows).collect::<Vec<_>>()
    };
    let mut firsts = rows.iter().step_by(7_001).map(|row| &row.key);
    for key in firsts.by_ref() {
        let [found] = &*groups(key) else { panic!("one group") };
        let found = found.iter().flat_map(|it| repeat_n(!it.skip, it.row_count));
        let is_found: Vec<bool> = found.collect();
        let has = |place: &usize| rows[*place].key == *key;
        assert!((0..rows.len()).filter(has).all(|place| is_found[place]));
    }
    assert_eq!(groups(&[]).iter().map(RowSelection::row_count).sum::<usize>(), rows.len());
    let mut none = Vec::new();
    ["\u{10ffff}", "7", "x"].iter().for_each(|text| push_key(&mut none, text));
    assert!(groups(&none).is_empty());
    let places = [3..5, 777..778, 19_990..20_000];
    let mut wanted = places.iter().cloned().flatten();
    let mut runs = Vec::new();
    let to = |place: usize| place as u32;
    (wanted.clone()).for_each(|place| Run::note(&mut runs, to(place), place));
    let mut compare = |place: u32, histogram: Option<&[u8]>| {
        let place = place as usize;
        assert_eq!(Some(place), wanted.next());
        let read = histogram.map(|it| decode(it, &dataset.buckets).unwrap());
        let sum = Sum::of(Totals::ZERO, read);
        let gain = Gain { sum, extremes: Extremes::NOTHING };
        assert_eq!(cells(&gain, None).2, cells(&rows[place].gain, None).2);
    };
    let read_as = ReadAs::default();
    let units = ReadUnit::of_part(&part, &(0..u64::MAX), dataset, &read_as).unwrap();
    let [unit] = &*units else { panic!("{units:?}") };
    unit.histograms(dataset, runs.iter(), &mut compare).unwrap();
    assert_eq!(wanted.next(), None);
}

#[test]
fn columns_are_plain_and_no_name_comes_twice() {
    for dataset in datasets() {
        let columns = columns(&dataset);
        let mut names: Vec<String> = columns.iter().map(|(name, _)| name.to_lowercase()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), columns.len(), "{columns:?}");
    }
    let names = |dataset: &Dataset| -> Vec<String> {
        columns(dataset).into_iter().map(|(name, _)| name).collect()
    };
    let all = datasets();
    assert_eq!(
        names(&all[2])[..6],
        ["time", "key_time", "key_Histogram", "key_report", "key_key_time", "other"]
    );
    assert_eq!(
        names(&all[5]),
        [
            "time",
            "report",
            "definition",
            "covered_seconds",
            "missed_requests",
            "histograms_dropped",
            "keys_folded",
            "rows_lost"
        ]
    );
}

#[test]
fn what_is_no_such_file_is_an_error() {
    let mut random = StdRng::seed_from_u64(19);
    let dataset = &datasets()[1];
    let rows = rows_of(dataset, Resolution::Hour, 500, &mut random);
    let (file, _) = file_of(dataset, Resolution::Hour, &rows);
    let bytes = std::fs::read(file.path()).unwrap();
    let want = Want::All;
    for round in 0..300 {
        let mut bytes = bytes.clone();
        match round % 3 {
            0 => bytes.truncate(random.random_range(0..bytes.len())),
            _ => {
                let at = random.random_range(0..bytes.len());
                bytes[at] ^= 1 << random.random_range(0..8);
            }
        }
        std::fs::write(file.path(), &bytes).unwrap();
        // In any case it is an error or readable: nothing panics.
        let part = Part::of_file(file.path());
        let _any = part.read(dataset, 0..u64::MAX, want, &mut |_| {});
    }
}

/// Bytes of a row in a file, and of its histogram: rows of 50 scripts, with this many requests
/// each, whose times are distributed as on a real site (one in six above twice the median, one in
/// forty above four times).
fn bytes_of_a_row(resolution: Resolution, rows: u64, requests: u64) -> (f64, f64) {
    let mut random = StdRng::seed_from_u64(21);
    let dataset = dataset(Level::Request, &["script_name"], BucketLayout::LogLinear, false);
    let mut made = Vec::new();
    for script in 0..50_u32 {
        let mut key = Vec::new();
        push_key(&mut key, &format!("/shop/page_{script:02}.php"));
        let median_us = f64::from(random.random_range(5_000..200_000));
        for row in 0..rows {
            let mut times = Vec::new();
            for _ in 0..requests {
                let normal: f64 = (0..12).map(|_| random.random_range(-0.5..0.5)).sum();
                times.push((median_us * 2_f64.powf(normal)) as u64);
            }
            let mut gain = Gain::of_times(&dataset.buckets, times.iter().map(|&us| (us, 1)));
            let time = gain.sum.totals.time;
            gain.sum.totals = Totals {
                hits: u128::from(requests) * 5,
                ru_utime: time * random.random_range(500..600) / 1_000,
                ru_stime: time * random.random_range(50..60) / 1_000,
                traffic: u128::from(requests) * random.random_range(19_000..21_000),
                memory: u128::from(requests) * random.random_range(1_900_000..2_100_000),
                errors: u64::from(random.random_range(0..20) == 0),
                ..gain.sum.totals
            };
            made.push(Row {
                time: 1_790_000_000 / 86_400 * 86_400 + row * resolution.secs(),
                key: key.clone(),
                is_other: false,
                gain,
            });
        }
    }
    let (file, written) = file_of(&dataset, resolution, &made);
    let bytes = file.as_file().metadata().unwrap().len();
    let file = SerializedFileReader::new(file.into_file()).unwrap();
    let groups = file.metadata().row_groups().iter();
    let columns = groups.flat_map(|group| group.columns());
    let histograms = columns.filter(|it| it.column_path().string() == "histogram");
    let histograms: i64 = histograms.map(|it| it.compressed_size()).sum();
    let each = |bytes: f64| bytes / written as f64;
    (each(histograms as f64), each(bytes as f64))
}

#[expect(clippy::print_stdout, reason = "the figures are for whoever runs it")]
#[test]
fn a_histogram_takes_70_bytes_a_minute_and_140_an_hour() {
    let minute = bytes_of_a_row(Resolution::Minute, 60, 60);
    let hour = bytes_of_a_row(Resolution::Hour, 24, 3_600);
    // Histogram, whole row.
    assert!(minute.0 <= 70.0 && minute.1 <= 110.0, "{minute:?}");
    assert!(hour.0 <= 140.0 && hour.1 <= 180.0, "{hour:?}");
    println!("60 requests a minute: {minute:.1?} bytes; 3,600 an hour: {hour:.1?}");
}
