//! Reading a statement token by token: keywords, names and texts, each taken if it comes next.
//!
//! What all readers of `statement` share. Whatever does not fit becomes MySQL's syntax
//! error with the text that stands there; behind the last token nothing comes next.

use crate::sql::dialect::lex::{Kind, Token};
use crate::sql::error::SqlError;

/// A statement and how far it is read.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a [Token],
    /// The token that comes next.
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    /// The next token, which stays.
    pub(super) fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    /// Takes a keyword if it comes next.
    pub(super) fn word(&mut self, keyword: &str) -> bool {
        let found = self
            .peek()
            .is_some_and(|token| token.is(self.text, keyword));
        self.at += usize::from(found);
        found
    }

    /// Takes keywords if they come next, all of them.
    pub(super) fn words(&mut self, keywords: &[&str]) -> bool {
        let found = keywords.iter().enumerate().all(|(ahead, keyword)| {
            self.tokens
                .get(self.at + ahead)
                .is_some_and(|token| token.is(self.text, keyword))
        });
        if found {
            self.at += keywords.len();
        }
        found
    }

    /// Takes a sign if it comes next.
    pub(super) fn sign(&mut self, sign: &str) -> bool {
        let found = self
            .peek()
            .is_some_and(|token| token.is_sign(self.text, sign));
        self.at += usize::from(found);
        found
    }

    /// The text from here on.
    pub(super) fn rest(&self) -> &'a str {
        match (self.tokens.get(self.at), self.tokens.last()) {
            (Some(first), Some(last)) => &self.text[first.start..last.end],
            _ => "",
        }
    }

    /// MySQL's error 1064, with what stands here.
    pub(super) fn wrong(&self) -> SqlError {
        let near: String = match self.peek() {
            Some(token) => self.text[token.start..].chars().take(80).collect(),
            None => "the end".to_owned(),
        };
        SqlError::parse(format!(
            "You have an error in your SQL syntax; check the manual for what is accepted near '{near}'"
        ))
    }

    /// Refuses whatever is left.
    pub(super) fn end(&self) -> Result<(), SqlError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.wrong()),
        }
    }

    /// A name, in backticks or not.
    pub(super) fn name(&mut self) -> Result<String, SqlError> {
        match self.peek() {
            Some(token) if matches!(token.kind, Kind::Word | Kind::Quoted | Kind::Number) => {
                self.at += 1;
                Ok(token.value(self.text).into_owned())
            }
            _ => Err(self.wrong()),
        }
    }

    /// `table` or `database.table`.
    pub(super) fn table(&mut self) -> Result<(Option<String>, String), SqlError> {
        let first = self.name()?;
        match self.sign(".") {
            true => Ok((Some(first), self.name()?)),
            false => Ok((None, first)),
        }
    }

    /// A text in quotes: what it says.
    pub(super) fn text_value(&mut self) -> Result<String, SqlError> {
        match self.peek() {
            Some(token) if token.kind == Kind::Text => {
                self.at += 1;
                Ok(token.value(self.text).into_owned())
            }
            _ => Err(self.wrong()),
        }
    }
}
