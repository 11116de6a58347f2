//! `pinbad query`: one statement, asked of a running daemon, and its rows printed while they come.
//!
//! Called by `main`, on its thread. As a table on a terminal, as CSV into a file or a pipe, or as the flag says; all but the
//! table is passed on to a file or a pipe as the daemon sends it. A table's columns are as wide as what its first `WIDTH_ROWS`
//! rows hold; on a terminal names are shown, never executed ([`shown`]), in whichever format. An answer whose end is missing
//! is an error.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use clap::{Args as FlagGroup, ValueEnum};
use serde_json::Value as Json;

use crate::client::{Client, ClientError, ClientFlags, shown};

/// Rows that are looked at before the first one is printed.
const WIDTH_ROWS: usize = 1_000;

/// The widest a column gets.
const WIDTH_MAX: usize = 100;

/// The longest statement that is read from stdin, bytes.
const STATEMENT_MAX: u64 = 1 << 20;

/// What `query` takes.
#[derive(Debug, Clone, FlagGroup)]
pub struct QueryFlags {
    /// Which daemon.
    #[command(flatten)]
    pub client: ClientFlags,
    /// The statement; `-` reads it from stdin.
    pub statement: String,
    /// How the rows are shown [default: table on a terminal, csv elsewhere].
    #[arg(long, short, value_enum)]
    pub format: Option<Format>,
}

/// How rows are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns.
    Table,
    /// A line of names, then a line a row.
    Csv,
    /// One object: columns and rows.
    Json,
    /// An object a line.
    Ndjson,
    /// An Arrow IPC stream.
    Arrow,
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryFailure {
    /// The daemon, or the way to it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Reading the statement or writing the rows.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What went wrong.
        source: io::Error,
    },
    /// The rows stopped before the end.
    #[error("the answer broke off{0}; the daemon's log says why")]
    BrokenOff(String),
}

impl QueryFailure {
    /// Whether the command line is to blame.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Client(ClientError::Usage(_)))
    }
}

/// Asks, and prints the answer to `out`.
///
/// # Errors
/// When there is no daemon, the statement cannot be run, or the answer breaks off. A reader that goes away (`| head`) is none.
pub fn execute(
    flags: &QueryFlags,
    terminal: bool,
    stdin: impl Read,
    out: impl Write,
) -> Result<(), QueryFailure> {
    let client = Client::of(&flags.client)?;
    let default = if terminal { Format::Table } else { Format::Csv };
    let format = flags.format.unwrap_or(default);
    if terminal && format == Format::Arrow {
        let problem = "--format arrow: stdout is a terminal; accepted: a file or a pipe";
        return Err(ClientError::Usage(problem.to_owned()).into());
    }
    let statement = match flags.statement.as_str() {
        "-" => {
            let mut text = String::new();
            let read = stdin.take(STATEMENT_MAX).read_to_string(&mut text);
            read.map_err(|source| QueryFailure::Io {
                what: "read the statement",
                source,
            })?;
            text
        }
        statement => statement.to_owned(),
    };
    let asked = match format {
        Format::Table | Format::Json => "json",
        Format::Csv => "csv",
        Format::Ndjson => "ndjson",
        Format::Arrow => "arrow",
    };
    let body = serde_json::json!({ "query": statement });
    let answer = client.post_stream(&format!("/api/v1/sql?format={asked}"), &body)?;
    let mut out = BufWriter::new(out);
    let printed = match format {
        Format::Table => print_table(BufReader::new(answer), &mut out),
        Format::Csv if terminal => show_lines(BufReader::new(answer), shown::visible, &mut out),
        _ if terminal => show_lines(BufReader::new(answer), shown::visible_json, &mut out),
        _ => pass_on(answer, &mut out),
    };
    match printed.and_then(|()| out.flush().map_err(writing)) {
        Err(QueryFailure::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
            Ok(())
        }
        printed => printed,
    }
}

fn writing(source: io::Error) -> QueryFailure {
    QueryFailure::Io {
        what: "write",
        source,
    }
}

fn broken_off(error: &io::Error) -> QueryFailure {
    QueryFailure::BrokenOff(format!(" ({error})"))
}

fn pass_on(mut answer: impl Read, out: &mut impl Write) -> Result<(), QueryFailure> {
    let mut piece = vec![0; 64 << 10];
    loop {
        match answer.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(read) => out.write_all(&piece[..read]).map_err(writing)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken_off(&error)),
        }
    }
}

/// Passes lines on to a terminal, which is to show what they hold. Their ends stay.
fn show_lines(
    mut answer: impl BufRead,
    show: impl Fn(&str) -> Cow<'_, str>,
    out: &mut impl Write,
) -> Result<(), QueryFailure> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = answer.read_until(b'\n', &mut line);
        if read.map_err(|error| broken_off(&error))? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line);
        let bare = text.strip_suffix('\n').unwrap_or(&text);
        let bare = bare.strip_suffix('\r').unwrap_or(bare);
        let end = if text.ends_with('\n') { "\n" } else { "" };
        write!(out, "{}{end}", show(bare)).map_err(writing)?;
    }
}

/// A column of a table that is being printed.
struct Shown {
    name: String,
    number: bool,
    width: usize,
}

