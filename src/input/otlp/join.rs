//! Joins the spans of a trace: a request is written as one record together with the spans below it;
//! the others are counted.
//!
//! Spans are grouped by trace and resource. A span with nothing of its own process above it is a
//! root. A root leaves with everything below it: at once if it comes from PHP, which sends whole
//! requests, otherwise after [`ROOT_WAITS_MS`], in which time the batches that other SDKs hold back
//! have arrived. The remaining spans wait for their root. Bounded by time and by bytes; the oldest
//! trace is dropped first. The caller supplies the time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::counters::{LeftOut, OtlpCounters};
use super::facts::Key;
use super::request::{Class, RequestWriter};
use super::span::{Batch, Kind, Resource, Span, TraceId};
use crate::input::record::{DecodeCounts, Hasher, RecordSink, RejectReason};
use crate::limits::SPANS_WAITING_BYTES_MAX;

/// Time for which a root waits for the spans below it. SDKs send at least every five seconds.
const ROOT_WAITS_MS: u64 = 6_000;

/// Time for which other spans wait for their root: since the last span of the trace, and in total.
const REST_WAITS_MS: u64 = 60_000;
const WAITS_MAX_MS: u64 = 3_600_000;

/// Maximum number of requests remembered to detect duplicates and late spans.
const REMEMBERED_MAX: usize = 1 << 20;

/// Memory of remembered requests and of the index of waiting spans, beside
/// [`SPANS_WAITING_BYTES_MAX`], for the memory plan: a hash set that doubles, and the order of its
/// entries.
pub(super) const REMEMBERED_BYTES: usize = (4 << 20) * 9 * 3 / 2 + REMEMBERED_MAX * 16;

/// Size of a group beside its spans.
const GROUP_BYTES: usize = 400;

/// Group of a span: trace and resource.
type GroupKey = (TraceId, u64);

/// Waiting spans of one trace and resource.
#[derive(Debug)]
struct Group {
    key: GroupKey,
    resource: Arc<Resource>,
    sender: IpAddr,
    spans: Vec<Waiting>,
    first_ms: u64,
    last_ms: u64,
    /// True once a request of the group has left.
    has_left: bool,
    /// Time at which the first of its roots leaves.
    leaves_ms: u64,
    /// Time at which the group is examined next.
    due_ms: u64,
}

#[derive(Debug)]
struct Waiting {
    span: Span,
    /// Time at which the span leaves, if it is a root.
    leaves_ms: u64,
    place: Place,
    /// Classes of the calls between the span and its root.
    asked: u8,
}

/// The place of a span among those of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    NotKnown,
    /// Below this root, or the root itself, by its index.
    Below(usize),
    /// Something above it is missing.
    Lost,
    /// Has left.
    Gone,
}

impl Waiting {
    fn bytes(&self) -> usize {
        size_of::<Self>().saturating_add(self.span.facts.bytes())
    }
}

impl Group {
    fn ends_ms(&self) -> u64 {
        let rest = self.last_ms.saturating_add(REST_WAITS_MS);
        rest.min(self.first_ms.saturating_add(WAITS_MAX_MS))
    }

    /// Size beside its spans.
    fn bytes(&self) -> usize {
        GROUP_BYTES.saturating_add(self.resource.facts.bytes())
    }
}

/// Waiting spans, and the writer that turns them into records.
#[derive(Debug)]
pub(super) struct Joiner<S> {
    internal: bool,
    pub(super) hasher: Hasher,
    writer: RequestWriter,
    counters: Arc<OtlpCounters>,
    /// Sink of the records.
    pub(super) sink: S,
    /// Present time, set before each call: milliseconds of the monotonic clock, seconds since 1970.
    pub(super) now: (u64, u32),
    /// Ordered by age.
    groups: BTreeMap<u64, Group>,
    numbers: HashMap<GroupKey, u64, ahash::RandomState>,
    /// Time at which a group is due, and its number.
    due: BTreeSet<(u64, u64)>,
    began: u64,
    bytes: usize,
    waiting: u64,
    /// Hashes of requests that have left, and of their groups.
    known: HashSet<u64, ahash::RandomState>,
    /// Requests that have left, oldest first: hash of the span, hash of its group.
    remembered: VecDeque<[u64; 2]>,
    /// Decoding counts for the ring.
    pub(super) counts: DecodeCounts,
    /// Spans that leave with the index of their root, and a way from a span up: reused.
    below: Vec<(usize, usize)>,
    path: Vec<usize>,
}

