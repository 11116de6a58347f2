//! Splits a statement into sqlparser's tokens, and a text into statements.
//!
//! Comments are blanked first, as in MariaDB: the content of `/*! ... */` and `/*M! ... */` counts,
//! unless it is meant for a later version. The rest goes to sqlparser's tokenizer. The span of a
//! token holds its first and last byte in the text, counted from 1, as columns of line 1. Linear in
//! the text; an unclosed quote is an error.

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use super::grammar::Grammar;
use crate::sql::error::SqlError;
use crate::sql::session::Session;

/// How quotes and bars are read, according to `sql_mode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    /// `"x"` is a name.
    pub(crate) ansi_quotes: bool,
    /// `a || b` joins texts.
    pub(crate) pipes_as_concat: bool,
    /// A backslash in a text is an ordinary character.
    pub(crate) no_backslash_escapes: bool,
}

impl Mode {
    /// `ANSI`.
    #[cfg(any(test, fuzzing))]
    pub(crate) const ANSI: Self =
        Self { ansi_quotes: true, pipes_as_concat: true, no_backslash_escapes: false };

    /// The mode of a session.
    pub(crate) fn of(session: &Session) -> Self {
        let has = |word| session.has_mode(word);
        Self {
            ansi_quotes: has("ANSI_QUOTES") || has("ANSI"),
            pipes_as_concat: has("PIPES_AS_CONCAT") || has("ANSI"),
            no_backslash_escapes: has("NO_BACKSLASH_ESCAPES"),
        }
    }
}

/// The version that `/*!NNNNNN` comments are compared with.
const VERSION: u32 = 101_114;

/// A piece of a text.
enum Piece {
    /// Any other byte.
    Code,
    Quoted,
    /// A comment, or a delimiter of one whose content counts.
    Comment,
    Semicolon,
}

/// Splits a text at quoted texts and comments.
fn pieces(text: &str, mode: Mode) -> impl Iterator<Item = (Piece, Range<usize>)> {
    let bytes = text.as_bytes();
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control();
    // Start of the next piece, and the number of open comments whose content counts.
    let (mut start, mut open) = (0, 0_usize);
    std::iter::from_fn(move || {
        let at = start;
        let quoted = |backslash| (Piece::Quoted, quoted_end(bytes, at, backslash));
        let (piece, end) = match bytes.get(at..)? {
            [] => return None,
            [b'`', ..] => quoted(false),
            [b'"', ..] if mode.ansi_quotes => quoted(false),
            [b'\'' | b'"', ..] => quoted(!mode.no_backslash_escapes),
            [b'#', ..] => (Piece::Comment, find(text, at, "\n")),
            [b'-', b'-', rest @ ..] if rest.first().is_none_or(is_blank) => {
                (Piece::Comment, find(text, at, "\n"))
            }
            [b'/', b'*', ..] => {
                let content = counted_comment(bytes, at);
                open += usize::from(content.is_some());
                let end = content.unwrap_or_else(|| find(text, at + 2, "*/") + 2);
                (Piece::Comment, end.min(text.len()))
            }
            [b'*', b'/', ..] if open > 0 => {
                open -= 1;
                (Piece::Comment, at + 2)
            }
            [b';', ..] => (Piece::Semicolon, at + 1),
            _ => (Piece::Code, at + 1),
        };
        start = end;
        Some((piece, at..end))
    })
}

/// The position of the next mark, or of the end of the text.
fn find(text: &str, from: usize, mark: &str) -> usize {
    let length = text[from..].find(mark);
    length.map_or(text.len(), |length| from + length)
}

