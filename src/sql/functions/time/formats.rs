//! DATE_FORMAT and STR_TO_DATE, by chrono's formats.

use chrono::format::{Parsed, StrftimeItems, parse_and_remainder};
use chrono::{Datelike, NaiveDateTime};

use super::calendar::week;

/// The signs of DATE_FORMAT, each before the same as chrono has it.
const SIGNS: &str = "Y%Y y%y m%m c%-m d%d e%-d H%H k%-H h%I I%I l%-I i%M s%S S%S f%6f p%p T%T r%r \
    a%a W%A b%b M%B w%w j%j";

fn chrono_sign(sign: char) -> Option<&'static str> {
    SIGNS.split(' ').find_map(|known| known.strip_prefix(sign))
}

/// A moment by the signs of DATE_FORMAT.
pub(super) fn formatted(at: NaiveDateTime, format: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    let mut signs = format.chars();
    while let Some(sign) = signs.next() {
        if sign != '%' {
            out.push(sign);
            continue;
        }
        let Some(sign) = signs.next() else { break };
        // Writing to a String cannot fail.
        let _ = match sign {
            'D' => {
                let ending = match (at.day() % 10, at.day() / 10) {
                    (1, tens) if tens != 1 => "st",
                    (2, tens) if tens != 1 => "nd",
                    (3, tens) if tens != 1 => "rd",
                    _ => "th",
                };
                write!(out, "{}{ending}", at.day())
            }
            'U' => write!(out, "{:02}", week(at.date(), 0).1),
            'u' => write!(out, "{:02}", week(at.date(), 1).1),
            'V' => write!(out, "{:02}", week(at.date(), 2).1),
            'v' => write!(out, "{:02}", week(at.date(), 3).1),
            'X' => write!(out, "{:04}", week(at.date(), 2).0),
            'x' => write!(out, "{:04}", week(at.date(), 3).0),
            other => match chrono_sign(other) {
                Some(sign) => write!(out, "{}", at.format(sign)),
                None => write!(out, "{other}"),
            },
        };
    }
    out
}

/// STR_TO_DATE: the usual signs. What follows the last of them is not looked at.
pub(super) fn read(text: &str, format: &str) -> Option<i64> {
    let mut parsed = Parsed::new();
    let mut rest = text.trim_start();
    let mut signs = format.chars();
    while let Some(sign) = signs.next() {
        if sign == ' ' {
            rest = rest.trim_start();
        } else if sign != '%' {
            rest = rest.strip_prefix(sign)?;
        } else {
            let sign = signs.next()?;
            if sign == 'f' {
                let length = rest.bytes().take(6).take_while(u8::is_ascii_digit).count();
                let micros: i64 = format!("{:0<6}", &rest[..length]).parse().ok()?;
                parsed.set_nanosecond(micros * 1_000).ok()?;
                rest = &rest[length..];
                continue;
            }
            let known = "YymcdeHkhIlisSpTbM"
                .contains(sign)
                .then(|| chrono_sign(sign))??;
            let items = StrftimeItems::new(known);
            rest = parse_and_remainder(&mut parsed, rest, items).ok()?;
        }
    }
    let date = parsed.to_naive_date().ok()?;
    // A time may be left out from its end.
    let hour = parsed.hour_div_12().unwrap_or(0) * 12 + parsed.hour_mod_12().unwrap_or(0);
    let minute = parsed.minute().unwrap_or(0);
    let at = date.and_hms_opt(hour, minute, parsed.second().unwrap_or(0))?;
    Some(at.and_utc().timestamp_micros() + i64::from(parsed.nanosecond().unwrap_or(0)) / 1_000)
}
