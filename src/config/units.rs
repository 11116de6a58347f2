//! Sizes and durations as people write them: "64MB", "64MiB", "10ms", "1h30m".
//!
//! Pure functions, called while settings are checked and while the memory plan is printed. All
//! arithmetic is on integers: "0.1s" is 100 ms, not the nearest float. A text that could mean two
//! things (`64M`: 1000 or 1024?) is refused with a reason instead of guessed, and a refused text
//! never becomes a value, so nothing here can overflow a pool.

use std::time::Duration;

/// Digits kept after the point; nanoseconds are the finest unit here.
const DECIMALS: usize = 9;
const ONE: u128 = 1_000_000_000;

/// Size units in bytes: powers of 1000, or of 1024 with an `i`; case does not matter.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1000_u64.pow(4)),
    ("GB", 1000_u64.pow(3)),
    ("MB", 1000_u64.pow(2)),
    ("kB", 1000),
    ("B", 1),
];

/// Units of time in nanoseconds, largest first: the order in which they may follow each other.
const TIME_UNITS: [(&str, u128); 5] =
    [("d", 86_400 * ONE), ("h", 3_600 * ONE), ("m", 60 * ONE), ("s", ONE), ("ms", 1_000_000)];

/// The units of time, for messages.
const TIME_UNITS_NAMED: &str = "units are d, h, m, s and ms";

/// Reads a size: "64MB" (1000 x 1000), "64MiB" (1024 x 1024), "65536" (bytes).
///
/// # Errors
/// A description of the problem, in a few words.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (number, unit) = split_number(text);
    let number = parse_decimal(number).ok_or("not a size")?;
    let unit = unit.trim();
    let named = |(name, _): &&(&str, u64)| name.eq_ignore_ascii_case(unit);
    let factor = match SIZE_UNITS.iter().find(named) {
        Some((_, factor)) => *factor,
        None if unit.is_empty() => 1,
        None => {
            return Err(match unit.to_ascii_uppercase().as_str() {
                letter @ ("K" | "M" | "G" | "T") => {
                    format!("{unit:?} may mean 1000 or 1024, write {letter}B or {letter}iB")
                }
                _ => format!("{unit:?} is not a unit of size"),
            });
        }
    };
    let scaled = number.checked_mul(u128::from(factor)).ok_or("too large")?;
    if scaled % ONE != 0 {
        return Err("not a whole number of bytes".to_owned());
    }
    u64::try_from(scaled / ONE).map_err(|_| "too large".to_owned())
}

/// Reads a duration: "10ms", "15m", "1h30m", "0.5s"; a plain number is seconds.
///
/// # Errors
/// A description of the problem, in a few words.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if let Some(seconds) = parse_decimal(rest) {
        return to_duration(seconds);
    }
    let mut nanos: u128 = 0;
    // The units that may still follow: "30m1h" is more likely a slip than intended.
    let mut units = &TIME_UNITS[..];
    while !rest.is_empty() {
        let (number, after) = split_number(rest);
        let number = parse_decimal(number).ok_or_else(not_a_duration)?;
        let after = after.trim_start();
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == ' ').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let Some(at) = units.iter().position(|(name, _)| *name == unit) else {
            let why = if unit.is_empty() {
                "a number without a unit".to_owned()
            } else if TIME_UNITS.iter().any(|(name, _)| *name == unit) {
                format!("{unit:?} stands after a smaller unit or twice")
            } else {
                format!("{unit:?} is not a unit of time")
            };
            return Err(format!("{why}: {TIME_UNITS_NAMED}"));
        };
        nanos = number
            .checked_mul(units[at].1)
            .and_then(|scaled| nanos.checked_add(scaled / ONE))
            .ok_or("too long")?;
        units = &units[at + 1..];
        rest = after.trim_start();
    }
    if nanos == 0 && text.trim().is_empty() {
        return Err(not_a_duration());
    }
    to_duration(nanos)
}

/// The problem of what is no duration at all.
pub(super) fn not_a_duration() -> String {
    format!("not a duration: {TIME_UNITS_NAMED}")
}

fn to_duration(nanos: u128) -> Result<Duration, String> {
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| "too long".to_owned())
}

/// Splits "1.5GiB" into "1.5" and "GiB".
fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    text.split_at(end)
}

/// Converts "1.5" to 1_500_000_000 (times [`ONE`]); `None` if it is not a plain decimal number.
fn parse_decimal(text: &str) -> Option<u128> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > DECIMALS {
        return None;
    }
    let whole: u128 = whole.parse().ok()?;
    let decimals: u128 = format!("{decimals:0<DECIMALS$}").parse().ok()?;
    whole.checked_mul(ONE)?.checked_add(decimals)
}

