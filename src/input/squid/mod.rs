//! Squid's logs: from lines to records.
//!
//! Each `[[squid]]` entry is a [`Source`] with a thread: `udp` receives datagrams, `tcp` connections, `file` follows a log. All
//! hand bytes to a [`Decoder`] of the thread's own, which makes lines of them (`lines`), reads those (`line`), finds out what
//! came twice or not at all (`sequence`), and writes a record for each request (`request`). What a line says of time that
//! was spent becomes timers with the tag `activity`; what is not known becomes nothing. Lines that cannot be used are
//! counted by reason, and the last of them is kept to be shown.

pub mod activity;
mod bottleneck;
pub mod file;
pub mod line;
mod lines;
mod request;
pub mod sequence;
pub mod sums;
pub mod tcp;
pub mod url;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use self::line::{BadLine, Line};
pub use self::lines::{Ending, Lines};
use self::request::RequestWriter;
use self::sequence::{Arrival, Known, SEQUENCES_BYTES, Sequences};
use self::sums::{SUMS_BYTES, Sums};
use super::Decode;
use super::record::{
    DecodeCounts, Example, Hasher, RecordSink, RecordWriter, RejectReason, TextLimits,
};
use super::rewrite::Rewrite;
use crate::clock::Clock;
use crate::config::{SquidFrom, SquidSource};
use crate::instruments::Instrument;
use crate::limits::LINE_BYTES_MAX;
use crate::ring::Producer;
use crate::shutdown::Shutdown;
use crate::telemetry::SocketCounters;
use crate::telemetry::counters::SquidCounters;

/// What was read of a log of Squid becomes records: in lines that could be used. Datagrams are decoded as those of Pinba.
pub(crate) static TAKE_LINES: Instrument = Instrument::new("stage/squid/take lines");

/// One `[[squid]]` entry: what it is to do, and what became of it. Its thread writes; status and snapshot read.
#[derive(Debug)]
pub struct Source {
    /// The entry.
    pub config: SquidSource,
    /// What was counted.
    pub counters: SquidCounters,
    /// Where it is, for the next process.
    pub progress: Mutex<Progress>,
    /// Whether that is where it begins: history may know better, once it is open.
    has_begun: AtomicBool,
    /// What its lines add up to that no request tells.
    pub sums: Mutex<Sums>,
    /// Where it was in a file when it had pushed so many records: the oldest one that may be asked for, and some later ones.
    marks: Mutex<VecDeque<Mark>>,
    /// The last line that was not taken.
    pub example: Mutex<Option<Example>>,
}

/// Where a source is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The runs of Squid.
    pub runs: Vec<Known>,
    /// How far a file was read.
    pub file: Option<file::Position>,
    /// How many requests that follow there were merged already.
    pub merged: u64,
}

/// Where sources were, by what they are read from.
pub type Positions = BTreeMap<String, Progress>;

/// The sources that follow files, each with what the ring counts of it.
#[derive(Debug, Default)]
pub struct Followed(pub Vec<(Arc<Source>, Arc<SocketCounters>)>);

impl Followed {
    /// Where they were when what has left the ring so far had been read; `None` where no file is followed. Call it while
    /// nothing can be merged.
    #[must_use]
    pub fn positions(&self) -> Option<Arc<Positions>> {
        let begun = self.0.iter().filter(|(source, _)| source.has_begun());
        let positions = begun.map(|(source, counters)| {
            let (popped, overwritten) = (&counters.requests_popped, &counters.requests_overwritten);
            let left = popped.get().saturating_add(overwritten.get());
            (source.config.from.to_string(), source.at(left).0)
        });
        (!self.0.is_empty()).then(|| Arc::new(positions.collect()))
    }
}

/// Where a source was in a file.
#[derive(Debug)]
struct Mark {
    /// Records that it had pushed.
    pushed: u64,
    progress: Progress,
    counts: SquidCounters,
}

/// Marks at a time; the last one moves on when there are more.
const MARKS_MAX: usize = 64;

impl Source {
    /// Nothing has come yet.
    #[must_use]
    pub fn new(config: SquidSource) -> Arc<Self> {
        Arc::new(Self {
            config,
            counters: SquidCounters::default(),
            progress: Mutex::default(),
            has_begun: AtomicBool::new(false),
            sums: Mutex::default(),
            marks: Mutex::default(),
            example: Mutex::default(),
        })
    }

    /// It may be read: from `known`, if that is known better than where it was.
    pub fn begin(&self, known: Option<Progress>) {
        let mut progress = self.progress.lock();
        if let Some(known) = known {
            *progress = known;
        }
        self.has_begun.store(true, Ordering::Release);
    }

