//! Database `information_schema`: what there is, as tables that can be filtered, joined and sorted.
//!
//! Grafana, JDBC, mysqldump and Pinboard's migrations ask here. A table is made when a statement that names it is planned, from
//! the catalog as it is then; the largest (`columns`) has a row for each column of each report. What this server never has
//! (triggers, routines, views ...) are tables without rows.

pub(super) mod describe;
pub(super) mod layout;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::Result;

use self::describe::{ColumnInfo, KeyInfo, TableInfo, TableRow};
use super::settings::SqlSettings;
use super::tables::declared::origin_metadata;
use super::variables;
use super::virtual_table::{Cell, Kind, NULL, Sheet, row};
use crate::query::catalog::Catalog;
use crate::query::read_model::ReadModel;
use crate::value::Value;

/// Its name.
pub(super) const DATABASE: &str = "information_schema";

/// What MySQL calls the place of all databases, in lists.
const CATALOG: &str = "def";

/// The collation of all texts.
pub(super) const COLLATION: &str = "utf8mb4_general_ci";

/// Character sets: name, collation, description, bytes at most.
pub(super) const CHARSETS: [(&str, &str, &str, i64); 4] = [
    ("binary", "binary", "Binary pseudo charset", 1),
    ("latin1", "latin1_swedish_ci", "cp1252 West European", 1),
    ("utf8mb3", "utf8mb3_general_ci", "UTF-8 Unicode", 3),
    ("utf8mb4", "utf8mb4_general_ci", "UTF-8 Unicode", 4),
];

/// Collations: name, character set, number, default.
const COLLATIONS: [(&str, &str, i64, &str); 6] = [
    ("binary", "binary", 63, "Yes"),
    ("latin1_swedish_ci", "latin1", 8, "Yes"),
    ("utf8mb3_general_ci", "utf8mb3", 33, "Yes"),
    ("utf8mb4_general_ci", "utf8mb4", 45, "Yes"),
    ("utf8mb4_bin", "utf8mb4", 46, ""),
    ("utf8mb4_unicode_ci", "utf8mb4", 224, ""),
];

/// What the engine is.
const ENGINE_IS: &str = "Pinba: statistics of PHP's requests";

/// The one engine, as SHOW ENGINES lists it.
pub(super) fn engine_row() -> Vec<Cell> {
    row!["PINBA", "DEFAULT", ENGINE_IS, "NO", "NO", "NO"]
}

/// The collations, as SHOW COLLATION lists them.
pub(super) fn collation_rows() -> Vec<Vec<Cell>> {
    COLLATIONS
        .map(|(name, charset, number, default)| row![name, charset, number, default, "Yes", 1_i64])
        .into()
}

/// The database in its catalog.
#[derive(Debug, Clone)]
pub(super) struct InformationSchema {
    catalog: Arc<Catalog>,
    settings: SqlSettings,
}

impl InformationSchema {
    pub(super) fn new(catalog: Arc<Catalog>, settings: SqlSettings) -> Self {
        Self { catalog, settings }
    }

    fn sheet(&self, name: &str) -> Option<Sheet> {
        let mut sheet = layout::table(name)?;
        sheet.rows = self.rows(&name.to_ascii_uppercase());
        let width = sheet.columns.len();
        debug_assert!(sheet.rows.iter().all(|row| row.len() == width), "{name}");
        Some(sheet)
    }

    fn rows(&self, name: &str) -> Vec<Vec<Cell>> {
        match name {
            "SCHEMATA" => ["information_schema", "pinba"]
                .map(|database| row![CATALOG, database, "utf8mb4", COLLATION, NULL, ""])
                .into(),
            "TABLES" => self.tables(),
            "COLUMNS" => self.columns(),
            "STATISTICS" => self.statistics(),
            "KEY_COLUMN_USAGE" => self.key_columns(),
            "TABLE_CONSTRAINTS" => self.constraints(),
            "ENGINES" => vec![engine_row()],
            "PLUGINS" => vec![row![
                "PINBA",
                "1.0",
                "ACTIVE",
                "STORAGE ENGINE",
                "101114.0",
                NULL,
                NULL,
                "pinbad",
                ENGINE_IS,
                "MIT",
                "ON",
                "Stable",
                "1.0",
            ]],
            "CHARACTER_SETS" => CHARSETS
                .map(|(name, collation, about, bytes)| row![name, collation, about, bytes])
                .into(),
            "COLLATIONS" => collation_rows(),
            "COLLATION_CHARACTER_SET_APPLICABILITY" => COLLATIONS
                .map(|(name, charset, number, default)| row![name, charset, name, number, default])
                .into(),
            "GLOBAL_STATUS" | "SESSION_STATUS" => status(&self.catalog)
                .into_iter()
                .map(|(name, value)| row![name.to_uppercase(), value])
                .collect(),
            "GLOBAL_VARIABLES" | "SESSION_VARIABLES" => variables::all(None, &self.settings)
                .into_iter()
                .map(|(name, value)| row![name.to_uppercase(), value])
                .collect(),
            _ => Vec::new(),
        }
    }

    /// All tables of `pinba`, described.
    fn described(&self) -> Vec<TableInfo> {
        describe::all(&self.catalog)
    }

