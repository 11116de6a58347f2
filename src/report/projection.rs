//! A report over a family: which row of the report each group belongs to.
//!
//! Kept in step as groups come and go, not packet by packet. A report has at most `rows_max` rows of its own; a group
//! whose key finds no room belongs to row [`OTHER_ROW`] until there is room again, and then moves with everything that
//! it holds, so every row equals the sum of its records at any time.

use ahash::RandomState;
use hashbrown::HashTable;

use super::definition::{Definition, KeySource, Missing};
use super::dimension::{Dimension, Lanes, lacks};
use super::groups::Groups;
use crate::pool::words::{EMPTY, NONE, OTHER};

/// The row of what found no row of its own.
pub(super) const OTHER_ROW: u32 = 0;

/// The group is not counted in this report.
pub(super) const NO_ROW: u32 = u32::MAX;

/// One report's view of its family's groups.
#[derive(Debug)]
pub(super) struct Projection {
    keys: Vec<ProjectedKey>,
    /// Row of each group, by group number.
    row_of: Vec<u32>,
    /// Number of groups in each row.
    groups_in: Vec<u32>,
    /// `keys` lanes a row.
    lanes: Vec<u32>,
    unused: Vec<u32>,
    table: HashTable<u32>,
    hasher: RandomState,
    rows_max: usize,
    /// Groups in the other row that have a key of their own.
    folded: usize,
}

#[derive(Debug)]
struct ProjectedKey {
    dimension: usize,
    source: KeySource,
    missing: Missing,
}

impl Projection {
    /// The view of `definition` over `dimensions`, which serve all its keys.
    pub(super) fn new(definition: &Definition, dimensions: &[Dimension], rows_max: usize) -> Self {
        let keys: Vec<_> = definition
            .keys
            .iter()
            .filter_map(|key| {
                let dimension = dimensions
                    .iter()
                    .position(|dimension| dimension.serves(key))?;
                Some(ProjectedKey {
                    dimension,
                    source: key.source.clone(),
                    missing: key.missing,
                })
            })
            .collect();
        debug_assert_eq!(
            keys.len(),
            definition.keys.len(),
            "the family does not serve this report"
        );
        let lanes = vec![OTHER; keys.len()];
        Self {
            keys,
            row_of: Vec::new(),
            groups_in: vec![0],
            lanes,
            unused: Vec::new(),
            table: HashTable::new(),
            hasher: RandomState::new(),
            rows_max,
            folded: 0,
        }
    }

    /// A group came: finds or makes its row.
    pub(super) fn add_group(&mut self, id: u32, lanes: &Lanes) {
        let row = match self.key_of(lanes) {
            None => NO_ROW,
            Some(key) if key[..self.keys.len()].contains(&OTHER) => OTHER_ROW,
            Some(key) => self.find_or_make_row(&key).unwrap_or_else(|| {
                self.folded += 1;
                OTHER_ROW
            }),
        };
        if self.row_of.len() <= id as usize {
            self.row_of.resize(id as usize + 1, NO_ROW);
        }
        self.row_of[id as usize] = row;
        if row != NO_ROW {
            self.groups_in[row as usize] += 1;
        }
    }

    /// A group went: forgets its row with the last one.
    pub(super) fn remove_group(&mut self, id: u32, lanes: &Lanes) {
        let row = std::mem::replace(&mut self.row_of[id as usize], NO_ROW);
        if row == NO_ROW {
            return;
        }
        self.groups_in[row as usize] -= 1;
        if row == OTHER_ROW {
            let own = self
                .key_of(lanes)
                .is_some_and(|key| !key[..self.keys.len()].contains(&OTHER));
            self.folded -= usize::from(own);
        } else if self.groups_in[row as usize] == 0 {
            let hash = self.hash(self.row_lanes(row));
            if let Ok(entry) = self.table.find_entry(hash, |&other| other == row) {
                entry.remove();
            }
            self.unused.push(row);
        }
    }

    /// Whether [`promote`](Self::promote) could do something.
    pub(super) fn can_promote(&self) -> bool {
        self.folded > 0 && self.table.len() < self.rows_max
    }

    /// Gives folded keys rows of their own as far as there is room. A key moves with all its groups: once it has a row,
    /// the groups that come later in the walk find it, full or not.
    pub(super) fn promote(&mut self, groups: &Groups) {
        for id in 0..self.row_of.len() as u32 {
            if self.folded == 0 {
                return;
            }
            if self.row_of[id as usize] != OTHER_ROW {
                continue;
            }
            let lanes = groups.lanes(id);
            let own = self
                .key_of(&lanes)
                .filter(|key| !key[..self.keys.len()].contains(&OTHER));
            if let Some(row) = own.and_then(|key| self.find_or_make_row(&key)) {
                self.row_of[id as usize] = row;
                self.groups_in[OTHER_ROW as usize] -= 1;
                self.groups_in[row as usize] += 1;
                self.folded -= 1;
            }
        }
    }

