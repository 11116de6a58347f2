//! What a run of packets adds up to, exactly: the other side of the ledger when a daemon's reports are checked.
//!
//! Times are added as the daemon adds them: each wire float becomes whole microseconds once. Kept by whoever makes
//! packets (one thread); distinct keys are counted by their 64-bit hashes, so a tally costs about 16 bytes a distinct
//! key and may, with a chance of one in ten million at a million keys, be one short.

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
    /// Their payload, bytes.
    pub bytes: u64,
    /// Requests in them, nested ones included.
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
    /// Distinct keys seen.
    pub distinct: Distinct,
}

/// How many different keys the requests had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Distinct {
    /// Host names.
    pub hosts: u64,
    /// Server names.
    pub servers: u64,
    /// Script names.
    pub scripts: u64,
    /// Host, server and script together.
    pub hosts_servers_scripts: u64,
    /// Schemas, an absent one being one of them.
    pub schemas: u64,
    /// Sets of request tags, the empty one included.
    pub request_tag_sets: u64,
    /// Sets of timer tags.
    pub timer_tag_sets: u64,
}

type Hashes = HashSet<u64, BuildHasherDefault<DefaultHasher>>;

/// Totals in the making.
#[derive(Debug, Default)]
pub(super) struct Tally {
    sums: Totals,
    hosts: Hashes,
    servers: Hashes,
    scripts: Hashes,
    keys: Hashes,
    schemas: Hashes,
    request_tag_sets: Hashes,
    timer_tag_sets: Hashes,
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
        sums.timer_hits += times
            * request
                .timer_hit_count
                .iter()
                .map(|h| u64::from(*h))
                .sum::<u64>();
        sums.timer_value_us += times * request.timer_value.iter().map(|v| micros(*v)).sum::<u64>();
        *sums.statuses.entry(request.status()).or_default() += times;

        let (host, server, script) = (
            &request.hostname,
            &request.server_name,
            &request.script_name,
        );
        self.hosts.insert(hash(host));
        self.servers.insert(hash(server));
        self.scripts.insert(hash(script));
        self.keys.insert(hash(&(host, server, script)));
        self.schemas.insert(hash(&request.schema));
        self.request_tag_sets
            .insert(hash_tags(request, &request.tag_name, &request.tag_value));
        let mut start = 0;
        for count in &request.timer_tag_count {
            let end = start + *count as usize;
            let names = &request.timer_tag_name[start..end];
            let values = &request.timer_tag_value[start..end];
            self.timer_tag_sets
                .insert(hash_tags(request, names, values));
            start = end;
        }
    }

    /// The sums so far.
    pub(super) fn totals(&self) -> Totals {
        let distinct = Distinct {
            hosts: self.hosts.len() as u64,
            servers: self.servers.len() as u64,
            scripts: self.scripts.len() as u64,
            hosts_servers_scripts: self.keys.len() as u64,
            schemas: self.schemas.len() as u64,
            request_tag_sets: self.request_tag_sets.len() as u64,
            timer_tag_sets: self.timer_tag_sets.len() as u64,
        };
        Totals {
            distinct,
            ..self.sums.clone()
        }
    }
}

fn hash(key: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(key)
}

/// A tag set by its texts; the indexes differ from packet to packet.
fn hash_tags(request: &Request, names: &[u32], values: &[u32]) -> u64 {
    let text = |index: &u32| request.dictionary.get(*index as usize);
    let pairs: Vec<_> = names
        .iter()
        .zip(values)
        .map(|(name, value)| (text(name), text(value)))
        .collect();
    hash(&pairs)
}

/// A nested request has the fields of a packet but for the requests in it.
fn unnested(nested: &NestedRequest) -> Request {
    let nested = NestedRequest {
        requests: Vec::new(),
        ..nested.clone()
    };
    Request::decode(&*nested.encode_to_vec()).expect("the same fields in the same types")
}
