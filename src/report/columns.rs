//! The columns of all tables, as `columns.txt` lists them: the contract that clients bind to.
//!
//! Read when a report is defined or the columns of a fixed table are asked for; the text is part of the program.

use super::definition::Defaults;
use crate::value::{Column, ColumnType};

static COLUMNS: &str = include_str!("columns.txt");

/// The lines of a table.
pub(super) fn lines(table: &str) -> impl Iterator<Item = Line> + use<> {
    let head = format!("[{table}]");
    let all = COLUMNS.lines().skip_while(move |line| *line != head);
    let of_table = all.skip(1).take_while(|line| !line.starts_with('['));
    of_table.filter_map(|line| {
        let mut words = line.split(' ').filter(|_| !line.starts_with('#'));
        Some(Line {
            name: words.next().filter(|name| !name.is_empty())?,
            column_type: words.next().unwrap_or_default(),
            source: words.next().unwrap_or_default(),
        })
    })
}

/// The columns of a table that is always there. Ids are 64-bit and declared lengths follow what texts are cut at.
pub(super) fn table(name: &str, defaults: &Defaults) -> Vec<Column> {
    let columns = lines(&format!("table {name}")).filter_map(|line| {
        Some(Column {
            name: line.name.to_owned(),
            column_type: line.column_type(defaults)?,
        })
    });
    columns.collect()
}

/// A line of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) name: &'static str,
    column_type: &'static str,
    /// What stands behind the type.
    pub(super) source: &'static str,
}

impl Line {
    /// The type of the column; `None` where the line has none.
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
