//! Exact sums over the packets of a run, to check a daemon's reports against.
//!
//! Times are added as the daemon adds them: each wire float becomes whole microseconds once. Kept
//! by the one thread that makes the packets; distinct keys are counted by their 64-bit hashes, so a
//! tally costs about 16 bytes per distinct key and may, with a chance of one in ten million at a
//! million keys, be one short.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use prost::Message;
use serde::Serialize;

use crate::input::pinba::model::{NestedRequest, Request};
use crate::input::record::micros;

/// Sums over the packets of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Datagrams.
    pub packets: u64,
    /// Their payload, in bytes.
    pub bytes: u64,
    /// Requests, including nested ones.
    pub requests: u64,
    /// Timers in all requests.
    pub timers: u64,
    /// Hits of all timers.
    pub timer_hits: u64,
    /// Sum of timer values, microseconds.
    pub timer_value_us: u64,
    /// Sum of request times, microseconds.
    pub request_time_us: u64,
    /// Sum of user CPU times of requests, microseconds.
    pub ru_utime_us: u64,
    /// Sum of system CPU times of requests, microseconds.
    pub ru_stime_us: u64,
    /// Sum of document sizes, bytes.
    pub document_bytes: u64,
    /// Requests by status.
    pub statuses: BTreeMap<u32, u64>,
    /// Numbers of distinct keys: `hosts`, `servers`, `scripts`, `hosts_servers_scripts`, `schemas`
    /// (none counts as one), `request_tag_sets` (including the empty one), `timer_tag_sets`.
    pub distinct: BTreeMap<&'static str, u64>,
}

type Hashes = HashSet<u64, BuildHasherDefault<DefaultHasher>>;

/// Accumulates totals.
#[derive(Debug, Default)]
pub(super) struct Tally {
    sums: Totals,
    seen: BTreeMap<&'static str, Hashes>,
}

impl Tally {
    /// Adds a packet of `bytes` bytes that was sent `times` times.
    pub(super) fn add_packet(&mut self, packet: &Request, bytes: usize, times: u64) {
        self.sums.packets += times;
        self.sums.bytes += times * bytes as u64;
        self.add_request(packet, times);
        for nested in &packet.requests {
            self.add_request(&unnested(nested), times);
        }
    }

    fn add_request(&mut self, request: &Request, times: u64) {
        let sums = &mut self.sums;
        sums.requests += times;
        sums.request_time_us += times * micros(request.request_time());
        sums.ru_utime_us += times * micros(request.ru_utime());
        sums.ru_stime_us += times * micros(request.ru_stime());
        sums.document_bytes += times * u64::from(request.document_size());
        sums.timers += times * request.timer_hit_count.len() as u64;
        let hits = request.timer_hit_count.iter().map(|hits| u64::from(*hits));
        sums.timer_hits += times * hits.sum::<u64>();
        let values = request.timer_value.iter().map(|value| micros(*value));
        sums.timer_value_us += times * values.sum::<u64>();
        *sums.statuses.entry(request.status()).or_default() += times;

        let (host, server, script) =
            (&request.hostname, &request.server_name, &request.script_name);
        self.see("hosts", host);
        self.see("servers", server);
        self.see("scripts", script);
        self.see("hosts_servers_scripts", &(host, server, script));
        self.see("schemas", &request.schema);
        let tags = tag_set(request, &request.tag_name, &request.tag_value);
        self.see("request_tag_sets", &tags);
        // There may be none.
        self.seen.entry("timer_tag_sets").or_default();
        let mut start = 0;
        for count in &request.timer_tag_count {
            let end = start + *count as usize;
            let names = &request.timer_tag_name[start..end];
            let values = &request.timer_tag_value[start..end];
            self.see("timer_tag_sets", &tag_set(request, names, values));
            start = end;
        }
    }

    fn see(&mut self, what: &'static str, key: &impl Hash) {
        let seen = self.seen.entry(what).or_default();
        seen.insert(BuildHasherDefault::<DefaultHasher>::default().hash_one(key));
    }

    /// The sums so far.
    pub(super) fn totals(&self) -> Totals {
        let seen = self.seen.iter();
        Totals {
            distinct: seen.map(|(what, seen)| (*what, seen.len() as u64)).collect(),
            ..self.sums.clone()
        }
    }
}

/// A tag set as texts, since indexes differ from packet to packet.
fn tag_set<'a>(request: &'a Request, names: &[u32], values: &[u32]) -> Vec<[Option<&'a [u8]>; 2]> {
    let text = |index: &u32| Some(request.dictionary.get(*index as usize)?.as_slice());
    names.iter().zip(values).map(|(name, value)| [text(name), text(value)]).collect()
}

/// A nested request as a packet without further requests.
fn unnested(nested: &NestedRequest) -> Request {
    let nested = NestedRequest { requests: Vec::new(), ..nested.clone() };
    Request::decode(&*nested.encode_to_vec()).expect("the same fields in the same types")
}
