//! `pinbad query`: sends statements to a running daemon and prints rows as they arrive.
//!
//! Called by `main`, on its thread. Prints a table on a terminal, CSV into a file or pipe, or
//! whatever the flag says; all but the table reaches a file or pipe as the daemon sends it.
//! Statements run one after the other, each in its own session, until one fails. Column widths of a
//! table come from its first `WIDTH_ROWS` rows; on a terminal names are shown, never executed
//! ([`format`](mod@crate::cli::format)), in every format. A truncated answer is an error.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use clap::{Args as FlagGroup, ValueEnum};
use serde::Deserialize;
use serde_json::Value as Json;

use super::lexer::statements;
use crate::cli::client::{Client, ClientFlags};
use crate::cli::{Failure, format};

/// Rows that determine the widths of a table.
const WIDTH_ROWS: usize = 1_000;

/// Largest width of a column.
const WIDTH_MAX: usize = 100;

/// Longest text read from stdin, in bytes.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// The flags of `query`.
#[derive(Debug, Clone, FlagGroup)]
pub struct QueryFlags {
    /// Which daemon.
    #[command(flatten)]
    pub client: ClientFlags,
    /// The statement, or several with `;` between them; `-` reads them from stdin.
    pub statement: String,
    /// How the rows are shown [default: table on a terminal, csv elsewhere].
    #[arg(long, short, value_enum)]
    pub format: Option<Format>,
}

/// How rows are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns; an empty line between results.
    Table,
    /// A line of names, then a line a row; an empty line between results.
    Csv,
    /// One object a result: columns and rows.
    Json,
    /// An object a row, a line each.
    Ndjson,
    /// An Arrow IPC stream a result.
    Arrow,
}

/// Runs the statements and prints each answer to `out`, until one fails.
///
/// # Errors
/// Fails if there is no daemon, a statement fails, or an answer breaks off.
pub fn execute(
    flags: &QueryFlags,
    terminal: bool,
    stdin: impl Read,
    out: impl Write,
) -> Result<(), Failure> {
    let client = Client::at(&flags.client.url, &flags.client.access)?;
    let default = if terminal { Format::Table } else { Format::Csv };
    let format = flags.format.unwrap_or(default);
    if terminal && format == Format::Arrow {
        let problem = "--format arrow: stdout is a terminal; accepted: a file or a pipe";
        return Err(Failure::usage(problem));
    }
    let text = match flags.statement.as_str() {
        "-" => read_all(stdin)?,
        text => text.to_owned(),
    };
    let mut statements = statements(&text);
    if statements.is_empty() {
        // Sent all the same: the daemon reports that there is no statement.
        statements.push(&text);
    }
    let mut out = BufWriter::new(out);
    for (at, statement) in statements.iter().enumerate() {
        if at > 0 && matches!(format, Format::Table | Format::Csv) {
            writeln!(out).map_err(Failure::write)?;
        }
        let printed = run(&client, statement, format, terminal, &mut out);
        let printed = printed.and_then(|()| out.flush().map_err(Failure::write));
        if let Err(mut failure) = printed {
            if statements.len() > 1 {
                for problem in &mut failure.problems {
                    problem.insert_str(0, &format!("statement {}: ", at + 1));
                }
            }
            return Err(failure);
        }
    }
    Ok(())
}

/// Reads the statements of stdin to their end.
fn read_all(stdin: impl Read) -> Result<String, Failure> {
    let unreadable =
        |why: &dyn Display| Failure::failed(format!("cannot read the statements: {why}"));
    let mut text = Vec::new();
    let read = stdin.take(TEXT_BYTES_MAX + 1).read_to_end(&mut text);
    match read.map_err(|error| unreadable(&error))? as u64 > TEXT_BYTES_MAX {
        true => Err(unreadable(&format!("longer than {} MiB", TEXT_BYTES_MAX >> 20))),
        false => String::from_utf8(text).map_err(|error| unreadable(&error)),
    }
}

/// Runs one statement and prints its answer.
fn run(
    client: &Client,
    statement: &str,
    format: Format,
    terminal: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let name = match format {
        Format::Table | Format::Json => "json",
        Format::Csv => "csv",
        Format::Ndjson => "ndjson",
        Format::Arrow => "arrow",
    };
    let body = serde_json::json!({ "query": statement });
    let answer = client.stream(&format!("/api/v1/sql?format={name}"), Some(&body))?;
    match format {
        Format::Table => print_table(BufReader::new(answer), out),
        _ if terminal => show_lines(BufReader::new(answer), format::visible_json, out),
        Format::Csv => {
            let mut answer = BufReader::new(answer);
            let begin = answer.fill_buf().map_err(|error| unreadable(&error))?;
            // The outcome of a statement without rows, in JSON: a line of names begins otherwise.
            match begin.starts_with(b"{\"columns\":[]") {
                true => Ok(()),
                false if terminal => show_lines(answer, format::visible, out),
                false => pass_on(answer, out),
            }
        }
        _ => pass_on(answer, out),
    }
}

