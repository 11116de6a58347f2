//! The context of a statement: its session, the values for its `?`, and the clock.

use std::cell::Cell;

use chrono::NaiveDateTime;

use crate::report::definition::Columns;
use crate::sql::error::SqlError;
use crate::sql::functions;
use crate::sql::limits::expression_growth::Copies;
use crate::sql::session::{Literal, Session};
use crate::sql::settings::SqlSettings;
use crate::sql::variables;

/// The context in which a statement is read.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) session: &'a Session,
    settings: &'a SqlSettings,
    /// `None` while it is only being prepared.
    values: Option<&'a [Literal]>,
    /// The time on the session's clock, and in UTC.
    pub(crate) now: NaiveDateTime,
    pub(crate) now_utc: NaiveDateTime,
    /// Budget for copies made by rewriting.
    pub(crate) copies: Copies,
    /// Total time of SLEEP calls, in seconds.
    pub(crate) sleep: Cell<f64>,
    /// The columns in which reports are read.
    pub(crate) columns: Columns,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        session: &'a Session,
        settings: &'a SqlSettings,
        values: Option<&'a [Literal]>,
    ) -> Self {
        let now = session.timestamp().unwrap_or_else(chrono::Utc::now);
        let shown = functions::shown(now.timestamp_micros(), session.time_zone())
            .and_then(chrono::DateTime::from_timestamp_micros);
        Self {
            session,
            settings,
            values,
            now: shown.unwrap_or(now).naive_utc(),
            now_utc: now.naive_utc(),
            copies: Copies::default(),
            sleep: Cell::new(0.0),
            columns: Columns::Own,
        }
    }

    /// Whether texts are compared and grouped without regard to case.
    pub(crate) const fn case_insensitive(&self) -> bool {
        self.settings.limits.case_insensitive
    }

    /// Whether the statement is only being prepared: there are no values yet, and those that stand
    /// for them are never looked at.
    pub(crate) const fn is_preparing(&self) -> bool {
        self.values.is_none()
    }

    /// The value of a placeholder: `?` with its number, `@name` or `@@name`.
    ///
    /// # Errors
    /// Fails if there are fewer values, or no such system variable.
    pub(crate) fn value(&self, placeholder: &str) -> Result<Literal, SqlError> {
        if let Some(name) = placeholder.strip_prefix("@@") {
            return variables::lookup(name, self.session, self.settings);
        }
        if let Some(name) = placeholder.strip_prefix('@') {
            let value = self.session.user_variables.get(name);
            return Ok(value.cloned().unwrap_or(Literal::Null));
        }
        let (Some(values), Ok(at)) = (self.values, placeholder[1..].parse::<usize>()) else {
            return Ok(Literal::Null);
        };
        values.get(at).cloned().ok_or_else(|| {
            SqlError::wrong_arguments(format!(
                "the statement has more than {at} '?', and no value for the next one was given"
            ))
        })
    }
}
