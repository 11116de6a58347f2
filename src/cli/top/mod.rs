//! `pinbad top`: what is slow in a running daemon, live on a terminal or once as plain text.
//!
//! ```text
//!   keys -> model -> draw          `live`, the main thread
//!             ^  \
//!     updates |   v query
//!             poll                 a thread of its own, which polls the daemon over HTTP
//! ```
//!
//! Called by `main`. Reads the daemon over its HTTP interface, so it shows one on another machine as well. `model`, `table`,
//! `layout` and `draw` are pure; only `live` uses the terminal. Text from outside is escaped where a value becomes text. Memory is
//! bounded by the rows of an answer and the polls that are remembered.

use std::time::Duration;

use clap::Args as FlagGroup;

use self::draw::Theme;
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
/// The width of plain output that does not go to a terminal.
const PLAIN_COLUMNS: usize = 160;

/// What `top` takes.
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
    let interval = parse_duration(text).map_err(|why| format!("{why}; {accepted}"))?;
    if (INTERVALS.0..=INTERVALS.1).contains(&interval) {
        Ok(interval)
    } else {
        Err(accepted.to_owned())
    }
}

/// The terminal that the program runs on.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    /// Whether keys and screen are those of a terminal.
    pub interactive: bool,
    /// The width of the terminal that the output goes to, if it does.
    pub columns: Option<usize>,
    /// Whether there may be colours.
    pub colour: bool,
}

impl Terminal {
    /// Reads the terminal's width.
    pub fn of(interactive: bool, output: bool, colour: bool) -> Self {
        let size = ratatui::crossterm::terminal::size().ok().filter(|_| output);
        Self {
            interactive,
            columns: size.map(|(columns, _)| usize::from(columns)),
            colour,
        }
    }
}

/// Runs until a key or a signal ends it; or prints once.
///
/// # Errors
/// When the daemon does not answer (printing once), or the terminal cannot be used.
pub fn execute(flags: &TopFlags, terminal: Terminal, shutdown: &Shutdown) -> Result<(), Failure> {
    let client = Client::of(&flags.client)?.patient_for(ANSWER_MAX);
    if flags.once || !terminal.interactive {
        let columns = terminal.columns.unwrap_or(PLAIN_COLUMNS);
        return print(once::text(client, flags, columns)?.trim_end());
    }
    let (report, sort) = (flags.report.as_deref(), flags.sort.as_deref());
    let model = Model::new(client.url(), report, sort, flags.interval);
    let theme = Theme {
        colour: terminal.colour,
    };
    live::run(client, model, theme, shutdown)
        .map_err(|error| Failure::failed(format!("cannot use the terminal: {error}")))
}
