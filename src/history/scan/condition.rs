//! Conditions of statements and searches on the rows of a table, each with the columns it reads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::{Array as _, ArrayRef, BooleanArray};
use datafusion::arrow::compute::prep_null_mask_filter;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};

/// Compiles an expression over the columns of a table.
///
/// # Errors
/// Fails if it refers to anything else.
pub(crate) fn physical(expr: &Expr, schema: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
    let schema = DFSchema::try_from(Arc::clone(schema))?;
    let expr = unnormalize_col(expr.clone());
    create_physical_expr(&expr, &schema, &Default::default(), &Default::default())
}

/// A condition on rows of a table, compiled for the columns that it reads.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    /// The table's columns that it reads.
    pub(crate) columns: Vec<usize>,
    /// These columns.
    schema: SchemaRef,
    /// The expression over them.
    expr: Arc<dyn PhysicalExpr>,
    /// Whether it could not be evaluated; of all copies.
    failed: Arc<AtomicBool>,
}

impl Condition {
    /// A condition from an expression over all columns of the table.
    ///
    /// # Errors
    /// Fails if the expression refers to anything but the table's columns.
    pub(crate) fn new(table: &Schema, expr: &Arc<dyn PhysicalExpr>) -> Result<Self> {
        let columns: BTreeSet<usize> = collect_columns(expr).iter().map(Column::index).collect();
        // A dictionary may contain NULL even if the column does not.
        let field = |&at: &usize| table.field(at).clone().with_nullable(true);
        let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
        Ok(Self {
            expr: reassign_expr_columns(Arc::clone(expr), &schema)?,
            columns: columns.into_iter().collect(),
            schema: Arc::new(schema),
            failed: Arc::default(),
        })
    }

    /// Whether it reads a column of texts.
    pub(crate) fn has_texts(&self) -> bool {
        self.schema.fields().iter().any(|field| *field.data_type() == DataType::Utf8View)
    }

    /// Whether it could not be evaluated, as when its statement ended: the rows are not to blame.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Tells for which rows it is true (not NULL), given its columns.
    ///
    /// # Errors
    /// Errors of DataFusion.
    pub(crate) fn passes(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        let passes = self.expr.evaluate(&batch);
        let passes = passes.inspect_err(|_| self.failed.store(true, Ordering::Relaxed))?;
        let passes = passes.into_array(rows)?;
        let passes = as_boolean_array(&passes)?;
        Ok(if passes.null_count() == 0 { passes.clone() } else { prep_null_mask_filter(passes) })
    }
}
