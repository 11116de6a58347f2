//! SQL: the engine shared by all front ends, and the one for MySQL clients.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use super::error::StartError;
use super::frontends::{Frontends, Served};
use crate::access::Access;
use crate::config::Config;
use crate::mysql::{self, MySql, MySqlSettings};
use crate::query::catalog::Catalog;
use crate::sql::{Engine, SqlSettings};

/// The engine shared by all front ends, so that limits of queries hold for all together.
pub(super) fn engine(
    config: &Config,
    catalog: &Arc<Catalog>,
) -> Result<Option<Engine>, StartError> {
    let settings = SqlSettings { limits: config.sql.clone(), variables: variables(config) };
    let engine = Engine::new(Arc::clone(catalog), settings);
    engine.map(Some).map_err(|source| StartError::Thread { what: "the SQL threads", source })
}

impl Frontends {
    /// Serves MySQL clients; returns the address with its real port.
    pub(super) fn start_mysql(
        &mut self,
        served: &Served<'_>,
        listener: TcpListener,
    ) -> Result<Option<SocketAddr>, StartError> {
        let Some(engine) = served.engine.clone() else { return Ok(None) };
        let config = served.config;
        let front = config.mysql.front();
        let stopped = self.stopped();
        let address =
            self.start_front(("MySQL clients", 2), front, config, listener, |listener, _, tls| {
                let access = Access::new(served.users, front.allow_anonymous, "MySQL");
                let settings = MySqlSettings::new(access, tls, config.mysql.clone());
                let counters = Arc::clone(&served.counters.mysql);
                let service = MySql::new(engine, settings, counters);
                mysql::serve(listener, service, stopped)
            })?;
        Ok(Some(address))
    }
}

/// System variables for MySQL clients: Pinba's, and those of the server that depend on the
/// configuration.
///
/// Pinba was configured by `pinba_...` variables of the MySQL server, and tools that show its setup
/// read them back (`SHOW VARIABLES LIKE 'pinba_%'`). Under Pinba's names and in its units: seconds,
/// microseconds, rows. `pinba_error_status` is not one of Pinba's: dashboards count errors by it.
fn variables(config: &Config) -> Vec<(String, String)> {
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
        ("pinba_request_pool_size", pool.request_pool_size.to_string()),
        ("pinba_timer_pool_size", pool.timer_pool_size.to_string()),
        ("pinba_tag_report_timeout", history),
        ("pinba_error_status", config.reports.error_status.to_string()),
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
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
