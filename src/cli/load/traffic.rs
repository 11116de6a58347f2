//! The traffic of `load`: seeded requests that look like those of a busy site.
//!
//! Latencies are log-normal with a median and spread for each script, a few scripts get most of the
//! requests, nearly all responses are 200, and timers name backends that the script waits for. The
//! same seed and options give the same packets, byte for byte (as long as `rand` stays at its
//! locked version). Used by `packets` before a run, and by tests and benches directly. Texts are
//! made per request, so this is for preparing packets, not for sending them at full speed.

use std::time::Duration;

use prost::Message;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, LogNormal, Zipf};

use crate::input::pinba::model::{NestedRequest, Request};

use super::options::{Distribution, TrafficOptions};
use super::packet::{self, share, whole_micros};
use super::vocabulary::{self, BACKENDS};

/// How steeply popularity falls with rank.
const ZIPF_EXPONENT: f64 = 1.05;
/// Bounds of request times.
const REQUEST_SECS: (f64, f64) = (0.0002, 60.0);

/// A source of packets.
#[derive(Debug)]
pub struct Traffic {
    options: TrafficOptions,
    rng: StdRng,
    scripts: Vec<Script>,
    /// Requests made so far; `Distribution::Each` uses it to enumerate the keys.
    made: u64,
}

/// The behaviour of one script.
#[derive(Debug)]
struct Script {
    name: String,
    time: LogNormal<f64>,
    document: LogNormal<f64>,
    memory_peak: u32,
    /// Where its timers start in the list of backends and operations.
    first_call: u32,
}

impl Traffic {
    /// Traffic as `options` describe it. Takes time and memory in proportion to the number of
    /// scripts.
    pub fn new(options: &TrafficOptions) -> Self {
        let mut rng = StdRng::seed_from_u64(options.seed);
        let scripts = (0..options.scripts).map(|index| Script::new(index, &mut rng)).collect();
        Self { options: options.clone(), rng, scripts, made: 0 }
    }

    /// The next packet.
    pub fn packet(&mut self) -> Vec<u8> {
        self.next_request().encode_to_vec()
    }

    /// The next packet before encoding.
    pub fn next_request(&mut self) -> Request {
        let mut request = self.request();
        for _ in 0..self.options.nested {
            let nested = self.request().encode_to_vec();
            let nested =
                NestedRequest::decode(&*nested).expect("the same fields in the same types");
            request.requests.push(nested);
        }
        if let Some(bytes) = self.options.size {
            packet::pad_to(&mut request, bytes as usize);
        }
        request
    }

    fn request(&mut self) -> Request {
        let [host, server, script] = self.keys();
        self.made += 1;
        let rng = &mut self.rng;
        let options = &self.options;
        let shape = &self.scripts[script as usize];
        let secs = shape.time.sample(rng).clamp(REQUEST_SECS.0, REQUEST_SECS.1);
        let time = whole_micros(secs);
        let mut request = Request {
            document_size: Some(shape.document.sample(rng).clamp(120.0, 8e6) as u32),
            memory_peak: Some(shape.memory_peak),
            request_time: Some(time.as_secs_f32()),
            ru_utime: Some(share(time, rng.random_range(0.15..0.5)).as_secs_f32()),
            ru_stime: Some(share(time, rng.random_range(0.01..0.08)).as_secs_f32()),
            status: Some(vocabulary::status(draw_status(rng, options.statuses))),
            memory_footprint: Some(rng.random_range(256..4096) * 4096),
            schema: draw_schema(rng, options.schemas)
                .map(|number| vocabulary::schema(number).into()),
            // The request count stays 0: nothing in the extension increments it.
            ..Request::named(vocabulary::host(host), vocabulary::server(server), &*shape.name)
        };
        let mut tags: Vec<_> = (0..options.request_tags)
            .map(|tag| vocabulary::request_tag(tag, rng.random()))
            .collect();
        packet::set_request_tags(&mut request, &mut tags);
        if options.timers > 0 {
            add_timers(&mut request, rng, options, shape.first_call, time);
        }
        request
    }

    /// Draws host, server and script of the next request.
    fn keys(&mut self) -> [u32; 3] {
        let options = &self.options;
        let counts = [options.hosts, options.servers, options.scripts];
        let rng = &mut self.rng;
        match options.distribution {
            // A load balancer spreads requests evenly over the hosts.
            Distribution::Zipf => [
                rng.random_range(0..options.hosts),
                draw_zipf(rng, options.servers),
                draw_zipf(rng, options.scripts),
            ],
            Distribution::Uniform => counts.map(|count| rng.random_range(0..count)),
            Distribution::Each => {
                let mut left = self.made;
                counts.map(|count| {
                    let digit = left % u64::from(count);
                    left /= u64::from(count);
                    digit as u32
                })
            }
        }
    }
}

