//! The texts in which a person defines a report: what is accepted, and the same written back.
//!
//! | text | part |
//! |---|---|
//! | the COMMENT of `CREATE TABLE ... ENGINE=PINBA`, of Pinba and of pinba2 | `comment` |
//! | `[[report]]` in TOML, and the same in JSON | `native` |
//! | Pinba's own tables, which are always there | `builtin` |
//! | tables that a COMMENT may name and that are no reports | `fixed_table` |
//! | percentiles, and the names of their columns | `percentile` |
//!
//! Each ends in a [`Definition`](crate::report::definition::Definition), the only form that the
//! engine knows. Pure; called at start, and on front ends' threads for reports created later.

pub mod builtin;
pub mod comment;
mod fixed_table;
pub mod native;
mod number;
pub mod percentile;

pub use self::fixed_table::FixedTable;
