//! CREATE TABLE statements for every table, in Pinba's layout: what `pinbad tables` prints. And the same for a MariaDB that
//! stands in front and reads the tables here: [`federated_report`], [`federated_fixed`].
//!
//! The COMMENT carries the definition, so each statement makes the same report again, here or (for v1 and pinba2
//! kinds) in the engine it came from. A native report's COMMENT is its form as JSON. Pure; one statement a call.

use super::comment::FixedTable;
use super::definition::{Defaults, Definition, Kind, Level};
use super::form::ReportForm;
use crate::value::{Column, ColumnType};

/// The statement that makes this report's table.
#[must_use]
pub fn report(definition: &Definition) -> String {
    report_lines(definition).pinba()
}

/// The statement that makes this report's table in a MariaDB in front, which reads it at `server`
/// (`mysql://user@host:port/pinba`).
#[must_use]
pub fn federated_report(definition: &Definition, server: &str) -> String {
    report_lines(definition).federated(server)
}

/// The statement that makes this table under the name `name`.
#[must_use]
pub fn fixed(name: &str, table: FixedTable, defaults: &Defaults) -> String {
    fixed_lines(name, table, defaults).pinba()
}

/// The same in a MariaDB in front, as [`federated_report`].
#[must_use]
pub fn federated_fixed(name: &str, table: FixedTable, defaults: &Defaults, server: &str) -> String {
    let mut lines = fixed_lines(name, table, defaults);
    if table == FixedTable::Request {
        // Without a key of its own MariaDB fetches the whole table; the daemon needs none to answer these quickly.
        lines.0.extend([
            "KEY `server_host` (`server_name`, `hostname`)".to_owned(),
            "KEY `status` (`status`)".to_owned(),
        ]);
    }
    lines.federated(server)
}

fn report_lines(definition: &Definition) -> Lines {
    let columns: Vec<Column> = definition
        .shape
        .columns()
        .iter()
        .map(|column| column.column.clone())
        .collect();
    let leading = columns.first().map(|column| column.name.as_str());
    // Pinba's look-up keys: histogram views by index_value, tag reports by what stands before the tags.
    let key = match (definition.kind, leading) {
        _ if definition.shape.is_histogram_view() => Some(("index_value", "`index_value`(85)")),
        (Kind::Tag, Some("script_name")) => Some(("script_name", "")),
        (Kind::RequestTag, Some("hostname")) => Some(("hostname", "")),
        _ => None,
    };
    let keys: Vec<String> = key
        .iter()
        .map(|(name, on)| match on.is_empty() {
            true => format!("KEY `{name}` ({})", key_part(name, &columns)),
            false => format!("KEY `{name}` ({on})"),
        })
        .collect();
    let required: &[&str] = match key {
        Some(("hostname", _)) | None => &[],
        Some(("index_value", _)) if definition.level == Level::Packet => &[],
        Some(_) => &[leading.unwrap_or_default()],
    };
    let comment = definition
        .comment
        .clone()
        .unwrap_or_else(|| json_form(definition));
    lines(&definition.name, &columns, required, keys, &comment)
}

fn fixed_lines(name: &str, table: FixedTable, defaults: &Defaults) -> Lines {
    let columns = table.columns(defaults);
    let primary = || "PRIMARY KEY (`id`)".to_owned();
    let (required, keys): (&[&str], Vec<String>) = match table {
        FixedTable::Request => (&["id"], vec![primary()]),
        FixedTable::Timer => (
            &["id", "request_id"],
            vec![primary(), "KEY `request_id` (`request_id`)".to_owned()],
        ),
        FixedTable::TimerTag => (
            &["timer_id", "tag_id"],
            vec!["KEY `timer_id` (`timer_id`)".to_owned()],
        ),
        FixedTable::Tag => (
            &["id", "name"],
            vec![
                primary(),
                format!("UNIQUE KEY `name` ({})", key_part("name", &columns)),
            ],
        ),
        FixedTable::Status => (
            &[
                "current_temp_pool_size",
                "current_timer_pool_size",
                "lost_tmp_records",
                "invalid_packets",
                "invalid_request_data",
                "dictionary_size",
            ],
            Vec::new(),
        ),
        FixedTable::ActiveReports | FixedTable::V2Stats | FixedTable::V2Active => (&[], Vec::new()),
    };
    lines(name, &columns, required, keys, table.comment())
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

/// The lines of a statement: columns and keys, the table's name, and its COMMENT.
struct Lines(Vec<String>, String, String);

fn lines(
    table: &str,
    columns: &[Column],
    required: &[&str],
    keys: Vec<String>,
    comment: &str,
) -> Lines {
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
    Lines(lines, table.to_owned(), comment.to_owned())
}

impl Lines {
    fn pinba(&self) -> String {
        self.statement("PINBA", "COMMENT", &self.2)
    }

    fn federated(&self, server: &str) -> String {
        let connection = format!("{server}/{}", self.1);
        self.statement("FEDERATED", "CONNECTION", &connection)
    }

    fn statement(&self, engine: &str, option: &str, value: &str) -> String {
        let Self(lines, table, _) = self;
        format!(
            "CREATE TABLE `{}` (\n  {}\n) ENGINE={engine} DEFAULT CHARSET=utf8mb4 {option}='{}';",
            table.replace('`', "``"),
            lines.join(",\n  "),
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
