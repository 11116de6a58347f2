//! Where name rules come in: after a request has been checked, before anything is hashed, keyed or counted under its
//! name.
//!
//! A decoder is made with a set of rules ([`Decoder::with_rules`](super::pinba::Decoder::with_rules)) and asks it, on its own
//! receiver thread, for the texts of a request that rules are about. The usual decoder has [`AsSent`], which costs
//! nothing; one with `[[rewrite]]` entries has [`NameRules`]. Rules see a text as it was sent, made UTF-8 and cut at
//! [`TEXT_BYTES_MAX`](crate::limits::TEXT_BYTES_MAX); what they make of it is then cut and repaired like a text from the
//! wire, so rules cannot break what records promise.

mod counts;
mod recent;
mod rules;

pub use counts::{RuleCounters, RuleCounts};
pub use rules::NameRules;

pub use crate::config::rewrite::{TagOf, TextField};

/// The rules that one text has to pass, by a number of which only the set of rules knows the meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain(pub(super) u16);

impl Chain {
    /// The chain of this number; numbers count from 0 and there are few.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number as u16)
    }
}

/// Rules that change names.
pub trait Rewrite {
    /// The rules for a field, if there are any.
    fn field_chain(&self, field: TextField) -> Option<Chain>;

    /// Whether there are rules for any tag; asked once a request.
    fn has_tag_chains(&self) -> bool;

    /// The rules for the values of tags with this name, if there are any. Asked once for each name a request uses.
    fn tag_chain(&self, of: TagOf, name: &[u8]) -> Option<Chain>;

    /// The new form of a text: true if it was written to `fresh`, which comes in empty; false if it stays what it is.
    /// `text` is UTF-8. A tag value is asked for once a request, not for each of its uses.
    fn apply(&mut self, chain: Chain, text: &[u8], fresh: &mut Vec<u8>) -> bool;

    /// Shows what was counted since the last time to those who read it; called once a batch.
    fn publish_counts(&mut self);
}

/// No rules: everything is called what its sender called it.
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
