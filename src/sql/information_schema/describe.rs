//! Tables described: columns, keys and comments, for DESCRIBE, SHOW and information_schema.
//!
//! `report::ddl` writes the CREATE TABLE statement of a table, the one place that says how it is declared; it is read back here,
//! line by line.

use crate::query::catalog::Catalog;
use crate::query::read_model::ReadModel;
use crate::sql::information_schema::{COLLATION, layout};
use crate::sql::tables;
use crate::sql::virtual_table::{Cell, Kind, NULL, row};
use crate::value::ColumnType;

/// A column as it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sql) struct ColumnInfo {
    pub(in crate::sql) name: String,
    /// `varchar(64)`.
    pub(in crate::sql) column_type: String,
    /// `varchar`.
    pub(in crate::sql) data_type: String,
    /// Characters at most, of texts.
    pub(in crate::sql) length: Option<i64>,
    pub(in crate::sql) nullable: bool,
    pub(in crate::sql) default: Option<String>,
    /// `PRI`, `UNI`, `MUL` or nothing.
    pub(in crate::sql) key: &'static str,
}

/// A key: what it is called, and the columns (or their first so many characters) in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sql) struct KeyInfo {
    pub(in crate::sql) name: String,
    pub(in crate::sql) unique: bool,
    pub(in crate::sql) parts: Vec<(String, Option<u32>)>,
}

/// A table as it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sql) struct TableInfo {
    pub(in crate::sql) name: String,
    pub(in crate::sql) columns: Vec<ColumnInfo>,
    pub(in crate::sql) keys: Vec<KeyInfo>,
    /// The statement, without a semicolon.
    pub(in crate::sql) statement: String,
}

/// A table as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sql) struct Listed {
    pub(in crate::sql) name: String,
    pub(in crate::sql) comment: String,
    pub(in crate::sql) rows: usize,
}

