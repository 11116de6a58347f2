//! Pushes metrics, and slow requests as spans, to an OpenTelemetry server: OTLP over HTTP, in
//! protobuf.
//!
//! ```text
//!   series thread: Second -> Rows            thread `otlp-push`: Rows, own counters -(each period)-> bodies -> server
//! ```
//!
//! A body that was not accepted is sent again unchanged, and the next ones wait behind it. While
//! the waiting bodies fill `QUEUE_BYTES_MAX`, the interval stays open: a delta then covers more
//! seconds, and nothing is lost. Points that the server refuses, or that still wait at shutdown,
//! are dropped and counted. Every point and span is counted once: sent, dropped or waiting.

mod body;
mod counters;
mod exponential;
mod own;
mod rows;
mod server;
#[cfg(test)]
mod tests;
mod traces;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use tracing::{info, warn};

use self::body::{Bodies, Body, Signal};
pub use self::counters::{GivenUp, PushCounters};
use self::own::Own;
use self::rows::{BYTES_MAX, Rows};
pub use self::server::urls;
use self::server::{ANSWER_MAX, Server};
use self::traces::Traces;
use crate::backoff::BackOff;
use crate::clock::Clock;
use crate::config::{Config, OtlpConfig, OtlpTemporality, OtlpTraces};
use crate::delta::{RowReader, Second};
use crate::input::otlp::messages::{INSTANCE_ID, KeyValue, Resource};
use crate::merger::SharedLive;
use crate::metrics::exemplars::NewRequests;
use crate::profile::this_host;
use crate::shutdown::Shutdown;
use crate::telemetry::reading::{Group, Place, readings};

/// Maximum size of waiting bodies, bytes.
const QUEUE_BYTES_MAX: usize = 32 << 20;
/// Maximum size of the daemon's own counters, and of exemplars, in bodies, bytes.
const OWN_BYTES: usize = 1 << 20;
/// Memory of a push for the memory plan: rows, waiting bodies, and points and spans being packed
/// into bodies.
pub const PUSH_BYTES: usize = 2 * BYTES_MAX + QUEUE_BYTES_MAX + OWN_BYTES + 2 * traces::BYTES_MAX;
/// Interval between checks whether an interval is over.
const NAP: Duration = Duration::from_millis(100);
/// Interval at which unchanged cumulative rows are sent, milliseconds.
const ALL_MS: u64 = 60_000;
/// First and longest delay before a retry, milliseconds.
const RETRY_MS: (u64, u64) = (1_000, 30_000);
/// Time between two lines of the log about points or spans that the server refuses, milliseconds.
const REFUSED_APART_MS: u64 = 60_000;
/// Time allowed at shutdown for a request under way, and for the last bodies after it.
const GRACE: Duration = Duration::from_millis(300);
const LAST_MAX: Duration = Duration::from_millis(600);

/// A push, shared by the series thread and the readers of its status.
#[derive(Debug, Clone)]
pub struct Push {
    rows: Arc<Mutex<Rows>>,
    counters: Arc<PushCounters>,
    /// Why a body was last not accepted.
    problem: Arc<Mutex<String>>,
    /// What is wrong now, for the readers of the daemon's health.
    pub(crate) troubles: Troubles,
    server: Arc<Server>,
}

/// By signal: why the last body was not accepted in full, if so, and by which URL.
pub(crate) type Troubles = Arc<Mutex<[Option<String>; 2]>>;

/// Supplies the daemon's own numbers.
pub(crate) type OwnNumbers = Box<dyn Fn() -> Vec<Group> + Send>;

/// The sending side of a push.
pub(crate) struct Pusher {
    push: Push,
    clock: Arc<dyn Clock>,
    own_numbers: OwnNumbers,
    own: Own,
    /// Not yet looked at for exemplars.
    requests: NewRequests,
    traces: Option<Traces>,
    resource: Resource,
    config: OtlpConfig,
    queue: VecDeque<Arc<Body>>,
    /// Time on the monotonic clock when all rows were last sent.
    all_ms: u64,
    back_off: BackOff,
    /// By signal: points given up since the last line about that in the log, and from when on the
    /// next may be written, in milliseconds of the monotonic clock.
    unsaid: [(u64, u64); 2],
}

/// Checks the server's settings in a configuration.
///
/// # Errors
/// A problem with its certificates or headers.
pub fn check(config: &Config) -> Result<(), String> {
    Server::of(&config.otlp).map(drop)
}

impl Push {
    /// Creates a push that counts from now on; `None` if no server is configured.
    ///
    /// # Errors
    /// As [`check`].
    pub fn new(config: &Config, clock: &dyn Clock) -> Result<Option<Self>, String> {
        let is_delta = config.otlp.temporality == OtlpTemporality::Delta;
        Ok(Server::of(&config.otlp)?.map(|server| Self {
            rows: Arc::new(Mutex::new(Rows::new(is_delta, clock.unix_ms()))),
            counters: Arc::default(),
            problem: Arc::default(),
            troubles: Arc::default(),
            server,
        }))
    }

