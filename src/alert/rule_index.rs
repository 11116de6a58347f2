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
    /// Rules that ask for a text or its beginning: by position of the key and length of the text,
    /// then by text.
    by_text: HashMap<(usize, usize), ByText, RandomState>,
    /// The others.
    others: Vec<usize>,
}

impl RuleIndex {
    /// Adds a rule under the next number.
    pub(super) fn add(&mut self, rule: &Arc<Rule>) {
        let numbers = match rule.wanted_text() {
            Some((at, text)) => {
                let of_length = self.by_text.entry((at, text.len())).or_default();
                of_length.entry(text.to_owned()).or_default()
            }
            None => &mut self.others,
        };
        numbers.push(self.rules.len());
        self.rules.push(Arc::clone(rule));
    }

    /// Returns whether it has all rules of another index.
    pub(super) fn has_all(&self, other: &Self) -> bool {
        other.rules.iter().all(|rule| self.rules.iter().any(|it| it.is_like(rule)))
    }

    /// Returns the numbers of the rules that select the row with this key.
    pub(super) fn selecting(&self, key: &[u8]) -> impl Iterator<Item = usize> {
        let possible = self.by_text.iter().filter_map(|((at, len), texts)| {
            let text = key_texts(key).nth(*at).unwrap_or_default();
            texts.get(text.get(..*len)?)
        });
        let possible = self.others.iter().chain(possible.flatten()).copied();
        possible.filter(|number| self.rules[*number].concerns(key))
    }

    /// Returns the rules that select the row with this key.
    pub(super) fn of_row(&self, key: &[u8]) -> RuleSet {
        let numbers: Box<[usize]> = self.selecting(key).collect();
        let least = numbers.iter().map(|it| self.rules[*it].min_requests).min();
        RuleSet { min_requests: least.unwrap_or_default(), numbers }
    }
}
