//! Squid's logs: from lines to records.
//!
//! Each `[[squid]]` entry is a [`Source`] with a thread: `udp` receives datagrams, `tcp`
//! connections, `file` follows a log. All pass bytes to a [`Decoder`] of their own, which splits
//! them into lines (`lines`), parses those (`line`), detects repeated and missing ones
//! (`sequence`), and writes a record for each request (`request`). Logged times become timers with
//! the tag `activity`; unknown ones are left out. Unusable lines are counted by reason, and the
//! last of them is kept as an example.

pub mod activity;
mod bottleneck;
mod counters;
pub mod file;
pub mod line;
mod lines;
mod reading;
mod request;
pub mod sequence;
pub mod sums;
pub mod tcp;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::warn;

use self::counters::SquidCounters;
use self::line::{BadLine, Line, Rejected};
pub use self::lines::{Ending, Lines};
pub use self::reading::{Followed, Positions, Reading, Tally};
use self::request::RequestWriter;
use self::sequence::{Arrival, Known, SEQUENCES_BYTES, Sequences};
use self::sums::{Moves, SUMS_BYTES, Sums};
use super::record::{
    DecodeCounts, Example, Hasher, RecordSink, RecordWriter, RejectReason, TextLimits,
};
use super::rewrite::NameRules;
use super::{Decode, Lane};
use crate::clock::Clock;
use crate::config::{SquidFrom, SquidSource};
use crate::instruments::Instrument;
use crate::limits::LINE_BYTES_MAX;
use crate::shutdown::Shutdown;
use crate::telemetry::counters::SocketCounters;

/// Turns Squid log lines into records; counts usable lines. Datagrams are decoded as those of
/// Pinba.
pub(crate) static TAKE_LINES: Instrument = Instrument::new("stage/squid/take lines");

/// One `[[squid]]` entry and its state. Its thread writes; status and snapshot read.
#[derive(Debug)]
pub struct Source {
    /// The entry.
    pub config: SquidSource,
    /// Its counters.
    pub counters: SquidCounters,
    /// Its position, for the next process.
    pub progress: Mutex<Progress>,
    /// Whether that is its starting position: history may know a better one, once it is open.
    has_begun: AtomicBool,
    /// The content of history then.
    begun_at: Mutex<Reading>,
    /// Sums over its lines that no request contains.
    pub sums: Mutex<Sums>,
    /// Positions in a file by number of records pushed: the oldest one that may be asked for, and
    /// some later ones.
    marks: Mutex<VecDeque<Mark>>,
    /// The last rejected line.
    pub example: Mutex<Option<Example>>,
}

/// The position of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The runs of Squid.
    pub runs: Vec<Known>,
    /// The position in a file.
    pub file: Option<file::Position>,
    /// Requests after that position, in the same file, that were merged already.
    pub merged: u64,
    /// The lines behind all these. Snapshots have them beside it, history as its own counts.
    #[serde(skip)]
    pub next: LineNumbers,
    /// Files begun by this process; 0 while it continues the one of the process before.
    #[serde(skip)]
    pub files_begun: u64,
}

/// Numbers of a request and of a swap. They grow from line to line and from file to file, and no
/// two lines have the same: a file begins behind all numbers that are known, also of lines of
/// others that are not read again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineNumbers {
    /// Of the request.
    pub requests: u64,
    /// Of the swap.
    pub swaps: u64,
}

/// A position of a source in a file.
#[derive(Debug)]
struct Mark {
    /// Records that it had pushed.
    pushed: u64,
    /// What moved since the mark before.
    moves: Moves,
    progress: Progress,
    counts: SquidCounters,
}

/// Most marks; beyond that the last one moves on, within its file.
const MARKS_MAX: usize = 64;

impl Progress {
    /// How many files were begun, and whether a line of the last was read: a position in it says
    /// only then which file it is.
    pub fn begun(&self) -> (u64, bool) {
        (self.files_begun, self.file.is_some_and(file::Position::is_past_line))
    }
}

