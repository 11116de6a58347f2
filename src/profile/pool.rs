//! The samples that are kept: a cyclic pool of segments, the oldest of which gives way.
//!
//! A [`Segment`] has up to [`SEGMENT_SAMPLES`] samples and a dictionary of its own for what they
//! have in common (requests, functions, texts), so nothing has to be freed one by one; one whose
//! dictionary is full is closed early. Only the youngest is written to; a closed one never changes,
//! so a [`Snapshot`] is a list of references and a copy of the youngest.
//!
//! Bounded in samples and in segments, hence in bytes: [`pool_bytes`]. Readers that are slow may
//! hold what has left the pool, up to as much again; when that is much, there is no further
//! snapshot until they let go.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ahash::RandomState;
use hashbrown::HashMap;

use super::names::{Names, cut_root, is_plain, text};
use crate::input::rewrite::TextField;
use crate::input::stat::line::{
    self, BadLine, Defect, Line, Operation, Request, SampleType, UNITS,
};

/// Samples of a segment.
pub(super) const SEGMENT_SAMPLES: usize = 8_192;

/// Bytes that the dictionary of a segment may have before one line more is added.
const DICTIONARY_BYTES: usize = 256 << 10;

/// Bytes of a dictionary entry beside its texts.
const ENTRY_BYTES: usize = 256;

/// Bytes that a report needs for each sample while it is read.
const REPORT_BYTES: usize = 48;

/// No value.
const NONE: u32 = u32::MAX;

/// The most bytes of a pool of `samples` samples, readers included.
#[must_use]
pub const fn pool_bytes(samples: usize) -> usize {
    let line = 4 * crate::limits::LINE_BYTES_MAX;
    let segment = SEGMENT_SAMPLES * size_of::<Sample>() + DICTIONARY_BYTES;
    // The pool, what slow readers hold, and the longest line in two dictionaries.
    2 * (segments_max(samples) + spare(samples)) * segment + 2 * line + samples * REPORT_BYTES
}

const fn segments_max(samples: usize) -> usize {
    samples.div_ceil(SEGMENT_SAMPLES) + 1
}

/// Segments beyond the pool that readers may hold and still get a snapshot.
const fn spare(samples: usize) -> usize {
    segments_max(samples) / 8 + 1
}

/// A run of the extension: its clock begins with it.
#[derive(Debug)]
pub struct Run {
    /// Its number in this process, from 1.
    pub number: u64,
    /// Where it runs.
    pub host: Arc<str>,
    /// When its clock began at the latest, in microseconds of the monotonic clock: what came
    /// soonest after it was sampled says so.
    zero_us: AtomicI64,
}

impl Run {
    /// One of which nothing is known.
    #[must_use]
    pub fn new(number: u64, host: Arc<str>) -> Self {
        Self {
            number,
            host,
            zero_us: AtomicI64::new(i64::MAX),
        }
    }

    /// A sample of that time was there at `received_us`.
    pub(super) fn received(&self, elapsed: u64, received_us: i64) {
        let zero_us = received_us.saturating_sub(micros(elapsed));
        if zero_us < self.zero_us.load(Ordering::Relaxed) {
            self.zero_us.store(zero_us, Ordering::Relaxed);
        }
    }

    /// When that was, in microseconds of the monotonic clock.
    #[must_use]
    pub fn time_us(&self, elapsed: u64) -> i64 {
        let zero_us = self.zero_us.load(Ordering::Relaxed);
        zero_us.saturating_add(micros(elapsed))
    }
}

/// Of the extension's units of time.
pub(super) fn micros(elapsed: u64) -> i64 {
    i64::try_from(elapsed / (UNITS / 1_000_000)).unwrap_or(i64::MAX)
}

/// A request as the extension knows it: by its process and its start.
#[derive(Debug)]
pub struct StatRequest {
    /// Of which run.
    pub run: Arc<Run>,
    /// Process, or thread.
    pub pid: i64,
    /// When it began, since the run did.
    pub elapsed: u64,
    /// The script's file without the root, after the name rules.
    pub script: Option<Arc<str>>,
    /// The script's file as it was sent.
    pub path: Option<Arc<str>>,
    /// `GET`.
    pub method: Option<Arc<str>>,
    /// The address that was requested, after the name rules.
    pub uri: Option<Arc<str>>,
    /// The same as it was sent.
    pub uri_sent: Option<Arc<str>>,
    /// Its youngest sample.
    newest: AtomicU64,
}

