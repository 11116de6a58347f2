//! Rows as SQL shows them: columns computed from stored ones, whether of a file, a piece or memory.
//!
//! | stored | shown |
//! |---|---|
//! | `time` of reports | `time`, seconds: the start of the minute, hour or day that the row is shown for |
//! | `received` of requests, milliseconds | `timestamp`, `time`: seconds |
//! | `req_time_us`, `req_time_total_us`, microseconds | `req_time`, `req_time_total`: seconds |
//! | `doc_size_bytes` | `doc_size`, KiB |
//! | percentiles, in published files alone | the same, computed from the histogram elsewhere |
//! | | `resolution` of reports: `minute`, `hour` or `day` |
//!
//! None of these conversions changes an order, so bounds of a stored column give bounds of the
//! values shown.

use std::io;
use std::iter::repeat_n;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, AsArray as _, Float64Array, RecordBatch, StringViewArray, new_null_array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, Float64Type, Int64Type, Schema, SchemaRef, TimeUnit, TimestampSecondType,
};
use datafusion::common::pruning::PrunableStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, Statistics};

pub(crate) use super::columns::Form;
use super::columns::{Content, StoredRows, columns, quantiles};
use super::parquet::Bounds;
use super::requests::files;
use super::{Dataset, Resolution};

/// The second column of a report's rows, which is not stored.
pub(crate) const RESOLUTION: &str = "resolution";

/// A column that is shown: the stored one, and its conversion.
type Shown = (String, Content, Form);

/// The columns of a table.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) dataset: Arc<Dataset>,
    columns: Vec<Shown>,
    pub(crate) schema: SchemaRef,
}

impl View {
    fn of(dataset: Arc<Dataset>, columns: impl Iterator<Item = (Shown, Field)>) -> Self {
        let (columns, fields): (_, Vec<Field>) = columns.unzip();
        Self { dataset, columns, schema: Arc::new(Schema::new(fields)) }
    }

    /// The rows of a report, or of coverage and the like.
    pub(crate) fn of_report(dataset: &Arc<Dataset>) -> Self {
        let mut stored = columns(dataset);
        stored.retain(|(_, content)| *content != Content::Exact);
        stored.insert(1, (RESOLUTION.to_owned(), Content::Resolution));
        let names = stored.iter().map(|(stored, content)| content.shown(stored).0.to_owned());
        let names: Vec<String> = names.collect();
        let shown = stored.into_iter().map(|(stored, content)| {
            let (name, form) = content.shown(&stored);
            let (mut name, mut own) = (name.to_owned(), 1);
            let has = |name: &str| names.iter().filter(|it| it.eq_ignore_ascii_case(name)).count();
            // A sum may be shown under the name that a key is stored under.
            while matches!(content, Content::Key(_)) && has(&name) > own {
                name.insert_str(0, "key_");
                own = 0;
            }
            ((stored, content, form), content.shown_field(&name, form))
        });
        Self::of(Arc::clone(dataset), shown)
    }

    /// Raw requests as in files, but with times in seconds.
    pub(crate) fn stored(table: &str) -> Self {
        let dataset = Arc::new(Dataset::raw(table));
        let shown = columns(&dataset).into_iter().map(|(name, content)| {
            let form = if content == Content::Moment { Form::Second } else { Form::Same };
            let field = content.shown_field(&name, form);
            ((name, content, form), field)
        });
        Self::of(Arc::clone(&dataset), shown)
    }

    /// Raw requests as in the live table, followed by `run`, `weight`, `time` and the other
    /// columns.
    pub(crate) fn live(table: &str, live: &Schema) -> Self {
        let mut all: Vec<(Shown, Field)> = Vec::new();
        for field in live.fields() {
            let found = find(table, field.name());
            all.extend(found.map(|(shown, _)| (shown, field.as_ref().clone().with_nullable(true))));
        }
        let stored = files::columns(table).into_iter().map(|(name, content)| content.shown(name).0);
        for name in ["run", "weight", "time"].into_iter().chain(stored) {
            let is_hidden = matches!(name, "received" | "tags_exact");
            let is_shown = is_hidden || all.iter().any(|(_, field)| field.name() == name);
            all.extend(find(table, name).filter(|_| !is_shown));
        }
        Self::of(Arc::new(Dataset::raw(table)), all.into_iter())
    }

    /// The names of key columns that are texts, as shown and as stored.
    pub(crate) fn key_columns(&self) -> impl Iterator<Item = (&str, &str)> {
        let columns = self.columns.iter().zip(self.schema.fields());
        let keys = columns.filter(|((_, content, _), _)| matches!(content, Content::Key(_)));
        keys.map(|((stored, ..), field)| (&**field.name(), &**stored))
    }

