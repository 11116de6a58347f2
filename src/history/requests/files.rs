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

use serde::Serializer as _;

use super::packed::{Tags, Timers};
use crate::history::columns::Content::{self, Delta, Float, Int, Moment, Text};
use crate::history::columns::{BatchBuilder, Cell};
use crate::pool::resolved::{Request, Rusage, tags_text};

/// Rows of a row group.
pub(in crate::history) const GROUP_ROWS: usize = if cfg!(test) { 8 << 10 } else { 128 << 10 };

/// Columns that may be NULL.
pub(in crate::history) const NULLABLE: [&str; 7] = [
    "schema",
    "tags_exact",
    "mem_peak_usage_bytes",
    "memory_footprint_bytes",
    "ru_utime_us",
    "ru_stime_us",
    "start_us",
];

/// The columns of a file, by name.
type FileColumns = &'static [(&'static str, Content)];

/// The columns of a table's files.
pub(in crate::history) fn columns(table: &str) -> FileColumns {
    match table {
        super::REQUEST => REQUEST,
        super::TIMER => TIMER,
        _ => REQUEST_TAG,
    }
}

/// Those that rows are sorted by, and whether the largest comes first.
pub(in crate::history) fn sorted(table: &str) -> &'static [(&'static str, bool)] {
    match table {
        super::REQUEST => &[("req_time_us", true)],
        super::TIMER => &[("run", false), ("request_id", false), ("id", false)],
        _ => &[],
    }
}

const REQUEST: FileColumns = &[
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
    ("tags_exact", Text),
];

const TIMER: FileColumns = &[
    ("run", Int),
    ("request_id", Delta),
    ("id", Delta),
    ("hit_count", Int),
    ("value_us", Delta),
    ("ru_utime_us", Delta),
    ("ru_stime_us", Delta),
    ("tags", Text),
    ("weight", Float),
    ("received", Moment),
    ("start_us", Delta),
];

const REQUEST_TAG: FileColumns = &[
    ("run", Int),
    ("request_id", Delta),
    ("name", Text),
    ("value", Text),
    ("weight", Float),
    ("received", Moment),
];

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
    let mut text = Vec::new();
    // Texts, into memory: this cannot fail.
    let _written = serde_json::Serializer::new(&mut text).collect_map(tags.iter().copied());
    String::from_utf8(text).unwrap_or_default()
}
