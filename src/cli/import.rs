//! `pinbad import`: recreates the reports of an old Pinba database, of either engine.
//!
//! Reads CREATE TABLE statements ([`dump`]), compares each with the existing reports, and creates
//! the missing ones: in a running daemon over its HTTP interface, or as `[[report]]` entries on
//! stdout. Called by `main`, on its thread. Every table that cannot be imported is listed with the
//! reason; the others are imported all the same.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args as FlagGroup;
use serde_json::Value as Json;

use crate::cli::client::{AccessFlags, Client, ClientError};
use crate::cli::{Failure, cannot_read, doctor, open};
use crate::config::Config;
use crate::daemon::defaults;
use crate::grammar::FixedTable;
use crate::grammar::comment::Comment;
use crate::grammar::native::{FormError, ReportForm, read_comment};
use crate::query::definitions::Definitions;
use crate::query::tables::{FormTarget, StatusTable, read_form};
use crate::report::definition::Defaults;

pub mod dump;

use dump::{Body, CreateTable};

/// The endpoint that lists reports and accepts new ones.
const REPORTS: &str = "/api/v1/reports";

/// Longest dump that is read, in bytes. A dump with all we need has a few kilobytes: `mysqldump
/// --no-data`.
const DUMP_BYTES_MAX: u64 = 1 << 30;

/// The flags of `import`.
#[derive(Debug, Clone, Default, FlagGroup)]
pub struct ImportFlags {
    /// What mysqldump or SHOW CREATE TABLE printed; - for stdin.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Configuration file of the daemon, to find it and to see what it has [default: the defaults].
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The running daemon [default: http.listen of the configuration].
    #[arg(long, visible_alias = "http", value_name = "URL", conflicts_with = "print_config")]
    pub url: Option<String>,
    /// As whom, and whose signature counts.
    #[command(flatten)]
    pub access: AccessFlags,
    /// Print the reports as a configuration file has them, instead of making them in a running
    /// daemon.
    #[arg(long)]
    pub print_config: bool,
}

/// The result for one table.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Taken(String),
    AlreadyThere(String),
    NotTaken(String),
}

/// Imports as the flags say; returns whether every table was imported or existed already. `stdin`
/// stands for the file `-`.
///
/// # Errors
/// Fails if there is nothing to import from, or nowhere to import to.
pub fn execute(
    flags: &ImportFlags,
    config: &Config,
    stdin: impl Read,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<bool, Failure> {
    let name = flags.file.display();
    let tables = dump::statements(&read(&flags.file, stdin)?);
    let all = tables.len();
    let ours: Vec<CreateTable> = tables.into_iter().filter(is_ours).collect();
    if ours.is_empty() {
        return Err(Failure::failed(format!(
            "{name}: there is no CREATE TABLE statement with ENGINE=PINBA among the {all} in it"
        )));
    }
    let mut importer = match (flags.print_config, &flags.url, doctor::url(config)) {
        (true, ..) => Importer::to_config(config)?,
        (_, Some(url), _) => {
            Importer::to_daemon(Client::at(url, &flags.access)?, Defaults::default())?
        }
        (_, None, Some(url)) => {
            let access = flags.access.trusting(config);
            Importer::to_daemon(Client::at(&url, &access)?, defaults(config))?
        }
        (_, None, None) => {
            return Err(Failure::failed(
                "http.listen is switched off, so there is no daemon to ask; give --url, or --print-config",
            ));
        }
    };
    let outcomes = importer.import(&ours);
    let others = all - ours.len();
    let listed = if flags.print_config {
        write!(out, "{}", importer.config_text()).map_err(Failure::write)?;
        report_outcomes(&outcomes, others, err)
    } else {
        report_outcomes(&outcomes, others, out)
    };
    let all_taken = listed.map_err(Failure::write)?;
    if !importer.persistent {
        writeln!(
            err,
            "pinbad: the daemon has no state.dir, so these reports end with it; --print-config prints them for its \
             configuration file"
        )
        .map_err(Failure::write)?;
    }
    Ok(all_taken)
}

fn read(file: &Path, mut stdin: impl Read) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let read = open(file, &mut stdin)?.take(DUMP_BYTES_MAX + 1).read_to_end(&mut text);
    match read.map_err(cannot_read(file))? as u64 > DUMP_BYTES_MAX {
        true => Err(Failure::failed(format!(
            "{} is longer than {DUMP_BYTES_MAX} bytes; its CREATE TABLE statements are enough: mysqldump --no-data",
            file.display()
        ))),
        false => Ok(text),
    }
}

