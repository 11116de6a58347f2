//! `pinbad import`: the reports of an old Pinba database, of either engine, made here.
//!
//! Reads CREATE TABLE statements ([`dump`]), holds each against what there is already, and makes the rest: in a running
//! daemon over its HTTP interface ([`mod@remote`]), or as `[[report]]` entries on stdout. Called by `main`, on its thread; what it
//! says goes to the writers that it is given. Everything that could not be taken is listed with the reason, and the
//! others are taken all the same.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args as FlagGroup;
use serde::Serialize;

use crate::client::{Client, ClientError, credentials};
use crate::config::Config;
use crate::daemon::{defaults, local};
use crate::query::definitions::{ConfiguredError, Definitions};
use crate::query::tables::{Asked, StatusTable, read_form};
use crate::report::comment::{Comment, FixedTable};
use crate::report::definition::{Defaults, Definition};
use crate::report::form::{FormError, ReportForm, read_comment};

pub mod dump;
pub mod remote;

use dump::{Body, CreateTable};
use remote::Remote;

/// Longest dump that is read, bytes. What is wanted of it is a few kilobytes: `mysqldump --no-data`.
const DUMP_BYTES_MAX: u64 = 1 << 30;

/// What `import` takes.
#[derive(Debug, Clone, Default, FlagGroup)]
pub struct ImportFlags {
    /// What mysqldump or SHOW CREATE TABLE printed; - for stdin.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Configuration file of the daemon, to find it and to see what it has [default: the defaults].
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The running daemon [default: http.listen of the configuration].
    #[arg(long, value_name = "URL", conflicts_with = "print_config")]
    pub url: Option<String>,
    /// A file that holds the token to send [default: what PINBAD_TOKEN holds, if anything].
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificates of those whose signature under the daemon's counts, PEM [default: those that the system trusts].
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Print the reports as a configuration file has them, instead of making them in a running daemon.
    #[arg(long)]
    pub print_config: bool,
}

/// Why nothing could be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The dump cannot be read.
    #[error("cannot read {name}: {source}")]
    Unreadable {
        /// The file.
        name: String,
        /// Why not.
        source: io::Error,
    },
    /// The dump is too long.
    #[error(
        "{0} is longer than {DUMP_BYTES_MAX} bytes; its CREATE TABLE statements are enough: mysqldump --no-data"
    )]
    TooLong(String),
    /// Nothing in it is of Pinba.
    #[error(
        "{name}: there is no CREATE TABLE statement with ENGINE=PINBA among the {tables} in it"
    )]
    NoPinbaTable {
        /// The file.
        name: String,
        /// Statements of other engines.
        tables: usize,
    },
    /// A report of the configuration.
    #[error(transparent)]
    Configured(#[from] ConfiguredError),
    /// There is no address to ask.
    #[error(
        "http.listen is switched off, so there is no daemon to ask; give --url, or --print-config"
    )]
    HttpOff,
    /// The daemon does not answer as one.
    #[error(transparent)]
    Remote(#[from] ClientError),
    /// What was to be said could not be.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

fn remote(flags: &ImportFlags, url: &str) -> Result<Remote, ClientError> {
    let token = credentials::token(flags.token_file.as_deref())?;
    Ok(Remote::new(Client::new(
        url,
        token,
        flags.ca_file.as_deref(),
    )?))
}

/// What became of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    Taken(String),
    AlreadyThere(String),
    NotTaken(String),
}

