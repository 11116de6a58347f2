//! `pinbad tables`: prints a CREATE TABLE statement for every table that a daemon with this
//! configuration has.

use super::args::TablesFlags;
use super::{Failure, complain, print};
#[cfg(feature = "sql")]
use crate::clickhouse;
use crate::config::Config;
#[cfg(feature = "sql")]
use crate::history::Dataset;
use crate::query::definitions::Definitions;
#[cfg(feature = "sql")]
use crate::report::definition::{DefinedBy, Definition};
#[cfg(feature = "sql")]
use crate::series::EVERYTHING;
use crate::{daemon, state};

/// Prints the statements.
///
/// # Errors
/// Fails if the configuration is invalid, or the content of `state.dir` cannot be read.
pub fn execute(flags: &TablesFlags) -> Result<(), Failure> {
    let config = Config::from_environment(&flags.config)?;
    #[cfg(feature = "sql")]
    if flags.clickhouse {
        return print(&clickhouse_statements(&config, flags)?);
    }
    let defaults = daemon::defaults(&config);
    let mut definitions =
        Definitions::new(&config.configured_reports, &defaults).map_err(Failure::usage)?;
    if let Some(dir) = flags.state_dir.as_ref().or(config.state.dir.as_ref()) {
        let kept = state::saved_reports(dir).map_err(Failure::failed)?;
        for (name, reason) in definitions.add_kept(&kept, &defaults) {
            complain(format!("left out {name}: {reason}"));
        }
        definitions.dropped = state::saved_dropped(dir).map_err(Failure::failed)?;
    }
    if !config.stats.is_empty() {
        definitions.add_profile(&defaults);
    }
    if !config.squids.is_empty() {
        definitions.add_squid(&defaults);
    }
    let server = flags.federated.as_deref();
    let server = server.map(|given| federated_server(given, &config));
    let server = server.transpose().map_err(Failure::usage)?;
    let statements = definitions.statements(&defaults, server.as_deref());
    print(statements.trim_end())
}

/// Statements for ClickHouse: its tables, and views of the built-in and configured reports.
#[cfg(feature = "sql")]
fn clickhouse_statements(config: &Config, flags: &TablesFlags) -> Result<String, Failure> {
    let (database, cluster) = (&config.clickhouse.database, flags.cluster.as_deref());
    let mut statements = clickhouse::statements(database, cluster);
    let defaults = daemon::defaults(config);
    let definitions =
        Definitions::new(&config.configured_reports, &defaults).map_err(Failure::usage)?;
    let is_kept = |(definition, defined_by): &&(Definition, DefinedBy)| {
        let is_in = |name: &str| config.history.reports.iter().any(|it| it == name);
        let is_own = *defined_by != DefinedBy::BuiltIn;
        let listed =
            definition.name == EVERYTHING || is_in(&definition.name) || is_own && is_in("*");
        definition.history.unwrap_or(listed)
    };
    let kept: Vec<_> = definitions.reports.iter().filter(is_kept).collect();
    let is_report = |name: &str| kept.iter().any(|(definition, _)| definition.name == name);
    for (definition, _) in &kept {
        let dataset = Dataset::of(definition, config.reports.error_status);
        let views = clickhouse::views(database, cluster, &dataset, is_report);
        statements.extend(views.into_iter().flatten());
    }
    Ok(format!("{};", statements.join(";\n\n")))
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
    match server
        .strip_prefix("mysql://")
        .and_then(|rest| rest.rsplit_once('@'))
    {
        Some((user, host)) if !user.is_empty() && !host.is_empty() && !host.contains('/') => {
            Ok(format!("{server}/pinba"))
        }
        _ => Err(format!(
            "--federated={given}: not a server; accepted: mysql://user:password@host:port (the password may be left out)"
        )),
    }
}
