//! Values as JSON, straight into a byte buffer.
//!
//! An answer may have millions of values, so none of them becomes a `serde_json::Value` first, and times go from whole
//! microseconds to digits without a float between. A number that JSON cannot say is `null`.

use serde_json::{Map, Value as Json};

use crate::value::Value;

/// One value.
pub(in crate::http) fn value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Int(number) => int(out, *number),
        Value::Micros(us) => micros(out, *us),
        Value::Float(number) if number.is_finite() => float(out, *number),
        Value::Float(_) => out.extend_from_slice(b"null"),
        Value::Text(text) => self::text(out, text),
    }
}

/// A whole number.
pub(in crate::http) fn int(out: &mut Vec<u8>, number: i64) {
    few(out, itoa::Buffer::new().format(number).as_bytes());
}

/// A whole number that is not negative.
pub(in crate::http) fn uint(out: &mut Vec<u8>, number: u64) {
    if number < 10 {
        out.push(b'0' + number as u8);
        return;
    }
    few(out, itoa::Buffer::new().format(number).as_bytes());
}

/// A finite number in the fewest digits that read back as the same; whole numbers below 2^53 without a fraction.
pub(in crate::http) fn float(out: &mut Vec<u8>, number: f64) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    // A cast saturates, so what is too large or not whole does not come back as itself.
    let whole = number as i64;
    if whole as f64 == number && number.abs() < EXACT {
        return int(out, whole);
    }
    // Percentiles and the like are whole microseconds. Up to 15 digits no other decimal reads back as the same number, so
    // these are the fewest. A division takes as long as all the rest here: who is not near a whole number is spared it.
    const MICROS: f64 = 1e6;
    let scaled = number * MICROS;
    let us = (scaled + 0.5) as u64;
    if us < 1_000_000_000_000_000
        && (scaled - us as f64).abs() <= scaled * (2.0 * f64::EPSILON)
        && us as f64 / MICROS == number
    {
        return micros(out, us);
    }
    few(out, zmij::Buffer::new().format_finite(number).as_bytes());
}

/// A finite number of single precision, likewise.
#[cfg(feature = "sql")]
pub(in crate::http) fn float32(out: &mut Vec<u8>, number: f32) {
    const EXACT: f32 = 16_777_216.0;
    let whole = number as i64;
    if whole as f32 == number && number.abs() < EXACT {
        return int(out, whole);
    }
    few(out, zmij::Buffer::new().format_finite(number).as_bytes());
}

/// Microseconds as seconds: up to six decimals, none that is a trailing zero.
pub(in crate::http) fn micros(out: &mut Vec<u8>, us: u64) {
    uint(out, us / 1_000_000);
    let part = (us % 1_000_000) as usize;
    if part == 0 {
        return;
    }
    let mut digits = *b".0000000";
    digits[1..3].copy_from_slice(&PAIRS[part / 10_000]);
    digits[3..5].copy_from_slice(&PAIRS[part / 100 % 100]);
    digits[5..7].copy_from_slice(&PAIRS[part % 100]);
    // The first byte is no '0', and the last that is none has the highest bits of the word.
    let zeros = (u64::from_le_bytes(digits) ^ u64::from_le_bytes(*b"00000000")).leading_zeros();
    short(out, &digits, digits.len() - zeros as usize / 8);
}

/// `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [*b"00"; 100];
    let mut at = 0;
    while at < 100 {
        pairs[at] = [b'0' + at as u8 / 10, b'0' + at as u8 % 10];
        at += 1;
    }
    pairs
};

/// The digits of one number: up to 32 bytes, as two pieces that overlap, of lengths that the compiler knows.
#[inline(always)]
fn few(out: &mut Vec<u8>, bytes: &[u8]) {
    if !few_of::<16>(out, bytes) && !few_of::<8>(out, bytes) && !few_of::<4>(out, bytes) {
        out.extend_from_slice(bytes);
    }
}

/// Writes from `SIZE` to twice as many bytes; false when there are more or fewer.
#[inline(always)]
fn few_of<const SIZE: usize>(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let (Some(first), Some(last)) = (bytes.first_chunk::<SIZE>(), bytes.last_chunk::<SIZE>())
    else {
        return false;
    };
    if bytes.len() > 2 * SIZE {
        return false;
    }
    let end = out.len() + bytes.len();
    out.extend_from_slice(first);
    out.truncate(end - SIZE);
    out.extend_from_slice(last);
    true
}

/// The first `len` of some bytes. To copy them all, a number that the compiler knows, and to cut the rest off again takes
/// a third of the time that copying a length unknown to it would.
#[inline]
fn short<const SIZE: usize>(out: &mut Vec<u8>, bytes: &[u8; SIZE], len: usize) {
    let end = out.len() + len;
    out.extend_from_slice(bytes);
    out.truncate(end);
}

