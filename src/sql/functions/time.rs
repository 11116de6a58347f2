//! Functions of dates and times; the work is in `calendar`, `formats` and `zones`.
//!
//! A datetime has no zone. Functions that need one (from and to Unix seconds) take the session's as an argument.

mod calendar;
mod formats;
mod zones;

use chrono::{Datelike, Months, NaiveDate, NaiveDateTime, TimeDelta, Timelike};
use datafusion::arrow::datatypes::{DataType, TimeUnit};

use self::calendar::{added, difference, extract, week};
use self::formats::{formatted, read};
use self::zones::unix;
pub(crate) use self::zones::{shown, zone};
use super::Returns::By;
use super::value::{Value, date_time, rescale};
use super::{ArgumentInfo, DATE, FunctionDef, INT, TEXT, TIME, maybe, strict};

/// Microseconds.
const SECOND: i64 = 1_000_000;

pub(super) fn functions() -> Vec<FunctionDef> {
    vec![
        maybe("__from_unixtime", (2, 2), By(fraction_type), |a| {
            let micros = match a[0].decimal() {
                Some((value, scale)) => rescale(value, scale, 6)?,
                None => (a[0].real() * 1e6).round() as i128,
            };
            let micros = i64::try_from(micros).ok().filter(|micros| *micros >= 0)?;
            shown(micros, &a[1].to_text()).map(Value::Datetime)
        }),
        strict("__unix_timestamp", (2, 2), INT, |a| {
            let micros = a[0].micros().and_then(|shown| unix(shown, &a[1].to_text()));
            Value::Int(micros.map_or(0, |micros| micros.div_euclid(SECOND).max(0)))
        }),
        maybe("convert_tz", (3, 3), TIME, |a| {
            let micros = unix(a[0].micros()?, &a[1].to_text())?;
            shown(micros, &a[2].to_text()).map(Value::Datetime)
        }),
        maybe("date_format", (2, 3), TEXT, |a| {
            Some(Value::text(formatted(a[0].date_time()?, &a[1].to_text())))
        }),
        maybe("time_format", (2, 2), TEXT, |a| {
            Some(Value::text(formatted(a[0].date_time()?, &a[1].to_text())))
        }),
        maybe("__extract", (2, 2), INT, |a| {
            extract(&a[0].to_text(), a[1].date_time()?).map(Value::Int)
        }),
        part("year", |at| at.year().into()),
        part("quarter", |at| at.month().div_ceil(3).into()),
        part("month", |at| at.month().into()),
        part("day dayofmonth", |at| at.day().into()),
        part("dayofyear", |at| at.ordinal().into()),
        part("dayofweek", |at| at.weekday().number_from_sunday().into()),
        part("weekday", |at| at.weekday().num_days_from_monday().into()),
        clock_part("hour", |at| at.hour().into()),
        clock_part("minute", |at| at.minute().into()),
        clock_part("second", |at| at.second().into()),
        clock_part("microsecond", |at| i64::from(at.nanosecond() / 1_000)),
        maybe("week", (1, 2), INT, |a| {
            let mode = a.get(1).map_or(0, Value::int);
            Some(Value::Int(week(a[0].date_time()?.date(), mode).1))
        }),
        part("weekofyear", |at| week(at.date(), 3).1),
        maybe("yearweek", (1, 2), INT, |a| {
            let mode = a.get(1).map_or(0, Value::int) | 2;
            let (year, week) = week(a[0].date_time()?.date(), mode);
            Some(Value::Int(i64::from(year) * 100 + week))
        }),
        maybe("dayname", (1, 1), TEXT, |a| {
            Some(Value::text(formatted(a[0].date_time()?, "%W")))
        }),
        maybe("monthname", (1, 1), TEXT, |a| {
            Some(Value::text(formatted(a[0].date_time()?, "%M")))
        }),
        maybe("last_day", (1, 1), DATE, |a| {
            let first = a[0].date_time()?.date().with_day(1)?;
            let last = first.checked_add_months(Months::new(1))?.pred_opt()?;
            Some(Value::Date(last.to_epoch_days()))
        }),
        part("to_days", |at| i64::from(at.num_days_from_ce()) + 365),
        part("to_seconds", |at| {
            (i64::from(at.num_days_from_ce()) + 365) * 86_400
                + i64::from(at.num_seconds_from_midnight())
        }),
        maybe("from_days", (1, 1), DATE, |a| {
            let days = i32::try_from(a[0].int() - 365).ok()?;
            let date = NaiveDate::from_num_days_from_ce_opt(days)?;
            Some(Value::Date(date.to_epoch_days()))
        }),
        maybe("makedate", (2, 2), DATE, |a| {
            let first = NaiveDate::from_yo_opt(i32::try_from(a[0].int()).ok()?, 1)?;
            let days = a[1].int().checked_sub(1).filter(|days| *days >= 0)?;
            let date = first.checked_add_signed(TimeDelta::try_days(days)?)?;
            Some(Value::Date(date.to_epoch_days()))
        }),
        maybe("datediff", (2, 2), INT, |a| {
            let day = |of: &Value<'_>| Some(of.micros()?.div_euclid(86_400 * SECOND));
            Some(Value::Int(day(&a[0])? - day(&a[1])?))
        }),
        maybe("timestampdiff", (3, 3), INT, |a| {
            difference(&a[0].to_text(), a[1].date_time()?, a[2].date_time()?).map(Value::Int)
        }),
        maybe("timestampadd", (3, 3), TIME, |a| {
            added(&a[2], &a[1].to_text(), &a[0].to_text(), false)
        }),
        maybe("__date_add", (3, 3), By(added_type), |a| {
            added(&a[0], &a[1].to_text(), &a[2].to_text(), false)
        }),
        maybe("__date_sub", (3, 3), By(added_type), |a| {
            added(&a[0], &a[1].to_text(), &a[2].to_text(), true)
        }),
        maybe("time_to_sec", (1, 1), INT, |a| {
            seconds(&a[0]).map(Value::Int)
        }),
        strict("sec_to_time", (1, 1), TEXT, |a| {
            clock_text(a[0].int().clamp(-3_020_399, 3_020_399))
        }),
        maybe("time", (1, 1), TEXT, |a| {
            Some(clock_text(seconds(&a[0])?.abs()))
        }),
        maybe("str_to_date", (2, 2), By(read_type), |a| {
            read(&a[0].to_text(), &a[1].to_text()).map(Value::Datetime)
        }),
    ]
}

