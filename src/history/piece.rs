//! Pieces: files of rows in a packed form of our own, which nobody else reads. They hold what is not published yet.
//!
//! ```text
//!   piece:   | "pinbadP1" | block .. | footer, JSON | its length | its crc | "pinbadP1" |
//!   block:   | length | crc | rows, compressed by lz4 | length | crc | histograms of these |   of one dataset; 64 KiB or the rest
//!   row:     | length | key | time, in units of the resolution | flags | extremes, if any | sums | length of the histogram, if any |
//!   footer:  {"resolution": .., "sections": [{"dataset": .., "rows": .., "begins": [..], "end": ..}]}
//! ```
//!
//! Numbers are of variable length (`report::varint`), but lengths and checksums of blocks and footer 32 bits. Histograms are as
//! in files (`history::histogram`). The rows of a dataset are sorted as in files, by key, then time.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::disk::HISTORY_WRITE;
use super::histogram::{decode, encode, encoded_pairs};
use super::part::Section;
use super::row::TakeCounted;
use super::{Dataset, Gain, Resolution, Row, RowRef};
use crate::instruments::MeasuredWrite;
use crate::report::histogram::{BucketLayout, LOG_LINEAR_BITS};
use crate::report::packed::Sum;
use crate::report::reading::Extremes;
use crate::report::totals::Totals;
use crate::report::varint;

const MAGIC: [u8; 8] = *b"pinbadP1";
/// Bytes of rows in a block.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes of blocks that one thread reads.
const SHARE_BYTES: u64 = 512 << 10;
/// Length and checksum before a block.
const LEAD_BYTES: u64 = 8;
/// Longest block or footer that is read, compressed: a row is far shorter.
const READ_BYTES_MAX: u32 = 64 << 20;

const IS_OTHER: u8 = 1;
const HAS_EXTREMES: u8 = 2;
const HAS_HISTOGRAM: u8 = 4;

#[derive(Debug, Serialize, Deserialize)]
struct Footer {
    resolution: Resolution,
    sections: Vec<Place>,
}

/// Where the rows of a dataset lie.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    dataset: Dataset,
    rows: u64,
    /// Of the first block, and of some that follow, about [`SHARE_BYTES`] apart.
    begins: Vec<u64>,
    end: u64,
}

/// Writes a piece, dataset by dataset.
#[derive(Debug)]
pub(super) struct PieceWriter {
    to: BufWriter<MeasuredWrite<File>>,
    at: u64,
    block: Vec<u8>,
    histograms: Vec<u8>,
    footer: Footer,
    span: Range<u64>,
}

/// What a piece or file has.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) sections: Vec<Section>,
    pub(super) span: Range<u64>,
}

impl PieceWriter {
    pub(super) fn new(file: File, resolution: Resolution) -> io::Result<Self> {
        let mut to = BufWriter::new(MeasuredWrite::new(file, &HISTORY_WRITE));
        to.write_all(&MAGIC)?;
        Ok(Self {
            to,
            at: MAGIC.len() as u64,
            block: Vec::with_capacity(BLOCK_BYTES + BLOCK_BYTES / 4),
            histograms: Vec::new(),
            footer: Footer {
                resolution,
                sections: Vec::new(),
            },
            span: Range {
                start: u64::MAX,
                end: 0,
            },
        })
    }

    /// The rows that follow are of this dataset, in order.
    pub(super) fn begin(&mut self, dataset: &Arc<Dataset>) -> io::Result<()> {
        self.end_block()?;
        let place = Place {
            dataset: Dataset::clone(dataset),
            rows: 0,
            begins: vec![self.at],
            end: self.at,
        };
        self.footer.sections.push(place);
        Ok(())
    }

    pub(super) fn push(&mut self, row: RowRef<'_>) -> io::Result<()> {
        let Some(place) = self.footer.sections.last_mut() else {
            return Ok(());
        };
        place.rows += 1;
        let resolution = self.footer.resolution;
        let secs = resolution.secs();
        let Gain { sum, extremes } = row.gain;
        let block = &mut self.block;
        varint::push(block, row.key.len() as u128);
        block.extend_from_slice(row.key);
        varint::push(block, (row.time / secs).into());
        let has_extremes = *extremes != Extremes::NOTHING;
        let histogram = sum.histogram();
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        block.push(
            flag(row.is_other, IS_OTHER)
                | flag(has_extremes, HAS_EXTREMES)
                | flag(histogram.is_some(), HAS_HISTOGRAM),
        );
        if has_extremes {
            varint::push(block, extremes.time_min.into());
            varint::push(block, extremes.time_max.into());
            varint::push(block, extremes.memory_peak_max.into());
        }
        sum.totals.push(block);
        if let Some(histogram) = histogram {
            let histogram = encode(histogram, &place.dataset.buckets, resolution.bucket_bits());
            varint::push(block, histogram.len() as u128);
            self.histograms.extend_from_slice(&histogram);
        }
        self.end_row(row.time..row.time + secs)
    }

