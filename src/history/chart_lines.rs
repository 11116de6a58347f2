//! Gains of one row of a dataset, or of all its rows together, in each step of a span.
//!
//! From a file only the pages are read that may contain the key.

use std::sync::Arc;

use super::Dataset;
use super::columns::Want;
use super::histogram::{add_to_sum, unfold};
use super::read_plan::ReadPlan;
use super::read_unit::{ReadUnit, RowsSnapshot, on_all_processors};
use super::row::Gain;

/// The gain in each step; `None` if there is no row.
pub(crate) type Line = Vec<Option<Gain>>;

/// The line to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// One key, or `None` for the total.
    pub(crate) key: Option<&'a [u8]>,
    /// Start of the first step, unix seconds: not after that of the span.
    pub(crate) from: u64,
    /// Seconds of a step.
    pub(crate) step: u64,
    /// Whether histograms are wanted; folded to this many buckets per doubling (a power of two).
    pub(crate) histogram_bits: Option<u32>,
}

/// Reads the line from a plan's rows; also returns what could not be read.
pub(crate) fn read(
    from: RowsSnapshot,
    dataset: &Arc<Dataset>,
    plan: &ReadPlan,
    asked: Asked<'_>,
) -> (Line, Vec<String>) {
    let count = (plan.span.end - asked.from).div_ceil(asked.step) as usize;
    let (units, mut lacking) = ReadUnit::all(from, dataset, plan, asked.key);
    let want = asked.histogram_bits.map_or(Want::Sums, |_| Want::All);
    let empty = || -> (Line, Vec<String>) { (vec![None; count], Vec::new()) };
    let done = on_all_processors(units.len(), empty, |unit, (line, lacking)| {
        let read = units[unit].rows(dataset, want, &mut |_, row| {
            let point = ((row.time - asked.from) / asked.step) as usize;
            let is_wanted = asked.key.is_none_or(|wanted| wanted == row.key);
            if let Some(gain) = line.get_mut(point).filter(|_| is_wanted) {
                let gain = gain.get_or_insert_default();
                gain.sum.totals += &row.totals;
                gain.extremes.widen(&row.extremes);
                if let Some(bits) = asked.histogram_bits {
                    add_to_sum(&mut gain.sum, row.histogram, &dataset.buckets, bits);
                }
            }
        });
        lacking.extend(read.err());
    });
    let mut line: Line = vec![None; count];
    for (share, unread) in done {
        for (point, gain) in line.iter_mut().zip(&share) {
            gain.iter().for_each(|gain| point.get_or_insert_default().add(gain));
        }
        lacking.extend(unread);
    }
    if let Some(bits) = asked.histogram_bits.filter(|_| dataset.is_log_linear()) {
        line.iter_mut().flatten().for_each(|gain| unfold(&mut gain.sum, bits));
    }
    (line, lacking)
}
