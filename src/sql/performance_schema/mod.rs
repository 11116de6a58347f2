//! Database `performance_schema`: what the daemon's instruments say, in MySQL's tables.
//!
//! A table is made when a statement that names it is planned. Sums of threads and over all threads that one statement names are
//! those of one moment. `setup_...` tables take UPDATE, events and sums TRUNCATE ([`change`]); nothing else is written.

pub(super) mod change;
pub(super) mod layout;
mod rows;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;

use super::cancellation;
use super::virtual_table::VirtualTable;
use crate::instruments::registry::registry;
use crate::instruments::sums::Summary;
use crate::instruments::{digests, thread};

/// Its name.
pub(super) const DATABASE: &str = "performance_schema";

/// The database in its catalog.
#[derive(Debug)]
pub(super) struct PerformanceSchema;

#[async_trait]
impl SchemaProvider for PerformanceSchema {
    fn table_names(&self) -> Vec<String> {
        let names = layout::tables().iter().map(|table| table.name.to_owned());
        names.collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(table) = layout::table(name) else {
            return Ok(None);
        };
        let summary = match cancellation::current() {
            Some(statement) => statement.summary(),
            None => Arc::new(Summary::read()),
        };
        let columns = table.columns.iter();
        let shown = VirtualTable {
            columns: columns
                .map(|column| (column.name.to_owned(), column.sql_type))
                .collect(),
            rows: rows::of(table, &summary),
        };
        shown.provider(table.name).map(Some)
    }

    fn table_exist(&self, name: &str) -> bool {
        layout::table(name).is_some()
    }
}

/// What SHOW STATUS says of what found no room.
pub(super) fn status() -> impl Iterator<Item = (String, String)> {
    let classes = registry().map(|it| it.lost()).unwrap_or_default();
    let classes = classes
        .into_iter()
        .map(|(class, lost)| (format!("{class}_classes"), lost));
    let others = [
        ("digest".to_owned(), digests::lost()),
        ("thread_instances".to_owned(), thread::lost()),
    ];
    let all = classes.chain(others);
    all.map(|(what, lost)| (format!("Performance_schema_{what}_lost"), lost.to_string()))
}