/// Imports as the flags say; true when everything was taken or there already. `stdin` stands for the file `-`.
///
/// # Errors
/// When there is nothing to import from, or nowhere to import to.
pub fn execute(
    flags: &ImportFlags,
    config: &Config,
    stdin: impl Read,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<bool, ImportError> {
    let name = flags.file.display().to_string();
    let text = read(&flags.file, &name, stdin)?;
    let tables = dump::statements(&text);
    let all = tables.len();
    let ours: Vec<CreateTable> = tables.into_iter().filter(is_ours).collect();
    if ours.is_empty() {
        return Err(ImportError::NoPinbaTable { name, tables: all });
    }
    let others = all - ours.len();
    if flags.print_config {
        let mut target = Printed::new(config)?;
        let fates = import(&ours, &mut target);
        write!(out, "{}", target.text())?;
        return tell(&fates, others, err);
    }
    let mut target = match &flags.url {
        Some(url) => Running::new(remote(flags, url)?, Defaults::default())?,
        None => {
            let address = config.http.listen.ok_or(ImportError::HttpOff)?;
            let url = format!("http://{}", local(address));
            Running::new(remote(flags, &url)?, defaults(config))?
        }
    };
    let fates = import(&ours, &mut target);
    let all_taken = tell(&fates, others, out)?;
    if target.forgetful {
        writeln!(
            err,
            "pinbad: the daemon has no state.dir, so these reports end with it; --print-config prints them for its \
             configuration file"
        )?;
    }
    Ok(all_taken)
}

fn read(file: &Path, name: &str, stdin: impl Read) -> Result<Vec<u8>, ImportError> {
    let unreadable = |source| ImportError::Unreadable {
        name: name.to_owned(),
        source,
    };
    let mut text = Vec::new();
    if file == Path::new("-") {
        stdin.take(DUMP_BYTES_MAX + 1).read_to_end(&mut text)
    } else {
        let file = std::fs::File::open(file).map_err(unreadable)?;
        file.take(DUMP_BYTES_MAX + 1).read_to_end(&mut text)
    }
    .map_err(unreadable)?;
    if text.len() as u64 > DUMP_BYTES_MAX {
        return Err(ImportError::TooLong(name.to_owned()));
    }
    Ok(text)
}

/// Whether a statement is, or could be, a table of Pinba's.
fn is_ours(table: &CreateTable) -> bool {
    match &table.body {
        Body::Options { engine, .. } => engine
            .as_ref()
            .is_some_and(|engine| engine.eq_ignore_ascii_case("pinba")),
        Body::Like | Body::Cut => true,
    }
}

/// Where reports are made.
trait Target {
    /// What forms leave open.
    fn defaults(&self) -> &Defaults;
    /// What has this name, if anything; with what it is, as far as that can be read.
    fn standing(&self, name: &str) -> Option<&Standing>;
    /// Makes a report whose name is free, or says why not.
    fn make(&mut self, form: &ReportForm) -> Result<(), String>;
}

/// A report or table that is there.
#[derive(Debug, Clone, PartialEq)]
struct Standing {
    name: String,
    /// `None`: it cannot be read here.
    asked: Option<Asked>,
    /// How it is called in a message: its COMMENT, or "a native report".
    shown: String,
}

impl Standing {
    fn new(form: &ReportForm, defaults: &Defaults) -> Self {
        Self {
            name: form.name.clone(),
            asked: read_form(form, defaults).ok(),
            shown: form.comment.as_ref().map_or_else(
                || "in the native form".to_owned(),
                |comment| format!("COMMENT '{comment}'"),
            ),
        }
    }

    /// Whether it is what a form asks for, however that is written.
    fn is(&self, asked: &Asked) -> bool {
        let bare = |definition: &Definition| Definition {
            comment: None,
            ..definition.clone()
        };
        match (&self.asked, asked) {
            (Some(Asked::Report(ours)), Asked::Report(theirs)) => bare(ours) == bare(theirs),
            (Some(Asked::Table(ours)), Asked::Table(theirs)) => ours == theirs,
            _ => false,
        }
    }
}

/// Takes one table after the other.
fn import(tables: &[CreateTable], target: &mut impl Target) -> Vec<(String, Fate)> {
    tables
        .iter()
        .map(|table| {
            let fate = import_one(table, target).unwrap_or_else(Fate::NotTaken);
            (table.name.clone(), fate)
        })
        .collect()
}

/// What becomes of a table; the error is the reason why it is not taken.
fn import_one(table: &CreateTable, target: &mut impl Target) -> Result<Fate, String> {
    let comment = match &table.body {
        Body::Options { comment, .. } => comment.as_deref().unwrap_or_default(),
        Body::Like => return Err("it is made LIKE another table; that one is needed".to_owned()),
        Body::Cut => return Err("the file ends in the middle of its statement".to_owned()),
    };
    if comment.is_empty() {
        return Err("it has no COMMENT, which is what says what a table of Pinba is".to_owned());
    }
    if comment.contains(char::REPLACEMENT_CHARACTER) {
        return Err(format!(
            "COMMENT '{comment}' is not UTF-8; dump it with --default-character-set=utf8mb4"
        ));
    }
    let form = form_of(&table.name, comment, target.defaults()).map_err(|e| e.to_string())?;
    let asked = match read_form(&form, target.defaults()) {
        Ok(asked) => asked,
        Err(FormError::Fixed(fixed)) => return raw(&table.name, fixed),
        Err(error) => return Err(error.to_string()),
    };
    if let Some(standing) = target.standing(&table.name) {
        if standing.is(&asked) {
            return Ok(Fate::AlreadyThere(String::new()));
        }
        return Err(format!(
            "there is another report of this name ({}); this one, COMMENT '{comment}', needs another name in the file",
            standing.shown
        ));
    }
    if let (Asked::Table(fixed), Some(stands_for)) = (&asked, StatusTable::aliased(&table.name))
        && fixed.table() == stands_for
    {
        return Ok(Fate::AlreadyThere(format!("as {stands_for}")));
    }
    target.make(&form)?;
    Ok(Fate::Taken(comment.to_owned()))
}

/// A table of raw data: it is there under its own name, and cannot be made under another one.
fn raw(name: &str, table: FixedTable) -> Result<Fate, String> {
    if name == table.table() {
        Ok(Fate::AlreadyThere(String::new()))
    } else {
        Err(format!(
            "COMMENT '{0}': raw data is always there as `{0}` and cannot have another name",
            table.table()
        ))
    }
}

/// The form of a COMMENT. What stands there as JSON is unpacked, so that it can be read in a configuration file.
fn form_of(name: &str, comment: &str, defaults: &Defaults) -> Result<ReportForm, FormError> {
    if comment.starts_with('{')
        && let Comment::Report(definition) = read_comment(name, comment, defaults)?
    {
        return Ok(ReportForm::from(&*definition));
    }
    Ok(ReportForm::of_comment(name, comment))
}

/// Lists what became of the tables; true when none was left.
fn tell(fates: &[(String, Fate)], others: usize, to: &mut impl Write) -> Result<bool, ImportError> {
    let mut counts = [0_usize; 3];
    for (name, fate) in fates {
        let (at, what, more) = match fate {
            Fate::Taken(comment) => (0, "taken", comment),
            Fate::AlreadyThere(note) => (1, "already there", note),
            Fate::NotTaken(reason) => (2, "not taken", reason),
        };
        counts[at] += 1;
        let line = format!("{what:<13}  {name}: {more}");
        writeln!(to, "{}", line.trim_end_matches([':', ' ']))?;
    }
    let [taken, there, left] = counts;
    let passed_over = match others {
        0 => String::new(),
        1 => "; 1 table of another engine passed over".to_owned(),
        many => format!("; {many} tables of other engines passed over"),
    };
    writeln!(
        to,
        "{taken} taken, {there} already there, {left} not taken{passed_over}."
    )?;
    Ok(left == 0)
}

/// A configuration file to be.
struct Printed {
    defaults: Defaults,
    standing: Vec<Standing>,
    forms: Vec<ReportForm>,
}

impl Printed {
    fn new(config: &Config) -> Result<Self, ImportError> {
        let defaults = defaults(config);
        let there = Definitions::new(&config.configured_reports, &defaults)?;
        let standing = there
            .forms()
            .iter()
            .map(|form| Standing::new(form, &defaults))
            .collect();
        Ok(Self {
            defaults,
            standing,
            forms: Vec::new(),
        })
    }

    fn text(&self) -> String {
        #[derive(Serialize)]
        struct File<'a> {
            report: &'a [ReportForm],
        }
        if self.forms.is_empty() {
            return String::new();
        }
        let report = &self.forms[..];
        // Forms hold texts, numbers and lists of them, all of which TOML can say.
        toml::to_string(&File { report }).unwrap_or_default()
    }
}

