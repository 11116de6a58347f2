//! Changes to the set of reports: creating, filling, dropping and, where asked for, persisting
//! them, one at a time.
//!
//! Called on a front end's thread that may block. A change is written to `state.dir` before it is
//! made and abandoned when the write fails, so whatever a client was told still holds after a
//! restart. A new report is filled a few thousand raw rows at a time, so that the merger goes on
//! meanwhile. The number of reports is limited by [`REPORTS_MAX`].

use std::sync::Arc;

use super::{Catalog, answering, writing};
use crate::grammar::native::{FormError, ReportForm};
use crate::instruments::Instrument;
use crate::query::answer::ReportSummary;
use crate::query::definitions::{REPORTS_MAX, is_reserved};
use crate::query::error::QueryError;
use crate::query::tables::{FormTarget, StatusTable, read_form};
use crate::report::DefinedBy;
use crate::report::definition::Definition;
use crate::series::why_left_out;
use crate::state::{State, StateError};

/// Lock over the set of reports and its file in `state.dir`.
pub(crate) static CHANGES: Instrument = Instrument::wait("wait/synch/mutex/state/reports", "lock");
/// Filling a newly created report from the raw rows; work is counted in requests.
pub(crate) static BACK_FILL: Instrument = Instrument::new("stage/report/back-fill");

/// Raw rows added to a new report under one hold of the lock, which takes a few hundred
/// microseconds.
const FILL_REQUESTS: usize = 2_048;

impl Catalog {
    /// Creates the report described by a form, fills it from the data in memory and persists it.
    ///
    /// # Errors
    /// [`QueryError::BadValue`] naming the member and the bad part of it,
    /// [`QueryError::ReportExists`], [`QueryError::LimitReached`].
    pub fn create_report(&self, form: &ReportForm) -> Result<ReportSummary, QueryError> {
        let name = &form.name;
        let target = read_form(form, &self.defaults)?;
        let mut changes = CHANGES.lock(&self.changes);
        self.check_open(changes.as_ref())?;
        self.check_room(name)?;
        if let Some(state) = &mut *changes {
            let members = serde_json::to_value(form).ok();
            let members = members.and_then(|form| form.as_object().cloned());
            state.put(name, &members.unwrap_or_default()).map_err(|error| self.not_kept(&error))?;
        }
        match target {
            FormTarget::Report(definition) => {
                self.make(*definition, &DefinedBy::RunTime);
                let entry = self.entry(name)?;
                let rows = answering(&self.live).reports.rows(&entry);
                let mut summary = self.summary(&entry, rows);
                if self.left_out().contains(name) {
                    let why = why_left_out();
                    tracing::warn!(report = name, "{why}.");
                    summary.partial.push(why);
                }
                Ok(summary)
            }
            FormTarget::Table(table, samples) => {
                let table = StatusTable::new(form, table, samples, DefinedBy::RunTime);
                let summary = self.table_summary(&table);
                self.tables.write().push(table);
                Ok(summary)
            }
        }
    }

    /// Drops a report made at run time, even one that exists only on disk because it could not be
    /// made at start. Returns whether the removal survives a restart: false without a state
    /// directory.
    ///
    /// # Errors
    /// [`QueryError::UnknownReport`], [`QueryError::ReportFixed`].
    pub fn drop_report(&self, name: &str) -> Result<bool, QueryError> {
        let mut changes = CHANGES.lock(&self.changes);
        self.check_open(changes.as_ref())?;
        let is_kept = changes.as_ref().is_some_and(|state| state.has(name));
        match self.defined_by(name) {
            Some(DefinedBy::Source | DefinedBy::RunTime) => {
                let rules = self.alerts.rules();
                if let Some(rule) = rules.iter().find(|it| it.entry.report == name) {
                    let (rule, place) = (&rule.entry.name, &rule.entry.entry.location);
                    return Err(fixed(
                        name,
                        format!(
                            "the rule {rule:?} is over it, {place}; remove that first and reload (SIGHUP)"
                        ),
                    ));
                }
            }
            Some(DefinedBy::BuiltIn) => return Err(fixed(name, "it is built in".to_owned())),
            Some(DefinedBy::Configuration(place)) => {
                let reason =
                    format!("it is defined in the configuration, {place}; remove it there");
                return Err(fixed(name, reason));
            }
            None if is_kept => {}
            None => return Err(self.suggesting(QueryError::unknown_report(name))),
        }
        if let Some(state) = &mut *changes {
            let removed = state.remove(name);
            removed.map_err(|error| self.not_kept(&error))?;
        }
        self.tables.write().retain(|table| table.name != name);
        self.drop_live(name);
        Ok(self.persistent)
    }

