//! Sets of integers as ranges, for conditions on ids and timestamps.

use std::collections::VecDeque;

/// Ranges with both ends in them, ascending and apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Ranges(Vec<(i64, i64)>);

impl Ranges {
    /// The numbers from `low` to `high`, both of them in it; none when `low` is above `high`.
    pub(super) fn between(low: i64, high: i64) -> Self {
        Self(if low <= high {
            vec![(low, high)]
        } else {
            Vec::new()
        })
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

    /// What is in both.
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

    /// What is in either.
    pub(super) fn or(&self, other: &Self) -> Self {
        Self::from_pairs([&self.0[..], &other.0].concat())
    }

    /// What is not in it.
    pub(super) fn not(&self) -> Self {
        let mut rest = Vec::with_capacity(self.0.len() + 1);
        let mut from = Some(i64::MIN);
        for &(low, high) in &self.0 {
            if let Some(from) = from.filter(|&from| from < low) {
                rest.push((from, low - 1));
            }
            from = high.checked_add(1);
        }
        if let Some(from) = from {
            rest.push((from, i64::MAX));
        }
        Self(rest)
    }

    /// The ranges.
    pub(super) fn pairs(&self) -> &[(i64, i64)] {
        &self.0
    }

    /// How many numbers are in it.
    pub(super) fn count(&self) -> u64 {
        let lengths = self
            .0
            .iter()
            .map(|&(low, high)| high.abs_diff(low).saturating_add(1));
        lengths.fold(0, u64::saturating_add)
    }

    /// The ranges, to be taken from either end.
    pub(super) fn into_queue(self) -> VecDeque<(i64, i64)> {
        self.0.into()
    }

    /// The part of it that comes after `skip` numbers, `take` of them.
    pub(super) fn part(&self, mut skip: u64, mut take: u64) -> Self {
        let mut part = Vec::new();
        for &(low, high) in &self.0 {
            let length = high.abs_diff(low).saturating_add(1);
            if skip >= length {
                skip -= length;
                continue;
            }
            if take == 0 {
                break;
            }
            let taken = (length - skip).min(take);
            let from = low.saturating_add_unsigned(skip);
            part.push((from, from.saturating_add_unsigned(taken - 1)));
            (skip, take) = (0, take - taken);
        }
        Self(part)
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

    /// Every operation against the same on sets of small numbers.
    #[test]
    fn as_sets() {
        let mut seed = 7u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 33) % below) as i64
        };
        for _ in 0..2_000 {
            let mut some = || {
                let count = next(5);
                Ranges::from_pairs((0..count).map(|_| (next(40), next(40))).collect())
            };
            let (one, other) = (some(), some());
            let (and, or, not) = (one.and(&other), one.or(&other), one.not());
            for n in -2..45 {
                let (a, b) = (one.contains(n), other.contains(n));
                assert_eq!(and.contains(n), a && b);
                assert_eq!(or.contains(n), a || b);
                assert_eq!(not.contains(n), !a);
            }
            let numbers: Vec<i64> = (0..45).filter(|&n| one.contains(n)).collect();
            assert_eq!(one, Ranges::of(numbers.iter().copied()));
            assert_eq!(one.count(), numbers.len() as u64);
            let (skip, take) = (next(20) as usize, next(20) as usize);
            let part = Ranges::of(numbers.iter().copied().skip(skip).take(take));
            assert_eq!(one.part(skip as u64, take as u64), part);
            assert_eq!(not.not(), one);
        }
        assert_eq!(Ranges::of([]).not().not(), Ranges::of([]));
    }
}
