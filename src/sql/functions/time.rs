//! Functions of times and days.
//!
//! A moment has no zone: it is what the session's clock showed. Where a zone matters (from and to unix seconds) it is an
//! argument, which the statement got from the session when it was read.

use chrono::{Datelike, Months, NaiveDate, NaiveDateTime, Offset, TimeZone, Timelike};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::datatypes::{DataType, TimeUnit};

use super::number::or_null;
use super::value::{V, date_time, days_of};
use super::{Def, Known, date_type, def, int_type, text_type, time_type};

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

/// A zone by its name or by its distance; `SYSTEM` is the daemon's own.
pub(crate) fn zone(name: &str) -> Option<Tz> {
    match name {
        "Z" | "UTC" => "+00:00".parse().ok(),
        name => name.parse().ok(),
    }
}

/// What the clocks of a zone show at a moment since 1970.
pub(crate) fn shown(micros: i64, name: &str) -> Option<i64> {
    let at = date_time(micros)?;
    let offset = match name.eq_ignore_ascii_case("SYSTEM") {
        true => chrono::Local.offset_from_utc_datetime(&at).fix(),
        false => zone(name)?.offset_from_utc_datetime(&at).fix(),
    };
    micros.checked_add(i64::from(offset.local_minus_utc()) * SECOND)
}

