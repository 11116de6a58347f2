//! What each row weighs: its time of late. Every second adds to it, and it halves every ten minutes.
//!
//! A row has a weight from when it first finds room in a block. When the weights take more memory than they may, the
//! lightest quarter goes: so a flood of new names neither fills the memory nor pushes out what matters.

use std::collections::HashMap;

use ahash::RandomState;

use super::block::RowId;

/// What a weight takes in a table that is half full.
pub(super) const WEIGHT_BYTES: usize = 56;

/// What becomes of a weight in ten seconds: half of it is gone after ten minutes.
const FADING: f64 = 0.988_514;

/// The weights of rows.
#[derive(Debug, Default)]
pub(super) struct Weights(HashMap<RowId, f64, RandomState>);

impl Weights {
    /// What a row weighs; `None` when it never found room, or took too little time of late.
    pub(super) fn get(&self, row: RowId) -> Option<f64> {
        self.0.get(&row).copied()
    }

    /// A row that has room weighs so much.
    pub(super) fn set(&mut self, row: RowId, weight: f64) {
        self.0.insert(row, weight);
    }

    /// Makes a row heavier, if it has a weight, and returns that.
    pub(super) fn add(&mut self, row: RowId, more: f64) -> Option<f64> {
        let weight = self.0.get_mut(&row)?;
        *weight += more;
        Some(*weight)
    }

    /// Ten seconds have passed.
    pub(super) fn fade(&mut self) {
        for weight in self.0.values_mut() {
            *weight *= FADING;
        }
    }

    /// Drops the lightest quarter as long as all take more than `budget` bytes.
    pub(super) fn prune(&mut self, budget: usize) {
        while self.bytes() > budget {
            let mut all: Vec<(RowId, f64)> = self.0.iter().map(|(&row, &it)| (row, it)).collect();
            let last = all.len() / 4;
            all.select_nth_unstable_by(last, |a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
            for (row, _) in &all[..=last] {
                self.0.remove(row);
            }
            self.0.shrink_to(self.0.len() * 2);
        }
    }

    /// The report is watched no more.
    pub(super) fn forget(&mut self, report: u64) {
        self.0.retain(|row, _| row.0 != report);
        self.0.shrink_to_fit();
    }

    /// How many rows have one.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes taken.
    fn bytes(&self) -> usize {
        self.0.len() * WEIGHT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heavy_outlive_a_flood() {
        let mut weights = Weights::default();
        let budget = 1_000 * WEIGHT_BYTES;
        for row in 0..100 {
            weights.set((1, row), 1e6);
        }
        for row in 1_000..100_000 {
            weights.set((row % 3, row), 1.0);
            weights.prune(budget);
            assert!(weights.bytes() <= budget);
        }
        for row in 0..100 {
            assert_eq!(weights.get((1, row)), Some(1e6));
        }
    }

    #[test]
    fn weights_halve_in_ten_minutes() {
        let mut weights = Weights::default();
        weights.set((1, 7), 100.0);
        for _ in 0..60 {
            weights.fade();
        }
        let weight = weights.get((1, 7)).unwrap();
        assert!((weight - 50.0).abs() < 0.1, "{weight}");
    }
}
