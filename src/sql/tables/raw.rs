//! The tables of raw data: requests, timers, their tags, and the names of timer tags.
//!
//! A table knows its columns and where their values come from ([`RowField`]). Its scan tests every condition that depends on
//! one row only (`filter`). `scan` is the plan node, `reader` reads the pool.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_plan::ExecutionPlan;

use super::filter::{is_testable, physical, ranges};
use super::scan::PoolScan;
use super::{Extent, declared};
use crate::query::catalog::Catalog;
use crate::report::comment::FixedTable;
use crate::value::{Column, ColumnType};

/// Ids that are few.
const FEW: u64 = 1_000;

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PoolTable {
    Request,
    Timer,
    TimerTag,
    Tag,
    RequestTag,
}

/// Where the values of a column come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowField {
    /// The id of the row that is read: of a request, a timer, or a name of tags.
    Id,
    /// The request of a timer.
    Owner,
    RequestCount,
    TimersCount,
    Timestamp,
    HitCount,
    DocumentSize,
    MemoryPeak,
    MemoryFootprint,
    RequestTime,
    RuUtime,
    RuStime,
    TimerValue,
    Hostname,
    ServerName,
    ScriptName,
    Schema,
    Status,
    TagsCount,
    Tags,
    /// A tag's name, as its number.
    NameId,
    /// A tag's name.
    Name,
    /// A tag's value.
    Value,
}

impl PoolTable {
    pub(super) const ALL: [Self; 5] = [
        Self::Request,
        Self::Timer,
        Self::TimerTag,
        Self::Tag,
        Self::RequestTag,
    ];

    /// The table of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// As one of Pinba's tables.
    const fn fixed(self) -> Option<FixedTable> {
        match self {
            Self::Request => Some(FixedTable::Request),
            Self::Timer => Some(FixedTable::Timer),
            Self::TimerTag => Some(FixedTable::TimerTag),
            Self::Tag => Some(FixedTable::Tag),
            Self::RequestTag => None,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self.fixed() {
            Some(fixed) => fixed.table(),
            None => "request_tag",
        }
    }

    /// Where its columns come from, in their order.
    pub(super) const fn fields(self) -> &'static [RowField] {
        match self {
            Self::Request => &[
                RowField::Id,
                RowField::Hostname,
                RowField::RequestCount,
                RowField::ServerName,
                RowField::ScriptName,
                RowField::DocumentSize,
                RowField::MemoryPeak,
                RowField::RequestTime,
                RowField::RuUtime,
                RowField::RuStime,
                RowField::TimersCount,
                RowField::Status,
                RowField::MemoryFootprint,
                RowField::Schema,
                RowField::TagsCount,
                RowField::Tags,
                RowField::Timestamp,
            ],
            Self::Timer => &[
                RowField::Id,
                RowField::Owner,
                RowField::HitCount,
                RowField::TimerValue,
            ],
            Self::TimerTag => &[RowField::Id, RowField::NameId, RowField::Value],
            Self::Tag => &[RowField::Id, RowField::Name],
            Self::RequestTag => &[RowField::Id, RowField::Name, RowField::Value],
        }
    }

    /// Whether one row of the pool makes any number of rows of the table.
    pub(super) const fn is_of_pairs(self) -> bool {
        matches!(self, Self::TimerTag | Self::RequestTag | Self::Tag)
    }

    /// Whether its rows are read by the ids of timers.
    pub(super) const fn by_timers(self) -> bool {
        matches!(self, Self::Timer | Self::TimerTag)
    }

    pub(super) fn columns(self, catalog: &Catalog) -> Vec<Column> {
        let defaults = catalog.defaults();
        if let Some(fixed) = self.fixed() {
            return fixed.columns(defaults);
        }
        let text = ColumnType::Varchar(defaults.text_bytes_max);
        let columns = [
            ("request_id", ColumnType::BigInt),
            ("name", text),
            ("value", text),
        ];
        let column = |(name, column_type): (&str, _)| Column {
            name: name.to_owned(),
            column_type,
        };
        columns.map(column).into()
    }

    /// Whether a column of it can be NULL.
    fn is_nullable(self, at: usize) -> bool {
        !matches!(
            self.fields()[at],
            RowField::Id | RowField::Owner | RowField::NameId | RowField::Name
        )
    }
}

/// A table of raw data.
#[derive(Debug)]
pub(super) struct PoolTableProvider {
    table: PoolTable,
    catalog: Arc<Catalog>,
    schema: SchemaRef,
}

impl PoolTableProvider {
    pub(super) fn new(table: PoolTable, catalog: Arc<Catalog>) -> Self {
        let columns = table.columns(&catalog);
        let schema = declared::schema(table.name(), &columns, |at| table.is_nullable(at));
        Self {
            table,
            catalog,
            schema,
        }
    }

    /// How much of it a scan with these conditions looks at.
    pub(super) fn extent(&self, conditions: &[Expr]) -> Extent {
        let few = conditions.iter().any(|expr| {
            let condition = physical(expr, &self.schema).ok();
            condition
                .and_then(|it| ranges(&it))
                .is_some_and(|(at, wanted)| {
                    let by_id = matches!(self.table.fields()[at], RowField::Id | RowField::Owner);
                    by_id && wanted.count() <= FEW
                })
        });
        match self.table {
            _ if few => Extent::Few,
            PoolTable::Tag => Extent::Small,
            _ => Extent::Large,
        }
    }
}

#[async_trait]
impl TableProvider for PoolTableProvider {
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
        let supports = |filter: &&Expr| match is_testable(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
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
        let threads = state.config().target_partitions();
        let scan = PoolScan::new(
            self.table,
            &self.schema,
            columns,
            conditions,
            limit,
            threads,
            &self.catalog,
        )?;
        Ok(Arc::new(scan))
    }
}
