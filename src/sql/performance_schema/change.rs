//! UPDATE of `setup_...` tables and TRUNCATE of events and sums: the changes that an admin may make
//! to instruments.

use super::{DATABASE, LAYOUTS, kind_of, span_of};
use crate::instruments::digests;
use crate::instruments::event_history;
use crate::instruments::memory;
use crate::instruments::registry::{Registry, registry};
use crate::instruments::summary;
use crate::sql::engine::Engine;
use crate::sql::error::SqlError;
use crate::sql::functions::value::Cells;
use crate::sql::reply::Reply;
use crate::sql::session::{Literal, Session};
use crate::sql::statement::Update;

/// The error for every unsupported change.
fn usage() -> SqlError {
    SqlError::performance_schema_usage("Invalid performance_schema usage")
}

impl Engine {
    /// Checks whether this session may change this table.
    fn may_change_instruments(
        &self,
        session: &Session,
        database: Option<&str>,
        write: &str,
    ) -> Result<&'static Registry, SqlError> {
        if self.database_of(session, database)? != DATABASE {
            return Err(SqlError::writes(write));
        }
        if !session.admin {
            return Err(SqlError::wants_admin());
        }
        registry().ok_or_else(usage)
    }

    /// Updates a `setup_...` table: reads the selected rows with their new values, and switches the
    /// instruments they name.
    ///
    /// # Errors
    /// Fails if the session may not, or the value cannot be set.
    pub(in crate::sql) async fn update(
        &self,
        session: &Session,
        update: Update,
        values: &[Literal],
    ) -> Result<(), SqlError> {
        let database = update.database.as_deref();
        let registry = self.may_change_instruments(session, database, "UPDATE")?;
        let instruments = match update.table.to_lowercase().as_str() {
            "setup_instruments" => true,
            "setup_consumers" => false,
            _ => return Err(SqlError::writes("UPDATE")),
        };
        let timed = if instruments { "timed" } else { "enabled" };
        // The new values stand as they are written, so that each `?` keeps its value.
        let mut columns = format!("name, enabled, ({timed})");
        let mut places = [1, 2];
        for (at, (column, value)) in update.settings.iter().enumerate() {
            columns.push_str(&format!(", ({value})"));
            match column.to_ascii_uppercase().as_str() {
                "ENABLED" => places[0] = 3 + at,
                "TIMED" if instruments => places[1] = 3 + at,
                "NAME" => return Err(usage()),
                _ => {
                    let what = format!("Unknown column '{column}' in 'field list'");
                    return Err(SqlError::no_such_column(what));
                }
            }
        }
        let (table, rows) = (update.table, update.rows);
        let text = format!("SELECT {columns} FROM `{DATABASE}`.`{table}` {rows}");
        let mut asking = session.without_row_limit();
        let meant = Box::pin(self.run(&mut asking, &text, values)).await?;
        let mut switches = Vec::new();
        if let Reply::Rows(mut meant) = meant {
            while let Some(batch) = meant.next().await {
                let batch = batch?;
                let columns = [0, places[0], places[1]].map(|at| Cells::new(batch.column(at)));
                let [names, enabled, timed] = columns;
                let (names, enabled, timed) = (names?, enabled?, timed?);
                for row in 0..batch.num_rows() {
                    let name = names.get(row).to_text().into_owned();
                    let on =
                        |cells: &Cells, column| switch(&cells.get(row).to_text(), column, row + 1);
                    switches.push((name, on(&enabled, "ENABLED")?, on(&timed, "TIMED")?));
                }
            }
        }
        for (name, enabled, timed) in switches {
            match instruments {
                true => registry.switch(&name, enabled, timed),
                false => registry.switch_consumer(&name, enabled),
            }
        }
        Ok(())
    }

    /// Empties a table of events, or resets sums to zero.
    ///
    /// # Errors
    /// Fails if the session may not, or the table cannot be truncated.
    pub(in crate::sql) fn truncate(
        &self,
        session: &Session,
        database: Option<&str>,
        table: &str,
    ) -> Result<(), SqlError> {
        self.may_change_instruments(session, database, "TRUNCATE")?;
        let name = LAYOUTS.named(table).ok_or_else(usage)?.name;
        match (name, kind_of(name)) {
            ("events_statements_summary_by_digest", _) => digests::truncate(),
            ("memory_summary_global_by_event_name", _) => memory::truncate(),
            (name, Some(kind)) if name.contains("_summary_") => summary::truncate(kind),
            (name, Some(kind)) => event_history::truncate(kind, span_of(name)),
            (name, None) if name.starts_with("events_transactions") => {}
            _ => return Err(usage()),
        }
        Ok(())
    }
}

/// Parses YES or NO.
fn switch(value: &str, column: &str, row: usize) -> Result<bool, SqlError> {
    match value.to_ascii_uppercase().as_str() {
        "YES" => Ok(true),
        "NO" => Ok(false),
        _ => Err(SqlError::truncated(format!("Data truncated for column '{column}' at row {row}"))),
    }
}
