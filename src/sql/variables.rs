//! System variables: what clients ask for before they ask for anything else.
//!
//! A session's own setting comes first, then what the daemon was configured with (`pinba_...`), then a fixed value that tells
//! clients the truth or at least what keeps them from doing what makes no sense here.

use super::error::SqlError;
use super::session::{Literal, Session};
use super::settings::SqlSettings;

/// The server's version, as `VERSION()` says it.
pub const VERSION: &str = "10.11.14-MariaDB-pinba";

/// Names and values; those that are numbers are numbers to SELECT, too.
const FIXED: [(&str, &str); 66] = [
    ("auto_increment_increment", "1"),
    ("auto_increment_offset", "1"),
    ("autocommit", "1"),
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_database", "utf8mb4"),
    ("character_set_filesystem", "binary"),
    ("character_set_results", "utf8mb4"),
    ("character_set_server", "utf8mb4"),
    ("character_set_system", "utf8mb3"),
    ("collation_connection", "utf8mb4_general_ci"),
    ("collation_database", "utf8mb4_general_ci"),
    ("collation_server", "utf8mb4_general_ci"),
    ("default_storage_engine", "PINBA"),
    ("div_precision_increment", "4"),
    ("foreign_key_checks", "1"),
    ("group_concat_max_len", "1048576"),
    ("have_openssl", "DISABLED"),
    ("have_profiling", "NO"),
    ("have_query_cache", "NO"),
    ("have_ssl", "DISABLED"),
    ("identity", "0"),
    ("init_connect", ""),
    ("innodb_read_only", "0"),
    ("interactive_timeout", "28800"),
    ("last_insert_id", "0"),
    ("license", "MIT"),
    ("lock_wait_timeout", "86400"),
    ("lower_case_file_system", "OFF"),
    ("lower_case_table_names", "0"),
    ("max_allowed_packet", "67108864"),
    ("max_connections", "151"),
    ("max_execution_time", "0"),
    ("max_statement_time", "0"),
    ("max_user_connections", "0"),
    ("net_buffer_length", "16384"),
    ("net_read_timeout", "30"),
    ("net_write_timeout", "60"),
    ("optimizer_switch", ""),
    ("performance_schema", "0"),
    ("port", "0"),
    ("profiling", "0"),
    ("protocol_version", "10"),
    ("query_cache_size", "0"),
    ("query_cache_type", "OFF"),
    ("read_only", "1"),
    ("skip_networking", "0"),
    ("socket", ""),
    ("sql_auto_is_null", "0"),
    ("sql_mode", ""),
    ("sql_notes", "1"),
    ("sql_quote_show_create", "1"),
    ("sql_safe_updates", "0"),
    ("sql_select_limit", "18446744073709551615"),
    ("sql_warnings", "0"),
    ("storage_engine", "PINBA"),
    ("system_time_zone", "UTC"),
    ("table_open_cache", "2000"),
    ("thread_cache_size", "0"),
    ("time_zone", "SYSTEM"),
    ("tx_isolation", "REPEATABLE-READ"),
    ("tx_read_only", "0"),
    ("unique_checks", "1"),
    ("version_comment", "pinbad"),
    ("wait_timeout", "28800"),
    ("warning_count", "0"),
];

/// Names that are others' other names.
const ALIASES: [(&str, &str); 4] = [
    ("transaction_isolation", "tx_isolation"),
    ("transaction_read_only", "tx_read_only"),
    ("default_tmp_storage_engine", "default_storage_engine"),
    ("sql_warnings_count", "warning_count"),
];

/// Variables that SHOW writes as ON and OFF.
const SWITCHES: [&str; 12] = [
    "autocommit",
    "foreign_key_checks",
    "innodb_read_only",
    "performance_schema",
    "profiling",
    "read_only",
    "skip_networking",
    "sql_auto_is_null",
    "sql_notes",
    "sql_quote_show_create",
    "sql_safe_updates",
    "unique_checks",
];

/// The name under which a variable is kept.
pub(crate) fn canonical(name: &str) -> &str {
    ALIASES
        .iter()
        .find(|(alias, _)| *alias == name)
        .map_or(name, |(_, name)| name)
}

/// All variables and what they are for a session, by name.
pub(crate) fn all(session: Option<&Session>, settings: &SqlSettings) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = FIXED
        .iter()
        .map(|(name, _)| *name)
        .chain(ALIASES.iter().map(|(alias, _)| *alias))
        .chain([
            "version",
            "hostname",
            "version_compile_os",
            "version_compile_machine",
        ])
        .chain(settings.variables.iter().map(|(name, _)| name.as_str()))
        .filter_map(|name| {
            let value = value(name, session, settings)?;
            let value = match (SWITCHES.contains(&name), value.as_str()) {
                (true, "1") => "ON".to_owned(),
                (true, "0") => "OFF".to_owned(),
                _ => value,
            };
            Some((name.to_owned(), value))
        })
        .collect();
    all.sort();
    all.dedup_by(|left, right| left.0 == right.0);
    all
}

/// What a variable is; `None` when there is none of that name.
fn value(name: &str, session: Option<&Session>, settings: &SqlSettings) -> Option<String> {
    let name = canonical(name);
    if let Some(set) = session.and_then(|session| session.variables.get(name)) {
        return Some(set.clone());
    }
    if let Some((_, value)) = settings.variables.iter().find(|(known, _)| known == name) {
        return Some(value.clone());
    }
    match name {
        "version" => return Some(VERSION.to_owned()),
        "version_compile_os" => return Some(std::env::consts::OS.to_owned()),
        "version_compile_machine" => return Some(std::env::consts::ARCH.to_owned()),
        "hostname" => {
            let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            return Some(name.trim().to_owned());
        }
        _ => {}
    }
    let fixed = FIXED.iter().find(|(known, _)| *known == name)?;
    Some(fixed.1.to_owned())
}

/// What `@@name` is: `name` with its scope, in lower case.
///
/// # Errors
/// When there is none of that name.
pub(crate) fn lookup(
    name: &str,
    session: &Session,
    settings: &SqlSettings,
) -> Result<Literal, SqlError> {
    let (scope, plain) = match name.split_once('.') {
        Some((scope @ ("global" | "session" | "local"), plain)) => (scope, plain),
        _ => ("session", name),
    };
    let session = (scope != "global").then_some(session);
    let value = value(plain, session, settings)
        .ok_or_else(|| SqlError::unknown_variable(format!("Unknown system variable '{plain}'")))?;
    let switch = SWITCHES.contains(&plain);
    Ok(match (value.parse::<i64>(), switch) {
        (Ok(number), _) => Literal::Int(number),
        (_, true) => Literal::Int(i64::from(
            value.eq_ignore_ascii_case("on") || value.eq_ignore_ascii_case("true"),
        )),
        _ => match value.parse::<u64>() {
            Ok(number) => Literal::UInt(number),
            Err(_) => Literal::Text(value),
        },
    })
}
