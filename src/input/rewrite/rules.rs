//! Runs the rules of `[[rewrite]]`: each receiver's decoder has its own set and applies it to every
//! name.
//!
//! The rules for one text (a field, the tags of one name) are a chain: they run in the order of the
//! configuration, each on the result of the one before, until one with `stop` matches. Memory is
//! allocated when the set is created, apart from the caches of running patterns, which are bounded
//! (`REWRITE_DFA_BYTES_MAX`). No text takes long: patterns take time in proportion to it, and it
//! ends at `TEXT_BYTES_MAX`, before and after each rule.

use std::sync::Arc;

use regex::{CaptureLocations, Regex};

use super::recent::{Known, PLACES, Recent};
use super::{Chain, Rewrite, RuleCounters, RuleCounts, TagOf, TextField};
use crate::config::rewrite::{Change, Piece, RewriteField, RewriteRule, Template};
use crate::input::record::Hasher;
use crate::limits::{
    PATTERN_SCRATCH_BYTES, REWRITE_DFA_BYTES_MAX, REWRITE_MATCHES_MAX, REWRITES_MAX, TEXT_BYTES_MAX,
};

/// The rules of a configuration, for one receiver.
#[derive(Debug)]
pub struct NameRules {
    /// Indexed by the number of a [`Chain`].
    chains: Box<[Links]>,
    /// Indexed by `TextField as usize`.
    fields: [Option<Chain>; 4],
    tags: Box<[TagChain]>,
    recent: Recent,
    made: Made,
    /// Counts since they were last published, in the order of `rules`.
    counts: Box<[RuleCounts]>,
    shared: Arc<RuleCounters>,
}

/// The text as rewritten so far.
#[derive(Debug)]
struct Made {
    now: String,
    /// The output of the next rule.
    next: String,
}

#[derive(Debug)]
struct Rule {
    change: Change,
    /// The groups of a match, if its template uses any.
    groups: Option<CaptureLocations>,
    stop: bool,
    /// Its index in the configuration.
    number: usize,
    /// Its bit in an [`Outcome`].
    bit: u64,
}

/// The rules of a chain.
#[derive(Debug)]
struct Links {
    /// The rules, in order.
    rules: Box<[Rule]>,
    /// Whether results are cached. A look-up takes longer than a single `cut` or `prefix`, and less
    /// than anything else.
    keep: bool,
}

#[derive(Debug)]
struct TagChain {
    of: TagOf,
    name: Box<[u8]>,
    chain: Chain,
}

/// The rules that were tried on a text, and those that matched: a bit each, in the order of the
/// rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) tried: u64,
    pub(super) matched: u64,
}

impl NameRules {
    /// Bytes of the rules of a receiver, without patterns, for the memory plan.
    pub(in crate::input) const SCRATCH_BYTES: usize = Recent::BYTES + 2 * TEXT_BYTES_MAX;

    /// Creates the rules in `configured`, in order. `shared` has a counter for each and is shared
    /// by all receivers.
    ///
    /// # Panics
    /// With more than [`REWRITES_MAX`] rules, which the configuration refuses.
    pub fn new(configured: &[RewriteRule], hasher: Hasher, shared: Arc<RuleCounters>) -> Self {
        assert!(configured.len() <= REWRITES_MAX);
        let mut about: Vec<(&RewriteField, Vec<Rule>)> = Vec::new();
        for (number, rule) in (0..).zip(configured) {
            let made = Rule::new(rule, number);
            match about.iter_mut().find(|(field, _)| **field == rule.field) {
                Some((_, rules)) => rules.push(made),
                None => about.push((&rule.field, vec![made])),
            }
        }
        let mut fields = [None; 4];
        let mut tags = Vec::new();
        for (number, (field, _)) in (0..).zip(&about) {
            let chain = Chain::new(number);
            match field {
                RewriteField::Text(field) => {
                    if let Some(place) = fields.get_mut(*field as usize) {
                        *place = Some(chain);
                    }
                }
                RewriteField::Tag(of, name) => {
                    tags.push(TagChain { of: *of, name: name.as_bytes().into(), chain });
                }
            }
        }
        let is_slow = |rule: &Rule| matches!(rule.change, Change::Pattern(..) | Change::Digits(_));
        let chains = about.into_iter().map(|(_, rules)| Links {
            keep: rules.len() > 1 || rules.iter().any(is_slow),
            rules: rules.into(),
        });
        let chains: Box<[Links]> = chains.collect();
        let places = if chains.iter().any(|it| it.keep) { PLACES } else { 0 };
        Self {
            chains,
            fields,
            tags: tags.into_boxed_slice(),
            recent: Recent::new(hasher, places),
            made: Made {
                now: String::with_capacity(TEXT_BYTES_MAX),
                next: String::with_capacity(TEXT_BYTES_MAX),
            },
            counts: vec![RuleCounts::default(); configured.len()].into_boxed_slice(),
            shared,
        }
    }
}

