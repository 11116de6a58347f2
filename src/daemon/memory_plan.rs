//! The memory plan: the most that each pool takes and why, and how long the buffers last.
//!
//! Pure arithmetic over [`Config`] and the constants of the stages: shown by `pinbad check`, and
//! with the socket buffers that the kernel granted (`MemoryPlan::granted`) by `pinbad doctor` and
//! in the log of a start. No pool grows, so the total bounds the resident size whatever is sent;
//! pages never written to are not resident, so a daemon that is not full takes less. The socket
//! buffers belong to the kernel and are shown separately.

use std::fmt;

use crate::alert::intake::IDS_MAX;
use crate::alert::objective;
use crate::config::rewrite::Change;
use crate::config::units::exact_bytes;
use crate::config::{Config, RewriteRule};
use crate::history::import::BYTES as LOG_IMPORT_BYTES;
use crate::http::{HttpSettings, Planned, page_bytes_max};
use crate::input::otlp;
use crate::input::pinba::{Decoder, RepeatedTags};
use crate::input::squid::SOURCE_BYTES;
use crate::input::stat::QUEUE_BYTES_MAX;
use crate::input::udp::batch::BATCH_BYTES;
use crate::input::udp::kernel;
use crate::input::udp::senders::{SENDERS_MAX, TABLE_BYTES};
use crate::input::udp::socket::RecvBuffer;
use crate::instruments;
use crate::limits::{
    ALERT_QUEUE_BYTES_MAX, ALERT_REPLAY_BYTES_MAX, ALERT_ROWS_MAX, BLOCK_BYTES,
    PAST_ANSWERS_BYTES_MAX, PATTERN_SCRATCH_BYTES, RELEASE_CELLS_MAX, RELEASES_BYTES_MAX,
    RELEASES_MAX, RULES_SCRATCH_BYTES, SESSION_BYTES_MAX,
};
use crate::metrics::SERIES_BYTES;
use crate::metrics::otlp::PUSH_BYTES;
use crate::pool::Pool;
use crate::pool::activities::{ACTIVITY_ROW_BYTES, Activities};
use crate::pool::requests::REQUEST_ROW_BYTES;
use crate::pool::timers::TIMER_ROW_BYTES;
use crate::profile::pool_bytes;
use crate::query::catalog::past::refill::BYTES_MAX as REFILL_BYTES;
use crate::query::catalog::{READINGS_BYTES_MAX, SHARED_ROWS_MAX};
use crate::report::read::reading::ANSWER_ROW_BYTES;
use crate::ring::RingPlan;
use crate::series::Series;
use crate::state::annotations::{
    ANNOTATION_BYTES_MAX, ANNOTATIONS_MAX, BYTES_MAX as ANNOTATIONS_BYTES,
};
use crate::value::text::mebibytes;
pub(crate) use crate::value::text::numbered as counted;

/// Code, thread stacks, HTTP connections, the allocator itself: 14 MB with nothing sent, plus
/// fragmentation of the heap.
pub const BASE_BYTES: usize = if cfg!(feature = "sql") { 48 << 20 } else { 16 << 20 };

/// Bytes of a remembered id, with its place in a table.
const ID_BYTES: usize = 64;
/// Memory for alerts of a rule, including resolved ones: state and view, and the record of
/// notifications.
const RULE_BYTES: usize = 2 * ALERT_ROWS_MAX * (4 << 10);

/// Memory of a query beyond its reservation: the batches on their way to its reader.
pub const QUERY_BATCHES_BYTES: usize = 4 << 20;
/// Memory of a MySQL connection: 64 KiB each for a packet, for data that a client sends ahead and
/// for the piece of an answer being sent (TLS shares these, because a client uses one of the three
/// at a time), plus its variables.
pub const MYSQL_CONNECTION_BYTES: usize = (192 << 10) + SESSION_BYTES_MAX;

/// Memory of a snapshot in addition to the running ticks of reports: a block and its texts, plain
/// and compressed, and data waiting for the disk.
pub const SNAPSHOT_BYTES: usize = 24 << 20;

/// Memory of a client that follows the requests: the piece being sent, the next one, and the one
/// being made, of 256 rows with ordinary names each.
pub const FOLLOWER_BYTES: usize = 384 << 10;

/// Size of the packet assumed in estimates: the stock extension, one request, no timers.
pub const TYPICAL_PACKET_BYTES: u64 = 171;
/// Size of that packet as a record in the temporary pool: 203 on average.
pub const TYPICAL_RECORD_BYTES: u64 = 208;
/// The kernel's charge to a socket buffer for it (`skb->truesize`): measured on Linux 6.18 over
/// loopback. Other kernels charge 768; the driver of a network card that passes on whole pages
/// charges 2 KiB and more.
pub const TYPICAL_PACKET_CHARGE: u64 = 832;

