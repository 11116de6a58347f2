//! `pinbad check`: validates the configuration, and prints the listeners and the memory plan.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::{Failure, print};
use crate::config::units::rounded_bytes;
use crate::config::{Config, ConfigFlags};
use crate::daemon;
use crate::daemon::StartError;
use crate::daemon::disk_plan;
use crate::daemon::memory_limit::{self, Scaled};
use crate::daemon::memory_plan::MemoryPlan;
use crate::state::folder::{self, HISTORY};
use crate::state::{self, StateError};

/// Checks the configuration, and the secrets and certificates that it names.
///
/// # Errors
/// All problems found.
pub fn execute(flags: &ConfigFlags) -> Result<(), Failure> {
    let config = Config::from_environment(flags);
    let mut config = config.map_err(Failure::of_configuration)?;
    let scaled = memory_limit::fit(&mut config).map_err(Failure::usage)?;
    let failed = |errors: Vec<StartError>| Failure {
        code: 2,
        problems: errors.iter().map(ToString::to_string).collect(),
    };
    daemon::check(&config).map_err(failed)?;
    let rules = daemon::alerts::configured(&config).map_err(failed)?;
    let mut alerts = String::new();
    for (place, rule) in rules.iter().enumerate() {
        let head = "\nAlerts ([[alert]]); `pinbad alert ls` has the rows that they concern now:";
        alerts += if place == 0 { head } else { "" };
        alerts += &format!("\n  {}", rule.words());
    }
    let shown = |front: Option<SocketAddr>| {
        front.map_or_else(|| "off".to_owned(), |address| address.to_string())
    };
    let udp: Vec<_> = config
        .ingest
        .listen
        .iter()
        .map(ToString::to_string)
        .collect();
    let spans = config.otlp_inputs.iter();
    let spans: String = spans
        .map(|input| format!("\n  spans  {}", input.listen))
        .collect();
    let squids = config.squids.iter();
    let squids: String = squids
        .map(|squid| format!("\n  Squid  {}", squid.from))
        .collect();
    let stats = config.stats.iter();
    let stats: String = stats
        .map(|stat| format!("\n  stat   {}", stat.stream))
        .collect();
    let shown_dir = |dir: &Option<PathBuf>| dir.as_ref().map(|dir| dir.display().to_string());
    let kept = [
        ("state", &config.state.dir),
        ("history", &config.history.dir),
    ];
    let kept = kept
        .iter()
        .filter_map(|(what, dir)| Some(format!("{what} in {}", shown_dir(dir)?)));
    let mut kept = kept.collect::<Vec<_>>().join(", ");
    if kept.is_empty() {
        kept = "in memory only: a restart loses it; --data DIR (data.dir) keeps it".to_owned();
    }
    let mut history = String::new();
    for (place, line) in disk_plan::lasting(&config).iter().enumerate() {
        let head = format!("\nHistory, {}:", disk_plan::assumption());
        history += if place == 0 { &head } else { "" };
        history += &format!("\n  {line}");
    }
    let scaled = scaled.map_or(String::new(), |Scaled { limit, settings }| {
        format!(
            "\nThis control group may have {} of memory; where nothing else is configured: {}.",
            rounded_bytes(limit),
            settings.join(" ")
        )
    });
    let folders = unusable_folders(&config);
    print(&format!(
        "The configuration is valid.\n  UDP    {}; sockets per address: {}\n  \
         HTTP   {}\n  MySQL  {}{spans}{squids}{stats}\n  data   {kept}\n\n{}{scaled}{history}{alerts}",
        udp.join(", "),
        config.ingest.receivers,
        shown(config.http.listen),
        shown(config.mysql.listen),
        MemoryPlan::of(&config)
    ))?;
    match folders.is_empty() {
        true => Ok(()),
        false => Err(Failure {
            code: 1,
            problems: folders,
        }),
    }
}

/// Folders that cannot be used, and what to do about it. Those of a running daemon are locked, and
/// the user who checks need not be the user it runs as.
fn unusable_folders(config: &Config) -> Vec<String> {
    let state = config.state.dir.as_deref();
    let history = config.history.dir.as_deref();
    let free_min = config.history.free_min as u64;
    let checked = [
        state.map(|dir| (dir, state::check(dir))),
        history.map(|dir| (dir, folder::check(HISTORY, dir, free_min))),
    ];
    let wrong = checked.into_iter().flatten().filter_map(|(dir, found)| {
        let error = found.err()?;
        let is_anothers = match &error {
            StateError::InUse { .. } => true,
            StateError::Io { source, .. } => source.kind() == ErrorKind::PermissionDenied,
            StateError::NotAFolder { .. } | StateError::NoRoom { .. } => false,
        };
        let advice = error.advice(dir);
        let advice = if advice.is_empty() {
            advice
        } else {
            format!("; {advice}")
        };
        (!is_anothers).then(|| format!("{error}{advice}"))
    });
    wrong.collect()
}