fn broken_off(why: &str) -> Failure {
    Failure::failed(format!("the answer ended early{why}; the daemon's log says why"))
}

fn unreadable(error: &io::Error) -> Failure {
    broken_off(&format!(" ({error})"))
}

fn pass_on(mut answer: impl Read, out: &mut impl Write) -> Result<(), Failure> {
    let mut piece = vec![0; 64 << 10];
    loop {
        match answer.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(read) => out.write_all(&piece[..read]).map_err(Failure::write)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(&error)),
        }
    }
}

/// Copies lines to a terminal with control characters escaped, except line ends.
fn show_lines(
    mut answer: impl BufRead,
    show: impl Fn(&str) -> Cow<'_, str>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = answer.read_until(b'\n', &mut line);
        if read.map_err(|error| unreadable(&error))? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line);
        let bare = text.strip_suffix('\n').unwrap_or(&text);
        let bare = bare.strip_suffix('\r').unwrap_or(bare);
        let end = if text.ends_with('\n') { "\n" } else { "" };
        write!(out, "{}{end}", show(bare)).map_err(Failure::write)?;
    }
}

/// The first line of an answer that has rows.
#[derive(Deserialize)]
struct Head {
    columns: Vec<Column>,
}

/// A column of the table being printed.
#[derive(Deserialize)]
struct Column {
    name: String,
    #[serde(rename = "type")]
    sql_type: String,
    #[serde(skip)]
    width: usize,
}

/// Relies on one thing beyond JSON: the daemon sends a row per line.
fn print_table(answer: impl BufRead, out: &mut impl Write) -> Result<(), Failure> {
    let missing = || broken_off("");
    let mut lines = answer.lines();
    let mut next = || match lines.next() {
        Some(line) => line.map_err(|error| unreadable(&error)),
        None => Err(missing()),
    };
    // `{"columns":[..],"rows":[` with each row on its own line; or everything at once, if there are
    // no rows.
    let head = next()?;
    if let Ok(done) = serde_json::from_str::<Json>(&head) {
        if done.get("affected_rows").is_none() {
            let Head { mut columns } = serde_json::from_value(done).map_err(|_| missing())?;
            print_head(out, &mut columns, &[])?;
            return writeln!(out, "(0 rows)").map_err(Failure::write);
        }
        let affected = done["affected_rows"].as_u64().unwrap_or_default();
        let info = format::visible(done["info"].as_str().unwrap_or_default());
        return writeln!(out, "OK, {affected} rows affected {info}").map_err(Failure::write);
    }
    let Head { mut columns } =
        serde_json::from_str(&format!("{head}]}}")).map_err(|_| missing())?;
    let mut rows = 0;
    loop {
        let mut batch = Vec::new();
        let ended = loop {
            let line = next()?;
            if line == "]}" {
                break true;
            }
            let row: Vec<Json> =
                serde_json::from_str(line.trim_end_matches(',')).map_err(|_| missing())?;
            batch.push(row.iter().map(cell).collect::<Vec<String>>());
            if rows > 0 || batch.len() == WIDTH_ROWS {
                break false;
            }
        };
        if rows == 0 {
            print_head(out, &mut columns, &batch)?;
        }
        for row in &batch {
            print_row(out, &columns, row)?;
        }
        rows += batch.len();
        if ended {
            let what = if rows == 1 { "row" } else { "rows" };
            return writeln!(out, "({rows} {what})").map_err(Failure::write);
        }
    }
}

/// Prints the names of the columns, which become as wide as the first rows need.
fn print_head(
    out: &mut impl Write,
    columns: &mut [Column],
    first: &[Vec<String>],
) -> Result<(), Failure> {
    for (at, column) in columns.iter_mut().enumerate() {
        column.name = format::visible(&column.name).into_owned();
        let cells = first.iter().filter_map(|row| row.get(at));
        let widths = cells.map(|cell| format::width(cell).min(WIDTH_MAX));
        column.width = widths.fold(format::width(&column.name), usize::max);
    }
    let names = columns.iter().map(|column| column.name.clone());
    let rules = columns.iter().map(|column| "-".repeat(column.width));
    for line in [names.collect::<Vec<_>>(), rules.collect()] {
        print_row(out, columns, &line)?;
    }
    Ok(())
}

