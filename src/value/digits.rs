//! Writes numbers as decimal digits to a byte buffer, for answers in JSON, CSV and to MySQL
//! clients.
//!
//! An answer may have millions of numbers, so integers and fractions are written eight digits at
//! once, and times go from integer microseconds to digits without a float in between.

/// Smallest number with more than eight digits.
const EIGHT_DIGITS: u64 = 100_000_000;

/// Eight digits `0`, as one word.
const ZEROS: u64 = u64::from_le_bytes(*b"00000000");

/// Writes an integer.
#[inline]
pub(crate) fn int(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    uint(out, number.unsigned_abs());
}

/// Writes an unsigned integer.
#[inline]
pub(crate) fn uint(out: &mut Vec<u8>, number: u64) {
    let digits = if number < EIGHT_DIGITS {
        digits(number as u32)
    } else {
        long(out, number / EIGHT_DIGITS);
        let digits = digits((number % EIGHT_DIGITS) as u32);
        return short(out, (digits | ZEROS).to_le_bytes(), 8);
    };
    // The last digit is written even if it is 0.
    let leading = (digits.trailing_zeros() / 8).min(7);
    let shown = (digits | ZEROS) >> (leading * 8);
    short(out, shown.to_le_bytes(), 8 - leading as usize);
}

/// Writes the digits before the last eight.
#[cold]
fn long(out: &mut Vec<u8>, number: u64) {
    uint(out, number);
}

/// Eight digits at once, a byte each, the first in the lowest: the number is split into four, two
/// and one digits, with one multiplication dividing all parts each time.
const fn digits(number: u32) -> u64 {
    let fours = (number / 10_000) as u64 | ((number % 10_000) as u64) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (twos - tens * 10) << 8
}

/// Appends the first `len` of some bytes. Appending all of them, a length known to the compiler,
/// and truncating takes a third of the time of appending an unknown length.
#[inline(always)]
fn short<const SIZE: usize>(out: &mut Vec<u8>, bytes: [u8; SIZE], len: usize) {
    let end = out.len() + len;
    out.extend_from_slice(&bytes);
    out.truncate(end);
}

/// Appends typically 8 to 32 bytes as two overlapping pieces of lengths known to the compiler.
#[inline]
pub(crate) fn few(out: &mut Vec<u8>, bytes: &[u8]) {
    if !halves::<16>(out, bytes) && !halves::<8>(out, bytes) {
        out.extend_from_slice(bytes);
    }
}

/// Appends `SIZE` to twice `SIZE` bytes; returns false for other lengths.
#[inline(always)]
fn halves<const SIZE: usize>(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    match (bytes.first_chunk::<SIZE>(), bytes.last_chunk::<SIZE>()) {
        (Some(first), Some(last)) if bytes.len() <= 2 * SIZE => {
            short(out, *first, bytes.len() - SIZE);
            out.extend_from_slice(last);
            true
        }
        _ => false,
    }
}

/// Buffer for the digits of a float, aligned: across two cache lines writing takes twice the time,
/// and the alignment would otherwise be chance.
#[repr(align(32))]
struct Room(zmij::Buffer);

/// Writes a number in the fewest digits that read back as the same; exactly represented integers
/// without a fraction. Returns false and writes nothing if it is not finite.
#[inline]
pub(crate) fn float<F: zmij::Float + Into<f64> + Copy>(out: &mut Vec<u8>, number: F) -> bool {
    let exact = match size_of::<F>() {
        4 => 16_777_216.0,
        _ => 9_007_199_254_740_992.0,
    };
    let wide: f64 = number.into();
    // A cast saturates, so a number that is too large or not an integer does not come back as
    // itself.
    let whole = wide as i64;
    if !wide.is_finite() {
        return false;
    }
    if whole as f64 == wide && wide.abs() < exact {
        int(out, whole);
    } else if wide >= 1e-5 && size_of::<F>() == 8 || !whole_micros(out, wide) {
        let mut room = Room(zmij::Buffer::new());
        few(out, room.0.format_finite(number).as_bytes());
    }
    true
}

/// Writes seconds that are whole microseconds as all times are shown; few of these would need an
/// exponent, or fewer digits in single precision. Returns false and writes nothing for others.
#[cold]
fn whole_micros(out: &mut Vec<u8>, secs: f64) -> bool {
    let us = (secs * 1e6 + 0.5) as u64;
    let is_whole = us < 1_000_000_000_000_000 && us as f64 / 1e6 == secs;
    if is_whole {
        micros(out, us);
    }
    is_whole
}

/// Writes microseconds as seconds: up to six decimals, without trailing zeros.
#[inline]
pub(crate) fn micros(out: &mut Vec<u8>, us: u64) {
    uint(out, us / 1_000_000);
    fraction(out, (us % 1_000_000) as u32, 6);
}

/// Writes the point and the digits after it: at most eight significant ones, without trailing
/// zeros.
#[inline(always)]
pub(crate) fn fraction(out: &mut Vec<u8>, part: u32, after: usize) {
    let part = digits(part * 10_u32.pow(8_u32.saturating_sub(after as u32)));
    if part == 0 {
        return;
    }
    let mut shown = u128::from(part | ZEROS) << 8 | u128::from(b'.');
    let mut len = 9 - part.leading_zeros() as usize / 8;
    for _ in 8..after {
        shown = (shown & !0xff) << 8 | u128::from(b'0') << 8 | u128::from(b'.');
        len += 1;
    }
    short(out, shown.to_le_bytes(), len);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_are_exact() {
        let cases = [
            (0, "0"),
            (1, "0.000001"),
            (10, "0.00001"),
            (100_000, "0.1"),
            (999_999, "0.999999"),
            (1_000_000, "1"),
            (1_000_001, "1.000001"),
            (1_250_000, "1.25"),
            (u64::MAX, "18446744073709.551615"),
        ];
        for (us, text) in cases {
            assert_eq!(written(|out| micros(out, us)), text);
        }
    }

    #[test]
    fn every_microsecond_reads_back() {
        for us in (0..3_000_000).step_by(37) {
            let read: f64 = written(|out| micros(out, us)).parse().unwrap();
            assert_eq!((read * 1e6).round() as u64, us);
        }
    }

    /// Either way the result is that of `serde_json`.
    #[test]
    fn floats_have_the_fewest_digits() {
        let mut seed = 7_u64;
        for round in 0..200_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = match round % 4 {
                0 => (seed >> 40) as f64 / 1e6,
                1 => (seed >> 14) as f64 / 1e6,
                2 => (seed >> 40) as f64 / 1e7,
                _ => f64::from_bits(seed & !(3 << 61) | 3 << 60),
            };
            let ours = written(|out| assert!(float(out, number)));
            assert_eq!(ours.parse::<f64>().unwrap().to_bits(), number.to_bits());
            if number.fract() != 0.0 && (1e-5..1e15).contains(&number) {
                assert_eq!(ours, serde_json::to_string(&number).unwrap());
            }
        }
    }
}
