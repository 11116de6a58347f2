//! Ranks: which sample a median or percentile means, in integers.
//!
//! A percentile is kept as a whole number of millionths, so that 99.9 % of 1000 is 999 and not what a float makes of
//! it. Made once a report; [`Rank::target`] is asked once a row and rank.

/// Which way a rank between two samples goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Down, but at least to the first sample (Pinba).
    Down,
    /// Up (pinba2 and native reports).
    Up,
}

/// A percent rank, exact: what it takes of a whole number is computed in integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rank {
    /// Millionths of a percent: 1 to 100,000,000.
    millionths: u32,
    rounding: Rounding,
}

impl Rank {
    /// The rank of a percentage in (0, 100]; digits past the sixth decimal are rounded. `None` when out of range.
    #[must_use]
    pub fn percent(percent: f64, rounding: Rounding) -> Option<Self> {
        // Nearest whole number of millionths, so that 99.9 is 99.9 and not the float below it.
        let millionths = (percent * 1e6).round();
        (1.0..=1e8).contains(&millionths).then_some(Self {
            millionths: millionths as u32,
            rounding,
        })
    }

    /// The place (from 1) of the sample at this rank among `count` samples in ascending order.
    #[inline]
    #[must_use]
    pub fn target(self, count: u64) -> u64 {
        const WHOLE: u128 = 100_000_000;
        let product = u128::from(count) * u128::from(self.millionths);
        let place = match self.rounding {
            Rounding::Down => product / WHOLE,
            Rounding::Up => product.div_ceil(WHOLE),
        };
        // At most count: millionths are at most WHOLE.
        (place as u64).max(1)
    }
}

/// The ranks of a report, each with its place in column order, smallest first: as one walk meets them. Made once per report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ranks(Vec<(usize, Rank)>);

impl Ranks {
    /// Ranks of one rounding, in column order.
    #[must_use]
    pub fn new(ranks: Vec<Rank>) -> Self {
        let mut ascending: Vec<(usize, Rank)> = ranks.into_iter().enumerate().collect();
        ascending.sort_by_key(|(_, rank)| rank.millionths);
        Self(ascending)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// (place in column order, rank), smallest rank first.
    pub(super) fn ascending(&self) -> impl Iterator<Item = (usize, Rank)> + '_ {
        self.0.iter().copied()
    }
}
