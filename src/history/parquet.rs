//! Published files: the rows of one dataset and resolution in Parquet, for us and other programs,
//! with the columns of `columns`; tables of raw requests with those of `requests::files`.
//!
//! Rows of a report are sorted by key, then time. A file is written once and never changed.
//! Bounded: one row group in memory, some 128,000 rows.

use std::cmp::Ordering;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::columns::{BatchBuilder, Content, columns};
use super::disk::{Done, HISTORY_WRITE, failed};
use super::part::Section;
use super::requests::files;
use super::{Dataset, Resolution};
use crate::instruments::MeasuredWrite;
use crate::report::row_key::key_order;

mod read;
#[cfg(test)]
mod tests;

pub(crate) use self::read::ReadAs;
pub(super) use self::read::{Bounds, Opened, unpanicked};
pub use super::columns::Want;

/// The version of the format, in the metadata of every file.
pub const FORMAT: &str = "1";
/// Rows of a row group.
const GROUP_ROWS: usize = 128 << 10;
/// Rows converted to columns at once, and back.
pub(super) const BATCH_ROWS: usize = 8 << 10;
/// Most bytes of such a batch of raw requests.
const RAW_BATCH_BYTES: usize = 3 << 20;
/// Most bytes of a row group of raw requests while it is written.
const RAW_GROUP_BYTES: usize = 8 << 20;
/// Shorter files are not compressed.
const PLAIN_ROWS: usize = 512;
/// Bytes of a page of histograms, so that reading a few of them reads little else.
const HISTOGRAM_PAGE_BYTES: usize = 32 << 10;

/// The order of rows in a file, of keys and times: by the texts of the keys, then by time.
pub(super) fn order(a: (&[u8], u64), b: (&[u8], u64)) -> Ordering {
    key_order(a.0, b.0).then(a.1.cmp(&b.1))
}

/// Writes a file of a dataset: rows of a report in [`order`], or a table of raw requests.
pub(super) struct FileWriter {
    path: PathBuf,
    file: File,
    resolution: Resolution,
    /// Rows of the next batch.
    rows: BatchBuilder,
    section: Section,
    /// From the first batch on.
    writer: Option<ArrowWriter<MeasuredWrite<File>>>,
}

impl FileWriter {
    pub(super) fn new(
        (path, file): (PathBuf, File),
        dataset: &Arc<Dataset>,
        resolution: Resolution,
    ) -> Self {
        let rows = BatchBuilder::new(dataset, resolution, &columns(dataset), |_| true);
        let section = Section { dataset: Arc::clone(dataset), rows: 0 };
        Self { path, file, resolution, rows, section, writer: None }
    }

    /// Adds rows.
    pub(super) fn add(&mut self, push: impl FnOnce(&mut BatchBuilder)) -> Done {
        push(&mut self.rows);
        let is_long = self.section.dataset.is_raw() && self.rows.bytes >= RAW_BATCH_BYTES;
        match self.rows.rows >= BATCH_ROWS || is_long {
            true => self.end_batch().map_err(failed("write", &self.path)),
            false => Ok(()),
        }
    }

    fn end_batch(&mut self) -> io::Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(self.begin()?),
        };
        self.section.rows += self.rows.rows as u64;
        writer.write(&self.rows.finish())?;
        if self.section.dataset.is_raw() && writer.in_progress_size() > RAW_GROUP_BYTES {
            writer.flush()?;
        }
        Ok(())
    }

    /// A writer for a file that begins with these rows.
    fn begin(&self) -> io::Result<ArrowWriter<MeasuredWrite<File>>> {
        let properties = properties(&self.section.dataset, self.resolution, self.rows.rows);
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            // It would declare texts as dictionaries, and other readers would show them so.
            .with_skip_arrow_metadata(true);
        let to = MeasuredWrite::new(self.file.try_clone()?, &HISTORY_WRITE);
        Ok(ArrowWriter::try_new_with_options(to, Arc::clone(&self.rows.schema), options)?)
    }

    /// Ends the file; returns it with the number of its rows.
    pub(super) fn finish(mut self) -> Done<((PathBuf, File), Section)> {
        let ended = self.end_batch().and_then(|()| {
            self.writer.map(ArrowWriter::close).transpose()?;
            Ok(())
        });
        ended.map_err(failed("write", &self.path))?;
        Ok(((self.path, self.file), self.section))
    }
}

/// Properties of the columns.
fn properties(dataset: &Dataset, resolution: Resolution, first_rows: usize) -> WriterProperties {
    let columns = columns(dataset);
    let mut metadata = vec![("format", FORMAT.to_owned())];
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_write_batch_size(256)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(format!("pinbad {}", env!("CARGO_PKG_VERSION")));
    // And whether the largest comes first.
    let sorted: Vec<(usize, bool)> = if dataset.is_raw() {
        properties = properties.set_max_row_group_row_count(Some(files::GROUP_ROWS));
        let place = |name: &str| columns.iter().position(|it| it.0 == name);
        let sorted = files::sorted(&dataset.report).iter();
        sorted.filter_map(|(name, descending)| Some((place(name)?, *descending))).collect()
    } else {
        if first_rows < PLAIN_ROWS {
            // Setting up decompression of a column takes longer than reading it.
            properties = properties.set_compression(Compression::UNCOMPRESSED);
        }
        // Reading one key reads little else.
        properties = properties.set_data_page_row_count_limit(BATCH_ROWS);
        // A structure of texts and numbers: writing it as JSON cannot fail.
        metadata.push(("dataset", serde_json::to_string(dataset).unwrap_or_default()));
        metadata.push(("resolution", resolution.name().to_owned()));
        // The time comes before the keys.
        (1..=dataset.keys.len()).chain([0]).map(|place| (place, false)).collect()
    };
    let sorted = sorted.into_iter().map(|(place, descending)| SortingColumn {
        column_idx: place as i32,
        descending,
        nulls_first: false,
    });
    let metadata = metadata.into_iter();
    let metadata = metadata.map(|(key, value)| KeyValue::new(format!("pinbad.{key}"), value));
    properties = properties
        .set_sorting_columns(Some(sorted.collect()))
        .set_key_value_metadata(Some(metadata.collect()));
    for (name, content) in &columns {
        let path = ColumnPath::from(name.as_str());
        properties = match content {
            Content::Time | Content::Key(_) | Content::Status(_) => {
                properties.set_column_statistics_enabled(path, EnabledStatistics::Page)
            }
            // Numbers that seldom repeat.
            Content::Sum(_) | Content::Extreme(_) | Content::Delta => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            Content::Histogram | Content::Exact => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_statistics_enabled(path.clone(), EnabledStatistics::None)
                .set_column_data_page_size_limit(path, HISTOGRAM_PAGE_BYTES),
            _ => properties,
        };
    }
    properties.build()
}