/// Formats a size exactly, as short as possible, so that [`parse_bytes`] reads it: "256KiB",
/// "64MB", "1001".
pub(crate) fn exact_bytes(bytes: u64) -> String {
    let whole = |(_, factor): &&(&str, u64)| *factor > 1 && bytes.is_multiple_of(*factor);
    let units = SIZE_UNITS.iter().filter(|_| bytes != 0).filter(whole);
    units
        .map(|(name, factor)| format!("{}{name}", bytes / factor))
        .min_by_key(String::len)
        .unwrap_or_else(|| bytes.to_string())
}

/// Formats a size for people: "128.5 MiB".
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub(crate) fn rounded_bytes(bytes: u64) -> String {
    if bytes >= 1 << 30 {
        format!("{:.2} GiB", bytes as f64 / f64::from(1_u32 << 30))
    } else if bytes >= 1 << 20 {
        format!("{:.1} MiB", bytes as f64 / f64::from(1_u32 << 20))
    } else if bytes >= 1 << 10 {
        format!("{:.1} KiB", bytes as f64 / 1024.0)
    } else {
        format!("{bytes} bytes")
    }
}

/// Formats a duration so that [`parse_duration`] reads it: "1h30m", "10ms", "7d"; cuts below a
/// millisecond.
pub(crate) fn exact_duration(duration: Duration) -> String {
    let mut nanos = duration.as_nanos();
    let mut text = String::new();
    for (name, factor) in TIME_UNITS {
        if nanos >= factor {
            text.push_str(&format!("{}{name}", nanos / factor));
            nanos %= factor;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_1000_and_with_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65536),
            ("64MB", 64_000_000),
            ("64MiB", 67_108_864),
            ("64 mib", 67_108_864),
            ("1kB", 1000),
            ("1KiB", 1024),
            ("7b", 7),
            ("1.5GiB", 1_610_612_736),
            ("1TB", 1_000_000_000_000),
            ("1TiB", 1_099_511_627_776),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn sizes_that_mean_nothing_are_refused() {
        for (text, problem) in [
            ("", "not a size"),
            ("MB", "not a size"),
            ("-1", "not a size"),
            ("1.2.3MB", "not a size"),
            ("64M", "\"M\" may mean 1000 or 1024, write MB or MiB"),
            ("64k", "\"k\" may mean 1000 or 1024, write KB or KiB"),
            ("64Mbit", "\"Mbit\" is not a unit of size"),
            ("1.5", "not a whole number of bytes"),
            ("99999999TB", "too large"),
            ("340282366920938463463374607431768211456", "not a size"),
        ] {
            assert_eq!(parse_bytes(text), Err(problem.to_owned()), "{text}");
        }
    }

    #[test]
    fn durations_are_read_to_the_nanosecond() {
        for (text, nanos) in [
            ("10ms", 10_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1h 30 m", 5_400_000_000_000),
            ("15m", 900_000_000_000),
            ("60", 60_000_000_000),
            ("0.1", 100_000_000),
            ("0.1s", 100_000_000),
            ("1d2h3m4s5ms", 93_784_005_000_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn durations_that_mean_nothing_are_refused() {
        for (text, problem) in [
            ("", "not a duration"),
            ("soon", "not a duration"),
            ("-1s", "not a duration"),
            ("15M", "\"M\" is not a unit of time"),
            ("15min", "\"min\" is not a unit of time"),
            ("15m30", "a number without a unit"),
            ("2w", "\"w\" is not a unit of time"),
            ("1 30m", "a number without a unit"),
            ("1h30", "a number without a unit"),
            ("30m1h", "\"h\" stands after a smaller unit or twice"),
            ("1s1s", "\"s\" stands after a smaller unit or twice"),
            ("9999999999999h", "too long"),
        ] {
            let units = if problem == "too long" { "" } else { ": units are d, h, m, s and ms" };
            assert_eq!(parse_duration(text), Err(format!("{problem}{units}")), "{text}");
        }
        let named: Vec<&str> = TIME_UNITS.iter().map(|(name, _)| *name).collect();
        assert_has!(TIME_UNITS_NAMED => &named.join(", ").replace(", ms", " and ms"));
    }

    #[test]
    fn what_is_shown_can_be_typed() {
        for text in ["1TiB", "256KiB", "1001", "3MiB", "64MB", "1GB", "0"] {
            assert_eq!(exact_bytes(parse_bytes(text).unwrap()), text);
        }
        for text in ["10ms", "1h30m", "7d", "1d1ms", "0s"] {
            assert_eq!(exact_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(rounded_bytes(0), "0 bytes");
        assert_eq!(rounded_bytes(1536), "1.5 KiB");
        assert_eq!(rounded_bytes(3 << 29), "1.50 GiB");
    }
}
