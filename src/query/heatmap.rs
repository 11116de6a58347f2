//! Heat maps: the distribution of request times in each step of a span.
//!
//! The buckets of any histogram are mapped to 8, 4, 2 or 1 rows per doubling of time: the finest
//! scale with at most 48 rows between the 0.1 % point and the longest time. A time `t` between
//! `2^k` and `2^(k+1)` is placed at `k + t/2^k - 1`, so the rows within a doubling are equally
//! high. If non-empty cells have fewer than five requests on average, columns are merged first,
//! then rows, because single requests show no pattern.

use crate::series::Spreads;

/// Maximum number of rows.
pub const ROWS_MAX: u64 = 48;
/// Maximum number of columns of the requested span.
pub const COLUMNS_MAX: u64 = 120;
/// Columns are merged only while this many remain.
const COLUMNS_MIN: usize = 24;
/// Target for the average number of requests in a non-empty cell.
const FILLED: u64 = 5;
/// Column widths, seconds; each divides the next.
const STEPS: [u64; 10] = [1, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400];
/// Rows per doubling.
const ROWS_A_DOUBLING: [u64; 4] = [8, 4, 2, 1];

/// A heat map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeatMap {
    /// Start of the first column, unix seconds.
    pub from: u64,
    /// Width of a column, seconds.
    pub step: u64,
    /// Boundaries of the rows, microseconds: one more than there are rows. The first row also has
    /// shorter times.
    pub edges_us: Vec<u64>,
    /// Count of each row, by column; `None` if unknown.
    pub columns: Vec<Option<Vec<u64>>>,
    /// Requests with an error, by column; 0 if unknown.
    pub errors: Vec<u64>,
    /// Sum of all counts.
    pub total: u64,
    /// Notes on missing data, for people.
    pub partial: Vec<String>,
}

/// Returns the column width for a span of `secs`, seconds.
pub fn step_of(secs: u64) -> u64 {
    let fits = |step: &&u64| secs.div_ceil(**step) <= COLUMNS_MAX;
    let days = secs.div_ceil(86_400 * COLUMNS_MAX);
    STEPS.iter().find(fits).copied().unwrap_or(86_400 * days)
}

/// Returns the row of a time; row 0 begins at 1 microsecond.
fn row(us: u64, rows_a_doubling: u64) -> u64 {
    let us = us.max(1);
    let doubling = u64::from(us.ilog2());
    doubling * rows_a_doubling + (((us - (1 << doubling)) * rows_a_doubling) >> doubling)
}

/// Returns the shortest time of a row.
fn edge(row: u64, rows_a_doubling: u64) -> u64 {
    let (doubling, part) = (row / rows_a_doubling, row % rows_a_doubling);
    (1 << doubling) + (part << doubling).div_ceil(rows_a_doubling)
}

/// Returns the position of a time on the scale, in rows from 1 microsecond.
pub fn place(us: f64, rows_a_doubling: f64) -> f64 {
    let doubling = us.max(1.0).log2().floor();
    (doubling + us.max(1.0) / doubling.exp2() - 1.0) * rows_a_doubling
}

impl HeatMap {
    /// Builds the heat map of these histograms.
    pub fn of(mut spreads: Spreads) -> Self {
        let mut times: Vec<(u64, u64)> =
            spreads.columns.iter().flatten().flatten().copied().collect();
        times.retain(|(_, count)| *count > 0);
        times.sort_unstable();
        let total: u64 = times.iter().map(|(_, count)| count).sum();
        let mut map = Self {
            from: spreads.from,
            step: spreads.step.max(1),
            columns: spreads.columns.iter().map(|it| it.as_ref().map(|_| Vec::new())).collect(),
            errors: vec![0; spreads.columns.len()],
            total,
            partial: std::mem::take(&mut spreads.partial),
            ..Self::default()
        };
        let mut passed = 0;
        let is_low = |(_, count): &&(u64, u64)| {
            passed += count;
            passed * 1_000 > total
        };
        let Some((lowest, _)) = times.iter().find(is_low) else { return map };
        let highest = times.last().map_or(*lowest, |(us, _)| *us);
        let rows = |each: u64| row(highest, each) - row(*lowest, each) + 1;
        let finest = ROWS_A_DOUBLING.iter().position(|each| rows(*each) <= ROWS_MAX);
        let mut finest = finest.unwrap_or(ROWS_A_DOUBLING.len() - 1);
        loop {
            let each = ROWS_A_DOUBLING[finest];
            let top = row(highest, each);
            let bottom = row(*lowest, each).max((top + 1).saturating_sub(ROWS_MAX));
            map.edges_us = (bottom..=top + 1).map(|row| edge(row, each)).collect();
            map.fill(&spreads, |us| (row(us, each).max(bottom) - bottom) as usize);
            let cells = map.columns.iter().flatten().flatten();
            let filled = cells.filter(|count| **count > 0).count() as u64;
            if total >= FILLED * filled {
                return map;
            }
            let coarser =
                STEPS.into_iter().find(|step| *step > map.step && step.is_multiple_of(map.step));
            let coarser = coarser.unwrap_or(2 * map.step);
            let span = map.step * map.columns.len() as u64;
            if span / coarser >= COLUMNS_MIN as u64 {
                map.step = coarser;
                map.from = spreads.from / coarser * coarser;
            } else if finest + 1 < ROWS_A_DOUBLING.len() {
                finest += 1;
            } else {
                return map;
            }
        }
    }

