//! The stored samples: a cyclic pool of segments that drops the oldest.
//!
//! A [`Segment`] has up to [`SEGMENT_SAMPLES`] samples and its own dictionary of the requests,
//! functions and texts they share, so nothing has to be freed one by one. A segment whose
//! dictionary is full is closed early. Only the newest segment is written to and closed ones never
//! change, so a [`Snapshot`] is a list of references plus a copy of the newest.
//!
//! Bounded in samples and in segments, hence in bytes: [`pool_bytes`]. Slow readers may hold
//! segments that have left the pool, up to the pool's size again; when they hold many, no further
//! snapshot is made until they release some.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ahash::RandomState;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

pub use self::saved::SavedSegment;
use super::names::{Names, cut_root, is_plain, text};
use crate::input::rewrite::TextField;
use crate::input::stat::line::{
    self, BadLine, Defect, Line, Operation, Request, SampleType, UNITS,
};

mod saved;

/// Maximum number of samples in a segment.
pub(super) const SEGMENT_SAMPLES: usize = 8_192;

/// Size of a segment's dictionary from which on the segment is closed, bytes.
const DICTIONARY_BYTES: usize = 256 << 10;

/// Size of a dictionary entry beside its texts, bytes.
const ENTRY_BYTES: usize = 256;

/// Memory of a report per sample while it is computed, bytes.
const REPORT_BYTES: usize = 48;

/// Marks an absent value: no dictionary has so many entries.
const NONE: u32 = u32::MAX;

/// Maximum size of a pool of `samples` samples including its readers, bytes.
pub const fn pool_bytes(samples: usize) -> usize {
    let line = 4 * crate::limits::LINE_BYTES_MAX;
    let segment = SEGMENT_SAMPLES * size_of::<Sample>() + DICTIONARY_BYTES;
    // The pool, the segments held by slow readers, and the longest line in two dictionaries.
    2 * (segments_max(samples) + spare(samples)) * segment + 2 * line + samples * REPORT_BYTES
}

const fn segments_max(samples: usize) -> usize {
    samples.div_ceil(SEGMENT_SAMPLES) + 1
}

/// Segments outside the pool that readers may hold before snapshots are refused.
const fn spare(samples: usize) -> usize {
    segments_max(samples) / 8 + 1
}

/// A run of the extension, with which its clock starts.
#[derive(Debug)]
pub struct Run {
    /// Number in this process, from 1.
    pub number: u64,
    /// Host on which it runs.
    pub host: Arc<str>,
    /// Latest possible start of its clock, microseconds of the monotonic clock; derived from the
    /// sample that arrived soonest after it was taken.
    zero_us: AtomicI64,
}

impl Run {
    /// Creates a run about which nothing is known.
    pub(crate) fn new(number: u64, host: Arc<str>) -> Self {
        Self { number, host, zero_us: AtomicI64::new(i64::MAX) }
    }

    /// Records that a sample taken at `elapsed` had arrived by `received_us`.
    pub(super) fn received(&self, elapsed: u64, received_us: i64) {
        let zero_us = received_us.saturating_sub(micros(elapsed));
        if zero_us < self.zero_us.load(Ordering::Relaxed) {
            self.zero_us.store(zero_us, Ordering::Relaxed);
        }
    }

    /// Converts a time of the run to microseconds of the monotonic clock.
    pub(crate) fn time_us(&self, elapsed: u64) -> i64 {
        self.zero_us.load(Ordering::Relaxed).saturating_add(micros(elapsed))
    }
}

/// Converts the extension's time units to microseconds.
pub(super) fn micros(elapsed: u64) -> i64 {
    i64::try_from(elapsed / (UNITS / 1_000_000)).unwrap_or(i64::MAX)
}

/// A request as the extension identifies it: by process and start.
#[derive(Debug)]
pub struct StatRequest {
    /// Its run.
    pub run: Arc<Run>,
    /// Process or thread id.
    pub pid: i64,
    /// Start, since the start of the run.
    pub elapsed: u64,
    /// Script file without the root, after the name rules.
    pub script: Option<Arc<str>>,
    /// Script file as sent.
    pub path: Option<Arc<str>>,
    /// Method, such as `GET`.
    pub method: Option<Arc<str>>,
    /// Requested URI, after the name rules.
    pub uri: Option<Arc<str>>,
    /// Requested URI as sent.
    pub uri_sent: Option<Arc<str>>,
    /// Time of its newest sample.
    newest: AtomicU64,
}

