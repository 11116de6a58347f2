//! The memory plan: what the daemon takes, a line a pool with its reason, and how long its buffers last.
//!
//! Pure arithmetic over [`Config`]: shown by `pinbad check`, logged when `serve` starts. The pools are made at start with
//! these sizes and do not grow, and what reports take ends at their budget, so the total bounds the resident size whatever
//! is sent; pages are resident once they are used. The socket buffers belong to the kernel and are shown apart; the
//! kernel may grant less than was asked, which ingest logs.

use std::fmt;

use super::keys::TEMP_BLOCK_BYTES;
use super::rewrite::Change;
use super::units::{exact_bytes, rounded_bytes};
use super::{Config, RewriteRule};

/// Buffers of one `recvmmsg` batch: 64 datagrams of the largest size.
pub const BATCH_BYTES: u64 = 64 * (64 << 10);
/// What decoding one datagram of the worst kind needs beside, per receiver.
pub const DECODE_SCRATCH_BYTES: u64 = 4 << 20;
/// What a receiver's name rules take, if there are any: recent names and what is known of one packet's tags.
pub const RULES_SCRATCH_BYTES: u64 = 2 << 20;
/// What each pattern among them may take beside while it runs.
pub const PATTERN_SCRATCH_BYTES: u64 = 1 << 20;
/// One row of the request pool, all columns.
pub const REQUEST_ROW_BYTES: u64 = 52;
/// One row of the timer pool, all columns.
pub const TIMER_ROW_BYTES: u64 = 20;
/// One entry in the tables of origins (host, server, script, schema, status) and tag sets.
pub const ORIGIN_BYTES: u64 = 48;
/// As many there are however small the request pool is: names are let go of some time after their last request.
pub const ORIGIN_ROWS_MIN: u64 = 16 * 8192;
/// Where those tables end however large the pool is: more distinct origins than this share words anyway.
pub const ORIGINS_BYTES_MAX: u64 = 256 << 20;
/// Code, thread stacks, HTTP connections, the allocator's own.
pub const BASE_BYTES: u64 = 24 << 20;

/// The packet that durations are reckoned with: the stock extension, one request, no timers.
pub const TYPICAL_PACKET_BYTES: u64 = 171;
/// What that packet is as a record in the temporary pool, rounded up.
pub const TYPICAL_RECORD_BYTES: u64 = 256;
/// What the kernel charges a socket buffer for it (`skb->truesize`): measured on Linux 6.18 over loopback. Other
/// kernels charge 768; the driver of a network card that hands up whole pages charges 2 KiB and more.
pub const TYPICAL_PACKET_CHARGE: u64 = 832;

/// Rates that the plan reckons with, packets per second.
const RATES: [u64; 2] = [10_000, 100_000];

/// What the daemon takes.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryPlan {
    /// A line for each pool inside the process.
    pub lines: Vec<PlanLine>,
    /// The socket buffers, in the kernel.
    pub kernel: PlanLine,
    /// How long the buffers last when nothing is taken out.
    pub backlog: Vec<Backlog>,
}

/// One pool of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanLine {
    /// What it is.
    pub name: &'static str,
    /// Its size, bytes.
    pub bytes: u64,
    /// Which settings make it so.
    pub why: String,
}

/// How many seconds of traffic fit before something is lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Backlog {
    /// The traffic, all addresses together.
    pub packets_per_second: u64,
    /// In the temporary pool, while the merger stands still.
    pub ring_secs: f64,
    /// In the socket buffers, while the receivers stand still.
    pub kernel_secs: f64,
}

