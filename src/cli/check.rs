//! `pinbad check`: whether the configuration is valid, what would listen where, and the memory plan.

use std::net::SocketAddr;

use super::{Failure, print};
use crate::config::{Config, ConfigFlags};
use crate::daemon;
use crate::daemon::disk_plan;
use crate::daemon::memory_plan::MemoryPlan;

/// Checks the configuration, and the secrets and certificates that it names.
///
/// # Errors
/// Everything that is wrong.
pub fn execute(flags: &ConfigFlags) -> Result<(), Failure> {
    let config = Config::load(flags, std::env::vars_os())?;
    daemon::check(&config).map_err(|errors| Failure {
        code: 2,
        problems: errors.iter().map(ToString::to_string).collect(),
    })?;
    let shown = |front: Option<SocketAddr>| {
        front.map_or_else(|| "off".to_owned(), |address| address.to_string())
    };
    let udp: Vec<_> = config
        .ingest
        .listen
        .iter()
        .map(ToString::to_string)
        .collect();
    let squids = config.squids.iter();
    let squids: String = squids
        .map(|squid| format!("\n  Squid  {}", squid.from))
        .collect();
    let stats = config.stats.iter();
    let stats: String = stats
        .map(|stat| format!("\n  stat   {}", stat.stream))
        .collect();
    let mut history = String::new();
    for (place, line) in disk_plan::lasting(&config).iter().enumerate() {
        let head = format!("\nHistory, {}:", disk_plan::assumption());
        history += if place == 0 { &head } else { "" };
        history += &format!("\n  {line}");
    }
    print(&format!(
        "The configuration is valid.\n  UDP    {}; sockets per address: {}\n  \
         HTTP   {}\n  MySQL  {}{squids}{stats}\n\n{}{history}",
        udp.join(", "),
        config.ingest.receivers,
        shown(config.http.listen),
        shown(config.mysql.listen),
        MemoryPlan::of(&config)
    ))
}
