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

    /// Likewise for rows by `step`, of which the first and the last may lie partly outside; the step
    /// is made longer where finer rows are gone.
    pub(crate) fn of_steps(
        parts: &[Arc<Part>],
        dataset: &Dataset,
        asked: &Range<u64>,
        step: &mut u64,
    ) -> Self {
        let parts: Vec<&Arc<Part>> = parts.iter().filter(|part| part.has(dataset)).collect();
        *step = step.next_multiple_of(Resolution::Minute.secs());
        for (fine, coarse) in ROLLED {
            let first = rolled(&parts, fine).map(|part| part.span.start).min();
            let mut begins = outwards(asked, coarse).step_by(coarse.secs() as usize);
            // If there are older rows, nothing has expired here: there were none.
            let is_older = |begin: &u64| first.is_none_or(|first| *begin < coarse.begin(first));
            if !step.is_multiple_of(coarse.secs())
                && begins.any(|it| is_older(&it) && is_gone(&parts, fine, coarse, it))
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
    let more = unix_secs.saturating_add(resolution.secs() - 1);
    resolution.begin(more)
}

/// Whether the hour or day at `begin` only has coarse rows left.
fn is_gone(parts: &[&Arc<Part>], fine: Resolution, coarse: Resolution, begin: u64) -> bool {
    let span = begin..begin + coarse.secs();
    let is_there = |part: &Part| part.span.start < span.end && span.start < part.span.end;
    let mut coarser = parts.iter().filter(|part| part.resolution == coarse);
    coarser.any(|part| is_there(part)) && !rolled(parts, fine).any(is_there)
}

/// The parts whose rows are in coarser ones too.
fn rolled<'a>(
    parts: &'a [&Arc<Part>],
    resolution: Resolution,
) -> impl Iterator<Item = &'a Part> + 'a {
    let parts = parts.iter().map(|part| &***part);
    parts.filter(move |part| part.is_rolled() && part.resolution == resolution)
}

/// The span widened until finer parts cover its ends.
fn widened(parts: &[&Arc<Part>], span: Range<u64>) -> Range<u64> {
    let Range { mut start, mut end } = span;
    for (fine, coarse) in ROLLED {
        let is_cut = |edge| {
            let begin = coarse.begin(edge);
            begin < edge && is_gone(parts, fine, coarse, begin)
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
