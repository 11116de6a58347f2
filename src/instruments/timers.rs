//! Timers of this machine: frequency, resolution and cost of a reading.
//!
//! Measured once, when the first daemon of the process starts. Times are stored in units of their
//! timer since the start and converted to picoseconds for display. Waits are timed with CYCLE,
//! everything else with NANOSECOND, unless `chosen` falls back to another timer.
#![expect(unsafe_code, reason = "the processor's counter has no safe reader")]

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::telemetry::counter::counted;

/// Picoseconds in a second.
const PICOS: u128 = 1_000_000_000_000;

/// Duration of the measurement of CYCLE's frequency, for an error of a few parts per million.
const CALIBRATION: Duration = Duration::from_millis(10);

/// Number of consecutive readings that yield resolution and overhead.
const READINGS: u64 = 200;

/// Coarsest resolution with which NANOSECOND is used; beyond it, MICROSECOND is.
const NANOSECOND_RESOLUTION_MAX: u64 = 500;

counted! {
    /// A timer, in the order and by the name of `performance_timers`.
    TimerName {
        /// The processor's cycle counter.
        Cycle = "CYCLE",
        /// The monotonic clock.
        Nanosecond = "NANOSECOND",
        /// The monotonic clock, in microseconds.
        Microsecond = "MICROSECOND",
        /// The kernel's coarse clock.
        Millisecond = "MILLISECOND",
        /// CPU time of the calling thread, in nanoseconds.
        ThreadCpu = "THREAD_CPU",
    }
}

/// Measured properties of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Units per second.
    pub frequency: u64,
    /// Smallest observed step, units.
    pub resolution: u64,
    /// Cost of one reading, in cycles, or in nanoseconds without a cycle counter.
    pub overhead: u64,
}

/// The timers, their measured properties, and those in use.
#[derive(Debug)]
pub struct Timers {
    started: Instant,
    started_cycles: u64,
    /// In the order of [`TimerName::ALL`]; `None` if this machine has no reliable one.
    pub measured: [Option<Measured>; 5],
    /// Timer of waits.
    pub waits: TimerName,
    /// Timer of stages, statements and idle.
    pub others: TimerName,
}

impl Timers {
    /// Measures the timers of this machine; also returns warnings if the usual ones cannot be used.
    pub(super) fn measure() -> (Self, Vec<String>) {
        let mut timers = Self {
            started: Instant::now(),
            started_cycles: cycles(),
            measured: [None; 5],
            waits: TimerName::Nanosecond,
            others: TimerName::Nanosecond,
        };
        timers.measured = TimerName::ALL.map(|timer| timers.measure_one(timer));
        let (waits, others, warnings) = chosen(&timers.measured);
        (timers.waits, timers.others) = (waits, others);
        (timers, warnings)
    }

    fn measure_one(&self, timer: TimerName) -> Option<Measured> {
        let frequency = match timer {
            TimerName::Cycle if !cycles_are_invariant() => return None,
            TimerName::Cycle => {
                let (began, first) = (Instant::now(), cycles());
                std::thread::sleep(CALIBRATION);
                let counted = cycles().wrapping_sub(first);
                (counted as f64 / began.elapsed().as_secs_f64()) as u64
            }
            TimerName::Nanosecond | TimerName::ThreadCpu => 1_000_000_000,
            TimerName::Microsecond => 1_000_000,
            TimerName::Millisecond => 1_000,
        };
        let (began, first) = (Instant::now(), cycles());
        let (mut last, mut resolution) = (self.now(timer), u64::MAX);
        for _ in 0..READINGS {
            let now = self.now(timer);
            if now > last {
                resolution = resolution.min(now - last);
            }
            last = now;
        }
        let spent = match cycles().wrapping_sub(first) {
            0 => began.elapsed().as_nanos() as u64,
            spent => spent,
        };
        // A timer that did not move is assumed to move by one unit.
        let resolution = if resolution == u64::MAX { 1 } else { resolution };
        Some(Measured { frequency, resolution, overhead: spent / READINGS })
    }

    /// Returns the present time of a timer, in units since the start.
    #[inline]
    pub(super) fn now(&self, timer: TimerName) -> u64 {
        match timer {
            TimerName::Cycle => cycles().wrapping_sub(self.started_cycles),
            TimerName::Nanosecond => self.started.elapsed().as_nanos() as u64,
            TimerName::Microsecond => self.started.elapsed().as_micros() as u64,
            TimerName::Millisecond => nanos(ClockId::MonotonicCoarse) / 1_000_000,
            TimerName::ThreadCpu => nanos(ClockId::ThreadCPUTime),
        }
    }

