//! Database `information_schema`: metadata as tables that can be filtered, joined and sorted.
//!
//! Used by Grafana, JDBC, mysqldump and Pinboard's migrations. A table is built when a statement
//! that names it is planned, from the catalog at that time; the largest (`columns`) has a row for
//! each column of each report. Features that this server lacks (triggers, routines, views ...) have
//! tables without rows.

pub(super) mod describe;

use std::sync::{Arc, LazyLock};

use datafusion::catalog::TableProvider;
use datafusion::common::Result;

use self::describe::{ColumnInfo, TableInfo};
use super::cancellation;
use super::layout::{Layout, Layouts};
use super::performance_schema;
use super::session::Session;
use super::settings::SqlSettings;
use super::tables;
use super::variables;
use super::virtual_table::{Cell, VirtualTable, row};
use crate::query::catalog::Catalog;
use crate::query::question::ReportQuestion;
use crate::value::Value;

/// Its name.
pub(super) const DATABASE: &str = "information_schema";

/// The catalog name that MySQL shows in lists.
pub(super) const CATALOG: &str = "def";

/// The collation of all texts.
pub(super) const COLLATION: &str = "utf8mb4_general_ci";

/// Counters that clients expect of every server: those that never change here, and those that are
/// counters of the daemon.
const EXPECTED: &str = "Aborted_clients=0 Open_tables=0 Slow_queries=0 Threads_running=1 \
    Connections=Pinba_mysql_connections Queries=Pinba_mysql_statements \
    Questions=Pinba_mysql_statements Threads_connected=Pinba_mysql_connections_open";

/// Prefix of the names of SHOW's lists.
const LIST: &str = "SHOW ";

/// Its tables, and SHOW's lists.
pub(super) static LAYOUTS: LazyLock<Layouts> = LazyLock::new(|| {
    let text = |name: &str| match name.starts_with(LIST) {
        true => "varchar(192)",
        false => "varchar(512)",
    };
    Layouts::read(include_str!("layout.txt"), text)
});

/// A row of a table or list, with these values in the places where rows differ.
fn row_of(name: &str, values: Vec<Cell>) -> Vec<Cell> {
    LAYOUTS.named(name).map_or_else(Vec::new, |it| it.row_of(values))
}

/// The names of its tables.
pub(super) fn names() -> Vec<String> {
    let names = LAYOUTS.0.iter().map(|it| it.name);
    names.filter(|name| !name.starts_with(LIST)).map(str::to_owned).collect()
}

/// A list of SHOW, with its fixed rows.
pub(super) fn list(name: &str) -> VirtualTable {
    LAYOUTS.named(&format!("{LIST}{name}")).map(Layout::table).unwrap_or_default()
}

/// A table by name, in any case.
pub(super) fn table(
    catalog: &Catalog,
    settings: &SqlSettings,
    name: &str,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(layout) = LAYOUTS.named(name) else { return Ok(None) };
    let mut table = layout.table();
    table.rows.extend(rows(catalog, settings, layout.name));
    table.provider(layout.name).map(Some)
}

/// The variable rows of a table.
fn rows(catalog: &Catalog, settings: &SqlSettings, name: &str) -> Vec<Vec<Cell>> {
    let all = || described(catalog, tables::database_names(catalog));
    let of_pinba = || described(catalog, ["pinba"]);
    // Primary and unique keys, each with its table.
    let unique_keys = || {
        of_pinba().flat_map(|(_, table)| {
            let keys = table.keys.into_iter().filter(|key| key.kind != "MUL");
            keys.map(move |key| (table.name.clone(), key))
        })
    };
    let own = cancellation::current();
    let session = own.as_ref().map(|statement| &statement.session);
    match name {
        "SCHEMATA" => {
            tables::database_names(catalog).map(|database| row_of(name, row![database])).collect()
        }
        "TABLES" => {
            all().map(|(database, table)| describe::listed_row(database, table, 0)).collect()
        }
        "COLUMNS" => all()
            .flat_map(|(database, table)| {
                let columns = table.columns.into_iter().enumerate();
                columns.map(move |(at, column)| column_row(database, &table.name, at, &column))
            })
            .collect(),
        "STATISTICS" => of_pinba()
            .flat_map(|(_, table)| describe::index_rows(&table))
            .map(|mut shown| {
                // The key's database stands between its uniqueness and its name.
                shown.insert(2, "pinba".into());
                shown.splice(0..0, row![CATALOG, "pinba"]);
                shown
            })
            .collect(),
        "KEY_COLUMN_USAGE" => unique_keys()
            .map(|(table, key)| row_of(name, row![key.name(), table, key.column]))
            .collect(),
        "TABLE_CONSTRAINTS" => unique_keys()
            .map(|(table, key)| {
                let kind = match key.kind {
                    "PRI" => "PRIMARY KEY",
                    _ => "UNIQUE",
                };
                row![CATALOG, "pinba", key.name(), "pinba", table, kind]
            })
            .collect(),
        "PROCESSLIST" => session.into_iter().map(|of| row_of(name, connection(of))).collect(),
        "GLOBAL_STATUS" | "SESSION_STATUS" => in_capitals(status(catalog)),
        "GLOBAL_VARIABLES" => in_capitals(variables::all(None, settings)),
        "SESSION_VARIABLES" => in_capitals(variables::all(session, settings)),
        _ => Vec::new(),
    }
}

