//! Histogram views (`hv.report1`, `hv.tag_info`, ...): one row of a report, with a row per bucket.
//!
//! A view answers for one `index_value` at a time, as Pinba's do, with as many rows as its layout
//! has segments, including empty ones. It needs a reading made with `Want::histograms`. Works on
//! the reader's thread.

use super::{ColumnLayout, IndexPart, Measure, number, whole};
use crate::report::histogram::{BucketLayout, linear_width};
use crate::report::read::reading::Reading;
use crate::value::Value;

/// The data of a histogram view.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HistogramView {
    /// The `index_value` that selects a row; empty if the report has a single row.
    pub(super) parts: Box<[IndexPart]>,
    /// Its segments, linear.
    pub(super) buckets: BucketLayout,
    /// The whole of the percentages: requests or hits.
    pub(super) count: Measure,
}

impl ColumnLayout {
    /// Whether rows are segments of a histogram (see [`ColumnLayout::segments`]).
    pub fn is_histogram_view(&self) -> bool {
        self.view.is_some()
    }

    /// The segments of the row with this `index_value`, including empty ones: a value for each
    /// column of the view. `hv.info` has one row and ignores it. Empty if this is not a histogram
    /// view, no row was selected, or there is none of that `index_value`.
    pub fn segments(&self, reading: &Reading, chosen: Option<&str>) -> Vec<Vec<Value<'static>>> {
        let Some(view) = &self.view else { return Vec::new() };
        let BucketLayout::Linear { max_us, size } = view.buckets else { return Vec::new() };
        let is_chosen = |&row: &usize| chosen.is_some_and(|it| is(it, &view.parts, reading, row));
        let (row, index) = match view.parts.is_empty() {
            true => (Some(0), Value::Null),
            false => (
                (0..reading.len()).find(is_chosen),
                Value::Text(chosen.unwrap_or_default().to_owned().into()),
            ),
        };
        let Some(row) = row else { return Vec::new() };
        let totals = reading.totals.get(row);
        let total = totals.map_or(0, |totals| view.count.of(totals));
        let histogram = reading.histograms.get(row).map_or(&[][..], Vec::as_slice);
        let mut counts = vec![0; size as usize];
        for &(bucket, count) in histogram {
            if let Some(segment) = counts.get_mut(bucket as usize) {
                *segment = count;
            }
        }
        // Counts without buckets: there was no memory for the histogram.
        let is_known = total == 0 || !histogram.is_empty();
        let width = linear_width(max_us, size);
        let segment = |(segment, &count): (usize, &u64)| {
            let percent = if total == 0 { 0.0 } else { 100.0 * count as f64 / number(total) };
            let [count, percent] = match is_known {
                true => [whole(count.into()), Value::Float(percent)],
                false => [Value::Null, Value::Null],
            };
            let edge = Value::Float(segment as f64 * width);
            vec![index.clone(), whole(segment as u128), edge, count, percent]
        };
        counts.iter().enumerate().map(segment).collect()
    }
}

/// Whether a row's `index_value` is this text; builds none, since all rows are checked.
fn is(text: &str, parts: &[IndexPart], reading: &Reading, row: usize) -> bool {
    let mut parts = parts.iter();
    parts.try_fold(text, |rest, part| rest.strip_prefix(part.text(reading, row))) == Some("")
}