impl StatRequest {
    /// Returns the identity of the request.
    pub(crate) fn key(&self) -> (u64, i64, u64) {
        (self.run.number, self.pid, self.elapsed)
    }
}

/// A function, or the top level of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// File that defines it, without the root.
    pub file: Option<Arc<str>>,
    /// Its class.
    pub scope: Option<Arc<str>>,
    /// Its name.
    pub function: Option<Arc<str>>,
}

/// A sample. Values that it shares with others are in the dictionary of its segment.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Sample {
    /// Time since the start of the run.
    pub elapsed: u64,
    /// Memory in use, bytes.
    pub used: u64,
    /// Peak memory so far, bytes.
    pub peak: u64,
    /// Index of its request in the segment.
    pub request: u32,
    symbol: u32,
    caller: u32,
    arguments: u32,
    opcode: u32,
    line: u32,
    offset: u32,
    /// Type of the running function.
    pub sample_type: SampleType,
}

/// Consecutive samples and their dictionary.
#[derive(Debug, Clone, Default)]
pub struct Segment {
    /// Id of the first sample.
    pub first_id: u64,
    /// Samples in the order of arrival.
    pub samples: Vec<Sample>,
    /// Requests of the samples.
    pub requests: Vec<Arc<StatRequest>>,
    /// Functions of the samples.
    pub frames: Vec<Frame>,
    /// Opcodes and lists of arguments.
    pub texts: Vec<Arc<str>>,
}

fn known(number: u32) -> Option<u32> {
    (number != NONE).then_some(number)
}

impl Segment {
    /// Returns the request of a sample.
    pub(crate) fn request(&self, sample: &Sample) -> &StatRequest {
        &self.requests[sample.request as usize]
    }

    /// Returns the running function.
    pub(crate) fn symbol(&self, sample: &Sample) -> Option<&Frame> {
        self.frames.get(sample.symbol as usize)
    }

    /// Returns the PHP code that called it.
    pub(crate) fn caller(&self, sample: &Sample) -> Option<&Frame> {
        self.frames.get(sample.caller as usize)
    }

    /// Returns its arguments.
    pub(crate) fn arguments(&self, sample: &Sample) -> Option<&str> {
        self.texts.get(sample.arguments as usize).map(|text| &**text)
    }

    /// Returns the opcode that PHP executed.
    pub(crate) fn opcode(&self, sample: &Sample) -> Option<&str> {
        self.texts.get(sample.opcode as usize).map(|text| &**text)
    }
}

impl Sample {
    /// Returns the values on which a report's keys depend: samples of a segment that agree in them
    /// have the same keys.
    pub(super) const fn alike(&self) -> (u32, u32, u32, u32, u32, SampleType) {
        let Self { request, symbol, caller, opcode, line, .. } = *self;
        (request, symbol, caller, opcode, line, self.sample_type)
    }

    /// Returns the line of the file.
    pub(crate) fn line(&self) -> Option<u32> {
        known(self.line)
    }

    /// Returns the number of the opcode within its function.
    pub(crate) fn offset(&self) -> Option<u32> {
        known(self.offset)
    }
}

/// Index of a segment's dictionary entries by their bytes as sent.
#[derive(Debug, Default)]
struct Index {
    requests: Map,
    frames: Map,
    texts: Map,
    bytes: usize,
}

type Map = HashMap<Box<[u8]>, u32, RandomState>;

/// The pool of samples.
#[derive(Debug)]
pub struct Pool {
    /// Maximum number of samples.
    pub(super) samples_max: usize,
    sealed: VecDeque<Arc<Segment>>,
    open: Segment,
    index: Index,
    /// Requests of the previous segment, most of which continue.
    before: HashMap<Box<[u8]>, Arc<StatRequest>, RandomState>,
    key: Vec<u8>,
    samples: usize,
    /// Segments that have left the pool but may be held by readers.
    gone: Vec<Weak<Segment>>,
}

/// The pool at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Its segments, oldest first; none is empty.
    pub segments: Vec<Arc<Segment>>,
}

impl Snapshot {
    /// Returns the number of samples.
    pub(crate) fn len(&self) -> usize {
        self.segments.iter().map(|it| it.samples.len()).sum()
    }
}