    /// Takes a second, whose rows are supplied by `read`.
    pub fn take_rows(&self, second: &Second, read: impl FnOnce(&mut dyn RowReader)) {
        self.rows.lock().take(second, read);
    }

    /// Returns the points sent, dropped and waiting.
    pub fn status(&self) -> Group {
        let mut all = self.counters.counts().readings();
        let rows = self.rows.lock();
        all.extend(readings! {
            Gauge rows = rows.rows, "Rows that have points of their own.";
            Counter requests_folded = rows.folded, "Requests pushed under (other) because there were too many rows, over all reports.";
        });
        let troubles = self.troubles.lock();
        let troubles: Vec<&str> = troubles.iter().flatten().map(String::as_str).collect();
        let error = (!troubles.is_empty()).then(|| troubles.join("; "));
        let texts = json!({"url": self.server.urls[0], "error": error, "last_problem": *self.problem.lock()});
        Group::new(Place::Object("otlp"), all).with_texts(texts)
    }

    /// Records the end of an attempt to send a body of this signal, and why it was not accepted in
    /// full, if so.
    fn note(&self, signal: Signal, problem: Option<String>) {
        let url = &self.server.urls[signal as usize];
        self.troubles.lock()[signal as usize] = problem.as_ref().map(|it| format!("{url}: {it}"));
        if let Some(problem) = problem {
            *self.problem.lock() = problem;
        }
    }

    /// Creates the sending side. Its own numbers count on from those before anything was received.
    pub(crate) fn pusher(
        &self,
        config: &Config,
        clock: &Arc<dyn Clock>,
        live: &SharedLive,
        (own_numbers, before): (OwnNumbers, Vec<Group>),
    ) -> Pusher {
        let before = [own_numbers(), before].concat();
        let rows = self.rows.lock();
        let own = Own::begin(&before, (!rows.is_delta).then_some(rows.open.start_ms));
        // The series thread waits for them with the lock of the pool.
        drop(rows);
        let attributes = resource_attributes(config).into_iter();
        let attributes = attributes.map(|(name, is)| KeyValue::text(name, is)).collect();
        Pusher {
            push: self.clone(),
            clock: Arc::clone(clock),
            own,
            own_numbers,
            requests: NewRequests::of(live, clock),
            traces: Traces::of(config, live, clock),
            resource: Resource { attributes },
            config: config.otlp.clone(),
            queue: VecDeque::new(),
            all_ms: clock.mono_ms(),
            back_off: BackOff::new(RETRY_MS.0, RETRY_MS.1),
            unsaid: [(0, 0); 2],
        }
    }
}

/// Returns the `service.instance.id` of spans that this daemon pushes; `None` if it pushes none.
pub(crate) fn own_instance(config: &Config) -> Option<Arc<str>> {
    let pushes = !config.otlp.url.is_empty() && config.otlp.traces != OtlpTraces::None;
    pushes.then(|| resource_attributes(config).remove(INSTANCE_ID).unwrap_or_default().into())
}

