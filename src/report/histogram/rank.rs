//! Ranks: the sample that a median or percentile refers to, in integers.
//!
//! A percentile is kept as an integer number of millionths, so that 99.9 % of 1000 is 999 and not
//! subject to float rounding. [`Rank::target`] is called once per row and rank.

/// Rounding of a rank between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Down, but at least to the first sample: Pinba's own tables.
    Down,
    /// Up: everything else, including pages and charts.
    Up,
}

/// An exact percent rank: its position among samples is computed in integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rank {
    /// Millionths of a percent: 1 to 100,000,000.
    millionths: u32,
    rounding: Rounding,
}

impl Rank {
    /// The rank of a percentage in (0, 100]; digits past the sixth decimal are rounded. `None` when
    /// out of range.
    pub fn percent(percent: f64, rounding: Rounding) -> Option<Self> {
        // Nearest integer number of millionths, so that 99.9 is 99.9 and not the float below it.
        let millionths = (percent * 1e6).round();
        (1.0..=1e8)
            .contains(&millionths)
            .then_some(Self { millionths: millionths as u32, rounding })
    }

    /// The position (from 1) of the sample at this rank among `count` samples in ascending order.
    #[inline]
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
