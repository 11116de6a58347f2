//! Written files are read back, including the first format.

use std::io::Seek as _;

use super::*;
use crate::history::columns::Cell;
use crate::history::parquet::Want;
use crate::history::requests::{REQUEST, Tags};
use crate::history::{Gain, Part, Row};
use crate::pool::resolved::{Request, Rusage};
use crate::report::histogram::BucketLayout;
use crate::report::row_key::push_key;
use crate::report::totals::{Extremes, Totals};
use crate::value::varint;

thread_local! {
    /// Where this thread cannot read any file.
    pub(in crate::history) static BAD_SECTOR: std::cell::Cell<Option<(u64, u64)>> =
        const { std::cell::Cell::new(None) };
}

/// Called before what is there is read.
pub(in crate::history) fn try_sector(at: u64) -> io::Result<()> {
    match BAD_SECTOR.get().is_some_and(|(from, to)| (from..to).contains(&at)) {
        true => Err(rustix::io::Errno::IO.into()),
        false => Ok(()),
    }
}

/// 2024-02-28, 12:57:00 UTC.
const NOON: u64 = 1_709_125_020;

fn dataset() -> Dataset {
    Dataset {
        report: "by script".to_owned(),
        hash: "0123456789abcdef".to_owned(),
        keys: vec!["script_name".to_owned(), "status".to_owned()],
        status: Some(1),
        extremes: true,
        ..Dataset::coverage()
    }
}

fn row(number: u64) -> Row {
    let mut key = Vec::new();
    push_key(&mut key, &format!("/{:05}", number / 2));
    push_key(&mut key, "200");
    let times = [(1_000 * number, 2), (77, 1)].into_iter();
    let mut gain = Gain::of_times(&BucketLayout::LogLinear, times);
    match number % 5 {
        0 => gain.sum.totals.hits = u128::MAX,
        1 => gain.sum.histogram = None,
        2 => gain.extremes = Extremes::NOTHING,
        _ => {}
    }
    Row { time: NOON + 60 * (number % 2), key, is_other: false, gain }
}

type Shown = (u64, Vec<u8>, bool, Totals, Extremes, Option<Vec<(u32, u64)>>);

fn shown(row: &Row) -> Shown {
    let Gain { sum, extremes } = &row.gain;
    let pairs = row.gain.buckets().map(Iterator::collect);
    (row.time, row.key.to_vec(), row.is_other, sum.totals, *extremes, pairs)
}

fn read(path: &std::path::Path, dataset: &Dataset) -> Vec<Shown> {
    let mut found = Vec::new();
    let mut each = |row: &Row| found.push(shown(row));
    let part = Part::of_file(path);
    part.read(dataset, 0..u64::MAX, Want::All, &mut each).unwrap();
    found
}

fn packed(id: u64, tags: Tags<'_>) -> Vec<u8> {
    let request = Request {
        time_us: 5,
        run: 1,
        id,
        received: 7,
        hostname: "h",
        request_count: 1,
        server_name: "s",
        script_name: "/",
        document_size: 1,
        memory_peak: 2,
        rusage: Rusage::Times([3, 4]),
        timers: 0,
        status: 200,
        memory_footprint: 9,
        schema: None,
        tags,
    };
    postcard::to_stdvec(&(request, 2.5)).unwrap()
}

fn read_packed(path: &std::path::Path) -> Vec<Vec<u8>> {
    let file = PendingFile::open(File::open(path).unwrap()).unwrap();
    let requests = Dataset::raw(REQUEST);
    let blocks = file.blocks(&requests, file.all(&requests));
    let mut rows = PackedRows::new(Box::new(blocks));
    let mut found = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        found.push(row.to_vec());
    }
    found
}