impl Pool {
    /// Creates an empty pool for `samples_max` samples.
    pub(crate) fn new(samples_max: usize) -> Self {
        Self {
            samples_max,
            sealed: VecDeque::new(),
            open: Segment { first_id: 1, ..Segment::default() },
            index: Index::default(),
            before: HashMap::default(),
            key: Vec::new(),
            samples: 0,
            gone: Vec::new(),
        }
    }

    /// Returns the number of samples.
    pub(crate) const fn len(&self) -> usize {
        self.samples
    }

    /// Removes all samples; numbering continues.
    pub(crate) fn clear(&mut self) {
        self.seal();
        while self.evict() {}
        self.before.clear();
    }

    /// Takes a snapshot; `None` while readers hold too many segments that have left the pool.
    pub(crate) fn snapshot(&mut self) -> Option<Snapshot> {
        self.gone.retain(|it| it.strong_count() > 0);
        if self.gone.len() > spare(self.samples_max) {
            return None;
        }
        Some(self.behind(0))
    }

    /// Returns the id of the newest sample; 0 before the first.
    pub(crate) fn last_id(&self) -> u64 {
        self.open.first_id + self.open.samples.len() as u64 - 1
    }

    /// Returns the segments with samples after this id, as they are now.
    pub(crate) fn behind(&self, id: u64) -> Snapshot {
        let is_behind = |it: &Segment| it.first_id + it.samples.len() as u64 > id + 1;
        let sealed = self.sealed.iter().filter(|it| is_behind(it));
        let mut segments: Vec<_> = sealed.cloned().collect();
        if is_behind(&self.open) && !self.open.samples.is_empty() {
            segments.push(Arc::new(self.open.clone()));
        }
        Snapshot { segments }
    }

    /// Appends a sample of `run`; defects of the line are passed to `defect`.
    ///
    /// # Errors
    /// The reason why the line is refused.
    pub(crate) fn add(
        &mut self,
        run: &Arc<Run>,
        root: Option<&str>,
        line: &Line<'_>,
        names: &mut Names,
        mut defect: impl FnMut(Defect),
    ) -> Result<(), BadLine> {
        if self.open.samples.len() >= SEGMENT_SAMPLES || self.index.bytes >= DICTIONARY_BYTES {
            self.seal();
        }
        let operation = line.operation.map(Operation::read).transpose()?.unwrap_or_default();
        let request = self.request(run, root, line.request, names, &mut defect)?;
        let symbol = self.frame(line.symbol, root, &mut defect)?;
        let caller = self.frame(line.caller, root, &mut defect)?;
        let arguments = self.arguments(line.arguments, &mut defect);
        let opcode = operation.opcode.map_or(NONE, |opcode| self.text(opcode, text));
        let newest = &self.open.requests[request as usize].newest;
        match newest.fetch_max(line.elapsed, Ordering::Relaxed) {
            0 => {}
            newest if newest > line.elapsed => defect(Defect::OutOfOrder),
            newest if line.elapsed - newest < line::BURST => defect(Defect::Burst),
            _ => {}
        }
        if line.memory_wrapped {
            defect(Defect::MemoryWrapped);
        }
        if operation.offset_dropped {
            defect(Defect::OffsetDropped);
        }
        if self.open.samples.capacity() == 0 {
            self.open.samples.reserve_exact(SEGMENT_SAMPLES);
        }
        self.open.samples.push(Sample {
            elapsed: line.elapsed,
            used: line.used,
            peak: line.peak,
            request,
            symbol,
            caller,
            arguments,
            opcode,
            line: operation.line.unwrap_or(NONE),
            offset: operation.offset.unwrap_or(NONE),
            sample_type: line.sample_type,
        });
        self.samples += 1;
        while self.samples > self.samples_max && self.evict() {}
        Ok(())
    }

    /// Closes the newest segment and opens another.
    fn seal(&mut self) {
        let first_id = self.open.first_id + self.open.samples.len() as u64;
        let next = Segment { first_id, ..Segment::default() };
        let mut full = mem::replace(&mut self.open, next);
        let index = mem::take(&mut self.index);
        self.before.clear();
        for (key, number) in index.requests {
            self.before.insert(key, Arc::clone(&full.requests[number as usize]));
        }
        if full.samples.is_empty() {
            return;
        }
        full.samples.shrink_to_fit();
        self.sealed.push_back(Arc::new(full));
        while self.sealed.len() >= segments_max(self.samples_max) && self.evict() {}
    }

