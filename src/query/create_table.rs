//! CREATE TABLE statements for every table, in Pinba's layout, as printed by `pinbad tables`. Also
//! for a MariaDB in front that reads the tables here: [`CreateTable::federated`].
//!
//! The COMMENT contains the definition, so each statement recreates the same report, here or (for
//! v1 and pinba2 kinds) in the engine it came from. A native report's COMMENT is its form as JSON.
//! Pure; one statement per call.

use std::borrow::Cow;

use crate::grammar::FixedTable;
use crate::grammar::native::ReportForm;
use crate::report::definition::{Defaults, Definition, Kind};
use crate::value::{Column, ColumnType};

/// A CREATE TABLE statement.
#[derive(Debug)]
pub struct CreateTable {
    /// The name of the table.
    pub name: String,
    /// Its COMMENT.
    pub comment: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its keys.
    pub keys: Vec<Key>,
    /// Keys without which MariaDB would fetch the whole table; the daemon does not need them to be
    /// fast.
    federated_keys: &'static [&'static str],
}

/// A key of one column.
#[derive(Debug)]
pub struct Key {
    /// `PRI`, `UNI` or `MUL`, as in information_schema.
    pub kind: &'static str,
    /// The column.
    pub column: String,
    /// Length of the key in characters, if it is a prefix.
    pub part: Option<u32>,
}

/// The table of a report.
pub fn report(definition: &Definition) -> CreateTable {
    let columns = definition.layout.columns().iter();
    let columns: Vec<Column> = columns.map(|column| column.column.clone()).collect();
    let leading = columns.first().map(|column| column.name.as_str());
    // Pinba's look-up keys: histogram views by index_value, tag reports by the columns before the
    // tags.
    let name = match (definition.kind, leading) {
        _ if definition.layout.is_histogram_view() => Some("index_value"),
        (Kind::Tag, Some("script_name")) => Some("script_name"),
        (Kind::RequestTag, Some("hostname")) => Some("hostname"),
        _ => None,
    };
    let keys: Vec<(&str, &str)> = name.map(|name| ("MUL", name)).into_iter().collect();
    let comment = definition.comment.clone();
    CreateTable {
        comment: comment.unwrap_or_else(|| form_text(&ReportForm::from(definition))),
        ..plain(&definition.name, columns, &keys)
    }
}

/// A fixed table, named `name`.
pub fn fixed(name: &str, table: FixedTable, defaults: &Defaults) -> CreateTable {
    CreateTable {
        comment: table.comment().to_owned(),
        federated_keys: match table {
            FixedTable::Request => {
                &["KEY `server_host` (`server_name`, `hostname`)", "KEY `status` (`status`)"]
            }
            _ => &[],
        },
        ..plain(name, table.columns(defaults), table.keys())
    }
}

/// A report over samples with these columns.
pub fn samples(name: &str, form: &ReportForm, columns: Vec<Column>) -> CreateTable {
    CreateTable { comment: form_text(form), ..plain(name, columns, &[]) }
}

/// A table with these columns and its keys.
fn plain(name: &str, mut columns: Vec<Column>, keys: &[(&'static str, &str)]) -> CreateTable {
    let too_wide = is_too_wide(&columns);
    // A text in a key: a prefix if the whole is too long (InnoDB: 3072 bytes).
    let of = |name: &str| columns.iter().find(|column| column.name == name);
    let part = |name: &str| match of(name)?.column_type {
        _ if name == "index_value" => Some(85),
        ColumnType::Varchar(768..) => Some(255),
        _ => None,
    };
    let key = |&(kind, column): &(&'static str, &str)| Key {
        kind,
        column: column.to_owned(),
        part: part(column),
    };
    let keys = keys.iter().map(key).collect();
    for column in columns.iter_mut().filter(|_| too_wide) {
        if matches!(column.column_type, ColumnType::Varchar(256..)) {
            column.column_type = ColumnType::Text;
        }
    }
    CreateTable {
        name: name.to_owned(),
        comment: name.to_owned(),
        keys,
        columns,
        federated_keys: &[],
    }
}

/// Whether the texts of a row must be declared as `text`: a row in MySQL has 65,535 bytes and
/// `varchar` counts fully.
fn is_too_wide(columns: &[Column]) -> bool {
    let bytes = columns.iter().map(|column| match column.column_type {
        ColumnType::Varchar(length) => u64::from(length) * 4 + 2,
        // A pointer, or a number.
        _ => 12,
    });
    bytes.sum::<u64>() > 65_000
}

/// A type with the size that Pinba declares: `int(11)`.
pub fn type_name(column_type: ColumnType) -> Cow<'static, str> {
    match column_type {
        ColumnType::Int => "int(11)".into(),
        ColumnType::BigInt => "bigint(20)".into(),
        other => other.name(),
    }
}

fn line(column: &Column) -> String {
    let null = match (column.nullable, column.column_type) {
        (true, ColumnType::Text) => "",
        (true, _) => " DEFAULT NULL",
        (false, ColumnType::Varchar(_)) => " NOT NULL DEFAULT ''",
        (false, _) => " NOT NULL",
    };
    let name = column.name.replace('`', "``");
    format!("`{name}` {}{null}", type_name(column.column_type))
}

impl Key {
    /// Its name.
    pub fn name(&self) -> &str {
        if self.kind == "PRI" { "PRIMARY" } else { &self.column }
    }

    fn line(&self) -> String {
        let column = &self.column;
        let part = self.part.map(|part| format!("({part})")).unwrap_or_default();
        match self.kind {
            "PRI" => format!("PRIMARY KEY (`{column}`{part})"),
            "UNI" => format!("UNIQUE KEY `{column}` (`{column}`{part})"),
            _ => format!("KEY `{column}` (`{column}`{part})"),
        }
    }
}

impl CreateTable {
    /// The statement for Pinba's server.
    pub fn pinba(&self) -> String {
        self.statement("PINBA", &[], "COMMENT", &self.comment)
    }

    /// The statement for a MariaDB in front, which reads the table at `server`
    /// (`mysql://user@host:port/pinba`).
    pub fn federated(&self, server: &str) -> String {
        let connection = format!("{server}/{}", self.name);
        self.statement("FEDERATED", self.federated_keys, "CONNECTION", &connection)
    }

    fn statement(&self, engine: &str, keys: &[&str], option: &str, value: &str) -> String {
        let columns = self.columns.iter().map(line);
        let own = self.keys.iter().map(Key::line);
        let more = keys.iter().map(|key| (*key).to_owned());
        let lines: Vec<String> = columns.chain(own).chain(more).collect();
        format!(
            "CREATE TABLE `{}` (\n  {}\n) ENGINE={engine} DEFAULT CHARSET=utf8mb4 {option}='{}';",
            self.name.replace('`', "``"),
            lines.join(",\n  "),
            value.replace('\\', "\\\\").replace('\'', "''")
        )
    }
}

/// A form as JSON, without its name.
fn form_text(form: &ReportForm) -> String {
    match serde_json::to_value(form) {
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
