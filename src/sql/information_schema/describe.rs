//! Tables described: columns, keys and comments, for DESCRIBE, SHOW and information_schema.
//!
//! How a table is declared says `report::ddl`, which also writes its CREATE TABLE statement.

use crate::query::catalog::Catalog;
use crate::report::ddl::{self, Key};
use crate::sql::information_schema::{CATALOG, COLLATION, DATABASE, layout};
use crate::sql::reply::SqlType;
use crate::sql::tables;
use crate::sql::virtual_table::{Cell, NULL, row};
use crate::value::ColumnType;

/// A column as it is declared.
#[derive(Debug)]
pub(in crate::sql) struct ColumnInfo {
    pub(in crate::sql) name: String,
    /// `varchar(64)`.
    pub(in crate::sql) column_type: String,
    /// `varchar`.
    pub(in crate::sql) data_type: String,
    /// Characters at most, of texts.
    pub(in crate::sql) length: Option<i64>,
    pub(in crate::sql) nullable: bool,
    pub(in crate::sql) default: Option<&'static str>,
    /// `PRI`, `UNI`, `MUL` or nothing.
    pub(in crate::sql) key: &'static str,
}

/// A table as it is declared.
#[derive(Debug)]
pub(in crate::sql) struct TableInfo {
    pub(in crate::sql) name: String,
    pub(in crate::sql) comment: String,
    /// About.
    pub(in crate::sql) rows: usize,
    pub(in crate::sql) columns: Vec<ColumnInfo>,
    pub(in crate::sql) keys: Vec<Key>,
    /// The statement, without a semicolon; none of a view.
    pub(in crate::sql) statement: Option<String>,
}

/// The tables of a database, by name.
pub(in crate::sql) fn tables(catalog: &Catalog, database: &str) -> Vec<TableInfo> {
    let names = match database {
        DATABASE => layout::tables().map(str::to_owned).collect(),
        _ => tables::names(catalog),
    };
    let tables = names
        .iter()
        .filter_map(|name| table(catalog, database, name));
    tables.collect()
}

/// A table of a database as `information_schema.tables` lists it. Bytes a row are what clients take for the cost of reading it.
pub(in crate::sql) fn listed_row(database: &str, table: TableInfo, row_bytes: usize) -> Vec<Cell> {
    let (kind, engine, version, row_format, temporary) = match database {
        DATABASE => ("SYSTEM VIEW", "MEMORY", 11_i64, "Fixed", "Y"),
        _ => ("BASE TABLE", "PINBA", 10, "Dynamic", "N"),
    };
    row![
        CATALOG,
        database,
        table.name,
        kind,
        engine,
        version,
        row_format,
        table.rows,
        row_bytes,
        table.rows.saturating_mul(row_bytes),
        0_i64,
        0_i64,
        0_i64,
        NULL,
        NULL,
        NULL,
        NULL,
        COLLATION,
        NULL,
        "",
        table.comment,
        0_i64,
        temporary,
    ]
}

/// The keys of a table as SHOW INDEX lists them.
pub(in crate::sql) fn index_rows(info: &TableInfo) -> Vec<Vec<Cell>> {
    let rows = info.keys.iter().map(|key| {
        let mut columns = info.columns.iter();
        let nullable = columns.any(|column| column.name == key.column && column.nullable);
        row![
            info.name.as_str(),
            i64::from(key.kind == "MUL"),
            key.name(),
            1_i64,
            key.column.as_str(),
            "A",
            NULL,
            key.part.map(i64::from),
            NULL,
            if nullable { "YES" } else { "" },
            "HASH",
            "",
            "",
            "NO",
        ]
    });
    rows.collect()
}

/// One table, described; `None` when there is none of that name.
pub(in crate::sql) fn table(catalog: &Catalog, database: &str, name: &str) -> Option<TableInfo> {
    if database == DATABASE {
        let columns = layout::table(name)?.columns.into_iter();
        return Some(TableInfo {
            name: name.to_uppercase(),
            comment: String::new(),
            rows: 0,
            columns: columns.map(|(name, of)| of_type(name, of)).collect(),
            keys: Vec::new(),
            statement: None,
        });
    }
    let name = tables::own_name(catalog, name)?;
    let (columns, rows) = tables::columns_and_rows(catalog, &name)?;
    let declared = catalog.create_table(&name);
    // One that Pinba never had.
    let table = declared.unwrap_or_else(|| ddl::plain(&name, columns, &[], &[]));
    let columns = table.columns.iter().map(|declared| {
        let column = &declared.column;
        let name = column.column_type.name();
        let key = table.keys.iter().find(|key| key.column == column.name);
        let (length, text_default) = match column.column_type {
            ColumnType::Varchar(length) => (Some(length.into()), Some("")),
            ColumnType::Text => (Some(65_535), None),
            _ => (None, None),
        };
        ColumnInfo {
            name: column.name.clone(),
            column_type: declared.type_name().into_owned(),
            data_type: name.split('(').next().unwrap_or_default().to_owned(),
            length,
            nullable: !declared.required,
            default: text_default.filter(|_| declared.required),
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

/// A column of information_schema, described.
fn of_type(name: String, sql_type: SqlType) -> ColumnInfo {
    let declared = sql_type.to_string();
    ColumnInfo {
        name,
        data_type: declared
            .split(['(', ' '])
            .next()
            .unwrap_or_default()
            .to_owned(),
        column_type: declared.replace("bigint", "bigint(21)"),
        length: match sql_type {
            SqlType::Varchar(length) => Some(length.into()),
            _ => None,
        },
        nullable: true,
        default: None,
        key: "",
    }
}
