//! Conditions that a scan of the pools tests itself, so that only matching rows are materialised.
//!
//! They come from the statement, and at run time from joins and sorts above the scan (hints, which
//! those test again). Conditions on ids, owners or timestamps become [`Ranges`] and decide which
//! rows are read at all. DataFusion evaluates everything else: a condition on one text column once
//! per distinct text, others on the rows of a piece.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::TreeNode as _;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};

use super::columns::Values;
use super::ranges::Ranges;
use super::texts::Texts;
use crate::history::scan::condition::Condition;

/// Whether an expression depends on the columns of one row only.
pub(super) fn is_testable(expr: &Expr) -> bool {
    let foreign = expr.exists(|inner| {
        Ok(matches!(
            inner,
            Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::ScalarSubquery(_)
                | Expr::OuterReferenceColumn(..)
        ))
    });
    matches!(foreign, Ok(false)) && !expr.is_volatile()
}

/// The column of a simple expression, and the integers for which it is true; `None` if it is not
/// that simple.
pub(super) fn ranges(expr: &Arc<dyn PhysicalExpr>) -> Option<(usize, Ranges)> {
    let column = |expr: &Arc<dyn PhysicalExpr>| Some(expr.downcast_ref::<Column>()?.index());
    let number = |expr: &Arc<dyn PhysicalExpr>| match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Int64(value) => *value,
        ScalarValue::UInt64(value) => i64::try_from((*value)?).ok(),
        _ => None,
    };
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        let numbers: Option<Vec<i64>> = list.list().iter().map(number).collect();
        let wanted = (!list.negated()).then_some(Ranges::of(numbers?))?;
        return Some((column(list.expr())?, wanted));
    }
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    if let Operator::And | Operator::Or = binary.op() {
        let ((left, ours), (right, theirs)) = (ranges(binary.left())?, ranges(binary.right())?);
        let both = match binary.op() {
            Operator::And => ours.and(&theirs),
            _ => ours.or(&theirs),
        };
        return (left == right).then_some((left, both));
    }
    let (column, op, value) = match (column(binary.left()), number(binary.right())) {
        (Some(column), Some(value)) => (column, *binary.op(), value),
        _ => {
            let column = column(binary.right())?;
            (column, binary.op().swap()?, number(binary.left())?)
        }
    };
    let (low, high) = match op {
        Operator::Eq => (value, value),
        Operator::Lt => (i64::MIN, value.checked_sub(1)?),
        Operator::LtEq => (i64::MIN, value),
        Operator::Gt => (value.checked_add(1)?, i64::MAX),
        Operator::GtEq => (value, i64::MAX),
        _ => return None,
    };
    Some((column, Ranges::between(low, high)))
}

/// The tests on rows.
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// The table's columns that they read.
    pub(super) columns: Vec<usize>,
    /// Those of one text column with their results by dictionary index.
    tests: Vec<(Condition, Option<Vec<bool>>)>,
}

impl Filter {
    /// Creates a filter from tests over a table's columns.
    ///
    /// # Errors
    /// Fails if they refer to anything else.
    pub(super) fn new(table: &Schema, tests: &[Arc<dyn PhysicalExpr>]) -> Result<Self> {
        let tests = tests.iter().map(|test| {
            let test = Condition::new(table, test)?;
            let of_text = test.columns.len() == 1 && test.has_texts();
            Ok((test, of_text.then(Vec::new)))
        });
        let tests = tests.collect::<Result<Vec<_>>>()?;
        let columns = tests.iter().flat_map(|(test, _)| &test.columns);
        let columns: BTreeSet<usize> = columns.copied().collect();
        Ok(Self { columns: columns.into_iter().collect(), tests })
    }

    /// Whether there are no tests, so that every row passes.
    pub(super) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// Forgets results by dictionary index, after the dictionary was reset.
    pub(super) fn forget(&mut self) {
        let tests = self.tests.iter_mut();
        tests.filter_map(|it| it.1.as_mut()).for_each(Vec::clear);
    }

    /// Approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.tests.iter().filter_map(|it| it.1.as_ref()).map(Vec::len).sum()
    }

    /// The rows that pass; `read` holds the filter's columns for all of them.
    ///
    /// # Errors
    /// Errors of DataFusion.
    pub(super) fn passing(
        &mut self,
        mut rows: Vec<u32>,
        read: &[Values],
        texts: &mut Texts,
    ) -> Result<Vec<u32>> {
        for (test, passes) in &mut self.tests {
            let place = |at: &usize| self.columns.partition_point(|column| column < at);
            let columns: Vec<&Values> = test.columns.iter().map(|at| &read[place(at)]).collect();
            if let (Some(passes), [Values::Texts(places)]) = (passes, &columns[..]) {
                let list = texts.list()?;
                let new = list.slice(passes.len(), list.len() - passes.len());
                let count = new.len();
                if count > 0 {
                    passes.extend(test.passes(vec![new], count)?.values());
                }
                rows.retain(|&row| passes[places[row as usize] as usize]);
            } else if let Some(&last) = rows.last() {
                let arrays = columns.into_iter().map(|it| texts.array(it.clone()));
                let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
                // A constant reads no column.
                let count = arrays.first().map_or(last as usize + 1, |array| array.len());
                let passes = test.passes(arrays, count)?;
                rows.retain(|&row| passes.value(row as usize));
            }
        }
        Ok(rows)
    }
}