/// When the clocks of a zone show this.
fn unix(shown: i64, name: &str) -> Option<i64> {
    let at = date_time(shown)?;
    let offset = match name.eq_ignore_ascii_case("SYSTEM") {
        true => chrono::Local
            .offset_from_local_datetime(&at)
            .earliest()?
            .fix(),
        false => zone(name)?
            .offset_from_local_datetime(&at)
            .earliest()?
            .fix(),
    };
    shown.checked_sub(i64::from(offset.local_minus_utc()) * SECOND)
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

fn formatted(at: NaiveDateTime, format: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    let mut signs = format.chars();
    let hour_12 = match at.hour() % 12 {
        0 => 12,
        hour => hour,
    };
    while let Some(sign) = signs.next() {
        if sign != '%' {
            out.push(sign);
            continue;
        }
        // Writing to a String cannot fail.
        let _ = match signs.next() {
            Some('Y') => write!(out, "{:04}", at.year()),
            Some('y') => write!(out, "{:02}", at.year() % 100),
            Some('m') => write!(out, "{:02}", at.month()),
            Some('c') => write!(out, "{}", at.month()),
            Some('d') => write!(out, "{:02}", at.day()),
            Some('e') => write!(out, "{}", at.day()),
            Some('D') => {
                let ending = match (at.day() % 10, at.day() / 10) {
                    (1, tens) if tens != 1 => "st",
                    (2, tens) if tens != 1 => "nd",
                    (3, tens) if tens != 1 => "rd",
                    _ => "th",
                };
                write!(out, "{}{ending}", at.day())
            }
            Some('H') => write!(out, "{:02}", at.hour()),
            Some('k') => write!(out, "{}", at.hour()),
            Some('h' | 'I') => write!(out, "{hour_12:02}"),
            Some('l') => write!(out, "{hour_12}"),
            Some('i') => write!(out, "{:02}", at.minute()),
            Some('s' | 'S') => write!(out, "{:02}", at.second()),
            Some('f') => write!(out, "{:06}", at.nanosecond() / 1_000),
            Some('p') => write!(out, "{}", if at.hour() < 12 { "AM" } else { "PM" }),
            Some('T') => write!(out, "{}", at.format("%H:%M:%S")),
            Some('r') => write!(out, "{}", at.format("%I:%M:%S %p")),
            Some('a') => write!(out, "{}", at.format("%a")),
            Some('W') => write!(out, "{}", at.format("%A")),
            Some('b') => write!(out, "{}", at.format("%b")),
            Some('M') => write!(out, "{}", at.format("%B")),
            Some('w') => write!(out, "{}", at.weekday().num_days_from_sunday()),
            Some('j') => write!(out, "{:03}", at.ordinal()),
            Some('U') => write!(out, "{:02}", week(at.date(), 0).1),
            Some('u') => write!(out, "{:02}", week(at.date(), 1).1),
            Some('V') => write!(out, "{:02}", week(at.date(), 2).1),
            Some('v') => write!(out, "{:02}", week(at.date(), 3).1),
            Some('X') => write!(out, "{:04}", week(at.date(), 2).0),
            Some('x') => write!(out, "{:04}", week(at.date(), 3).0),
            Some(other) => write!(out, "{other}"),
            None => Ok(()),
        };
    }
    out
}

/// MySQL's weeks by their eight modes: bit 0 Monday first, bit 1 no week 0, bit 2 the first full week is the first.
fn week(date: NaiveDate, mode: i64) -> (i32, i64) {
    let mode = mode & 7;
    let monday = mode & 1 != 0;
    let whole_year = mode & 2 != 0;
    // With Monday the last bit means the opposite.
    let full = (mode & 4 != 0) == monday;
    let weekday = |date: NaiveDate| match monday {
        true => date.weekday().num_days_from_monday(),
        false => date.weekday().num_days_from_sunday(),
    };
    let first_week = |year: i32| -> Option<NaiveDate> {
        let first = NaiveDate::from_yo_opt(year, 1)?;
        let day = i64::from(weekday(first));
        let starts_before = match full {
            true => day == 0,
            false => day <= 3,
        };
        let shift = if starts_before { -day } else { 7 - day };
        first.checked_add_signed(chrono::TimeDelta::try_days(shift)?)
    };
    let year = date.year();
    let number = |from: NaiveDate| (date - from).num_days().div_euclid(7) + 1;
    let Some(first) = first_week(year) else {
        return (year, 0);
    };
    if date < first {
        if !whole_year {
            return (year, 0);
        }
        return match first_week(year - 1) {
            Some(first) => (year - 1, number(first)),
            None => (year, 0),
        };
    }
    if whole_year
        && let Some(next) = first_week(year + 1)
        && date >= next
    {
        return (year + 1, 1);
    }
    (year, number(first))
}

fn extract(unit: &str, at: NaiveDateTime) -> Option<i64> {
    let (date, time) = (
        i64::from(at.year()) * 10_000 + i64::from(at.month()) * 100 + i64::from(at.day()),
        i64::from(at.hour()) * 10_000 + i64::from(at.minute()) * 100 + i64::from(at.second()),
    );
    let micros = i64::from(at.nanosecond() / 1_000);
    Some(match unit.to_ascii_uppercase().as_str() {
        "MICROSECOND" => micros,
        "SECOND" => time % 100,
        "MINUTE" => time / 100 % 100,
        "HOUR" => time / 10_000,
        "DAY" => date % 100,
        "WEEK" => week(at.date(), 0).1,
        "MONTH" => date / 100 % 100,
        "QUARTER" => (date / 100 % 100 + 2) / 3,
        "YEAR" => date / 10_000,
        "YEAR_MONTH" => date / 100,
        "DAY_HOUR" => date % 100 * 100 + time / 10_000,
        "DAY_MINUTE" => date % 100 * 10_000 + time / 100,
        "DAY_SECOND" => date % 100 * 1_000_000 + time,
        "HOUR_MINUTE" => time / 100,
        "HOUR_SECOND" => time,
        "MINUTE_SECOND" => time % 10_000,
        _ => return None,
    })
}

/// Months, or microseconds, of so many of a unit.
enum Span {
    Months(i64),
    Micros(i64),
}

fn span(amount: &str, unit: &str) -> Option<Span> {
    let unit = unit.to_ascii_uppercase();
    let number = || super::value::number_prefix(amount);
    let times = |by: i64| {
        let micros = match amount.trim().parse::<i64>() {
            Ok(whole) => whole.checked_mul(by)?,
            Err(_) => number().round() as i64 * by,
        };
        Some(Span::Micros(micros))
    };
    let months = |by: i64| Some(Span::Months((number().round() as i64).checked_mul(by)?));
    match unit.as_str() {
        "MICROSECOND" => times(1),
        "SECOND" => Some(Span::Micros((number() * 1e6).round() as i64)),
        "MINUTE" => times(60 * SECOND),
        "HOUR" => times(3_600 * SECOND),
        "DAY" => times(86_400 * SECOND),
        "WEEK" => times(7 * 86_400 * SECOND),
        "MONTH" => months(1),
        "QUARTER" => months(3),
        "YEAR" => months(12),
        _ => None,
    }
}

fn added<'a>(to: &V<'a>, amount: &str, unit: &str, back: bool) -> V<'a> {
    let made = (|| {
        let at = to.date_time()?;
        match span(amount, unit)? {
            Span::Micros(micros) => {
                let micros = if back { micros.checked_neg()? } else { micros };
                at.and_utc().timestamp_micros().checked_add(micros)
            }
            Span::Months(months) => {
                let by = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
                let at = match (months < 0) != back {
                    true => at.checked_sub_months(by)?,
                    false => at.checked_add_months(by)?,
                };
                Some(at.and_utc().timestamp_micros())
            }
        }
    })();
    // A year of more than four digits is none.
    let limit = 253_402_300_799 * SECOND;
    made.filter(|micros| *micros <= limit && *micros >= -62_135_596_800 * SECOND)
        .map_or(V::Null, V::Time)
}

