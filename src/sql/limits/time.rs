//! How long a statement may take: `sql.time_max`, and what its session set below it.

use std::time::Duration;

use crate::sql::error::SqlError;
use crate::sql::session::Session;
use crate::sql::settings::SqlSettings;

/// How long a statement may take, and the error of one that takes longer.
#[derive(Debug)]
pub(in crate::sql) struct TimeLimit {
    pub(in crate::sql) time: Duration,
    pub(in crate::sql) late: SqlError,
}

impl TimeLimit {
    /// That of a session's statements.
    pub(in crate::sql) fn of(session: &Session, settings: &SqlSettings) -> Self {
        let seconds = session.number("max_statement_time").unwrap_or(0.0);
        let millis = session.number("max_execution_time").unwrap_or(0);
        let limits = [
            Self {
                time: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
                late: SqlError::timeout(
                    "Query execution was interrupted (max_statement_time exceeded)",
                ),
            },
            Self {
                time: Duration::from_millis(millis),
                late: SqlError::execution_timeout(
                    "Query execution was interrupted, maximum statement execution time exceeded",
                ),
            },
        ];
        let set = limits.into_iter().filter(|limit| !limit.time.is_zero());
        let own = set.min_by_key(|limit| limit.time);
        match own.filter(|own| own.time < settings.time_max) {
            Some(own) => own,
            None => Self {
                time: settings.time_max,
                late: SqlError::timeout(format!(
                    "the query took longer than {} s (sql.time_max)",
                    settings.time_max.as_secs_f64()
                )),
            },
        }
    }
}
