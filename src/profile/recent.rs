//! The samples of a window, request by request: what is reckoned once for all reports that look at
//! the same moment.
//!
//! Samples of a request are put in the order of their time, in which they need not have come. From
//! that follows by how much memory has grown since the sample before, and for how long the request
//! was sampled: the sum of the gaps between its samples, those of more than ten medians left out,
//! because sampling can be switched off within a request.
//!
//! Takes 16 bytes for each sample beside the snapshot; the work is bounded by the pool.

use std::sync::Arc;
use std::time::Duration;

use ahash::RandomState;
use hashbrown::HashMap;
use parking_lot::Mutex;

use super::definition::SampleReport;
use super::pool::{Sample, Snapshot, StatRequest};
use super::report::SampleRows;
use crate::input::stat::line::SampleType;

/// After how long without a sample a request has ended.
const REQUEST_ENDED: Duration = Duration::from_secs(60);

/// A gap of more medians than this is a time without sampling.
const GAP_MEDIANS: u64 = 10;

/// A request with all its samples that are kept and in the window.
#[derive(Debug)]
pub struct Sampled {
    /// The request itself.
    pub request: Arc<StatRequest>,
    /// Its first and last sample, since the run began.
    pub first: u64,
    /// See `first`.
    pub last: u64,
    /// How many samples there are.
    pub samples: u64,
    /// How many of them had nothing running.
    pub idle: u64,
    /// How long it was sampled, in the extension's units of time.
    pub sampled: u64,
    /// Bytes in use at some of its samples, evenly spread, first and last among them.
    pub memory: Vec<(u64, u64)>,
    /// Most bytes in use at a sample.
    pub memory_max: u64,
    /// Whether a newer request of its process was seen, or nothing of it for long.
    pub ended: bool,
}

impl Sampled {
    /// The time that one sample stands for, in the extension's units.
    #[must_use]
    pub fn per_sample(&self) -> f64 {
        self.sampled as f64 / (self.samples - self.idle).max(1) as f64
    }
}

/// The samples of a window.
#[derive(Debug, Default)]
pub struct Recent {
    /// Where they are.
    pub snapshot: Snapshot,
    /// The requests, in no order.
    pub requests: Vec<Sampled>,
    /// By segment, then by its requests: the place in `requests`; `NOT_HERE` where no sample of it
    /// is in the window.
    request_of: Vec<Vec<u32>>,
    /// By segment, then by sample: growth of memory since the request's sample before. `i64::MIN`:
    /// the sample is not in the window.
    growth: Vec<Vec<i64>>,
    /// The oldest sample of the window, by the monotonic clock.
    pub oldest_us: Option<i64>,
    /// When it was looked at, by the same clock.
    pub now_us: i64,
    /// Reports that were read.
    reports: Mutex<Vec<(SampleReport, Arc<SampleRows>)>>,
}

const NOT_HERE: u32 = u32::MAX;
const OUTSIDE: i64 = i64::MIN;

/// Reports that are kept with a window.
const REPORTS_MAX: usize = 16;

/// Points of a memory curve.
pub const CURVE_POINTS: usize = 32;

/// A sample with what follows from its request.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The number of its segment.
    pub segment: usize,
    /// The sample.
    pub sample: &'a Sample,
    /// The place of its request.
    pub request: usize,
    /// By how much memory has grown since the request's sample before; 0 for the first.
    pub growth: i64,
}

impl Recent {
    /// The samples of `snapshot` from `from_us` on; `now_us` is now, both by the monotonic clock.
    #[must_use]
    pub fn new(snapshot: Snapshot, from_us: i64, now_us: i64) -> Self {
        let mut recent = Self {
            now_us,
            ..Self::default()
        };
        // Each sample in its request: (request, time, segment, place).
        let mut places: HashMap<(u64, i64, u64), u32, RandomState> = HashMap::default();
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
                        recent.requests.push(Sampled::of(request));
                        recent.requests.len() as u32 - 1
                    });
                }
                order.push((*known, sample.elapsed, at, place));
            }
            recent.request_of.push(of);
            recent.growth.push(vec![OUTSIDE; segment.samples.len()]);
        }
        order.sort_unstable();
        let mut gaps = Vec::new();
        for samples in order.chunk_by(|a, b| a.0 == b.0) {
            let request = &mut recent.requests[samples[0].0 as usize];
            gaps.clear();
            gaps.extend(samples.windows(2).map(|pair| pair[1].1 - pair[0].1));
            request.sampled = sampled(&mut gaps);
            request.first = samples[0].1;
            request.last = samples[samples.len() - 1].1;
            request.samples = samples.len() as u64;
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
        }
        recent.snapshot = snapshot;
        recent.end(now_us.saturating_sub(span_us(REQUEST_ENDED)));
        recent
    }

    /// How far back its samples reach.
    #[must_use]
    pub fn covered(&self) -> Duration {
        let oldest_us = self.oldest_us.unwrap_or(self.now_us);
        let covered = u64::try_from(self.now_us.saturating_sub(oldest_us));
        Duration::from_micros(covered.unwrap_or(0))
    }

    /// Finds out which requests have ended: the newest of each process goes on, unless nothing was
    /// seen of it since `ended_us`.
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

    /// The rows of a report, summed up once.
    #[must_use]
    pub fn report(&self, report: &SampleReport) -> Arc<SampleRows> {
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

    /// The samples of the window, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = Seen<'_>> {
        let segments = self.snapshot.segments.iter().enumerate();
        segments.flat_map(move |(at, segment)| {
            let samples = segment.samples.iter().zip(&self.growth[at]);
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

impl Sampled {
    fn of(request: &Arc<StatRequest>) -> Self {
        Self {
            request: Arc::clone(request),
            first: 0,
            last: 0,
            samples: 0,
            idle: 0,
            sampled: 0,
            memory: Vec::new(),
            memory_max: 0,
            ended: false,
        }
    }
}

/// A span of time in microseconds.
pub(super) fn span_us(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// The sum of the gaps that are no longer than ten medians (of an even number the lower one of the
/// middle).
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
