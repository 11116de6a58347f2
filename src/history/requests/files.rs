//! Files of requests: Parquet, for us and for any other program that reads it.
//!
//! | file | column | type | |
//! |---|---|---|---|
//! | all | `run`, `id` or `request_id` | INT64 | together they name one request for ever |
//! | `request` | `weight` | DOUBLE | how many requests it stands for: 1, or more where they were sampled |
//! | | `received` | TIMESTAMP (ms, UTC) | `timestamp` of the table |
//! | | `hostname`, `server_name`, `script_name`, `schema`, `tags` | UTF8 | `schema` is NULL where none was sent |
//! | | `req_count`, `timers_cnt`, `status`, `tags_cnt` | INT64 | |
//! | | `doc_size_bytes`, `mem_peak_usage_bytes`, `memory_footprint_bytes` | INT64 | the table shows KiB |
//! | | `req_time_us`, `ru_utime_us`, `ru_stime_us` | INT64 | microseconds, exact; the table shows seconds |
//! | `timer` | `id`, `hit_count` | INT64 | |
//! | | `value_us`, `ru_utime_us`, `ru_stime_us` | INT64 | microseconds |
//! | | `tags` | UTF8 | a JSON object in packet order: a name may come twice, which no MAP allows |
//! | `request_tag` | `name`, `value` | UTF8 | |
//!
//! Requests are sorted by their time, the longest first, and so are their tags; timers by request, in the order in which they
//! came. The longest requests of a span are in the first row groups of its files, the timers of a request side by side. Columns
//! are only ever added. Bounded: a row group of each file that is written, in some megabytes.

use std::fs::File;
use std::io;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Float64Builder, Int64Builder, RecordBatch, StringBuilder, TimestampMillisecondBuilder,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::packed::{Request, Tags, Timer};
use crate::history::parquet::{FORMAT, Written};

/// Rows of a row group.
const GROUP_ROWS: usize = 128 << 10;
/// What a row group may take while it is written, bytes.
const GROUP_BYTES: usize = 8 << 20;
/// Rows that are put into columns at once.
const BATCH_ROWS: usize = 8 << 10;
/// Bytes of texts in them.
const BATCH_BYTES: usize = 2 << 20;

/// How a column is written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Numbers of which most are seen again and again.
    Int,
    /// Numbers that differ.
    Delta,
    Float,
    Text,
    Moment,
}

use Kind::{Delta, Float, Int, Moment, Text};

/// One of the files.
#[derive(Debug, Clone, Copy)]
struct Layout {
    columns: &'static [(&'static str, Kind)],
    /// Columns that rows are sorted by, and whether the largest comes first.
    sorted: &'static [(&'static str, bool)],
}

const REQUEST: Layout = Layout {
    columns: &[
        ("run", Int),
        ("id", Delta),
        ("weight", Float),
        ("received", Moment),
        ("hostname", Text),
        ("req_count", Int),
        ("server_name", Text),
        ("script_name", Text),
        ("doc_size_bytes", Delta),
        ("mem_peak_usage_bytes", Int),
        ("req_time_us", Delta),
        ("ru_utime_us", Delta),
        ("ru_stime_us", Delta),
        ("timers_cnt", Int),
        ("status", Int),
        ("memory_footprint_bytes", Int),
        ("schema", Text),
        ("tags_cnt", Int),
        ("tags", Text),
    ],
    sorted: &[("req_time_us", true)],
};

const TIMER: Layout = Layout {
    columns: &[
        ("run", Int),
        ("request_id", Delta),
        ("id", Delta),
        ("hit_count", Int),
        ("value_us", Delta),
        ("ru_utime_us", Delta),
        ("ru_stime_us", Delta),
        ("tags", Text),
    ],
    sorted: &[("run", false), ("request_id", false), ("id", false)],
};

const REQUEST_TAG: Layout = Layout {
    columns: &[
        ("run", Int),
        ("request_id", Delta),
        ("name", Text),
        ("value", Text),
    ],
    sorted: &[],
};