/// Returns the attributes of the resource that identifies this daemon; they stay the same across
/// restarts.
fn resource_attributes(config: &Config) -> BTreeMap<String, String> {
    let host = this_host();
    let listen = config.ingest.listen.iter().map(ToString::to_string);
    let instance = listen.fold(host.clone(), |all, it| format!("{all}/{it}"));
    let defaults = [
        ("service.name", "pinbad".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        (INSTANCE_ID, instance),
        ("host.name", host),
    ];
    let mut attributes = BTreeMap::from(defaults.map(|(name, is)| (name.to_owned(), is)));
    attributes.extend(config.otlp.resource.clone());
    attributes
}

impl Pusher {
    /// Pushes until `stop` is requested, then sends the last interval.
    pub(crate) fn run(mut self, stop: &Shutdown) {
        while !stop.requested() {
            thread::sleep(NAP);
            self.cut(None);
            while self.back_off.is_over(self.clock.mono_ms()) && self.send(stop) {}
        }
        self.cut(Some(self.clock.unix_ms()));
        // A server that asked for a delay is left alone.
        let begun = Instant::now();
        let left = || LAST_MAX.saturating_sub(begun.elapsed());
        while !left().is_zero()
            && self.back_off.is_over(self.clock.mono_ms())
            && let Some(body) = self.queue.front().map(Arc::clone)
        {
            match self.push.server.post(&body, left()) {
                Ok(decided) => self.ended(decided),
                Err((_, after)) => thread::sleep(after.unwrap_or_default().max(NAP).min(left())),
            }
        }
        self.queue.iter().for_each(|body| self.count(body, GivenUp::Stopped, body.points));
        let count: u64 = self.queue.iter().map(|it| it.points).sum();
        if count > 0 {
            warn!(count, "Dropped what waited to be pushed, because the daemon stops.");
        }
    }

    /// Packs the interval into bodies if it is over and there is room. `last_ms` ends the last
    /// interval at that time, which is packed and counted even if nothing more will be sent.
    fn cut(&mut self, last_ms: Option<u64>) {
        let (counters, now_ms) = (&self.push.counters, self.clock.mono_ms());
        let period_ms = last_ms.map_or(self.config.period.as_secs() * 1_000, |_| 0);
        let mut rows = self.push.rows.lock();
        if let Some(last_ms) = last_ms {
            rows.open.end_ms = last_ms.max(rows.open.end_ms).max(rows.open.start_ms + 1);
        }
        let interval = rows.open;
        let waiting = counters.waiting_bytes.get() as usize;
        let more = rows.bytes + OWN_BYTES + traces::BYTES_MAX;
        let is_full = last_ms.is_none() && waiting > 0 && waiting + more > QUEUE_BYTES_MAX;
        drop(rows);
        if is_full || interval.end_ms < interval.start_ms + period_ms {
            return;
        }
        // Not under the lock of the rows, for which the series thread waits with that of the pool.
        let traced = self.requests.traced(interval.end_ms);
        let all = now_ms >= self.all_ms + ALL_MS;
        let mut rows = self.push.rows.lock();
        let interval = rows.open;
        let mut bodies = Bodies::new(self.resource.clone(), rows.is_delta, self.config.gzip);
        rows.cut(all, &traced, &mut bodies);
        drop(rows);
        self.own.cut(&(self.own_numbers)(), &interval, &mut bodies);
        let left_out = self.traces.as_mut().map_or(0, |it| it.cut(&mut bodies));
        counters.traces_left_out.add(left_out);
        if all {
            self.all_ms = now_ms;
        }
        for body in bodies.end() {
            let (.., waiting) = counters.of(body.signal);
            waiting.set(waiting.get() + body.points);
            counters.waiting_bytes.set(counters.waiting_bytes.get() + body.bytes.len() as u64);
            self.queue.push_back(Arc::new(body));
        }
    }

    /// Sends the oldest body; returns true if another one may follow at once.
    fn send(&mut self, stop: &Shutdown) -> bool {
        let Some(body) = self.queue.front().map(Arc::clone) else { return false };
        let (server, sent) = (Arc::clone(&self.push.server), Arc::clone(&body));
        let post = move || server.post(&sent, ANSWER_MAX);
        let Some(decision) = stop.unless_requested(("otlp-post", GRACE), post) else {
            // It may have arrived, so it is not sent twice.
            self.back_off.end();
            return false;
        };
        match decision.unwrap_or_else(|problem| Err((problem, None))) {
            Ok(decided) => {
                if self.back_off.succeeded() {
                    info!(url = self.url(body.signal), "The server accepts what is pushed again.");
                }
                self.ended(decided);
                !stop.requested()
            }
            Err((problem, after)) => {
                if self.back_off.failed(self.clock.mono_ms(), after) {
                    warn!(url = self.url(body.signal), problem, "Cannot push; trying again.");
                }
                self.push.note(body.signal, Some(problem));
                self.push.counters.attempts_failed.add(1);
                false
            }
        }
    }

    fn url(&self, signal: Signal) -> &str {
        &self.push.server.urls[signal as usize]
    }

    /// Removes the oldest body, on which the server has decided.
    fn ended(&mut self, (reason, given_up, problem): (GivenUp, u64, String)) {
        let Some(body) = self.queue.pop_front() else { return };
        let count = given_up.min(body.points);
        if reason == GivenUp::Partial {
            self.push.counters.bodies_sent.add(1);
        }
        let now_ms = self.clock.mono_ms();
        let (unsaid, next_ms) = &mut self.unsaid[body.signal as usize];
        *unsaid += count;
        if count > 0 && now_ms >= *next_ms {
            let (url, count) = (&self.push.server.urls[body.signal as usize], *unsaid);
            warn!(url, count, problem, "The server refuses points or spans; these are given up.");
            (*unsaid, *next_ms) = (0, now_ms + REFUSED_APART_MS);
        }
        self.push.note(body.signal, (count > 0).then_some(problem));
        self.count(&body, reason, count);
    }

    /// Counts a body that waits no longer, of which so many points are given up.
    fn count(&self, body: &Body, reason: GivenUp, given_up: u64) {
        let counters = &self.push.counters;
        // Whoever sees that it no longer waits also sees what became of it.
        let (sent, by_reason, waiting) = counters.of(body.signal);
        sent.add(body.points - given_up);
        by_reason.add_many(reason as usize, given_up);
        waiting.set(waiting.get() - body.points);
        counters.waiting_bytes.set(counters.waiting_bytes.get() - body.bytes.len() as u64);
    }
}
