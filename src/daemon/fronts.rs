//! The front ends: HTTP and the MySQL wire, each on a runtime of its own.
//!
//! Their addresses are bound before anything is received, so that one that is taken ends the start; they are served when the
//! catalog is there. A front end ends when [`Fronts::stop`] says so.

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use tokio::sync::watch;
use tracing::{info, warn};

use super::StartError;
use super::threads::Vital;
use crate::access::tls::{Tls, TlsError};
use crate::access::{Access, UserStore};
use crate::config::Config;
use crate::http::{self, Answers, HttpSettings, Planned};
use crate::metrics::Metrics;
#[cfg(feature = "sql")]
use crate::mysql::{self, MySql, MySqlSettings};
use crate::plan::MemoryPlan;
use crate::query::catalog::Catalog;
use crate::query::source::Source;
use crate::series::Series;
#[cfg(feature = "sql")]
use crate::sql::{Engine, SqlSettings};
#[cfg(feature = "sql")]
use crate::telemetry::Counters;

/// What answers SQL.
#[cfg(feature = "sql")]
pub(super) type FrontEngine = Engine;
/// Nothing does.
#[cfg(not(feature = "sql"))]
pub(super) type FrontEngine = ();

/// What front ends answer from.
pub(super) struct Behind<'a> {
    pub(super) config: &'a Config,
    pub(super) catalog: &'a Arc<Catalog>,
    pub(super) users: &'a Arc<UserStore>,
    pub(super) series: Option<Series>,
    pub(super) metrics: Metrics,
    pub(super) engine: FrontEngine,
    #[cfg(feature = "sql")]
    pub(super) counters: &'a Counters,
}

/// The front ends that run.
#[derive(Debug)]
pub(super) struct Fronts {
    stop: watch::Sender<bool>,
    running: Vec<Front>,
    /// The certificates of those that speak TLS.
    certificates: Vec<Arc<Tls>>,
}

/// TLS of a front end, and what it is to take connections with.
pub(super) type NewCertificate = (Arc<Tls>, Arc<rustls::ServerConfig>);

/// A front end: its task, on a runtime of its own.
#[derive(Debug)]
struct Front {
    name: &'static str,
    task: tokio::task::JoinHandle<()>,
    runtime: tokio::runtime::Runtime,
}

impl Fronts {
    pub(super) fn new() -> Self {
        Self {
            stop: watch::Sender::new(false),
            running: Vec::new(),
            certificates: Vec::new(),
        }
    }

    /// What the files of certificates and keys hold now, for each front end that has them; nothing changes yet.
    pub(super) fn read_certificates(&self) -> Result<Vec<NewCertificate>, TlsError> {
        let each = self.certificates.iter();
        each.map(|tls| Ok((Arc::clone(tls), tls.read_again()?)))
            .collect()
    }

    /// Serves HTTP; gives the address with its real port.
    pub(super) fn start_http(
        &mut self,
        behind: &Behind<'_>,
        listener: TcpListener,
    ) -> Result<SocketAddr, StartError> {
        let config = behind.config;
        let runtime = front_runtime("http", "the HTTP threads")?;
        let (listener, bound) = listen(&runtime, listener, "the HTTP listener")?;
        let address = config.http.listen.unwrap_or(bound);
        let tls = config.http.tls.as_ref().map(Tls::load).transpose()?;
        let tls = tls.map(Arc::new);
        self.certificates.extend(tls.clone());
        warn_in_the_clear(config, "http", address, tls.is_some());
        let mut names = config.host_names.clone();
        names.push(address.ip().to_string());
        let settings = HttpSettings {
            access: Access::new(Arc::clone(behind.users), config.http.allow_anonymous),
            tls,
            open_health: config.open_health,
            memory_plan: planned(config),
            series: behind.series.clone(),
            metrics: behind.metrics.clone(),
            ..HttpSettings::new(names)
        };
        let serve = http::serve(listener, answers(behind), settings, self.stopped());
        let task = runtime.spawn(vital("HTTP", serve));
        self.running.push(Front {
            name: "HTTP",
            task,
            runtime,
        });
        info!(address = %bound, tls = config.http.tls.is_some(), "Listening for HTTP.");
        Ok(bound)
    }

    /// Serves MySQL clients; gives the address with its real port.
    #[cfg(feature = "sql")]
    pub(super) fn start_mysql(
        &mut self,
        behind: &Behind<'_>,
        listener: TcpListener,
    ) -> Result<SocketAddr, StartError> {
        let config = behind.config;
        let runtime = front_runtime("mysql", "the threads of the MySQL wire")?;
        let (listener, bound) = listen(&runtime, listener, "the MySQL listener")?;
        let address = config.mysql.listen.unwrap_or(bound);
        let tls = config.mysql.tls.as_ref().map(Tls::load).transpose()?;
        let tls = tls.map(Arc::new);
        self.certificates.extend(tls.clone());
        warn_in_the_clear(config, "mysql", address, tls.is_some());
        let settings = MySqlSettings {
            access: Access::new(Arc::clone(behind.users), config.mysql.allow_anonymous),
            tls,
            connections_max: config.mysql_limits.connections_max,
            idle_max: config.mysql_limits.idle_max,
            packet_max: config.mysql_limits.packet_bytes_max,
            statements_max: config.mysql_limits.statements_max,
            memory_max: config.mysql_limits.memory_bytes,
            ..MySqlSettings::default()
        };
        let service = MySql::new(
            behind.engine.clone(),
            settings,
            Arc::clone(&behind.counters.mysql),
        );
        let serve = mysql::serve(listener, service, self.stopped());
        let task = runtime.spawn(vital("MySQL", serve));
        self.running.push(Front {
            name: "MySQL",
            task,
            runtime,
        });
        info!(address = %bound, tls = config.mysql.tls.is_some(), "Listening for MySQL clients.");
        Ok(bound)
    }

