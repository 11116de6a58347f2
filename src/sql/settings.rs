//! Limits of SQL.

use std::time::Duration;

/// Limits of queries, each and all together.
#[derive(Debug, Clone)]
pub struct SqlSettings {
    /// Threads that run queries; also the number of partitions of a scan.
    pub threads: usize,
    /// Concurrent queries.
    pub queries_max: usize,
    /// Longest duration of a query.
    pub time_max: Duration,
    /// Memory of all queries together, in bytes.
    pub memory_max: usize,
    /// Rows in one answer.
    pub rows_max: u64,
    /// Bytes in one statement.
    pub text_max: usize,
    /// Whether texts are compared and grouped without regard to case.
    pub case_insensitive: bool,
    /// Additional system variables: `pinba_port` and the like, by lower-case name.
    pub variables: Vec<(String, String)>,
}

impl Default for SqlSettings {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism()
                .map_or(1, usize::from)
                .min(8),
            queries_max: 16,
            time_max: Duration::from_secs(30),
            memory_max: 256 << 20,
            rows_max: 10_000_000,
            text_max: 1 << 20,
            case_insensitive: false,
            variables: Vec::new(),
        }
    }
}
