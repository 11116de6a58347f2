//! The daemon's own telemetry: counters of every stage, and the log.
//!
//! Beside the data path, not on it: each stage is given its counters at start and adds to them once
//! a batch or merge; HTTP, SQL and the metrics page read them at any time. Nothing here allocates
//! after start, blocks or fails.

pub mod counter;

pub mod counters;

pub mod cpu;

pub mod log;

pub mod losses;

pub mod memory;

pub mod reading;

mod total;

pub use counters::{MergeCounters, SocketCounters};
pub use reading::Reading;
pub use total::Counters;