    /// Whether it may be read.
    fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Whether it follows a file.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        matches!(self.config.from, SquidFrom::File(..))
    }

    /// Where it was when what has left the ring so far had been read, and what it had counted: `left` of its records, while
    /// nothing more leaves.
    #[must_use]
    pub fn at(&self, left: u64) -> (Progress, SquidCounters) {
        let marks = self.marks.lock();
        let Some(mark) = marks.iter().rev().find(|mark| mark.pushed <= left) else {
            return (self.progress.lock().clone(), self.counters.counts());
        };
        let mut progress = mark.progress.clone();
        progress.merged = progress
            .merged
            .saturating_add(left.saturating_sub(mark.pushed));
        (progress, mark.counts.counts())
    }

    /// All that was read up to this position of a file is pushed.
    fn mark(&self, position: file::Position, counters: &SocketCounters) {
        let progress = {
            let mut progress = self.progress.lock();
            progress.file = Some(position);
            progress.clone()
        };
        let (popped, overwritten) = (&counters.requests_popped, &counters.requests_overwritten);
        let left = popped.get().saturating_add(overwritten.get());
        let mut marks = self.marks.lock();
        while marks.get(1).is_some_and(|mark| mark.pushed <= left) {
            marks.pop_front();
        }
        if marks.len() >= MARKS_MAX {
            marks.pop_back();
        }
        marks.push_back(Mark {
            pushed: counters.requests_pushed.get(),
            progress,
            counts: self.counters.counts(),
        });
    }

    /// Counts a line that is not taken.
    fn reject(&self, reason: BadLine, line: &[u8]) {
        self.counters.lines_invalid.add_one(reason as usize);
        *self.example.lock() = Some(Example::of(reason.name(), line));
    }
}

/// Who sends what is not sent over a network.
pub const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Turns lines into records, with `R` as name rules. One for each source.
#[derive(Debug)]
pub struct Decoder<R> {
    source: Arc<Source>,
    sequences: Sequences,
    writer: RequestWriter<R>,
    /// Of datagrams: the lines of each end with it.
    lines: Lines,
    sender: SocketAddr,
    counts: DecodeCounts,
    /// Whether there is something that `source` does not know yet.
    moved: bool,
    /// Whether requests have come when they ended, whenever that was.
    has_own_time: bool,
    /// Requests that follow and were merged already.
    merged: u64,
}

impl<R: Rewrite> Decoder<R> {
    /// One that goes on where the source was.
    #[must_use]
    pub fn new(source: Arc<Source>, limits: TextLimits, hasher: Hasher, rules: R) -> Self {
        let progress = source.progress.lock();
        let (sequences, merged) = (Sequences::restored(&progress.runs), progress.merged);
        drop(progress);
        Self {
            writer: RequestWriter::new(limits, hasher, rules),
            source,
            sequences,
            lines: Lines::default(),
            sender: NOBODY,
            counts: DecodeCounts::default(),
            moved: false,
            has_own_time: false,
            merged,
        }
    }

    /// Goes on where the source is by now.
    fn go_on(&mut self) {
        let progress = self.source.progress.lock();
        self.sequences = Sequences::restored(&progress.runs);
        self.merged = progress.merged;
    }

    /// The same for lines of the past: each has come in the second in which its request ended.
    #[must_use]
    pub fn of_the_past(self) -> Self {
        Self {
            has_own_time: true,
            ..self
        }
    }

    /// Takes one line from `sender`; false if it could not be used.
    pub fn take(
        &mut self,
        line: &[u8],
        ending: Ending,
        received_secs: u32,
        sink: &mut impl RecordSink,
    ) -> bool {
        let counters = &self.source.counters;
        counters.lines_received.add(1);
        self.moved = true;
        let parsed = match ending {
            Ending::TooLong => Err(BadLine::TooLong),
            ending => line::parse(line, ending == Ending::Cut),
        };
        let request = match parsed {
            Ok(Line::Request(request)) => request,
            Ok(Line::Swap(swap)) => {
                counters.swaps.add(1);
                self.source.sums.lock().swap(&swap, received_secs);
                return true;
            }
            Err(reason) => {
                self.sequences.unnumbered(self.sender);
                self.source.reject(reason, line);
                return false;
            }
        };
        match request.sequence {
            None => self.sequences.unnumbered(self.sender),
            Some(number) => match self.sequences.record(self.sender, number, request.start_ms) {
                Arrival::Next { lost } => counters.lines_lost.add(lost),
                Arrival::Late => counters.lines_late.add(1),
                Arrival::Repeated => {
                    counters.lines_repeated.add(1);
                    return true;
                }
            },
        }
        let config = &self.source.config;
        let ip = self.sender.ip();
        let received_secs = match self.has_own_time {
            true => request.ended_secs(),
            false => received_secs,
        };
        if let Some(left) = self.merged.checked_sub(1) {
            self.merged = left;
            counters.requests.add(1);
            return true;
        }
        self.counts.requests_decoded = self.counts.requests_decoded.saturating_add(1);
        match self
            .writer
            .write(&request, config, ip, received_secs, &mut self.counts, sink)
        {
            Ok(()) => {
                counters.requests.add(1);
                let mut sums = self.source.sums.lock();
                sums.answer(&request, received_secs);
            }
            Err(reason) => {
                self.counts.reject_request(reason);
                self.source.reject(BadLine::TooLong, line);
            }
        }
        true
    }

