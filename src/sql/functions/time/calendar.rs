//! Weeks in MySQL's modes, parts of a datetime, and arithmetic with units.
//!
//! Months and years are steps on the calendar, clamped to the last day of a month; all other units
//! are microseconds.

use chrono::{Datelike, Months, NaiveDate, NaiveDateTime, TimeDelta, Timelike};

use super::SECOND;
use crate::sql::functions::convert::text_prefix;
use crate::sql::functions::value::Value;

/// MySQL's week numbers in their eight modes: bit 0 Monday first, bit 1 no week 0, bit 2 the first
/// full week is the first.
pub(super) fn week(date: NaiveDate, mode: i64) -> (i32, i64) {
    let monday = mode & 1 != 0;
    // With Monday the last bit has the opposite meaning.
    let full = (mode & 4 != 0) == monday;
    let weekday = match monday {
        true => date.weekday().num_days_from_monday(),
        false => date.weekday().num_days_from_sunday(),
    };
    // The day whose year is that of the week: the first, or the middle one.
    let days = if full { 0 } else { 3 } - i64::from(weekday);
    let by = |days| date.checked_add_signed(TimeDelta::days(days)).unwrap_or(date);
    let number = |day: NaiveDate| i64::from(day.ordinal0()) / 7 + 1;
    let decisive = by(days);
    match decisive.year() {
        year if mode & 2 != 0 => (year, number(decisive)),
        year if year < date.year() => (date.year(), 0),
        year if year > date.year() => (date.year(), number(by(days - 7)) + 1),
        year => (year, number(decisive)),
    }
}

/// Extracts a part, or several as one number, as EXTRACT names them.
pub(super) fn extract(unit: &str, at: NaiveDateTime) -> Option<i64> {
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

/// A number of months, or of microseconds.
enum Span {
    Months(i64),
    Micros(i64),
}

/// The span of a unit.
fn unit_of(name: &str) -> Option<Span> {
    Some(match name.to_ascii_uppercase().as_str() {
        "MICROSECOND" => Span::Micros(1),
        "SECOND" => Span::Micros(SECOND),
        "MINUTE" => Span::Micros(60 * SECOND),
        "HOUR" => Span::Micros(3_600 * SECOND),
        "DAY" => Span::Micros(86_400 * SECOND),
        "WEEK" => Span::Micros(7 * 86_400 * SECOND),
        "MONTH" => Span::Months(1),
        "QUARTER" => Span::Months(3),
        "YEAR" => Span::Months(12),
        _ => return None,
    })
}

/// A number of units, perhaps backwards; only seconds may have a fraction.
fn span(amount: &Value<'_>, unit: &str, back: bool) -> Option<Span> {
    let sign = if back { -1 } else { 1 };
    let whole = || match amount {
        // The integer that it begins with; numbers are rounded.
        Value::Text(text) => text_prefix(text),
        number => number.int(),
    };
    Some(match unit_of(unit)? {
        Span::Micros(SECOND) => {
            Span::Micros((amount.real() * 1e6 * f64::from(sign)).round() as i64)
        }
        Span::Micros(micros) => Span::Micros(whole().checked_mul(micros * i64::from(sign))?),
        Span::Months(months) => Span::Months(whole().checked_mul(months * i64::from(sign))?),
    })
}

/// Adds an amount of a unit, or subtracts it; `None` outside MySQL's range of years.
pub(super) fn added<'a>(
    to: &Value<'a>,
    amount: &Value<'_>,
    unit: &str,
    back: bool,
) -> Option<Value<'a>> {
    let at = to.date_time()?;
    let micros = match span(amount, unit, back)? {
        Span::Micros(micros) => at.and_utc().timestamp_micros().checked_add(micros)?,
        Span::Months(months) => {
            let by = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
            let at = match months < 0 {
                true => at.checked_sub_months(by)?,
                false => at.checked_add_months(by)?,
            };
            at.and_utc().timestamp_micros()
        }
    };
    // Years have at most four digits.
    let years = -62_135_596_800 * SECOND..=253_402_300_799 * SECOND;
    years.contains(&micros).then_some(Value::Datetime(micros))
}

/// Whole units between two datetimes, rounded towards zero.
pub(super) fn difference(unit: &str, from: NaiveDateTime, to: NaiveDateTime) -> Option<i64> {
    let micros = to.and_utc().timestamp_micros() - from.and_utc().timestamp_micros();
    let by = match unit_of(unit)? {
        Span::Micros(unit) => return Some(micros / unit),
        Span::Months(by) => by,
    };
    let month = |at: NaiveDateTime| i64::from(at.year()) * 12 + i64::from(at.month());
    let rest = |at: NaiveDateTime| (at.day(), at.time());
    let mut months = month(to) - month(from);
    if months > 0 && rest(to) < rest(from) {
        months -= 1;
    } else if months < 0 && rest(to) > rest(from) {
        months += 1;
    }
    Some(months / by)
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
}
