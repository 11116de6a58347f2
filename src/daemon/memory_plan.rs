//! The memory plan: what each pool takes at most and why, and how long the buffers last.
//!
//! Pure arithmetic over [`Config`] and the constants of the stages: shown by `pinbad check`, and with the socket buffers that
//! the kernel granted ([`MemoryPlan::granted`]) by `pinbad doctor` and in the log of a start. No pool grows, so the total
//! bounds the resident size whatever is sent; pages that were never written to are not resident, so a daemon that is not full
//! takes less. The socket buffers belong to the kernel and are shown apart.

use std::fmt;

use crate::config::rewrite::Change;
use crate::config::units::{exact_bytes, rounded_bytes};
use crate::config::{Config, RewriteRule};
use crate::http::{HttpSettings, Planned, page_bytes_max};
use crate::input::pinba::Decoder;
use crate::input::udp::batch::BATCH_BYTES;
use crate::input::udp::senders::{SENDERS_MAX, TABLE_BYTES};
use crate::input::udp::socket::RecvBuffer;
use crate::limits::{BLOCK_BYTES, PATTERN_SCRATCH_BYTES, RULES_SCRATCH_BYTES, SESSION_BYTES_MAX};
use crate::metrics::SERIES_BYTES;
use crate::pool::Pool;
use crate::pool::requests::REQUEST_ROW_BYTES;
use crate::pool::timers::TIMER_ROW_BYTES;
use crate::query::catalog::{RANKED_ROWS_MAX, READINGS_BYTES_MAX};
use crate::report::reading::ANSWER_ROW_BYTES;
use crate::ring::RingPlan;
use crate::series::Series;

/// Code, thread stacks, HTTP connections, the allocator's own: 14 MB with nothing sent, and what small pieces leave
/// unused in the heap.
pub const BASE_BYTES: usize = if cfg!(feature = "sql") {
    48 << 20
} else {
    16 << 20
};

/// What a query has in hand beside what it is charged for: the batches on their way to its reader.
pub const QUERY_BATCHES_BYTES: usize = 4 << 20;
/// What a connection of the MySQL wire takes: 64 KiB each for a packet, for what a client sends ahead and for the piece of an
/// answer that is being sent; TLS has its share in them, because a client has one of the three in use. And its variables.
pub const MYSQL_CONNECTION_BYTES: usize = (192 << 10) + SESSION_BYTES_MAX;

/// What a snapshot takes beside what the reports have in their running ticks: a block and its texts, as they are and
/// compressed, and what waits for the disk.
pub const SNAPSHOT_BYTES: usize = 24 << 20;

/// What a client that follows the requests takes: the piece that is being sent, the next one, and the one being made, of 256
/// rows with ordinary names each.
pub const FOLLOWER_BYTES: usize = 384 << 10;

/// The packet that durations are reckoned with: the stock extension, one request, no timers.
pub const TYPICAL_PACKET_BYTES: u64 = 171;
/// What that packet is as a record in the temporary pool: 203 on average.
pub const TYPICAL_RECORD_BYTES: u64 = 208;
/// What the kernel charges a socket buffer for it (`skb->truesize`): measured on Linux 6.18 over loopback. Other
/// kernels charge 768; the driver of a network card that hands up whole pages charges 2 KiB and more.
pub const TYPICAL_PACKET_CHARGE: u64 = 832;

/// Rates that the plan reckons with, packets per second.
const RATES: [u64; 2] = [10_000, 100_000];

