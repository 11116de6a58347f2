//! SET: variables of the session, of the user, names of character sets.
//!
//! Values are expressions, which the engine evaluates. Settings of the daemon (global variables,
//! passwords, roles) are refused: they belong to the configuration.

use datafusion::sql::sqlparser::ast::{Expr, Ident};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::{Reader, Statement, wrong};
use crate::sql::dialect::lex::is_word;
use crate::sql::error::SqlError;
use crate::sql::variables::canonical;

/// One assignment of SET: a system variable, or `@` and a user variable.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::sql) struct Setting {
    pub(in crate::sql) name: String,
    /// `None` restores its default.
    pub(in crate::sql) value: Option<Expr>,
}

/// The variables that SET NAMES sets.
const CHARSETS: [&str; 3] =
    ["character_set_client", "character_set_connection", "character_set_results"];

impl Reader<'_> {
    /// Reads after SET.
    pub(super) fn set(&mut self) -> Result<Statement, SqlError> {
        let for_one = self.words("STATEMENT");
        let mut settings = Vec::new();
        loop {
            settings.extend(self.setting()?);
            if self.parser.consume_token(&Token::Comma) {
                continue;
            }
            if !for_one {
                return Ok(Statement::Set(settings));
            }
            if !self.words("FOR") {
                return Err(self.wrong());
            }
            // One within another, as drivers write it, sets more.
            if !self.words("SET STATEMENT") {
                break;
            }
        }
        let statement = self.statement()?;
        Ok(Statement::SetFor(settings, Box::new(statement)))
    }

    fn setting(&mut self) -> Result<Vec<Setting>, SqlError> {
        if self.words("NAMES") || self.words("CHARACTER SET") || self.words("CHARSET") {
            let charset = self.quoted_text().or_else(|_| self.name())?;
            if self.words("COLLATE") {
                self.parser.advance_token();
            }
            let charset = (!charset.eq_ignore_ascii_case("default")).then_some(charset);
            let value = charset.map(|charset| Expr::Identifier(Ident::new(charset)));
            let settings =
                CHARSETS.map(|name| Setting { name: name.to_owned(), value: value.clone() });
            return Ok(settings.into());
        }
        if self.words("PASSWORD") || self.words("ROLE") || self.words("DEFAULT ROLE") {
            return Err(SqlError::not_supported(
                "this: passwords and roles are set in the configuration",
            ));
        }
        let global = self.words("GLOBAL") || self.words("PERSIST");
        if !global {
            let _ = self.words("SESSION") || self.words("LOCAL");
        }
        if self.words("TRANSACTION") {
            self.skip_to(Statement::Nothing);
            return Ok(Vec::new());
        }
        let name = match self.parser.next_token().token {
            Token::Placeholder(variable) => variable,
            Token::Word(word) => format!("@@{}", word.value.to_lowercase()),
            _ => return Err(self.wrong_before()),
        };
        if !self.parser.consume_token(&Token::Eq) && !self.parser.consume_token(&Token::Assignment)
        {
            return Err(self.wrong());
        }
        let value = self.value()?;
        let Some(name) = name.strip_prefix("@@") else {
            let value = Some(value);
            return Ok(vec![Setting { name, value }]);
        };
        let (scope, name) = name.split_once('.').unwrap_or(("session", name));
        let global = global || ["global", "persist", "persist_only"].contains(&scope);
        if !global && !["session", "local"].contains(&scope) {
            return Err(SqlError::unknown_variable(format!(
                "Unknown structured system variable '{scope}'"
            )));
        }
        if global {
            return Err(SqlError::access_denied(
                "global variables are set in the configuration; SET SESSION is done",
            ));
        }
        let is_default =
            matches!(&value, Expr::Identifier(word) if word.value.eq_ignore_ascii_case("default"));
        Ok(vec![Setting {
            name: canonical(name).to_owned(),
            value: (!is_default).then_some(value),
        }])
    }

    /// Reads an expression; a bare word is one too, whatever it means elsewhere.
    fn value(&mut self) -> Result<Expr, SqlError> {
        let after = &self.parser.peek_nth_token_ref(1).token;
        let alone = matches!(after, Token::EOF | Token::Comma) || is_word(after, "FOR");
        match &self.parser.peek_token_ref().token {
            token @ Token::Word(word) if alone && !is_word(token, "NULL TRUE FALSE") => {
                let word = Ident::new(word.value.clone());
                self.parser.advance_token();
                Ok(Expr::Identifier(word))
            }
            _ => self.parser.parse_expr().map_err(wrong),
        }
    }
}