/// Returns whether a statement is, or could be, one of Pinba's tables.
fn is_ours(table: &CreateTable) -> bool {
    match &table.body {
        Body::Options { engine, .. } => {
            engine.as_ref().is_some_and(|engine| engine.eq_ignore_ascii_case("pinba"))
        }
        Body::Like | Body::Cut => true,
    }
}

/// An existing report or table.
#[derive(Debug, Clone, PartialEq)]
struct Existing {
    name: String,
    /// `None` if this program cannot read its definition.
    target: Option<FormTarget>,
    /// Its name in messages: its COMMENT, or "in the native form".
    label: String,
}

impl Existing {
    fn new(form: &ReportForm, defaults: &Defaults) -> Self {
        Self {
            name: form.name.clone(),
            target: target(form, defaults).ok(),
            label: form.comment.as_ref().map_or_else(
                || "in the native form".to_owned(),
                |comment| format!("COMMENT '{comment}'"),
            ),
        }
    }
}

/// The target that a form asks for, however it is written.
fn target(form: &ReportForm, defaults: &Defaults) -> Result<FormTarget, FormError> {
    let mut target = read_form(form, defaults)?;
    if let FormTarget::Report(definition) = &mut target {
        definition.comment = None;
    }
    Ok(target)
}

/// The existing reports, and where new ones are created.
struct Importer {
    defaults: Defaults,
    existing: Vec<Existing>,
    /// The daemon; `None` to write a configuration file.
    client: Option<Client>,
    /// The reports created so far.
    created: Vec<ReportForm>,
    /// Whether all reports will survive a restart of the daemon.
    persistent: bool,
}

impl Importer {
    fn new(forms: &[ReportForm], defaults: Defaults, client: Option<Client>) -> Self {
        let existing = forms.iter().map(|form| Existing::new(form, &defaults));
        Self {
            existing: existing.collect(),
            defaults,
            client,
            created: Vec::new(),
            persistent: true,
        }
    }

    fn to_config(config: &Config) -> Result<Self, Failure> {
        let defaults = defaults(config);
        let definitions = Definitions::new(&config.configured_reports, &defaults);
        let forms = definitions.map_err(Failure::failed)?.forms();
        Ok(Self::new(&forms, defaults, None))
    }

    fn to_daemon(client: Client, mut defaults: Defaults) -> Result<Self, ClientError> {
        let body = client.get(REPORTS)?;
        let Some(reports) = body["reports"].as_array() else {
            return Err(client.refusal(REPORTS, 200, Ok(body)));
        };
        // A definition without a window gets the window of the daemon's base reports.
        let info = reports.iter().find(|report| report["name"] == "info");
        let window = info.and_then(|info| info["window_seconds"].as_f64());
        let window = window.and_then(|window| Duration::try_from_secs_f64(window).ok());
        if let Some(window) = window.filter(|window| !window.is_zero()) {
            defaults.raw_window = window;
        }
        let forms: Vec<ReportForm> = reports.iter().map(listed).collect();
        Ok(Self::new(&forms, defaults, Some(client)))
    }

    /// Imports each table in turn.
    fn import(&mut self, tables: &[CreateTable]) -> Vec<(String, Outcome)> {
        let outcome = |table: &CreateTable| {
            let outcome = self.import_one(table).unwrap_or_else(Outcome::NotTaken);
            (table.name.clone(), outcome)
        };
        tables.iter().map(outcome).collect()
    }

