//! Quotients inside expressions: MySQL calculates on with more digits than it shows.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable as _, Operator, lit};

use crate::sql::functions::{self, INNER_SCALE_MAX};

/// Rounds a decimal to the digits that MySQL shows.
const SHOWN: &str = "__shown";

/// Whether it is a decimal that was rounded to the digits that MySQL shows, but does not calculate
/// with.
pub(super) fn is_rounded(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::ScalarFunction(call) = expr else { return false };
    match call.name() {
        "__neg" => is_rounded(&call.args[0], schema),
        "__div" | SHOWN => {
            matches!(expr.get_type(schema), Ok(DataType::Decimal128(_, ..=INNER_SCALE_MAX)))
        }
        _ => false,
    }
}

/// What was rounded; anything else as it is.
pub(super) fn unrounded(expr: Expr, schema: &DFSchema) -> Expr {
    if !is_rounded(&expr, schema) {
        return expr;
    }
    match expr {
        Expr::ScalarFunction(mut call) => match call.name() {
            SHOWN => call.args.swap_remove(0),
            "__div" => functions::call("__div_inner", call.args),
            _ => functions::call("__neg", vec![unrounded(call.args.swap_remove(0), schema)]),
        },
        other => other,
    }
}

/// Rounds a decimal to the digits that MySQL shows.
pub(super) fn shown(expr: Expr, scale: i8) -> Expr {
    functions::call(SHOWN, vec![expr, lit(i64::from(scale))])
}

/// A sum, a difference or a product of quotients: it sees all digits that MySQL keeps of them.
pub(super) fn calculated(sides: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let scale = |side: &Expr| match side.get_type(schema) {
        Ok(DataType::Decimal128(_, scale)) => scale,
        _ => 0,
    };
    let (left, right) = (scale(&sides.left), scale(&sides.right));
    let wanted = match sides.op {
        Operator::Plus | Operator::Minus => left.max(right),
        Operator::Multiply => left + right,
        // Compared is what is shown.
        _ => return Ok(Transformed::no(Expr::BinaryExpr(sides))),
    };
    let side = |side: &Expr| Box::new(unrounded(side.clone(), schema));
    let inner = BinaryExpr::new(side(&sides.left), sides.op, side(&sides.right));
    let inner = Expr::BinaryExpr(inner);
    Ok(match inner.get_type(schema)? {
        DataType::Decimal128(_, scale) if scale <= INNER_SCALE_MAX => {
            Transformed::yes(shown(inner, wanted))
        }
        // There is no room for all digits.
        _ => Transformed::no(Expr::BinaryExpr(sides)),
    })
}