/// Number, user, host and database of a session.
pub(super) fn connection(session: &Session) -> Vec<Cell> {
    let (user, host) = session.user.split_once('@').unwrap_or((&session.user, ""));
    row![session.id, user, host, session.database.clone()]
}

/// The tables of these databases.
fn described(
    catalog: &Catalog,
    databases: impl IntoIterator<Item = &'static str>,
) -> impl Iterator<Item = (&'static str, TableInfo)> {
    databases.into_iter().flat_map(|database| {
        describe::tables(catalog, database).into_iter().map(move |table| (database, table))
    })
}

fn column_row(database: &str, table: &str, at: usize, column: &ColumnInfo) -> Vec<Cell> {
    let octets = column.length().map(|length| {
        // TEXT is declared in bytes, VARCHAR in characters of up to four.
        match column.data_type() {
            "varchar" => length * 4,
            _ => length,
        }
    });
    let (precision, scale) = match column.data_type() {
        "int" => (Some(10_i64), Some(0_i64)),
        "bigint" => (Some(19), Some(0)),
        "float" => (Some(12), None),
        "double" => (Some(22), None),
        _ => (None, None),
    };
    let is_text = column.length().is_some();
    let mut values = row![database, table, column.name.as_str(), at + 1];
    values.extend(row![
        column.default().or(column.nullable.then_some("NULL")),
        if column.nullable { "YES" } else { "NO" },
        column.data_type(),
    ]);
    values.extend(row![column.length(), octets, precision, scale]);
    values.extend(row![is_text.then_some("utf8mb4"), is_text.then_some(COLLATION)]);
    values.extend(row![column.column_type.as_str(), column.key]);
    row_of("COLUMNS", values)
}

fn in_capitals(pairs: Vec<(String, String)>) -> Vec<Vec<Cell>> {
    let pairs = pairs.into_iter();
    pairs.map(|(name, value)| row![name.to_uppercase(), value]).collect()
}

/// The content of SHOW STATUS: the daemon's counters, and the few that clients expect of every
/// server.
pub(super) fn status(catalog: &Catalog) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let stats = catalog.report("v2_stats", &ReportQuestion::default());
    if let Some(table) = stats.ok().map(|it| it.table).filter(|it| !it.is_empty()) {
        for (at, column) in table.columns().iter().enumerate() {
            let value = match table.value(0, at) {
                Value::Null => continue,
                Value::Int(value) => value.to_string(),
                Value::Micros(value) => format!("{:.6}", value as f64 / 1e6),
                Value::Float(value) => format!("{value:.6}"),
                Value::Text(text) => text.into_owned(),
            };
            if column.name == "uptime" {
                let whole = value.split('.').next().unwrap_or("0").to_owned();
                all.push(("Uptime".to_owned(), whole));
            }
            all.push((format!("Pinba_{}", column.name), value));
        }
    }
    for (name, value) in catalog.status() {
        let value = match value {
            serde_json::Value::Number(number) => number.to_string(),
            serde_json::Value::String(text) => text,
            _ => continue,
        };
        let name = format!("Pinba_{name}");
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, value));
        }
    }
    all.extend(performance_schema::status());
    for (name, value) in EXPECTED.split(' ').filter_map(|pair| pair.split_once('=')) {
        let own = all.iter().find(|(known, _)| known == value).map(|(_, value)| value.clone());
        all.push((name.to_owned(), own.unwrap_or_else(|| value.to_owned())));
    }
    all.sort();
    all
}
