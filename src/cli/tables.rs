//! `pinbad tables`: prints a CREATE TABLE statement for every table that a daemon with this
//! configuration has.

#[cfg(feature = "sql")]
mod clickhouse;

use super::args::TablesFlags;
use super::{Failure, complain, print};
use crate::config::Config;
use crate::query::definitions::Definitions;
use crate::{daemon, state};

/// Prints the statements.
///
/// # Errors
/// Fails if the configuration is invalid, or the content of `state.dir` cannot be read.
pub fn execute(flags: &TablesFlags) -> Result<(), Failure> {
    let config = Config::from_environment(&flags.config)?;
    #[cfg(feature = "sql")]
    if flags.clickhouse {
        return print(&clickhouse::statements(&config, flags)?);
    }
    let defaults = daemon::defaults(&config);
    let mut definitions =
        Definitions::new(&config.configured_reports, &defaults).map_err(Failure::usage)?;
    let dir = flags.state_dir.as_ref().or(config.state.dir.as_ref());
    let saved = dir.map_or(Ok((Vec::new(), Vec::new())), |dir| state::saved(dir));
    let (kept, dropped) = saved.map_err(Failure::failed)?;
    for (name, reason) in definitions.add_others(&config, (&kept, dropped), &defaults) {
        complain(format!("left out {name}: {reason}"));
    }
    let server = flags.federated.as_deref().map(|given| federated_server(given, &config));
    let server = server.transpose().map_err(Failure::usage)?;
    print(definitions.statements(&defaults, server.as_deref()).trim_end())
}

/// The address at which a MariaDB in front finds the daemon, from the value of `--federated`:
/// `mysql://user[:password]@host:port` without a database; "" for the address in the configuration.
fn federated_server(given: &str, config: &Config) -> Result<String, String> {
    if given.is_empty() {
        let listen = config.mysql.listen.ok_or(
            "--federated: mysql.listen is off; accepted: a server, --federated=mysql://user:password@host:port",
        )?;
        return Ok(format!("mysql://pinba@{}/pinba", daemon::local(listen)));
    }
    let server = given.trim_end_matches('/');
    let server = server.strip_suffix("/pinba").unwrap_or(server);
    match server.strip_prefix("mysql://").and_then(|rest| rest.rsplit_once('@')) {
        Some((user, host)) if !user.is_empty() && !host.is_empty() && !host.contains('/') => {
            Ok(format!("{server}/pinba"))
        }
        _ => Err(format!(
            "--federated={given}: not a server; accepted: mysql://user:password@host:port (the password may be left out)"
        )),
    }
}
