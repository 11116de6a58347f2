//! Text in MySQL's SQL as tokens: what `import` looks for in a dump, and where `query` cuts a text into statements.
//!
//! Knows quotes, escapes and comments, and no grammar. What is in a conditional comment (`/*!40101 .. */`) is read, as the
//! server does. Keeps nothing but its place in the text.

/// A piece of SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A keyword, a name, a number.
    Word(&'a [u8]),
    /// In backticks.
    Name(String),
    /// In single or double quotes.
    Text(String),
    /// Anything else.
    Symbol(u8),
    /// A quote that never ends.
    Cut,
}

impl Token<'_> {
    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(bytes) if bytes.eq_ignore_ascii_case(word.as_bytes()))
    }

    pub(super) fn is_symbol(&self, symbol: u8) -> bool {
        *self == Self::Symbol(symbol)
    }

    /// The text of whatever can be a name or a value.
    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Self::Word(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Self::Name(text) | Self::Text(text) => Some(text),
            Self::Symbol(_) | Self::Cut => None,
        }
    }
}

/// What is left of a text.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    rest: &'a [u8],
    /// Whether this is inside a conditional comment.
    conditional: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self {
            rest: text,
            conditional: false,
        }
    }

    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let &first = self.rest.first()?;
            match first {
                byte if byte.is_ascii_whitespace() => self.skip(1),
                b'#' => self.skip_past(b"\n"),
                b'-' if self.rest.starts_with(b"--")
                    && self.rest.get(2).is_none_or(u8::is_ascii_whitespace) =>
                {
                    self.skip_past(b"\n");
                }
                b'/' if self.rest.starts_with(b"/*") => self.comment(),
                b'*' if self.rest.starts_with(b"*/") => {
                    self.conditional = false;
                    self.skip(2);
                }
                b'`' | b'\'' | b'"' => return Some(self.quoted(first)),
                byte if is_word(byte) => {
                    let end = self.rest.iter().position(|byte| !is_word(*byte));
                    let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                    self.rest = rest;
                    return Some(Token::Word(word));
                }
                symbol => {
                    self.skip(1);
                    return Some(Token::Symbol(symbol));
                }
            }
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn skip_past(&mut self, end: &[u8]) {
        let at = self.rest.windows(end.len()).position(|it| it == end);
        self.skip(at.map_or(self.rest.len(), |at| at + end.len()));
    }

    /// Skips a comment; of a conditional one (`/*!40101 .. */`, MariaDB's `/*M!100100 .. */`) only the frame, since the
    /// server reads what is in it.
    fn comment(&mut self) {
        let inside = &self.rest[2..];
        let version = inside
            .strip_prefix(b"!")
            .or_else(|| inside.strip_prefix(b"M!"));
        match version {
            Some(version) => {
                let digits = version.iter().take_while(|byte| byte.is_ascii_digit());
                let digits = digits.count().min(6);
                self.rest = &version[digits..];
                self.conditional = true;
            }
            None => {
                self.skip(2);
                self.skip_past(b"*/");
            }
        }
    }

    /// A quoted text: the quote twice is the quote, and but for names a backslash escapes.
    fn quoted(&mut self, quote: u8) -> Token<'a> {
        let mut text = Vec::new();
        let mut bytes = self.rest.iter().enumerate().skip(1);
        while let Some((at, &byte)) = bytes.next() {
            if byte == quote {
                if self.rest.get(at + 1) != Some(&quote) {
                    self.skip(at + 1);
                    let text = String::from_utf8_lossy(&text).into_owned();
                    return if quote == b'`' {
                        Token::Name(text)
                    } else {
                        Token::Text(text)
                    };
                }
                bytes.next();
                text.push(quote);
            } else if byte == b'\\' && quote != b'`' {
                match bytes.next() {
                    Some((_, b'n')) => text.push(b'\n'),
                    Some((_, b't')) => text.push(b'\t'),
                    Some((_, b'r')) => text.push(b'\r'),
                    Some((_, b'0')) => text.push(0),
                    Some((_, &other)) => text.push(other),
                    None => {}
                }
            } else {
                text.push(byte);
            }
        }
        self.rest = &[];
        Token::Cut
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// The statements of a text, without the `;` behind each; what holds nothing but comments is none.
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
        for (text, expected) in [
            ("SELECT 1", &["SELECT 1"][..]),
            (" SELECT 1 ; ;; SELECT 2;\n", &["SELECT 1", "SELECT 2"]),
            (
                r#"SELECT ';', 'it''s;', ";\";", `a;``b`; SELECT 2"#,
                &[r#"SELECT ';', 'it''s;', ";\";", `a;``b`"#, "SELECT 2"],
            ),
            (
                "SELECT 1 -- a; b\n; # c;\n SELECT /* d; */ 2; -- e;",
                &["SELECT 1 -- a; b", "# c;\n SELECT /* d; */ 2"],
            ),
            ("SELECT 5--1; SELECT 2", &["SELECT 5--1", "SELECT 2"]),
            (
                "/*!40101 SET x = 1; */; SELECT 2",
                &["/*!40101 SET x = 1; */", "SELECT 2"],
            ),
            ("SELECT 'open; SELECT 2", &["SELECT 'open; SELECT 2"]),
            (
                "SELECT '日;本'; SELECT '語'",
                &["SELECT '日;本'", "SELECT '語'"],
            ),
            ("; -- nothing", &[]),
        ] {
            assert_eq!(statements(text), expected, "{text}");
        }
    }
}
