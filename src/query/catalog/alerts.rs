//! Table `alerts`: alerts that are firing, pending, or ended within the last quarter of an hour.

use serde_json::json;

use super::Catalog;
use crate::alert::Alert;
use crate::query::read_model::ReportAnswer;
use crate::query::table::Rows;
use crate::query::tables::StatusTable;
use crate::value::Value;

impl Catalog {
    /// Returns the number of rows.
    pub(super) fn alert_rows(&self) -> usize {
        self.alerts.view().alerts.len()
    }

    /// Returns the current table.
    pub(super) fn alerts_answer(&self, table: &StatusTable) -> ReportAnswer {
        let uptime_ms = self.clock.mono_ms().saturating_sub(self.started_ms);
        ReportAnswer {
            window_seconds: 0.0,
            covered_seconds: (uptime_ms / 1000).max(1),
            as_of_ms: self.clock.unix_ms(),
            key_columns: table.key_columns().to_vec(),
            of_span: None,
            table: Box::new(Rows {
                columns: table.columns(&self.defaults).into(),
                rows: self.alerts.view().alerts.iter().map(row).collect(),
            }),
        }
    }
}

/// Returns the columns in the order of `columns.txt`.
fn row(alert: &Alert) -> Vec<Value<'static>> {
    let text = |text: &str| Value::Text(text.to_owned().into());
    let moment = |unix: u64| match unix {
        0 => Value::Null,
        unix => Value::Int(unix.cast_signed()),
    };
    let (entry, episode) = (&alert.rule.entry, &alert.episode);
    let keys = alert.key_texts().filter(|_| alert.key.is_some());
    let keys: Vec<&str> = keys.map(|it| it.1).collect();
    vec![
        text(&entry.name),
        text(&entry.report),
        text(&keys.join(", ")),
        text(episode.phase.name()),
        moment(episode.since),
        moment(episode.started),
        moment(episode.ended),
        text(&episode.reason),
        episode.value.map_or(Value::Null, Value::Float),
        text(&alert.rule.threshold()),
        text(&entry.severity),
        text(&json!(alert.labels).to_string()),
        alert
            .silenced_by
            .map_or(Value::Null, |id| Value::Int(id.cast_signed())),
        text(&alert.link),
    ]
}
