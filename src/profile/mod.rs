//! The profile: the functions PHP was running, as sampled by the `stat` extension about a thousand
//! times a second.
//!
//! ```text
//! input::stat::client -> Queue -> Intake -> Pool  <-  Snapshot  <-  query
//! ```
//!
//! One thread ([`Intake`]) takes the lines of all `[[stat]]` sources and appends samples to a
//! cyclic [`Pool`] of fixed size. Readers take a [`Snapshot`], which holds the lock only while one
//! segment is copied. Without a `[[stat]]` entry none of this exists.

pub mod definition;
mod intake;
mod names;
mod new_samples;
mod pool;
pub mod recent;
pub mod report;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;

pub use self::intake::Intake;
pub(crate) use self::intake::TAKE_SAMPLES;
pub use self::names::Names;
pub(crate) use self::new_samples::NewSamples;
pub use self::pool::{
    Frame, Pool, Run, Sample, SavedSegment, Segment, Snapshot, StatRequest, pool_bytes,
};
use self::recent::{Recent, span_us};
use crate::clock::Clock;
use crate::config::{StatAddress, StatSource};
use crate::input::stat::Source;
use crate::instruments::Instrument;
use crate::pool::snapshot::Damage;
use crate::telemetry::reading::{Group, Place, readings};

/// Lock over the stored samples.
pub(crate) static POOL: Instrument = Instrument::wait("wait/synch/mutex/profile/pool", "lock");

/// Samples and their sources.
#[derive(Debug)]
pub struct Profile {
    /// Sources of samples.
    pub sources: Vec<Arc<Source>>,
    /// The stored samples.
    pub pool: Mutex<Pool>,
    clock: Arc<dyn Clock>,
    runs: AtomicU64,
    /// The last window computed.
    recent: Mutex<Option<(Option<Duration>, Arc<Recent>)>>,
}

/// Time for which a computed window is reused, microseconds.
const RECENT_US: i64 = 1_000_000;

impl Profile {
    /// Creates an empty profile.
    pub(crate) fn new(
        sources: Vec<Arc<Source>>,
        pool_size: usize,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        Arc::new(Self {
            sources,
            pool: Mutex::new(Pool::new(pool_size)),
            clock,
            runs: AtomicU64::new(0),
            recent: Mutex::default(),
        })
    }

    /// Creates a run with the next number.
    fn next_run(&self, host: &Arc<str>) -> Arc<Run> {
        let number = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::new(Run::new(number, Arc::clone(host)))
    }

    /// Returns the size of the samples, bytes.
    pub(crate) fn bytes(&self) -> usize {
        POOL.lock(&self.pool).len() * size_of::<Sample>()
    }

    /// Removes all samples.
    pub(crate) fn clear(&self) {
        POOL.lock(&self.pool).clear();
        *self.recent.lock() = None;
    }

    /// All segments, for a snapshot of the state.
    pub(crate) fn segments(&self) -> Vec<Arc<Segment>> {
        POOL.lock(&self.pool).behind(0).segments
    }

    /// Adds the next segment of such a snapshot, before anything is sampled.
    ///
    /// # Errors
    /// As [`Pool::restore`].
    pub(crate) fn restore(&self, saved: SavedSegment) -> Result<(), Damage> {
        let run = POOL.lock(&self.pool).restore(saved)?;
        // Later runs are others.
        self.runs.fetch_max(run, Ordering::Relaxed);
        Ok(())
    }

