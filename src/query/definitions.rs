//! The initial definitions: built-in reports and tables, then the configured ones, then those of
//! `state.dir`.
//!
//! Called by `daemon` before anything is received, by `pinbad check` and by `pinbad tables`; pure.
//! An error in the configuration ends the start, naming location and key. An error among the
//! reports created at run time does not: the configuration may have gained a report of the same
//! name since. Such a definition stays in its file and is left out, with a reason for the log.

use serde::Deserialize as _;
use serde_json::Value as Json;
use thiserror::Error;

use super::create_table;
use super::tables::{FormTarget, StatusTable, read_form};
use crate::config::{Config, Entry};
use crate::grammar::FixedTable;
use crate::grammar::builtin;
use crate::grammar::native::{FormError, ReportForm, reworded};
use crate::release;
use crate::report::DefinedBy;
use crate::report::definition::{Defaults, Definition};

/// Most reports and tables.
pub const REPORTS_MAX: usize = 1_000;

/// The reports of [`Definitions::add_squid`].
const SQUID: &str = include_str!("definitions/squid.json");

/// The reports of [`Definitions::add_profile`].
const PROFILE: &str = include_str!("definitions/profile.json");

/// Preamble of the tables for a MariaDB in front.
const FEDERATED_FIRST: &str = "-- For a MariaDB in front of pinbad: its own tables, and pinbad's beside them. Once, as an administrator:
--   INSTALL SONAME 'ha_federatedx';
-- The tables hold nothing; each statement reads them from pinbad, by their keys where it can.";

/// All initial definitions, with unique names.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    /// The reports, in listing order.
    pub reports: Vec<(Definition, DefinedBy)>,
    /// The tables on the daemon itself.
    pub tables: Vec<StatusTable>,
    /// Built-in ones that were dropped.
    pub dropped: Vec<String>,
}

/// An invalid `[[report]]` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place}: {problem}")]
pub struct ConfiguredError {
    /// File and line of the key at fault, or of the entry.
    pub place: String,
    /// The key, the problem, and what is accepted.
    pub problem: String,
}

impl Definitions {
    /// The built-in definitions and those of the configuration.
    ///
    /// # Errors
    /// The first invalid entry of the configuration.
    pub fn new(configured: &[Entry], defaults: &Defaults) -> Result<Self, ConfiguredError> {
        let (all, errors) = Self::read(configured, defaults);
        errors.into_iter().next().map_or(Ok(all), Err)
    }

    /// The same without those entries of the configuration that cannot be, and what is wrong with
    /// these.
    pub fn read(configured: &[Entry], defaults: &Defaults) -> (Self, Vec<ConfiguredError>) {
        let reports = builtin::reports(defaults).into_iter();
        let mut all = Self {
            reports: reports.map(|it| (it, DefinedBy::BuiltIn)).collect(),
            tables: StatusTable::built_in(),
            dropped: Vec::new(),
        };
        let mut errors = Vec::new();
        for entry in configured {
            if let Err(wrong) = all.add_configured(entry, defaults) {
                errors.extend(wrong);
            }
        }
        (all, errors)
    }

    fn add_configured(
        &mut self,
        entry: &Entry,
        defaults: &Defaults,
    ) -> Result<(), Vec<ConfiguredError>> {
        let form = configured_form(entry)?;
        let asked = read_form(&form, defaults).map_err(|error| vec![form_error(entry, &error)])?;
        let by = DefinedBy::Configuration(entry.location.to_string());
        self.add(&form, asked, by).map_err(|problem| vec![at(entry, "name", &problem)])
    }

    /// Adds saved definitions that were created at run time. Returns invalid ones, by name (the
    /// entry itself if it has none), with the reason.
    pub fn add_kept(&mut self, kept: &[Json], defaults: &Defaults) -> Vec<(String, String)> {
        let mut left_out = Vec::new();
        for entry in kept {
            if let Err(reason) = self.add_form(entry, defaults, DefinedBy::RunTime) {
                let name = entry.get("name").and_then(Json::as_str);
                let name = name.map_or_else(|| entry.to_string(), str::to_owned);
                left_out.push((name, reason));
            }
        }
        left_out
    }