    /// Converts units of a timer to picoseconds.
    pub(crate) fn picos(&self, timer: TimerName, units: u64) -> u64 {
        let frequency = self.measured[timer as usize].map_or(1, |it| it.frequency);
        let picos = u128::from(units) * PICOS / u128::from(frequency.max(1));
        u64::try_from(picos).unwrap_or(u64::MAX)
    }
}

/// Chooses the timer of waits and that of everything else; also returns warnings if these are not
/// the usual ones.
fn chosen(measured: &[Option<Measured>; 5]) -> (TimerName, TimerName, Vec<String>) {
    let mut warnings = Vec::new();
    let is_fine = measured[TimerName::Nanosecond as usize]
        .is_some_and(|it| it.resolution <= NANOSECOND_RESOLUTION_MAX);
    let others = match is_fine {
        true => TimerName::Nanosecond,
        false => {
            warnings.push(
                "The clock of this machine has no nanoseconds: stages and statements are timed in microseconds."
                    .to_owned(),
            );
            TimerName::Microsecond
        }
    };
    let waits = match measured[TimerName::Cycle as usize] {
        Some(_) => TimerName::Cycle,
        None => {
            warnings.push(format!(
                "The processor's counter is missing or changes its pace: waits are timed with {}.",
                others.name()
            ));
            others
        }
    };
    (waits, others, warnings)
}

fn nanos(clock: ClockId) -> u64 {
    Duration::try_from(clock_gettime(clock)).map_or(0, |time| time.as_nanos() as u64)
}

/// Returns true if the counter runs at a constant rate on all processors, whatever their state.
#[cfg(target_arch = "x86_64")]
fn cycles_are_invariant() -> bool {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = flags.lines().find(|line| line.starts_with("flags"));
    let has = |flag| flags.is_some_and(|flags| flags.split_ascii_whitespace().any(|it| it == flag));
    has("constant_tsc") && has("nonstop_tsc")
}

/// Returns true: the generic timer of the architecture has a constant rate.
#[cfg(not(target_arch = "x86_64"))]
fn cycles_are_invariant() -> bool {
    cfg!(target_arch = "aarch64")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has this instruction, and it touches nothing.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn cycles() -> u64 {
    let count: u64;
    // SAFETY: Linux allows every process to read this register, and reading it has no side effects.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
    count
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn cycles() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_replaced_with_a_warning() {
        let fine = Some(Measured { frequency: 1_000_000_000, resolution: 1, overhead: 20 });
        let coarse = fine.map(|it| Measured { resolution: 1_000, ..it });
        let with = |cycle, nanosecond| chosen(&[cycle, nanosecond, fine, fine, fine]);
        let (waits, others, warnings) = with(fine, fine);
        assert_eq!((waits, others), (TimerName::Cycle, TimerName::Nanosecond));
        assert!(warnings.is_empty());
        let (waits, others, warnings) = with(None, fine);
        assert_eq!((waits, others), (TimerName::Nanosecond, TimerName::Nanosecond));
        assert!(warnings[0].contains("waits are timed with NANOSECOND"));
        let (waits, others, warnings) = with(None, coarse);
        assert_eq!((waits, others), (TimerName::Microsecond, TimerName::Microsecond));
        assert_eq!(warnings.len(), 2);
    }

    #[test]
    fn timers_agree() {
        let (timers, _) = Timers::measure();
        let picos = |timer| timers.picos(timer, timers.now(timer));
        std::thread::sleep(Duration::from_millis(20));
        let wall = picos(TimerName::Nanosecond);
        assert!(wall >= 30_000_000_000, "{wall}");
        for timer in [timers.waits, timers.others, TimerName::Microsecond] {
            let apart = picos(timer).abs_diff(wall);
            assert!(apart < wall / 10 + 5_000_000_000, "{timer:?} is {apart} ps off");
        }
        for (timer, measured) in TimerName::ALL.into_iter().zip(timers.measured) {
            let there = timer != TimerName::Cycle || cycles_are_invariant();
            assert_eq!(measured.is_some(), there, "{timer:?}");
            assert!(measured.is_none_or(|it| it.frequency >= 1_000), "{timer:?}");
        }
        assert_eq!(timers.picos(TimerName::Microsecond, 3), 3_000_000);
    }
}
