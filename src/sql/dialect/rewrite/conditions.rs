//! Conditions and values: interchangeable in MySQL, but not in DataFusion.
//!
//! Types are not known yet, so both are wrapped in calls, which `analysis` removes where the types
//! are right already.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Visit, Visitor};

use super::build::{call, is_case};
use crate::sql::error::SqlError;

/// Most levels of CASE within the condition of a CASE: DataFusion checks nullability there more
/// than once, and so again at each level below.
const DEPTH_MAX: usize = 10;

/// Nesting depth of CASE.
#[derive(Default)]
struct Depth {
    here: usize,
    most: usize,
}

impl Visitor for Depth {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.here += usize::from(is_case(expr));
        self.most = self.most.max(self.here);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.here -= usize::from(is_case(expr));
        ControlFlow::Continue(())
    }
}

/// Converts an expression used as a condition to a boolean.
pub(super) fn as_condition(expr: Expr) -> Expr {
    call("__truth", vec![expr])
}

/// The condition of a CASE.
///
/// # Errors
/// [`SqlError::parse`] if it nests too many others.
pub(super) fn as_case_condition(expr: Expr) -> Result<Expr, SqlError> {
    let mut depth = Depth::default();
    let _ = expr.visit(&mut depth);
    if depth.most > DEPTH_MAX {
        return Err(SqlError::parse(format!(
            "the statement grows too large: CASEs and IFs are nested more than {DEPTH_MAX} deep in the condition of another"
        )));
    }
    Ok(as_condition(expr))
}

/// Converts a boolean used as a value to 1 or 0.
pub(super) fn as_value(expr: Expr) -> Expr {
    call("__value", vec![expr])
}
