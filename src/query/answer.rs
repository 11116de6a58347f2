//! Answers of the catalog.
//!
//! An answer owns, or shares without locks, all it shows: nothing in it refers to anything that
//! ingest writes, so a slow client holds memory and never a lock.

use std::collections::BTreeSet;

use super::question::{RequestName, Spans};
use super::table::Table;
use crate::config::suggest;
use crate::input::squid::activity::Measures;
use crate::pool::resolved::Timer;
use crate::report::DefinedBy;
use crate::series::Lines;
use crate::value::Column;

/// Most rows among whose keys one that may be meant is looked for.
pub(crate) const MEANT_ROWS: usize = 2_000;

/// The column with all keys as one text. Rows can be selected by it, but other keys name them: only
/// a histogram view has no other.
pub const INDEX_VALUE: &str = "index_value";

/// One report in the list of reports.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportSummary {
    /// Its name.
    pub name: String,
    /// `base`, `tag`, `rtag`, `v2/packet`, `v2/request`, `v2/timer`, `native`.
    pub kind: String,
    /// The COMMENT it came from or could have come from.
    pub comment: Option<String>,
    /// The names of its key columns, in column order.
    pub keys: Vec<String>,
    /// Length of the window in seconds.
    pub window_seconds: f64,
    /// Current number of rows.
    pub rows: u64,
    /// Its columns.
    pub columns: Vec<Column>,
    /// The definition in the native form, as POST accepts it.
    pub definition: serde_json::Value,
    /// Percentiles from here on, in seconds, are of times that may be any longer.
    pub open_from: Option<f64>,
    /// The source of its definition.
    pub defined: DefinedBy,
    /// Whether it survives a restart.
    pub persistent: bool,
    /// What it lacks, for people.
    pub partial: Vec<String>,
}

impl ReportSummary {
    /// Whether it is a histogram view, of which a question chooses one row by its key.
    pub fn is_view(&self) -> bool {
        self.keys.first().is_some_and(|key| key == INDEX_VALUE)
    }
}

/// A report at one moment, or over a span. Sums are of one moment; percentiles of large reports may
/// be a few milliseconds newer. In a comparison each number is followed by the earlier one and by
/// the change; sums have no change if one of the spans was counted for longer than the other.
#[derive(Debug)]
pub struct ReportAnswer {
    /// The report's window, or the span's length, in seconds.
    pub window_seconds: f64,
    /// Seconds that the data spans: at least 1, at most the window; 0 without data. For a span,
    /// those in which requests were counted.
    pub covered_seconds: u64,
    /// Wall-clock milliseconds since 1970 at the moment of reading.
    pub as_of_ms: u64,
    /// The numbers of the columns that can be tested for equality, in column order.
    pub key_columns: Vec<usize>,
    /// The rows, in no particular order. Columns of a span are to be [`load`](Table::load)ed before
    /// they are read.
    pub table: Box<dyn Table>,
    /// Present for a span.
    pub of_span: Option<OfSpan>,
    /// Missing data, for people.
    pub partial: Vec<String>,
}

impl ReportAnswer {
    /// The names of the key columns.
    pub fn keys(&self) -> Vec<&str> {
        let columns = self.table.columns();
        self.key_columns.iter().map(|key| columns[*key].name.as_str()).collect()
    }

    /// Says which value may be meant, if no row has these values of key columns.
    pub(crate) fn meant(&self, wanted: &[(String, String)]) -> Option<String> {
        wanted.iter().find_map(|(name, wanted)| {
            let column = self.table.column(name)?;
            let rows = 0..self.table.len().min(MEANT_ROWS);
            let values: BTreeSet<_> =
                rows.map(|row| self.table.value(row, column).plain()).collect();
            let question = suggest::question(wanted, values.iter().map(String::as_str));
            (!question.is_empty() && !values.contains(wanted))
                .then(|| format!("no row matches{question}"))
        })
    }
}

/// Additional parts of an answer about a span.
#[derive(Debug, Clone, PartialEq)]
pub struct OfSpan {
    /// The spans, widened to whole minutes, or to hours or days where no minutes are kept any more.
    pub spans: Spans,
    /// The coarsest resolution used.
    pub resolution_seconds: u64,
    /// Relative error of percentiles; `None` if the report has buckets of its own.
    pub percentile_error: Option<f64>,
}

/// Largest relative difference in counted time for sums to be comparable.
const LONGER: f64 = 0.02;

