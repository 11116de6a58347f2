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

/// Most levels of parentheses.
const NESTING_MAX: usize = 100;

/// Selects, joins and cases in one statement.
const TABLES_MAX: usize = 120;

/// Parts of a name.
const NAME_PARTS_MAX: usize = 3;

/// Keywords that add a level of nesting.
const OPERATORS: &str = "AND OR XOR NOT DIV MOD LIKE RLIKE REGEXP IS BETWEEN COLLATE IN BINARY AT";

/// Words that make a plan larger.
const TABLES: &str = "SELECT JOIN UNION EXCEPT INTERSECT MINUS STRAIGHT_JOIN CASE";

/// Refuses a statement that is too complex for the later stages.
///
/// # Errors
/// [`SqlError::parse`].
pub(in crate::sql) fn check(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let (mut operators, mut tables, mut depth) = (0, 0, 0_usize);
    for (at, token) in tokens.iter().enumerate() {
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
