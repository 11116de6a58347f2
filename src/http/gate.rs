//! How many questions are answered at once, and how many may wait.
//!
//! A question runs on a thread that may block and holds a [`Permit`] while it does; a few more wait their turn, for
//! a few seconds; whoever comes when even the waiting room is full, or waits too long, is told 503 at once. So however
//! many clients ask, they take a fixed share of the machine and of its memory, and the rest is left to ingest.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::Problem;

/// One bounded resource.
#[derive(Debug)]
pub(super) struct Gate {
    inside: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    patience: Duration,
    /// What it bounds, as a client would say it.
    what: &'static str,
}

/// The right to be inside; ends when it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    _inside: OwnedSemaphorePermit,
}

impl Gate {
    /// Lets `inside` in at once, `waiting` more wait, for at most `patience`.
    pub(super) fn new(
        what: &'static str,
        inside: usize,
        waiting: usize,
        patience: Duration,
    ) -> Self {
        Self {
            inside: Arc::new(Semaphore::new(inside)),
            waiting: Arc::new(Semaphore::new(waiting)),
            patience,
            what,
        }
    }

    /// Enters if there is room now.
    pub(super) fn try_enter(&self) -> Option<Permit> {
        let inside = Arc::clone(&self.inside).try_acquire_owned().ok()?;
        Some(Permit { _inside: inside })
    }

    /// Waits for a turn.
    pub(super) async fn enter(&self) -> Result<Permit, Problem> {
        if let Some(permit) = self.try_enter() {
            return Ok(permit);
        }
        let busy = || {
            Problem::busy(format!(
                "too many {} at once; ask again in a moment",
                self.what
            ))
        };
        let _waiting = self.waiting.try_acquire().map_err(|_| busy())?;
        let turn = Arc::clone(&self.inside).acquire_owned();
        match tokio::time::timeout(self.patience, turn).await {
            Ok(Ok(inside)) => Ok(Permit { _inside: inside }),
            Ok(Err(_)) | Err(_) => Err(busy()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn one_is_inside_one_waits_the_next_is_sent_away() {
        let gate = Arc::new(Gate::new("questions", 1, 1, Duration::from_secs(60)));
        let first = gate.enter().await.unwrap();
        let second = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.enter().await.is_ok() }
        });
        tokio::task::yield_now().await;
        assert_eq!(gate.enter().await.unwrap_err().status.as_u16(), 503);
        drop(first);
        assert!(second.await.unwrap());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn patience_ends() {
        let gate = Gate::new("questions", 1, 1, Duration::from_millis(1));
        let _first = gate.enter().await.unwrap();
        assert_eq!(gate.enter().await.unwrap_err().status.as_u16(), 503);
    }
}
