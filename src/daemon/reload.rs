//! Applies a new configuration to a running daemon; the log names settings that need a restart.
//!
//! `main` reads the configuration again on SIGHUP, from the same file, environment and flags as at
//! start, and calls `Daemon::reload` only with a valid one: a bad file changes nothing. Files
//! with secrets and certificates are read before anything changes, so a bad one of these changes
//! nothing either. Keys declared `live` in `config::settings`, `[[report]]` entries, users and
//! certificates take effect; every other key keeps its value, also for the next comparison.

use tracing::{info, warn};

use super::{Daemon, StartError, alerts, defaults};
use crate::access::Users;
use crate::clock::rfc3339;
use crate::config::Config;
use crate::query::definitions::Definitions;
use crate::series;

impl Daemon {
    /// Tells readers of `/readyz` and of pages why the configuration was not reloaded, if so.
    pub(crate) fn has_reloaded(&self, why_not: Option<String>) {
        let status = &self.catalog.status;
        let now = rfc3339(self.catalog.unix_ms() / 1_000);
        *status.not_reloaded.lock() = why_not
            .map(|why| format!("the configuration was not reloaded at {}: {why}", &now[11..19]));
    }

    /// Takes over the changeable settings of `new` into `old`, and logs them. The log level is left
    /// to the caller.
    ///
    /// # Errors
    /// Fails if a `[[report]]` cannot be defined, or a file or variable with a secret or
    /// certificate cannot be used; then nothing has changed.
    pub(crate) fn reload(&self, old: &mut Config, new: &Config) -> Result<(), StartError> {
        // Definitions get their defaults from the settings in force, which may differ from the new
        // ones.
        let definitions = Definitions::new(&new.configured_reports, &defaults(old))?;
        // Always, even if the configuration is unchanged: the files may have new content.
        let users = Users::load(&new.users, |name| std::env::var_os(name))?;
        let certificates = self.frontends.read_certificates()?;
        let with_reports =
            Config { alerts: new.alerts.clone(), slos: new.slos.clone(), ..old.clone() };
        let reports = self.catalog.reports_after(definitions.clone(), &with_reports);
        let rules = alerts::rules(&with_reports, &reports).map_err(alerts::first)?;
        let changes = old.reload(new);
        for key in changes.needs_restart {
            warn!(key, "This setting changes at the next start only: the old value stays.");
        }
        self.gathering.store(new.ingest.stats_gathering_period);
        if let Some(writer) = &self.snapshot_writer {
            writer.snapshots.set_period(new.state.snapshot_period);
        }
        let mut certificates_read: Vec<String> = Vec::new();
        for (tls, config) in certificates {
            let shown = tls.certificate().display().to_string();
            // One certificate may serve several front ends.
            if !certificates_read.contains(&shown) {
                certificates_read.push(shown);
            }
            tls.replace(config);
        }
        let users_read = users.len();
        self.users.replace(users);
        old.configured_reports.clone_from(&new.configured_reports);
        let left_out = self.catalog.left_out();
        let reports = self.catalog.reconfigure(definitions, old);
        self.replace_rules(rules, old)?;
        for report in &reports.replaced {
            warn!(
                report,
                "A configured report took the place of one that was made at run time; what state.dir has of that stays there."
            );
        }
        let mut now_left_out = self.catalog.left_out();
        now_left_out.retain(|name| !left_out.contains(name));
        if !now_left_out.is_empty() {
            warn!(reports = ?now_left_out, "{}.", series::why_left_out());
        }
        for (report, reason) in &reports.refused {
            warn!(report, reason, "Cannot create this configured report.");
        }
        info!(
            changed = ?changes.live,
            ?certificates_read,
            users_read,
            reports_made = ?reports.made,
            reports_dropped = ?reports.dropped,
            "Reloaded the configuration."
        );
        Ok(())
    }
}
