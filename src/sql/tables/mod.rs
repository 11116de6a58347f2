//! The tables that statements can name, as DataFusion wants them.
//!
//! Database `pinba` has the raw tables, the tables in which the daemon speaks of itself, and every report, looked up when a
//! statement is planned, so a report that was made a moment ago is there. Values are taken when the plan runs.

mod condition;
mod declared;
mod listed;
mod ranges;
mod raw;
mod scan;
mod texts;
mod walk;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::LogicalPlan;

use self::listed::ListedTable;
pub(super) use self::listed::{Moment, needed};
use self::raw::{Raw, RawTable};
use super::reply::{SqlColumn, SqlType};
use crate::query::catalog::Catalog;
use crate::query::source::Source;

/// What DataFusion calls the place of all databases.
pub(crate) const CATALOG: &str = "def";

/// The database.
const DATABASE: &str = "pinba";

/// The database `pinba` in its catalog.
#[derive(Debug, Clone)]
pub(super) struct PinbaTables(Arc<Catalog>);

impl PinbaTables {
    pub(super) fn new(catalog: Arc<Catalog>) -> Self {
        Self(catalog)
    }
}

impl CatalogProviderList for PinbaTables {
    fn register_catalog(
        &self,
        _name: String,
        _catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG).then(|| Arc::new(self.clone()) as Arc<dyn CatalogProvider>)
    }
}

impl CatalogProvider for PinbaTables {
    fn schema_names(&self) -> Vec<String> {
        vec![DATABASE.to_owned()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        (name == DATABASE).then(|| Arc::new(self.clone()) as Arc<dyn SchemaProvider>)
    }
}

#[async_trait]
impl SchemaProvider for PinbaTables {
    fn table_names(&self) -> Vec<String> {
        let reports = self.0.reports().into_iter();
        let raw = Raw::ALL.map(|raw| raw.name().to_owned());
        raw.into_iter()
            .chain(reports.map(|report| report.name))
            .collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let catalog = Arc::clone(&self.0);
        if let Some(raw) = Raw::ALL.into_iter().find(|raw| raw.name() == name) {
            return Ok(Some(Arc::new(RawTable::new(raw, catalog))));
        }
        Ok(self.0.columns_of(name).map(|(columns, rows)| {
            let table = ListedTable::new(catalog, name.to_owned(), columns, rows);
            Arc::new(table) as Arc<dyn TableProvider>
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        Raw::ALL.iter().any(|raw| raw.name() == name) || self.0.columns_of(name).is_some()
    }
}

/// The columns of a plan's answer.
pub(super) fn columns_of(plan: &LogicalPlan) -> Arc<[SqlColumn]> {
    let schema = plan.schema();
    schema
        .iter()
        .map(|(qualifier, field)| {
            let declared = declared::declared(field);
            SqlColumn {
                name: field.name().clone(),
                origin: declared.map(|of| (of.table.to_owned(), of.column.to_owned())),
                table: qualifier.map(|table| table.table().to_owned()),
                sql_type: declared.map_or_else(|| sql_type(field.data_type()), |of| of.sql_type),
                nullable: field.is_nullable(),
            }
        })
        .collect()
}

fn sql_type(data_type: &DataType) -> SqlType {
    match data_type {
        DataType::Null => SqlType::Null,
        DataType::Boolean | DataType::Int8 | DataType::Int16 | DataType::Int32 => SqlType::Int,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::Int64 => SqlType::BigInt,
        DataType::UInt64 => SqlType::BigIntUnsigned,
        DataType::Float16 | DataType::Float32 => SqlType::Float,
        DataType::Float64 => SqlType::Double,
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => SqlType::Decimal(*digits, scale.unsigned_abs()),
        DataType::Timestamp(..) => SqlType::Datetime(0),
        DataType::Date32 | DataType::Date64 => SqlType::Date,
        DataType::Time32(_) | DataType::Time64(_) => SqlType::Time,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => SqlType::Binary,
        _ => SqlType::Text,
    }
}

#[cfg(test)]
mod tests;
