//! Imports logs: counts them in the past of all reports that are kept now.

use serde_json::{Value as Json, json};

use super::Catalog;
use crate::history::import::{ImportError, ImportResult};
use crate::merger::answering;
use crate::query::error::QueryError;

impl Catalog {
    /// Counts lines of a log in the minutes that they name; returns the results. `name`: the
    /// hostname of their requests; `covered_to`: from the answer for the preceding lines.
    ///
    /// # Errors
    /// Also [`QueryError::NotKept`] if they cannot be written.
    pub fn import_log(
        &self,
        lines: &[u8],
        name: Option<String>,
        covered_to: Option<u64>,
    ) -> Result<Json, QueryError> {
        self.kept_history()?;
        let importer = self.importer.as_ref().ok_or_else(QueryError::no_history)?;
        let watched = answering(&self.live).reports.watched();
        let kept = watched.iter().filter(|report| report.is_kept);
        let reports = kept.map(|report| report.definition.clone()).collect();
        let taken = importer.take(reports, lines, name, covered_to);
        taken.map(|taken| shown(&taken)).map_err(|error| match error {
            ImportError::NoEntry => QueryError::NoHistory(error.to_string()),
            ImportError::Unreadable(_) | ImportError::NotWritten(_) => {
                QueryError::NotKept(error.to_string())
            }
            ImportError::Stopping => QueryError::Busy(error.to_string()),
        })
    }
}

/// The counts of a piece, in addition to its size.
fn shown(taken: &ImportResult) -> Json {
    let known = if taken.is_known { taken.lines } else { 0 };
    let piece = &taken.piece;
    let mut shown = json!({"bytes": piece.bytes, "lines": taken.lines, "lines_known": known});
    for reading in taken.source.counters.counts().readings() {
        match reading.name {
            "requests" => {
                let requests = reading.value.as_u64().unwrap_or_default();
                shown["requests"] = (requests - piece.in_future).into();
            }
            "lines_invalid" => shown["lines_invalid_by_reason"] = reading.value,
            name @ ("swaps" | "lines_repeated" | "lines_lost") => shown[name] = reading.value,
            _ => {}
        }
    }
    shown["lines_in_future"] = piece.in_future.into();
    shown["lines_expired"] = piece.expired.into();
    let example = taken.source.example.lock();
    shown["last_invalid"] = example.as_ref().map(|it| it.line.clone()).into();
    shown["last_invalid_field"] = example.as_ref().map(|it| it.field.clone()).into();
    shown["covered_to"] = piece.covered_to.into();
    shown
}
