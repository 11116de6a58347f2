//! Selects the rows for a span: the coarsest parts whose hours or days lie wholly inside it, and
//! finer ones at both ends.
//!
//! ```text
//!   span              |----------------------------------|
//!   days                      [   day    ][   day    ]
//!   hours                [h][h]                      [h]
//!   minutes           [mm]                              [m]
//! ```
//!
//! A row of a part that has been rolled up is also in a coarser part: it counts where the coarser
//! one does not. Every row is in one chain of such parts, so each counts once. At an end where
//! finer parts are gone the span is widened.

use std::ops::Range;
use std::sync::Arc;

use super::part::Part;
use super::{Dataset, Resolution};

/// The rows for a span.
#[derive(Debug, Clone)]
pub(crate) struct ReadPlan {
    /// The span, after widening.
    pub(crate) span: Range<u64>,
    /// The coarsest resolution used.
    pub(crate) resolution: Resolution,
    /// The parts to read, with their times.
    pub(crate) reads: Vec<(Arc<Part>, Range<u64>)>,
}

impl ReadPlan {
    /// Plans the rows of a dataset in a span.
    pub(crate) fn new(parts: &[Arc<Part>], dataset: &Dataset, asked: Range<u64>) -> Self {
        Self::of_steps(parts, dataset, &asked, &mut Resolution::Day.secs())
    }

    /// Likewise for rows by `step`, of which the first and the last may lie partly outside; the
    /// step is made longer where finer rows are gone.
    pub(crate) fn of_steps(
        parts: &[Arc<Part>],
        dataset: &Dataset,
        asked: &Range<u64>,
        step: &mut u64,
    ) -> Self {
        let parts: Vec<&Arc<Part>> = parts.iter().filter(|part| part.has(dataset)).collect();
        *step = step.next_multiple_of(Resolution::Minute.secs());
        for (fine, coarse) in ROLLED {
            if !step.is_multiple_of(coarse.secs())
                && is_gone(&parts, fine, &outwards(asked, coarse))
            {
                *step = step.next_multiple_of(coarse.secs());
            }
        }
        let span = widened(&parts, outwards(asked, Resolution::Minute));
        let mut reads = Vec::new();
        for part in parts.iter().filter(|part| step.is_multiple_of(part.resolution.secs())) {
            let coarser = part.resolution.coarser().filter(|_| part.is_rolled());
            let coarser = coarser.filter(|coarser| step.is_multiple_of(coarser.secs()));
            for times in counted(part.resolution, coarser, &span) {
                let times = times.start.max(part.span.start)..times.end.min(part.span.end);
                if !times.is_empty() {
                    reads.push((Arc::clone(part), times));
                }
            }
        }
        let resolutions = reads.iter().map(|(part, _)| part.resolution);
        Self { resolution: resolutions.max().unwrap_or(Resolution::Minute), span, reads }
    }
}

/// Resolutions, and those that their rows are rolled up to.
const ROLLED: [(Resolution, Resolution); 2] =
    [(Resolution::Minute, Resolution::Hour), (Resolution::Hour, Resolution::Day)];

/// The span widened to whole minutes, hours or days.
fn outwards(span: &Range<u64>, resolution: Resolution) -> Range<u64> {
    resolution.begin(span.start)..ceiling(span.end, resolution)
}

/// The smallest multiple not below.
fn ceiling(unix_secs: u64, resolution: Resolution) -> u64 {
    resolution.begin(unix_secs.saturating_add(resolution.secs() - 1))
}

/// Whether hours or days in a span only have coarse rows left. Fine ones are removed oldest first:
/// where there are older ones, an hour without any had none.
pub(super) fn is_gone(parts: &[&Arc<Part>], fine: Resolution, span: &Range<u64>) -> bool {
    let Some(coarse) = fine.coarser() else { return false };
    let rolled = parts.iter().filter(|part| part.is_rolled() && part.resolution == fine);
    let first = rolled.map(|part| coarse.begin(part.span.start)).min().unwrap_or(u64::MAX);
    let end = span.end.min(first);
    let is_there = |part: &Part| part.span.start < end && span.start < part.span.end;
    span.start < end && parts.iter().any(|part| part.resolution == coarse && is_there(part))
}

/// The span widened until finer parts cover its ends.
fn widened(parts: &[&Arc<Part>], span: Range<u64>) -> Range<u64> {
    let Range { mut start, mut end } = span;
    for (fine, coarse) in ROLLED {
        let is_cut = |edge| {
            let begin = coarse.begin(edge);
            begin < edge && is_gone(parts, fine, &(begin..begin + coarse.secs()))
        };
        if is_cut(start) {
            start = coarse.begin(start);
        }
        if is_cut(end) {
            end = ceiling(end, coarse);
        }
    }
    start..end
}

/// The times of the rows of a resolution that count in a span, if a coarser one has them too.
fn counted(own: Resolution, coarser: Option<Resolution>, span: &Range<u64>) -> Vec<Range<u64>> {
    let inside = |resolution| ceiling(span.start, resolution)..resolution.begin(span.end);
    let own = inside(own);
    match coarser.map(inside).filter(|coarser| !coarser.is_empty()) {
        Some(coarser) => vec![own.start..coarser.start, coarser.end..own.end],
        None => vec![own],
    }
}
