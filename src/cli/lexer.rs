//! Splits MySQL's SQL into tokens: `import` searches dumps with it, `query` cuts a text into
//! statements.
//!
//! Knows quotes, escapes and comments, and no grammar. The content of a conditional comment
//! (`/*!40101 .. */`) is read, as the server does. Keeps nothing but its position in the text.

use std::sync::LazyLock;

use regex::bytes::Regex;

/// The next piece of a text: blanks, comments, the frame of conditional comments (MariaDB's
/// `/*M!100100 .. */` too), quoted texts (a doubled quote stands for itself; outside of names a
/// backslash escapes), words, and any other byte.
static PIECE: LazyLock<Regex> = LazyLock::new(|| {
    let pieces = [
        r"[\t\n\x0c\r ]+|#[^\n]*|--(?:[\t\x0c\r ][^\n]*|\n|\z)",
        r"/\*M?![0-9]{0,6}|\*/|/\*.*?(?:\*/|\z)",
        r#"`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*""#,
        r"[0-9A-Za-z_$\x80-\xff]+|.",
    ];
    Regex::new(&format!(r"(?s-u)\A(?:{})", pieces.join("|"))).expect("the test reads with it")
});

/// A piece of SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A keyword, name or number.
    Word(&'a [u8]),
    /// A name in backticks, or a quoted text.
    Quoted(String),
    /// Anything else.
    Symbol(u8),
    /// A quote that never ends.
    Cut,
}

impl Token<'_> {
    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(bytes) if bytes.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// The text of any token that can be a name or a value.
    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Self::Word(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Self::Quoted(text) => Some(text),
            Self::Symbol(_) | Self::Cut => None,
        }
    }
}

/// The rest of a text.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    rest: &'a [u8],
    /// Whether this is inside a conditional comment.
    conditional: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { rest: text, conditional: false }
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let end = PIECE.find(self.rest)?.end();
            let (piece, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Some(match piece {
                [b'#', ..] | [b'-', b'-', ..] => continue,
                [blank, ..] if blank.is_ascii_whitespace() => continue,
                [b'/', b'*', b'!', ..] | [b'/', b'*', b'M', b'!', ..] => {
                    self.conditional = true;
                    continue;
                }
                [b'*', b'/'] => {
                    self.conditional = false;
                    continue;
                }
                [b'/', b'*', ..] => continue,
                [quote @ (b'`' | b'\'' | b'"'), inner @ .., _] => {
                    let text = unescaped(inner, *quote);
                    Token::Quoted(String::from_utf8_lossy(&text).into_owned())
                }
                [b'`' | b'\'' | b'"'] => {
                    self.rest = &[];
                    Token::Cut
                }
                [byte]
                    if !byte.is_ascii_alphanumeric() && !b"_$".contains(byte) && *byte < 0x80 =>
                {
                    Token::Symbol(*byte)
                }
                word => Token::Word(word),
            });
        }
    }
}

/// Resolves the escapes of a quoted text. Pass 0 as `quote` for the client's output, where no quote
/// is special.
pub(super) fn unescaped(text: &[u8], quote: u8) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        if byte == b'\\' && quote != b'`' {
            plain.extend(bytes.next().map(|byte| match byte {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'0' => 0,
                other => *other,
            }));
        } else {
            plain.push(byte);
            if byte == quote {
                // Skips the second of a doubled quote.
                bytes.next();
            }
        }
    }
    plain
}

/// The statements of a text without their `;`; those with nothing but comments are left out.
pub(super) fn statements(text: &str) -> Vec<&str> {
    let mut lexer = Lexer::new(text.as_bytes());
    let (mut found, mut start, mut empty) = (Vec::new(), 0, true);
    loop {
        let token = lexer.next();
        let end = text.len() - lexer.rest.len();
        match token {
            Some(Token::Symbol(b';')) if !lexer.conditional => {
                found.extend((!empty).then(|| text[start..end - 1].trim()));
                (start, empty) = (end, true);
            }
            Some(_) => empty = false,
            None => {
                found.extend((!empty).then(|| text[start..].trim()));
                return found;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_that_are_neither_quoted_nor_in_comments() {
        for (text, expected) in cases![
            "SELECT 1" => &["SELECT 1"][..];
            " SELECT 1 ; ;; SELECT 2;\n" => &["SELECT 1", "SELECT 2"];
            r#"SELECT ';', 'it''s;', ";\";", `a;``b`; SELECT 2"# =>
                &[r#"SELECT ';', 'it''s;', ";\";", `a;``b`"#, "SELECT 2"];
            "SELECT 1 -- a; b\n; # c;\n SELECT /* d; */ 2; -- e;" =>
                &["SELECT 1 -- a; b", "# c;\n SELECT /* d; */ 2"];
            "SELECT 5--1; SELECT 2" => &["SELECT 5--1", "SELECT 2"];
            "/*!40101 SET x = 1; */; SELECT 2" => &["/*!40101 SET x = 1; */", "SELECT 2"];
            "SELECT 'open; SELECT 2" => &["SELECT 'open; SELECT 2"];
            "SELECT '日;本'; SELECT '語'" => &["SELECT '日;本'", "SELECT '語'"];
            "; -- nothing" => &[];
        ] {
            assert_eq!(statements(text), expected, "{text}");
        }
    }
}
