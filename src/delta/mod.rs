//! Deltas: what every group gained, second by second. The one stream that the last hour and the rows of `/metrics` read.
//!
//! ```text
//!   merger: groups --(the wall clock's second is over)--> Second --> queue of each reader --> ReportRows: rows of a report
//! ```
//!
//! A [`Second`] has a record of each group that gained something, by aggregate: its key as text, its sums, its extremes and
//! its histogram. It is made on the merger's thread, never changes, and refers to nothing else: a reader may keep it.
//!
//! - A request belongs to the second that the wall clock shows when it is merged. Set back, the clock shows seconds again:
//!   more was gained in them. Set forward, it leaves a gap. Nothing comes twice, and nothing is lost.
//! - A second that is over is final. What overflows into `(other)` for want of memory did so after its delta was written.
//! - What a new report is filled with, and what a snapshot brings back, was gained before: it makes no deltas.
//! - Reset and the end of a tick write down first what the running second has so far.
//!
//! Memory is bounded. When the groups of one second take more than a log may, the further ones share a record of `(other)`.
//! A reader that falls behind loses the oldest seconds, whose requests are counted; the merger never waits.

mod rows;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::warn;

pub use self::rows::{FIRST_ID, OTHER_ID, ReportRows, RowDelta, RowIds, TOTAL_ID, key_names};
use crate::report::Deltas;
use crate::shutdown::Shutdown;

/// How often a reader looks for seconds that are over.
const PERIOD: Duration = Duration::from_millis(100);

/// What was gained in one second.
#[derive(Debug, Default)]
pub struct Second {
    /// The wall clock's second.
    pub unix_secs: u64,
    /// How many seconds passed until the next one began; nothing was merged in the further ones.
    pub secs: u64,
    /// Monotonic milliseconds of the merger's first run in it.
    mono_ms: u64,
    /// Requests merged.
    pub requests: u64,
    /// By number of the aggregate.
    aggregates: Vec<(usize, Deltas)>,
}

impl Second {
    fn deltas_of(&self, aggregate: usize) -> Option<&Deltas> {
        let mut aggregates = self.aggregates.iter();
        aggregates
            .find(|(at, _)| *at == aggregate)
            .map(|(_, it)| it)
    }

    fn bytes(&self) -> usize {
        self.aggregates.iter().map(|(_, it)| it.bytes()).sum()
    }
}

/// Where the merger puts seconds.
#[derive(Debug, Default)]
pub struct Stream {
    running: Second,
    queues: Vec<Arc<Mutex<Queue>>>,
}

impl Stream {
    /// A reader of the seconds from now on, which may have seconds of so many bytes before it.
    pub fn subscribe(&mut self, bytes_max: usize, now_ms: u64, unix_ms: u64) -> Reader {
        self.begin(now_ms, unix_ms);
        let queue = Arc::new(Mutex::new(Queue {
            bytes_max,
            ..Queue::default()
        }));
        self.queues.push(Arc::clone(&queue));
        Reader { queue }
    }

    fn begin(&mut self, mono_ms: u64, unix_ms: u64) -> Second {
        let running = Second {
            unix_secs: unix_ms / 1000,
            mono_ms,
            ..Second::default()
        };
        std::mem::replace(&mut self.running, running)
    }

    /// The wall clock shows `unix_ms`. If the running second is over, it has what `take` returns.
    pub(crate) fn advance(
        &mut self,
        now_ms: u64,
        unix_ms: u64,
        take: impl FnOnce() -> Vec<(usize, Deltas)>,
    ) {
        if self.queues.is_empty() || self.running.unix_secs == unix_ms / 1000 {
            return;
        }
        let mut over = self.begin(now_ms, unix_ms);
        let passed = (now_ms.saturating_sub(over.mono_ms) + 500) / 1000;
        over.secs = passed.max(1);
        // Both clocks agree, unless that of the wall was set.
        if let Some(secs) = self.running.unix_secs.checked_sub(over.unix_secs)
            && secs.abs_diff(over.secs) <= 1
        {
            over.secs = secs;
        }
        over.aggregates = take();
        let over = Arc::new(over);
        for queue in &self.queues {
            queue.lock().push(Arc::clone(&over));
        }
    }

    /// So many requests were merged.
    pub(crate) fn merged(&mut self, requests: u64) {
        self.running.requests += requests;
    }
}

/// Seconds that wait for a reader.
#[derive(Debug, Default)]
struct Queue {
    seconds: VecDeque<Arc<Second>>,
    bytes: usize,
    bytes_max: usize,
    /// Requests of seconds that were dropped.
    missed: u64,
}

impl Queue {
    fn push(&mut self, second: Arc<Second>) {
        self.bytes += second.bytes();
        self.seconds.push_back(second);
        while self.bytes > self.bytes_max && self.seconds.len() > 1 {
            let dropped = self.pop();
            self.missed += dropped.map_or(0, |second| second.requests);
        }
    }

    fn pop(&mut self) -> Option<Arc<Second>> {
        let second = self.seconds.pop_front()?;
        self.bytes -= second.bytes();
        Some(second)
    }
}

/// What reads seconds.
pub trait Consumer: Send + std::fmt::Debug {
    /// Takes a second in. `missed`: requests of seconds before it that were dropped unread.
    fn take(&mut self, second: &Second, missed: u64);
}

/// The stream's end to read from.
#[derive(Debug)]
pub struct Reader {
    queue: Arc<Mutex<Queue>>,
}

impl Reader {
    /// Gives the seconds that are over to consumers.
    pub fn poll(&self, consumers: &mut [Box<dyn Consumer>]) {
        loop {
            let (second, missed) = {
                let mut queue = self.queue.lock();
                (queue.pop(), std::mem::take(&mut queue.missed))
            };
            let Some(second) = second else { return };
            for consumer in &mut *consumers {
                consumer.take(&second, missed);
            }
        }
    }

    /// The same until a stop is asked for, on a thread of its own.
    pub fn run(&self, mut consumers: Vec<Box<dyn Consumer>>, shutdown: &Shutdown) {
        // On Linux this is the thread's own: whoever receives or merges goes first.
        if let Err(error) = rustix::process::setpriority_process(None, 5) {
            warn!(%error, "The series thread keeps its priority.");
        }
        while !shutdown.requested() {
            self.poll(&mut consumers);
            std::thread::sleep(PERIOD);
        }
    }
}

#[cfg(test)]
mod tests;
