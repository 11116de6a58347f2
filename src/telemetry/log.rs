//! The log: set-up at start, and a rate limit for repeated lines.
//!
//! `main` calls `init` once; all other code only uses `tracing`'s macros. Lines go to stderr, as
//! text or as one JSON object each; stdout belongs to the commands that print results. Events that
//! an outsider can cause with every packet or request (an invalid datagram, a refused connection)
//! are counted, and logged only through a [`Limit`].

use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{Layer as _, Registry, fmt, reload};

/// Format of a line (`--log-format`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people: time, level, sentence, `field=value`.
    #[default]
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// Handle that changes the level at run time.
pub type LogControl = reload::Handle<LevelFilter, Registry>;

/// Sends this process's log to stderr, down to this level.
///
/// # Errors
/// If the log is set up already.
pub(crate) fn init(format: LogFormat, level: Level) -> Result<LogControl, TryInitError> {
    let (filter, control) = reload::Layer::new(LevelFilter::from_level(level));
    let lines = fmt::layer().with_writer(io::stderr);
    let lines = match format {
        // Colors only on a terminal.
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // Libraries fill hundreds of lines at the start alone.
    let lines = lines.with_filter(filter_fn(|of| {
        *of.level() <= Level::INFO || of.target().starts_with(env!("CARGO_CRATE_NAME"))
    }));
    tracing_subscriber::registry().with(filter).with(lines).try_init().map(|()| control)
}

/// Lets one line through in a time span and counts the others. One for each place that logs; shared
/// by threads.
#[derive(Debug)]
pub struct Limit {
    span_ms: u64,
    /// Time from which the next line may pass, monotonic milliseconds.
    next_ms: AtomicU64,
    held_back: AtomicU64,
}

impl Limit {
    /// Allows at most one line every `span_ms` milliseconds.
    pub const fn new(span_ms: u64) -> Self {
        Self { span_ms, next_ms: AtomicU64::new(0), held_back: AtomicU64::new(0) }
    }

    /// Returns `Some(held_back)` if a line may be logged now, with the number of lines held back
    /// since the last one, to be logged in a field `repeated`. Otherwise counts the line and
    /// returns `None`.
    ///
    /// ```
    /// # let limit = pinbad::telemetry::log::Limit::new(10_000);
    /// # let (now_ms, error) = (0, "");
    /// if let Some(repeated) = limit.pass(now_ms) {
    ///     tracing::warn!(%error, repeated, "Could not receive.");
    /// }
    /// ```
    pub fn pass(&self, now_ms: u64) -> Option<u64> {
        let next = self.next_ms.load(Ordering::Relaxed);
        // If several threads arrive at once, the one that advances the time logs.
        let (relaxed, after) = (Ordering::Relaxed, now_ms.saturating_add(self.span_ms));
        let moved = || self.next_ms.compare_exchange(next, after, relaxed, relaxed);
        if now_ms >= next && moved().is_ok() {
            return Some(self.held_back.swap(0, relaxed));
        }
        self.held_back.fetch_add(1, relaxed);
        None
    }

    /// Returns the number of lines held back once the next one may pass, if there are any: the last
    /// ones of a burst are told although no other follows.
    pub(crate) fn overdue(&self, now_ms: u64) -> Option<u64> {
        let (next, held_back) = (&self.next_ms, &self.held_back);
        let is_due = now_ms >= next.load(Ordering::Relaxed);
        let held_back = is_due.then(|| held_back.swap(0, Ordering::Relaxed))?;
        (held_back > 0).then(|| {
            let after = now_ms.saturating_add(self.span_ms);
            next.fetch_max(after, Ordering::Relaxed);
            held_back
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_goes_at_once_and_repeats_are_counted() {
        let limit = Limit::new(1000);
        assert_eq!(limit.pass(0), Some(0));
        assert_eq!(limit.pass(1), None);
        assert_eq!(limit.pass(999), None);
        assert_eq!(limit.pass(1000), Some(2));
        assert_eq!(limit.pass(5000), Some(0));
    }

    #[test]
    fn the_last_repeats_of_a_burst_are_told_without_another() {
        let limit = Limit::new(1000);
        assert_eq!(limit.pass(0), Some(0));
        assert_eq!(limit.overdue(2000), None);
        assert_eq!((limit.pass(3000), limit.pass(3001)), (Some(0), None));
        assert_eq!(limit.overdue(3999), None);
        assert_eq!(limit.overdue(4000), Some(1));
        assert_eq!(limit.overdue(5000), None);
        assert_eq!(limit.pass(5000), Some(0));
    }

    #[test]
    fn threads_lose_no_line() {
        let limit = Limit::new(10);
        let passed: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        (0..1000)
                            .filter_map(|now| limit.pass(now))
                            .map(|held| held + 1)
                            .sum::<u64>()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let waiting = limit.pass(u64::MAX).map_or(0, |held| held);
        assert_eq!(passed + waiting, 4000);
    }
}
