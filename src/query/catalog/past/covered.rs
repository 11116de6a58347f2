//! How much of a span was counted, and what is to be said of the rest.

use std::ops::Range;

use crate::clock::rfc3339;
use crate::history::read_plan::ReadPlan;
use crate::history::read_unit::RowsSnapshot;
use crate::history::sums::Sums;
use crate::history::{COVERAGE, Coverage, Dataset};
use crate::report::row_key::key_texts;
use crate::series::EVERYTHING;
use crate::value::text::numbered;

/// How long requests were counted in a span.
pub(super) struct Covered {
    /// Under the requested definition.
    pub(super) own: Coverage,
    /// Other definitions of the same name that counted in it, and for how long.
    others: Vec<(String, u64)>,
    /// Seconds in which anything was counted: those of the report that is always kept.
    ran: u64,
    /// Remarks on what could not be read of it.
    lacking: Vec<String>,
}

impl Covered {
    pub(super) fn read(coverage: &RowsSnapshot, dataset: &Dataset, span: &Range<u64>) -> Self {
        let plan = ReadPlan::new(&coverage.parts, &COVERAGE, span.clone());
        let sums = Sums::read(coverage.clone(), &COVERAGE, &plan);
        let (own, others) = (Coverage::default(), Vec::new());
        let mut covered = Self { own, others, ran: 0, lacking: sums.lacking.clone() };
        for (key, row) in &sums.rows.all {
            let mut texts = key_texts(key);
            let (report, hash) = (texts.next(), texts.next());
            let found = Coverage::of(&row.totals);
            if report == Some(EVERYTHING) {
                covered.ran += found.secs;
            }
            if report != Some(&dataset.report) {
                continue;
            }
            if hash == Some(&dataset.hash) {
                // One row per key.
                covered.own = found;
            } else if found.secs > 0 {
                let hash = hash.unwrap_or_default().to_owned();
                covered.others.push((hash, found.secs));
            }
        }
        covered
    }

    /// Remarks on missing data in an answer, with that on the beginning of what is kept.
    pub(super) fn remarks(&self, not_kept: Option<String>) -> Vec<String> {
        let mut remarks = self.lacking.clone();
        remarks.extend(not_kept);
        remarks.extend(uncounted(&self.own));
        let others = self.others.iter().map(|(hash, secs)| {
            format!("for {secs} s another definition of the report ({hash}) was counted")
        });
        remarks.extend(others);
        let counted = self.own.secs + self.others.iter().map(|(_, secs)| secs).sum::<u64>();
        let without = self.ran.saturating_sub(counted);
        // A second is cut short by the making of a report.
        if without > 1 {
            remarks.push(format!("for {without} s the daemon ran without this report"));
        }
        remarks
    }
}

/// A remark on a span in the future.
pub(super) fn not_begun(span: &Range<u64>, now: u64) -> Option<String> {
    let starts = || format!("the span has not begun: it starts at {}", rfc3339(span.start));
    (now < span.start).then(starts)
}

/// Remarks on requests that were not counted properly.
pub(super) fn uncounted(covered: &Coverage) -> impl Iterator<Item = String> + use<> {
    let Coverage { secs: _, missed, histograms_dropped, keys_folded, rows_lost } = *covered;
    let counts = [
        (missed, "request could not be counted", "requests could not be counted"),
        (
            histograms_dropped,
            "row of a minute has no percentiles (history.memory)",
            "rows of a minute have no percentiles (history.memory)",
        ),
        (
            keys_folded,
            "key of a second or a minute is in (other) (series.memory, history.memory)",
            "keys of a second or a minute are in (other) (series.memory, history.memory)",
        ),
        (
            rows_lost,
            "row was lost: it could not be written in time, or not be read",
            "rows were lost: they could not be written in time, or not be read",
        ),
    ];
    let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
    counts.map(|(count, one, many)| numbered(count, one, many))
}