impl StatRequest {
    /// By what it is told from others.
    #[must_use]
    pub fn key(&self) -> (u64, i64, u64) {
        (self.run.number, self.pid, self.elapsed)
    }
}

/// A function, or the top level of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Where it is written, without the root.
    pub file: Option<Arc<str>>,
    /// Its class.
    pub scope: Option<Arc<str>>,
    /// Its name.
    pub function: Option<Arc<str>>,
}

/// One sample. What it has in common with others is in the dictionary of its segment.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Since the run began.
    pub elapsed: u64,
    /// Bytes in use.
    pub used: u64,
    /// Most bytes in use so far.
    pub peak: u64,
    /// Place in the segment's requests.
    pub request: u32,
    symbol: u32,
    caller: u32,
    arguments: u32,
    opcode: u32,
    line: u32,
    offset: u32,
    /// The running function.
    pub sample_type: SampleType,
}

/// Samples one after the other, and their dictionary.
#[derive(Debug, Clone, Default)]
pub struct Segment {
    /// The id of the first.
    pub first_id: u64,
    /// The samples, as they came.
    pub samples: Vec<Sample>,
    /// Their requests.
    pub requests: Vec<Arc<StatRequest>>,
    /// Their functions.
    pub frames: Vec<Frame>,
    /// Opcodes and lists of arguments.
    pub texts: Vec<Arc<str>>,
}

fn known(number: u32) -> Option<u32> {
    (number != NONE).then_some(number)
}

impl Segment {
    /// The request of a sample.
    #[must_use]
    pub fn request(&self, sample: &Sample) -> &StatRequest {
        &self.requests[sample.request as usize]
    }

    /// The running function.
    #[must_use]
    pub fn symbol(&self, sample: &Sample) -> Option<&Frame> {
        self.frames.get(known(sample.symbol)? as usize)
    }

    /// PHP code that called it.
    #[must_use]
    pub fn caller(&self, sample: &Sample) -> Option<&Frame> {
        self.frames.get(known(sample.caller)? as usize)
    }

    /// Its arguments.
    #[must_use]
    pub fn arguments(&self, sample: &Sample) -> Option<&str> {
        let text = self.texts.get(known(sample.arguments)? as usize);
        text.map(|text| &**text)
    }

    /// The opcode that PHP executed.
    #[must_use]
    pub fn opcode(&self, sample: &Sample) -> Option<&str> {
        let text = self.texts.get(known(sample.opcode)? as usize);
        text.map(|text| &**text)
    }
}

impl Sample {
    /// Everything that tells it from others of its segment, except time and memory.
    pub(super) const fn alike(&self) -> (u32, u32, u32, u32, u32, SampleType) {
        let Self {
            request,
            symbol,
            caller,
            opcode,
            line,
            ..
        } = *self;
        (request, symbol, caller, opcode, line, self.sample_type)
    }

    /// The line of the file.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        known(self.line)
    }

    /// The number of the operation in its function.
    #[must_use]
    pub fn offset(&self) -> Option<u32> {
        known(self.offset)
    }
}

/// The entries of a segment's dictionary, by the bytes as they were sent.
#[derive(Debug, Default)]
struct Index {
    requests: Map,
    frames: Map,
    texts: Map,
    bytes: usize,
}

type Map = HashMap<Box<[u8]>, u32, RandomState>;

/// The pool.
#[derive(Debug)]
pub struct Pool {
    samples_max: usize,
    sealed: VecDeque<Arc<Segment>>,
    open: Segment,
    index: Index,
    /// The requests of the segment before: most of them go on.
    before: HashMap<Box<[u8]>, Arc<StatRequest>, RandomState>,
    key: Vec<u8>,
    samples: usize,
    /// Segments that have left the pool and may be held by readers.
    gone: Vec<Weak<Segment>>,
}

/// The pool at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Its segments, oldest first; none is empty.
    pub segments: Vec<Arc<Segment>>,
}

impl Snapshot {
    /// How many samples there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.segments.iter().map(|it| it.samples.len()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
}