impl<S: RecordSink> Joiner<S> {
    pub(super) fn new(writer: RequestWriter, counters: &Arc<OtlpCounters>, sink: S) -> Self {
        Self {
            internal: writer.config.internal,
            hasher: writer.hasher.clone(),
            writer,
            counters: Arc::clone(counters),
            sink,
            now: (0, 0),
            groups: BTreeMap::new(),
            numbers: HashMap::default(),
            due: BTreeSet::new(),
            began: 0,
            bytes: 0,
            waiting: 0,
            known: HashSet::default(),
            remembered: VecDeque::new(),
            counts: DecodeCounts::default(),
            below: Vec::new(),
            path: Vec::new(),
        }
    }

    /// Takes the spans of a body and releases those that are ready.
    pub(super) fn take(&mut self, batch: &mut Batch<'_>, sender: IpAddr) {
        let counters = &self.counters;
        counters.spans_received.add(batch.received);
        counters.spans_refused.add(&batch.refused);
        counters.spans_sampled.add(batch.sampled);
        counters.attributes_over_limit.add(batch.facts.over_limit);
        counters.events_over_limit.add(batch.events_over_limit);
        for (resource, spans) in std::mem::take(&mut batch.resources) {
            let resource = Arc::new(resource);
            let mut spans = spans.into_iter();
            while let Some(Span { trace, .. }) = spans.as_slice().first() {
                let trace = *trace;
                let alike = spans.as_slice().iter().take_while(|it| it.trace == trace);
                let count = alike.count();
                self.add((&resource, sender, trace), spans.by_ref().take(count));
            }
        }
        self.advance();
        while self.bytes > SPANS_WAITING_BYTES_MAX
            && let Some(&oldest) = self.groups.keys().next()
        {
            self.settle(oldest, Some(LeftOut::PushedOut));
        }
        self.show();
    }

    /// Releases the spans that are due.
    pub(super) fn advance(&mut self) {
        while let Some(&(due_ms, number)) = self.due.first()
            && due_ms <= self.now.0
        {
            self.settle(number, None);
        }
        self.writer.publish_counts();
        self.show();
    }

    /// Updates the gauges of waiting spans.
    fn show(&self) {
        let counters = &self.counters;
        counters.spans_waiting.set(self.waiting);
        counters.traces_waiting.set(self.groups.len() as u64);
        counters.waiting_bytes.set(self.bytes as u64);
    }

    /// Releases everything, because no more spans will come.
    pub(super) fn finish(&mut self) {
        while let Some(&number) = self.groups.keys().next() {
            self.settle(number, Some(LeftOut::NoRequest));
        }
        self.advance();
    }

    fn group_hash(&self, (trace, resource): &GroupKey) -> u64 {
        let number = resource.to_be_bytes();
        self.hasher.hash_tags([(&number[..], &trace[..])])
    }

    /// Adds spans of a trace to its group, which is created if needed.
    fn add(
        &mut self,
        (resource, sender, trace): (&Arc<Resource>, IpAddr, TraceId),
        spans: impl ExactSizeIterator<Item = Span>,
    ) {
        let now_ms = self.now.0;
        let key = (trace, resource.hash);
        let number = *self.numbers.entry(key).or_insert(self.began);
        let has_left = number == self.began && self.known.contains(&self.group_hash(&key));
        let group = self.groups.entry(number).or_insert_with(|| {
            self.began = self.began.saturating_add(1);
            let group = Group {
                key,
                resource: Arc::clone(resource),
                sender,
                spans: Vec::new(),
                first_ms: now_ms,
                last_ms: now_ms,
                has_left,
                leaves_ms: u64::MAX,
                due_ms: u64::MAX,
            };
            self.bytes = self.bytes.saturating_add(group.bytes());
            group
        });
        let root_leaves_ms = match resource.is_php() {
            true => now_ms,
            false => now_ms.saturating_add(ROOT_WAITS_MS),
        };
        group.spans.reserve_exact(spans.len());
        for span in spans {
            let is_root = span.is_root() || span.may_be_root();
            if is_root && self.known.contains(&span_hash(&self.hasher, &span)) {
                leave_out(&self.counters, LeftOut::Duplicate, 1);
                continue;
            }
            let it = Waiting {
                leaves_ms: if is_root { root_leaves_ms } else { u64::MAX },
                span,
                place: Place::NotKnown,
                asked: 0,
            };
            group.leaves_ms = group.leaves_ms.min(it.leaves_ms);
            group.last_ms = now_ms;
            self.bytes = self.bytes.saturating_add(it.bytes());
            self.waiting = self.waiting.saturating_add(1);
            group.spans.push(it);
        }
        if group.spans.is_empty() {
            group.leaves_ms = now_ms;
        }
        self.schedule(number);
    }

