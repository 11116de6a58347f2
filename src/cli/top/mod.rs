//! `pinbad top`: shows what is slow in a running daemon, live on a terminal or once as plain text.
//!
//! ```text
//!   keys -> model -> draw          `live`, the main thread
//!             ^  \
//!     updates |   v query
//!             poll                 a thread of its own, which polls the daemon over HTTP
//! ```
//!
//! Called by `main`. Reads the daemon over its HTTP interface, so the daemon may run on another
//! machine. `model`, `table`, `layout` and `draw` are pure; only `live` uses the terminal. Text
//! from outside is escaped where a value becomes text. Memory is bounded by the rows of an answer
//! and the number of polls remembered.

use std::io::{IsTerminal, stdin, stdout};
use std::time::Duration;

use clap::Args as FlagGroup;

use self::model::{INTERVALS, Model};
use crate::cli::client::{Client, ClientFlags};
use crate::cli::{Failure, print};
use crate::config::units::parse_duration;
use crate::shutdown::Shutdown;

pub mod cell;
pub mod draw;
pub mod layout;
pub mod live;
pub mod location;
pub mod model;
pub mod once;
pub mod poll;
pub mod stats;
pub mod table;
pub mod timers;
pub mod views;

/// Longest wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Width of plain output that does not go to a terminal, unless the variable `COLUMNS` has another.
const PLAIN_COLUMNS: usize = 160;

/// The flags of `top`.
#[derive(Debug, Clone, FlagGroup)]
pub struct TopFlags {
    /// Which daemon.
    #[command(flatten)]
    pub client: ClientFlags,
    /// Begin with this report [default: by script].
    #[arg(long, value_name = "NAME")]
    pub report: Option<String>,
    /// Sort by this column, the largest first; +COLUMN: the smallest first.
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// How often to poll.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Print it once as plain text; also what happens when the output is no terminal.
    #[arg(long)]
    pub once: bool,
    /// Rows to print of each table [default: 20 of the first, 5 of the others].
    #[arg(long, short = 'n', value_name = "ROWS")]
    pub limit: Option<u16>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let accepted = "accepted: 200ms to 1h, as in 1s";
    match parse_duration(text) {
        Ok(interval) if (INTERVALS.0..=INTERVALS.1).contains(&interval) => Ok(interval),
        Ok(_) => Err(accepted.to_owned()),
        Err(why) => Err(format!("{why}; {accepted}")),
    }
}

/// Runs until a key or signal ends it, or prints once. `colour` allows colours.
///
/// # Errors
/// Fails if the daemon does not answer (when printing once), or the terminal cannot be used.
pub fn execute(flags: &TopFlags, colour: bool, shutdown: &Shutdown) -> Result<(), Failure> {
    let client = Client::at(&flags.client.url, &flags.client.access)?.patient_for(ANSWER_MAX);
    let output = stdout().is_terminal();
    if flags.once || !output || !stdin().is_terminal() {
        let size = ratatui::crossterm::terminal::size().ok().filter(|_| output);
        let wanted = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let columns =
            size.map(|(columns, _)| columns).or(wanted).map_or(PLAIN_COLUMNS, usize::from);
        return print(once::text(client, flags, columns)?.trim_end());
    }
    let (report, sort) = (flags.report.as_deref(), flags.sort.as_deref());
    let model = Model::new(client.url(), report, sort, flags.interval);
    live::run(client, model, colour, shutdown)
        .map_err(|error| Failure::failed(format!("cannot use the terminal: {error}")))
}
