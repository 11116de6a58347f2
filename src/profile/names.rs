//! Converts sent bytes to text: always UTF-8, of bounded length, and renamed by the `[[rewrite]]`
//! rules.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::input::rewrite::{NameRules, Rewrite, TextField};
use crate::limits::TEXT_BYTES_MAX;

/// Applies the name rules.
#[derive(Debug)]
pub struct Names {
    rules: NameRules,
    fresh: Vec<u8>,
}

impl Names {
    /// Creates an instance with the configured rules.
    pub(crate) const fn new(rules: NameRules) -> Self {
        Self { rules, fresh: Vec::new() }
    }

    /// Applies the rules for a field to a text.
    pub(super) fn apply(&mut self, field: TextField, sent: &str) -> Arc<str> {
        let Self { rules, fresh } = self;
        fresh.clear();
        let chain = rules.field_chain(field);
        match chain.is_some_and(|chain| rules.apply(chain, sent.as_bytes(), fresh)) {
            true => text(fresh),
            false => sent.into(),
        }
    }

    /// Publishes the counts of the rules.
    pub(super) fn publish(&mut self) {
        self.rules.publish_counts();
    }
}

/// Converts bytes to text: invalid UTF-8 and control characters (names of anonymous classes contain
/// a NUL) become `\xNN`.
pub(super) fn text(sent: &[u8]) -> Arc<str> {
    match std::str::from_utf8(sent) {
        Ok(text) if is_plain(sent) => text.into(),
        _ => escaped(sent.get(..TEXT_BYTES_MAX).unwrap_or(sent)),
    }
}

/// Returns true if [`text`] leaves the bytes unchanged.
pub(super) fn is_plain(sent: &[u8]) -> bool {
    sent.len() <= TEXT_BYTES_MAX
        && !sent.iter().any(u8::is_ascii_control)
        && std::str::from_utf8(sent).is_ok()
}

fn escaped(sent: &[u8]) -> Arc<str> {
    let mut out = String::with_capacity(sent.len());
    let escape = |out: &mut String, byte: u8| {
        // Writing to a string cannot fail.
        let _written = write!(out, "\\x{byte:02x}");
    };
    for chunk in sent.utf8_chunks() {
        for character in chunk.valid().chars() {
            match u8::try_from(character) {
                Ok(byte) if byte.is_ascii_control() => escape(&mut out, byte),
                _ => out.push(character),
            }
        }
        chunk.invalid().iter().for_each(|byte| escape(&mut out, *byte));
    }
    out.truncate(out.floor_char_boundary(TEXT_BYTES_MAX));
    out.into()
}

/// Removes the root from a path.
pub(super) fn cut_root<'a>(path: &'a [u8], root: Option<&str>) -> &'a [u8] {
    let cut = root.and_then(|root| path.strip_prefix(root.as_bytes()));
    cut.filter(|rest| rest.starts_with(b"/")).unwrap_or(path)
}