#[test]
fn what_is_written_is_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let to = file.reopen().unwrap();
    let to = (file.path().to_owned(), to);
    let mut writer = PendingWriter::new(to, Resolution::Minute).unwrap();
    let rows: Vec<Row> = (0..5_000).map(row).collect();
    writer.begin(&dataset()).unwrap();
    for row in &rows {
        let span = row.time..row.time + 60;
        let pushed = writer.push(1, span, |to| to.push(row));
        pushed.unwrap();
    }
    let requests = [packed(1, vec![("a", "b")]), packed(2, Vec::new())];
    writer.begin(&Dataset::raw(REQUEST)).unwrap();
    for packed in &requests {
        let pushed =
            writer.push(1, NOON..NOON + 1, |to| to.push_cells([Cell::Bytes(Some(packed))]));
        pushed.unwrap();
    }
    let (_, contents) = writer.finish().unwrap();
    assert_eq!(contents.span, NOON..NOON + 120);
    let of_each: Vec<u64> = contents.sections.iter().map(|it| it.rows).collect();
    assert_eq!(of_each, [5_000, 2]);
    let expected: Vec<Shown> = rows.iter().map(shown).collect();
    assert!(read(file.path(), &dataset()) == expected);
    assert_eq!(read_packed(file.path()), requests);
}

/// A file as older versions wrote it.
fn write_first_format(to: &mut File, rows: &[Row], requests: &[Vec<u8>]) {
    let (mut block, mut histograms) = (Vec::new(), Vec::new());
    for row in rows {
        let Gain { sum, extremes } = &row.gain;
        varint::push(&mut block, row.key.len() as u128);
        block.extend_from_slice(&row.key);
        varint::push(&mut block, (row.time / 60).into());
        let has_extremes = *extremes != Extremes::NOTHING;
        let histogram = sum.histogram();
        let flags = 2 * u8::from(has_extremes) + 4 * u8::from(histogram.is_some());
        block.push(flags + u8::from(row.is_other));
        if has_extremes {
            varint::push(&mut block, extremes.time_min.into());
            varint::push(&mut block, extremes.time_max.into());
            varint::push(&mut block, extremes.memory_peak_max.into());
        }
        sum.totals.push(&mut block);
        if let Some(histogram) = histogram {
            let layout = BucketLayout::LogLinear;
            let bytes = crate::history::histogram::encode(histogram, &layout, 6);
            varint::push(&mut block, bytes.len() as u128);
            histograms.extend_from_slice(&bytes);
        }
    }
    let mut at = 8;
    let magic = first_format::MAGIC;
    to.write_all(&magic).unwrap();
    let mut sections = Vec::new();
    let of = [
        (dataset(), rows.len(), [block, histograms]),
        (Dataset::raw(REQUEST), 2, [requests.concat(), Vec::new()]),
    ];
    for (dataset, rows, parts) in of {
        let begins = vec![at];
        for part in parts {
            let bytes = lz4_flex::block::compress_prepend_size(&part);
            to.write_all(&lead(&bytes).unwrap()).unwrap();
            to.write_all(&bytes).unwrap();
            at += 8 + bytes.len() as u64;
        }
        sections.push(Place { dataset, rows: rows as u64, begins, end: at });
    }
    let resolution = Resolution::Minute;
    let footer = serde_json::to_vec(&Footer { resolution, sections });
    let footer = footer.unwrap();
    to.write_all(&footer).unwrap();
    to.write_all(&lead(&footer).unwrap()).unwrap();
    to.write_all(&magic).unwrap();
}

#[test]
fn the_first_format_is_read_and_other_bytes_are_an_error() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let rows: Vec<Row> = (0..200).map(row).collect();
    let requests = [packed(1, vec![("a", "b")]), packed(2, Vec::new())];
    write_first_format(file.as_file_mut(), &rows, &requests);
    let expected: Vec<Shown> = rows.iter().map(shown).collect();
    assert!(read(file.path(), &dataset()) == expected);
    assert_eq!(read_packed(file.path()), requests);
    // A block with truncated rows, under a valid checksum.
    let cut = first_format::batch(&dataset(), Resolution::Minute, &[9, b'x'], &[]);
    assert!(cut.is_none());
    file.rewind().unwrap();
    file.as_file_mut().set_len(40).unwrap();
    PendingFile::open(file.into_file()).unwrap_err();
}
