//! What can make the stages after this one slow or deep is refused here: operators, joins, nesting, parts of a name.
//!
//! Each stage walks the tree by recursion, so what bounds the tree bounds the stack. The limits are far beyond what anybody
//! writes by hand; a statement that a program made too long is told what to write instead.

use crate::sql::dialect::lex::{Kind, Token};
use crate::sql::error::SqlError;

/// Operators in one statement: each may make the tree one deeper.
const OPERATORS_MAX: usize = 2_000;

/// How deep parentheses may be nested.
const NESTING_MAX: usize = 100;

/// Tables, joins, unions and sub-queries in one statement.
const TABLES_MAX: usize = 120;

/// Parts of a name.
const NAME_PARTS_MAX: usize = 3;

/// Words that make a tree deeper.
const OPERATORS: [&str; 15] = [
    "AND", "OR", "XOR", "NOT", "DIV", "MOD", "LIKE", "RLIKE", "REGEXP", "IS", "BETWEEN", "COLLATE",
    "IN", "BINARY", "AT",
];

/// Refuses what would make later stages deep or slow.
pub(super) fn check(text: &str, tokens: &[Token]) -> Result<(), SqlError> {
    let mut operators = 0;
    let mut tables = 0;
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        let points = (0..).take_while(|ahead| {
            tokens
                .get(at + ahead * 2)
                .is_some_and(|token| token.is_sign(text, "."))
        });
        if points.take(NAME_PARTS_MAX).count() == NAME_PARTS_MAX {
            return Err(SqlError::parse(format!(
                "a name has at most {NAME_PARTS_MAX} parts: database.table.column"
            )));
        }
        match token.kind {
            Kind::Open => {
                let start: String = text[token.start..].chars().take(40).collect();
                return Err(SqlError::parse(format!(
                    "the quote that begins here is not closed: {start}"
                )));
            }
            Kind::Sign => match token.text(text) {
                "(" => {
                    depth += 1;
                    if depth > NESTING_MAX {
                        return Err(SqlError::parse(format!(
                            "the statement is nested more than {NESTING_MAX} deep"
                        )));
                    }
                }
                ")" => depth = depth.saturating_sub(1),
                ";" => {
                    return Err(SqlError::parse(
                        "one statement at a time is answered here; there is something after the ';'",
                    ));
                }
                "," | "." => {}
                _ => operators += 1,
            },
            Kind::Word => {
                let word = token.text(text);
                let is_one_of =
                    |words: &[&str]| words.iter().any(|one| one.eq_ignore_ascii_case(word));
                operators += usize::from(is_one_of(&OPERATORS));
                tables += usize::from(is_one_of(&[
                    "SELECT",
                    "JOIN",
                    "UNION",
                    "EXCEPT",
                    "INTERSECT",
                    "MINUS",
                    "STRAIGHT_JOIN",
                    "CASE",
                ]));
            }
            _ => {}
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
