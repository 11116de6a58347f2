//! What a run of `load` says at its end: for reading, or as one JSON object.
//!
//! Filled by `run`. "Sent" means taken by the kernel; whether a receiver had room is told by the receiver's counters.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;

use super::LoadError;
use super::totals::Totals;

/// What was sent, and how it went.
#[derive(Debug)]
pub struct Summary {
    /// Where to.
    pub target: SocketAddr,
    /// How long it took.
    pub seconds: f64,
    /// How many packets should have been sent; `None` when only the clock ended the run.
    pub planned: Option<u64>,
    /// Packets that left more than 10 ms after they were due: this machine was too busy for the rate.
    pub late: u64,
    /// Batches of which the kernel took only a part; the rest was sent again.
    pub short_sends: u64,
    /// Times that the kernel had no buffer; the packets were sent again.
    pub no_buffers: u64,
    /// CPU time of all senders, the kernel's part included. On loopback that holds the delivery to the receiver's
    /// socket.
    pub sender_cpu: Duration,
    /// Why the run ended early, if it did.
    pub ended_by: Option<LoadError>,
    /// What the sent packets add up to.
    pub totals: Totals,
}

impl Summary {
    /// Packets that left each second.
    #[must_use]
    pub fn packets_per_second(&self) -> f64 {
        self.totals.packets as f64 / self.seconds.max(1e-9)
    }

    /// Packets that were planned and not sent.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.planned
            .map_or(0, |planned| planned.saturating_sub(self.totals.packets))
    }

    /// CPU time that the senders took for a packet, microseconds.
    #[must_use]
    pub fn cpu_us_per_packet(&self) -> f64 {
        self.sender_cpu.as_secs_f64() * 1e6 / self.totals.packets.max(1) as f64
    }

    /// Mean length of a packet, bytes.
    #[must_use]
    pub fn packet_bytes_mean(&self) -> f64 {
        self.totals.bytes as f64 / self.totals.packets.max(1) as f64
    }

    /// All of it as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let round = |number: f64| (number * 1000.0).round() / 1000.0;
        json!({
            "target": self.target,
            "seconds": round(self.seconds),
            "packets_per_second": round(self.packets_per_second()),
            "packet_bytes_mean": round(self.packet_bytes_mean()),
            "planned": self.planned,
            "missed": self.missed(),
            "late": self.late,
            "short_sends": self.short_sends,
            "no_buffers": self.no_buffers,
            "sender_cpu_seconds": round(self.sender_cpu.as_secs_f64()),
            "cpu_us_per_packet": round(self.cpu_us_per_packet()),
            "ended_by": self.ended_by.as_ref().map(ToString::to_string),
            "totals": self.totals,
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = &self.totals;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, value: u64, note: &str| {
            writeln!(f, "  {name:<22}{:>17}{note}", grouped(value))
        };
        writeln!(
            f,
            "sent {} packets to {} in {:.3} s: {} packets/s, {:.1} MB/s, {:.1} bytes a packet",
            grouped(totals.packets),
            self.target,
            self.seconds,
            grouped(self.packets_per_second().round() as u64),
            totals.bytes as f64 / self.seconds.max(1e-9) / 1e6,
            self.packet_bytes_mean(),
        )?;
        line(f, "bytes", totals.bytes, "")?;
        line(f, "requests", totals.requests, "")?;
        line(f, "timers", totals.timers, "")?;
        line(f, "timer hits", totals.timer_hits, "")?;
        line(f, "timer value", totals.timer_value_us, " us")?;
        line(f, "request time", totals.request_time_us, " us")?;
        line(f, "user CPU", totals.ru_utime_us, " us")?;
        line(f, "system CPU", totals.ru_stime_us, " us")?;
        line(f, "documents", totals.document_bytes, " bytes")?;
        for (status, requests) in &totals.statuses {
            line(f, &format!("status {status}"), *requests, "")?;
        }
        let distinct = &totals.distinct;
        line(f, "hosts", distinct.hosts, "")?;
        line(f, "servers", distinct.servers, "")?;
        line(f, "scripts", distinct.scripts, "")?;
        line(f, "host+server+script", distinct.hosts_servers_scripts, "")?;
        line(f, "schemas", distinct.schemas, "")?;
        line(f, "request tag sets", distinct.request_tag_sets, "")?;
        line(f, "timer tag sets", distinct.timer_tag_sets, "")?;
        line(
            f,
            "late",
            self.late,
            " (left more than 10 ms after they were due)",
        )?;
        line(f, "missed", self.missed(), " (planned, not sent)")?;
        line(f, "short sends", self.short_sends, " (sent again)")?;
        line(f, "no buffers", self.no_buffers, " (sent again)")?;
        writeln!(
            f,
            "  {:<22}{:>17.3} us a packet, delivery on loopback included",
            "sender CPU",
            self.cpu_us_per_packet()
        )
    }
}

/// A number with a comma after each three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_threes() {
        let texts = [0, 7, 999, 1000, 123_456, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "7", "999", "1,000", "123,456", "1,234,567"]);
    }
}
