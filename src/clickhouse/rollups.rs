//! Encodes rows of reports and of coverage for ClickHouse.

use super::native::{Block, Items, RowWriter};
use super::tables::MEASURES;
use crate::history::{Coverage, Dataset, Identity, Row, ShipmentRows};
use crate::report::reading::Extremes;
use crate::report::row_key::key_texts;

/// The source of the rows, which every row names.
#[derive(Debug)]
pub(super) struct Origin {
    /// The store, 128 bits.
    store: u128,
    pub(super) names: Identity,
    /// The rows that are shipped together.
    pub(super) units: ShipmentRows,
}

impl Origin {
    /// Rows of the store with this identity.
    pub(super) fn new(store: &str, names: Identity, units: ShipmentRows) -> Self {
        let store = u128::from_str_radix(store, 16).unwrap_or_default();
        Self { store, names, units }
    }

    /// Appends the columns of the origin, which follow each other in all tables.
    pub(super) fn push(&self, to: &mut RowWriter<'_>) {
        to.value(self.names.dc.as_str());
        to.value(self.names.collector.as_str());
        // A UUID is two numbers of 64 bits.
        to.value(self.store.rotate_left(64));
        to.value(self.units.part());
    }
}

/// Adds a row of a dataset to a block of its table.
pub(super) fn push(block: &mut Block, origin: &Origin, dataset: &Dataset, row: &Row) {
    let to = &mut block.row();
    let mut keys = key_texts(&row.key);
    let [report, definition] = match dataset.is_coverage() {
        true => [(); 2].map(|()| keys.next().unwrap_or_default()),
        false => [&*dataset.report, &*dataset.hash],
    };
    to.value(report);
    to.value(definition);
    to.value(u32::try_from(row.time).unwrap_or(u32::MAX));
    origin.push(to);
    let totals = &row.gain.sum.totals;
    if dataset.is_coverage() {
        Coverage::of(totals).counts().into_iter().for_each(|count| to.value(count));
        return;
    }
    to.value(Items(keys));
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
    to.value(has_seen.then_some(seen.time_min));
    to.value(has_seen.then_some(seen.time_max));
    to.value(has_seen.then_some(u64::from(seen.memory_peak_max)));
    let buckets = row.gain.buckets();
    to.value(buckets.is_some());
    to.value(Items(buckets.into_iter().flatten()));
}
