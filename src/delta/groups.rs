//! The reader's knowledge of the groups in seconds: their keys, and their row in each watched
//! report.
//!
//! A group's row is found on its first gain, and forgotten with the group; a second's records are
//! sorted by row with a counting sort.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use hashbrown::HashTable;

use super::Second;
use crate::report::{FIRST_ID, KnownGroups, OTHER_ID, SecondLog, SecondPart, Watched};

/// The row of a group that was not looked up yet, and of one that has none in the report.
const UNKNOWN: u32 = u32::MAX;
const NONE: u32 = u32::MAX - 1;
/// The overflow row.
const OTHER: u32 = 0;

/// The groups of all directories, by the directory's number.
#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<u64, Known>);

#[derive(Debug)]
struct Known {
    groups: KnownGroups,
    /// Rows by number of the report.
    reports: BTreeMap<u64, Rows>,
}

/// The rows of a report.
#[derive(Debug)]
pub(super) struct Rows {
    /// Row by number of the group.
    row_of: Vec<u32>,
    /// Id of each row, and number of its groups.
    rows: Vec<(u64, u32)>,
    by_id: HashTable<u32>,
    free: Vec<u32>,
    /// Numbers of the second's records, sorted by row, and the end of each row.
    records: Vec<u32>,
    ends: Vec<u32>,
}

impl Groups {
    /// Applies the directory changes of a second, and forgets directories and reports that are not
    /// in it.
    pub(super) fn follow(&mut self, parts: &[SecondPart]) {
        let logs = || parts.iter().flat_map(SecondPart::logs);
        let reports = parts.iter().flat_map(|it| it.reports.iter());
        let reports: BTreeSet<u64> = reports.map(|it| it.number).collect();
        self.0.retain(|&it, _| logs().any(|log| log.directory == it));
        for known in self.0.values_mut() {
            known.reports.retain(|number, _| reports.contains(number));
        }
        for log in logs() {
            let known = self
                .0
                .entry(log.directory)
                .or_insert_with(|| Known { groups: log.nothing_known(), reports: BTreeMap::new() });
            let reports = &mut known.reports;
            known.groups.apply(&log.changes, |group| {
                reports.values_mut().for_each(|it| it.forget(group));
            });
        }
    }

    /// Sorts the records of a second by the rows of each report.
    pub(super) fn sort(&mut self, second: &Second) {
        for report in second.reports() {
            let logs = second.logs(report);
            let Some(log) = logs.first() else { continue };
            if let Some(known) = self.0.get_mut(&log.directory) {
                let rows = known.reports.entry(report.number).or_default();
                rows.sort(report, &known.groups, &logs);
            }
        }
    }

    /// The groups that a report may count, by its logs, and its rows.
    pub(super) fn of(
        &self,
        report: &Watched,
        logs: &[&SecondLog],
    ) -> Option<(&KnownGroups, &Rows)> {
        let known = self.0.get(&logs.first()?.directory)?;
        Some((&known.groups, known.reports.get(&report.number)?))
    }
}

impl Default for Rows {
    fn default() -> Self {
        Self {
            row_of: Vec::new(),
            rows: vec![(OTHER_ID, 0)],
            by_id: HashTable::new(),
            free: Vec::new(),
            records: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl Rows {
    /// Removes a group.
    fn forget(&mut self, group: u32) {
        let Some(row) = self.row_of.get_mut(group as usize) else { return };
        let row = std::mem::replace(row, UNKNOWN);
        if row == OTHER || row >= NONE {
            return;
        }
        let (id, groups) = &mut self.rows[row as usize];
        *groups -= 1;
        if *groups == 0 {
            if let Ok(entry) = self.by_id.find_entry(*id, |&it| it == row) {
                entry.remove();
            }
            self.free.push(row);
        }
    }

    fn sort(&mut self, report: &Watched, groups: &KnownGroups, logs: &[&SecondLog]) {
        let records = || logs.iter().flat_map(|log| log.groups());
        self.ends.clear();
        self.ends.resize(self.rows.len(), 0);
        let mut key = Vec::new();
        for &group in records() {
            let row = match self.row_of.get(group as usize) {
                Some(&row) if row != UNKNOWN => row,
                _ => self.find(report, groups, group, &mut key),
            };
            if row != NONE {
                self.ends[row as usize] += 1;
            }
        }
        let mut end = 0;
        for count in &mut self.ends {
            end += std::mem::replace(count, end);
        }
        self.records.clear();
        self.records.resize(end as usize, 0);
        for (record, &group) in records().enumerate() {
            if let Some(end) = self.ends.get_mut(self.row_of[group as usize] as usize) {
                self.records[*end as usize] = record as u32;
                *end += 1;
            }
        }
    }

    /// Finds or creates the row of a group.
    #[cold]
    fn find(
        &mut self,
        report: &Watched,
        groups: &KnownGroups,
        group: u32,
        key: &mut Vec<u8>,
    ) -> u32 {
        let row = match report.row_of(groups, group, key) {
            None => NONE,
            Some(id) if id < FIRST_ID => OTHER,
            Some(id) => self.row(id),
        };
        let len = self.row_of.len().max(group as usize + 1);
        self.row_of.resize(len, UNKNOWN);
        self.row_of[group as usize] = row;
        row
    }

    /// The row of an id, counted for one more group.
    fn row(&mut self, id: u64) -> u32 {
        let Self { rows, by_id, .. } = self;
        if let Some(&row) = by_id.find(id, |&row| rows[row as usize].0 == id) {
            rows[row as usize].1 += 1;
            return row;
        }
        let row = self.free.pop().unwrap_or(rows.len() as u32);
        match rows.get_mut(row as usize) {
            Some(free) => *free = (id, 1),
            None => {
                rows.push((id, 1));
                self.ends.push(0);
            }
        }
        by_id.insert_unique(id, row, |&row| rows[row as usize].0);
        row
    }

    /// The numbers of the second's records.
    pub(super) fn records(&self) -> &[u32] {
        &self.records
    }

    /// The ids of rows with a gain, each with the range of its records.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u64, Range<usize>)> {
        let begins = std::iter::once(&0).chain(&self.ends);
        let rows = self.rows.iter().zip(begins.zip(&self.ends));
        let rows = rows.map(|(&(id, _), (&begin, &end))| (id, begin as usize..end as usize));
        rows.filter(|(_, records)| !records.is_empty())
    }
}
