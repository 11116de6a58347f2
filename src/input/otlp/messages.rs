//! Messages of OTLP with the field numbers of its `.proto` files: responses to bodies, and what
//! pushed metrics and spans are encoded with.
//!
//! Who pushes adds the fields of a message one by one, and tells their names where it does. Tests
//! compare the result with the crate `opentelemetry-proto`.

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, fixed64, uint64};
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

/// Parses an id of `N` bytes, in hexadecimal; `None` if it is none, or zero.
pub(crate) fn id<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = text.len() == N.saturating_mul(2) && text.bytes().all(|it| it.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|it| is_hex && *it != 0)?;
    number.to_be_bytes().last_chunk().copied()
}

/// A message that is encoded field by field, by their numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Encoded(Vec<u8>);

impl Encoded {
    /// Adds a string, bytes, a message or packed numbers.
    pub(crate) fn bytes(mut self, number: u32, bytes: impl AsRef<[u8]>) -> Self {
        encode_key(number, WireType::LengthDelimited, &mut self.0);
        encode_varint(bytes.as_ref().len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    /// Adds a whole number, an enum or a truth.
    pub(crate) fn varint(mut self, number: u32, value: u64) -> Self {
        uint64::encode(number, &value, &mut self.0);
        self
    }

    /// Adds a number of eight bytes.
    pub(crate) fn fixed(mut self, number: u32, value: u64) -> Self {
        fixed64::encode(number, &value, &mut self.0);
        self
    }

    /// Adds each of a list.
    pub(crate) fn each(self, number: u32, of: &[impl AsRef<[u8]>]) -> Self {
        of.iter().fold(self, |all, it| all.bytes(number, it))
    }

    /// Returns the bytes.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl AsRef<[u8]> for Encoded {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// `KeyValue`.
#[derive(Debug, Clone)]
pub(crate) struct KeyValue {
    pub(crate) key: String,
    encoded: Encoded,
}

impl KeyValue {
    /// With a value of which this is the field.
    fn new(key: impl Into<String>, value: Encoded) -> Self {
        let key = key.into();
        let encoded = Encoded::default().bytes(1, &key).bytes(2, value);
        Self { key, encoded }
    }

    /// Creates a string attribute.
    pub(crate) fn text(key: impl Into<String>, text: impl AsRef<[u8]>) -> Self {
        Self::new(key, Encoded::default().bytes(1, text))
    }

    /// Creates an integer attribute.
    pub(crate) fn number(key: impl Into<String>, number: i64) -> Self {
        Self::new(key, Encoded::default().varint(3, number.cast_unsigned()))
    }

    /// Creates an attribute that is true.
    pub(crate) fn truth(key: impl Into<String>) -> Self {
        Self::new(key, Encoded::default().varint(2, 1))
    }
}

impl AsRef<[u8]> for KeyValue {
    fn as_ref(&self) -> &[u8] {
        self.encoded.as_ref()
    }
}
