//! Samples of a window, grouped by request: computed once for all reports over the same moment.
//!
//! The samples of a request are sorted by time, because they may arrive out of order. This yields
//! the growth of memory since the previous sample, and the time for which the request was sampled:
//! the sum of the gaps between its samples, excluding gaps longer than ten medians, because
//! sampling can be switched off within a request.
//!
//! Takes 16 bytes per sample beside the snapshot; the work is bounded by the pool.

use std::sync::Arc;
use std::time::Duration;

use ahash::RandomState;
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::definition::SampleReport;
use super::pool::{Sample, Snapshot, StatRequest};
use super::report::SampleRows;
use crate::input::stat::line::SampleType;

/// Time without samples after which a request has ended.
const REQUEST_ENDED: Duration = Duration::from_secs(60);

/// Gaps longer than this many medians are time without sampling.
const GAP_MEDIANS: u64 = 10;

/// A request with its stored samples in the window.
#[derive(Debug)]
pub struct Sampled {
    /// The request.
    pub request: Arc<StatRequest>,
    /// Time of its first sample, since the start of the run.
    pub first: u64,
    /// Time of its last sample, since the start of the run.
    pub last: u64,
    /// Number of samples.
    pub samples: u64,
    /// Samples in which nothing was running.
    pub idle: u64,
    /// Time for which it was sampled, in the extension's units.
    pub sampled: u64,
    /// Time and bytes in use of some of its samples, evenly spread, including the first and the
    /// last.
    pub memory: Vec<(u64, u64)>,
    /// Most memory in use in a sample, bytes.
    pub memory_max: u64,
    /// True if a newer request of its process was seen, or no sample for a long time.
    pub ended: bool,
}

impl Sampled {
    /// Returns the time that one sample represents, in the extension's units.
    pub(crate) fn per_sample(&self) -> f64 {
        self.sampled as f64 / (self.samples - self.idle).max(1) as f64
    }
}

/// The samples of a window.
#[derive(Debug, Default)]
pub struct Recent {
    /// Snapshot that has the samples.
    pub snapshot: Snapshot,
    /// Requests, in no order.
    pub requests: Vec<Sampled>,
    /// Index in `requests` by segment and request of the segment; `NOT_HERE` if the request has no
    /// sample in the window.
    request_of: Vec<Vec<u32>>,
    /// Growth of memory since the request's previous sample, by segment and sample; `i64::MIN` if
    /// the sample is outside the window.
    growth: Vec<Vec<i64>>,
    /// Time of the oldest sample in the window, monotonic clock.
    pub oldest_us: Option<i64>,
    /// Time of the computation, monotonic clock.
    pub now_us: i64,
    /// Id of the first sample that counts; earlier ones only tell how long those of their requests
    /// took.
    pub(super) first_id: u64,
    /// Cached reports.
    reports: Mutex<Vec<(SampleReport, Arc<SampleRows>)>>,
}

const NOT_HERE: u32 = u32::MAX;
const OUTSIDE: i64 = i64::MIN;

/// Maximum number of cached reports.
const REPORTS_MAX: usize = 16;

/// Number of points in a memory curve.
pub const CURVE_POINTS: usize = 32;

/// A sample with values derived from its request.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Index of its segment.
    pub segment: usize,
    /// The sample.
    pub sample: &'a Sample,
    /// Index of its request.
    pub request: usize,
    /// Growth of memory since the request's previous sample; 0 for the first.
    pub growth: i64,
}

