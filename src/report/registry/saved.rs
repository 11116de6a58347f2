//! The reports on their way into a snapshot, and out of one.
//!
//! The state's writer takes a [`ReportsCut`] under the lock, all reports at the same moment, then copies what groups are
//! called a thousand at a time, and last, without the lock, the journals. At start a [`ReportsRestore`] makes the families
//! as they were and lets those reports in that are still defined and served by them; what is left over is made anew, and
//! filled from the raw rows.

use super::{DefinedBy, Entry, Reports, scope_of};
use crate::packed::{Damage, Packer, Unpacker};
use crate::pool::Pool;
use crate::report::definition::Definition;
use crate::report::family::saved::{FamilyCut, FamilyRestore, Trouble};
use crate::report::{Defined, Filling};

/// Raw rows taken into a new report in one go, at start.
const FILL_REQUESTS: usize = 1 << 16;

/// All reports as they stood at one moment.
#[derive(Debug)]
pub struct ReportsCut {
    families: Vec<FamilyCut>,
    /// So many reports had been dropped, or all emptied.
    removals: u64,
}

impl ReportsCut {
    /// How many families there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.families.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// What family number `at` is, and which reports it has.
    #[must_use]
    pub fn head(&self, at: usize) -> &Packer {
        &self.families[at].head
    }
}

impl Reports {
    /// All reports as they stand. The lock is held for it: some tens of nanoseconds for each group that gained something
    /// in the running tick.
    #[must_use]
    pub fn cut(&self) -> ReportsCut {
        let families = self.families.iter().enumerate();
        let families = families.filter_map(|(at, family)| {
            let family = family.as_ref()?;
            let of_family = self.entries.iter().filter(|entry| entry.family == at);
            let reports: Vec<_> = of_family
                .map(|entry| (entry.report, entry.definition.name.as_str()))
                .collect();
            Some(family.cut(at, &reports))
        });
        ReportsCut {
            families: families.collect(),
            removals: self.removals,
        }
    }

    /// Whether a cut can still be written: not when a report was dropped since, or all were emptied.
    #[must_use]
    pub fn is_current(&self, cut: &ReportsCut) -> bool {
        self.removals == cut.removals
    }

    /// Writes what some groups of family number `at` of the cut are called; returns where to go on, `None` after the last.
    pub fn copy_groups(
        &self,
        cut: &ReportsCut,
        at: usize,
        from: u32,
        pool: &Pool,
        to: &mut Packer,
    ) -> Option<u32> {
        let cut = &cut.families[at];
        let family = self.families.get(cut.at)?.as_ref()?;
        family.pack_groups(cut, from, &pool.words, to)
    }

    /// Up to when the merger let time pass, monotonic milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Goes on counting folded keys from what another process counted.
    pub fn restore_folded(&mut self, folded: u64) {
        self.budget.restore_folded(folded);
    }
}

impl ReportsCut {
    /// Gives the journals of family number `at` that are in its window at `now_ms`, part by part. Needs no lock.
    ///
    /// # Errors
    /// The first of `each`.
    pub fn journals<E>(
        &self,
        at: usize,
        now_ms: u64,
        each: impl FnMut(&Packer) -> Result<(), E>,
    ) -> Result<(), E> {
        self.families[at].journals(now_ms, each)
    }
}

/// What of a snapshot's reports was not taken, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRestored {
    /// The report.
    pub report: String,
    /// Why.
    pub reason: &'static str,
}

/// Reports that are being read back, before anything is merged.
#[derive(Debug)]
pub struct ReportsRestore {
    /// Not made yet.
    remaining: Vec<(Definition, DefinedBy)>,
    /// The names of all, in the order in which they are to be listed.
    order: Vec<String>,
    current: Option<FamilyRestore>,
    /// What did not come back.
    not_restored: Vec<NotRestored>,
    now_ms: u64,
}

impl ReportsRestore {
    /// For reports that are to be there from the start, at monotonic time `now_ms`. There must be none yet.
    #[must_use]
    pub fn new(definitions: Vec<(Definition, DefinedBy)>, now_ms: u64) -> Self {
        let names = definitions.iter().map(|(it, _)| it.name.clone());
        Self {
            order: names.collect(),
            remaining: definitions,
            current: None,
            not_restored: Vec::new(),
            now_ms,
        }
    }