    /// Adds something that is packed already, as so many rows of a span of time.
    pub(super) fn push_packed(
        &mut self,
        packed: &[u8],
        rows: u64,
        span: Range<u64>,
    ) -> io::Result<()> {
        let Some(place) = self.footer.sections.last_mut() else {
            return Ok(());
        };
        place.rows += rows;
        self.block.extend_from_slice(packed);
        self.end_row(span)
    }

    fn end_row(&mut self, span: Range<u64>) -> io::Result<()> {
        self.span.start = self.span.start.min(span.start);
        self.span.end = self.span.end.max(span.end);
        match self.block.len() + self.histograms.len() {
            BLOCK_BYTES.. => self.end_block(),
            _ => Ok(()),
        }
    }

    fn end_block(&mut self) -> io::Result<()> {
        if !self.block.is_empty() {
            let begins = self.footer.sections.last_mut();
            if let Some(Place { begins, .. }) = begins
                && begins
                    .last()
                    .is_some_and(|last| last + SHARE_BYTES <= self.at)
            {
                begins.push(self.at);
            }
            for packed in [&mut self.block, &mut self.histograms] {
                let bytes = lz4_flex::block::compress_prepend_size(packed);
                let lead = lead(&bytes)?;
                self.to.write_all(&lead)?;
                self.to.write_all(&bytes)?;
                self.at += (lead.len() + bytes.len()) as u64;
                packed.clear();
            }
        }
        if let Some(place) = self.footer.sections.last_mut() {
            place.end = self.at;
        }
        Ok(())
    }

    /// Finishes it; not synced yet.
    pub(super) fn finish(mut self) -> io::Result<(File, Contents)> {
        self.end_block()?;
        self.footer.sections.retain(|place| place.rows > 0);
        let footer = serde_json::to_vec(&self.footer)?;
        self.to.write_all(&footer)?;
        self.to.write_all(&lead(&footer)?)?;
        self.to.write_all(&MAGIC)?;
        let file = self.to.into_inner()?.to;
        let sections = self.footer.sections.into_iter();
        let sections = sections.map(|place| Section {
            dataset: Arc::new(place.dataset),
            rows: place.rows,
        });
        let sections = sections.collect();
        Ok((
            file,
            Contents {
                sections,
                span: self.span,
            },
        ))
    }
}

/// Length and checksum.
fn lead(bytes: &[u8]) -> io::Result<[u8; LEAD_BYTES as usize]> {
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut lead = [0; 8];
    lead[..4].copy_from_slice(&len.to_le_bytes());
    lead[4..].copy_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    Ok(lead)
}

