//! Memory by pool: what each holds now, and the least and most that was seen when somebody looked.
//!
//! A pool tells how much it holds when it is asked, and nobody waits for it; nothing is counted as
//! it is taken. The pools are those of the daemon that started last in the process.

use parking_lot::Mutex;

use super::registry::{Instrument, registry};

/// Bytes that a pool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Now.
    pub now: u64,
    /// At least.
    pub low: u64,
    /// At most.
    pub high: u64,
}

/// Reads what a pool holds, unless it cannot be read just now.
pub type Gauge = Box<dyn Fn() -> Option<u64> + Send>;

struct Pool {
    instrument: &'static Instrument,
    gauge: Gauge,
    seen: Option<Used>,
}

static POOLS: Mutex<Vec<Pool>> = Mutex::new(Vec::new());

/// The pools that there are, by the ends of their names.
pub fn set_pools(pools: Vec<(&str, Gauge)>) {
    let pools = pools.into_iter().filter_map(|(name, gauge)| {
        let instrument = registry()?.named(format!("memory/pinbad/{name}"))?;
        let seen = None;
        Some(Pool {
            instrument,
            gauge,
            seen,
        })
    });
    *POOLS.lock() = pools.collect();
}

/// Bytes of the memory instruments that are switched on.
#[must_use]
pub fn read() -> Vec<(&'static Instrument, Used)> {
    let mut pools = POOLS.lock();
    let read = pools.iter_mut().map(|pool| {
        let (is_on, _) = pool.instrument.switches();
        let now = is_on.then(|| (pool.gauge)()).flatten();
        let now = now.unwrap_or_else(|| pool.seen.map_or(0, |it| it.now));
        let seen = pool.seen.get_or_insert(Used {
            now,
            low: now,
            high: now,
        });
        *seen = Used {
            now,
            low: seen.low.min(now),
            high: seen.high.max(now),
        };
        (pool.instrument, *seen)
    });
    read.collect()
}

/// Lets the least and the most begin anew.
pub fn truncate() {
    POOLS.lock().iter_mut().for_each(|pool| pool.seen = None);
}
