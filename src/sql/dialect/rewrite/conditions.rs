//! Conditions and values: MySQL takes each for the other, DataFusion does not.
//!
//! Types are not known yet, so an expression is a condition by its form. In WHERE any other goes through `__truth`; a condition
//! that is shown, or is a branch of CASE, becomes 1 or 0 through `__int`.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use super::build::{call, name_of, take};

/// Whether an expression is true or false by its form.
fn is_condition(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_condition(inner),
        Expr::BinaryOp { op, .. } => matches!(
            op,
            BinaryOperator::Gt
                | BinaryOperator::Lt
                | BinaryOperator::GtEq
                | BinaryOperator::LtEq
                | BinaryOperator::Spaceship
                | BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::And
                | BinaryOperator::Or
                | BinaryOperator::Xor
                | BinaryOperator::Regexp
        ),
        Expr::UnaryOp { op, .. } => matches!(op, UnaryOperator::Not | UnaryOperator::BangNot),
        Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::Between { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::RLike { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. }
        | Expr::Exists { .. } => true,
        Expr::Function(function) => matches!(
            name_of(function).as_deref(),
            Some("__truth" | "__xor" | "__regexp")
        ),
        _ => false,
    }
}

/// Makes true or false of whatever stands where a condition is wanted.
pub(super) fn as_condition(expr: &mut Expr) {
    if !is_condition(expr) {
        *expr = call("__truth", vec![take(expr)]);
    }
}

/// A truth beside other values is 1 or 0.
pub(super) fn as_value(expr: &mut Expr) {
    if is_condition(expr) {
        *expr = call("__int", vec![take(expr)]);
    }
}
