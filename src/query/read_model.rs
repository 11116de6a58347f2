//! What questions about the present are made of, and the answers to them.
//!
//! [`Catalog`](super::catalog::Catalog) answers over pools, reports and counters; front ends call it from threads that may
//! block. Each call takes a consistent view, copies or shares what it needs and lets go of every lock before it returns: no
//! answer refers to anything that ingest writes. How many calls run at once is bounded by the front end.

use std::ops::Range;

use super::question::{OfSpan, RequestName};
use super::table::Table;
pub use super::timer_groups::{
    HitsPerRequest, SlowTimer, TAG_NAMES_MAX, TimerGroup, TimerGroups, TimerSearch,
};
pub use crate::config::rewrite::{TEXT_FIELDS, TextField};
use crate::input::squid::activity::Measures;
use crate::profile::report::SampleMetric;
use crate::report::DefinedBy;
use crate::value::Column;

/// Metrics of a row of a report over samples that are wanted.
#[derive(Debug, Clone)]
pub struct SampleQuestion<'a> {
    /// A text for each key; `None`: all rows together.
    pub key: Option<&'a [String]>,
    /// What is drawn, a line each.
    pub metrics: &'a [&'static SampleMetric],
    /// Unix seconds.
    pub span: Range<u64>,
    /// Seconds from point to point.
    pub step: u64,
}

/// One report in the list of reports.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportSummary {
    /// The name under which it is read.
    pub name: String,
    /// `base`, `tag`, `rtag`, `v2/packet`, `v2/request`, `v2/timer`, `native`.
    pub kind: String,
    /// The COMMENT it came from or could have come from.
    pub comment: Option<String>,
    /// The names of its key columns, in column order.
    pub keys: Vec<String>,
    /// How far back it reaches, seconds.
    pub window_seconds: f64,
    /// Rows at present.
    pub rows: u64,
    /// Its columns.
    pub columns: Vec<Column>,
    /// The definition in the native form, as POST takes it.
    pub definition: serde_json::Value,
    /// Where it comes from.
    pub defined: DefinedBy,
    /// Whether it will be there after a restart.
    pub persistent: bool,
    /// Whether all data in memory that belongs to it is in it: false while a new report is being filled.
    pub complete: bool,
}

/// One report at one moment: its sums, that is. The percentiles of many rows may be of some
/// milliseconds later. Or over a span; compared with another, each number is followed by that of
/// before and by the change, and sums have no change where one of the spans was counted for longer
/// than the other.
#[derive(Debug)]
pub struct ReportAnswer {
    /// The report's window, or the span's length, seconds.
    pub window_seconds: f64,
    /// Seconds that the data really spans: at least 1, at most the window. Of a span, those in
    /// which requests were counted.
    pub covered_seconds: u64,
    /// Wall-clock milliseconds since 1970 at the moment of reading.
    pub as_of_ms: u64,
    /// The numbers of the columns whose equality can be asked for, in column order.
    pub key_columns: Vec<usize>,
    /// The rows, in no promised order. Columns of a span are to be [`load`](Table::load)ed before
    /// they are looked at.
    pub table: Box<dyn Table>,
    /// Of a span.
    pub of_span: Option<OfSpan>,
}

impl ReportAnswer {
    /// The names of the key columns.
    #[must_use]
    pub fn keys(&self) -> Vec<&str> {
        let columns = self.table.columns();
        let keys = self.key_columns.iter();
        keys.map(|key| columns[*key].name.as_str()).collect()
    }
}

/// Which raw requests are wanted. All conditions must hold; all bounds belong to the range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestSearch {
    /// At most this many rows.
    pub limit: usize,
    /// Only ids smaller than this: the next page.
    pub before_id: Option<u64>,
    /// `timestamp` at least this, whole unix seconds.
    pub since: Option<u64>,
    /// `timestamp` at most this, whole unix seconds.
    pub until: Option<u64>,
    /// `req_time` at least this, microseconds.
    pub min_time_us: Option<u64>,
    /// `req_time` at most this, microseconds.
    pub max_time_us: Option<u64>,
    /// Text columns and the exact text they must show; an absent schema equals the empty text.
    pub texts: Vec<(TextField, String)>,
    /// Whole-number columns and the number they must show.
    pub numbers: Vec<(NumberField, u64)>,
    /// Request tags, name and value: the first tag of that name must have that value.
    pub tags: Vec<(String, String)>,
    /// Whether the timers are wanted too; a page then ends early where they are very many.
    pub timers: bool,
}

