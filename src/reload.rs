//! A new configuration for a daemon that runs: what can change does, what cannot is named.
//!
//! `main` reads the configuration anew on SIGHUP, the same file, environment and flags as at start, and calls
//! [`Daemon::reload`] only with one that is right: a bad file changes nothing. Here every setting is held against the one
//! in force. Those of [`LIVE`], the `[[report]]` entries and the users take effect, and files with secrets and
//! certificates are read again; all others need a restart and are named in the log, and the value in force stays what it
//! was, also for the next comparison.

use tracing::{info, warn};

use crate::access::Users;
use crate::config::{Config, FrontConfig};
use crate::daemon::{self, Daemon};
use crate::query::definitions::{ConfiguredError, Definitions};

/// The settings and lists that change while the daemon runs, beside `[[report]]`.
pub const LIVE: [&str; 4] = [
    "ingest.stats_gathering_period",
    "state.snapshot_period",
    "log.level",
    "user",
];

/// What a reload came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Settings that changed.
    pub changed: Vec<&'static str>,
    /// Settings that differ and need a restart.
    pub needs_restart: Vec<&'static str>,
    /// Reports of the configuration that were made.
    pub made: Vec<String>,
    /// Reports that are not in the configuration any more, or otherwise.
    pub dropped: Vec<String>,
    /// Reports of the configuration that could not be made, with the reasons.
    pub refused: Vec<(String, String)>,
}

impl Reloaded {
    /// Writes it to the log.
    pub fn log(&self) {
        for key in &self.needs_restart {
            warn!(
                key,
                "This setting changes at the next start only: the old value stays."
            );
        }
        for (report, reason) in &self.refused {
            warn!(
                report,
                reason, "Cannot make this report of the configuration."
            );
        }
        info!(
            changed = ?self.changed,
            reports_made = ?self.made,
            reports_dropped = ?self.dropped,
            "Reloaded the configuration."
        );
    }
}

/// Each setting with whether it differs between two configurations.
fn differences(a: &Config, b: &Config) -> Vec<(&'static str, bool)> {
    let cert = |front: &FrontConfig| front.tls.as_ref().map(|tls| tls.cert.clone());
    let key = |front: &FrontConfig| front.tls.as_ref().map(|tls| tls.key.clone());
    vec![
        ("ingest.listen", a.ingest.listen != b.ingest.listen),
        ("ingest.receivers", a.ingest.receivers != b.ingest.receivers),
        (
            "ingest.recv_buffer",
            a.ingest.recv_buffer_bytes != b.ingest.recv_buffer_bytes,
        ),
        (
            "ingest.temp_pool_size",
            a.ingest.temp_pool_size != b.ingest.temp_pool_size,
        ),
        (
            "ingest.temp_pool_bytes",
            a.ingest.temp_pool_bytes != b.ingest.temp_pool_bytes,
        ),
        (
            "ingest.stats_gathering_period",
            a.ingest.stats_gathering_period != b.ingest.stats_gathering_period,
        ),
        (
            "ingest.text_bytes_max",
            a.ingest.text_bytes_max != b.ingest.text_bytes_max,
        ),
        (
            "ingest.script_name_bytes_max",
            a.ingest.script_name_bytes_max != b.ingest.script_name_bytes_max,
        ),
        ("ingest.allow", a.ingest.allow != b.ingest.allow),
        (
            "ingest.source_rate_max",
            a.ingest.source_rate_max != b.ingest.source_rate_max,
        ),
        (
            "ingest.count_sources",
            a.ingest.count_sources != b.ingest.count_sources,
        ),
        (
            "pool.request_pool_size",
            a.pool.request_pool_size != b.pool.request_pool_size,
        ),
        (
            "pool.timer_pool_size",
            a.pool.timer_pool_size != b.pool.timer_pool_size,
        ),
        (
            "pool.stats_history",
            a.pool.stats_history != b.pool.stats_history,
        ),
        (
            "pool.words_memory",
            a.pool.words_bytes != b.pool.words_bytes,
        ),
        ("reports.rows_max", a.reports.rows_max != b.reports.rows_max),
        (
            "reports.memory",
            a.reports.memory_bytes != b.reports.memory_bytes,
        ),
        (
            "reports.error_status",
            a.reports.error_status != b.reports.error_status,
        ),
        (
            "series.memory",
            a.series.memory_bytes != b.series.memory_bytes,
        ),
        ("series.reports", a.series.reports != b.series.reports),
        ("metrics.reports", a.metrics.reports != b.metrics.reports),
        (
            "metrics.series_max",
            a.metrics.series_max != b.metrics.series_max,
        ),
        ("metrics.buckets", a.metrics.buckets != b.metrics.buckets),
        ("http.listen", a.http.listen != b.http.listen),
        (
            "http.allow_anonymous",
            a.http.allow_anonymous != b.http.allow_anonymous,
        ),
        ("http.tls_cert", cert(&a.http) != cert(&b.http)),
        ("http.tls_key", key(&a.http) != key(&b.http)),
        ("http.open_health", a.open_health != b.open_health),
        ("http.host_names", a.host_names != b.host_names),
        ("mysql.listen", a.mysql.listen != b.mysql.listen),
        (
            "mysql.allow_anonymous",
            a.mysql.allow_anonymous != b.mysql.allow_anonymous,
        ),
        (
            "mysql.connections_max",
            a.mysql_limits.connections_max != b.mysql_limits.connections_max,
        ),
        (
            "mysql.idle_max",
            a.mysql_limits.idle_max != b.mysql_limits.idle_max,
        ),
        (
            "mysql.packet_max",
            a.mysql_limits.packet_bytes_max != b.mysql_limits.packet_bytes_max,
        ),
        (
            "mysql.statements_max",
            a.mysql_limits.statements_max != b.mysql_limits.statements_max,
        ),
        (
            "mysql.memory",
            a.mysql_limits.memory_bytes != b.mysql_limits.memory_bytes,
        ),
        ("mysql.tls_cert", cert(&a.mysql) != cert(&b.mysql)),
        ("mysql.tls_key", key(&a.mysql) != key(&b.mysql)),
        ("sql.threads", a.sql.threads != b.sql.threads),
        ("sql.memory", a.sql.memory_bytes != b.sql.memory_bytes),
        ("sql.time_max", a.sql.time_max != b.sql.time_max),
        ("sql.rows_max", a.sql.rows_max != b.sql.rows_max),
        ("sql.queries_max", a.sql.queries_max != b.sql.queries_max),
        ("sql.text_max", a.sql.text_bytes_max != b.sql.text_bytes_max),
        ("state.dir", a.state_dir != b.state_dir),
        (
            "state.snapshot_period",
            a.snapshot_period != b.snapshot_period,
        ),
        ("log.format", a.log.format != b.log.format),
        ("log.level", a.log.level != b.log.level),
        // Not keys of their own: the lists.
        ("rewrite", a.rewrites != b.rewrites),
        ("user", a.users != b.users),
    ]
}

