//! Files of requests: Parquet, for us and other programs.
//!
//! | file | column | type | |
//! |---|---|---|---|
//! | all | `run`, `id` or `request_id` | INT64 | together they name one request for ever |
//! | `request` | `weight` | DOUBLE | how many requests it stands for: 1, or more where they were sampled |
//! | | `received` | TIMESTAMP (ms, UTC) | `timestamp` of the table |
//! | | `hostname`, `server_name`, `script_name`, `schema`, `tags` | UTF8 | `schema` is NULL where none was sent |
//! | | `req_count`, `timers_cnt`, `status`, `tags_cnt` | INT64 | |
//! | | `tags_exact` | UTF8 | NULL, but where `tags` could be read in two ways: as those of timers |
//! | | `doc_size_bytes`, `mem_peak_usage_bytes`, `memory_footprint_bytes` | INT64 | the table shows KiB |
//! | | `req_time_us`, `ru_utime_us`, `ru_stime_us` | INT64 | microseconds, exact; the table shows seconds |
//! | | the last two, and both memories | | NULL: it came as a span, which does not tell |
//! | `timer` | `id`, `hit_count` | INT64 | |
//! | | `value_us`, `ru_utime_us`, `ru_stime_us` | INT64 | microseconds; the last two NULL if it came as a span |
//! | | `start_us` | INT64 | begin after its request, microseconds; NULL unless it came as a span |
//! | | `tags` | UTF8 | a JSON object in packet order: a name may come twice, which no MAP allows |
//! | `request_tag` | `name`, `value` | UTF8 | |
//! | both | `weight`, `received` | DOUBLE, TIMESTAMP | those of the request |
//!
//! Requests are sorted by time, longest first, and so are their tags; timers by request, in packet
//! order. The longest requests of a span are in the first row groups of its files, the timers of a
//! request adjacent. Columns are only ever added. Bounded: a row group of each file being written,
//! some megabytes.

use std::fs::File;
use std::io;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_writer::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::packed::{Tags, Timers};
use crate::history::columns::{Cell, Column, moment};
use crate::history::parquet::{BATCH_ROWS, common_properties, with_deltas, writer};
use crate::instruments::MeasuredWrite;
use crate::pool::resolved::{Request, Rusage, tags_text};

/// Rows of a row group.
pub(super) const GROUP_ROWS: usize = if cfg!(test) { 8 << 10 } else { 128 << 10 };
/// Most bytes of a row group while it is written.
const GROUP_BYTES: usize = 8 << 20;
/// Bytes of texts in them.
const BATCH_BYTES: usize = 2 << 20;

/// How a column is written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Numbers that mostly repeat.
    Int,
    /// Distinct numbers.
    Delta,
    Float,
    Text,
    Moment,
}

use Kind::{Delta, Float, Int, Moment, Text};

/// The conversion of a column for a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// None.
    Same,
    /// Microseconds to seconds.
    Seconds,
    /// Bytes to KiB.
    Kib,
    /// A time to a unix second.
    Second,
    /// A time that is a whole second.
    Time,
}

/// A column of a file, and its form in tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileColumn {
    pub(super) name: &'static str,
    kind: Kind,
    /// The name and conversion in tables.
    pub(super) shown: (&'static str, Form),
}

impl FileColumn {
    pub(super) fn data_type(&self) -> DataType {
        match self.kind {
            Int | Delta => DataType::Int64,
            Float => DataType::Float64,
            Text => DataType::Utf8,
            Moment => moment(),
        }
    }
}

/// A column shown as stored.
const fn same(name: &'static str, kind: Kind) -> FileColumn {
    let shown = (name, Form::Same);
    FileColumn { name, kind, shown }
}

/// Microseconds, shown as seconds.
const fn micros(name: &'static str, shown: &'static str) -> FileColumn {
    FileColumn { name, kind: Delta, shown: (shown, Form::Seconds) }
}

/// Bytes, shown as KiB.
const fn bytes(name: &'static str, kind: Kind, shown: &'static str) -> FileColumn {
    let shown = (shown, Form::Kib);
    FileColumn { name, kind, shown }
}

/// Columns that may be NULL.
const NULLABLE: [&str; 7] = [
    "schema",
    "tags_exact",
    "mem_peak_usage_bytes",
    "memory_footprint_bytes",
    "ru_utime_us",
    "ru_stime_us",
    "start_us",
];