/// Rates assumed in estimates, in packets per second.
const RATES: [u64; 2] = [10_000, 100_000];

/// The memory that the daemon takes.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryPlan {
    /// A line for each pool inside the process.
    pub lines: Vec<Planned>,
    /// The socket buffers, in the kernel.
    pub kernel: Planned,
    /// How long the buffers last when nothing is taken out.
    pub backlog: Vec<Backlog>,
}

/// Seconds of traffic that fit before something is lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Backlog {
    /// The traffic of all addresses together.
    pub packets_per_second: u64,
    /// In the temporary pool, while the merger is stuck.
    pub ring_secs: f64,
    /// In the socket buffers, while the receivers are stuck.
    pub kernel_secs: f64,
}

/// Lines of the plan: name of a pool, its bytes, and the reason; for some, when there is that pool.
macro_rules! planned {
    ($($(if $is_there:expr =>)? $name:literal: $bytes:expr, $why:literal;)*) => {{
        let lines = [$(
            Some(Planned { name: $name, bytes: ($bytes) as u64, why: format!($why) })
                $(.filter(|_| $is_there))?
        ),*];
        lines.into_iter().flatten().collect::<Vec<_>>()
    }};
}

impl MemoryPlan {
    /// The plan for a configuration.
    pub fn of(config: &Config) -> Self {
        let ingest = &config.ingest;
        let sockets = ingest.listen.len() * ingest.receivers;
        let lanes = sockets + config.otlp_inputs.len() + config.squids.len();
        let ring = RingPlan::new(ingest.temp_pool_size, ingest.temp_pool_bytes, lanes);
        let receivers = counted(ingest.receivers, "receiver", "receivers");
        let addresses = counted(ingest.listen.len(), "address", "addresses");
        let receivers = format!("{receivers} x {addresses}");
        let (requests, block) = (ingest.temp_pool_size, size(BLOCK_BYTES));
        let (bytes, buffer) = (size(ingest.temp_pool_bytes), size(ingest.recv_buffer));
        let places = RepeatedTags::places(sockets, config.pool.request_pool_size);
        let mut lines = planned! {
            "temporary pool": ring.bytes(),
                "{requests} requests (ingest.temp_pool_size) in {bytes} (ingest.temp_pool_bytes), in blocks of {block}";
            "receive buffers": sockets * (BATCH_BYTES + Decoder::BYTES),
                "{receivers} (ingest.receivers), 64 datagrams a batch";
            "repeated tags": sockets * (RepeatedTags::bytes(places) + Pool::repeats_bytes(places)),
                "{receivers}: tags of {places} packets each as they were sent, and their texts";
        };
        lines.extend(stores(config));
        lines.extend(front_ends(config));
        lines.extend(optional(config, lanes));
        // The kernel doubles the requested size to make room for its own overhead (socket(7)).
        let mut kernel = planned! {
            "kernel socket buffers": sockets * 2 * ingest.recv_buffer,
                "{receivers}, {buffer} (ingest.recv_buffer) each, doubled by the kernel; not part of the process, and \
                 only if net.core.rmem_max or CAP_NET_ADMIN grants it";
        };
        let kernel = kernel.remove(0);
        let block_requests =
            (BLOCK_BYTES as u64 / TYPICAL_RECORD_BYTES).min(ring.block_requests_max.into());
        // More may fit by chance; this many always do.
        let ring_requests = (ring.blocks as u64 * block_requests).min(requests as u64);
        let backlog = RATES.map(|packets_per_second| Backlog {
            packets_per_second,
            ring_secs: seconds(ring_requests, packets_per_second),
            kernel_secs: kernel_seconds(kernel.bytes, packets_per_second),
        });
        Self { lines, kernel, backlog: backlog.to_vec() }
    }

