//! Attempts to write: when the next one is due, and which failures are logged.

use tracing::{error, info};

use crate::telemetry::log::Limit;

/// Longest pause after a failed attempt, in milliseconds.
pub(super) const PAUSE_MS_MAX: u64 = 60_000;

/// Attempts at an action: after failures it is retried ever less often.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// Monotonic milliseconds of the next one.
    pub(super) next_ms: u64,
    pause_ms: u64,
    /// The error of the last one, if it failed, and its cause.
    pub(super) error: Option<(String, String)>,
}

impl Attempts {
    /// Records the result of an attempt, and logs it; `others` are the attempts at the other
    /// action, and `limit` limits the lines about one cause of either. `None`: logs no failure.
    pub(super) fn has_ended(
        &mut self,
        error: Option<(String, String)>,
        now_ms: u64,
        limit: Option<&mut Limit>,
        others: &Self,
    ) {
        let longer_ms = (self.pause_ms * 2).clamp(1_000, PAUSE_MS_MAX);
        self.pause_ms = if error.is_some() { longer_ms } else { 0 };
        self.next_ms = self.next_ms.max(now_ms + self.pause_ms);
        match (&error, limit) {
            (Some((error, cause)), Some(limit)) => {
                let mut before = [&self.error, &others.error].into_iter().flatten();
                if before.all(|it| it.1 != *cause) {
                    *limit = Limit::new(PAUSE_MS_MAX);
                }
                if let Some(repeated) = limit.pass(now_ms) {
                    error!(
                        error,
                        repeated, "Cannot write history: it stays in memory, and is tried again."
                    );
                }
            }
            (None, _) if self.recovers(others) => info!("History is written again."),
            _ => {}
        }
        self.error = error;
    }

    /// Returns whether a success means that nothing fails any more.
    pub(super) const fn recovers(&self, others: &Self) -> bool {
        self.error.is_some() && others.error.is_none()
    }
}
