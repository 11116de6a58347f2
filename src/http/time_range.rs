//! Parses spans of the past: `from`, `to`, `tz` and `compare`.
//!
//! A time is given in unix seconds, RFC 3339, a date or a date with a time of day in the zone that
//! `tz` names, or relative to now:
//!
//! ```text
//!   now      -7d      -1h30m      -7d@d      @h      -1d@d+9h
//! ```
//!
//! `@` goes back to the start of that unit. Days, weeks, months and years are those of the zone's
//! calendar: `-1d` is the same time of the day before, even if the clocks were changed in between.
//! Weeks begin on Monday.

use std::ops::Range;

use chrono::{
    DateTime, Datelike as _, Days, MappedLocalTime, Months, NaiveDate, NaiveDateTime, NaiveTime,
    TimeDelta, TimeZone as _, Timelike as _,
};
use chrono_tz::{TZ_VARIANTS, Tz};

use super::error::Problem;
use super::params::{Params, Rounding, moment};
use crate::config::suggest;
use crate::query::question::Spans;

/// The accepted times, for messages.
const MOMENTS: &str = "unix seconds such as 1700000000, RFC 3339 such as 2023-11-14T22:13:20Z, a date such as 2023-11-14 or \
    2023-11-14T22:13 in the zone of tz, or now, -7d, -1h30m, -7d@d, @h, -1d@d+9h in units of y, mon, w, d, h, m and s; of the years \
    1970 to 9999";
/// The accepted comparison spans, for messages.
const COMPARED: &str = "how far before, such as -1w, 1d or 1h, in units of y, mon, w, d, h, m and s, span for the one right before, or the moment at which it begins";
/// The problem of a span that is empty or runs backwards.
pub(super) const NOT_BEFORE: &str = "is not before to";
/// The problem of a time that has not come yet.
const AHEAD: &str = "is in the future";
/// Length of a span in seconds if `from` is not given.
const SPAN_DEFAULT: u64 = 3_600;
/// The first second that is too late: the year 10000.
pub(super) const END: i64 = 253_402_300_800;

/// A span as requested.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Span {
    from: Option<String>,
    to: Option<String>,
    tz: Option<String>,
    compare: Option<String>,
}

/// The zone in which times are shown; UTC by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Zone(Tz);

impl Zone {
    /// Local time in the zone.
    pub(super) fn shown(self, at: u64) -> NaiveDateTime {
        local(at.cast_signed(), self.0).unwrap_or_default()
    }

    /// The name of the zone.
    pub(super) fn name(self) -> String {
        self.0.to_string()
    }

    /// The times in a span at which the local time is a multiple of `step` seconds.
    pub(super) fn every(self, step: u64, span: Range<u64>) -> impl Iterator<Item = u64> {
        // West of UTC, local time is before 1970 in its first hours.
        let shown_secs = move |at| self.shown(at).and_utc().timestamp();
        let step = step.max(1);
        let first = shown_secs(span.start).div_euclid(step.cast_signed()) * step.cast_signed();
        let shown = (first..=shown_secs(span.end)).step_by(step as usize);
        let moments = shown.filter_map(move |shown| {
            let shown = DateTime::from_timestamp(shown, 0)?;
            u64::try_from(resolved(shown.naive_utc(), self.0)?).ok()
        });
        moments.filter(move |at| span.contains(at))
    }
}

impl Span {
    /// Takes the parameters `from`, `to`, `tz`.
    pub(super) fn take(params: &mut Params) -> Self {
        Self {
            from: params.text("from"),
            to: params.text("to"),
            tz: params.text("tz"),
            compare: None,
        }
    }

    /// Takes `compare` as well.
    pub(super) fn take_compared(params: &mut Params) -> Self {
        let mut span = Self::take(params);
        span.compare = params.text("compare");
        span
    }

    /// The same, compared with the span before unless another is given.
    pub(super) fn or_before(mut self) -> Self {
        self.compare.get_or_insert_with(|| "span".to_owned());
        self
    }

