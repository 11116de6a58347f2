//! `v2_stats`: one row with the daemon's counters since its start.
//!
//! Made from a [`StatusSnapshot`] on a front end's thread.

use serde_json::{Value as Json, json};

use super::StatusSnapshot;
use crate::input::record::RejectReason;
use crate::telemetry::SocketCounters;
use crate::telemetry::cpu::CpuTimes;

/// Name and version, as `build_string` shows it.
pub(in crate::query) const BUILD: &str = concat!("pinbad ", env!("CARGO_PKG_VERSION"));

/// Returns the datagrams that could not be decoded, and the datagrams and requests that were
/// decoded but not accepted. Those refused because of their sender are in neither.
pub(in crate::query) fn refusals(sockets: &SocketCounters) -> (u64, u64) {
    let sum = |of: fn(RejectReason) -> bool| {
        let counts = RejectReason::ALL.into_iter().zip(sockets.datagrams_invalid.get());
        counts.filter(|(reason, _)| of(*reason)).map(|(_, count)| count).sum::<u64>()
    };
    let undecodable = sum(RejectReason::is_malformed);
    let decoded = sockets.datagrams_invalid.total() - undecodable - sum(RejectReason::is_unread);
    (undecodable, decoded + sockets.requests_invalid.total())
}

/// Returns pinba2's counters, those that have a counterpart here.
pub(super) fn v2_stats(look: &StatusSnapshot) -> Json {
    let sockets = &look.sockets;
    let (undecodable, not_accepted) = refusals(sockets);
    let user = |cpu: Option<CpuTimes>| cpu.map(|cpu| cpu.user_secs);
    let system = |cpu: Option<CpuTimes>| cpu.map(|cpu| cpu.system_secs);
    json!({
        "uptime": look.mono_ms.saturating_sub(look.started_ms) as f64 / 1000.0,
        "ru_utime": user(look.process_cpu),
        "ru_stime": system(look.process_cpu),
        "udp_recv_total": sockets.batches_received.get(),
        "udp_recv_bytes": sockets.received_bytes.get(),
        "udp_recv_packets": sockets.datagrams_received.get(),
        "udp_packet_decode_err": undecodable,
        "udp_packet_send_total": sockets.requests_pushed.get(),
        "udp_packet_send_err": sockets.requests_overwritten.get(),
        "udp_ru_utime": user(look.receivers_cpu),
        "udp_ru_stime": system(look.receivers_cpu),
        "repacker_recv_packets": sockets.requests_decoded.get(),
        "repacker_packet_validate_err": not_accepted,
        "coordinator_ru_utime": user(look.merger_cpu),
        "coordinator_ru_stime": system(look.merger_cpu),
        "dictionary_size": look.strings.0,
        "dictionary_mem_strings": look.strings.1,
        "version_info": env!("CARGO_PKG_VERSION"),
        "build_string": BUILD,
    })
}
