//! Applies a new set of configured reports at run time: removes unwanted ones and creates new ones.
//!
//! Called on the thread that reads signals, with valid definitions. A report with an unchanged
//! definition stays with all its counts; one with another definition is dropped and created again,
//! filled from the raw rows. One that can be dropped gives way to a configured one of its name, as
//! at a start, and comes back from `state.dir` when that goes.

use super::Catalog;
use super::report_set::CHANGES;
use crate::config::Config;
use crate::merger::{reading, writing};
use crate::query::definitions::Definitions;
use crate::query::tables::StatusTable;
use crate::release::REPORT;
use crate::report::DefinedBy;
use crate::report::definition::Definition;
use crate::state::State;

/// The changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reconfigured {
    /// Reports and tables that were created.
    pub made: Vec<String>,
    /// Reports and tables that were removed, or created again.
    pub dropped: Vec<String>,
    /// Those that could not be created, with the reasons.
    pub refused: Vec<(String, String)>,
    /// Those of them that were dropped because a configured one has their name now.
    pub replaced: Vec<String>,
}

const fn is_configured(by: &DefinedBy) -> bool {
    matches!(by, DefinedBy::Configuration(_))
}

impl Catalog {
    /// Replaces the configured reports by those of `wanted`; `config` is in force.
    pub fn reconfigure(&self, mut wanted: Definitions, config: &Config) -> Reconfigured {
        let changes = CHANGES.lock(&self.changes);
        self.add_others(&mut wanted, config, changes.as_ref());
        let Definitions { reports, tables, .. } = &wanted;
        let configured_reports = reports.iter().filter(|(_, by)| is_configured(by));
        let configured_tables = tables.iter().filter(|table| is_configured(&table.defined_by));
        let takes_name = |name: &str| {
            configured_reports.clone().any(|(it, _)| it.name == name)
                || configured_tables.clone().any(|table| table.name == name)
        };
        let mut done = Reconfigured::default();
        let unwanted: Vec<(String, DefinedBy)> = {
            let live = reading(&self.live);
            let entries = live.reports.iter();
            entries
                .filter(|entry| {
                    let (definition, by) = (&entry.definition, &entry.defined_by);
                    (is_configured(by) || takes_name(&definition.name))
                        && !configured_reports.clone().any(|(it, _)| *it == **definition)
                })
                .map(|entry| (entry.definition.name.clone(), entry.defined_by.clone()))
                .collect()
        };
        unwanted.iter().for_each(|(name, _)| self.drop_live(name));
        let mut dropped = unwanted;
        self.tables.write().retain(|table| {
            let what =
                |table: &StatusTable| (table.name.clone(), table.table, table.comment.clone());
            let stays = !is_configured(&table.defined_by) && !takes_name(&table.name)
                || configured_tables.clone().any(|it| what(it) == what(table));
            if !stays {
                dropped.push((table.name.clone(), table.defined_by.clone()));
            }
            stays
        });
        let replaced = dropped.iter().filter(|(_, by)| !is_configured(by));
        done.replaced = replaced.map(|(name, _)| name.clone()).collect();
        done.dropped = dropped.into_iter().map(|(name, _)| name).collect();
        // Of the others only those whose names have just become free.
        let may_come = |name: &String, by: &DefinedBy, done: &Reconfigured| {
            is_configured(by) || by.is_droppable() && done.dropped.contains(name)
        };
        for (definition, by) in wanted.reports {
            if may_come(&definition.name, &by, &done)
                && self.may_make(&definition.name, &by, &mut done)
            {
                self.make(definition, &by);
            }
        }
        for table in wanted.tables {
            if may_come(&table.name, &table.defined_by, &done)
                && self.may_make(&table.name, &table.defined_by, &mut done)
            {
                self.tables.write().push(table);
            }
        }
        done
    }

    /// The reports that there are once `wanted` is [in force](Self::reconfigure): the configured
    /// ones, those that can be dropped and stay, and those that come back.
    pub fn reports_after(
        &self,
        mut wanted: Definitions,
        config: &Config,
    ) -> Vec<(Definition, DefinedBy)> {
        let changes = CHANGES.lock(&self.changes);
        self.add_others(&mut wanted, config, changes.as_ref());
        let Definitions { mut reports, tables, .. } = wanted;
        let is_live = |name: &str| self.own_name(name).is_some();
        reports.retain(|(it, by)| !by.is_droppable() || is_live(&it.name));
        let live = reading(&self.live);
        // Without `state.dir` they are nowhere else.
        let made = live.reports.iter().filter(|it| it.defined_by.is_droppable());
        let made = made.map(|it| ((*it.definition).clone(), it.defined_by.clone()));
        let is_new = |name: &str| {
            let reports = reports.iter().map(|it| &it.0.name);
            let mut taken = reports.chain(tables.iter().map(|it| &it.name));
            taken.all(|it| it != name)
        };
        let made: Vec<_> = made.filter(|it| is_new(&it.0.name)).collect();
        reports.extend(made);
        reports
    }

    /// Adds what there is beside the configured definitions.
    fn add_others(&self, wanted: &mut Definitions, config: &Config, state: Option<&State>) {
        let saved = state.map(|state| (state.reports(), state.dropped().to_vec()));
        // Those whose names the configuration has are no news.
        let _left_out = wanted.add_others(config, saved.unwrap_or_default(), &self.defaults);
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
        if self.own_name(name).is_some_and(|it| it != DefinedBy::BuiltIn) {
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
