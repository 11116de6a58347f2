//! Maps the groups of an aggregate to the rows of a report.
//!
//! Updated as groups come and go, not per packet. A report has at most `rows_max` rows of its own;
//! a group whose key finds no room belongs to row [`OTHER_ROW`] until there is room again, and then
//! moves with all its counts, so every row equals the sum of its records at any time.

use super::chunked::Chunked;
use super::definition::{DEFINITION_KEYS_MAX, Definition, Key};
use super::group_key::{KeyIds, lacks};
use super::groups::Groups;
use super::key_table::KeyTable;
use super::row_key::RowKeys;
use crate::pool::strings::{EMPTY, NONE, OTHER};

/// The overflow row.
pub(super) const OTHER_ROW: u32 = 0;

/// The group is not counted in this report.
pub(super) const NO_ROW: u32 = u32::MAX;

/// Rows of one report by group.
#[derive(Debug)]
pub(super) struct RowMap {
    /// The position of its keys in those of a group.
    pub(super) keys: RowKeys,
    /// Row of each group, by group id.
    row_of: Chunked<u32>,
    /// Number of groups in each row.
    groups_in: Chunked<u32>,
    /// The keys of the rows; that of the overflow row cannot be found.
    rows: KeyTable,
    rows_max: usize,
    /// Groups in the overflow row that have a key of their own, for lack of rows.
    pub(super) overflowed: usize,
}

impl RowMap {
    /// The row map of `definition` over `group_keys`, which serve all its keys.
    pub(super) fn new(definition: &Definition, group_keys: &[Key], rows_max: usize) -> Self {
        let mapped = |key: &Key| {
            let group_key = group_keys.iter().position(|it| it.serves(key))?;
            Some((group_key, key.clone()))
        };
        let keys: Vec<_> = definition.keys.iter().filter_map(mapped).collect();
        let is_served = keys.len() == definition.keys.len();
        debug_assert!(is_served, "the aggregate does not serve this report");
        let mut rows = KeyTable::new(keys.len());
        rows.push(&[OTHER; DEFINITION_KEYS_MAX]);
        let mut groups_in = Chunked::default();
        groups_in.push(0);
        let keys = RowKeys(keys);
        Self { row_of: Chunked::default(), groups_in, keys, rows, rows_max, overflowed: 0 }
    }

    /// Adds groups (row, group) without rows here, in the order of their former rows; those without
    /// one come last.
    pub(super) fn add_groups(&mut self, mut rows: Vec<(u32, u32)>, groups: &Groups) {
        rows.sort_by_key(|&(row, _)| match row {
            OTHER_ROW | NO_ROW => NO_ROW,
            own => own,
        });
        for (_, id) in rows {
            // Several may have been merged during a restore.
            if groups.is_used(id) && self.row_of(id) == NO_ROW {
                self.add_group(id, &groups.keys.key_ids(id));
            }
        }
    }

    /// Adds a group: finds or creates its row.
    pub(super) fn add_group(&mut self, id: u32, key_ids: &KeyIds) {
        let row = match self.key_of(key_ids) {
            None => NO_ROW,
            Some(key) if key.contains(&OTHER) => OTHER_ROW,
            Some(key) => self.find_or_make_row(&key).unwrap_or_else(|| {
                self.overflowed += 1;
                OTHER_ROW
            }),
        };
        while self.row_of.len() <= id as usize {
            self.row_of.push(NO_ROW);
        }
        self.row_of[id as usize] = row;
        if row != NO_ROW {
            self.groups_in[row as usize] += 1;
        }
    }

    /// Removes a group; removes its row with the last one.
    pub(super) fn remove_group(&mut self, id: u32, key_ids: &KeyIds) {
        let row = std::mem::replace(&mut self.row_of[id as usize], NO_ROW);
        if row == NO_ROW {
            return;
        }
        self.groups_in[row as usize] -= 1;
        if row == OTHER_ROW {
            self.overflowed -= usize::from(self.own_key(key_ids).is_some());
        } else if self.groups_in[row as usize] == 0 {
            self.rows.remove(row);
        }
    }

