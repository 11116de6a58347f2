//! What bounds SQL.

use std::time::Duration;

/// The limits of queries, each and all together.
#[derive(Debug, Clone)]
pub struct SqlSettings {
    /// Threads that queries run on; also how many pieces a scan is divided into.
    pub threads: usize,
    /// Queries at once.
    pub queries_max: usize,
    /// How long a query may take.
    pub time_max: Duration,
    /// What all queries together may hold in memory, bytes.
    pub memory_max: usize,
    /// Rows in one answer.
    pub rows_max: u64,
    /// Bytes in one statement.
    pub text_max: usize,
    /// Whether texts are compared and grouped without telling upper and lower case apart.
    pub case_insensitive: bool,
    /// System variables beside those that are always there: `pinba_port` and its kin, by lower-case name.
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
