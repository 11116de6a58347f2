//! The tables that statements can name, as DataFusion's catalog.
//!
//! Database `pinba` has the raw tables, the status tables and every report, looked up while
//! planning, so a new report is visible at once; `history` has the past of reports. Values are read
//! when the plan runs.

mod columns;
pub(super) mod declared;
mod filter;
pub(super) mod history;
mod owners;
mod ranges;
mod raw;
mod reader;
mod reports;
mod scan;
mod table;
mod texts;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, FieldRef, TimeUnit};
use datafusion::catalog::{
    CatalogProvider as _, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList,
    SchemaProvider, TableProvider,
};
use datafusion::common::{Result, TableReference};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};

pub(in crate::sql) use self::reports::CHOSEN_BY;
pub(super) use self::scan::with_number;
use self::table::Table;
pub(super) use self::table::brings_few;
use super::information_schema;
use super::performance_schema;
use super::reply::{SqlColumn, SqlType};
use super::settings::SqlSettings;
use crate::grammar::FixedTable;
use crate::merger::answering;
use crate::query::catalog::Catalog;

/// DataFusion's name for the catalog of all databases.
pub(crate) const CATALOG: &str = "def";

/// The database.
const DATABASE: &str = "pinba";

/// All databases.
///
/// # Errors
/// Errors of DataFusion.
pub(super) fn databases(
    catalog: &Arc<Catalog>,
    settings: &SqlSettings,
) -> Result<Arc<dyn CatalogProviderList>> {
    let databases = MemoryCatalogProvider::new();
    for name in database_names(catalog) {
        let (catalog, settings) = (Arc::clone(catalog), settings.clone());
        let database = Database { name, catalog, settings };
        databases.register_schema(name, Arc::new(database))?;
    }
    let all = MemoryCatalogProviderList::new();
    all.register_catalog(CATALOG.to_owned(), Arc::new(databases));
    Ok(Arc::new(all))
}

/// The names of all databases, in order.
pub(super) fn database_names(catalog: &Catalog) -> impl Iterator<Item = &'static str> + use<> {
    let history = catalog.has_history().then_some(history::DATABASE);
    let others = [information_schema::DATABASE, performance_schema::DATABASE, DATABASE];
    history.into_iter().chain(others)
}

/// A database in DataFusion's catalog.
#[derive(Debug)]
struct Database {
    name: &'static str,
    catalog: Arc<Catalog>,
    settings: SqlSettings,
}

#[async_trait]
impl SchemaProvider for Database {
    fn table_names(&self) -> Vec<String> {
        names(&self.catalog, self.name)
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.name {
            information_schema::DATABASE => {
                information_schema::table(&self.catalog, &self.settings, name)
            }
            performance_schema::DATABASE => performance_schema::table(name),
            history::DATABASE => history::table(&self.catalog, name),
            _ => {
                let table = Table::of_pinba(&self.catalog, name);
                Ok(table.map(|table| Arc::new(table) as Arc<dyn TableProvider>))
            }
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        let mut names = self.table_names().into_iter();
        names.any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// The names of all tables of a database, in order.
pub(super) fn names(catalog: &Catalog, database: &str) -> Vec<String> {
    match database {
        information_schema::DATABASE => information_schema::names(),
        performance_schema::DATABASE => performance_schema::names(),
        history::DATABASE => history::names(catalog),
        _ => {
            let reports = catalog.reports().into_iter().map(|report| report.name);
            let raw = FixedTable::RAW.map(FixedTable::name).into_iter();
            let raw = raw.filter(|name| catalog.columns_of(name).is_some());
            let mut names: Vec<String> = raw.map(str::to_owned).chain(reports).collect();
            names.sort();
            names
        }
    }
}

/// The exact name of a table whose name is written in another case.
pub(super) fn own_name(catalog: &Catalog, name: &str) -> Option<String> {
    let lower = name.to_lowercase();
    for name in [name, &lower] {
        if catalog.columns_of(name).is_some() {
            return Some(name.to_owned());
        }
    }
    let live = answering(&catalog.live);
    let mut names = live.reports.iter().map(|entry| &entry.definition.name);
    names.find(|own| own.to_lowercase() == lower).cloned()
}

/// The columns of a plan's answer.
pub(super) fn columns_of(plan: &LogicalPlan) -> Arc<[SqlColumn]> {
    let schema = plan.schema();
    schema
        .fields()
        .iter()
        .enumerate()
        .map(|(at, field)| column_of(table_of(plan, at), field))
        .collect()
}

/// The statement's name for the table behind a column of the answer, whatever the column's own
/// name.
fn table_of(plan: &LogicalPlan, at: usize) -> Option<&str> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let mut shown = projection.expr.get(at)?;
            while let Expr::Alias(alias) = shown {
                shown = &alias.expr;
            }
            let Expr::Column(column) = shown else { return None };
            let below = projection.input.schema().index_of_column(column).ok()?;
            table_of(&projection.input, below)
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => table_of(plan.inputs()[0], at),
        other => {
            let (qualifier, _) = other.schema().qualified_field(at);
            qualifier.map(TableReference::table)
        }
    }
}

/// A column of an answer, given the statement's name for its table.
pub(super) fn column_of(table: Option<&str>, field: &FieldRef) -> SqlColumn {
    let (origin, declared) = declared::declared(field).unzip();
    SqlColumn {
        name: field.name().clone(),
        origin,
        table: table.map(str::to_owned),
        sql_type: declared.unwrap_or_else(|| sql_type(field.data_type())),
        nullable: field.is_nullable(),
    }
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
        DataType::Timestamp(TimeUnit::Second, _) => SqlType::Datetime(0),
        DataType::Timestamp(..) => SqlType::Datetime(6),
        DataType::Date32 | DataType::Date64 => SqlType::Date,
        _ => SqlType::Text,
    }
}

#[cfg(test)]
mod tests;