    /// Gives overflowed keys rows of their own as far as there is room. A key moves with all its
    /// groups: once it has a row, later groups in the walk find it, full or not. Returns whether
    /// any moved.
    pub(super) fn promote(&mut self, groups: &Groups) -> bool {
        let before = self.overflowed;
        let end = if self.rows.len() < self.rows_max { self.row_of.len() } else { 0 };
        for id in 0..end as u32 {
            if self.overflowed == 0 {
                break;
            }
            if self.row_of[id as usize] != OTHER_ROW {
                continue;
            }
            let own = self.own_key(&groups.keys.key_ids(id));
            if let Some(row) = own.and_then(|key| self.find_or_make_row(&key)) {
                self.row_of[id as usize] = row;
                self.groups_in[OTHER_ROW as usize] -= 1;
                self.groups_in[row as usize] += 1;
                self.overflowed -= 1;
            }
        }
        self.overflowed < before
    }

    /// Rows with groups, including the overflow row.
    pub(super) fn len(&self) -> usize {
        self.rows.len() + usize::from(self.groups_in[OTHER_ROW as usize] > 0)
    }

    /// One more than the largest row number.
    pub(super) fn end(&self) -> usize {
        self.groups_in.len()
    }

    /// Groups in row `row`.
    pub(super) fn groups_in(&self, row: u32) -> u32 {
        self.groups_in[row as usize]
    }

    /// Row of group `id`.
    pub(super) fn row_of(&self, id: u32) -> u32 {
        if (id as usize) < self.row_of.len() { self.row_of[id as usize] } else { NO_ROW }
    }

    /// The key ids of a row, one after the other.
    pub(super) fn row_key(&self, row: u32) -> impl Iterator<Item = u32> + '_ {
        self.rows.key(row)
    }

    /// Most bytes for the next group, where it makes something grow.
    pub(super) fn next_bytes(&self) -> usize {
        self.row_of.next_bytes() + self.groups_in.next_bytes() + self.rows.next_bytes()
    }

    /// Frees the memory of removed groups at the end, and of up to `most` removed rows.
    pub(super) fn free_end(&mut self, groups: &Groups, most: usize) {
        self.row_of.truncate(groups.end() as usize);
        let mut end = self.groups_in.len();
        let least = end.saturating_sub(most).max(1);
        while end > least && self.groups_in[end - 1] == 0 {
            end -= 1;
        }
        self.groups_in.truncate(end);
        self.rows.free_end(end as u32);
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.row_of.heap_bytes() + self.groups_in.heap_bytes() + self.rows.heap_bytes()
    }

    /// The report's key for a group's key ids; `None` if it does not count the group.
    fn key_of(&self, key_ids: &KeyIds) -> Option<KeyIds> {
        let mut key = [NONE; DEFINITION_KEYS_MAX];
        for (key_id, (group_key, key)) in key.iter_mut().zip(&self.keys.0) {
            let value = key_ids[*group_key];
            if lacks(key, value) {
                return None;
            }
            *key_id = if value == NONE { EMPTY } else { value };
        }
        Some(key)
    }

    /// Likewise if no part of it is `(other)`: such a key may have a row of its own.
    fn own_key(&self, key_ids: &KeyIds) -> Option<KeyIds> {
        self.key_of(key_ids).filter(|key| !key.contains(&OTHER))
    }

    fn find_or_make_row(&mut self, key: &KeyIds) -> Option<u32> {
        if let Some(row) = self.rows.find(key) {
            return Some(row);
        }
        if self.rows.len() >= self.rows_max {
            return None;
        }
        let row = self.rows.insert(key);
        if row as usize == self.groups_in.len() {
            self.groups_in.push(0);
        }
        Some(row)
    }
}
