//! Time, as the stages see it: handed in, so that a test can move it by hand.
//!
//! Two clocks with two jobs. Everything that expires is measured on the monotonic clock, so a jump
//! of the wall clock neither drops nor revives data. The wall clock only labels: `timestamp`
//! columns, `as_of`, logs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat};

/// Where a stage gets the time from.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Milliseconds since some fixed moment; never goes backwards.
    fn mono_ms(&self) -> u64;

    /// Wall-clock milliseconds since 1970-01-01 UTC; may jump either way.
    fn unix_ms(&self) -> u64;

    /// Wall-clock seconds since 1970-01-01 UTC, cut to the 32 bits in which rows keep them (good
    /// until 2106).
    fn unix_secs(&self) -> u32 {
        u32::try_from(self.unix_ms() / 1000).unwrap_or(u32::MAX)
    }
}

/// Formats unix seconds as `2023-11-14T22:13:20Z`.
pub(crate) fn rfc3339(unix_secs: u64) -> String {
    let moment = DateTime::from_timestamp(unix_secs.cast_signed(), 0).unwrap_or_default();
    moment.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// The machine's own clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic reading starts near zero now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn mono_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn unix_ms(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A clock whose monotonic reading continues where that of another process ended, so that what that
/// process kept need not be translated: ticks, merge times and windows mean the same in both.
#[derive(Debug)]
pub struct ContinuedClock {
    clock: Arc<dyn Clock>,
    /// Added to the monotonic reading, modulo 2^64.
    ahead_ms: u64,
}

impl ContinuedClock {
    /// `clock`, whose monotonic reading is `mono_ms` now.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, mono_ms: u64) -> Self {
        let ahead_ms = mono_ms.wrapping_sub(clock.mono_ms());
        Self { clock, ahead_ms }
    }
}

impl Clock for ContinuedClock {
    fn mono_ms(&self) -> u64 {
        self.clock.mono_ms().wrapping_add(self.ahead_ms)
    }

    fn unix_ms(&self) -> u64 {
        self.clock.unix_ms()
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock {
    mono_ms: AtomicU64,
    unix_ms: AtomicU64,
}

impl ManualClock {
    /// A clock that shows 0 ms monotonic and `unix_ms` on the wall.
    #[must_use]
    pub const fn new(unix_ms: u64) -> Self {
        Self { mono_ms: AtomicU64::new(0), unix_ms: AtomicU64::new(unix_ms) }
    }

    /// Lets `ms` milliseconds pass on both clocks.
    pub fn advance_ms(&self, ms: u64) {
        self.mono_ms.fetch_add(ms, Ordering::SeqCst);
        self.unix_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets the wall clock alone, as an operator or NTP would.
    pub fn set_unix_ms(&self, unix_ms: u64) {
        self.unix_ms.store(unix_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn mono_ms(&self) -> u64 {
        self.mono_ms.load(Ordering::SeqCst)
    }

    fn unix_ms(&self) -> u64 {
        self.unix_ms.load(Ordering::SeqCst)
    }
}
