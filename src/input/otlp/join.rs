//! Joins the spans of a trace: a request is written as one record together with the spans below it;
//! the others are counted.
//!
//! Spans are grouped by trace and resource. A span with nothing of its own process above it is a
//! root. A root leaves with everything below it: at once if it comes from PHP, which sends whole
//! requests, otherwise after [`ROOT_WAITS_MS`], in which time the batches that other SDKs hold back
//! have arrived. The remaining spans wait for their root. Bounded by time and by bytes; the oldest
//! trace is dropped first. The caller supplies the time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::attributes::{FactsAt, Key, Texts};
use super::counters::{LeftOut, OtlpCounters};
use super::request::{Class, RequestWriter};
use super::span::{Batch, Kind, Span};
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

/// Size of a group beside its spans and texts.
const GROUP_BYTES: usize = 400;

/// Spans of one trace and resource, while they wait.
#[derive(Debug, Default)]
struct Group {
    /// The smaller, the older.
    number: u64,
    /// Keyed hash of trace and resource; with a span's id it tells requests apart.
    key: u64,
    resource: FactsAt,
    spans: Vec<Span>,
    /// Those of the resource and of the spans.
    texts: Texts<'static>,
    first_ms: u64,
    /// When it ends, whatever is missing then.
    ends_ms: u64,
}

impl Group {
    /// Returns the time at which the group is examined next.
    fn due_ms(&self) -> u64 {
        self.spans.iter().map(|it| it.leaves_ms).fold(self.ends_ms, u64::min)
    }

    /// Returns its size.
    fn bytes(&self) -> usize {
        GROUP_BYTES.saturating_add(self.texts.bytes()).saturating_add(size_of_val(&*self.spans))
    }

    /// Keeps copies of spans, whose texts are among `texts`, as those of the resource are when
    /// there are no spans yet.
    fn keep(&mut self, spans: &[Span], texts: &Texts<'_>) {
        self.texts.reserve(spans.len());
        if self.spans.is_empty() {
            self.resource = self.texts.copy(self.resource, texts);
        }
        self.spans.reserve_exact(spans.len());
        for span in spans {
            let facts = self.texts.copy(span.facts, texts);
            self.spans.push(Span { facts, ..*span });
        }
        self.texts.shrink();
    }
}

/// Waiting spans, and the writer that turns them into records.
#[derive(Debug)]
pub(super) struct Joiner {
    pub(super) writer: RequestWriter,
    counters: Arc<OtlpCounters>,
    /// Milliseconds of the monotonic clock, and seconds since 1970.
    now_ms: u64,
    now_secs: u32,
    /// By their numbers, the oldest first.
    groups: BTreeMap<u64, Group>,
    /// Their numbers, by their keys.
    numbers: HashMap<u64, u64, ahash::RandomState>,
    /// Time at which a group is due, and its number.
    due: BTreeSet<(u64, u64)>,
    bytes: usize,
    waiting: usize,
    /// Requests that have left, and keys of their groups.
    known: HashSet<u64, ahash::RandomState>,
    /// The same of each request, oldest first, and how many of the last are not known yet.
    remembered: VecDeque<[u64; 2]>,
    unknown: usize,
    /// Timers written, not yet published.
    timers: u64,
}

impl Joiner {
    pub(super) fn new(writer: RequestWriter, counters: &Arc<OtlpCounters>) -> Self {
        Self {
            writer,
            counters: Arc::clone(counters),
            now_ms: 0,
            now_secs: 0,
            groups: BTreeMap::new(),
            numbers: HashMap::default(),
            due: BTreeSet::new(),
            bytes: 0,
            waiting: 0,
            known: HashSet::default(),
            remembered: VecDeque::new(),
            unknown: 0,
            timers: 0,
        }
    }

