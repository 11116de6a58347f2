//! Writes one row after the other in one format: JSON, newline-delimited JSON or CSV.
//!
//! A [`RowWriter`] prepares the bytes before each value, including the column's name, so that a row
//! costs only its values. Pure: it neither reads nor sends rows itself.

use std::borrow::Cow;

use super::format::Format;
use super::json;
use crate::query::table::Table;
use crate::report::layout::NumberKind;
use crate::value::Value;
use crate::value::digits::{self, LINE_BYTES, Line, Sink as _};

/// A source of rows.
pub(in crate::http) trait Cells {
    /// Writes a number, or gives the value that is none.
    fn put(&self, line: &mut Line<'_>, row: usize, column: usize) -> Put<'_>;

    /// The number of a row in its source.
    fn number(&self, row: usize) -> usize {
        row
    }
}

/// The fate of a value.
pub(in crate::http) enum Put<'a> {
    /// It is written.
    Done,
    /// It is a text.
    Text(Cow<'a, str>),
    /// It is a number, with these digits.
    Digits(String),
    /// There is none, or it is a number that JSON lacks.
    Nothing,
}

impl From<bool> for Put<'_> {
    fn from(is_written: bool) -> Self {
        if is_written { Self::Done } else { Self::Nothing }
    }
}

/// Some rows of a table, in this order.
pub(in crate::http) struct TableRows<'a> {
    table: &'a dyn Table,
    rows: &'a [usize],
    /// Numeric columns, read at once: what they have, and where they begin in `numbers`. One block
    /// for all: threads that write pieces would wait for each other in the allocator.
    columns: Vec<Option<(NumberKind, usize)>>,
    numbers: Vec<u64>,
}

impl Cells for TableRows<'_> {
    #[inline(always)]
    fn put(&self, line: &mut Line<'_>, row: usize, column: usize) -> Put<'_> {
        let number = self.columns[column].map(|(kind, start)| (kind, self.numbers[start + row]));
        match number {
            Some((NumberKind::Int, int)) => digits::int(line, int.cast_signed()),
            Some((NumberKind::Micros, us)) => digits::micros(line, us),
            Some((NumberKind::Float, bits)) => {
                return digits::float(line, f64::from_bits(bits)).into();
            }
            None => match self.table.value(self.number(row), column) {
                Value::Null => return Put::Nothing,
                Value::Int(number) => digits::int(line, number),
                Value::Micros(us) => digits::micros(line, us),
                Value::Float(number) => return digits::float(line, number).into(),
                Value::Text(text) => return Put::Text(text),
            },
        }
        Put::Done
    }

    fn number(&self, row: usize) -> usize {
        self.rows[row]
    }
}

/// Writes the value of a member that is not a column, for the row of that number.
pub(in crate::http) type Member = Box<dyn Fn(&mut Vec<u8>, usize) + Send + Sync>;

/// Writes rows of some columns in one format.
pub(in crate::http) struct RowWriter {
    pub(super) format: Format,
    /// The bytes before the rows: the array's bracket; in CSV the names of the columns.
    start: Vec<u8>,
    /// The columns to show, by number, with the bytes before each value.
    columns: Vec<(usize, Vec<u8>)>,
    /// The bytes before a last member, and its writer; unused in CSV.
    member: Option<(Vec<u8>, Member)>,
    /// The end of a JSON row.
    close: u8,
}

impl RowWriter {
    /// A writer for these columns, in order. Rows are objects by column names; in a single JSON
    /// document they are arrays unless `named`.
    pub(in crate::http) fn new<'a>(
        format: Format,
        named: bool,
        columns: impl IntoIterator<Item = (usize, &'a str)>,
    ) -> Self {
        let array = format == Format::Json && !named;
        let (open, close) = if array { (b'[', b']') } else { (b'{', b'}') };
        let mut start = if format == Format::Json { b"[".to_vec() } else { Vec::new() };
        let lead = |(at, (column, name)): (usize, (usize, &str))| {
            let mut lead = match (format, at) {
                (Format::Csv, 0) => Vec::new(),
                (_, 0) => vec![open],
                _ => vec![b','],
            };
            if format == Format::Csv {
                start.extend_from_slice(&lead);
                csv_text(&mut start, name);
            } else if !array {
                json::name(&mut lead, name);
            }
            (column, lead)
        };
        let columns = columns.into_iter().enumerate().map(lead).collect();
        if format == Format::Csv {
            start.extend_from_slice(b"\r\n");
        }
        Self { format, start, columns, member: None, close }
    }

    /// A writer for all columns of a table.
    pub(in crate::http) fn of_table(format: Format, table: &dyn Table) -> Self {
        let columns = table.columns().iter().enumerate();
        Self::new(format, true, columns.map(|(at, column)| (at, column.name.as_str())))
    }

