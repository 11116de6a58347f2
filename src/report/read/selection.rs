//! The selection of rows of a report or another table, and their order.
//!
//! Rows are filtered first, then sorted, then cut. The values of one column are read once, and only
//! rows that are equal there look at the next column. When only the top is wanted, only rows that
//! may be there are kept, and only the top is sorted. Rows that are equal in all columns keep the
//! order of the table; NULL comes last in both directions; text is compared by its bytes. Memory: a
//! value and a number for each row that is kept, for as long as the sort runs.

use std::cmp::Ordering;

use crate::value::Value;

/// Selects rows, their order, and their columns. Columns are named by number.
#[derive(Debug, Clone, Default)]
pub struct RowSelection<'a> {
    /// The columns that are shown; `None`: all.
    pub columns: Option<Vec<usize>>,
    /// Columns, and the values that rows must have there.
    pub equal: Vec<(usize, Value<'a>)>,
    /// The columns by which rows are sorted; true: the largest first.
    pub order: Vec<(usize, bool)>,
    /// Rows in that order that are passed over.
    pub offset: usize,
    /// The number of rows that follow; 0: all.
    pub limit: usize,
}

impl RowSelection<'_> {
    /// Whether it has all rows, in whichever order they stand.
    pub fn has_all(&self) -> bool {
        self.equal.is_empty() && self.order.is_empty() && (self.offset, self.limit) == (0, 0)
    }

    /// The columns by which rows are chosen.
    pub fn chosen_by(&self) -> impl Iterator<Item = usize> + '_ {
        let order = self.order.iter().map(|(column, _)| *column);
        order.chain(self.equal.iter().map(|(column, _)| *column))
    }

    /// The columns that are read, of `all` that there are.
    pub fn needed(&self, all: usize) -> Vec<usize> {
        match &self.columns {
            None => (0..all).collect(),
            Some(shown) => shown.iter().copied().chain(self.chosen_by()).collect(),
        }
    }

    /// The numbers of the rows among `len`, and how many there were before they were cut.
    pub fn rows<'t>(
        &self,
        len: usize,
        value: &impl Fn(usize, usize) -> Value<'t>,
    ) -> (Vec<usize>, usize) {
        let equal = self.equal.iter();
        let keep = |row| equal.clone().all(|(column, wanted)| value(row, *column) == *wanted);
        select(len, value, &keep, &self.order, (self.offset, self.limit))
    }
}

/// Filters, sorts by the columns of these numbers (true: the largest first) and cuts from an
/// offset; a limit of 0 leaves all. Gives the numbers of the rows, and how many there were before
/// they were cut.
pub fn select<'t>(
    len: usize,
    value: &impl Fn(usize, usize) -> Value<'t>,
    keep: &dyn Fn(usize) -> bool,
    order: &[(usize, bool)],
    (offset, limit): (usize, usize),
) -> (Vec<usize>, usize) {
    let mut total = 0;
    let kept = (0..len).filter(|row| keep(*row)).inspect(|_| total += 1);
    let end = if limit == 0 { usize::MAX } else { offset.saturating_add(limit) };
    let mut rows = sorted(value, kept, order, end);
    rows.truncate(end);
    rows.drain(..offset.min(rows.len()));
    (rows, total)
}

