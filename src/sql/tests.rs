//! Statements against a small pool.

pub(crate) mod pools;
