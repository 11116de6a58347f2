//! What the daemon can be asked: the one read model behind every front end.
//!
//! The catalog implements [`ReadModel`] over pools, reports and counters; front ends call it from threads that may block. Each
//! call takes a consistent view, copies or shares what it needs and lets go of every lock before it returns: no
//! answer refers to anything that ingest writes. How many calls run at once is bounded by the front end.

use std::ops::Range;

use super::error::QueryError;
use super::past::Past;
use super::table::Table;
pub use super::timer_groups::{SlowTimer, TAG_NAMES_MAX, TimerGroup, TimerGroups, TimerSearch};
use crate::clock::{Clock as _, SystemClock};
pub use crate::config::rewrite::{TEXT_FIELDS, TextField};
use crate::input::squid::activity::Measures;
use crate::input::udp::senders::{Counts, SenderCounts};
use crate::profile::definition::{SampleKey, Wanted};
use crate::profile::report::SampleMetric;
use crate::report::DefinedBy;
use crate::report::native::ReportForm;
use crate::series::Lines;
use crate::state::annotations::Annotations;
use crate::telemetry::reading::{self, Group};
use crate::value::Column;

/// The read model, and the few things that can be changed at run time.
pub trait ReadModel: Send + Sync {
    /// Table `info`: exactly one row.
    ///
    /// # Errors
    /// [`QueryError::Busy`].
    fn info(&self) -> Result<Box<dyn Table>, QueryError> {
        Ok(self.report("info", None, &[])?.table)
    }

    /// The daemon's counters: the legacy columns of table `status` first, in their order, then its own.
    /// `datagrams_invalid` and its kin are objects by reason; `sockets` is an array, one object a socket.
    fn status(&self) -> serde_json::Map<String, serde_json::Value> {
        reading::object(&self.status_groups())
    }

    /// The same with the kind and help of each number.
    fn status_groups(&self) -> Vec<Group>;

    /// Who sends packets, the busiest `limit` of them, and all others together; `None`: that is not counted.
    fn sources(&self, limit: usize) -> Option<(Vec<SenderCounts>, Counts)> {
        let _nobody_counts = limit;
        None
    }

    /// Whether there is a source of Squid's lines.
    fn has_squid(&self) -> bool {
        false
    }

    /// The wall clock, milliseconds since 1970.
    fn unix_ms(&self) -> u64 {
        SystemClock::new().unix_ms()
    }

    /// What happened when, as people noted it.
    fn annotations(&self) -> &Annotations;

    /// All reports, in the order in which they were defined.
    fn reports(&self) -> Vec<ReportSummary>;

    /// One report as it stands now. Only the columns that are `needed` will be looked at (`None`: all): quantiles cost most. The table has
    /// the others nevertheless, perhaps as NULL; a name that the report does not have is no error here. `equal` are key columns and the texts that they must show: the answer may leave out
    /// rows that do not match, and a histogram view takes from there which row to spread out.
    ///
    /// # Errors
    /// [`QueryError::UnknownReport`], [`QueryError::Busy`].
    fn report(
        &self,
        name: &str,
        needed: Option<&[String]>,
        equal: &[(String, String)],
    ) -> Result<ReportAnswer, QueryError>;

    /// What history keeps.
    ///
    /// # Errors
    /// [`QueryError::NoHistory`]: this program was built without it.
    fn past(&self) -> Result<&dyn Past, QueryError> {
        Err(QueryError::no_history())
    }

    /// The same, and which rows of it are shown. It may have these alone: the others are not read as a whole then.
    ///
    /// # Errors
    /// As [`ReadModel::report`].
    fn chosen(
        &self,
        name: &str,
        needed: Option<&[String]>,
        equal: &[(String, String)],
        (_, choose): Choice<'_>,
    ) -> Result<(ReportAnswer, Vec<usize>), QueryError> {
        let answer = self.report(name, needed, equal)?;
        let rows = choose(&answer);
        Ok((answer, rows))
    }

    /// Makes a report and fills it from the data in memory.
    ///
    /// # Errors
    /// [`QueryError::BadValue`] naming the member and the bad part of it, [`QueryError::ReportExists`],
    /// [`QueryError::LimitReached`].
    fn create_report(&self, form: ReportForm) -> Result<ReportSummary, QueryError>;

    /// Drops a report that was made at run time. Whether a restart would bring it back no more: false without a state directory.
    ///
    /// # Errors
    /// [`QueryError::UnknownReport`], [`QueryError::ReportFixed`].
    fn drop_report(&self, name: &str) -> Result<bool, QueryError>;

    /// Reports in the columns of the native form with percentiles of choice, whatever their own columns are: they count
    /// all that anyway. Key columns are called as in the report itself. Together they cost little more than one of them, and who
    /// asks at about the same time gets the same.
    ///
    /// # Errors
    /// [`QueryError::UnknownReport`], also for tables that are no reports; [`QueryError::Busy`].
    fn rankings(
        &self,
        names: &[&str],
        percentiles: &[f64],
    ) -> Result<Vec<ReportAnswer>, QueryError>;

    /// One of them.
    ///
    /// # Errors
    /// As [`ReadModel::rankings`].
    fn ranking(&self, name: &str, percentiles: &[f64]) -> Result<ReportAnswer, QueryError> {
        let one = self.rankings(&[name], percentiles)?.pop();
        one.ok_or_else(|| QueryError::unknown_report(name))
    }

    /// A report in its own columns, and after them those of the native form that it lacks, with percentiles of choice.
    ///
    /// # Errors
    /// As [`ReadModel::rankings`].
    fn extended(&self, name: &str, percentiles: &[f64]) -> Result<ReportAnswer, QueryError> {
        self.ranking(name, percentiles)
    }