    /// Takes the spans of a body and releases those that are ready.
    pub(super) fn take(&mut self, mut batch: Batch<'_>) {
        self.counters.spans_received.add(batch.received);
        self.counters.spans_refused.add(&batch.refused);
        self.counters.spans_sampled.add(batch.sampled);
        self.counters.attributes_over_limit.add(batch.texts.over_limit);
        self.counters.events_over_limit.add(batch.events_over_limit);
        self.set_time();
        self.join(&mut batch);
        self.advance();
    }

    /// Releases the spans that are due.
    pub(super) fn advance(&mut self) {
        self.set_time();
        while let Some(&(due_ms, number)) = self.due.first()
            && due_ms <= self.now_ms
        {
            self.settle(number, None);
        }
        self.settle_oldest(SPANS_WAITING_BYTES_MAX, LeftOut::PushedOut);
        self.publish();
    }

    /// Releases everything, because no more spans will come.
    pub(super) fn finish(&mut self) {
        self.set_time();
        self.settle_oldest(0, LeftOut::NoRequest);
        self.publish();
    }

    fn set_time(&mut self) {
        let clock = &self.writer.lane.clock;
        (self.now_ms, self.now_secs) = (clock.mono_ms(), clock.unix_secs());
    }

    /// Releases the oldest groups until the others have this size at most.
    fn settle_oldest(&mut self, bytes_max: usize, reason: LeftOut) {
        self.know();
        while self.bytes > bytes_max
            && let Some(&oldest) = self.groups.keys().next()
        {
            self.settle(oldest, Some(reason));
        }
    }

    /// Hands over the records, and shows what became of spans.
    fn publish(&mut self) {
        self.counters.requests.add(self.writer.publish());
        self.counters.timers.add(std::mem::take(&mut self.timers));
        self.counters.spans_waiting.set(self.waiting as u64);
        self.counters.traces_waiting.set(self.groups.len() as u64);
        self.counters.waiting_bytes.set(self.bytes as u64);
    }

    /// Adds the spans of a body to their groups. A group that begins with it and is due, as whole
    /// requests of PHP are, leaves from the body.
    fn join(&mut self, batch: &mut Batch<'_>) {
        self.know();
        let (now_ms, texts, spans) = (self.now_ms, &batch.texts, &mut batch.spans);
        let came = spans.len();
        // All in one go, as each waits for memory.
        spans.retain(|it| !it.leads() || !self.known.contains(&(it.group ^ it.id)));
        self.leave_out(LeftOut::Duplicate, came.saturating_sub(spans.len()));
        // Mostly, spans of a trace come one after the other.
        let mut groups = HashSet::<u64, ahash::RandomState>::default();
        let mut alike = spans.chunk_by(|a, b| a.group == b.group);
        if !alike.all(|it| it.first().is_some_and(|it| groups.insert(it.group))) {
            spans.sort_by_key(|it| it.group);
        }
        for alike in spans.chunk_by_mut(|a, b| a.group == b.group) {
            let Some(&Span { group: key, resource, .. }) = alike.first() else { continue };
            let Some(&facts) = batch.resources.get(resource as usize) else { continue };
            let is_php = facts.among(texts).get(Key::Language) == Some(&b"php"[..]);
            let leads_ms = now_ms.saturating_add(if is_php { 0 } else { ROOT_WAITS_MS });
            for span in &mut *alike {
                span.leaves_ms = if span.leads() { leads_ms } else { u64::MAX };
            }
            let number = self.numbers.get(&key).copied();
            let mut group = number.and_then(|number| self.remove(number)).unwrap_or_else(|| {
                let number = self.groups.last_key_value().map_or(0, |it| it.0.saturating_add(1));
                Group { number, key, resource: facts, first_ms: now_ms, ..Group::default() }
            });
            let latest_ms = group.first_ms.saturating_add(WAITS_MAX_MS);
            group.ends_ms = latest_ms.min(now_ms.saturating_add(REST_WAITS_MS));
            if group.spans.is_empty() && alike.iter().any(|it| it.leaves_ms <= now_ms) {
                self.release(&mut group, alike.to_vec(), texts, None);
            } else {
                group.keep(alike, texts);
            }
            self.insert(group);
        }
    }

