//! Conditions and values: MySQL takes each for the other, DataFusion does not.
//!
//! Types are not known yet, so both are calls, which `analysis` takes out where the types are right already.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Visit, Visitor};

use super::build::{call, take};
use crate::sql::error::SqlError;

/// How deep CASEs may be nested in the condition of a CASE: DataFusion looks at what may be NULL there more than once, and so at
/// each level below.
const DEPTH_MAX: usize = 10;

/// How deep CASEs are nested.
#[derive(Default)]
struct Depth {
    here: usize,
    most: usize,
}

impl Visitor for Depth {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.here += usize::from(matches!(expr, Expr::Case { .. }));
        self.most = self.most.max(self.here);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.here -= usize::from(matches!(expr, Expr::Case { .. }));
        ControlFlow::Continue(())
    }
}

/// Makes true or false of whatever stands where a condition is wanted.
pub(super) fn as_condition(expr: &mut Expr) {
    *expr = call("__truth", vec![take(expr)]);
}

/// The condition of a CASE.
///
/// # Errors
/// [`SqlError::parse`] when too many others are nested in it.
pub(super) fn as_case_condition(expr: &mut Expr) -> Result<(), SqlError> {
    let mut depth = Depth::default();
    let _ = expr.visit(&mut depth);
    if depth.most > DEPTH_MAX {
        return Err(SqlError::parse(format!(
            "the statement grows too large: CASEs and IFs are nested more than {DEPTH_MAX} deep in the condition of another"
        )));
    }
    as_condition(expr);
    Ok(())
}

/// A truth beside other values is 1 or 0.
pub(super) fn as_value(expr: &mut Expr) {
    *expr = call("__value", vec![take(expr)]);
}