    /// How the times of one row of a report are spread: the first row whose key columns show the texts in `equal`.
    /// `None`: there is no such row now.
    ///
    /// # Errors
    /// As [`ReadModel::ranking`].
    fn distribution(
        &self,
        name: &str,
        equal: &[(String, String)],
    ) -> Result<Option<Distribution>, QueryError>;

    /// The slowest of the raw requests that match, slowest first; of equals the newest. Looks at `scanned_max` rows at
    /// most, the newest.
    ///
    /// # Errors
    /// As [`ReadModel::requests`].
    fn slowest(
        &self,
        search: &RequestSearch,
        scanned_max: usize,
    ) -> Result<SlowestPage, QueryError>;

    /// The raw timers of the requests that match, summed up by keys of choice.
    ///
    /// # Errors
    /// As [`ReadModel::requests`].
    fn timer_groups(&self, search: &TimerSearch) -> Result<TimerGroups, QueryError>;

    /// Samples of PHP's functions, summed up by keys; `None`: there is no `[[stat]]`, so none are taken.
    ///
    /// # Errors
    /// [`QueryError::Busy`].
    fn samples(
        &self,
        keys: &[SampleKey],
        filters: &[(SampleKey, Wanted)],
    ) -> Result<Option<ReportAnswer>, QueryError> {
        let _none_are_taken = (keys, filters);
        Ok(None)
    }

    /// Metrics of a row of a report over samples, made from the samples in its window.
    ///
    /// # Errors
    /// [`QueryError::UnknownReport`]: none over samples has this name. [`QueryError::NoHistory`]: it has no such row.
    /// [`QueryError::Busy`].
    fn sample_lines(&self, name: &str, question: &SampleQuestion<'_>) -> Result<Lines, QueryError> {
        let _none_are_taken = question;
        Err(QueryError::unknown_report(name))
    }

    /// The next samples behind one, oldest first. `None`: none are taken.
    fn follow_samples(
        &self,
        filters: &[(SampleKey, Wanted)],
        step: FollowStep,
    ) -> Option<Followed> {
        let _none_are_taken = (filters, step);
        None
    }

    /// The number of the youngest sample. `None`: none are taken.
    fn last_sample_id(&self) -> Option<u64> {
        None
    }

    /// Whether samples are taken.
    fn has_samples(&self) -> bool {
        false
    }

    /// Raw requests, newest first.
    ///
    /// # Errors
    /// [`QueryError::RawDataOff`], [`QueryError::Busy`].
    fn requests(&self, search: &RequestSearch) -> Result<RequestPage, QueryError>;

    /// One raw request with its tags and timers.
    ///
    /// # Errors
    /// [`QueryError::UnknownRequest`], [`QueryError::RawDataOff`].
    fn request(&self, id: u64) -> Result<RequestDetail, QueryError>;

    /// The id of the youngest raw request that there has been; 0 before the first.
    ///
    /// # Errors
    /// [`QueryError::RawDataOff`].
    fn last_request_id(&self) -> Result<u64, QueryError>;

    /// The next raw requests behind one, oldest first: what a stream asks again and again. Of `search` only the conditions
    /// count, not the limit.
    ///
    /// # Errors
    /// [`QueryError::RawDataOff`].
    fn follow(&self, search: &RequestSearch, step: FollowStep) -> Result<Followed, QueryError>;

    /// Empties pools and reports; counters stay.
    ///
    /// # Errors
    /// [`QueryError::Busy`] when the merger did not get round to it in time.
    fn reset(&self) -> Result<(), QueryError>;

    /// What keeps the daemon from its work: sockets not bound, merger dead or behind. Empty: ready.
    fn unready(&self) -> Vec<String>;

    /// The span, unix seconds, of which live reports have rows of history, by the minute: a process was killed, and what it had counted
    /// since its last snapshot was lost.
    fn refilled(&self) -> Option<std::ops::Range<u64>> {
        None
    }

    /// What does not work although the daemon is ready, each with its reason.
    fn out_of_order(&self) -> Vec<String> {
        Vec::new()
    }
}

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

/// Which rows of a report are wanted: the columns by which they are chosen, and what chooses them, in the order in which they are
/// shown, when these columns can be read. It may be asked more than once: the last time counts.
pub type Choice<'a> = (&'a [String], &'a mut dyn FnMut(&ReportAnswer) -> Vec<usize>);

/// One report at one moment: its sums, that is. The percentiles of many rows may be of some milliseconds later.
#[derive(Debug)]
pub struct ReportAnswer {
    /// The report's window, seconds.
    pub window_seconds: f64,
    /// Seconds that the data really spans: at least 1, at most the window.
    pub covered_seconds: u64,
    /// Wall-clock milliseconds since 1970 at the moment of reading.
    pub as_of_ms: u64,
    /// The numbers of the columns whose equality can be asked for, in column order.
    pub key_columns: Vec<usize>,
    /// The rows, in no promised order.
    pub table: Box<dyn Table>,
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

/// Some raw requests, newest first.
#[derive(Debug)]
pub struct RequestPage {
    /// Wall-clock milliseconds since 1970 at the moment of reading.
    pub as_of_ms: u64,
    /// The columns of table `request`.
    pub table: Box<dyn Table>,
    /// For each row its timers; empty when they were not asked for.
    pub timers: Vec<Vec<TimerDetail>>,
    /// What to ask for as `before_id` to get the next page; `None`: nothing older matches, as far as is known.
    pub next_before_id: Option<u64>,
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

/// The slowest raw requests.
#[derive(Debug)]
pub struct SlowestPage {
    /// The columns of table `request`.
    pub table: Box<dyn Table>,
    /// What they are the slowest of.
    pub scanned: Scanned,
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