    /// Adds a last member to each row.
    pub(in crate::http) fn with_member(mut self, name: &str, member: Member) -> Self {
        let mut lead = vec![if self.columns.is_empty() { b'{' } else { b',' }];
        json::name(&mut lead, name);
        self.member = Some((lead, member));
        self
    }

    /// These rows of a table, ready to be written.
    pub(in crate::http) fn rows<'a>(
        &self,
        table: &'a dyn Table,
        rows: &'a [usize],
    ) -> TableRows<'a> {
        let mut columns = vec![None; table.columns().len()];
        let mut numbers = Vec::with_capacity(self.columns.len() * rows.len());
        for column in self.columns() {
            let start = numbers.len();
            let kind = table.numbers(column, rows, &mut numbers);
            columns[column] = kind.map(|kind| (kind, start));
        }
        TableRows { table, rows, columns, numbers }
    }

    /// The columns to show, by number.
    pub(super) fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.columns.iter().map(|(column, _)| *column)
    }

    /// Writes the text before the rows: the array's bracket; in CSV the names of the columns.
    pub(in crate::http) fn start(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.start);
    }

    /// One row and what stands between it and the one before it; `first` of all rows has none.
    pub(in crate::http) fn row<C: Cells + ?Sized>(
        &self,
        out: &mut Vec<u8>,
        cells: &C,
        row: usize,
        first: bool,
    ) {
        if self.format == Format::Csv {
            self.cells(out, cells, row);
            out.extend_from_slice(b"\r\n");
            return;
        }
        if self.format == Format::Json {
            out.extend_from_slice(if first { b"\n" } else { b",\n" });
        }
        self.bare_row(out, cells, row);
        if self.format != Format::Json {
            out.push(b'\n');
        }
    }

    /// A row as JSON and nothing else.
    pub(in crate::http) fn bare_row<C: Cells + ?Sized>(
        &self,
        out: &mut Vec<u8>,
        cells: &C,
        row: usize,
    ) {
        self.cells(out, cells, row);
        if let Some((lead, member)) = &self.member {
            digits::few(out, lead);
            member(out, cells.number(row));
        }
        out.push(self.close);
    }

    /// The values of a row, each after its lead.
    #[inline(always)]
    fn cells<C: Cells + ?Sized>(&self, out: &mut Vec<u8>, cells: &C, row: usize) {
        let mut room = [0; LINE_BYTES];
        let mut line = Line::new(&mut room);
        for (column, lead) in &self.columns {
            if !line.fits(lead.len()) {
                line.flush(out);
            }
            match line.fits(lead.len()) {
                true => digits::few(&mut line, lead),
                false => out.extend_from_slice(lead),
            }
            match cells.put(&mut line, row, *column) {
                Put::Done => {}
                Put::Nothing if self.format == Format::Csv => {}
                Put::Nothing => line.short(*b"null", 4),
                Put::Digits(digits) => {
                    line.flush(out);
                    out.extend_from_slice(digits.as_bytes());
                }
                Put::Text(shown) if self.format == Format::Csv => {
                    line.flush(out);
                    csv_text(out, &shown);
                }
                Put::Text(shown) => {
                    if !json::plain(&mut line, &shown) {
                        line.flush(out);
                        json::text(out, &shown);
                    }
                }
            }
        }
        line.flush(out);
    }

    /// Writes what follows the rows: in JSON the array's bracket, and the end of the document.
    pub(in crate::http) fn end(&self, out: &mut Vec<u8>, empty: bool, document: &[u8]) {
        match self.format {
            Format::Json => out.extend_from_slice(if empty { b"]" } else { b"\n]" }),
            Format::Arrow => {}
            Format::Ndjson | Format::Csv | Format::Sse => return,
        }
        out.extend_from_slice(document);
    }
}

