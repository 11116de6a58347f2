//! Limits how many queries run at once, and how many may wait.
//!
//! A query holds a [`Permit`] while it runs; a few more wait for one, for a few seconds. When the
//! queue is full, or the wait too long, the client gets 503. However many clients there are, they
//! take a fixed share of the machine and its memory, and the rest is left to ingest.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::Problem;
use crate::instruments::Instrument;

/// Waits for a permit to read.
pub(crate) static PERMIT: Instrument = Instrument::wait("wait/synch/cond/http/permit", "wait");

/// One bounded resource.
#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    permits: Arc<Semaphore>,
    queue: Semaphore,
    patience: Duration,
    /// The limited resource, for messages.
    what: &'static str,
}

/// The right to run; released on drop.
pub(super) type Permit = OwnedSemaphorePermit;

impl ConcurrencyLimit {
    /// Creates a limit of `permits`; `queue` more wait for one, for at most `patience`.
    pub(super) fn new(
        what: &'static str,
        permits: usize,
        queue: usize,
        patience: Duration,
    ) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(permits)),
            queue: Semaphore::new(queue),
            patience,
            what,
        }
    }

    /// Returns a permit if one is free.
    pub(super) fn try_enter(&self) -> Option<Permit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Waits for a permit.
    pub(super) async fn enter(&self) -> Result<Permit, Problem> {
        if let Some(permit) = self.try_enter() {
            return Ok(permit);
        }
        let what = self.what;
        let busy = || Problem::busy(format!("too many {what} at once; ask again in a moment"));
        let _queued = self.queue.try_acquire().map_err(|_| busy())?;
        let _waiting = PERMIT.begin_in_task();
        let permit = Arc::clone(&self.permits).acquire_owned();
        let entered = tokio::time::timeout(self.patience, permit).await;
        entered.ok().and_then(Result::ok).ok_or_else(busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn one_runs_one_waits_the_next_is_refused() {
        let limit = Arc::new(ConcurrencyLimit::new("queries", 1, 1, Duration::from_secs(60)));
        let first = limit.enter().await.unwrap();
        let second = tokio::spawn({
            let limit = Arc::clone(&limit);
            async move { limit.enter().await.is_ok() }
        });
        tokio::task::yield_now().await;
        assert_eq!(limit.enter().await.unwrap_err().status.as_u16(), 503);
        drop(first);
        assert!(second.await.unwrap());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn patience_ends() {
        let limit = ConcurrencyLimit::new("queries", 1, 1, Duration::from_millis(1));
        let _first = limit.enter().await.unwrap();
        assert_eq!(limit.enter().await.unwrap_err().status.as_u16(), 503);
    }
}
