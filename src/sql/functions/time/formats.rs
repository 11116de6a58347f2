//! DATE_FORMAT and STR_TO_DATE, with chrono's formats.

use std::iter;

use chrono::format::{Parsed, StrftimeItems, parse_and_remainder};
use chrono::{Datelike, NaiveDate, NaiveDateTime};

use super::SECOND;
use super::calendar::week;
use crate::sql::functions::value::{Value, date_time};

/// The specifiers of DATE_FORMAT, each followed by chrono's equivalent.
const SIGNS: &str = "Y%Y y%y m%m c%-m d%d e%-d H%H k%-H h%I I%I l%-I i%M s%S S%S f%6f p%p T%T r%r \
    a%a W%A b%b M%B w%w j%j";

/// The specifiers of dates.
const DATES: &str = "YymcdebMDjWaUuVvXxw";

/// Translates a format to chrono's; `each` is given a specifier and chrono's, if it has one.
fn translated(format: &str, each: impl Fn(char, Option<&str>) -> Option<String>) -> Option<String> {
    let mut made = String::with_capacity(2 * format.len());
    let mut signs = format.chars();
    while let Some(sign) = signs.next() {
        if sign != '%' {
            made.push(sign);
        } else if let Some(sign) = signs.next() {
            let known = SIGNS.split(' ').find_map(|known| known.strip_prefix(sign));
            made.push_str(&each(sign, known)?);
        } else {
            made.push_str("%%");
        }
    }
    Some(made)
}

/// Formats a datetime with DATE_FORMAT's specifiers.
pub(super) fn formatted(at: NaiveDateTime, format: &str) -> String {
    let week = |mode| week(at.date(), mode);
    let format = translated(format, |sign, known| {
        Some(match sign {
            'D' => {
                let ending = match (at.day() % 10, at.day() / 10) {
                    (1, tens) if tens != 1 => "st",
                    (2, tens) if tens != 1 => "nd",
                    (3, tens) if tens != 1 => "rd",
                    _ => "th",
                };
                format!("{}{ending}", at.day())
            }
            'U' => format!("{:02}", week(0).1),
            'u' => format!("{:02}", week(1).1),
            'V' => format!("{:02}", week(2).1),
            'v' => format!("{:02}", week(3).1),
            'X' => format!("{:04}", week(2).0),
            'x' => format!("{:04}", week(3).0),
            '%' => "%%".to_owned(),
            other => known.map_or_else(|| other.to_string(), str::to_owned),
        })
    });
    at.format(&format.unwrap_or_default()).to_string()
}

/// TIME_FORMAT: hours go beyond a day; NULL with specifiers of dates.
pub(super) fn clock_formatted(micros: i64, format: &str) -> Option<String> {
    let hours = micros.abs() / (3_600 * SECOND);
    let format = translated(format, |sign, known| match sign {
        'H' => Some(format!("{hours:02}")),
        'k' => Some(hours.to_string()),
        'T' => Some(format!("{hours:02}:%M:%S")),
        '%' => Some("%%".to_owned()),
        sign if DATES.contains(sign) => None,
        other => Some(known.map_or_else(|| other.to_string(), str::to_owned)),
    })?;
    let at = date_time(micros.abs() % (86_400 * SECOND))?;
    let sign = if micros < 0 { "-" } else { "" };
    Some(format!("{sign}{}", at.format(&format)))
}

/// Whether a format has specifiers of times alone.
pub(super) fn is_clock(format: &str) -> bool {
    format.contains('%')
        && !format.split('%').skip(1).any(|sign| sign.starts_with(|sign| DATES.contains(sign)))
}

/// STR_TO_DATE with the usual specifiers: a datetime, or the text of a time. Text after the last
/// one is ignored; it may end before the format.
pub(super) fn read(text: &str, written: &str) -> Option<Value<'static>> {
    let format = translated(written, |sign, known| match sign {
        'X' => Some("%Y".to_owned()),
        // These weeks are numbered alike, except for those before the first.
        'V' => Some("%U".to_owned()),
        'x' => Some("%G".to_owned()),
        'v' => Some("%V".to_owned()),
        _ => known.map(str::to_owned),
    })?;
    // A fraction may have any number of digits.
    let format = format.replace(".%6f", "%.f");
    let mut parsed = Parsed::new();
    let mut rest = text.trim_start();
    for item in StrftimeItems::new(&format) {
        if rest.is_empty() {
            break;
        }
        rest = parse_and_remainder(&mut parsed, rest, iter::once(item)).ok()?;
    }
    let date = match is_clock(written) {
        true => NaiveDate::default(),
        false => parsed.to_naive_date().ok()?,
    };
    // The time may be incomplete at its end.
    let hour = parsed.hour_div_12().unwrap_or(0) * 12 + parsed.hour_mod_12().unwrap_or(0);
    let minute = parsed.minute().unwrap_or(0);
    let at = date.and_hms_opt(hour, minute, parsed.second().unwrap_or(0))?;
    if is_clock(written) {
        return Some(Value::text(at.format("%H:%M:%S").to_string()));
    }
    let micros = i64::from(parsed.nanosecond().unwrap_or(0)) / 1_000;
    Some(Value::Datetime(at.and_utc().timestamp_micros() + micros))
}
