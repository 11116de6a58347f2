//! What bounds a statement before it runs: operators and nesting of its text, tables behind the names of WITH, copies of
//! expressions, time.

pub(super) mod copies;
pub(super) mod nesting;
pub(super) mod tables;
pub(super) mod time;