impl Script {
    fn new(index: u32, rng: &mut StdRng) -> Self {
        // Most scripts answer within 5 to 150 ms, one in twenty takes longer.
        let slow = if rng.random_bool(0.05) { 10.0 } else { 1.0 };
        let median = slow * 0.005 * 30_f64.powf(rng.random());
        let log_normal = |median: f64, spread| {
            LogNormal::new(median.ln(), spread).expect("a spread that is finite and above zero")
        };
        Self {
            name: vocabulary::script(index),
            time: log_normal(median, rng.random_range(0.3..0.8)),
            document: log_normal(rng.random_range(800.0..60_000.0), 0.5),
            // PHP's allocator takes memory from the system in units of 2 MiB.
            memory_peak: rng.random_range(1..24) * 2_097_152,
            first_call: rng.random(),
        }
    }
}

/// Adds the timers of a request that took `time`: together they explain a good part of it.
fn add_timers(
    request: &mut Request,
    rng: &mut StdRng,
    options: &TrafficOptions,
    first_call: u32,
    time: Duration,
) {
    let waited = share(time, rng.random_range(0.3..0.8));
    let weights: Vec<f64> = (0..options.timers).map(|_| rng.random_range(0.1..1.0)).collect();
    let weight_total: f64 = weights.iter().sum();
    let first_value = rng.random_range(0..options.tag_values);
    for (timer, weight) in (0..options.timers).zip(weights) {
        let (mut tags, hits_max) = call(options, first_call, first_value, timer);
        let hits = rng.random_range(1..=hits_max);
        let value = share(waited, weight / weight_total);
        packet::add_timer(request, hits, (value, value), &mut tags);
    }
}

/// The tags and the most hits of timer number `timer` of a request. Calls of one request differ as
/// long as the options allow enough tag sets; otherwise equal timers are merged, as in PHP.
fn call(
    options: &TrafficOptions,
    first_call: u32,
    first_value: u32,
    timer: u32,
) -> (Vec<(String, String)>, u32) {
    let values = options.tag_values;
    let backends = BACKENDS.len() as u32;
    let operations = BACKENDS[0].2.len() as u32;
    // Kinds of call that differ before their server does.
    let kinds = match options.tags {
        1 => backends.max(values),
        2 => backends,
        _ => backends * operations,
    };
    let kind = (first_call % kinds + timer) % kinds;
    let round = timer / kinds;
    let value = |tag: u32| {
        let drawn = u64::from(first_value) + u64::from(kind) * 7 + u64::from(round);
        (drawn + u64::from(tag)) % u64::from(values)
    };
    let (backend, operation) = match options.tags {
        1 | 2 => (kind, 0),
        _ => (kind / operations, kind % operations),
    };
    let (group, server, operations, hits_max) = BACKENDS[(backend % backends) as usize];
    let group = match options.tags {
        1 => vocabulary::group(kind),
        _ => group.to_owned(),
    };
    let server = format!("{server}{:02}", value(0) + 1);
    let operation = operations[operation as usize].to_owned();
    let mut tags = vec![
        ("group".to_owned(), group),
        ("server".to_owned(), server),
        ("operation".to_owned(), operation),
    ];
    tags.truncate(options.tags as usize);
    for tag in 3..options.tags {
        let name = vocabulary::timer_tag_name(tag);
        let text = format!("{name}{}", value(tag));
        tags.push((name, text));
    }
    (tags, hits_max)
}

/// Draws a number below `count`; 0 is the most frequent.
fn draw_zipf(rng: &mut StdRng, count: u32) -> u32 {
    let zipf = Zipf::new(f64::from(count), ZIPF_EXPONENT).expect("a count of at least 1");
    zipf.sample(rng) as u32 - 1
}

/// Draws 0 (status 200) for 93 of 100 requests.
fn draw_status(rng: &mut StdRng, statuses: u32) -> u32 {
    if statuses == 1 || rng.random_bool(0.93) { 0 } else { 1 + draw_zipf(rng, statuses - 1) }
}

/// Draws the first schema for nine of ten requests; `None` if there are none.
fn draw_schema(rng: &mut StdRng, schemas: u32) -> Option<u32> {
    match schemas {
        0 => None,
        1 => Some(0),
        _ if rng.random_bool(0.9) => Some(0),
        _ => Some(rng.random_range(1..schemas)),
    }
}

#[cfg(test)]
mod tests;
