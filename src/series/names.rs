//! The rows that blocks speak of: id to key, and what each row weighs.
//!
//! The series thread names a row when it first finds room in a block; readers look names up. A weight is the row's time of
//! late: every second adds to it, and it halves every ten minutes. When the names take more memory than they may, the
//! lightest quarter goes: so a flood of new names neither fills the memory nor pushes out what matters.

use std::collections::HashMap;

use ahash::RandomState;

/// What a name takes beside its text.
const NAME_BYTES: usize = 96;

/// What becomes of a weight in ten seconds: half of it is gone after ten minutes.
const FADING: f64 = 0.988_514;

/// The rows of one report.
#[derive(Debug, Default)]
pub(super) struct Names {
    rows: HashMap<u64, Name, RandomState>,
    bytes: usize,
}

#[derive(Debug)]
struct Name {
    key: Box<[u8]>,
    weight: f64,
}

impl Names {
    /// The key of a row.
    pub(super) fn key(&self, row: u64) -> Option<&[u8]> {
        self.rows.get(&row).map(|name| &*name.key)
    }

    /// What a row weighs; nothing when it has no name.
    pub(super) fn weight(&self, row: u64) -> f64 {
        self.rows.get(&row).map_or(0.0, |name| name.weight)
    }

    /// Names a row.
    pub(super) fn insert(&mut self, row: u64, key: &[u8], weight: f64) {
        let key = key.into();
        if self.rows.insert(row, Name { key, weight }).is_none() {
            self.bytes += NAME_BYTES + self.rows[&row].key.len();
        }
    }

    /// Makes a row heavier, if it has a name, and returns its weight.
    pub(super) fn add_weight(&mut self, row: u64, weight: f64) -> Option<f64> {
        let name = self.rows.get_mut(&row)?;
        name.weight += weight;
        Some(name.weight)
    }

    /// Ten seconds have passed.
    pub(super) fn fade(&mut self) {
        for name in self.rows.values_mut() {
            name.weight *= FADING;
        }
    }

    /// Drops the lightest quarter if the names take more than `budget` bytes.
    pub(super) fn prune(&mut self, budget: usize) {
        while self.bytes > budget && !self.rows.is_empty() {
            let rows = self.rows.iter();
            let mut weights: Vec<_> = rows.map(|(&row, name)| (name.weight, row)).collect();
            let last = weights.len() / 4;
            let order = |a: &(f64, u64), b: &(f64, u64)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            weights.select_nth_unstable_by(last, order);
            for (_, row) in &weights[..=last] {
                if let Some(name) = self.rows.remove(row) {
                    self.bytes -= NAME_BYTES + name.key.len();
                }
            }
        }
        if self.rows.len() * 4 < self.rows.capacity() {
            self.rows.shrink_to(self.rows.len() * 2);
        }
    }

    /// How many rows have a name.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heavy_outlive_a_flood() {
        let mut names = Names::default();
        let budget = 1_000 * (NAME_BYTES + 8);
        for row in 0..100_u64 {
            names.insert(row, &row.to_le_bytes(), 1e6);
        }
        for row in 1_000..100_000_u64 {
            names.insert(row, &row.to_le_bytes(), 1.0);
            names.prune(budget);
            assert!(names.bytes() <= budget);
        }
        for row in 0..100_u64 {
            assert_eq!(names.key(row), Some(&row.to_le_bytes()[..]));
        }
    }

    #[test]
    fn weights_halve_in_ten_minutes() {
        let mut names = Names::default();
        names.insert(7, b"key", 100.0);
        for _ in 0..60 {
            names.fade();
        }
        let weight = names.weight(7);
        assert!((weight - 50.0).abs() < 0.1, "{weight}");
    }
}