    /// Whether another span is to be compared.
    pub(super) const fn is_compared(&self) -> bool {
        self.compare.is_some()
    }

    /// The times of `from` and `to`, if given, at `now_ms` of the wall clock.
    pub(super) fn ends(&self, now_ms: u64) -> Result<(Option<u64>, Option<u64>), Problem> {
        let (now, tz) = self.here(now_ms)?;
        let read = |name: &'static str, text: &Option<String>, rounding| {
            let read = |text: &String| {
                let found = read_moment(text, now, tz, rounding);
                found.ok_or_else(|| Problem::refused(name, text, MOMENTS))
            };
            text.as_ref().map(read).transpose()
        };
        let from = read("from", &self.from, Rounding::Down)?;
        Ok((from, read("to", &self.to, Rounding::Up)?))
    }

    /// Whether neither end is given.
    pub(super) fn is_now(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// The zone, UTC when none is given.
    pub(super) fn zone(&self) -> Result<Zone, Problem> {
        Ok(Zone(self.here(0)?.1))
    }

    /// Now, and the zone.
    fn here(&self, now_ms: u64) -> Result<(i64, Tz), Problem> {
        let tz = self.tz.as_deref().unwrap_or("UTC");
        let tz = tz.parse().map_err(|_| {
            let question = suggest::question(tz, TZ_VARIANTS.iter().map(|it| it.name()));
            let names = format!("names of time zones such as Europe/Berlin, or UTC{question}");
            Problem::refused("tz", tz, &names)
        })?;
        Ok((i64::try_from(now_ms / 1_000).unwrap_or_default(), tz))
    }

    /// The meaning; `None` if it is not the past. The default of `to` is now, and of `from` an hour
    /// before it; if neither is given, the last `default` seconds. A span up to now that is
    /// compared ends with the last full minute, so that neither span has part of one.
    pub(super) fn at(&self, now_ms: u64, default: Option<u64>) -> Result<Option<Spans>, Problem> {
        let (now, tz) = self.here(now_ms)?;
        let (mut from, to) = self.ends(now_ms)?;
        if from.or(to).is_none() {
            from = default.map(|secs| now.cast_unsigned().saturating_sub(secs));
        }
        if from.or(to).is_none() {
            let why = "needs from beside it: the span to compare";
            let bad = |_| Err(Problem::parameter("compare", why));
            return self.compare.as_ref().map_or(Ok(None), bad);
        }
        let is_open = to.is_none();
        let mut to = to.unwrap_or(now.cast_unsigned());
        let mut from = from.unwrap_or_else(|| to.saturating_sub(SPAN_DEFAULT));
        let asked = from..to;
        if is_open && self.compare.is_some() && from + 60 <= to {
            (from, to) = (from / 60 * 60, to / 60 * 60);
        }
        if from >= to {
            let is_ahead = is_open && from > now.cast_unsigned();
            let why = if is_ahead { AHEAD } else { NOT_BEFORE };
            return Err(Problem::parameter("from", why));
        }
        let span = from..to;
        let compare = self.compare.as_ref().map(|text| {
            let find = |text: &str, span| before(text, span, now, tz);
            let found = find(text, &asked).zip(find(text, &span));
            let (near, found) = found.ok_or_else(|| Problem::refused("compare", text, COMPARED))?;
            // Spans of equal length that follow each other still do in whole minutes.
            let is_even = span != asked && near.end - near.start == asked.end - asked.start;
            let would_not = near.end == asked.start || found.end > span.start;
            let is_beside = is_even && would_not && near.end <= asked.start;
            let beside = find("span", &span).filter(|_| is_beside);
            let found = beside.unwrap_or(found);
            match found.start < now.cast_unsigned() {
                true => Ok(found),
                false => Err(Problem::parameter("compare", AHEAD)),
            }
        });
        let before = compare.transpose()?;
        Ok(Some(Spans { span, before }))
    }
}

