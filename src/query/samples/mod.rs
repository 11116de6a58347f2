//! The profile as tables: samples one by one.
//!
//! Asked for by the catalog, which has these tables where there is a `[[stat]]`; what is read is a snapshot of the pool.

mod table;

use super::error::QueryError;
use super::table::Table;
use crate::profile::{Profile, Snapshot};
use crate::value::Column;

/// The samples as rows of table `sample`, which has these columns.
///
/// # Errors
/// When readers hold too many of what is no longer kept.
pub(super) fn samples(
    profile: &Profile,
    columns: Vec<Column>,
) -> Result<Box<dyn Table>, QueryError> {
    let unix_us = profile.unix_us();
    let table = table::SampleTable::new(columns, snapshot(profile)?, unix_us);
    Ok(Box::new(table))
}

fn snapshot(profile: &Profile) -> Result<Snapshot, QueryError> {
    let busy = "clients that read slowly hold too many old samples; ask again later";
    let snapshot = profile.snapshot();
    snapshot.ok_or_else(|| QueryError::Busy(busy.to_owned()))
}
