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

/// Operators in one expression, AND and OR apart: planning takes the third power of them, half a
/// second for so many.
const CHAINED_MAX: usize = 100;

/// Most levels of parentheses.
const NESTING_MAX: usize = 100;

/// Selects, joins and cases in one statement.
const TABLES_MAX: usize = 120;

/// Cost of planning the selects of a statement, where one inside `n` others costs [`SELECT_GROWTH`]
/// to the power of `n`: eight in each other, or 120 four deep, are planned in a second.
/// Each of DataFusion's passes over a plan walks what is below a sub-query again for itself.
const SELECT_COST_MAX: usize = 10_000;

/// How many times longer a select takes that is one level deeper.
const SELECT_GROWTH: usize = 3;

/// Parts of a name.
const NAME_PARTS_MAX: usize = 3;

/// Keywords that add a level of nesting, those that only other dialects of the parser have
/// included.
const OPERATORS: &str = "AND OR XOR NOT DIV MOD LIKE ILIKE RLIKE REGEXP SIMILAR MATCH MEMBER OVERLAPS \
    OPERATOR IS BETWEEN COLLATE IN BINARY AT NOTNULL";

/// Keywords between which expressions lie.
const BETWEEN_EXPRESSIONS: &str =
    "SELECT FROM WHERE GROUP ORDER HAVING ON LIMIT UNION AS AND OR WHEN THEN ELSE";

/// Words that make parentheses a level of selects.
const SELECTS: &str = "WITH SELECT VALUES";

/// Words that make a plan larger.
const TABLES: &str = "SELECT JOIN UNION EXCEPT INTERSECT MINUS STRAIGHT_JOIN CASE";

/// Refuses a statement that is too complex for the later stages.
///
/// # Errors
/// [`SqlError::parse`].
pub(in crate::sql) fn check(tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let (mut operators, mut tables, mut select_cost) = (0, 0, 0_usize);
    // Whether a level of parentheses has a select of its own; the first is outside of all.
    let mut levels = vec![false];
    let mut chained = Chained::default();
    for (at, token) in tokens.iter().enumerate() {
        let is_operator = is_operator(&token.token);
        operators += usize::from(is_operator);
        chained.count(&token.token, is_operator)?;
        match &token.token {
            Token::LParen => {
                levels.push(false);
                if levels.len() > NESTING_MAX + 1 {
                    return Err(SqlError::parse(format!(
                        "the statement is nested more than {NESTING_MAX} deep"
                    )));
                }
            }
            Token::RParen => _ = levels.pop(),
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
            word => {
                tables += usize::from(is_word(word, TABLES));
                if let (true, Some((own, around))) =
                    (is_word(word, SELECTS), levels.split_last_mut())
                {
                    let around = around.iter().filter(|has_select| **has_select);
                    let cost = around.fold(1_usize, |cost, _| cost.saturating_mul(SELECT_GROWTH));
                    select_cost = cost.saturating_add(select_cost);
                    *own = true;
                }
            }
        }
    }
    if operators > OPERATORS_MAX {
        return Err(SqlError::parse(format!(
            "the statement has {operators} operators, at most {OPERATORS_MAX} are accepted; for many values use IN (...)"
        )));
    }
    if select_cost > SELECT_COST_MAX {
        return Err(SqlError::parse(
            "the selects of the statement lie too deep in each other: at most 8 are accepted, fewer where a level has several",
        ));
    }
    if tables > TABLES_MAX {
        return Err(SqlError::parse(format!(
            "the statement has {tables} selects, joins and cases, at most {TABLES_MAX} are accepted"
        )));
    }
    Ok(())
}

/// Whether a token may add a level to the tree: a sign, or one of [`OPERATORS`].
fn is_operator(token: &Token) -> bool {
    use Token::{Comma, LParen, Period, RParen, SemiColon, Word};
    match token {
        LParen | RParen | Comma | Period | SemiColon => false,
        Word(_) => is_word(token, OPERATORS),
        other => !is_value(other),
    }
}

/// Counts operators along an expression, those inside parentheses and CASEs included.
#[derive(Default)]
struct Chained {
    level: Level,
    outside: Vec<Level>,
}

/// A level of parentheses.
#[derive(Default)]
struct Level {
    /// Operators in the expression being read.
    current: usize,
    /// In the longest one before it.
    longest: usize,
    /// BETWEENs whose AND is to come.
    ranges: usize,
}