    /// Adds what a daemon with this configuration has beside the configured ones: those that were
    /// saved, then those that come with its sources, which can be dropped like saved ones. An
    /// existing report of the same name is kept. Returns what [`add_kept`](Self::add_kept) does.
    pub fn add_others(
        &mut self,
        config: &Config,
        (kept, dropped): (&[Json], Vec<String>),
        defaults: &Defaults,
    ) -> Vec<(String, String)> {
        let left_out = self.add_kept(kept, defaults);
        self.dropped = dropped;
        if !config.squids.is_empty() {
            self.add_squid(defaults);
        }
        if !config.stats.is_empty() {
            self.add_profile(defaults);
        }
        left_out
    }

    /// Adds the reports on Squid.
    pub fn add_squid(&mut self, defaults: &Defaults) {
        let before = self.reports.len();
        self.add_ready(SQUID, defaults);
        // Squid's lines have neither CPU times nor memory.
        for (definition, _) in self.reports.iter_mut().skip(before) {
            definition.forgo_rusage(defaults);
        }
    }

    fn add_ready(&mut self, ready: &str, defaults: &Defaults) {
        let ready: Vec<Json> = serde_json::from_str(ready).expect("a test reads it");
        for report in ready {
            if !self.dropped.iter().any(|name| report["name"] == **name) {
                let _taken = self.add_form(&report, defaults, DefinedBy::Source);
            }
        }
    }

    /// Adds the table of alerts, and that of objectives if there are any. A report that has such a
    /// name stays what it is.
    pub fn add_alerts(&mut self, has_objectives: bool) {
        let objectives = has_objectives.then_some(FixedTable::Slo);
        self.add_tables([FixedTable::Alerts].into_iter().chain(objectives));
    }

    /// Adds the report that releases are counted from, by this request tag. Returns false if an
    /// existing report has its name.
    pub fn add_releases(&mut self, tag: &str, defaults: &Defaults) -> bool {
        let definition = release::definition(tag, defaults);
        let definition = definition.filter(|it| self.defined(&it.name).is_none());
        let is_added = definition.is_some();
        let definition = definition.map(|it| (it, DefinedBy::BuiltIn));
        self.reports.extend(definition);
        is_added
    }

    /// Adds the tables of samples and the ready-made reports over them. An existing report with
    /// such a name is kept.
    pub fn add_profile(&mut self, defaults: &Defaults) {
        self.add_tables([FixedTable::Sample, FixedTable::StatRequest]);
        self.add_ready(PROFILE, defaults);
    }

    /// Adds those of these tables whose names are free.
    fn add_tables(&mut self, tables: impl IntoIterator<Item = FixedTable>) {
        for table in tables {
            if self.defined(table.name()).is_none() {
                self.tables.push(StatusTable::of(table));
            }
        }
    }

    /// A CREATE TABLE statement for each table and report, separated by empty lines: fixed tables,
    /// built-in reports, configured ones, those created at run time. With `server`
    /// (`mysql://user@host:port/pinba`) they are for a MariaDB in front that reads the daemon's
    /// tables there, preceded by its preamble.
    pub fn statements(&self, defaults: &Defaults, server: Option<&str>) -> String {
        let fixed =
            FixedTable::PINBA.map(|table| create_table::fixed(table.name(), table, defaults));
        let reports = self.reports.iter().map(|(it, _)| create_table::report(it));
        let tables = self.tables.iter().filter(|it| it.defined_by != DefinedBy::BuiltIn);
        let tables = tables.map(|it| it.create_table(&it.name, defaults));
        let all = fixed.into_iter().chain(reports).chain(tables);
        let all: Vec<String> = match server {
            None => all.map(|table| table.pinba()).collect(),
            Some(server) => std::iter::once(FEDERATED_FIRST.to_owned())
                .chain(all.map(|table| table.federated(server)))
                .collect(),
        };
        all.join("\n\n") + "\n"
    }

    /// All definitions as forms.
    pub fn forms(&self) -> Vec<ReportForm> {
        let reports = self.reports.iter().map(|(it, _)| match &it.comment {
            Some(comment) => {
                ReportForm { history: it.history, ..ReportForm::of_comment(&it.name, comment) }
            }
            None => ReportForm::from(it),
        });
        let tables = self.tables.iter().map(StatusTable::form);
        reports.chain(tables).collect()
    }

