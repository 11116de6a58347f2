//! `pinbad bench`: the whole daemon against a bare receive loop, in one run, on this machine.
//!
//! Outside the data path: nothing of the daemon calls this. Parts of the comparison are child processes of our own
//! binary, so that processor time and memory are those of one part alone: `sink` receives as the daemon does and throws
//! the packets away, the daemon is `pinbad serve` as anybody starts it. Both get the same packets from the same sender
//! (`load`), in turn. In reading order: `options`, `part` (the children), `client` (HTTP), `trial` (send, and count what
//! came), `search` (the highest rate that loses nothing), `whole` (all of it, round by round), `growth` and
//! `sql` (other questions; `asked` has what both need), `table` and `machine` (what is printed).
//!
//! Bounded: every wait has an end, all packets go over loopback, and children are stopped by their number when this
//! ends, whatever way it ends.

mod asked;
mod client;
mod figures;
mod growth;
mod machine;
pub mod options;
mod part;
mod search;
mod sink;
mod sql;
pub mod stage;
mod table;
mod trial;
mod whole;

use std::io::Write;

pub use options::{BenchOptions, BenchPart};
pub use part::run_part;

use crate::load::LoadError;
use crate::shutdown::Shutdown;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A part did not start, or did not answer.
    #[error("{part}: {problem}")]
    Part {
        /// Which one.
        part: &'static str,
        /// What happened, with the last lines of its log.
        problem: String,
    },
    /// The packets could not be sent.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Somebody asked for an end.
    #[error("interrupted; all parts are stopped")]
    Interrupted,
    /// The output could not be written.
    #[error("cannot write: {0}")]
    Io(#[from] std::io::Error),
}

/// The command `bench`: measures, says on `progress` what it is doing, and prints the tables to `out`.
///
/// # Errors
/// When a part does not start or dies, or `shutdown` was requested.
pub fn execute(
    options: &BenchOptions,
    shutdown: &Shutdown,
    out: &mut dyn Write,
    progress: &mut dyn Write,
) -> Result<(), BenchError> {
    let before = machine::load_average();
    if options.growth || options.sql {
        let tables = match options.sql {
            true => sql::run(options, shutdown, progress)?,
            false => growth::run(options, shutdown, progress)?,
        };
        machine::write(out, &before)?;
        for table in &tables {
            table.write(out, options.markdown)?;
        }
        return Ok(());
    }
    let figures = whole::run(options, shutdown, progress)?;
    machine::write(out, &before)?;
    figures.table(options).write(out, options.markdown)?;
    Ok(())
}

/// An error once somebody asked for an end.
fn go_on(shutdown: &Shutdown) -> Result<(), BenchError> {
    if shutdown.requested() {
        return Err(BenchError::Interrupted);
    }
    Ok(())
}