    /// Adds the counts up in columns of the map's step.
    fn fill(&mut self, spreads: &Spreads, row: impl Fn(u64) -> usize) {
        let (from, step, columns) = (spreads.from, spreads.step.max(1), &spreads.columns);
        let end = from + step * columns.len() as u64;
        let count = (end - self.from).div_ceil(self.step) as usize;
        let rows = self.edges_us.len() - 1;
        self.columns = vec![None; count];
        self.errors = vec![0; count];
        for (at, (column, errors)) in columns.iter().zip(&spreads.errors).enumerate() {
            let place = ((from + at as u64 * step - self.from) / self.step) as usize;
            self.errors[place] += errors;
            let Some(column) = column else { continue };
            let cells = self.columns[place].get_or_insert_with(|| vec![0; rows]);
            for (us, count) in column.iter().filter(|(_, count)| *count > 0) {
                cells[row(*us)] += count;
            }
        }
    }

    /// Returns the count from which a cell has the highest level: the 99th percentile of the
    /// non-empty cells.
    pub fn high(&self) -> u64 {
        let cells = self.columns.iter().flatten().flatten();
        let mut counts: Vec<u64> = cells.copied().filter(|count| *count > 0).collect();
        counts.sort_unstable();
        let at = (counts.len() * 99).div_ceil(100).saturating_sub(1);
        counts.get(at).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(from: u64, step: u64, columns: Vec<Option<Vec<(u64, u64)>>>) -> HeatMap {
        HeatMap::of(Spreads {
            from,
            step,
            errors: (0..columns.len() as u64).collect(),
            columns,
            partial: Vec::new(),
        })
    }

    #[test]
    fn rows_divide_doublings_evenly() {
        for each in ROWS_A_DOUBLING {
            let mut last = 0;
            for us in (1..5_000).chain([1 << 40, 3 << 40]) {
                let at = row(us, each);
                assert!(at >= last, "{us}");
                assert!(edge(at, each) <= us && us < edge(at + 1, each).max(us + 1), "{us} {each}");
                let place = place(us as f64, each as f64);
                assert!((at as f64..at as f64 + 1.0).contains(&(place + 1e-9)), "{us} {place}");
                last = at;
            }
        }
    }

    #[test]
    fn every_request_is_in_one_cell() {
        let mut seed = 7_u64;
        let mut dice = |sides: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % sides
        };
        for round in 0..200 {
            let count = 60 + dice(61);
            let columns = (0..count).map(|_| {
                let times =
                    (0..dice(40)).map(|_| ((1 << dice(30)) | dice(1 << 16), dice(1 + round * 3)));
                let times: Vec<(u64, u64)> = times.collect();
                (!times.is_empty()).then_some(times)
            });
            let columns: Vec<_> = columns.collect();
            let sent = columns.iter().flatten().flatten();
            let sent: u64 = sent.map(|(_, count)| count).sum();
            let map = map(1_000_003 * 60, 60, columns);
            let cells: u64 = map.columns.iter().flatten().flatten().sum();
            assert_eq!((cells, map.total), (sent, sent));
            assert_eq!(map.errors.len(), map.columns.len());
            if sent > 0 {
                assert_eq!(map.errors.iter().sum::<u64>(), count * (count - 1) / 2);
                assert!(map.edges_us.len() as u64 - 1 <= ROWS_MAX);
                assert!(map.edges_us.is_sorted());
                assert!(map.from.is_multiple_of(map.step) || map.step == 60);
            }
        }
    }

    #[test]
    fn few_requests_have_larger_cells() {
        // One request a minute, with three different times.
        let few = (0..120).map(|at| Some(vec![(1_000 << (at % 3), 1)])).collect();
        let few = map(0, 60, few);
        assert_eq!((few.step, few.columns.len()), (300, 24));
        // Many requests use the finest rows; an unknown minute stays unknown.
        let mut many: Vec<_> = (0..120).map(|_| Some(vec![(1_000, 90), (20_000, 10)])).collect();
        many[7] = None;
        let many = map(0, 60, many);
        assert_eq!((many.step, many.columns.len(), many.columns[7].is_none()), (60, 120, true));
        assert_eq!(many.edges_us.len() - 1, 35);
        assert_eq!(many.high(), 90);
        assert_eq!(map(0, 60, vec![None, Some(Vec::new())]).total, 0);
        let steps = [60, 300, 900, 3_600, 21_600, 86_400, 7 * 86_400, 400 * 86_400].map(step_of);
        assert_eq!(steps, [1, 5, 10, 30, 300, 900, 21_600, 345_600]);
    }
}