/// One of the files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) columns: &'static [FileColumn],
    /// Columns that rows are sorted by, and whether the largest comes first.
    sorted: &'static [(&'static str, bool)],
}

const REQUEST: Layout = Layout {
    columns: &[
        same("run", Int),
        same("id", Delta),
        same("weight", Float),
        same("received", Moment),
        same("hostname", Text),
        same("req_count", Int),
        same("server_name", Text),
        same("script_name", Text),
        bytes("doc_size_bytes", Delta, "doc_size"),
        bytes("mem_peak_usage_bytes", Int, "mem_peak_usage"),
        micros("req_time_us", "req_time"),
        micros("ru_utime_us", "ru_utime"),
        micros("ru_stime_us", "ru_stime"),
        same("timers_cnt", Int),
        same("status", Int),
        bytes("memory_footprint_bytes", Int, "memory_footprint"),
        same("schema", Text),
        same("tags_cnt", Int),
        same("tags", Text),
        same("tags_exact", Text),
    ],
    sorted: &[("req_time_us", true)],
};

const TIMER: Layout = Layout {
    columns: &[
        same("run", Int),
        same("request_id", Delta),
        same("id", Delta),
        same("hit_count", Int),
        micros("value_us", "value"),
        micros("ru_utime_us", "ru_utime"),
        micros("ru_stime_us", "ru_stime"),
        same("tags", Text),
        same("weight", Float),
        same("received", Moment),
        micros("start_us", "start"),
    ],
    sorted: &[("run", false), ("request_id", false), ("id", false)],
};

const REQUEST_TAG: Layout = Layout {
    columns: &[
        same("run", Int),
        same("request_id", Delta),
        same("name", Text),
        same("value", Text),
        same("weight", Float),
        same("received", Moment),
    ],
    sorted: &[],
};

/// Rows being converted to columns, for a file or a reader.
pub(super) struct Rows {
    schema: SchemaRef,
    /// The wanted columns.
    columns: Vec<Option<Column>>,
    pub(super) len: usize,
    text_bytes: usize,
}

impl Rows {
    /// Without rows, in the wanted columns.
    pub(super) fn new(layout: Layout, is_wanted: impl Fn(&str) -> bool) -> Self {
        let wanted = layout.columns.iter().filter(|it| is_wanted(it.name));
        let field =
            |it: &FileColumn| Field::new(it.name, it.data_type(), NULLABLE.contains(&it.name));
        let columns = layout.columns.iter();
        let columns = columns.map(|it| is_wanted(it.name).then(|| Column::new(&it.data_type())));
        Self {
            schema: Arc::new(Schema::new(wanted.map(field).collect::<Vec<_>>())),
            columns: columns.collect(),
            len: 0,
            text_bytes: 0,
        }
    }

    /// Adds a row: a value for each column of the layout.
    fn push<const N: usize>(&mut self, row: [Cell<'_>; N]) {
        for (column, cell) in self.columns.iter_mut().zip(row) {
            let Some(column) = column else { continue };
            if let Cell::Text(Some(text)) = cell {
                self.text_bytes += text.len();
            }
            column.push(cell);
        }
        self.len += 1;
    }

    /// Adds a request.
    pub(super) fn push_request(&mut self, request: &Request<'_, Tags<'_>>, weight: f64) {
        let tags = request.tags.iter();
        let is_unclear =
            tags.clone().any(|(name, value)| name.contains([',', '=']) || value.contains(','));
        let exact = is_unclear.then(|| json(&request.tags));
        let tags = tags_text(tags.copied());
        let int = |value: u32| big(value.into());
        let text = |text| Cell::Text(Some(text));
        let [user, system] = times(request.rusage);
        let memory = |bytes: u32| Cell::Int(request.rusage.times_us().map(|_| bytes.into()));
        self.push([
            big(request.run),
            big(request.id),
            Cell::Float(Some(weight)),
            Cell::Moment(request.received.into()),
            text(request.hostname),
            int(request.request_count),
            text(request.server_name),
            text(request.script_name),
            int(request.document_size),
            memory(request.memory_peak),
            big(request.time_us),
            user,
            system,
            int(request.timers.into()),
            int(request.status),
            memory(request.memory_footprint),
            Cell::Text(request.schema),
            big(request.tags.len() as u64),
            text(&tags),
            Cell::Text(exact.as_deref()),
        ]);
    }

    /// Adds the tags of a request.
    pub(super) fn push_tags(&mut self, request: &Request<'_, Tags<'_>>, weight: f64) {
        for (name, value) in &request.tags {
            self.push([
                big(request.run),
                big(request.id),
                Cell::Text(Some(name)),
                Cell::Text(Some(value)),
                Cell::Float(Some(weight)),
                Cell::Moment(request.received.into()),
            ]);
        }
    }

    /// Adds the timers of a request.
    pub(super) fn push_timers(&mut self, of: &Timers<'_>) {
        for timer in &of.timers {
            let [user, system] = times(timer.rusage);
            self.push([
                big(of.run),
                big(of.request),
                big(timer.id),
                big(timer.hit_count.into()),
                big(timer.value_us),
                user,
                system,
                Cell::Text(Some(&json(&timer.tags))),
                Cell::Float(Some(of.weight)),
                Cell::Moment(of.received.into()),
                Cell::Int(timer.rusage.start_us().map(u64::cast_signed)),
            ]);
        }
    }

    /// Whether they are enough for a batch.
    fn is_full(&self) -> bool {
        self.len >= BATCH_ROWS || self.text_bytes >= BATCH_BYTES
    }

    /// Takes them as a batch.
    pub(super) fn take(&mut self) -> io::Result<RecordBatch> {
        let columns = self.columns.iter_mut().flatten();
        let arrays = columns.map(Column::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.len));
        (self.len, self.text_bytes) = (0, 0);
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options);
        batch.map_err(io::Error::other)
    }
}

