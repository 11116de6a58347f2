//! Histogram views (`hv.report1`, `hv.tag_info`, ...): one row of a report, spread over its buckets.
//!
//! A view answers for one `index_value` at a time, as Pinba's do, with as many rows as its layout has segments,
//! empty ones included. It needs a reading made with `Want::histograms`. Works on the reader's thread.

use super::{ColumnLayout, IndexPart, Measure, key_text, number, whole};
use crate::report::histogram::{BucketLayout, linear_width};
use crate::report::reading::Reading;
use crate::value::Value;

/// What a histogram view shows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HistogramView {
    /// The `index_value` by which a row is chosen; empty: the report has one row, which needs no choosing.
    pub(super) parts: Box<[IndexPart]>,
    /// Its segments, linear.
    pub(super) buckets: BucketLayout,
    /// What the percentages are of: requests or hits.
    pub(super) count: Measure,
}

impl ColumnLayout {
    /// Whether rows are segments of a histogram (see [`ColumnLayout::segments`]).
    #[must_use]
    pub fn is_histogram_view(&self) -> bool {
        self.view.is_some()
    }

    /// The segments of the row whose `index_value` is this, empty ones included: a value for each column of the view.
    /// `hv.info` has one row and takes no notice of it. None when this is not a histogram view, no row was chosen, or there
    /// is none of that `index_value`.
    #[must_use]
    pub fn segments(&self, reading: &Reading, chosen: Option<&str>) -> Vec<Vec<Value<'static>>> {
        let Some(view) = &self.view else {
            return Vec::new();
        };
        let BucketLayout::Linear { max_us, size } = view.buckets else {
            return Vec::new();
        };
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
        // Counts without buckets: the histogram did not fit into the memory for it.
        let is_known = total == 0 || !histogram.is_empty();
        let width = linear_width(max_us, size);
        let segment = |(segment, &count): (usize, &u64)| {
            let percent = match total {
                0 => 0.0,
                _ => 100.0 * count as f64 / number(total),
            };
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

/// Whether a row's `index_value` is this text; puts none together, as all rows are asked.
fn is(text: &str, parts: &[IndexPart], reading: &Reading, row: usize) -> bool {
    let rest = parts.iter().try_fold(text, |rest, part| match part {
        IndexPart::Text(separator) => rest.strip_prefix(separator),
        IndexPart::Key(key) => rest.strip_prefix(&*key_text(reading.key(row, *key))),
    });
    rest == Some("")
}
