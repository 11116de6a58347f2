//! Refuses statements that would make parsing and planning slow or deep: operators, joins, nesting,
//! parts of a name.
//!
//! Each stage walks the tree recursively, so bounding the tree bounds the stack. The limits are far
//! beyond anything written by hand; the errors for generated statements say what to write instead.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::sql::dialect::lex::{is_value, is_word};
use crate::sql::error::SqlError;

/// Operators in one statement: each may add a level to the tree.
const OPERATORS_MAX: usize = 2_000;

/// Arithmetic operators in one expression: planning takes the third power of them, half a second
/// for so many.
const ARITHMETIC_MAX: usize = 100;

/// Most levels of parentheses.
const NESTING_MAX: usize = 100;

/// Selects, joins and cases in one statement.
const TABLES_MAX: usize = 120;

/// Parts of a name.
const NAME_PARTS_MAX: usize = 3;

/// Keywords that add a level of nesting.
const OPERATORS: &str = "AND OR XOR NOT DIV MOD LIKE RLIKE REGEXP IS BETWEEN COLLATE IN BINARY AT";

/// Keywords for arithmetic.
const ARITHMETIC: &str = "DIV MOD";

/// Keywords between which expressions lie.
const BETWEEN_EXPRESSIONS: &str =
    "SELECT FROM WHERE GROUP ORDER HAVING ON LIMIT UNION AS AND OR XOR WHEN THEN ELSE";

/// Words that make a plan larger.
const TABLES: &str = "SELECT JOIN UNION EXCEPT INTERSECT MINUS STRAIGHT_JOIN CASE";

/// Refuses a statement that is too complex for the later stages.
///
/// # Errors
/// [`SqlError::parse`].
pub(in crate::sql) fn check(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let (mut operators, mut tables, mut depth) = (0, 0, 0_usize);
    let mut arithmetic = Arithmetic::default();
    for (at, token) in tokens.iter().enumerate() {
        arithmetic.count(&token.token)?;
        match &token.token {
            Token::LParen => {
                depth += 1;
                if depth > NESTING_MAX {
                    return Err(SqlError::parse(format!(
                        "the statement is nested more than {NESTING_MAX} deep"
                    )));
                }
            }
            Token::RParen => depth = depth.saturating_sub(1),
            Token::SemiColon => {
                return Err(SqlError::parse(
                    "one statement at a time is answered here; there is something after the ';'",
                ));
            }
            Token::Period => {
                let points = tokens[at..].iter().step_by(2);
                let points = points.take_while(|token| token.token == Token::Period);
                if points.take(NAME_PARTS_MAX).count() == NAME_PARTS_MAX {
                    return Err(SqlError::parse(format!(
                        "a name has at most {NAME_PARTS_MAX} parts: database.table.column"
                    )));
                }
            }
            word @ Token::Word(_) => {
                operators += usize::from(is_word(word, OPERATORS));
                tables += usize::from(is_word(word, TABLES));
            }
            Token::Comma => {}
            value if is_value(value) => {}
            _ => operators += 1,
        }
    }
    if operators > OPERATORS_MAX {
        return Err(SqlError::parse(format!(
            "the statement has {operators} operators, at most {OPERATORS_MAX} are accepted; for many values use IN (...)"
        )));
    }
    if tables > TABLES_MAX {
        return Err(SqlError::parse(format!(
            "the statement has {tables} selects, joins and cases, at most {TABLES_MAX} are accepted"
        )));
    }
    Ok(())
}

/// Counts arithmetic operators along an expression, those inside parentheses and CASEs included.
#[derive(Default)]
struct Arithmetic {
    /// In the expression being read.
    current: usize,
    /// In the longest one before it at the same level.
    longest: usize,
    /// The same of the levels outside.
    outside: Vec<(usize, usize)>,
}

impl Arithmetic {
    fn count(&mut self, token: &Token) -> Result<(), SqlError> {
        use Token::{Ampersand, Caret, Div, Minus, Mod, Mul, Pipe, Plus, ShiftLeft, ShiftRight};
        match token {
            Token::LParen => self.begin(),
            Token::RParen => self.end(),
            word if is_word(word, "CASE") => self.begin(),
            word if is_word(word, "END") => self.end(),
            Token::Comma => self.next(),
            word if is_word(word, BETWEEN_EXPRESSIONS) => self.next(),
            Plus | Minus | Mul | Div | Mod | Ampersand | Pipe | Caret | ShiftLeft | ShiftRight => {
                self.current += 1;
            }
            word => self.current += usize::from(is_word(word, ARITHMETIC)),
        }
        match self.current {
            ..=ARITHMETIC_MAX => Ok(()),
            _ => Err(SqlError::parse(format!(
                "an expression has more than {ARITHMETIC_MAX} arithmetic operators"
            ))),
        }
    }

    fn begin(&mut self) {
        self.outside.push((self.current, self.longest));
        (self.current, self.longest) = (0, 0);
    }

    fn next(&mut self) {
        self.longest = self.longest.max(self.current);
        self.current = 0;
    }

    fn end(&mut self) {
        // Without a beginning, as of a column called `end`, the expression goes on.
        if let Some((current, longest)) = self.outside.pop() {
            let inside = self.current.max(self.longest);
            (self.current, self.longest) = (current + inside, longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::dialect::lex::{Mode, tokens};

    #[test]
    fn arithmetic_is_counted_along_an_expression() {
        let accepts = |text: &str| check(&tokens(text, Mode::default()).unwrap()).is_ok();
        let sum = |often: usize| vec!["1"; often + 1].join("+");
        let (half, whole) = (sum(50), sum(100));
        for (text, is_accepted) in [
            (format!("SELECT {whole}"), true),
            (format!("SELECT {whole} - 1"), false),
            (format!("SELECT {whole} DIV 1"), false),
            (format!("SELECT {whole}, {whole} AS x FROM t WHERE {whole} = 1 OR {whole} = 2"), true),
            (format!("SELECT ({half}) + ABS({half})"), false),
            (format!("SELECT IF({half}, 1, 2) + {half}"), false),
            (format!("SELECT IF({half}, {half}, {half})"), true),
            (format!("SELECT CASE WHEN a THEN {half} ELSE 1 END * ({half})"), false),
            (format!("SELECT CASE WHEN a THEN {whole} ELSE {whole} END"), true),
            (format!("SELECT {half} + end + {half} FROM (SELECT 1 AS end) t"), false),
        ] {
            assert_eq!(accepts(&text), is_accepted, "{text}");
        }
    }
}