    /// Begins with the family of this head.
    ///
    /// # Errors
    /// When it cannot be one.
    pub fn family(
        &mut self,
        from: &mut Unpacker<'_>,
        reports: &mut Reports,
        pool: &mut Pool,
    ) -> Result<(), Damage> {
        self.end_family(reports, pool);
        let found = FamilyRestore::begin(from, self.now_ms, &reports.budget)?;
        let mut wanted = false;
        for (name, _) in &found.reports {
            let reason = match self.remaining.iter().find(|(it, _)| it.name == *name) {
                None => "it is not defined any more",
                Some((it, _)) if found.family.serves(&scope_of(it), it) => {
                    wanted = true;
                    continue;
                }
                Some(_) => "it is defined otherwise now: filled from the raw requests instead",
            };
            self.not_restored.push(NotRestored {
                report: name.clone(),
                reason,
            });
        }
        self.current = wanted.then_some(found);
        Ok(())
    }

    /// Reads what groups of the family are called.
    ///
    /// # Errors
    /// When that cannot be.
    pub fn groups(
        &mut self,
        from: &mut Unpacker<'_>,
        reports: &mut Reports,
        pool: &mut Pool,
    ) -> Result<(), Damage> {
        let Some(family) = &mut self.current else {
            return Ok(());
        };
        let read = family.groups(from, pool.split().0, &mut reports.budget);
        self.judge(read, reports, pool)
    }

    /// Reads a part of a journal of the family.
    ///
    /// # Errors
    /// When that cannot be.
    pub fn journal(
        &mut self,
        from: &mut Unpacker<'_>,
        reports: &mut Reports,
        pool: &mut Pool,
    ) -> Result<(), Damage> {
        let Some(family) = &mut self.current else {
            return Ok(());
        };
        let read = family.journal(from);
        self.judge(read, reports, pool)
    }

    /// Gives a family up that is larger than `reports.memory` allows.
    fn judge(
        &mut self,
        read: Result<(), Trouble>,
        reports: &mut Reports,
        pool: &mut Pool,
    ) -> Result<(), Damage> {
        let Some(family) = &mut self.current else {
            return Ok(());
        };
        let taken = reports.taken() + family.taken();
        reports.budget.measure(taken);
        // Keys fold before that; this is the end, whatever the file says.
        let too_large = taken.all > reports.budget.limit();
        match read {
            Err(Trouble::Damage(damage)) => Err(damage),
            Ok(()) if !too_large => Ok(()),
            Ok(()) | Err(Trouble::TooLarge) => {
                if let Some(mut family) = self.current.take() {
                    family.family.clear(pool.split().0);
                    let names = family.reports.into_iter().map(|(name, _)| name);
                    self.not_restored.extend(names.map(|report| NotRestored {
                        report,
                        reason: "it does not fit into reports.memory: filled from the raw requests instead",
                    }));
                }
                Ok(())
            }
        }
    }

    /// Makes the family at hand live, with those of its reports that are still defined.
    fn end_family(&mut self, reports: &mut Reports, pool: &mut Pool) {
        let Some(found) = self.current.take() else {
            return;
        };
        let mut taken = Vec::new();
        for (place, (name, _)) in found.reports.iter().enumerate() {
            let served = |(it, _): &(Definition, DefinedBy)| {
                it.name == *name && found.family.serves(&scope_of(it), it)
            };
            if let Some(at) = self.remaining.iter().position(served) {
                let (definition, by) = self.remaining.remove(at);
                taken.push((place, std::sync::Arc::new(definition), by));
            }
        }
        let wanted: Vec<_> = taken.iter().map(|(place, it, _)| (*place, &**it)).collect();
        let (family, numbers) = found.finish(&wanted, reports.rows_max, pool.split().0);
        let at = reports.families.len();
        reports.families.push(Some(family));
        for ((_, definition, defined_by), report) in taken.into_iter().zip(numbers) {
            reports.entries.push(Entry {
                definition,
                defined_by,
                family: at,
                report,
            });
        }
        reports.measure();
    }

    /// Ends the reading, makes the reports that did not come back, and fills them from the raw rows. Returns what was left
    /// out of the snapshot.
    pub fn finish(mut self, reports: &mut Reports, pool: &mut Pool) -> Vec<NotRestored> {
        self.end_family(reports, pool);
        reports.now_ms = self.now_ms;
        self.remaining
            .sort_by_key(|(definition, _)| std::cmp::Reverse(definition.keys.len()));
        for (definition, by) in self.remaining {
            let mut defined = reports.define(definition.into(), by.clone(), pool);
            while let Defined::Filling(filling) = defined {
                defined = next_step(reports.fill(filling, &by, pool, FILL_REQUESTS));
            }
        }
        let order = self.order;
        reports.entries.sort_by_key(|entry| {
            let place = order.iter().position(|name| *name == entry.definition.name);
            place.unwrap_or(usize::MAX)
        });
        self.not_restored
    }
}

fn next_step(filling: Option<Filling>) -> Defined {
    filling.map_or(Defined::Live, Defined::Filling)
}
