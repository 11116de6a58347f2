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
use self::formats::{formatted, read};
use self::zones::unix;
pub(crate) use self::zones::{shown, zone};
use super::value::{Value, date_time, rescale};
use super::{Answer, ArgumentInfo, FunctionDef, SECONDS, seconds_type, strict, typed};

/// Microseconds in a second.
const SECOND: i64 = 1_000_000;

pub(super) fn functions() -> Vec<FunctionDef> {
    vec![
        typed("__from_unixtime", (2, 2), fraction_type, |a| {
            let micros = match a[0].decimal() {
                Some((value, scale)) => rescale(value, scale, 6)?,
                None => (a[0].real() * 1e6).round() as i128,
            };
            let micros = i64::try_from(micros).ok().filter(|micros| *micros >= 0)?;
            shown(micros, &a[1].to_text()).map(Value::Datetime)
        }),
        strict("__unix_timestamp", (2, 2), |a| {
            let micros = a[0].micros().and_then(|shown| unix(shown, &a[1].to_text()));
            micros.map_or(0, |micros| micros.div_euclid(SECOND).max(0))
        }),
        typed("convert_tz", (3, 3), seconds_type, |a| {
            let micros = unix(a[0].micros()?, &a[1].to_text())?;
            shown(micros, &a[2].to_text()).map(Value::Datetime)
        }),
        strict("date_format time_format", (2, 3), |a| {
            Some(formatted(a[0].date_time()?, &a[1].to_text()))
        }),
        strict("__extract", (2, 2), |a| extract(&a[0].to_text(), a[1].date_time()?)),
        of_moment("year", |at| i64::from(at.year())),
        of_moment("quarter", |at| i64::from(at.month().div_ceil(3))),
        of_moment("month", |at| i64::from(at.month())),
        of_moment("day dayofmonth", |at| i64::from(at.day())),
        of_moment("dayofyear", |at| i64::from(at.ordinal())),
        of_moment("dayofweek", |at| i64::from(at.weekday().number_from_sunday())),
        of_moment("weekday", |at| i64::from(at.weekday().num_days_from_monday())),
        of_clock("hour", |at| at.hour()),
        of_clock("minute", |at| at.minute()),
        of_clock("second", |at| at.second()),
        of_clock("microsecond", |at| at.nanosecond() / 1_000),
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
            let first = at.date().with_day(1)?;
            first.checked_add_months(Months::new(1))?.pred_opt()
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
            added(&a[2], &a[1].to_text(), &a[0].to_text())
        }),
        typed("__date_add", (3, 3), added_type, |a| added(&a[0], &a[1].to_text(), &a[2].to_text())),
        strict("time_to_sec", (1, 1), |a| seconds(&a[0])),
        strict("sec_to_time", (1, 1), |a| clock_text(a[0].int().clamp(-3_020_399, 3_020_399))),
        strict("time", (1, 1), |a| Some(clock_text(seconds(&a[0])?.abs()))),
        typed("str_to_date", (2, 2), read_type, |a| {
            read(&a[0].to_text(), &a[1].to_text()).map(Value::Datetime)
        }),
    ]
}

/// A function of one datetime.
fn of_moment<R: Answer>(names: &'static str, of: fn(NaiveDateTime) -> R) -> FunctionDef {
    strict(names, (1, 1), move |a| a[0].date_time().map(of))
}

/// An integer from a datetime or time of day.
fn of_clock(names: &'static str, of: fn(NaiveDateTime) -> u32) -> FunctionDef {
    strict(names, (1, 1), move |a| Some(i64::from(of(clock(&a[0])?))))
}

/// Days since year 0.
fn days(at: NaiveDateTime) -> i64 {
    i64::from(at.num_days_from_ce()) + 365
}

/// Seconds as `hh:mm:ss`.
fn clock_text(seconds: i64) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let all = seconds.unsigned_abs();
    let (hours, minutes, seconds) = (all / 3_600, all / 60 % 60, all % 60);
    format!("{sign}{hours:02}:{minutes:02}:{seconds:02}")
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
    match (of, seconds(of)) {
        (Value::Text(text), Some(seconds)) if !text.contains('-') => {
            date_time(seconds.rem_euclid(86_400) * SECOND)
        }
        _ => of.date_time(),
    }
}

/// Seconds since midnight, of a datetime or of `hh:mm:ss`.
fn seconds(of: &Value<'_>) -> Option<i64> {
    let text = of.to_text();
    let digits = text.trim_start().trim_start_matches('-');
    let rest = digits.trim_start_matches(|sign: char| sign.is_ascii_digit());
    if !rest.starts_with(':')
        && !matches!(of, Value::Int(_) | Value::Double(_))
        && let Some(at) = of.date_time()
    {
        return Some(i64::from(at.num_seconds_from_midnight()));
    }
    let parts = text.split('.').next()?.split(':');
    let parts = parts.map(|part| part.trim().parse::<i64>().ok());
    let parts: Vec<i64> = parts.take(3).collect::<Option<_>>()?;
    let part = |at: usize| parts.get(at).copied().unwrap_or(0);
    (0..3).try_fold(0_i64, |all, at| all.checked_mul(60)?.checked_add(part(at)))
}
