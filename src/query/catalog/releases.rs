//! Table `releases`, and the report that releases are counted from.

use serde_json::{Value as Json, json};

use super::report_set::CHANGES;
use super::{Catalog, answering};
use crate::query::error::QueryError;
use crate::release::{REPORT, Release, definition};
use crate::report::DefinedBy;

/// Latest requests that are searched for a tag.
const LATEST: u64 = 1_000;
/// Raw rows read under one hold of the lock.
const CHUNK: u64 = 2_048;

impl Catalog {
    /// The first of these request tags that one of the latest requests has. Without raw rows, the
    /// first that is sent at all.
    pub fn release_tag<'a>(&self, tags: &'a [String]) -> Option<&'a String> {
        let live = answering(&self.live);
        let (pool, rows) = (&live.pool, &live.pool.requests);
        tags.iter().find(|tag| {
            // While no text is like that, this is all.
            let Some(name) = pool.strings.find(tag.as_bytes()) else { return false };
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
        let mut tracker = self.releases.watch(tag);
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
                    tracker.add_request(release, script, origin.status, &row);
                }
            }
        }
        Ok(())
    }
}

/// The columns of table `releases`.
pub(super) fn row(it: &Release) -> Json {
    let mut row = json!(it);
    let verdict = row["verdict"].take();
    for (column, member) in
        [("verdict", "result"), ("against", "against"), ("judged", "at"), ("text", "text")]
    {
        row[column] = verdict[member].clone();
    }
    row
}
