//! Finds the rules that may select a row by the texts that they ask for, so that a new row costs a
//! few look-ups, however many rules there are.
//!
//! ```text
//!   script_name=/shop/*  ->  key 0, 6 bytes -> "/shop/" -> numbers of rules
//! ```
//!
//! Used by the series thread ([`intake`](super::intake)) and by the windows. Pure.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;

use super::row::RuleSet;
use super::rule::Rule;
use crate::report::row_key::key_texts;

type ByText = HashMap<String, Vec<usize>, RandomState>;

/// Rules, and their numbers by what they ask for.
#[derive(Debug, Default)]
pub(super) struct RuleIndex {
    pub(super) rules: Vec<Arc<Rule>>,
    /// By position of the key that they ask about and length of the text that it begins with, then
    /// by text. Any key begins with none.
    by_text: HashMap<(usize, usize), ByText, RandomState>,
}

impl RuleIndex {
    /// Adds a rule under the next number.
    pub(super) fn add(&mut self, rule: &Arc<Rule>) {
        let (at, text) = rule.wanted_text();
        let of_length = self.by_text.entry((at, text.len())).or_default();
        of_length.entry(text.to_owned()).or_default().push(self.rules.len());
        self.rules.push(Arc::clone(rule));
    }

    /// Returns the numbers of the rules that select the row with this key.
    pub(super) fn selecting(&self, key: &[u8]) -> impl Iterator<Item = usize> {
        let possible = self.by_text.iter().filter_map(|((at, len), texts)| {
            let text = key_texts(key).nth(*at).unwrap_or_default();
            texts.get(text.get(..*len)?)
        });
        possible.flatten().copied().filter(|number| self.rules[*number].concerns(key))
    }

    /// Returns the rules that select the row with this key, if any do.
    pub(super) fn of_row(&self, key: &[u8]) -> Option<RuleSet> {
        let numbers: Box<[usize]> = self.selecting(key).collect();
        let min_requests = numbers.iter().map(|it| self.rules[*it].min_requests).min()?;
        Some(RuleSet { numbers, min_requests })
    }
}