    /// Drops the live report of that name, if it exists.
    pub(super) fn drop_live(&self, name: &str) {
        {
            let mut live = writing(&self.live);
            let live = &mut *live;
            live.reports.remove(name, &mut live.pool);
        }
        self.readings.lock().forget(name);
        self.made_ms.write().remove(name);
    }

    /// The reports for which there was no place among those that are read second by second.
    pub fn left_out(&self) -> Vec<String> {
        let live = answering(&self.live);
        live.reports.left_out().iter().map(|it| it.definition.name.clone()).collect()
    }

    /// Ends all changes and releases `state.dir` for the next daemon.
    pub(crate) fn close(&self) {
        *CHANGES.lock(&self.changes) = None;
    }

    /// Checks that changes are still possible.
    fn check_open(&self, state: Option<&State>) -> Result<(), QueryError> {
        if self.persistent && state.is_none() {
            return Err(QueryError::Busy("the daemon is stopping".to_owned()));
        }
        Ok(())
    }

    /// Checks that there is room for another report and that the name is free. The result holds as
    /// long as `changes` is held.
    pub(super) fn check_room(&self, name: &str) -> Result<(), QueryError> {
        let reserved = || is_reserved(name).then_some(DefinedBy::BuiltIn);
        if let Some(by) = self.own_name(name).or_else(reserved) {
            return Err(QueryError::ReportExists {
                name: name.to_owned(),
                defined: by.name().to_owned(),
            });
        }
        let reports = answering(&self.live).reports.iter().count();
        if reports + self.tables.read().len() >= REPORTS_MAX {
            return Err(QueryError::LimitReached(format!(
                "there are {REPORTS_MAX} reports, which is the most there can be; drop one first"
            )));
        }
        Ok(())
    }

    /// Returns who made the report or table of this name.
    pub(super) fn own_name(&self, name: &str) -> Option<DefinedBy> {
        if let Some(entry) = answering(&self.live).reports.find(name) {
            return Some(entry.defined_by.clone());
        }
        let tables = self.tables.read();
        let table = tables.iter().find(|table| table.name == name)?;
        Some(table.defined_by.clone())
    }

    /// Like `own_name`, for any name by which something can be read, aliases included.
    fn defined_by(&self, name: &str) -> Option<DefinedBy> {
        self.own_name(name).or_else(|| StatusTable::aliased(name).map(|_| DefinedBy::BuiltIn))
    }

    /// Creates a report whose name is free and fills it from the raw rows, a few at a time so that
    /// the merger goes on meanwhile. Returns the id of the first request that it counts itself.
    pub(super) fn make(&self, definition: Definition, by: &DefinedBy) -> u64 {
        let definition = Arc::new(definition);
        let now_ms = self.clock.mono_ms();
        self.made_ms.write().insert(definition.name.clone(), now_ms);
        let (mut filling, mut next) = {
            let mut live = writing(&self.live);
            let live = &mut *live;
            let filling = live.reports.define(definition, by.clone(), &live.pool);
            (filling, live.pool.requests.next_id())
        };
        let mut stage = BACK_FILL.begin();
        let estimated = answering(&self.live).pool.requests.len() as u64;
        let mut completed = 0;
        while let Some(rest) = filling {
            stage.work(completed.min(estimated), estimated);
            completed += FILL_REQUESTS as u64;
            let mut live = writing(&self.live);
            let live = &mut *live;
            filling = live.reports.fill(rest, &mut live.pool, FILL_REQUESTS);
            next = live.pool.requests.next_id();
        }
        next
    }

    /// Returns the error for a change that cannot be persisted. Tries to write to the folder at
    /// once, so that `/readyz` and the pages report what is wrong with it.
    fn not_kept(&self, error: &StateError) -> QueryError {
        let error = error.file_advised();
        tracing::error!(error, "Refused a change to the reports, because it cannot be kept.");
        if let Some(snapshots) = &self.status.snapshots {
            snapshots.check();
        }
        QueryError::NotKept(error)
    }
}

fn fixed(name: &str, reason: String) -> QueryError {
    QueryError::ReportFixed { name: name.to_owned(), reason }
}

/// A [`QueryError::BadValue`] that names the member at fault.
impl From<FormError> for QueryError {
    fn from(error: FormError) -> Self {
        match error.part_and_problem() {
            ("", problem) => Self::bad_value("report", problem),
            (part, problem) => Self::bad_value(part, problem),
        }
    }
}
