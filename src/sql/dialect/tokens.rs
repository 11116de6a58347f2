//! Prepares the tokens of a statement for sqlparser's parser: the few parts of MySQL's syntax that
//! it does not read.
//!
//! One pass over the tokens, in place. Variables become placeholders (`@x`, `@@x`) and each `?`
//! gets its number; values are filled in later, on the tree. Modifiers and locks without effect
//! here become blanks. The text of each item of each SELECT is recorded on the way, because MySQL
//! names columns by it.

use std::collections::HashMap;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::lex::{Mode, is_word, range_of, tokens};
use crate::sql::error::SqlError;
use crate::sql::functions::unhex;
use crate::sql::limits::complexity;

/// The items of each SELECT as written, by the column at which the SELECT stands.
pub(crate) type Items = HashMap<u64, Vec<String>>;

/// Modifiers of SELECT without effect here.
const MODIFIERS: &str = "SQL_NO_CACHE SQL_CACHE SQL_CALC_FOUND_ROWS SQL_SMALL_RESULT SQL_BIG_RESULT \
    SQL_BUFFER_RESULT HIGH_PRIORITY STRAIGHT_JOIN";

/// Quantifiers that may stand among the modifiers of SELECT.
const QUANTIFIERS: &str = "ALL DISTINCT DISTINCTROW";

/// Words that end the items of a SELECT.
const AFTER_ITEMS: &str = "FROM INTO WHERE GROUP HAVING ORDER LIMIT UNION EXCEPT INTERSECT WINDOW PROCEDURE FOR \
    LOCK FETCH";

/// A statement prepared for the parser.
#[derive(Debug)]
pub(crate) struct Tokens<'a> {
    text: &'a str,
    pub(crate) tokens: Vec<TokenWithSpan>,
    /// Number of `?`.
    pub(crate) parameters: usize,
    pub(crate) items: Items,
}

impl<'a> Tokens<'a> {
    /// Reads a statement.
    ///
    /// # Errors
    /// Fails if a quote is not closed, or the statement is too deep or has too many operators.
    pub(crate) fn read(text: &'a str, mode: Mode) -> Result<Self, SqlError> {
        let tokens = tokens(text, mode)?;
        complexity::check(&tokens)?;
        let mut all = Self { text, tokens, parameters: 0, items: Items::new() };
        for at in 0..all.tokens.len() {
            all.one(at, mode)?;
        }
        Ok(all)
    }

    /// Whether one of these words is there.
    fn is(&self, at: usize, words: &str) -> bool {
        let token = self.tokens.get(at);
        token.is_some_and(|token| is_word(&token.token, words))
    }

    fn set(&mut self, at: usize, token: Token) {
        if let Some(old) = self.tokens.get_mut(at) {
            old.token = token;
        }
    }

    fn blank(&mut self, at: usize) {
        self.set(at, Token::Whitespace(Whitespace::Space));
    }

    fn one(&mut self, at: usize, mode: Mode) -> Result<(), SqlError> {
        match &self.tokens[at].token {
            Token::Word(word) if word.quote_style.is_none() => {
                if word.value.starts_with('@') {
                    let name = word.value.clone();
                    return self.variable(at, at + 1, name);
                } else if at > 0 && self.tokens[at - 1].token == Token::Period {
                    // A keyword may be a name there.
                    let name = Token::make_word(&word.value, Some('`'));
                    self.set(at, name);
                } else if let Some(digits) = word.value.strip_prefix("0b") {
                    self.set(at, bits(digits)?);
                } else {
                    self.word(at);
                }
            }
            // @'name', @`name`, and the rest of `<@name`
            Token::AtSign => {
                let name = match self.tokens.get(at + 1).map(|next| &next.token) {
                    Some(Token::Word(word)) => word.value.clone(),
                    Some(Token::SingleQuotedString(name) | Token::DoubleQuotedString(name)) => {
                        name.clone()
                    }
                    _ => return Ok(()),
                };
                self.blank(at + 1);
                return self.variable(at, at + 2, format!("@{name}"));
            }
            Token::Placeholder(_) => {
                self.set(at, Token::Placeholder(format!("?{}", self.parameters)));
                self.parameters += 1;
            }
            // x'41' is a text; 0x41 and b'1000001' are numbers too.
            Token::HexStringLiteral(digits) => {
                let is_text = !self.text[range_of(&self.tokens[at]).start..].starts_with('0');
                let literal = if is_text { text(digits)? } else { padded(digits) };
                self.set(at, literal);
            }
            Token::SingleQuotedByteStringLiteral(digits) => self.set(at, bits(digits)?),
            Token::StringConcat if !mode.pipes_as_concat => {
                self.set(at, Token::make_keyword("OR"));
            }
            Token::Overlap => self.set(at, Token::make_keyword("AND")),
            Token::LBrace if self.is(at + 1, "OJ") => self.outer_join(at),
            Token::LParen if at > 0 && self.is(at - 1, "FROM JOIN") => self.table_list(at + 1),
            _ => {}
        }
        Ok(())
    }

