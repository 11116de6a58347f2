//! A table of database `pinba`: raw data, a report or a status table; or one of database `history`.
//!
//! Raw tables test every condition that depends on one row only (`filter`); for a report only the
//! selection of a histogram's row is pushed down.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_plan::ExecutionPlan;

use super::filter::{is_testable, ranges};
use super::history::{PastRows, in_order};
use super::raw::RowKey;
use super::reports::{Report, chosen};
use super::scan::Scan;
use super::{declared, own_name};
use crate::grammar::FixedTable;
use crate::history::History;
use crate::history::scan::condition::physical;
use crate::history::sql_columns::View;
use crate::query::catalog::Catalog;
use crate::sql::invisible_columns;

/// Most ids that count as few.
const FEW: u64 = 1_000;

/// Whether a scan of a table with these conditions reads few rows, found by id.
pub(in crate::sql) fn brings_few(table: &dyn TableProvider, conditions: &[Expr]) -> bool {
    let Some(table) = table.downcast_ref::<Table>() else { return false };
    conditions.iter().any(|expr| {
        let condition = physical(expr, &table.schema).ok();
        let by_key = condition.and_then(|condition| ranges(&condition));
        by_key.is_some_and(|(column, wanted)| {
            let key = table.key(column);
            matches!(key, Some(RowKey::Id | RowKey::Owner)) && wanted.count() <= FEW
        })
    })
}

/// A table, as one statement sees it.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) catalog: Arc<Catalog>,
    pub(super) schema: SchemaRef,
    /// Rows when it was looked up; for a table of tags, the number of tag owners.
    pub(super) rows: usize,
    pub(super) rows_of: RowsOf,
}

/// The source of its rows.
#[derive(Debug, Clone)]
pub(super) enum RowsOf {
    Pool(FixedTable),
    Report(Arc<Report>),
    Past(Arc<View>, History),
}

impl Table {
    /// The table of database `pinba` with this name, in any case; `None` if it does not exist. A
    /// report whose name is marked has the columns of the mark.
    pub(super) fn of_pinba(catalog: &Arc<Catalog>, name: &str) -> Option<Self> {
        let marked = invisible_columns::unmarked(name);
        let (name, wanted) = marked.map_or((name, None), |(name, wanted)| (name, Some(wanted)));
        let own = own_name(catalog, name)?;
        let with = wanted.as_ref().and_then(|wanted| catalog.columns_with(&own, wanted));
        let wanted = wanted.filter(|_| with.is_some()).unwrap_or_default();
        let (columns, rows) = with.or_else(|| catalog.columns_of(&own))?;
        let report = || RowsOf::Report(Arc::new(Report::new(&own, wanted)));
        Some(Self {
            catalog: Arc::clone(catalog),
            schema: declared::schema(&own, &columns),
            rows,
            rows_of: FixedTable::raw(&own).map_or_else(report, RowsOf::Pool),
        })
    }

    pub(super) fn name(&self) -> &str {
        match &self.rows_of {
            RowsOf::Pool(table) => table.name(),
            RowsOf::Report(report) => &report.name,
            RowsOf::Past(view, _) => &view.dataset.report,
        }
    }

    /// The key that a column is, if any.
    pub(super) fn key(&self, column: usize) -> Option<RowKey> {
        match &self.rows_of {
            RowsOf::Pool(table) => table.key(column),
            RowsOf::Report(_) | RowsOf::Past(..) => None,
        }
    }
}

#[async_trait]
impl TableProvider for Table {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let supports = |filter: &&Expr| match self.rows_of {
            RowsOf::Pool(_) | RowsOf::Past(..) if is_testable(filter) => {
                TableProviderFilterPushDown::Exact
            }
            // A report returns all its rows nevertheless.
            RowsOf::Report(_) if chosen(filter).is_some() => TableProviderFilterPushDown::Inexact,
            _ => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(supports).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = match projection {
            Some(wanted) => wanted.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let mut conditions = Vec::new();
        for filter in filters {
            let filter = physical(filter, &self.schema)?;
            conditions.extend(split_conjunction(&filter).into_iter().cloned());
        }
        let past = match &self.rows_of {
            RowsOf::Past(view, history) => Some(PastRows::new(view, history, filters)),
            RowsOf::Pool(_) | RowsOf::Report(_) => None,
        };
        // Scans of history find the limit themselves.
        let limit = limit.filter(|_| past.is_none());
        let threads = state.config().target_partitions().max(1);
        let mut scan = Scan::new(self, columns, conditions, (limit, past), threads)?;
        scan.chosen = filters.iter().find_map(chosen);
        in_order(scan)
    }
}
