//! Questions to the catalog: their time, the pinbads they are for, and what is wanted.
//!
//! Front ends build them from parameters and ask on threads that may block; they bound the number
//! of questions at a time. [`Catalog`](super::catalog::Catalog) finds the rows.

use std::fmt;
use std::ops::Range;

use crate::config::rewrite::TextField;
use crate::limits::SHIPPED_AFTER_SECS;
use crate::profile::report::SampleMetric;
use crate::report::definition::Columns;
use crate::series::Metric;
use crate::telemetry::counter::counted;

/// A span of the past, and its comparison span, in unix seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spans {
    /// The requested span.
    pub span: Range<u64>,
    /// The comparison span.
    pub before: Option<Range<u64>>,
}

impl Spans {
    /// A remark if the two spans overlap.
    pub(crate) fn overlap_remark(&self) -> Option<String> {
        let (span, before) = (&self.span, self.before.as_ref()?);
        let overlap = before.end > span.start && span.end > before.start;
        overlap.then(|| "the two spans overlap: requests in the overlap count in both".to_owned())
    }
}

/// The time that a question is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum When {
    /// The window of a live report, or the requests in memory.
    #[default]
    Now,
    /// A span in history.
    Span(Spans),
}

impl From<Option<Spans>> for When {
    fn from(spans: Option<Spans>) -> Self {
        spans.map_or(Self::Now, Self::Span)
    }
}

/// The pinbads that a question is for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Whose {
    /// This daemon.
    #[default]
    Own,
    /// The fleet, as far as it has shipped.
    Fleet(Fleet),
}

impl Whose {
    /// Whether it is for the fleet.
    pub const fn is_fleet(&self) -> bool {
        matches!(self, Self::Fleet(_))
    }
}

/// A selection of pinbads that ship to the same ClickHouse.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Data centres; empty for all.
    pub dcs: Vec<String>,
    /// Names; empty for all.
    pub collectors: Vec<String>,
}

/// The end of the newest minute that all pinbads have shipped at this unix second.
pub const fn shipped_until(now: u64) -> u64 {
    let at = now.saturating_sub(SHIPPED_AFTER_SECS);
    at - at % 60
}

/// A question about a report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportQuestion {
    /// Its time.
    pub when: When,
    /// The pinbads it is for.
    pub whose: Whose,
    /// The columns to read.
    pub columns: Columns,
    /// The names of the columns needed, `None` for all; quantiles cost most. The answer contains
    /// the others nevertheless, perhaps as NULL; a name that the report does not have is no error.
    pub needed: Option<Vec<String>>,
    /// Key columns with the texts they must show: the answer may leave out other rows, and a
    /// histogram view takes the row to show from here.
    pub equal: Vec<(String, String)>,
}

/// Adjusts the comparison span after the main span was widened: it gets the same length, and stays
/// disjoint if it was. If the requested spans differ in length (one calendar day may be longer than
/// another), it is only cut where it would overlap.
pub(crate) fn moved(wide: &Range<u64>, asked: &Range<u64>, before: &Range<u64>) -> Range<u64> {
    let length = |span: &Range<u64>| span.end.saturating_sub(span.start);
    if length(asked) != length(before) {
        return match before.end <= asked.start {
            true => before.start..before.end.min(wide.start),
            false => before.clone(),
        };
    }
    let minutes = |secs: u64| secs.next_multiple_of(60).max(length(wide));
    if before.end <= asked.start {
        let start = wide.start.saturating_sub(minutes(asked.start - before.start));
        start..(start + length(wide)).min(wide.start)
    } else if asked.end <= before.start {
        let start = wide.start + minutes(before.start - asked.start);
        start..start + length(wide)
    } else {
        before.clone()
    }
}

/// A question about metrics of a row over a span of the past.
#[derive(Debug, Clone)]
pub struct LineQuestion<M = Metric> {
    /// A text for each key; `None` for the total.
    pub key: Option<Vec<String>>,
    /// The metrics, one line each.
    pub metrics: Vec<M>,
    /// Unix seconds.
    pub span: Range<u64>,
    /// Seconds from point to point.
    pub step: u64,
    /// The pinbads it is for.
    pub whose: Whose,
}

