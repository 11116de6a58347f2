//! Pending files: rows on disk that are not published yet, of many datasets, as batches of their
//! [stored](super::columns) columns.
//!
//! ```text
//!   file:    | "pinbadP2" | block .. | footer, JSON | its length | its crc | "pinbadP2" |
//!   block:   | length | crc | an Arrow IPC stream of one batch, compressed by lz4 |       of one dataset; about 64 KiB or the rest
//!   footer:  {"resolution": .., "sections": [{"dataset": .., "rows": .., "begins": [..], "end": ..}]}
//! ```
//!
//! Lengths and checksums have 32 bits. The rows of a dataset are sorted as in published files, by
//! key, then time. Raw requests are encoded, each in a cell of the one column.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::iter;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, AsArray as _, BinaryArray, RecordBatch};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::ipc::reader::StreamDecoder;
use datafusion::arrow::ipc::writer::StreamWriter;
use serde::{Deserialize, Serialize};

use super::columns::{BatchBuilder, Batches, RowReader, columns};
use super::disk::{Done, HISTORY_WRITE, failed, unreadable};
use super::parquet::unpanicked;
use super::part::{Part, Section};
use super::resolution::hull;
use super::{Dataset, Resolution, Row};
use crate::instruments::MeasuredWrite;

mod first_format;

const MAGIC: [u8; 8] = *b"pinbadP2";
/// Bytes of an uncompressed block.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes of blocks for one thread to read.
const SHARE_BYTES: u64 = 512 << 10;
/// Length and checksum before a block.
pub(super) const LEAD_BYTES: u64 = 8;
/// Longest block or footer that is read, compressed: a row is far shorter.
const READ_BYTES_MAX: u32 = 64 << 20;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Footer {
    pub(super) resolution: Resolution,
    sections: Vec<Place>,
}

impl Footer {
    /// The datasets with their numbers of rows.
    pub(super) fn sections(&self) -> Vec<Section> {
        let section =
            |place: &Place| Section { dataset: Arc::new(place.dataset.clone()), rows: place.rows };
        self.sections.iter().map(section).collect()
    }
}

/// The position of a dataset's rows.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    dataset: Dataset,
    rows: u64,
    /// Start of the first block, and of some later ones, about [`SHARE_BYTES`] apart.
    begins: Vec<u64>,
    end: u64,
}

/// Writes a pending file, dataset by dataset.
pub(super) struct PendingWriter {
    path: PathBuf,
    to: BufWriter<MeasuredWrite<File>>,
    at: u64,
    block: Option<BatchBuilder>,
    footer: Footer,
    span: Range<u64>,
    /// The sum of the rows that were [added](Self::add) last.
    sum: Option<Row>,
}

impl PendingWriter {
    pub(super) fn new((path, file): (PathBuf, File), resolution: Resolution) -> Done<Self> {
        let mut to = BufWriter::new(MeasuredWrite::new(file, &HISTORY_WRITE));
        to.write_all(&MAGIC).map_err(failed("write", &path))?;
        Ok(Self {
            path,
            to,
            at: MAGIC.len() as u64,
            block: None,
            footer: Footer { resolution, sections: Vec::new() },
            span: Range { start: u64::MAX, end: 0 },
            sum: None,
        })
    }

    /// Starts the rows of this dataset, in order.
    pub(super) fn begin(&mut self, dataset: &Dataset) -> Done {
        self.end_sum()?;
        self.end_block()?;
        self.block = Some(BatchBuilder::pending(dataset, self.footer.resolution));
        let (dataset, at) = (dataset.clone(), self.at);
        self.footer.sections.push(Place { dataset, rows: 0, begins: vec![at], end: at });
        Ok(())
    }

    /// Adds the data of this many rows within a span of time.
    pub(super) fn push(
        &mut self,
        rows: u64,
        span: Range<u64>,
        push: impl FnOnce(&mut BatchBuilder),
    ) -> Done {
        let (Some(block), Some(place)) = (&mut self.block, self.footer.sections.last_mut()) else {
            return Ok(());
        };
        push(block);
        place.rows += rows;
        self.span = hull(self.span.clone(), span);
        if block.bytes < BLOCK_BYTES { Ok(()) } else { self.end_block() }
    }

