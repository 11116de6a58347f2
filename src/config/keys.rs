//! Every key of the configuration file: its default, what it takes and why no more than that.
//!
//! The one table behind file, `--set`, environment, error texts and the test on `config/pinbad.toml`. A new setting
//! starts here, then gets its field in [`super::Config`] and its paragraph in `config/pinbad.toml`; tests fail while
//! one of the three is missing.

use std::time::Duration;

/// One setting.
#[derive(Debug)]
pub struct Key {
    /// Section and name, as in `--set`: "pool.stats_history".
    pub name: &'static str,
    /// The default, as it would stand in the file.
    pub default: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// Why the range ends where it does, for errors; empty when it needs no reason.
    pub why: &'static str,
}

/// What a setting takes.
#[derive(Debug)]
pub enum Takes {
    /// A whole number from the first to the second.
    Count(u64, u64),
    /// A size in bytes from the first to the second.
    Bytes(u64, u64),
    /// The same, or 0, which means what the text says.
    BytesOrZero(u64, u64, &'static str),
    /// A duration from the first to the second.
    Duration(Duration, Duration),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// true or false.
    Switch,
    /// An IP address with a port, or "".
    Address,
    /// One or more IP addresses with ports.
    Addresses,
    /// The path of a directory, or "".
    Path,
    /// The path of a file, or "".
    File,
    /// A list of networks; it may be empty.
    Networks,
    /// A list of host names; it may be empty.
    Names,
    /// A list of texts, up to so many, and what they are.
    Texts(usize, &'static str),
    /// A list of durations in ascending order, up to so many; it may be empty.
    Durations(usize),
}

impl Takes {
    /// Whether it is a list of texts, which a shell may have left without quotes.
    #[must_use]
    pub(super) const fn is_list(&self) -> bool {
        matches!(
            self,
            Self::Addresses | Self::Names | Self::Networks | Self::Texts(..) | Self::Durations(_)
        )
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bytes of one block of the temporary pool, the least that can be handed from a receiver to the merger.
pub const TEMP_BLOCK_BYTES: u64 = 256 * KIB;

/// What one request of the temporary pool is taken to need while `temp_pool_bytes` is 0.
pub const TEMP_REQUEST_BYTES: u64 = 512;

/// UDP addresses to listen on: each has its sockets, threads and buffers.
pub const LISTEN_MAX: usize = 64;

/// Networks or host names in a list.
pub const NAMES_MAX: usize = 64;
/// What a list of reports holds.
const REPORT_NAMES: &str =
    "names of reports, as in [\"report_by_script_name\", \"*\"], where \"*\" is every [[report]]";

/// All keys, in the order of `config/pinbad.toml`.
pub const KEYS: &[Key] = &[
    Key {
        name: "ingest.listen",
        default: r#"["0.0.0.0:30002"]"#,
        takes: Takes::Addresses,
        why: "",
    },
    Key {
        name: "ingest.receivers",
        default: "0",
        takes: Takes::Count(0, 256),
        why: "sockets per address, each with a thread; 0 is one less than the machine has cores",
    },
    Key {
        name: "ingest.recv_buffer",
        default: "\"64MB\"",
        takes: Takes::Bytes(64 * KIB, 1_000_000_000),
        why: "less does not hold the largest packet, more the kernel cannot grant",
    },
    Key {
        name: "ingest.temp_pool_size",
        default: "262144",
        takes: Takes::Count(16, 16 << 20),
        why: "requests between receivers and merger",
    },
    Key {
        name: "ingest.temp_pool_bytes",
        default: "0",
        takes: Takes::BytesOrZero(
            TEMP_BLOCK_BYTES,
            64 * GIB,
            "512 bytes per request of ingest.temp_pool_size",
        ),
        why: "receivers hand over blocks of 256KiB",
    },
    Key {
        name: "ingest.stats_gathering_period",
        default: "\"10ms\"",
        takes: Takes::Duration(Duration::from_millis(1), Duration::from_secs(10)),
        why: "shorter keeps a core busy with nothing, longer shows readers old news",
    },
    Key {
        name: "ingest.text_bytes_max",
        default: "255",
        takes: Takes::Bytes(32, 4 * KIB),
        why: "texts are cut there, and columns are declared as long",
    },
    Key {
        name: "ingest.script_name_bytes_max",
        default: "512",
        takes: Takes::Bytes(32, 4 * KIB),
        why: "script names are cut there, and columns are declared as long",
    },
    Key {
        name: "ingest.allow",
        default: "[]",
        takes: Takes::Networks,
        why: "",
    },
    Key {
        name: "ingest.source_rate_max",
        default: "0",
        takes: Takes::Count(0, 10_000_000),
        why: "packets a second from one source address; 0 is any number",
    },
    Key {
        name: "ingest.count_sources",
        default: "false",
        takes: Takes::Switch,
        why: "",
    },
    Key {
        name: "pool.request_pool_size",
        default: "1000000",
        takes: Takes::Count(0, 1_000_000_000),
        why: "rows; 0 keeps no raw data",
    },
    Key {
        name: "pool.timer_pool_size",
        default: "5000000",
        takes: Takes::Count(0, 1_000_000_000),
        why: "rows; 0 keeps no raw timers",
    },
    Key {
        name: "pool.stats_history",
        default: "\"15m\"",
        takes: Takes::Duration(Duration::from_secs(1), Duration::from_hours(7 * 24)),
        why: "in whole seconds, which is how finely reports expire",
    },
    Key {
        name: "pool.words_memory",
        default: "\"64MiB\"",
        takes: Takes::Bytes(MIB, 64 * GIB),
        why: "distinct texts and tag sets",
    },
    Key {
        name: "reports.rows_max",
        default: "100000",
        takes: Takes::Count(1, 10_000_000),
        why: "rows per report before new keys fold into (other)",
    },
    Key {
        name: "reports.memory",
        default: "\"256MiB\"",
        takes: Takes::Bytes(MIB, 1024 * GIB),
        why: "all reports together",
    },
    Key {
        name: "reports.error_status",
        default: "500",
        takes: Takes::Count(100, 999),
        why: "the lowest HTTP status that counts as an error",
    },
    Key {
        name: "series.memory",
        default: "\"64MiB\"",
        takes: Takes::BytesOrZero(8 * MIB, 64 * GIB, "keep no past"),
        why: "less does not hold an hour of anything",
    },
    Key {
        name: "series.reports",
        default: r#"["report_by_script_name", "report_by_server_name", "report_by_hostname", "report_by_status", "*"]"#,
        takes: Takes::Texts(64, REPORT_NAMES),
        why: "each costs every packet a little",
    },
    Key {
        name: "metrics.reports",
        default: r#"["report_by_script_name", "report_by_status"]"#,
        takes: Takes::Texts(64, REPORT_NAMES),
        why: "",
    },
    Key {
        name: "metrics.series_max",
        default: "10000",
        takes: Takes::Count(100, 1_000_000),
        why: "Prometheus keeps each of them in memory",
    },
    Key {
        name: "metrics.buckets",
        default: r#"["5ms", "10ms", "25ms", "50ms", "100ms", "250ms", "500ms", "1s", "2.5s", "5s", "10s"]"#,
        takes: Takes::Durations(40),
        why: "each is a series for every row",
    },
    Key {
        name: "http.listen",
        default: "\"127.0.0.1:30080\"",
        takes: Takes::Address,
        why: "",
    },
    Key {
        name: "http.allow_anonymous",
        default: "false",
        takes: Takes::Switch,
        why: "",
    },
    Key {
        name: "http.tls_cert",
        default: "\"\"",
        takes: Takes::File,
        why: "",
    },
    Key {
        name: "http.tls_key",
        default: "\"\"",
        takes: Takes::File,
        why: "",
    },
    Key {
        name: "http.open_health",
        default: "false",
        takes: Takes::Switch,
        why: "",
    },
    Key {
        name: "http.host_names",
        default: "[]",
        takes: Takes::Names,
        why: "",
    },
    Key {
        name: "mysql.listen",
        default: "\"127.0.0.1:33306\"",
        takes: Takes::Address,
        why: "",
    },
    Key {
        name: "mysql.allow_anonymous",
        default: "false",
        takes: Takes::Switch,
        why: "",
    },
    Key {
        name: "mysql.connections_max",
        default: "128",
        takes: Takes::Count(1, 10_000),
        why: "each takes memory and a descriptor",
    },
    Key {
        name: "mysql.idle_max",
        default: "\"8h\"",
        takes: Takes::Duration(Duration::from_secs(1), Duration::from_hours(365 * 24)),
        why: "MySQL's wait_timeout",
    },
    Key {
        name: "mysql.packet_max",
        default: "\"16MiB\"",
        takes: Takes::Bytes(64 * KIB, GIB),
        why: "MySQL's max_allowed_packet",
    },
    Key {
        name: "mysql.statements_max",
        default: "1000",
        takes: Takes::Count(1, 100_000),
        why: "prepared statements of one connection",
    },
    Key {
        name: "mysql.memory",
        default: "\"32MiB\"",
        takes: Takes::Bytes(MIB, 64 * GIB),
        why: "large packets and prepared statements of all connections",
    },
    Key {
        name: "mysql.tls_cert",
        default: "\"\"",
        takes: Takes::File,
        why: "",
    },
    Key {
        name: "mysql.tls_key",
        default: "\"\"",
        takes: Takes::File,
        why: "",
    },
    Key {
        name: "sql.threads",
        default: "0",
        takes: Takes::Count(0, 256),
        why: "0 is one for each core, at most 8",
    },
    Key {
        name: "sql.memory",
        default: "\"256MiB\"",
        takes: Takes::Bytes(16 * MIB, 1024 * GIB),
        why: "all queries together",
    },
    Key {
        name: "sql.time_max",
        default: "\"30s\"",
        takes: Takes::Duration(Duration::from_millis(100), Duration::from_hours(1)),
        why: "one query",
    },
    Key {
        name: "sql.rows_max",
        default: "10000000",
        takes: Takes::Count(1, 1_000_000_000_000),
        why: "rows of one answer",
    },
    Key {
        name: "sql.queries_max",
        default: "16",
        takes: Takes::Count(1, 1024),
        why: "queries at once",
    },
    Key {
        name: "sql.text_max",
        default: "\"1MiB\"",
        takes: Takes::Bytes(KIB, 16 * MIB),
        why: "one statement",
    },
    Key {
        name: "sql.case_insensitive",
        default: "false",
        takes: Takes::Switch,
        why: "",
    },
    Key {
        name: "state.dir",
        default: "\"\"",
        takes: Takes::Path,
        why: "",
    },
    Key {
        name: "state.snapshot_period",
        default: "\"5m\"",
        takes: Takes::Duration(Duration::ZERO, Duration::from_hours(7 * 24)),
        why: "in whole seconds; 0 writes one at the stop only",
    },
    Key {
        name: "log.format",
        default: "\"text\"",
        takes: Takes::Choice(&["text", "json"]),
        why: "",
    },
    Key {
        name: "log.level",
        default: "\"info\"",
        takes: Takes::Choice(&["error", "warn", "info", "debug", "trace"]),
        why: "",
    },
];

/// Lists of tables: `[[report]]`, checked by the report module, `[[rewrite]]`, checked by `rewrite`, and `[[user]]`,
/// checked by `user`.
pub const LISTS: [&str; 3] = ["report", "rewrite", "user"];

/// Settings of Pinba's engines under the name they have in `my.cnf`, for the hint only.
const PINBA_NAMES: [(&str, &str); 4] = [
    ("address", "ingest.listen"),
    ("port", "ingest.listen"),
    ("log_level", "log.level"),
    ("default_history_time_sec", "pool.stats_history"),
];

/// The key of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The sections, in the order of the file.
#[must_use]
pub fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&str> = KEYS
        .iter()
        .filter_map(|key| key.name.split('.').next())
        .collect();
    sections.dedup();
    sections
}

/// The names inside one section.
#[must_use]
pub fn names_in(section: &str) -> Vec<&'static str> {
    let split = KEYS.iter().filter_map(|key| key.name.split_once('.'));
    split
        .filter(|(of, _)| *of == section)
        .map(|(_, name)| name)
        .collect()
}

/// The variable of the environment that sets `name`: "pool.stats_history" is `PINBAD_POOL_STATS_HISTORY`.
#[must_use]
pub fn variable(name: &str) -> String {
    format!("PINBAD_{}", name.replace('.', "_").to_ascii_uppercase())
}

/// The one of `names` that was most likely meant by `typed`: a slip of the keyboard away.
#[must_use]
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_ascii_lowercase();
    // One slip in four letters; more and the hint is a guess at something else.
    let slips_max = (typed.chars().count() / 4).clamp(1, 4);
    names
        .into_iter()
        .map(|name| {
            (
                strsim::osa_distance(&typed, &name.to_ascii_lowercase()),
                name,
            )
        })
        .filter(|(slips, _)| *slips <= slips_max)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, name)| name)
}

