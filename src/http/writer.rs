//! Rows as bytes: JSON, newline-delimited JSON or CSV.
//!
//! A [`Writer`] knows the columns and has their names ready in the form in which they stand before each value, so that a
//! row costs its values and nothing else. It is pure: where the rows come from and how they are sent is not its
//! business (`answer.rs`).

use super::json::{self, Lead};
use crate::query::table::Table;
use crate::value::Value;

/// How rows are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// One object with the rows in an array.
    Json,
    /// An object a line, nothing else.
    Ndjson,
    /// A line of names, then a line a row (RFC 4180).
    Csv,
}

impl Format {
    /// As they are listed to a client.
    pub(super) const NAMES: [&str; 3] = ["json", "ndjson", "csv"];

    /// The format of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "ndjson" => Some(Self::Ndjson),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }

    /// The `content-type` it is sent with.
    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8; header=present",
        }
    }
}

/// Writes the value of a member that is no column, of the row of that number.
pub(super) type Member = Box<dyn Fn(&mut Vec<u8>, usize) + Send + Sync>;

/// Writes rows of one table in one format.
pub(super) struct Writer {
    format: Format,
    /// The columns to show, by number, each with what stands before its value.
    columns: Vec<(usize, Lead)>,
    /// What stands before a last member, and what writes it; CSV has no such thing.
    member: Option<(Lead, Member)>,
}

impl Writer {
    /// A writer for these columns of the table, in this order.
    pub(super) fn new(format: Format, table: &dyn Table, columns: &[usize]) -> Self {
        let all = table.columns();
        let lead = |at: usize, column: usize| {
            let mut lead = Vec::new();
            match format {
                Format::Json | Format::Ndjson => {
                    lead.push(if at == 0 { b'{' } else { b',' });
                    json::text(&mut lead, &all[column].name);
                    lead.push(b':');
                }
                Format::Csv if at == 0 => {}
                Format::Csv => lead.push(b','),
            }
            Lead::new(lead)
        };
        let columns = columns
            .iter()
            .enumerate()
            .map(|(at, column)| (*column, lead(at, *column)));
        Self {
            format,
            columns: columns.collect(),
            member: None,
        }
    }

    /// Adds a last member to each row.
    pub(super) fn with_member(mut self, name: &str, member: Member) -> Self {
        let mut lead = vec![if self.columns.is_empty() { b'{' } else { b',' }];
        json::text(&mut lead, name);
        lead.push(b':');
        self.member = Some((Lead::new(lead), member));
        self
    }

    /// The format.
    pub(super) const fn format(&self) -> Format {
        self.format
    }

    /// What comes before the rows; only CSV has such a thing of its own.
    pub(super) fn names(&self, out: &mut Vec<u8>, table: &dyn Table) {
        if self.format != Format::Csv {
            return;
        }
        for (column, lead) in &self.columns {
            lead.write(out);
            csv_text(out, &table.columns()[*column].name);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// One row, without what stands between rows.
    pub(super) fn row(&self, out: &mut Vec<u8>, table: &dyn Table, row: usize) {
        match self.format {
            Format::Json | Format::Ndjson => {
                for (column, lead) in &self.columns {
                    lead.write(out);
                    json::value(out, &table.value(row, *column));
                }
                if let Some((lead, member)) = &self.member {
                    lead.write(out);
                    member(out, row);
                }
                out.push(b'}');
            }
            Format::Csv => {
                for (column, lead) in &self.columns {
                    lead.write(out);
                    csv_value(out, &table.value(row, *column));
                }
            }
        }
    }

    /// What stands between two rows, or after each (`last`).
    pub(super) const fn line_end(&self, last: bool) -> &'static [u8] {
        match self.format {
            Format::Json if last => b"\n",
            Format::Json => b",\n",
            Format::Ndjson => b"\n",
            Format::Csv => b"\r\n",
        }
    }
}

/// A value of a CSV line: NULL is an empty field, an empty text is two quotes.
fn csv_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Text(text) => csv_text(out, text),
        Value::Null => {}
        Value::Float(number) if !number.is_finite() => {}
        number => json::value(out, number),
    }
}

/// A text of a CSV line, in quotes where it needs them.
pub(super) fn csv_text(out: &mut Vec<u8>, text: &str) {
    let plain = |byte: u8| !matches!(byte, b'"' | b',' | b'\r' | b'\n');
    if !text.is_empty() && text.bytes().all(plain) && text.trim() == text {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Column, ColumnType};

    struct Sample([Column; 3]);

    impl Table for Sample {
        fn columns(&self) -> &[Column] {
            &self.0
        }

        fn len(&self) -> usize {
            2
        }

        fn value(&self, row: usize, column: usize) -> Value<'_> {
            match (row, column) {
                (0, 0) => Value::Text("a \"b\", c".into()),
                (0, 1) => Value::Micros(1_500_000),
                (1, 0) => Value::Text("".into()),
                _ => Value::Null,
            }
        }
    }

    fn written(format: Format, columns: &[usize]) -> String {
        let column = |name: &str| Column {
            name: name.into(),
            column_type: ColumnType::Text,
        };
        let table = Sample([column("the key"), column("time"), column("say \"n\"")]);
        let writer = Writer::new(format, &table, columns);
        let mut out = Vec::new();
        writer.names(&mut out, &table);
        for row in 0..table.len() {
            writer.row(&mut out, &table, row);
            out.extend_from_slice(writer.line_end(row == 1));
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn members_stand_in_the_order_asked_for() {
        let expected = r#"{"the key":"a \"b\", c","time":1.5,"say \"n\"":null},
{"the key":"","time":null,"say \"n\"":null}
"#;
        assert_eq!(written(Format::Json, &[0, 1, 2]), expected);
        assert_eq!(
            written(Format::Ndjson, &[1, 0]).lines().nth(1).unwrap(),
            r#"{"time":null,"the key":""}"#
        );
    }

    #[test]
    fn a_member_comes_last() {
        let table = Sample(["a", "b", "c"].map(|name| Column {
            name: name.into(),
            column_type: ColumnType::Text,
        }));
        let writer = Writer::new(Format::Ndjson, &table, &[1]);
        let writer = writer.with_member("row", Box::new(|out, row| json::uint(out, row as u64)));
        let mut out = Vec::new();
        writer.row(&mut out, &table, 1);
        assert_eq!(out, br#"{"b":null,"row":1}"#);
    }

    #[test]
    fn csv_tells_null_from_empty() {
        let expected = "the key,time,\"say \"\"n\"\"\"\r\n\"a \"\"b\"\", c\",1.5,\r\n\"\",,\r\n";
        assert_eq!(written(Format::Csv, &[0, 1, 2]), expected);
    }
}