    /// The plan with the socket buffers that the kernel granted, and, if known, the limit for all
    /// UDP sockets of the machine together. Packets are assumed to be spread evenly, so the
    /// smallest buffer overflows first. Without buffers it keeps those that the configuration
    /// requests.
    pub(crate) fn granted(mut self, buffers: &[RecvBuffer], allowed_bytes: Option<u64>) -> Self {
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
    pub fn total_bytes(&self) -> u64 {
        self.lines.iter().map(|line| line.bytes).sum()
    }

    /// The total with the socket buffers, of which all sockets of the machine together may hold no
    /// more than the kernel allows.
    pub(crate) fn needed_bytes(&self) -> u64 {
        let sockets = kernel::udp_memory_max();
        self.total_bytes() + sockets.map_or(self.kernel.bytes, |all| all.min(self.kernel.bytes))
    }

    /// Logs the plan, one line per pool; `pinbad check` prints it too.
    pub(crate) fn log(&self) {
        for line in self.lines.iter().chain([&self.kernel]) {
            tracing::debug!(
                pool = line.name,
                bytes = line.bytes,
                why = line.why,
                "Planned memory."
            );
        }
        tracing::debug!(bytes = self.total_bytes(), "Planned memory in all, without the kernel's.");
        for backlog in &self.backlog {
            tracing::debug!(
                packets_per_second = backlog.packets_per_second,
                ring_secs = backlog.ring_secs,
                kernel_secs = backlog.kernel_secs,
                "Buffers last this long."
            );
        }
    }
}

fn size(bytes: usize) -> String {
    exact_bytes(bytes as u64)
}

/// The main pool, the reports, and their data by second.
fn stores(config: &Config) -> Vec<Planned> {
    let pool = &config.pool;
    let pools = Pool::bytes_max(pool);
    let (requests, timers) = (pool.request_pool_size, pool.timer_pool_size);
    let (spare_requests, spare_timers) = (pools.spare_requests, pools.spare_timers);
    let (words, series) = (size(pool.words_memory), config.metrics.series_max);
    let past = match config.series.memory {
        0 => "to feed the metrics; no history is kept (series.memory)",
        _ => "its blocks and names, and the thread that fills it (series.memory)",
    };
    planned! {
        "requests": pools.requests,
            "{requests} rows (pool.request_pool_size) and {spare_requests} spare for queries, of {REQUEST_ROW_BYTES} bytes";
        "timers": pools.timers,
            "{timers} rows (pool.timer_pool_size) and {spare_timers} spare, of {TIMER_ROW_BYTES} bytes";
        "strings and tag sets": pools.strings, "{words} (pool.words_memory), and their hash tables";
        "request dimensions": pools.origins + pools.epochs,
            "hosts, servers, scripts, schemas and statuses together: one a row at most";
        "reports": config.reports.memory, "all reports together (reports.memory)";
        "last hour": Series::bytes_max(config.series.memory), "{past}";
        "metrics": series * SERIES_BYTES, "{series} series (metrics.series_max) of {SERIES_BYTES} bytes";
    }
}

/// The front ends, and the process itself.
fn front_ends(config: &Config) -> Vec<Planned> {
    let (sql, mysql) = (&config.sql, &config.mysql);
    let http = HttpSettings::new(&[]);
    let has_http = usize::from(config.http.listen.is_some());
    let has_sql = usize::from(cfg!(feature = "sql"));
    let has_mysql = has_sql * usize::from(mysql.listen.is_some());
    let answers = has_http * (http.readings_max + http.streams_max);
    let followers = has_http * http.followers_max;
    let pages = page_bytes_max(http.readings_max) + SHARED_ROWS_MAX * ANSWER_ROW_BYTES;
    let (classes, threads) = (config.instruments.classes_max(), instruments::thread::THREADS_MAX);
    let connections = counted(mysql.connections_max, "connection", "connections");
    let note = size(ANNOTATION_BYTES_MAX);
    let (recent, each) = (size(READINGS_BYTES_MAX), size(MYSQL_CONNECTION_BYTES));
    let (queries, sql_bytes, mysql_bytes) = (sql.queries_max, size(sql.memory), size(mysql.memory));
    planned! {
        "answers": answers * config.reports.rows_max * ANSWER_ROW_BYTES + READINGS_BYTES_MAX,
            "{answers} reports of reports.rows_max rows, each kept until it has been sent, and {recent} of recent ones \
             to serve again";
        "annotations": has_http * ANNOTATIONS_BYTES,
            "{ANNOTATIONS_MAX} of {note} each";
        "followers": followers * FOLLOWER_BYTES, "{followers} clients that follow the requests, three chunks each";
        "SQL": has_sql * (sql.memory + queries * QUERY_BATCHES_BYTES),
            "{sql_bytes} for all queries together (sql.memory), and the batches of {queries} queries (sql.queries_max)";
        "MySQL clients": has_mysql * (mysql.connections_max * MYSQL_CONNECTION_BYTES + mysql.memory),
            "{connections} (mysql.connections_max) of {each}, and {mysql_bytes} (mysql.memory)";
        "pages": has_http * pages,
            "web pages of the last second, {SHARED_ROWS_MAX} rows of reports that they share, and sums over raw timers \
             while one is rendered";
        "instruments": instruments::bytes_max(classes.iter().sum()),
            "{threads} threads and connections with their sums and last events, and the last of all";
        "process": BASE_BYTES, "code, thread stacks, connections";
    }
}

/// Pools that only some configurations have.
fn optional(config: &Config, lanes: usize) -> Vec<Planned> {
    let is_pattern = |rule: &&RewriteRule| matches!(rule.change, Change::Pattern(..));
    let patterns = config.rewrites.iter().filter(is_pattern).count();
    let scratch = RULES_SCRATCH_BYTES as usize + patterns * PATTERN_SCRATCH_BYTES as usize;
    let squids = counted(config.squids.len(), "source", "sources");
    let inputs = counted(config.otlp_inputs.len(), "input", "inputs");
    let activities = Activities::rows_max(&config.pool);
    let (samples, stats) =
        (config.profile.pool_size, counted(config.stats.len(), "source", "sources"));
    let alerts = counted(config.alerts.len(), "rule", "rules");
    let slos = counted(config.slos.len(), "objective", "objectives");
    let watching = config.alerts.len() + 2 * config.slos.len();
    let rules = counted(config.rewrites.len(), "rule", "rules");
    let has_past = config.history.dir.is_some();
    planned! {
        if !config.rewrites.is_empty() => "name rules": lanes * scratch,
            "{rules} ([[rewrite]]), {patterns} with patterns, for each socket";
        if config.ingest.watches_sources() => "sources": TABLE_BYTES,
            "{SENDERS_MAX} source addresses (ingest.count_sources)";
        if !config.otlp_inputs.is_empty() => "spans": config.otlp_inputs.len() * otlp::SOURCE_BYTES,
            "{inputs} ([[otlp_input]]): spans that wait for others of their traces, the last requests, and bodies that are read";
        if !config.squids.is_empty() => "logs of Squid": config.squids.len() * (SOURCE_BYTES + BATCH_BYTES),
            "{squids} ([[squid]]): lines that have not ended, the last of each run, and the record being written";
        if !config.squids.is_empty() => "activities of Squid": activities * ACTIVITY_ROW_BYTES,
            "{activities} rows of {ACTIVITY_ROW_BYTES} bytes: half of pool.request_pool_size and pool.timer_pool_size together";
        if !config.stats.is_empty() => "samples": config.stats.len() * QUEUE_BYTES_MAX + pool_bytes(samples),
            "{samples} (profile.pool_size), once more for who reads slowly, and what {stats} ([[stat]]) sent and is not taken yet";
        if watching > 0 => "alerts": config.alerting.memory + ALERT_QUEUE_BYTES_MAX + IDS_MAX * ID_BYTES
                + watching * RULE_BYTES + config.slos.len() * objective::BYTES_MAX + ALERT_REPLAY_BYTES_MAX,
            "{alerts} ([[alert]]): windows of their rows (alerting.memory), seconds on their way there, {ALERT_ROWS_MAX} alerts each, and one \
             replay of the past; {slos} ([[slo]])";
        if !config.releases.tag.is_empty() => "releases": RELEASES_BYTES_MAX,
            "{RELEASES_MAX} of them (releases.tag), their {RELEASE_CELLS_MAX} busiest scripts over a day and over two weeks, and a copy while it is written";
        if !config.otlp.url.is_empty() => "pushed metrics": PUSH_BYTES,
            "rows, and points on their way to otlp.url: as much while it is down";
        if config.state.dir.is_some() => "snapshot": SNAPSHOT_BYTES + config.reports.memory / 8,
            "while it is written or read (state.dir): records, and the running ticks";
        if has_past => "history": config.history.memory + 2 * config.log_memory() + REFILL_BYTES,
            "minutes on their way to history.dir, and files that are being written (history.memory), seconds on their way to its log, and \
             what stands in for what a kill took from live reports";
        if has_past && !config.squids.is_empty() => "import of logs": LOG_IMPORT_BYTES,
            "one piece at a time, while there are any ([[squid]], history.dir)";
        if has_past => "answers over the past": PAST_ANSWERS_BYTES_MAX,
            "keys of all of them together; more are added to (other), and the answer says so";
    }
}

/// How long socket buffers of this size last.
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
            let line = format!("  {name:<22}{:>13}  {why}", mebibytes(bytes));
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
        for at in &self.backlog {
            writeln!(
                f,
                "  at {:>6} packets/s  temporary pool {:.1} s, socket buffers {:.1} s",
                at.packets_per_second, at.ring_secs, at.kernel_secs
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
mod tests;
