//! Conditions and values: MySQL takes each for the other, DataFusion does not.
//!
//! Types are not known yet, so both are calls, which `analysis` takes out where the types are right already.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, visit_expressions};

use super::build::{call, take};
use crate::sql::error::SqlError;

/// CASEs in the condition of a CASE: DataFusion looks at each such condition twice, and so at what is in it.
const CASES_MAX: usize = 12;

/// Makes true or false of whatever stands where a condition is wanted.
pub(super) fn as_condition(expr: &mut Expr) {
    *expr = call("__truth", vec![take(expr)]);
}

/// The condition of a CASE.
///
/// # Errors
/// [`SqlError::parse`] when it is made of too many others.
pub(super) fn as_case_condition(expr: &mut Expr) -> Result<(), SqlError> {
    let mut cases = 0;
    let _ = visit_expressions(expr, |expr| {
        cases += usize::from(matches!(expr, Expr::Case { .. }));
        ControlFlow::<()>::Continue(())
    });
    if cases > CASES_MAX {
        return Err(SqlError::parse(format!(
            "the statement grows too large: a condition of CASE or IF has at most {CASES_MAX} of them in it"
        )));
    }
    as_condition(expr);
    Ok(())
}

/// A truth beside other values is 1 or 0.
pub(super) fn as_value(expr: &mut Expr) {
    *expr = call("__value", vec![take(expr)]);
}