    /// `@name`, `@@name`, `@@session.name`: one placeholder. `next` is what follows the name.
    fn variable(&mut self, at: usize, mut next: usize, mut name: String) -> Result<(), SqlError> {
        if self.is(at.wrapping_sub(1), "INTO") {
            return Err(SqlError::not_supported("SELECT ... INTO"));
        }
        while let [point, part, ..] = &self.tokens[next.min(self.tokens.len())..]
            && let (Token::Period, Token::Word(word)) = (&point.token, &part.token)
        {
            name.push('.');
            name.push_str(&word.value);
            self.blank(next);
            self.blank(next + 1);
            next += 2;
        }
        self.set(at, Token::Placeholder(name.to_lowercase()));
        Ok(())
    }

    /// `{OJ a LEFT JOIN b ON ...}`: a join in parentheses. One in another is left to the parser,
    /// which refuses it.
    fn outer_join(&mut self, at: usize) {
        let mut depth = 1_usize;
        for end in at + 2..self.tokens.len() {
            match &self.tokens[end].token {
                Token::LBrace if self.is(end + 1, "OJ") => return,
                Token::LBrace => depth += 1,
                Token::RBrace => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.set(at, Token::LParen);
                self.blank(at + 1);
                self.set(end, Token::RParen);
                return;
            }
        }
    }

    /// `FROM (a, b)`: a comma is a join there, unless one that follows depends on what is joined
    /// first.
    fn table_list(&mut self, first: usize) {
        if self.is_query(first) {
            return;
        }
        let (mut depth, mut commas) = (0_usize, Vec::new());
        for at in first..self.tokens.len() {
            match &self.tokens[at].token {
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => break,
                Token::RParen => depth -= 1,
                Token::Comma if depth == 0 => commas.push(at),
                _ if depth == 0 && self.is(at, "RIGHT NATURAL USING") => return,
                _ => {}
            }
        }
        for at in commas {
            self.set(at, Token::make_keyword("JOIN"));
        }
    }

