//! Conditions that a scan of the pools tests itself, so that only matching rows are materialised.
//!
//! They come from the statement, and at run time from joins and sorts above the scan (hints, which
//! those test again). Conditions on ids, owners or timestamps become [`Ranges`] and decide which
//! rows are read at all. DataFusion evaluates everything else: a condition on one text column once
//! per distinct text, others on the rows of a piece.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};

use super::columns::Values;
use super::ranges::Ranges;
use super::texts::Texts;

/// Whether an expression depends on the columns of one row only.
pub(super) fn is_testable(expr: &Expr) -> bool {
    let foreign = expr.exists(|inner| {
        Ok(matches!(
            inner,
            Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::ScalarSubquery(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
                | Expr::ScalarVariable(..)
        ))
    });
    matches!(foreign, Ok(false)) && !expr.is_volatile()
}

/// Converts an expression of the statement to one over the columns of a table.
///
/// # Errors
/// Fails if it refers to anything else.
pub(super) fn physical(expr: &Expr, schema: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
    let schema = DFSchema::try_from(Arc::clone(schema))?;
    let expr = unnormalize_col(expr.clone());
    create_physical_expr(&expr, &schema, &Default::default(), &Default::default())
}

/// Renumbers the columns of an expression.
pub(super) fn with_columns(
    expr: Arc<dyn PhysicalExpr>,
    number: impl Fn(usize) -> usize,
) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = expr.transform(|inner| {
        let column = inner.downcast_ref::<Column>();
        let moved = column.map(|of| Column::new(of.name(), number(of.index())));
        Ok(match moved {
            Some(column) => Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>),
            None => Transformed::no(inner),
        })
    });
    moved.data()
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
    tests: Vec<Test>,
}

#[derive(Debug)]
struct Test {
    /// The filter's columns that it reads.
    columns: Vec<usize>,
    /// The schema of these columns.
    schema: SchemaRef,
    /// The expression over these columns.
    expr: Arc<dyn PhysicalExpr>,
    /// For one text column: the result, by dictionary index.
    passes: Option<Vec<bool>>,
}

impl Filter {
    /// Creates a filter from tests over a table's columns.
    ///
    /// # Errors
    /// Fails if they refer to anything else.
    pub(super) fn new(table: &Schema, tests: &[Arc<dyn PhysicalExpr>]) -> Result<Self> {
        let read = |test: &Arc<dyn PhysicalExpr>| {
            let read = collect_columns(test);
            read.iter().map(Column::index).collect::<BTreeSet<_>>()
        };
        let columns: Vec<usize> =
            Vec::from_iter(tests.iter().flat_map(read).collect::<BTreeSet<_>>());
        let tests = tests.iter().map(|test| {
            let own = Vec::from_iter(read(test));
            let place = |columns: &[usize], at| columns.partition_point(|&column| column < at);
            // A dictionary may contain NULL even if the column does not.
            let fields = own
                .iter()
                .map(|&at| table.field(at).clone().with_nullable(true));
            let schema = Schema::new(fields.collect::<Vec<_>>());
            let types = schema.fields().iter().map(|field| field.data_type());
            let of_text = types.eq([&DataType::Utf8View]);
            Ok(Test {
                columns: own.iter().map(|&at| place(&columns, at)).collect(),
                expr: with_columns(Arc::clone(test), |at| place(&own, at))?,
                schema: Arc::new(schema),
                passes: of_text.then(Vec::new),
            })
        });
        Ok(Self {
            tests: tests.collect::<Result<_>>()?,
            columns,
        })
    }

    /// Whether there are no tests, so that every row passes.
    pub(super) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// Forgets results by dictionary index, after the dictionary was reset.
    pub(super) fn forget(&mut self) {
        let tests = self.tests.iter_mut();
        tests
            .filter_map(|test| test.passes.as_mut())
            .for_each(Vec::clear);
    }

    /// Approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let passes = self.tests.iter().filter_map(|test| test.passes.as_ref());
        passes.map(Vec::len).sum()
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
        for test in &mut self.tests {
            let columns = test.columns.iter().map(|&at| &read[at]);
            let columns: Vec<&Values> = columns.collect();
            if let (Some(passes), [Values::Texts(places)]) = (&mut test.passes, &columns[..]) {
                let list = texts.list()?;
                let new = list.slice(passes.len(), list.len() - passes.len());
                let count = new.len();
                if count > 0 {
                    let new = evaluate(&test.expr, &test.schema, vec![new], count)?;
                    passes.extend(new.iter());
                }
                rows.retain(|&row| passes[places[row as usize] as usize]);
            } else if let Some(&last) = rows.last() {
                let arrays = columns.into_iter().map(|it| texts.array(it.clone()));
                let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
                // A constant reads no column.
                let count = arrays
                    .first()
                    .map_or(last as usize + 1, |array| array.len());
                let passes = evaluate(&test.expr, &test.schema, arrays, count)?;
                rows.retain(|&row| passes.value(row as usize));
            }
        }
        Ok(rows)
    }
}

/// Evaluates an expression to a mask of rows.
fn evaluate(
    expr: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<BooleanBuffer> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
    let passes = expr.evaluate(&batch)?.into_array(rows)?;
    let passes = passes.as_boolean();
    Ok(match passes.nulls() {
        Some(known) => passes.values() & known.inner(),
        None => passes.values().clone(),
    })
}
