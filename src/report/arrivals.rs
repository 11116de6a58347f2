//! Arrivals: requests that the pool has taken, on their way into the aggregates.
//!
//! The merger collects a few dozen and passes them to [`Reports::add`](super::Reports::add);
//! filling a new report from raw rows does the same.

use super::histogram::{BucketLayout, Sample, per_hit};
use super::totals::{Extremes, NarrowTotals, Totals};
use crate::input::record::{is_unmeasured, micros};
use crate::pool::dimensions::Origins;
use crate::pool::requests::RequestRow;
use crate::pool::timers::TimerRow;

/// A request that the pool has taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    id: u64,
    pub(super) row: RequestRow,
    /// Number of its timers: a row may contain fewer.
    pub(super) timers: u32,
}

/// Consecutive requests with their timers: reports process a few dozen at a time, so that memory
/// reads for different requests overlap.
#[derive(Debug, Default)]
pub struct Arrivals {
    pub(super) requests: Vec<Arrival>,
    /// Timers of all requests, in order.
    pub(super) timers: Vec<TimerRow>,
    /// The number of them that belong to a pushed request.
    owned: usize,
}

impl Arrivals {
    /// The list to which the timers of the next request are added before it is
    /// [pushed](Self::push).
    #[inline]
    pub fn timers(&mut self) -> &mut Vec<TimerRow> {
        &mut self.timers
    }

    /// Adds a request, and returns the number of its timers.
    #[inline]
    pub fn push(&mut self, id: u64, row: RequestRow) -> usize {
        let timers = self.timers.len() - self.owned;
        self.owned = self.timers.len();
        self.requests.push(Arrival { id, row, timers: timers as u32 });
        timers
    }

    /// Leaves out a request that reports have already; returns the number of its timers.
    #[cold]
    pub fn leave_out(&mut self) -> usize {
        let timers = self.timers.len() - self.owned;
        self.timers.truncate(self.owned);
        timers
    }

    /// Clears the list, keeps the memory.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.timers.clear();
        self.owned = 0;
    }
}

/// The contribution of one record to a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delta {
    pub(super) request: u64,
    /// Its sums, and those of its request.
    pub(super) sums: NarrowTotals,
    /// The time for the histogram, in microseconds: the request's, or the timer's per hit.
    pub(super) sample: u64,
    /// Weight of the sample.
    pub(super) weight: u32,
    pub(super) memory_peak: u32,
    /// The sample in the layout of nearly all aggregates.
    log_linear: Sample,
}

impl Delta {
    #[inline]
    pub(super) fn new(request: u64, sums: NarrowTotals, sample: u64, weight: u32) -> Self {
        let log_linear = Sample::new(BucketLayout::LogLinear.bucket(sample), weight);
        Self { request, sums, sample, weight, memory_peak: 0, log_linear }
    }

    /// The contribution of a request with so many timers.
    #[inline]
    fn of_request(request: u64, row: &RequestRow, timers: u32, error: bool) -> Self {
        let sums = NarrowTotals {
            requests: 1,
            hits: timers.into(),
            time: micros(row.request_time),
            ru_utime: micros(row.ru_utime),
            ru_stime: micros(row.ru_stime),
            traffic: row.document_size.into(),
            memory: row.memory_footprint.into(),
            errors: error.into(),
            unmeasured: is_unmeasured(row.ru_stime).into(),
        };
        Self { memory_peak: row.memory_peak, ..Self::new(request, sums, sums.time, 1) }
    }

    /// The contribution of a timer of a request.
    #[inline]
    fn of_timer(request: u64, timer: &TimerRow) -> Self {
        let (time, hits) = (micros(timer.value), timer.hit_count);
        let sums = NarrowTotals {
            requests: 1,
            hits: hits.into(),
            time,
            ru_utime: micros(timer.ru_utime),
            ru_stime: micros(timer.ru_stime),
            unmeasured: if is_unmeasured(timer.ru_stime) { hits.into() } else { 0 },
            ..NarrowTotals::ZERO
        };
        Self::new(request, sums, per_hit(time, hits), hits)
    }

    /// Its sums; includes its request if that `is_new` to the group.
    pub(super) fn totals(&self, is_new: bool) -> Totals {
        let (sums, requests) = (self.sums, u32::from(is_new));
        NarrowTotals { requests, errors: sums.errors * requests, ..sums }.totals()
    }

    /// Its extremes.
    pub(super) fn extremes(&self) -> Extremes {
        Extremes { time_min: self.sample, time_max: self.sample, memory_peak_max: self.memory_peak }
    }

    /// Its sample in a layout.
    #[inline]
    pub(super) fn sample(&self, buckets: &BucketLayout) -> Sample {
        match buckets {
            BucketLayout::LogLinear => self.log_linear,
            other => Sample::new(other.bucket(self.sample), self.weight),
        }
    }
}

impl Totals {
    /// The sums of a request without timers.
    pub(crate) fn of_request(row: &RequestRow, is_error: bool) -> Self {
        Delta::of_request(0, row, 0, is_error).sums.totals()
    }
}

/// The contributions of requests and their timers, computed once for all aggregates.
#[derive(Debug, Default)]
pub(super) struct RecordDeltas {
    pub(super) requests: Vec<Delta>,
    pub(super) timers: Vec<Delta>,
}

impl RecordDeltas {
    /// Computes the deltas of `arrivals`. Requests with a status of at least `error_status` are
    /// errors; `with_timers`: whether any aggregate counts timers.
    pub(super) fn work_out(
        &mut self,
        arrivals: &Arrivals,
        origins: &Origins,
        error_status: u32,
        with_timers: bool,
    ) {
        let of_request = |Arrival { id, row, timers }: &Arrival| {
            let error = origins.get(row.origin).status >= error_status;
            Delta::of_request(*id, row, *timers, error)
        };
        self.requests.clear();
        self.requests.extend(arrivals.requests.iter().map(of_request));
        self.timers.clear();
        if !with_timers {
            return;
        }
        let mut rest = arrivals.timers.as_slice();
        for request in &arrivals.requests {
            let (timers, others) = rest.split_at(request.timers as usize);
            rest = others;
            let of_timer = |timer| Delta::of_timer(request.id, timer);
            self.timers.extend(timers.iter().map(of_timer));
        }
    }
}