fn length_and_crc(lead: [u8; 8]) -> io::Result<(usize, u32)> {
    let lead = u64::from_le_bytes(lead);
    let len = lead as u32;
    if len > READ_BYTES_MAX {
        return Err(damaged("a length is out of range"));
    }
    Ok((len as usize, (lead >> 32) as u32))
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A piece, to be read.
#[derive(Debug)]
pub(super) struct Piece {
    file: Arc<File>,
    footer: Footer,
}

impl Piece {
    pub(super) fn open(file: File) -> io::Result<Self> {
        let mut tail = [0; 16];
        let size = file.metadata()?.len();
        let tail_at = size
            .checked_sub(tail.len() as u64)
            .ok_or_else(|| damaged("it is too short"))?;
        file.read_exact_at(&mut tail, tail_at)?;
        let (lead, magic) = tail.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        if magic != MAGIC {
            return Err(damaged("it does not end as a piece does"));
        }
        let (len, crc) = length_and_crc(*lead)?;
        let mut footer = vec![0; len];
        let at = tail_at
            .checked_sub(len as u64)
            .ok_or_else(|| damaged("it is too short"))?;
        file.read_exact_at(&mut footer, at)?;
        if crc32fast::hash(&footer) != crc {
            return Err(damaged("the checksum of its end is wrong"));
        }
        let footer = serde_json::from_slice(&footer)?;
        Ok(Self {
            file: Arc::new(file),
            footer,
        })
    }

    pub(super) fn resolution(&self) -> Resolution {
        self.footer.resolution
    }

    /// Whose rows it has, and how many.
    pub(super) fn sections(&self) -> Vec<Section> {
        let places = self.footer.sections.iter();
        let sections = places.map(|place| Section {
            dataset: Arc::new(place.dataset.clone()),
            rows: place.rows,
        });
        sections.collect()
    }

    /// Where the rows of a dataset lie: shares that several threads can read.
    pub(super) fn shares(&self, dataset: &Dataset) -> Vec<Range<u64>> {
        let mut places = self.footer.sections.iter();
        let Some(place) = places.find(|place| place.dataset == *dataset) else {
            return Vec::new();
        };
        let ends = place.begins.iter().skip(1).chain([&place.end]);
        let shares = place.begins.iter().zip(ends);
        shares.map(|(begin, end)| *begin..*end).collect()
    }

    /// The rows of a dataset, in order.
    pub(super) fn rows(&self, dataset: &Dataset) -> PieceRows {
        let shares = self.shares(dataset);
        let (first, last) = (shares.first(), shares.last());
        let all = first.zip(last).map(|(first, last)| first.start..last.end);
        self.rows_of(dataset, all.unwrap_or_default())
    }

    /// Those in a share.
    pub(super) fn rows_of(&self, dataset: &Dataset, share: Range<u64>) -> PieceRows {
        PieceRows {
            file: Arc::clone(&self.file),
            secs: self.footer.resolution.secs(),
            buckets: dataset.buckets,
            rest: share,
            block: Vec::new(),
            at: 0,
            histograms: Histograms::default(),
        }
    }
}

/// Rows of a dataset in a piece, a block in memory at a time.
#[derive(Debug)]
pub(super) struct PieceRows {
    file: Arc<File>,
    secs: u64,
    buckets: BucketLayout,
    rest: Range<u64>,
    block: Vec<u8>,
    at: usize,
    histograms: Histograms,
}

/// Those of a block.
#[derive(Debug, Default)]
struct Histograms {
    /// Where they lie in the file.
    place: u64,
    /// All of them, once one was wanted.
    bytes: Option<Vec<u8>>,
    /// Where that of the next row begins.
    at: usize,
}

/// A row as it is packed.
struct Packed<'a> {
    time: u64,
    key: &'a [u8],
    is_other: bool,
    totals: Totals,
    extremes: Extremes,
    /// Where in the block's its histogram is.
    histogram: Option<Range<usize>>,
}

impl PieceRows {
    /// The next row, with its histogram.
    pub(super) fn next(&mut self) -> io::Result<Option<Row>> {
        let Some(packed) = self.take()? else {
            return Ok(None);
        };
        let (time, key, is_other) = (packed.time, packed.key.into(), packed.is_other);
        let (totals, extremes, histogram) = (packed.totals, packed.extremes, packed.histogram);
        let buckets = self.buckets;
        let histogram = match histogram {
            None => None,
            Some(place) => {
                let read = decode(self.histogram(place)?, &buckets);
                Some(read.ok_or_else(|| damaged("a histogram is none"))?)
            }
        };
        let sum = Sum::of(totals, histogram);
        Ok(Some(Row {
            time,
            key,
            is_other,
            gain: Gain { sum, extremes },
        }))
    }

