//! MySQL's words: a statement's text cut into tokens, comments left out.
//!
//! Everything that looks at statements before the grammar does goes through here: cutting a text into statements,
//! SHOW, SET and their kin, and the text that the grammar gets (`normalise`). Linear in the text, never recursive, takes
//! any text: what is not closed ends where the text ends. Quoted things are known as such, so nothing in them is taken for SQL.

use std::borrow::Cow;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keyword or an unquoted name.
    Word,
    /// A name in backticks.
    Quoted,
    /// A text in `'` or `"`.
    Text,
    /// A number.
    Number,
    /// `0x1f`, `x'1f'`, `b'01'`, `0b01`.
    Bits,
    /// `?`.
    Parameter,
    /// `@name`.
    UserVariable,
    /// `@@name`, with `global.` or `session.` if that was said.
    SystemVariable,
    /// Anything else: one or more signs.
    Sign,
    /// Something quoted that never ends.
    Open,
}

/// One token and its place in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Signs of more than one byte, longer ones first.
const SIGNS: [&str; 13] = [
    "<=>", "->>", "<=", ">=", "<>", "!=", ":=", "||", "&&", "<<", ">>", "->", "::",
];

/// The version that `/*!NNNNNN` comments are measured against.
const VERSION: u32 = 101_114;

/// Cuts a text into tokens.
pub(crate) fn tokens(text: &str, ansi_quotes: bool) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(text.len() / 4);
    tokens.extend(Tokens::new(text, ansi_quotes));
    tokens
}

/// The tokens of a text, one by one.
struct Tokens<'a> {
    text: &'a str,
    ansi_quotes: bool,
    at: usize,
    /// How many `/*!` comments whose content counts are open.
    open: usize,
    last: Option<Token>,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str, ansi_quotes: bool) -> Self {
        Self {
            text,
            ansi_quotes,
            at: 0,
            open: 0,
            last: None,
        }
    }

    /// To where the next token begins; `None` at the end.
    fn skip(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        loop {
            let at = self.at;
            let byte = *bytes.get(at)?;
            let next = bytes.get(at + 1).copied().unwrap_or(0);
            self.at = match byte {
                _ if byte.is_ascii_whitespace() || byte.is_ascii_control() => at + 1,
                b'#' => line_end(bytes, at),
                b'-' if next == b'-'
                    && bytes
                        .get(at + 2)
                        .is_none_or(|b| b.is_ascii_whitespace() || b.is_ascii_control()) =>
                {
                    line_end(bytes, at)
                }
                b'/' if next == b'*' => match counted_comment(bytes, at) {
                    Some(content) => {
                        self.open += 1;
                        content
                    }
                    None => comment_end(bytes, at),
                },
                b'*' if next == b'/' && self.open > 0 => {
                    self.open -= 1;
                    at + 2
                }
                _ => return Some(byte),
            };
        }
    }
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let byte = self.skip()?;
        let bytes = self.text.as_bytes();
        let start = self.at;
        let at = &mut self.at;
        let next = bytes.get(start + 1).copied().unwrap_or(0);
        let kind = match byte {
            b'`' => quoted(bytes, at, false, Kind::Quoted),
            b'"' if self.ansi_quotes => quoted(bytes, at, false, Kind::Quoted),
            b'\'' | b'"' => quoted(bytes, at, true, Kind::Text),
            b'x' | b'X' | b'b' | b'B' if next == b'\'' => {
                *at += 1;
                quoted(bytes, at, false, Kind::Bits)
            }
            b'0' if matches!(next, b'x' | b'b')
                && bytes.get(start + 2).is_some_and(u8::is_ascii_hexdigit) =>
            {
                *at = word_end(bytes, start);
                Kind::Bits
            }
            b'0'..=b'9' => number(bytes, at),
            b'.' if next.is_ascii_digit()
                && !self.last.is_some_and(|last| {
                    last.end == start && matches!(last.kind, Kind::Word | Kind::Quoted)
                }) =>
            {
                number(bytes, at)
            }
            b'?' => {
                *at += 1;
                Kind::Parameter
            }
            b'@' => variable(bytes, at),
            _ if is_word(byte) => {
                *at = word_end(bytes, start);
                Kind::Word
            }
            _ => {
                let rest = &self.text[start..];
                *at += SIGNS
                    .iter()
                    .find(|sign| rest.starts_with(**sign))
                    .map_or(1, |sign| sign.len());
                Kind::Sign
            }
        };
        let token = Token {
            kind,
            start,
            end: self.at,
        };
        self.last = Some(token);
        Some(token)
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

