//! Messages of OTLP, declared with the field numbers of its `.proto` files: responses to bodies,
//! and pushed metrics and spans.
//!
//! Points, metrics and spans are encoded one by one and stand in their lists as bytes, and the
//! alternatives of a oneof are optional fields, which has the same encoding. Times are nanoseconds
//! since 1970. Tests compare them with the crate `opentelemetry-proto`.

use prost::Message;
use serde::{Serialize, Serializer};

/// The scope of what a pinbad pushes.
pub(crate) const OWN_SCOPE: &str = "pinbad";
/// The attribute of a resource that tells pushing daemons apart.
pub(crate) const INSTANCE_ID: &str = "service.instance.id";

/// Numbers of 64 bits are texts in JSON.
fn as_text<S: Serializer>(number: &i64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(number)
}

/// Declares messages like `.proto` files: number, kind, name and type of each field.
macro_rules! messages {
    ($(
        $(#[$meta:meta])* $message:ident {
            $($number:tt ($($kind:tt)+) $(#[$json:meta])* $field:ident: $type:ty,)+
        }
    )+) => {$(
        $(#[$meta])*
        #[derive(Clone, PartialEq, Message)]
        pub(crate) struct $message {
            $($(#[$json])* #[prost($($kind)+, tag = $number)] pub(crate) $field: $type,)+
        }
    )+};
}

messages! {
    /// `Export...ServiceResponse`, of traces and of metrics; empty if all were accepted.
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    Response {
        1 (message, optional) #[serde(skip_serializing_if = "Option::is_none")]
        partial_success: Option<PartialSuccess>,
    }

    /// `Export...PartialSuccess`: the number of rejected spans or points.
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    PartialSuccess {
        1 (int64) #[serde(rename = "rejectedSpans", serialize_with = "as_text")] rejected: i64,
        2 (string) error_message: String,
    }

    /// `google.rpc.Status`.
    #[derive(Serialize)]
    Status {
        1 (int32) code: i32,
        2 (string) message: String,
    }

    /// `ResourceMetrics`, `ResourceSpans`, which stand in field 1 of `Export...ServiceRequest`.
    OfResource {
        1 (message, optional) resource: Option<Resource>,
        2 (message, repeated) scopes: Vec<OfScope>,
    }

    /// `Resource`.
    Resource { 1 (message, repeated) attributes: Vec<KeyValue>, }

    /// `ScopeMetrics`, `ScopeSpans`; its metrics or spans are encoded already.
    OfScope {
        1 (message, optional) scope: Option<Scope>,
        2 (bytes = "vec", repeated) items: Vec<Vec<u8>>,
    }

    /// `InstrumentationScope`.
    Scope {
        1 (string) name: String,
        2 (string) version: String,
    }

    /// `Metric` without its points, which follow in the field of their kind.
    Metric {
        1 (string) name: String,
        2 (string) description: String,
        3 (string) unit: String,
    }

    /// `Sum`; `ExponentialHistogram`, which is never monotonic; and `Gauge`, which has only the
    /// points. These are encoded already.
    Points {
        1 (bytes = "vec", repeated) points: Vec<Vec<u8>>,
        2 (int32) temporality: i32,
        3 (bool) is_monotonic: bool,
    }

    /// `NumberDataPoint`.
    NumberPoint {
        2 (fixed64) start: u64,
        3 (fixed64) time: u64,
        4 (double, optional) as_double: Option<f64>,
        6 (sfixed64, optional) as_int: Option<i64>,
        7 (message, repeated) attributes: Vec<KeyValue>,
    }

    /// `ExponentialHistogramDataPoint`.
    HistogramPoint {
        1 (message, repeated) attributes: Vec<KeyValue>,
        2 (fixed64) start: u64,
        3 (fixed64) time: u64,
        4 (fixed64) count: u64,
        5 (double, optional) sum: Option<f64>,
        6 (sint32) scale: i32,
        7 (fixed64) zero_count: u64,
        8 (message, optional) positive: Option<Buckets>,
        11 (message, repeated) exemplars: Vec<Exemplar>,
        14 (double) zero_threshold: f64,
    }

    /// `Exemplar`.
    Exemplar {
        2 (fixed64) time: u64,
        3 (double, optional) as_double: Option<f64>,
        4 (bytes = "vec") span_id: Vec<u8>,
        5 (bytes = "vec") trace_id: Vec<u8>,
    }

    /// `Buckets`.
    Buckets {
        1 (sint32) offset: i32,
        2 (uint64, repeated) counts: Vec<u64>,
    }

    /// `Span`.
    Span {
        1 (bytes = "vec") trace_id: Vec<u8>,
        2 (bytes = "vec") span_id: Vec<u8>,
        4 (bytes = "vec") parent_span_id: Vec<u8>,
        5 (string) name: String,
        6 (int32) kind: i32,
        7 (fixed64) start: u64,
        8 (fixed64) end: u64,
        9 (message, repeated) attributes: Vec<KeyValue>,
        13 (message, repeated) links: Vec<Link>,
        15 (message, optional) status: Option<SpanStatus>,
    }

    /// `Link`.
    Link {
        1 (bytes = "vec") trace_id: Vec<u8>,
        2 (bytes = "vec") span_id: Vec<u8>,
    }

    /// `Status` of a span.
    SpanStatus { 3 (int32) code: i32, }

    /// `KeyValue`.
    KeyValue {
        1 (string) key: String,
        2 (message, optional) value: Option<AnyValue>,
    }

    /// `AnyValue`: a string, a boolean or an integer.
    AnyValue {
        1 (string, optional) text: Option<String>,
        2 (bool, optional) truth: Option<bool>,
        3 (int64, optional) number: Option<i64>,
    }
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

/// Parses an id of `N` bytes, in hexadecimal; `None` if it is none, or zero.
pub(crate) fn id<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = text.len() == N.saturating_mul(2) && text.bytes().all(|it| it.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|it| is_hex && *it != 0)?;
    number.to_be_bytes().last_chunk().copied()
}
