//! Numbers as texts, texts as the numbers they begin with, and changes of a decimal's scale.

use datafusion::arrow::datatypes::i256;

use crate::value::digits::{self, Sink};

/// Changes the scale, rounding half away from zero; `None` beyond 38 digits.
pub(crate) fn rescale(value: i128, from: i8, to: i8) -> Option<i128> {
    let by = 10_i128.checked_pow(u32::from(from.abs_diff(to)))?;
    if to >= from {
        return value.checked_mul(by);
    }
    let (whole, rest) = (value / by, value % by);
    match rest.abs() >= by - rest.abs() {
        true => Some(whole + value.signum()),
        false => Some(whole),
    }
}

/// A double as a decimal of this scale; `None` beyond 38 digits. What is rounded, half away from
/// zero, are the digits that it prints, as in MySQL: 1.005 is 1.01, though the double is a little
/// less.
pub(super) fn real_at_scale(value: f64, scale: i8) -> Option<i128> {
    let printed = format!("{value:e}");
    let (written, power) = printed.split_once('e')?;
    let digits = written.bytes().filter(u8::is_ascii_digit);
    let size = digits.fold(0_i128, |size, digit| size * 10 + i128::from(digit - b'0'));
    let digits = if value < 0.0 { -size } else { size };
    let fraction = written.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let after = i32::try_from(fraction).ok()? - power.parse::<i32>().ok()?;
    // A double prints no more than 17 digits.
    match after - i32::from(scale) {
        18.. => Some(0),
        _ => rescale(digits, i8::try_from(after).ok()?, scale),
    }
}

/// What is made of two decimals at the larger of their scales: in 128 bits, or in 256 beyond 38
/// digits.
pub(crate) fn aligned<T>(
    left: (i128, i8),
    right: (i128, i8),
    narrow: impl FnOnce(i128, i128) -> T,
    wide: impl FnOnce(i256, i256) -> T,
) -> T {
    let scale = left.1.max(right.1);
    let both = rescale(left.0, left.1, scale).zip(rescale(right.0, right.1, scale));
    if let Some((left, right)) = both {
        return narrow(left, right);
    }
    let widened = |(value, from): (i128, i8)| {
        let by = i256::from_i128(10).wrapping_pow(u32::from(scale.abs_diff(from)));
        i256::from_i128(value).wrapping_mul(by)
    };
    wide(widened(left), widened(right))
}

/// Appends a double: the fewest digits that restore it, with an exponent from 1e15 on and below
/// 1e-15.
#[inline(always)]
pub(super) fn put_double(to: &mut impl Sink, value: f64) {
    if (1e-5..1e15).contains(&value.abs()) || value.to_bits() == 0 {
        digits::float(to, value);
    } else {
        to.long(unusual(value).as_bytes());
    }
}