/// What the daemon takes.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryPlan {
    /// A line for each pool inside the process.
    pub lines: Vec<Planned>,
    /// The socket buffers, in the kernel.
    pub kernel: Planned,
    /// How long the buffers last when nothing is taken out.
    pub backlog: Vec<Backlog>,
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
        let (requests, timers) = (pool.request_pool_size, pool.timer_pool_size);
        let pools = Pool::bytes_max(pool);
        let ring = RingPlan::new(
            ingest.temp_pool_size,
            ingest.temp_pool_bytes,
            ingest.listen.len() * ingest.receivers,
        );
        let http = HttpSettings::new(&[]);
        let (answers, followers) = match config.http.listen {
            Some(_) => (http.readings_max + http.streams_max, http.followers_max),
            None => (0, 0),
        };
        let mysql = &config.mysql;
        let line = |name, bytes: usize, why| Planned {
            name,
            bytes: bytes as u64,
            why,
        };
        let mut lines = vec![
            line(
                "temporary pool",
                ring.bytes(),
                format!(
                    "{} requests (ingest.temp_pool_size) in {} (ingest.temp_pool_bytes), in blocks of {}",
                    ingest.temp_pool_size,
                    exact_bytes(ingest.temp_pool_bytes as u64),
                    exact_bytes(BLOCK_BYTES as u64),
                ),
            ),
            line(
                "receive buffers",
                ingest.listen.len() * ingest.receivers * (BATCH_BYTES + Decoder::BYTES),
                format!("{socket_words} (ingest.receivers), 64 datagrams a batch"),
            ),
            line(
                "requests",
                pools.requests,
                format!(
                    "{requests} rows (pool.request_pool_size) and {} spare for queries, of {REQUEST_ROW_BYTES} bytes",
                    pools.spare_requests
                ),
            ),
            line(
                "timers",
                pools.timers,
                format!(
                    "{timers} rows (pool.timer_pool_size) and {} spare, of {TIMER_ROW_BYTES} bytes",
                    pools.spare_timers
                ),
            ),
            line(
                "strings and tag sets",
                pools.strings,
                format!(
                    "{} (pool.words_memory), and their hash tables",
                    exact_bytes(pool.words_memory as u64)
                ),
            ),
            line(
                "request dimensions",
                pools.origins + pools.epochs,
                "hosts, servers, scripts, schemas and statuses together: one a row at most"
                    .to_owned(),
            ),
            line(
                "reports",
                config.reports.memory,
                "all reports together (reports.memory)".to_owned(),
            ),
            line(
                "last hour",
                Series::bytes_max(config.series.memory, true),
                match config.series.memory {
                    0 => "to feed the metrics; no history is kept (series.memory)".to_owned(),
                    _ => "its blocks and names, and the thread that fills it (series.memory)"
                        .to_owned(),
                },
            ),
            line(
                "metrics",
                config.metrics.series_max * SERIES_BYTES,
                format!(
                    "{} series (metrics.series_max) of {SERIES_BYTES} bytes",
                    config.metrics.series_max
                ),
            ),
            line(
                "answers",
                answers * config.reports.rows_max * ANSWER_ROW_BYTES + READINGS_BYTES_MAX,
                format!(
                    "{answers} reports of reports.rows_max rows, each kept until it has been sent, and {} of recent ones \
                     to serve again",
                    exact_bytes(READINGS_BYTES_MAX as u64)
                ),
            ),
            line(
                "followers",
                followers * FOLLOWER_BYTES,
                format!("{followers} clients that follow the requests, three chunks each"),
            ),
            line(
                "SQL",
                if cfg!(feature = "sql") {
                    config.sql.memory + config.sql.queries_max * QUERY_BATCHES_BYTES
                } else {
                    0
                },
                format!(
                    "{} for all queries together (sql.memory), and the batches of {} queries (sql.queries_max)",
                    exact_bytes(config.sql.memory as u64),
                    config.sql.queries_max
                ),
            ),
            line(
                "MySQL clients",
                match config.mysql.listen {
                    Some(_) if cfg!(feature = "sql") => {
                        mysql.connections_max * MYSQL_CONNECTION_BYTES + mysql.memory
                    }
                    _ => 0,
                },
                format!(
                    "{} (mysql.connections_max) of {}, and {} (mysql.memory)",
                    counted(mysql.connections_max, "connection", "connections"),
                    exact_bytes(MYSQL_CONNECTION_BYTES as u64),
                    exact_bytes(mysql.memory as u64),
                ),
            ),
            line(
                "pages",
                match config.http.listen {
                    Some(_) => {
                        page_bytes_max(http.readings_max) + RANKED_ROWS_MAX * ANSWER_ROW_BYTES
                    }
                    None => 0,
                },
                format!(
                    "web pages of the last second, {RANKED_ROWS_MAX} rows of reports that they share, and sums over raw \
                     timers while one is rendered"
                ),
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
            let scratch = RULES_SCRATCH_BYTES + patterns as u64 * PATTERN_SCRATCH_BYTES;
            lines.push(line(
                "name rules",
                (sockets * scratch) as usize,
                format!(
                    "{} ([[rewrite]]), {patterns} with patterns, for each socket",
                    counted(config.rewrites.len(), "rule", "rules")
                ),
            ));
        }
        if ingest.watches_sources() {
            lines.push(line(
                "sources",
                TABLE_BYTES,
                format!("{SENDERS_MAX} source addresses (ingest.count_sources)"),
            ));
        }
        if config.state.dir.is_some() {
            lines.push(line(
                "snapshot",
                SNAPSHOT_BYTES + config.reports.memory / 8,
                "while it is written or read (state.dir): blocks, and the running ticks".to_owned(),
            ));
        }
        // The kernel doubles what is asked for, to make room for its own overhead (socket(7)).
        let kernel_bytes = sockets * 2 * ingest.recv_buffer as u64;
        let kernel = line(
            "kernel socket buffers",
            kernel_bytes as usize,
            format!(
                "{socket_words}, {} (ingest.recv_buffer) each, doubled by the kernel; not part of the process, and \
                 only if net.core.rmem_max or CAP_NET_ADMIN grants it",
                exact_bytes(ingest.recv_buffer as u64)
            ),
        );
        let block_requests =
            (BLOCK_BYTES as u64 / TYPICAL_RECORD_BYTES).min(ring.block_requests_max.into());
        // More may fit by chance; so many always do.
        let ring_requests = (ring.blocks as u64 * block_requests).min(ingest.temp_pool_size as u64);
        let backlog = RATES.map(|packets_per_second| Backlog {
            packets_per_second,
            ring_secs: seconds(ring_requests, packets_per_second),
            kernel_secs: kernel_seconds(kernel_bytes, packets_per_second),
        });
        Self {
            lines,
            kernel,
            backlog: backlog.to_vec(),
        }
    }

    /// The same plan with the socket buffers as the kernel has granted them, and, where it is known, with what all UDP
    /// sockets of this machine may hold together. Packets are reckoned to be spread evenly, so what is lost first is what
    /// the smallest buffer does not take. Without buffers it is still those that the configuration asks for.
    #[must_use]
    pub fn granted(mut self, buffers: &[RecvBuffer], allowed_bytes: Option<u64>) -> Self {
        let mut usable = self.kernel.bytes;
        if let Some(smallest) = buffers.iter().min_by_key(|buffer| buffer.kernel_bytes) {
            let sockets = buffers.len();
            usable = sockets as u64 * smallest.kernel_bytes as u64;
            self.kernel.bytes = buffers.iter().map(|it| it.kernel_bytes as u64).sum();
            self.kernel.why = format!(
                "{} granted {} of {} (ingest.recv_buffer) each, doubled by the kernel; not part of the process",
                counted(sockets, "socket,", "sockets,"),
                exact_bytes(smallest.granted_bytes as u64),
                exact_bytes(smallest.asked_bytes as u64),
            );
        }
        let usable = allowed_bytes.map_or(usable, |allowed| usable.min(allowed));
        for backlog in &mut self.backlog {
            backlog.kernel_secs = kernel_seconds(usable, backlog.packets_per_second);
        }
        self
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

/// "1 receiver", "3 receivers".
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// How long socket buffers of so many bytes last.
fn kernel_seconds(bytes: u64, packets_per_second: u64) -> f64 {
    seconds(bytes / TYPICAL_PACKET_CHARGE, packets_per_second)
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
        writeln!(f, "Memory, at most, whatever is sent:")?;
        for line in &self.lines {
            show(f, line.name, line.bytes, &line.why)?;
        }
        show(f, "total", self.total_bytes(), "")?;
        writeln!(f, "In addition:")?;
        show(f, self.kernel.name, self.kernel.bytes, &self.kernel.why)?;
        writeln!(f, "Buffers last, when nothing is read from them:")?;
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
             the sockets,\n   whose buffers are as large as above; the kernel charges {TYPICAL_PACKET_CHARGE} bytes for each over loopback,\n   a network card \
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
            // Two blocks for each of six receivers and eight more: more than 4 MiB.
            ("temporary pool", 20 * (256 << 10)),
            // As many spare rows: a small pool.
            ("requests", 100_000),
            ("timers", 80_000),
            ("reports", 16 << 20),
            ("answers", 6 * 100_000 * 290 + (32 << 20)),
            // Pages of the last second, rows that they share, and the sums of two that are being made.
            (
                "pages",
                (8 << 20) + 25_000 * 290 + 2 * (1000 * 6 * 2 * 512 + 300_000 * 40),
            ),
            ("process", BASE_BYTES as u64),
        ] {
            assert_eq!(bytes(&plan, name), expected, "{name}");
        }
        let receive = bytes(&plan, "receive buffers") / 6;
        assert!(receive > 64 * 65_536 && receive < 8 << 20, "{receive}");
        let words = bytes(&plan, "strings and tag sets");
        assert!(words > 8 << 20 && words < 16 << 20, "{words}");
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
        // Names are let go of some time after their last request.
        assert!(bytes(&plan, "request dimensions") > 6 << 20);
    }

    #[test]
    fn a_snapshot_has_a_line_when_there_is_a_place_for_it() {
        let with = plan(&format!("{TWO_BY_THREE}[state]\ndir = \"/x\"\n"));
        assert_eq!(bytes(&with, "snapshot"), (24 << 20) + (2 << 20));
        assert_eq!(with.lines.len(), plan(TWO_BY_THREE).lines.len() + 1);
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
        let many = TWO_BY_THREE.replace("temp_pool_size = 10000", "temp_pool_size = 1000000");
        let in_blocks = 20.0 * (262_144.0_f64 / TYPICAL_RECORD_BYTES as f64).floor();
        let by_bytes = plan(&many);
        assert!(
            (by_bytes.backlog[0].ring_secs - in_blocks / 10_000.0).abs() < 1e-9,
            "{in_blocks} records in 20 blocks"
        );
    }

    /// A socket that asked for 1 MiB and got so much.
    fn granted(bytes: usize) -> RecvBuffer {
        RecvBuffer {
            asked_bytes: 1 << 20,
            granted_bytes: bytes,
            kernel_bytes: 2 * bytes,
        }
    }

    #[test]
    fn seconds_are_those_of_the_buffers_that_were_granted() {
        let asked = plan(TWO_BY_THREE);
        let seconds = |bytes: u64| (bytes / TYPICAL_PACKET_CHARGE) as f64 / 10_000.0;
        // One has less than the others, and the traffic is the same for all.
        let mut buffers = [granted(1 << 20); 6];
        buffers[4] = granted(64 << 10);
        let less = asked.clone().granted(&buffers, None);
        assert_eq!(less.backlog[0].kernel_secs, seconds(6 * (128 << 10)));
        assert_eq!(less.backlog[0].ring_secs, asked.backlog[0].ring_secs);
        assert_eq!(less.kernel.bytes, 5 * (2 << 20) + (128 << 10));
        let why = "6 sockets, granted 64KiB of 1MiB (ingest.recv_buffer) each, ";
        assert!(less.kernel.why.starts_with(why), "{}", less.kernel.why);
        // All together may hold less than each of them; what there is room for is not made larger by it.
        let all = [granted(1 << 20); 6];
        for (allowed, usable) in [(5 << 20, 5 << 20), (1 << 40, 12 << 20)] {
            let bound = asked.clone().granted(&all, Some(allowed));
            assert_eq!(bound.backlog[0].kernel_secs, seconds(usable));
            assert_eq!(bound.kernel.bytes, 12 << 20);
        }
        // More receivers than configured, as when they are handed over.
        let more = asked.clone().granted(&[granted(1 << 20); 12], None);
        assert_eq!(more.backlog[0].kernel_secs, seconds(24 << 20));
        assert_eq!(asked.clone().granted(&[], None), asked);
        let unknown = asked.clone().granted(&[], Some(1 << 20));
        assert_eq!(unknown.backlog[0].kernel_secs, seconds(1 << 20));
    }

    /// What the stock extension sends without timers, as it arrives.
    fn typical_packets() -> Vec<Vec<u8>> {
        let mut traffic =
            crate::cli::load::traffic::Traffic::new(&crate::cli::load::TrafficOptions::default());
        (0..1000).map(|_| traffic.packet().to_vec()).collect()
    }

    #[test]
    fn a_typical_record_is_as_long_as_reckoned() {
        use crate::input::Decode as _;

        let packets = typical_packets();
        let mut records = Vec::with_capacity(1 << 20);
        let limits = crate::input::record::TextLimits::default();
        let mut decoder = Decoder::new(limits, crate::input::record::Hasher::new());
        for packet in &packets {
            assert_eq!(decoder.decode(packet, 1, &mut records), Ok(1));
        }
        let packet_bytes = packets.iter().map(Vec::len).sum::<usize>() as f64 / 1000.0;
        let record_bytes = records.len() as f64 / 1000.0;
        let near = |bytes: f64, reckoned: u64| (bytes / reckoned as f64 - 1.0).abs() < 0.05;
        assert!(near(packet_bytes, TYPICAL_PACKET_BYTES), "{packet_bytes}");
        assert!(near(record_bytes, TYPICAL_RECORD_BYTES), "{record_bytes}");
    }

    #[test]
    fn the_kernel_charges_about_what_is_reckoned() {
        use std::os::fd::AsFd;
        let to = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for packet in &typical_packets()[..100] {
            from.send_to(packet, to.local_addr().unwrap()).unwrap();
        }
        let charge = || {
            let memory = crate::input::udp::kernel::read(to.as_fd()).unwrap();
            assert_eq!(memory.drops, 0);
            u64::from(memory.queued_bytes / 100)
        };
        let (least, most) = (TYPICAL_PACKET_CHARGE * 3 / 4, TYPICAL_PACKET_CHARGE * 3 / 2);
        // A busy machine may be late with the last ones.
        let start = std::time::Instant::now();
        while charge() < least && start.elapsed().as_secs() < 60 {
            std::thread::yield_now();
        }
        let charge = charge();
        assert!((least..=most).contains(&charge), "{charge} bytes for each");
    }

    #[test]
    fn the_largest_configuration_adds_up_without_overflow() {
        let most = plan(
            "[ingest]\nreceivers = 256\nrecv_buffer = 1000000000\n\
             temp_pool_size = 16777216\ntemp_pool_bytes = \"64GiB\"\n\
             [pool]\nrequest_pool_size = 1000000000\ntimer_pool_size = 1000000000\nwords_memory = \"64GiB\"\n\
             [reports]\nmemory = \"1TiB\"\n",
        );
        assert!(most.total_bytes() > 1 << 40);
        assert!(most.total_bytes() < 2 << 40);
    }

    #[test]
    fn the_plan_is_shown_a_line_a_pool() {
        let shown = plan(TWO_BY_THREE).to_string();
        for line in [
            "  requests                 97.7 KiB  1000 rows (pool.request_pool_size) and 1000 spare for queries, of 50 bytes",
            "  reports                  16.0 MiB  all reports together (reports.memory)",
            if cfg!(feature = "sql") {
                "  total                   842.0 MiB"
            } else {
                "  total                   426.0 MiB"
            },
            "  at  10000 packets/s  temporary pool 1.0 s, socket buffers 1.5 s",
        ] {
            assert!(
                shown.lines().any(|shown| shown == line),
                "{line:?} in\n{shown}"
            );
        }
    }
}
