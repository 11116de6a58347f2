//! OpenTelemetry spans over HTTP (OTLP): traces become requests with timers.
//!
//! Each `[[otlp_input]]` entry is a [`Source`]. The HTTP side passes whole bodies to
//! [`Source::take`]; `protobuf` decodes them, after `json` has rewritten those in JSON, and keeps
//! the parts of each span that the mapping uses (`facts`, `span`). The spans of a trace are joined
//! (`join`) and become a record (`request`), which goes to the ring like those that receivers
//! decode. A separate thread ([`Source::run`]) releases spans that have waited long enough. Each
//! span ends in exactly one of the counters `requests`, `timers`, `spans_merged`, `spans_left_out`
//! and `spans_refused`, or is still waiting.

mod answer;
mod counters;
mod facts;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod join;
mod json;
pub(crate) mod messages;
mod protobuf;
mod request;
mod span;

use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

pub use self::answer::{refusal, success};
pub use self::counters::{BodyRefusal, LeftOut, OtlpCounters};
use self::facts::Keys;
use self::join::{Joiner, REMEMBERED_BYTES};
use self::request::RequestWriter;
pub use self::span::SpanRefusal;
use self::span::{Batch, Span};
use super::record::{Hasher, TextLimits};
use super::rewrite::Rewrite;
use crate::clock::Clock;
use crate::config::OtlpInput;
use crate::instruments::Instrument;
use crate::limits::{
    BODY_SPANS_MAX, OTLP_BODY_BYTES_MAX, OTLP_UNPACKED_BYTES_MAX, SPANS_WAITING_BYTES_MAX,
};
use crate::ring::Producer;
use crate::shutdown::Shutdown;
use crate::telemetry::counters::SocketCounters;

/// Decoding and joining of a body, counted in spans.
pub(crate) static TAKE_SPANS: Instrument = Instrument::new("stage/otlp/take spans");

/// Encoding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `application/x-protobuf`.
    Protobuf,
    /// `application/json`.
    Json,
}

/// Outcome of an accepted body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Spans that were refused.
    pub rejected: u64,
    /// Reason; empty if none were refused.
    pub message: String,
}

/// One `[[otlp_input]]` entry with its state.
#[derive(Debug)]
pub struct Source {
    /// Its configuration.
    pub config: Arc<OtlpInput>,
    /// Its counters.
    pub counters: Arc<OtlpCounters>,
    keys: Arc<Keys>,
    /// The joiner, present from start until shutdown.
    joining: Mutex<Option<Joined>>,
}

/// Connection to the ring.
#[derive(Debug)]
pub struct Lane {
    /// Writes records to the ring.
    pub producer: Producer,
    /// Counters of this producer.
    pub counters: Arc<SocketCounters>,
    /// Clock by which spans wait.
    pub clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct Joined {
    joiner: Joiner<Producer>,
    counters: Arc<SocketCounters>,
    clock: Arc<dyn Clock>,
}

impl Joined {
    fn with(&mut self, work: impl FnOnce(&mut Joiner<Producer>)) {
        self.joiner.now = (self.clock.mono_ms(), self.clock.unix_secs());
        work(&mut self.joiner);
        let counts = std::mem::take(&mut self.joiner.counts);
        self.counters.add_decoded(&counts);
        self.joiner.sink.publish();
    }
}

/// Interval between checks of waiting spans.
const NAP: Duration = Duration::from_millis(20);

impl Source {
    /// Creates a source, which accepts bodies only after [`begin`](Self::begin).
    #[must_use]
    pub fn new(config: OtlpInput) -> Arc<Self> {
        Arc::new(Self {
            keys: Arc::new(Keys::new(&config.attributes)),
            config: Arc::new(config),
            counters: Arc::default(),
            joining: Mutex::default(),
        })
    }

    /// Starts accepting spans: applies `rules` as name rules and writes records to `lane`.
    pub fn begin(
        &self,
        lane: Lane,
        (limits, hasher): (TextLimits, Hasher),
        rules: Box<dyn Rewrite + Send>,
    ) {
        let writer = RequestWriter::new((&self.config, &self.keys), limits, hasher, rules);
        *self.joining.lock() = Some(Joined {
            joiner: Joiner::new(writer, &self.counters, lane.producer),
            counters: lane.counters,
            clock: lane.clock,
        });
    }

    /// Takes a body from `sender`.
    ///
    /// # Errors
    /// The reason for refusing the body as a whole; the caller has to [count](Self::refuse) it.
    pub fn take(&self, body: &[u8], form: Form, sender: IpAddr) -> Result<Accepted, BodyRefusal> {
        let mut stage = TAKE_SPANS.begin();
        let (hasher, now_ms) = {
            let joining = self.joining.lock();
            let joining = joining.as_ref().ok_or(BodyRefusal::Stopping)?;
            (joining.joiner.hasher.clone(), joining.clock.unix_ms())
        };
        let now_ns = now_ms.saturating_mul(1_000_000);
        let mut batch = Batch::new(&self.keys, &hasher, now_ns);
        match form {
            Form::Protobuf => protobuf::decode(body, &mut batch)?,
            Form::Json => json::decode(body, &mut batch)?,
        }
        stage.worked(batch.received);
        let mut joining = self.joining.lock();
        let joining = joining.as_mut().ok_or(BodyRefusal::Stopping)?;
        joining.with(|joiner| joiner.take(&mut batch, sender));
        let (rejected, message) = batch.refusals();
        Ok(match rejected {
            0 => Accepted::default(),
            rejected => Accepted { rejected, message },
        })
    }

    /// Returns what is wrong with a refused body of this form, and where, if that is known.
    #[must_use]
    pub fn problem(body: &[u8], form: Form) -> Option<String> {
        match form {
            Form::Protobuf => None,
            Form::Json => json::problem(body),
        }
    }

    /// Counts a refused body.
    pub fn refuse(&self, reason: BodyRefusal) {
        self.counters.bodies_refused.add_one(reason as usize);
    }

    /// Releases spans that have waited long enough until `shutdown` is requested; then releases
    /// everything and stops accepting.
    pub fn run(&self, shutdown: &Shutdown) {
        while !shutdown.requested() {
            if let Some(joining) = &mut *self.joining.lock() {
                joining.with(Joiner::advance);
            }
            thread::sleep(NAP);
        }
        if let Some(mut joining) = self.joining.lock().take() {
            joining.with(Joiner::finish);
        }
    }
}

/// Bodies decoded concurrently: one for each thread of the HTTP side.
const DECODED_AT_ONCE: usize = 2;

/// Maximum total size of bodies being received, bytes.
pub const BODIES_BYTES_MAX: usize = 16 << 20;

/// Memory of one source for the memory plan, bytes.
pub const SOURCE_BYTES: usize = RequestWriter::BYTES
    + SPANS_WAITING_BYTES_MAX
    + REMEMBERED_BYTES
    + BODIES_BYTES_MAX
    + DECODED_AT_ONCE * (OTLP_UNPACKED_BYTES_MAX * 2 + 2 * BODY_SPANS_MAX * size_of::<Span>());

const _: () = assert!(OTLP_BODY_BYTES_MAX <= BODIES_BYTES_MAX);

#[cfg(test)]
mod tests;
