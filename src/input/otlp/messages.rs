//! Messages of OTLP: answers to bodies, and how pushed metrics and spans are written.
//!
//! What is pushed is written field by field, with the numbers of the `.proto` files; a message that
//! is part of another is written before it. Tests read it with the crate `opentelemetry-proto`.

use std::borrow::Cow;

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

/// Adds a text, an id or a message to a message.
pub(crate) fn encode_bytes(number: u32, bytes: &[u8], to: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, to);
    encode_varint(bytes.len() as u64, to);
    to.extend_from_slice(bytes);
}

/// An attribute: its name and value.
pub(crate) type Attribute<'a> = (Cow<'a, str>, Value<'a>);

/// The value of an attribute.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Number(i64),
    True,
}

/// The encoded fields of a message, to which others are added by their numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(pub(crate) Vec<u8>);

impl AsRef<[u8]> for Fields {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Fields {
    /// Adds a text, an id or a message.
    pub(crate) fn push(&mut self, number: u32, bytes: impl AsRef<[u8]>) {
        encode_bytes(number, bytes.as_ref(), &mut self.0);
    }

    /// Adds texts, ids or messages.
    pub(crate) fn bytes(
        mut self,
        number: u32,
        all: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Self {
        all.into_iter().for_each(|bytes| self.push(number, bytes));
        self
    }

    /// Adds a number of variable length.
    pub(crate) fn varint(mut self, number: u32, value: u64) -> Self {
        uint64::encode(number, &value, &mut self.0);
        self
    }

    /// Adds a number of eight bytes.
    pub(crate) fn fixed(mut self, number: u32, value: u64) -> Self {
        fixed64::encode(number, &value, &mut self.0);
        self
    }

    /// Adds a floating-point number.
    pub(crate) fn double(self, number: u32, value: f64) -> Self {
        self.fixed(number, value.to_bits())
    }

    /// Adds attributes.
    pub(crate) fn attributes<'a>(
        self,
        number: u32,
        all: impl IntoIterator<Item = (impl AsRef<str>, Value<'a>)>,
    ) -> Self {
        let pairs = all.into_iter().map(|(name, value)| {
            let value = match value {
                Value::Text(text) => Self::default().bytes(1, [text]),
                Value::True => Self::default().varint(2, 1),
                Value::Number(number) => Self::default().varint(3, number.cast_unsigned()),
            };
            Self::default().bytes(1, [name.as_ref()]).bytes(2, [value])
        });
        self.bytes(number, pairs)
    }
}
