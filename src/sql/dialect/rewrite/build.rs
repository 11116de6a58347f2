//! Builders of trees: calls, literals, operators.
//!
//! Names are put in backticks, so that none is mistaken for a keyword.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, ObjectName, ObjectNamePart, UnaryOperator, Value, ValueWithSpan,
};

use super::ident;

/// A call of a function by name.
pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![ident(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.into_iter().map(argument).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// An expression as an argument.
pub(super) fn argument(expr: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
}

fn value(value: Value) -> Expr {
    Expr::Value(ValueWithSpan::from(value))
}

/// A string literal.
pub(super) fn text(text: impl Into<String>) -> Expr {
    value(Value::SingleQuotedString(text.into()))
}

/// A number literal.
pub(super) fn number(number: impl ToString) -> Expr {
    value(Value::Number(number.to_string(), false))
}

/// NULL.
pub(super) fn null() -> Expr {
    value(Value::Null)
}

/// A function's name in lower case, if it is one word.
pub(super) fn name_of(function: &Function) -> Option<String> {
    match function.name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(name.value.to_lowercase()),
        _ => None,
    }
}

/// Takes an expression out of its place, to be put into another.
pub(super) fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, null())
}

/// Negates an expression, in parentheses.
pub(super) fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(expr))) }
}

/// A binary operation.
pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// `CASE WHEN condition THEN then ELSE otherwise END`.
pub(super) fn case(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: then }],
        else_result: Some(Box::new(otherwise)),
    }
}
