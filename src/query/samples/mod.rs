//! The profile as tables: samples one by one, their requests, and reports over them.
//!
//! Asked for by the catalog, which has these tables where there is a `[[stat]]`. What is read is a snapshot of the pool; reports
//! and requests of the same moment share what they have in common.

mod report;
mod table;

use std::sync::Arc;

pub(super) use self::report::columns;
use super::error::QueryError;
use super::table::Table;
use crate::profile::Profile;
use crate::profile::definition::SampleReport;
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
