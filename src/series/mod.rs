//! The last hour in memory: the gains of rows of watched reports, second by second, for charts.
//!
//! ```text
//!   Second of the stream --(rows of each report)--> a point of each row --(after five minutes)--> one of ten seconds
//! ```
//!
//! One thread, `series`, adds a point to each row once a second; it runs at a lower priority than
//! ingest, and counts what it misses. Readers hold a [`Series`]. Memory is bounded by
//! `series.memory`: when it does not suffice, rows of little weight (recent time) lose their
//! percentiles, then their counts, never the totals. A report created later begins with its gains
//! since then; a dropped one loses everything.

mod fold;
mod last_hour;
mod metric;
mod points;
mod read;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::RwLock;

pub use self::fold::Fold;
use self::last_hour::LastHour;
pub use self::metric::Metric;
pub(crate) use self::metric::Span;
pub use self::read::{Coverage, Lines, Spreads};
use crate::config::suggest::question;
use crate::instruments::Instrument;
use crate::report::definition::Definition;
use crate::report::{CONFIGURED, DefinedBy, Watchlist};

/// Most reports in the series: each is summed from the groups of every second.
pub const REPORTS_MAX: usize = 64;

/// Why a report has no last hour, no past and no rows in `/metrics`, if all places are taken.
pub fn why_left_out() -> String {
    format!(
        "{REPORTS_MAX} reports are read second by second, which is the most there can be: those made \
         at run time without a place have no past, no charts and no rows in /metrics until others \
         are dropped"
    )
}

/// The report that is always included: the total.
pub const EVERYTHING: &str = "info";

/// Fortieths of the memory for rows, and for seconds in transit. The rest is working memory.
const ROWS: usize = 28;
const STREAM: usize = 11;

pub(crate) static READ: Instrument = Instrument::wait("wait/synch/rwlock/series/read", "read_lock");
pub(crate) static WRITE: Instrument =
    Instrument::wait("wait/synch/rwlock/series/write", "write_lock");

/// The last hour, for those who read it.
#[derive(Debug, Clone)]
pub struct Series(Arc<Shared>);

/// State that the series thread writes and readers see.
#[derive(Debug)]
struct Shared {
    watched: Watchlist,
    state: RwLock<State>,
    memory: usize,
}

#[derive(Debug, Default)]
struct State {
    last_hour: LastHour,
    counted: u64,
    missed: u64,
}

/// A list of reports is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChoiceError(String);

/// Checks a list of report names, in which `"*"` stands for all reports of the configuration.
///
/// # Errors
/// Which name is unknown, or that they are too many.
pub fn check_names(
    names: &[String],
    defined: &[(Definition, DefinedBy)],
) -> Result<(), ChoiceError> {
    let is_known =
        |name: &String| name == CONFIGURED || defined.iter().any(|(it, _)| it.name == *name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> = defined.iter().map(|it| it.0.name.as_str()).collect();
        let meant = Some(question(name, known.iter().copied()));
        let meant = meant.filter(|it| !it.is_empty()).unwrap_or_else(|| ";".to_owned());
        return Err(ChoiceError(format!(
            "there is no report called {name:?}{meant} accepted: the names of base reports such as \
             \"report_by_script_name\", of the configuration's own reports and of those of [[squid]], and \"*\" for all but base \
             reports"
        )));
    }
    let is_named = |name: &str| names.iter().any(|it| it == name);
    let is_chosen = |(it, by): &&(Definition, DefinedBy)| {
        let is_configured = matches!(by, DefinedBy::Configuration(_));
        is_named(&it.name) || is_configured && is_named(CONFIGURED)
    };
    match defined.iter().filter(is_chosen).count() {
        count if count > REPORTS_MAX => Err(ChoiceError(format!(
            "{count} reports; accepted: up to {REPORTS_MAX}, since each is added up every second"
        ))),
        _ => Ok(()),
    }
}

/// Bytes of working memory if only metrics are fed.
const METRICS_MEMORY: usize = 16 << 20;

impl Series {
    /// A series without reports and data, where none is kept.
    pub fn nothing() -> Self {
        Self::new(Watchlist::default(), 0).0
    }

    /// A series of these reports within `memory` bytes, and its writer.
    pub fn new(watched: Watchlist, memory: usize) -> (Self, Fold) {
        let state = State { last_hour: LastHour::new(memory / 40 * ROWS), ..State::default() };
        let shared = Arc::new(Shared { watched, state: RwLock::new(state), memory });
        (Self(Arc::clone(&shared)), Fold::new(shared))
    }

    /// Most bytes of a series with this budget; without one, those for feeding the metrics.
    pub fn bytes_max(memory: usize) -> usize {
        if memory == 0 { METRICS_MEMORY } else { memory }
    }

    /// Bytes for seconds in transit to the series and the metrics.
    pub fn stream_bytes(memory: usize) -> usize {
        Self::bytes_max(memory) / 40 * STREAM
    }
}
