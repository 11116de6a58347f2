//! Encodes rows of reports and of coverage for ClickHouse.

use super::native::{Block, RowWriter};
use super::tables::{COVERAGE, MEASURES, REQUEST, ROLLUP, Table};
use crate::history::{Coverage, Dataset, Identity, Row};
use crate::report::reading::Extremes;
use crate::report::row_key::key_texts;

/// The source of the rows, which every row names.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// The store, 128 bits.
    pub(super) store: u128,
    pub(super) names: Identity,
}

/// The table for the rows of a dataset; timers go with their requests.
pub(super) fn table_of(dataset: &Dataset) -> Option<&'static Table> {
    match dataset.report.as_str() {
        _ if dataset.is_coverage() => Some(&COVERAGE),
        _ if !dataset.is_raw() => Some(&ROLLUP),
        "request" => Some(&REQUEST),
        _ => None,
    }
}

/// Adds a row of a dataset to a block of its table.
pub(super) fn push(block: &mut Block, origin: &Origin, part: u32, dataset: &Dataset, row: &Row) {
    let to = &mut block.row();
    if dataset.is_coverage() {
        let mut of = key_texts(&row.key);
        let (report, definition) = (of.next(), of.next());
        let report = [report, definition].map(Option::unwrap_or_default);
        push_unit(to, origin, part, report, row.time);
        let Coverage { secs, missed, histograms_dropped, keys_folded, rows_lost } =
            Coverage::of(&row.gain.sum.totals);
        let counts = [secs, missed, histograms_dropped, keys_folded, rows_lost];
        counts.into_iter().for_each(|count| to.value(count));
        return;
    }
    push_unit(to, origin, part, [&dataset.report, &dataset.hash], row.time);
    let totals = &row.gain.sum.totals;
    to.array(key_texts(&row.key));
    to.value(row.is_other);
    for (measure, is_wide) in MEASURES.iter() {
        let sum = measure.of(totals);
        match is_wide {
            true => to.value(sum),
            // Each request has 32 bits: those of a minute fit.
            false => to.value(u64::try_from(sum).unwrap_or(u64::MAX)),
        }
    }
    let seen = row.gain.extremes;
    let has_seen = seen != Extremes::NOTHING;
    to.optional(has_seen.then_some(seen.time_min));
    to.optional(has_seen.then_some(seen.time_max));
    to.optional(has_seen.then_some(seen.memory_peak_max.into()));
    let buckets = row.gain.buckets();
    to.value(buckets.is_some());
    to.map(buckets.into_iter().flatten());
}

/// The leading columns of all tables.
fn push_unit(
    to: &mut RowWriter<'_>,
    origin: &Origin,
    part: u32,
    [report, definition]: [&str; 2],
    time: u64,
) {
    to.value(report);
    to.value(definition);
    to.value(u32::try_from(time).unwrap_or(u32::MAX));
    to.value(origin.names.dc.as_str());
    to.value(origin.names.collector.as_str());
    to.uuid(origin.store);
    to.value(part);
}
