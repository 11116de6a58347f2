//! The totals that `load` prints at its end: for reading, or as one JSON object.
//!
//! Filled by `run`. "Sent" means taken by the kernel; whether a receiver had room is in the receiver's counters.

use std::fmt;
use std::net::SocketAddr;

use serde_json::json;

use super::Sent;
use super::totals::Totals;
use crate::cli::format::grouped;

/// What was sent, and how it went.
#[derive(Debug)]
pub struct Summary {
    /// Where to.
    pub target: SocketAddr,
    /// How sending went.
    pub sent: Sent,
    /// What the sent packets add up to.
    pub totals: Totals,
}

impl Summary {
    /// Packets that left each second.
    pub fn packets_per_second(&self) -> f64 {
        self.totals.packets as f64 / self.sent.seconds.max(1e-9)
    }

    /// Packets that were planned and not sent.
    pub fn missed(&self) -> u64 {
        self.sent
            .planned
            .map_or(0, |planned| planned.saturating_sub(self.totals.packets))
    }

    /// CPU time that the senders took for a packet, microseconds.
    pub fn cpu_us_per_packet(&self) -> f64 {
        self.sent.sender_cpu.as_secs_f64() * 1e6 / self.totals.packets.max(1) as f64
    }

    /// Mean length of a packet, bytes.
    pub fn packet_bytes_mean(&self) -> f64 {
        self.totals.bytes as f64 / self.totals.packets.max(1) as f64
    }

    /// All of it as a JSON object.
    pub fn to_json(&self) -> serde_json::Value {
        let round = |number: f64| (number * 1000.0).round() / 1000.0;
        json!({
            "target": self.target,
            "seconds": round(self.sent.seconds),
            "packets_per_second": round(self.packets_per_second()),
            "packet_bytes_mean": round(self.packet_bytes_mean()),
            "planned": self.sent.planned,
            "missed": self.missed(),
            "late": self.sent.late,
            "short_sends": self.sent.short_sends,
            "no_buffers": self.sent.no_buffers,
            "sender_cpu_seconds": round(self.sent.sender_cpu.as_secs_f64()),
            "cpu_us_per_packet": round(self.cpu_us_per_packet()),
            "ended_by": self.sent.ended_by.as_ref().map(ToString::to_string),
            "totals": self.totals,
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = &self.totals;
        writeln!(
            f,
            "sent {} packets to {} in {:.3} s: {} packets/s, {:.1} MB/s, {:.1} bytes a packet",
            grouped(totals.packets as f64),
            self.target,
            self.sent.seconds,
            grouped(self.packets_per_second()),
            totals.bytes as f64 / self.sent.seconds.max(1e-9) / 1e6,
            self.packet_bytes_mean(),
        )?;
        let distinct = &totals.distinct;
        let sums = [
            ("bytes", totals.bytes, ""),
            ("requests", totals.requests, ""),
            ("timers", totals.timers, ""),
            ("timer hits", totals.timer_hits, ""),
            ("timer value", totals.timer_value_us, " us"),
            ("request time", totals.request_time_us, " us"),
            ("user CPU", totals.ru_utime_us, " us"),
            ("system CPU", totals.ru_stime_us, " us"),
            ("documents", totals.document_bytes, " bytes"),
        ];
        let statuses: Vec<_> = totals
            .statuses
            .iter()
            .map(|(status, requests)| (format!("status {status}"), *requests))
            .collect();
        let others = [
            ("hosts", distinct.hosts, ""),
            ("servers", distinct.servers, ""),
            ("scripts", distinct.scripts, ""),
            ("host+server+script", distinct.hosts_servers_scripts, ""),
            ("schemas", distinct.schemas, ""),
            ("request tag sets", distinct.request_tag_sets, ""),
            ("timer tag sets", distinct.timer_tag_sets, ""),
            (
                "late",
                self.sent.late,
                " (left more than 10 ms after they were due)",
            ),
            ("missed", self.missed(), " (planned, not sent)"),
            ("short sends", self.sent.short_sends, " (sent again)"),
            ("no buffers", self.sent.no_buffers, " (sent again)"),
        ];
        let statuses = statuses.iter().map(|(name, count)| (&**name, *count, ""));
        for (name, value, note) in sums.into_iter().chain(statuses).chain(others) {
            writeln!(f, "  {name:<22}{:>17}{note}", grouped(value as f64))?;
        }
        writeln!(
            f,
            "  {:<22}{:>17.3} us a packet, delivery on loopback included",
            "sender CPU",
            self.cpu_us_per_packet()
        )
    }
}
