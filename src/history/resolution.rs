//! The resolutions of history: rows stand for a minute, an hour or a day, all in UTC.

use std::ops::Range;

use chrono::{DateTime, Datelike as _, Days, NaiveDate};
use serde::{Deserialize, Serialize};

use crate::telemetry::counter::counted;

counted! {
    /// The span of time of a row, from the finest to the coarsest; the name is used in folders and
    /// answers.
    #[derive(Default, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    Resolution {
        /// 60 s.
        #[default]
        Minute = "minute",
        /// 3,600 s.
        Hour = "hour",
        /// 86,400 s, from midnight UTC.
        Day = "day",
    }
}

/// The shortest span that contains both.
pub(super) fn hull(one: Range<u64>, other: Range<u64>) -> Range<u64> {
    one.start.min(other.start)..one.end.max(other.end)
}

impl Resolution {
    /// Of each the length in seconds, and the buckets of a doubling as a power of two.
    const EACH: [(u64, u32); Self::COUNT] = [(60, 6), (3_600, 4), (86_400, 4)];

    /// Returns the length in seconds.
    pub const fn secs(self) -> u64 {
        Self::EACH[self as usize].0
    }

    /// Returns the next coarser resolution.
    pub(crate) fn coarser(self) -> Option<Self> {
        Self::ALL.into_iter().find(|it| *it > self)
    }

    /// Buckets of a doubling in the log-linear histograms of its rows, as a power of two: 64 (0.78
    /// %) or 16 (3.1 %).
    pub(crate) const fn bucket_bits(self) -> u32 {
        Self::EACH[self as usize].1
    }

    /// Returns the unix second at which the row of a given second begins.
    pub const fn begin(self, unix_secs: u64) -> u64 {
        unix_secs - unix_secs % self.secs()
    }

    /// Splits a span into the seconds of each row, with the second at which that begins: one row
    /// at least.
    pub(super) fn split(self, span: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
        let end = span.end.max(span.start + 1);
        let begins = (self.begin(span.start)..end).step_by(self.secs() as usize);
        begins.map(move |begin| {
            let end = span.end.min(begin + self.secs());
            (begin, end - span.start.max(begin))
        })
    }

    /// Returns the span, in unix seconds, of the published file that holds the row of `unix_secs`:
    /// an hour of minutes, a day of hours, a month of days.
    pub(crate) fn file_span(self, unix_secs: u64) -> Range<u64> {
        match self.coarser() {
            Some(coarser) => {
                let begin = coarser.begin(unix_secs);
                begin..begin + coarser.secs()
            }
            None => {
                let (day, secs) = (date(unix_secs), self.secs());
                let begin = self.begin(unix_secs) - u64::from(day.day0()) * secs;
                begin..begin.saturating_add(u64::from(day.num_days_in_month()) * secs)
            }
        }
    }
}

/// Returns the UTC day of a unix second.
pub(super) fn date(unix_secs: u64) -> NaiveDate {
    let days = Days::new(unix_secs / 86_400);
    DateTime::UNIX_EPOCH.date_naive().checked_add_days(days).unwrap_or(NaiveDate::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_hold_hours_days_and_months() {
        let at = |text: &str| {
            let moment = DateTime::parse_from_rfc3339(text).unwrap();
            u64::try_from(moment.timestamp()).unwrap()
        };
        let moment = at("2024-02-29T13:59:59Z");
        for (resolution, from, to) in cases![
            Resolution::Minute => "2024-02-29T13:00:00Z", "2024-02-29T14:00:00Z";
            Resolution::Hour => "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z";
            Resolution::Day => "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z";
        ] {
            assert_eq!(resolution.file_span(moment), at(from)..at(to));
            assert!(resolution.begin(moment) <= moment);
            assert!(resolution.begin(moment) + resolution.secs() > moment);
        }
        assert_eq!(
            Resolution::Day.file_span(at("2025-12-31T23:59:59Z")).end,
            at("2026-01-01T00:00:00Z")
        );
        let split = |span| Resolution::Minute.split(span).collect::<Vec<_>>();
        assert_eq!(split(59..121), [(0, 1), (60, 60), (120, 1)]);
        assert_eq!((split(60..60), split(70..70)), (vec![(60, 0)], vec![(60, 0)]));
        assert_eq!(date(0).to_string(), "1970-01-01");
        assert_eq!(date(u64::MAX), NaiveDate::MAX);
    }
}