    /// Keeps a group, unless it is empty.
    fn insert(&mut self, group: Group) {
        if group.spans.is_empty() {
            return;
        }
        self.numbers.insert(group.key, group.number);
        self.due.insert((group.due_ms(), group.number));
        self.bytes = self.bytes.saturating_add(group.bytes());
        self.waiting = self.waiting.saturating_add(group.spans.len());
        self.groups.insert(group.number, group);
    }

    fn remove(&mut self, number: u64) -> Option<Group> {
        let group = self.groups.remove(&number)?;
        self.numbers.remove(&group.key);
        self.due.remove(&(group.due_ms(), number));
        self.bytes = self.bytes.saturating_sub(group.bytes());
        self.waiting = self.waiting.saturating_sub(group.spans.len());
        Some(group)
    }

    /// Releases the spans of a group that are due. With `ends`, releases the whole group; spans
    /// without a root are left out for that reason.
    fn settle(&mut self, number: u64, ends: Option<LeftOut>) {
        let Some(mut group) = self.remove(number) else { return };
        let (spans, texts) = (std::mem::take(&mut group.spans), std::mem::take(&mut group.texts));
        self.release(&mut group, spans, &texts, ends);
        self.insert(group);
    }

    /// Releases the roots among all spans of a group that are due, with the spans below them, and
    /// keeps the others.
    fn release(
        &mut self,
        group: &mut Group,
        mut spans: Vec<Span>,
        texts: &Texts<'_>,
        ends: Option<LeftOut>,
    ) {
        let now_ms = self.now_ms;
        let is_over = ends.is_some() || group.ends_ms <= now_ms;
        self.leave_out(LeftOut::Duplicate, find_roots(&mut spans));
        let is_lost = |it: &Span| it.root == 0;
        let leaves = |it: &Span| !is_lost(it) && (is_over || it.leaves_ms <= now_ms);
        let is_request = |it: &&Span| it.is_found_root() && left_out(it, texts).is_none();
        let requests = spans.iter().filter(is_request);
        let mut leaving = requests.clone().filter(|it| leaves(it)).map(|it| it.id);
        let (request, another) = (leaving.next(), leaving.next());
        // Spans whose parent is missing are lost once no request remains to which they might
        // belong.
        let has_left = spans.iter().any(is_lost) && self.known.contains(&group.key);
        let (guess, lost) = match (request, requests.clone().all(leaves)) {
            (Some(_), true) if another.is_none() && !has_left => (request, None),
            (Some(_), true) => (None, Some(LeftOut::Orphan)),
            _ if is_over && has_left => (None, Some(LeftOut::LateChild)),
            _ if is_over => (None, ends.or(Some(LeftOut::NoRequest))),
            _ => (None, None),
        };
        if let Some(guess) = guess {
            for it in spans.iter_mut().filter(|it| is_lost(it)) {
                (it.root, it.leaves_ms) = (guess, now_ms);
                self.counters.spans_parent_guessed.add(1);
            }
        }
        let stays = |it: &Span| !leaves(it) && (!is_lost(it) || lost.is_none());
        spans.sort_by_key(|it| it.root);
        for alike in spans.chunk_by(|a, b| a.root == b.root) {
            // Those with the same root leave together.
            if alike.first().is_some_and(|it| !stays(it)) {
                self.leave(group, alike, texts, lost);
            }
        }
        spans.retain(stays);
        if !spans.is_empty() {
            group.keep(&spans, texts);
        }
    }

