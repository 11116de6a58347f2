//! The interface for name rules, applied after a request has been checked and before anything is
//! hashed, keyed or counted under its name.
//!
//! A decoder is created with a set of rules
//! ([`Decoder::with_rules`](super::pinba::Decoder::with_rules)) and applies it, on its own receiver
//! thread, to the texts of a request that rules refer to: [`NameRules`], which may be none. The
//! usual decoder of packets has [`AsSent`] instead, which costs nothing. Rules see a text as it was
//! sent, made UTF-8 and cut at [`TEXT_BYTES_MAX`](crate::limits::TEXT_BYTES_MAX); their result is
//! then cut and repaired like a text from the wire, so rules cannot break the guarantees of
//! records.

mod counts;
mod recent;
mod rules;

pub use counts::{RuleCounters, RuleCounts};
pub use rules::NameRules;

pub use crate::config::rewrite::{TagOf, TextField};

/// A chain of rules for one text; the number has meaning only for its set of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain(pub(super) u16);

impl Chain {
    /// The chain of this number, counted from 0.
    pub const fn new(number: u8) -> Self {
        Self(number as u16)
    }
}

/// Rules that change names.
pub trait Rewrite: std::fmt::Debug {
    /// The rules for a field, if any.
    fn field_chain(&self, field: TextField) -> Option<Chain>;

    /// Whether there are rules for any tag; called once per request.
    fn has_tag_chains(&self) -> bool;

    /// The rules for the values of tags with this name, if any. Called once for each name in a
    /// request.
    fn tag_chain(&self, of: TagOf, name: &[u8]) -> Option<Chain>;

    /// Rewrites a text: returns true if the result was written to `fresh`, which is empty before;
    /// false if the text is unchanged. `text` is UTF-8. Called once per tag value and request, not
    /// for each of its uses.
    fn apply(&mut self, chain: Chain, text: &[u8], fresh: &mut Vec<u8>) -> bool;

    /// Publishes the counts since the last call; called once per batch.
    fn publish_counts(&mut self);
}

/// No rules: every name stays as sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AsSent;

impl Rewrite for AsSent {
    #[inline(always)]
    fn field_chain(&self, _: TextField) -> Option<Chain> {
        None
    }

    #[inline(always)]
    fn has_tag_chains(&self) -> bool {
        false
    }

    #[inline(always)]
    fn tag_chain(&self, _: TagOf, _: &[u8]) -> Option<Chain> {
        None
    }

    #[inline(always)]
    fn apply(&mut self, _: Chain, _: &[u8], _: &mut Vec<u8>) -> bool {
        false
    }

    #[inline(always)]
    fn publish_counts(&mut self) {}
}
