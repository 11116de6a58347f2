//! Deltas: what every group gained, second by second. The one stream that the last hour and the rows of `/metrics` read.
//!
//! ```text
//!   merger: groups --(the wall clock's second is over)--> Second --> queue --> rows of each report --> charts, metrics
//! ```
//!
//! A [`Second`] has a record of each group that gained something, by aggregate: the group's number, its sums, its extremes and
//! its histogram; and the keys of groups that are new to the reader, which remembers them. It is made on the merger's thread.
//!
//! - A request belongs to the second that the wall clock shows when it is merged. Set back, the clock shows seconds again:
//!   more was gained in them. Set forward, it leaves a gap. Nothing comes twice, and nothing is lost.
//! - A second that is over is final; the merger ends the running one with its last run. What overflows into `(other)` for want of memory did so after it was written.
//! - What a new report is filled with, and what a snapshot brings back, was gained before: it makes no deltas.
//! - A report that is made in a second has what was gained since; one that is dropped, what was gained until then.
//! - Reset and the end of a tick first log what the running second has so far.
//!
//! Memory is bounded. When the groups of one second take more than a log may, or all groups that are known, the further ones
//! share a record of `(other)`. A reader that falls behind loses what was gained in the oldest seconds, whose requests are
//! counted, but not the keys of groups that were new in them; when these are too many, it begins anew. The merger never waits.

mod groups;
mod rows;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::warn;

use self::groups::Groups;
pub use self::rows::{RowDelta, RowKey, RowReader};
use crate::input::squid::{Followed, Positions};
use crate::instruments::Instrument;
use crate::report::SecondPart;
use crate::shutdown::Shutdown;

/// How often a reader looks for seconds that are over.
const PERIOD: Duration = Duration::from_millis(100);

/// What was gained in one second.
#[derive(Debug, Default)]
pub struct Second {
    /// The wall clock's second.
    pub unix_secs: u64,
    /// How many seconds passed until the next one began; nothing was merged in the further ones. 0 for one that a stop cut
    /// short.
    pub secs: u64,
    /// Monotonic milliseconds of the merger's first run in it.
    mono_ms: u64,
    /// Requests merged.
    pub requests: u64,
    /// How far everything had come when it ended.
    pub reached: Reached,
    /// One after the other, where the reports changed in it.
    parts: Vec<SecondPart>,
    /// What its reader knows.
    groups: Groups,
}

/// How far everything had come at the end of a second: all before that is in it or in earlier ones.
#[derive(Debug, Clone, Default)]
pub struct Reached {
    /// The id that the next request gets.
    pub next_id: u64,
    /// Up to where followed files were read; `None` where none is followed.
    pub files: Option<Arc<Positions>>,
}

/// Seconds on their way from the merger to whoever reads them.
pub(crate) static QUEUE: Instrument = Instrument::wait("wait/synch/mutex/delta/queue", "lock");
/// What groups gained in a second goes to charts, metrics and history: in requests.
pub(crate) static TAKE_SECOND: Instrument = Instrument::new("stage/series/take second");

/// Where the merger puts seconds.
#[derive(Debug, Default)]
pub struct Stream {
    running: Second,
    queue: Option<Arc<Mutex<Queue>>>,
    /// Whose positions belong to what is gained.
    pub followed: Followed,
}

impl Stream {
    /// The reader of the seconds from now on, which may have seconds of so many bytes before it.
    pub fn subscribe(&mut self, bytes_max: usize, now_ms: u64, unix_ms: u64) -> Reader {
        self.begin(now_ms, unix_ms);
        let queue = Arc::new(Mutex::new(Queue {
            bytes_max,
            ..Queue::default()
        }));
        self.queue = Some(Arc::clone(&queue));
        Reader {
            queue,
            groups: Groups::default(),
        }
    }

    fn begin(&mut self, mono_ms: u64, unix_ms: u64) -> Second {
        let running = Second {
            unix_secs: unix_ms / 1000,
            mono_ms,
            ..Second::default()
        };
        std::mem::replace(&mut self.running, running)
    }

    /// Whether the running second is over when the wall clock shows `unix_ms`.
    pub(crate) fn is_over(&self, unix_ms: u64) -> bool {
        self.running.unix_secs != unix_ms / 1000
    }

