//! MySQL's grammar as sqlparser knows it, put right where it does not read what MySQL reads.
//!
//! Used for every statement that brings rows. Differences from sqlparser's own: `DIV` takes one operand and not all that
//! follows it, shifts and `^` bind as in MySQL, `XOR` binds less than AND.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Statement};
use datafusion::sql::sqlparser::dialect::{Dialect, MySqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::sql::error::SqlError;

/// How deep sqlparser may go; parentheses were counted before.
const DEPTH_MAX: usize = 300;

/// The grammar.
#[derive(Debug)]
pub(crate) struct Grammar(MySqlDialect);

/// Reads one statement.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Statement, SqlError> {
    whole(text, "statement", |parser| parser.parse_statement())
}

/// Reads one expression.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse_expression(text: &str) -> Result<Expr, SqlError> {
    whole(text, "condition", |parser| parser.parse_expr())
}

/// Reads a text to its end; `what` it should be, for the error.
fn whole<T>(
    text: &str,
    what: &str,
    read: impl FnOnce(&mut Parser<'_>) -> Result<T, ParserError>,
) -> Result<T, SqlError> {
    let grammar = Grammar(MySqlDialect {});
    let wrong = |error: ParserError| SqlError::parse(error.to_string());
    let mut parser = Parser::new(&grammar)
        .with_recursion_limit(DEPTH_MAX)
        .try_with_sql(text)
        .map_err(wrong)?;
    let made = read(&mut parser).map_err(wrong)?;
    match parser.peek_token().token {
        Token::EOF => Ok(made),
        other => Err(SqlError::parse(format!(
            "the {what} should end before '{other}'"
        ))),
    }
}

macro_rules! as_mysql {
    ($($name:ident),+ $(,)?) => {
        $(fn $name(&self) -> bool {
            self.0.$name()
        })+
    };
}

impl Dialect for Grammar {
    fn dialect(&self) -> std::any::TypeId {
        std::any::TypeId::of::<MySqlDialect>()
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch != '@' && self.0.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch != '@' && self.0.is_identifier_part(ch)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        self.0.identifier_quote_style(identifier)
    }

    as_mysql!(
        supports_string_literal_backslash_escape,
        supports_string_literal_concatenation,
        ignores_wildcard_escapes,
        supports_numeric_prefix,
        supports_bitwise_shift_operators,
        require_interval_qualifier,
        supports_limit_comma,
        supports_cross_join_constraint,
        supports_data_type_signed_suffix,
        supports_binary_kw_as_cast,
        requires_single_line_comment_whitespace,
        supports_match_against,
    );

    fn supports_bang_not_operator(&self) -> bool {
        true
    }

    fn supports_group_by_with_modifier(&self) -> bool {
        true
    }

    fn allow_extract_custom(&self) -> bool {
        true
    }

    fn is_table_factor_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser<'_>) -> bool {
        self.0.is_table_factor_alias(explicit, kw, parser)
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let _ = precedence;
        if !parser.parse_keyword(Keyword::DIV) {
            return None;
        }
        let right = parser.parse_subexpr(self.prec_value(Precedence::MulDivModOp));
        Some(right.map(|right| Expr::BinaryOp {
            left: Box::new(expr.clone()),
            op: BinaryOperator::MyIntegerDivide,
            right: Box::new(right),
        }))
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match parser.peek_token_ref().token {
            Token::Caret => Some(Ok(45)),
            Token::ShiftLeft | Token::ShiftRight => Some(Ok(28)),
            Token::Word(ref word) if word.keyword == Keyword::XOR => Some(Ok(7)),
            _ => None,
        }
    }
}
