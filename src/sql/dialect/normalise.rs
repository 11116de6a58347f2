//! From what MySQL's clients write to what the grammar reads.
//!
//! One pass over the tokens of a statement: hints, locks and modifiers that mean nothing here are left out, names of
//! functions that are keywords elsewhere are put in backticks, values take the places of `?`, `@x` and `@@x`. The result is
//! one line; on the way it is noted how each item of each SELECT was written, which is what MySQL calls the column.
//!
//! What can make the stages after this one slow or deep is refused (`bounds`); the words it goes by are in `words`.

mod bounds;
mod literals;
mod words;

use std::collections::HashMap;

use self::bounds::check;
use self::literals::{bits, limit};
pub(crate) use self::literals::{literal, quote};
use self::words::{AFTER_ITEMS, BARE, FUNCTIONS, MODIFIERS};
use super::lex::{Kind, Token, tokens};
use crate::sql::error::SqlError;
use crate::sql::session::Literal;

/// Where a statement's values come from.
pub(crate) trait Values {
    /// What `?` number `at` is; `None` when there are not so many.
    fn parameter(&self, at: usize) -> Option<Literal>;

    /// Whether there are no values yet, and what stands for them is never looked at.
    fn is_preparing(&self) -> bool {
        false
    }

    /// What `@name` is; NULL when it was never set.
    fn user_variable(&self, name: &str) -> Literal;

    /// What `@@name` is, `name` with its scope if one was written.
    ///
    /// # Errors
    /// When there is none of that name.
    fn system_variable(&self, name: &str) -> Result<Literal, SqlError>;
}

/// How a statement's quotes and bars are to be read: `sql_mode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    /// `"x"` is a name.
    pub(crate) ansi_quotes: bool,
    /// `a || b` joins texts.
    pub(crate) pipes_as_concat: bool,
}

impl Mode {
    /// From the words of `sql_mode`.
    pub(crate) fn new(sql_mode: &str) -> Self {
        let has = |word: &str| {
            sql_mode
                .split(',')
                .any(|mode| mode.trim().eq_ignore_ascii_case(word))
        };
        Self {
            ansi_quotes: has("ANSI_QUOTES") || has("ANSI"),
            pipes_as_concat: has("PIPES_AS_CONCAT") || has("ANSI"),
        }
    }
}

/// A statement as the grammar reads it.
#[derive(Debug, Default)]
pub(crate) struct Normalised {
    /// One line.
    pub(crate) text: String,
    /// How many `?` there were.
    pub(crate) parameters: usize,
    /// The items of each SELECT as they were written, by the column (from 1, in characters) where its SELECT stands.
    pub(crate) items: HashMap<u64, Vec<String>>,
}

/// Makes a statement ready for the grammar.
///
/// # Errors
/// When something quoted is not closed, when it is too deep or has too many operators, or when a value is missing.
pub(crate) fn normalise(
    text: &str,
    mode: Mode,
    values: &dyn Values,
) -> Result<Normalised, SqlError> {
    let mut tokens = tokens(text, mode.ansi_quotes);
    while tokens.last().is_some_and(|last| last.is_sign(text, ";")) {
        tokens.pop();
    }
    check(text, &tokens)?;
    let mut writer = Writer {
        text,
        tokens: &tokens,
        mode,
        values,
        out: Normalised::default(),
        written: 0,
        in_limit: false,
        last_end: 0,
    };
    let mut at = 0;
    while at < tokens.len() {
        at = writer.one(at)?;
    }
    Ok(writer.out)
}

struct Writer<'a> {
    text: &'a str,
    tokens: &'a [Token],
    mode: Mode,
    values: &'a dyn Values,
    out: Normalised,
    /// Characters of `out.text`.
    written: u64,
    /// Between LIMIT and what follows it.
    in_limit: bool,
    /// Where the last token ended in the old text.
    last_end: usize,
}

