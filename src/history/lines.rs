//! What one row of a dataset, or all of its rows together, gained in each step of a span.
//!
//! Of a file only the row groups are read that may have the key, and of these the histograms of its rows alone.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::Dataset;
use super::histogram::fold;
use super::parquet::Want;
use super::plan::Plan;
use super::unit::{RowsAt, Unit, on_all_processors};
use crate::report::packed::Sum;

/// What was gained in each step; `None` for no row at all.
pub(crate) type Line = Vec<Option<Sum>>;

/// Which line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// Of one key, or of all together.
    pub(crate) key: Option<&'a [u8]>,
    /// Seconds of a step.
    pub(crate) step: u64,
    /// Whether histograms are wanted, folded to so many buckets of a doubling (a power of two).
    pub(crate) histogram_bits: Option<u32>,
}

/// The line of a plan's rows, and what could not be read.
pub(crate) fn read(
    from: RowsAt,
    dataset: &Arc<Dataset>,
    plan: &Plan,
    asked: Asked<'_>,
) -> (Line, Vec<String>) {
    let count = (plan.span.end - plan.span.start).div_ceil(asked.step) as usize;
    let (units, mut lacking) = Unit::all(from, dataset, plan, asked.key);
    let empty = || (empty_line(count), Vec::new());
    let done = on_all_processors(units.len(), empty, |unit, (line, lacking)| {
        if let Err(error) = add(&units[unit], dataset, &plan.span, asked, line) {
            lacking.push(units[unit].unread(&error));
        }
    });
    let mut line = empty_line(count);
    for (share, unread) in done {
        for (point, sum) in line.iter_mut().zip(share) {
            if let Some(sum) = sum {
                point.get_or_insert_default().add_sum(&sum);
            }
        }
        lacking.extend(unread);
    }
    (line, lacking)
}

fn empty_line(count: usize) -> Line {
    (0..count).map(|_| None).collect()
}

/// Adds the rows of a unit.
fn add(
    unit: &Unit,
    dataset: &Dataset,
    span: &Range<u64>,
    asked: Asked<'_>,
    line: &mut Line,
) -> io::Result<()> {
    let point = |time: u64| ((time - span.start) / asked.step) as usize;
    let is_wanted = |key: &[u8]| asked.key.is_none_or(|wanted| wanted == key);
    let mut add = |time: u64, sum: &Sum| {
        let Some(point) = line.get_mut(point(time)) else {
            return;
        };
        let point = point.get_or_insert_default();
        match (asked.histogram_bits, sum.histogram()) {
            (Some(bits), Some(histogram)) if dataset.is_log_linear() => {
                let mut folded = histogram.clone();
                fold(&mut folded, bits);
                point.add_sum(&Sum::of(sum.totals, Some(folded)));
            }
            _ => point.add_sum(sum),
        }
    };
    let want = Want {
        histograms: asked.histogram_bits.is_some(),
    };
    let Unit::Group(part, opened, group, times) = unit else {
        return unit.read(dataset, want, &mut |_, row| {
            if is_wanted(row.key) {
                add(row.time, &row.gain.sum);
            }
        });
    };
    let all = asked.key.is_none() || !want.histograms;
    let mut found: Vec<(usize, u64, Sum)> = Vec::new();
    let first = if all { want } else { Want::default() };
    unit.read(dataset, first, &mut |place, row| {
        if !is_wanted(row.key) {
        } else if all {
            add(row.time, &row.gain.sum);
        } else {
            found.push((place, row.time, Sum::of(row.gain.sum.totals, None)));
        }
    })?;
    if found.is_empty() {
        return Ok(());
    }
    let places: Vec<Range<usize>> = found.iter().map(|it| it.0..it.0 + 1).collect();
    let mut found = found.iter();
    let file = File::open(&part.path)?;
    opened.rows(
        file,
        &[*group],
        Some(&places),
        times,
        want,
        &mut |_, row| {
            if let Some((_, time, sum)) = found.next() {
                let histogram = row.gain.sum.histogram().cloned();
                add(*time, &Sum::of(sum.totals, histogram));
            }
        },
    )
}
