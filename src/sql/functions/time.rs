//! Date and time functions; the work is in `calendar`, `formats` and `zones`.
//!
//! A datetime has no zone. Functions that need one (from and to Unix seconds) take the session's as
//! an argument.

mod calendar;
mod formats;
mod zones;

use chrono::{Datelike, Months, NaiveDate, NaiveDateTime, TimeDelta, Timelike};
use datafusion::arrow::datatypes::{DataType, TimeUnit};

use self::calendar::{added, difference, extract, week};
use self::formats::{clock_formatted, formatted, is_clock, read};
use self::zones::unix;
pub(crate) use self::zones::{shown, zone};
use super::value::{Value, date_time};
use super::{Answer, ArgumentInfo, FunctionDef, SECONDS, seconds_type, strict, typed};

/// Microseconds in a second.
const SECOND: i64 = 1_000_000;

/// The longest time, `838:59:59.999999`, in microseconds.
const TIME_MAX: i64 = 3_020_400 * SECOND - 1;

pub(super) fn functions() -> Vec<FunctionDef> {
    vec![
        typed("__from_unixtime", (2, 2), fraction_type, |a| {
            let micros = i64::try_from(a[0].at_scale(6)).ok().filter(|micros| *micros >= 0)?;
            shown(micros, &a[1].to_text()).map(Value::Datetime)
        }),
        strict("__unix_timestamp", (2, 2), |a| {
            let micros = unix(a[0].micros()?, &a[1].to_text())?;
            Some(micros.div_euclid(SECOND)).filter(|secs| *secs >= 0)
        }),
        typed("convert_tz", (3, 3), seconds_type, |a| {
            let micros = unix(a[0].micros()?, &a[1].to_text())?;
            shown(micros, &a[2].to_text()).map(Value::Datetime)
        }),
        strict("date_format", (2, 3), |a| Some(formatted(a[0].date_time()?, &a[1].to_text()))),
        strict("time_format", (2, 2), |a| clock_formatted(time_of(&a[0])?, &a[1].to_text())),
        strict("__extract", (2, 2), |a| {
            let unit = a[0].to_text().to_ascii_uppercase();
            let is_time = unit.starts_with(['H', 'M', 'S']) && unit != "MONTH";
            extract(&unit, if is_time { clock(&a[1])? } else { a[1].date_time()? })
        }),
        of_moment("year", |at| i64::from(at.year())),
        of_moment("quarter", |at| i64::from(at.month().div_ceil(3))),
        of_moment("month", |at| i64::from(at.month())),
        of_moment("day dayofmonth", |at| i64::from(at.day())),
        of_moment("dayofyear", |at| i64::from(at.ordinal())),
        of_moment("dayofweek", |at| i64::from(at.weekday().number_from_sunday())),
        of_moment("weekday", |at| i64::from(at.weekday().num_days_from_monday())),
        of_clock("hour", |micros| micros / (3_600 * SECOND)),
        of_clock("minute", |micros| micros / (60 * SECOND) % 60),
        of_clock("second", |micros| micros / SECOND % 60),
        of_clock("microsecond", |micros| micros % SECOND),
        strict("week", (1, 2), |a| {
            let mode = a.get(1).map_or(0, Value::int);
            Some(week(a[0].date_time()?.date(), mode).1)
        }),
        of_moment("weekofyear", |at| week(at.date(), 3).1),
        strict("yearweek", (1, 2), |a| {
            let mode = a.get(1).map_or(0, Value::int) | 2;
            let (year, week) = week(a[0].date_time()?.date(), mode);
            Some(i64::from(year) * 100 + week)
        }),
        of_moment("dayname", |at| formatted(at, "%W")),
        of_moment("monthname", |at| formatted(at, "%M")),
        of_moment("last_day", |at| {
            at.date().with_day(1)?.checked_add_months(Months::new(1))?.pred_opt()
        }),
        of_moment("to_days", days),
        of_moment("to_seconds", |at| days(at) * 86_400 + i64::from(at.num_seconds_from_midnight())),
        strict("from_days", (1, 1), |a| {
            let days = i32::try_from(a[0].int().checked_sub(365)?).ok()?;
            NaiveDate::from_num_days_from_ce_opt(days)
        }),
        strict("makedate", (2, 2), |a| {
            let first = NaiveDate::from_yo_opt(i32::try_from(a[0].int()).ok()?, 1)?;
            let days = a[1].int().checked_sub(1).filter(|days| *days >= 0)?;
            first.checked_add_signed(TimeDelta::try_days(days)?)
        }),
        strict("datediff", (2, 2), |a| Some(days(a[0].date_time()?) - days(a[1].date_time()?))),
        strict("timestampdiff", (3, 3), |a| {
            difference(&a[0].to_text(), a[1].date_time()?, a[2].date_time()?)
        }),
        typed("timestampadd", (3, 3), seconds_type, |a| {
            added(&a[2], &a[1], &a[0].to_text(), false)
        }),
        typed("__date_add", (3, 3), added_type, |a| added(&a[0], &a[1], &a[2].to_text(), false)),
        typed("__date_sub", (3, 3), added_type, |a| added(&a[0], &a[1], &a[2].to_text(), true)),
        typed("timestamp", (1, 2), seconds_type, |a| {
            let time = match a.get(1).map(moment) {
                Some(Some((Kind::Time, micros))) => micros,
                Some(_) => return None,
                None => 0,
            };
            a[0].micros()?.checked_add(time).map(Value::Datetime)
        }),
        strict("timediff", (2, 2), |a| {
            let ((kind, end), (other, start)) = (moment(&a[0])?, moment(&a[1])?);
            let seconds = end.checked_sub(start)?.clamp(-TIME_MAX, TIME_MAX) / SECOND;
            (kind == other).then(|| clock_text(seconds * SECOND, 0))
        }),
        strict("time_to_sec", (1, 1), |a| Some(time_of(&a[0])? / SECOND)),
        strict("sec_to_time", (1, 1), |a| {
            let digits = a[0].decimal().map_or(6, |(_, scale)| scale.clamp(0, 6));
            let most = i128::from(TIME_MAX);
            let micros = a[0].at_scale(6).clamp(-most, most) as i64;
            // A double does not tell how many digits it was rounded to.
            let is_whole = digits == 6 && micros % SECOND == 0;
            clock_text(micros, if is_whole { 0 } else { digits as usize })
        }),
        strict("time __time", (1, 1), |a| Some(clock_text(time_of(&a[0])?, 0))),
        typed("str_to_date", (2, 2), read_type, |a| read(&a[0].to_text(), &a[1].to_text())),
    ]
}