impl Writer<'_> {
    fn is(&self, at: usize, keyword: &str) -> bool {
        self.tokens
            .get(at)
            .is_some_and(|token| token.is(self.text, keyword))
    }

    fn is_sign(&self, at: usize, sign: &str) -> bool {
        self.tokens
            .get(at)
            .is_some_and(|token| token.is_sign(self.text, sign))
    }

    fn is_one_of(&self, at: usize, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(at, keyword))
    }

    /// Writes a piece, with a blank before it if there was a gap in the old text, or if it would run into the last one.
    fn write(&mut self, token: &Token, piece: &str) {
        let joined =
            token.start == self.last_end && (token.kind == Kind::Sign || self.is_after_sign(token));
        if !joined && !self.out.text.is_empty() {
            self.out.text.push(' ');
            self.written += 1;
        }
        self.out.text.push_str(piece);
        self.written += piece.chars().count() as u64;
        self.last_end = token.end;
    }

    fn is_after_sign(&self, token: &Token) -> bool {
        self.out.text.ends_with(['(', '.', ','])
            || (token.kind != Kind::Sign && self.out.text.ends_with(['=', '<', '>', '+', '*', '/']))
    }

    /// Writes token number `at` (or does not); where to go on.
    fn one(&mut self, at: usize) -> Result<usize, SqlError> {
        let text = self.text;
        let token = self.tokens[at];
        match token.kind {
            Kind::Word => return self.word(at),
            Kind::Text => {
                let literal = quote(&token.value(text));
                self.write(&token, &literal);
            }
            Kind::Quoted => {
                let name = format!("`{}`", token.value(text).replace('`', "``"));
                self.write(&token, &name);
            }
            Kind::Bits => {
                let literal = bits(token.text(text))?;
                self.write(&token, &literal);
            }
            Kind::Number => {
                let number = token.text(text);
                // `LIMIT 18446744073709551615` is how MySQL's users say "all the rest".
                let huge = self.in_limit && number.len() > 18;
                self.write(&token, if huge { "9223372036854775807" } else { number });
            }
            Kind::Parameter => {
                let value = self.values.parameter(self.out.parameters).ok_or_else(|| {
                    SqlError::wrong_arguments(format!(
                        "the statement has more than {} '?', and no value for the next one was given",
                        self.out.parameters
                    ))
                })?;
                self.out.parameters += 1;
                let literal = match self.in_limit {
                    true if self.values.is_preparing() => "1".to_owned(),
                    true => limit(&value)?,
                    false => literal(&value),
                };
                self.write(&token, &literal);
            }
            Kind::UserVariable => {
                if self.is_sign(at + 1, ":=") {
                    return Err(SqlError::not_supported(
                        "assignments to variables inside of a SELECT; SET @name = ... is done",
                    ));
                }
                let name = token.text(text)[1..].trim_matches(['`', '\'', '"']);
                let value = self.values.user_variable(&name.to_ascii_lowercase());
                self.write(&token, &literal(&value));
            }
            Kind::SystemVariable => {
                let name = token.text(text)[2..].replace('`', "").to_ascii_lowercase();
                let value = self.values.system_variable(&name)?;
                self.write(&token, &literal(&value));
            }
            Kind::Sign => match token.text(text) {
                "||" if !self.mode.pipes_as_concat => self.write(&token, " OR "),
                "&&" => self.write(&token, " AND "),
                ")" => {
                    self.in_limit = false;
                    self.write(&token, ")");
                }
                sign => self.write(&token, sign),
            },
            Kind::Open => {}
        }
        Ok(at + 1)
    }

    fn word(&mut self, at: usize) -> Result<usize, SqlError> {
        let text = self.text;
        let token = self.tokens[at];
        let word = token.text(text);
        let after_point = at > 0 && self.is_sign(at - 1, ".");
        if after_point {
            // A keyword may be a name there.
            let name = format!("`{word}`");
            self.write(&token, &name);
            return Ok(at + 1);
        }
        let upper = word.to_ascii_uppercase();
        let called = self.is_sign(at + 1, "(");
        match upper.as_str() {
            "SELECT" => return Ok(self.select(at)),
            "LIMIT" | "OFFSET" => self.in_limit = true,
            "LOCK" if self.is(at + 1, "IN") && self.is(at + 2, "SHARE") => return Ok(at + 4),
            "FOR" if self.is_one_of(at + 1, &["UPDATE", "SHARE"]) => return Ok(self.lock(at + 2)),
            "USE" | "FORCE" | "IGNORE" if self.is_one_of(at + 1, &["INDEX", "KEY"]) => {
                return Ok(self.index_hint(at + 2));
            }
            "STRAIGHT_JOIN" => {
                self.write(&token, "JOIN");
                return Ok(at + 1);
            }
            "MOD" if !called || self.follows_operand(at) => {
                self.write(&token, "%");
                return Ok(at + 1);
            }
            "FROM" if self.is(at + 1, "DUAL") && !self.is_sign(at + 2, ",") => {
                self.last_end = self.tokens[at + 1].end;
                return Ok(at + 2);
            }
            "N" if self.is_text_at_once(at) => return Ok(at + 1),
            _ if word.starts_with('_') && self.is_text_at_once(at) => {
                self.last_end = 0;
                return Ok(at + 1);
            }
            "TIMESTAMPDIFF" | "TIMESTAMPADD" if called => {
                self.write(&token, word);
                let bracket = self.tokens[at + 1];
                self.write(&bracket, "(");
                if let Some(unit) = self.tokens.get(at + 2).filter(|it| it.kind == Kind::Word) {
                    let unit = *unit;
                    let literal = quote(unit.text(text));
                    self.write(&unit, &literal);
                    return Ok(at + 3);
                }
                return Ok(at + 2);
            }
            _ => {}
        }
        if called && FUNCTIONS.contains(&upper.as_str()) {
            let name = format!("`{}`", word.to_ascii_lowercase());
            self.write(&token, &name);
            return Ok(at + 1);
        }
        if !called && BARE.contains(&upper.as_str()) {
            let call = format!("`{}`()", word.to_ascii_lowercase());
            self.write(&token, &call);
            return Ok(at + 1);
        }
        self.write(&token, word);
        Ok(at + 1)
    }

    /// Whether a text begins where this word ends, as in `_utf8'x'`.
    fn is_text_at_once(&self, at: usize) -> bool {
        let gap_max = match self.tokens[at].text(self.text).starts_with('_') {
            true => 1,
            false => 0,
        };
        self.tokens.get(at + 1).is_some_and(|next| {
            matches!(next.kind, Kind::Text | Kind::Bits)
                && next.start - self.tokens[at].end <= gap_max
        })
    }

    fn follows_operand(&self, at: usize) -> bool {
        at > 0
            && match self.tokens[at - 1].kind {
                Kind::Word => !self.is_one_of(
                    at - 1,
                    &[
                        "SELECT", "AND", "OR", "NOT", "WHERE", "ON", "BY", "WHEN", "THEN", "ELSE",
                        "HAVING", "DISTINCT",
                    ],
                ),
                Kind::Sign => self.is_sign(at - 1, ")"),
                _ => true,
            }
    }

    fn select(&mut self, at: usize) -> usize {
        let token = self.tokens[at];
        self.write(&token, "SELECT");
        let column = self.written - 5;
        let mut next = at + 1;
        let mut quantified = None;
        loop {
            if self.is_one_of(next, &MODIFIERS) {
                next += 1;
            } else if self.is_one_of(next, &["DISTINCT", "DISTINCTROW", "ALL"]) {
                quantified = Some(next);
                next += 1;
            } else {
                break;
            }
        }
        if let Some(token) = quantified.map(|at| self.tokens[at])
            && !token.is(self.text, "ALL")
        {
            self.write(&token, "DISTINCT");
        }
        let items = self.items(next);
        self.out.items.insert(column, items);
        next
    }

    /// How the items of a SELECT are written.
    fn items(&self, first: usize) -> Vec<String> {
        let text = self.text;
        let mut items = Vec::new();
        let mut depth = 0_usize;
        let mut start = first;
        let mut at = first;
        loop {
            let end = match self.tokens.get(at) {
                None => true,
                Some(token) => match token.kind {
                    Kind::Sign => match token.text(text) {
                        "(" => {
                            depth += 1;
                            false
                        }
                        ")" if depth == 0 => true,
                        ")" => {
                            depth -= 1;
                            false
                        }
                        "," if depth == 0 => {
                            items.push(self.slice(start, at));
                            start = at + 1;
                            false
                        }
                        _ => false,
                    },
                    Kind::Word => {
                        depth == 0
                            && !(at > 0 && self.is_sign(at - 1, "."))
                            && self.is_one_of(at, &AFTER_ITEMS)
                    }
                    _ => false,
                },
            };
            if end {
                items.push(self.slice(start, at));
                return items;
            }
            at += 1;
        }
    }

    /// The old text from one token to before another; of a text alone, what it says.
    fn slice(&self, start: usize, end: usize) -> String {
        match &self.tokens[start.min(end)..end] {
            [] => String::new(),
            [one] if one.kind == Kind::Text => one.value(self.text).into_owned(),
            texts if texts.iter().all(|one| one.kind == Kind::Text) => {
                texts.iter().map(|one| one.value(self.text)).collect()
            }
            [first, .., last] => self.text[first.start..last.end].to_owned(),
            [one] => one.text(self.text).to_owned(),
        }
    }

    /// Skips what follows FOR UPDATE.
    fn lock(&self, mut at: usize) -> usize {
        if self.is(at, "OF") {
            at += 2;
        }
        while self.is_one_of(at, &["NOWAIT", "SKIP", "LOCKED", "WAIT"])
            || (self.is(at.wrapping_sub(1), "WAIT")
                && self
                    .tokens
                    .get(at)
                    .is_some_and(|it| it.kind == Kind::Number))
        {
            at += 1;
        }
        at
    }

    /// Skips the rest of USE INDEX FOR JOIN (a, b).
    fn index_hint(&self, mut at: usize) -> usize {
        while at < self.tokens.len() && !self.is_sign(at, "(") {
            at += 1;
        }
        while at < self.tokens.len() && !self.is_sign(at, ")") {
            at += 1;
        }
        at + 1
    }
}

#[cfg(test)]
mod tests;
