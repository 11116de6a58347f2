//! Applies a new set of configured reports at run time: removes unwanted ones and creates new ones.
//!
//! Called on the thread that reads signals, with valid definitions. A report with an unchanged
//! definition stays with all its counts; one with another definition is dropped and created again,
//! filled from the raw rows. If a report created at run time has the name already, it stays, and
//! the configured one is refused.

use super::Catalog;
use super::report_set::CHANGES;
use crate::merger::{reading, writing};
use crate::query::definitions::Definitions;
use crate::query::tables::StatusTable;
use crate::release::REPORT;
use crate::report::DefinedBy;
use crate::report::definition::Definition;

/// The changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reconfigured {
    /// Reports and tables that were created.
    pub made: Vec<String>,
    /// Reports and tables that were removed, or created again.
    pub dropped: Vec<String>,
    /// Those that could not be created, with the reasons.
    pub refused: Vec<(String, String)>,
}

const fn is_configured(by: &DefinedBy) -> bool {
    matches!(by, DefinedBy::Configuration(_))
}

impl Catalog {
    /// Replaces the configured reports by those of `wanted`.
    pub fn reconfigure(&self, wanted: Definitions) -> Reconfigured {
        let _one_at_a_time = CHANGES.lock(&self.changes);
        let mut reports = wanted.reports;
        reports.retain(|(_, by)| is_configured(by));
        let mut tables = wanted.tables;
        tables.retain(|table| is_configured(&table.defined_by));
        let mut done = Reconfigured::default();
        let unwanted: Vec<String> = {
            let live = reading(&self.live);
            let entries = live.reports.iter();
            entries
                .filter(|entry| is_configured(&entry.defined_by))
                .filter(|entry| !reports.iter().any(|(it, _)| *it == *entry.definition))
                .map(|entry| entry.definition.name.clone())
                .collect()
        };
        unwanted.iter().for_each(|name| self.drop_live(name));
        done.dropped = unwanted;
        self.tables.write().retain(|table| {
            let what =
                |table: &StatusTable| (table.name.clone(), table.table, table.comment.clone());
            let stays = !is_configured(&table.defined_by)
                || tables.iter().any(|it| what(it) == what(table));
            if !stays {
                done.dropped.push(table.name.clone());
            }
            stays
        });
        for (definition, by) in reports {
            if self.may_make(&definition.name, &by, &mut done) {
                self.make(definition, &by);
            }
        }
        for table in tables {
            if self.may_make(&table.name, &table.defined_by, &mut done) {
                self.tables.write().push(table);
            }
        }
        done
    }

    /// The reports that can be dropped.
    #[must_use]
    pub fn made_at_run_time(&self) -> Vec<(Definition, DefinedBy)> {
        let live = reading(&self.live);
        let made = live.reports.iter().filter(|it| it.defined_by.is_droppable());
        made.map(|it| ((*it.definition).clone(), it.defined_by.clone())).collect()
    }

    /// Watches these reports for alert rules, and that of releases.
    pub fn watch_for_alerts(&self, mut names: Vec<String>) {
        names.push(REPORT.to_owned());
        let live = &mut *writing(&self.live);
        live.reports.watch_for_alerts(names, &live.pool);
    }

    /// Whether to create a report or table of this name; an existing one with the right definition
    /// only gets its location.
    fn may_make(&self, name: &str, by: &DefinedBy, done: &mut Reconfigured) -> bool {
        if self.own_name(name).as_ref().is_some_and(is_configured) {
            self.move_place(name, by.clone());
            return false;
        }
        let room = self.check_room(name);
        match &room {
            Ok(()) => done.made.push(name.to_owned()),
            Err(error) => done.refused.push((name.to_owned(), error.to_string())),
        }
        room.is_ok()
    }

    /// Updates the location: the line in the file may have changed.
    fn move_place(&self, name: &str, by: DefinedBy) {
        let mut tables = self.tables.write();
        if let Some(table) = tables.iter_mut().find(|table| table.name == name) {
            table.defined_by = by;
            return;
        }
        drop(tables);
        writing(&self.live).reports.set_defined_by(name, by);
    }
}
