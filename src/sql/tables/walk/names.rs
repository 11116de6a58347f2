//! The table `tag`: the words that are names of timer tags, few and all in one batch.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, StringViewBuilder};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;

use super::super::condition::Test;
use super::super::matcher::Matcher;
use super::super::raw::Lane;
use super::{LOOKUPS, Walk};

impl Walk {
    /// The names of timer tags, all in one batch.
    pub(super) fn tags(&mut self) -> Result<Option<RecordBatch>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        self.left.clear();
        let passes = |matcher: &mut Matcher, id: u32, name: &str| {
            matcher
                .others
                .iter()
                .all(|condition| match &condition.test {
                    Test::Ints(ranges) => ranges.contains(i64::from(id)),
                    Test::Text { test, negated } => test.passes(name) != *negated,
                    Test::Null(null) => !null,
                    Test::Floats(_) => true,
                })
        };
        let mut found: Vec<(u32, String)> = Vec::new();
        let few = self.matcher.others.iter().find_map(|condition| {
            let Test::Ints(ranges) = &condition.test else {
                return None;
            };
            (ranges.count() <= LOOKUPS as u64).then(|| ranges.pairs().to_vec())
        });
        match few {
            // Looked up, as a join wants them.
            Some(pairs) => {
                let live = self.snapshot.live().read();
                let words = &live.pool.words;
                for id in pairs.into_iter().flat_map(|(low, high)| low..=high) {
                    if let Ok(id) = u32::try_from(id)
                        && words.is_timer_tag(id)
                        && passes(&mut self.matcher, id, words.text(id))
                    {
                        found.push((id, words.text(id).to_owned()));
                    }
                }
            }
            None => {
                let tags = self.snapshot.tags();
                let passing = tags
                    .iter()
                    .filter(|(id, name)| passes(&mut self.matcher, *id, name));
                found.extend(passing.cloned());
            }
        }
        found.truncate(self.wanted);
        let arrays = self.columns.iter().map(|&at| match self.raw.lanes()[at] {
            Lane::NameNumber => {
                let ids = found.iter().map(|&(id, _)| i64::from(id));
                Arc::new(Int64Array::from_iter_values(ids)) as ArrayRef
            }
            _ => {
                let mut names = StringViewBuilder::with_capacity(found.len());
                found.iter().for_each(|(_, name)| names.append_value(name));
                Arc::new(names.finish()) as ArrayRef
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(found.len()));
        let schema = Arc::clone(&self.schema);
        let arrays = arrays.collect();
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options)?;
        Ok((batch.num_rows() > 0).then_some(batch))
    }
}