/// A function of one datetime.
fn of_moment<R: Answer>(names: &'static str, of: fn(NaiveDateTime) -> R) -> FunctionDef {
    strict(names, (1, 1), move |a| a[0].date_time().map(of))
}

/// An integer from the microseconds of a time.
fn of_clock(names: &'static str, of: fn(i64) -> i64) -> FunctionDef {
    strict(names, (1, 1), move |a| Some(of(time_of(&a[0])?.abs())))
}

/// Days since year 0.
fn days(at: NaiveDateTime) -> i64 {
    i64::from(at.num_days_from_ce()) + 365
}

/// A time as `hh:mm:ss`, with some digits of its fraction.
fn clock_text(micros: i64, digits: usize) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let (all, rest) = (micros.abs() / SECOND, micros.abs() % SECOND);
    let (hours, minutes, seconds) = (all / 3_600, all / 60 % 60, all % 60);
    let point = if digits > 0 { "." } else { "" };
    let fraction = &format!("{rest:06}")[..digits];
    format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{point}{fraction}")
}

/// Whole seconds unless the argument has a fraction.
fn fraction_type(known: &ArgumentInfo<'_>) -> DataType {
    match &known.types[0] {
        given if given.is_integer() || given.is_null() => SECONDS,
        _ => DataType::Timestamp(TimeUnit::Microsecond, None),
    }
}

