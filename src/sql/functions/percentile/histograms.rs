//! Percentiles of summed histograms, for one group or for many at once.

use std::mem::size_of_val;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array,
};
use datafusion::arrow::compute::nullif;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use crate::history::histogram;
use crate::report::histogram::{BucketLayout, Histogram, LOG_LINEAR_BITS, Rank, Rounding};
use crate::sql::error::SqlError;

/// Overhead of an allocation.
const ALLOCATION: usize = 16;

/// The figure that is read from histograms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wanted {
    /// The time in seconds that this part, from 0 to 1, does not exceed.
    Part(f64),
    /// (satisfied + tolerating / 2) / all: requests of up to so many microseconds, and of up to
    /// four times as many.
    Apdex(u64),
}

/// The summed histogram of one group: of times, in seconds.
#[derive(Debug)]
pub(super) struct Histograms {
    all: Histogram,
    wanted: Wanted,
    buckets: BucketLayout,
    /// Bits of the coarsest histogram added.
    bits: u32,
}

impl Histograms {
    pub(super) fn new(buckets: BucketLayout, wanted: Wanted) -> Self {
        Self { all: Histogram::new(), wanted, buckets, bits: LOG_LINEAR_BITS }
    }

    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let Self { all, buckets, .. } = self;
        if histogram::add_encoded(all, bytes, buckets, LOG_LINEAR_BITS).is_none() {
            return Err(no_histogram());
        }
        if self.buckets == BucketLayout::LogLinear {
            self.bits = self.bits.min(bytes[0].into());
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        histogram::encode(&self.all, &self.buckets, self.bits)
    }

    fn answer(&self) -> Option<f64> {
        let satisfied_us = match self.wanted {
            Wanted::Part(part) => {
                return histogram::quantile(&self.all, &self.buckets, self.bits, rank(part)?);
            }
            Wanted::Apdex(us) => us,
        };
        let within = |us: u64| {
            let end = self.buckets.told_apart_from(us);
            let pairs = self.all.iter();
            let pairs = pairs.filter(move |(bucket, _)| self.buckets.ends(*bucket).0 < end);
            pairs.map(|(_, count)| count).sum::<u64>() as f64
        };
        let all = self.all.iter().map(|(_, count)| count).sum::<u64>() as f64;
        // Those that are satisfied are among the others too.
        let sum = within(satisfied_us) + within(satisfied_us.saturating_mul(4));
        (all > 0.0).then(|| sum / 2.0 / all)
    }
}

fn rank(part: f64) -> Option<Rank> {
    Rank::percent(part * 100.0, Rounding::Up)
}

fn no_histogram() -> DataFusionError {
    SqlError::wrong_arguments("PERCENTILE, APDEX: this is not a histogram").into()
}

impl Accumulator for Histograms {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut values = values[0].as_binary::<i32>().iter().flatten();
        values.try_for_each(|bytes| self.add(bytes))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(Some(self.encode()))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.answer()))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.all.heap_bytes()
    }
}

/// The histograms of many groups.
#[derive(Debug)]
pub(super) struct Groups {
    buckets: BucketLayout,
    wanted: Wanted,
    groups: Vec<Group>,
    /// Bytes on the heap.
    bytes: usize,
}

/// The histograms of one group.
#[derive(Debug, Default)]
enum Group {
    #[default]
    Nothing,
    /// As stored: groups by all keys mostly have just one.
    One(Box<[u8]>),
    Several(Box<Histograms>),
}

impl Groups {
    pub(super) fn new(buckets: BucketLayout, wanted: Wanted) -> Self {
        Self { buckets, wanted, groups: Vec::new(), bytes: 0 }
    }

