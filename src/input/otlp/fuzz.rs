//! Entry point for `pinbad::fuzz`: decodes any body in both encodings, without the network.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::counters::OtlpCounters;
use super::facts::Keys;
use super::join::Joiner;
use super::request::RequestWriter;
use super::span::Batch;
use super::{json, protobuf};
use crate::config::OtlpInput;
use crate::input::record::{Hasher, TextLimits};
use crate::input::rewrite::AsSent;

/// A time in the corpus, in nanoseconds since 1970.
const NOW_NS: u64 = 1_700_000_000_000_000_000;

/// Returns the records made of a body, which is taken twice; its first byte selects the encoding.
/// Every span is counted once.
pub(crate) fn records(config: &OtlpInput, hasher: &Hasher, body: &[u8]) -> Vec<u8> {
    let config = Arc::new(config.clone());
    let keys = Arc::new(Keys::new(&config.attributes));
    let (texts, rules) = (TextLimits::default(), Box::new(AsSent));
    let writer = RequestWriter::new((&config, &keys), texts, hasher.clone(), rules);
    let counters: Arc<OtlpCounters> = Arc::default();
    let mut joiner = Joiner::new(writer, &counters, Vec::new());
    let mut received: u64 = 0;
    for now_ms in [0, 7_000] {
        joiner.now = (now_ms, 1_700_000_000);
        let mut batch = Batch::new(&keys, hasher, NOW_NS);
        let decoded = match body.first() {
            Some(b'{') => json::decode(body, &mut batch),
            _ => protobuf::decode(body, &mut batch),
        };
        if decoded.is_ok() {
            received = received.saturating_add(batch.received);
            let sender = IpAddr::V4(Ipv4Addr::LOCALHOST);
            joiner.take(&mut batch, sender);
        }
    }
    joiner.now.0 = 8_000;
    joiner.finish();
    let refused = counters.spans_refused.total();
    let parts = [
        counters.requests.get(),
        counters.timers.get(),
        counters.spans_merged.get(),
        counters.spans_left_out.total(),
        refused,
    ];
    assert_eq!(parts.iter().sum::<u64>(), received, "{counters:?}");
    assert_eq!(counters.spans_received.get(), received);
    assert_eq!(counters.spans_waiting.get(), 0, "everything has left");
    assert_eq!(counters.waiting_bytes.get(), 0);
    joiner.sink
}
