//! Arrivals: requests that the pool took in, on their way into the families.
//!
//! The merger collects some dozens and hands them to [`Reports::add`](super::Reports::add); filling a new report from raw
//! rows does the same. For each family the group of every record is found first and added to afterwards, because
//! finding and adding wait for memory, and the waits of different records overlap only if nothing stands between them.

use super::budget::Budget;
use super::definition::Level;
use super::dimension::Subject;
use super::family::{Family, NamesMut};
use super::groups::Gain;
use super::histogram::Layout;
use crate::pool::timers::TimerRow;
use crate::wire::micros;

/// A request that the pool took in, as reports look at it.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// The request's id.
    pub id: u64,
    /// Numbers in the pool.
    pub origin: u32,
    /// Numbers in the pool.
    pub request_tags: u32,
    /// Seconds, valid.
    pub request_time: f32,
    /// Seconds, valid.
    pub ru_utime: f32,
    /// Seconds, valid.
    pub ru_stime: f32,
    /// Bytes.
    pub document_size: u32,
    /// Bytes.
    pub memory_peak: u32,
    /// Bytes.
    pub memory_footprint: u32,
    /// How many timers it has.
    pub timers: u32,
}

/// Requests that arrived one after the other, with their timers: reports look at some dozens at a time, so that what
/// they read of one does not wait for what they read of the one before.
#[derive(Debug, Default)]
pub struct Arrivals {
    requests: Vec<Arrival>,
    /// Of all requests, in their order.
    timers: Vec<TimerRow>,
}

impl Arrivals {
    /// Adds a request with its timers.
    pub fn push(&mut self, request: Arrival, timers: &[TimerRow]) {
        debug_assert_eq!(
            request.timers as usize,
            timers.len(),
            "every timer is there"
        );
        self.requests.push(request);
        self.timers.extend_from_slice(timers);
    }

    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.timers.clear();
    }

    /// What reports of timers want to know of each timer; to be asked for once for all of them.
    pub(super) fn timed(&self, to: &mut Vec<Timed>) {
        to.clear();
        to.extend(self.timers.iter().map(Timed::of));
    }
}

/// A timer in the units of reports.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timed {
    tags: u32,
    hits: u32,
    time: u64,
    ru_utime: u64,
    ru_stime: u64,
    /// The time per hit.
    sample: u64,
    /// Its bucket in the layout that nearly all families have.
    log_linear: u32,
}

impl Timed {
    fn of(timer: &TimerRow) -> Self {
        let time = micros(timer.value);
        let sample = per_hit(time, timer.hit_count);
        Self {
            tags: timer.tags,
            hits: timer.hit_count,
            time,
            ru_utime: micros(timer.ru_utime),
            ru_stime: micros(timer.ru_stime),
            sample,
            log_linear: Layout::LogLinear.bucket(sample),
        }
    }

    fn gain(&self, request: u64, layout: &Layout) -> Gain {
        Gain {
            request,
            time: self.time,
            ru_utime: self.ru_utime,
            ru_stime: self.ru_stime,
            traffic: 0,
            memory: 0,
            memory_peak: 0,
            hits: u64::from(self.hits),
            error: false,
            sample: self.sample,
            bucket: match layout {
                Layout::LogLinear => self.log_linear,
                other => other.bucket(self.sample),
            },
            weight: u64::from(self.hits),
        }
    }
}

/// What a family is counted with.
#[derive(Debug)]
pub(super) struct Counter<'a, 'n> {
    pub(super) error_status: u32,
    pub(super) names: &'a mut NamesMut<'n>,
    pub(super) budget: &'a mut Budget,
    /// Scratch.
    pub(super) gains: &'a mut Vec<(u32, Gain)>,
}

impl Counter<'_, '_> {
    /// Counts requests, or their timers, in one family: finds the group of each first, then adds to all of them. `timed` are
    /// the timers of all arrivals; a family of requests does not look at them.
    pub(super) fn add_to(&mut self, family: &mut Family, arrivals: &Arrivals, timed: &[Timed]) {
        self.gains.clear();
        let of_timers = family.scope.level == Level::Timer;
        let mut rest = timed;
        for request in &arrivals.requests {
            family.flow.requests_offered += 1;
            let time = micros(request.request_time);
            if of_timers {
                let (timers, others) = rest.split_at(request.timers as usize);
                rest = others;
                family.flow.timers_offered += timers.len() as u64;
                if family.time_passes(time) {
                    self.gather_timers(family, request, timers);
                }
            } else if family.time_passes(time) {
                self.gather_request(family, request, time);
            }
        }
        family.count(self.gains, self.budget);
    }

    fn gather_request(&mut self, family: &mut Family, request: &Arrival, time: u64) {
        let subject = subject(request, 0);
        let Some(group) = family.group_of(subject, self.names, self.budget) else {
            return;
        };
        family.flow.requests_counted += 1;
        let gain = Gain {
            request: request.id,
            time,
            ru_utime: micros(request.ru_utime),
            ru_stime: micros(request.ru_stime),
            traffic: request.document_size,
            memory: request.memory_footprint,
            memory_peak: request.memory_peak,
            hits: u64::from(request.timers),
            error: self.names.origins.get(request.origin).status >= self.error_status,
            sample: time,
            bucket: family.scope.layout.bucket(time),
            weight: 1,
        };
        self.gains.push((group, gain));
    }

    /// The gains of one request's timers in a family of timer reports.
    fn gather_timers(&mut self, family: &mut Family, request: &Arrival, timers: &[Timed]) {
        let before = self.gains.len();
        for timer in timers {
            let subject = subject(request, timer.tags);
            if let Some(group) = family.group_of(subject, self.names, self.budget) {
                let gain = timer.gain(request.id, &family.scope.layout);
                self.gains.push((group, gain));
            }
        }
        let counted = self.gains.len() - before;
        family.flow.timers_counted += counted as u64;
        family.flow.requests_counted += u64::from(counted > 0);
    }
}

fn subject(request: &Arrival, timer_tags: u32) -> Subject {
    Subject {
        origin: request.origin,
        request_tags: request.request_tags,
        timer_tags,
    }
}

/// A timer's time per hit in whole microseconds, half to even: what its histogram counts, once a hit.
#[must_use]
pub fn per_hit(value_us: u64, hit_count: u32) -> u64 {
    let hits = u64::from(hit_count);
    if hits <= 1 {
        return value_us;
    }
    let (quotient, rest) = (value_us / hits, value_us % hits);
    match (rest * 2).cmp(&hits) {
        std::cmp::Ordering::Less => quotient,
        std::cmp::Ordering::Equal => quotient + (quotient & 1),
        std::cmp::Ordering::Greater => quotient + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_hit_rounds_half_to_even() {
        assert_eq!(per_hit(100, 0), 100);
        assert_eq!(per_hit(100, 1), 100);
        assert_eq!(per_hit(5, 2), 2);
        assert_eq!(per_hit(7, 2), 4);
        assert_eq!(per_hit(100_000, 3), 33_333);
        assert_eq!(per_hit(200_000, 3), 66_667);
    }
}