/// The start of the content of a `/*!` or `/*M!` comment, if it is to be executed.
fn counted_comment(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at + 2..];
    let (mark, ours) = match rest {
        [b'M', b'!', ..] => (2, true),
        [b'!', ..] => (1, false),
        _ => return None,
    };
    let digits = rest[mark..].iter().take(6);
    let digits: Vec<u8> = digits.copied().take_while(u8::is_ascii_digit).collect();
    if digits.len() < 5 {
        return Some(at + 2 + mark);
    }
    let number = |number, digit: &u8| number * 10 + u32::from(digit - b'0');
    let version = digits.iter().fold(0, number);
    // MariaDB skips comments meant for MySQL 5.7 and later.
    let counts = version <= VERSION && (ours || !(50_700..100_000).contains(&version));
    counts.then_some(at + 2 + mark + digits.len())
}

/// The end of a quoted text. A doubled quote is an ordinary character; so is, in texts, any
/// character after a backslash.
fn quoted_end(bytes: &[u8], at: usize, backslash: bool) -> usize {
    let quote = bytes[at];
    let mut at = at + 1;
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'\\' if backslash => 2,
            byte if byte != quote => 1,
            _ if bytes.get(at + 1) == Some(&quote) => 2,
            _ => return at + 1,
        };
    }
    bytes.len()
}

/// Takes the first statement off a text, as the session reads it now; statements with nothing but
/// comments are left out.
pub fn take_statement<'a>(text: &mut &'a str, session: &Session) -> Option<&'a str> {
    let (whole, mut start, mut any) = (*text, 0, false);
    for (piece, at) in pieces(whole, Mode::of(session)) {
        match piece {
            Piece::Code => any |= !whole.as_bytes()[at.start].is_ascii_whitespace(),
            Piece::Quoted => any = true,
            Piece::Comment => {}
            Piece::Semicolon if any => {
                *text = &whole[at.end..];
                return Some(whole[start..at.start].trim());
            }
            Piece::Semicolon => start = at.end,
        }
    }
    *text = "";
    any.then(|| whole[start..].trim())
}

/// Replaces comments and control characters by blanks, so that every token keeps its position.
fn without_comments(text: &str, mode: Mode) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for (piece, at) in pieces(text, mode) {
        let blank = match piece {
            Piece::Comment => true,
            Piece::Code => text.as_bytes()[at.start].is_ascii_control(),
            Piece::Quoted | Piece::Semicolon => false,
        };
        if blank {
            bytes[at].fill(b' ');
        }
    }
    // Comments begin and end at character boundaries.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Splits a statement into tokens, without blanks and the semicolons at its end.
///
/// # Errors
/// Fails on an unclosed quote.
pub(crate) fn tokens(text: &str, mode: Mode) -> Result<Vec<TokenWithSpan>, SqlError> {
    let code = without_comments(text, mode);
    let mut tokens = Tokenizer::new(&Grammar(mode), &code)
        .tokenize_with_location()
        .map_err(|error| SqlError::parse(error.to_string()))?;
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    while tokens.last().is_some_and(|last| last.token == Token::SemiColon) {
        tokens.pop();
    }
    let mut letters = code.chars();
    let (mut here, mut bytes) = (Location::new(1, 1), 0);
    let mut bytes_to = |location: Location| {
        while here < location {
            let Some(letter) = letters.next() else { break };
            bytes += letter.len_utf8() as u64;
            here = match letter {
                '\n' => Location::new(here.line + 1, 1),
                _ => Location::new(here.line, here.column + 1),
            };
        }
        Location::new(1, bytes + 1)
    };
    let mut split = Vec::with_capacity(tokens.len());
    for TokenWithSpan { token, span } in tokens {
        let (start, end) = (bytes_to(span.start), bytes_to(span.end));
        // Operators of other databases: each sign is a token of its own.
        let signs = match token {
            Token::ArrowAt => vec![Token::Lt, Token::AtSign],
            Token::CaretAt => vec![Token::Caret, Token::AtSign],
            Token::DoubleTilde => vec![Token::Tilde; 2],
            Token::DoubleExclamationMark => vec![Token::ExclamationMark; 2],
            Token::ExclamationMarkTilde => vec![Token::ExclamationMark, Token::Tilde],
            Token::ExclamationMarkDoubleTilde => {
                vec![Token::ExclamationMark, Token::Tilde, Token::Tilde]
            }
            other => {
                split.push(TokenWithSpan::at(other, start, end));
                continue;
            }
        };
        for (sign, at) in signs.into_iter().zip(start.column..) {
            split.push(TokenWithSpan::at(sign, Location::new(1, at), Location::new(1, at + 1)));
        }
    }
    Ok(split)
}

