//! The CREATE TABLE statements in what MySQL's tools print.
//!
//! Reads `mysqldump` (of MySQL and MariaDB) and `SHOW CREATE TABLE` as the client shows it: in a box, with `\G`, or
//! tab-separated with `\n` for line ends. Only as much SQL as it takes to find the statements, their names, engines
//! and COMMENTs, whatever else is in the file: comments, conditional comments, data, views. Pure; works through the text
//! once and keeps nothing but what it found. A text that is no SQL at all has no statements.

use std::borrow::Cow;
use std::iter::Peekable;

use crate::cli::lexer::{Lexer, Token, unescaped};

/// One CREATE TABLE statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTable {
    /// The table's name, without its database.
    pub name: String,
    /// What follows the name.
    pub body: Body,
}

/// What a statement says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Columns and options.
    Options {
        /// As written; `None`: the server's default.
        engine: Option<String>,
        /// Its text, escapes resolved.
        comment: Option<String>,
    },
    /// `LIKE` another table.
    Like,
    /// The text ends in the middle of it.
    Cut,
}

/// All CREATE TABLE statements of a text, in their order.
pub fn statements(text: &[u8]) -> Vec<CreateTable> {
    let text = plain(text);
    let mut parser = Parser(Lexer::new(&text).peekable());
    let mut found = Vec::new();
    while let Some(token) = parser.0.next() {
        if token.is_word("CREATE")
            && let Some(table) = parser.create_table()
        {
            found.push(table);
        }
    }
    found
}

/// The text as MySQL would be given it: UTF-16 (a redirect of PowerShell's) made UTF-8, and tab-separated answers to
/// SHOW CREATE TABLE with their line ends back.
fn plain(text: &[u8]) -> Cow<'_, [u8]> {
    let wide = |order: fn([u8; 2]) -> u16| {
        let (pairs, _) = text.as_chunks::<2>();
        let units: Vec<u16> = pairs.iter().skip(1).map(|pair| order(*pair)).collect();
        String::from_utf16_lossy(&units).into_bytes()
    };
    let text: Cow<'_, [u8]> = match text {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes).into(),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes).into(),
        [0xef, 0xbb, 0xbf, rest @ ..] => rest.into(),
        text => text.into(),
    };
    let escaped = |line: &[u8]| {
        let tab = line.iter().position(|byte| *byte == b'\t');
        tab.is_some_and(|tab| {
            let statement = &line[tab + 1..];
            statement.starts_with(b"CREATE ") && statement.windows(2).any(|pair| pair == b"\\n")
        })
    };
    if !text.split(|byte| *byte == b'\n').any(escaped) {
        return text;
    }
    // The client ends a row with its line, not with a semicolon.
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| match escaped(line) {
        true => [&unescaped(line, b'\0')[..], b";"].concat(),
        false => line.to_vec(),
    });
    lines.collect::<Vec<_>>().join(&b'\n').into()
}

struct Parser<'a>(Peekable<Lexer<'a>>);

impl Parser<'_> {
    fn symbol(&mut self, symbol: u8) -> bool {
        self.0.next_if_eq(&Token::Symbol(symbol)).is_some()
    }

    fn word(&mut self, word: &str) -> bool {
        self.0.next_if(|token| token.is_word(word)).is_some()
    }

    /// What follows CREATE; `None` when it is no table, or no statement but a heading.
    fn create_table(&mut self) -> Option<CreateTable> {
        while self.word("OR") || self.word("REPLACE") || self.word("TEMPORARY") {}
        if !self.word("TABLE") {
            return None;
        }
        if self.word("IF") {
            let _said = self.word("NOT") && self.word("EXISTS");
        }
        let mut name = self.name()?;
        while self.symbol(b'.') {
            name = self.name()?;
        }
        let body = if self.symbol(b'(') {
            match self.skip_brackets() {
                true => self.options(),
                false => Body::Cut,
            }
        } else if self.word("LIKE") {
            Body::Like
        } else {
            return None;
        };
        Some(CreateTable { name, body })
    }

    /// A name; what cannot be one is left to be read again.
    fn name(&mut self) -> Option<String> {
        let can_be = |token: &Token<'_>| !matches!(token, Token::Symbol(_) | Token::Cut);
        self.0.next_if(can_be)?.into_text()
    }

    /// Goes past the bracket that closes the one just read; false when there is none.
    fn skip_brackets(&mut self) -> bool {
        let mut open = 1;
        for token in &mut self.0 {
            match token {
                Token::Symbol(b'(') => open += 1,
                Token::Symbol(b')') => open -= 1,
                _ => {}
            }
            if open == 0 {
                return true;
            }
        }
        false
    }

    /// The options after the columns: in any order, with or without `=`, up to the end of the statement, or of what
    /// stands for it in the client's output.
    fn options(&mut self) -> Body {
        let (mut engine, mut comment) = (None, None);
        // Without a semicolon the next statement ends this one.
        while let Some(token) = self.0.next_if(|token| !token.is_word("CREATE")) {
            match token {
                Token::Symbol(b';' | b'|' | b'*') => break,
                Token::Symbol(b'(') if !self.skip_brackets() => return Body::Cut,
                Token::Cut => return Body::Cut,
                token if token.is_word("ENGINE") || token.is_word("TYPE") => {
                    engine = self.value().or(engine);
                }
                token if token.is_word("COMMENT") => comment = self.value().or(comment),
                _ => {}
            }
        }
        Body::Options { engine, comment }
    }

    /// The value of an option.
    fn value(&mut self) -> Option<String> {
        let _sign = self.symbol(b'=');
        self.name()
    }
}

#[cfg(test)]
mod tests;