    /// The lines that follow are from there.
    pub const fn set_sender(&mut self, sender: SocketAddr) {
        self.sender = sender;
    }

    /// The connection of this sender is gone.
    pub fn close(&mut self, sender: SocketAddr) {
        self.sequences.close(sender);
    }

    /// What was counted since the last time. The source knows from now on where its runs are.
    pub fn publish(&mut self) -> DecodeCounts {
        self.writer.publish_counts();
        if std::mem::take(&mut self.moved) {
            let mut progress = self.source.progress.lock();
            progress.merged = self.merged;
            progress.runs.clear();
            progress.runs.extend(self.sequences.known().cloned());
        }
        std::mem::take(&mut self.counts)
    }
}

/// Datagrams hold whole lines, one or more; the last may be cut.
impl<R: Rewrite> Decode for Decoder<R> {
    const WANTS_SENDER: bool = true;

    fn sender(&mut self, sender: SocketAddr) {
        self.set_sender(sender);
    }

    fn decode(
        &mut self,
        datagram: &[u8],
        received_secs: u32,
        sink: &mut impl RecordSink,
    ) -> Result<u32, RejectReason> {
        let before = self.counts.requests_decoded;
        let bytes = datagram.len() as u64;
        self.source.counters.bytes_received.add(bytes);
        let mut lines = std::mem::take(&mut self.lines);
        let mut is_taken = false;
        let mut take =
            |line: &[u8], ending| is_taken |= self.take(line, ending, received_secs, sink);
        lines.feed(datagram, &mut take);
        lines.end(Ending::Cut, &mut take);
        self.lines = lines;
        if !is_taken {
            self.reject(RejectReason::NoLine);
            return Err(RejectReason::NoLine);
        }
        self.counts.datagrams_accepted = self.counts.datagrams_accepted.saturating_add(1);
        let taken = self.counts.requests_decoded.saturating_sub(before);
        Ok(u32::try_from(taken).unwrap_or(u32::MAX))
    }

    fn reject(&mut self, reason: RejectReason) {
        self.counts.reject_datagram(reason);
    }

    fn take_counts(&mut self) -> DecodeCounts {
        self.publish()
    }
}

/// Takes lines that come over connections or from files, for the thread that reads those.
#[derive(Debug)]
pub struct Intake<R> {
    /// What makes records of them.
    pub decoder: Decoder<R>,
    /// Where these go.
    pub producer: Producer,
    /// What the ring has for this producer.
    pub counters: Arc<SocketCounters>,
    /// For the second in which a line came.
    pub clock: Arc<dyn Clock>,
}

impl<R: Rewrite> Intake<R> {
    /// Takes the lines that end in these bytes; how many could be used.
    fn feed(&mut self, lines: &mut Lines, bytes: &[u8]) -> usize {
        let mut stage = TAKE_LINES.begin();
        let (mut used, secs) = (0_usize, self.clock.unix_secs());
        let Self {
            decoder, producer, ..
        } = self;
        decoder
            .source
            .counters
            .bytes_received
            .add(bytes.len() as u64);
        lines.feed(bytes, |line, ending| {
            used = used.saturating_add(decoder.take(line, ending, secs, producer).into());
        });
        stage.worked(used as u64);
        used
    }

    /// Takes what waits for the end of its line, which does not come any more.
    fn end(&mut self, lines: &mut Lines) {
        let secs = self.clock.unix_secs();
        let Self {
            decoder, producer, ..
        } = self;
        lines.end(Ending::Cut, &mut |line, ending| {
            decoder.take(line, ending, secs, producer);
        });
    }

    /// Lets others see what was taken, up to `position` where that is of a file, and waits as long as the temporary pool is half
    /// full: nothing is lost by that, what is not read yet stays where it is.
    fn publish(&mut self, position: Option<file::Position>, shutdown: &Shutdown) {
        self.counters.add_decoded(&self.decoder.publish());
        self.producer.publish();
        if let Some(position) = position {
            self.decoder.source.mark(position, &self.counters);
        }
        while self.producer.is_crowded() && !shutdown.requested() {
            thread::sleep(CROWDED_NAP);
        }
    }
}

/// Bytes that one source takes, for the memory plan: the buffers of datagrams apart.
pub const SOURCE_BYTES: usize = RecordWriter::BYTES
    + SEQUENCES_BYTES
    + SUMS_BYTES
    + CHUNK_BYTES
    + (tcp::CONNECTIONS_MAX + 1) * LINE_BYTES_MAX;

/// How long what reads ahead of the merger waits at a time.
const CROWDED_NAP: Duration = Duration::from_millis(1);

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests;
