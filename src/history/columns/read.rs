//! Reads the rows of batches one by one.

use std::io;
use std::ops::Range;

use datafusion::arrow::array::{
    Array as _, AsArray as _, BinaryArray, BooleanArray, Int64Array, RecordBatch, StringViewArray,
    TimestampMillisecondArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};

use super::{Columns, Content};
use crate::history::row::StoredRow;
use crate::report::layout::{Measure, OTHER};
use crate::report::row_key::push_key;
use crate::report::totals::{Extremes, Totals};
use crate::value::varint;

/// Batches of rows.
pub(in crate::history) type Batches = Box<dyn Iterator<Item = io::Result<RecordBatch>> + Send>;

/// Reads the rows of some times.
pub(in crate::history) struct RowReader {
    batches: Batches,
    /// The columns to read.
    columns: Columns,
    times: Range<u64>,
    /// The rows of the current batch, and the index of the one after the current row.
    rows: StoredRows,
    next: usize,
    /// The number of rows in the batches before.
    before: usize,
    /// The key of the current row, and whether it is the overflow row.
    key: Vec<u8>,
    is_other: bool,
}

impl RowReader {
    pub(in crate::history) fn new(batches: Batches, columns: Columns, times: Range<u64>) -> Self {
        let (rows, key) = (StoredRows::default(), Vec::new());
        Self { batches, columns, times, rows, next: 0, before: 0, key, is_other: false }
    }

    /// Goes to the next row; returns whether there is one.
    pub(in crate::history) fn advance(&mut self) -> io::Result<bool> {
        loop {
            while self.next < self.rows.len {
                let row = self.next;
                self.next += 1;
                if row == 0 || !self.rows.is_same_key(row) {
                    self.is_other = self.rows.read_key(row, &mut self.key);
                }
                if self.times.contains(&self.rows.time(row)) {
                    return Ok(true);
                }
            }
            let Some(batch) = self.batches.next().transpose()? else { return Ok(false) };
            self.before = self.read();
            self.rows = StoredRows::new(&self.columns, &batch);
            self.next = 0;
        }
    }

    /// The number of rows in the batches so far.
    pub(in crate::history) fn read(&self) -> usize {
        self.before + self.rows.len
    }

    /// The number of the current row among all rows, of any time.
    pub(in crate::history) fn number(&self) -> usize {
        self.before + self.next - 1
    }

    /// The key and the time of the current row.
    pub(in crate::history) fn key_and_time(&self) -> (&[u8], u64) {
        (&self.key, self.rows.time(self.next - 1))
    }

    /// The current row. Values of columns that are not read are 0 or unknown.
    pub(in crate::history) fn row(&self) -> StoredRow<'_> {
        let (rows, row) = (&self.rows, self.next - 1);
        StoredRow {
            time: rows.time(row),
            key: &self.key,
            is_other: self.is_other,
            totals: rows.totals(row),
            extremes: rows.extremes(row),
            histogram: rows.histogram(row),
        }
    }
}

/// The rows of a batch, with those columns that it has.
#[derive(Debug, Default)]
pub(in crate::history) struct StoredRows {
    pub(in crate::history) len: usize,
    times: Option<TimestampMillisecondArray>,
    keys: Vec<KeyColumn>,
    other: Option<BooleanArray>,
    sums: Vec<(usize, Int64Array)>,
    extremes: [Option<Int64Array>; 3],
    histograms: Option<BinaryArray>,
    exact: Option<BinaryArray>,
}

/// A column of keys.
#[derive(Debug)]
enum KeyColumn {
    Text(StringViewArray),
    Number(Int64Array),
}

impl StoredRows {
    /// The rows of a batch, in those of these columns that it has.
    pub(in crate::history) fn new(columns: &Columns, batch: &RecordBatch) -> Self {
        let mut rows = Self { len: batch.num_rows(), ..Self::default() };
        for (name, content) in columns {
            let Some(array) = batch.column_by_name(name) else { continue };
            let numbers = || array.as_primitive_opt::<Int64Type>().cloned();
            match content {
                Content::Time => rows.times = array.as_primitive_opt().cloned(),
                Content::Key(_) => {
                    let texts = cast(array, &DataType::Utf8View).ok();
                    let texts = texts.map(|texts| KeyColumn::Text(texts.as_string_view().clone()));
                    rows.keys.extend(texts);
                }
                Content::Status(_) => rows.keys.extend(numbers().map(KeyColumn::Number)),
                Content::Other => rows.other = array.as_boolean_opt().cloned(),
                Content::Sum(measure) => {
                    rows.sums.extend(numbers().map(|sums| (*measure as usize, sums)));
                }
                Content::Extreme(at) => rows.extremes[*at] = numbers(),
                Content::Histogram => rows.histograms = array.as_binary_opt().cloned(),
                Content::Exact => rows.exact = array.as_binary_opt().cloned(),
                _ => {}
            }
        }
        rows
    }

    /// Reads the key of a row; returns whether it is the overflow row.
    fn read_key(&self, row: usize, key: &mut Vec<u8>) -> bool {
        let is_other = self.other.as_ref().is_some_and(|other| other.value(row));
        key.clear();
        for column in &self.keys {
            match column {
                _ if is_other => push_key(key, OTHER),
                KeyColumn::Text(texts) => push_key(key, texts.value(row)),
                KeyColumn::Number(numbers) => push_key(key, &numbers.value(row).to_string()),
            }
        }
        is_other
    }

    /// Whether a row is known to have the key of the row before it: equal texts of a file mostly
    /// are the same view.
    fn is_same_key(&self, row: usize) -> bool {
        let other = self.other.as_ref();
        other.is_none_or(|other| other.value(row) == other.value(row - 1))
            && self.keys.iter().all(|key| match key {
                KeyColumn::Text(texts) => texts.views()[row] == texts.views()[row - 1],
                KeyColumn::Number(numbers) => numbers.value(row) == numbers.value(row - 1),
            })
    }

    /// Returns the beginning of its minute, hour or day.
    pub(in crate::history) fn time(&self, row: usize) -> u64 {
        let ms = self.times.as_ref().map_or(0, |times| times.value(row));
        u64::try_from(ms).unwrap_or_default() / 1_000
    }

    pub(in crate::history) fn totals(&self, row: usize) -> Totals {
        if let Some(mut exact) = value(self.exact.as_ref(), row) {
            let usual = Totals::take(&mut exact, false);
            let unmeasured = if exact.is_empty() { 0 } else { varint::take(&mut exact) };
            return Totals { unmeasured, ..usual };
        }
        let mut totals = [0; Measure::ALL.len()];
        for (measure, sums) in &self.sums {
            totals[*measure] = u128::try_from(sums.value(row)).unwrap_or_default();
        }
        Totals::of(totals)
    }

    pub(in crate::history) fn extremes(&self, row: usize) -> Extremes {
        Extremes::of(self.extremes.each_ref().map(|numbers| {
            u64::try_from(numbers.as_ref().filter(|numbers| numbers.is_valid(row))?.value(row)).ok()
        }))
    }

    /// Returns the histogram of a row as it is stored.
    pub(in crate::history) fn histogram(&self, row: usize) -> Option<&[u8]> {
        value(self.histograms.as_ref(), row)
    }
}

fn value(bytes: Option<&BinaryArray>, row: usize) -> Option<&[u8]> {
    Some(bytes.filter(|bytes| bytes.is_valid(row))?.value(row))
}