    fn tables(&self) -> Vec<Vec<Cell>> {
        let listed = |database: &str, kind: &str, table: TableRow| {
            let mut cells = row![CATALOG, database];
            cells.extend(table.cells(Some(kind)));
            cells
        };
        let own = layout::tables().map(|name| {
            let table = TableRow {
                name: name.to_owned(),
                engine: "MEMORY",
                version: 11,
                row_format: "Fixed",
                rows: 0,
                row_bytes: 0,
                comment: String::new(),
                temporary: true,
            };
            listed(DATABASE, "SYSTEM VIEW", table)
        });
        let ours = describe::listed(&self.catalog).into_iter();
        let ours = ours.map(|table| listed("pinba", "BASE TABLE", TableRow::of(table)));
        own.chain(ours).collect()
    }

    fn columns(&self) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        for name in layout::tables() {
            let sheet = layout::table(name).unwrap_or_default();
            for (at, (column, kind)) in sheet.columns.iter().enumerate() {
                let column = describe::of_kind(column, *kind);
                rows.push(column_row(DATABASE, name, at, &column));
            }
        }
        for table in self.described() {
            for (at, column) in table.columns.iter().enumerate() {
                rows.push(column_row("pinba", &table.name, at, column));
            }
        }
        rows
    }

    fn statistics(&self) -> Vec<Vec<Cell>> {
        let described = self.described();
        let indexed = described.iter().flat_map(describe::index_rows);
        indexed
            .map(|mut shown| {
                // The key has a database of its own, between its uniqueness and its name.
                shown.insert(2, "pinba".into());
                shown.splice(0..0, row![CATALOG, "pinba"]);
                shown
            })
            .collect()
    }

    /// The columns of primary and unique keys.
    fn key_columns(&self) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        self.unique_keys(|table, key| {
            for (at, (column, _)) in key.parts.iter().enumerate() {
                let mut cells = row![CATALOG, "pinba", key.name.as_str(), CATALOG, "pinba"];
                cells.extend(row![table, column.as_str(), at + 1, NULL, NULL, NULL, NULL]);
                rows.push(cells);
            }
        });
        rows
    }

    fn constraints(&self) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        self.unique_keys(|table, key| {
            let kind = match key.name.as_str() {
                "PRIMARY" => "PRIMARY KEY",
                _ => "UNIQUE",
            };
            let name = key.name.as_str();
            rows.push(row![CATALOG, "pinba", name, "pinba", table, kind]);
        });
        rows
    }

    fn unique_keys(&self, mut each: impl FnMut(&str, &KeyInfo)) {
        for table in self.described() {
            let keys = table.keys.iter().filter(|key| key.unique);
            keys.for_each(|key| each(&table.name, key));
        }
    }
}

fn column_row(database: &str, table: &str, at: usize, column: &ColumnInfo) -> Vec<Cell> {
    let octets = column.length.map(|length| {
        // TEXT is declared in bytes, VARCHAR in characters of up to four.
        match column.data_type.as_str() {
            "varchar" => length * 4,
            _ => length,
        }
    });
    let (precision, scale) = match column.data_type.as_str() {
        "int" => (Some(10_i64), Some(0_i64)),
        "bigint" => (Some(19), Some(0)),
        "float" => (Some(12), None),
        "double" => (Some(22), None),
        _ => (None, None),
    };
    let is_text = column.length.is_some();
    row![
        CATALOG,
        database,
        table,
        column.name.as_str(),
        at + 1,
        column
            .default
            .clone()
            .or_else(|| column.nullable.then(|| "NULL".to_owned())),
        if column.nullable { "YES" } else { "NO" },
        column.data_type.as_str(),
        column.length,
        octets,
        precision,
        scale,
        NULL,
        is_text.then_some("utf8mb4"),
        is_text.then_some(COLLATION),
        column.column_type.as_str(),
        column.key,
        "",
        "select",
        "",
        "NEVER",
        NULL,
    ]
}

/// What SHOW STATUS shows: the daemon's counters, and the few that clients ask every server for.
pub(super) fn status(catalog: &Catalog) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    if let Ok(answer) = catalog.report("v2_stats", None, &[]) {
        let table = answer.table;
        for (at, column) in table.columns().iter().enumerate() {
            let value = match (table.is_empty(), at) {
                (true, _) => continue,
                (false, at) => match table.value(0, at) {
                    Value::Null => continue,
                    Value::Int(value) => value.to_string(),
                    Value::Micros(value) => format!("{:.6}", value as f64 / 1e6),
                    Value::Float(value) => format!("{value:.6}"),
                    Value::Text(text) => text.into_owned(),
                },
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
    for (name, value) in [
        ("Aborted_clients", "0"),
        ("Connections", "1"),
        ("Open_tables", "0"),
        ("Queries", "0"),
        ("Questions", "0"),
        ("Slow_queries", "0"),
        ("Threads_connected", "1"),
        ("Threads_running", "1"),
    ] {
        all.push((name.to_owned(), value.to_owned()));
    }
    all.sort();
    all
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        layout::tables().map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(sheet) = self.sheet(name) else {
            return Ok(None);
        };
        let table = name.to_ascii_uppercase();
        let batch = sheet.batch(|column| {
            let kind = sheet.columns.iter().find(|(name, _)| name == column);
            let declared = kind.map_or(HashMap::new(), |(_, kind)| {
                origin_metadata(&table, column, type_name(*kind))
            });
            Field::new(column.to_lowercase(), DataType::Null, true).with_metadata(declared)
        })?;
        let provider = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
        Ok(Some(Arc::new(provider)))
    }

    fn table_exist(&self, name: &str) -> bool {
        layout::table(name).is_some()
    }
}

/// A kind as columns are declared.
fn type_name(kind: Kind) -> String {
    match kind {
        Kind::Int | Kind::UInt => "bigint".to_owned(),
        Kind::Text(length) => format!("varchar({length})"),
        Kind::Datetime => "datetime".to_owned(),
    }
}
