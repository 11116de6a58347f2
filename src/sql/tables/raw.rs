//! The tables of raw data: requests, timers, their tags, and the names of timer tags.
//!
//! A table knows its columns, where their values come from ([`Lane`]) and which conditions its scan tests by itself. How it is
//! read is in `walk`; the plan node around that is in `scan`.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::condition::{Condition, Kind, Test};
use super::scan::PoolScan;
use super::{Extent, declared};
use crate::query::catalog::Catalog;
use crate::report::comment::FixedTable;
use crate::value::{Column, ColumnType};

/// Ids that are few.
const FEW: u64 = 1_000;

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Raw {
    Request,
    Timer,
    TimerTag,
    Tag,
    RequestTag,
}

/// Where the values of a column come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// The id of the row that is walked.
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
    NameNumber,
    /// A tag's name.
    Name,
    /// A tag's value.
    Value,
}

impl Lane {
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Id
            | Self::Owner
            | Self::RequestCount
            | Self::TimersCount
            | Self::Timestamp
            | Self::HitCount
            | Self::Status
            | Self::TagsCount
            | Self::NameNumber => Kind::Int,
            Self::DocumentSize
            | Self::MemoryPeak
            | Self::MemoryFootprint
            | Self::RequestTime
            | Self::RuUtime
            | Self::RuStime
            | Self::TimerValue => Kind::Float,
            Self::Hostname
            | Self::ServerName
            | Self::ScriptName
            | Self::Schema
            | Self::Tags
            | Self::Name
            | Self::Value => Kind::Text,
        }
    }
}

impl Raw {
    pub(super) const ALL: [Self; 5] = [
        Self::Request,
        Self::Timer,
        Self::TimerTag,
        Self::Tag,
        Self::RequestTag,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Request => FixedTable::Request.table(),
            Self::Timer => FixedTable::Timer.table(),
            Self::TimerTag => FixedTable::TimerTag.table(),
            Self::Tag => FixedTable::Tag.table(),
            Self::RequestTag => "request_tag",
        }
    }

    /// Where its columns come from, in their order.
    pub(super) const fn lanes(self) -> &'static [Lane] {
        match self {
            Self::Request => &[
                Lane::Id,
                Lane::Hostname,
                Lane::RequestCount,
                Lane::ServerName,
                Lane::ScriptName,
                Lane::DocumentSize,
                Lane::MemoryPeak,
                Lane::RequestTime,
                Lane::RuUtime,
                Lane::RuStime,
                Lane::TimersCount,
                Lane::Status,
                Lane::MemoryFootprint,
                Lane::Schema,
                Lane::TagsCount,
                Lane::Tags,
                Lane::Timestamp,
            ],
            Self::Timer => &[Lane::Id, Lane::Owner, Lane::HitCount, Lane::TimerValue],
            Self::TimerTag => &[Lane::Id, Lane::NameNumber, Lane::Value],
            Self::Tag => &[Lane::NameNumber, Lane::Name],
            Self::RequestTag => &[Lane::Id, Lane::Name, Lane::Value],
        }
    }

    /// Whether its rows are walked by the ids of timers; otherwise by those of requests.
    pub(super) const fn by_timers(self) -> bool {
        matches!(self, Self::Timer | Self::TimerTag)
    }

    pub(super) fn columns(self, catalog: &Catalog) -> Vec<Column> {
        let defaults = catalog.defaults();
        let column = |name: &str, column_type| Column {
            name: name.to_owned(),
            column_type,
        };
        let text = ColumnType::Varchar(defaults.text_bytes_max);
        match self {
            Self::Request => FixedTable::Request.columns(defaults),
            Self::Timer => FixedTable::Timer.columns(defaults),
            Self::TimerTag => FixedTable::TimerTag.columns(defaults),
            Self::Tag => FixedTable::Tag.columns(defaults),
            Self::RequestTag => vec![
                column("request_id", ColumnType::BigInt),
                column("name", text),
                column("value", text),
            ],
        }
    }

    const fn never_null(self) -> &'static [&'static str] {
        match self {
            Self::Request => &["id"],
            Self::Timer => &["id", "request_id"],
            Self::TimerTag => &["timer_id", "tag_id"],
            Self::Tag => &["id", "name"],
            Self::RequestTag => &["request_id", "name"],
        }
    }
}

/// A table of raw data.
#[derive(Debug)]
pub(super) struct RawTable {
    raw: Raw,
    catalog: Arc<Catalog>,
    schema: SchemaRef,
}

impl RawTable {
    pub(super) fn new(raw: Raw, catalog: Arc<Catalog>) -> Self {
        let schema = declared::schema(raw.name(), &raw.columns(&catalog), raw.never_null());
        Self {
            raw,
            catalog,
            schema,
        }
    }

    /// How much of it a scan with these conditions looks at.
    pub(super) fn extent(&self, conditions: &[Expr]) -> Extent {
        let lanes = self.raw.lanes();
        let few = conditions
            .iter()
            .filter_map(|expr| self.condition(expr))
            .any(|condition| {
                let by_id = matches!(lanes[condition.column], Lane::Id | Lane::Owner);
                by_id && matches!(&condition.test, Test::Ints(ranges) if ranges.count() <= FEW)
            });
        match self.raw {
            _ if few => Extent::Few,
            Raw::Tag => Extent::Small,
            _ => Extent::Large,
        }
    }

    fn condition(&self, expr: &Expr) -> Option<Condition> {
        let lanes = self.raw.lanes();
        Condition::of(expr, &|column| {
            let at = self.schema.index_of(&column.name).ok()?;
            Some((at, lanes[at].kind()))
        })
    }
}

#[async_trait]
impl TableProvider for RawTable {
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
        let supports = |filter: &&Expr| match self.condition(filter) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
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
            None => (0..self.raw.lanes().len()).collect(),
        };
        let conditions = filters.iter().filter_map(|filter| self.condition(filter));
        let schema = Arc::new(self.schema.project(&columns)?);
        let threads = state.config().target_partitions();
        let scan = PoolScan::new(
            self.raw,
            schema,
            columns,
            conditions.collect(),
            limit,
            threads,
            &self.catalog,
        );
        Ok(Arc::new(scan))
    }
}