impl Rewrite for NameRules {
    #[inline]
    fn field_chain(&self, field: TextField) -> Option<Chain> {
        self.fields.get(field as usize).copied().flatten()
    }

    #[inline]
    fn has_tag_chains(&self) -> bool {
        !self.tags.is_empty()
    }

    fn tag_chain(&self, of: TagOf, name: &[u8]) -> Option<Chain> {
        let mut tags = self.tags.iter();
        tags.find(|tag| tag.of == of && *tag.name == *name).map(|tag| tag.chain)
    }

    fn apply(&mut self, chain: Chain, text: &[u8], fresh: &mut Vec<u8>) -> bool {
        let Some(links) = self.chains.get_mut(usize::from(chain.0)) else { return false };
        let key = links.keep.then(|| self.recent.key(chain, text));
        if let Some(Known { outcome, made }) = key.and_then(|key| self.recent.find(key, text)) {
            links.count(&mut self.counts, outcome);
            if let Some(made) = made {
                fresh.extend_from_slice(made);
            }
            return made.is_some();
        }
        // It always is UTF-8: it was made so.
        let Ok(sent) = std::str::from_utf8(text) else { return false };
        let outcome = links.run(sent, &mut self.made);
        links.count(&mut self.counts, outcome);
        let made = self.made.now.as_str();
        let made = (outcome.matched != 0 && made != sent).then_some(made.as_bytes());
        if let Some(key) = key {
            self.recent.keep(key, text, outcome, made);
        }
        if let Some(made) = made {
            fresh.extend_from_slice(made);
        }
        made.is_some()
    }

    fn publish_counts(&mut self) {
        self.shared.take(&mut self.counts);
    }
}

impl Links {
    /// Runs the rules on `sent`. The result is in `made.now`, if any matched.
    fn run(&mut self, sent: &str, made: &mut Made) -> Outcome {
        let mut outcome = Outcome::default();
        for rule in &mut self.rules {
            outcome.tried |= rule.bit;
            let text = match outcome.matched {
                0 => sent,
                _ => &made.now,
            };
            made.next.clear();
            if rule.run(text, &mut made.next) {
                outcome.matched |= rule.bit;
                std::mem::swap(&mut made.now, &mut made.next);
                if rule.stop {
                    break;
                }
            }
        }
        outcome
    }

    /// Counts an outcome.
    #[inline]
    fn count(&self, counts: &mut [RuleCounts], outcome: Outcome) {
        for rule in &self.rules {
            if let Some(counts) = counts.get_mut(rule.number) {
                let is_in = |set: u64| u64::from(set & rule.bit != 0);
                counts.tried = counts.tried.wrapping_add(is_in(outcome.tried));
                counts.matched = counts.matched.wrapping_add(is_in(outcome.matched));
            }
        }
    }
}

