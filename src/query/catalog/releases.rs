//! Table `releases`, and the report that releases are counted from.

use super::Catalog;
use super::answering;
use super::changes::CHANGES;
use crate::query::error::QueryError;
use crate::query::read_model::ReportAnswer;
use crate::query::table::Computed;
use crate::query::tables::StatusTable;
use crate::release::{REPORT, Release, definition};
use crate::report::DefinedBy;
use crate::value::Value;

/// Latest requests that are searched for a tag.
const LATEST: u64 = 1_000;
/// Raw rows read under one hold of the lock.
const CHUNK: u64 = 2_048;

impl Catalog {
    /// The first of these request tags that one of the latest requests has. Without raw rows, the
    /// first that is sent at all.
    #[must_use]
    pub fn release_tag<'a>(&self, tags: &'a [String]) -> Option<&'a String> {
        let live = answering(&self.live);
        let (pool, rows) = (&live.pool, &live.pool.requests);
        tags.iter().find(|tag| {
            // While no text is like that, this is all.
            let Some(name) = pool.strings.find(tag.as_bytes()) else {
                return false;
            };
            let latest = rows.next_id().saturating_sub(LATEST)..rows.next_id();
            let mut sets = latest.filter_map(|id| Some(rows.get(id)?.request_tags));
            self.raw.is_none() || sets.any(|set| pool.tag_sets.pairs(set).any(|(it, _)| it == name))
        })
    }

    /// Counts releases by this request tag: the raw rows that there are, and all from now on.
    ///
    /// # Errors
    /// If the name of the report is taken, or there are too many.
    pub fn count_releases(&self, tag: &str) -> Result<(), QueryError> {
        let _one_at_a_time = CHANGES.lock(&self.changes);
        self.check_room(REPORT)?;
        let definition = definition(tag, &self.defaults);
        let bad = || QueryError::bad_value("releases.tag", tag.to_owned());
        let definition = definition.ok_or_else(bad)?;
        let mut backfill = self.releases.watch(tag);
        let counted_from = self.make(definition, &DefinedBy::BuiltIn);
        let mut next = 0;
        while next < counted_from {
            let live = answering(&self.live);
            let pool = &live.pool;
            let name = pool.strings.find(tag.as_bytes());
            let chunk = next.max(pool.requests.oldest_id());
            next = counted_from.min(chunk + CHUNK);
            for row in (chunk..next).filter_map(|id| pool.requests.get(id)) {
                let mut tags = pool.tag_sets.pairs(row.request_tags);
                if let Some((_, release)) = tags.find(|(it, _)| Some(*it) == name) {
                    let origin = pool.origins.get(row.origin);
                    let [release, script] =
                        [release, origin.script_name].map(|it| pool.strings.text(it));
                    backfill.add(release, script, origin.status, &row);
                }
            }
        }
        Ok(())
    }

    /// The table.
    pub(super) fn releases_answer(&self, table: &StatusTable) -> ReportAnswer {
        let releases = self.releases.all();
        let rows = Computed {
            columns: table.columns(&self.defaults),
            len: releases.len(),
            source: releases,
            value: |releases, row, column| value(&releases[row], column),
        };
        self.answer_of(table, Box::new(rows))
    }
}

/// The columns as `columns.txt` has them.
fn value(it: &Release, column: usize) -> Value<'_> {
    let int = |number: u64| Value::Int(number.cast_signed());
    let float = |number: Option<f64>| number.map_or(Value::Null, Value::Float);
    match (column, &it.verdict) {
        (0, _) => Value::Text(it.release.as_str().into()),
        (1, _) => int(it.first_seen),
        (2, _) => int(it.last_seen),
        (3, _) => Value::Float(it.share),
        (4, _) => int(it.requests),
        (5, _) => Value::Float(it.requests_per_second),
        (6, _) => int(it.errors),
        (7, _) => float(it.p50),
        (8, _) => float(it.p95),
        (9, _) => Value::Float(it.cpu),
        (10, _) => Value::Float(it.memory),
        (11, Some(verdict)) => Value::Text(verdict.result.as_str().into()),
        (12, Some(verdict)) => Value::Text(verdict.against.as_str().into()),
        (13, Some(verdict)) => int(verdict.at),
        (14, Some(verdict)) => Value::Text(verdict.text.as_str().into()),
        _ => Value::Null,
    }
}