impl Recent {
    /// Groups the samples of `snapshot` from `from_us` on; `now_us` is the present time, both on
    /// the monotonic clock.
    pub(crate) fn new(snapshot: Snapshot, from_us: i64, now_us: i64) -> Self {
        let mut recent = Self { now_us, ..Self::default() };
        // Samples by request: (request, time, segment, index).
        let mut places: HashMap<(u64, i64, u64), u32, RandomState> = HashMap::default();
        let mut requests = Vec::new();
        let mut order: Vec<(u32, u64, u32, u32)> = Vec::with_capacity(snapshot.len());
        for (at, segment) in (0_u32..).zip(&snapshot.segments) {
            let mut of = vec![NOT_HERE; segment.requests.len()];
            for (place, sample) in (0_u32..).zip(&segment.samples) {
                let request = &segment.requests[sample.request as usize];
                let time_us = request.run.time_us(sample.elapsed);
                if time_us < from_us {
                    continue;
                }
                let oldest = recent.oldest_us.get_or_insert(time_us);
                *oldest = time_us.min(*oldest);
                let known = &mut of[sample.request as usize];
                if *known == NOT_HERE {
                    *known = *places.entry(request.key()).or_insert_with(|| {
                        requests.push(Arc::clone(request));
                        requests.len() as u32 - 1
                    });
                }
                order.push((*known, sample.elapsed, at, place));
            }
            recent.request_of.push(of);
            recent.growth.push(vec![OUTSIDE; segment.samples.len()]);
        }
        order.sort_unstable();
        let mut gaps = Vec::new();
        // Each has a sample, so they come in their order.
        for (request, samples) in requests.into_iter().zip(order.chunk_by(|a, b| a.0 == b.0)) {
            gaps.clear();
            gaps.extend(samples.windows(2).map(|pair| pair[1].1 - pair[0].1));
            let mut request = Sampled {
                request,
                first: samples[0].1,
                last: samples[samples.len() - 1].1,
                samples: samples.len() as u64,
                idle: 0,
                sampled: sampled(&mut gaps),
                memory: Vec::new(),
                memory_max: 0,
                ended: false,
            };
            let step = samples.len().div_ceil(CURVE_POINTS - 1);
            let mut before = None;
            for (number, &(_, elapsed, at, place)) in samples.iter().enumerate() {
                let sample = &snapshot.segments[at as usize].samples[place as usize];
                let used = sample.used;
                let grown = before.map_or(0, |before| used.cast_signed().wrapping_sub(before));
                recent.growth[at as usize][place as usize] = grown.max(OUTSIDE + 1);
                before = Some(used.cast_signed());
                request.memory_max = request.memory_max.max(used);
                request.idle += u64::from(sample.sample_type == SampleType::Memory);
                if number % step == 0 || number == samples.len() - 1 {
                    request.memory.push((elapsed, used));
                }
            }
            recent.requests.push(request);
        }
        recent.snapshot = snapshot;
        recent.end(now_us.saturating_sub(span_us(REQUEST_ENDED)));
        recent
    }

    /// Returns the time that the samples cover.
    pub(crate) fn covered(&self) -> Duration {
        let oldest_us = self.oldest_us.unwrap_or(self.now_us);
        let covered = u64::try_from(self.now_us.saturating_sub(oldest_us));
        Duration::from_micros(covered.unwrap_or(0))
    }

    /// Determines which requests have ended: the newest of each process continues, unless it has no
    /// sample since `ended_us`.
    fn end(&mut self, ended_us: i64) {
        let mut newest: HashMap<(u64, i64), u64, RandomState> = HashMap::default();
        for it in &self.requests {
            let (run, pid, begun) = it.request.key();
            let newest = newest.entry((run, pid)).or_default();
            *newest = begun.max(*newest);
        }
        for it in &mut self.requests {
            let (run, pid, begun) = it.request.key();
            it.ended = newest[&(run, pid)] > begun || it.request.run.time_us(it.last) < ended_us;
        }
    }

    /// Returns the rows of a report, computed once.
    pub(crate) fn report(&self, report: &SampleReport) -> Arc<SampleRows> {
        let mut all = self.reports.lock();
        if let Some((_, rows)) = all.iter().find(|(of, _)| of == report) {
            return Arc::clone(rows);
        }
        let rows = Arc::new(SampleRows::new(report, self));
        if all.len() < REPORTS_MAX {
            all.push((report.clone(), Arc::clone(&rows)));
        }
        rows
    }

    /// Returns the samples of the window in the order of arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Seen<'_>> {
        self.snapshot.segments.iter().enumerate().flat_map(move |(at, segment)| {
            let before = self.first_id.saturating_sub(segment.first_id) as usize;
            let samples = segment.samples.iter().zip(&self.growth[at]).skip(before);
            samples.filter_map(move |(sample, growth)| {
                let seen = Seen {
                    segment: at,
                    sample,
                    request: self.request_of[at][sample.request as usize] as usize,
                    growth: *growth,
                };
                (*growth != OUTSIDE).then_some(seen)
            })
        })
    }
}

/// Converts a duration to microseconds.
pub(super) fn span_us(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the sum of the gaps of at most ten medians (for an even number, the lower median).
fn sampled(gaps: &mut [u64]) -> u64 {
    if gaps.is_empty() {
        return 0;
    }
    let middle = (gaps.len() - 1) / 2;
    let median = *gaps.select_nth_unstable(middle).1;
    let longest = median.saturating_mul(GAP_MEDIANS);
    gaps.iter().filter(|gap| **gap <= longest).sum()
}

#[cfg(test)]
mod tests {
    use super::sampled;

    #[test]
    fn long_gaps_do_not_count() {
        assert_eq!(sampled(&mut []), 0);
        assert_eq!(sampled(&mut [7]), 7);
        assert_eq!(sampled(&mut [10, 10, 10, 100]), 130);
        assert_eq!(sampled(&mut [10, 10, 10, 101]), 30);
        assert_eq!(sampled(&mut [1, 11]), 1);
        assert_eq!(sampled(&mut [0, 0, 5]), 0);
    }
}
