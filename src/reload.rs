//! A new configuration for a daemon that runs: what can change does, what cannot is named.
//!
//! `main` reads the configuration anew on SIGHUP, the same file, environment and flags as at start, and calls
//! [`Daemon::reload`] only with one that is right: a bad file changes nothing. Here every setting is held against the one
//! in force. Those of [`LIVE`] and the `[[report]]` entries take effect; all others need a restart and are named in the
//! log, and the value in force stays what it was, also for the next comparison.

use tracing::{info, warn};

use crate::config::Config;
use crate::daemon::{self, Daemon};
use crate::query::definitions::{ConfiguredError, Definitions};

/// The settings that change while the daemon runs, beside `[[report]]`.
pub const LIVE: [&str; 3] = [
    "ingest.stats_gathering_period",
    "state.snapshot_period",
    "log.level",
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
    let (ai, bi) = (&a.ingest, &b.ingest);
    let (ap, bp) = (&a.pool, &b.pool);
    let (ar, br) = (&a.reports, &b.reports);
    vec![
        ("ingest.listen", ai.listen != bi.listen),
        ("ingest.receivers", ai.receivers != bi.receivers),
        (
            "ingest.recv_buffer",
            ai.recv_buffer_bytes != bi.recv_buffer_bytes,
        ),
        (
            "ingest.temp_pool_size",
            ai.temp_pool_size != bi.temp_pool_size,
        ),
        (
            "ingest.temp_pool_bytes",
            ai.temp_pool_bytes != bi.temp_pool_bytes,
        ),
        (
            "ingest.stats_gathering_period",
            ai.stats_gathering_period != bi.stats_gathering_period,
        ),
        (
            "ingest.text_bytes_max",
            ai.text_bytes_max != bi.text_bytes_max,
        ),
        (
            "ingest.script_name_bytes_max",
            ai.script_name_bytes_max != bi.script_name_bytes_max,
        ),
        (
            "pool.request_pool_size",
            ap.request_pool_size != bp.request_pool_size,
        ),
        (
            "pool.timer_pool_size",
            ap.timer_pool_size != bp.timer_pool_size,
        ),
        ("pool.stats_history", ap.stats_history != bp.stats_history),
        ("pool.words_memory", ap.words_bytes != bp.words_bytes),
        ("reports.rows_max", ar.rows_max != br.rows_max),
        ("reports.memory", ar.memory_bytes != br.memory_bytes),
        ("reports.error_status", ar.error_status != br.error_status),
        ("http.listen", a.http.listen != b.http.listen),
        (
            "http.allow_anonymous",
            a.http.allow_anonymous != b.http.allow_anonymous,
        ),
        ("mysql.listen", a.mysql.listen != b.mysql.listen),
        (
            "mysql.allow_anonymous",
            a.mysql.allow_anonymous != b.mysql.allow_anonymous,
        ),
        ("state.dir", a.state_dir != b.state_dir),
        (
            "state.snapshot_period",
            a.snapshot_period != b.snapshot_period,
        ),
        ("log.format", a.log.format != b.log.format),
        ("log.level", a.log.level != b.log.level),
        // Not a key of its own: the list of `[[rewrite]]`.
        ("rewrite", a.rewrites != b.rewrites),
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