/// The tables of `pinba`, by name.
pub(in crate::sql) fn listed(catalog: &Catalog) -> Vec<Listed> {
    let raw = tables::raw_names().into_iter().map(|name| Listed {
        name: name.to_owned(),
        comment: name.to_owned(),
        rows: raw_rows(catalog, name),
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

/// A table as SHOW TABLE STATUS and `information_schema.tables` list it, from its name to its comment and what follows it.
pub(in crate::sql) struct TableRow {
    pub(in crate::sql) name: String,
    pub(in crate::sql) engine: &'static str,
    pub(in crate::sql) version: i64,
    pub(in crate::sql) row_format: &'static str,
    pub(in crate::sql) rows: usize,
    /// Bytes a row: what clients take for the cost of reading it.
    pub(in crate::sql) row_bytes: usize,
    pub(in crate::sql) comment: String,
    /// Whether it is one of this connection's only.
    pub(in crate::sql) temporary: bool,
}

impl TableRow {
    /// A table of `pinba`.
    pub(in crate::sql) fn of(table: Listed) -> Self {
        Self {
            name: table.name,
            engine: "PINBA",
            version: 10,
            row_format: "Dynamic",
            rows: table.rows,
            row_bytes: 0,
            comment: table.comment,
            temporary: false,
        }
    }

    /// Its values in MariaDB's order.
    pub(in crate::sql) fn cells(self, before_engine: Option<&str>) -> Vec<Cell> {
        let mut cells = row![self.name];
        cells.extend(before_engine.map(Cell::from));
        cells.extend(row![
            self.engine,
            self.version,
            self.row_format,
            self.rows,
            self.row_bytes,
            self.rows.saturating_mul(self.row_bytes),
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
            self.comment,
            0_i64,
            if self.temporary { "Y" } else { "N" },
        ]);
        cells
    }
}

/// The keys of a table as SHOW INDEX lists them: a row for each column of each.
pub(in crate::sql) fn index_rows(info: &TableInfo) -> Vec<Vec<Cell>> {
    let nullable = |name: &str| {
        let mut columns = info.columns.iter();
        columns.any(|column| column.name == name && column.nullable)
    };
    let mut rows = Vec::new();
    for key in &info.keys {
        for (at, (column, part)) in key.parts.iter().enumerate() {
            rows.push(row![
                info.name.as_str(),
                i64::from(!key.unique),
                key.name.as_str(),
                at + 1,
                column.as_str(),
                "A",
                NULL,
                part.map(i64::from),
                NULL,
                if nullable(column) { "YES" } else { "" },
                "HASH",
                "",
                "",
                "NO",
            ]);
        }
    }
    rows
}

/// How many rows a raw table has, about.
fn raw_rows(catalog: &Catalog, name: &str) -> usize {
    let live = catalog.live().read();
    match name {
        "request" | "request_tag" => live.pool.requests.len(),
        "tag" => live.pool.tag_sets.len(),
        _ => live.pool.timers.len(),
    }
}

/// One table as it is listed, without looking at the others; `None` when there is none of that name.
pub(in crate::sql) fn one(catalog: &Catalog, name: &str) -> Option<Listed> {
    let table = table(catalog, name)?;
    let rows = match tables::raw_names().contains(&table.name.as_str()) {
        true => raw_rows(catalog, &table.name),
        false => {
            let live = catalog.live().read();
            let entry = live.reports.find(&table.name);
            entry.map_or(1, |entry| live.reports.rows(entry))
        }
    };
    let comment = table.statement.rsplit_once(" COMMENT='");
    let comment = comment.map_or("", |(_, comment)| comment.trim_end_matches('\''));
    Some(Listed {
        comment: comment.replace("''", "'").replace("\\\\", "\\"),
        name: table.name,
        rows,
    })
}

/// All tables of `pinba`, described.
pub(super) fn all(catalog: &Catalog) -> Vec<TableInfo> {
    let listed = listed(catalog).into_iter();
    listed
        .filter_map(|listed| table(catalog, &listed.name))
        .collect()
}

/// One table, described; `None` when there is none of that name.
pub(in crate::sql) fn table(catalog: &Catalog, name: &str) -> Option<TableInfo> {
    let name = tables::own_name(catalog, name)?;
    let statement = match catalog.create_statement(&name) {
        Some(statement) => statement,
        None => plain_statement(catalog, &name)?,
    };
    let statement = statement.trim_end_matches(';').to_owned();
    let mut columns = Vec::new();
    let mut keys = Vec::new();
    for line in statement.lines().skip(1) {
        let Some(line) = line.strip_prefix("  ") else {
            break;
        };
        let line = line.trim_end_matches(',');
        match line.starts_with('`') {
            true => columns.extend(column(line)),
            false => keys.extend(key(line)),
        }
    }
    for key in &keys {
        let [first, ..] = key.parts.as_slice() else {
            continue;
        };
        let kind = match (key.name.as_str(), key.unique) {
            ("PRIMARY", _) => "PRI",
            (_, true) => "UNI",
            (_, false) => "MUL",
        };
        for column in columns.iter_mut().filter(|column| column.name == first.0) {
            column.key = kind;
        }
    }
    Some(TableInfo {
        name,
        columns,
        keys,
        statement,
    })
}

/// The statement of a table that Pinba never had.
fn plain_statement(catalog: &Catalog, name: &str) -> Option<String> {
    let columns = tables::raw_columns(name, catalog)?;
    let lines: Vec<String> = columns
        .iter()
        .map(|column| {
            let declared = match column.column_type {
                ColumnType::Int => "int(11)".into(),
                ColumnType::BigInt => "bigint(20)".into(),
                other => other.name(),
            };
            format!("  `{}` {declared} DEFAULT NULL", column.name)
        })
        .collect();
    Some(format!(
        "CREATE TABLE `{name}` (\n{}\n) ENGINE=PINBA DEFAULT CHARSET=utf8mb4 COMMENT='{name}'",
        lines.join(",\n")
    ))
}

/// The first thing in backticks, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text.strip_prefix('`')?;
    loop {
        let (piece, after) = rest.split_once('`')?;
        name.push_str(piece);
        match after.strip_prefix('`') {
            Some(more) => {
                name.push('`');
                rest = more;
            }
            None => return Some((name, after)),
        }
    }
}

fn column(line: &str) -> Option<ColumnInfo> {
    let (name, rest) = quoted(line)?;
    let mut words = rest.trim().splitn(2, ' ');
    let column_type = words.next()?.to_owned();
    let rest = words.next().unwrap_or("");
    let (data_type, size) = match column_type.split_once('(') {
        Some((data_type, size)) => (data_type, size.trim_end_matches(')').parse().ok()),
        None => (column_type.as_str(), None),
    };
    let length = match data_type {
        "varchar" => size,
        "text" => Some(65_535),
        _ => None,
    };
    Some(ColumnInfo {
        name,
        data_type: data_type.to_owned(),
        length,
        nullable: !rest.contains("NOT NULL"),
        default: rest.contains("DEFAULT ''").then(String::new),
        key: "",
        column_type,
    })
}

fn key(line: &str) -> Option<KeyInfo> {
    let (kind, rest) = line.split_once("KEY ")?;
    let (name, rest) = match kind.trim() {
        "PRIMARY" => ("PRIMARY".to_owned(), rest),
        _ => quoted(rest)?,
    };
    let mut rest = rest.trim().strip_prefix('(')?;
    let mut parts = Vec::new();
    while let Some((column, after)) = quoted(rest) {
        let (length, after) = match after.strip_prefix('(').and_then(|it| it.split_once(')')) {
            Some((length, after)) => (length.parse().ok(), after),
            None => (None, after),
        };
        parts.push((column, length));
        rest = after.trim_start_matches([',', ' ']);
    }
    Some(KeyInfo {
        name,
        unique: !kind.trim().is_empty(),
        parts,
    })
}

/// A table of information_schema, described.
pub(in crate::sql) fn view(name: &str) -> Option<TableInfo> {
    let columns = layout::table(name)?.columns;
    Some(TableInfo {
        name: name.to_uppercase(),
        statement: String::new(),
        columns: columns
            .iter()
            .map(|(name, kind)| of_kind(name, *kind))
            .collect(),
        keys: Vec::new(),
    })
}

/// A column of information_schema, described.
pub(in crate::sql) fn of_kind(name: &str, kind: Kind) -> ColumnInfo {
    let (column_type, data_type, length) = match kind {
        Kind::Int => ("bigint(21)".to_owned(), "bigint", None),
        Kind::UInt => ("bigint(21) unsigned".to_owned(), "bigint", None),
        Kind::Text(length) => (
            format!("varchar({length})"),
            "varchar",
            Some(i64::from(length)),
        ),
        Kind::Datetime => ("datetime".to_owned(), "datetime", None),
    };
    ColumnInfo {
        name: name.to_owned(),
        column_type,
        data_type: data_type.to_owned(),
        length,
        nullable: true,
        default: None,
        key: "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back() {
        let read = column("`a``b` varchar(64) NOT NULL DEFAULT ''").expect("a column");
        assert_eq!(
            (read.name.as_str(), read.length, read.nullable),
            ("a`b", Some(64), false)
        );
        assert_eq!(read.default.as_deref(), Some(""));
        let read = key("UNIQUE KEY `x` (`name`(255), `b`)").expect("a key");
        assert!(read.unique);
        assert_eq!(
            read.parts,
            [("name".to_owned(), Some(255)), ("b".to_owned(), None)]
        );
        assert_eq!(key("PRIMARY KEY (`id`)").expect("a key").name, "PRIMARY");
        assert!(!key("KEY `t` (`t`)").expect("a key").unique);
    }
}
