//! The profile as tables: samples one by one, their requests, and reports over them.
//!
//! Asked for by the catalog, which has these tables where there is a `[[stat]]`. What is read is a snapshot of the pool; reports
//! and requests of the same moment share what they have in common.

mod report;
mod table;

use std::sync::Arc;

pub(super) use self::report::columns;
use super::error::QueryError;
use super::read_model::{FollowStep, Followed};
use super::table::Table;
use crate::profile::Profile;
use crate::profile::definition::{SampleKey, SampleReport, Wanted};
use crate::profile::groups::is_wanted;
use crate::value::Column;

/// The samples as rows of table `sample`, which has these columns.
///
/// # Errors
/// When readers hold too many of what is no longer kept.
pub(super) fn samples(
    profile: &Profile,
    columns: Vec<Column>,
) -> Result<Box<dyn Table>, QueryError> {
    let (unix_us, snapshot) = (profile.unix_us(), profile.snapshot().ok_or_else(busy)?);
    Ok(Box::new(table::SampleTable::new(
        columns, snapshot, unix_us,
    )))
}

/// The next samples behind one, oldest first, as rows of table `sample`.
pub(super) fn follow(
    profile: &Profile,
    columns: Vec<Column>,
    filters: &[(SampleKey, Wanted)],
    step: FollowStep,
) -> Followed {
    let snapshot = profile.behind(step.after_id);
    let all = snapshot.len();
    let first = snapshot
        .segments
        .first()
        .map_or(step.after_id + 1, |it| it.first_id);
    let last = first + all as u64 - 1;
    let (mut rows, mut after_id) = (Vec::new(), step.after_id.max(first - 1));
    let samples = snapshot.segments.iter().flat_map(|segment| {
        let samples = (segment.first_id..).zip(&segment.samples);
        samples.map(move |(id, sample)| (id, &**segment, sample))
    });
    for (id, segment, sample) in samples.filter(|(id, ..)| *id > step.after_id) {
        if rows.len() >= step.rows_max {
            break;
        }
        after_id = id;
        if is_wanted(filters, segment, sample) {
            // The table has the newest first.
            rows.push(all - 1 - (id - first) as usize);
        }
    }
    let more = after_id < last && !step.sample;
    if step.sample {
        after_id = after_id.max(last);
    }
    let table = table::SampleTable::new(columns, snapshot, profile.unix_us());
    Followed {
        table: Box::new(table::Chosen { all: table, rows }),
        timers: Vec::new(),
        after_id,
        missed: first.saturating_sub(step.after_id + 1),
        more,
    }
}

/// The requests of all samples as rows of table `stat_request`, which has these columns.
///
/// # Errors
/// As [`samples`].
pub(super) fn requests(
    profile: &Profile,
    columns: Vec<Column>,
) -> Result<Box<dyn Table>, QueryError> {
    let recent = profile.recent(None).ok_or_else(busy)?;
    let table = report::RequestTable::new(columns, recent, profile.unix_us());
    Ok(Box::new(table))
}

/// A report over samples, and the seconds that its samples span.
///
/// # Errors
/// As [`samples`].
pub(super) fn report(
    profile: &Profile,
    report: &SampleReport,
) -> Result<(Box<dyn Table>, u64), QueryError> {
    let recent = profile.recent(Some(report.window)).ok_or_else(busy)?;
    let table = report::SampleReportTable::new(report, recent.groups(report));
    let covered = profile.covered(&recent).min(report.window).as_secs().max(1);
    Ok((Box::new(table), covered))
}

/// How many rows a report over samples has; none while it cannot be read.
pub(super) fn rows(profile: &Profile, report: &SampleReport) -> usize {
    let recent = profile.recent(Some(report.window));
    recent.map_or(0, |recent| Arc::clone(&recent).groups(report).rows.len())
}

fn busy() -> QueryError {
    let why = "clients that read slowly hold too many old samples; ask again later";
    QueryError::Busy(why.to_owned())
}