/// What stands before each value of a column: the same bytes in every row.
pub(in crate::http) struct Lead {
    /// Its beginning, filled up with anything.
    start: [u8; LEAD_BYTES],
    all: Vec<u8>,
}

/// As long as leads commonly are.
const LEAD_BYTES: usize = 32;

impl Lead {
    pub(in crate::http) fn new(all: Vec<u8>) -> Self {
        let mut start = [0; LEAD_BYTES];
        let len = all.len().min(LEAD_BYTES);
        start[..len].copy_from_slice(&all[..len]);
        Self { start, all }
    }

    #[inline]
    pub(in crate::http) fn write(&self, out: &mut Vec<u8>) {
        if self.all.len() <= LEAD_BYTES {
            short(out, &self.start, self.all.len());
        } else {
            out.extend_from_slice(&self.all);
        }
    }
}

/// A text with its quotes.
pub(in crate::http) fn text(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    // Most texts need no escape: they are copied in one piece.
    while let Some(at) = first_special(rest) {
        out.extend_from_slice(&rest[..at]);
        escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// A number for a document that serde writes: whole ones without a fraction.
pub(in crate::http) fn number(number: f64) -> Json {
    let whole = number as i64;
    match whole as f64 == number {
        true => whole.into(),
        false => number.into(),
    }
}

/// The name of a member, and what stands between it and its value.
pub(in crate::http) fn name(out: &mut Vec<u8>, name: &str) {
    text(out, name);
    out.push(b':');
}

/// Where the first byte is that JSON wants escaped: controls, quotes and backslashes. Eight bytes at a time.
fn first_special(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES * 128;
    let special = |byte: u8| matches!(byte, 0..=0x1f | b'"' | b'\\');
    let (words, tail) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // A byte is zero where its high bit comes out set; bytes above may come out set in error, so the first is looked for again.
        let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let quotes = zeros(word ^ (ONES * u64::from(b'"')));
        let backslashes = zeros(word ^ (ONES * u64::from(b'\\')));
        if controls | quotes | backslashes != 0 {
            let found = bytes[at * 8..].iter().position(|byte| special(*byte));
            return found.map(|offset| at * 8 + offset);
        }
    }
    let found = tail.iter().position(|byte| special(*byte));
    found.map(|offset| words.len() * 8 + offset)
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        byte => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Tags as an object. A name that comes more than once has all its values, in packet order, as an array.
pub(in crate::http) fn tags(out: &mut Vec<u8>, tags: &[(String, String)]) {
    let mut by_name: Map<String, Json> = Map::new();
    for (name, value) in tags {
        match by_name.get_mut(name) {
            None => {
                by_name.insert(name.clone(), value.as_str().into());
            }
            Some(Json::Array(values)) => values.push(value.as_str().into()),
            Some(first) => *first = vec![first.take(), value.as_str().into()].into(),
        }
    }
    out.extend_from_slice(Json::from(by_name).to_string().as_bytes());
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

    /// Whichever way they are written, it is what `serde_json` writes.
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
            let ours = written(|out| float(out, number));
            assert_eq!(ours.parse::<f64>().unwrap().to_bits(), number.to_bits());
            if number.fract() != 0.0 && (1e-5..1e15).contains(&number) {
                assert_eq!(ours, serde_json::to_string(&number).unwrap());
            }
        }
    }

    #[test]
    fn numbers_that_json_lacks_are_null() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(written(|out| value(out, &Value::Float(number))), "null");
        }
        assert_eq!(written(|out| value(out, &Value::Float(0.1))), "0.1");
        assert_eq!(written(|out| value(out, &Value::Float(100.0))), "100");
        assert_eq!(written(|out| value(out, &Value::Float(-0.0))), "0");
        assert_eq!(written(|out| value(out, &Value::Float(-0.5))), "-0.5");
        let large = written(|out| value(out, &Value::Float(1e300)));
        assert_eq!(large.parse::<f64>().unwrap(), 1e300);
        assert_eq!(
            written(|out| value(out, &Value::Int(i64::MIN))),
            i64::MIN.to_string()
        );
    }

    #[test]
    fn texts_are_escaped_as_serde_json_does() {
        let every: String = (0..0x300_u32).filter_map(char::from_u32).collect();
        for sample in [
            "",
            "plain",
            "\"\\",
            "a\nb\u{1}\u{7f}",
            "ä\u{2028}💡",
            &every,
        ] {
            let ours = written(|out| text(out, sample));
            assert_eq!(serde_json::from_str::<String>(&ours).unwrap(), sample);
        }
    }

    #[test]
    fn a_repeated_tag_lists_its_values() {
        let pairs = [("a", "1"), ("b", "x"), ("a", "2"), ("a", "1")];
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(n, v)| ((*n).into(), (*v).into()))
            .collect();
        assert_eq!(
            written(|out| tags(out, &pairs)),
            r#"{"a":["1","2","1"],"b":"x"}"#
        );
        assert_eq!(written(|out| tags(out, &[])), "{}");
    }
}
