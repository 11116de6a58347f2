//! Another set of configured reports while the daemon runs: what is not wanted any more goes, what is new is made.
//!
//! Called on the thread that reads signals, with definitions that are right in themselves. A report that is defined as
//! before stays as it is, with all it has counted; one that is defined otherwise is dropped and made anew, filled from the
//! raw rows. What was made at run time and has the name already stays, and the configured one is refused.

use super::Catalog;
use super::changes::CHANGES;
use crate::merger::{reading, writing};
use crate::query::definitions::Definitions;
use crate::query::tables::StatusTable;
use crate::report::DefinedBy;
use crate::report::definition::Definition;

/// What changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reconfigured {
    /// Reports and tables that were made.
    pub made: Vec<String>,
    /// Reports and tables that are gone, or were made anew.
    pub dropped: Vec<String>,
    /// Those that could not be made, with the reasons.
    pub refused: Vec<(String, String)>,
}

const fn is_configured(by: &DefinedBy) -> bool {
    matches!(by, DefinedBy::Configuration(_))
}

impl Catalog {
    /// Makes the configured reports be those of `wanted`.
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

    /// The reports that were made at run time.
    #[must_use]
    pub fn made_at_run_time(&self) -> Vec<(Definition, DefinedBy)> {
        let live = reading(&self.live);
        let made = live
            .reports
            .iter()
            .filter(|it| it.defined_by == DefinedBy::RunTime);
        made.map(|it| ((*it.definition).clone(), DefinedBy::RunTime))
            .collect()
    }

    /// Lets these reports be watched for rules of alerts.
    pub fn watch_for_alerts(&self, names: Vec<String>) {
        let live = &mut *writing(&self.live);
        live.reports.watch_for_alerts(names, &live.pool);
    }

    /// Whether a report or table of this name is to be made; one that is there as it should be only gets its place.
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

    /// The file may say it in another line now.
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
