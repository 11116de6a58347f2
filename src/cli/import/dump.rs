//! Finds the CREATE TABLE statements in the output of MySQL's tools.
//!
//! Reads `mysqldump` (of MySQL and MariaDB) and `SHOW CREATE TABLE` as the client shows it: in a
//! box, with `\G`, or tab-separated with `\n` for line ends. Knows just enough SQL to find the
//! statements, their names, engines and COMMENTs among anything else in the file: comments,
//! conditional comments, data, views. Pure; reads the text once and keeps only what it found. A
//! text without SQL has no statements.

use std::borrow::Cow;
use std::iter::Peekable;

use crate::cli::lexer::{Lexer, Token, unescaped};

/// One CREATE TABLE statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTable {
    /// The table's name, without its database.
    pub name: String,
    /// The rest of the statement.
    pub body: Body,
}

/// The content of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Columns and options.
    Options {
        /// As written; `None` is the server's default.
        engine: Option<String>,
        /// Its text, with escapes resolved.
        comment: Option<String>,
    },
    /// `LIKE` another table.
    Like,
    /// The text ends in the middle of the statement.
    Cut,
}

/// All CREATE TABLE statements of a text, in order.
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

/// The text as MySQL would receive it: UTF-16 (from PowerShell's redirects) becomes UTF-8, and
/// tab-separated answers to SHOW CREATE TABLE get their line ends back.
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
    // In the client's output a line ends a row, not a semicolon.
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

    /// Parses after CREATE; `None` if it is not a table, or a heading and not a statement.
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
            if self.skip_brackets() { self.options() } else { Body::Cut }
        } else if self.word("LIKE") {
            Body::Like
        } else {
            return None;
        };
        Some(CreateTable { name, body })
    }

    /// Reads a name; a token that cannot be one stays unread.
    fn name(&mut self) -> Option<String> {
        let can_be = |token: &Token<'_>| !matches!(token, Token::Symbol(_) | Token::Cut);
        self.0.next_if(can_be)?.into_text()
    }

    /// Skips past the bracket that closes the one just read; returns false if there is none.
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

    /// Reads the options after the columns, in any order, with or without `=`, up to the end of the
    /// statement or its equivalent in the client's output.
    fn options(&mut self) -> Body {
        let (mut engine, mut comment) = (None, None);
        // Without a semicolon the next CREATE ends this statement.
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

    /// Reads the value of an option.
    fn value(&mut self) -> Option<String> {
        let _sign = self.symbol(b'=');
        self.name()
    }
}

#[cfg(test)]
mod tests;