impl Pool {
    /// An empty one for so many samples.
    #[must_use]
    pub fn new(samples_max: usize) -> Self {
        Self {
            samples_max,
            sealed: VecDeque::new(),
            open: Segment {
                first_id: 1,
                ..Segment::default()
            },
            index: Index::default(),
            before: HashMap::default(),
            key: Vec::new(),
            samples: 0,
            gone: Vec::new(),
        }
    }

    /// How many samples there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.samples
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// How many there may be.
    #[must_use]
    pub const fn samples_max(&self) -> usize {
        self.samples_max
    }

    /// Forgets all samples; their numbers go on.
    pub fn clear(&mut self) {
        self.seal();
        while self.evict() {}
        self.before.clear();
    }

    /// The pool as it is now; `None` while readers hold too much of what it was.
    pub fn snapshot(&mut self) -> Option<Snapshot> {
        self.gone.retain(|it| it.strong_count() > 0);
        if self.gone.len() > spare(self.samples_max) {
            return None;
        }
        let mut segments: Vec<_> = self.sealed.iter().cloned().collect();
        if !self.open.samples.is_empty() {
            segments.push(Arc::new(self.open.clone()));
        }
        Some(Snapshot { segments })
    }

    /// The number of the youngest sample; 0 before the first.
    #[must_use]
    pub fn last_id(&self) -> u64 {
        self.open.first_id + self.open.samples.len() as u64 - 1
    }

    /// The segments with samples behind this one, as they are now.
    #[must_use]
    pub fn behind(&self, id: u64) -> Snapshot {
        let is_behind = |it: &Segment| it.first_id + it.samples.len() as u64 > id + 1;
        let sealed = self.sealed.iter().filter(|it| is_behind(it));
        let mut segments: Vec<_> = sealed.cloned().collect();
        if is_behind(&self.open) && !self.open.samples.is_empty() {
            segments.push(Arc::new(self.open.clone()));
        }
        Snapshot { segments }
    }

    /// Appends a sample of `run`. What was wrong with it is given to `defect`.
    ///
    /// # Errors
    /// Why it cannot be taken.
    pub fn add(
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
        let operation = line.operation.map(Operation::read).transpose()?;
        let operation = operation.unwrap_or_default();
        let request = self.request(run, root, line.request, names, &mut defect)?;
        let symbol = self.frame(line.symbol, root, &mut defect)?;
        let caller = self.frame(line.caller, root, &mut defect)?;
        let arguments = self.arguments(line.arguments, &mut defect);
        let opcode = operation
            .opcode
            .map_or(NONE, |opcode| self.text(opcode, text));
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

    /// Closes the youngest segment and begins another.
    fn seal(&mut self) {
        let first_id = self.open.first_id + self.open.samples.len() as u64;
        let next = Segment {
            first_id,
            ..Segment::default()
        };
        let mut full = mem::replace(&mut self.open, next);
        let index = mem::take(&mut self.index);
        self.before.clear();
        for (key, number) in index.requests {
            self.before
                .insert(key, Arc::clone(&full.requests[number as usize]));
        }
        if full.samples.is_empty() {
            return;
        }
        full.samples.shrink_to_fit();
        self.sealed.push_back(Arc::new(full));
        while self.sealed.len() >= segments_max(self.samples_max) && self.evict() {}
    }

    /// Lets the oldest closed segment go.
    fn evict(&mut self) -> bool {
        let Some(oldest) = self.sealed.pop_front() else {
            return false;
        };
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
        self.index
            .requests
            .insert(self.key.as_slice().into(), number);
        Ok(number)
    }

    fn frame(
        &mut self,
        sent: Option<&[u8]>,
        root: Option<&str>,
        defect: &mut impl FnMut(Defect),
    ) -> Result<u32, BadLine> {
        let Some(sent) = sent else {
            return Ok(NONE);
        };
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
        let Some(sent) = sent else {
            return NONE;
        };
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

/// Counts texts that cannot be shown as they were sent.
fn escaped(texts: [Option<&[u8]>; 3], defect: &mut impl FnMut(Defect)) {
    if !texts.into_iter().flatten().all(is_plain) {
        defect(Defect::Escaped);
    }
}
