//! Times as texts: the signs of DATE_FORMAT, written and read.

use chrono::{Datelike, NaiveDate, NaiveDateTime, Timelike};

use super::calendar::week;

/// A moment by the signs of DATE_FORMAT.
pub(super) fn formatted(at: NaiveDateTime, format: &str) -> String {
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

/// STR_TO_DATE: the usual signs.
pub(super) fn read(text: &str, format: &str) -> Option<i64> {
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
