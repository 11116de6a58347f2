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
use super::facts::{Key, Keys};
use super::request::{Class, RequestWriter};
use super::span::{Batch, Kind, Resource, Span, TraceId};
use crate::config::OtlpInput;
use crate::input::record::{DecodeCounts, Hasher, RecordSink};
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
    bytes: usize,
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
}

impl Group {
    fn ends_ms(&self) -> u64 {
        let rest = self.last_ms.saturating_add(REST_WAITS_MS);
        rest.min(self.first_ms.saturating_add(WAITS_MAX_MS))
    }
}

/// Selects the spans of a group that stay.
struct Kept<'k> {
    /// One flag for each span.
    kept: &'k [bool],
    /// Indexes of the requests among those that leave, in order.
    requests: &'k [usize],
    now_ms: u64,
}

/// Root above a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Above {
    NotKnown,
    /// Index of the root in the group.
    Root(u32),
    Missing,
}

/// Waiting spans, and the writer that turns them into records.
#[derive(Debug)]
pub(super) struct Joiner {
    config: Arc<OtlpInput>,
    keys: Arc<Keys>,
    hasher: Hasher,
    writer: RequestWriter,
    /// Ordered by age.
    groups: BTreeMap<u64, Group>,
    numbers: HashMap<GroupKey, u64, ahash::RandomState>,
    /// Time at which a group is due, and its number.
    due: BTreeSet<(u64, u64)>,
    began: u64,
    bytes: usize,
    waiting: u64,
    /// Hashes of waiting spans and of requests that have left.
    known: HashSet<u64, ahash::RandomState>,
    /// Requests that have left, oldest first: hash of the span, hash of its group.
    remembered: VecDeque<[u64; 2]>,
    /// Decoding counts for the ring.
    pub(super) counts: DecodeCounts,
}

/// Sink of the records, and the counters to update.
pub(super) struct Out<'o, S> {
    pub(super) sink: &'o mut S,
    pub(super) counters: &'o OtlpCounters,
    pub(super) received_secs: u32,
}

impl<S> Out<'_, S> {
    fn leave_out(&self, reason: LeftOut, spans: usize) {
        let mut counts = [0; LeftOut::COUNT];
        if let Some(count) = counts.get_mut(reason as usize) {
            *count = spans as u64;
        }
        self.counters.spans_left_out.add(&counts);
    }
}

impl Joiner {
    pub(super) fn new(
        config: Arc<OtlpInput>,
        keys: Arc<Keys>,
        hasher: Hasher,
        writer: RequestWriter,
    ) -> Self {
        Self {
            config,
            keys,
            hasher,
            writer,
            groups: BTreeMap::new(),
            numbers: HashMap::default(),
            due: BTreeSet::new(),
            began: 0,
            bytes: 0,
            waiting: 0,
            known: HashSet::default(),
            remembered: VecDeque::new(),
            counts: DecodeCounts::default(),
        }
    }

    /// Takes the spans of a body and releases those that are ready.
    pub(super) fn take<S: RecordSink>(
        &mut self,
        batch: &mut Batch<'_>,
        sender: IpAddr,
        now_ms: u64,
        out: &mut Out<'_, S>,
    ) {
        let counters = out.counters;
        counters.spans_received.add(batch.received);
        counters.spans_refused.add(&batch.refused);
        counters.spans_sampled.add(batch.sampled);
        counters.attributes_over_limit.add(batch.facts.over_limit);
        counters.events_over_limit.add(batch.events_over_limit);
        let mut touched = Vec::new();
        for (resource, spans) in std::mem::take(&mut batch.resources) {
            let resource = Arc::new(resource);
            for span in spans {
                if !self.known.insert(self.span_hash(&span.trace, span.id)) {
                    out.leave_out(LeftOut::Duplicate, 1);
                    continue;
                }
                let number = self.number_of(&resource, span.trace, sender, now_ms);
                if touched.last() != Some(&number) {
                    touched.push(number);
                }
                self.add(number, span, now_ms);
            }
        }
        for number in touched {
            self.schedule(number);
        }
        self.advance(now_ms, out);
        while self.bytes > SPANS_WAITING_BYTES_MAX
            && let Some(&oldest) = self.groups.keys().next()
        {
            self.settle(oldest, now_ms, Some(LeftOut::PushedOut), out);
        }
        self.show(counters);
    }

