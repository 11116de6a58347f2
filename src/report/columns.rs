//! The columns of all tables, as listed in `columns.txt`: the contract with clients.
//!
//! Parsed when a report is defined or the columns of a fixed table are requested; the text is
//! compiled in.

use super::definition::Defaults;
use crate::value::{Column, ColumnType, Unit};

static COLUMNS: &str = include_str!("columns.txt");

/// The lines of a table.
pub(super) fn lines(table: &str) -> impl Iterator<Item = Line> + use<> {
    let head = format!("[{table}]");
    let all = COLUMNS.lines().skip_while(move |line| *line != head);
    all.skip(1).take_while(|line| !line.starts_with('[')).filter_map(Line::read)
}

/// The columns of a fixed table. Ids are 64-bit and declared lengths follow the limits of texts.
pub(crate) fn table(name: &str, defaults: &Defaults) -> Vec<Column> {
    let columns = lines(&format!("table {name}")).filter_map(|line| {
        Some(Column {
            name: line.name.to_owned(),
            column_type: line.column_type(defaults)?,
            unit: line.unit.unwrap_or_default(),
            nullable: line.nullable,
        })
    });
    columns.collect()
}

/// A line of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) name: &'static str,
    column_type: &'static str,
    /// The source of a report column's values.
    pub(super) source: &'static str,
    /// The unit of its numbers, unless it follows from the source.
    pub(super) unit: Option<Unit>,
    nullable: bool,
}

impl Line {
    /// Parses a line; `None` for comments and empty ones.
    fn read(line: &'static str) -> Option<Self> {
        let mut words = line.split(' ').filter(|_| !line.starts_with('#'));
        let mut read = Self {
            name: words.next().filter(|name| !name.is_empty())?,
            column_type: words.next().unwrap_or_default(),
            source: "",
            unit: None,
            nullable: true,
        };
        for word in words {
            match Unit::named(word) {
                _ if word == "!" => read.nullable = false,
                None => read.source = word,
                unit => read.unit = unit,
            }
        }
        Some(read)
    }

    /// The type of the column; `None` if the line has none.
    pub(super) fn column_type(&self, defaults: &Defaults) -> Option<ColumnType> {
        Some(match self.column_type {
            "int" => ColumnType::Int,
            "bigint" => ColumnType::BigInt,
            "float" => ColumnType::Float,
            "double" => ColumnType::Double,
            "text" => ColumnType::Text,
            "name" => ColumnType::Varchar(defaults.text_bytes_max),
            "script" => ColumnType::Varchar(defaults.script_name_bytes_max),
            other => {
                let length = other.strip_prefix("varchar(")?.strip_suffix(')')?;
                ColumnType::Varchar(length.parse().ok()?)
            }
        })
    }
}
