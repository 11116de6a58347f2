//! Selects and orders the rows of a table.
//!
//! Rows are filtered first, then sorted, then cut. The values of the first sort column are read
//! once; other columns are only compared where it is equal. If only the top is wanted, only the top
//! is sorted. Equal rows keep the order of the table; NULL comes last in both directions; text is
//! compared by its bytes. Memory: a value and a number per row while the sort runs.

use std::cmp::Ordering;

use crate::query::table::Table;
use crate::value::Value;

/// A sort column, and whether the largest comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) struct Sort {
    pub(in crate::http) column: String,
    pub(in crate::http) descending: bool,
}

impl Sort {
    /// Largest first.
    pub(in crate::http) fn largest(column: &str) -> Self {
        Self {
            column: column.to_owned(),
            descending: true,
        }
    }

    /// Parses the parameter `sort`: a minus before the column puts the largest first.
    pub(in crate::http) fn parse(text: &str) -> Self {
        let column = text.strip_prefix('-');
        Self {
            column: column.unwrap_or(text).to_owned(),
            descending: column.is_some(),
        }
    }
}

/// Filters rows, sorts by these columns (true: largest first) and cuts; a limit of 0 keeps all.
/// Returns the numbers of the rows, and how many there were before the cut.
pub(in crate::http) fn choose(
    table: &dyn Table,
    keep: &dyn Fn(usize) -> bool,
    sort: &[(usize, bool)],
    offset: usize,
    limit: usize,
) -> (Vec<usize>, usize) {
    let mut rows: Vec<usize> = (0..table.len()).filter(|row| keep(*row)).collect();
    let total = rows.len();
    let end = match limit {
        0 => total,
        limit => total.min(offset.saturating_add(limit)),
    };
    rows = sorted(table, rows, sort, end);
    rows.truncate(end);
    rows.drain(..offset.min(end));
    (rows, total)
}

/// The rows in order, at least the first `top` of them. They come in the order of the table.
fn sorted(table: &dyn Table, rows: Vec<usize>, sort: &[(usize, bool)], top: usize) -> Vec<usize> {
    let Some((&(column, descending), others)) = sort.split_first() else {
        return rows;
    };
    let entry = |row| (table.value(row, column), row);
    let mut entries: Vec<(Value<'_>, usize)> = rows.into_iter().map(entry).collect();
    let order = |a: &(Value<'_>, usize), b: &(Value<'_>, usize)| {
        compare(&a.0, &b.0, descending).then(a.1.cmp(&b.1))
    };
    if 0 < top && top < entries.len() {
        // Among rows equal to the last one, the other columns decide which are on top.
        let (_, last, _) = entries.select_nth_unstable_by(top - 1, order);
        let last = last.0.clone();
        entries.retain(|(value, _)| compare(value, &last, descending).is_le());
    }
    entries.sort_unstable_by(order);
    let mut sorted = Vec::with_capacity(entries.len());
    for same in entries.chunk_by(|a, b| compare(&a.0, &b.0, descending).is_eq()) {
        match same {
            _ if sorted.len() >= top => break,
            [(_, row)] => sorted.push(*row),
            same => {
                let rows = same.iter().map(|(_, row)| *row).collect();
                sorted.extend(self::sorted(table, rows, others, top - sorted.len()));
            }
        }
    }
    sorted
}

/// Compares two values of a column; times compare as integers, and both zeros are equal.
fn compare(a: &Value<'_>, b: &Value<'_>, descending: bool) -> Ordering {
    let is_last = |value: &Value<'_>| match value {
        Value::Float(number) => number.is_nan(),
        other => *other == Value::Null,
    };
    let number = |value: &Value<'_>| match value {
        Value::Int(number) => *number as f64,
        Value::Micros(us) => *us as f64 / 1e6,
        Value::Float(number) => *number,
        Value::Null | Value::Text(_) => 0.0,
    };
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
    use crate::value::{Column, ColumnType, Unit};

    /// A table of constant values, with text in the first column.
    struct Sample(Vec<Column>, Vec<Vec<Value<'static>>>);

    impl Table for Sample {
        fn columns(&self) -> &[Column] {
            &self.0
        }

        fn len(&self) -> usize {
            self.1.len()
        }

        fn value(&self, row: usize, column: usize) -> Value<'_> {
            self.1[row][column].clone()
        }
    }

    fn sample(seed: u64, rows: usize) -> Sample {
        let mut random = StdRng::seed_from_u64(seed);
        let column = |name: &str, column_type| Column::new(name, column_type, Unit::None);
        let columns = vec![
            column("text", ColumnType::Text),
            column("int", ColumnType::Int),
            column("time", ColumnType::Float),
            column("float", ColumnType::Double),
        ];
        let prefixes = [
            "",
            "a",
            "/index.php?page=",
            "/index.php?page=7",
            "ü",
            "\u{10ffff}",
        ];
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
        let rows = (0..rows).map(|_| row()).collect();
        Sample(columns, rows)
    }

    /// The order as specified, value by value.
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
            let sort: Vec<(usize, bool)> = (0..random.random_range(1..4))
                .map(|_| by(random.random_range(0..4)))
                .collect();
            let limit = random.random_range(0..10);
            let offset = random.random_range(0..20);
            let keep = |row: usize| row % 3 != 1;
            let filtered = random.random_range(0..2) == 1;
            let mut expected: Vec<usize> = (0..len).filter(|row| !filtered || keep(*row)).collect();
            let total = expected.len();
            expected.sort_by(|a, b| {
                sort.iter()
                    .map(|(column, descending)| {
                        let value = |row: usize| table.value(row, *column);
                        naive(&value(*a), &value(*b), *descending)
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
            let (rows, counted) = choose(&table, &keep, &sort, offset, limit);
            assert_eq!(rows, expected, "seed {seed}, {sort:?}");
            assert_eq!(counted, total);
        }
    }

    #[test]
    fn without_a_sort_the_table_is_cut_as_it_stands() {
        let table = sample(1, 10);
        let rows = |offset, limit| choose(&table, &|_| true, &[], offset, limit).0;
        assert_eq!(rows(0, 3), [0, 1, 2]);
        assert_eq!(rows(8, 3), [8, 9]);
        assert!(rows(20, 3).is_empty());
        assert_eq!(rows(2, 0), [2, 3, 4, 5, 6, 7, 8, 9]);
        assert!(rows(usize::MAX, usize::MAX).is_empty());
    }
}
