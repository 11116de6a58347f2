//! Turns conditions into ranges of ids, before any row is read and again whenever a dynamic filter
//! changes.

use std::ops::Range;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::{is_volatile, snapshot_generation};

use super::super::filter::{Filter, ranges};
use super::super::owners::first_timer;
use super::super::ranges::Ranges;
use super::super::raw::RowKey;
use super::{LOOKUPS, Reader, answering};
use crate::grammar::FixedTable;
use crate::pool::rows::first_from;
use crate::sql::snapshot::expired;

impl Reader {
    /// Updates ids and filter to the conditions, at the start and whenever a dynamic filter
    /// changes.
    pub(super) fn narrow(&mut self) -> Result<()> {
        let generation = self.scan.filters.iter().map(snapshot_generation).sum();
        if self.generation == Some(generation) {
            return Ok(());
        }
        if self.generation.replace(generation).is_none() {
            let all = match self.table {
                FixedTable::Tag => 0..answering(&self.snapshot.live).pool.strings.end() as u64,
                table if table.by_timers() => self.snapshot.timers().clone(),
                _ => self.snapshot.requests().clone(),
            };
            let conditions = Arc::clone(&self.scan.conditions);
            let (ids, left) = self.settle(within(&all), &conditions)?;
            self.conditions = left;
            self.left = ids.part(self.partition, self.scan.pieces()).0.into();
        }
        let mut hints = Vec::new();
        for filter in &self.scan.filters {
            if let Some(dynamic) = filter.downcast_ref::<DynamicFilterPhysicalExpr>() {
                hints.extend(split_conjunction(&dynamic.current()?).into_iter().cloned());
            }
        }
        // A constant says nothing, and a volatile expression would give another result.
        hints.retain(|hint| !hint.is::<Literal>() && !is_volatile(hint));
        let left = Ranges::from_pairs(std::mem::take(&mut self.left).into());
        let (left, hints) = self.settle(left, &hints)?;
        self.left = left.0.into();
        let tests = [self.conditions.clone(), hints].concat();
        self.filter = Filter::new(&self.scan.table.schema, &tests)?;
        Ok(())
    }

    /// The ids that conditions leave, and the conditions still to be tested row by row.
    fn settle(
        &self,
        mut ids: Ranges,
        conditions: &[Arc<dyn PhysicalExpr>],
    ) -> Result<(Ranges, Vec<Arc<dyn PhysicalExpr>>)> {
        let mut tests = Vec::new();
        for condition in conditions {
            let known =
                ranges(condition).and_then(|(at, wanted)| Some((self.table.key(at)?, wanted)));
            ids = match known {
                Some((RowKey::Id, wanted)) => ids.and(&wanted),
                Some((RowKey::Owner, wanted)) => ids.and(&self.of_requests(&wanted)?),
                // More seconds than that cover everything anyway.
                Some((RowKey::Timestamp, wanted)) if wanted.0.len() <= LOOKUPS => {
                    ids.and(&self.of_timestamps(&wanted)?)
                }
                _ => {
                    tests.push(Arc::clone(condition));
                    continue;
                }
            };
        }
        Ok((ids, tests))
    }

    /// The requests with timestamps in these ranges. Timestamps never fall from one request to the
    /// next.
    fn of_timestamps(&self, timestamps: &Ranges) -> Result<Ranges> {
        let live = answering(&self.snapshot.live);
        let (held, ids) = (&live.pool.requests, self.snapshot.requests());
        let first_at = |second: i64| {
            let is_before = |id| Some(i64::from(held.timestamp(id)?) < second);
            first_from(ids.clone(), is_before)
        };
        let pairs = timestamps.0.iter().map(|&(low, high)| {
            let end = high.checked_add(1).map_or(Some(ids.end), first_at)?;
            Some((first_at(low)?.cast_signed(), end.cast_signed() - 1))
        });
        let pairs = pairs.collect::<Option<_>>().ok_or_else(expired)?;
        Ok(Ranges::from_pairs(pairs))
    }

    /// The timers of these requests.
    fn of_requests(&self, requests: &Ranges) -> Result<Ranges> {
        let requests = requests.and(&within(self.snapshot.requests()));
        let mut timers = Vec::with_capacity(requests.0.len());
        for pairs in requests.0.chunks(LOOKUPS) {
            let live = answering(&self.snapshot.live);
            for &(low, high) in pairs {
                let start = first_timer(&live.pool, low.cast_unsigned()).ok_or_else(expired)?;
                let end = match (high + 1).cast_unsigned() {
                    next if next >= self.snapshot.requests().end => self.snapshot.timers().end,
                    next => first_timer(&live.pool, next).ok_or_else(expired)?,
                };
                timers.push((start.cast_signed(), end.cast_signed() - 1));
            }
        }
        Ok(Ranges::from_pairs(timers))
    }
}

/// Ids as ranges of numbers.
fn within(ids: &Range<u64>) -> Ranges {
    Ranges::between(ids.start.cast_signed(), ids.end.cast_signed() - 1)
}
