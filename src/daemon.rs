//! The daemon: all stages built in path order, each on its named threads, and stopped in the same order.
//!
//! ```text
//!   receivers (one a socket) -> ring -> merger -> Live <- catalog <- http, mysql
//! ```
//!
//! [`Daemon::start`] returns once every socket is bound, so what is sent afterwards is received. Stopping goes from
//! the sockets inwards: receivers first, then the merger takes what they left, then the front ends end.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::RwLock;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::access::tls::{Tls, TlsError};
use crate::access::{Access, SecretError, UserStore, Users};
use crate::clock::Clock;
use crate::config::Config;
use crate::http::{self, Answers, HttpSettings};
use crate::ingest::kernel::KernelGauge;
use crate::ingest::socket::{self, ReceiveSocket, SocketError};
use crate::ingest::sources::{Everyone, Sources, Watch};
use crate::ingest::{Inlet, RingPlan, TempRing, receive};
use crate::merger::{Live, Merger, Pulse};
use crate::metrics::Metrics;
#[cfg(feature = "sql")]
use crate::mysql::{self, MySql, MySqlSettings};
use crate::plan::MemoryPlan;
use crate::pool::Pool;
use crate::query::catalog::Catalog;
use crate::query::definitions::{ConfiguredError, Definitions};
use crate::query::source::Source;
use crate::query::status::{SocketStatus, Status};
use crate::report::definition::Defaults;
use crate::report::{Reports, Ticks};
use crate::series::{self, ChoiceError, Series};
use crate::shutdown::Shutdown;
#[cfg(feature = "sql")]
use crate::sql::{Engine, SqlSettings};
use crate::state::{State, StateError};
use crate::telemetry::{Counters, SocketCounters};
use crate::wire::{Decoder, Hasher, NameRules, Rewrite, RuleCounters, TextLimits};