    fn add(&mut self, group: usize, bytes: &[u8]) -> Result<()> {
        let group = &mut self.groups[group];
        self.bytes -= group.bytes();
        match group {
            Group::Nothing => *group = Group::One(bytes.into()),
            Group::One(first) => {
                let mut several = Histograms::new(self.buckets, self.wanted);
                several.add(first)?;
                several.add(bytes)?;
                *group = Group::Several(Box::new(several));
            }
            Group::Several(several) => several.add(bytes)?,
        }
        self.bytes += group.bytes();
        Ok(())
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<Group> {
        let taken = emit_to.take_needed(&mut self.groups);
        self.bytes -= taken.iter().map(Group::bytes).sum::<usize>();
        taken
    }
}

impl Group {
    fn bytes(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::One(bytes) => bytes.len() + ALLOCATION,
            Self::Several(several) => several.size() + 2 * ALLOCATION,
        }
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.groups.resize_with(groups, Group::default);
        let values = values[0].as_binary::<i32>().iter();
        for (row, (bytes, group)) in values.zip(group_indices).enumerate() {
            let is_wanted = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if let Some(bytes) = bytes.filter(|_| is_wanted) {
                self.add(*group, bytes)?;
            }
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        group_indices: &[usize],
        groups: usize,
    ) -> Result<()> {
        self.update_batch(states, group_indices, None, groups)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = self.take(emit_to).into_iter();
        let states = groups.map(|group| match group {
            Group::Nothing => None,
            Group::One(bytes) => Some(bytes.into_vec()),
            Group::Several(several) => Some(several.encode()),
        });
        Ok(vec![Arc::new(BinaryArray::from_iter(states))])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let wanted = match filter {
            // Only rows where the filter is true count.
            Some(filter) => {
                let others: BooleanArray = filter.iter().map(|it| Some(it != Some(true))).collect();
                nullif(&values[0], &others)?
            }
            None => Arc::clone(&values[0]),
        };
        Ok(vec![wanted])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = self.take(emit_to).into_iter();
        let rank = match self.wanted {
            Wanted::Part(part) => rank(part),
            Wanted::Apdex(_) => None,
        };
        let found = groups.map(|group| match (group, rank) {
            (Group::Nothing, _) => Ok(None),
            (Group::One(bytes), Some(rank)) => {
                histogram::encoded_quantile(&bytes, &self.buckets, rank).ok_or_else(no_histogram)
            }
            (Group::One(bytes), None) => {
                let mut one = Histograms::new(self.buckets, self.wanted);
                one.add(&bytes).map(|()| one.answer())
            }
            (Group::Several(several), _) => Ok(several.answer()),
        });
        let found: Float64Array = found.collect::<Result<_>>()?;
        Ok(Arc::new(found))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.groups.capacity() * size_of::<Group>() + self.bytes
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    const GROUPS: usize = 40;

    /// Some histograms, as minutes or hours have them, and NULLs.
    fn rows(random: &mut StdRng, count: usize) -> Vec<(usize, Option<Vec<u8>>, bool)> {
        let rows = (0..count).map(|_| {
            let mut times = Histogram::new();
            for _ in 0..random.random_range(1..30) {
                let us = random.random_range(1..10_000_000_u64);
                times.add(BucketLayout::LogLinear.bucket(us), 1);
            }
            let bits = [4, 6][random.random_range(0..2)];
            let bytes = histogram::encode(&times, &BucketLayout::LogLinear, bits);
            let bytes = Some(bytes).filter(|_| random.random_bool(0.9));
            (random.random_range(0..GROUPS), bytes, random.random_bool(0.8))
        });
        rows.collect()
    }

    fn arrays(rows: &[(usize, Option<Vec<u8>>, bool)]) -> (ArrayRef, Vec<usize>, BooleanArray) {
        let bytes = rows.iter().map(|(_, bytes, _)| bytes.as_deref());
        (
            Arc::new(BinaryArray::from_iter(bytes)),
            rows.iter().map(|(group, ..)| *group).collect(),
            rows.iter().map(|(.., wanted)| Some(*wanted)).collect(),
        )
    }

    #[test]
    fn groups_held_together_are_groups_each_for_itself() {
        let mut random = StdRng::seed_from_u64(95);
        for round in 0..30 {
            let wanted = [Wanted::Part(0.95), Wanted::Apdex(500_000)][round % 2];
            let new = || Groups::new(BucketLayout::LogLinear, wanted);
            let (mut merged, mut parts) = (new(), [new(), new()]);
            let mut alone: Vec<_> =
                (0..GROUPS).map(|_| Histograms::new(BucketLayout::LogLinear, wanted)).collect();
            for step in 0..4 {
                let count = random.random_range(0..60);
                let rows = rows(&mut random, count);
                let (values, groups, wanted) = arrays(&rows);
                for (group, bytes, is_wanted) in &rows {
                    if let (Some(bytes), true) = (bytes, is_wanted) {
                        alone[*group].add(bytes).unwrap();
                    }
                }
                if step == 3 {
                    let states = merged.convert_to_state(&[values], Some(&wanted)).unwrap();
                    merged.merge_batch(&states, &groups, GROUPS).unwrap();
                } else {
                    let part = &mut parts[step % 2];
                    part.update_batch(&[values], &groups, Some(&wanted), GROUPS).unwrap();
                }
            }
            for part in &mut parts {
                part.groups.resize_with(GROUPS, Group::default);
                // In two portions, as a sorted aggregation takes them.
                let first = random.random_range(0..=GROUPS);
                for (emit, groups) in
                    [(EmitTo::First(first), 0..first), (EmitTo::All, first..GROUPS)]
                {
                    let states = part.state(emit).unwrap();
                    let groups: Vec<usize> = groups.collect();
                    merged.merge_batch(&states, &groups, GROUPS).unwrap();
                }
                assert_eq!(part.bytes, 0);
            }
            merged.groups.resize_with(GROUPS, Group::default);
            let found = merged.evaluate(EmitTo::All).unwrap();
            let found: Vec<_> =
                found.as_primitive::<datafusion::arrow::datatypes::Float64Type>().iter().collect();
            let expected: Vec<_> = alone.iter().map(Histograms::answer).collect();
            assert_eq!(found, expected, "round {round}");
        }
    }

    #[test]
    fn apdex_counts_who_tolerates_half() {
        let buckets = BucketLayout::LogLinear;
        let mut group = Histograms::new(buckets, Wanted::Apdex(500_000));
        assert_eq!(group.answer(), None);
        // The satisfied up to 0.507904 s, those who tolerate it up to 2.031616 s, the others.
        for (us, count) in [(400_000, 169), (507_000, 1), (600_000, 20), (2_100_000, 10)] {
            group.all.add(buckets.bucket(us), count);
        }
        assert_eq!(group.answer(), Some(0.9));
    }

    #[test]
    fn a_group_of_one_histogram_takes_little_more_than_that() {
        let mut random = StdRng::seed_from_u64(7);
        let mut groups = Groups::new(BucketLayout::LogLinear, Wanted::Part(0.5));
        let rows = rows(&mut random, 10_000);
        let (values, ..) = arrays(&rows);
        let each: Vec<usize> = (0..rows.len()).collect();
        let stored: usize = rows.iter().flat_map(|(_, bytes, _)| bytes).map(Vec::len).sum();
        groups.update_batch(&[values], &each, None, rows.len()).unwrap();
        let beside = groups.size() - stored;
        assert!(beside < 64 * rows.len(), "{beside}");
        let error = groups.update_batch(
            &[Arc::new(BinaryArray::from(vec![b"x".as_ref()]))],
            &[0],
            None,
            rows.len(),
        );
        error.unwrap_err();
    }
}
