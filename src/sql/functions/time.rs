//! Functions of times and days: what each takes and gives; how it is worked out is in `calendar`, `formats` and `zones`.
//!
//! A moment has no zone: it is what the session's clock showed. Where a zone matters (from and to unix seconds) it is an
//! argument, which the statement got from the session when it was read.

mod calendar;
mod formats;
mod zones;

use chrono::{Datelike, Months, NaiveDate, NaiveDateTime, Timelike};
use datafusion::arrow::datatypes::{DataType, TimeUnit};

use self::calendar::{added, difference, extract, week};
use self::formats::{formatted, read};
use self::zones::unix;
pub(crate) use self::zones::{shown, zone};
use super::value::{V, date_time, days_of};
use super::{Def, Known, date_type, def, int_type, or_null, text_type, time_type};

/// Microseconds.
const SECOND: i64 = 1_000_000;

pub(super) const FUNCTIONS: &[Def] = &[
    def("__from_unixtime", (2, 2), fraction_type, |a| {
        or_null(a, |a| {
            let micros = match a[0].decimal() {
                Some((value, scale)) => super::value::rescale(value, scale, 6),
                None => Some((a[0].real() * 1e6).round() as i128),
            };
            let micros = micros.and_then(|micros| i64::try_from(micros).ok());
            match micros.filter(|micros| *micros >= 0) {
                Some(micros) => shown(micros, &a[1].said()).map_or(V::Null, V::Time),
                None => V::Null,
            }
        })
    }),
    def("__unix_timestamp", (2, 2), int_type, |a| {
        or_null(a, |a| match a[0].moment() {
            Some(shown) => V::Int(
                unix(shown, &a[1].said()).map_or(0, |micros| micros.div_euclid(SECOND).max(0)),
            ),
            None => V::Int(0),
        })
    }),
    def("convert_tz", (3, 3), time_type, |a| {
        or_null(a, |a| {
            let micros = a[0].moment().and_then(|at| unix(at, &a[1].said()));
            let at = micros.and_then(|micros| shown(micros, &a[2].said()));
            at.map_or(V::Null, V::Time)
        })
    }),
    def("date_format", (2, 3), text_type, |a| {
        or_null(a, |a| match a[0].date_time() {
            Some(at) => V::text(formatted(at, &a[1].said())),
            None => V::Null,
        })
    }),
    def("time_format", (2, 2), text_type, |a| {
        or_null(a, |a| match a[0].date_time() {
            Some(at) => V::text(formatted(at, &a[1].said())),
            None => V::Null,
        })
    }),
    def("__extract", (2, 2), int_type, |a| {
        or_null(a, |a| match a[1].date_time() {
            Some(at) => extract(&a[0].said(), at).map_or(V::Null, V::Int),
            None => V::Null,
        })
    }),
    def("year", (1, 1), int_type, |a| {
        field(a, |at| i64::from(at.year()))
    }),
    def("quarter", (1, 1), int_type, |a| {
        field(a, |at| i64::from(at.month().div_ceil(3)))
    }),
    def("month", (1, 1), int_type, |a| {
        field(a, |at| i64::from(at.month()))
    }),
    def("day", (1, 1), int_type, |a| {
        field(a, |at| i64::from(at.day()))
    }),
    def("dayofmonth", (1, 1), int_type, |a| {
        field(a, |at| i64::from(at.day()))
    }),
    def("dayofyear", (1, 1), int_type, |a| {
        field(a, |at| i64::from(at.ordinal()))
    }),
    def("dayofweek", (1, 1), int_type, |a| {
        field(a, |at| i64::from(at.weekday().num_days_from_sunday()) + 1)
    }),
    def("weekday", (1, 1), int_type, |a| {
        field(a, |at| i64::from(at.weekday().num_days_from_monday()))
    }),
    def("hour", (1, 1), int_type, |a| {
        clock(a, |at| i64::from(at.hour()))
    }),
    def("minute", (1, 1), int_type, |a| {
        clock(a, |at| i64::from(at.minute()))
    }),
    def("second", (1, 1), int_type, |a| {
        clock(a, |at| i64::from(at.second()))
    }),
    def("microsecond", (1, 1), int_type, |a| {
        clock(a, |at| i64::from(at.nanosecond() / 1_000))
    }),
    def("week", (1, 2), int_type, |a| {
        or_null(a, |a| match a[0].date_time() {
            Some(at) => V::Int(week(at.date(), a.get(1).map_or(0, V::int)).1),
            None => V::Null,
        })
    }),
    def("weekofyear", (1, 1), int_type, |a| {
        field(a, |at| week(at.date(), 3).1)
    }),
    def("yearweek", (1, 2), int_type, |a| {
        or_null(a, |a| match a[0].date_time() {
            Some(at) => {
                let (year, week) = week(at.date(), a.get(1).map_or(0, V::int) | 2);
                V::Int(i64::from(year) * 100 + week)
            }
            None => V::Null,
        })
    }),
    def("dayname", (1, 1), text_type, |a| named(a, "%W")),
    def("monthname", (1, 1), text_type, |a| named(a, "%M")),
    def("last_day", (1, 1), date_type, |a| {
        or_null(a, |a| {
            let last = a[0].date_time().and_then(|at| {
                let first = at.date().with_day(1)?;
                first.checked_add_months(Months::new(1))?.pred_opt()
            });
            last.map_or(V::Null, |last| V::Date(days_of(last)))
        })
    }),
    def("to_days", (1, 1), int_type, |a| {
        field(a, |at| i64::from(at.num_days_from_ce()) + 365)
    }),
    def("to_seconds", (1, 1), int_type, |a| {
        field(a, |at| {
            (i64::from(at.num_days_from_ce()) + 365) * 86_400
                + i64::from(at.num_seconds_from_midnight())
        })
    }),
    def("from_days", (1, 1), date_type, |a| {
        or_null(a, |a| {
            let days = i32::try_from(a[0].int() - 365).ok();
            let date = days.and_then(NaiveDate::from_num_days_from_ce_opt);
            date.map_or(V::Null, |date| V::Date(days_of(date)))
        })
    }),
    def("makedate", (2, 2), date_type, |a| {
        or_null(a, |a| {
            let year = i32::try_from(a[0].int()).ok();
            let first = year.and_then(|year| NaiveDate::from_yo_opt(year, 1));
            let days = a[1].int().checked_sub(1).filter(|days| *days >= 0);
            let date = first.zip(days).and_then(|(first, days)| {
                first.checked_add_signed(chrono::TimeDelta::try_days(days)?)
            });
            date.map_or(V::Null, |date| V::Date(days_of(date)))
        })
    }),
    def("datediff", (2, 2), int_type, |a| {
        or_null(a, |a| match (a[0].moment(), a[1].moment()) {
            (Some(left), Some(right)) => {
                const DAY: i64 = 86_400 * SECOND;
                V::Int(left.div_euclid(DAY) - right.div_euclid(DAY))
            }
            _ => V::Null,
        })
    }),
    def("timestampdiff", (3, 3), int_type, |a| {
        or_null(a, |a| match (a[1].date_time(), a[2].date_time()) {
            (Some(from), Some(to)) => difference(&a[0].said(), from, to).map_or(V::Null, V::Int),
            _ => V::Null,
        })
    }),
    def("timestampadd", (3, 3), time_type, |a| {
        or_null(a, |a| added(&a[2], &a[1].said(), &a[0].said(), false))
    }),
    def("__date_add", (3, 3), added_type, |a| {
        or_null(a, |a| added(&a[0], &a[1].said(), &a[2].said(), false))
    }),
    def("__date_sub", (3, 3), added_type, |a| {
        or_null(a, |a| added(&a[0], &a[1].said(), &a[2].said(), true))
    }),
    def("time_to_sec", (1, 1), int_type, |a| {
        or_null(a, |a| seconds(&a[0]).map_or(V::Null, V::Int))
    }),
    def("sec_to_time", (1, 1), text_type, |a| {
        or_null(a, |a| {
            let seconds = a[0].int().clamp(-3_020_399, 3_020_399);
            let sign = if seconds < 0 { "-" } else { "" };
            let all = seconds.unsigned_abs();
            V::text(format!(
                "{sign}{:02}:{:02}:{:02}",
                all / 3_600,
                all / 60 % 60,
                all % 60
            ))
        })
    }),
    def("time", (1, 1), text_type, |a| {
        or_null(a, |a| match seconds(&a[0]) {
            Some(all) => V::text(format!(
                "{:02}:{:02}:{:02}",
                all / 3_600,
                all / 60 % 60,
                all % 60
            )),
            None => V::Null,
        })
    }),
    def("str_to_date", (2, 2), read_type, |a| {
        or_null(a, |a| {
            read(&a[0].said(), &a[1].said()).map_or(V::Null, V::Time)
        })
    }),
];

