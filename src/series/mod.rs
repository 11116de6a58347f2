//! The last hour in memory: what the rows of some reports gained, second by second, so that charts have a past.
//!
//! ```text
//!   raw rows --(fold: batch by batch)--> current of each report --(the second closes)--> block --(ten of them)--> block of 10 s
//!                                              |
//!                                              +--> metrics, which only grow
//! ```
//!
//! One thread, `series`, reads what was merged out of the pool ten times a second and makes a block a second; it runs at a
//! lower priority than ingest and what it misses is counted. Readers hold a [`Series`]. Memory is bounded by
//! `series.memory`: when it does not suffice, rows of little weight (time of late) lose their percentiles, then their
//! counts, never the totals.

mod batch;
mod block;
mod current_second;
mod fold;
mod history;
mod metric;
mod names;
mod pack;
mod read;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tracing::warn;

use self::block::Fit;
use self::fold::{Budgets, Fold};
pub use self::fold::{Gained, RowGain, Sink};
use self::history::History;
pub use self::history::{COARSE_SECS, FINE_SECS};
pub use self::metric::{Metric, Percent};
use self::names::Names;
pub use self::read::{Coverage, Line, TopRow, TrackedReport};
use crate::clock::Clock;
use crate::merger::{Pulse, SharedLive};
use crate::report::DefinedBy;
use crate::report::definition::{Definition, Level};
use crate::shutdown::Shutdown;

/// How often new rows are looked for: a tenth of a second's rows fit every cache better than all of them.
const PERIOD: Duration = Duration::from_millis(100);

/// Most reports that can be tracked: each costs every packet a little.
pub const REPORTS_MAX: usize = 64;

/// The report that is always tracked: everything together.
pub const EVERYTHING: &str = "info";

/// In a list of reports: all of the configuration's own.
pub const CONFIGURED: &str = "*";

/// The last hour, for those who read it.
#[derive(Debug, Clone)]
pub struct Series(Arc<Shared>);

/// What the series thread writes and readers see.
#[derive(Debug)]
struct Shared {
    state: RwLock<State>,
    /// Unix second of second 0 in the blocks' count. It moves when the wall clock is set: what was a minute ago still was.
    base: AtomicU64,
    counted: AtomicU64,
    missed: AtomicU64,
    memory: usize,
    keeps_raw: bool,
}

#[derive(Debug)]
struct State {
    reports: Vec<Tracked>,
    history: History,
    /// How the last second fitted.
    fit: Fit,
}

/// A tracked report.
#[derive(Debug)]
struct Tracked {
    definition: Arc<Definition>,
    /// The names of its key columns.
    keys: Vec<String>,
    names: Names,
}

impl Shared {
    fn set_base(&self, shift_ms: u64, mono_ms: u64, unix_ms: u64) {
        let base = (unix_ms + 500).saturating_sub(mono_ms + shift_ms) / 1000;
        self.base.store(base, Ordering::Release);
    }

    fn unix_of(&self, second: u64) -> u64 {
        second + self.base.load(Ordering::Acquire)
    }

    fn counted(&self, requests: u64) {
        self.counted.fetch_add(requests, Ordering::Relaxed);
    }

    fn missed(&self, requests: u64) {
        self.missed.fetch_add(requests, Ordering::Relaxed);
    }
}

/// A list of reports names one that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// No such report.
    #[error(
        "there is no report called {name:?}; accepted: the names of base reports such as \"report_by_script_name\", of the \
         configuration's own reports, and \"*\" for all of the latter"
    )]
    Unknown {
        /// The name.
        name: String,
    },
    /// Too many.
    #[error(
        "{count} reports; accepted: up to {REPORTS_MAX}, since each costs every packet a little"
    )]
    TooMany {
        /// How many.
        count: usize,
    },
}

/// The definitions that a list of names means, each once, in its order; `"*"` stands for all of the configuration's own.
///
/// # Errors
/// [`ChoiceError`].
pub fn chosen(
    names: &[String],
    defined: &[(Definition, DefinedBy)],
) -> Result<Vec<Definition>, ChoiceError> {
    let mut chosen: Vec<Definition> = Vec::new();
    let mut add = |definition: &Definition| {
        if chosen.iter().all(|known| known.name != definition.name) {
            chosen.push(definition.clone());
        }
    };
    for name in names {
        if name == CONFIGURED {
            let own = |(_, by): &&(_, DefinedBy)| matches!(by, DefinedBy::Configuration(_));
            defined.iter().filter(own).for_each(|(it, _)| add(it));
            continue;
        }
        let (definition, _) = defined
            .iter()
            .find(|(definition, _)| definition.name == *name)
            .ok_or_else(|| ChoiceError::Unknown { name: name.clone() })?;
        add(definition);
    }
    if chosen.len() > REPORTS_MAX {
        let count = chosen.len();
        return Err(ChoiceError::TooMany { count });
    }
    Ok(chosen)
}