    /// Nobody is served who speaks SQL.
    #[cfg(not(feature = "sql"))]
    #[expect(clippy::needless_pass_by_value, reason = "with SQL it is taken")]
    pub(super) fn start_mysql(
        &mut self,
        _behind: &Behind<'_>,
        listener: TcpListener,
    ) -> Result<SocketAddr, StartError> {
        info!("Not listening for MySQL clients: this program was built without SQL.");
        let bound = listener.local_addr();
        bound.map_err(|source| StartError::Thread {
            what: "the MySQL listener",
            source,
        })
    }

    /// Done when the front ends are to stop.
    fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stopped = self.stop.subscribe();
        async move {
            // An error means that the daemon is gone, which is a stop too.
            let _gone = stopped.wait_for(|stop| *stop).await;
        }
    }

    /// Ends them, and waits for that.
    pub(super) fn stop(&mut self) {
        self.stop.send_replace(true);
        for front in self.running.drain(..) {
            if front.runtime.block_on(front.task).is_err() {
                warn!(front = front.name, "A front end ended in a panic.");
            }
            front.runtime.shutdown_background();
        }
    }
}

/// What takes connections; what they ask for has tasks of its own.
async fn vital(name: &str, serve: impl Future<Output = ()>) {
    let _vital = Vital(name.to_owned());
    serve.await;
}

/// Where the HTTP front end's answers come from.
fn answers(behind: &Behind<'_>) -> Answers {
    let source: Arc<dyn Source> = Arc::clone(behind.catalog) as Arc<dyn Source>;
    #[cfg_attr(
        not(feature = "sql"),
        expect(unused_mut, reason = "there is nothing to add")
    )]
    let mut answers = Answers::new(source);
    #[cfg(feature = "sql")]
    {
        answers.sql = Some(behind.engine.clone());
    }
    #[cfg(not(feature = "sql"))]
    let () = behind.engine;
    answers
}

/// The threads of a front end, named after it.
fn front_runtime(name: &str, what: &'static str) -> Result<tokio::runtime::Runtime, StartError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(name)
        .enable_all()
        .build()
        .map_err(|source| StartError::Thread { what, source })
}

/// The one engine of all front ends: what bounds queries bounds those of all together.
#[cfg(feature = "sql")]
pub(super) fn engine(config: &Config, catalog: &Arc<Catalog>) -> Result<FrontEngine, StartError> {
    let sql = &config.sql;
    let settings = SqlSettings {
        threads: sql.threads,
        queries_max: sql.queries_max,
        time_max: sql.time_max,
        memory_max: sql.memory_bytes,
        rows_max: sql.rows_max,
        text_max: sql.text_bytes_max,
        case_insensitive: sql.case_insensitive,
        variables: super::variables::variables(config),
    };
    Engine::new(Arc::clone(catalog), settings).map_err(|source| StartError::Thread {
        what: "the SQL threads",
        source,
    })
}

#[cfg(not(feature = "sql"))]
pub(super) fn engine(_config: &Config, _catalog: &Arc<Catalog>) -> Result<FrontEngine, StartError> {
    Ok(())
}

/// Says so when passwords would cross a network as they are.
fn warn_in_the_clear(config: &Config, section: &str, address: SocketAddr, tls: bool) {
    if !tls && !address.ip().to_canonical().is_loopback() && !config.users.is_empty() {
        warn!(
            %address,
            "Passwords and answers cross the network as they are; {section}.tls_cert and {section}.tls_key would encrypt \
             them."
        );
    }
}

/// Hands a listener to a front end's runtime; also gives its address.
fn listen(
    runtime: &tokio::runtime::Runtime,
    listener: TcpListener,
    what: &'static str,
) -> Result<(tokio::net::TcpListener, SocketAddr), StartError> {
    let _entered = runtime.enter();
    let taken = listener.local_addr().and_then(|bound| {
        listener.set_nonblocking(true)?;
        Ok((tokio::net::TcpListener::from_std(listener)?, bound))
    });
    taken.map_err(|source| StartError::Thread { what, source })
}

/// The memory plan as the page shows it.
fn planned(config: &Config) -> Arc<[Planned]> {
    let lines = MemoryPlan::of(config).lines.into_iter();
    lines
        .map(|line| Planned {
            name: line.name,
            bytes: line.bytes,
            why: line.why,
        })
        .collect()
}
