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

use datafusion::arrow::datatypes::{DataType, Field};
use parquet::file::properties::WriterProperties;

use super::packed::{Tags, Timers};
use crate::history::columns::{BatchBuilder, Cell, Content, moment};
use crate::history::parquet::{common_properties, with_deltas};
use crate::pool::resolved::{Request, Rusage, tags_text};

/// Rows of a row group.
pub(super) const GROUP_ROWS: usize = if cfg!(test) { 8 << 10 } else { 128 << 10 };

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

/// A column of a file: its name, with its unit, and how it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileColumn {
    pub(super) name: &'static str,
    kind: Kind,
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

    /// The name and conversion in tables: microseconds are shown as seconds, bytes as KiB.
    pub(super) fn shown(&self) -> (&'static str, Form) {
        let seconds = self.name.strip_suffix("_us").map(|name| (name, Form::Seconds));
        let kib = self.name.strip_suffix("_bytes").map(|name| (name, Form::Kib));
        seconds.or(kib).unwrap_or((self.name, Form::Same))
    }
}

const fn column(name: &'static str, kind: Kind) -> FileColumn {
    FileColumn { name, kind }
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
pub(in crate::history) struct Layout {
    pub(super) columns: &'static [FileColumn],
    /// Columns that rows are sorted by, and whether the largest comes first.
    sorted: &'static [(&'static str, bool)],
}

const REQUEST: Layout = Layout {
    columns: &[
        column("run", Int),
        column("id", Delta),
        column("weight", Float),
        column("received", Moment),
        column("hostname", Text),
        column("req_count", Int),
        column("server_name", Text),
        column("script_name", Text),
        column("doc_size_bytes", Delta),
        column("mem_peak_usage_bytes", Int),
        column("req_time_us", Delta),
        column("ru_utime_us", Delta),
        column("ru_stime_us", Delta),
        column("timers_cnt", Int),
        column("status", Int),
        column("memory_footprint_bytes", Int),
        column("schema", Text),
        column("tags_cnt", Int),
        column("tags", Text),
        column("tags_exact", Text),
    ],
    sorted: &[("req_time_us", true)],
};

const TIMER: Layout = Layout {
    columns: &[
        column("run", Int),
        column("request_id", Delta),
        column("id", Delta),
        column("hit_count", Int),
        column("value_us", Delta),
        column("ru_utime_us", Delta),
        column("ru_stime_us", Delta),
        column("tags", Text),
        column("weight", Float),
        column("received", Moment),
        column("start_us", Delta),
    ],
    sorted: &[("run", false), ("request_id", false), ("id", false)],
};

const REQUEST_TAG: Layout = Layout {
    columns: &[
        column("run", Int),
        column("request_id", Delta),
        column("name", Text),
        column("value", Text),
        column("weight", Float),
        column("received", Moment),
    ],
    sorted: &[],
};

impl BatchBuilder {
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
        self.push_cells([
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
            self.push_cells([
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
            self.push_cells([
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
}

impl Layout {
    /// The layout of a table.
    pub(in crate::history) fn of(table: &str) -> Self {
        match table {
            super::REQUEST => REQUEST,
            super::TIMER => TIMER,
            _ => REQUEST_TAG,
        }
    }

    /// A builder of batches with the wanted ones of its columns.
    pub(in crate::history) fn rows(self, is_wanted: impl Fn(&str) -> bool) -> BatchBuilder {
        BatchBuilder::of(self.columns.iter().map(|it| {
            let field = Field::new(it.name, it.data_type(), NULLABLE.contains(&it.name));
            (Content::Raw, field, is_wanted(it.name))
        }))
    }

    pub(in crate::history) fn properties(self) -> WriterProperties {
        let place = |name| self.columns.iter().position(|it| it.name == name);
        let sorted = self.sorted.iter();
        let sorted = sorted.filter_map(|&(name, descending)| Some((place(name)?, descending)));
        let properties =
            common_properties(sorted, &[]).set_max_row_group_row_count(Some(GROUP_ROWS));
        let deltas = self.columns.iter().filter(|it| it.kind == Delta);
        deltas.fold(properties, |properties, it| with_deltas(properties, it.name)).build()
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
