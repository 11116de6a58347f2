//! Every key of the configuration, declared once: documentation, type, default, accepted values and
//! the reason for their range.
//!
//! The structs of [`Config`], `config/pinbad.toml` (written by a test from the comments below, see
//! `tests.rs`), `--set`, the `PINBAD_` variables, error texts, and the split into keys that a
//! reload can change (`live`) and keys that need a restart all follow from this table. A new key is
//! one declaration here and its use.

mod declare;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use tracing::Level;

pub use self::declare::Changes;
use self::declare::settings;
use super::alert::AlertEntry;
use super::key::Key;
use super::kinds::{
    addresses, buckets, choice, choices, data_folder, front_address, host_names, identifier, name,
    networks, path, patterns, report_names, server_url, server_urls, size, span, switch, tag_names,
    texts, whole,
};
use super::layers::RawConfig;
use super::location::Location;
use super::otlp::OtlpInput;
use super::raw_value::Entry;
use super::rewrite::RewriteRule;
use super::slo::SloEntry;
use super::squid::SquidSource;
use super::stat::StatSource;
use super::user::ConfiguredUser;
use crate::limits::BLOCK_BYTES;
use crate::telemetry::log::LogFormat;

/// Rows to ship to ClickHouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShippedRows {
    /// Gains of report keys per minute.
    Rollups,
    /// Raw requests.
    Requests,
}

/// The meaning of a point of a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpTemporality {
    /// Since the start.
    Cumulative,
    /// Since the point before.
    Delta,
}

/// The requests that are pushed as spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpTraces {
    /// None.
    None,
    /// The slowest.
    Slow,
    /// The slowest of each script, and errors.
    Tail,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Raw requests that history keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptRequests {
    /// The slowest of each script, errors, and a sample of the rest.
    Tail,
    /// All.
    All,
    /// None.
    None,
}

