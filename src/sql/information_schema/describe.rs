//! Tables described: columns, keys and comments, for DESCRIBE, SHOW and information_schema.
//!
//! How a table is declared says `report::ddl`, which also writes its CREATE TABLE statement.

use crate::query::catalog::Catalog;
use crate::query::read_model::ReadModel;
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
    pub(in crate::sql) columns: Vec<ColumnInfo>,
    pub(in crate::sql) keys: Vec<Key>,
    /// The statement, without a semicolon.
    pub(in crate::sql) statement: String,
}

/// A table as it is listed.
#[derive(Debug)]
pub(in crate::sql) struct Listed {
    pub(in crate::sql) name: String,
    pub(in crate::sql) comment: String,
    pub(in crate::sql) rows: usize,
}

/// The tables of a database, by name.
pub(in crate::sql) fn listed(catalog: &Catalog, database: &str) -> Vec<Listed> {
    if database == DATABASE {
        let views = layout::tables().map(|name| Listed {
            name: name.to_owned(),
            comment: String::new(),
            rows: 0,
        });
        return views.collect();
    }
    let raw = tables::raw_names().into_iter().map(|name| Listed {
        name: name.to_owned(),
        comment: name.to_owned(),
        rows: tables::raw_table(name, catalog).map_or(0, |(_, rows)| rows),
    });
    let reports = catalog.reports().into_iter().map(|report| Listed {
        name: report.name,
        comment: report.comment.unwrap_or_default(),
        rows: usize::try_from(report.rows).unwrap_or(usize::MAX),
    });
    let mut all: Vec<_> = raw.chain(reports).collect();
    all.sort_by(|left, right| left.name.cmp(&right.name));
    all
}

/// A table of a database as `information_schema.tables` lists it. Bytes a row are what clients take for the cost of reading it.
pub(in crate::sql) fn listed_row(database: &str, table: Listed, row_bytes: usize) -> Vec<Cell> {
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

/// One table as it is listed, without looking at the others; `None` when there is none of that name.
pub(in crate::sql) fn one(catalog: &Catalog, name: &str) -> Option<Listed> {
    let table = table(catalog, name)?;
    let raw = tables::raw_table(&table.name, catalog);
    let (_, rows) = raw.or_else(|| catalog.columns_of(&table.name))?;
    Some(Listed {
        comment: table.comment,
        name: table.name,
        rows,
    })
}

/// All tables of `pinba`, described.
pub(super) fn all(catalog: &Catalog) -> Vec<TableInfo> {
    let listed = listed(catalog, "pinba").into_iter();
    listed
        .filter_map(|listed| table(catalog, &listed.name))
        .collect()
}

/// One table, described; `None` when there is none of that name.
pub(in crate::sql) fn table(catalog: &Catalog, name: &str) -> Option<TableInfo> {
    let name = tables::own_name(catalog, name)?;
    let table = match catalog.create_table(&name) {
        Some(table) => table,
        // One that Pinba never had.
        None => ddl::plain(&name, tables::raw_table(&name, catalog)?.0, &[], &[]),
    };
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
        columns: columns.collect(),
        statement: table.pinba().trim_end_matches(';').to_owned(),
        comment: table.comment,
        keys: table.keys,
    })
}

/// A table of information_schema, described.
pub(in crate::sql) fn view(name: &str) -> Option<TableInfo> {
    let columns = layout::table(name)?.columns.into_iter();
    Some(TableInfo {
        name: name.to_uppercase(),
        comment: String::new(),
        statement: String::new(),
        columns: columns.map(|(name, of)| of_type(name, of)).collect(),
        keys: Vec::new(),
    })
}

/// A column of information_schema, described.
pub(in crate::sql) fn of_type(name: String, sql_type: SqlType) -> ColumnInfo {
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
