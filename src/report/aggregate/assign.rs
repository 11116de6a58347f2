//! Finds the groups of requests, or of their timers.
//!
//! For each aggregate the groups of all records are found first and updated afterwards. Both wait
//! for memory, and only in a loop of their own do the waits of different records overlap.

use super::{Aggregate, Memory};
use crate::report::arrivals::{Arrivals, Delta, RecordDeltas};
use crate::report::definition::Level;
use crate::report::group_cache::{SKIPPED, UNKNOWN};
use crate::report::group_key::RecordIds;

impl Aggregate {
    /// Finds the groups of requests, or of their timers: `assignments` receives each group with the
    /// index of its delta in the returned slice, to be [counted](Self::count) next.
    pub(in crate::report) fn assign<'a>(
        &mut self,
        arrivals: &Arrivals,
        deltas: &'a RecordDeltas,
        assignments: &mut Vec<(u32, u32)>,
        memory: &mut Memory<'_>,
    ) -> &'a [Delta] {
        assignments.clear();
        self.purge_cache(usize::MAX);
        self.flow.requests_offered += arrivals.requests.len() as u64;
        if self.scope.level != Level::Timer {
            self.assign_records::<false>(arrivals, deltas, assignments, memory);
            return &deltas.requests;
        }
        self.assign_records::<true>(arrivals, deltas, assignments, memory);
        self.flow.timers_offered += arrivals.timers.len() as u64;
        self.flow.timers_counted += assignments.len() as u64;
        &deltas.timers
    }

    /// Finds the groups of timers if `TIMERS`, else of requests.
    fn assign_records<const TIMERS: bool>(
        &mut self,
        arrivals: &Arrivals,
        deltas: &RecordDeltas,
        assignments: &mut Vec<(u32, u32)>,
        memory: &mut Memory<'_>,
    ) {
        let mut next = 0;
        let mut counted = 0;
        for (request, delta) in arrivals.requests.iter().zip(&deltas.requests) {
            let records = next..next + if TIMERS { request.timers as usize } else { 1 };
            next = records.end;
            if !self.scope.filters.iter().all(|it| it.time_passes(delta.sums.time)) {
                continue;
            }
            let before = assignments.len();
            let (origin, request_tags) = (request.row.origin, request.row.request_tags);
            let class = self.group_cache.request(origin, request_tags);
            for at in records {
                let timer_tags = if TIMERS { arrivals.timers[at].tags } else { 0 };
                let mut group = self.group_cache.find(class, timer_tags);
                if group == UNKNOWN {
                    let record = RecordIds { origin, request_tags, timer_tags };
                    group = self.look_up(record, memory);
                }
                if group != SKIPPED {
                    assignments.push((group, at as u32));
                }
            }
            counted += u64::from(assignments.len() > before);
        }
        self.flow.requests_counted += counted;
    }
}
