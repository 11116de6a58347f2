//! A part of a COMMENT that knows where it stands, so that errors can point at it.

use super::error::CommentError;

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

    /// The parts between separators, empty ones included.
    pub(super) fn split(self, separator: char) -> impl Iterator<Item = Self> {
        let mut at = self.at;
        self.text.split(separator).map(move |text| {
            let piece = Self { at, text, ..self };
            at += text.len() + separator.len_utf8();
            piece
        })
    }

    /// What stands before and after the first separator.
    pub(super) fn split_once(self, separator: char) -> Option<(Self, Self)> {
        let (before, after) = self.text.split_once(separator)?;
        let at = self.at + before.len() + separator.len_utf8();
        Some((
            Self {
                text: before,
                ..self
            },
            Self {
                at,
                text: after,
                ..self
            },
        ))
    }

    /// What follows a prefix.
    pub(super) fn after(self, prefix: &str) -> Option<Self> {
        let text = self.text.strip_prefix(prefix)?;
        Some(Self {
            at: self.at + prefix.len(),
            text,
            ..self
        })
    }

    pub(super) fn is_empty(self) -> bool {
        self.text.is_empty()
    }

    /// An error that points here.
    pub(super) fn error(self, problem: impl Into<String>) -> CommentError {
        let at = self
            .comment
            .get(..self.at)
            .map_or(0, |before| before.chars().count());
        CommentError::new(self.comment, at, self.text, problem.into())
    }

    /// An error that points at the end of the COMMENT.
    pub(super) fn error_at_end(self, problem: impl Into<String>) -> CommentError {
        CommentError::new(
            self.comment,
            self.comment.chars().count(),
            "",
            problem.into(),
        )
    }
}