    /// Adds the next row in order, of a finer resolution: those of one key and time are summed.
    pub(super) fn add(&mut self, row: &Row) -> Done {
        let time = self.footer.resolution.begin(row.time);
        match &mut self.sum {
            Some(sum) if (sum.time, &sum.key, sum.is_other) == (time, &row.key, row.is_other) => {
                sum.gain.add(&row.gain);
            }
            _ => {
                self.end_sum()?;
                self.sum = Some(Row { time, ..row.clone() });
            }
        }
        Ok(())
    }

    fn end_sum(&mut self) -> Done {
        let Some(row) = self.sum.take() else { return Ok(()) };
        let span = row.time..row.time + self.footer.resolution.secs();
        self.push(1, span, |to| to.push(&row))
    }

    fn end_block(&mut self) -> Done {
        let (Some(block), Some(place)) = (&mut self.block, self.footer.sections.last_mut()) else {
            return Ok(());
        };
        if block.rows > 0 {
            let last = place.begins.last();
            if last.is_some_and(|last| last + SHARE_BYTES <= self.at) {
                place.begins.push(self.at);
            }
            let framed = encode(&block.finish()).and_then(|bytes| framed(&bytes));
            let written = framed.and_then(|bytes| self.to.write_all(&bytes).map(|()| bytes.len()));
            self.at += written.map_err(failed("write", &self.path))? as u64;
        }
        place.end = self.at;
        Ok(())
    }

    /// Finishes it, without syncing; returns the piece that it is to be.
    pub(super) fn finish(mut self) -> Done<(File, Part)> {
        self.end_sum()?;
        self.end_block()?;
        self.footer.sections.retain(|place| place.rows > 0);
        let (path, sections) = (self.path.with_extension("piece"), self.footer.sections());
        let (resolution, span) = (self.footer.resolution, self.span);
        let part = Part { path, resolution, span, sections, ..Part::default() };
        let mut to = self.to;
        let end = || {
            let footer = serde_json::to_vec(&self.footer)?;
            to.write_all(&footer)?;
            to.write_all(&lead(&footer)?)?;
            to.write_all(&MAGIC)?;
            io::Result::Ok(to.into_inner()?.to)
        };
        let file = end().map_err(failed("write", &self.path))?;
        Ok((file, part))
    }
}

fn encode(batch: &RecordBatch) -> io::Result<Vec<u8>> {
    let write = || {
        let mut to = StreamWriter::try_new(Vec::new(), &batch.schema())?;
        to.write(batch)?;
        to.into_inner()
    };
    let stream = write().map_err(io::Error::other)?;
    Ok(lz4_flex::block::compress_prepend_size(&stream))
}

fn decode(stream: Vec<u8>) -> io::Result<RecordBatch> {
    let decode = || StreamDecoder::new().decode(&mut Buffer::from(stream)).map_err(damaged);
    unpanicked(decode)?.ok_or_else(|| damaged("a block has no rows"))
}

/// Length and checksum.
fn lead(bytes: &[u8]) -> io::Result<[u8; LEAD_BYTES as usize]> {
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let lead = u64::from(len) | u64::from(crc32fast::hash(bytes)) << 32;
    Ok(lead.to_le_bytes())
}

/// Bytes behind their length and checksum.
pub(super) fn framed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    Ok([&lead(bytes)?[..], bytes].concat())
}

pub(super) fn damaged(what: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads bytes with the length and checksum of a lead.
fn read_checked(file: &File, lead: u64, at: u64) -> io::Result<Vec<u8>> {
    let (len, crc) = (lead as u32, (lead >> 32) as u32);
    if len > READ_BYTES_MAX {
        return Err(damaged("a length is out of range"));
    }
    #[cfg(test)]
    tests::try_sector(at)?;
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, at)?;
    if crc32fast::hash(&bytes) == crc { Ok(bytes) } else { Err(damaged("a checksum is wrong")) }
}

