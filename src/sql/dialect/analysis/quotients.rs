//! Quotients inside expressions: MySQL calculates on with more digits than it shows.

use datafusion::arrow::datatypes::{DECIMAL128_MAX_SCALE, DataType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable as _, Operator, lit};

use super::{chosen, first_known};
use crate::sql::functions::{self, INNER_SCALE_MAX};

/// Rounds a decimal to the digits that MySQL shows.
const SHOWN: &str = "__shown";

/// Functions that see all digits of a quotient and whose type does not depend on them; those that
/// return doubles do, too.
const EXACT: &str =
    "floor ceil ceiling sign __truth __xor __div_int __signed __unsigned __bitand __bitor __bitxor";

/// Whether it is a decimal that was rounded to the digits that MySQL shows, but does not calculate
/// with.
pub(super) fn is_rounded(expr: &Expr, schema: &DFSchema) -> bool {
    has_quotient(expr)
        && matches!(expr.get_type(schema), Ok(DataType::Decimal128(_, ..=INNER_SCALE_MAX)))
}

/// Whether it is a quotient, or one of several values of which one is.
fn has_quotient(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => has_quotient(&cast.expr),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, result)| result);
            results.chain(&case.else_expr).any(|result| has_quotient(result))
        }
        Expr::ScalarFunction(call) => match call.name() {
            "__div" | SHOWN => true,
            "__neg" | "abs" | "coalesce" | "greatest" | "least" => {
                call.args.iter().any(has_quotient)
            }
            _ => false,
        },
        _ => false,
    }
}

/// What was rounded; anything else as it is.
pub(super) fn unrounded(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    if !is_rounded(&expr, schema) {
        return Ok(expr);
    }
    match expr {
        // The type of a choice, which is chosen again.
        Expr::Cast(cast) => unrounded(*cast.expr, schema),
        Expr::Case(case) => {
            let parts = case.when_then_expr.into_iter().flat_map(|(when, then)| [*when, *then]);
            let parts = parts.chain(case.else_expr.map(|otherwise| *otherwise)).collect();
            chosen(all_unrounded(parts, schema)?, schema)
        }
        Expr::ScalarFunction(mut call) => match call.name() {
            SHOWN => Ok(call.args.swap_remove(0)),
            "__div" => Ok(functions::call("__div_inner", call.args)),
            "coalesce" => first_known(all_unrounded(call.args, schema)?, schema),
            _ => {
                call.args = all_unrounded(call.args, schema)?;
                Ok(Expr::ScalarFunction(call))
            }
        },
        other => Ok(other),
    }
}

fn all_unrounded(all: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    all.into_iter().map(|one| unrounded(one, schema)).collect()
}

/// A value with so many digits after the point, at least those that it has: of a quotient, those
/// that follow are not zeros.
pub(super) fn widened(expr: Expr, scale: i8, schema: &DFSchema) -> Result<Expr> {
    match expr.get_type(schema)? {
        DataType::Decimal128(_, given) if given < scale && is_rounded(&expr, schema) => {
            Ok(shown(unrounded(expr, schema)?, scale))
        }
        _ => Ok(expr),
    }
}

/// A call with a quotient among its arguments.
pub(super) fn called(mut call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let call_type = Expr::ScalarFunction(call.clone()).get_type(schema)?;
    let name = call.name().to_owned();
    let is_exact = EXACT.split(' ').any(|it| it == name) || call_type == DataType::Float64;
    match (&*name, call_type) {
        ("round" | "truncate" | "format" | "__decimal", _) => {
            call.args[0] = unrounded(std::mem::take(&mut call.args[0]), schema)?;
        }
        // As of operators whose product has more digits than there is room for.
        _ if is_exact || name == "__product" => call.args = all_unrounded(call.args, schema)?,
        ("__div", DataType::Decimal128(_, scale @ ..=INNER_SCALE_MAX)) => {
            let inner = functions::call("__div_inner", all_unrounded(call.args, schema)?);
            return Ok(Transformed::yes(shown(inner, scale)));
        }
        // It shows more digits than it would keep: four more than the dividend shows.
        ("__div", DataType::Decimal128(..)) => {
            call.args[1] = unrounded(std::mem::take(&mut call.args[1]), schema)?;
        }
        ("__mod" | "mod", DataType::Decimal128(_, scale)) => {
            call.args = all_unrounded(call.args, schema)?;
            if scale <= INNER_SCALE_MAX {
                return Ok(Transformed::yes(shown(Expr::ScalarFunction(call), scale)));
            }
        }
        ("greatest" | "least", DataType::Decimal128(_, scale)) => {
            let all = call.args.into_iter().map(|one| widened(one, scale, schema));
            call.args = all.collect::<Result<_>>()?;
        }
        _ => return Ok(Transformed::no(Expr::ScalarFunction(call))),
    }
    Ok(Transformed::yes(Expr::ScalarFunction(call)))
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
        Operator::Multiply => (left + right).min(DECIMAL128_MAX_SCALE),
        // Compared is what is shown.
        _ => return Ok(Transformed::no(Expr::BinaryExpr(sides))),
    };
    let [left, right] = [&sides.left, &sides.right].map(|side| unrounded((**side).clone(), schema));
    let (left, right) = (left?, right?);
    let all = scale(&left).saturating_add(scale(&right));
    let kept = all.min(wanted.max(INNER_SCALE_MAX));
    if sides.op == Operator::Multiply && kept < all {
        // No side is cut before: a small quotient begins where another one ends.
        let product = |name| functions::call(name, vec![left, right, lit(i64::from(kept))]);
        return Ok(Transformed::yes(match kept > wanted {
            true => shown(product("__product_inner"), wanted),
            false => product("__product"),
        }));
    }
    let inner = Expr::BinaryExpr(BinaryExpr::new(left.into(), sides.op, right.into()));
    Ok(match inner.get_type(schema)? {
        DataType::Decimal128(_, scale) if scale > wanted => Transformed::yes(shown(inner, wanted)),
        DataType::Decimal128(..) => Transformed::yes(inner),
        _ => Transformed::no(Expr::BinaryExpr(sides)),
    })
}