    /// Releases the spans that are due.
    pub(super) fn advance<S: RecordSink>(&mut self, now_ms: u64, out: &mut Out<'_, S>) {
        while let Some(&(due_ms, number)) = self.due.first()
            && due_ms <= now_ms
        {
            self.settle(number, now_ms, None, out);
        }
        self.writer.publish_counts();
        self.show(out.counters);
    }

    /// Updates the gauges of waiting spans.
    fn show(&self, counters: &OtlpCounters) {
        counters.spans_waiting.set(self.waiting);
        counters.traces_waiting.set(self.groups.len() as u64);
        counters.waiting_bytes.set(self.bytes as u64);
    }

    /// Releases everything, because no more spans will come.
    pub(super) fn finish<S: RecordSink>(&mut self, now_ms: u64, out: &mut Out<'_, S>) {
        while let Some(&number) = self.groups.keys().next() {
            self.settle(number, now_ms, Some(LeftOut::NoRequest), out);
        }
        self.advance(now_ms, out);
    }

    fn span_hash(&self, trace: &TraceId, id: u64) -> u64 {
        let number = id.to_be_bytes();
        self.hasher.hash_tags([(&trace[..], &number[..])])
    }

    fn group_hash(&self, (trace, resource): &GroupKey) -> u64 {
        let number = resource.to_be_bytes();
        self.hasher.hash_tags([(&number[..], &trace[..])])
    }

    /// Returns the number of this trace's group, creating the group if needed.
    fn number_of(
        &mut self,
        resource: &Arc<Resource>,
        trace: TraceId,
        sender: IpAddr,
        now_ms: u64,
    ) -> u64 {
        let key = (trace, resource.hash);
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = self.began;
        self.began = self.began.saturating_add(1);
        let bytes = GROUP_BYTES.saturating_add(resource.facts.bytes());
        self.bytes = self.bytes.saturating_add(bytes);
        self.numbers.insert(key, number);
        let group = Group {
            key,
            resource: Arc::clone(resource),
            sender,
            spans: Vec::new(),
            first_ms: now_ms,
            last_ms: now_ms,
            has_left: self.known.contains(&self.group_hash(&key)),
            bytes,
            leaves_ms: u64::MAX,
            due_ms: u64::MAX,
        };
        self.groups.insert(number, group);
        number
    }