    /// The columns by which the rows of each part are sorted: statuses sort as texts do.
    pub(crate) fn order(&self) -> Vec<&str> {
        let keys = &self.dataset.keys;
        let before = self.dataset.status.unwrap_or(keys.len());
        let order = self.key_columns().take(before).map(|(shown, _)| shown);
        order.chain((before == keys.len()).then_some("time")).collect()
    }

    /// The stored column behind one.
    pub(super) fn stored_name(&self, column: usize) -> &str {
        &self.columns[column].0
    }

    /// A column computed from stored ones, for rows shown by this resolution. NULL if it is not
    /// stored.
    pub(super) fn array(
        &self,
        column: usize,
        stored: &RecordBatch,
        by: Resolution,
    ) -> io::Result<ArrayRef> {
        let (name, content, _) = &self.columns[column];
        let rows = stored.num_rows();
        Ok(match (content, stored.column_by_name(name)) {
            (_, Some(array)) => self.converted(column, array, by)?,
            (Content::Resolution, _) => {
                Arc::new(StringViewArray::from_iter_values(repeat_n(by.name(), rows)))
            }
            (Content::Quantile(at), _) => {
                let of = StoredRows::new(&columns(&self.dataset), stored);
                let buckets = &self.dataset.buckets;
                let found = (0..rows).map(|row| {
                    let (time_us, extremes) = (of.totals(row).time, of.extremes(row));
                    let all = |it| quantiles(it, time_us, &extremes, buckets);
                    of.histogram(row).and_then(|it| all(it)[*at])
                });
                Arc::new(found.collect::<Float64Array>())
            }
            _ => new_null_array(self.schema.field(column).data_type(), rows),
        })
    }

    fn converted(&self, column: usize, stored: &ArrayRef, by: Resolution) -> io::Result<ArrayRef> {
        let (_, content, form) = &self.columns[column];
        let shown = form.convert(stored, self.schema.field(column).data_type())?;
        let begins = shown.as_primitive_opt::<TimestampSecondType>();
        Ok(match begins.filter(|_| *content == Content::Time) {
            Some(begins) => {
                let secs = by.secs().cast_signed();
                Arc::new(begins.unary::<_, TimestampSecondType>(|at| at - at.rem_euclid(secs)))
            }
            None => shown,
        })
    }

    /// Statistics of some rows: the bounds of columns, from those of stored columns.
    pub(super) fn statistics<'c>(
        &self,
        columns: impl Iterator<Item = &'c usize>,
        by: Resolution,
        bounds: impl Fn(&str) -> Bounds,
    ) -> PrunableStatistics {
        let mut statistics = Statistics::new_unknown(&self.schema);
        for &at in columns {
            let shown = |bound: ArrayRef| {
                ScalarValue::try_from_array(&self.converted(at, &bound, by).ok()?, 0).ok()
            };
            let [min, max] = bounds(self.stored_name(at))
                .map(|bound| bound.and_then(shown).map_or(Precision::Absent, Precision::Exact));
            let of_column = &mut statistics.column_statistics[at];
            (of_column.min_value, of_column.max_value) = (min, max);
        }
        PrunableStatistics::new(vec![Arc::new(statistics)], Arc::clone(&self.schema))
    }
}

/// The stored column for a live table's column of raw requests, and its conversion.
pub(crate) fn of_live(table: &str, name: &str) -> Option<(String, Form)> {
    find(table, name).map(|((stored, _, form), _)| (stored, form))
}

fn find(table: &str, name: &str) -> Option<(Shown, Field)> {
    let (form, wanted) = match name {
        "timestamp" => (Some(Form::Second), "received"),
        "time" => (Some(Form::Time), "received"),
        _ => (None, name),
    };
    files::columns(table).into_iter().find_map(|(stored, content)| {
        let (shown, own) = content.shown(stored);
        let form = form.unwrap_or(own);
        let column = || ((stored.to_owned(), content, form), content.shown_field(name, form));
        (shown == wanted).then(column)
    })
}

impl Form {
    /// Converts a stored column.
    fn convert(self, stored: &ArrayRef, data_type: &DataType) -> io::Result<ArrayRef> {
        let floats = |of: fn(f64) -> f64| -> Option<ArrayRef> {
            let numbers = stored.as_primitive_opt::<Int64Type>()?;
            Some(Arc::new(numbers.unary::<_, Float64Type>(|number| of(number as f64))))
        };
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let made = match self {
            Self::Same => None,
            Self::Seconds => floats(|us| us / 1e6),
            Self::Kib => floats(|bytes| bytes / 1024.0),
            Self::Second | Self::Time => cast(stored, &seconds).ok(),
        };
        cast(made.as_ref().unwrap_or(stored), data_type).map_err(io::Error::other)
    }
}
