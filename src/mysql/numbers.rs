//! Numbers and times as MySQL writes them in texts.
//!
//! A FLOAT has six significant digits, a DOUBLE as many as bring it back; from 1e15 on, and below 1e-15, with an exponent. Called
//! for every such cell of every row, so the common sizes of FLOAT go without the general algorithm: scaled to six digits, which
//! is exact in `f64` for every `f32` of that range. NaN and infinities have no form: they are NULL (the caller's).

use chrono::{DateTime, Datelike as _, NaiveDateTime, Timelike as _};

/// Decimal exponents that are written plainly: 1e-15 and up, below 1e15.
const PLAIN: std::ops::Range<i32> = -15..15;
/// Significant digits of a FLOAT.
const FLOAT_DIGITS: usize = 6;

/// From ten to the -6th to ten to the 11th.
const POWERS: [f64; 18] = [
    1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10,
    1e11,
];
/// Where ten to the 0th is in [`POWERS`].
const ONE: i32 = 6;

/// A finite FLOAT.
pub(super) fn put_float(to: &mut Vec<u8>, value: f32) {
    let magnitude = f64::from(value.abs());
    let negative = value.is_sign_negative();
    // Every `f32` times 10^11 is exact in `f64`; above 1e9 the quotient is not, and rounds right all the same.
    if !(1e-6..1e9).contains(&magnitude) {
        return put_scientific(to, negative, format!("{magnitude:.5e}").as_bytes());
    }
    let power = |exponent: i32| POWERS[(exponent + ONE) as usize];
    let mut exponent = POWERS.partition_point(|power| *power <= magnitude) as i32 - 1 - ONE;
    let shift = FLOAT_DIGITS as i32 - 1 - exponent;
    let scaled = match shift {
        0.. => magnitude * power(shift),
        _ => magnitude / power(-shift),
    };
    let mut digits = scaled.round_ties_even() as u32;
    if digits == 1_000_000 {
        digits = 100_000;
        exponent += 1;
    }
    let mut buffer = itoa::Buffer::new();
    put_digits(to, negative, buffer.format(digits).as_bytes(), exponent);
}

/// A finite DOUBLE.
pub(super) fn put_double(to: &mut Vec<u8>, value: f64) {
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value.abs());
    put_scientific(to, value.is_sign_negative(), text.as_bytes());
}

/// A number that is written as `0.25` or `1.5e-7`, in MySQL's form.
fn put_scientific(to: &mut Vec<u8>, negative: bool, text: &[u8]) {
    let mut digits = [0; 40];
    let (mut count, mut point, mut exponent) = (0, None, 0);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'.' => point = Some(count),
            b'e' => {
                let rest = std::str::from_utf8(&text[at + 1..]);
                exponent = rest.ok().and_then(|rest| rest.parse().ok()).unwrap_or(0);
                break;
            }
            digit => {
                digits[count] = *digit;
                count += 1;
            }
        }
    }
    let zeros = digits[..count].iter().take_while(|digit| **digit == b'0');
    let zeros = zeros.count().min(count - 1);
    let exponent = exponent + point.unwrap_or(count) as i32 - 1 - zeros as i32;
    put_digits(to, negative, &digits[zeros..count], exponent);
}

/// `d.ddd` times ten to the `exponent`, in the form that MySQL chooses for it.
fn put_digits(to: &mut Vec<u8>, negative: bool, digits: &[u8], exponent: i32) {
    let trailing = digits.iter().rev().take_while(|digit| **digit == b'0');
    let digits = &digits[..(digits.len() - trailing.count()).max(1).min(digits.len())];
    if negative {
        to.push(b'-');
    }
    if digits == b"0" || digits.is_empty() {
        to.push(b'0');
    } else if !PLAIN.contains(&exponent) {
        to.push(digits[0]);
        if digits.len() > 1 {
            to.push(b'.');
            to.extend_from_slice(&digits[1..]);
        }
        to.push(b'e');
        let mut buffer = itoa::Buffer::new();
        to.extend_from_slice(buffer.format(exponent).as_bytes());
    } else if exponent < 0 {
        to.extend_from_slice(b"0.");
        to.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        to.extend_from_slice(digits);
    } else {
        let whole = exponent as usize + 1;
        if digits.len() <= whole {
            to.extend_from_slice(digits);
            to.extend(std::iter::repeat_n(b'0', whole - digits.len()));
        } else {
            to.extend_from_slice(&digits[..whole]);
            to.push(b'.');
            to.extend_from_slice(&digits[whole..]);
        }
    }
}

/// A whole number.
pub(super) fn put_whole(to: &mut Vec<u8>, value: impl itoa::Integer) {
    let mut buffer = itoa::Buffer::new();
    to.extend_from_slice(buffer.format(value).as_bytes());
}

/// A moment of microseconds since 1970, by a calendar without a zone; `None` outside the years that MySQL has.
pub(super) fn moment(micros: i64) -> Option<NaiveDateTime> {
    let moment = DateTime::from_timestamp_micros(micros)?.naive_utc();
    (0..=9999).contains(&moment.year()).then_some(moment)
}

/// The midnight that begins a day, counted since 1970.
pub(super) fn midnight(days: i32) -> Option<NaiveDateTime> {
    moment(i64::from(days).checked_mul(86_400_000_000)?)
}

