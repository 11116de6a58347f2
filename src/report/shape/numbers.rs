//! Numbers of a report column by column, for readers that want many rows at once.
//!
//! The same as [`Shape::value`] row by row, without asking for every value what kind of column it is in; what has no fast
//! way here (keys, texts, extremes, sums past 63 bits) is left to that.

use std::ops::Range;

use super::{Cell, Denominator, Measure, OfNothing, Shape, Unit, number};
use crate::report::reading::Reading;

/// A column of some rows.
#[derive(Debug, Clone, PartialEq)]
pub enum Numbers {
    /// Whole numbers.
    Ints(Vec<i64>),
    /// Numbers; NaN stands for NULL.
    Floats(Vec<f64>),
}

impl Shape {
    /// The numbers of a column in these rows of a reading, if it is one that can be computed so.
    ///
    /// # Panics
    /// When a row or `column` is out of range: callers take both from the reading and the shape.
    #[must_use]
    pub fn numbers(&self, reading: &Reading, column: usize, rows: Range<usize>) -> Option<Numbers> {
        let totals = &reading.totals[rows.clone()];
        let floats = |of: &dyn Fn(f64) -> f64, measure: Measure| {
            let sums = totals.iter().map(|totals| of(number(measure.of(totals))));
            Some(Numbers::Floats(sums.collect()))
        };
        match &self.columns[column].cell {
            Cell::Count(measure) | Cell::Bytes(measure) => {
                let sums = totals
                    .iter()
                    .map(|totals| i64::try_from(measure.of(totals)));
                sums.collect::<Result<_, _>>().ok().map(Numbers::Ints)
            }
            Cell::Seconds(measure) => floats(&|us| us / 1e6, *measure),
            Cell::Kib(measure) => floats(&|bytes| bytes / 1024.0, *measure),
            Cell::PerSec(measure, unit, denominator) => {
                let secs = match denominator {
                    Denominator::Covered => reading.covered_secs.max(1) as f64,
                    Denominator::Window => reading.window_secs,
                };
                let secs = match unit {
                    Unit::Count | Unit::Bytes => secs,
                    Unit::Seconds => secs * 1e6,
                    Unit::Kib => secs * 1024.0,
                };
                let of = |sum: f64| if secs > 0.0 { sum / secs } else { f64::NAN };
                floats(&of, *measure)
            }
            Cell::Percent(measure, of_nothing) => {
                let all = number(measure.of(&reading.grand));
                let nothing = match of_nothing {
                    OfNothing::Zero => 0.0,
                    OfNothing::Null => f64::NAN,
                };
                let of = |sum: f64| {
                    if all == 0.0 {
                        nothing
                    } else {
                        100.0 * sum / all
                    }
                };
                floats(&of, *measure)
            }
            Cell::Quantile(rank) => {
                let quantiles = rows.map(|row| reading.quantile(row, *rank).unwrap_or(f64::NAN));
                Some(Numbers::Floats(quantiles.collect()))
            }
            _ => None,
        }
    }
}
