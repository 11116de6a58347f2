//! `status` and `v2_stats`: one row each, of what the daemon counted since it started.
//!
//! Made from a [`Look`] on a front end's thread.

use super::{Look, float, int, text};
use crate::telemetry::SocketCounts;
use crate::telemetry::cpu::CpuTimes;
use crate::value::Value;
use crate::wire::Refusal;

/// Name and version, as `build_string` shows it.
pub(in crate::query) const BUILD: &str = concat!("pinbad ", env!("CARGO_PKG_VERSION"));

/// Datagrams that could not be decoded, and datagrams and requests that were decoded and not accepted. What was refused
/// for where it came from is neither.
pub(in crate::query) fn refusals(sockets: &SocketCounts) -> (u64, u64) {
    let sum = |of: fn(Refusal) -> bool| {
        let counts = Refusal::ALL.into_iter().zip(sockets.datagrams_invalid.0);
        counts
            .filter(|(reason, _)| of(*reason))
            .map(|(_, count)| count)
            .sum::<u64>()
    };
    let undecodable = sum(Refusal::is_malformed);
    let decoded = sockets.datagrams_invalid.total() - undecodable - sum(Refusal::is_unread);
    (undecodable, decoded + sockets.requests_invalid.total())
}

/// Pinba's own counters.
pub(super) fn status(look: &Look) -> Vec<Value<'static>> {
    let (_, not_accepted) = refusals(&look.sockets);
    vec![
        int(look.ring_depth),
        int(look.timer_rows),
        int(look.sockets.requests_overwritten),
        int(look.sockets.datagrams_invalid.total()),
        int(not_accepted),
        text(BUILD),
        int(look.words.0),
    ]
}

/// pinba2's counters, as far as there is something to count.
pub(super) fn v2_stats(look: &Look) -> Vec<Value<'static>> {
    let sockets = &look.sockets;
    let (undecodable, not_accepted) = refusals(sockets);
    let user = |cpu: Option<CpuTimes>| float(cpu.map(|cpu| cpu.user_secs));
    let system = |cpu: Option<CpuTimes>| float(cpu.map(|cpu| cpu.system_secs));
    vec![
        Value::Float(look.uptime_secs()),
        user(look.process_cpu),
        system(look.process_cpu),
        Value::Null, // udp_poll_total
        int(sockets.batches_received),
        Value::Null, // udp_recv_eagain
        int(sockets.received_bytes),
        int(sockets.datagrams_received),
        int(undecodable),
        Value::Null, // udp_batch_send_total
        Value::Null, // udp_batch_send_err
        int(sockets.requests_pushed),
        int(sockets.requests_overwritten),
        user(look.receivers_cpu),
        system(look.receivers_cpu),
        Value::Null, // repacker_poll_total
        Value::Null, // repacker_recv_total
        Value::Null, // repacker_recv_eagain
        int(sockets.requests_decoded),
        int(not_accepted),
        Value::Null, // repacker_batch_send_total
        Value::Null, // repacker_batch_send_by_timer
        Value::Null, // repacker_batch_send_by_size
        Value::Null, // repacker_ru_utime
        Value::Null, // repacker_ru_stime
        Value::Null, // coordinator_batches_received
        Value::Null, // coordinator_batch_send_total
        Value::Null, // coordinator_batch_send_err
        Value::Null, // coordinator_control_requests
        user(look.merger_cpu),
        system(look.merger_cpu),
        int(look.words.0),
        Value::Null, // dictionary_mem_hash
        Value::Null, // dictionary_mem_list
        int(look.words.1),
        text(env!("CARGO_PKG_VERSION")),
        text(BUILD),
    ]
}
