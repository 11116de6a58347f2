//! Numbers and times as MySQL writes them in texts.
//!
//! A FLOAT has six significant digits, a DOUBLE as many as bring it back; from 1e15 on, and below 1e-15, with an exponent. Called
//! for every such cell of every row, so the common sizes of FLOAT go without the general algorithm: scaled to six digits, which
//! is exact in `f64` for every `f32` of that range. NaN and infinities have no form: they are NULL (the caller's).

use std::io::Write;

/// Decimal exponents that are written plainly: 1e-15 and up, below 1e15.
const PLAIN: std::ops::Range<i32> = -15..15;
/// Significant digits of a FLOAT.
const FLOAT_DIGITS: usize = 6;

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// A finite FLOAT.
pub(super) fn put_float(to: &mut Vec<u8>, value: f32) {
    let magnitude = f64::from(value.abs());
    // Every `f32` times 10^11 is exact in `f64`; above 1e9 the quotient is not, and rounds right all the same.
    if (1e-6..1e9).contains(&magnitude) {
        let mut exponent = exponent_of(magnitude);
        let shift = FLOAT_DIGITS as i32 - 1 - exponent;
        let scaled = if shift >= 0 {
            magnitude * POWERS[shift as usize]
        } else {
            magnitude / POWERS[shift.unsigned_abs() as usize]
        };
        let mut digits = scaled.round_ties_even() as u64;
        if digits == 1_000_000 {
            digits = 100_000;
            exponent += 1;
        }
        let mut text = [0; FLOAT_DIGITS];
        for digit in text.iter_mut().rev() {
            *digit = b'0' + (digits % 10) as u8;
            digits /= 10;
        }
        put_digits(to, value < 0.0, &text, exponent);
        return;
    }
    let mut text = [0; 32];
    put_scientific(to, value.is_sign_negative(), &mut text, |to| {
        write!(to, "{magnitude:.5e}")
    });
}

/// A finite DOUBLE.
pub(super) fn put_double(to: &mut Vec<u8>, value: f64) {
    // Whole numbers that are exact are common (counts in sums) and need no search for the shortest form.
    if value.trunc() == value && value.abs() < 1e15 {
        if value == 0.0 && value.is_sign_negative() {
            to.extend_from_slice(b"-0");
            return;
        }
        let mut buffer = itoa::Buffer::new();
        to.extend_from_slice(buffer.format(value as i64).as_bytes());
        return;
    }
    let magnitude = value.abs();
    let mut text = [0; 32];
    put_scientific(to, value < 0.0, &mut text, |to| write!(to, "{magnitude:e}"));
}

/// The decimal exponent of a number between 1e-6 and 1e9.
fn exponent_of(magnitude: f64) -> i32 {
    if magnitude >= 1.0 {
        let above = POWERS[1..=9]
            .iter()
            .take_while(|power| magnitude >= **power);
        above.count() as i32
    } else {
        let mut exponent: i32 = -1;
        while magnitude * POWERS[exponent.unsigned_abs() as usize] < 1.0 {
            exponent -= 1;
        }
        exponent
    }
}

/// What `write` writes (`1.5e-7`), in MySQL's form.
fn put_scientific(
    to: &mut Vec<u8>,
    negative: bool,
    buffer: &mut [u8; 32],
    write: impl FnOnce(&mut &mut [u8]) -> std::io::Result<()>,
) {
    let mut rest: &mut [u8] = buffer;
    let room = rest.len();
    // 17 digits, a point and an exponent fit.
    let written = match write(&mut rest) {
        Ok(()) => room - rest.len(),
        Err(_) => 0,
    };
    let text = &buffer[..written];
    let split = text.iter().position(|byte| *byte == b'e');
    let (mantissa, exponent) = text.split_at(split.unwrap_or(written));
    let exponent = exponent
        .get(1..)
        .and_then(|text| std::str::from_utf8(text).ok());
    let exponent = exponent.and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut digits = [0; 32];
    let mut count = 0;
    for digit in mantissa.iter().filter(|byte| byte.is_ascii_digit()) {
        digits[count] = *digit;
        count += 1;
    }
    put_digits(to, negative, &digits[..count], exponent);
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

/// A moment, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) year: i64,
    pub(super) month: u8,
    pub(super) day: u8,
    pub(super) hour: u8,
    pub(super) minute: u8,
    pub(super) second: u8,
    pub(super) micros: u32,
}

