//! Raw requests of the past at one moment: on disk and in memory.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use super::unflushed::{UnflushedRequests, packed_in};
use crate::history::read_unit::ReadUnit;
use crate::history::resolution::hull;
use crate::history::scan::{Source, SourceRows};
use crate::history::{Dataset, Part, Resolution};

/// Requests of the past at one moment.
#[derive(Debug, Clone)]
pub(crate) struct RequestsSnapshot {
    /// On disk, the newest first.
    pub(crate) parts: Vec<Arc<Part>>,
    /// In memory; `None` if none are kept now.
    pub(crate) unflushed: Option<UnflushedRequests>,
}

impl RequestsSnapshot {
    /// Those of these parts that have requests.
    pub(crate) fn new(parts: &[Arc<Part>], unflushed: Option<UnflushedRequests>) -> Self {
        let mut parts: Vec<_> = parts.iter().filter(|part| part.is_raw()).cloned().collect();
        parts.sort_by_key(|part| Reverse(part.span.end));
        Self { parts, unflushed }
    }

    /// From when to when they were received, in unix seconds.
    pub(crate) fn received(&self) -> Option<Range<u64>> {
        let memory = self.unflushed.iter().filter_map(UnflushedRequests::received);
        memory.chain(self.parts.iter().map(|part| part.span.clone())).reduce(hull)
    }

    /// The rows of a table: those in memory, then the newest.
    pub(crate) fn sources(&self, table: &str) -> impl Iterator<Item = Source> {
        let files = Dataset::raw(table);
        let pieces = packed_in(&files);
        let has = move |it: &&Arc<Part>| it.has(if it.is_published() { &files } else { &pieces });
        let parts = self.parts.iter().filter(has);
        let parts = parts.map(|part| SourceRows::OnDisk(Arc::clone(part), 0..u64::MAX));
        let memory = self.unflushed.iter().cloned().map(ReadUnit::of_requests);
        let all = memory.map(SourceRows::InMemory).chain(parts);
        all.map(|rows| Source { rows, by: Resolution::Minute })
    }
}

#[cfg(test)]
mod tests;