impl Chained {
    fn count(&mut self, token: &Token, is_operator: bool) -> Result<(), SqlError> {
        let level = &mut self.level;
        match token {
            Token::LParen => self.begin(),
            Token::RParen => self.end(),
            word if is_word(word, "CASE") => self.begin(),
            word if is_word(word, "END") => self.end(),
            word if is_word(word, "AND") && level.ranges > 0 => level.ranges -= 1,
            word if *word == Token::Comma || is_word(word, BETWEEN_EXPRESSIONS) => {
                level.longest = level.longest.max(level.current);
                level.current = 0;
            }
            word => {
                level.current += usize::from(is_operator);
                level.ranges += usize::from(is_word(word, "BETWEEN"));
            }
        }
        match self.level.current {
            ..=CHAINED_MAX => Ok(()),
            _ => Err(SqlError::parse(format!(
                "an expression has more than {CHAINED_MAX} operators; AND and OR begin another"
            ))),
        }
    }

    fn begin(&mut self) {
        self.outside.push(std::mem::take(&mut self.level));
    }

    fn end(&mut self) {
        // Without a beginning, as of a column called `end`, the expression goes on.
        if let Some(outside) = self.outside.pop() {
            let inside = self.level.current.max(self.level.longest);
            self.level = Level { current: outside.current + inside, ..outside };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::dialect::lex::{Mode, tokens};

    #[test]
    fn operators_are_counted_along_an_expression() {
        let accepts = |text: &str| check(&tokens(text, Mode::default()).unwrap()).is_ok();
        let sum = |often: usize| vec!["1"; often + 1].join("+");
        let (half, whole) = (sum(50), sum(100));
        for (text, is_accepted) in [
            (format!("SELECT {whole}"), true),
            (format!("SELECT {whole} - 1"), false),
            (format!("SELECT {whole} DIV 1"), false),
            (format!("SELECT {whole}, {whole} AS x FROM t WHERE {half} = 1 OR {half} = 2"), true),
            (format!("SELECT ({half}) + ABS({half})"), false),
            (format!("SELECT IF({half}, 1, 2) + {half}"), false),
            (format!("SELECT IF({half}, {half}, {half})"), true),
            (format!("SELECT CASE WHEN a THEN {half} ELSE 1 END * ({half})"), false),
            (format!("SELECT CASE WHEN a THEN {whole} ELSE {whole} END"), true),
            (format!("SELECT {}", vec!["a LIKE b"; 100].join(" LIKE ")), false),
            (format!("SELECT 1{}", " BETWEEN (1 AND 1) AND 1".repeat(101)), false),
            (format!("SELECT {}", vec!["a BETWEEN b AND c = d"; 60].join(" AND ")), true),
            (format!("SELECT {}", vec!["a = b"; 1000].join(" AND ")), true),
            (format!("SELECT a IN ({})", vec!["a = b"; 1000].join(", ")), true),
            (format!("SELECT {half} + end + {half} FROM (SELECT 1 AS end) t"), false),
        ] {
            assert_eq!(accepts(&text), is_accepted, "{text}");
        }
    }

    #[test]
    fn selects_in_each_other_are_few() {
        let accepts = |text: &str| check(&tokens(text, Mode::default()).unwrap()).is_ok();
        let nested = |before: &str, often: usize, after: &str| {
            format!("SELECT {}1{}", before.repeat(often), after.repeat(often))
        };
        let side_by_side = |often: usize| vec!["(SELECT 1)"; often].join(" + ");
        for (before, after) in [
            ("(SELECT ", ")"),
            ("1 IN ((SELECT ", "))"),
            ("EXISTS (VALUES (", "))"),
            ("1 FROM (WITH x AS (SELECT 2) SELECT ", ")"),
        ] {
            assert!(accepts(&nested(before, 6, after)), "{before}");
            assert!(!accepts(&nested(before, 9, after)), "{before}");
        }
        let with = |often: usize| {
            let (before, after) = ("WITH x AS (".repeat(often), ") SELECT 1".repeat(often));
            format!("{before}SELECT 1{after}")
        };
        for (text, is_accepted) in [
            (nested("(SELECT ", 8, ")"), true),
            (with(6), true),
            (with(9), false),
            (nested("(SELECT ", 3, &format!(" + {})", side_by_side(30))), true),
            (nested("(SELECT ", 7, &format!(" + {})", side_by_side(10))), false),
            (format!("SELECT {}", side_by_side(99)), true),
            (nested("(", 99, ")"), true),
            (nested("(", 101, ")"), false),
        ] {
            assert_eq!(accepts(&text), is_accepted, "{text}");
        }
    }
}
