//! The integration tests.

#![allow(
    clippy::unwrap_used,
    reason = "a test may say `cannot happen` in the shortest way"
)]

mod model;
/// Reports made at run time, what is kept of them, and the tables in which the daemon speaks of itself.
mod runtime;
