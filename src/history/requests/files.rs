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
//! | | the last two, and both memories | | NULL: it came as a span or from Squid, which do not tell |
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
use crate::pool::resolved::{Request, Rusage, Timer, tags_text};

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

/// A request, and how many it stands for.
pub(super) type Weighted<'r> = (Request<'r, Tags<'r>>, f64);

/// A row of a file, and everything that its cells are made from.
struct RequestRow<'r> {
    request: &'r Request<'r, Tags<'r>>,
    weight: f64,
    tags: String,
    exact: Option<String>,
}

/// Likewise of a timer, with its tags.
type TimerRow<'r> = (&'r Timers<'r>, &'r Timer<Tags<'r>>, String);

/// Likewise of a tag: its name and value.
type TagRow<'r> = (&'r Weighted<'r>, &'r str, &'r str);

/// The columns of a table's files, by name.
pub(in crate::history) fn columns(table: &str) -> Vec<(&'static str, Content)> {
    match table {
        super::REQUEST => REQUEST.iter().map(|column| (column.0, column.1)).collect(),
        super::TIMER => TIMER.iter().map(|column| (column.0, column.1)).collect(),
        _ => REQUEST_TAG.iter().map(|column| (column.0, column.1)).collect(),
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

/// The cell of a row in a column.
type OfRequest = for<'r> fn(&'r RequestRow<'r>) -> Cell<'r>;
type OfTimer = for<'r> fn(&'r TimerRow<'r>) -> Cell<'r>;
type OfTag = for<'r> fn(&'r TagRow<'r>) -> Cell<'r>;

/// The columns of files: names, contents, and the cells of a row.
const REQUEST: &[(&str, Content, OfRequest)] = &[
    ("run", Int, |row| big(row.request.run)),
    ("id", Delta, |row| big(row.request.id)),
    ("weight", Float, |row| Cell::Float(Some(row.weight))),
    ("received", Moment, |row| Cell::Moment(row.request.received.into())),
    ("hostname", Text, |row| text(row.request.hostname)),
    ("req_count", Int, |row| big(row.request.request_count.into())),
    ("server_name", Text, |row| text(row.request.server_name)),
    ("script_name", Text, |row| text(row.request.script_name)),
    ("doc_size_bytes", Delta, |row| big(row.request.document_size.into())),
    ("mem_peak_usage_bytes", Int, |row| row.memory(row.request.memory_peak)),
    ("req_time_us", Delta, |row| big(row.request.time_us)),
    ("ru_utime_us", Delta, |row| times(row.request.rusage)[0]),
    ("ru_stime_us", Delta, |row| times(row.request.rusage)[1]),
    ("timers_cnt", Int, |row| big(row.request.timers.into())),
    ("status", Int, |row| big(row.request.status.into())),
    ("memory_footprint_bytes", Int, |row| row.memory(row.request.memory_footprint)),
    ("schema", Text, |row| Cell::Text(row.request.schema)),
    ("tags_cnt", Int, |row| big(row.request.tags.len() as u64)),
    ("tags", Text, |row| text(&row.tags)),
    ("tags_exact", Text, |row| Cell::Text(row.exact.as_deref())),
];

const TIMER: &[(&str, Content, OfTimer)] = &[
    ("run", Int, |(of, ..)| big(of.run)),
    ("request_id", Delta, |(of, ..)| big(of.request)),
    ("id", Delta, |(_, timer, _)| big(timer.id)),
    ("hit_count", Int, |(_, timer, _)| big(timer.hit_count.into())),
    ("value_us", Delta, |(_, timer, _)| big(timer.value_us)),
    ("ru_utime_us", Delta, |(_, timer, _)| times(timer.rusage)[0]),
    ("ru_stime_us", Delta, |(_, timer, _)| times(timer.rusage)[1]),
    ("tags", Text, |(.., tags)| text(tags)),
    ("weight", Float, |(of, ..)| Cell::Float(Some(of.weight))),
    ("received", Moment, |(of, ..)| Cell::Moment(of.received.into())),
    ("start_us", Delta, |(_, timer, _)| Cell::Int(timer.rusage.start_us().map(u64::cast_signed))),
];

const REQUEST_TAG: &[(&str, Content, OfTag)] = &[
    ("run", Int, |(of, ..)| big(of.0.run)),
    ("request_id", Delta, |(of, ..)| big(of.0.id)),
    ("name", Text, |(_, name, _)| text(name)),
    ("value", Text, |(.., value)| text(value)),
    ("weight", Float, |(of, ..)| Cell::Float(Some(of.1))),
    ("received", Moment, |(of, ..)| Cell::Moment(of.0.received.into())),
];

impl RequestRow<'_> {
    /// Bytes of memory; NULL if they are not known.
    fn memory(&self, bytes: u32) -> Cell<'static> {
        Cell::Int(self.request.rusage.times_us().map(|_| bytes.into()))
    }
}

impl BatchBuilder {
    /// Adds a request.
    pub(super) fn push_request(&mut self, (request, weight): &Weighted<'_>) {
        let tags = request.tags.iter();
        let is_unclear =
            tags.clone().any(|(name, value)| name.contains([',', '=']) || value.contains(','));
        let exact = is_unclear.then(|| json(&request.tags));
        let row = RequestRow { request, weight: *weight, tags: tags_text(tags.copied()), exact };
        self.push_cells(REQUEST.iter().map(|column| column.2(&row)));
    }

    /// Adds the tags of a request.
    pub(super) fn push_tags(&mut self, of: &Weighted<'_>) {
        for &(name, value) in &of.0.tags {
            let row: TagRow<'_> = (of, name, value);
            self.push_cells(REQUEST_TAG.iter().map(|column| column.2(&row)));
        }
    }

    /// Adds the timers of a request.
    pub(super) fn push_timers(&mut self, of: &Timers<'_>) {
        for timer in &of.timers {
            let row: TimerRow<'_> = (of, timer, json(&timer.tags));
            self.push_cells(TIMER.iter().map(|column| column.2(&row)));
        }
    }
}

fn text(text: &str) -> Cell<'_> {
    Cell::Text(Some(text))
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
