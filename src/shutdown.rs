//! The one stop flag that every loop asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// How often a thread that waits for work checks for a stop.
const NAP: Duration = Duration::from_millis(20);

/// Shared by all threads of one daemon; once set it stays set.
#[derive(Debug, Clone, Default)]
pub struct Shutdown(Arc<AtomicBool>);

impl Shutdown {
    /// A flag that is not set yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every loop to finish.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the loops should finish. Relaxed: the flag carries no data, threads are joined after
    /// it.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs `work`, which may wait for others for long, on a thread of this name. `None`: a stop
    /// was requested, `grace` is over, and nobody waits for what comes of it.
    ///
    /// # Errors
    /// Says why there is no such thread, or that it ended.
    pub fn unless_requested<T: Send + 'static>(
        &self,
        (thread, grace): (&str, Duration),
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Result<T, String>> {
        let (done, result) = sync_channel(1);
        let run = move || {
            // Nobody waits for it after a stop.
            let _unread = done.send(work());
        };
        let thread = std::thread::Builder::new().name(thread.to_owned());
        if let Err(error) = thread.spawn(run) {
            return Some(Err(error.to_string()));
        }
        let mut stopped: Option<Instant> = None;
        loop {
            if self.requested() {
                stopped.get_or_insert_with(Instant::now);
            }
            match result.recv_timeout(NAP) {
                Ok(result) => return Some(Ok(result)),
                Err(RecvTimeoutError::Timeout) => {
                    if stopped.is_some_and(|stopped| stopped.elapsed() >= grace) {
                        return None;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Some(Err("its thread ended".to_owned()));
                }
            }
        }
    }
}
