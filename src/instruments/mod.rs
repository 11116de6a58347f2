//! Instruments: measure the daemon's work and waits where they happen, in the manner of MySQL's
//! Performance Schema.
//!
//! An instrument is declared in one line beside the code it measures, and used through a guard:
//!
//! ```
//! use pinbad::instruments::Instrument;
//!
//! static BAKE: Instrument = Instrument::new("stage/kitchen/bake");
//! let stage = BAKE.begin();
//! drop(stage);
//! ```
//!
//! The [`registry`] has the instruments, their switches, and the counts of those that did not fit.
//! An [`event`] is stored in fixed rings of its [`thread`], written only by that thread and read
//! without stopping it (`active`, `event_rings`, [`event_history`]); `locks` are taken through
//! their instruments; [`sums`] are added up by thread and instrument, and read as a [`summary`]. An
//! instrument that is off costs one load of a flag. Unregistered instruments are off, which is the
//! case if no daemon was started in this process. This module knows nothing of the code it
//! measures; `sql` shows its contents as database `performance_schema`.

mod active;
pub mod digests;
pub mod event;
pub mod event_history;
mod event_rings;
mod locks;
mod measured_write;
pub mod memory;
pub mod registry;
pub mod summary;
pub mod sums;
pub mod thread;
pub mod timers;

use std::sync::LazyLock;

pub use active::Active;
pub use measured_write::MeasuredWrite;
pub use registry::{Class, Instrument, Settings};
pub use thread::Foreground;

/// Registers these instruments, and switches on those named by `settings`. Only the first call in a
/// process sets the sizes.
pub fn start(settings: &Settings, instruments: &[&'static Instrument]) {
    // Allocated now.
    LazyLock::force(&event_history::LONG);
    registry::start(settings, instruments);
}

/// Returns the maximum memory of `instruments` instruments together, bytes.
pub(crate) fn bytes_max(instruments: usize) -> usize {
    thread::bytes_max(instruments) + event_history::LONG_BYTES_MAX + digests::BYTES_MAX
}

/// Returns the memory in use without the texts of statements, bytes.
pub(crate) fn bytes() -> u64 {
    (thread::bytes() + event_history::LONG_BYTES) as u64
}

/// Waiting for work.
pub static IDLE: Instrument = Instrument::wait("idle", "idle");

#[cfg(test)]
mod tests;
