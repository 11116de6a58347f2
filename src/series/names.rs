//! The rows that blocks speak of: number to key and back, and what each row weighs.
//!
//! The series thread gives a row its number when the row first finds room in a block; readers look numbers up. A weight is
//! the row's time of late: every second adds to it, and it halves every ten minutes. When the names take more memory than
//! they may, the lightest quarter goes, and nothing lighter than what went gets a number for a while: so a flood of
//! new names neither fills the memory nor pushes out what matters. Numbers are not used again while a block may
//! have them.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;

use super::block::FIRST_ROW;

/// What a name takes beside its text: two tables, two counts.
const NAME_BYTES: usize = 160;

/// What becomes of a weight in ten seconds: half of it is gone after ten minutes.
const FADING: f64 = 0.988_514;

/// What becomes of the least weight that gets a number, every second.
const THRESHOLD_FADING: f64 = 0.98;

/// The rows of one report.
#[derive(Debug)]
pub(super) struct Names {
    by_key: HashMap<Arc<[u8]>, u32, RandomState>,
    rows: HashMap<u32, Name, RandomState>,
    next: u32,
    bytes: usize,
    /// Nothing lighter gets a number.
    lightest: f64,
}

#[derive(Debug)]
struct Name {
    key: Arc<[u8]>,
    weight: f64,
}

impl Names {
    pub(super) fn new() -> Self {
        Self {
            by_key: HashMap::default(),
            rows: HashMap::default(),
            next: FIRST_ROW,
            bytes: 0,
            lightest: 0.0,
        }
    }

    /// The number of a key.
    pub(super) fn find(&self, key: &[u8]) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// The key of a number.
    pub(super) fn key(&self, row: u32) -> Option<&[u8]> {
        self.rows.get(&row).map(|name| &*name.key)
    }

    /// What a row weighs; nothing when it has no number.
    pub(super) fn weight(&self, row: u32) -> f64 {
        self.rows.get(&row).map_or(0.0, |name| name.weight)
    }

    /// The least weight with which a row gets a number.
    pub(super) fn lightest(&self) -> f64 {
        self.lightest
    }

    /// Gives a key its number.
    pub(super) fn insert(&mut self, key: &Arc<[u8]>, weight: f64) -> u32 {
        if let Some(row) = self.find(key) {
            return row;
        }
        // After 2^32 rows it starts again; what is still there keeps its number.
        while self.next < FIRST_ROW || self.rows.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let row = self.next;
        self.next = self.next.wrapping_add(1);
        self.by_key.insert(Arc::clone(key), row);
        let key = Arc::clone(key);
        self.bytes += NAME_BYTES + key.len();
        self.rows.insert(row, Name { key, weight });
        row
    }

    /// Makes a row heavier.
    pub(super) fn add_weight(&mut self, row: u32, weight: f64) {
        if let Some(name) = self.rows.get_mut(&row) {
            name.weight += weight;
        }
    }

    /// A second has passed.
    pub(super) fn fade_threshold(&mut self) {
        self.lightest *= THRESHOLD_FADING;
    }

    /// Ten seconds have passed.
    pub(super) fn fade(&mut self) {
        for name in self.rows.values_mut() {
            name.weight *= FADING;
        }
    }

    /// Drops the lightest quarter if the names take more than `budget` bytes; true when it did.
    pub(super) fn prune(&mut self, budget: usize) -> bool {
        if self.bytes <= budget || self.rows.is_empty() {
            return false;
        }
        let mut weights: Vec<(f64, u32)> = self
            .rows
            .iter()
            .map(|(&row, name)| (name.weight, row))
            .collect();
        let last = weights.len() / 4;
        let (going, at, _) =
            weights.select_nth_unstable_by(last, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.lightest = self.lightest.max(at.0);
        for &(_, row) in going.iter().chain([&*at]) {
            if let Some(name) = self.rows.remove(&row) {
                self.by_key.remove(&name.key);
                self.bytes -= NAME_BYTES + name.key.len();
            }
        }
        true
    }

    /// How many rows have a number.
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

    fn key(n: u32) -> Arc<[u8]> {
        n.to_le_bytes().as_slice().into()
    }

    #[test]
    fn the_heavy_outlive_a_flood() {
        let mut names = Names::new();
        let budget = 1_000 * (NAME_BYTES + 4);
        let heavy: Vec<u32> = (0..100).map(|n| names.insert(&key(n), 1e6)).collect();
        let mut refused = 0;
        for n in 1_000..100_000 {
            if names.lightest() > 1.0 {
                refused += 1;
            } else {
                names.insert(&key(n), 1.0);
            }
            names.prune(budget);
            assert!(names.bytes() <= budget + NAME_BYTES + 4);
        }
        for (n, row) in (0..100).zip(heavy) {
            assert_eq!(names.find(&key(n)), Some(row));
            assert_eq!(names.key(row), Some(&*key(n)));
        }
        assert_eq!(refused, 0, "the threshold is what went, and that weighed 1");
        names.lightest = 2.0;
        names.fade_threshold();
        assert!(names.lightest() < 2.0);
    }

    #[test]
    fn numbers_start_again_without_meeting_what_is_there() {
        let mut names = Names::new();
        let first = names.insert(&key(1), 1.0);
        assert_eq!(first, FIRST_ROW);
        names.next = u32::MAX;
        assert_eq!(names.insert(&key(2), 1.0), u32::MAX);
        assert_eq!(names.insert(&key(3), 1.0), FIRST_ROW + 1);
    }

    #[test]
    fn weights_halve_in_ten_minutes() {
        let mut names = Names::new();
        let row = names.insert(&key(1), 100.0);
        for _ in 0..60 {
            names.fade();
        }
        assert!(
            (names.weight(row) - 50.0).abs() < 0.1,
            "{}",
            names.weight(row)
        );
    }
}