/// A question about metrics of a row in a report over samples, which are this daemon's own.
pub type SampleQuestion = LineQuestion<&'static SampleMetric>;

/// Raw requests that are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestQuestion {
    /// Those in memory, or those that history keeps of a span.
    pub when: When,
    /// Conditions and limit; `before_id` is ignored for a span.
    pub search: RequestSearch,
    /// If set, returns the slowest first; in memory, the slowest of this many newest requests,
    /// matching or not. Else the newest first.
    pub slowest: Option<usize>,
    /// For a span: only requests older than this one, the next page.
    pub before: Option<RequestName>,
}

/// A search for raw requests. All conditions must hold; all bounds are inclusive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestSearch {
    /// Most rows.
    pub limit: usize,
    /// Only ids smaller than this, for the next page.
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
    /// Integer columns with the number they must show.
    pub numbers: Vec<(NumberField, u64)>,
    /// Request tags, by name and value: the first tag of that name must have that value.
    pub tags: Vec<(String, String)>,
    /// Whether timers are wanted too; a page then ends early if they are very many.
    pub timers: bool,
}

impl RequestSearch {
    /// Whether any request of its time could fail to match.
    pub fn narrows(&self) -> bool {
        let of_any_time = Self { before_id: None, since: None, until: None, ..self.clone() };
        of_any_time.has_conditions()
    }

    /// Whether any request could fail to match.
    pub fn has_conditions(&self) -> bool {
        let all = Self { limit: self.limit, timers: self.timers, ..Self::default() };
        *self != all
    }
}

counted! {
    /// An integer column of table `request` that can be searched.
    NumberField {
        /// As shown: 0 in a packet is 1.
        ReqCount = "req_count",
        /// The number of timers.
        TimersCnt = "timers_cnt",
        /// The status.
        Status = "status",
        /// The number of tags.
        TagsCnt = "tags_cnt",
        /// The time of reception, unix seconds.
        Timestamp = "timestamp",
    }
}

/// The permanent identity of a request, with its time of reception, ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestName {
    /// Unix seconds.
    pub received: u64,
    /// The run of the history folder in which it came.
    pub run: u64,
    /// Its id in that run.
    pub id: u64,
}

/// As in pages of answers: `1709160600-1-77`.
impl fmt::Display for RequestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.received, self.run, self.id)
    }
}

impl RequestName {
    /// Parses the output of [`Display`](fmt::Display).
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('-').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        let name = Self { received: next()?, run: next()?, id: next()? };
        numbers.next().is_none().then_some(name)
    }
}

/// One step of a reader that follows the requests as they are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowStep {
    /// The reader's position: only requests with larger ids are read.
    pub after_id: u64,
    /// Most rows.
    pub rows_max: usize,
    /// No further row once their texts reach this many bytes.
    pub bytes_max: usize,
    /// Whether a sample is enough: then it continues after the latest request in any case, and
    /// nothing counts as missed.
    pub sample: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_that_was_made_wider_does_not_reach_into_the_one_before() {
        // 10:00:30 to 10:03:30, in whole minutes, and the three minutes before.
        assert_eq!(moved(&(600..840), &(630..810), &(450..630)), 360..600);
        // Disjoint, with a gap: as requested, in whole minutes.
        assert_eq!(moved(&(600..840), &(630..810), &(330..510)), 300..540);
        assert_eq!(moved(&(600..840), &(630..810), &(331..511)), 300..540);
        // In days, where nothing finer is kept.
        let day = 86_400;
        let wide = 2 * day..3 * day;
        let asked = 2 * day + 3_600..2 * day + 7_200;
        assert_eq!(moved(&wide, &asked, &(2 * day..2 * day + 3_600)), day..2 * day);
        // Later, and overlapping: as requested.
        assert_eq!(moved(&(600..840), &(630..810), &(810..990)), 840..1_080);
        assert_eq!(moved(&(600..840), &(630..810), &(500..680)), 500..680);
        // A day of 23 hours and one of 24.
        assert_eq!(moved(&(180..240), &(180..240), &(60..130)), 60..130);
        assert_eq!(moved(&(120..240), &(130..240), &(60..130)), 60..120);
        assert_eq!(moved(&(60..240), &(90..210), &(0..90)), 0..60);
    }
}
