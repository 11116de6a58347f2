//! Rows in the form that ClickHouse gets: of reports, of coverage, and raw requests with their tags and
//! timers.

use super::native::{Block, Items, RowWriter, Value};
use super::tables::MEASURES;
use crate::history::requests::{Tags, Timers};
use crate::history::{Coverage, Dataset, Identity, Row, ShipmentRows};
use crate::pool::resolved::{Request, Rusage};
use crate::report::row_key::key_texts;
use crate::report::totals::Extremes;

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
pub(super) fn push_row(block: &mut Block, origin: &Origin, dataset: &Dataset, row: &Row) {
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

/// The tags that may leave this machine: those with these names; "*" stands for all.
fn sent(tags: &Tags<'_>, names: &[String]) -> impl Value {
    let is_sent = move |name: &str| names.iter().any(|it| it == "*" || it == name);
    Items(tags.iter().copied().filter(move |(name, _)| is_sent(name)))
}

/// Appends a request to a block of its table, with the tags of some names.
pub(super) fn push_request(
    block: &mut Block,
    origin: &Origin,
    tags: &[String],
    (request, weight, timers): (&Request<'_, Tags<'_>>, f64, Option<&Timers<'_>>),
) {
    let to = &mut block.row();
    to.value(request.received);
    origin.push(to);
    to.value(request.run as u32);
    to.value(request.id);
    to.value(request.hostname);
    to.value(request.server_name);
    to.value(request.script_name);
    to.value(request.schema.unwrap_or_default());
    to.value(request.status);
    to.value(request.request_count);
    to.value(request.time_us);
    let times = |of: Rusage| of.times_us().unwrap_or_default();
    times(request.rusage).into_iter().for_each(|us| to.value(us));
    to.value(u64::from(request.document_size));
    to.value(u64::from(request.memory_peak));
    to.value(u64::from(request.memory_footprint));
    to.value(weight);
    to.value(sent(&request.tags, tags));
    let timers = timers.map_or(&[][..], |it| &it.timers);
    to.value(Items(timers.iter().map(|it| it.value_us)));
    to.value(Items(timers.iter().map(|it| it.hit_count)));
    to.value(Items(timers.iter().map(|it| times(it.rusage)[0])));
    to.value(Items(timers.iter().map(|it| times(it.rusage)[1])));
    to.value(Items(timers.iter().map(|it| sent(&it.tags, tags))));
    // Columns are only ever added, so those above stay what they are: 0 if not known.
    let is_unmeasured = |of: Rusage| of.times_us().is_none();
    to.value(is_unmeasured(request.rusage));
    to.value(Items(timers.iter().map(|it| is_unmeasured(it.rusage))));
}
