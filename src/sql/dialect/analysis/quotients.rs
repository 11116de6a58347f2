//! Quotients inside expressions: MySQL calculates on with more digits than it shows.

use datafusion::arrow::datatypes::DataType;
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
        Expr::Case(case) if case.expr.is_none() => {
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

/// A call with a quotient among its arguments.
pub(super) fn called(mut call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let call_type = Expr::ScalarFunction(call.clone()).get_type(schema)?;
    let name = call.name().to_owned();
    let is_exact = EXACT.split(' ').any(|it| it == name) || call_type == DataType::Float64;
    match (&*name, call_type) {
        ("round" | "truncate" | "format" | "__decimal", _) => {
            call.args[0] = unrounded(std::mem::take(&mut call.args[0]), schema)?;
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        _ if is_exact => {
            call.args = all_unrounded(call.args, schema)?;
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        ("__div" | "__mod" | "mod", DataType::Decimal128(_, scale @ ..=INNER_SCALE_MAX)) => {
            let inner = if name == "__div" { "__div_inner" } else { &*name };
            let inner = functions::call(inner, all_unrounded(call.args, schema)?);
            Ok(Transformed::yes(shown(inner, scale)))
        }
        _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
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
    let [left, right] = [&sides.left, &sides.right].map(|side| unrounded((**side).clone(), schema));
    let (mut left, mut right) = (left?, right?);
    let (in_left, in_right) = (scale(&left), scale(&right));
    if sides.op == Operator::Multiply && in_left.saturating_add(in_right) > INNER_SCALE_MAX {
        // Each quotient has what the other side leaves of that, at least half.
        let cut = |whole: Expr, side: &Expr, of_other: i8| {
            let most = (INNER_SCALE_MAX - of_other).max(INNER_SCALE_MAX / 2);
            let is_cut = scale(&whole) > most && is_rounded(side, schema);
            if is_cut { shown(whole, most) } else { whole }
        };
        left = cut(left, &sides.left, in_right);
        right = cut(right, &sides.right, in_left);
    }
    let inner = Expr::BinaryExpr(BinaryExpr::new(left.into(), sides.op, right.into()));
    Ok(match inner.get_type(schema)? {
        DataType::Decimal128(_, scale) if scale <= INNER_SCALE_MAX => {
            Transformed::yes(shown(inner, wanted))
        }
        // There is no room for all digits.
        _ => Transformed::no(Expr::BinaryExpr(sides)),
    })
}