fn read_u64(file: &File, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Reads the bytes that follow a length and checksum.
pub(super) fn read_leading(file: &File, at: u64) -> io::Result<Vec<u8>> {
    read_checked(file, read_u64(file, at)?, at + LEAD_BYTES)
}

/// The same, compressed, and where it ends.
fn read_compressed(file: &File, at: u64) -> io::Result<(Vec<u8>, u64)> {
    let bytes = read_leading(file, at)?;
    let plain = lz4_flex::block::decompress_size_prepended(&bytes).map_err(damaged)?;
    Ok((plain, at + LEAD_BYTES + bytes.len() as u64))
}

/// A pending file, to be read.
#[derive(Debug)]
pub(super) struct PendingFile {
    file: Arc<File>,
    pub(super) footer: Footer,
    is_first_format: bool,
}

impl PendingFile {
    pub(super) fn open(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let before =
            |end: u64, bytes: u64| end.checked_sub(bytes).ok_or_else(|| damaged("it is too short"));
        let lead_at = before(size, LEAD_BYTES + MAGIC.len() as u64)?;
        let magic = read_u64(&file, lead_at + LEAD_BYTES)?.to_le_bytes();
        let is_first_format = magic == first_format::MAGIC;
        if magic != MAGIC && !is_first_format {
            return Err(damaged("it does not end as a pending file does"));
        }
        let lead = read_u64(&file, lead_at)?;
        let footer = read_checked(&file, lead, before(lead_at, (lead as u32).into())?)?;
        Ok(Self { footer: serde_json::from_slice(&footer)?, file: Arc::new(file), is_first_format })
    }

    /// The position of a dataset's rows: shares for several threads.
    pub(super) fn shares(&self, dataset: &Dataset) -> Vec<Range<u64>> {
        let mut places = self.footer.sections.iter();
        let Some(place) = places.find(|place| place.dataset == *dataset) else { return Vec::new() };
        let ends = place.begins.iter().skip(1).chain([&place.end]);
        place.begins.iter().zip(ends).map(|(begin, end)| *begin..*end).collect()
    }

    /// The rows in a share, in order, with one block in memory at a time.
    pub(super) fn blocks(&self, dataset: &Dataset, mut share: Range<u64>) -> Batches {
        let (file, resolution) = (Arc::clone(&self.file), self.footer.resolution);
        let of_first_format = self.is_first_format.then(|| dataset.clone());
        let read = move |rest: &mut Range<u64>| {
            let (block, end) = read_compressed(&file, rest.start)?;
            rest.start = end;
            let Some(dataset) = &of_first_format else { return decode(block) };
            let (histograms, end) = read_compressed(&file, end)?;
            rest.start = end;
            let batch = first_format::batch(dataset, resolution, &block, &histograms);
            batch.ok_or_else(|| damaged("a row is cut off"))
        };
        Box::new(iter::from_fn(move || (!share.is_empty()).then(|| read(&mut share))))
    }

    /// The rows of a report's dataset, in order.
    pub(super) fn rows(&self, dataset: &Dataset) -> RowReader {
        RowReader::new(self.blocks(dataset, self.all(dataset)), columns(dataset), 0..u64::MAX)
    }

    /// The position of all rows of a dataset.
    pub(super) fn all(&self, dataset: &Dataset) -> Range<u64> {
        self.shares(dataset).into_iter().reduce(hull).unwrap_or_default()
    }
}

/// Encoded rows of raw requests, one after the other.
pub(super) struct PackedRows {
    batches: Batches,
    rows: BinaryArray,
    at: usize,
}

impl PackedRows {
    /// The rows in these batches of one column.
    pub(super) fn new(batches: Batches) -> Self {
        Self { batches, rows: BinaryArray::new_null(0), at: 0 }
    }

    /// The rows of a table in a piece.
    pub(super) fn open(piece: &Part, table: &str) -> Done<Self> {
        let file = File::open(&piece.path).and_then(PendingFile::open);
        let (file, dataset) = (file.map_err(unreadable(&piece.path))?, Dataset::raw(table));
        Ok(Self::new(file.blocks(&dataset, file.all(&dataset))))
    }

    /// The next row.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let has_next = self.peek()?.is_some();
        self.at += usize::from(has_next);
        Ok(has_next.then(|| self.rows.value(self.at - 1)))
    }

    /// Likewise, without consuming it.
    pub(super) fn peek(&mut self) -> io::Result<Option<&[u8]>> {
        while self.rows.len() <= self.at {
            let Some(batch) = self.batches.next().transpose()? else { return Ok(None) };
            let rows = batch.columns().first();
            let rows = rows.and_then(|rows| rows.as_binary_opt());
            let rows: &BinaryArray = rows.ok_or_else(|| damaged("its rows are not packed"))?;
            (self.rows, self.at) = (rows.clone(), 0);
        }
        Ok(Some(self.rows.value(self.at)))
    }
}

#[cfg(test)]
pub(super) mod tests;