/// A value of a row.
#[derive(Debug, Clone, Copy)]
enum Cell<'a> {
    Int(u64),
    Float(f64),
    Text(Option<&'a str>),
    /// A unix second.
    Moment(u32),
}

/// A column in the making.
#[derive(Debug)]
enum Column {
    Int(Int64Builder),
    Float(Float64Builder),
    Text(StringBuilder),
    Moment(TimestampMillisecondBuilder),
}

impl Column {
    fn new(kind: Kind) -> Self {
        match kind {
            Int | Delta => Self::Int(Int64Builder::new()),
            Float => Self::Float(Float64Builder::new()),
            Text => Self::Text(StringBuilder::new()),
            Moment => {
                let moments = TimestampMillisecondBuilder::new();
                Self::Moment(moments.with_timezone("UTC"))
            }
        }
    }

    fn push(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Self::Int(to), Cell::Int(value)) => to.append_value(value.cast_signed()),
            (Self::Float(to), Cell::Float(value)) => to.append_value(value),
            (Self::Text(to), Cell::Text(value)) => to.append_option(value),
            (Self::Moment(to), Cell::Moment(secs)) => to.append_value(i64::from(secs) * 1_000),
            (column, cell) => unreachable!("{cell:?} in {column:?}"),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int(from) => Arc::new(from.finish()),
            Self::Float(from) => Arc::new(from.finish()),
            Self::Text(from) => Arc::new(from.finish()),
            Self::Moment(from) => Arc::new(from.finish()),
        }
    }
}

/// A file that is written.
#[derive(Debug)]
struct FileWriter<'f> {
    schema: Arc<Schema>,
    columns: Vec<Column>,
    rows: usize,
    text_bytes: usize,
    written: Written,
    writer: ArrowWriter<&'f mut File>,
}