/// `YYYY-MM-DD`.
pub(super) fn put_date(to: &mut Vec<u8>, moment: NaiveDateTime) {
    put_two(to, moment.year().unsigned_abs() / 100);
    put_two(to, moment.year().unsigned_abs() % 100);
    to.push(b'-');
    put_two(to, moment.month());
    to.push(b'-');
    put_two(to, moment.day());
}

/// `YYYY-MM-DD HH:MM:SS`, with so many digits of a fraction.
pub(super) fn put_datetime(to: &mut Vec<u8>, moment: NaiveDateTime, fraction: u8) {
    put_date(to, moment);
    to.push(b' ');
    put_clock(to, moment.hour(), moment.minute(), moment.second());
    put_fraction(to, moment.nanosecond() / 1_000, fraction);
}

/// Microseconds of a span of time: `-HH:MM:SS`, hours as many as there are.
pub(super) fn put_time(to: &mut Vec<u8>, micros: i64) {
    if micros < 0 {
        to.push(b'-');
    }
    let secs = micros.unsigned_abs() / 1_000_000;
    let hours = secs / 3600;
    if hours >= 100 {
        put_whole(to, hours / 100);
    }
    put_clock(
        to,
        (hours % 100) as u32,
        (secs / 60 % 60) as u32,
        (secs % 60) as u32,
    );
}

fn put_clock(to: &mut Vec<u8>, hour: u32, minute: u32, second: u32) {
    put_two(to, hour);
    to.push(b':');
    put_two(to, minute);
    to.push(b':');
    put_two(to, second);
}

fn put_two(to: &mut Vec<u8>, number: u32) {
    to.extend_from_slice(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
}

fn put_fraction(to: &mut Vec<u8>, micros: u32, digits: u8) {
    if digits > 0 {
        to.push(b'.');
        let shown = format!("{micros:06}");
        to.extend_from_slice(&shown.as_bytes()[..usize::from(digits.min(6))]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut to = Vec::new();
        write(&mut to);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn floats_have_six_digits() {
        // As MariaDB 10.11 prints a FLOAT column.
        for (value, shown) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.123_456_7, "0.123457"),
            (16_777_216.0, "16777200"),
            (3.4e38, "3.4e38"),
            (f32::MAX, "3.40282e38"),
            (1e-7, "0.0000001"),
            (1e-14, "0.00000000000001"),
            (1.5e-20, "1.5e-20"),
            (1e14, "100000000000000"),
            (1e15, "1e15"),
            (999_999.5, "1000000"),
            (100_000.5, "100000"),
            (100_001.5, "100002"),
            (0.001, "0.001"),
            (0.1, "0.1"),
            (123.0, "123"),
            (1_234_567.0, "1234570"),
        ] {
            assert_eq!(text(|to| put_float(to, value)), shown, "{value:e}");
        }
    }

    #[test]
    fn the_short_way_of_floats_is_the_long_way() {
        let mut bits = 1_u32;
        for _ in 0..300_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = f32::from_bits(bits);
            let magnitude = f64::from(value.abs());
            if !(1e-6..1e9).contains(&magnitude) {
                continue;
            }
            let mut long = Vec::new();
            let digits = format!("{magnitude:.5e}");
            put_scientific(&mut long, value < 0.0, digits.as_bytes());
            let long = String::from_utf8(long).unwrap();
            assert_eq!(text(|to| put_float(to, value)), long, "{value:e}");
        }
    }

    #[test]
    fn doubles_come_back() {
        for (value, shown) in [
            (0.1 + 0.2, "0.30000000000000004"),
            (1e15, "1e15"),
            (1e14, "100000000000000"),
            (123_456.0, "123456"),
            (-2.5e-16, "-2.5e-16"),
            (1e-15, "0.000000000000001"),
            (f64::MAX, "1.7976931348623157e308"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(text(|to| put_double(to, value)), shown);
            assert_eq!(shown.parse::<f64>().unwrap(), value);
        }
    }

    #[test]
    fn moments_and_spans() {
        let at = |micros| text(|to| put_datetime(to, moment(micros).unwrap(), 0));
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(1_700_000_000_000_000), "2023-11-14 22:13:20");
        assert_eq!(at(951_782_400_000_000), "2000-02-29 00:00:00");
        assert_eq!(at(-1), "1969-12-31 23:59:59");
        assert_eq!(at(-62_167_219_200_000_000), "0000-01-01 00:00:00");
        assert_eq!(at(253_402_300_799_999_999), "9999-12-31 23:59:59");
        let fine = moment(1_700_000_000_123_456).unwrap();
        assert_eq!(
            text(|to| put_datetime(to, fine, 3)),
            "2023-11-14 22:13:20.123"
        );
        for outside in [i64::MAX, -62_167_219_200_000_001, 253_402_300_800_000_000] {
            assert_eq!(moment(outside), None);
        }
        assert_eq!(midnight(i32::MAX), None);
        assert_eq!(text(|to| put_time(to, -3_661_000_000)), "-01:01:01");
        assert_eq!(text(|to| put_time(to, 360_000_000_000)), "100:00:00");
        assert_eq!(text(|to| put_time(to, 3_603_600_000_000)), "1001:00:00");
    }
}