fn difference(unit: &str, from: NaiveDateTime, to: NaiveDateTime) -> Option<i64> {
    let micros = to.and_utc().timestamp_micros() - from.and_utc().timestamp_micros();
    let months = || {
        let mut months = i64::from(to.year() - from.year()) * 12 + i64::from(to.month())
            - i64::from(from.month());
        let rest = |at: NaiveDateTime| (at.day(), at.time());
        if months > 0 && rest(to) < rest(from) {
            months -= 1;
        } else if months < 0 && rest(to) > rest(from) {
            months += 1;
        }
        months
    };
    Some(match unit.to_ascii_uppercase().as_str() {
        "MICROSECOND" => micros,
        "SECOND" => micros / SECOND,
        "MINUTE" => micros / (60 * SECOND),
        "HOUR" => micros / (3_600 * SECOND),
        "DAY" => micros / (86_400 * SECOND),
        "WEEK" => micros / (7 * 86_400 * SECOND),
        "MONTH" => months(),
        "QUARTER" => months() / 3,
        "YEAR" => months() / 12,
        _ => return None,
    })
}

/// STR_TO_DATE: the usual signs.
fn read(text: &str, format: &str) -> Option<i64> {
    let (mut year, mut month, mut day) = (0_i32, 0_u32, 0_u32);
    let (mut hour, mut minute, mut second, mut micros) = (0_u32, 0_u32, 0_u32, 0_i64);
    let mut afternoon = None;
    let mut rest = text.trim_start();
    let mut signs = format.chars();
    let digits = |rest: &mut &str, most: usize| -> Option<u32> {
        let length = rest
            .bytes()
            .take(most)
            .take_while(u8::is_ascii_digit)
            .count();
        let number = rest[..length].parse().ok()?;
        *rest = &rest[length..];
        Some(number)
    };
    while let Some(sign) = signs.next() {
        if sign == ' ' {
            rest = rest.trim_start();
            continue;
        }
        if sign != '%' {
            rest = rest.strip_prefix(sign)?;
            continue;
        }
        match signs.next()? {
            'Y' => year = i32::try_from(digits(&mut rest, 4)?).ok()?,
            'y' => {
                let two = i32::try_from(digits(&mut rest, 2)?).ok()?;
                year = two + if two < 70 { 2_000 } else { 1_900 };
            }
            'm' | 'c' => month = digits(&mut rest, 2)?,
            'd' | 'e' => day = digits(&mut rest, 2)?,
            'H' | 'k' | 'h' | 'I' | 'l' => hour = digits(&mut rest, 2)?,
            'i' => minute = digits(&mut rest, 2)?,
            's' | 'S' => second = digits(&mut rest, 2)?,
            'f' => {
                let length = rest.bytes().take(6).take_while(u8::is_ascii_digit).count();
                micros = format!("{:0<6}", &rest[..length]).parse().ok()?;
                rest = &rest[length..];
            }
            'p' => {
                afternoon = Some(rest.get(..2)?.eq_ignore_ascii_case("pm"));
                rest = rest.get(2..)?;
            }
            'T' => {
                hour = digits(&mut rest, 2)?;
                rest = rest.strip_prefix(':')?;
                minute = digits(&mut rest, 2)?;
                rest = rest.strip_prefix(':')?;
                second = digits(&mut rest, 2)?;
            }
            'b' | 'M' => {
                let length = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
                let name = rest[..length].to_ascii_lowercase();
                const MONTHS: [&str; 12] = [
                    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov",
                    "dec",
                ];
                let at = MONTHS.iter().position(|short| name.starts_with(short))?;
                month = u32::try_from(at).ok()? + 1;
                rest = &rest[length..];
            }
            _ => return None,
        }
    }
    match afternoon {
        Some(true) if hour < 12 => hour += 12,
        Some(false) if hour == 12 => hour = 0,
        _ => {}
    }
    let at = NaiveDate::from_ymd_opt(year, month, day)?.and_hms_opt(hour, minute, second)?;
    Some(at.and_utc().timestamp_micros() + micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_in_every_mode() {
        let day = NaiveDate::from_ymd_opt(2008, 2, 20).expect("a day");
        let weeks: Vec<i64> = (0..8).map(|mode| week(day, mode).1).collect();
        assert_eq!(weeks, [7, 8, 7, 8, 8, 7, 8, 7]);
        let new_year = NaiveDate::from_ymd_opt(2000, 1, 1).expect("a day");
        assert_eq!(week(new_year, 0), (2000, 0));
        assert_eq!(week(new_year, 2), (1999, 52));
    }

    #[test]
    fn zones() {
        assert_eq!(shown(0, "+02:00"), Some(7_200 * SECOND));
        assert_eq!(shown(0, "Europe/Berlin"), Some(3_600 * SECOND));
        assert_eq!(unix(3_600 * SECOND, "Europe/Berlin"), Some(0));
        assert_eq!(shown(0, "nowhere"), None);
    }
}
