//! Statements against a small pool.