    fn add(&mut self, number: u64, span: Span, now_ms: u64) {
        let Some(group) = self.groups.get_mut(&number) else {
            return;
        };
        let wait_ms = match group.resource.is_php() {
            true => 0,
            false => ROOT_WAITS_MS,
        };
        let leaves_ms = match span.is_root() || span.may_be_root() {
            true => now_ms.saturating_add(wait_ms),
            false => u64::MAX,
        };
        let bytes = span.bytes().saturating_add(size_of::<u64>());
        group.bytes = group.bytes.saturating_add(bytes);
        group.last_ms = now_ms;
        group.leaves_ms = group.leaves_ms.min(leaves_ms);
        group.spans.push(Waiting { span, leaves_ms });
        self.bytes = self.bytes.saturating_add(bytes);
        self.waiting = self.waiting.saturating_add(1);
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
    fn settle<S: RecordSink>(
        &mut self,
        number: u64,
        now_ms: u64,
        ends: Option<LeftOut>,
        out: &mut Out<'_, S>,
    ) {
        let Some(mut group) = self.groups.remove(&number) else {
            return;
        };
        self.due.remove(&(group.due_ms, number));
        let is_over = ends.is_some() || group.ends_ms() <= now_ms;
        let spans = std::mem::take(&mut group.spans);
        let (mut above, asked) = above(&spans);
        let root_at = |at: usize| above.get(at) == Some(&Above::Root(at as u32));
        let is_request = |at: &usize| match spans.get(*at) {
            Some(it) => left_out(&it.span).is_none(),
            None => false,
        };
        let leaves = |at: &usize| {
            let leaves_ms = spans.get(*at).map_or(u64::MAX, |it| it.leaves_ms);
            is_over || leaves_ms <= now_ms
        };
        let (leaving, staying): (Vec<_>, Vec<_>) =
            (0..spans.len()).filter(|at| root_at(*at)).partition(leaves);
        let requests: Vec<_> = leaving.iter().copied().filter(is_request).collect();
        // Spans whose parent is missing are lost once no request remains to which they might
        // belong.
        let mut lost = None;
        if !requests.is_empty() && !staying.iter().any(is_request) {
            match requests[..] {
                [only] if !group.has_left => {
                    let missing = above.iter_mut().filter(|it| **it == Above::Missing);
                    let guessed = missing.map(|it| *it = Above::Root(only as u32)).count();
                    out.counters.spans_parent_guessed.add(guessed as u64);
                }
                _ => lost = Some(LeftOut::Orphan),
            }
        }
        if is_over {
            let late = group.has_left.then_some(LeftOut::LateChild);
            lost = lost.or(late).or(ends).or(Some(LeftOut::NoRequest));
        }
        let mut of_roots: HashMap<u32, Vec<usize>, ahash::RandomState> = HashMap::default();
        let mut kept = vec![false; spans.len()];
        for (at, above) in above.iter().enumerate() {
            let stays = match above {
                Above::Root(root) if leaving.binary_search(&(*root as usize)).is_ok() => {
                    of_roots.entry(*root).or_default().push(at);
                    false
                }
                Above::Root(_) => true,
                Above::Missing | Above::NotKnown => match lost {
                    Some(reason) => {
                        out.leave_out(reason, 1);
                        false
                    }
                    None => true,
                },
            };
            if let Some(kept) = kept.get_mut(at) {
                *kept = stays;
            }
        }
        for root in &leaving {
            let below = of_roots.remove(&(*root as u32)).unwrap_or_default();
            self.leave(&group, (&spans, &asked), *root, &below, out);
        }
        group.has_left |= !requests.is_empty();
        let kept = Kept {
            kept: &kept,
            requests: &requests,
            now_ms,
        };
        self.put_back(number, group, spans, kept);
    }

    /// Releases a root with the spans below it; `below` includes the root.
    fn leave<S: RecordSink>(
        &mut self,
        group: &Group,
        (spans, asked): (&[Waiting], &[u8]),
        root: usize,
        below: &[usize],
        out: &mut Out<'_, S>,
    ) {
        let Some(Waiting { span: request, .. }) = spans.get(root) else {
            return;
        };
        if let Some(reason) = left_out(request) {
            out.leave_out(reason, below.len());
            return;
        }
        let mut timers: Vec<&Span> = Vec::with_capacity(below.len());
        let (mut nested, mut internal) = (0_usize, 0_usize);
        for at in below.iter().filter(|at| **at != root) {
            let (Some(it), Some(asked)) = (spans.get(*at), asked.get(*at)) else {
                continue;
            };
            match it.span.kind.asks() {
                true if Class::of(&it.span.facts) as u8 & asked != 0 => {
                    nested = nested.saturating_add(1);
                }
                false if !self.config.internal => internal = internal.saturating_add(1),
                _ => timers.push(&it.span),
            }
        }
        self.counts.requests_decoded = self.counts.requests_decoded.saturating_add(1);
        let written = self.writer.write(
            (&self.config, &self.keys),
            (&group.resource, group.sender),
            request,
            &mut timers,
            out.received_secs,
            &mut self.counts,
            out.sink,
        );
        match written {
            Ok(written) => {
                out.counters.requests.add(1);
                out.counters.timers.add(written.rows);
                out.counters.spans_merged.add(written.merged);
                out.leave_out(LeftOut::Nested, nested);
                out.leave_out(LeftOut::Internal, internal);
            }
            Err(reason) => {
                self.counts.reject_request(reason);
                out.leave_out(LeftOut::TooLarge, below.len());
            }
        }
    }

    /// Puts back the spans of a group that stay; forgets the others except for these requests.
    fn put_back(
        &mut self,
        number: u64,
        mut group: Group,
        spans: Vec<Waiting>,
        Kept {
            kept,
            requests,
            now_ms,
        }: Kept<'_>,
    ) {
        let of_group = self.group_hash(&group.key);
        group.leaves_ms = u64::MAX;
        for (at, (mut it, kept)) in spans.into_iter().zip(kept).enumerate() {
            if *kept {
                // Its parent has arrived: the span leaves with it.
                if it.leaves_ms <= now_ms {
                    it.leaves_ms = u64::MAX;
                }
                group.leaves_ms = group.leaves_ms.min(it.leaves_ms);
                group.spans.push(it);
                continue;
            }
            let bytes = it.span.bytes().saturating_add(size_of::<u64>());
            group.bytes = group.bytes.saturating_sub(bytes);
            self.bytes = self.bytes.saturating_sub(bytes);
            self.waiting = self.waiting.saturating_sub(1);
            let hash = self.span_hash(&it.span.trace, it.span.id);
            match requests.binary_search(&at) {
                Ok(_) => self.remember([hash, of_group]),
                Err(_) => {
                    self.known.remove(&hash);
                }
            }
        }
        if group.spans.is_empty() {
            self.bytes = self.bytes.saturating_sub(group.bytes);
            self.numbers.remove(&group.key);
            return;
        }
        self.groups.insert(number, group);
        self.schedule(number);
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

/// Returns the reason why a root is not a request, if it is not.
fn left_out(root: &Span) -> Option<LeftOut> {
    let facts = &root.facts;
    let operation = [Key::MessagingType, Key::MessagingName, Key::OldMessaging];
    let is_receive = |text: &[u8]| text == b"receive" || text.starts_with(b"receive ");
    let receives =
        facts.first(&operation) == Some(b"receive") || facts.get(Key::Name).is_some_and(is_receive);
    match root.kind {
        Kind::Client => Some(LeftOut::ClientRoot),
        Kind::Producer => Some(LeftOut::ProducerRoot),
        Kind::Consumer => receives.then_some(LeftOut::Receive),
        Kind::Server | Kind::Internal => None,
    }
}

/// Finds the root above each span, which may be the span itself, and the classes of the calls
/// between the two.
fn above(spans: &[Waiting]) -> (Vec<Above>, Vec<u8>) {
    let places = spans.iter().enumerate();
    let places: HashMap<u64, usize, ahash::RandomState> =
        places.map(|(at, it)| (it.span.id, at)).collect();
    let parent_of = |at: usize| {
        let span = &spans.get(at)?.span;
        match span.is_root() {
            true => None,
            false => places.get(&span.parent).copied(),
        }
    };
    let mut above = vec![Above::NotKnown; spans.len()];
    let mut asked = vec![0_u8; spans.len()];
    let mut path = Vec::new();
    for from in 0..spans.len() {
        let mut at = from;
        // Walk up to a resolved span, or to one with nothing above it.
        while above.get(at) == Some(&Above::NotKnown) {
            path.push(at);
            // A cycle leads back to this span.
            if let Some(above) = above.get_mut(at) {
                *above = Above::Missing;
            }
            match parent_of(at) {
                Some(parent) => at = parent,
                None => break,
            }
        }
        // Walk down again.
        while let Some(at) = path.pop() {
            let (Some(it), parent) = (spans.get(at), parent_of(at)) else {
                continue;
            };
            let (found, classes) = match parent {
                None if it.span.is_root() || it.span.may_be_root() => (Above::Root(at as u32), 0),
                None => (Above::Missing, 0),
                Some(parent) => {
                    let found = above.get(parent).copied().unwrap_or(Above::Missing);
                    let by = asked.get(parent).copied().unwrap_or(0);
                    let own = spans.get(parent).filter(|it| it.span.kind.asks());
                    let own = own.map_or(0, |it| Class::of(&it.span.facts) as u8);
                    (found, by | own)
                }
            };
            if let (Some(above), Some(asked)) = (above.get_mut(at), asked.get_mut(at)) {
                (*above, *asked) = (found, classes);
            }
        }
    }
    (above, asked)
}
