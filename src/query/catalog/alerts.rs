//! Table `alerts`: what fires, what is about to, what is over since a quarter of an hour.

use serde_json::json;

use super::Catalog;
use crate::alert::Alert;
use crate::query::read_model::ReportAnswer;
use crate::query::table::Rows;
use crate::query::tables::StatusTable;
use crate::value::Value;

impl Catalog {
    /// How many rows it has.
    pub(super) fn alert_rows(&self) -> usize {
        self.alerts.view().alerts.len()
    }

    /// The table as it stands.
    pub(super) fn alerts_answer(&self, table: &StatusTable) -> ReportAnswer {
        let rows = Rows {
            columns: table.columns(&self.defaults).into(),
            rows: self.alerts.view().alerts.iter().map(row).collect(),
        };
        self.answer_of(table, Box::new(rows))
    }
}

/// The columns as `columns.txt` has them.
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