impl Rule {
    fn new(configured: &RewriteRule, number: usize) -> Self {
        let groups = match &configured.change {
            Change::Pattern(pattern, template) if template.has_groups() => {
                Some(pattern.0.capture_locations())
            }
            _ => None,
        };
        Self {
            // A clone for this receiver: its pattern has its own memory to search with, so
            // receivers do not wait for each other.
            change: configured.change.clone(),
            groups,
            stop: configured.stop,
            number,
            bit: 1_u64.wrapping_shl(number as u32),
        }
    }

    /// Whether `text` matches; then `out`, which is empty before, has the result.
    fn run(&mut self, text: &str, out: &mut String) -> bool {
        let mut out = Out { text: out, full: false };
        match &self.change {
            Change::Pattern(pattern, template) => {
                replace_all(&pattern.0, template, &mut self.groups, text, &mut out)
            }
            Change::Cut(mark) => cut(text, mark, &mut out),
            Change::Digits(with) => replace_digits(text, with, &mut out),
            Change::Prefix(prefix, with) => {
                let matches = text.starts_with(prefix.as_str());
                if matches {
                    out.push(with);
                }
                matches
            }
        }
    }
}

fn cut(text: &str, mark: &str, out: &mut Out<'_>) -> bool {
    let mut chars = mark.chars();
    let at = match (chars.next(), chars.next()) {
        // A byte is found several times faster than a string.
        (Some(one), None) => text.find(one),
        _ => text.find(mark),
    };
    let kept = at.and_then(|at| text.get(..at));
    out.push(kept.unwrap_or_default());
    kept.is_some()
}

fn replace_digits(text: &str, with: &str, out: &mut Out<'_>) -> bool {
    let mut done = 0;
    let mut matches = false;
    let mut start = 0;
    let mut is_number = true;
    // With a final slash, so that the last segment is handled like the others.
    for (at, byte) in text.bytes().chain([b'/']).enumerate() {
        if byte != b'/' {
            is_number &= byte.is_ascii_digit();
            continue;
        }
        if is_number && at > start {
            matches = true;
            out.push(text.get(done..start).unwrap_or_default());
            out.push(with);
            done = at;
        }
        start = at.saturating_add(1);
        is_number = true;
    }
    if matches {
        out.push(text.get(done..).unwrap_or_default());
    }
    matches
}

fn replace_all(
    regex: &Regex,
    template: &Template,
    groups: &mut Option<CaptureLocations>,
    text: &str,
    out: &mut Out<'_>,
) -> bool {
    let mut done = 0;
    let mut matches = false;
    for found in regex.find_iter(text).take(REWRITE_MATCHES_MAX) {
        matches = true;
        out.push(text.get(done..found.start()).unwrap_or_default());
        if let Some(groups) = groups {
            // The same match again, now with its groups.
            regex.captures_read_at(groups, text, found.start());
        }
        for piece in &template.pieces {
            out.push(match piece {
                Piece::Text(text) => text,
                Piece::Group(group) => groups
                    .as_ref()
                    .and_then(|groups| groups.get(*group))
                    .and_then(|(start, end)| text.get(start..end))
                    .unwrap_or_default(),
            });
        }
        done = found.end();
        if out.full {
            break;
        }
    }
    if matches {
        out.push(text.get(done..).unwrap_or_default());
    }
    matches
}

/// The output of a rule: ends at [`TEXT_BYTES_MAX`], with a whole character.
struct Out<'o> {
    text: &'o mut String,
    /// Whether something was cut off, so that nothing may follow.
    full: bool,
}

impl Out<'_> {
    fn push(&mut self, more: &str) {
        if self.full {
            return;
        }
        let room = TEXT_BYTES_MAX.saturating_sub(self.text.len());
        let fits = more.floor_char_boundary(room.min(more.len()));
        self.text.push_str(more.get(..fits).unwrap_or_default());
        self.full = fits < more.len();
    }
}

const _: () = {
    assert!(REWRITES_MAX <= u64::BITS as usize);
    // As the memory plan assumes for a pattern.
    assert!(2 * REWRITE_DFA_BYTES_MAX as u64 <= PATTERN_SCRATCH_BYTES);
};

#[cfg(test)]
mod tests;
