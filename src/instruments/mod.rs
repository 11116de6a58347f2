//! Instruments: what the daemon does and waits for, measured where it happens, in the manner of
//! MySQL's Performance Schema.
//!
//! An instrument is declared where its code is, in one line, and used by a guard:
//!
//! ```
//! use pinbad::instruments::Instrument;
//!
//! static BAKE: Instrument = Instrument::new("stage/kitchen/bake");
//! let stage = BAKE.begin();
//! drop(stage);
//! ```
//!
//! Which there are, which are on, and what did not fit is the [`registry`]'s; an [`event`] is kept
//! in fixed rings of the [`thread`] that it happens on, written by that thread alone and read
//! without stopping it (`active`, `event_rings`, [`event_history`]); `locks` are taken through
//! their instruments; [`sums`] are added up per thread and instrument, and read as a [`summary`].
//! An instrument that is off costs the load of one flag. What is not registered, because no daemon
//! was started in this process, is off. It knows nothing of what it measures; `sql` shows its
//! contents as database `performance_schema`.

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

pub use active::Active;
pub use measured_write::MeasuredWrite;
pub use registry::{Class, Instrument, Settings};
pub use thread::Foreground;

/// Registers these instruments, and switches on those that `settings` names. Sizes are those of the
/// first call in a process.
pub fn start(settings: &Settings, instruments: &[&'static Instrument]) {
    event_history::prepare();
    registry::start(settings, instruments);
}

/// The most bytes that `instruments` instruments take together.
#[must_use]
pub fn bytes_max(instruments: usize) -> usize {
    thread::bytes_max(instruments) + event_history::LONG_BYTES_MAX + digests::BYTES_MAX
}

/// Bytes taken now, without the texts of statements.
#[must_use]
pub fn bytes() -> u64 {
    (thread::bytes() + event_history::LONG_BYTES) as u64
}

/// Waiting for something to do.
pub static IDLE: Instrument = Instrument::wait("idle", "idle");

#[cfg(test)]
mod tests;