    /// Schedules the next examination of a group.
    fn schedule(&mut self, number: u64) {
        if let Some(group) = self.groups.get_mut(&number) {
            self.due.remove(&(group.due_ms, number));
            group.due_ms = group.leaves_ms.min(group.ends_ms());
            self.due.insert((group.due_ms, number));
        }
    }

    /// Releases the roots of a group that are due, with the spans below them. With `ends`, releases
    /// the whole group; spans without a root are left out for that reason.
    fn settle(&mut self, number: u64, ends: Option<LeftOut>) {
        let now_ms = self.now.0;
        let Some(mut group) = self.groups.remove(&number) else {
            return;
        };
        self.due.remove(&(group.due_ms, number));
        let is_over = ends.is_some() || group.ends_ms() <= now_ms;
        let mut spans = std::mem::take(&mut group.spans);
        self.place(&mut spans);
        let leaves = |root: &Waiting| is_over || root.leaves_ms <= now_ms;
        let requests = spans.iter().enumerate();
        let requests = requests
            .filter(|(at, it)| it.place == Place::Below(*at) && left_out(&it.span).is_none());
        let (mut leaving, mut stays, mut guess) = (0_usize, false, None);
        for (at, request) in requests {
            match leaves(request) {
                true => (leaving, guess) = (leaving.saturating_add(1), Some(at)),
                false => stays = true,
            }
        }
        // Spans whose parent is missing are lost once no request remains to which they might
        // belong.
        guess = guess.filter(|_| leaving == 1 && !stays && !group.has_left);
        let mut lost = (leaving > 0 && !stays && guess.is_none()).then_some(LeftOut::Orphan);
        if is_over {
            let late = group.has_left.then_some(LeftOut::LateChild);
            lost = lost.or(late).or(ends).or(Some(LeftOut::NoRequest));
        }
        group.has_left |= leaving > 0;
        let mut below = std::mem::take(&mut self.below);
        below.clear();
        for at in 0..spans.len() {
            let root = match (spans.get(at).map(|it| it.place), guess) {
                (Some(Place::Below(root)), _) => Some(root),
                (Some(Place::Lost), Some(guess)) => {
                    self.counters.spans_parent_guessed.add(1);
                    Some(guess)
                }
                _ => None,
            };
            let is_gone = match (root, lost) {
                (Some(root), _) => spans.get(root).is_some_and(leaves),
                (None, Some(reason)) => {
                    leave_out(&self.counters, reason, 1);
                    true
                }
                (None, None) => false,
            };
            if let Some(it) = spans.get_mut(at).filter(|_| is_gone) {
                it.place = Place::Gone;
                below.extend(root.map(|root| (root, at)));
            }
        }
        below.sort_unstable();
        for alike in below.chunk_by(|a, b| a.0 == b.0) {
            self.leave(&group, &spans, alike);
        }
        self.below = below;
        group.leaves_ms = u64::MAX;
        spans.retain(|it| {
            let stays = it.place != Place::Gone;
            if !stays {
                self.bytes = self.bytes.saturating_sub(it.bytes());
                self.waiting = self.waiting.saturating_sub(1);
            } else if it.leaves_ms > now_ms {
                // One whose time has come has something above it, with which it leaves.
                group.leaves_ms = group.leaves_ms.min(it.leaves_ms);
            }
            stays
        });
        group.spans = spans;
        if group.spans.is_empty() {
            self.bytes = self.bytes.saturating_sub(group.bytes());
            self.numbers.remove(&group.key);
            return;
        }
        self.groups.insert(number, group);
        self.schedule(number);
    }