    /// Releases spans with the same root: as a request with its timers if that is one. Spans
    /// without a root are `lost`.
    fn leave(&mut self, group: &Group, spans: &[Span], texts: &Texts<'_>, lost: Option<LeftOut>) {
        let root = spans.iter().find(|it| it.is_found_root());
        if let Some(reason) = root.map_or(lost, |root| left_out(root, texts)) {
            return self.leave_out(reason, spans.len());
        }
        let Some(root) = root else { return };
        let mut timers = Vec::with_capacity(spans.len());
        let (mut nested, mut internal) = (0_usize, 0_usize);
        for span in spans.iter().filter(|it| !it.is_found_root()) {
            let is_nested = asks(span) & span.asked.unwrap_or(0) != 0;
            match span.kind.asks() {
                true if is_nested => nested = nested.saturating_add(1),
                false if !self.writer.config.internal => internal = internal.saturating_add(1),
                _ => timers.push(span),
            }
        }
        if self.remembered.len() >= REMEMBERED_MAX {
            let oldest = self.remembered.pop_front();
            oldest.iter().flatten().for_each(|it| _ = self.known.remove(it));
        }
        self.remembered.push_back([group.key ^ root.id, group.key]);
        self.unknown = self.unknown.saturating_add(1);
        let written = self.writer.write(group.resource, texts, root, &mut timers, self.now_secs);
        let Some(rows) = written else { return self.leave_out(LeftOut::TooLarge, spans.len()) };
        self.timers = self.timers.saturating_add(rows);
        self.counters.spans_merged.add((timers.len() as u64).saturating_sub(rows));
        self.leave_out(LeftOut::Nested, nested);
        self.leave_out(LeftOut::Internal, internal);
    }

    /// Makes requests known that have left. Many in one go, as each waits for memory.
    fn know(&mut self) {
        let first = self.remembered.len().saturating_sub(std::mem::take(&mut self.unknown));
        self.known.extend(self.remembered.range(first..).flatten());
    }

    fn leave_out(&self, reason: LeftOut, spans: usize) {
        self.counters.spans_left_out.add_many(reason as usize, spans as u64);
    }
}

/// Finds the root above each span, which may be the span itself, when it leaves, and the classes of
/// the calls between the two. Afterwards spans are in the order of their ids, and each is there
/// once; returns the number of the others.
fn find_roots(spans: &mut Vec<Span>) -> usize {
    let came = spans.len();
    spans.sort_by_key(|it| it.id);
    spans.dedup_by_key(|it| it.id);
    spans.iter_mut().for_each(|it| it.asked = None);
    let mut path = Vec::new();
    // The last parent that was looked for, and its place: most spans have the same.
    let mut above = (0, None);
    for from in 0..spans.len() {
        // Up to a span whose root is known, or with nothing above it.
        let (mut next, mut root, mut leaves_ms, mut asked) = (Some(from), 0, u64::MAX, 0);
        while let Some(at) = next
            && let Some(it) = spans.get_mut(at)
        {
            if let Some(known) = it.asked {
                (root, leaves_ms, asked) = (it.root, it.leaves_ms, known | asks(it));
                break;
            }
            path.push(at);
            let span = *it;
            // A cycle leads back to this span.
            (it.root, it.leaves_ms, it.asked) = (0, u64::MAX, Some(0));
            if above.0 != span.parent {
                let place = spans.binary_search_by_key(&span.parent, |it| it.id);
                above = (span.parent, place.ok());
            }
            next = above.1.filter(|_| !span.is_root());
            if next.is_none() && span.leads() {
                (root, leaves_ms) = (span.id, span.leaves_ms);
            }
        }
        // Down again.
        while let Some(it) = path.pop().and_then(|at| spans.get_mut(at)) {
            (it.root, it.leaves_ms, it.asked) = (root, leaves_ms, Some(asked));
            asked |= asks(it);
        }
    }
    came.saturating_sub(spans.len())
}

/// Returns the reason why a root is not a request, if it is not.
fn left_out(root: &Span, texts: &Texts<'_>) -> Option<LeftOut> {
    let receives = || {
        let facts = root.facts.among(texts);
        let operation = facts.get(Key::MessagingType).or_else(|| facts.get(Key::MessagingName));
        let verb = facts.get(Key::Name).and_then(|it| it.split(|it| *it == b' ').next());
        [operation, verb].contains(&Some(&b"receive"[..]))
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
    if span.kind.asks() { Class::of(span.facts) as u8 } else { 0 }
}
