//! Messages of OTLP, declared with the field numbers of its `.proto` files: responses to bodies,
//! and pushed metrics and spans.
//!
//! Points, metrics and spans are encoded one by one and stand in their lists as bytes, and the
//! alternatives of a oneof are optional fields, which has the same encoding. Tests compare them
//! with the crate `opentelemetry-proto`.

use prost::Message;
use serde::{Serialize, Serializer};

/// The scope of what a pinbad pushes.
pub(crate) const OWN_SCOPE: &str = "pinbad";
/// The attribute of a resource that tells pushing daemons apart.
pub(crate) const INSTANCE_ID: &str = "service.instance.id";

/// `Export...ServiceResponse`, of traces and of metrics; empty if all were accepted.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Response {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partial_success: Option<PartialSuccess>,
}

/// `Export...PartialSuccess`: the number of rejected spans or points.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    #[serde(rename = "rejectedSpans", serialize_with = "as_text")]
    pub(crate) rejected: i64,
    #[prost(string, tag = "2")]
    pub(crate) error_message: String,
}

/// Numbers of 64 bits are texts in JSON.
fn as_text<S: Serializer>(number: &i64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(number)
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

/// `ResourceMetrics`, `ResourceSpans`, which stand in field 1 of `Export...ServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OfResource {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scopes: Vec<OfScope>,
}

/// `Resource`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<KeyValue>,
}

/// `ScopeMetrics`, `ScopeSpans`; its metrics or spans are encoded already.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OfScope {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(crate) items: Vec<Vec<u8>>,
}

/// `InstrumentationScope`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Scope {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

/// `Metric` without its points, which follow in the field of their kind.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metric {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) description: String,
    #[prost(string, tag = "3")]
    pub(crate) unit: String,
}

/// `Sum`; `ExponentialHistogram`, which is never monotonic; and `Gauge`, which has only the points.
/// These are encoded already.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Points {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) points: Vec<Vec<u8>>,
    #[prost(int32, tag = "2")]
    pub(crate) temporality: i32,
    #[prost(bool, tag = "3")]
    pub(crate) is_monotonic: bool,
}

/// `NumberDataPoint`; times in nanoseconds since 1970.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NumberPoint {
    #[prost(fixed64, tag = "2")]
    pub(crate) start: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) time: u64,
    #[prost(double, optional, tag = "4")]
    pub(crate) as_double: Option<f64>,
    #[prost(sfixed64, optional, tag = "6")]
    pub(crate) as_int: Option<i64>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) attributes: Vec<KeyValue>,
}

/// `ExponentialHistogramDataPoint`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HistogramPoint {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    pub(crate) start: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) time: u64,
    #[prost(fixed64, tag = "4")]
    pub(crate) count: u64,
    #[prost(double, optional, tag = "5")]
    pub(crate) sum: Option<f64>,
    #[prost(sint32, tag = "6")]
    pub(crate) scale: i32,
    #[prost(fixed64, tag = "7")]
    pub(crate) zero_count: u64,
    #[prost(message, optional, tag = "8")]
    pub(crate) positive: Option<Buckets>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) exemplars: Vec<Exemplar>,
    #[prost(double, tag = "14")]
    pub(crate) zero_threshold: f64,
}

/// `Exemplar`; its time in nanoseconds since 1970.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Exemplar {
    #[prost(fixed64, tag = "2")]
    pub(crate) time: u64,
    #[prost(double, optional, tag = "3")]
    pub(crate) as_double: Option<f64>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) trace_id: Vec<u8>,
}

/// `Buckets`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Buckets {
    #[prost(sint32, tag = "1")]
    pub(crate) offset: i32,
    #[prost(uint64, repeated, tag = "2")]
    pub(crate) counts: Vec<u64>,
}

/// `Span`; times in nanoseconds since 1970.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(crate) name: String,
    #[prost(int32, tag = "6")]
    pub(crate) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(crate) start: u64,
    #[prost(fixed64, tag = "8")]
    pub(crate) end: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) links: Vec<Link>,
    #[prost(message, optional, tag = "15")]
    pub(crate) status: Option<SpanStatus>,
}

/// `Link`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Link {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) span_id: Vec<u8>,
}

/// `Status` of a span.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SpanStatus {
    #[prost(int32, tag = "3")]
    pub(crate) code: i32,
}

/// Parses an id of `N` bytes, in hexadecimal; `None` if it is none, or zero.
pub(crate) fn id<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = text.len() == N.saturating_mul(2) && text.bytes().all(|it| it.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|it| is_hex && *it != 0)?;
    number.to_be_bytes().last_chunk().copied()
}

/// `KeyValue`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

/// `AnyValue`: a string, a boolean or an integer.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnyValue {
    #[prost(string, optional, tag = "1")]
    pub(crate) text: Option<String>,
    #[prost(bool, optional, tag = "2")]
    pub(crate) truth: Option<bool>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) number: Option<i64>,
}

impl KeyValue {
    fn new(key: impl Into<String>, value: AnyValue) -> Self {
        Self { key: key.into(), value: Some(value) }
    }

    /// Creates a string attribute.
    pub(crate) fn text(key: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(key, AnyValue { text: Some(text.into()), ..AnyValue::default() })
    }

    /// Creates an integer attribute.
    pub(crate) fn number(key: impl Into<String>, number: i64) -> Self {
        Self::new(key, AnyValue { number: Some(number), ..AnyValue::default() })
    }

    /// Creates an attribute that is true.
    pub(crate) fn truth(key: impl Into<String>) -> Self {
        Self::new(key, AnyValue { truth: Some(true), ..AnyValue::default() })
    }
}