impl Target for Printed {
    fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    fn standing(&self, name: &str) -> Option<&Standing> {
        self.standing.iter().find(|standing| standing.name == name)
    }

    fn make(&mut self, form: &ReportForm) -> Result<(), String> {
        self.standing.push(Standing::new(form, &self.defaults));
        self.forms.push(form.clone());
        Ok(())
    }
}

/// A daemon that runs.
struct Running {
    remote: Remote,
    defaults: Defaults,
    standing: Vec<Standing>,
    /// A report was made that a restart of the daemon will end.
    forgetful: bool,
}

impl Running {
    fn new(remote: Remote, mut defaults: Defaults) -> Result<Self, ImportError> {
        let reports = remote.reports()?;
        // What the daemon takes where a definition names no window is the window of its base reports.
        let info = reports.iter().find(|report| report.form.name == "info");
        if let Some(history) = info.and_then(|info| info.window) {
            defaults.history = history;
        }
        let standing = reports
            .iter()
            .map(|report| Standing::new(&report.form, &defaults))
            .collect();
        Ok(Self {
            remote,
            defaults,
            standing,
            forgetful: false,
        })
    }
}

impl Target for Running {
    fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    fn standing(&self, name: &str) -> Option<&Standing> {
        self.standing.iter().find(|standing| standing.name == name)
    }

    fn make(&mut self, form: &ReportForm) -> Result<(), String> {
        let persistent = self
            .remote
            .create(form)
            .map_err(|error| error.to_string())?;
        self.forgetful |= !persistent;
        self.standing.push(Standing::new(form, &self.defaults));
        Ok(())
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
