//! OpenTelemetry spans over HTTP (OTLP): traces become requests with timers.
//!
//! Each `[[otlp_input]]` entry is a [`Source`]. The HTTP side passes whole bodies to
//! `Source::take`; `protobuf` decodes them, after `json` has rewritten those in JSON, to `Span`s
//! with the attributes that the mapping uses (`span`, `attributes`). The spans of a trace are
//! joined (`join`) and become a record (`request`), which goes to the ring like those that
//! receivers decode. A separate thread ([`Source::run`]) releases spans that have waited long
//! enough. Each span ends in exactly one of the counters `requests`, `timers`, `spans_merged`,
//! `spans_left_out` and `spans_refused`, or is still waiting.

mod attributes;
mod counters;
mod join;
mod json;
pub(crate) mod messages;
mod protobuf;
mod request;
mod span;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message;
use serde::Serialize;

use self::attributes::Keys;
pub use self::counters::{BodyRefusal, LeftOut, OtlpCounters};
use self::join::{Joiner, REMEMBERED_BYTES};
use self::messages::PartialSuccess;
use self::request::RequestWriter;
pub(crate) use self::span::Kind;
pub use self::span::SpanRefusal;
use self::span::{Batch, Span};
use super::Lane;
use super::record::{DecodeCounts, Hasher, RecordWriter, TextLimits};
use super::rewrite::NameRules;
use crate::config::OtlpInput;
use crate::instruments::Instrument;
use crate::limits::{
    BODY_SPANS_MAX, OTLP_BODY_BYTES_MAX, OTLP_UNPACKED_BYTES_MAX, SPANS_WAITING_BYTES_MAX,
};
use crate::shutdown::Shutdown;

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

impl Form {
    /// Encodes an answer.
    pub(crate) fn encode(self, answer: &(impl Message + Serialize)) -> Vec<u8> {
        match self {
            Self::Protobuf => answer.encode_to_vec(),
            // A message has nothing that JSON cannot express.
            Self::Json => serde_json::to_vec(answer).unwrap_or_default(),
        }
    }

    /// Returns a body in protobuf.
    fn protobuf(self, body: &[u8]) -> Result<Cow<'_, [u8]>, Refused> {
        let problem = |problem: serde_json::Error| (BodyRefusal::BadJson, problem.to_string());
        match self {
            Self::Protobuf => Ok(Cow::Borrowed(body)),
            Self::Json => json::as_protobuf(body).map(Cow::Owned).map_err(problem),
        }
    }
}

/// Reason for refusing a body as a whole, and what is wrong with it and where.
type Refused = (BodyRefusal, String);

/// One `[[otlp_input]]` entry with its state.
#[derive(Debug)]
pub struct Source {
    /// Its configuration.
    pub config: Arc<OtlpInput>,
    /// Its counters.
    pub counters: Arc<OtlpCounters>,
    keys: Arc<Keys>,
    /// The joiner, present from start until shutdown.
    joiner: Mutex<Option<Joiner>>,
}

/// Interval between checks of waiting spans.
const NAP: Duration = Duration::from_millis(20);

impl Source {
    /// Creates a source, which accepts bodies only after [`begin`](Self::begin), and no spans that
    /// the daemon pushes as `own_instance`.
    pub fn new(config: OtlpInput, own_instance: Option<Arc<str>>) -> Arc<Self> {
        Arc::new(Self {
            keys: Arc::new(Keys::new(&config.attributes, own_instance)),
            config: Arc::new(config),
            counters: Arc::default(),
            joiner: Mutex::default(),
        })
    }

    /// Starts accepting spans: applies `rules` as name rules and writes records to `lane`.
    pub fn begin(&self, lane: Lane, (limits, hasher): (TextLimits, Hasher), rules: NameRules) {
        let writer = RequestWriter {
            config: Arc::clone(&self.config),
            keys: Arc::clone(&self.keys),
            record: RecordWriter::new(limits, hasher),
            rules,
            lane,
            counts: DecodeCounts::default(),
        };
        *self.joiner.lock() = Some(Joiner::new(writer, &self.counters));
    }

    /// Takes a body from `sender`; returns what was refused of it.
    ///
    /// # Errors
    /// The reason for refusing the body as a whole; the caller has to count it.
    pub(crate) fn take(
        &self,
        body: &[u8],
        form: Form,
        sender: IpAddr,
    ) -> Result<Option<PartialSuccess>, Refused> {
        let stopping = || (BodyRefusal::Stopping, String::new());
        let mut stage = TAKE_SPANS.begin();
        let now_ms = self.joiner.lock().as_ref().ok_or_else(stopping)?.writer.lane.clock.unix_ms();
        let (now_ns, sender) = (now_ms.saturating_mul(1_000_000), Some(sender));
        let body = form.protobuf(body)?;
        let mut batch = Batch { sender, now_ns, ..Batch::default() };
        let decoded = protobuf::decode(&body, &self.keys, &mut batch);
        decoded.map_err(|problem| (BodyRefusal::BadProtobuf, problem.name().to_owned()))?;
        stage.worked(batch.received);
        let partial_success = batch.partial_success();
        self.joiner.lock().as_mut().ok_or_else(stopping)?.take(batch);
        Ok(partial_success)
    }

    /// Releases spans that have waited long enough until `shutdown` is requested; then releases
    /// everything and stops accepting.
    pub fn run(&self, shutdown: &Shutdown) {
        while !shutdown.requested() {
            if let Some(joiner) = &mut *self.joiner.lock() {
                joiner.advance();
            }
            thread::sleep(NAP);
        }
        if let Some(mut joiner) = self.joiner.lock().take() {
            joiner.finish();
        }
    }
}

/// Maximum total size of bodies being received, bytes.
pub const BODIES_BYTES_MAX: usize = 16 << 20;

/// Memory of one source for the memory plan, bytes; the thread of the HTTP side decodes one body at
/// a time.
pub const SOURCE_BYTES: usize = RecordWriter::BYTES
    + SPANS_WAITING_BYTES_MAX
    + REMEMBERED_BYTES
    + BODIES_BYTES_MAX
    + OTLP_UNPACKED_BYTES_MAX * 2
    + 2 * BODY_SPANS_MAX * size_of::<Span>();

const _: () = assert!(OTLP_BODY_BYTES_MAX <= BODIES_BYTES_MAX / 2);

#[cfg(test)]
mod tests;