    fn add_form(&mut self, entry: &Json, defaults: &Defaults, by: DefinedBy) -> Result<(), String> {
        let form = ReportForm::deserialize(entry).map_err(|error| error.to_string())?;
        let asked = read_form(&form, defaults).map_err(|error| error.to_string())?;
        self.add(&form, asked, by)
    }

    fn add(&mut self, form: &ReportForm, asked: FormTarget, by: DefinedBy) -> Result<(), String> {
        if let Some(other) = self.defined(&form.name) {
            let name = &form.name;
            return Err(match other {
                DefinedBy::BuiltIn => format!("there is a built-in report called '{name}'"),
                DefinedBy::Configuration(place) => {
                    format!("there is already a report called '{name}', defined in {place}")
                }
                DefinedBy::Source | DefinedBy::RunTime => {
                    format!("there is already a report called '{name}'")
                }
            });
        }
        if self.reports.len() + self.tables.len() >= REPORTS_MAX {
            let most = "which is the most there can be";
            return Err(format!("there are {REPORTS_MAX} reports, {most}"));
        }
        match asked {
            FormTarget::Report(definition) => self.reports.push((*definition, by)),
            FormTarget::Table(table, samples) => {
                self.tables.push(StatusTable::new(form, table, samples, by));
            }
        }
        Ok(())
    }

    /// Who defined a name.
    fn defined(&self, name: &str) -> Option<&DefinedBy> {
        if is_reserved(name) {
            return Some(&DefinedBy::BuiltIn);
        }
        let reports = self.reports.iter().map(|(it, by)| (&it.name, by));
        let tables = self.tables.iter().map(|it| (&it.name, &it.defined_by));
        let mut all = reports.chain(tables);
        all.find(|(other, _)| *other == name).map(|(_, by)| by)
    }
}

/// Whether a name belongs to a table of raw data, or to `history.coverage`.
pub(crate) fn is_reserved(name: &str) -> bool {
    FixedTable::raw(name).is_some() || name.eq_ignore_ascii_case("coverage")
}

/// The form of an entry; errors point at the key that has the wrong type or should not be there.
fn configured_form(entry: &Entry) -> Result<ReportForm, Vec<ConfiguredError>> {
    let large = entry.too_large().map(|key| at(entry, key, "too large; accepted: up to 64 bits"));
    let large: Vec<_> = large.collect();
    if !large.is_empty() {
        return Err(large);
    }
    let read = |table: &toml::Table| table.clone().try_into::<ReportForm>();
    let whole = match read(&entry.table) {
        Ok(form) => return Ok(form),
        Err(error) => error,
    };
    // The parser does not say which key it was, so each is tried separately.
    let wrong = entry.table.iter().filter_map(|(key, value)| {
        let mut alone = toml::Table::from_iter([("name".to_owned(), "x".into())]);
        alone.insert(key.clone(), value.clone());
        let error = read(&alone).err()?;
        Some(at(entry, key, &reworded(key, error.message().trim_end())))
    });
    let mut wrong: Vec<_> = wrong.collect();
    if wrong.is_empty() {
        wrong.push(of_entry(entry, &reworded("", whole.message().trim_end())));
    }
    Err(wrong)
}

/// An error about the entry as a whole.
fn of_entry(entry: &Entry, problem: &str) -> ConfiguredError {
    ConfiguredError { place: entry.location.to_string(), problem: format!("report: {problem}") }
}

/// An error about the key `part`, or an element of its list (`keys[0]`).
fn at(entry: &Entry, part: &str, problem: &str) -> ConfiguredError {
    let key = part.split('[').next().unwrap_or(part);
    ConfiguredError {
        place: entry.location_of(key).to_string(),
        problem: format!("report.{part}: {problem}"),
    }
}

fn form_error(entry: &Entry, error: &FormError) -> ConfiguredError {
    match (error, error.part_and_problem()) {
        // Of two definitions in one, either is at fault: names the one other than the comment.
        (FormError::Mixed(other), _) => at(entry, other, &error.to_string()),
        (_, ("", problem)) => of_entry(entry, &problem),
        (_, (part, problem)) => at(entry, part, &problem),
    }
}

#[cfg(test)]
mod tests;
