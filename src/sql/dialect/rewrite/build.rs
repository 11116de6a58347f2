//! Builders of trees: calls, literals, operators.
//!
//! Names are put in backticks, so that none is mistaken for a keyword.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, ObjectName, ObjectNamePart, UnaryOperator, Value, ValueWithSpan,
};

use super::ident;
use crate::sql::functions::{BITS, CASE};

/// Functions of numbers: a hexadecimal literal is one there.
const NUMERIC: &str = "__div __div_int __mod mod __neg __number __summand abs sign round truncate floor ceil ceiling \
    __bitand __bitor __bitxor __shl __shr __bitnot bit_count __truth __signed __unsigned __decimal __real \
    __date_add __date_sub";

fn bits_as_number(expr: &mut Expr) {
    if let Expr::Function(Function { name, args: FunctionArguments::List(both), .. }) = expr
        && matches!(&*name.0, [ObjectNamePart::Identifier(name)] if name.value == BITS)
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(number))) = both.args.pop()
    {
        *expr = number;
    }
}

/// A call of a function by name.
pub(super) fn call(name: &str, mut arguments: Vec<Expr>) -> Expr {
    if NUMERIC.split(' ').any(|it| it == name) {
        arguments.iter_mut().for_each(bits_as_number);
    }
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

/// All of these conditions as one; `None` of none.
pub(super) fn all(conditions: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    conditions.into_iter().reduce(|all, one| binary(all, BinaryOperator::And, one))
}

/// A CASE of these conditions, each before its result, and perhaps the result otherwise: a function
/// until `analysis` makes it one, since DataFusion takes the type of a CASE from its first result.
pub(super) fn case(parts: Vec<Expr>) -> Expr {
    call(CASE, parts)
}

/// Whether an expression is a CASE.
pub(super) fn is_case(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if name_of(function).is_some_and(|name| name == CASE))
}
