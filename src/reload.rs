//! A new configuration for a daemon that runs: what can change does, what cannot is named.
//!
//! `main` reads the configuration anew on SIGHUP, the same file, environment and flags as at start, and calls
//! [`Daemon::reload`] only with one that is right: a bad file changes nothing. Files with secrets and certificates are read
//! again before anything changes, so a bad one of these changes nothing either. Then every setting is held against the one
//! in force. Those of [`LIVE`], the `[[report]]` entries, users and certificates take effect; all others need a restart and are
//! named in the log, and the value in force stays what it was, also for the next comparison.

use tracing::{info, warn};

use crate::access::tls::TlsError;
use crate::access::{SecretError, Users};
use crate::config::Config;
use crate::config::keys::KEYS;
use crate::daemon::{self, Daemon};
use crate::query::definitions::{ConfiguredError, Definitions};

/// The settings and lists that change while the daemon runs, beside `[[report]]`.
pub const LIVE: [&str; 4] = [
    "ingest.stats_gathering_period",
    "state.snapshot_period",
    "log.level",
    "user",
];

/// Why nothing was taken over.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// A `[[report]]` that cannot be.
    #[error(transparent)]
    Report(#[from] ConfiguredError),
    /// A secret of a `[[user]]` that cannot be had.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A certificate or key that cannot be used.
    #[error(transparent)]
    Certificate(#[from] TlsError),
}

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

/// The settings and lists that differ between two configurations, `[[report]]` apart.
fn differences(a: &Config, b: &Config) -> Vec<&'static str> {
    let keys = KEYS.iter().map(|key| key.name);
    let mut differences: Vec<_> = keys
        .filter(|key| a.settings.get(key) != b.settings.get(key))
        .collect();
    // Not where they stand: a line that was moved is no other rule.
    let rules = |config: &Config| -> Vec<_> {
        let rules = config.rewrites.iter();
        rules
            .map(|rule| {
                let change = &rule.change;
                let texts = [
                    rule.field.to_string(),
                    change.form().to_owned(),
                    change.pattern().unwrap_or_default().to_owned(),
                    change.replace().to_owned(),
                ];
                (texts, rule.stop)
            })
            .collect()
    };
    if rules(a) != rules(b) {
        differences.push("rewrite");
    }
    if a.users != b.users {
        differences.push("user");
    }
    differences
}

impl Daemon {
    /// Takes over what can change from `new`, in place of `old`, which is brought up to date. The level of the log is the
    /// caller's to change.
    ///
    /// # Errors
    /// When a `[[report]]` of it cannot be, or a file or variable with a secret or certificate cannot be used; then nothing has
    /// changed.
    pub fn reload(&self, old: &mut Config, new: &Config) -> Result<Reloaded, ReloadError> {
        // What definitions leave open comes from the settings in force, which need not be the new ones.
        let definitions = Definitions::new(&new.configured_reports, &daemon::defaults(old))?;
        // Always, also when the configuration says the same: what is in the files may be new.
        let users = Users::load(&new.users, |name| std::env::var_os(name))?;
        let certificates = self.read_certificates()?;
        let mut reloaded = Reloaded::default();
        for key in differences(old, new) {
            if LIVE.contains(&key) {
                if let Some(value) = new.settings.get(key) {
                    old.settings.insert(key, value.clone());
                }
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
        for (tls, config) in certificates {
            tls.replace(config);
        }
        self.users().replace(users);
        old.users.clone_from(&new.users);
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
    use crate::config::keys::LISTS;

    #[test]
    fn every_setting_and_every_list_is_looked_at() {
        let config = Config::default();
        assert!(differences(&config, &config).is_empty());
        let read: Vec<_> = config.settings.keys().copied().collect();
        let mut keys: Vec<_> = KEYS.iter().map(|key| key.name).collect();
        keys.sort_unstable();
        assert_eq!(read, keys);
        assert!(
            LIVE.iter()
                .all(|key| keys.contains(key) || LISTS.contains(key))
        );
        // Another list needs its lines in `differences`.
        assert_eq!(LISTS, ["report", "rewrite", "user"]);
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
            assert_eq!(differences(&config(""), &config(text)), [key], "{text}");
        }
        let rule = "[[rewrite]]\nfield = \"schema\"\ncut = \"?\"\n";
        let moved = format!("# moved down\n\n{rule}");
        assert!(differences(&config(rule), &config(&moved)).is_empty());
    }
}