    /// The running second is over; `take` returns what it has, and the id that the next request gets. False when the reader
    /// does not know any more which groups there are.
    #[must_use]
    pub(crate) fn end_second(
        &mut self,
        now_ms: u64,
        unix_ms: u64,
        take: impl FnOnce() -> (Vec<SecondPart>, u64),
    ) -> bool {
        let mut over = self.begin(now_ms, unix_ms);
        let Some(queue) = &self.queue else {
            return true;
        };
        let passed = (now_ms.saturating_sub(over.mono_ms) + 500) / 1000;
        over.secs = passed.max(1);
        // Both clocks agree, unless that of the wall was set.
        if let Some(secs) = self.running.unix_secs.checked_sub(over.unix_secs)
            && secs.abs_diff(over.secs) <= 1
        {
            over.secs = secs;
        }
        (over.parts, over.reached.next_id) = take();
        over.reached.files = self.followed.positions();
        QUEUE.lock(queue).push(over)
    }

    /// So many requests were merged.
    pub(crate) fn merged(&mut self, requests: u64) {
        self.running.requests += requests;
    }
}

/// Seconds that wait for the reader.
#[derive(Debug, Default)]
struct Queue {
    seconds: VecDeque<Second>,
    /// How many of these, the oldest, are dropped: of them only what happened to directories is kept.
    dropped: usize,
    bytes: usize,
    bytes_max: usize,
    /// Requests of seconds that were dropped.
    missed: u64,
}

impl Queue {
    /// False when so much happened to directories that even that is dropped.
    fn push(&mut self, second: Second) -> bool {
        let newest = second.bytes();
        self.bytes += newest;
        self.seconds.push_back(second);
        while self.bytes > self.bytes_max && self.dropped + 1 < self.seconds.len() {
            let second = &mut self.seconds[self.dropped];
            self.bytes -= second.bytes();
            second.parts.iter_mut().for_each(SecondPart::drop_gains);
            self.bytes += second.bytes();
            self.missed += second.requests;
            self.dropped += 1;
        }
        let is_known = self.bytes - newest <= self.bytes_max;
        if !is_known {
            let lost = self.seconds.drain(..).skip(self.dropped);
            self.missed += lost.map(|it| it.requests).sum::<u64>();
            (self.dropped, self.bytes) = (0, 0);
        }
        is_known
    }

    /// The oldest second, and the requests of those before it that were dropped; `None`: it is one of them.
    fn pop(&mut self) -> Option<(Second, Option<u64>)> {
        let second = self.seconds.pop_front()?;
        self.bytes -= second.bytes();
        let is_dropped = self.dropped > 0;
        self.dropped -= usize::from(is_dropped);
        let missed = (!is_dropped).then(|| std::mem::take(&mut self.missed));
        Some((second, missed))
    }
}

/// The stream's end to read from.
#[derive(Debug)]
pub struct Reader {
    queue: Arc<Mutex<Queue>>,
    groups: Groups,
}

impl Reader {
    /// Gives the seconds that are over to `take`, each with the requests of seconds before it that were dropped unread.
    pub fn poll(&mut self, mut take: impl FnMut(&Second, u64)) {
        loop {
            let next = QUEUE.lock(&self.queue).pop();
            let Some((mut second, missed)) = next else {
                return;
            };
            let mut stage = TAKE_SECOND.begin();
            self.groups.follow(&second.parts);
            let Some(missed) = missed else { continue };
            self.groups.sort(&second);
            second.groups = std::mem::take(&mut self.groups);
            take(&second, missed);
            self.groups = second.groups;
            stage.worked(second.requests);
        }
    }

    /// The same until a stop is asked for and once more then, on a thread of its own.
    pub fn run(mut self, shutdown: &Shutdown, mut take: impl FnMut(&Second, u64)) {
        // On Linux this is the thread's own: whoever receives or merges goes first.
        if let Err(error) = rustix::process::setpriority_process(None, 5) {
            warn!(%error, "The series thread keeps its priority.");
        }
        while !shutdown.requested() {
            self.poll(&mut take);
            std::thread::sleep(PERIOD);
        }
        self.poll(take);
    }
}

// History is one of the readers.
#[cfg(feature = "sql")]
#[cfg(test)]
mod tests;
