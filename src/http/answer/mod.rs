//! Encodes rows: format negotiation, one row writer for all formats, and the body that sends them.

#[cfg_attr(not(feature = "sql"), path = "no_arrow.rs")]
mod arrow;
#[cfg(feature = "sql")]
pub(super) mod batches;
pub(super) mod body;
pub(super) mod endless;
pub(super) mod format;
pub(super) mod json;
pub(super) mod order;
pub(super) mod writer;
