//! Which rows of a table are shown, and in which order.
//!
//! Rows are filtered first, then sorted, then cut. The values of a column become sixteen bytes each beside the row number, and only rows
//! that are equal there look at the next column. When only the top is wanted, only the top is sorted. Rows that are equal in all
//! columns keep the order of the table; NULL comes last in both directions; text is compared by its bytes. Memory: 24 bytes a row,
//! for as long as the sort runs.

use std::cmp::Ordering;

use crate::query::table::Table;
use crate::value::{ColumnType, Value};

/// One column of a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) struct SortBy {
    /// The column's number.
    pub(in crate::http) column: usize,
    /// Whether the largest comes first.
    pub(in crate::http) descending: bool,
}

/// By which column rows are sorted, and whether the largest comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) struct Sort {
    pub(in crate::http) column: String,
    pub(in crate::http) descending: bool,
}

impl Sort {
    /// The largest first.
    pub(in crate::http) fn largest(column: &str) -> Self {
        Self {
            column: column.to_owned(),
            descending: true,
        }
    }

    /// As the parameter `sort` says it: a minus before the column puts the largest first.
    pub(in crate::http) fn parse(text: &str) -> Self {
        let column = text.strip_prefix('-');
        Self {
            column: column.unwrap_or(text).to_owned(),
            descending: column.is_some(),
        }
    }
}

/// Filters, sorts and cuts; a limit of 0 leaves all. Gives the numbers of the rows, and how many there were before they were
/// cut.
pub(in crate::http) fn choose(
    table: &dyn Table,
    keep: &dyn Fn(usize) -> bool,
    sort: &[SortBy],
    offset: usize,
    limit: usize,
) -> (Vec<u32>, usize) {
    let len = u32::try_from(table.len()).expect("no pool or report has 2^32 rows");
    let mut rows: Vec<u32> = (0..len).filter(|row| keep(*row as usize)).collect();
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
fn sorted(table: &dyn Table, rows: Vec<u32>, sort: &[SortBy], top: usize) -> Vec<u32> {
    let Some((by, others)) = sort.split_first() else {
        return rows;
    };
    let value = |row: u32| table.value(row as usize, by.column);
    let entry = |row: u32| (key(&value(row), by.descending), row);
    let mut entries: Vec<(Key, u32)> = rows.into_iter().map(entry).collect();
    if 0 < top && top < entries.len() {
        // Of those that are equal to the last one the other columns decide which are on top.
        let (_, last, _) = entries.select_nth_unstable(top - 1);
        let last = last.0;
        entries.retain(|(key, _)| *key <= last);
    }
    entries.sort_unstable();
    let column_type = table.columns()[by.column].column_type;
    let is_text = matches!(column_type, ColumnType::Varchar(_) | ColumnType::Text);
    // The keys of texts are the same when they differ further on.
    let compare = |a: &u32, b: &u32| compare_texts(&value(*a), &value(*b), by.descending);
    let mut sorted = Vec::with_capacity(entries.len());
    let mut alike: Vec<u32> = Vec::new();
    for entries in entries.chunk_by(|a, b| a.0 == b.0) {
        alike.clear();
        alike.extend(entries.iter().map(|(_, row)| *row));
        if is_text {
            alike.sort_by(compare);
        }
        for same in alike.chunk_by(|a, b| !is_text || compare(a, b).is_eq()) {
            match same {
                _ if sorted.len() >= top => return sorted,
                [row] => sorted.push(*row),
                rows => {
                    let left = top - sorted.len();
                    sorted.extend(self::sorted(table, rows.to_vec(), others, left));
                }
            }
        }
    }
    sorted
}

fn compare_texts(a: &Value<'_>, b: &Value<'_>, descending: bool) -> Ordering {
    match (a, b) {
        (Value::Text(a), Value::Text(b)) if descending => b.as_bytes().cmp(a.as_bytes()),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (a, b) => (*a == Value::Null).cmp(&(*b == Value::Null)),
    }
}

/// A value as 16 bytes that compare as the value does. Two texts may have the same although they differ further on.
type Key = (u64, u64);

/// NULL: behind everything.
const LAST: Key = (u64::MAX, u64::MAX);

fn key(value: &Value<'_>, descending: bool) -> Key {
    let (high, low) = match value {
        Value::Null => return LAST,
        Value::Int(number) => (float_bits(*number as f64), int_bits(*number)),
        // Half an ulp decides between a time and a float; two times compare as whole numbers.
        Value::Micros(us) => (float_bits(*us as f64 / 1e6), *us),
        Value::Float(number) if number.is_nan() => return LAST,
        Value::Float(number) => (float_bits(*number), 0),
        Value::Text(text) => text_bits(text.as_bytes()),
    };
    if descending {
        (!high, !low)
    } else {
        (high, low)
    }
}

/// The bits of a float in an order in which they compare as the float does.
fn float_bits(number: f64) -> u64 {
    // Both zeros are one.
    let bits = (number + 0.0).to_bits();
    if bits >> 63 == 0 {
        bits | 1 << 63
    } else {
        !bits
    }
}

const fn int_bits(number: i64) -> u64 {
    (number as u64) ^ (1 << 63)
}

fn text_bits(text: &[u8]) -> Key {
    let part = |from: usize| {
        let mut bytes = [0; 8];
        let text = text.get(from..).unwrap_or_default();
        let len = text.len().min(8);
        bytes[..len].copy_from_slice(&text[..len]);
        u64::from_be_bytes(bytes)
    };
    (part(0), part(8))
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::value::Column;

    /// A table of values made beforehand, the first column text.
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
        let column = |name: &str, column_type| Column {
            name: name.into(),
            column_type,
        };
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
            let by = |column| SortBy {
                column,
                descending: (seed >> column) & 1 == 1,
            };
            let sort: Vec<SortBy> = (0..random.random_range(1..4))
                .map(|_| by(random.random_range(0..4)))
                .collect();
            let limit = random.random_range(0..10);
            let offset = random.random_range(0..20);
            let keep = |row: usize| row % 3 != 1;
            let filtered = random.random_range(0..2) == 1;
            let mut expected: Vec<u32> = (0..len)
                .filter(|row| !filtered || keep(*row))
                .map(|row| row as u32)
                .collect();
            let total = expected.len();
            expected.sort_by(|a, b| {
                sort.iter()
                    .map(|by| {
                        let value = |row: u32| table.value(row as usize, by.column);
                        naive(&value(*a), &value(*b), by.descending)
                    })
                    .find(|order| order.is_ne())
                    .unwrap_or(Ordering::Equal)
            });
            let expected: Vec<u32> = expected
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