/// What a series is made from.
#[derive(Debug)]
pub struct Plan {
    /// What it tracks.
    pub reports: Vec<Definition>,
    /// Bytes in all; 0: blocks are not kept, only `sinks` are fed.
    pub memory: usize,
    /// Statuses from here on are errors.
    pub error_status: u32,
    /// Whether there are raw rows to read.
    pub keeps_raw: bool,
    /// Who else wants to know.
    pub sinks: Vec<Box<dyn Sink>>,
}

/// What the thread needs beside the plan.
#[derive(Debug)]
pub struct Feed {
    /// Where rows are read.
    pub live: SharedLive,
    /// When the merger last ran.
    pub pulse: Arc<Pulse>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// Bytes of working memory while only sinks are fed.
const SINKS_MEMORY: usize = 16 << 20;

impl Series {
    /// A series without reports and without data, for tests of those who read one.
    #[must_use]
    pub fn nothing() -> Self {
        Self(Arc::new(Shared::new(Vec::new(), 0, true)))
    }

    /// Makes a series and what fills it.
    #[must_use]
    pub fn new(plan: Plan, feed: Feed) -> (Self, Filler) {
        let shared = Arc::new(Shared::new(plan.reports, plan.memory, plan.keeps_raw));
        let budgets = match plan.memory {
            0 => Budgets {
                blocks: 0,
                ..Budgets::of(SINKS_MEMORY)
            },
            memory => Budgets::of(memory),
        };
        let Feed { live, pulse, clock } = feed;
        let now = (clock.mono_ms(), clock.unix_ms());
        let bounds = (budgets, plan.error_status);
        let fold = Fold::new(Arc::clone(&shared), live, plan.sinks, bounds, now);
        (Self(shared), Filler { fold, pulse, clock })
    }

    /// Bytes that a series of this budget takes: what it may, or what feeding the metrics alone takes.
    #[must_use]
    pub fn bytes_max(memory: usize, feeds_metrics: bool) -> usize {
        match (memory, feeds_metrics) {
            (0, true) => SINKS_MEMORY,
            (memory, _) => memory,
        }
    }
}

impl Shared {
    fn new(reports: Vec<Definition>, memory: usize, keeps_raw: bool) -> Self {
        let tracked = reports.into_iter().map(|definition| Tracked {
            keys: key_names(&definition),
            names: Names::new(),
            definition: Arc::new(definition),
        });
        Self {
            state: RwLock::new(State {
                reports: tracked.collect(),
                history: History::new(Budgets::of(memory).blocks),
                fit: Fit::default(),
            }),
            base: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            memory,
            keeps_raw,
        }
    }
}

/// The column of each key, in the order of the keys; where there is none, as the key is written in a definition.
pub(crate) fn key_names(definition: &Definition) -> Vec<String> {
    use crate::report::layout::Cell;
    let columns = definition.layout.columns();
    let keys = definition.keys.iter().enumerate();
    keys.map(|(at, key)| {
        let shown = columns
            .iter()
            .find(|column| matches!(column.cell, Cell::Key(key) | Cell::KeyText(key) if key == at));
        shown.map_or_else(
            || key.source.to_string(),
            |column| column.column.name.clone(),
        )
    })
    .collect()
}

impl Tracked {
    fn of_timers(&self) -> bool {
        self.definition.level == Level::Timer
    }
}

/// What fills a series; its `run` is the thread.
#[derive(Debug)]
pub struct Filler {
    fold: Fold,
    pulse: Arc<Pulse>,
    clock: Arc<dyn Clock>,
}

impl Filler {
    /// Takes in rows until a stop is asked for, on a thread of its own.
    pub fn run(mut self, shutdown: &Shutdown) {
        // On Linux this is the thread's own: whoever receives or merges goes first.
        if let Err(error) = rustix::process::setpriority_process(None, 5) {
            warn!(%error, "The series thread keeps its priority.");
        }
        while !shutdown.requested() {
            self.poll();
            std::thread::sleep(PERIOD);
        }
        self.poll();
    }

    /// Takes in what was merged since the last call.
    pub fn poll(&mut self) {
        let merged_ms = self.pulse.last_ms();
        let now = (self.clock.mono_ms(), self.clock.unix_ms());
        self.fold.poll(merged_ms, now);
    }
}