/// What answers SQL.
#[cfg(feature = "sql")]
type FrontEngine = Engine;
/// Nothing does.
#[cfg(not(feature = "sql"))]
type FrontEngine = ();

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A UDP address.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The HTTP address.
    #[error(
        "http.listen: cannot listen on {address}: {source}; change `http.listen` or use --http"
    )]
    Http {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The address of the MySQL wire.
    #[error(
        "mysql.listen: cannot listen on {address}: {source}; change `mysql.listen` or use --mysql"
    )]
    MySql {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A report of the configuration.
    #[error(transparent)]
    Report(#[from] ConfiguredError),
    /// The secrets of a user.
    #[error(transparent)]
    User(#[from] SecretError),
    /// Certificate or key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A list of reports.
    #[error("{key}: {source}")]
    Choice {
        /// The setting.
        key: &'static str,
        /// What is wrong with it.
        source: ChoiceError,
    },
    /// The folder of what survives a restart.
    #[error(transparent)]
    State(#[from] StateError),
    /// A thread or the runtime.
    #[error("cannot start {what}: {source}")]
    Thread {
        /// What was to be started.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
}

/// A running daemon. Dropping it stops it.
#[derive(Debug)]
pub struct Daemon {
    udp: Vec<SocketAddr>,
    http: Option<SocketAddr>,
    mysql: Option<SocketAddr>,
    catalog: Arc<Catalog>,
    users: Arc<UserStore>,
    shutdown: Shutdown,
    receivers: Vec<JoinHandle<()>>,
    merger_stop: Shutdown,
    merger: Option<JoinHandle<()>>,
    series: Option<Series>,
    metrics: Metrics,
    filler_stop: Shutdown,
    filler: Option<JoinHandle<()>>,
    /// Ends the front ends.
    stop_fronts: watch::Sender<bool>,
    fronts: Vec<Front>,
}

/// A front end: its task, on a runtime of its own.
#[derive(Debug)]
struct Front {
    name: &'static str,
    task: tokio::task::JoinHandle<()>,
    runtime: tokio::runtime::Runtime,
}

impl Daemon {
    /// Builds every stage and starts its threads.
    ///
    /// # Errors
    /// When an address cannot be had, a configured report cannot be, `state.dir` cannot be used, or the system gives no
    /// thread; whatever had been started is stopped again.
    pub fn start(config: &Config, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let defaults = defaults(config);
        let mut definitions = Definitions::new(&config.configured_reports, &defaults)?;
        let users = Users::load(&config.users, |name| std::env::var_os(name))?;
        let users = Arc::new(UserStore::new(users, Arc::clone(&clock)));
        let receivers = config.ingest.receivers;
        let buffer = config.ingest.recv_buffer_bytes;
        let sockets = socket::open(&config.ingest.listen, receivers, buffer)?;
        // After the sockets: a second daemon of one configuration is to hear of its port.
        let state = open_state(config, &*clock, &mut definitions, &defaults)?;
        log_start(config, &sockets);

        let past = Past::of(config, &definitions)?;

        let hasher = Hasher::new();
        let counters = Counters::new(sockets.len());
        let plan = RingPlan::new(
            config.ingest.temp_pool_size,
            config.ingest.temp_pool_bytes,
            sockets.len(),
        );
        let (ring, inlets, outlet) = TempRing::new(plan, &counters.sockets);
        let history = Ticks::of(config.pool.stats_history);
        let pool = Pool::new(&config.pool, hasher.clone());
        let mut reports = Reports::new(&config.reports, history);
        reports.define_at_start(definitions.reports, &pool, clock.mono_ms());
        let live = Arc::new(RwLock::new(Live::new(pool, reports, history)));
        let pulse = Arc::new(Pulse::default());
        let rule_counters = Arc::new(RuleCounters::new(config.rewrites.len()));
        let watched = config.ingest.watches_sources();
        let sources =
            watched.then(|| Sources::new(&config.ingest.allow, config.ingest.source_rate_max));
        let status = Status {
            sockets: sockets
                .iter()
                .zip(&counters.sockets)
                .map(|(socket, counters)| SocketStatus {
                    address: socket.address,
                    gauge: KernelGauge::new(Arc::clone(&socket.socket), Arc::clone(counters)),
                })
                .collect(),
            counters: counters.clone(),
            sources: sources.clone(),
            users: Arc::clone(&users),
            ring,
            temp_pool_size: config.ingest.temp_pool_size,
            gathering_period: config.ingest.stats_gathering_period,
            rewrites: config.rewrites.clone(),
            rule_counters: Arc::clone(&rule_counters),
        };
        let catalog = Catalog::new(
            Arc::clone(&live),
            Arc::clone(&clock),
            defaults,
            config.pool.request_pool_size > 0,
            status,
            Arc::clone(&pulse),
        );
        let catalog = Arc::new(catalog.keeping(definitions.tables, state));

        let metrics = past.metrics;
        let feed = series::Feed {
            live: Arc::clone(&live),
            pulse: Arc::clone(&pulse),
            clock: Arc::clone(&clock),
        };
        let (series, filler) = Series::new(past.plan, feed);

        let mut daemon = Self {
            udp: sockets.iter().map(|socket| socket.address).collect(),
            http: None,
            mysql: None,
            catalog,
            users,
            shutdown: Shutdown::new(),
            receivers: Vec::new(),
            merger_stop: Shutdown::new(),
            merger: None,
            stop_fronts: watch::Sender::new(false),
            fronts: Vec::new(),
            series: (config.series.memory_bytes > 0).then_some(series),
            metrics,
            filler_stop: Shutdown::new(),
            filler: None,
        };
        daemon.udp.dedup();
        let merger = Merger {
            outlet,
            live,
            counters: Arc::clone(&counters.merge),
            pulse,
            clock: Arc::clone(&clock),
            period: config.ingest.stats_gathering_period,
        };
        // Front ends first: an address that is taken ends the start before anything is received.
        let engine = engine(config, &daemon.catalog)?;
        daemon.start_http(config, &engine)?;
        daemon.start_mysql(config, &engine, &counters)?;
        daemon.start_merger(merger)?;
        daemon.start_filler(filler)?;
        let limits = TextLimits::new(
            config.ingest.text_bytes_max,
            config.ingest.script_name_bytes_max,
        );
        for (index, (socket, inlet)) in sockets.into_iter().zip(inlets).enumerate() {
            let hasher = hasher.clone();
            let receiver = Receiver {
                index,
                socket,
                inlet,
                counters: Arc::clone(&counters.sockets[index]),
                clock: Arc::clone(&clock),
                sources: sources.clone(),
            };
            if config.rewrites.is_empty() {
                daemon.start_receiver(receiver, Decoder::new(limits, hasher))?;
            } else {
                let shared = Arc::clone(&rule_counters);
                let rules = NameRules::new(&config.rewrites, hasher.clone(), shared);
                let decoder = Decoder::with_rules(limits, hasher, rules);
                daemon.start_receiver(receiver, decoder)?;
            }
        }
        Ok(daemon)
    }

    fn start_receiver(
        &mut self,
        receiver: Receiver,
        decoder: Decoder<impl Rewrite + Send + 'static>,
    ) -> Result<(), StartError> {
        let shutdown = self.shutdown.clone();
        let thread = std::thread::Builder::new()
            .name(format!("receive-{}", receiver.index))
            .spawn(move || receiver.run(decoder, &shutdown))
            .map_err(|source| StartError::Thread {
                what: "a receiver thread",
                source,
            })?;
        self.receivers.push(thread);
        Ok(())
    }

    fn start_merger(&mut self, merger: Merger) -> Result<(), StartError> {
        let stop = self.merger_stop.clone();
        let thread = std::thread::Builder::new()
            .name("merge".to_owned())
            .spawn(move || merger.run(&stop))
            .map_err(|source| StartError::Thread {
                what: "the merger thread",
                source,
            })?;
        self.merger = Some(thread);
        Ok(())
    }

    fn start_filler(&mut self, filler: series::Filler) -> Result<(), StartError> {
        let thread = filler.start(&self.filler_stop);
        self.filler = Some(thread.map_err(|source| StartError::Thread {
            what: "the series thread",
            source,
        })?);
        Ok(())
    }

    fn start_http(&mut self, config: &Config, engine: &FrontEngine) -> Result<(), StartError> {
        let Some(address) = config.http.listen else {
            return Ok(());
        };
        let runtime = front_runtime("http", "the HTTP threads")?;
        let (listener, bound) =
            listen(&runtime, address).map_err(|source| StartError::Http { address, source })?;
        let answers = self.answers(engine);
        let tls = config.http.tls.as_ref().map(Tls::load).transpose()?;
        let tls = tls.map(Arc::new);
        warn_in_the_clear(config, "http", address, tls.is_some());
        let mut names = config.host_names.clone();
        names.push(address.ip().to_string());
        let settings = HttpSettings {
            access: Access::new(Arc::clone(&self.users), config.http.allow_anonymous),
            tls,
            open_health: config.open_health,
            series: self.series.clone(),
            metrics: self.metrics.clone(),
            ..HttpSettings::new(names)
        };
        let task = runtime.spawn(http::serve(listener, answers, settings, self.stopped()));
        self.fronts.push(Front {
            name: "HTTP",
            task,
            runtime,
        });
        self.http = Some(bound);
        info!(address = %bound, tls = config.http.tls.is_some(), "Listening for HTTP.");
        Ok(())
    }

    /// Where the HTTP front end's answers come from.
    fn answers(&self, engine: &FrontEngine) -> Answers {
        let source: Arc<dyn Source> = Arc::clone(&self.catalog) as Arc<dyn Source>;
        #[cfg_attr(
            not(feature = "sql"),
            expect(unused_mut, reason = "there is nothing to add")
        )]
        let mut answers = Answers::new(source);
        #[cfg(feature = "sql")]
        {
            answers.sql = Some(engine.clone());
        }
        #[cfg(not(feature = "sql"))]
        let () = engine;
        answers
    }

    #[cfg(feature = "sql")]
    fn start_mysql(
        &mut self,
        config: &Config,
        engine: &FrontEngine,
        counters: &Counters,
    ) -> Result<(), StartError> {
        let Some(address) = config.mysql.listen else {
            return Ok(());
        };
        let runtime = front_runtime("mysql", "the threads of the MySQL wire")?;
        let (listener, bound) =
            listen(&runtime, address).map_err(|source| StartError::MySql { address, source })?;
        let tls = config.mysql.tls.as_ref().map(Tls::load).transpose()?;
        let tls = tls.map(Arc::new);
        warn_in_the_clear(config, "mysql", address, tls.is_some());
        let settings = MySqlSettings {
            access: Access::new(Arc::clone(&self.users), config.mysql.allow_anonymous),
            tls,
            connections_max: config.mysql_limits.connections_max,
            idle_max: config.mysql_limits.idle_max,
            packet_max: config.mysql_limits.packet_bytes_max,
            statements_max: config.mysql_limits.statements_max,
            memory_max: config.mysql_limits.memory_bytes,
            ..MySqlSettings::default()
        };
        let service = MySql::new(engine.clone(), settings, Arc::clone(&counters.mysql));
        let task = runtime.spawn(mysql::serve(listener, service, self.stopped()));
        self.fronts.push(Front {
            name: "MySQL",
            task,
            runtime,
        });
        self.mysql = Some(bound);
        info!(address = %bound, tls = config.mysql.tls.is_some(), "Listening for MySQL clients.");
        Ok(())
    }

    #[cfg(not(feature = "sql"))]
    #[expect(clippy::unnecessary_wraps, reason = "with SQL it can fail")]
    fn start_mysql(
        &mut self,
        config: &Config,
        (): &FrontEngine,
        _counters: &Counters,
    ) -> Result<(), StartError> {
        if let Some(address) = config.mysql.listen {
            info!(%address, "Not listening for MySQL clients: this program was built without SQL.");
        }
        Ok(())
    }

    /// Done when the front ends are to stop.
    fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stopped = self.stop_fronts.subscribe();
        async move {
            // An error means that the daemon is gone, which is a stop too.
            let _gone = stopped.wait_for(|stop| *stop).await;
        }
    }

    /// The UDP addresses that are bound, with real ports.
    #[must_use]
    pub fn udp_addresses(&self) -> &[SocketAddr] {
        &self.udp
    }

    /// The HTTP address that is bound, with its real port.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// The users of all front ends; who they are can be replaced while the daemon runs.
    #[must_use]
    pub fn users(&self) -> &Arc<UserStore> {
        &self.users
    }

    /// The address of the MySQL wire that is bound, with its real port.
    #[must_use]
    pub fn mysql_address(&self) -> Option<SocketAddr> {
        self.mysql
    }

    /// What the front ends read from.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The last hour; `None`: not kept.
    #[must_use]
    pub fn series(&self) -> Option<&Series> {
        self.series.as_ref()
    }

    /// Stops every stage and waits for it.
    pub fn stop(mut self) {
        self.stop_all();
    }

    fn stop_all(&mut self) {
        self.shutdown.request();
        for thread in self.receivers.drain(..) {
            join(thread);
        }
        self.merger_stop.request();
        if let Some(thread) = self.merger.take() {
            join(thread);
        }
        // After the merger: what it took in last is counted too.
        self.filler_stop.request();
        if let Some(thread) = self.filler.take() {
            join(thread);
        }
        self.stop_fronts.send_replace(true);
        for front in self.fronts.drain(..) {
            if front.runtime.block_on(front.task).is_err() {
                warn!(front = front.name, "A front end ended in a panic.");
            }
            front.runtime.shutdown_background();
        }
        self.catalog.close();
    }
}

/// What one receiver thread is started with.
struct Receiver {
    index: usize,
    socket: ReceiveSocket,
    inlet: Inlet,
    counters: Arc<SocketCounters>,
    clock: Arc<dyn Clock>,
    sources: Option<Arc<Sources>>,
}

impl Receiver {
    fn run(self, decoder: Decoder<impl Rewrite>, shutdown: &Shutdown) {
        let (socket, inlet, counters) = (&self.socket, self.inlet, &self.counters);
        match self.sources.map(Watch::new) {
            Some(watch) => receive::run(
                socket,
                watch,
                decoder,
                inlet,
                counters,
                &*self.clock,
                shutdown,
            ),
            None => receive::run(
                socket,
                Everyone,
                decoder,
                inlet,
                counters,
                &*self.clock,
                shutdown,
            ),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop_all();
    }
}

fn join(thread: JoinHandle<()>) {
    let name = thread.thread().name().unwrap_or("thread").to_owned();
    if thread.join().is_err() {
        warn!(thread = name, "A thread ended in a panic.");
    }
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
fn engine(config: &Config, catalog: &Arc<Catalog>) -> Result<FrontEngine, StartError> {
    let sql = &config.sql;
    let settings = SqlSettings {
        threads: sql.threads,
        queries_max: sql.queries_max,
        time_max: sql.time_max,
        memory_max: sql.memory_bytes,
        rows_max: sql.rows_max,
        text_max: sql.text_bytes_max,
        ..SqlSettings::default()
    };
    Engine::new(Arc::clone(catalog), settings).map_err(|source| StartError::Thread {
        what: "the SQL threads",
        source,
    })
}

#[cfg(not(feature = "sql"))]
#[expect(clippy::unnecessary_wraps, reason = "with SQL it can fail")]
fn engine(_config: &Config, _catalog: &Arc<Catalog>) -> Result<FrontEngine, StartError> {
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

/// Binds a front end's address; also gives it with its real port.
fn listen(
    runtime: &tokio::runtime::Runtime,
    address: SocketAddr,
) -> std::io::Result<(tokio::net::TcpListener, SocketAddr)> {
    let listener = runtime.block_on(tokio::net::TcpListener::bind(address))?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// The last hour and the metrics, before there is anything to fill them from.
struct Past {
    plan: series::Plan,
    metrics: Metrics,
}

impl Past {
    fn of(config: &Config, definitions: &Definitions) -> Result<Self, StartError> {
        let chosen = |key: &'static str, names: &[String]| {
            let everything = std::iter::once(series::EVERYTHING.to_owned());
            let names: Vec<String> = everything.chain(names.iter().cloned()).collect();
            series::chosen(&names, &definitions.reports)
                .map_err(|source| StartError::Choice { key, source })
        };
        let shown = chosen("metrics.reports", &config.metrics.reports)?;
        let mut reports = chosen("series.reports", &config.series.reports)?;
        if config.series.memory_bytes == 0 {
            reports.clear();
        }
        for definition in &shown {
            if reports.iter().all(|known| known.name != definition.name) {
                reports.push(definition.clone());
            }
        }
        let metrics = &config.metrics;
        let metrics = Metrics::new(&shown, &metrics.buckets, metrics.series_max);
        Ok(Self {
            plan: series::Plan {
                reports,
                memory: config.series.memory_bytes,
                error_status: config.reports.error_status,
                keeps_raw: config.pool.request_pool_size > 0,
                sinks: vec![metrics.sink()],
            },
            metrics,
        })
    }
}

/// Finds out whether what a configuration says of reports can be, without starting anything.
///
/// # Errors
/// The first thing that cannot be.
pub fn check(config: &Config) -> Result<(), StartError> {
    let definitions = Definitions::new(&config.configured_reports, &defaults(config))?;
    Past::of(config, &definitions).map(|_| ())
}

/// What report definitions take from the configuration.
#[must_use]
pub fn defaults(config: &Config) -> Defaults {
    let length = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX);
    Defaults {
        history: config.pool.stats_history,
        script_name_bytes_max: length(config.ingest.script_name_bytes_max),
        text_bytes_max: length(config.ingest.text_bytes_max),
        ..Defaults::default()
    }
}

/// Where to send so that it arrives at `bound` on this machine.
#[must_use]
pub fn local(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// Opens `state.dir`, where one is configured, and adds what is kept there.
fn open_state(
    config: &Config,
    clock: &dyn Clock,
    definitions: &mut Definitions,
    defaults: &Defaults,
) -> Result<Option<State>, StateError> {
    let Some(dir) = &config.state_dir else {
        return Ok(None);
    };
    let state = State::open(dir, clock.unix_secs())?;
    for left_out in definitions.add_kept(state.reports(), defaults) {
        warn!(
            report = left_out.name,
            reason = left_out.reason,
            dir = %dir.display(),
            "Left out a report that was made at run time; it stays in state.dir."
        );
    }
    let reports = state.reports().len();
    info!(dir = %dir.display(), reports, "Keeping the reports that are made at run time.");
    Ok(Some(state))
}

fn log_start(config: &Config, sockets: &[ReceiveSocket]) {
    for socket in sockets {
        let buffer = &socket.buffer;
        info!(
            address = %socket.address,
            asked_bytes = buffer.asked_bytes,
            granted_bytes = buffer.granted_bytes,
            "Receiving."
        );
        if buffer.granted_bytes < buffer.asked_bytes {
            warn!(
                granted_bytes = buffer.granted_bytes,
                "The receive buffer is smaller than asked for: raise net.core.rmem_max, or give the \
                 process CAP_NET_ADMIN."
            );
        }
    }
    MemoryPlan::of(config).log();
}