    /// Rows with groups, the other row included.
    pub(super) fn len(&self) -> usize {
        self.table.len() + usize::from(self.groups_in[OTHER_ROW as usize] > 0)
    }

    /// One more than the largest row number.
    pub(super) fn end(&self) -> usize {
        self.groups_in.len()
    }

    /// Groups in row `row`.
    pub(super) fn groups_in(&self, row: u32) -> u32 {
        self.groups_in[row as usize]
    }

    /// Groups folded into the other row for want of rows.
    pub(super) fn folded(&self) -> usize {
        self.folded
    }

    /// Row of group `id`.
    pub(super) fn row_of(&self, id: u32) -> u32 {
        self.row_of.get(id as usize).copied().unwrap_or(NO_ROW)
    }

    /// The lanes of a row, one a key.
    pub(super) fn row_lanes(&self, row: u32) -> &[u32] {
        let keys = self.keys.len();
        &self.lanes[row as usize * keys..(row as usize + 1) * keys]
    }

    /// Bytes that the next group takes at most, where it makes something grow; both copies, while it does.
    pub(super) fn next_bytes(&self) -> usize {
        let grows = |full: bool, capacity: usize, each: usize| {
            if full { capacity.max(8) * 2 * each } else { 0 }
        };
        let (row_of, groups_in) = (&self.row_of, &self.groups_in);
        let lanes_full = self.lanes.len() + self.keys.len() > self.lanes.capacity();
        let table = &self.table;
        grows(row_of.len() == row_of.capacity(), row_of.capacity(), 4)
            + grows(
                groups_in.len() == groups_in.capacity(),
                groups_in.capacity(),
                4,
            )
            + grows(lanes_full, self.lanes.capacity(), 4)
            + grows(table.len() == table.capacity(), table.capacity(), 6)
    }

    /// Gives back what groups from number `end` on took, of which there are none any more, and rows that went when they are
    /// most of all; the others move together.
    pub(super) fn give_back(&mut self, end: u32) {
        self.row_of.truncate(end as usize);
        self.row_of.shrink_to_fit();
        if self.unused.len() < self.groups_in.len() / 2 {
            return;
        }
        let stride = self.keys.len();
        let mut moved = vec![NO_ROW; self.groups_in.len()];
        let mut rows = 0;
        for (row, moved) in moved.iter_mut().enumerate() {
            if row == OTHER_ROW as usize || self.groups_in[row] > 0 {
                *moved = rows as u32;
                self.groups_in[rows] = self.groups_in[row];
                self.lanes
                    .copy_within(row * stride..(row + 1) * stride, rows * stride);
                rows += 1;
            }
        }
        self.groups_in.truncate(rows);
        self.groups_in.shrink_to_fit();
        self.lanes.truncate(rows * stride);
        self.lanes.shrink_to_fit();
        self.unused = Vec::new();
        for row in self.row_of.iter_mut().filter(|row| **row != NO_ROW) {
            *row = moved[*row as usize];
        }
        let mut table = HashTable::with_capacity(rows);
        for row in 1..rows as u32 {
            let hash = self.hash(self.row_lanes(row));
            table.insert_unique(hash, row, |&row| self.hash(self.row_lanes(row)));
        }
        self.table = table;
    }

    /// Bytes taken.
    pub(super) fn heap_bytes(&self) -> usize {
        self.row_of.capacity() * 4
            + self.groups_in.capacity() * 4
            + self.lanes.capacity() * 4
            + self.table.capacity() * 6
    }

    /// The key that the report sees in a group's lanes; `None` when it does not count the group.
    fn key_of(&self, lanes: &Lanes) -> Option<Lanes> {
        let mut key = [NONE; super::definition::DEFINITION_KEYS_MAX];
        for (lane, projected) in key.iter_mut().zip(&self.keys) {
            let value = lanes[projected.dimension];
            if lacks(&projected.source, projected.missing, value) {
                return None;
            }
            *lane = if value == NONE { EMPTY } else { value };
        }
        Some(key)
    }

    fn find_or_make_row(&mut self, key: &Lanes) -> Option<u32> {
        let stride = self.keys.len();
        let key = &key[..stride];
        let hash = self.hash(key);
        if let Some(&row) = self.table.find(hash, |&row| self.row_lanes(row) == key) {
            return Some(row);
        }
        if self.table.len() >= self.rows_max {
            return None;
        }
        let row = match self.unused.pop() {
            Some(row) => {
                self.lanes[row as usize * stride..(row as usize + 1) * stride].copy_from_slice(key);
                row
            }
            None => {
                self.groups_in.push(0);
                self.lanes.extend_from_slice(key);
                (self.groups_in.len() - 1) as u32
            }
        };
        let Self {
            table,
            lanes,
            hasher,
            ..
        } = self;
        table.insert_unique(hash, row, |&row| {
            hasher.hash_one(&lanes[row as usize * stride..(row as usize + 1) * stride])
        });
        Some(row)
    }

    fn hash(&self, key: &[u32]) -> u64 {
        self.hasher.hash_one(key)
    }
}
