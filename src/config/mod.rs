//! The configuration as the program uses it: checked, defaults filled in, units resolved.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Everything that `serve` needs to know. Made once at start; nothing below `main` reads a file, an environment
/// variable or a flag.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[ingest]`: sockets and the temporary pool.
    pub ingest: IngestConfig,
    /// `[pool]`: the main pool.
    pub pool: PoolConfig,
    /// `[reports]`: budgets for all reports.
    pub reports: ReportsConfig,
    /// `[http]`
    pub http: FrontConfig,
    /// `[mysql]`: accepted, unused until the MySQL wire exists.
    pub mysql: FrontConfig,
    /// `[state] dir`: where what must survive a restart lives; `None`: in memory only.
    pub state_dir: Option<PathBuf>,
}

/// `[ingest]`
#[derive(Debug, Clone)]
pub struct IngestConfig {
    /// UDP addresses to receive on.
    pub listen: Vec<SocketAddr>,
    /// Sockets (and receiver threads) per address; already resolved, at least 1.
    pub receivers: usize,
    /// Socket receive buffer to ask for, bytes.
    pub recv_buffer_bytes: usize,
    /// Temporary pool: requests, in all.
    pub temp_pool_size: usize,
    /// Temporary pool: bytes, in all. Default 512 per request of `temp_pool_size`.
    pub temp_pool_bytes: usize,
    /// How often the merger runs.
    pub stats_gathering_period: Duration,
    /// Longest script name kept, bytes (default 512).
    pub script_name_bytes_max: usize,
    /// Longest other text kept, bytes (default 255).
    pub text_bytes_max: usize,
}

/// `[pool]`
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Rows of raw requests; 0 keeps no raw data.
    pub request_pool_size: usize,
    /// Rows of raw timers.
    pub timer_pool_size: usize,
    /// How far back raw data and v1 reports reach.
    pub stats_history: Duration,
    /// Bytes for distinct texts (host, server and script names, tag names and values) and tag sets. Default 64 MiB.
    pub words_bytes: usize,
}

/// `[reports]`
#[derive(Debug, Clone)]
pub struct ReportsConfig {
    /// Rows per report before new keys fold into `(other)`.
    pub rows_max: usize,
    /// Bytes for all reports together: rows, tick deltas, histograms. Default 256 MiB.
    pub memory_bytes: usize,
    /// Statuses from here on count as errors (default 500).
    pub error_status: u32,
}

/// `[http]` and `[mysql]`: a way in for readers.
#[derive(Debug, Clone)]
pub struct FrontConfig {
    /// Where to listen; `None`: switched off.
    pub listen: Option<SocketAddr>,
    /// Whether a non-loopback address may be bound without credentials.
    pub allow_anonymous: bool,
}
