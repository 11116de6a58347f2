//! Table `many_calls`: timer hits with the same tag value per request, by script.

use super::Catalog;
use crate::query::answer::ReportAnswer;
use crate::query::error::QueryError;
use crate::query::tables::{Row, StatusTable, int, text};
use crate::query::timer_groups::{TimerGroup, TimerSearch};
use crate::report::definition::{Field, KeySource};
use crate::value::Value;
use crate::value::text::count;

/// Maximum number of tag names.
const TAGS_MAX: usize = 8;
/// Maximum number of raw rows searched for each tag name; beyond it, a sample stands for all.
const SEARCHED_MAX: usize = 100_000;
/// Maximum number of rows for each tag name.
const ROWS_MAX: usize = 1_000;
/// Maximum number of names of tags left out that a remark has.
const NAMED_MAX: usize = 5;
/// Milliseconds for which the number of rows is listed without counting them again.
const COUNT_MS: u64 = 30_000;

/// The number of rows, and when they were counted.
pub(super) type Counted = Option<(u64, usize)>;

impl Catalog {
    /// Returns the current table, of the tag `named` if there is one; it is empty without raw rows.
    pub(super) fn many_calls(
        &self,
        table: &StatusTable,
        named: Option<&str>,
    ) -> Result<ReportAnswer, QueryError> {
        let mut search = TimerSearch {
            scanned_max: SEARCHED_MAX,
            groups_max: ROWS_MAX,
            ..TimerSearch::default()
        };
        let (mut rows, mut remarks) = (Vec::new(), Vec::new());
        let mut covered_seconds = 0;
        if let Some(raw) = &self.raw {
            let found = raw.timer_groups(&search);
            let now = self.clock.unix_ms() / 1_000;
            if found.scanned.requests > 0 {
                covered_seconds = now.saturating_sub(found.scanned.oldest.into());
            }
            if let Some(all) = found.scanned.sample_of {
                remarks.push(sampled(found.scanned.requests, all));
            }
            search.per_request = true;
            let mut names = found.tag_names;
            match named {
                Some(named) => names = vec![named.to_owned()],
                None => remarks.extend(left_out(&names)),
            }
            for name in names.into_iter().take(TAGS_MAX) {
                let tag = KeySource::TimerTag(name.clone());
                search.by = vec![KeySource::Field(Field::ScriptName), tag];
                let groups = raw.timer_groups(&search);
                rows.extend(groups.rows.iter().filter_map(|group| row(&name, group)));
                if groups.other.is_some() {
                    remarks.push(format!(
                        "of tag {name:?} only the {ROWS_MAX} pairs of script and value with the most hits are here"
                    ));
                }
            }
        }
        if named.is_none() {
            *self.many_calls.lock() = Some((self.clock.mono_ms(), rows.len()));
        }
        Ok(ReportAnswer {
            covered_seconds: covered_seconds.max(1),
            partial: remarks,
            ..self.answer_of(table, rows)
        })
    }

    /// Returns the number of rows, as of the last seconds.
    pub(super) fn many_calls_rows(&self, table: &StatusTable) -> usize {
        let now_ms = self.clock.mono_ms();
        let counted = *self.many_calls.lock();
        let recent = counted.filter(|(at_ms, _)| now_ms.saturating_sub(*at_ms) < COUNT_MS);
        recent.map_or_else(
            || self.many_calls(table, None).map_or(0, |answer| answer.table.len()),
            |(_, rows)| rows,
        )
    }
}

/// Remarks on the names of tags beyond [`TAGS_MAX`].
fn left_out(names: &[String]) -> Option<String> {
    let names = names.get(TAGS_MAX..).filter(|names| !names.is_empty())?;
    let shown = names.iter().take(NAMED_MAX).map(|name| format!("{name:?}"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = if names.len() > NAMED_MAX { ", ..." } else { "" };
    let tags = match names.len() {
        1 => "1 tag is".to_owned(),
        tags => format!("{tags} tags are"),
    };
    Some(format!(
        "{tags} left out, which fewer requests have than the {TAGS_MAX} shown: {shown}{more}; a condition on tag_name has \
         the rows of any tag"
    ))
}

/// The remark on results that are estimated from a sample.
fn sampled(searched: u64, all: u64) -> String {
    format!(
        "a sample of {} of about {} raw requests was searched, spread over the whole time; the numbers are scaled up to all of \
         them, so they are estimates",
        count(searched),
        count(all)
    )
}

/// Returns the columns in the order of `columns.txt`, or `None` for timers without the tag.
fn row(name: &str, group: &TimerGroup) -> Option<Row> {
    let [Some(script), Some(value)] = &group.keys[..] else { return None };
    let hits = group.per_request?;
    Some(vec![
        text(script),
        text(name),
        text(value),
        int(group.requests),
        int(group.hits),
        Value::Float(hits.mean),
        int(hits.p95),
        int(hits.max),
        int(hits.request.1),
    ])
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_sample_is_a_part_of_all() {
        let text = super::sampled(43_533, 87_067);
        assert!(
            text.starts_with("a sample of 43,533 of about 87,067 raw requests was searched"),
            "{text}"
        );
    }
}