/// Whether two spans were counted for about equally long, so that their sums are comparable.
pub(crate) fn has_sums(covered_secs: [u64; 2]) -> bool {
    let [first, second] = covered_secs;
    first.abs_diff(second) as f64 <= LONGER * first.max(second) as f64
}

/// Adds remarks that are not there yet: of a file that cannot be read, neither the rows nor how
/// long they were counted is known.
pub(crate) fn add_new(remarks: &mut Vec<String>, more: &[String]) {
    for remark in more {
        if !remarks.contains(remark) {
            remarks.push(remark.clone());
        }
    }
}

/// Points of lines.
#[derive(Debug, Clone, PartialEq)]
pub struct PastLines {
    /// The lines; their step is as requested, or larger where no finer rows are kept.
    pub lines: Lines,
    /// Seconds of each step in which requests were counted.
    pub covered_secs: Vec<u64>,
    /// The coarsest resolution used.
    pub resolution_seconds: u64,
    /// Missing data, for people.
    pub partial: Vec<String>,
}

/// Some raw requests, the newest or the slowest first.
#[derive(Debug)]
pub struct RequestPage {
    /// Wall-clock milliseconds since 1970 at the moment of reading.
    pub as_of_ms: u64,
    /// The columns of table `request`; of a span also `run` and `weight`: for how many requests it
    /// stands.
    pub table: Box<dyn Table>,
    /// The timers of each row; empty if not requested.
    pub timers: Vec<Vec<TimerDetail>>,
    /// The value of `before_id` for the next page; `None` if nothing older matches, as far as
    /// known.
    pub next_before_id: Option<u64>,
    /// The same of a span, as `before`.
    pub next_before: Option<RequestName>,
    /// The requests among which the slowest in memory were found.
    pub scanned: Option<Scanned>,
    /// Missing data, for people.
    pub partial: Vec<String>,
}

/// The distribution of times in one row of a report: nonempty buckets, from the shortest times to
/// the longest. Empty if there was no memory for the histogram, or nothing was counted.
pub type Distribution = Vec<DistributionBucket>;

/// A range of times, and their number: of requests, or at timer level of hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DistributionBucket {
    /// Lower bound in microseconds, inclusive.
    pub low_us: u64,
    /// Upper bound in microseconds, exclusive.
    pub high_us: u64,
    /// The number of times.
    pub count: u64,
}

/// The raw rows behind an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Requests read.
    pub requests: u64,
    /// When the oldest that was looked at was received, in unix seconds; 0 if there was none.
    pub oldest: u32,
    /// Whether no row was left out, nor evicted because the pool was full.
    pub all: bool,
    /// Whether they are requests kept by history; else those in memory.
    pub kept: bool,
    /// Whether only those that match a search are meant; else any.
    pub narrowed: bool,
    /// Approximate number of requests of which these are a uniform sample; `None` if they are not a
    /// sample.
    pub sample_of: Option<u64>,
    /// Approximate number of requests that these stand for, if history kept some of them for
    /// several.
    pub stands_for: Option<u64>,
    /// The second before which requests may be missing, because the time for the search was over.
    pub unread_before: Option<u64>,
}

impl Scanned {
    /// Whether sums over them are estimates, which are some percent off.
    pub const fn is_estimate(&self) -> bool {
        self.sample_of.is_some() || self.stands_for.is_some()
    }
}

/// The result of a step.
#[derive(Debug)]
pub struct Followed {
    /// The columns of table `request`, or `sample`, oldest row first.
    pub table: Box<dyn Table>,
    /// The timers of each row; empty if not requested.
    pub timers: Vec<Vec<TimerDetail>>,
    /// The reader's new position.
    pub after_id: u64,
    /// Requests before these rows that the reader came too late for: those that matched, and those
    /// evicted before they could be tested.
    pub missed: u64,
    /// Whether more is available already.
    pub more: bool,
}

/// One raw request in full.
#[derive(Debug)]
pub struct RequestDetail {
    /// Its row of table `request`: exactly one.
    pub row: Box<dyn Table>,
    /// Its request tags, by name and value, in packet order; a name may occur more than once.
    pub tags: Vec<(String, String)>,
    /// Its timers in packet order.
    pub timers: Vec<TimerDetail>,
    /// Its activities, if it is a Squid request.
    pub activities: Option<Measures>,
}

/// One timer of a raw request.
pub type TimerDetail = Timer<Vec<(String, String)>>;
