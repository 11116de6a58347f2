//! Where name rules come in: after a request has been checked and its texts are UTF-8, before anything is hashed,
//! keyed or counted under its name.
//!
//! A decoder is made with a set of rules ([`Decoder::with_rules`](super::Decoder::with_rules)) and asks it, on its own
//! receiver thread, for every text of a request that is taken. The usual decoder has [`AsSent`], which costs nothing.
//! A result is cut and mended like a text from the wire, so rules cannot break what records promise.

/// A text of a request, tags apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextField {
    /// The physical host.
    Hostname,
    /// The virtual host.
    ServerName,
    /// The script.
    ScriptName,
    /// The schema; asked for only when it was sent.
    Schema,
}

/// Rules that change names.
pub trait Rewrite {
    /// Whether there is anything to ask for; asked once a request.
    fn is_active(&self) -> bool;

    /// The new text of a field: true if it was written to `fresh`, which comes in empty. `text` is UTF-8.
    fn field(&mut self, field: TextField, text: &[u8], fresh: &mut Vec<u8>) -> bool;

    /// The new value of a tag (of the request or of a timer) with this name: true if it was written to `fresh`, which
    /// comes in empty. Asked at least once a packet for every pair in use, not for each of its uses.
    fn tag_value(&mut self, name: &[u8], value: &[u8], fresh: &mut Vec<u8>) -> bool;
}

/// No rules: everything is called what its sender called it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AsSent;

impl Rewrite for AsSent {
    #[inline(always)]
    fn is_active(&self) -> bool {
        false
    }

    #[inline(always)]
    fn field(&mut self, _: TextField, _: &[u8], _: &mut Vec<u8>) -> bool {
        false
    }

    #[inline(always)]
    fn tag_value(&mut self, _: &[u8], _: &[u8], _: &mut Vec<u8>) -> bool {
        false
    }
}
