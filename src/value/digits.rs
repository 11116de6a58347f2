//! Writes numbers as decimal digits, for answers in JSON, CSV and to MySQL clients.
//!
//! An answer may have millions of numbers, so integers and fractions are written eight digits at
//! once, times go from integer microseconds to digits without a float in between, and a row is
//! written to a [`Line`] first.

/// Where digits are appended.
pub(crate) trait Sink {
    /// Appends the first `len` of some bytes. Writing all of them, a length known to the compiler,
    /// takes a third of the time of an unknown length.
    fn short<const SIZE: usize>(&mut self, bytes: [u8; SIZE], len: usize);

    /// Appends any bytes.
    fn long(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline(always)]
    fn short<const SIZE: usize>(&mut self, bytes: [u8; SIZE], len: usize) {
        let end = self.len() + len;
        self.extend_from_slice(&bytes);
        self.truncate(end);
    }

    #[inline]
    fn long(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// The beginning of a row, in memory that is used again for the next one. Its end stays in a
/// register, where each write to a vector would wait for the length that the last one has stored.
pub(crate) struct Line<'a> {
    room: &'a mut [u8; LINE_BYTES],
    end: usize,
}

/// Bytes of a [`Line`].
pub(crate) const LINE_BYTES: usize = 1024;

/// More bytes than writing a number touches.
const NUMBER_BYTES: usize = 64;

impl<'a> Line<'a> {
    #[inline(always)]
    pub(crate) fn new(room: &'a mut [u8; LINE_BYTES]) -> Self {
        Self { room, end: 0 }
    }

    /// Whether so many bytes and a number fit.
    #[inline(always)]
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.end + bytes + NUMBER_BYTES <= LINE_BYTES
    }

    /// Appends what `write` does after its number of bytes; nothing if it returns false.
    #[inline(always)]
    pub(crate) fn counted(&mut self, write: impl FnOnce(&mut Self) -> bool) -> bool {
        let at = self.end;
        self.end += 1;
        let is_written = write(self);
        match is_written {
            true => self.room[at] = (self.end - at - 1) as u8,
            false => self.end = at,
        }
        is_written
    }

    /// Moves it to the end of `out`.
    #[inline(always)]
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) {
        few(out, &self.room[..self.end]);
        self.end = 0;
    }
}

impl Sink for Line<'_> {
    #[inline(always)]
    fn short<const SIZE: usize>(&mut self, bytes: [u8; SIZE], len: usize) {
        self.room[self.end..][..SIZE].copy_from_slice(&bytes);
        self.end += len;
    }

    #[inline(always)]
    fn long(&mut self, bytes: &[u8]) {
        self.room[self.end..][..bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }
}

/// Smallest number with more than eight digits.
const EIGHT_DIGITS: u64 = 100_000_000;

/// Powers of ten, as far as a float has digits.
const TENS: [u64; 17] = {
    let mut tens = [1; 17];
    let mut power = 1;
    while power < tens.len() {
        tens[power] = tens[power - 1] * 10;
        power += 1;
    }
    tens
};

/// Eight digits `0`, as one word.
const ZEROS: u64 = u64::from_le_bytes(*b"00000000");

/// Writes an integer.
#[inline(always)]
pub(crate) fn int(out: &mut impl Sink, number: i64) {
    if number < 0 {
        out.short(*b"-", 1);
    }
    uint(out, number.unsigned_abs());
}

/// Writes an unsigned integer.
#[inline(always)]
pub(crate) fn uint(out: &mut impl Sink, number: u64) {
    if number >= EIGHT_DIGITS {
        let (digits, len) = many(number);
        return out.short(digits, len);
    }
    let digits = digits(number as u32);
    // The last digit is written even if it is 0.
    let leading = (digits.trailing_zeros() / 8).min(7);
    let shown = (digits | ZEROS) >> (leading * 8);
    out.short(shown.to_le_bytes(), 8 - leading as usize);
}

/// More than eight digits, and how many.
#[inline(never)]
fn many(number: u64) -> ([u8; 24], usize) {
    let mut all = [0; 24];
    let mut rest = number;
    for eight in all.rchunks_exact_mut(8) {
        let digits = digits((rest % EIGHT_DIGITS) as u32) | ZEROS;
        eight.copy_from_slice(&digits.to_le_bytes());
        rest /= EIGHT_DIGITS;
    }
    let len = number.ilog10() as usize + 1;
    all.copy_within(24 - len.., 0);
    (all, len)
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

/// Appends typically 8 to 32 bytes as two overlapping pieces of lengths known to the compiler.
#[inline(always)]
pub(crate) fn few(out: &mut impl Sink, bytes: &[u8]) {
    if !halves::<16>(out, bytes) && !halves::<8>(out, bytes) {
        out.long(bytes);
    }
}

/// Appends `SIZE` to twice `SIZE` bytes; returns false for other lengths.
#[inline(always)]
fn halves<const SIZE: usize>(out: &mut impl Sink, bytes: &[u8]) -> bool {
    match (bytes.first_chunk::<SIZE>(), bytes.last_chunk::<SIZE>()) {
        (Some(first), Some(last)) if bytes.len() <= 2 * SIZE => {
            out.short(*first, bytes.len() - SIZE);
            out.short(*last, SIZE);
            true
        }
        _ => false,
    }
}

/// Writes a number in the fewest digits that read back as the same; exactly represented integers
/// without a fraction. Returns false and writes nothing if it is not finite.
#[inline(always)]
pub(crate) fn float<F: zmij::Float + Into<f64> + Copy>(out: &mut impl Sink, number: F) -> bool {
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
    } else if (wide < 1e-5 || size_of::<F>() == 4)
        && let Some(us) = whole_micros(wide)
    {
        micros(out, us);
    } else if size_of::<F>() == 8 && (1e-5..exact).contains(&wide.abs()) {
        shortest(out, wide);
    } else {
        few(out, zmij::Buffer::new().format_finite(number).as_bytes());
    }
    true
}