/// Writes a text of a CSV line, quoted where necessary, also for programs that split at semicolons
/// or tabs. Texts come from packets, and a spreadsheet treats one that begins like a formula as a
/// formula: it gets a leading apostrophe, which makes it a text there.
pub(in crate::http) fn csv_text(out: &mut Vec<u8>, text: &str) {
    let guard: &[u8] = if is_formula(text) { b"'" } else { b"" };
    let plain = |byte: u8| !matches!(byte, b'"' | b',' | b';' | b'\t' | b'\r' | b'\n');
    if !text.is_empty() && text.bytes().all(plain) && text.trim() == text {
        out.extend_from_slice(guard);
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    out.extend_from_slice(guard);
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// Whether a spreadsheet would treat a text as a formula; some also recognise full-width signs, or
/// formulas after white space. A plain number is not one.
fn is_formula(text: &str) -> bool {
    let begins = text
        .trim_start()
        .starts_with(['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']);
    begins && !text.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::table::Rows;
    use crate::value::{Column, ColumnType, Unit};

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
        let column = |name: &str| Column::new(name, ColumnType::Text, Unit::None);
        let table = Sample([column("the key"), column("time"), column("say \"n\"")]);
        let table: &dyn Table = &table;
        let names = ["the key", "time", "say \"n\""];
        let writer = RowWriter::new(format, true, columns.iter().map(|at| (*at, names[*at])));
        let mut out = Vec::new();
        writer.start(&mut out);
        for row in 0..table.len() {
            writer.row(&mut out, &writer.rows(table, &[0, 1]), row, row == 0);
        }
        writer.end(&mut out, false, b"");
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn members_stand_in_the_order_asked_for() {
        let expected = r#"[
{"the key":"a \"b\", c","time":1.5,"say \"n\"":null},
{"the key":"","time":null,"say \"n\"":null}
]"#;
        assert_eq!(written(Format::Json, &[0, 1, 2]), expected);
        assert_eq!(
            written(Format::Ndjson, &[1, 0]).lines().nth(1).unwrap(),
            r#"{"time":null,"the key":""}"#
        );
    }

    #[test]
    fn a_member_comes_last() {
        let table =
            Sample(["a", "b", "c"].map(|name| Column::new(name, ColumnType::Text, Unit::None)));
        let table: &dyn Table = &table;
        let writer = RowWriter::new(Format::Ndjson, true, [(1, "b")]);
        let writer = writer.with_member("row", Box::new(|out, row| digits::uint(out, row as u64)));
        let mut out = Vec::new();
        writer.row(&mut out, &writer.rows(table, &[1]), 0, true);
        assert_eq!(out, b"{\"b\":null,\"row\":1}\n");
    }

    /// Wherever the line in which it is written ends.
    #[test]
    fn rows_longer_than_a_line_are_whole() {
        let name = |at: usize| "n".repeat(at * 37 % 1500) + &at.to_string();
        let columns = (0..100).map(|at| Column::new(name(at), ColumnType::Text, Unit::None));
        let value = |at: usize| match at % 5 {
            0 => Value::Int(-7_i64.pow(at as u32 % 20)),
            1 => Value::Micros(11_u64.pow(at as u32 % 15)),
            2 => Value::Float(1e3 / (at + 1) as f64),
            3 => Value::Text("x".repeat(at * 53 % 1400).into()),
            _ => Value::Null,
        };
        let table = Rows { columns: columns.collect(), rows: vec![(0..100).map(value).collect()] };
        let written = |format| {
            let writer = RowWriter::of_table(format, &table);
            let mut out = Vec::new();
            writer.row(&mut out, &writer.rows(&table, &[0]), 0, true);
            String::from_utf8(out).unwrap()
        };
        let json: serde_json::Value = serde_json::from_str(&written(Format::Ndjson)).unwrap();
        let csv = written(Format::Csv);
        let mut fields = csv.trim_end().split(',');
        for at in 0..100 {
            let (read, field) = (&json[name(at)], fields.next().unwrap());
            match value(at) {
                Value::Null => assert!(read.is_null() && field.is_empty()),
                Value::Text(text) => {
                    assert_eq!(read.as_str(), Some(&*text));
                    assert_eq!(field, if text.is_empty() { "\"\"" } else { &text });
                }
                number => {
                    let number = number.number().unwrap();
                    assert_eq!(field.parse(), Ok(number));
                    assert_eq!(read.as_f64(), Some(number), "{read}");
                }
            }
        }
        assert_eq!(fields.next(), None);
    }

    #[test]
    fn csv_tells_null_from_empty() {
        let expected = "the key,time,\"say \"\"n\"\"\"\r\n\"a \"\"b\"\", c\",1.5,\r\n\"\",,\r\n";
        assert_eq!(written(Format::Csv, &[0, 1, 2]), expected);
        // As the manual says: readers may skip the last line.
        assert_eq!(written(Format::Csv, &[1]), "time\r\n1.5\r\n\r\n");
        assert_eq!(written(Format::Csv, &[0]), "the key\r\n\"a \"\"b\"\", c\"\r\n\"\"\r\n");
    }

    #[test]
    fn texts_of_packets_are_no_formulas_in_a_spreadsheet() {
        for (text, expected) in [
            ("=1+1", "'=1+1"),
            ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
            ("-", "'-"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("\t=1", "\"'\t=1\""),
            (" \r\n=1", "\"' \r\n=1\""),
            ("=a,\"b\"", "\"'=a,\"\"b\"\"\""),
            // Split at semicolons, the rest is not a formula either.
            ("a;=1", "\"a;=1\""),
            // Numbers, and signs elsewhere, stay as they are.
            ("-1.5", "-1.5"),
            ("+7", "+7"),
            ("-1e3", "-1e3"),
            ("-inf", "'-inf"),
            ("/a=b-c", "/a=b-c"),
            ("'=1", "'=1"),
        ] {
            let mut out = Vec::new();
            csv_text(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
