//! Where a setting was given: a line of the file, a variable, a flag, or nowhere (the default).
//!
//! Every value carries its location through checking, so that an error found late, even by the
//! report module in a `[[report]]` entry, still names file and line and shows the text given. The
//! texts are kept whole for that, once, behind an `Arc`; a configuration is a few kilobytes.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Longest excerpt of a given text in an error, in characters.
const GIVEN_CHARS_MAX: usize = 60;

/// The source of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A configuration file, by the name used to open it.
    File(String),
    /// An environment variable.
    Variable(String),
    /// A flag of the command line, with its dashes.
    Flag(&'static str),
    /// The default of this key.
    Default(&'static str),
}

/// A range of one of the given texts. Equal to any other: a setting that was moved is the same.
#[derive(Clone)]
pub struct Location {
    origin: Arc<Origin>,
    text: Arc<str>,
    /// Byte range in `text`.
    span: Range<usize>,
    /// Whether the text may be a secret, which [`Location::given`] does not show.
    pub(super) hidden: bool,
}

impl Location {
    /// The whole of `text`.
    pub(crate) fn whole(origin: Origin, text: &str) -> Self {
        Self { origin: Arc::new(origin), text: Arc::from(text), span: 0..text.len(), hidden: false }
    }

    /// Another range of the same text.
    pub(crate) fn at(&self, span: Range<usize>) -> Self {
        Self { span, ..self.clone() }
    }

    /// Marks the text as a possible secret.
    pub(super) fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// The whole text, regardless of the range.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the location is in a file.
    pub(super) fn is_in_file(&self) -> bool {
        matches!(*self.origin, Origin::File(_))
    }

    /// The source of the text.
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The line in the file, from 1; `None` if not in a file.
    pub(crate) fn line(&self) -> Option<usize> {
        let Origin::File(_) = *self.origin else { return None };
        let before = self.text.bytes().take(self.span.start);
        Some(1 + before.filter(|byte| *byte == b'\n').count())
    }

    /// The text at this location, on one line and shortened.
    pub(crate) fn given(&self) -> String {
        if self.hidden {
            return "(not shown)".to_owned();
        }
        let text = self.text.get(self.span.clone()).unwrap_or_default();
        let mut given = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((cut, _)) = given.char_indices().nth(GIVEN_CHARS_MAX) {
            given.truncate(cut);
            given.push_str("...");
        }
        if given.is_empty() { "\"\"".to_owned() } else { given }
    }
}

impl PartialEq for Location {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.origin {
            Origin::File(name) => write!(f, "{name}:{}", self.line().unwrap_or(1)),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag(name) => f.write_str(name),
            Origin::Default(key) => write!(f, "default of {key}"),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_in_a_file_knows_its_line_and_text() {
        let file = Location::whole(Origin::File("a.toml".to_owned()), "x = 1\ny = [\n  2,\n]\n");
        let y = file.at(10..18);
        assert_eq!(format!("{y} {}", y.given()), "a.toml:2 [ 2, ]");
        assert_eq!(y.line(), Some(2));
        // A parser that misses something may point past the end: that gives the last line, without
        // a panic.
        assert_eq!(file.at(900..901).to_string(), "a.toml:5");
    }

    #[test]
    fn a_long_text_is_cut() {
        let flag = Location::whole(Origin::Flag("--set"), &"ä".repeat(100));
        assert_eq!(flag.given(), format!("{}...", "ä".repeat(60)));
        assert_eq!(flag.line(), None);
        assert_eq!(Location::whole(Origin::Flag("--udp"), "").given(), "\"\"");
    }
}