/// A double near or far from zero, or no number.
#[cold]
fn unusual(value: f64) -> String {
    let size = value.abs();
    match size == 0.0 || (1e-15..1e-5).contains(&size) || !size.is_finite() {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}

/// Appends a float: six digits, otherwise like a double.
#[inline(always)]
pub(super) fn put_float(to: &mut impl Sink, value: f32) {
    let (value, size) = (f64::from(value), f64::from(value.abs()));
    if !(1e-6..1e9).contains(&size) {
        return put_double(to, six_digits(value));
    }
    if value < 0.0 {
        to.short(*b"-", 1);
    }
    // How far the point is behind the first digit of 0.000001.
    let place = POWERS.iter().filter(|power| **power <= size).count();
    // The digits as an integer: every float times 10^11 is exact in a double; above 1e9 a quotient
    // would not be.
    let power = TENS[place.abs_diff(SIX_DIGITS)];
    if place > SIX_DIGITS {
        let digits = (size / power as f64).round_ties_even() as u64;
        digits::uint(to, digits * power);
    } else {
        let digits = (size * power as f64).round_ties_even() as u64;
        digits::uint(to, digits / power);
        digits::fraction(to, (digits % power) as u32, SIX_DIGITS - place);
    }
}

/// A number beyond those that are shown without an exponent.
#[cold]
fn six_digits(value: f64) -> f64 {
    match value.is_finite() && value != 0.0 {
        true => format!("{value:.5e}").parse().unwrap_or(value),
        false => value,
    }
}

/// Powers of ten in the range printed without an exponent, each adding a digit before the point.
const POWERS: [f64; 14] =
    [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];
/// Powers of ten.
const TENS: [u64; SIX_DIGITS + 1] = {
    let mut powers = [1; SIX_DIGITS + 1];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};
/// How many of them a number with six digits before the point exceeds.
const SIX_DIGITS: usize = 11;

/// The text that `put` appends.
pub(crate) fn text_of(put: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut text = Vec::new();
    put(&mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// The number that a text begins with.
pub(crate) struct Prefix<'a> {
    /// With sign and exponent.
    pub(crate) all: &'a str,
    /// The digits before the point, with the sign.
    pub(crate) whole: &'a str,
    /// The digits after it.
    pub(crate) fraction: &'a str,
}

impl<'a> Prefix<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        let text = text.trim_start();
        let has = |at: usize, signs: &[char]| text[at..].starts_with(signs);
        let digits = |from: usize| {
            let digits = text[from..].bytes().take_while(u8::is_ascii_digit);
            from + digits.count()
        };
        let whole = digits(usize::from(has(0, &['-', '+'])));
        let point = whole + usize::from(has(whole, &['.']));
        let fraction = digits(point);
        let mut end = fraction;
        if has(fraction, &['e', 'E']) {
            let power = fraction + 1 + usize::from(has(fraction + 1, &['-', '+']));
            if digits(power) > power {
                end = digits(power);
            }
        }
        Self { all: &text[..end], whole: &text[..whole], fraction: &text[point..fraction] }
    }

    /// Converts to a double, 0 if there is no number.
    pub(crate) fn real(&self) -> f64 {
        let value: f64 = self.all.parse().unwrap_or(0.0);
        value.clamp(f64::MIN, f64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::functions::value::Value;

    #[test]
    fn doubles_come_back() {
        for (value, shown) in [
            (0.1 + 0.2, "0.30000000000000004"),
            (0.0, "0"),
            (1e15, "1e15"),
            (1e14, "100000000000000"),
            (999_999_999_999_999.9, "999999999999999.9"),
            (123_456.0, "123456"),
            (-2.5e-16, "-2.5e-16"),
            (1e-15, "0.000000000000001"),
            (1.5e-5, "0.000015"),
            (9.5e-6, "0.0000095"),
            (f64::MAX, "1.7976931348623157e308"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(text_of(|to| put_double(to, value)), shown);
            assert_eq!(shown.parse::<f64>(), Ok(value));
        }
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
            (99_999.95, "100000"),
            (100_000.5, "100000"),
            (100_001.5, "100002"),
            (0.001, "0.001"),
            (0.1, "0.1"),
            (100.0, "100"),
            (123.0, "123"),
            (1_234_567.0, "1234570"),
        ] {
            assert_eq!(text_of(|to| put_float(to, value)), shown, "{value:e}");
        }
    }

    #[test]
    fn the_short_way_of_floats_is_the_long_way() {
        let mut bits = 1_u32;
        for _ in 0..300_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = f32::from_bits(bits);
            if !(1e-6..1e9).contains(&value.abs()) {
                continue;
            }
            let long: f64 = format!("{:.5e}", f64::from(value)).parse().expect("a number");
            let long = text_of(|to| put_double(to, long));
            assert_eq!(text_of(|to| put_float(to, value)), long, "{value:e}");
        }
    }

    #[test]
    fn doubles_round_as_they_print() {
        for (value, scale, rounded) in [
            (0.285, 2, Some(29)),
            (1.005, 2, Some(101)),
            (-0.145, 2, Some(-15)),
            (2.5, 0, Some(3)),
            (0.1 + 0.2, 30, Some(300_000_000_000_000_040_000_000_000_000)),
            (123_456_789_012_345_678.0, 2, Some(12_345_678_901_234_568_000)),
            (1e20, 18, Some(10_i128.pow(38))),
            (1e20, 19, None),
            (f64::MAX, 0, None),
            (-5e-324, 38, Some(0)),
            (9.999_999_999_999_999e-20, 19, Some(1)),
            (4.9e-20, 19, Some(0)),
            (-0.0, 38, Some(0)),
            (f64::INFINITY, 0, None),
            (f64::NAN, 0, None),
        ] {
            assert_eq!(real_at_scale(value, scale), rounded, "{value:e} at {scale}");
        }
    }

    #[test]
    fn numbers_as_texts_and_back() {
        let decimal = |value, scale| Value::Decimal(value, scale).to_text().into_owned();
        assert_eq!(decimal(-5, 2), "-0.05");
        assert_eq!(decimal(150, 2), "1.50");
        assert_eq!(decimal(0, 2), "0.00");
        assert_eq!(decimal(-7, 0), "-7");
        assert_eq!(decimal(12, -3), "12000");
        assert_eq!(rescale(285_715, 4, 3), Some(28_572));
        assert_eq!(rescale(-25, 1, 0), Some(-3));
        for (text, number) in [
            ("12abc", 12.0),
            (" -1.5e2x", -150.0),
            ("", 0.0),
            (".", 0.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e", 1.0),
            ("é", 0.0),
            ("1e999", f64::MAX),
        ] {
            assert_eq!(Prefix::of(text).real(), number, "{text}");
        }
    }
}
