//! The row of a group in a report, for readers of second logs: computed from the texts of the
//! group's key, by the rules that `RowMap` applies to their ids. And the key of a row as bytes:
//! each text preceded by its length.
//!
//! A row is `(other)` if a value of its key found no room. A value that was sent as `(other)` is
//! one like any other; only where all of them are, the row's key is that of `(other)`, and so it is
//! that row.

use std::cmp::Ordering;

use super::definition::Key;
use super::directory::KnownGroups;
use crate::pool::strings::OTHER_TEXT;

/// The position of a report's keys in those of a group.
#[derive(Debug, Clone)]
pub struct RowKeys(pub(super) Vec<(usize, Key)>);

impl RowKeys {
    /// Writes the key of a group's row, as [`push_key`] does, and returns whether the row is
    /// `(other)`; `None` if the report does not count the group.
    pub fn row_of(&self, groups: &KnownGroups, group: u32, key: &mut Vec<u8>) -> Option<bool> {
        key.clear();
        let mut is_other = false;
        let mut is_named_other = !self.0.is_empty();
        for (at, of_row) in &self.0 {
            let value = groups.value(group, *at);
            if of_row.lacks(value.map(<[u8]>::is_empty)) {
                return None;
            }
            is_other |= groups.is_other(group, *at);
            is_named_other &= value == Some(OTHER_TEXT.as_bytes());
            push_bytes(key, value.unwrap_or_default());
        }
        Some(is_other || is_named_other)
    }
}

/// Appends one key value, preceded by its length.
pub fn push_key(to: &mut Vec<u8>, text: &str) {
    push_bytes(to, text.as_bytes());
}

/// A key of these values.
pub fn key_of(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<u8> {
    let mut key = Vec::new();
    texts.into_iter().for_each(|text| push_key(&mut key, text.as_ref()));
    key
}

fn push_bytes(to: &mut Vec<u8>, text: &[u8]) {
    let len = u16::try_from(text.len()).unwrap_or(u16::MAX);
    to.extend_from_slice(&len.to_le_bytes());
    to.extend_from_slice(&text[..usize::from(len)]);
}

/// The values of a key.
pub fn key_texts(key: &[u8]) -> impl Iterator<Item = &str> {
    values(key).map(|text| std::str::from_utf8(text).unwrap_or_default())
}

/// The order of keys: by their values, one after the other.
pub(crate) fn key_order(a: &[u8], b: &[u8]) -> Ordering {
    values(a).cmp(values(b))
}

fn values(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = key;
    std::iter::from_fn(move || {
        let (len, behind) = rest.split_first_chunk::<2>()?;
        let (text, behind) = behind.split_at_checked(u16::from_le_bytes(*len).into())?;
        rest = behind;
        Some(text)
    })
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
        let texts: Vec<&str> = key_texts(&key).collect();
        assert_eq!(texts, ["/index.php", "", "a\0b", "ä"]);
    }
}