impl<'f> FileWriter<'f> {
    fn new(file: &'f mut File, layout: Layout) -> io::Result<Self> {
        let fields = layout.columns.iter().map(|&(name, kind)| {
            let data_type = match kind {
                Int | Delta => DataType::Int64,
                Float => DataType::Float64,
                Text => DataType::Utf8,
                Moment => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
            };
            Field::new(name, data_type, name == "schema")
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = ArrowWriterOptions::new()
            .with_properties(layout.properties())
            .with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(file, Arc::clone(&schema), options)?;
        let kinds = layout.columns.iter();
        Ok(Self {
            schema,
            columns: kinds.map(|&(_, kind)| Column::new(kind)).collect(),
            rows: 0,
            text_bytes: 0,
            written: Written { rows: 0, bytes: 0 },
            writer,
        })
    }

    /// Adds a row: a value for each column.
    fn push<const N: usize>(&mut self, row: [Cell<'_>; N]) -> io::Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(row) {
            if let Cell::Text(Some(text)) = cell {
                self.text_bytes += text.len();
            }
            column.push(cell);
        }
        self.rows += 1;
        if self.rows == BATCH_ROWS || self.text_bytes >= BATCH_BYTES {
            self.end_batch()?;
        }
        Ok(())
    }

    fn end_batch(&mut self) -> io::Result<()> {
        let arrays = self.columns.iter_mut().map(Column::finish).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
        self.writer.write(&batch.map_err(io::Error::other)?)?;
        if self.writer.in_progress_size() > GROUP_BYTES {
            self.writer.flush()?;
        }
        self.written.rows += self.rows as u64;
        (self.rows, self.text_bytes) = (0, 0);
        Ok(())
    }

    fn finish(mut self) -> io::Result<Written> {
        self.end_batch()?;
        self.writer.finish()?;
        let bytes = self.writer.bytes_written() as u64;
        Ok(Written {
            bytes,
            ..self.written
        })
    }
}

impl Layout {
    fn properties(self) -> WriterProperties {
        let place = |name| self.columns.iter().position(|&(column, _)| column == name);
        let sorting = self.sorted.iter().filter_map(|&(name, descending)| {
            Some(SortingColumn {
                column_idx: place(name)?.try_into().ok()?,
                descending,
                nulls_first: false,
            })
        });
        let metadata = KeyValue::new("pinbad.format".to_owned(), FORMAT.to_owned());
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_write_batch_size(256)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_sorting_columns(Some(sorting.collect()))
            .set_created_by(format!("pinbad {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(vec![metadata]));
        for &(name, _) in self.columns.iter().filter(|(_, kind)| *kind == Delta) {
            let path = ColumnPath::from(name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        properties.build()
    }
}

/// Writes the files `request` and `request_tag`.
#[derive(Debug)]
pub(super) struct RequestWriter<'f> {
    requests: FileWriter<'f>,
    tags: FileWriter<'f>,
}

impl<'f> RequestWriter<'f> {
    pub(super) fn new(requests: &'f mut File, tags: &'f mut File) -> io::Result<Self> {
        Ok(Self {
            requests: FileWriter::new(requests, REQUEST)?,
            tags: FileWriter::new(tags, REQUEST_TAG)?,
        })
    }

    /// Adds a request: none that took longer comes later.
    pub(super) fn push(&mut self, request: &Request<'_, Tags<'_>>, weight: f64) -> io::Result<()> {
        let (run, id) = (Cell::Int(request.run), Cell::Int(request.id));
        for &(name, value) in &request.tags {
            let text = |text| Cell::Text(Some(text));
            self.tags.push([run, id, text(name), text(value)])?;
        }
        let tags = request.tags.iter();
        let tags: Vec<_> = tags
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let tags = tags.join(",");
        let int = |value: u32| Cell::Int(value.into());
        let text = |text| Cell::Text(Some(text));
        self.requests.push([
            run,
            id,
            Cell::Float(weight),
            Cell::Moment(request.received),
            text(request.hostname),
            int(request.request_count),
            text(request.server_name),
            text(request.script_name),
            int(request.document_size),
            int(request.memory_peak),
            Cell::Int(request.time_us),
            Cell::Int(request.ru_utime_us),
            Cell::Int(request.ru_stime_us),
            int(request.timers.into()),
            int(request.status),
            int(request.memory_footprint),
            Cell::Text(request.schema),
            Cell::Int(request.tags.len() as u64),
            text(&tags),
        ])
    }

    /// Ends the files; what is in each.
    pub(super) fn finish(self) -> io::Result<[Written; 2]> {
        Ok([self.requests.finish()?, self.tags.finish()?])
    }
}

/// Writes the file `timer`.
#[derive(Debug)]
pub(super) struct TimerWriter<'f>(FileWriter<'f>);

impl<'f> TimerWriter<'f> {
    pub(super) fn new(file: &'f mut File) -> io::Result<Self> {
        FileWriter::new(file, TIMER).map(Self)
    }

    /// Adds a timer: in the order of requests.
    pub(super) fn push(
        &mut self,
        run: u64,
        request: u64,
        timer: &Timer<Tags<'_>>,
    ) -> io::Result<()> {
        self.0.push([
            Cell::Int(run),
            Cell::Int(request),
            Cell::Int(timer.id),
            Cell::Int(timer.hit_count.into()),
            Cell::Int(timer.value_us),
            Cell::Int(timer.ru_utime_us),
            Cell::Int(timer.ru_stime_us),
            Cell::Text(Some(&json(&timer.tags)?)),
        ])
    }

    /// Ends the file; what is in it.
    pub(super) fn finish(self) -> io::Result<Written> {
        self.0.finish()
    }
}

/// Tags as a JSON object, in their order.
fn json(tags: &Tags<'_>) -> io::Result<String> {
    let mut text = vec![b'{'];
    for (at, (name, value)) in tags.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        serde_json::to_writer(&mut text, name)?;
        text.push(b':');
        serde_json::to_writer(&mut text, value)?;
    }
    text.push(b'}');
    String::from_utf8(text).map_err(io::Error::other)
}
