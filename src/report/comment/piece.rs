//! A part of a COMMENT that knows its position, so that an error can point at it.

use super::error::CommentError;
use super::number::{self, SECONDS_ACCEPTED, Seconds};
use crate::report::definition::Defaults;

/// A part of a COMMENT.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    comment: &'a str,
    /// Byte offset of `text` in `comment`.
    at: usize,
    pub(super) text: &'a str,
}

impl<'a> Piece<'a> {
    pub(super) fn whole(comment: &'a str) -> Self {
        Self {
            comment,
            at: 0,
            text: comment,
        }
    }

    /// The part of this one that begins `at` bytes into it.
    fn part(self, at: usize, text: &'a str) -> Self {
        Self {
            at: self.at + at,
            text,
            ..self
        }
    }

    /// The parts between separators, empty ones included.
    pub(super) fn split(self, separator: char) -> impl Iterator<Item = Self> {
        let mut at = 0;
        self.text.split(separator).map(move |text| {
            let piece = self.part(at, text);
            at += text.len() + separator.len_utf8();
            piece
        })
    }

    /// What stands before and after the first separator.
    pub(super) fn split_once(self, separator: char) -> Option<(Self, Self)> {
        let (before, after) = self.text.split_once(separator)?;
        let at = before.len() + separator.len_utf8();
        Some((self.part(0, before), self.part(at, after)))
    }

    /// What follows a prefix.
    pub(super) fn after(self, prefix: &str) -> Option<Self> {
        let text = self.text.strip_prefix(prefix)?;
        Some(self.part(prefix.len(), text))
    }

    pub(super) fn is_empty(self) -> bool {
        self.text.is_empty()
    }

    /// A tag name that some record could have.
    pub(super) fn tag_name(self, defaults: &Defaults) -> Result<String, CommentError> {
        let longest = usize::from(defaults.text_bytes_max);
        if self.is_empty() {
            Err(self.error("a tag name is missing"))
        } else if self.text.len() > longest {
            Err(self.error(format!("tag names are kept up to {longest} bytes")))
        } else {
            Ok(self.text.to_owned())
        }
    }

    /// A time.
    pub(super) fn seconds(self) -> Result<Seconds, CommentError> {
        Seconds::parse(self.text).ok_or_else(|| self.error(format!("must be {SECONDS_ACCEPTED}")))
    }

    /// Adds a percentile to a list.
    pub(super) fn add_percentile(self, list: &mut Vec<f64>) -> Result<(), CommentError> {
        number::add_percentile_text(list, self.text).map_err(|problem| self.error(problem))
    }

    /// An error that points here.
    pub(super) fn error(self, problem: impl Into<String>) -> CommentError {
        let before = self.comment.get(..self.at).unwrap_or_default();
        CommentError {
            comment: self.comment.to_owned(),
            at: before.chars().count(),
            part: self.text.to_owned(),
            problem: problem.into(),
        }
    }

    /// An error that points at the end of the COMMENT.
    pub(super) fn error_at_end(self, problem: impl Into<String>) -> CommentError {
        let end = Self {
            at: self.comment.len(),
            text: "",
            ..self
        };
        end.error(problem)
    }
}