/// A date if the format has no time in it.
fn read_type(known: &ArgumentInfo<'_>) -> DataType {
    let format = known.values.get(1).copied().flatten();
    let format = format.and_then(|format| format.try_as_str().flatten());
    match format {
        Some(format) if is_clock(format) => DataType::Utf8View,
        Some(format) if !format.contains(|sign| "HkhIlisSfpTr".contains(sign)) => DataType::Date32,
        _ => SECONDS,
    }
}

/// A date stays a date; a text becomes a datetime.
fn added_type(known: &ArgumentInfo<'_>) -> DataType {
    match &known.types[0] {
        DataType::Timestamp(unit, _) => DataType::Timestamp(*unit, None),
        _ => SECONDS,
    }
}

/// A datetime, or a time of day on the first day.
fn clock(of: &Value<'_>) -> Option<NaiveDateTime> {
    date_time(time_of(of)?.abs().rem_euclid(86_400 * SECOND))
}

/// What MySQL takes a value for where it may be a time or a point in time.
#[derive(PartialEq)]
enum Kind {
    Time,
    Date,
    Datetime,
}

/// The microseconds of a time, or since 1970; `None` if it is neither.
fn moment(of: &Value<'_>) -> Option<(Kind, i64)> {
    let kind = match of {
        Value::Datetime(_) => Kind::Datetime,
        Value::Date(_) => Kind::Date,
        other => {
            let text = other.to_text();
            let text = text.trim().trim_start_matches('-');
            // The text of a date alone is no point in time.
            match has_date(text) && text.contains(':') == text.contains('-') {
                true => Kind::Datetime,
                false => Kind::Time,
            }
        }
    };
    let micros = if kind == Kind::Time { time_of(of)? } else { of.micros()? };
    Some((kind, micros))
}

/// Whether the text of a time without its sign begins with a date.
fn has_date(text: &str) -> bool {
    text.contains('-') || (text.len() >= 12 && !text.contains([':', '.']))
}

/// A time in microseconds: of a datetime, `hh:mm:ss.ffffff` after a number of days, or `hhmmss`.
fn time_of(of: &Value<'_>) -> Option<i64> {
    let written = match of {
        Value::Datetime(_) | Value::Date(_) => {
            return of.micros().map(|micros| micros.rem_euclid(86_400 * SECOND));
        }
        other => other.to_text(),
    };
    let (sign, text) = match written.trim().strip_prefix('-') {
        Some(positive) => (-1, positive),
        None => (1, written.trim()),
    };
    if has_date(text)
        && let Some(micros) = of.micros()
    {
        return Some(micros.rem_euclid(86_400 * SECOND));
    }
    let (days, text) = text.split_once(' ').unwrap_or(("0", text));
    let (text, fraction) = text.split_once('.').unwrap_or((text, ""));
    let parts: Vec<i64> = match text.contains(':') {
        true => text.split(':').map(|part| part.trim().parse().ok()).collect::<Option<_>>()?,
        false => {
            let digits: i64 = text.parse().ok()?;
            vec![digits / 10_000, digits / 100 % 100, digits % 100]
        }
    };
    let part = |at: usize| parts.get(at).copied().unwrap_or(0);
    if parts.iter().any(|part| *part < 0) || part(1) > 59 || part(2) > 59 {
        return None;
    }
    let hours = days.parse::<i64>().ok()?.checked_mul(24)?.checked_add(part(0))?;
    let seconds = hours.checked_mul(3_600)?.checked_add(part(1) * 60 + part(2))?;
    let digits: String = fraction.chars().take_while(char::is_ascii_digit).take(6).collect();
    let micros = format!("{digits:0<6}").parse::<i64>().ok()?;
    Some(sign * seconds.saturating_mul(SECOND).saturating_add(micros).min(TIME_MAX))
}