/// Writes a number with a fraction, from 0.00001 on. Its digits are a number until they are
/// written: reading back digits that were just written, to put the point between them, takes longer
/// than finding them.
#[inline(always)]
fn shortest(out: &mut impl Sink, number: f64) {
    if number < 0.0 {
        out.short(*b"-", 1);
    }
    // At most 17 digits, and 22 places after the point.
    let (significand, exponent) = fpfmt::short(number.abs());
    let places = exponent.unsigned_abs() as usize;
    let (part, shown) = if places <= 16 {
        let scale = TENS[places];
        uint(out, significand / scale);
        out.short(*b".", 1);
        (significand % scale * TENS[16 - places], places)
    } else {
        let first = (significand / TENS[16]) as u8;
        out.short(*b"0.000000", 2 + places - 17);
        out.short([b'0' + first], 1);
        (significand % TENS[16], 16)
    };
    let halves = [part / EIGHT_DIGITS, part % EIGHT_DIGITS].map(|half| digits(half as u32) | ZEROS);
    out.short((u128::from(halves[1]) << 64 | u128::from(halves[0])).to_le_bytes(), shown);
}

/// Seconds that are whole microseconds, which are shown as all times are; few of these would need
/// an exponent, or fewer digits in single precision.
#[cold]
fn whole_micros(secs: f64) -> Option<u64> {
    let us = (secs * 1e6 + 0.5) as u64;
    (us < 1_000_000_000_000_000 && us as f64 / 1e6 == secs).then_some(us)
}

/// Writes microseconds as seconds: up to six decimals, without trailing zeros.
#[inline(always)]
pub(crate) fn micros(out: &mut impl Sink, us: u64) {
    uint(out, us / 1_000_000);
    fraction(out, (us % 1_000_000) as u32, 6);
}

/// Writes the point and the digits after it: at most eight significant ones, without trailing
/// zeros.
#[inline(always)]
pub(crate) fn fraction(out: &mut impl Sink, part: u32, after: usize) {
    let part = digits(part * TENS[8_usize.saturating_sub(after)] as u32);
    if part == 0 {
        return;
    }
    let mut shown = u128::from(part | ZEROS) << 8 | u128::from(b'.');
    let mut len = 9 - part.leading_zeros() as usize / 8;
    for _ in 8..after {
        shown = (shown & !0xff) << 8 | u128::from(b'0') << 8 | u128::from(b'.');
        len += 1;
    }
    out.short(shown.to_le_bytes(), len);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// As a line would have it.
    fn in_line(write: impl FnOnce(&mut Line<'_>)) -> String {
        let mut room = [0; LINE_BYTES];
        let mut line = Line::new(&mut room);
        write(&mut line);
        written(|out| line.flush(out))
    }

    #[test]
    fn whole_numbers_of_any_size_are_those_of_the_standard_library() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        let around = powers.flat_map(|power| [power - 1, power, power + 7]);
        for number in around.chain([u64::MAX - 1, u64::MAX]) {
            assert_eq!(written(|out| uint(out, number)), number.to_string());
            assert_eq!(in_line(|line| uint(line, number)), number.to_string());
            let signed = number as i64;
            assert_eq!(in_line(|line| int(line, signed)), signed.to_string());
        }
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
            let number = match round % 6 {
                0 => (seed >> 40) as f64 / 1e6,
                1 => (seed >> 14) as f64 / 1e6,
                2 => (seed >> 40) as f64 / 1e7,
                3 => (seed >> 40) as f64 / -19.0,
                4 => f64::from_bits(seed >> 6 | 0x3ee << 52),
                _ => f64::from_bits(seed & !(3 << 61) | 3 << 60),
            };
            let ours = written(|out| assert!(float(out, number)));
            assert_eq!(in_line(|line| assert!(float(line, number))), ours);
            assert_eq!(ours.parse::<f64>().unwrap().to_bits(), number.to_bits());
            if number.fract() != 0.0 && (1e-5..1e15).contains(&number.abs()) {
                assert_eq!(ours, serde_json::to_string(&number).unwrap());
            }
        }
    }
}
