//! The rows of a report in a second: groups of one row added up.
//!
//! A row is known by its id, a keyed hash of its key: two rows have the same one by a chance of 1 in 2^64. Groups are sorted
//! by the ids of their rows, so that rows are put together one after the other and nothing is kept of one but its number.

use std::sync::Arc;

use ahash::RandomState;

use super::Second;
use crate::report::Reports;
use crate::report::counts::Histogram;
use crate::report::definition::Definition;
use crate::report::layout::Cell;
use crate::report::row_key::{RowKeys, RowOf};
use crate::report::totals::Totals;

/// All rows of a report together have this id.
pub const TOTAL_ID: u64 = 0;
/// `(other)`.
pub const OTHER_ID: u64 = 1;
/// The least id that a row of its own has.
pub const FIRST_ID: u64 = 2;

/// Where rows get their ids.
#[derive(Debug, Clone, Default)]
pub struct RowIds(RandomState);

impl RowIds {
    /// The id of the row with this key.
    #[must_use]
    pub fn of(&self, key: &[u8]) -> u64 {
        self.0.hash_one(key).max(FIRST_ID)
    }
}

/// What a row gained.
#[derive(Debug)]
pub struct RowDelta<'a> {
    /// Its id; [`OTHER_ID`] for what has no row of its own.
    pub id: u64,
    /// Its key: see [`key_texts`](crate::report::row_key::key_texts).
    pub key: &'a [u8],
    /// Sums.
    pub totals: Totals,
    /// Times, by bucket of the report's layout.
    pub(crate) histogram: Histogram,
}

/// The rows of one report, for one reader.
#[derive(Debug)]
pub struct ReportRows {
    /// The report.
    pub definition: Arc<Definition>,
    /// Where its rows get their ids.
    pub ids: RowIds,
    aggregate: usize,
    keys: RowKeys,
    key: Vec<u8>,
}

impl ReportRows {
    /// The rows of a live report.
    #[must_use]
    pub fn of(reports: &Reports, name: &str) -> Option<Self> {
        let entry = reports.find(name)?;
        let (aggregate, keys) = reports.row_keys(entry);
        Some(Self {
            definition: Arc::clone(&entry.definition),
            ids: RowIds::default(),
            aggregate,
            keys,
            key: Vec::new(),
        })
    }

    /// Gives every row that gained something to `each`, in the order of their ids.
    pub fn each(&mut self, second: &Second, mut each: impl FnMut(RowDelta<'_>)) {
        let Self { ids, keys, key, .. } = self;
        let Some(deltas) = second.deltas_of(self.aggregate) else {
            return;
        };
        // Id of the row, place of the record.
        let mut groups = Vec::new();
        let mut at = 0;
        while let Some((group, next)) = deltas.at(at) {
            match keys.row_of(group.key, key) {
                RowOf::None => {}
                RowOf::Other => groups.push((OTHER_ID, at)),
                RowOf::Own => groups.push((ids.of(key), at)),
            }
            at = next;
        }
        groups.sort_unstable();
        for of_row in groups.chunk_by(|a, b| a.0 == b.0) {
            let (mut totals, mut histogram) = (Totals::ZERO, Histogram::new());
            for &(_, at) in of_row {
                let Some((group, _)) = deltas.at(at) else {
                    continue;
                };
                let (gained, pairs) = group.gained.read();
                totals += &gained;
                for (bucket, count) in pairs.into_iter().flatten() {
                    histogram.add(bucket, count);
                }
            }
            if let Some((group, _)) = deltas.at(of_row[0].1) {
                keys.row_of(group.key, key);
            }
            each(RowDelta {
                id: of_row[0].0,
                key,
                totals,
                histogram,
            });
        }
    }
}

/// The column of each key, in the order of the keys; where there is none, as the key is written in a definition.
#[must_use]
pub fn key_names(definition: &Definition) -> Vec<String> {
    let columns = definition.layout.columns();
    let keys = definition.keys.iter().enumerate();
    keys.map(|(at, key)| {
        let shown = columns
            .iter()
            .find(|column| matches!(column.cell, Cell::Key(key) | Cell::KeyText(key) if key == at));
        shown.map_or_else(
            || key.source.to_string(),
            |column| column.column.name.clone(),
        )
    })
    .collect()
}
