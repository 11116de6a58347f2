//! SQL over all data in memory: Pinba's tables, under their names, for HTTP and for the MySQL wire.
//!
//! Apache DataFusion plans and runs statements; our own parts are the tables (`tables`: scans over
//! the live pools and reports), MySQL's dialect where users rely on it (`dialect`), and the guards.
//! A front end creates one [`Session`] per connection and passes text to the [`Engine`]; it gets a
//! [`Reply`]: rows as a stream of Arrow batches, or a confirmation.
//!
//! Queries run on the engine's own threads, at low priority, and read the pools in short pieces, so
//! that ingest does not wait; time, memory, rows and the number of concurrent queries are bounded
//! by [`SqlSettings`]. Dropping the reply ends its query.

mod cancellation;
mod dialect;
mod digest;
mod engine;
mod error;
mod execute;
mod functions;
#[cfg(any(test, fuzzing))]
#[path = "../../tests/fuzz/entries/sql/mod.rs"]
pub(crate) mod fuzz;
mod information_schema;
mod invisible_columns;
mod layout;
mod limits;
mod optimizer;
mod performance_schema;
mod planning;
mod reply;
mod run_plan;
mod session;
mod settings;
mod show;
mod snapshot;
mod statement;
mod tables;
mod variables;
mod virtual_table;

pub use dialect::take_statement;
pub(crate) use digest::VERBS;
pub use engine::{Engine, Prepared};
pub use error::SqlError;
pub(crate) use functions::value::{Cells, Value};
pub use reply::{Reply, Rows, SqlColumn, SqlType};
pub use session::{Literal, Session};
pub use settings::SqlSettings;
pub use variables::VERSION;

use crate::instruments::Instrument;

/// Instruments, beside those of statements.
pub(crate) static INSTRUMENTS: [&Instrument; 1] = [&run_plan::PLACE];

#[cfg(test)]
mod tests;