impl Source {
    /// A source without data.
    pub fn new(config: SquidSource) -> Arc<Self> {
        Arc::new(Self {
            config,
            counters: SquidCounters::default(),
            progress: Mutex::default(),
            has_begun: AtomicBool::new(false),
            begun_at: Mutex::default(),
            sums: Mutex::default(),
            marks: Mutex::default(),
            example: Mutex::default(),
        })
    }

    /// Allows reading to start: from `known`, if that is better than the current position.
    pub fn begin(&self, known: Option<Reading>) {
        let (mut progress, mut begun_at) = (self.progress.lock(), self.begun_at.lock());
        let mut again = 0;
        if let Some(known) = known {
            again = known.requests.lacks(progress.next.requests);
            progress.clone_from(&known.progress);
            progress.next =
                LineNumbers { requests: known.requests.lines, swaps: known.swaps.lines };
            *begun_at = known;
        }
        (begun_at.requests.lines, begun_at.swaps.lines) =
            (progress.next.requests, progress.next.swaps);
        drop((progress, begun_at));
        self.sums.lock().counted_again = again;
        if again > 0 {
            warn!(
                from = %self.config.from, requests = again,
                "History lacks requests that the snapshot has: they are read again, and live reports count them more than once until the snapshot's leave their windows."
            );
        }
        self.has_begun.store(true, Ordering::Release);
    }

    /// Whether reading may start.
    fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Whether it follows a file.
    pub fn is_followed(&self) -> bool {
        matches!(self.config.from, SquidFrom::File(..))
    }

    /// Its position and counts at the time when `left` of its records had left the ring. Call it
    /// while nothing more leaves.
    pub fn at(&self, left: u64) -> (Progress, SquidCounters) {
        self.at_mark(&self.marks.lock(), left)
    }

    fn at_mark(&self, marks: &VecDeque<Mark>, left: u64) -> (Progress, SquidCounters) {
        let Some(mark) = marks.iter().rev().find(|mark| mark.pushed <= left) else {
            return (self.progress.lock().clone(), self.counters.counts());
        };
        let mut progress = mark.progress.clone();
        let more = left.saturating_sub(mark.pushed);
        progress.merged = progress.merged.saturating_add(more);
        progress.next.requests = progress.next.requests.saturating_add(more);
        (progress, mark.counts.counts())
    }

    /// The position at that time; adds what moved up to there to `moves`.
    fn reach(&self, left: u64, moves: &mut Moves) -> Progress {
        let mut marks = self.marks.lock();
        let passed = marks.partition_point(|mark| mark.pushed <= left);
        marks.iter_mut().take(passed).for_each(|mark| moves.absorb(&mut mark.moves));
        self.at_mark(&marks, left).0
    }

    /// Takes what moved since the last time.
    fn take_moves(&self, to: &mut Moves) {
        let fresh = &mut self.sums.lock().fresh;
        fresh.iter_mut().for_each(|fresh| to.absorb(fresh));
    }

    /// Records that everything up to this position of a file has been pushed.
    fn mark(&self, position: file::Position, counters: &SocketCounters) {
        let progress = {
            let mut progress = self.progress.lock();
            progress.file = Some(position);
            progress.clone()
        };
        self.sums.lock().reach(position);
        let left = counters.requests_left();
        let mut marks = self.marks.lock();
        let mut moves = Moves::default();
        while marks.get(1).is_some_and(|mark| mark.pushed <= left) {
            let passed = marks.pop_front();
            let next = marks.front_mut().zip(passed);
            next.into_iter().for_each(|(next, mut passed)| next.moves.absorb(&mut passed.moves));
        }
        // Each file keeps those at its start and behind its first line: what is merged behind a
        // position is of the same file, which can be told from others by then.
        let of_file = |mark: &Mark| mark.progress.begun() == (progress.files_begun, true);
        if marks.len() >= MARKS_MAX && marks.iter().nth_back(1).is_some_and(of_file) {
            let last = marks.pop_back();
            last.into_iter().for_each(|mut last| moves.absorb(&mut last.moves));
        }
        self.take_moves(&mut moves);
        marks.push_back(Mark {
            moves,
            pushed: counters.requests_pushed.get(),
            progress,
            counts: self.counters.counts(),
        });
    }

