//! Instruments: what the daemon does and waits for, measured where it happens, in the manner of MySQL's Performance Schema.
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
//! Which there are, which are on, and what did not fit is the [`registry`]'s; an [`event`] lives in fixed rings of the [`thread`]
//! that it happens on, written by that thread alone and read without stopping it; [`sums`] are added up per thread and
//! instrument. An instrument that is off costs the load of one flag. What is not registered, because no daemon was started in this
//! process, is off. The room knows no other; `sql` shows its contents as database `performance_schema`.

pub mod digests;
pub mod event;
pub mod memory;
pub mod registry;
pub mod sums;
pub mod thread;
pub mod timers;

pub use event::{Active, MeasuredWrite};
pub use registry::{Class, Instrument, Settings, start};
pub use thread::Foreground;

/// What all of it takes at most, bytes, for so many instruments in all.
#[must_use]
pub fn bytes_max(instruments: usize) -> usize {
    thread::bytes_max(instruments) + event::LONG_BYTES_MAX + digests::BYTES_MAX
}

/// What all of it takes now, bytes, without the texts of statements.
#[must_use]
pub fn bytes() -> u64 {
    (thread::bytes() + event::LONG_BYTES) as u64
}

/// Waiting for something to do.
pub static IDLE: Instrument = Instrument::wait("idle", "idle");

#[cfg(test)]
mod tests;
