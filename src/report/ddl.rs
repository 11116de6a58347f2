//! CREATE TABLE statements for every table, in Pinba's layout: what `pinbad tables` prints. And the same for a MariaDB that
//! stands in front and reads the tables here: [`CreateTable::federated`].
//!
//! The COMMENT carries the definition, so each statement makes the same report again, here or (for v1 and pinba2
//! kinds) in the engine it came from. A native report's COMMENT is its form as JSON. Pure; one statement a call.

use super::comment::FixedTable;
use super::definition::{Defaults, Definition, Kind, Level};
use super::form::ReportForm;
use crate::value::{Column, ColumnType};

/// A statement that makes a table.
#[derive(Debug)]
pub struct CreateTable {
    name: String,
    comment: String,
    /// Columns and keys, a line each.
    lines: Vec<String>,
    /// Keys without which MariaDB would fetch the whole table; the daemon needs none to answer these quickly.
    federated_keys: &'static [&'static str],
}

/// The table of a report.
#[must_use]
pub fn report(definition: &Definition) -> CreateTable {
    let columns: Vec<Column> = definition
        .layout
        .columns()
        .iter()
        .map(|column| column.column.clone())
        .collect();
    let leading = columns.first().map(|column| column.name.as_str());
    // Pinba's look-up keys: histogram views by index_value, tag reports by what stands before the tags.
    let name = match (definition.kind, leading) {
        _ if definition.layout.is_histogram_view() => Some("index_value"),
        (Kind::Tag, Some("script_name")) => Some("script_name"),
        (Kind::RequestTag, Some("hostname")) => Some("hostname"),
        _ => None,
    };
    let key = name.map(|name| match name {
        "index_value" => "KEY `index_value` (`index_value`(85))".to_owned(),
        _ => format!("KEY `{name}` ({})", key_part(name, &columns)),
    });
    let required: &[&str] = match name {
        Some("hostname") | None => &[],
        Some("index_value") if definition.level == Level::Packet => &[],
        Some(_) => &[leading.unwrap_or_default()],
    };
    CreateTable {
        name: definition.name.clone(),
        comment: definition
            .comment
            .clone()
            .unwrap_or_else(|| json_form(definition)),
        lines: lines(&columns, required, key.into_iter().collect()),
        federated_keys: &[],
    }
}

/// A table that is always there, under the name `name`.
#[must_use]
pub fn fixed(name: &str, table: FixedTable, defaults: &Defaults) -> CreateTable {
    let columns = table.columns(defaults);
    let unique_name = format!("UNIQUE KEY `name` ({})", key_part("name", &columns));
    let keys: &[&str] = match table {
        FixedTable::Request => &["PRIMARY KEY (`id`)"],
        FixedTable::Timer => &["PRIMARY KEY (`id`)", "KEY `request_id` (`request_id`)"],
        FixedTable::TimerTag => &["KEY `timer_id` (`timer_id`)"],
        FixedTable::Tag => &["PRIMARY KEY (`id`)", &unique_name],
        _ => &[],
    };
    let keys = keys.iter().map(|key| (*key).to_owned());
    CreateTable {
        name: name.to_owned(),
        comment: table.comment().to_owned(),
        lines: lines(&columns, &table.required(), keys.collect()),
        federated_keys: match table {
            FixedTable::Request => &[
                "KEY `server_host` (`server_name`, `hostname`)",
                "KEY `status` (`status`)",
            ],
            _ => &[],
        },
    }
}

/// A text column in a key: its beginning where all of it is too long for one (InnoDB: 3072 bytes).
fn key_part(name: &str, columns: &[Column]) -> String {
    let long = columns.iter().any(|column| {
        column.name == name && matches!(column.column_type, ColumnType::Varchar(768..))
    });
    match long {
        true => format!("`{name}`(255)"),
        false => format!("`{name}`"),
    }
}

/// Whether the texts of a row must be declared as `text`: a row of MySQL's has 65,535 bytes and `varchar` counts fully.
fn is_too_wide(columns: &[Column]) -> bool {
    let bytes = columns.iter().map(|column| match column.column_type {
        ColumnType::Varchar(length) => u64::from(length) * 4 + 2,
        // A pointer, or a number.
        _ => 12,
    });
    bytes.sum::<u64>() > 65_000
}

/// The lines of columns and keys.
fn lines(columns: &[Column], required: &[&str], keys: Vec<String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::with_capacity(columns.len() + keys.len());
    let too_wide = is_too_wide(columns);
    for column in columns {
        let declared = match column.column_type {
            ColumnType::Varchar(256..) if too_wide => ColumnType::Text,
            declared => declared,
        };
        let column_type = match declared {
            ColumnType::Int => "int(11)".into(),
            ColumnType::BigInt => "bigint(20)".into(),
            other => other.name(),
        };
        let null = match (required.contains(&column.name.as_str()), declared) {
            (false, ColumnType::Text) => "",
            (false, _) => " DEFAULT NULL",
            (true, ColumnType::Varchar(_)) => " NOT NULL DEFAULT ''",
            (true, _) => " NOT NULL",
        };
        lines.push(format!(
            "`{}` {column_type}{null}",
            column.name.replace('`', "``")
        ));
    }
    lines.extend(keys);
    lines
}

impl CreateTable {
    /// The statement as Pinba's server takes it.
    #[must_use]
    pub fn pinba(&self) -> String {
        self.statement("PINBA", &[], "COMMENT", &self.comment)
    }

    /// The statement for a MariaDB in front, which reads the table at `server` (`mysql://user@host:port/pinba`).
    #[must_use]
    pub fn federated(&self, server: &str) -> String {
        let connection = format!("{server}/{}", self.name);
        self.statement("FEDERATED", self.federated_keys, "CONNECTION", &connection)
    }

    fn statement(&self, engine: &str, keys: &[&str], option: &str, value: &str) -> String {
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        format!(
            "CREATE TABLE `{}` (\n  {}\n) ENGINE={engine} DEFAULT CHARSET=utf8mb4 {option}='{}';",
            self.name.replace('`', "``"),
            [&lines, keys].concat().join(",\n  "),
            value.replace('\\', "\\\\").replace('\'', "''")
        )
    }
}

/// A native definition as JSON without its name.
fn json_form(definition: &Definition) -> String {
    match serde_json::to_value(ReportForm::from(definition)) {
        Ok(serde_json::Value::Object(mut form)) => {
            form.shift_remove("name");
            serde_json::Value::Object(form).to_string()
        }
        // A form has text keys and finite numbers only, so it is always an object.
        Ok(_) | Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests;