/// A file being written.
pub(super) struct FileWriter<'f> {
    rows: Rows,
    written: u64,
    writer: ArrowWriter<MeasuredWrite<&'f mut File>>,
}

impl<'f> FileWriter<'f> {
    pub(super) fn new(file: &'f mut File, layout: Layout) -> io::Result<Self> {
        let rows = Rows::new(layout, |_| true);
        Ok(Self { writer: writer(file, &rows.schema, layout.properties())?, rows, written: 0 })
    }

    /// Adds the rows of a request. In `request` the longest come first; in `timer` they are in
    /// order.
    pub(super) fn add(&mut self, push: impl FnOnce(&mut Rows)) -> io::Result<()> {
        push(&mut self.rows);
        match self.rows.is_full() {
            true => self.end_batch(),
            false => Ok(()),
        }
    }

    fn end_batch(&mut self) -> io::Result<()> {
        self.written += self.rows.len as u64;
        self.writer.write(&self.rows.take()?)?;
        if self.writer.in_progress_size() > GROUP_BYTES {
            self.writer.flush()?;
        }
        Ok(())
    }

    /// Ends the file; returns the number of its rows.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.end_batch()?;
        self.writer.finish()?;
        Ok(self.written)
    }
}

impl Layout {
    /// The layout of a table.
    pub(super) fn of(table: &str) -> Self {
        match table {
            super::REQUEST => REQUEST,
            super::TIMER => TIMER,
            _ => REQUEST_TAG,
        }
    }

    fn properties(self) -> WriterProperties {
        let place = |name| self.columns.iter().position(|it| it.name == name);
        let sorted = self.sorted.iter();
        let sorted = sorted.filter_map(|&(name, descending)| Some((place(name)?, descending)));
        let deltas = self.columns.iter().filter(|it| it.kind == Delta);
        let deltas = deltas.map(|column| column.name);
        let properties =
            common_properties(sorted, &[]).set_max_row_group_row_count(Some(GROUP_ROWS));
        deltas.fold(properties, with_deltas).build()
    }
}

/// CPU times; NULL if they are not known.
fn times(of: Rusage) -> [Cell<'static>; 2] {
    let times = of.times_us().map(|times| times.map(u64::cast_signed));
    [0, 1].map(|at| Cell::Int(times.map(|times| times[at])))
}

/// A number of up to 64 bits.
fn big(value: u64) -> Cell<'static> {
    Cell::Int(Some(value.cast_signed()))
}

/// Tags as a JSON object, in order.
fn json(tags: &Tags<'_>) -> String {
    let mut text = vec![b'{'];
    for (at, (name, value)) in tags.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        // Texts, into memory: this cannot fail.
        let _written = serde_json::to_writer(&mut text, name);
        text.push(b':');
        let _written = serde_json::to_writer(&mut text, value);
    }
    text.push(b'}');
    String::from_utf8(text).unwrap_or_default()
}
