//! Counts how often each rule was tried and matched: one set for all receivers, read by
//! `/api/v1/status`.
//!
//! A receiver counts in plain numbers and adds them here once per batch. `tried` is added first and
//! read last, so no reader sees a rule that matched more often than it was tried.

use crate::telemetry::counter::Counter;

/// Counters of all rules, in order. They only grow.
#[derive(Debug, Default)]
pub struct RuleCounters(Box<[OneRule]>);

#[derive(Debug, Default)]
struct OneRule {
    tried: Counter,
    matched: Counter,
}

/// The counts of one rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Texts that the rule was tried on: each field once per request, each tag value once for all
    /// of its uses in a request. Texts that an earlier rule with `stop` matched are not included.
    pub tried: u64,
    /// Texts that matched, even if unchanged.
    pub matched: u64,
}

impl RuleCounters {
    /// Counters for `rules` rules, all zero.
    pub fn new(rules: usize) -> Self {
        Self((0..rules).map(|_| OneRule::default()).collect())
    }

    /// The counts so far, in the order of the rules.
    pub fn counts(&self) -> Vec<RuleCounts> {
        let counts = self.0.iter().map(|rule| {
            let matched = rule.matched.get();
            let tried = rule.tried.get();
            RuleCounts { tried, matched }
        });
        counts.collect()
    }

    /// Adds a receiver's counts and resets them.
    pub(super) fn take(&self, counts: &mut [RuleCounts]) {
        for (rule, counts) in self.0.iter().zip(counts) {
            let RuleCounts { tried, matched } = std::mem::take(counts);
            // Release: with the reader's Acquire, a reader that sees `matched` sees `tried` too.
            rule.tried.add(tried);
            rule.matched.add(matched);
        }
    }
}

impl RuleCounts {
    /// A remark on a rule that never matches or always does.
    pub const fn remark(&self) -> Option<&'static str> {
        if self.matched == 0 {
            Some("never matched")
        } else if self.matched == self.tried {
            Some("matches everything")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_receivers_add_is_summed_up_once() {
        let shared = RuleCounters::new(2);
        let counts = |tried, matched| RuleCounts { tried, matched };
        let mut of_one = [counts(3, 1), counts(0, 0)];
        shared.take(&mut of_one);
        shared.take(&mut of_one);
        shared.take(&mut [counts(2, 0), counts(1, 1)]);
        assert_eq!(shared.counts(), [counts(5, 1), counts(1, 1)]);
        assert_eq!(of_one, [RuleCounts::default(); 2]);
    }

    #[test]
    fn remarks_are_for_rules_without_effect_or_without_bounds() {
        for (tried, matched, remark) in [
            (0, 0, Some("never matched")),
            (9, 0, Some("never matched")),
            (9, 1, None),
            (9, 8, None),
            (9, 9, Some("matches everything")),
        ] {
            assert_eq!(RuleCounts { tried, matched }.remark(), remark);
        }
    }
}