    /// Takes a snapshot; `None` while readers hold too many segments that have left the pool.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        // Drop a cached window that nobody has used for a while: it keeps segments alive that have
        // left the pool.
        let now_us = self.now_us();
        let _old = self.recent.lock().take_if(|(_, it)| is_old(it, now_us));
        POOL.lock(&self.pool).snapshot()
    }

    /// Returns the samples of a window that ends now, grouped by request; `window` is `None` for
    /// all samples. Reuses a result up to one second old. Returns `None` under the condition of
    /// [`Profile::snapshot`].
    pub(crate) fn recent(&self, window: Option<Duration>) -> Option<Arc<Recent>> {
        let mut kept = self.recent.lock();
        let now_us = self.now_us();
        // Drop it first: the segments it holds may be the reason why snapshots are refused.
        let _other = kept.take_if(|(of, it)| *of != window || is_old(it, now_us));
        if let Some((_, recent)) = &*kept {
            return Some(Arc::clone(recent));
        }
        let from_us = window.map_or(i64::MIN, |it| now_us.saturating_sub(span_us(it)));
        let snapshot = POOL.lock(&self.pool).snapshot()?;
        let recent = Arc::new(Recent::new(snapshot, from_us, now_us));
        *kept = Some((window, Arc::clone(&recent)));
        Some(recent)
    }

    /// Returns the samples after this id, grouped by request, and the id of the last.
    pub(crate) fn since(&self, id: u64) -> (Recent, u64) {
        let (snapshot, last_id) = {
            let pool = POOL.lock(&self.pool);
            (pool.behind(id.min(pool.last_id())), pool.last_id())
        };
        let mut recent = Recent::new(snapshot, i64::MIN, self.now_us());
        recent.first_id = id.saturating_add(1);
        (recent, last_id)
    }

    fn now_us(&self) -> i64 {
        i64::try_from(self.clock.mono_ms().saturating_mul(1000)).unwrap_or(i64::MAX)
    }

    /// Returns the offset from times of [`Run::time_us`] to microseconds since 1970.
    pub(crate) fn unix_us(&self) -> i64 {
        let ms = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let (unix_ms, mono_ms) = (ms(self.clock.unix_ms()), ms(self.clock.mono_ms()));
        unix_ms.saturating_sub(mono_ms).saturating_mul(1000)
    }

    /// Returns the counters for the status.
    pub(crate) fn status(&self) -> Vec<Group> {
        let sources = self.sources.iter().enumerate();
        let groups = sources.map(|(at, source)| source_group(at, source));
        let pool = POOL.lock(&self.pool);
        let held = readings! {
            Gauge sample_rows = pool.len(), "Samples of PHP's functions that are kept.";
            Gauge sample_rows_max = pool.samples_max, "How many samples fit (profile.pool_size).";
        };
        drop(pool);
        groups.chain([Group::new(Place::Object("profile"), held)]).collect()
    }
}

fn is_old(recent: &Recent, now_us: i64) -> bool {
    now_us.saturating_sub(recent.now_us) >= RECENT_US
}

/// Position of the list of sources in the status.
pub const STATS: Place = Place::List("stats", "stat");

fn source_group(at: usize, source: &Source) -> Group {
    let stream = source.config.stream.to_string();
    let readings = source.counters.counts().readings();
    let group = Group::listed(STATS, at, ("stream", stream.clone()), readings);
    let texts = json!({
        "stream": stream,
        "name": host_of(&source.config).to_string(),
        "place": source.config.location.to_string(),
        "problem": source.problem.lock().clone(),
        "absent": source.absent.load(Ordering::Relaxed),
        "lines_invalid_by_reason": group.value("lines_invalid"),
        "samples_mended_by_reason": group.value("samples_mended"),
        "last_invalid": source.example.lock().clone(),
    });
    group.with_texts(texts)
}

/// Returns the host of a source's samples: its configured name, or this machine's, which is also
/// what Pinba clients on this machine send.
fn host_of(config: &StatSource) -> Arc<str> {
    let host = match (&config.name, &config.stream) {
        (Some(name), _) => name.clone(),
        (None, StatAddress::Tcp(address)) => match address.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => this_host(),
            Ok(address) => address.ip().to_string(),
            Err(_) => match address.rsplit_once(':') {
                Some((host, _)) if host != "localhost" => host.to_owned(),
                _ => this_host(),
            },
        },
        (None, StatAddress::Unix(_)) => this_host(),
    };
    host.into()
}

/// Returns the name of this host.
pub(crate) fn this_host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or("localhost".to_owned(), |name| name.trim_end().to_owned())
}

#[cfg(test)]
pub(crate) mod tests;
