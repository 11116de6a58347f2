//! Time, as the stages see it: handed in, so that a test can move it by hand.
//!
//! Two clocks with two jobs. Everything that expires is measured on the monotonic clock, so a jump
//! of the wall clock neither drops nor revives data. The wall clock only labels: `timestamp`
//! columns, `as_of`, logs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat};

use crate::config::units::exact_duration;

/// Where a stage gets the time from.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Milliseconds since some fixed moment; never goes backwards.
    fn mono_ms(&self) -> u64;

    /// Wall-clock milliseconds since 1970-01-01 UTC; may jump either way.
    fn unix_ms(&self) -> u64;

    /// Wall-clock milliseconds at a moment of the monotonic clock: the same each time, unless the
    /// wall clock is set in between. A moment before the process is negative, modulo 2^64.
    fn unix_ms_at(&self, mono_ms: u64) -> u64 {
        let age_ms = self.mono_ms().wrapping_sub(mono_ms);
        self.unix_ms().wrapping_sub(age_ms)
    }

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

/// How far the wall clock may be behind what is stored without a warning, seconds: small
/// corrections are normal.
const BEHIND_MAX: u64 = 60;

/// Says how far the wall clock is behind the latest stored time, `stored_until` (unix seconds);
/// `None` if by no more than a minute.
pub(crate) fn why_clock_behind(clock: &dyn Clock, stored_until: u64) -> Option<String> {
    // 0: nothing was stored.
    let now = if stored_until == 0 { 0 } else { clock.unix_ms() / 1000 };
    let behind = stored_until.saturating_sub(now);
    (behind > BEHIND_MAX).then(|| {
        format!(
            "the wall clock is {} behind what was stored last: it was ahead then, or is wrong now; until it reaches {}, spans that \
             end now lack what was stored under later times, and raw requests show the latest second that it had",
            exact_duration(Duration::from_secs(behind)),
            rfc3339(stored_until),
        )
    })
}

/// A wall clock that jumps by this much was set: NTP lets one that is off by less run faster or
/// slower, and the monotonic clock with it.
const SET_MS: u64 = 100;

/// When a monotonic clock was zero, in unix milliseconds. Both clocks are cut to milliseconds, so
/// their difference jumps by one; this changes only when the wall clock is set.
#[derive(Debug)]
struct MonoZero(AtomicU64);

impl MonoZero {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes the present difference of the clocks.
    fn update(&self, difference_ms: u64) {
        if self.get().abs_diff(difference_ms) >= SET_MS {
            self.0.store(difference_ms, Ordering::Relaxed);
        }
    }
}

/// The machine's own clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
    zero: MonoZero,
}

impl SystemClock {
    /// A clock whose monotonic reading starts near zero now.
    pub fn new() -> Self {
        let clock = Self { start: Instant::now(), zero: MonoZero(AtomicU64::new(0)) };
        clock.zero.update(clock.unix_ms());
        clock
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

    fn unix_ms_at(&self, mono_ms: u64) -> u64 {
        let (before, unix_ms) = (self.mono_ms(), self.unix_ms());
        // Not if this thread had to wait in between.
        if self.mono_ms() - before <= 1 {
            self.zero.update(unix_ms.saturating_sub(before));
        }
        self.zero.get().wrapping_add(mono_ms)
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

    fn unix_ms_at(&self, mono_ms: u64) -> u64 {
        self.clock.unix_ms_at(mono_ms.wrapping_sub(self.ahead_ms))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough for both clocks to go on by some milliseconds, at different times.
    #[test]
    fn a_moment_keeps_its_unix_time() {
        let clock = ContinuedClock::new(Arc::new(SystemClock::new()), 5_000_000);
        let now_ms = clock.mono_ms();
        let moments = [now_ms, now_ms - 3_000_000];
        let unix = || moments.map(|moment| clock.unix_ms_at(moment));
        let first = unix();
        assert_eq!(first[0] - first[1], 3_000_000);
        assert!(first[0].abs_diff(clock.unix_ms()) < 60_000);
        let later = clock.mono_ms() + 20;
        while clock.mono_ms() < later {
            assert_eq!(unix(), first);
        }
    }

    #[test]
    fn a_wall_clock_that_is_set_is_followed() {
        let zero = MonoZero(AtomicU64::new(1_000_000));
        let seen = |difference_ms| {
            zero.update(difference_ms);
            zero.get()
        };
        assert_eq!([1_000_001, 999_999, 1_000_099].map(seen), [1_000_000; 3]);
        assert_eq!([1_003_000, 1_002_999, 900_000].map(seen), [1_003_000, 1_003_000, 900_000]);
        let clock = Arc::new(ManualClock::new(10_000_000));
        let continued = ContinuedClock::new(Arc::<ManualClock>::clone(&clock), 70_000);
        assert_eq!(continued.unix_ms_at(60_000), 9_990_000);
        clock.advance_ms(5_000);
        assert_eq!(continued.unix_ms_at(60_000), 9_990_000);
        clock.set_unix_ms(30_000_000);
        assert_eq!(continued.unix_ms_at(75_000), 30_000_000);
    }
}
