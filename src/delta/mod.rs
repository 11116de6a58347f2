//! Deltas: the gains of every group, second by second. The one stream from which the last hour and
//! the rows of `/metrics` are built.
//!
//! ```text
//!   merger: groups --(the wall clock's second is over)--> Second --> queue --> rows of each report --> charts, metrics
//! ```
//!
//! A [`Second`] has a record for each group with a gain, by aggregate: the group's number, its
//! sums, its extremes and its histogram; and the keys of groups that are new to the reader, which
//! remembers them. It is made on the merger's thread.
//!
//! - A request belongs to the wall clock's second at its merge. If the clock is set back, seconds
//!   repeat and gain more. If it is set forward, there is a gap. Nothing is counted twice, and
//!   nothing is lost.
//! - A completed second is final; the merger ends the running one with its last run. Overflow into
//!   `(other)` for lack of memory happened after it was written.
//! - Rows that fill a new report, and those of a restored snapshot, were gained before: they make
//!   no deltas.
//! - A report created in a second has the gains since then; a dropped one, those until then.
//! - Reset and the end of a tick first log the running second so far.
//!
//! Memory is bounded. If the groups of one second exceed the size of a log, or all known groups
//! their limit, the further ones share a record of `(other)`. A reader that falls behind loses the
//! gains of the oldest seconds, whose requests are counted, but not the keys of their new groups;
//! if these are too many, it starts from nothing. The merger never waits.

mod groups;
mod queue;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use self::groups::Groups;
use self::queue::Queue;
pub use self::rows::{RowDelta, RowKey, RowReader};
use crate::input::squid::sums::Moves;
use crate::input::squid::{Followed, Positions};
use crate::instruments::Instrument;
use crate::report::SecondPart;
use crate::shutdown::Shutdown;

/// Interval at which a reader checks for completed seconds.
const PERIOD: Duration = Duration::from_millis(100);

/// The gains of one second.
#[derive(Debug, Default)]
pub struct Second {
    /// The wall clock's second.
    pub unix_secs: u64,
    /// Seconds until the next one began; nothing was merged in the further ones. 0 for one that a
    /// stop cut short.
    pub secs: u64,
    /// Monotonic milliseconds of the merger's first run in it.
    mono_ms: u64,
    /// Requests merged.
    pub requests: u64,
    /// Progress of all inputs at its end.
    pub reached: Reached,
    /// Objects that Squid moved to and from its disk.
    pub moves: Moves,
    /// Its parts, split where the list of reports changed.
    parts: Vec<SecondPart>,
    /// The reader's knowledge of groups.
    groups: Groups,
}

/// Progress at the end of a second: everything before that is in it or in earlier ones.
#[derive(Debug, Clone, Default)]
pub struct Reached {
    /// The number of this second, from 1 on in each process.
    pub second: u64,
    /// The id of the next request.
    pub next_id: u64,
    /// Positions in followed files; `None` if none is followed.
    pub files: Option<Arc<Positions>>,
}

/// Seconds in transit from the merger to the reader.
pub(crate) static QUEUE: Instrument = Instrument::wait("wait/synch/mutex/delta/queue", "lock");
/// Passes the gains of a second to charts, metrics and history; counts requests.
pub(crate) static TAKE_SECOND: Instrument = Instrument::new("stage/series/take second");

/// The merger's end of the stream.
#[derive(Debug, Default)]
pub struct Stream {
    running: Second,
    /// Seconds that ended.
    ended: u64,
    queue: Option<Arc<Mutex<Queue>>>,
    /// The sources whose positions, and what moved, belong to the gains.
    pub followed: Followed,
}

impl Stream {
    /// The reader of the seconds from now on, with a queue of `bytes_max` bytes.
    pub fn subscribe(&mut self, bytes_max: usize, now_ms: u64, unix_ms: u64) -> Reader {
        self.begin(now_ms, unix_ms);
        let queue = Arc::new(Mutex::new(Queue::new(bytes_max)));
        self.queue = Some(Arc::clone(&queue));
        Reader { queue, groups: Groups::default() }
    }

    fn begin(&mut self, mono_ms: u64, unix_ms: u64) -> Second {
        let running = Second { unix_secs: unix_ms / 1000, mono_ms, ..Second::default() };
        std::mem::replace(&mut self.running, running)
    }

    /// Whether the running second is over when the wall clock shows `unix_ms`.
    pub(crate) fn is_over(&self, unix_ms: u64) -> bool {
        self.running.unix_secs != unix_ms / 1000
    }

    /// The number of the second that ended last.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Ends the running second; `take` returns its content, and the id of the next request. Returns
    /// false if the reader no longer knows which groups exist.
    pub(crate) fn end_second(
        &mut self,
        now_ms: u64,
        unix_ms: u64,
        take: impl FnOnce() -> (Vec<SecondPart>, u64),
    ) -> bool {
        let mut over = self.begin(now_ms, unix_ms);
        self.ended += 1;
        over.reached.second = self.ended;
        let Some(queue) = &self.queue else { return true };
        let passed = (now_ms.saturating_sub(over.mono_ms) + 500) / 1000;
        over.secs = passed.max(1);
        // Both clocks agree, unless the wall clock was set.
        if let Some(secs) = self.running.unix_secs.checked_sub(over.unix_secs)
            && secs.abs_diff(over.secs) <= 1
        {
            over.secs = secs;
        }
        (over.parts, over.reached.next_id) = take();
        (over.reached.files, over.moves) = self.followed.reached();
        QUEUE.lock(queue).push(over)
    }

    /// Counts merged requests.
    pub(crate) fn merged(&mut self, requests: u64) {
        self.running.requests += requests;
    }
}

/// The reading end of the stream.
#[derive(Debug)]
pub struct Reader {
    queue: Arc<Mutex<Queue>>,
    groups: Groups,
}

impl Reader {
    /// Passes completed seconds to `take`, each with the number of requests in earlier seconds that
    /// were dropped unread.
    pub fn poll(&mut self, mut take: impl FnMut(&Second, u64)) {
        loop {
            let next = QUEUE.lock(&self.queue).pop();
            let Some((mut second, missed)) = next else { return };
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

    /// Polls until a stop is requested and once more then, on a thread of its own.
    pub fn run(mut self, shutdown: &Shutdown, mut take: impl FnMut(&Second, u64)) {
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