impl MemoryPlan {
    /// The plan of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let (ingest, pool) = (&config.ingest, &config.pool);
        let sockets = ingest.listen.len() as u64 * ingest.receivers as u64;
        let socket_words = format!(
            "{} x {}",
            counted(ingest.receivers, "receiver", "receivers"),
            counted(ingest.listen.len(), "address", "addresses")
        );
        let requests = pool.request_pool_size as u64;
        // Without raw requests there are no raw timers either.
        let timers = if requests == 0 {
            0
        } else {
            pool.timer_pool_size as u64
        };
        let words = pool.words_bytes as u64;
        let temp_bytes = ingest.temp_pool_bytes as u64;
        let line = |name, bytes, why| PlanLine { name, bytes, why };
        let mut lines = vec![
            line(
                "temporary pool",
                temp_bytes + sockets * TEMP_BLOCK_BYTES,
                format!(
                    "{} requests (ingest.temp_pool_size) in {} (ingest.temp_pool_bytes), and a block per receiver",
                    ingest.temp_pool_size,
                    exact_bytes(temp_bytes)
                ),
            ),
            line(
                "receive buffers",
                sockets * (BATCH_BYTES + DECODE_SCRATCH_BYTES),
                format!("{socket_words} (ingest.receivers), 64 datagrams a batch"),
            ),
            line(
                "requests",
                requests * REQUEST_ROW_BYTES,
                format!("{requests} rows (pool.request_pool_size)"),
            ),
            line(
                "timers",
                timers * TIMER_ROW_BYTES,
                format!("{timers} rows (pool.timer_pool_size)"),
            ),
            line(
                "words and tag sets",
                words + words / 4,
                format!(
                    "{} (pool.words_memory) and a quarter for finding them",
                    exact_bytes(words)
                ),
            ),
            line(
                "origins",
                (requests.max(ORIGIN_ROWS_MIN) * ORIGIN_BYTES).min(ORIGINS_BYTES_MAX),
                format!(
                    "{ORIGIN_BYTES} bytes per row of pool.request_pool_size, {} to {}",
                    exact_bytes(ORIGIN_ROWS_MIN * ORIGIN_BYTES),
                    exact_bytes(ORIGINS_BYTES_MAX)
                ),
            ),
            line(
                "reports",
                config.reports.memory_bytes as u64,
                "all reports together (reports.memory)".to_owned(),
            ),
            line(
                "process",
                BASE_BYTES,
                "code, thread stacks, connections".to_owned(),
            ),
        ];
        if !config.rewrites.is_empty() {
            let is_pattern = |rule: &&RewriteRule| matches!(rule.change, Change::Pattern(..));
            let patterns = config.rewrites.iter().filter(is_pattern).count();
            lines.push(line(
                "name rules",
                sockets * (RULES_SCRATCH_BYTES + patterns as u64 * PATTERN_SCRATCH_BYTES),
                format!(
                    "{} ([[rewrite]]), {patterns} with patterns, for each socket",
                    counted(config.rewrites.len(), "rule", "rules")
                ),
            ));
        }
        // The kernel doubles what is asked for, to make room for its own overhead (socket(7)).
        let kernel_bytes = sockets * 2 * ingest.recv_buffer_bytes as u64;
        let kernel = line(
            "kernel socket buffers",
            kernel_bytes,
            format!(
                "{socket_words}, {} (ingest.recv_buffer) each, doubled by the kernel; not part of the process, and \
                 only if net.core.rmem_max or CAP_NET_ADMIN grants it",
                exact_bytes(ingest.recv_buffer_bytes as u64)
            ),
        );
        let ring_requests = (ingest.temp_pool_size as u64).min(temp_bytes / TYPICAL_RECORD_BYTES);
        let backlog = RATES.map(|packets_per_second| Backlog {
            packets_per_second,
            ring_secs: seconds(ring_requests, packets_per_second),
            kernel_secs: seconds(kernel_bytes / TYPICAL_PACKET_CHARGE, packets_per_second),
        });
        Self {
            lines,
            kernel,
            backlog: backlog.to_vec(),
        }
    }

    /// Bytes of all pools of the process together.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.lines.iter().map(|line| line.bytes).sum()
    }

    /// Writes the plan to the log, a line a pool.
    pub fn log(&self) {
        for line in self.lines.iter().chain([&self.kernel]) {
            tracing::info!(
                pool = line.name,
                bytes = line.bytes,
                why = line.why,
                "Planned memory."
            );
        }
        tracing::info!(
            bytes = self.total_bytes(),
            "Planned memory in all, without the kernel's."
        );
        for backlog in &self.backlog {
            let Backlog {
                packets_per_second,
                ring_secs,
                kernel_secs,
            } = *backlog;
            tracing::info!(
                packets_per_second,
                ring_secs,
                kernel_secs,
                "Buffers last this long."
            );
        }
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn seconds(packets: u64, packets_per_second: u64) -> f64 {
    packets as f64 / packets_per_second as f64
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |f: &mut fmt::Formatter<'_>, name: &str, bytes: u64, why: &str| {
            let line = format!("  {name:<22}{:>11}  {why}", rounded_bytes(bytes));
            writeln!(f, "{}", line.trim_end())
        };
        writeln!(f, "Memory, the most that it takes whatever is sent:")?;
        for line in &self.lines {
            show(f, line.name, line.bytes, &line.why)?;
        }
        show(f, "total", self.total_bytes(), "")?;
        writeln!(f, "Beside it:")?;
        show(f, self.kernel.name, self.kernel.bytes, &self.kernel.why)?;
        writeln!(f, "Buffers last, when nothing is taken out of them:")?;
        for Backlog {
            packets_per_second,
            ring_secs,
            kernel_secs,
        } in &self.backlog
        {
            writeln!(
                f,
                "  at {packets_per_second:>6} packets/s  temporary pool {ring_secs:.1} s, \
                 socket buffers {kernel_secs:.1} s"
            )?;
        }
        write!(
            f,
            "  (packets of {TYPICAL_PACKET_BYTES} bytes, one request without timers, spread evenly over \
             the sockets;\n   the kernel charges {TYPICAL_PACKET_CHARGE} bytes for each over loopback, a network card \
             may make it 2 KiB or more)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> MemoryPlan {
        MemoryPlan::of(&Config::from_toml("test.toml", text).unwrap())
    }

    fn bytes(plan: &MemoryPlan, name: &str) -> u64 {
        plan.lines
            .iter()
            .find(|line| line.name == name)
            .unwrap()
            .bytes
    }

    const TWO_BY_THREE: &str = "[ingest]\nlisten = [\"127.0.0.1:1\", \"[::1]:1\"]\nreceivers = 3\n\
        recv_buffer = \"1MiB\"\ntemp_pool_size = 10000\ntemp_pool_bytes = \"4MiB\"\n\
        [pool]\nrequest_pool_size = 1000\ntimer_pool_size = 2000\nwords_memory = \"8MiB\"\n\
        [reports]\nmemory = \"16MiB\"\n";

    #[test]
    fn every_line_follows_its_settings() {
        let plan = plan(TWO_BY_THREE);
        for (name, expected) in [
            ("temporary pool", (4 << 20) + 6 * (256 << 10)),
            ("receive buffers", 6 * (64 * 65536 + (4 << 20))),
            ("requests", 52_000),
            ("timers", 40_000),
            ("words and tag sets", 10 << 20),
            ("origins", 6 << 20),
            ("reports", 16 << 20),
            ("process", 24 << 20),
        ] {
            assert_eq!(bytes(&plan, name), expected, "{name}");
        }
        assert_eq!(
            plan.total_bytes(),
            plan.lines.iter().map(|line| line.bytes).sum::<u64>()
        );
        assert_eq!(plan.kernel.bytes, 6 * 2 * (1 << 20));
    }

    #[test]
    fn without_raw_requests_there_are_no_raw_timers() {
        let plan = plan("[pool]\nrequest_pool_size = 0\n");
        assert_eq!((bytes(&plan, "requests"), bytes(&plan, "timers")), (0, 0));
        assert_eq!(bytes(&plan, "origins"), 6 << 20);
    }

    #[test]
    fn name_rules_have_a_line_when_there_are_any() {
        assert!(
            plan(TWO_BY_THREE)
                .lines
                .iter()
                .all(|line| line.name != "name rules")
        );
        let rule = "[[rewrite]]\nfield = \"schema\"\n";
        let with = plan(&format!(
            "{TWO_BY_THREE}{rule}cut = \"?\"\n{rule}pattern = \"a\"\nreplace = \"\"\n"
        ));
        assert_eq!(bytes(&with, "name rules"), 6 * (3 << 20));
        let why = "2 rules ([[rewrite]]), 1 with patterns, for each socket";
        assert_eq!(with.lines.last().unwrap().why, why);
    }

    #[test]
    fn buffers_last_as_long_as_the_tighter_bound() {
        let by_count = plan(TWO_BY_THREE);
        assert!(
            (by_count.backlog[0].ring_secs - 1.0).abs() < 1e-9,
            "10,000 requests at 10,000 a second"
        );
        let kernel_packets = f64::from((6 * 2 * (1 << 20)) / 832);
        assert!((by_count.backlog[1].kernel_secs - kernel_packets / 100_000.0).abs() < 1e-9);
        let by_bytes = plan(&TWO_BY_THREE.replace("\"4MiB\"", "\"256KiB\""));
        assert!(
            (by_bytes.backlog[0].ring_secs - 0.1024).abs() < 1e-9,
            "1,024 records of 256 bytes"
        );
    }

    #[test]
    fn the_largest_configuration_adds_up_without_overflow() {
        let most = plan(
            "[ingest]\nreceivers = 256\nrecv_buffer = 1000000000\n\
             temp_pool_size = 16777216\ntemp_pool_bytes = \"64GiB\"\n\
             [pool]\nrequest_pool_size = 1000000000\ntimer_pool_size = 1000000000\nwords_memory = \"64GiB\"\n\
             [reports]\nmemory = \"1TiB\"\n",
        );
        assert_eq!(bytes(&most, "origins"), ORIGINS_BYTES_MAX);
        assert!(most.total_bytes() > 1 << 40);
    }

    #[test]
    fn the_plan_is_shown_a_line_a_pool() {
        let shown = plan(TWO_BY_THREE).to_string();
        for line in [
            "  requests                 50.8 KiB  1000 rows (pool.request_pool_size)",
            "  reports                  16.0 MiB  all reports together (reports.memory)",
            "  total                   109.6 MiB",
            "  at  10000 packets/s  temporary pool 1.0 s, socket buffers 1.5 s",
        ] {
            assert!(
                shown.lines().any(|shown| shown == line),
                "{line:?} in\n{shown}"
            );
        }
    }
}