    /// Imports one table; the error is the reason for leaving it out.
    fn import_one(&mut self, table: &CreateTable) -> Result<Outcome, String> {
        let name = &table.name;
        let comment = match &table.body {
            Body::Options { comment, .. } => comment.as_deref().unwrap_or_default(),
            Body::Like => {
                return Err("it is made LIKE another table; that one is needed".to_owned());
            }
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
        // A dump of a pinbad has its own tables, which Pinba has not and no COMMENT can make.
        let known = [&FixedTable::PINBA[..], &FixedTable::SQUID].concat();
        if comment == name
            && FixedTable::ALL.iter().any(|it| it.name() == name && !known.contains(it))
        {
            return Ok(Outcome::AlreadyThere("if there is something that it shows".to_owned()));
        }
        let form = form_of(name, comment, &self.defaults).map_err(|error| error.to_string())?;
        let target = match target(&form, &self.defaults) {
            Ok(target) => target,
            Err(FormError::Fixed(fixed)) => return raw(name, fixed),
            Err(error) => return Err(error.to_string()),
        };
        if let Some(existing) = self.existing.iter().find(|existing| existing.name == *name) {
            if existing.target.as_ref() == Some(&target) {
                return Ok(Outcome::AlreadyThere(String::new()));
            }
            return Err(format!(
                "there is another report of this name ({}); this one, COMMENT '{comment}', needs another name in the file",
                existing.label
            ));
        }
        if let (FormTarget::Table(fixed, _), Some(stands_for)) =
            (&target, StatusTable::aliased(name))
            && fixed.name() == stands_for
        {
            return Ok(Outcome::AlreadyThere(format!("as {stands_for}")));
        }
        self.create(&form).map_err(|error| error.to_string())?;
        self.existing.push(Existing::new(&form, &self.defaults));
        Ok(Outcome::Taken(comment.to_owned()))
    }

    /// Creates a report whose name is free.
    fn create(&mut self, form: &ReportForm) -> Result<(), ClientError> {
        if let Some(client) = &self.client {
            let created = client.post(REPORTS, form, 201)?;
            self.persistent &= created["persistent"] == true;
        }
        self.created.push(form.clone());
        Ok(())
    }

    /// The reports as a configuration file.
    fn config_text(&self) -> String {
        if self.created.is_empty() {
            return String::new();
        }
        // Forms hold strings, numbers and lists of them, all of which TOML can express.
        let file = HashMap::from([("report", &self.created)]);
        toml::to_string(&file).unwrap_or_default()
    }
}

/// The definition of a report that a daemon lists; the name alone if this program cannot read it.
fn listed(report: &Json) -> ReportForm {
    let name = report["name"].as_str().unwrap_or_default();
    if let Some(comment) = report["comment"].as_str() {
        return ReportForm::of_comment(name, comment);
    }
    let definition = report["definition"].as_object().cloned();
    let native = definition.map(|it| ReportForm::from_members(name, it));
    native
        .and_then(Result::ok)
        .unwrap_or_else(|| ReportForm { name: name.to_owned(), ..ReportForm::default() })
}

/// A table of raw data: it exists under its own name and cannot be created under another.
fn raw(name: &str, table: FixedTable) -> Result<Outcome, String> {
    if name == table.name() {
        Ok(Outcome::AlreadyThere(String::new()))
    } else {
        Err(format!(
            "COMMENT '{0}': raw data is always there as `{0}` and cannot have another name",
            table.name()
        ))
    }
}

/// The form of a COMMENT. JSON in it is unpacked, for readable configuration files.
fn form_of(name: &str, comment: &str, defaults: &Defaults) -> Result<ReportForm, FormError> {
    if comment.starts_with('{')
        && let Comment::Report(definition) = read_comment(name, comment, defaults)?
    {
        return Ok(ReportForm::from(&*definition));
    }
    Ok(ReportForm::of_comment(name, comment))
}

/// Lists the results; returns whether every table was imported.
fn report_outcomes(
    outcomes: &[(String, Outcome)],
    others: usize,
    to: &mut impl Write,
) -> io::Result<bool> {
    let mut counts = [0_usize; 3];
    for (name, outcome) in outcomes {
        let (at, what, more) = match outcome {
            Outcome::Taken(comment) => (0, "taken", comment),
            Outcome::AlreadyThere(note) => (1, "already there", note),
            Outcome::NotTaken(reason) => (2, "not taken", reason),
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
    writeln!(to, "{taken} taken, {there} already there, {left} not taken{passed_over}.")?;
    Ok(left == 0)
}

#[cfg(test)]
mod tests;
