//! pinbad: a Pinba-compatible statistics daemon.

pub mod clock;
pub mod shutdown;