    /// Counts a rejected line.
    fn reject(&self, Rejected { reason, field }: Rejected<'_>, line: &[u8]) {
        self.counters.lines_invalid.add_one(reason as usize);
        let example = Example::of(reason.name(), line);
        *self.example.lock() = Some(Example { field: field.to_owned(), ..example });
    }
}

/// The sender of lines that do not come over a network.
pub const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Turns lines into records. One per source.
#[derive(Debug)]
pub struct Decoder {
    source: Arc<Source>,
    sequences: Sequences,
    writer: RequestWriter,
    /// Lines of datagrams: each datagram ends its last line.
    lines: Lines,
    sender: SocketAddr,
    counts: DecodeCounts,
    /// Whether `source` does not have the latest state yet.
    moved: bool,
    /// Whether requests count as received when they ended.
    has_own_time: bool,
    /// The clock of the window of sums; the time of reception if there is none.
    clock: Option<Arc<dyn Clock>>,
    /// Requests that follow and were merged already.
    merged: u64,
    /// Requests behind these, and swaps, that are in history.
    requests: Tally,
    swaps: Tally,
}

impl Decoder {
    /// A decoder that continues at the source's position.
    pub fn new(source: Arc<Source>, limits: TextLimits, hasher: Hasher, rules: NameRules) -> Self {
        let mut decoder = Self {
            writer: RequestWriter::new(limits, hasher, rules),
            source,
            sequences: Sequences::restored(&[]),
            lines: Lines::default(),
            sender: NOBODY,
            counts: DecodeCounts::default(),
            moved: false,
            has_own_time: false,
            clock: None,
            merged: 0,
            requests: Tally::default(),
            swaps: Tally::default(),
        };
        decoder.go_on();
        decoder
    }

    /// Continues at the source's current position.
    fn go_on(&mut self) {
        let progress = self.source.progress.lock();
        self.sequences = Sequences::restored(&progress.runs);
        self.merged = progress.merged;
        let begun_at = self.source.begun_at.lock();
        self.requests.clone_from(&begun_at.requests);
        self.swaps.clone_from(&begun_at.swaps);
    }

    /// Begins another file at this position. What history and the sums have of others does not
    /// concern it: its numbers are behind theirs. `is_it`: whether it is the file of a position.
    fn begin_file(
        &mut self,
        at: Option<file::Position>,
        is_it: impl FnOnce(file::Position) -> bool,
    ) {
        self.merged = 0;
        let mut sums = self.source.sums.lock();
        self.requests.lines = self.requests.end().max(sums.next.requests);
        self.swaps.lines = self.swaps.end().max(sums.next.swaps);
        let first = LineNumbers { requests: self.requests.lines, swaps: self.swaps.lines };
        sums.begin_file(first, at, is_it);
        drop(sums);
        let mut progress = self.source.progress.lock();
        (progress.file, progress.merged, progress.next) = (at, 0, first);
        progress.files_begun = progress.files_begun.saturating_add(1);
    }

    /// For lines of the past: each counts as received in the second in which its request ended.
    pub fn of_the_past(self) -> Self {
        Self { has_own_time: true, ..self }
    }

    /// For the current lines of a daemon: sums leave their window as time passes on this clock.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// The time at which sums count.
    fn sum_secs(&self, received_secs: u32) -> u32 {
        self.clock.as_ref().map_or(received_secs, |clock| sums::now(clock.mono_ms()))
    }