fn cell(value: &Json) -> String {
    match value {
        Json::Null => "NULL".to_owned(),
        Json::String(text) => format::visible(text).into_owned(),
        other => other.to_string(),
    }
}

/// Prints a row, with numbers aligned to the right.
fn print_row(out: &mut impl Write, columns: &[Column], row: &[String]) -> Result<(), Failure> {
    const NUMBERS: [&str; 5] = ["bigint", "int", "float", "double", "decimal"];
    let cells = columns.iter().zip(row).map(|(column, cell)| {
        let is_number = NUMBERS.iter().any(|name| column.sql_type.starts_with(name));
        format::pad(cell, column.width, is_number)
    });
    let line = cells.collect::<Vec<_>>().join("  ");
    writeln!(out, "{}", line.trim_end()).map_err(Failure::write)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(answer: &str) -> Result<String, Failure> {
        let mut out = Vec::new();
        print_table(answer.as_bytes(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn statements_are_read_to_their_end_or_not_at_all() {
        let long = " ".repeat(2 << 20) + "SELECT 1";
        assert_eq!(read_all(long.as_bytes()).unwrap(), long);
        let problem = |failure: Failure| failure.problems[0].to_string();
        let endless = read_all(io::repeat(b' ')).map_err(problem);
        assert_eq!(endless.unwrap_err(), "cannot read the statements: longer than 64 MiB");
        assert!(read_all(&b"\xff"[..]).map_err(problem).unwrap_err().contains("utf-8"));
    }

    const HEAD: &str = r#"{"columns":[{"name":"script_name","type":"varchar(512)"},{"name":"n","type":"bigint"}],"rows":["#;

    #[test]
    fn columns_are_aligned_numbers_to_the_right() {
        let answer = format!("{HEAD}\n[\"/a\",1],\n[\"/longer.php\",1000],\n[null,null]\n]}}\n");
        assert_eq!(
            printed(&answer).unwrap(),
            "script_name     n\n-----------  ----\n/a              1\n/longer.php  1000\nNULL         NULL\n(3 rows)\n"
        );
    }

    #[test]
    fn no_rows_are_a_table_too() {
        for end in ["\n]}\n", "]}\n"] {
            let printed = printed(&format!("{HEAD}{end}")).unwrap();
            assert_eq!(printed, "script_name  n\n-----------  -\n(0 rows)\n", "{end:?}");
        }
    }

    #[test]
    fn names_are_shown_and_not_executed() {
        let answer = format!("{HEAD}\n[\"\\u001b[2J\",1]\n]}}\n");
        assert!(printed(&answer).unwrap().contains("\\x1b[2J"));
    }

    #[test]
    fn lines_on_a_terminal_say_the_same_and_do_nothing() {
        let printed = |answer: &str, show: fn(&str) -> Cow<'_, str>| {
            let mut out = Vec::new();
            show_lines(answer.as_bytes(), show, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let csv = "script,n\r\n\u{1b}]0;owned\u{7}\u{9b}2J,1\r\n\"a\nb\rc\",2\n/日本,3";
        assert_eq!(
            printed(csv, format::visible),
            "script,n\n\\x1b]0;owned\\x07\\u{9b}2J,1\n\"a\nb\\rc\",2\n/日本,3"
        );
        let json = "{\"x\":\"\u{9b}2J\u{202e}\u{7f}\"}\n{\"x\":\"日\"}\n";
        let shown = printed(json, format::visible_json);
        assert_eq!(shown, "{\"x\":\"\\u009b2J\\u202e\\u007f\"}\n{\"x\":\"日\"}\n");
        for (line, told) in json.lines().zip(shown.lines()) {
            let read = |text| serde_json::from_str::<Json>(text).unwrap();
            assert_eq!(read(line), read(told));
        }
    }

    #[test]
    fn an_answer_without_its_end_is_an_error() {
        for answer in [String::new(), HEAD.to_owned(), format!("{HEAD}\n[\"/a\",1],\n")] {
            let error = printed(&answer).unwrap_err().problems.concat();
            assert!(error.starts_with("the answer ended early"), "{error}");
        }
    }

    #[test]
    fn a_statement_without_rows_prints_its_outcome() {
        let done = r#"{"columns":[],"rows":[],"affected_rows":0,"info":""}"#;
        assert_eq!(printed(done).unwrap().trim_end(), "OK, 0 rows affected");
    }
}