fn word_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes[at..].iter();
    at + rest.take_while(|byte| is_word(**byte)).count()
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes[at..].iter();
    at + rest.take_while(|byte| **byte != b'\n').count()
}

fn comment_end(bytes: &[u8], at: usize) -> usize {
    let content = at + 2;
    bytes[content.min(bytes.len())..]
        .windows(2)
        .position(|pair| pair == b"*/")
        .map_or(bytes.len(), |length| content + length + 2)
}

/// Where the content of a `/*!` or `/*M!` comment begins, if its content is to be executed.
fn counted_comment(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at + 2..];
    let (mark, ours) = match rest {
        [b'M', b'!', ..] => (2, true),
        [b'!', ..] => (1, false),
        _ => return None,
    };
    let digits = rest[mark..]
        .iter()
        .take(6)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if digits < 5 {
        return Some(at + 2 + mark);
    }
    let version = rest[mark..mark + digits]
        .iter()
        .fold(0, |version, digit| version * 10 + u32::from(digit - b'0'));
    // As MariaDB does: what is meant for MySQL 5.7 and later is not for it.
    let counts = version <= VERSION && (ours || !(50_700..100_000).contains(&version));
    counts.then_some(at + 2 + mark + digits)
}

/// Something quoted, from its opening quote on.
fn quoted(bytes: &[u8], at: &mut usize, backslash: bool, kind: Kind) -> Kind {
    let end = quoted_end(bytes, *at, backslash);
    *at = end.unwrap_or(bytes.len());
    match end {
        Some(_) => kind,
        None => Kind::Open,
    }
}

/// The end of something quoted. A doubled quote stands for itself; so does, in texts, what follows a backslash.
fn quoted_end(bytes: &[u8], at: usize, backslash: bool) -> Option<usize> {
    let quote = bytes[at];
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if backslash => at += 2,
            byte if byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

/// A number, or a name that begins with digits.
fn number(bytes: &[u8], at: &mut usize) -> Kind {
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut end = digits(*at);
    let whole = end;
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    if end == whole && bytes.get(end).is_some_and(|byte| is_word(*byte)) {
        *at = word_end(bytes, *at);
        return Kind::Word;
    }
    *at = end;
    Kind::Number
}

fn variable(bytes: &[u8], at: &mut usize) -> Kind {
    let system = bytes.get(*at + 1) == Some(&b'@');
    *at += 1 + usize::from(system);
    loop {
        match bytes.get(*at) {
            Some(b'`' | b'\'' | b'"') if bytes[*at - 1] == b'@' || bytes[*at - 1] == b'.' => {
                *at = quoted_end(bytes, *at, false).unwrap_or(bytes.len());
            }
            Some(byte) if is_word(*byte) => *at = word_end(bytes, *at),
            Some(b'.') => *at += 1,
            _ => break,
        }
    }
    match system {
        true => Kind::SystemVariable,
        false => Kind::UserVariable,
    }
}

impl Token {
    /// The token as it is written.
    pub(crate) fn text<'a>(&self, text: &'a str) -> &'a str {
        // Tokens end where a byte of ASCII begins or ends, except at the end of a text that ends in a backslash.
        text.get(self.start..self.end.min(text.len())).unwrap_or("")
    }

    /// Whether it is this keyword, in any case.
    pub(crate) fn is(&self, text: &str, keyword: &str) -> bool {
        self.kind == Kind::Word && self.text(text).eq_ignore_ascii_case(keyword)
    }

    /// Whether it is this sign.
    pub(crate) fn is_sign(&self, text: &str, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text(text) == sign
    }

    /// A name without its backticks, a text without its quotes; other tokens as they are.
    pub(crate) fn value<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.kind {
            Kind::Quoted => {
                let written = self.text(text);
                let quote = &written[..1];
                let inner = &written[1..];
                let inner = inner.strip_suffix(quote).unwrap_or(inner);
                match inner.contains(quote) {
                    true => inner.replace(&quote.repeat(2), quote).into(),
                    false => inner.into(),
                }
            }
            Kind::Text => unescape(self.text(text)),
            _ => self.text(text).into(),
        }
    }
}