    /// Finds the root above each span, which may be the span itself, and the classes of the calls
    /// between the two. Afterwards spans are in the order of their ids, and each is there once.
    fn place(&mut self, spans: &mut Vec<Waiting>) {
        let came = spans.len();
        spans.sort_by_key(|it| it.span.id);
        spans.dedup_by(|it, first| {
            let is_known = it.span.id == first.span.id;
            if is_known {
                self.bytes = self.bytes.saturating_sub(it.bytes());
                self.waiting = self.waiting.saturating_sub(1);
            }
            is_known
        });
        leave_out(&self.counters, LeftOut::Duplicate, came.saturating_sub(spans.len()));
        spans.iter_mut().for_each(|it| it.place = Place::NotKnown);
        for from in 0..spans.len() {
            // Up to a span whose place is known, or with nothing above it.
            let (mut at, mut place, mut asked) = (from, Place::Lost, 0);
            while let Some(it) = spans.get_mut(at) {
                if it.place != Place::NotKnown {
                    (place, asked) = (it.place, it.asked | asks(&it.span));
                    break;
                }
                // A cycle leads back to this span.
                it.place = Place::Lost;
                self.path.push(at);
                let (parent, span) = (it.span.parent, &it.span);
                let (is_root, may_be_root) = (span.is_root(), span.may_be_root());
                let above = || spans.binary_search_by_key(&parent, |it| it.span.id).ok();
                match above().filter(|_| !is_root) {
                    Some(above) => at = above,
                    None => {
                        if is_root || may_be_root {
                            place = Place::Below(at);
                        }
                        break;
                    }
                }
            }
            // Down again.
            while let Some(it) = self.path.pop().and_then(|at| spans.get_mut(at)) {
                (it.place, it.asked) = (place, asked);
                asked |= asks(&it.span);
            }
        }
    }

    /// Releases a root with the spans below it: pairs of its index and theirs, with its own.
    fn leave(&mut self, group: &Group, spans: &[Waiting], below: &[(usize, usize)]) {
        let root = below.first().and_then(|(root, _)| spans.get(*root));
        let Some(Waiting { span: request, .. }) = root else {
            return;
        };
        if let Some(reason) = left_out(request) {
            leave_out(&self.counters, reason, below.len());
            return;
        }
        let mut timers: Vec<&Span> = Vec::with_capacity(below.len());
        let (mut nested, mut internal) = (0_usize, 0_usize);
        let below_it = below.iter().filter(|(root, at)| root != at);
        for Waiting { span, asked, .. } in below_it.filter_map(|(_, at)| spans.get(*at)) {
            match span.kind.asks() {
                true if asks(span) & asked != 0 => nested = nested.saturating_add(1),
                false if !self.internal => internal = internal.saturating_add(1),
                _ => timers.push(span),
            }
        }
        let hashes = [span_hash(&self.hasher, request), self.group_hash(&group.key)];
        self.remember(hashes);
        self.counts.requests_decoded = self.counts.requests_decoded.saturating_add(1);
        let origin = (&*group.resource, group.sender);
        let written = self.writer.write(origin, request, &mut timers, self.now.1);
        let written = written.and_then(|(written, bytes)| {
            let room = self.sink.reserve(bytes).ok_or(RejectReason::TooLarge)?;
            self.writer.finish(room, &mut self.counts);
            Ok(written)
        });
        match written {
            Ok(written) => {
                self.counters.requests.add(1);
                self.counters.timers.add(written.rows);
                self.counters.spans_merged.add(written.merged);
                leave_out(&self.counters, LeftOut::Nested, nested);
                leave_out(&self.counters, LeftOut::Internal, internal);
            }
            Err(reason) => {
                self.counts.reject_request(reason);
                leave_out(&self.counters, LeftOut::TooLarge, below.len());
            }
        }
    }

    fn remember(&mut self, hashes: [u64; 2]) {
        if self.remembered.len() >= REMEMBERED_MAX
            && let Some(oldest) = self.remembered.pop_front()
        {
            for hash in oldest {
                self.known.remove(&hash);
            }
        }
        self.known.extend(hashes);
        self.remembered.push_back(hashes);
    }
}

fn leave_out(counters: &OtlpCounters, reason: LeftOut, spans: usize) {
    counters.spans_left_out.add_many(reason as usize, spans as u64);
}

/// Returns the reason why a root is not a request, if it is not.
fn left_out(root: &Span) -> Option<LeftOut> {
    let receives = || {
        let operation = root.facts.first(&[Key::MessagingType, Key::MessagingName]);
        let name = root.facts.get(Key::Name).unwrap_or_default();
        operation == Some(b"receive") || name == b"receive" || name.starts_with(b"receive ")
    };
    match root.kind {
        Kind::Client => Some(LeftOut::ClientRoot),
        Kind::Producer => Some(LeftOut::ProducerRoot),
        Kind::Consumer => receives().then_some(LeftOut::Receive),
        Kind::Server | Kind::Internal => None,
    }
}

/// Returns the class of what a span asks for, if it asks.
fn asks(span: &Span) -> u8 {
    match span.kind.asks() {
        true => Class::of(&span.facts) as u8,
        false => 0,
    }
}

fn span_hash(hasher: &Hasher, span: &Span) -> u64 {
    let number = span.id.to_be_bytes();
    hasher.hash_tags([(&span.trace[..], &number[..])])
}
