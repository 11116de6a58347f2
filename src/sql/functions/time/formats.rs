//! DATE_FORMAT and STR_TO_DATE, with chrono's formats.

use chrono::format::{Parsed, StrftimeItems, parse_and_remainder};
use chrono::{Datelike, NaiveDateTime};

use super::calendar::week;

/// The specifiers of DATE_FORMAT, each followed by chrono's equivalent.
const SIGNS: &str = "Y%Y y%y m%m c%-m d%d e%-d H%H k%-H h%I I%I l%-I i%M s%S S%S f%6f p%p T%T r%r \
    a%a W%A b%b M%B w%w j%j";

/// Translates a format to chrono's; `other` handles specifiers that chrono lacks.
fn translated(format: &str, other: impl Fn(char) -> Option<String>) -> Option<String> {
    let mut made = String::with_capacity(2 * format.len());
    let mut signs = format.chars();
    while let Some(sign) = signs.next() {
        if sign != '%' {
            made.push(sign);
        } else if let Some(sign) = signs.next() {
            let known = SIGNS.split(' ').find_map(|known| known.strip_prefix(sign));
            match known {
                Some(known) => made.push_str(known),
                None => made.push_str(&other(sign)?),
            }
        }
    }
    Some(made)
}

/// Formats a datetime with DATE_FORMAT's specifiers.
pub(super) fn formatted(at: NaiveDateTime, format: &str) -> String {
    let week = |mode| week(at.date(), mode);
    let format = translated(format, |sign| {
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
            other => other.to_string(),
        })
    });
    at.format(&format.unwrap_or_default()).to_string()
}

/// STR_TO_DATE with the usual specifiers. Text after the last one is ignored.
pub(super) fn read(text: &str, format: &str) -> Option<i64> {
    // A fraction may have any number of digits.
    let format = translated(format, |_| None)?.replace(".%6f", "%.f");
    let mut parsed = Parsed::new();
    parse_and_remainder(&mut parsed, text.trim_start(), StrftimeItems::new(&format)).ok()?;
    let date = parsed.to_naive_date().ok()?;
    // The time may be incomplete at its end.
    let hour = parsed.hour_div_12().unwrap_or(0) * 12 + parsed.hour_mod_12().unwrap_or(0);
    let minute = parsed.minute().unwrap_or(0);
    let at = date.and_hms_opt(hour, minute, parsed.second().unwrap_or(0))?;
    Some(at.and_utc().timestamp_micros() + i64::from(parsed.nanosecond().unwrap_or(0)) / 1_000)
}
