//! SET: variables of the session, of the user, names of character sets.
//!
//! Values stay texts; they are expressions, which the engine works out. What is the daemon's own (global variables, passwords,
//! roles) is refused: it is set in the configuration.

use super::Statement;
use super::reader::Reader;
use crate::sql::dialect::lex::Kind;
use crate::sql::error::SqlError;

/// One of SET's.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sql) enum Setting {
    /// A system variable, to an expression, or to its default.
    System { name: String, value: Option<String> },
    /// A variable of the user's.
    Own { name: String, value: String },
    /// `SET NAMES`.
    Names(Option<String>),
}

impl Reader<'_> {
    /// What follows SET.
    pub(super) fn set(&mut self) -> Result<Statement, SqlError> {
        let mut settings = Vec::new();
        loop {
            settings.extend(self.setting()?);
            if !self.sign(",") {
                break;
            }
        }
        self.end()?;
        Ok(Statement::Set(settings))
    }

    fn setting(&mut self) -> Result<Vec<Setting>, SqlError> {
        if self.word("NAMES") || self.words(&["CHARACTER", "SET"]) || self.word("CHARSET") {
            let charset = match self.peek() {
                Some(token) if token.kind == Kind::Text => self.text_value()?,
                _ => self.name()?,
            };
            if self.word("COLLATE") {
                let _collation = self.peek();
                self.at += 1;
            }
            let charset = (!charset.eq_ignore_ascii_case("default")).then_some(charset);
            return Ok(vec![Setting::Names(charset)]);
        }
        if self.word("PASSWORD") || self.word("ROLE") || self.words(&["DEFAULT", "ROLE"]) {
            return Err(SqlError::not_supported(
                "passwords and roles are set in the configuration",
            ));
        }
        let global = self.word("GLOBAL") || self.word("PERSIST");
        if !global {
            let _ = self.word("SESSION") || self.word("LOCAL");
        }
        if self.word("TRANSACTION") {
            self.at = self.tokens.len();
            return Ok(Vec::new());
        }
        let token = self.peek().ok_or_else(|| self.wrong())?;
        self.at += 1;
        let written = token.text(self.text).to_ascii_lowercase();
        let (own, name) = match token.kind {
            Kind::UserVariable => (true, written[1..].trim_matches(['`', '\'', '"']).to_owned()),
            Kind::SystemVariable => (false, written[2..].replace('`', "")),
            Kind::Word | Kind::Quoted => (false, token.value(self.text).to_lowercase()),
            _ => {
                self.at -= 1;
                return Err(self.wrong());
            }
        };
        if !self.sign("=") && !self.sign(":=") {
            return Err(self.wrong());
        }
        let value = self.value()?;
        if own {
            return Ok(vec![Setting::Own { name, value }]);
        }
        let (scope, name) = match name.split_once('.') {
            Some((scope, name)) => (scope.to_owned(), name.to_owned()),
            None => (String::new(), name),
        };
        if global || scope == "global" {
            return Err(SqlError::access_denied(
                "global variables are set in the configuration; SET SESSION is done",
            ));
        }
        let default = value.eq_ignore_ascii_case("default");
        Ok(vec![Setting::System {
            name,
            value: (!default).then_some(value),
        }])
    }

    /// An expression, up to the next comma outside of parentheses.
    fn value(&mut self) -> Result<String, SqlError> {
        let start = self.at;
        let mut depth = 0_usize;
        while let Some(token) = self.peek() {
            match token.kind {
                Kind::Sign => match token.text(self.text) {
                    "(" => depth += 1,
                    ")" => depth = depth.saturating_sub(1),
                    "," if depth == 0 => break,
                    _ => {}
                },
                Kind::Word if depth == 0 && token.is(self.text, "FOR") => {
                    return Err(SqlError::not_supported("SET STATEMENT ... FOR"));
                }
                _ => {}
            }
            self.at += 1;
        }
        match (self.tokens.get(start), self.at > start) {
            (Some(first), true) => {
                Ok(self.text[first.start..self.tokens[self.at - 1].end].to_owned())
            }
            _ => Err(self.wrong()),
        }
    }
}
