//! The integration tests.

<<<<<<< HEAD
#![allow(
    clippy::unwrap_used,
    reason = "a test may say `cannot happen` in the shortest way"
)]

/// Reports made at run time, what is kept of them, and the tables in which the daemon speaks of itself.
mod runtime;
=======
mod model;
>>>>>>> 3b6ca91 (tests: hold every kind of report against a naive recount)
