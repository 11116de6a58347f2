//! The totals that `load` prints at its end: as text, or as one JSON object.
//!
//! Filled by `run`. "Sent" means taken by the kernel; whether a receiver had room is in the
//! receiver's counters.

use std::fmt;
use std::net::SocketAddr;

use serde_json::{Value as Json, json};

use super::Sent;
use super::totals::Totals;
use crate::cli::format::grouped;

/// The result of a run.
#[derive(Debug)]
pub struct Summary {
    /// The destination.
    pub target: SocketAddr,
    /// The senders' counts.
    pub sent: Sent,
    /// Sums over the sent packets.
    pub totals: Totals,
}

impl Summary {
    /// Planned packets that were not sent.
    pub fn missed(&self) -> u64 {
        self.sent.planned.unwrap_or_default().saturating_sub(self.totals.packets)
    }

    /// The summary as a JSON object.
    pub fn to_json(&self) -> Json {
        let round = |number: f64| (number * 1000.0).round() / 1000.0;
        let (sent, packets) = (&self.sent, self.totals.packets as f64);
        let sender_cpu = sent.sender_cpu.as_secs_f64();
        json!({
            "target": self.target,
            "seconds": round(sent.seconds),
            "packets_per_second": round(packets / sent.seconds.max(1e-9)),
            "packet_bytes_mean": round(self.totals.bytes as f64 / packets.max(1.0)),
            "planned": sent.planned,
            "missed": self.missed(),
            "late": sent.late,
            "short_sends": sent.short_sends,
            "no_buffers": sent.no_buffers,
            "sender_cpu_seconds": round(sender_cpu),
            "cpu_us_per_packet": round(sender_cpu * 1e6 / packets.max(1.0)),
            "ended_by": sent.ended_by.as_ref().map(ToString::to_string),
            "totals": self.totals,
        })
    }
}

impl fmt::Display for Summary {
    /// The JSON, one number per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = self.to_json();
        let number = |name: &str| json[name].as_f64().unwrap_or_default();
        writeln!(
            f,
            "sent {} packets to {} in {:.3} s: {} packets/s, {:.1} MB/s, {:.1} bytes a packet",
            grouped(self.totals.packets as f64),
            self.target,
            number("seconds"),
            grouped(number("packets_per_second")),
            number("packets_per_second") * number("packet_bytes_mean") / 1e6,
            number("packet_bytes_mean"),
        )?;
        let mut line = |name: &str, number: &Json, note: &str| {
            let (name, number) = (name.replace('_', " "), number.as_f64().unwrap_or_default());
            writeln!(f, "  {name:<22}{:>17}{note}", grouped(number))
        };
        for (name, value) in json["totals"].as_object().into_iter().flatten() {
            match value.as_object() {
                None => line(name, value, "")?,
                Some(group) => {
                    let before = if name == "statuses" { "status " } else { "" };
                    for (name, value) in group {
                        line(&format!("{before}{name}"), value, "")?;
                    }
                }
            }
        }
        for (name, note) in [
            ("late", " (left more than 10 ms after they were due)"),
            ("missed", " (planned, not sent)"),
            ("short_sends", " (sent again)"),
            ("no_buffers", " (sent again)"),
        ] {
            line(name, &json[name], note)?;
        }
        let cpu = number("cpu_us_per_packet");
        writeln!(f, "  {:<22}{cpu:>17.3} us a packet, delivery on loopback included", "sender CPU")
    }
}
