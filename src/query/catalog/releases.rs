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

    /// Counts releases by this request tag from now on.
    ///
    /// # Errors
    /// If the name of the report is taken, or there are too many.
    pub fn count_releases(&self, tag: &str) -> Result<(), QueryError> {
        let _one_at_a_time = CHANGES.lock(&self.changes);
        self.check_room(REPORT)?;
        let definition = definition(tag, &self.defaults);
        let bad = || QueryError::bad_value("releases.tag", tag.to_owned());
        self.make(definition.ok_or_else(bad)?, &DefinedBy::BuiltIn);
        self.releases.watch(tag);
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
fn value(release: &Release, column: usize) -> Value<'_> {
    let int = |number: u64| Value::Int(number.cast_signed());
    let float = |number: Option<f64>| number.map_or(Value::Null, Value::Float);
    match (column, &release.verdict) {
        (0, _) => Value::Text(release.name.as_str().into()),
        (1, _) => int(release.first_seen),
        (2, _) => int(release.last_seen),
        (3, _) => Value::Float(release.share()),
        (4, _) => int(release.requests),
        (5, _) => Value::Float(release.rate()),
        (6, _) => int(release.errors),
        (7, _) => float(release.quantile(50.0)),
        (8, _) => float(release.quantile(95.0)),
        (9, _) => Value::Float(release.cpu()),
        (10, _) => Value::Float(release.memory()),
        (11, Some(verdict)) => Value::Text(verdict.result.as_str().into()),
        (12, Some(verdict)) => Value::Text(verdict.against.as_str().into()),
        (13, Some(verdict)) => int(verdict.at),
        (14, Some(verdict)) => Value::Text(verdict.text.as_str().into()),
        _ => Value::Null,
    }
}
