//! Histogram views (`hv.report1`, `hv.tag_info`, ...): one row of a report, spread over its buckets.
//!
//! A view answers for one `index_value` at a time, as Pinba's do, with as many rows as its layout has segments,
//! empty ones included. It needs a reading made with `Want::histograms`. Works on the reader's thread and copies
//! nothing.

use std::borrow::Cow;

use super::{ColumnLayout, IndexPart, Measure, index_value, key_text, number};
use crate::report::histogram::{BucketLayout, linear_width};
use crate::report::reading::Reading;
use crate::value::Value;

/// What a histogram view shows.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramView {
    /// The `index_value` by which a row is chosen; empty: the report has one row, which needs no choosing.
    pub(super) parts: Box<[IndexPart]>,
    /// Its segments, linear.
    pub(super) buckets: BucketLayout,
    /// What the percentages are of: requests or hits.
    pub(super) count: Measure,
}

/// The segments of one row.
#[derive(Debug, Clone)]
pub struct Segments<'a> {
    index_value: Option<Cow<'a, str>>,
    /// `None`: not known, the histogram did not fit into the memory for it.
    histogram: Option<&'a [(u32, u64)]>,
    total: u128,
    /// Width of a segment, seconds.
    width: f64,
    size: usize,
}

impl ColumnLayout {
    /// Whether rows are segments of a histogram (see [`ColumnLayout::segments`]).
    #[must_use]
    pub fn is_histogram_view(&self) -> bool {
        self.view.is_some()
    }

    /// The segments of the row whose `index_value` is this. `hv.info` has one row and takes no notice of it.
    /// `None` when this is not a histogram view, no row was chosen, or there is none of that `index_value`.
    #[must_use]
    pub fn segments<'a>(
        &self,
        reading: &'a Reading,
        index_value_chosen: Option<&str>,
    ) -> Option<Segments<'a>> {
        let view = self.view.as_ref()?;
        let BucketLayout::Linear { max_us, size } = view.buckets else {
            return None;
        };
        let (row, text) = if view.parts.is_empty() {
            (0, None)
        } else {
            let chosen = index_value_chosen?;
            let row = (0..reading.len()).find(|&row| is(chosen, &view.parts, reading, row))?;
            (row, Some(index_value(&view.parts, reading, row)))
        };
        let total = reading
            .totals
            .get(row)
            .map_or(0, |totals| view.count.of(totals));
        let histogram = reading
            .histograms
            .get(row)
            .map(Vec::as_slice)
            .unwrap_or_default();
        Some(Segments {
            index_value: text,
            histogram: (total == 0 || !histogram.is_empty()).then_some(histogram),
            total,
            width: linear_width(max_us, size),
            size: size as usize,
        })
    }
}

/// Whether a row's `index_value` is this text; puts none together, as all rows are asked.
fn is(text: &str, parts: &[IndexPart], reading: &Reading, row: usize) -> bool {
    let rest = parts.iter().try_fold(text, |rest, part| match part {
        IndexPart::Text(separator) => rest.strip_prefix(separator),
        IndexPart::Key(key) => rest.strip_prefix(&*key_text(reading.key(row, *key))),
    });
    rest == Some("")
}

impl Segments<'_> {
    /// Number of segments, empty ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.size
    }

    /// Whether there is none; a layout has at least one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// The value of a view's column (by position) in a segment. Positions past the last column are NULL.
    #[must_use]
    pub fn value(&self, segment: usize, column: usize) -> Value<'_> {
        match column {
            0 => self
                .index_value
                .as_deref()
                .map_or(Value::Null, |text| Value::Text(text.into())),
            1 => i64::try_from(segment).map_or(Value::Null, Value::Int),
            2 => Value::Float(segment as f64 * self.width),
            3 => self
                .count(segment)
                .and_then(|count| i64::try_from(count).ok())
                .map_or(Value::Null, Value::Int),
            4 => match (self.count(segment), self.total) {
                (None, _) => Value::Null,
                (Some(_), 0) => Value::Float(0.0),
                (Some(count), total) => Value::Float(100.0 * count as f64 / number(total)),
            },
            _ => Value::Null,
        }
    }

    fn count(&self, segment: usize) -> Option<u64> {
        let histogram = self.histogram?;
        let place = histogram.binary_search_by_key(&segment, |(bucket, _)| *bucket as usize);
        Some(
            place
                .ok()
                .and_then(|at| histogram.get(at))
                .map_or(0, |(_, count)| *count),
        )
    }
}
