//! Writes values as JSON, straight into a byte buffer.
//!
//! An answer may have millions of values, so none of them becomes a `serde_json::Value` first.

use serde_json::{Map, Value as Json};

use crate::value::Value;
use crate::value::digits::{Line, Sink, few, float, int, micros};

/// Writes one value: null for numbers that JSON lacks.
pub(in crate::http) fn value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Int(number) => int(out, *number),
        Value::Micros(us) => micros(out, *us),
        Value::Float(number) if float(out, *number) => {}
        Value::Text(shown) => text(out, shown),
        Value::Null | Value::Float(_) => out.extend_from_slice(b"null"),
    }
}

/// A value as text: a string is bare.
pub(in crate::http) fn bare(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Writes a string with its quotes.
pub(in crate::http) fn text(out: &mut Vec<u8>, text: &str) {
    match is_plain(text.as_bytes()) {
        true => quoted(out, text),
        false => serde_json::to_writer(out, text).expect("writing to memory does not fail"),
    }
}

/// The same in a line; returns false and writes nothing if there is no room, or an escape.
#[inline(always)]
pub(in crate::http) fn plain(line: &mut Line<'_>, text: &str) -> bool {
    let is_plain = line.fits(text.len()) && is_plain(text.as_bytes());
    if is_plain {
        quoted(line, text);
    }
    is_plain
}

#[inline(always)]
fn quoted(out: &mut impl Sink, text: &str) {
    out.short(*b"\"", 1);
    few(out, text.as_bytes());
    out.short(*b"\"", 1);
}

/// Whether a text needs no escapes, as hardly any does. All bytes are checked, eight at a time.
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    const EACH: u64 = u64::MAX / 255;
    let specials = |eight: &[u8; 8]| {
        let word = u64::from_le_bytes(*eight);
        // The highest bit of each byte that is less than `limit`, up to the first one at least.
        let less = |word: u64, limit: u64| word.wrapping_sub(EACH * limit) & !word;
        let is = |byte: u8| less(word ^ (EACH * u64::from(byte)), 1);
        (less(word, 0x20) | is(b'"') | is(b'\\')) & (EACH << 7)
    };
    let (eights, rest) = bytes.as_chunks::<8>();
    let all = eights.iter().fold(0, |all, eight| all | specials(eight));
    // Perhaps some of them again.
    let last = bytes.last_chunk::<8>().copied().unwrap_or_else(|| {
        let mut last = [b' '; 8];
        last[..rest.len()].copy_from_slice(rest);
        last
    });
    all | specials(&last) == 0
}

/// A number for a document written by serde: integers without a fraction.
pub(in crate::http) fn number(number: f64) -> Json {
    let whole = number as i64;
    if whole as f64 == number { whole.into() } else { number.into() }
}

/// Writes the name of a member and the colon.
pub(in crate::http) fn name(out: &mut Vec<u8>, name: &str) {
    text(out, name);
    out.push(b':');
}

/// Writes tags as an object. A name that occurs more than once has all its values, in packet order,
/// as an array.
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
    use crate::value::digits::LINE_BYTES;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_that_json_lacks_are_null() {
        let shown = |shown| written(|out| value(out, &shown));
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(shown(Value::Float(number)), "null");
        }
        assert_eq!(shown(Value::Float(0.1)), "0.1");
        assert_eq!(shown(Value::Float(100.0)), "100");
        assert_eq!(shown(Value::Float(-0.0)), "0");
        assert_eq!(shown(Value::Float(-0.5)), "-0.5");
        let large = shown(Value::Float(1e300));
        assert_eq!(large.parse::<f64>().unwrap(), 1e300);
        assert_eq!(shown(Value::Int(i64::MIN)), i64::MIN.to_string());
    }

    #[test]
    fn texts_are_escaped_as_serde_json_does() {
        let every: String = (0..0x300_u32).filter_map(char::from_u32).collect();
        for sample in ["", "plain", "\"\\", "a\nb\u{1}\u{7f}", "ä\u{2028}💡", &every] {
            let ours = written(|out| text(out, sample));
            assert_eq!(ours, serde_json::to_string(sample).unwrap());
        }
    }

    /// Wherever a character stands, and with any before it.
    #[test]
    fn no_character_is_missed() {
        let mut room = [0; LINE_BYTES];
        for (len, at) in (1..40).flat_map(|len| (0..len).map(move |at| (len, at))) {
            for character in "\u{0}\u{1f} !\"#[\\]\u{7f}\u{e9}\u{fffd}".chars() {
                let mut sample = "~".repeat(len);
                sample.replace_range(at..=at, character.encode_utf8(&mut [0; 4]));
                let expected = serde_json::to_string(&sample).unwrap();
                assert_eq!(written(|out| text(out, &sample)), expected);
                let mut line = Line::new(&mut room);
                let is_plain = plain(&mut line, &sample);
                assert_eq!(is_plain, expected.len() == sample.len() + 2, "{sample:?}");
                let in_line = written(|out| line.flush(out));
                assert_eq!(in_line, if is_plain { &expected } else { "" });
            }
        }
    }

    #[test]
    fn a_repeated_tag_lists_its_values() {
        let pairs = [("a", "1"), ("b", "x"), ("a", "2"), ("a", "1")];
        let pairs: Vec<_> = pairs.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
        assert_eq!(written(|out| tags(out, &pairs)), r#"{"a":["1","2","1"],"b":"x"}"#);
        assert_eq!(written(|out| tags(out, &[])), "{}");
    }
}