settings! {
    lists {
        /// `[[report]]` entries as given; `query` turns them into definitions.
        report => configured_reports: Entry, apart;
        /// `[[squid]]`: logs of Squid.
        squid => squids: SquidSource;
        /// `[[stat]]`: PHP processes with the stat extension.
        stat => stats: StatSource;
        /// `[[otlp_input]]`: listeners for OpenTelemetry spans.
        otlp_input => otlp_inputs: OtlpInput;
        /// `[[alert]]`: rules over reports.
        alert => alerts: AlertEntry, live;
        /// `[[slo]]`: what share of the requests must be good.
        slo => slos: SloEntry, live;
        /// `[[rewrite]]`: rules for names, in the order in which they run.
        rewrite => rewrites: RewriteRule;
        /// `[[user]]`: who may log in over HTTP and MySQL.
        user => users: ConfiguredUser, live;
    }

    /// `[ingest]`: sockets and the temporary pool.
    ingest: IngestConfig {
        /// Where packets are received: 1 to 64 UDP addresses, IPv4 and IPv6. An address is an IP with a port; names are
        /// not looked up, groups (multicast) not joined, and `[::]` is IPv6 alone. On the PHP side it is `pinba.server`.
        /// Cost: each address has its own sockets, threads and buffers (see receivers).
        listen: Vec<SocketAddr> = r#"["0.0.0.0:30002"]"#, addresses();

        /// Sockets per address, each with a thread: 0 to 256. 0 is one fewer than the machine has cores, at least 1.
        /// Cost: 8.25 MiB each, and twice recv_buffer in the kernel; up to 25 MiB for tags that packets repeat, 50 MiB
        /// for those of all receivers if there are more.
        receivers: usize = "0", whole(0, 256),
            "sockets per address, each with a thread; 0 is one less than the machine has cores";

        /// Receive buffer to request for each socket: "64KiB" to "1GB". It bridges the moments in which receivers get no
        /// processor time, and lets them collect fast packets every 10 ms (every 0.1 ms with a small buffer).
        /// Without CAP_NET_ADMIN the kernel grants at most net.core.rmem_max; what it granted is logged at start.
        /// Cost: kernel memory, up to twice this per socket, and only while packets wait.
        recv_buffer: usize = "\"64MB\"", size(64 * KIB, 1_000_000_000),
            "less does not hold the largest packet, more the kernel cannot grant";

        /// Requests that may wait for the merger, all receivers together: 16 to 16777216. When there are more, the oldest
        /// are overwritten and counted (`requests_overwritten`). At 100,000 requests/s the default lasts 2.6 s.
        /// Cost: see temp_pool_bytes.
        temp_pool_size: usize = "262144", whole(16, 16 << 20), "requests between receivers and merger";

        /// The same in bytes: "256KiB" to "64GiB". 0 is 512 bytes per request of temp_pool_size (and at least 256KiB),
        /// ample for requests with a few timers; requests with hundreds of timers need more.
        /// Cost: itself, reserved at start; only as much as ever waited at once is resident. 128 MiB by default.
        temp_pool_bytes: usize = "0",
            size(BLOCK_BYTES as u64, 64 * GIB).or_zero("512 bytes per request of ingest.temp_pool_size"),
            "receivers hand over blocks of 256KiB";

        /// How often the merger moves waiting requests into the pools and reports: "1ms" to "10s".
        /// Cost: below 10 ms more processor time for the same packets; above it readers see new data that much later.
        stats_gathering_period: Duration = "\"10ms\"",
            span(Duration::from_millis(1), Duration::from_secs(10)),
            "shorter wastes a core, longer makes answers stale", live;

        /// Longest text kept (host and server names, schema, tag names and values), bytes: 32 to "4KiB". Longer ones are
        /// cut at a character and counted. SQL columns are declared that long.
        /// Cost: long texts fill pool.words_memory.
        text_bytes_max: usize = "255", size(32, 4 * KIB), "texts are cut there, and columns are declared as long";

        /// The same for script names: 32 to "4KiB".
        script_name_bytes_max: usize = "512", size(32, 4 * KIB),
            "script names are cut there, and columns are declared as long";

        /// Networks that packets are accepted from: ["10.0.0.0/8", "2001:db8::/32", "192.0.2.7"], up to 64. Packets from
        /// elsewhere are counted as invalid (`source_not_allowed`). [] accepts all. Source addresses can be forged: this
        /// keeps out mistakes, and whatever a router that drops forged packets lets through. It holds for `[[squid]]` too.
        /// "::/0" has all addresses of IPv4 as well, as ::ffff:0:0/96.
        /// Cost: as count_sources.
        allow: Vec<IpNet> = "[]", networks();

        /// Packets per second that one source address may send, with a burst of one second's worth: 0 to 10000000. Packets
        /// beyond that are counted as invalid (`source_rate_exceeded`). 0 is no limit. Sources beyond the 4096 of
        /// count_sources share one rate.
        /// Cost: as count_sources, and a little more for each packet.
        source_rate_max: u32 = "0", whole(0, 10_000_000), "packets a second from one source address; 0 is any number";

        /// Whether to count packets by source address, see /api/v1/sources: true or false. 4096 sources are counted
        /// separately, all others together. Implied by `allow` and by source_rate_max.
        /// Cost: 6 % more processor time of the receivers per packet, 14 % with a thousand alternating sources; 520 KiB.
        count_sources: bool = "false", switch();
    }

    /// `[pool]`: the main pool.
    pool: PoolConfig {
        /// Raw requests kept (table `request`), rows: 0 to 1000000000. When it is full, the oldest are evicted and counted
        /// (`rows_evicted`); reports keep them. 0 keeps no raw data, reports work all the same.
        /// Cost: 53 bytes a row, and up to 98 a row (256 MiB at most) for its host, server and script; 144 MiB by default.
        request_pool_size: usize = "1000000", whole(0, 1_000_000_000), "rows; 0 keeps no raw data";

        /// Raw timers kept (table `timer`), rows: 0 to 1000000000. When it is full, the oldest requests are evicted.
        /// Cost: 21 bytes a row; 101 MiB by default.
        timer_pool_size: usize = "5000000", whole(0, 1_000_000_000), "rows; 0 keeps no raw timers";

        /// How far back raw data and the Pinba 1 reports reach: "1s" to "7d", in whole seconds.
        /// Cost: none by itself; a long history needs larger pools and reports.memory.
        stats_history: Duration = "\"15m\"",
            span(Duration::from_secs(1), Duration::from_hours(7 * 24)).in_whole_seconds(),
            "in whole seconds, which is how finely reports expire";

        /// Memory for distinct texts and tag sets: "1MiB" to "64GiB". When it is full, new texts show as `(other)`.
        /// Cost: itself, and three quarters of it for hash tables, allocated at start.
        words_memory: usize = "\"64MiB\"", size(MIB, 64 * GIB), "distinct texts and tag sets";
    }

    /// `[reports]`: limits for all reports.
    reports: ReportsConfig {
        /// Rows of each report: 1 to 10000000. Further keys are summed in one row, `(other)`; totals stay exact.
        /// Cost: with HTTP 1,380 bytes a row (six answers of 230). The rows themselves are in reports.memory; a query takes 230
        /// bytes a row from sql.memory.
        rows_max: usize = "100000", whole(1, 10_000_000), "rows per report before new keys fold into (other)";

        /// Memory of all reports together: rows, what is to expire, and percentiles: "1MiB" to "1TiB". When it is full, new
        /// keys go to `(other)`, and so does what known keys gain in a tick, those with the fewest requests first;
        /// percentiles may be NULL; totals stay exact.
        /// Cost: itself.
        memory: usize = "\"256MiB\"", size(MIB, 1024 * GIB), "all reports together";

        /// The lowest HTTP status that counts in `error_count`: 100 to 999.
        error_status: u32 = "500", whole(100, 999), "the lowest HTTP status that counts as an error";
    }

    /// `[series]`: the last hour in memory.
    series: SeriesConfig {
        /// The last hour in memory, from which charts are drawn: each second of the last five minutes, then every ten
        /// seconds. "8MiB" to "64GiB"; 0 keeps no history. When it is full, rows that take little time lose their
        /// percentiles first, then their counts; totals stay. One row takes 20 bytes for each second in which it gains
        /// something, and a byte or two for each distinct time.
        /// Cost: itself, and a thread that reads once a second what keys gained.
        memory: usize = "\"64MiB\"", size(8 * MIB, 64 * GIB).or_zero("keep no past"),
            "less does not hold an hour of anything";

        /// Reports to chart; "*" is every `[[report]]` of this file. The total over all requests (`info`) is always kept, and so
        /// is each report that is made at run time, as long as there are fewer than 64 in all.
        /// Cost: some time of that thread for each key that gained something in a second, and report.
        reports: Vec<String> = r#"["report_by_script_name", "report_by_server_name", "report_by_hostname", "report_by_status", "*"]"#,
            report_names(), "each is added up every second";
    }

    /// `[metrics]`: what Prometheus is shown.
    metrics: MetricsConfig {
        /// Reports whose rows are counters and histograms in /metrics; "*" is every `[[report]]` of this file and every one
        /// that is made at run time. The total over all requests (`info`) and the daemon's own counters are always there.
        /// [] for those alone.
        reports: Vec<String> = r#"["report_by_script_name", "report_by_status"]"#, report_names();

        /// Series of all rows together, as Prometheus counts them (a histogram of 11 buckets is 14 series): 100 to 1000000.
        /// A row that has been exported stays for as long as there is its report; further rows are summed as `(other)`.
        /// Cost: 512 bytes each here, some kilobytes each in Prometheus.
        series_max: usize = "10000", whole(100, 1_000_000), "Prometheus keeps each of them in memory";

        /// Upper bounds of the histogram buckets, ascending, up to 40; [] for no histograms.
        /// Cost: a series each for every row.
        buckets: Vec<Duration> = r#"["5ms", "10ms", "25ms", "50ms", "100ms", "250ms", "500ms", "1s", "2.5s", "5s", "10s"]"#,
            buckets(), "each is a series for every row";
    }

    /// `[http]`
    http: HttpConfig {
        /// Where to serve HTTP, an IP with a port; "" switches it off.
        /// An address that is not loopback is refused without a `[[user]]` (see below) or allow_anonymous.
        listen: Option<SocketAddr> = "\"127.0.0.1:30080\"", front_address();

        /// Whether everyone who reaches `listen` may read everything without a password: true or false. Changes (POST and
        /// DELETE) are then for users with the role admin or, when there are no users, for this machine alone. With neither
        /// users nor this, everything is for this machine alone.
        allow_anonymous: bool = "false", switch();

        /// Certificate and private key for HTTPS, PEM files; the first begins with the certificate of this host, followed by
        /// those between it and the root. With both, `listen` speaks TLS 1.2 and 1.3 and nothing else.
        /// Cost: 0.1 to 1 ms of processor time for each new connection.
        tls_cert: Option<PathBuf> = "\"\"", path("file");

        /// The key, without a passphrase; readable by the daemon alone.
        tls_key: Option<PathBuf> = "\"\"", path("file");

        /// Whether to answer /healthz and /readyz to everyone, for probes without credentials: true or false.
        open_health: bool = "false", switch();

        /// Host names that browsers and clients may use, beside "localhost" and every IP address: ["stats.example.com"], up
        /// to 64. A request with another name in `Host` is refused (421), which stops DNS rebinding.
        host_names: Vec<String> = "[]", host_names();
    }

    /// `[mysql]`
    mysql: MySqlConfig {
        /// Where to serve MySQL and MariaDB clients (`mysql -h 127.0.0.1 -P 33306 pinba`); "" switches it off.
        listen: Option<SocketAddr> = "\"127.0.0.1:33306\"", front_address();

        /// As in `[http]`. Users need a password here; those with only a token cannot log in.
        allow_anonymous: bool = "false", switch();

        /// Concurrent connections; a further client gets "Too many connections". One address may have half of them.
        /// Cost: 256 KiB each, at most; 64 KiB of them for what a client has SET.
        connections_max: usize = "128", whole(1, 10_000), "each takes memory and a descriptor";

        /// After how long an idle connection is closed: MySQL's wait_timeout. Clients reconnect on their own.
        idle_max: Duration = "\"8h\"",
            span(Duration::from_secs(1), Duration::from_hours(365 * 24)), "MySQL's wait_timeout";

        /// The longest packet, and the longest value of a prepared statement: MySQL's max_allowed_packet. Longer ones get
        /// error 1153.
        packet_max: usize = "\"16MiB\"", size(64 * KIB, GIB), "MySQL's max_allowed_packet";

        /// Prepared statements that one connection may keep.
        statements_max: usize = "1000", whole(1, 100_000), "prepared statements of one connection";

        /// For packets beyond 64KiB and for the prepared statements of all connections together. When it is used up,
        /// clients get error 1041. Should hold at least one packet of packet_max.
        /// Cost: memory, while it is used.
        memory: usize = "\"32MiB\"", size(MIB, 64 * GIB), "large packets and prepared statements of all connections";

        /// As in `[http]`; MySQL clients request TLS themselves.
        tls_cert: Option<PathBuf> = "\"\"", path("file");

        /// The key.
        tls_key: Option<PathBuf> = "\"\"", path("file");
    }

    /// `[sql]`: limits of queries.
    sql: SqlConfig {
        /// Threads that run queries, at low priority: receivers and the merger go first. 0 is one per core, at most 8.
        /// Cost: processor time that nothing else needs.
        threads: usize = "0", whole(0, 256), "0 is one for each core, at most 8";

        /// Memory of all queries together (groups, sorted rows, joined tables). Nothing is spilled to disk; a query that
        /// needs more fails.
        /// Cost: itself, while queries use it.
        memory: usize = "\"256MiB\"", size(16 * MIB, 1024 * GIB), "all queries together";

        /// How long one query may take.
        time_max: Duration = "\"30s\"",
            span(Duration::from_millis(100), Duration::from_hours(1)), "one query";

        /// Rows in one result; a query with a longer one fails.
        rows_max: u64 = "10000000", whole(1, 1_000_000_000_000), "rows of one answer";

        /// Concurrent queries; one more waits half a second for its turn and is then refused.
        /// Cost: 4 MiB each.
        queries_max: usize = "16", whole(1, 1024), "queries at once";

        /// The longest statement.
        text_max: usize = "\"1MiB\"", size(KIB, 16 * MIB), "one statement";

        /// Whether texts are compared, grouped and matched without regard to case and trailing blanks, as MySQL does in tables
        /// in latin1_swedish_ci: true or false. Script names are case-sensitive on Linux, and the reports keep them apart,
        /// so it is off.
        /// Cost: conditions on texts are evaluated row by row, without a lookup; grouping is about three times slower.
        case_insensitive: bool = "false", switch();
    }

    /// `[profile]`: samples of PHP's stat extension.
    profile: ProfileConfig {
        /// How many samples are kept, the oldest giving way: 10000 to 10000000. A PHP process that is always busy makes 1,000 a
        /// second at stat.interval 1000, and 10,000 at the extension's default of 100. Samples give way 8,192 at a time, so up to
        /// 8,191 fewer are there.
        /// Cost: up to 200 bytes each, twice while somebody reads slowly; only with a `[[stat]]`.
        pool_size: usize = "1000000", whole(10_000, 10_000_000), "each is kept as it is";
    }

    /// `[releases]`: what a release changed.
    releases: ReleasesConfig {
        /// The request tag that names what runs: of these, the first that is sent, which then stays in use. To use another one
        /// instead, list it alone: tag = ["release"]. Each new value is marked in the charts, and compared with the release
        /// before it. [] for none.
        /// Cost: until the first of them is sent, a look-up a second; from any on, a report over tag, script and status, and 48 MiB
        /// at most.
        tag: Vec<String> = r#"["release", "version"]"#, tag_names();

        /// How long a release runs until it is compared for the first time, with windows of the same length before it: "3s" to
        /// "6h". The second time is after a day.
        after: Duration = "\"30m\"",
            span(Duration::from_secs(3), Duration::from_hours(6)).in_whole_seconds(),
            "shorter has too few requests, longer comes too late";
    }

    /// `[data]`: where everything is kept.
    data: DataConfig {
        /// Directory for all that is kept: `state` and `history` in it (see `[state]` and `[history]`) are created when missing. "auto" is
        /// $STATE_DIRECTORY (systemd's), else /var/lib/pinbad where that exists and can be written, else none; "" is none: a restart
        /// loses all.
        /// Cost: those of state.dir and history.dir.
        dir: Option<PathBuf> = "\"auto\"", data_folder();
    }

    /// `[state]`: what survives a restart.
    state: StateConfig {
        /// Directory for what survives a restart: raw requests, reports with their counts, counters, and the reports created at run time;
        /// "" is `state` in data.dir, if any. Created when missing (mode 0700), for one daemon at a time. Written at stop, read at start.
        /// Cost: what the pools and reports hold, compressed, twice while it is written: 120 MB for a million requests with five timers
        /// each; a second at stop, two at start. Memory: 24 MiB and an eighth of reports.memory.
        dir: Option<PathBuf> = "\"\"", path("directory");

        /// How often the same is written while the daemon runs, in whole seconds up to "7d": the most that a kill -9 or a
        /// power cut can lose. 0 writes at stop only.
        /// Cost: a second of processor time and the bytes above to disk each time; the merger waits for milliseconds.
        snapshot_period: Duration = "\"5m\"",
            span(Duration::ZERO, Duration::from_hours(7 * 24)).in_whole_seconds(),
            "in whole seconds; 0 writes one at the stop only", live;
    }

    /// `[history]`: reports of months on disk.
    history: HistoryConfig {
        /// Directory for the past of reports, in Parquet files that DuckDB, pandas and others read too; "" is `history` in
        /// data.dir, if any. Created when missing (mode 0700), for one daemon at a time. While it cannot be opened history is
        /// off, and no log that `[[squid]]` follows is read.
        /// Cost: memory, a thread at low priority, and about 90 bytes on disk for each key that gains something in a minute, 160
        /// for each in an hour: 2,000 keys that are all busy take 3.6 GB in 14 days.
        dir: Option<PathBuf> = "\"\"", path("directory");

        /// Reports whose past is kept; "*" is every `[[report]]` of this file and every one that is made at run time, unless it
        /// says `history = false`; one with `history = true` is kept in any case. The total over all requests (`info`) always is.
        /// Cost: see dir, and some time of a thread for each key that gained something in a second, and report.
        reports: Vec<String> = r#"["report_by_script_name", "report_by_server_name", "report_by_hostname", "report_by_status", "*"]"#,
            report_names(), "each is added up every second";

        /// Which raw requests are kept too, with their timers and tags: "tail", in each flush_period the slowest ten of each
        /// script, errors and a sample of the others; "all"; or "none". With pool.request_pool_size = 0 there are none.
        /// Cost: a quarter of memory, a thread, and about 30 bytes on disk for each that has four timers: with "tail" 1 GB a day
        /// for 2,000 busy scripts, with "all" 26 GB a day at 10,000 a second. They go before anything else when size_max is reached.
        requests: KeptRequests = "\"tail\"", choice(&[
            ("tail", KeptRequests::Tail), ("all", KeptRequests::All), ("none", KeptRequests::None)]);

        /// How long rows by the minute are kept: "2d" to "36500d", in whole seconds.
        /// Cost: bytes on disk, see dir.
        retention_minute: Duration = "\"14d\"",
            span(Duration::from_hours(2 * 24), Duration::from_hours(36_500 * 24)).in_whole_seconds(),
            "in whole seconds; hours are made of minutes, so these are kept until then";

        /// How long rows by the hour are kept: as above, and at least retention_minute.
        retention_hour: Duration = "\"400d\"",
            span(Duration::from_hours(2 * 24), Duration::from_hours(36_500 * 24)).in_whole_seconds(),
            "in whole seconds; days are made of hours, so these are kept until then";

        /// How long rows by the day are kept: "62d" and more.
        retention_day: Duration = "\"1825d\"",
            span(Duration::from_hours(62 * 24), Duration::from_hours(36_500 * 24)).in_whole_seconds(),
            "in whole seconds; the days of a month are put into one file when it is over";

        /// Maximum size of all files together: "16MiB" to "1000TB". Past it, the oldest of the finest rows are removed.
        /// Cost: itself, on disk.
        size_max: usize = "\"10GB\"", size(16 * MIB, 1_000_000_000_000_000), "all files of history.dir together";

        /// Space to keep free on that disk: 0 to "1TiB". With less, the oldest of the finest rows are removed; if that is not
        /// enough, nothing more is written.
        free_min: usize = "\"1GB\"", size(0, 1024 * GIB), "space for others on the disk of history.dir";

        /// Memory for minutes that are not on disk yet: "4MiB" to "64GiB". When it is full, the keys with the least time and
        /// requests in their minute go without percentiles, then to `(other)`; totals stay.
        /// Cost: with a `dir` itself, a quarter of it again for its log (96 MiB at most), 16 MiB for what a kill took, and 256 MiB
        /// for answers over the past.
        memory: usize = "\"64MiB\"", size(4 * MIB, 64 * GIB), "rows on their way to disk";

        /// How often gains are written to disk: "1s" to "1h". A kill or a power cut loses that much where there is no log; a stop
        /// loses nothing.
        /// Cost: a write and two syncs each time.
        flush_period: Duration = "\"60s\"",
            span(Duration::from_secs(1), Duration::from_hours(1)), "what a kill may lose without a log";

        /// Whether the gains of each second are logged at once, so that a kill or a power cut loses a second or two of the
        /// reports and no more; raw requests are written every flush_period. Where `[[squid]]` follows a file, the log says which
        /// of its requests it has: after a kill the file is read again from the last flush on, and only the others are counted.
        /// Cost: a tenth of a microsecond of processor time for each row of a report that gains something in a second, half of it on a
        /// thread at low priority, a sync a second, and some 40 bytes on disk for each such row until the next flush.
        log: bool = "true", switch();
    }

    /// `[clickhouse]`: a ClickHouse that gets what history writes.
    clickhouse: ClickHouseConfig {
        /// ClickHouse's HTTP interface, "http://clickhouse:8123" or "https://clickhouse:8443"; "" ships nothing. Needs
        /// history.dir: what is written there is shipped when its minute has been over for two minutes, and waits there while the
        /// server is down. When it is emptied later, unshipped rows stay there: remove the folder "unshipped" in history.dir to
        /// stop shipping for good.
        /// Cost: a thread, and space in history.dir for what waits, within size_max.
        url: String = "\"\"", server_url("http://clickhouse:8123");

        /// The database.
        database: String = "\"pinba\"", identifier();

        /// The user to log in as.
        user: String = "\"default\"", name("a user");

        /// A file with that user's password, readable by the daemon alone; "" for none.
        password_file: Option<PathBuf> = "\"\"", path("file");

        /// A PEM file with the certificate authorities to trust; "" for those of the system.
        ca_file: Option<PathBuf> = "\"\"", path("file");

        /// How long an answer about the fleet may take: "1s" to "10m". Local answers do not wait for it.
        read_timeout: Duration = "\"30s\"",
            span(Duration::from_secs(1), Duration::from_mins(10)), "an answer about the fleet";

        /// What this pinbad is called there; "" for the name of this host. Two with one name do no harm: each history.dir has an
        /// identity of its own.
        collector: String = "\"\"", name("a collector");

        /// The data centre that it is in.
        dc: String = "\"\"", name("a data centre");

        /// What is shipped: "rollups", what keys of reports gained in each minute, and "requests", the raw ones that history.requests
        /// keeps, with timers and tags.
        what: Vec<ShippedRows> = r#"["rollups", "requests"]"#, choices(&[
            ("rollups", ShippedRows::Rollups), ("requests", ShippedRows::Requests)]);

        /// Which tags of requests and timers leave this machine: their names; "*" is all.
        tags: Vec<String> = r#"["*"]"#, tag_names();

        /// Whether to make the database and its tables, and to add columns that they lack: true or false. `pinbad tables
        /// --clickhouse` prints the statements; where there is a cluster, run those of `--cluster NAME`.
        create_tables: bool = "false", switch();
    }

    /// `[alerting]`: who is told of alerts. What they are about, `[[alert]]` entries say.
    alerting: AlertingConfig {
        /// Alertmanagers, as in ["http://alertmanager:9093"]: all members of a cluster. [] sends to none.
        alertmanager: Vec<String> = "[]", server_urls();

        /// A URL to which the same is posted as JSON, once when an alert fires and once when it is over; "" for none.
        webhook: String = "\"\"", server_url("https://chat.example.com/hook");

        /// A PEM file with the certificates to trust where these URLs begin with https; "" for those of the system.
        ca_file: Option<PathBuf> = "\"\"", path("file");

        /// How often an alert is sent again while it fires, to Alertmanagers alone: "10s" to "10m". They consider it resolved
        /// after five times that.
        period: Duration = "\"60s\"",
            span(Duration::from_secs(10), Duration::from_mins(10)).in_whole_seconds(), "a restarted Alertmanager learns of it then";

        /// Where people find the page of this daemon, for links in alerts; "" is http.listen, with https where that has a certificate.
        page: String = "\"\"", server_url("https://pinbad.example.com");

        /// Memory for what rows gained in the windows of rules: "1MiB" to "16GiB". Rows without room are not evaluated.
        /// Cost: with an `[[alert]]` or `[[slo]]` itself, 88 MiB, 0.8 MiB for each rule and 2.4 MiB for each objective, and two threads.
        memory: usize = "\"32MiB\"", size(MIB, 16 * GIB), "windows of all rules together";
    }

    /// `[otlp]`: metrics pushed to a server of OpenTelemetry.
    otlp: OtlpConfig {
        /// Where metrics are pushed to, over HTTP in protobuf: the server, as in "http://collector:4318", to which /v1/metrics is added, or
        /// all of it, as in "https://prometheus:9090/api/v1/otlp/v1/metrics"; "" pushes nothing. Not an otlp_input of this daemon.
        /// Cost: a thread, and up to 105 MiB while the server is down.
        url: String = "\"\"", server_url("http://collector:4318");

        /// A file with further headers, one a line ("Authorization: Bearer ..."), up to 16 KiB, readable by the daemon alone; "" for none.
        headers_file: Option<PathBuf> = "\"\"", path("file");

        /// A PEM file with the certificate authorities to trust; "" for those of the system.
        ca_file: Option<PathBuf> = "\"\"", path("file");

        /// Reports whose rows are pushed; "*" is every `[[report]]` of this file and every one that is made at run time. The total over
        /// all requests (`info`) and the daemon's own counters are always pushed. 10,000 rows in all; further ones are summed as `(other)`.
        /// Cost: some time of a thread for each row that gained something, and five or six points each.
        reports: Vec<String> = r#"["report_by_script_name", "report_by_status"]"#, report_names();

        /// How often: "1s" to "10m", in whole seconds.
        period: Duration = "\"10s\"",
            span(Duration::from_secs(1), Duration::from_mins(10)).in_whole_seconds(), "seconds are the least that is counted by itself";

        /// What a point counts: "cumulative", since the start, as Prometheus wants it; or "delta", since the point before.
        temporality: OtlpTemporality = "\"cumulative\"", choice(&[
            ("cumulative", OtlpTemporality::Cumulative), ("delta", OtlpTemporality::Delta)]);

        /// Requests of each period that are pushed as spans, with their timers, to /v1/traces: "none"; "slow", the hundred slowest; or
        /// "tail", the ten slowest of each script, and a hundred errors. Up to 4 MiB in a period, the slowest first.
        /// Cost: a look at each request once, and as many bytes.
        traces: OtlpTraces = "\"none\"", choice(&[
            ("none", OtlpTraces::None), ("slow", OtlpTraces::Slow), ("tail", OtlpTraces::Tail)]);

        /// Attributes of the resource, beside service.name ("pinbad"), service.instance.id and host.name, or in their place:
        /// {"deployment.environment.name" = "live"}, up to 32 texts. Names with dots stand in quotes.
        resource: BTreeMap<String, String> = "{}", texts();

        /// Whether bodies are packed with gzip: true or false.
        /// Cost: some 10 ms of processor time for each 1,000 rows that gained something.
        gzip: bool = "false", switch();
    }

    /// `[instruments]`: what the daemon measures of itself, in SQL database `performance_schema`.
    instruments: InstrumentsConfig {
        /// Which instruments are on, by LIKE patterns of their names; "=counted" after a pattern counts events without timing
        /// them. The last pattern that matches a name decides; [] for none. While the daemon runs: UPDATE
        /// performance_schema.setup_instruments. Waits, "wait/%", are off by default.
        /// Cost: see the manual; nothing for those that are off.
        enabled: Vec<String> = r#"["stage/%", "statement/%", "idle", "memory/%"]"#, patterns();

        /// How many instruments of each class there may be. Further ones are not measured; SHOW STATUS has their number
        /// (`Performance_schema_mutex_classes_lost`).
        /// Cost: 16 KiB each, once 256 threads and connections have been there.
        max_mutex_classes: usize = "10", whole(0, 1_000), "each takes memory for each thread";

        /// `wait/synch/rwlock/...`
        max_rwlock_classes: usize = "10", whole(0, 1_000), "each takes memory for each thread";

        /// `wait/synch/cond/...`
        max_cond_classes: usize = "10", whole(0, 1_000), "each takes memory for each thread";

        /// `wait/io/file/...`
        max_file_classes: usize = "20", whole(0, 1_000), "each takes memory for each thread";

        /// `wait/io/socket/...`
        max_socket_classes: usize = "10", whole(0, 1_000), "each takes memory for each thread";

        /// `stage/...`
        max_stage_classes: usize = "50", whole(0, 1_000), "each takes memory for each thread";

        /// `statement/...`: one for each verb of SQL, and for each route of HTTP.
        max_statement_classes: usize = "120", whole(0, 1_000), "each takes memory for each thread";

        /// `memory/...`
        max_memory_classes: usize = "30", whole(0, 1_000), "each takes memory for each thread";

        /// `thread/...`: names of threads, and kinds of connections.
        max_thread_classes: usize = "40", whole(0, 1_000), "each takes memory for each thread";
    }

    /// `[log]`: what is logged on stderr.
    log: LogConfig {
        /// Format of the log on stderr: "text", or "json" with one object per line.
        format: LogFormat = "\"text\"", choice(&[("text", LogFormat::Text), ("json", LogFormat::Json)]);

        /// The lowest level that is logged: "error", "warn", "info", "debug" or "trace".
        level: Level = "\"info\"", choice(&[
            ("error", Level::ERROR), ("warn", Level::WARN), ("info", Level::INFO), ("debug", Level::DEBUG), ("trace", Level::TRACE),
        ]), live;
    }
}