/// The key that was most likely meant by `typed`: a slip away, or right but in the wrong section, or Pinba's name.
#[must_use]
pub fn nearest_key(typed: &str) -> Option<&'static str> {
    if let Some(name) = nearest(typed, KEYS.iter().map(|key| key.name)) {
        return Some(name);
    }
    let last = typed
        .rsplit('.')
        .next()
        .unwrap_or(typed)
        .to_ascii_lowercase();
    let last = last.strip_prefix("pinba_").unwrap_or(&last);
    // A name that several sections have says nothing ("listen"): only the section could tell.
    let mut same = KEYS
        .iter()
        .filter(|key| key.name.split_once('.').is_some_and(|(_, n)| n == last));
    match (same.next(), same.next()) {
        (Some(key), None) => Some(key.name),
        _ => PINBA_NAMES
            .iter()
            .find(|(name, _)| *name == last)
            .map(|(_, key)| *key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_recognised_and_far_ones_are_not() {
        for (typed, meant) in [
            ("pool.stats_histroy", Some("pool.stats_history")),
            ("pool.stat_history", Some("pool.stats_history")),
            ("Pool.Stats_History", Some("pool.stats_history")),
            ("stats_history", Some("pool.stats_history")),
            ("ingest.stats_history", Some("pool.stats_history")),
            ("pinba_temp_pool_size", Some("ingest.temp_pool_size")),
            ("pinba_port", Some("ingest.listen")),
            ("listen", None),
            ("http.tls", None),
        ] {
            assert_eq!(nearest_key(typed), meant, "{typed}");
        }
        assert_eq!(nearest("htpp", sections()), Some("http"));
        assert_eq!(nearest("state", ["http", "mysql"]), None);
    }

    #[test]
    fn no_two_keys_share_a_name_or_a_variable() {
        let mut variables: Vec<String> = KEYS.iter().map(|key| variable(key.name)).collect();
        variables.extend(LISTS.iter().map(|name| variable(name)));
        variables.push("PINBAD_CONFIG".to_owned());
        variables.push("PINBAD_TOKEN".to_owned());
        let count = variables.len();
        variables.sort();
        variables.dedup();
        assert_eq!(variables.len(), count);
    }
}