/// What a text in quotes says.
fn unescape(written: &str) -> Cow<'_, str> {
    let quote = written.chars().next().unwrap_or('\'');
    let inner = &written[1..];
    let inner = inner.strip_suffix(quote).unwrap_or(inner);
    if !inner.contains(['\\', quote]) {
        return inner.into();
    }
    let mut said = String::with_capacity(inner.len());
    let mut signs = inner.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => match signs.next() {
                Some('n') => said.push('\n'),
                Some('t') => said.push('\t'),
                Some('r') => said.push('\r'),
                Some('0') => said.push('\0'),
                Some('b') => said.push('\u{8}'),
                Some('Z') => said.push('\u{1a}'),
                // Kept for LIKE.
                Some(wildcard @ ('%' | '_')) => {
                    said.push('\\');
                    said.push(wildcard);
                }
                Some(other) => said.push(other),
                None => {}
            },
            sign if sign == quote => {
                signs.next();
                said.push(quote);
            }
            sign => said.push(sign),
        }
    }
    said.into()
}

/// Cuts a text into its statements, one by one as they are wanted; those that have nothing but comments are left out.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut tokens = Tokens::new(text, false);
    let mut start = 0;
    let mut any = false;
    std::iter::from_fn(move || {
        for token in tokens.by_ref() {
            if !token.is_sign(text, ";") {
                any = true;
                continue;
            }
            let statement = &text[start..token.start];
            start = token.end;
            if std::mem::take(&mut any) {
                return Some(statement.trim());
            }
        }
        std::mem::take(&mut any).then(|| text[start..].trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Vec<&str> {
        tokens(text, false)
            .iter()
            .map(|token| token.text(text))
            .collect()
    }

    #[test]
    fn words_texts_and_numbers() {
        assert_eq!(
            written("SELECT `a``b`.1x, 'it''s', \"q\\\"\", 1.5e3, .5, t.5 FROM x--1"),
            [
                "SELECT",
                "`a``b`",
                ".",
                "1x",
                ",",
                "'it''s'",
                ",",
                "\"q\\\"\"",
                ",",
                "1.5e3",
                ",",
                ".5",
                ",",
                "t",
                ".",
                "5",
                "FROM",
                "x",
                "-",
                "-",
                "1"
            ]
        );
        assert_eq!(
            written("@@session.sql_mode @x @`a b` :=?"),
            ["@@session.sql_mode", "@x", "@`a b`", ":=", "?"]
        );
    }

    #[test]
    fn comments_are_left_out_and_executable_ones_are_not() {
        assert_eq!(written("a /* b */ c -- d\ne # f\ng"), ["a", "c", "e", "g"]);
        assert_eq!(
            written("/*!40001 SQL_NO_CACHE */ x /*!50701 y */ /*M!100100 z */ /*!99999 n */"),
            ["SQL_NO_CACHE", "x", "z"]
        );
        assert_eq!(written("a /* never closed"), ["a"]);
        assert_eq!(written("select 1 */ 2"), ["select", "1", "*", "/", "2"]);
    }

    #[test]
    fn statements_are_cut_outside_of_quotes() {
        let cut = |text: &'static str| split(text).collect::<Vec<_>>();
        assert_eq!(
            cut("select ';'; /* only; this */ ; insert \"a;b\" ; \n"),
            ["select ';'", "insert \"a;b\""]
        );
        assert_eq!(cut("a;; b"), ["a", "b"]);
        assert!(cut(" ; -- x\n;").is_empty());
    }

    #[test]
    fn statements_are_cut_as_they_are_wanted() {
        let many = "a;".repeat(1 << 20);
        let start = std::time::Instant::now();
        for _ in 0..1000 {
            assert_eq!(split(&many).next(), Some("a"));
        }
        // Cut to its end each time, it would be a minute.
        assert!(start.elapsed().as_secs() < 5);
    }

    #[test]
    fn any_text_is_taken() {
        for text in [
            "'",
            "`",
            "\"\\",
            "/*",
            "/*!",
            "@",
            "@@",
            "x'",
            "0x",
            "'é\\",
            "\u{0}é`é",
        ] {
            for token in tokens(text, false) {
                let _ = (token.text(text), token.value(text));
            }
        }
    }

    #[test]
    fn escapes() {
        let text = r"'a\n\'\%\q''b'";
        assert_eq!(
            tokens(text, false)[0].value(text),
            "a\n'\\%qb".replace("qb", "q'b")
        );
    }
}