    /// Calls `each` for all rows, without their histograms, each with its number.
    pub(super) fn each(&mut self, each: &mut dyn FnMut(usize, RowRef<'_>)) -> io::Result<()> {
        let mut place = 0;
        while let Some(packed) = self.take()? {
            let gain = Gain {
                sum: Sum::of(packed.totals, None),
                extremes: packed.extremes,
            };
            let row = RowRef {
                time: packed.time,
                key: packed.key,
                is_other: packed.is_other,
                gain: &gain,
            };
            each(place, row);
            place += 1;
        }
        Ok(())
    }

    /// Calls `each` for all rows.
    pub(super) fn each_with_counts(&mut self, each: &mut TakeCounted<'_>) -> io::Result<()> {
        let (mut key, mut counts) = (Vec::new(), Vec::new());
        while let Some(packed) = self.take()? {
            key.clear();
            key.extend_from_slice(packed.key);
            let (time, is_other, histogram) = (packed.time, packed.is_other, packed.histogram);
            let gain = Gain {
                sum: Sum::of(packed.totals, None),
                extremes: packed.extremes,
            };
            counts.clear();
            if let Some(place) = histogram {
                let buckets = self.buckets;
                let pairs = encoded_pairs(self.histogram(place)?, &buckets, LOG_LINEAR_BITS);
                let read = pairs.and_then(|mut pairs| {
                    pairs.try_for_each(|pair| {
                        counts.extend(Some(pair?).filter(|(_, count)| *count > 0));
                        Some(())
                    })
                });
                read.ok_or_else(|| damaged("a histogram is none"))?;
            }
            let row = RowRef {
                time,
                key: &key,
                is_other,
                gain: &gain,
            };
            each(row, &counts);
        }
        Ok(())
    }

    /// Calls `each` for the histograms, as they are stored, of the rows with these numbers, ascending.
    pub(super) fn histograms(
        &mut self,
        places: impl Iterator<Item = usize>,
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> io::Result<()> {
        let mut next = 0;
        for place in places {
            let mut found = None;
            while next <= place {
                let row = self.take()?.ok_or_else(|| damaged("it lacks rows"))?;
                found = row.histogram;
                next += 1;
            }
            match found {
                Some(found) => each(place, Some(self.histogram(found)?)),
                None => each(place, None),
            }
        }
        Ok(())
    }

    fn take(&mut self) -> io::Result<Option<Packed<'_>>> {
        if self.packed()?.is_none() {
            return Ok(None);
        }
        let mut from = self.block.get(self.at..).unwrap_or_default();
        let row = take_row(&mut from, self.secs, &mut self.histograms.at);
        self.at = self.block.len() - from.len();
        row.map(Some).ok_or_else(|| damaged("a row is cut off"))
    }

    /// A histogram of the block.
    fn histogram(&mut self, place: Range<usize>) -> io::Result<&[u8]> {
        let Self {
            file, histograms, ..
        } = self;
        let bytes = match &mut histograms.bytes {
            Some(bytes) => bytes,
            none => none.insert(read_packed(file, histograms.place)?.0),
        };
        bytes
            .get(place)
            .ok_or_else(|| damaged("a histogram is cut off"))
    }

    /// The next row as it is packed, and those of its block that follow.
    pub(super) fn packed(&mut self) -> io::Result<Option<&[u8]>> {
        if self.at == self.block.len() {
            if self.rest.is_empty() {
                return Ok(None);
            }
            self.read_block()?;
        }
        Ok(self.block.get(self.at..))
    }

    /// Goes on where so many bytes are left of that.
    pub(super) fn advance(&mut self, left: usize) {
        self.at = self.block.len() - left;
    }

    fn read_block(&mut self) -> io::Result<()> {
        let (block, place) = read_packed(&self.file, self.rest.start)?;
        self.histograms = Histograms {
            place,
            ..Histograms::default()
        };
        let (len, _) = read_lead(&self.file, place)?;
        self.rest.start = place + LEAD_BYTES + len as u64;
        (self.block, self.at) = (block, 0);
        Ok(())
    }
}

/// What lies behind its length and checksum, and where it ends.
fn read_packed(file: &File, at: u64) -> io::Result<(Vec<u8>, u64)> {
    let (len, crc) = read_lead(file, at)?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, at + LEAD_BYTES)?;
    if crc32fast::hash(&bytes) != crc {
        return Err(damaged("the checksum of a block is wrong"));
    }
    let unpacked = lz4_flex::block::decompress_size_prepended(&bytes);
    let unpacked = unpacked.map_err(|error| damaged(&error.to_string()))?;
    Ok((unpacked, at + LEAD_BYTES + len as u64))
}

fn read_lead(file: &File, at: u64) -> io::Result<(usize, u32)> {
    let mut lead = [0; LEAD_BYTES as usize];
    file.read_exact_at(&mut lead, at)?;
    length_and_crc(lead)
}

/// `histograms`: where that of this row begins, then that of the next.
fn take_row<'a>(from: &mut &'a [u8], secs: u64, histograms: &mut usize) -> Option<Packed<'a>> {
    let key = take_bytes(from)?;
    let time = (varint::take(from) as u64).saturating_mul(secs);
    let flags = *from.split_off_first()?;
    let mut extremes = Extremes::NOTHING;
    if flags & HAS_EXTREMES != 0 {
        extremes.time_min = varint::take(from) as u64;
        extremes.time_max = varint::take(from) as u64;
        extremes.memory_peak_max = varint::take(from) as u32;
    }
    let totals = Totals::take(from);
    let mut histogram = None;
    if flags & HAS_HISTOGRAM != 0 {
        let begin = *histograms;
        *histograms = begin.checked_add(usize::try_from(varint::take(from)).ok()?)?;
        histogram = Some(begin..*histograms);
    }
    Some(Packed {
        time,
        key,
        is_other: flags & IS_OTHER != 0,
        totals,
        extremes,
        histogram,
    })
}

/// What stands behind its length.
fn take_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(varint::take(from)).ok()?;
    from.split_off(..len)
}
