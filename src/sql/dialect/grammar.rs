//! sqlparser's MySQL dialect, corrected where it deviates from MySQL.
//!
//! `DIV` and `BINARY` take one operand instead of everything that follows, `MOD` is an operator,
//! `-x`, `~x`, `!x`, shifts and `^` bind as in MySQL, `XOR` binds less tightly than AND, `LIKE`,
//! `IN` and `BETWEEN` more tightly than `=` and `<`; quotes follow the session's `sql_mode`.

use datafusion::sql::sqlparser::ast::{BinaryOperator, CastKind, DataType, Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, MySqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::lex::{Mode, is_word};

/// Recursion limit of sqlparser; parentheses were counted before.
const DEPTH_MAX: usize = 300;

const MYSQL: MySqlDialect = MySqlDialect {};

/// The grammar.
#[derive(Debug)]
pub(crate) struct Grammar(pub(crate) Mode);

/// The parser of a statement's tokens.
pub(crate) fn parser(tokens: Vec<TokenWithSpan>) -> Parser<'static> {
    const GRAMMAR: Grammar =
        Grammar(Mode { ansi_quotes: false, pipes_as_concat: false, no_backslash_escapes: false });
    Parser::new(&GRAMMAR).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens)
}

macro_rules! enabled {
    ($($name:ident),+ $(,)?) => {
        $(fn $name(&self) -> bool {
            true
        })+
    };
}

impl Dialect for Grammar {
    fn dialect(&self) -> std::any::TypeId {
        std::any::TypeId::of::<MySqlDialect>()
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        MYSQL.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        MYSQL.is_identifier_part(ch)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`' || (ch == '"' && self.0.ansi_quotes)
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        !self.0.no_backslash_escapes
    }

    // As sqlparser has it for MySQL.
    enabled!(
        supports_string_literal_concatenation,
        ignores_wildcard_escapes,
        supports_numeric_prefix,
        supports_bitwise_shift_operators,
        require_interval_qualifier,
        supports_limit_comma,
        supports_cross_join_constraint,
        supports_data_type_signed_suffix,
        supports_binary_kw_as_cast,
        supports_match_against,
        supports_table_hints,
        requires_single_line_comment_whitespace,
    );

    // As MySQL has it.
    enabled!(
        supports_bang_not_operator,
        supports_group_by_with_modifier,
        allow_extract_custom,
        supports_parens_around_table_factor,
    );

    fn is_table_factor_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser<'_>) -> bool {
        MYSQL.is_table_factor_alias(explicit, kw, parser)
    }

    /// `a = b LIKE c` is `a = (b LIKE c)`, and `a LIKE b = c` is `(a LIKE b) = c`.
    fn prec_value(&self, prec: Precedence) -> u8 {
        match prec {
            Precedence::Like => MYSQL.prec_value(Precedence::Between),
            // Above IS.
            Precedence::Eq => 18,
            other => MYSQL.prec_value(other),
        }
    }

    /// `-x`, `~x`, `!x` and `BINARY x` bind more tightly than any operator between two operands.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let op = match &parser.peek_token_ref().token {
            Token::Minus => Some(UnaryOperator::Minus),
            Token::Tilde => Some(UnaryOperator::BitwiseNot),
            Token::ExclamationMark => Some(UnaryOperator::BangNot),
            token if is_word(token, "BINARY") => None,
            _ => return None,
        };
        parser.advance_token();
        let operand = parser.parse_subexpr(self.prec_value(Precedence::DoubleColon)).map(Box::new);
        Some(operand.map(|expr| match op {
            Some(op) => Expr::UnaryOp { op, expr },
            None => Expr::Cast {
                kind: CastKind::Cast,
                expr,
                data_type: DataType::Binary(None),
                array: false,
                format: None,
            },
        }))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        expr: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let negated = is_word(&parser.peek_token_ref().token, "NOT");
        if is_word(&parser.peek_nth_token_ref(usize::from(negated)).token, "BETWEEN") {
            return Some(self.between(parser, expr, negated));
        }
        let op = match &parser.peek_token_ref().token {
            token if is_word(token, "DIV") => BinaryOperator::MyIntegerDivide,
            token if is_word(token, "MOD") => BinaryOperator::Modulo,
            _ => return None,
        };
        parser.advance_token();
        let right = parser.parse_subexpr(self.prec_value(Precedence::MulDivModOp));
        Some(right.map(|right| Expr::BinaryOp {
            left: Box::new(expr.clone()),
            op,
            right: Box::new(right),
        }))
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::Caret => Some(Ok(45)),
            Token::ShiftLeft | Token::ShiftRight => Some(Ok(28)),
            token if is_word(token, "XOR") => Some(Ok(7)),
            token if is_word(token, "MOD") => Some(Ok(self.prec_value(Precedence::MulDivModOp))),
            _ => None,
        }
    }
}

impl Grammar {
    /// `a BETWEEN b AND c`, of which `c` may be another one.
    fn between(
        &self,
        parser: &mut Parser<'_>,
        expr: &Expr,
        negated: bool,
    ) -> Result<Expr, ParserError> {
        (0..=u8::from(negated)).for_each(|_| parser.advance_token());
        let precedence = self.prec_value(Precedence::Between);
        let low = parser.parse_subexpr(precedence)?;
        parser.expect_keyword(Keyword::AND)?;
        let high = parser.parse_subexpr(precedence - 1)?;
        let [expr, low, high] = [expr.clone(), low, high].map(Box::new);
        Ok(Expr::Between { expr, negated, low, high })
    }
}
