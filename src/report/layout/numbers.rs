//! Sums as quotients, and the numbers of a report by column, for readers that want many rows at
//! once.
//!
//! The same as [`ColumnLayout::value`] row by row, without checking the kind of column for every
//! value; columns without a fast path here (keys, texts, extremes, sums past 63 bits) are left to
//! that.

use super::{Basis, Cell, ColumnLayout, Measure, number};
use crate::report::read::reading::Reading;
use crate::report::totals::Totals;
use crate::value::Unit;

/// What the 64 bits of a number are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberKind {
    /// An `i64`.
    Int,
    /// Microseconds, shown as seconds.
    Micros,
    /// An `f64`; NaN stands for NULL.
    Float,
}

/// How a sum becomes the displayed number. One division, so one rounding: the products are exact.
pub(super) struct Quotient {
    measure: Measure,
    factor: f64,
    divisor: f64,
    /// The result if the divisor is 0; NaN stands for NULL.
    of_nothing: f64,
}

impl Quotient {
    pub(super) fn of(&self, totals: &Totals) -> f64 {
        if self.divisor > 0.0 {
            self.factor * number(self.measure.of(totals)) / self.divisor
        } else {
            self.of_nothing
        }
    }
}

/// How many counted units make one displayed unit of a sum.
const fn size(unit: Unit) -> f64 {
    match unit {
        Unit::Seconds => 1e6,
        Unit::Kib => 1024.0,
        _ => 1.0,
    }
}

impl Cell {
    /// The quotient of this column, if it is one.
    pub(super) fn quotient(&self, reading: &Reading) -> Option<Quotient> {
        let (measure, factor, divisor, of_nothing) = match *self {
            Self::Sum(measure, unit) => (measure, 1.0, size(unit), f64::NAN),
            Self::PerSec(measure, unit, basis) => {
                let secs = match basis {
                    Basis::Covered => reading.covered_secs.max(1) as f64,
                    Basis::Window => reading.window_secs,
                };
                (measure, 1.0, secs * size(unit), f64::NAN)
            }
            Self::Percent(measure, basis) => {
                let of_nothing = if basis == Basis::Covered { 0.0 } else { f64::NAN };
                (measure, 100.0, number(measure.of(&reading.grand)), of_nothing)
            }
            _ => return None,
        };
        Some(Quotient { measure, factor, divisor, of_nothing })
    }
}

impl ColumnLayout {
    /// Appends the numbers of a column in these rows of a reading, if it has a fast path.
    ///
    /// # Panics
    /// If a row or `column` is out of range: callers take both from the reading and the layout.
    pub fn numbers(
        &self,
        reading: &Reading,
        column: usize,
        rows: &[usize],
        numbers: &mut Vec<u64>,
    ) -> Option<NumberKind> {
        let totals = rows.iter().map(|&row| &reading.totals[row]);
        match &self.columns[column].cell {
            Cell::Sum(measure, unit) if *unit != Unit::Kib => {
                let before = numbers.len();
                let sums = totals.map_while(|it| i64::try_from(measure.of(it)).ok());
                numbers.extend(sums.map(i64::cast_unsigned));
                if numbers.len() < before + rows.len() {
                    numbers.truncate(before);
                    return None;
                }
                let is_time = *unit == Unit::Seconds;
                return Some(if is_time { NumberKind::Micros } else { NumberKind::Int });
            }
            Cell::Quantile(rank) => {
                let quantile = |&row| reading.quantile(row, *rank).unwrap_or(f64::NAN);
                numbers.extend(rows.iter().map(quantile).map(f64::to_bits));
            }
            cell => {
                let quotient = cell.quotient(reading)?;
                numbers.extend(totals.map(|totals| quotient.of(totals).to_bits()));
            }
        }
        Some(NumberKind::Float)
    }
}