/// A whole number of a moment.
fn part(names: &'static str, of: fn(NaiveDateTime) -> i64) -> FunctionDef {
    maybe(names, (1, 1), INT, move |a| {
        Some(Value::Int(of(a[0].date_time()?)))
    })
}

/// The same of a moment or of a time of day.
fn clock_part(names: &'static str, of: fn(NaiveDateTime) -> i64) -> FunctionDef {
    maybe(names, (1, 1), INT, move |a| {
        Some(Value::Int(of(clock(&a[0])?)))
    })
}

/// Seconds as `hh:mm:ss`.
fn clock_text(seconds: i64) -> Value<'static> {
    let sign = if seconds < 0 { "-" } else { "" };
    let all = seconds.unsigned_abs();
    Value::text(format!(
        "{sign}{:02}:{:02}:{:02}",
        all / 3_600,
        all / 60 % 60,
        all % 60
    ))
}

/// Whole seconds unless what is given has a fraction.
fn fraction_type(known: &ArgumentInfo<'_>) -> DataType {
    match &known.types[0] {
        given if given.is_integer() || given.is_null() => {
            DataType::Timestamp(TimeUnit::Second, None)
        }
        _ => DataType::Timestamp(TimeUnit::Microsecond, None),
    }
}

/// A day if the format has no time in it.
fn read_type(known: &ArgumentInfo<'_>) -> DataType {
    let format = known.values.get(1).copied().flatten();
    let format = format.and_then(|format| format.try_as_str().flatten());
    match format {
        Some(format) if !format.contains(|sign| "HkhIlisSfpTr".contains(sign)) => DataType::Date32,
        _ => DataType::Timestamp(TimeUnit::Second, None),
    }
}

/// A day stays a day; a text becomes a moment.
fn added_type(known: &ArgumentInfo<'_>) -> DataType {
    match &known.types[0] {
        DataType::Timestamp(unit, _) => DataType::Timestamp(*unit, None),
        _ => DataType::Timestamp(TimeUnit::Second, None),
    }
}

/// A moment, or the first day at a time of day.
fn clock(of: &Value<'_>) -> Option<NaiveDateTime> {
    match (of, seconds(of)) {
        (Value::Text(text), Some(seconds)) if !text.contains('-') => {
            date_time(seconds.rem_euclid(86_400) * SECOND)
        }
        _ => of.date_time(),
    }
}

/// Seconds since midnight, of a moment or of `hh:mm:ss`.
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