    /// Decodes one line from `sender`; returns false if it was unusable.
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
            Ending::TooLong => Err(BadLine::TooLong.into()),
            ending => line::parse(line, ending == Ending::Cut),
        };
        let request = match parsed {
            Ok(Line::Request(request)) => request,
            Ok(Line::Swap(swap)) => {
                counters.swaps.add(1);
                let number = self.swaps.lines;
                let is_new = !self.swaps.advance();
                let secs = self.sum_secs(received_secs);
                self.source.sums.lock().swap(&swap, secs, number, is_new);
                return true;
            }
            Err(rejected) => {
                self.sequences.unnumbered(self.sender);
                self.source.reject(rejected, line);
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
        let before = self.requests.lines;
        self.writer.is_counted = self.requests.advance();
        match self.writer.write(&request, config, ip, received_secs, &mut self.counts, sink) {
            Ok(()) => {
                counters.requests.add(1);
                let secs = self.sum_secs(received_secs);
                self.source.sums.lock().answer(&request, secs, before);
            }
            Err(reason) => {
                self.requests.lines = before;
                self.counts.reject_request(reason);
                self.source.reject(BadLine::TooLong.into(), line);
            }
        }
        true
    }

    /// Records that the connection of this sender is gone.
    pub fn close(&mut self, sender: SocketAddr) {
        self.sequences.close(sender);
    }

    /// The counts since the last call. Also updates the positions in the source.
    pub fn publish(&mut self) -> DecodeCounts {
        self.writer.publish_counts();
        if std::mem::take(&mut self.moved) {
            let mut progress = self.source.progress.lock();
            progress.merged = self.merged;
            progress.next = LineNumbers { requests: self.requests.lines, swaps: self.swaps.lines };
            progress.runs.clear();
            progress.runs.extend(self.sequences.known().cloned());
        }
        std::mem::take(&mut self.counts)
    }
}

/// Datagrams hold one or more whole lines; the last may be cut.
impl Decode for Decoder {
    const WANTS_SENDER: bool = true;

    fn sender(&mut self, sender: SocketAddr) {
        self.sender = sender;
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

/// Decodes lines from connections or files, for the thread that reads them.
#[derive(Debug)]
pub struct Intake {
    /// The decoder.
    pub decoder: Decoder,
    /// The way of records to the ring.
    pub lane: Lane,
}

impl Intake {
    /// Decodes the lines that end in these bytes; returns how many were usable.
    fn feed(&mut self, lines: &mut Lines, bytes: &[u8]) -> usize {
        let mut stage = TAKE_LINES.begin();
        let Self { decoder, lane: Lane { producer, clock, .. } } = self;
        let (mut used, secs) = (0_usize, clock.unix_secs());
        decoder.source.counters.bytes_received.add(bytes.len() as u64);
        lines.feed(bytes, |line, ending| {
            used = used.saturating_add(decoder.take(line, ending, secs, producer).into());
        });
        stage.worked(used as u64);
        used
    }

    /// Discards an incomplete line that will never end.
    fn end(&mut self, lines: &mut Lines) {
        let Self { decoder, lane: Lane { producer, clock, .. } } = self;
        let secs = clock.unix_secs();
        lines.end(Ending::Cut, &mut |line, ending| {
            decoder.take(line, ending, secs, producer);
        });
    }

    /// Publishes what was decoded, up to `position` if that is of a file, and waits while the
    /// temporary pool is half full: nothing is lost, unread data stays where it is.
    fn publish(&mut self, position: Option<file::Position>, shutdown: &Shutdown) {
        let Self { decoder, lane: Lane { producer, counters, .. } } = self;
        counters.add_decoded(&decoder.publish());
        producer.publish();
        if let Some(position) = position {
            decoder.source.mark(position, counters);
        }
        while producer.is_crowded() && !shutdown.requested() {
            thread::sleep(CROWDED_NAP);
        }
    }
}

/// Bytes of one source, for the memory plan, without the buffers of datagrams.
pub const SOURCE_BYTES: usize = RecordWriter::BYTES
    + SEQUENCES_BYTES
    // Twice while a snapshot is written.
    + 2 * SUMS_BYTES
    + CHUNK_BYTES
    + (tcp::CONNECTIONS_MAX + 1) * LINE_BYTES_MAX;

/// Wait between two checks by readers ahead of the merger.
const CROWDED_NAP: Duration = Duration::from_millis(1);

/// Bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests;