/// Whole seconds unless what is given has a fraction.
fn fraction_type(known: &Known<'_>) -> DataType {
    match &known.types[0] {
        given if given.is_integer() || given.is_null() => {
            DataType::Timestamp(TimeUnit::Second, None)
        }
        _ => DataType::Timestamp(TimeUnit::Microsecond, None),
    }
}

/// A day if the format has no time in it.
fn read_type(known: &Known<'_>) -> DataType {
    let format = known.values.get(1).copied().flatten();
    let format = format.and_then(|format| format.try_as_str().flatten());
    match format {
        Some(format) if !format.contains(|sign| "HkhIlisSfpTr".contains(sign)) => DataType::Date32,
        _ => DataType::Timestamp(TimeUnit::Second, None),
    }
}

/// A day stays a day; a text becomes a moment.
fn added_type(known: &Known<'_>) -> DataType {
    match &known.types[0] {
        DataType::Timestamp(unit, _) => DataType::Timestamp(*unit, None),
        _ => DataType::Timestamp(TimeUnit::Second, None),
    }
}

fn field<'a>(a: &'a [V<'a>], of: fn(NaiveDateTime) -> i64) -> V<'a> {
    a[0].date_time().map_or(V::Null, |at| V::Int(of(at)))
}

/// The same for what may be a time of day only.
fn clock<'a>(a: &'a [V<'a>], of: fn(NaiveDateTime) -> i64) -> V<'a> {
    if let (V::Text(text), Some(seconds)) = (&a[0], seconds(&a[0]))
        && !text.contains('-')
    {
        let at = date_time(seconds.rem_euclid(86_400) * SECOND);
        return at.map_or(V::Null, |at| V::Int(of(at)));
    }
    field(a, of)
}

/// Seconds since midnight, of a moment or of `hh:mm:ss`.
fn seconds(of: &V<'_>) -> Option<i64> {
    let said = of.said();
    let is_clock = said
        .trim_start()
        .trim_start_matches('-')
        .find(|sign: char| !sign.is_ascii_digit())
        .is_some_and(|at| said.trim_start().trim_start_matches('-')[at..].starts_with(':'));
    if !is_clock
        && let Some(at) = of
            .date_time()
            .filter(|_| !matches!(of, V::Int(_) | V::Real(_)))
    {
        return Some(i64::from(at.num_seconds_from_midnight()));
    }
    let mut parts = said.split('.').next()?.split(':');
    let mut all = 0_i64;
    for at in 0..3 {
        let part: i64 = match parts.next() {
            Some(part) => part.trim().parse().ok()?,
            None if at > 0 => 0,
            None => return None,
        };
        all = all.checked_mul(60)?.checked_add(part)?;
    }
    Some(all)
}

fn named<'a>(a: &'a [V<'a>], format: &str) -> V<'a> {
    a[0].date_time()
        .map_or(V::Null, |at| V::text(formatted(at, format)))
}