/// Takes one time, relative to `now_ms` of the wall clock, in the zone of `tz`.
pub(super) fn take_moment(
    params: &mut Params,
    name: &'static str,
    now_ms: u64,
    rounding: Rounding,
) -> Result<Option<u64>, Problem> {
    let tz = params.get("tz").map(str::to_owned);
    let (now, tz) = Span { tz, ..Span::default() }.here(now_ms)?;
    params.parsed(name, MOMENTS, |text| read_moment(text, now, tz, rounding))
}

/// Parses a time to unix seconds; `None` if it is invalid, or out of range.
fn read_moment(text: &str, now: i64, tz: Tz, rounding: Rounding) -> Option<u64> {
    let found = moment(text, rounding).map(i64::try_from).and_then(Result::ok);
    let found = found.or_else(|| on_calendar(text, tz)).or_else(|| reckoned(text, now, tz))?;
    (0..END).contains(&found).then_some(found.cast_unsigned())
}

/// Parses the comparison span: a distance before, or a start.
fn before(text: &str, span: &Range<u64>, now: i64, tz: Tz) -> Option<Range<u64>> {
    if text == "span" {
        let secs = span.end - span.start;
        return Some(span.start.checked_sub(secs)?..span.start);
    }
    let bare = text.trim_start_matches(['-', '+', ' ']);
    let back = steps(bare).filter(|_| text.len() <= bare.len() + 1);
    let back = back.filter(|steps| !steps.is_empty() && steps.iter().all(|(count, _)| *count > 0));
    if let Some(steps) = back {
        let shift = |at: u64| {
            let at = at.cast_signed();
            let moved = steps.iter().try_fold(at, |at, (count, unit)| unit.step(at, -count, tz))?;
            u64::try_from(moved).ok()
        };
        let moved = shift(span.start)?..shift(span.end)?;
        return (!moved.is_empty()).then_some(moved);
    }
    let begin = read_moment(text, now, tz, Rounding::Down)?;
    Some(begin..begin + (span.end - span.start))
}

/// Parses `2023-11-14`, `2023-11-14T22:13`, `2023-11-14 22:13:20` as local time in a zone.
fn on_calendar(text: &str, tz: Tz) -> Option<i64> {
    let midnight = |date: NaiveDate| date.and_time(NaiveTime::MIN);
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").map(midnight).ok();
    let formats = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"];
    let time =
        || formats.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    resolved(date.or_else(time)?, tz)
}

/// Parses `now`, `-7d@d+9h`: steps from now.
fn reckoned(text: &str, now: i64, tz: Tz) -> Option<i64> {
    let text = text.replace(' ', "+");
    let steps_of = text.strip_prefix("now").unwrap_or(&text);
    if steps_of.is_empty() {
        return (text == "now").then_some(now);
    }
    let mut at = now;
    let mut rest = steps_of;
    while let Some(sign) = rest.chars().next() {
        rest = &rest[sign.len_utf8()..];
        let end = rest.find(['-', '+', '@']).unwrap_or(rest.len());
        let (step, behind) = rest.split_at(end);
        rest = behind;
        at = match sign {
            '@' => Unit::named(step)?.begin(at, tz)?,
            '-' | '+' => {
                let sign = if sign == '-' { -1 } else { 1 };
                let steps = steps(step).filter(|steps| !steps.is_empty())?;
                steps.iter().try_fold(at, |at, (count, unit)| unit.step(at, sign * count, tz))?
            }
            _ => return None,
        };
    }
    Some(at)
}

/// Parses `1h30m` to numbers of units.
fn steps(mut text: &str) -> Option<Vec<(i64, Unit)>> {
    let mut steps = Vec::new();
    while !text.is_empty() {
        let digits = text.find(|it: char| !it.is_ascii_digit())?;
        let (count, rest) = text.split_at(digits);
        let letters = rest.find(|it: char| it.is_ascii_digit()).unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(letters);
        // A unit without a number means one.
        let count = if count.is_empty() {
            1
        } else {
            count.parse().ok().filter(|count| *count < 1_000_000_000)?
        };
        steps.push((count, Unit::named(unit)?));
        text = rest;
    }
    Some(steps)
}

