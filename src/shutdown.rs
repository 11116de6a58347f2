//! The one stop flag that every loop asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by all threads of one daemon; once set it stays set.
#[derive(Debug, Clone, Default)]
pub struct Shutdown(Arc<AtomicBool>);

impl Shutdown {
    /// A flag that is not set yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every loop to finish.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the loops shall finish. Relaxed: the flag carries no data, threads are joined after it.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
