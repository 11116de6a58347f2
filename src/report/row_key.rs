//! The row of a report in which a group counts, for readers of [`Deltas`](super::delta_log::Deltas): from the texts of the
//! group's key, by the rules that `RowMap` has for their numbers.

use super::definition::{DEFINITION_KEYS_MAX, Key};
use super::group_key::lacks;
use crate::pool::strings::{EMPTY, NONE, OTHER, OTHER_TEXT};

/// Where a report finds its keys in those of a group.
#[derive(Debug, Clone)]
pub struct RowKeys(pub(super) Vec<(usize, Key)>);

/// The row in which a group counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOf {
    /// None of this report's.
    None,
    /// `(other)`.
    Other,
    /// The one of the key that was written.
    Own,
}

impl RowKeys {
    /// Writes the key of a group's row, as [`push_key`] does.
    pub fn row_of(&self, group: &[u8], key: &mut Vec<u8>) -> RowOf {
        key.clear();
        let mut values = [None; DEFINITION_KEYS_MAX];
        for (place, value) in values.iter_mut().zip(values_of(group)) {
            *place = value;
        }
        let mut row = RowOf::Own;
        for (
            at,
            Key {
                source, missing, ..
            },
        ) in &self.0
        {
            let value = values[*at];
            let key_id = match value {
                None => NONE,
                Some(b"") => EMPTY,
                Some(_) => OTHER,
            };
            if lacks(source, *missing, key_id) {
                return RowOf::None;
            }
            if value == Some(OTHER_TEXT.as_bytes()) {
                row = RowOf::Other;
            }
            push_bytes(key, Some(value.unwrap_or_default()));
        }
        row
    }
}

const _: () = assert!(DEFINITION_KEYS_MAX < 256);

/// The length of a value that is none.
const NO_VALUE: u16 = u16::MAX;

/// Appends one key value behind its length.
pub fn push_key(to: &mut Vec<u8>, text: &str) {
    push_bytes(to, Some(text.as_bytes()));
}

/// The same of a value that may be missing.
pub(super) fn push_value(to: &mut Vec<u8>, value: Option<&str>) {
    push_bytes(to, value.map(str::as_bytes));
}

fn push_bytes(to: &mut Vec<u8>, value: Option<&[u8]>) {
    let text = value.unwrap_or_default();
    let len = u16::try_from(text.len()).unwrap_or(NO_VALUE - 1);
    let len = len.min(NO_VALUE - 1);
    let text = text.get(..usize::from(len)).unwrap_or_default();
    let len = if value.is_some() { len } else { NO_VALUE };
    to.extend_from_slice(&len.to_le_bytes());
    to.extend_from_slice(text);
}

/// The values of a key.
pub fn key_values(key: &[u8]) -> impl Iterator<Item = Option<&str>> {
    values_of(key).map(|value| Some(std::str::from_utf8(value?).unwrap_or_default()))
}

/// The same, of which nobody looks at the characters.
fn values_of(key: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = key;
    std::iter::from_fn(move || {
        let (len, behind) = rest.split_first_chunk::<2>()?;
        let len = u16::from_le_bytes(*len);
        let bytes = if len == NO_VALUE { 0 } else { usize::from(len) };
        let (text, behind) = behind.split_at_checked(bytes)?;
        rest = behind;
        Some((len != NO_VALUE).then_some(text))
    })
}

/// The same of one in which none is missing.
pub fn key_texts(key: &[u8]) -> impl Iterator<Item = &str> {
    key_values(key).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_is_read() {
        let mut key = Vec::new();
        for text in ["/index.php", "", "a\0b", "ä"] {
            push_key(&mut key, text);
        }
        push_value(&mut key, None);
        let texts: Vec<Option<&str>> = key_values(&key).collect();
        let expected = ["/index.php", "", "a\0b", "ä"].map(Some);
        assert_eq!((&texts[..4], texts[4]), (&expected[..], None));
    }
}
