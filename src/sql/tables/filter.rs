//! Conditions that a scan of the pools tests itself, so that only matching rows are materialised.
//!
//! They come from the statement, and from joins and sorts above the scan while it runs (hints, which those test again). What a
//! condition says of ids, owners or timestamps becomes [`Ranges`] and decides which rows are read at all. DataFusion evaluates
//! everything else: a condition on one text column once per distinct text, others on the rows of a piece.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};

use super::columns::{Buffer, Dictionaries};
use super::ranges::Ranges;

/// Whether an expression depends on nothing but the columns of one row.
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

/// An expression of the statement, in terms of the columns of a table.
///
/// # Errors
/// When it is of something else.
pub(super) fn physical(expr: &Expr, schema: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
    let schema = DFSchema::try_from(Arc::clone(schema))?;
    let expr = unnormalize_col(expr.clone());
    create_physical_expr(&expr, &schema, &Default::default(), &Default::default())
}

/// An expression with other numbers for its columns.
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

/// The column that an expression is about, and the whole numbers for which it is true; `None` when it is not as simple as that.
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

/// The tests of rows.
#[derive(Debug)]
pub(super) struct Filter {
    /// The columns of the table that they read.
    pub(super) columns: Vec<usize>,
    schema: SchemaRef,
    tests: Vec<Test>,
}

#[derive(Debug)]
struct Test {
    /// In terms of the columns of the filter.
    expr: Arc<dyn PhysicalExpr>,
    of_text: Option<TextTest>,
}

/// A test of one column of texts.
#[derive(Debug)]
struct TextTest {
    /// Which of the filter's columns.
    at: usize,
    /// By the place of a text in its dictionary.
    passes: Vec<bool>,
}

impl Filter {
    /// Tests in terms of a table's columns.
    ///
    /// # Errors
    /// When they are not.
    pub(super) fn new(table: &Schema, tests: &[Arc<dyn PhysicalExpr>]) -> Result<Self> {
        let read = tests.iter().flat_map(collect_columns);
        let mut columns: Vec<usize> = read.map(|column| column.index()).collect();
        columns.sort_unstable();
        columns.dedup();
        // Whatever is promised of a column, a dictionary may have NULL.
        let fields = columns.iter().map(|&at| table.field(at));
        let fields = fields.map(|field| Field::new(field.name(), field.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let tests = tests.iter().map(|test| {
            let expr = with_columns(Arc::clone(test), |at| {
                columns.partition_point(|&column| column < at)
            })?;
            let of: Vec<usize> = collect_columns(&expr).iter().map(Column::index).collect();
            let of_text = match of[..] {
                [at] if *schema.field(at).data_type() == DataType::Utf8View => Some(TextTest {
                    at,
                    passes: Vec::new(),
                }),
                _ => None,
            };
            Ok(Test { expr, of_text })
        });
        Ok(Self {
            tests: tests.collect::<Result<_>>()?,
            columns,
            schema,
        })
    }

    /// Whether every row passes.
    pub(super) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// The dictionaries began anew.
    pub(super) fn forget(&mut self) {
        for test in self
            .tests
            .iter_mut()
            .filter_map(|test| test.of_text.as_mut())
        {
            test.passes.clear();
        }
    }

    /// About what it takes.
    pub(super) fn memory(&self) -> usize {
        let texts = self.tests.iter().filter_map(|test| test.of_text.as_ref());
        texts.map(|test| test.passes.len()).sum()
    }

    /// Which of these rows pass; `read` are the filter's columns of all of them.
    ///
    /// # Errors
    /// DataFusion's.
    pub(super) fn passing(
        &mut self,
        count: usize,
        read: &mut [Buffer],
        texts: &mut Dictionaries,
    ) -> Result<Vec<u32>> {
        let mut rows: Vec<u32> = (0..count as u32).collect();
        for Test { expr, of_text } in &mut self.tests {
            let Some(test) = of_text else { continue };
            let Buffer::Texts(which, places) = &read[test.at] else {
                continue;
            };
            let list = texts.of(*which).list()?;
            let known = test.passes.len();
            if known < list.len() {
                let new = list.slice(known, list.len() - known);
                // It reads no other column.
                let columns = self.schema.fields().iter().enumerate();
                let columns = columns.map(|(at, field)| match at == test.at {
                    true => Arc::clone(&new),
                    false => new_null_array(field.data_type(), new.len()),
                });
                let new = evaluate(expr, &self.schema, columns.collect())?;
                test.passes
                    .extend(new.as_boolean().iter().map(|passes| passes == Some(true)));
            }
            rows.retain(|&row| test.passes[places[row as usize] as usize]);
        }
        let mut others = self
            .tests
            .iter()
            .filter(|test| test.of_text.is_none())
            .peekable();
        if rows.is_empty() || others.peek().is_none() {
            return Ok(rows);
        }
        let arrays = read.iter_mut().map(|buffer| texts.array(buffer));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        for test in others {
            let passes = evaluate(&test.expr, &self.schema, arrays.clone())?;
            let passes = passes.as_boolean();
            rows.retain(|&row| passes.is_valid(row as usize) && passes.value(row as usize));
        }
        Ok(rows)
    }
}

fn evaluate(
    expr: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
) -> Result<ArrayRef> {
    let batch = RecordBatch::try_new(Arc::clone(schema), columns)?;
    expr.evaluate(&batch)?.into_array(batch.num_rows())
}