/// Sorts rows, which come in the order of the table; returns at least the first `top` (1 or more).
fn sorted<'t>(
    value: &impl Fn(usize, usize) -> Value<'t>,
    rows: impl Iterator<Item = usize>,
    order: &[(usize, bool)],
    top: usize,
) -> Vec<usize> {
    let Some((&(column, descending), others)) = order.split_first() else { return rows.collect() };
    let order = |a: &(Value<'_>, usize), b: &(Value<'_>, usize)| {
        compare(&a.0, &b.0, descending).then(a.1.cmp(&b.1))
    };
    let mut entries: Vec<(Value<'_>, usize)> = Vec::new();
    let (mut last, mut entries_max) = (None, top.saturating_mul(2));
    for row in rows {
        let value = value(row, column);
        let is_beyond = |last| compare(&value, last, descending).is_gt();
        if last.as_ref().is_some_and(is_beyond) {
            continue;
        }
        entries.push((value, row));
        if entries.len() > entries_max {
            // Of those that are equal to the last one the other columns decide which are on top.
            let (_, at_top, _) = entries.select_nth_unstable_by(top - 1, order);
            let at_top = &*last.insert(at_top.0.clone());
            entries.retain(|(value, _)| compare(value, at_top, descending).is_le());
            entries_max = entries.len() * 2;
        }
    }
    entries.sort_unstable_by(order);
    let mut sorted = Vec::with_capacity(entries.len());
    for same in entries.chunk_by(|a, b| compare(&a.0, &b.0, descending).is_eq()) {
        match same {
            _ if sorted.len() >= top => break,
            [(_, row)] => sorted.push(*row),
            same => {
                let rows: Vec<usize> = same.iter().map(|(_, row)| *row).collect();
                sorted.extend(self::sorted(value, rows.into_iter(), others, top - sorted.len()));
            }
        }
    }
    sorted
}

/// The order of two values of a column; two times compare as whole numbers, both zeros are one.
fn compare(a: &Value<'_>, b: &Value<'_>, descending: bool) -> Ordering {
    let is_last = |value: &Value<'_>| match value {
        Value::Float(number) => number.is_nan(),
        other => *other == Value::Null,
    };
    let number = |value: &Value<'_>| value.number().unwrap_or(0.0);
    let order = match (a, b) {
        (a, b) if is_last(a) || is_last(b) => return is_last(a).cmp(&is_last(b)),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Micros(a), Value::Micros(b)) => a.cmp(b),
        (a, b) => number(a).partial_cmp(&number(b)).unwrap_or(Ordering::Equal),
    };
    if descending { order.reverse() } else { order }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Rows of values made beforehand: a text, a whole number, a time, a float.
    type Sample = Vec<Vec<Value<'static>>>;

    fn sample(seed: u64, rows: usize) -> Sample {
        let mut random = StdRng::seed_from_u64(seed);
        let prefixes = ["", "a", "/index.php?page=", "/index.php?page=7", "ü", "\u{10ffff}"];
        let mut row = || {
            let mut values = vec![
                Value::Text(
                    format!(
                        "{}{}",
                        prefixes[random.random_range(0..prefixes.len())],
                        random.random_range(0..3)
                    )
                    .into(),
                ),
                Value::Int(random.random_range(-3..3) + (1 << 55) * random.random_range(0..2)),
                Value::Micros(
                    random.random_range(0..5) + 9_007_199_254_740_993 * random.random_range(0..2),
                ),
                Value::Float([0.0, -0.0, -1.5, 1e300, f64::NAN, 7.25][random.random_range(0..6)]),
            ];
            let null = random.random_range(0..12);
            if let Some(value) = values.get_mut(null) {
                *value = Value::Null;
            }
            if null == 11 {
                values[0] = Value::Text("".into());
            }
            values
        };
        (0..rows).map(|_| row()).collect()
    }

    /// The order as the specification says it, value by value.
    fn naive(a: &Value<'_>, b: &Value<'_>, descending: bool) -> Ordering {
        let null = |value: &Value<'_>| match value {
            Value::Null => true,
            Value::Float(number) => number.is_nan(),
            _ => false,
        };
        match (null(a), null(b)) {
            (true, true) => return Ordering::Equal,
            (false, true) => return Ordering::Less,
            (true, false) => return Ordering::Greater,
            (false, false) => {}
        }
        let order = match (a, b) {
            (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Micros(a), Value::Micros(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => a.partial_cmp(b).unwrap(),
            _ => panic!("a column holds one kind of values here"),
        };
        if descending { order.reverse() } else { order }
    }

    #[test]
    fn every_sort_equals_a_naive_stable_sort() {
        let mut random = StdRng::seed_from_u64(20);
        for seed in 0..300 {
            let len = random.random_range(0..60);
            let table = sample(seed, len);
            let by = |column: usize| (column, (seed >> column) & 1 == 1);
            let sort: Vec<(usize, bool)> =
                (0..random.random_range(1..4)).map(|_| by(random.random_range(0..4))).collect();
            let limit = random.random_range(0..10);
            let offset = random.random_range(0..20);
            let keep = |row: usize| row % 3 != 1;
            let filtered = random.random_range(0..2) == 1;
            let mut expected: Vec<usize> = (0..len).filter(|row| !filtered || keep(*row)).collect();
            let total = expected.len();
            expected.sort_by(|a, b| {
                sort.iter()
                    .map(|(column, descending)| {
                        naive(&table[*a][*column], &table[*b][*column], *descending)
                    })
                    .find(|order| order.is_ne())
                    .unwrap_or(Ordering::Equal)
            });
            let expected: Vec<usize> = expected
                .into_iter()
                .skip(offset)
                .take(if limit == 0 { usize::MAX } else { limit })
                .collect();
            let keep = |row: usize| !filtered || keep(row);
            let value = |row: usize, column: usize| table[row][column].borrowed();
            let (rows, counted) = select(len, &value, &keep, &sort, (offset, limit));
            assert_eq!(rows, expected, "seed {seed}, {sort:?}");
            assert_eq!(counted, total);
        }
    }

    #[test]
    fn without_a_sort_the_table_is_cut_as_it_stands() {
        let table = sample(1, 10);
        let value = |row: usize, column: usize| table[row][column].borrowed();
        let rows = |offset, limit| {
            let selection = RowSelection { offset, limit, ..RowSelection::default() };
            selection.rows(table.len(), &value).0
        };
        assert_eq!(rows(0, 3), [0, 1, 2]);
        assert_eq!(rows(8, 3), [8, 9]);
        assert!(rows(20, 3).is_empty());
        assert_eq!(rows(2, 0), [2, 3, 4, 5, 6, 7, 8, 9]);
        assert!(rows(usize::MAX, usize::MAX).is_empty());
    }

    #[test]
    fn only_columns_that_are_shown_or_chosen_by_are_read() {
        let mut selection = RowSelection {
            columns: Some(vec![4, 0]),
            equal: vec![(2, Value::Int(200))],
            order: vec![(7, true)],
            ..RowSelection::default()
        };
        assert_eq!(selection.needed(9), [4, 0, 7, 2]);
        selection.columns = None;
        assert_eq!(selection.needed(3), [0, 1, 2]);
    }
}
