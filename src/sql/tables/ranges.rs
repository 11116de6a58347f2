//! Sets of integers as ranges, for conditions on ids and timestamps.

/// Inclusive ranges, ascending and disjoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Ranges(pub(super) Vec<(i64, i64)>);

impl Ranges {
    /// The numbers from `low` to `high`, inclusive; none if `low` is above `high`.
    pub(super) fn between(low: i64, high: i64) -> Self {
        Self(if low <= high { vec![(low, high)] } else { Vec::new() })
    }

    /// These numbers.
    pub(super) fn of(numbers: impl IntoIterator<Item = i64>) -> Self {
        Self::from_pairs(numbers.into_iter().map(|n| (n, n)).collect())
    }

    /// The union of ranges in any order.
    pub(super) fn from_pairs(mut pairs: Vec<(i64, i64)>) -> Self {
        pairs.retain(|&(low, high)| low <= high);
        pairs.sort_unstable();
        let mut ranges: Vec<(i64, i64)> = Vec::with_capacity(pairs.len());
        for (low, high) in pairs {
            match ranges.last_mut() {
                Some((_, last)) if low <= last.saturating_add(1) => *last = high.max(*last),
                _ => ranges.push((low, high)),
            }
        }
        Self(ranges)
    }

    /// The intersection.
    pub(super) fn and(&self, other: &Self) -> Self {
        let (mut at, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(&&(low, high)), Some(&&(other_low, other_high))) =
            (at.peek(), others.peek())
        {
            let (from, to) = (low.max(other_low), high.min(other_high));
            if from <= to {
                both.push((from, to));
            }
            if high < other_high {
                at.next();
            } else {
                others.next();
            }
        }
        Self(both)
    }

    /// The union.
    pub(super) fn or(&self, other: &Self) -> Self {
        Self::from_pairs([&self.0[..], &other.0].concat())
    }

    /// The number of integers in it.
    pub(super) fn count(&self) -> u64 {
        let lengths = self.0.iter().map(|&(low, high)| high.abs_diff(low).saturating_add(1));
        lengths.fold(0, u64::saturating_add)
    }

    /// One of `parts` parts of about equal length.
    pub(super) fn part(&self, at: usize, parts: usize) -> Self {
        let (Some(&(low, _)), Some(&(_, high))) = (self.0.first(), self.0.last()) else {
            return self.clone();
        };
        let share = high.abs_diff(low) / parts as u64 + 1;
        let from = low.saturating_add_unsigned(share * at as u64);
        self.and(&Self::between(from, from.saturating_add_unsigned(share - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Ranges {
        fn contains(&self, number: i64) -> bool {
            let mut pairs = self.0.iter();
            pairs.any(|&(low, high)| (low..=high).contains(&number))
        }
    }

    /// Compares every operation with sets of small numbers.
    #[test]
    fn as_sets() {
        let mut dice = crate::dice::Dice(7);
        let mut next = |below: u64| dice.below(below) as i64;
        for _ in 0..2_000 {
            let mut some = || {
                let count = next(5);
                Ranges::from_pairs((0..count).map(|_| (next(40), next(40))).collect())
            };
            let (one, other) = (some(), some());
            let (and, or) = (one.and(&other), one.or(&other));
            for n in -2..45 {
                let (a, b) = (one.contains(n), other.contains(n));
                assert_eq!(and.contains(n), a && b);
                assert_eq!(or.contains(n), a || b);
            }
            let numbers: Vec<i64> = (0..45).filter(|&n| one.contains(n)).collect();
            assert_eq!(one, Ranges::of(numbers.iter().copied()));
            assert_eq!(one.count(), numbers.len() as u64);
            let parts = (0..3).map(|at| one.part(at, 3));
            let all = parts.reduce(|all, part| {
                assert!(all.and(&part).0.is_empty());
                all.or(&part)
            });
            assert_eq!(all, Some(one));
        }
    }
}
