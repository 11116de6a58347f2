//! System variables for MySQL clients: Pinba's, and those of the server that depend on the
//! configuration.
//!
//! Pinba was configured by `pinba_...` variables of the MySQL server, and tools that show its setup
//! read them back (`SHOW VARIABLES LIKE 'pinba_%'`). Called once, when the SQL engine is created.

use crate::config::Config;

/// Names and values, under Pinba's names and in its units: seconds, microseconds, rows.
pub(super) fn variables(config: &Config) -> Vec<(String, String)> {
    let (ingest, pool, limits) = (&config.ingest, &config.pool, &config.mysql);
    let history = pool.stats_history.as_secs().to_string();
    let tls = match config.mysql.front().tls() {
        Some(_) => "YES",
        None => "DISABLED",
    };
    let period = ingest.stats_gathering_period.as_micros();
    let idle = limits.idle_max.as_secs().to_string();
    let mut variables = vec![
        ("pinba_stats_history", history.clone()),
        ("pinba_stats_gathering_period", period.to_string()),
        ("pinba_temp_pool_size", ingest.temp_pool_size.to_string()),
        (
            "pinba_request_pool_size",
            pool.request_pool_size.to_string(),
        ),
        ("pinba_timer_pool_size", pool.timer_pool_size.to_string()),
        ("pinba_tag_report_timeout", history),
        ("have_ssl", tls.to_owned()),
        ("have_openssl", tls.to_owned()),
        ("max_allowed_packet", limits.packet_max.to_string()),
        ("wait_timeout", idle.clone()),
        ("interactive_timeout", idle),
        ("max_connections", limits.connections_max.to_string()),
    ];
    if let Some(udp) = ingest.listen.first() {
        variables.push(("pinba_address", udp.ip().to_string()));
        variables.push(("pinba_port", udp.port().to_string()));
    }
    if let Some(mysql) = config.mysql.listen {
        variables.push(("port", mysql.port().to_string()));
    }
    let named = variables.into_iter();
    named
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