/// The daemon's JSON has a row a line, which is all that this relies on beside JSON itself.
fn print_table(mut answer: impl BufRead, out: &mut impl Write) -> Result<(), QueryFailure> {
    let missing = || QueryFailure::BrokenOff(String::new());
    let mut line = String::new();
    let mut next = |line: &mut String| {
        line.clear();
        answer.read_line(line).map_err(|error| broken_off(&error))
    };
    next(&mut line)?;
    // `{"columns":[..],"rows":[` and the rest in lines of its own; or all of it, when there are no rows.
    let head = line.trim_end();
    if let Ok(done) = serde_json::from_str::<Json>(head) {
        let affected = done["affected_rows"].as_u64().unwrap_or_default();
        let info = done["info"].as_str().unwrap_or_default();
        return writeln!(out, "OK, {affected} rows affected {}", shown::visible(info))
            .map_err(writing);
    }
    let head: Json = serde_json::from_str(&format!("{head}]}}")).map_err(|_| missing())?;
    let mut columns: Vec<Shown> = head["columns"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| {
            let name = shown::visible(column["name"].as_str().unwrap_or_default()).into_owned();
            let kind = column["type"].as_str().unwrap_or_default();
            Shown {
                number: ["bigint", "int", "float", "double", "decimal"]
                    .iter()
                    .any(|number| kind.starts_with(number)),
                width: shown::width(&name),
                name,
            }
        })
        .collect();
    let mut waiting: Option<Vec<Vec<String>>> = Some(Vec::new());
    let mut rows = 0_u64;
    loop {
        if next(&mut line)? == 0 {
            return Err(missing());
        }
        let text = line.trim_end();
        let row = match text {
            "]}" => None,
            text => {
                let row: Vec<Json> =
                    serde_json::from_str(text.trim_end_matches(',')).map_err(|_| missing())?;
                rows += 1;
                Some(row.iter().map(cell).collect::<Vec<String>>())
            }
        };
        let ended = row.is_none();
        match (&mut waiting, row) {
            (Some(kept), Some(row)) => {
                for (column, cell) in columns.iter_mut().zip(&row) {
                    column.width = column.width.max(shown::width(cell).min(WIDTH_MAX));
                }
                kept.push(row);
            }
            (None, Some(row)) => print_row(out, &columns, &row)?,
            (_, None) => {}
        }
        let enough = ended
            || waiting
                .as_ref()
                .is_some_and(|kept| kept.len() >= WIDTH_ROWS);
        if enough && let Some(kept) = waiting.take() {
            let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
            print_row(out, &columns, &names)?;
            let rules = columns.iter().map(|column| "-".repeat(column.width));
            print_row(out, &columns, &rules.collect::<Vec<_>>())?;
            for row in &kept {
                print_row(out, &columns, row)?;
            }
        }
        if ended {
            let what = if rows == 1 { "row" } else { "rows" };
            return writeln!(out, "({rows} {what})").map_err(writing);
        }
    }
}

fn cell(value: &Json) -> String {
    match value {
        Json::Null => "NULL".to_owned(),
        Json::String(text) => shown::visible(text).into_owned(),
        other => other.to_string(),
    }
}

fn print_row(out: &mut impl Write, columns: &[Shown], row: &[String]) -> Result<(), QueryFailure> {
    let mut line = String::new();
    for (at, (column, cell)) in columns.iter().zip(row).enumerate() {
        if at > 0 {
            line.push_str("  ");
        }
        let space = " ".repeat(column.width.saturating_sub(shown::width(cell)));
        if column.number {
            line.push_str(&space);
            line.push_str(cell);
        } else {
            line.push_str(cell);
            line.push_str(&space);
        }
    }
    writeln!(out, "{}", line.trim_end()).map_err(writing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(answer: &str) -> Result<String, QueryFailure> {
        let mut out = Vec::new();
        print_table(answer.as_bytes(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
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
        let answer = format!("{HEAD}\n]}}\n");
        assert!(
            printed(&answer)
                .unwrap()
                .ends_with("-----------  -\n(0 rows)\n")
        );
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
            printed(csv, shown::visible),
            "script,n\n\\x1b]0;owned\\x07\\u{9b}2J,1\n\"a\nb\\rc\",2\n/日本,3"
        );
        let json = "{\"x\":\"\u{9b}2J\u{202e}\u{7f}\"}\n{\"x\":\"日\"}\n";
        let shown = printed(json, shown::visible_json);
        assert_eq!(
            shown,
            "{\"x\":\"\\u009b2J\\u202e\\u007f\"}\n{\"x\":\"日\"}\n"
        );
        for (line, told) in json.lines().zip(shown.lines()) {
            let read = |text| serde_json::from_str::<Json>(text).unwrap();
            assert_eq!(read(line), read(told));
        }
    }

    #[test]
    fn an_answer_without_its_end_is_an_error() {
        for answer in [
            String::new(),
            HEAD.to_owned(),
            format!("{HEAD}\n[\"/a\",1],\n"),
        ] {
            let error = printed(&answer).unwrap_err().to_string();
            assert!(error.starts_with("the answer broke off"), "{error}");
        }
    }

    #[test]
    fn what_brings_no_rows_is_said() {
        let done = r#"{"columns":[],"rows":[],"affected_rows":0,"info":""}"#;
        assert_eq!(printed(done).unwrap().trim_end(), "OK, 0 rows affected");
    }
}
