//! Another set of configured reports while the daemon runs: what is not wanted any more goes, what is new is made.
//!
//! Called on the thread that reads signals, with definitions that are right in themselves. A report that is defined as
//! before stays as it is, with all it has counted; one that is defined otherwise is dropped and made anew, filled from the
//! raw rows. What was made at run time and has the name already stays, and the configured one is refused.

use super::Catalog;
use crate::query::definitions::{Definitions, REPORTS_MAX};
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
        let _one_at_a_time = self.changes.lock();
        let mut reports = wanted.reports;
        reports.retain(|(_, by)| is_configured(by));
        let mut tables = wanted.tables;
        tables.retain(|table| is_configured(&table.defined_by));
        let mut done = Reconfigured::default();
        self.drop_unwanted(&reports, &tables, &mut done);
        for (definition, by) in reports {
            let name = definition.name.clone();
            match self.taken(&name) {
                Taken::Configured => self.move_place(&name, by),
                Taken::By(reason) => done.refused.push((name, reason)),
                Taken::Free => {
                    self.make(definition, &by);
                    done.made.push(name);
                }
            }
        }
        for table in tables {
            match self.taken(&table.name) {
                Taken::Configured => self.move_place(&table.name, table.defined_by),
                Taken::By(reason) => done.refused.push((table.name, reason)),
                Taken::Free => {
                    done.made.push(table.name.clone());
                    self.tables.write().push(table);
                }
            }
        }
        done
    }

    fn drop_unwanted(
        &self,
        reports: &[(Definition, DefinedBy)],
        tables: &[StatusTable],
        done: &mut Reconfigured,
    ) {
        let unwanted: Vec<String> = {
            let live = self.live.read();
            let entries = live.reports.iter();
            entries
                .filter(|entry| is_configured(&entry.defined_by))
                .filter(|entry| !reports.iter().any(|(it, _)| *it == *entry.definition))
                .map(|entry| entry.definition.name.clone())
                .collect()
        };
        for name in unwanted {
            self.drop_live(&name);
            done.dropped.push(name);
        }
        let same = |a: &StatusTable, b: &StatusTable| {
            a.name == b.name && a.table == b.table && a.comment == b.comment
        };
        self.tables.write().retain(|table| {
            let stays =
                !is_configured(&table.defined_by) || tables.iter().any(|it| same(it, table));
            if !stays {
                done.dropped.push(table.name.clone());
            }
            stays
        });
    }

    fn taken(&self, name: &str) -> Taken {
        match self.own_name(name) {
            Some(DefinedBy::Configuration(_)) => Taken::Configured,
            Some(DefinedBy::RunTime) => Taken::By(
                "there is a report of that name that was made at run time; drop it first"
                    .to_owned(),
            ),
            Some(DefinedBy::BuiltIn) => {
                Taken::By("there is a built-in report of that name".to_owned())
            }
            None => {
                let reports = self.live.read().reports.iter().count();
                if reports + self.tables.read().len() >= REPORTS_MAX {
                    return Taken::By(format!(
                        "there are {REPORTS_MAX} reports, which is the most there can be"
                    ));
                }
                Taken::Free
            }
        }
    }

    /// The file may say it in another line now.
    fn move_place(&self, name: &str, by: DefinedBy) {
        let mut tables = self.tables.write();
        if let Some(table) = tables.iter_mut().find(|table| table.name == name) {
            table.defined_by = by;
            return;
        }
        drop(tables);
        self.live.write().reports.set_defined_by(name, by);
    }
}

/// Who has a name.
enum Taken {
    Free,
    Configured,
    By(String),
}