    /// Drops the oldest closed segment.
    fn evict(&mut self) -> bool {
        let Some(oldest) = self.sealed.pop_front() else { return false };
        self.samples -= oldest.samples.len();
        if Arc::strong_count(&oldest) > 1 {
            self.gone.retain(|it| it.strong_count() > 0);
            self.gone.push(Arc::downgrade(&oldest));
        }
        true
    }

    fn request(
        &mut self,
        run: &Arc<Run>,
        root: Option<&str>,
        sent: &[u8],
        names: &mut Names,
        defect: &mut impl FnMut(Defect),
    ) -> Result<u32, BadLine> {
        self.key.clear();
        self.key.extend_from_slice(&run.number.to_le_bytes());
        self.key.extend_from_slice(sent);
        if let Some(number) = self.index.requests.get(&*self.key) {
            return Ok(*number);
        }
        let request = match self.before.get(&*self.key) {
            Some(request) => Arc::clone(request),
            None => {
                let request = Request::read(sent)?;
                if request.unquoted {
                    defect(Defect::Unquoted);
                }
                if request.injected {
                    defect(Defect::Injected);
                }
                escaped([request.path, request.method, request.uri], defect);
                let path = request.path.map(text);
                let script = request.path.map(|path| text(cut_root(path, root)));
                let uri_sent = request.uri.map(text);
                let mut named = |sent: &Arc<str>| names.apply(TextField::ScriptName, sent);
                Arc::new(StatRequest {
                    run: Arc::clone(run),
                    pid: request.pid,
                    elapsed: request.elapsed,
                    script: script.as_ref().map(&mut named),
                    path,
                    method: request.method.map(text),
                    uri: uri_sent.as_ref().map(named),
                    uri_sent,
                    newest: AtomicU64::new(0),
                })
            }
        };
        let number = self.open.requests.len() as u32;
        self.open.requests.push(request);
        self.index.bytes += ENTRY_BYTES + 5 * self.key.len();
        self.index.requests.insert(self.key.as_slice().into(), number);
        Ok(number)
    }

    fn frame(
        &mut self,
        sent: Option<&[u8]>,
        root: Option<&str>,
        defect: &mut impl FnMut(Defect),
    ) -> Result<u32, BadLine> {
        let Some(sent) = sent else { return Ok(NONE) };
        if let Some(number) = self.index.frames.get(sent) {
            return Ok(*number);
        }
        let frame = line::Frame::read(sent)?;
        escaped([frame.file, frame.scope, frame.function], defect);
        let number = self.open.frames.len() as u32;
        self.open.frames.push(Frame {
            file: frame.file.map(|file| text(cut_root(file, root))),
            scope: frame.scope.map(text),
            function: frame.function.map(text),
        });
        self.index.bytes += ENTRY_BYTES + 2 * sent.len();
        self.index.frames.insert(sent.into(), number);
        Ok(number)
    }

    fn arguments(&mut self, sent: Option<&[u8]>, defect: &mut impl FnMut(Defect)) -> u32 {
        let Some(sent) = sent else { return NONE };
        if memchr::memmem::find(sent, b"int(").is_some() {
            defect(Defect::IntegerDropped);
        }
        self.text(sent, |sent| {
            let shown: Vec<_> = line::arguments(sent).map(|(it, _)| text(it)).collect();
            shown.join(", ").into()
        })
    }

    fn text(&mut self, sent: &[u8], read: impl FnOnce(&[u8]) -> Arc<str>) -> u32 {
        if let Some(number) = self.index.texts.get(sent) {
            return *number;
        }
        let number = self.open.texts.len() as u32;
        self.open.texts.push(read(sent));
        self.index.bytes += ENTRY_BYTES + 5 * sent.len();
        self.index.texts.insert(sent.into(), number);
        number
    }
}

/// Reports texts that have to be escaped for display.
fn escaped(texts: [Option<&[u8]>; 3], defect: &mut impl FnMut(Defect)) {
    if !texts.into_iter().flatten().all(is_plain) {
        defect(Defect::Escaped);
    }
}