impl Daemon {
    /// Takes over what can change from `new`, in place of `old`, which is brought up to date. The level of the log is the
    /// caller's to change.
    ///
    /// # Errors
    /// When a `[[report]]` of it cannot be; then nothing has changed.
    pub fn reload(&self, old: &mut Config, new: &Config) -> Result<Reloaded, ConfiguredError> {
        // What definitions leave open comes from the settings in force, which need not be the new ones.
        let definitions = Definitions::new(&new.configured_reports, &daemon::defaults(old))?;
        let mut reloaded = Reloaded::default();
        for (key, _) in differences(old, new).iter().filter(|(_, differs)| *differs) {
            if LIVE.contains(key) {
                reloaded.changed.push(key);
            } else {
                reloaded.needs_restart.push(key);
            }
        }
        old.ingest.stats_gathering_period = new.ingest.stats_gathering_period;
        self.gathering().set(new.ingest.stats_gathering_period);
        old.snapshot_period = new.snapshot_period;
        if let Some(snapshots) = self.snapshots() {
            snapshots.set_period(new.snapshot_period);
        }
        old.log.level = new.log.level;
        // Always, like the secrets below: what is in the files may be new.
        self.reload_certificates();
        match Users::load(&new.users, |name| std::env::var_os(name)) {
            Ok(users) => {
                self.users().replace(users);
                old.users.clone_from(&new.users);
            }
            Err(error) => {
                reloaded.changed.retain(|key| *key != "user");
                warn!(%error, "The users stay who they were.");
            }
        }
        old.configured_reports.clone_from(&new.configured_reports);
        let reconfigured = self.catalog().reconfigure(definitions);
        reloaded.made = reconfigured.made;
        reloaded.dropped = reconfigured.dropped;
        reloaded.refused = reconfigured.refused;
        Ok(reloaded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::{KEYS, LISTS};

    #[test]
    fn every_setting_is_looked_at() {
        let config = Config::default();
        let differences = differences(&config, &config);
        assert!(differences.iter().all(|(_, differs)| !differs));
        let looked_at: Vec<_> = differences.iter().map(|(key, _)| *key).collect();
        let keys = KEYS.iter().map(|key| key.name);
        let lists = LISTS.into_iter().filter(|list| *list != "report");
        assert_eq!(looked_at, keys.chain(lists).collect::<Vec<_>>());
        assert!(LIVE.iter().all(|key| looked_at.contains(key)));
    }

    #[test]
    fn each_difference_is_found_under_its_name() {
        let config = |text: &str| Config::from_toml("x.toml", text).unwrap();
        for (text, key) in [
            ("[ingest]\nlisten = [\"127.0.0.1:9\"]\n", "ingest.listen"),
            ("[pool]\nstats_history = \"7s\"\n", "pool.stats_history"),
            ("[state]\ndir = \"/x\"\n", "state.dir"),
            ("[state]\nsnapshot_period = 0\n", "state.snapshot_period"),
            ("[log]\nlevel = \"debug\"\n", "log.level"),
            ("[[rewrite]]\nfield = \"schema\"\ncut = \"?\"\n", "rewrite"),
        ] {
            let all = differences(&config(""), &config(text));
            let found: Vec<_> = all.iter().filter(|(_, differs)| *differs).collect();
            assert_eq!(found, [&(key, true)], "{text}");
        }
    }
}
