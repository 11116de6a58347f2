//! Memory by pool: the present size, and the least and most seen by any reader.
//!
//! A pool's size is read on demand, without blocking the pool; allocations are not counted. The
//! pools are those of the daemon that started last in the process.

use parking_lot::Mutex;

use super::registry::{Instrument, registry};

/// Size of a pool, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Present size.
    pub now: u64,
    /// Least size seen.
    pub low: u64,
    /// Largest size seen.
    pub high: u64,
}

/// Reads the size of a pool, or `None` if it cannot be read right now.
pub type Gauge = Box<dyn Fn() -> Option<u64> + Send>;

struct Pool {
    instrument: &'static Instrument,
    gauge: Gauge,
    seen: Option<Used>,
}

static POOLS: Mutex<Vec<Pool>> = Mutex::new(Vec::new());

/// Sets the pools, each with the last part of its name.
pub(crate) fn set_pools(pools: Vec<(&str, Gauge)>) {
    let pools = pools.into_iter().filter_map(|(name, gauge)| {
        let instrument = registry()?.named(format!("memory/pinbad/{name}"))?;
        let seen = None;
        Some(Pool { instrument, gauge, seen })
    });
    *POOLS.lock() = pools.collect();
}

/// Returns the sizes of the memory instruments that are switched on.
pub(crate) fn read() -> Vec<(&'static Instrument, Used)> {
    let mut pools = POOLS.lock();
    let read = pools.iter_mut().map(|pool| {
        let (is_on, _) = pool.instrument.switches();
        let now = is_on.then(|| (pool.gauge)()).flatten();
        let now = now.unwrap_or_else(|| pool.seen.map_or(0, |it| it.now));
        let seen = pool.seen.get_or_insert(Used { now, low: now, high: now });
        *seen = Used { now, low: seen.low.min(now), high: seen.high.max(now) };
        (pool.instrument, *seen)
    });
    read.collect()
}

/// Restarts the least and largest sizes.
pub(crate) fn truncate() {
    POOLS.lock().iter_mut().for_each(|pool| pool.seen = None);
}