/// A unit of time, as a number of seconds, days or months.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds(i64),
    Days(u32),
    Months(u32),
}

impl Unit {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "s" => Self::Seconds(1),
            "m" => Self::Seconds(60),
            "h" => Self::Seconds(3_600),
            "d" => Self::Days(1),
            "w" => Self::Days(7),
            "mon" => Self::Months(1),
            "y" => Self::Months(12),
            _ => return None,
        })
    }

    /// Adds a number of units; those of the calendar keep the time of day.
    fn step(self, at: i64, count: i64, tz: Tz) -> Option<i64> {
        let local = local(at, tz)?;
        let moved = match self {
            Self::Seconds(each) => return at.checked_add(count.checked_mul(each)?),
            Self::Days(each) => {
                let days = TimeDelta::try_days(count.checked_mul(each.into())?)?;
                local.checked_add_signed(days)
            }
            Self::Months(each) => {
                let months = count.unsigned_abs().checked_mul(each.into())?;
                let months = Months::new(months.try_into().ok()?);
                match count > 0 {
                    true => local.checked_add_months(months),
                    false => local.checked_sub_months(months),
                }
            }
        };
        resolved(moved?, tz)
    }

    /// The start of the unit that contains this time.
    fn begin(self, at: i64, tz: Tz) -> Option<i64> {
        let local = local(at, tz)?;
        let date = local.date();
        let date = match self {
            Self::Seconds(each) => {
                return Some(at - i64::from(local.minute() * 60 + local.second()) % each);
            }
            Self::Days(each) => {
                let days = date.weekday().num_days_from_monday() % each;
                date.checked_sub_days(Days::new(days.into()))?
            }
            Self::Months(each) => {
                date.with_day(1)?.checked_sub_months(Months::new(date.month0() % each))?
            }
        };
        resolved(date.and_time(NaiveTime::MIN), tz)
    }
}

/// Local time in a zone.
fn local(at: i64, tz: Tz) -> Option<NaiveDateTime> {
    // Where a zone's offset leaves its range, chrono panics.
    let at = DateTime::from_timestamp(at, 0).filter(|_| (-END..2 * END).contains(&at))?;
    Some(at.with_timezone(&tz).naive_local())
}

