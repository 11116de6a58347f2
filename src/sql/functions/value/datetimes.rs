//! Datetimes (microseconds since 1970) and dates (days since 1970): parts, and parsing.
//!
//! Parsing accepts `YYYY-MM-DD hh:mm:ss.ffffff` with any separators and a missing end, or all
//! digits in one number; `None` is MySQL's NULL for an invalid date.

use chrono::{NaiveDate, NaiveDateTime, NaiveTime};

/// Converts microseconds to a datetime.
pub(crate) fn date_time(micros: i64) -> Option<NaiveDateTime> {
    chrono::DateTime::from_timestamp_micros(micros).map(|at| at.naive_utc())
}

/// Reads `2026-11-21 10:00:00.5`, `2026-11-21T10:00`, `20261121100000`, `26-1-2`.
pub(crate) fn parse_datetime(text: &str) -> Option<i64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse_datetime_number(text.parse().ok()?);
    }
    let mut parts = [0_u32; 6];
    let mut known = 0;
    let mut micros = 0_i64;
    let mut rest = text;
    while known < 6 {
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 || length > 9 {
            break;
        }
        parts[known] = rest[..length].parse().ok()?;
        if known == 0 && length <= 2 {
            parts[0] += if parts[0] < 70 { 2_000 } else { 1_900 };
        }
        known += 1;
        rest = &rest[length..];
        if known == 6 {
            break;
        }
        let mut signs = rest.chars();
        match signs.next() {
            Some(sign) if sign.is_ascii_punctuation() || sign == ' ' || sign == 'T' => {
                rest = signs.as_str().trim_start_matches(' ');
            }
            _ => break,
        }
    }
    if known < 3 {
        return None;
    }
    if known == 6
        && let Some(fraction) = rest.strip_prefix('.')
    {
        let digits: String = fraction.chars().take_while(char::is_ascii_digit).take(6).collect();
        micros = format!("{digits:0<6}").parse().unwrap_or(0);
    }
    let date = NaiveDate::from_ymd_opt(i32::try_from(parts[0]).ok()?, parts[1], parts[2])?;
    let time = NaiveTime::from_hms_opt(parts[3], parts[4], parts[5])?;
    Some(date.and_time(time).and_utc().timestamp_micros() + micros)
}

/// Reads `YYYYMMDD` and `YYYYMMDDhhmmss`.
pub(super) fn parse_datetime_number(number: i64) -> Option<i64> {
    let (day, time) = match number {
        0..=99_999_999 => (number, 0),
        _ => (number / 1_000_000, number % 1_000_000),
    };
    let mut year = i32::try_from(day / 10_000).ok()?;
    if day < 1_000_000 {
        year += if year < 70 { 2_000 } else { 1_900 };
    }
    let part = |value: i64, by: i64| u32::try_from(value / by % 100).ok();
    let date = NaiveDate::from_ymd_opt(year, part(day, 100)?, part(day, 1)?)?;
    let time = NaiveTime::from_hms_opt(part(time, 10_000)?, part(time, 100)?, part(time, 1)?)?;
    Some(date.and_time(time).and_utc().timestamp_micros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::functions::value::Value;

    #[test]
    fn moments() {
        let moment =
            |text| Value::Datetime(parse_datetime(text).expect("a moment")).to_text().into_owned();
        assert_eq!(moment("2026-11-21 10:00:01.5"), "2026-11-21 10:00:01.500000");
        assert_eq!(moment("2026-11-21T10:00"), "2026-11-21 10:00:00");
        assert_eq!(moment("20261121"), "2026-11-21 00:00:00");
        assert_eq!(moment("26-1-2"), "2026-01-02 00:00:00");
        assert_eq!(moment("20261121100001"), "2026-11-21 10:00:01");
        for wrong in [
            "",
            "x",
            "2026",
            "2026-13-01",
            "2026-02-30",
            "2026-11-21 25:00:00",
            "99999999999999999999",
        ] {
            assert_eq!(parse_datetime(wrong), None, "{wrong}");
        }
    }
}
