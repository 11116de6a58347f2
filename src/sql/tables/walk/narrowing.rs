//! What conditions leave of the ids: ranges of them, made before any row is looked at and again whenever a filter of another
//! node of the plan says more.

use std::ops::Range;

use datafusion::common::Result;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;

use super::super::condition::{Condition, Test};
use super::super::matcher::Matcher;
use super::super::owners::first_timer;
use super::super::ranges::Ranges;
use super::super::raw::{Lane, Raw};
use super::{LOOKUPS, Walk};
use crate::sql::snapshot::expired;

impl Walk {
    /// Makes ranges of the conditions on ids, at the start and whenever the filters of other nodes say more.
    pub(super) fn narrow(&mut self) -> Result<()> {
        let generation = self.filters.iter().map(snapshot_generation).sum();
        if self.generation == Some(generation) {
            return Ok(());
        }
        let start = self.generation.replace(generation).is_none();
        let mut conditions: Vec<Condition> = self.conditions.to_vec();
        let lanes = self.raw.lanes();
        for filter in &self.filters {
            let column = |at: usize| {
                let column = *self.columns.get(at)?;
                Some((column, lanes[column].kind()))
            };
            Condition::hints(&**filter, &column, &mut conditions);
        }
        if self.raw == Raw::Tag {
            self.matcher = Matcher::new(self.raw, conditions);
            return Ok(());
        }
        let narrow = |walk: &Self, from: Ranges, conditions: &[Condition]| -> Result<Ranges> {
            let mut ids = from;
            for condition in conditions {
                if let Test::Ints(ranges) = &condition.test {
                    ids = match lanes[condition.column] {
                        Lane::Id => ids.and(ranges),
                        Lane::Timestamp => walk.of_timestamps(&ids, ranges)?,
                        Lane::Owner => ids.and(&walk.of_requests(ranges)?),
                        _ => continue,
                    };
                }
            }
            Ok(ids)
        };
        if start {
            let all = match self.raw.by_timers() {
                true => &self.snapshot.timers,
                false => &self.snapshot.requests,
            };
            let all = Ranges::between(all.start.cast_signed(), all.end.cast_signed() - 1);
            let (pieces, at) = (self.partitions as u64, self.partition as u64);
            let ids = narrow(self, all, &self.conditions)?;
            let (count, share) = (ids.count(), ids.count().div_ceil(pieces));
            let first = (share * at).min(count);
            self.left = ids.part(first, share.min(count - first)).into_queue();
        }
        let left = Ranges::from_pairs(std::mem::take(&mut self.left).into());
        let left = narrow(self, left, &conditions[self.conditions.len()..])?;
        self.left = left.into_queue();
        conditions.retain(|condition| {
            let lane = lanes[condition.column];
            !matches!(lane, Lane::Id | Lane::Timestamp | Lane::Owner)
                || !matches!(condition.test, Test::Ints(_))
        });
        self.matcher = Matcher::new(self.raw, conditions);
        Ok(())
    }

    /// The requests among `ids` whose timestamps are in these ranges. Timestamps never fall from one request to the next.
    fn of_timestamps(&self, ids: &Ranges, timestamps: &Ranges) -> Result<Ranges> {
        let live = self.snapshot.live().read();
        let requests = &live.pool.requests;
        let Range { start, end } = self.snapshot.requests;
        if start < requests.held_id() && start < end {
            return Err(expired());
        }
        // The first request at or after a second.
        let first_at = |second: i64| {
            let (mut from, mut to) = (start, end);
            while from < to {
                let middle = from + (to - from) / 2;
                match requests.timestamp(middle) {
                    Some(timestamp) if i64::from(timestamp) >= second => to = middle,
                    _ => from = middle + 1,
                }
            }
            from.cast_signed()
        };
        let pairs = timestamps.pairs().iter().take(LOOKUPS).map(|&(low, high)| {
            let end = high.checked_add(1).map_or(end.cast_signed(), first_at);
            (first_at(low), end - 1)
        });
        if timestamps.pairs().len() > LOOKUPS {
            // So many seconds cover what there is anyway; they are tested row by row.
            return Ok(ids.clone());
        }
        Ok(ids.and(&Ranges::from_pairs(pairs.collect())))
    }

    /// The timers of these requests.
    fn of_requests(&self, requests: &Ranges) -> Result<Ranges> {
        let all = &self.snapshot.requests;
        let all = Ranges::between(all.start.cast_signed(), all.end.cast_signed() - 1);
        let requests = requests.and(&all);
        let mut timers = Vec::with_capacity(requests.pairs().len());
        for pairs in requests.pairs().chunks(LOOKUPS) {
            let live = self.snapshot.live().read();
            for &(low, high) in pairs {
                let start = first_timer(&live.pool, low.cast_unsigned()).ok_or_else(expired)?;
                let end = match (high + 1).cast_unsigned() {
                    next if next >= self.snapshot.requests.end => self.snapshot.timers.end,
                    next => first_timer(&live.pool, next).ok_or_else(expired)?,
                };
                timers.push((start.cast_signed(), end.cast_signed() - 1));
            }
        }
        Ok(Ranges::from_pairs(timers))
    }
}
