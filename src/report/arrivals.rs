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

    /// Each request with its timers.
    fn iter(&self) -> impl Iterator<Item = (&Arrival, &[TimerRow])> {
        let mut rest = &self.timers[..];
        self.requests.iter().map(move |request| {
            let (timers, others) = rest.split_at(request.timers as usize);
            rest = others;
            (request, timers)
        })
    }
}

/// Counts requests, or their timers, in one family: finds the group of each first, then adds to all of them.
pub(super) fn add_to(
    family: &mut Family,
    arrivals: &Arrivals,
    error_status: u32,
    names: &mut NamesMut<'_>,
    budget: &mut Budget,
    gains: &mut Vec<(u32, Gain)>,
) {
    gains.clear();
    for (request, timers) in arrivals.iter() {
        family.flow.requests_offered += 1;
        let time = micros(request.request_time);
        if family.scope.level == Level::Timer {
            family.flow.timers_offered += timers.len() as u64;
            if family.time_passes(time) {
                gather_timers(family, request, timers, names, budget, gains);
            }
        } else if family.time_passes(time) {
            let subject = subject(request, 0);
            let Some(group) = family.group_of(subject, names, budget) else {
                continue;
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
                error: names.origins.get(request.origin).status >= error_status,
                sample: time,
                bucket: family.scope.layout.bucket(time),
                weight: 1,
            };
            gains.push((group, gain));
        }
    }
    family.count(gains, budget);
}

/// The gains of one request's timers in a family of timer reports.
fn gather_timers(
    family: &mut Family,
    request: &Arrival,
    timers: &[TimerRow],
    names: &mut NamesMut<'_>,
    budget: &mut Budget,
    gains: &mut Vec<(u32, Gain)>,
) {
    let before = gains.len();
    for timer in timers {
        let subject = subject(request, timer.tags);
        let Some(group) = family.group_of(subject, names, budget) else {
            continue;
        };
        let value = micros(timer.value);
        let sample = per_hit(value, timer.hit_count);
        let gain = Gain {
            request: request.id,
            time: value,
            ru_utime: micros(timer.ru_utime),
            ru_stime: micros(timer.ru_stime),
            traffic: 0,
            memory: 0,
            memory_peak: 0,
            hits: u64::from(timer.hit_count),
            error: false,
            sample,
            bucket: family.scope.layout.bucket(sample),
            weight: u64::from(timer.hit_count),
        };
        gains.push((group, gain));
    }
    family.flow.timers_counted += (gains.len() - before) as u64;
    family.flow.requests_counted += u64::from(gains.len() > before);
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
