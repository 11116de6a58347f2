//! The past of one row: its gains per second, or per ten, packed one after the other.
//!
//! ```text
//!   point:   | seconds since the last one | bytes that follow | gain (see `report::encoded_gain`) |
//! ```

use crate::report::encoded_gain::{EncodedGain, HISTOGRAM, Sum};
use crate::value::varint;

/// Points, oldest first.
#[derive(Debug, Default)]
pub(super) struct Points {
    bytes: Vec<u8>,
    /// The second of the newest.
    pub(super) newest: u64,
    /// Bytes of its histograms.
    pub(super) histograms: usize,
}

impl Points {
    /// Adds the gain of a second, with its histogram if there is one and it is wanted.
    pub(super) fn push(&mut self, second: u64, gained: EncodedGain<'_>, with_histogram: bool) {
        let passed = second.saturating_sub(self.newest);
        let mut histogram = gained.read().1.map_or(0, |pairs| pairs.bytes.len());
        let mut len = gained.0.len();
        if !with_histogram {
            len -= std::mem::take(&mut histogram);
        }
        let more = varint::bytes(passed) + varint::bytes(len as u64) + len;
        if self.bytes.capacity() - self.bytes.len() < more {
            self.bytes.reserve_exact(more + self.bytes.len() / 8);
        }
        varint::push(&mut self.bytes, passed.into());
        varint::push(&mut self.bytes, len as u128);
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&gained.0[..len]);
        if !with_histogram {
            self.bytes[begin] &= !HISTOGRAM;
        }
        self.newest = second;
        self.histograms += histogram;
    }

    /// All points, each with its second.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, EncodedGain<'_>)> {
        let (mut rest, mut second) = (&self.bytes[..], 0);
        std::iter::from_fn(move || {
            second += varint::take(&mut rest) as u64;
            let len = varint::take(&mut rest) as usize;
            let (gained, behind) = rest.split_at_checked(len).filter(|_| len > 0)?;
            rest = behind;
            Some((second, EncodedGain(gained)))
        })
    }

    /// Merges points for which `begin` returns the same second, and drops those for which it
    /// returns none.
    pub(super) fn regroup(&mut self, begin: impl Fn(u64) -> Option<u64>, with_histograms: bool) {
        let old = std::mem::take(self);
        let points = old.iter().filter_map(|(second, gained)| Some((begin(second)?, gained)));
        let points: Vec<(u64, EncodedGain<'_>)> = points.collect();
        self.bytes.reserve_exact(old.bytes.len());
        let mut packed = Vec::new();
        for of_one in points.chunk_by(|a, b| a.0 == b.0) {
            let (begin, mut gained) = of_one[0];
            if of_one.len() > 1 {
                let mut sum = Sum::default();
                of_one.iter().for_each(|(_, gained)| sum.add(*gained));
                sum.encode(&mut packed, with_histograms);
                gained = EncodedGain(&packed);
            }
            self.push(begin, gained, with_histograms);
        }
        self.bytes.shrink_to_fit();
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// A copy that can be read without a lock.
    pub(super) fn copy(&self) -> Self {
        Self { bytes: self.bytes.clone(), ..*self }
    }
}
