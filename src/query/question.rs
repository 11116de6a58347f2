//! Questions: when and whose, and in which form a report, lines or requests are wanted; with the
//! answers about the past.
//!
//! Front ends read them from parameters; [`Catalog`](super::catalog::Catalog) finds where the rows
//! lie.

use std::fmt;
use std::ops::Range;

use super::read_model::RequestSearch;
use crate::limits::SHIPPED_AFTER_SECS;
use crate::report::definition::Columns;
use crate::series::Metric;

/// A span of the past, and the one that it is compared with, unix seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spans {
    /// What is asked for.
    pub span: Range<u64>,
    /// With what it is compared.
    pub before: Option<Range<u64>>,
}

impl Spans {
    /// With what it is compared: where nothing is said, the span right before.
    #[must_use]
    pub fn compared_with(&self) -> Range<u64> {
        let Range { start, end } = self.span;
        let before = || start.saturating_sub(end - start)..start;
        self.before.clone().unwrap_or_else(before)
    }
}

/// The time that a question is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum When {
    /// The window of a report as it stands, or the requests in memory.
    #[default]
    Now,
    /// What history keeps of a span.
    Span(Spans),
}

impl From<Option<Spans>> for When {
    fn from(spans: Option<Spans>) -> Self {
        spans.map_or(Self::Now, Self::Span)
    }
}

/// Whose requests a question is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Whose {
    /// This daemon's.
    #[default]
    Own,
    /// Those of many, as far as they have been shipped.
    Fleet(Fleet),
}

impl Whose {
    /// Whether many are asked.
    #[must_use]
    pub const fn is_fleet(&self) -> bool {
        matches!(self, Self::Fleet(_))
    }
}

/// Which pinbads are asked together; of those that ship to the same ClickHouse.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Of these data centres; none: of all.
    pub dcs: Vec<String>,
    /// With these names; none: with any.
    pub collectors: Vec<String>,
}

/// Where the newest minute ends that all pinbads have shipped when it is this unix second.
#[must_use]
pub const fn shipped_until(now: u64) -> u64 {
    let at = now.saturating_sub(SHIPPED_AFTER_SECS);
    at - at % 60
}

/// A report that is asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportQuestion {
    /// The time.
    pub when: When,
    /// Whose requests.
    pub whose: Whose,
    /// In which columns.
    pub columns: Columns,
    /// The names of those that will be looked at, `None`: all; quantiles cost most. The answer has
    /// the others nevertheless, perhaps as NULL; a name that the report does not have is no error.
    pub needed: Option<Vec<String>>,
    /// Key columns and the texts that they must show: the answer may leave out rows that do not
    /// match, and a histogram view takes from there which row to spread out.
    pub equal: Vec<(String, String)>,
}

/// The span to compare with, of one that was made wider: as long as that, and where the two had nothing in common, it still
/// has not. What is no shift of the whole span (a calendar's day that is longer than another) stays as it was asked for.
#[must_use]
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
        let start = wide
            .start
            .saturating_sub(minutes(asked.start - before.start));
        start..(start + length(wide)).min(wide.start)
    } else if asked.end <= before.start {
        let start = wide.start + minutes(before.start - asked.start);
        start..start + length(wide)
    } else {
        before.clone()
    }
}

/// What an answer about a span has beside its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct OfSpan {
    /// What was asked for, made wider: to whole minutes, and where no minutes are kept any more to hours or days.
    pub spans: Spans,
    /// The coarsest rows that it was made from.
    pub resolution_seconds: u64,
    /// By which part of itself a percentile may be off; `None`: the report has buckets of its own.
    pub percentile_error: Option<f64>,
    /// What is lacking, for people.
    pub partial: Vec<String>,
}

/// Metrics of a row over a span of the past.
#[derive(Debug, Clone)]
pub struct LineQuestion {
    /// A text for each key; `None`: all rows together.
    pub key: Option<Vec<String>>,
    /// What is drawn, a line each.
    pub metrics: Vec<Metric>,
    /// Unix seconds.
    pub span: Range<u64>,
    /// Seconds from point to point.
    pub step: u64,
    /// Whose requests.
    pub whose: Whose,
}

/// Points of lines.
#[derive(Debug, Clone, PartialEq)]
pub struct PastLines {
    /// Unix second at which the first points begin.
    pub from: u64,
    /// Seconds from point to point: as was asked for, or more where no finer rows are kept.
    pub step: u64,
    /// By metric. `None`: not known, or an average of nothing.
    pub points: Vec<Vec<Option<f64>>>,
    /// The coarsest rows that it was made from.
    pub resolution_seconds: u64,
    /// What is lacking, for people.
    pub partial: Vec<String>,
}

/// Raw requests that are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestQuestion {
    /// Those in memory, or those that history keeps of a span.
    pub when: When,
    /// What they are like, and how many; of a span `before_id` does not count.
    pub search: RequestSearch,
    /// The slowest, and those first: in memory of so many of the newest that match or not. Else the newest.
    pub slowest: Option<usize>,
    /// Of a span: only requests older than this one, the next page.
    pub before: Option<RequestName>,
}

/// What names a request for ever, and when it was received: the later is the larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestName {
    /// Unix seconds.
    pub received: u64,
    /// How often the folder of history had been opened when it came.
    pub run: u64,
    /// Its id in that run.
    pub id: u64,
}

/// As pages of answers are named by it: `1709160600-1-77`.
impl fmt::Display for RequestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.received, self.run, self.id)
    }
}

impl RequestName {
    /// What [`Display`](fmt::Display) makes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('-').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        let name = Self {
            received: next()?,
            run: next()?,
            id: next()?,
        };
        numbers.next().is_none().then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_that_was_made_wider_does_not_reach_into_the_one_before() {
        // 10:00:30 to 10:03:30, in whole minutes, and the three minutes before.
        assert_eq!(moved(&(600..840), &(630..810), &(450..630)), 360..600);
        // So long before that they do not meet: what was said, in whole minutes.
        assert_eq!(moved(&(600..840), &(630..810), &(330..510)), 300..540);
        assert_eq!(moved(&(600..840), &(630..810), &(331..511)), 300..540);
        // In days, where nothing finer is kept.
        let day = 86_400;
        let wide = 2 * day..3 * day;
        let asked = 2 * day + 3_600..2 * day + 7_200;
        assert_eq!(
            moved(&wide, &asked, &(2 * day..2 * day + 3_600)),
            day..2 * day
        );
        // Later, and overlapping: as it was asked for.
        assert_eq!(moved(&(600..840), &(630..810), &(810..990)), 840..1_080);
        assert_eq!(moved(&(600..840), &(630..810), &(500..680)), 500..680);
        // A day of 23 hours and one of 24.
        assert_eq!(moved(&(180..240), &(180..240), &(60..130)), 60..130);
        assert_eq!(moved(&(120..240), &(130..240), &(60..130)), 60..120);
        assert_eq!(moved(&(60..240), &(90..210), &(0..90)), 0..60);
    }
}
