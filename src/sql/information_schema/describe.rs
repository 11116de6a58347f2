//! Descriptions of tables: columns, keys and comments, for DESCRIBE, SHOW and information_schema.
//!
//! The declaration of a table comes from `query::create_table`, which also writes its statement.

use crate::query::catalog::Catalog;
use crate::query::create_table::{self, Key};
use crate::sql::information_schema::{DATABASE, LAYOUTS, row_of};
use crate::sql::performance_schema;
use crate::sql::tables::{self, history};
use crate::sql::virtual_table::{Cell, row};

/// A column as declared.
#[derive(Debug)]
pub(in crate::sql) struct ColumnInfo {
    pub(in crate::sql) name: String,
    /// `varchar(64)`.
    pub(in crate::sql) column_type: String,
    pub(in crate::sql) nullable: bool,
    /// `PRI`, `UNI`, `MUL` or nothing.
    pub(in crate::sql) key: &'static str,
}

impl ColumnInfo {
    /// `varchar`.
    pub(in crate::sql) fn data_type(&self) -> &str {
        let mut words = self.column_type.split(['(', ' ']);
        words.next().unwrap_or_default()
    }

    /// Largest length of texts, in characters.
    pub(in crate::sql) fn length(&self) -> Option<i64> {
        match self.data_type() {
            "text" => Some(65_535),
            "varchar" => self.column_type.split(['(', ')']).nth(1)?.parse().ok(),
            _ => None,
        }
    }

    pub(in crate::sql) fn default(&self) -> Option<&'static str> {
        (!self.nullable && self.data_type() == "varchar").then_some("")
    }
}

/// A table as declared.
#[derive(Debug, Default)]
pub(in crate::sql) struct TableInfo {
    pub(in crate::sql) name: String,
    pub(in crate::sql) comment: String,
    /// Approximate number of rows.
    pub(in crate::sql) rows: usize,
    pub(in crate::sql) columns: Vec<ColumnInfo>,
    pub(in crate::sql) keys: Vec<Key>,
    /// The CREATE statement, without a semicolon; `None` for a view.
    pub(in crate::sql) statement: Option<String>,
}

/// The tables of a database, by name.
pub(in crate::sql) fn tables(catalog: &Catalog, database: &str) -> Vec<TableInfo> {
    let names = tables::names(catalog, database);
    names.iter().filter_map(|name| table(catalog, database, name)).collect()
}

/// The row of `information_schema.tables` for a table. Clients take bytes per row for the cost of
/// reading it.
pub(in crate::sql) fn listed_row(database: &str, table: TableInfo, row_bytes: usize) -> Vec<Cell> {
    let (kind, temporary) = match database {
        DATABASE => (row!["SYSTEM VIEW", "MEMORY", 11_i64, "Fixed"], "Y"),
        performance_schema::DATABASE => {
            (row!["BASE TABLE", "PERFORMANCE_SCHEMA", 10_i64, "Fixed"], "N")
        }
        _ => (row!["BASE TABLE", "PINBA", 10_i64, "Dynamic"], "N"),
    };
    let (rows, bytes) = (table.rows, table.rows.saturating_mul(row_bytes));
    let size = row![rows, row_bytes, bytes, table.comment, temporary];
    let values = [row![database, table.name], kind, size].concat();
    row_of("TABLES", values)
}

/// The keys of a table, as in SHOW INDEX.
pub(in crate::sql) fn index_rows(info: &TableInfo) -> Vec<Vec<Cell>> {
    let rows = info.keys.iter().map(|key| {
        let mut columns = info.columns.iter();
        let nullable = columns.any(|column| column.name == key.column && column.nullable);
        let mut values = row![info.name.as_str(), i64::from(key.kind == "MUL"), key.name()];
        values.extend(row![key.column.as_str(), key.part.map(i64::from)]);
        values.extend(row![if nullable { "YES" } else { "" }]);
        row_of("SHOW INDEX", values)
    });
    rows.collect()
}

/// Describes one table; `None` if it does not exist.
pub(in crate::sql) fn table(catalog: &Catalog, database: &str, name: &str) -> Option<TableInfo> {
    match database {
        DATABASE => return of_view(name),
        history::DATABASE => return of_history(catalog, name),
        performance_schema::DATABASE => return of_instruments(name),
        _ => {}
    }
    let name = tables::own_name(catalog, name)?;
    let (_, rows) = catalog.columns_of(&name)?;
    let table = catalog.create_table(&name)?;
    let columns = table.columns.iter().map(|column| {
        let name = &column.name;
        let key = table.keys.iter().find(|key| key.column == *name);
        ColumnInfo {
            name: name.clone(),
            column_type: create_table::type_name(column.column_type).into_owned(),
            nullable: column.nullable,
            key: key.map_or("", |key| key.kind),
        }
    });
    Some(TableInfo {
        name,
        rows,
        columns: columns.collect(),
        statement: Some(table.pinba().trim_end_matches(';').to_owned()),
        comment: table.comment,
        keys: table.keys,
    })
}

/// Describes a view.
fn of_view(name: &str) -> Option<TableInfo> {
    let columns = LAYOUTS.named(name)?.table().columns.into_iter();
    let columns =
        columns.map(|(name, of)| (name, of.to_string().replace("bigint", "bigint(21)"), true));
    Some(declared(name.to_uppercase(), columns, None))
}

/// Describes a table of instruments.
fn of_instruments(name: &str) -> Option<TableInfo> {
    let table = performance_schema::LAYOUTS.named(name)?;
    let columns = table.columns.iter();
    let columns = columns.map(|it| (it.name.to_owned(), it.declared.to_owned(), !it.required));
    Some(declared(table.name.to_owned(), columns, Some("PERFORMANCE_SCHEMA")))
}

/// A table without keys, of columns by name, type and whether they may be NULL; for an engine with
/// a statement as it might be created by.
fn declared(
    name: String,
    columns: impl Iterator<Item = (String, String, bool)>,
    engine: Option<&str>,
) -> TableInfo {
    let columns = columns.map(|(name, column_type, nullable)| ColumnInfo {
        name,
        column_type,
        nullable,
        key: "",
    });
    let columns: Vec<ColumnInfo> = columns.collect();
    let lines = columns.iter().map(|column| {
        let null = if column.nullable { "DEFAULT NULL" } else { "NOT NULL" };
        format!("  `{}` {} {null}", column.name, column.column_type)
    });
    let lines = lines.collect::<Vec<_>>().join(",\n");
    let statement = engine.map(|engine| {
        format!("CREATE TABLE `{name}` (\n{lines}\n) ENGINE={engine} DEFAULT CHARSET=utf8mb4")
    });
    TableInfo { name, columns, statement, ..TableInfo::default() }
}

/// Describes a table of history.
fn of_history(catalog: &Catalog, name: &str) -> Option<TableInfo> {
    let schema = history::view(catalog, name)?.schema;
    let columns = schema.fields().iter().map(|field| {
        (field.name().clone(), tables::column_of(None, field).sql_type.to_string(), true)
    });
    Some(declared(name.to_lowercase(), columns, Some("PINBA")))
}