/// Seconds of a day.
const DAY_SECS: i64 = 86_400;

impl Moment {
    /// Of microseconds since 1970; `None` outside the years that MySQL has.
    pub(super) fn of_micros(micros: i64) -> Option<Self> {
        let secs = micros.div_euclid(1_000_000);
        let day_secs = secs.rem_euclid(DAY_SECS);
        let moment = Self {
            hour: (day_secs / 3600) as u8,
            minute: (day_secs / 60 % 60) as u8,
            second: (day_secs % 60) as u8,
            micros: micros.rem_euclid(1_000_000) as u32,
            ..Self::of_days(secs.div_euclid(DAY_SECS))?
        };
        Some(moment)
    }

    /// Of days since 1970: midnight.
    pub(super) fn of_days(days: i64) -> Option<Self> {
        // Days since 0000-03-01, so that the leap day ends a year; eras of 400 years are alike.
        let days = days.checked_add(719_468)?;
        let (era, in_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
        let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * in_year + 2) / 153;
        let day = in_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 {
            shifted + 3
        } else {
            shifted - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        (0..=9999).contains(&year).then_some(Self {
            year,
            month: month as u8,
            day: day as u8,
            hour: 0,
            minute: 0,
            second: 0,
            micros: 0,
        })
    }

    /// `YYYY-MM-DD`.
    pub(super) fn put_date(&self, to: &mut Vec<u8>) {
        put_two(to, (self.year / 100) as u8);
        put_two(to, (self.year % 100) as u8);
        to.push(b'-');
        put_two(to, self.month);
        to.push(b'-');
        put_two(to, self.day);
    }

    /// `YYYY-MM-DD HH:MM:SS`, with so many digits of a fraction.
    pub(super) fn put(&self, to: &mut Vec<u8>, fraction: u8) {
        self.put_date(to);
        to.push(b' ');
        put_two(to, self.hour);
        to.push(b':');
        put_two(to, self.minute);
        to.push(b':');
        put_two(to, self.second);
        put_fraction(to, self.micros, fraction);
    }
}

/// Microseconds of a span of time: `-HH:MM:SS`, hours as many as there are.
pub(super) fn put_time(to: &mut Vec<u8>, micros: i64, fraction: u8) {
    if micros < 0 {
        to.push(b'-');
    }
    let micros = micros.unsigned_abs();
    let secs = micros / 1_000_000;
    if secs < 360_000 {
        put_two(to, (secs / 3600) as u8);
    } else {
        put_whole(to, secs / 3600);
    }
    to.push(b':');
    put_two(to, (secs / 60 % 60) as u8);
    to.push(b':');
    put_two(to, (secs % 60) as u8);
    put_fraction(to, (micros % 1_000_000) as u32, fraction);
}

fn put_two(to: &mut Vec<u8>, number: u8) {
    to.extend_from_slice(&[b'0' + number / 10, b'0' + number % 10]);
}

fn put_fraction(to: &mut Vec<u8>, micros: u32, digits: u8) {
    if digits == 0 {
        return;
    }
    to.push(b'.');
    let mut power = 100_000;
    for _ in 0..digits.min(6) {
        to.push(b'0' + (micros / power % 10) as u8);
        power = (power / 10).max(1);
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
            put_scientific(&mut long, value < 0.0, &mut [0; 32], |to| {
                write!(to, "{magnitude:.5e}")
            });
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
        let at = |micros| text(|to| Moment::of_micros(micros).unwrap().put(to, 0));
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(1_700_000_000_000_000), "2023-11-14 22:13:20");
        assert_eq!(at(951_782_400_000_000), "2000-02-29 00:00:00");
        assert_eq!(at(-1), "1969-12-31 23:59:59");
        let fine = Moment::of_micros(1_700_000_000_123_456).unwrap();
        assert_eq!(text(|to| fine.put(to, 3)), "2023-11-14 22:13:20.123");
        assert_eq!(Moment::of_micros(i64::MAX), None);
        assert_eq!(Moment::of_days(i64::MAX), None);
        assert_eq!(text(|to| put_time(to, -3_661_000_000, 0)), "-01:01:01");
        assert_eq!(text(|to| put_time(to, 360_000_000_000, 1)), "100:00:00.0");
    }
}
