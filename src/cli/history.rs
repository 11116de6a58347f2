//! `pinbad history`: lists or verifies a history folder. Runs beside the daemon: it locks and
//! changes nothing.

use std::path::{Path, PathBuf};

use clap::{Args as FlagGroup, Subcommand, ValueEnum};

use super::format::{self, grouped, visible};
use super::{Failure, complain, print};
use crate::history::inspect::{self, HeldRows};
use crate::value::text::{counted, numbered};

/// What to do with it.
#[derive(Debug, Subcommand)]
pub enum HistoryCommand {
    /// List what is kept: reports, resolutions, spans, rows and bytes.
    Ls(LsFlags),
    /// Read all of it, and compare it with the checksums and counts in the manifest.
    #[command(after_help = include_str!("help/history_verify.txt"))]
    Verify(FolderFlag),
}

/// The folder.
#[derive(Debug, Clone, FlagGroup)]
#[group(required = true, multiple = false)]
pub struct FolderFlag {
    /// The folder, as in history.dir.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The folder of all data, as in data.dir: history is in it.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl FolderFlag {
    fn path(&self) -> PathBuf {
        let of_data = self.data.as_ref().map(|data| data.join("history"));
        of_data.or_else(|| self.dir.clone()).unwrap_or_default()
    }
}

/// The flags of `ls`.
#[derive(Debug, Clone, FlagGroup)]
pub struct LsFlags {
    /// The folder.
    #[command(flatten)]
    pub folder: FolderFlag,
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// How a list is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs: an array of objects, times in seconds since 1970.
    Json,
}

/// Runs a command.
///
/// # Errors
/// When the folder cannot be read, or something in it is wrong.
pub fn execute(command: &HistoryCommand) -> Result<(), Failure> {
    match command {
        HistoryCommand::Ls(flags) => ls(flags),
        HistoryCommand::Verify(flags) => verify(&flags.path()),
    }
}

fn ls(flags: &LsFlags) -> Result<(), Failure> {
    let dir = flags.folder.path();
    let held = inspect::list(&dir).map_err(Failure::failed)?;
    match flags.format {
        Format::Json => {
            let json = serde_json::to_string(&held).map_err(Failure::failed)?;
            print(&format::visible_json(&json))
        }
        Format::Table => print(&(table(&held) + &set_aside(&dir))),
    }
}

/// The pieces whose rows are lost, one line each.
fn set_aside(dir: &Path) -> String {
    let files = inspect::set_aside(dir).into_iter();
    files.map(|file| format!("\nset aside, not readable: {}", file.display())).collect()
}

fn table(held: &[HeldRows]) -> String {
    let head = [
        "report",
        "definition",
        "by",
        "from (UTC)",
        "to (UTC)",
        "rows",
        "pending",
        "files",
        "bytes",
    ];
    let mut lines = vec![head.map(str::to_owned)];
    let number = |number: u64| grouped(number as f64);
    lines.extend(held.iter().map(|held| {
        [
            visible(&held.report).into_owned(),
            held.definition.get(..8).unwrap_or_default().to_owned(),
            held.resolution.name().to_owned(),
            moment(held.from),
            moment(held.to),
            number(held.rows),
            number(held.pending_rows),
            number(held.files),
            format::bytes(held.bytes as f64),
        ]
    }));
    let bytes: u64 = held.iter().map(|held| held.bytes).sum();
    let lines = format::aligned(&lines, 5).join("\n");
    format!("{lines}\n{} in all", format::bytes(bytes as f64))
}

fn moment(unix_secs: u64) -> String {
    let moment = i64::try_from(unix_secs).ok();
    let moment = moment.and_then(|secs| chrono::DateTime::from_timestamp(secs, 0));
    moment.map_or_else(String::new, |moment| moment.format("%Y-%m-%d %H:%M").to_string())
}

fn verify(dir: &Path) -> Result<(), Failure> {
    let verified = inspect::verify(dir).map_err(Failure::failed)?;
    verified.problems.iter().for_each(complain);
    let mut text = format!(
        "{} with {} {} whole ({}).",
        counted(verified.parts, "file"),
        counted(verified.rows, "row"),
        if verified.parts == 1 { "is" } else { "are" },
        format::bytes(verified.bytes as f64)
    );
    if verified.is_torn {
        text += "\nThe last commit was not finished: the next start leaves it out.";
    }
    for file in &verified.uncounted {
        text += &format!("\nnot counted: {}", file.display());
    }
    for file in &verified.missing {
        text += &format!("\nmissing since an earlier start: {}", file.display());
    }
    for file in &verified.orphans {
        text += &format!("\norphan: {}", file.display());
    }
    text += &set_aside(dir);
    print(&text)?;
    match verified.problems.len() + inspect::set_aside(dir).len() {
        0 => Ok(()),
        wrong => Err(Failure::failed(numbered(
            wrong,
            "file is not as it was written",
            "files are not as they were written",
        ))),
    }
}