/// The range of a token in the text.
pub(crate) fn range_of(token: &TokenWithSpan) -> Range<usize> {
    let bytes = |location: Location| (location.column as usize).saturating_sub(1);
    bytes(token.span.start)..bytes(token.span.end)
}

/// Whether a token is one of these words, unquoted, in any case.
pub(crate) fn is_word(token: &Token, words: &str) -> bool {
    let Token::Word(it) = token else { return false };
    let mut words = words.split(' ');
    it.quote_style.is_none() && words.any(|word| it.value.eq_ignore_ascii_case(word))
}

/// Whether a token is a number, a text or a `?`.
pub(crate) fn is_value(token: &Token) -> bool {
    matches!(
        token,
        Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::HexStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::Placeholder(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Vec<&str> {
        let tokens = tokens(text, Mode::default()).expect(text);
        tokens.iter().map(|token| &text[range_of(token)]).collect()
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
            ["@@session", ".", "sql_mode", "@x", "@", "`a b`", ":=", "?"]
        );
        assert_eq!(written("é<@x !!~~1"), ["é", "<", "@", "x", "!", "!", "~", "~", "1"]);
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
        let mut session = Session::new(1, "me@here", false);
        let cut = |mut text: &'static str, session: &Session| {
            std::iter::from_fn(|| take_statement(&mut text, session)).collect::<Vec<_>>()
        };
        assert_eq!(
            cut("select ';'; /* only; this */ ; insert \"a;b\" ; \n", &session),
            ["select ';'", "insert \"a;b\""]
        );
        assert_eq!(cut("a;; b", &session), ["a", "b"]);
        assert!(cut(" ; -- x\n;", &session).is_empty());
        session.set("sql_mode", Some("NO_BACKSLASH_ESCAPES".to_owned())).unwrap();
        assert_eq!(cut("select 'a\\'; 'b;c'", &session), ["select 'a\\'", "'b;c'"]);
    }

    #[test]
    fn statements_are_cut_as_they_are_wanted() {
        let many = "a;".repeat(1 << 20);
        let start = std::time::Instant::now();
        let session = Session::new(1, "me@here", false);
        for _ in 0..1000 {
            assert_eq!(take_statement(&mut many.as_str(), &session), Some("a"));
        }
        // Tokenizing to the end for each statement would take a minute.
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
            "'a\nb' /* é */ é 1",
        ] {
            for mode in [Mode::default(), Mode::ANSI] {
                for token in tokens(text, mode).unwrap_or_default() {
                    let _ = &text[range_of(&token)];
                }
            }
            let mut text = text;
            while take_statement(&mut text, &Session::new(1, "me@here", false)).is_some() {}
        }
    }

    #[test]
    fn escapes() {
        let said = |text: &str, mode: &str| {
            let mut session = Session::new(1, "me@here", false);
            session.set("sql_mode", Some(mode.to_owned())).expect("a mode");
            tokens(text, Mode::of(&session)).expect(text)[0].token.clone()
        };
        let text = r"'a\n\'\%\q''b'";
        assert_eq!(said(text, ""), Token::SingleQuotedString("a\n'\\%q'b".into()));
        let text = r"'a\n'";
        assert_eq!(said(text, "NO_BACKSLASH_ESCAPES"), Token::SingleQuotedString(r"a\n".into()));
        assert_eq!(said("\"a\"", ""), Token::DoubleQuotedString("a".into()));
        assert_eq!(said("\"a\"", "ANSI"), Token::make_word("a", Some('"')));
    }
}
