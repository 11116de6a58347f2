//! Which rows of a table are shown, and in which order.
//!
//! Rows are filtered first, then sorted, then cut. Sorting looks at each value once: the first column of the sort becomes
//! sixteen bytes beside the row number, and only rows that are equal there look at the columns after it. When only the top is
//! wanted, only the top is sorted, and the columns after the first are looked at for no others. Equal rows keep the order of the table; NULL comes last in both directions; text is compared
//! by its bytes. Memory: 24 bytes a row, and what the further columns hold, for as long as the sort runs.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

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

/// The rows to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) enum Rows {
    /// These, as they stand in the table.
    Range(Range<usize>),
    /// These, in this order.
    List(Vec<u32>),
}

impl Rows {
    /// How many.
    pub(in crate::http) fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::List(rows) => rows.len(),
        }
    }

    /// The number of the row that stands in place `at`.
    pub(in crate::http) fn get(&self, at: usize) -> Option<usize> {
        match self {
            Self::Range(range) => (at < range.len()).then(|| range.start + at),
            Self::List(rows) => rows.get(at).map(|row| *row as usize),
        }
    }

    /// Leaves `limit` rows from place `offset` on; a limit of 0 leaves all.
    fn cut(self, offset: usize, limit: usize) -> Self {
        let start = offset.min(self.len());
        let end = if limit == 0 {
            self.len()
        } else {
            self.len().min(start.saturating_add(limit))
        };
        match self {
            Self::Range(range) => Self::Range(range.start + start..range.start + end),
            Self::List(mut rows) => {
                rows.truncate(end);
                rows.drain(..start);
                Self::List(rows)
            }
        }
    }
}

/// Filters, sorts and cuts. Gives the rows, and how many there were before they were cut.
pub(in crate::http) fn choose(
    table: &dyn Table,
    keep: Option<&dyn Fn(usize) -> bool>,
    sort: &[SortBy],
    offset: usize,
    limit: usize,
) -> (Rows, usize) {
    let number = |row: usize| u32::try_from(row).expect("no pool or report has 2^32 rows");
    let rows = match keep {
        None => Rows::Range(0..table.len()),
        Some(keep) => Rows::List(
            (0..table.len())
                .filter(|row| keep(*row))
                .map(number)
                .collect(),
        ),
    };
    let total = rows.len();
    if sort.is_empty() {
        return (rows.cut(offset, limit), total);
    }
    let top = if limit == 0 {
        total
    } else {
        total.min(offset.saturating_add(limit))
    };
    let rows = match rows {
        Rows::Range(range) => sorted(table, range.map(number), sort, top),
        Rows::List(rows) => sorted(table, rows.into_iter(), sort, top),
    };
    (Rows::List(rows).cut(offset, limit), total)
}

/// The first `top` rows of the order.
fn sorted(
    table: &dyn Table,
    rows: impl Iterator<Item = u32>,
    sort: &[SortBy],
    top: usize,
) -> Vec<u32> {
    let first = sort[0];
    let mut entries: Vec<Entry> = rows
        .enumerate()
        .map(|(place, row)| Entry {
            key: key(&table.value(row as usize, first.column), first.descending),
            row,
            place: u32::try_from(place).expect("no more places than rows"),
        })
        .collect();
    if 0 < top && top < entries.len() {
        // Further columns are looked at only where they may decide what is on top.
        let (_, last, _) = entries.select_nth_unstable_by(top - 1, |a, b| a.key.cmp(&b.key));
        let last = last.key;
        entries.retain(|entry| entry.key <= last);
        entries.sort_unstable_by_key(|entry| entry.place);
        for (place, entry) in (0..).zip(&mut entries) {
            entry.place = place;
        }
    }
    let lanes: Vec<Lane<'_>> = sort
        .iter()
        .enumerate()
        .filter_map(|(at, by)| Lane::new(table, &entries, *by, at == 0))
        .collect();
    let compare = |a: &Entry, b: &Entry| {
        a.key.cmp(&b.key).then_with(|| {
            let mut further = lanes.iter().map(|lane| lane.compare(a.place, b.place));
            // The place in the table decides in the end, which makes the order total and the sort stable.
            further
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.place.cmp(&b.place))
        })
    };
    if top < entries.len() {
        if top > 0 {
            entries.select_nth_unstable_by(top - 1, compare);
        }
        entries.truncate(top);
    }
    entries.sort_unstable_by(compare);
    entries.into_iter().map(|entry| entry.row).collect()
}

/// One row in the making of an order.
struct Entry {
    /// What decides most comparisons.
    key: Key,
    row: u32,
    /// Where the row stood among these before: the index into every [`Lane`].
    place: u32,
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

/// What one further column of the sort holds, by place.
enum Lane<'a> {
    Keys(Vec<Key>),
    Texts {
        texts: Vec<Option<Cow<'a, str>>>,
        descending: bool,
    },
}

impl<'a> Lane<'a> {
    /// `None` for a first column whose keys say all there is to say.
    fn new(table: &'a dyn Table, entries: &[Entry], by: SortBy, first: bool) -> Option<Self> {
        let value = |entry: &Entry| table.value(entry.row as usize, by.column);
        let column_type = table.columns()[by.column].column_type;
        if matches!(column_type, ColumnType::Varchar(_) | ColumnType::Text) {
            let text = |entry: &Entry| match value(entry) {
                Value::Text(text) => Some(text),
                _ => None,
            };
            let texts = entries.iter().map(text).collect();
            return Some(Self::Texts {
                texts,
                descending: by.descending,
            });
        }
        if first {
            return None;
        }
        Some(Self::Keys(
            entries
                .iter()
                .map(|entry| key(&value(entry), by.descending))
                .collect(),
        ))
    }

    fn compare(&self, a: u32, b: u32) -> Ordering {
        let (a, b) = (a as usize, b as usize);
        match self {
            Self::Keys(keys) => keys[a].cmp(&keys[b]),
            Self::Texts { texts, descending } => match (&texts[a], &texts[b]) {
                (Some(a), Some(b)) if *descending => b.as_bytes().cmp(a.as_bytes()),
                (Some(a), Some(b)) => a.as_bytes().cmp(b.as_bytes()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => Ordering::Equal,
            },
        }
    }
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
            let keep: Option<&dyn Fn(usize) -> bool> = if filtered { Some(&keep) } else { None };
            let (rows, counted) = choose(&table, keep, &sort, offset, limit);
            assert_eq!(rows, Rows::List(expected), "seed {seed}, {sort:?}");
            assert_eq!(counted, total);
        }
    }

    #[test]
    fn without_a_sort_the_table_is_cut_as_it_stands() {
        let table = sample(1, 10);
        let rows = |offset, limit| choose(&table, None, &[], offset, limit).0;
        assert_eq!(rows(0, 3), Rows::Range(0..3));
        assert_eq!(rows(8, 3), Rows::Range(8..10));
        assert_eq!(rows(20, 3), Rows::Range(10..10));
        assert_eq!(rows(2, 0), Rows::Range(2..10));
        assert_eq!(rows(usize::MAX, usize::MAX).len(), 0);
        assert_eq!(rows(8, 3).get(1), Some(9));
        assert_eq!(rows(8, 3).get(2), None);
    }
}