    /// Whether a query begins here: its first word, or one in parentheses that goes on after them
    /// or ends with them, as `(SELECT 1, 2) UNION SELECT 3, 4`. `(SELECT 1) a, b` is a list.
    fn is_query(&self, first: usize) -> bool {
        let is =
            |at: usize, token: &Token| self.tokens.get(at).is_some_and(|it| it.token == *token);
        let mut open = (first..).take_while(|at| is(*at, &Token::LParen)).count();
        if !self.is(first + open, "SELECT WITH VALUES") {
            return false;
        }
        let mut depth = open;
        for at in first + open..self.tokens.len() {
            match &self.tokens[at].token {
                _ if open == 0 => break,
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            if depth < open {
                open = depth;
                let goes_on = self.is(at + 1, "UNION EXCEPT INTERSECT ORDER LIMIT");
                if !goes_on && !is(at + 1, &Token::RParen) {
                    return false;
                }
            }
        }
        true
    }

    fn word(&mut self, at: usize) {
        if self.is(at, "SELECT") {
            self.select(at);
        } else if self.is(at, "VALUE") && at > 0 && self.is(at - 1, "CASE") {
            // As an argument, `CASE value` would be a member of a JSON object.
            self.set(at, Token::make_word("value", Some('`')));
        } else if self.is(at, "STRAIGHT_JOIN") {
            self.set(at, Token::make_keyword("JOIN"));
        } else if self.is(at, "LOCK") && self.is(at + 1, "IN") && self.is(at + 2, "SHARE") {
            (at..at + 4).for_each(|at| self.blank(at));
        } else if self.is(at, "FOR") && self.is(at + 1, "UPDATE SHARE") {
            let mut end = at + 2;
            if self.is(end, "OF") {
                end += 2;
            }
            while self.is(end, "NOWAIT SKIP LOCKED WAIT") {
                end += 1 + usize::from(self.is(end, "WAIT"));
            }
            (at..end).for_each(|at| self.blank(at));
        }
    }

    /// Blanks the modifiers of a SELECT and records its items.
    fn select(&mut self, at: usize) {
        let mut first = at + 1;
        loop {
            if self.is(first, MODIFIERS) {
                self.blank(first);
            } else if self.is(first, "DISTINCTROW") {
                self.set(first, Token::make_keyword("DISTINCT"));
            } else if !self.is(first, QUANTIFIERS) {
                break;
            }
            first += 1;
        }
        let (mut items, mut start) = (Vec::new(), first);
        let mut depth = 0_usize;
        for at in first..=self.tokens.len() {
            match self.tokens.get(at).map(|token| &token.token) {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) if depth > 0 => depth -= 1,
                Some(Token::Comma) if depth == 0 => {
                    items.push(self.written(start, at));
                    start = at + 1;
                }
                Some(Token::Word(_)) => {
                    let is_name = at > 0 && self.tokens[at - 1].token == Token::Period;
                    let is_part = is_name || self.is(at.wrapping_sub(1), "WITHIN");
                    if depth == 0 && !is_part && self.is(at, AFTER_ITEMS) {
                        items.push(self.written(start, at));
                        break;
                    }
                }
                None | Some(Token::RParen) => {
                    items.push(self.written(start, at));
                    break;
                }
                Some(_) => {}
            }
        }
        let column = self.tokens[at].span.start.column;
        self.items.insert(column, items);
    }

    /// The text from one token up to another; for string literals alone, their values.
    fn written(&self, start: usize, end: usize) -> String {
        let item = &self.tokens[start.min(end)..end];
        let said = item.iter().map(|token| match &token.token {
            Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => Some(&**text),
            _ => None,
        });
        match (said.collect::<Option<String>>(), item.first(), item.last()) {
            (None, Some(first), Some(last)) => {
                self.text[range_of(first).start..range_of(last).end].to_owned()
            }
            (texts, ..) => texts.unwrap_or_default(),
        }
    }
}

/// A literal of whole bytes.
fn padded(digits: &str) -> Token {
    let zero = "0".repeat(digits.len() % 2);
    Token::HexStringLiteral(format!("{zero}{digits}"))
}

/// `b'101'` in hexadecimal digits.
fn bits(digits: &str) -> Result<Token, SqlError> {
    if digits.contains(|digit| !matches!(digit, '0' | '1')) {
        return Err(SqlError::parse(format!("not a number in base 2: {digits}")));
    }
    let digits = format!("{}{digits}", "0".repeat((8 - digits.len() % 8) % 8));
    let halves = digits.as_bytes().chunks(4);
    let half = |bits: &[u8]| bits.iter().fold(0, |all, bit| all * 2 + u32::from(bit - b'0'));
    let halves = halves.filter_map(|bits| char::from_digit(half(bits), 16));
    Ok(Token::HexStringLiteral(halves.collect()))
}

/// `x'1f'`: a text.
fn text(digits: &str) -> Result<Token, SqlError> {
    let bytes = unhex(digits)
        .ok_or_else(|| SqlError::parse(format!("not a number in base 16: {digits}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| SqlError::not_supported(format!("{digits}: bytes that are not UTF-8")))?;
    Ok(Token::SingleQuotedString(text))
}

#[cfg(test)]
mod tests;