/// The time of a local time in a zone: the first of two; if it is skipped, the time at which the
/// clocks continue.
fn resolved(shown: NaiveDateTime, tz: Tz) -> Option<i64> {
    // Recently no zone has skipped more than a day, or by other than quarters of an hour.
    let quarters =
        (0..=96).filter_map(|quarters| shown.checked_add_signed(TimeDelta::minutes(15 * quarters)));
    let mut found = quarters.filter_map(|shown| match tz.from_local_datetime(&shown) {
        MappedLocalTime::Single(at) | MappedLocalTime::Ambiguous(at, _) => Some(at.timestamp()),
        MappedLocalTime::None => None,
    });
    found.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BERLIN: Tz = Tz::Europe__Berlin;
    /// 2026-03-29T12:34:56Z, a Sunday: the night before, clocks in Berlin went from 2 to 3.
    const NOW: i64 = 1_774_787_696;

    fn at(text: &str) -> u64 {
        u64::try_from(DateTime::parse_from_rfc3339(text).unwrap().timestamp()).unwrap()
    }

    fn read(text: &str, tz: Tz) -> Option<u64> {
        read_moment(text, NOW, tz, Rounding::Down)
    }

    #[test]
    fn moments_are_found() {
        for (text, moment) in [
            ("now", "2026-03-29T12:34:56Z"),
            ("1774787696.9", "2026-03-29T12:34:56Z"),
            ("2026-03-29T14:34:56+02:00", "2026-03-29T12:34:56Z"),
            ("2026-03-29T14:34:56 02:00", "2026-03-29T12:34:56Z"),
            ("-7d", "2026-03-22T12:34:56Z"),
            ("now-7d", "2026-03-22T12:34:56Z"),
            ("-1h30m", "2026-03-29T11:04:56Z"),
            ("-7d@d", "2026-03-22T00:00:00Z"),
            ("@h", "2026-03-29T12:00:00Z"),
            ("@m", "2026-03-29T12:34:00Z"),
            ("@w", "2026-03-23T00:00:00Z"),
            ("@mon", "2026-03-01T00:00:00Z"),
            ("@y", "2026-01-01T00:00:00Z"),
            ("-1mon@mon", "2026-02-01T00:00:00Z"),
            ("-1d@d+9h", "2026-03-28T09:00:00Z"),
            ("-1d@d 9h", "2026-03-28T09:00:00Z"),
            ("+d", "2026-03-30T12:34:56Z"),
            ("2026-03-29", "2026-03-29T00:00:00Z"),
            ("2026-03-29 12:34", "2026-03-29T12:34:00Z"),
        ] {
            assert_eq!(read(text, Tz::UTC), Some(at(text_of(moment))), "{text}");
        }
        fn text_of(text: &str) -> &str {
            text
        }
        for text in [
            "",
            "-",
            "@",
            "7d",
            "-7",
            "-7x",
            "-d@",
            "nows",
            "@7d",
            "-99999999999d",
            "2026-02-30",
            "-2026y",
            "-1d@d9h",
            "1e3",
        ] {
            assert_eq!(read(text, Tz::UTC), None, "{text}");
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (text, moment) in [
            // The day is 23 hours long.
            ("@d", "2026-03-28T23:00:00Z"),
            ("+1d@d", "2026-03-29T22:00:00Z"),
            ("-1d", "2026-03-28T13:34:56Z"),
            ("-24h", "2026-03-28T12:34:56Z"),
            ("-7d@d", "2026-03-21T23:00:00Z"),
            // Skipped: the time at which it continues.
            ("2026-03-29T02:00", "2026-03-29T01:00:00Z"),
            ("2026-03-29T02:30", "2026-03-29T01:00:00Z"),
            // Twice: the first.
            ("2026-10-25T02:30", "2026-10-25T00:30:00Z"),
        ] {
            assert_eq!(read(text, BERLIN), Some(at(moment)), "{text}");
        }
        // Within the zone's offset of the last second that chrono knows.
        assert_eq!(read("+999999999h+999999999h+280136693h@d", Tz::Asia__Tokyo), None);
        // Half an hour off.
        assert_eq!(read("@h", Tz::Asia__Kolkata), Some(at("2026-03-29T12:30:00Z")));
        // A midnight that did not exist.
        let santiago = read("2026-09-06", Tz::America__Santiago);
        assert_eq!(santiago, Some(at("2026-09-06T04:00:00Z")));
    }

    #[test]
    fn another_span_lies_before() {
        let span = at("2026-03-30T00:00:00+02:00")..at("2026-03-31T00:00:00+02:00");
        let day = |text: &str| at(&format!("{text}T00:00:00+01:00"));
        for (text, found) in [
            ("-1w", day("2026-03-23")..day("2026-03-24")),
            ("1w", day("2026-03-23")..day("2026-03-24")),
            ("7d", day("2026-03-23")..day("2026-03-24")),
            ("1h", span.start - 3_600..span.end - 3_600),
            ("span", span.start - 86_400..span.start),
            ("2026-03-01", day("2026-03-01")..day("2026-03-02")),
            (" 1w", day("2026-03-23")..day("2026-03-24")),
            ("2026-03-01 00:00", day("2026-03-01")..day("2026-03-02")),
            ("-14d@d", day("2026-03-15")..day("2026-03-16")),
        ] {
            assert_eq!(before(text, &span, NOW, BERLIN), Some(found), "{text}");
        }
        for text in ["", "-", "--1w", "0d", "week", "-1000y"] {
            assert_eq!(before(text, &span, NOW, BERLIN), None, "{text}");
        }
    }

    #[test]
    fn clocks_are_read_in_their_zone() {
        let day = at("2026-03-29T00:00:00+01:00")..at("2026-03-30T00:00:00+02:00");
        let spans = Zone(BERLIN);
        // 2 is skipped.
        let shown = spans.every(2 * 3_600, day.start..day.start + 6 * 3_600);
        let shown: Vec<String> =
            shown.map(|at| spans.shown(at).format("%H:%M").to_string()).collect();
        assert_eq!(shown, ["00:00", "03:00", "04:00", "06:00"]);
        assert_eq!(spans.every(86_400, day.clone()).collect::<Vec<_>>(), [day.start]);
        assert_eq!(spans.name(), "Europe/Berlin");
        // 1970 begins there at 5 o'clock UTC.
        let new_york = Zone(Tz::America__New_York).every(21_600, 0..86_400);
        assert_eq!(new_york.collect::<Vec<_>>(), [18_000, 39_600, 61_200, 82_800]);
    }

    #[test]
    fn spans_are_checked() {
        let spans = |query: &str| {
            let mut params = Params::parse(Some(query)).unwrap();
            let span = Span::take_compared(&mut params);
            params.finish().unwrap();
            span.at(NOW.unsigned_abs() * 1_000 + 999, None)
        };
        let now = NOW.unsigned_abs();
        assert_eq!(spans("").unwrap(), None);
        assert_eq!(spans("tz=Europe/Berlin").unwrap(), None);
        assert_eq!(spans("from=-2h").unwrap().unwrap().span, now - 7_200..now);
        assert_eq!(spans("to=now").unwrap().unwrap().span, now - 3_600..now);
        let minutes = |query| spans(query).unwrap().unwrap();
        let minute = now / 60 * 60;
        let compared = minutes("from=-3m&compare=span");
        assert_eq!(compared.span, minute - 180..minute);
        assert_eq!(compared.before, Some(minute - 360..minute - 180));
        assert_eq!(minutes("from=-30s&compare=-1h").span, now - 30..now);
        // Spans that follow each other do so in whole minutes too, whatever their length and the
        // time.
        for (secs, second) in (60..200).flat_map(|secs| (0..60).map(move |second| (secs, second))) {
            let span = |compare: u64| {
                let mut params = Params::parse(Some(&format!("from=-{secs}s&compare=-{compare}s")));
                let span = Span::take_compared(params.as_mut().unwrap());
                span.at((minute + second) * 1_000, None).unwrap().unwrap()
            };
            let Spans { span: asked, before } = span(secs);
            let length = asked.end - asked.start;
            assert_eq!(before, Some(asked.start - length..asked.start), "{secs} at {second}");
            let Spans { span: asked, before } = span(secs + 10);
            assert!(before.unwrap().end <= asked.start, "{secs} and 10 at {second}");
        }
        for (query, part) in [
            ("from=now", "is not before to"),
            ("from=2030-01-01", "from: is in the future"),
            ("from=2030-01-01&to=now", "is not before to"),
            ("from=x", "RFC 3339"),
            ("from=-15min", "in units of y, mon, w, d, h, m and s;"),
            ("from=-1h&compare=15min", "in units of y, mon, w, d, h, m and s,"),
            ("to=-1d&from=-1h", "is not before to"),
            ("compare=-1w", "needs from"),
            ("from=-1d&compare=x", "-1w"),
            ("from=-1d&compare=2030-01-01", "compare: is in the future"),
            ("from=-57y", "1970 to 9999"),
            ("from=-1d&tz=Berlin", "Europe/Berlin"),
        ] {
            let problem = spans(query).unwrap_err();
            assert!(problem.detail().contains(part), "{query}: {problem:?}");
        }
    }
}
