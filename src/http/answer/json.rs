//! Writes values as JSON, straight into a byte buffer.
//!
//! An answer may have millions of values, so none of them becomes a `serde_json::Value` first.

use serde_json::{Map, Value as Json};

use crate::value::Value;
use crate::value::digits::{few, float, int, micros};

/// Writes one value, strings through `text`; returns false and writes nothing for NULL and numbers
/// that JSON lacks.
pub(in crate::http) fn value(
    out: &mut Vec<u8>,
    value: &Value<'_>,
    text: fn(&mut Vec<u8>, &str),
) -> bool {
    match value {
        Value::Null => return false,
        Value::Int(number) => int(out, *number),
        Value::Micros(us) => micros(out, *us),
        Value::Float(number) => return float(out, *number),
        Value::Text(shown) => text(out, shown),
    }
    true
}

/// Writes a string with its quotes.
pub(in crate::http) fn text(out: &mut Vec<u8>, text: &str) {
    // Checks all bytes, many at a time; hardly any text needs an escape.
    let is_special = |byte: &u8| (*byte < b' ') | (*byte == b'"') | (*byte == b'\\');
    let bytes = text.as_bytes();
    if bytes.iter().fold(false, |any, byte| any | is_special(byte)) {
        serde_json::to_writer(out, text).expect("writing to memory does not fail");
        return;
    }
    out.push(b'"');
    few(out, bytes);
    out.push(b'"');
}

/// A number for a document written by serde: integers without a fraction.
pub(in crate::http) fn number(number: f64) -> Json {
    let whole = number as i64;
    match whole as f64 == number {
        true => whole.into(),
        false => number.into(),
    }
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

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_that_json_lacks_are_not_written() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(!value(&mut Vec::new(), &Value::Float(number), text));
        }
        let shown = |shown| written(|out| assert!(value(out, &shown, text)));
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