impl RequestSearch {
    /// Whether there may be requests that do not match.
    #[must_use]
    pub fn has_conditions(&self) -> bool {
        let all = Self {
            limit: self.limit,
            timers: self.timers,
            ..Self::default()
        };
        *self != all
    }
}

/// A whole-number column of table `request` that can be searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NumberField {
    /// `req_count` as shown: 0 in a packet is 1.
    ReqCount,
    /// `timers_cnt`
    TimersCnt,
    /// `status`
    Status,
    /// `tags_cnt`
    TagsCnt,
    /// `timestamp`, unix seconds.
    Timestamp,
}

/// Some raw requests, the newest or the slowest first.
#[derive(Debug)]
pub struct RequestPage {
    /// Wall-clock milliseconds since 1970 at the moment of reading.
    pub as_of_ms: u64,
    /// The columns of table `request`; of a span also `run` and `weight`: for how many requests it stands.
    pub table: Box<dyn Table>,
    /// For each row its timers; empty when they were not asked for.
    pub timers: Vec<Vec<TimerDetail>>,
    /// What to ask for as `before_id` to get the next page; `None`: nothing older matches, as far as is known.
    pub next_before_id: Option<u64>,
    /// The same of a span, as `before`.
    pub next_before: Option<RequestName>,
    /// What the slowest in memory are the slowest of.
    pub scanned: Option<Scanned>,
    /// What is lacking, for people.
    pub partial: Vec<String>,
}

/// How the times of one row of a report are spread.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// What was counted: requests, or at timer level hits.
    pub count: u64,
    /// From the shortest times to the longest; buckets without any are left out. Empty: the report ran out of memory
    /// for histograms, or nothing was counted.
    pub buckets: Vec<DistributionBucket>,
}

/// Some neighbouring times and how many there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DistributionBucket {
    /// From this many microseconds on.
    pub low_us: u64,
    /// Up to, and without, this many microseconds.
    pub high_us: u64,
    /// How many.
    pub count: u64,
}

/// Which part of the raw rows an answer was made from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Requests looked at, whether they matched or not.
    pub requests: u64,
    /// When the oldest of them was received, unix seconds; 0: there was none.
    pub oldest: u32,
    /// Whether that was all there is.
    pub all: bool,
    /// Whether they are requests that history keeps, of which those that match are looked at; else those in memory.
    pub kept: bool,
    /// About how many there are of which these are a sample, taken from the whole span alike; `None`: they are none.
    pub sample_of: Option<u64>,
}

/// One step of a reader that follows the requests as they are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowStep {
    /// Where it stands: only requests with larger ids are looked at.
    pub after_id: u64,
    /// At most this many rows.
    pub rows_max: usize,
    /// No further row once their texts have this many bytes.
    pub bytes_max: usize,
    /// Whether it wants the timers too.
    pub timers: bool,
    /// Whether it wants only some: then it goes on behind the youngest request whatever it got, and nothing is missed.
    pub sample: bool,
}

/// What a reader found.
#[derive(Debug)]
pub struct Followed {
    /// The columns of table `request`, or `sample`, the oldest row first.
    pub table: Box<dyn Table>,
    /// For each row its timers; empty when they were not asked for.
    pub timers: Vec<Vec<TimerDetail>>,
    /// Where the reader stands now.
    pub after_id: u64,
    /// Requests before these rows that the reader comes too late for: those that matched, and those that were gone before it
    /// could be known whether they match.
    pub missed: u64,
    /// Whether there is more to look at already.
    pub more: bool,
}

/// One raw request in full.
#[derive(Debug)]
pub struct RequestDetail {
    /// Its row of table `request`: exactly one.
    pub row: Box<dyn Table>,
    /// Its request tags, name and value, in packet order; a name may come more than once.
    pub tags: Vec<(String, String)>,
    /// Its timers in packet order.
    pub timers: Vec<TimerDetail>,
    /// What Squid said of its activities, if it is one of Squid's.
    pub activities: Option<Measures>,
}

/// One timer of a raw request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimerDetail {
    /// Its row in table `timer`.
    pub id: u64,
    /// How often it was hit.
    pub hit_count: u32,
    /// All hits together, microseconds.
    pub value_us: u64,
    /// User CPU, microseconds.
    pub ru_utime_us: u64,
    /// System CPU, microseconds.
    pub ru_stime_us: u64,
    /// Its tags, name and value, in packet order; a name may come more than once.
    pub tags: Vec<(String, String)>,
}
