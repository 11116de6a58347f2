//! The daemon: all stages built in path order, each on its named threads, and stopped in the same order.
//!
//! ```text
//!   receivers (one a socket) -> ring -> merger -> Live <- catalog <- http
//! ```
//!
//! [`Daemon::start`] returns once every socket is bound, so what is sent afterwards is received. Stopping goes from
//! the sockets inwards: receivers first, then the merger takes what they left, then the front ends end.

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
use crate::ingest::{Inlet, RingPlan, TempRing, receive};
use crate::merger::{Live, Merger, Pulse};
use crate::plan::MemoryPlan;
use crate::pool::Pool;
use crate::query::catalog::Catalog;
use crate::query::definitions::{ConfiguredError, Definitions};
use crate::query::source::Source;
use crate::query::status::{SocketStatus, Status};
use crate::report::definition::Defaults;
use crate::report::{Reports, Ticks};
use crate::shutdown::Shutdown;
#[cfg(feature = "sql")]
use crate::sql::{Engine, SqlSettings};
use crate::state::{State, StateError};
use crate::telemetry::Counters;
use crate::wire::{Decoder, Hasher, NameRules, Rewrite, RuleCounters, TextLimits};

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
    /// A report of the configuration.
    #[error(transparent)]
    Report(#[from] ConfiguredError),
    /// The secrets of a user.
    #[error(transparent)]
    User(#[from] SecretError),
    /// Certificate or key.
    #[error(transparent)]
    Tls(#[from] TlsError),
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
    catalog: Arc<Catalog>,
    users: Arc<UserStore>,
    shutdown: Shutdown,
    receivers: Vec<JoinHandle<()>>,
    merger_stop: Shutdown,
    merger: Option<JoinHandle<()>>,
    http_stop: watch::Sender<bool>,
    http_task: Option<tokio::task::JoinHandle<()>>,
    runtime: Option<tokio::runtime::Runtime>,
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

        let mut daemon = Self {
            udp: sockets.iter().map(|socket| socket.address).collect(),
            http: None,
            catalog,
            users,
            shutdown: Shutdown::new(),
            receivers: Vec::new(),
            merger_stop: Shutdown::new(),
            merger: None,
            http_stop: watch::Sender::new(false),
            http_task: None,
            runtime: None,
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
        daemon.start_http(config)?;
        daemon.start_merger(merger)?;
        let limits = TextLimits::new(
            config.ingest.text_bytes_max,
            config.ingest.script_name_bytes_max,
        );
        for (index, (socket, inlet)) in sockets.into_iter().zip(inlets).enumerate() {
            let hasher = hasher.clone();
            if config.rewrites.is_empty() {
                let decoder = Decoder::new(limits, hasher);
                daemon.start_receiver(index, socket, decoder, inlet, &counters, &clock)?;
            } else {
                let shared = Arc::clone(&rule_counters);
                let rules = NameRules::new(&config.rewrites, hasher.clone(), shared);
                let decoder = Decoder::with_rules(limits, hasher, rules);
                daemon.start_receiver(index, socket, decoder, inlet, &counters, &clock)?;
            }
        }
        Ok(daemon)
    }

    fn start_receiver(
        &mut self,
        index: usize,
        socket: ReceiveSocket,
        decoder: Decoder<impl Rewrite + Send + 'static>,
        inlet: Inlet,
        counters: &Counters,
        clock: &Arc<dyn Clock>,
    ) -> Result<(), StartError> {
        let counters = Arc::clone(&counters.sockets[index]);
        let clock = Arc::clone(clock);
        let shutdown = self.shutdown.clone();
        let thread = std::thread::Builder::new()
            .name(format!("receive-{index}"))
            .spawn(move || {
                receive::run(&socket, decoder, inlet, &counters, &*clock, &shutdown);
            })
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

    fn start_http(&mut self, config: &Config) -> Result<(), StartError> {
        let Some(address) = config.http.listen else {
            return Ok(());
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("http")
            .enable_all()
            .build()
            .map_err(|source| StartError::Thread {
                what: "the HTTP threads",
                source,
            })?;
        let refused = |source| StartError::Http { address, source };
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind(address))
            .map_err(refused)?;
        let bound = listener.local_addr().map_err(refused)?;
        let answers = self.answers(config)?;
        let mut stopped = self.http_stop.subscribe();
        let stop = async move {
            // An error means that the daemon is gone, which is a stop too.
            let _gone = stopped.wait_for(|stop| *stop).await;
        };
        let tls = config.http.tls.as_ref().map(Tls::load).transpose()?;
        let tls = tls.map(Arc::new);
        let in_the_clear = tls.is_none() && !address.ip().to_canonical().is_loopback();
        if in_the_clear && !config.users.is_empty() {
            warn!(
                %address,
                "Passwords and tokens for HTTP cross the network as they are; http.tls_cert and http.tls_key would \
                 encrypt them."
            );
        }
        let mut names = config.host_names.clone();
        names.push(address.ip().to_string());
        let settings = HttpSettings {
            access: Access::new(Arc::clone(&self.users), config.http.allow_anonymous),
            tls,
            open_health: config.open_health,
            ..HttpSettings::new(names)
        };
        self.http_task = Some(runtime.spawn(http::serve(listener, answers, settings, stop)));
        self.http = Some(bound);
        self.runtime = Some(runtime);
        info!(address = %bound, tls = config.http.tls.is_some(), "Listening for HTTP.");
        Ok(())
    }

    /// Where the HTTP front end's answers come from.
    fn answers(&self, config: &Config) -> Result<Answers, StartError> {
        let source: Arc<dyn Source> = Arc::clone(&self.catalog) as Arc<dyn Source>;
        #[cfg_attr(
            not(feature = "sql"),
            expect(unused_mut, reason = "there is nothing to add")
        )]
        let mut answers = Answers::new(source);
        let _settings = config;
        #[cfg(feature = "sql")]
        {
            let engine = Engine::new(Arc::clone(&self.catalog), SqlSettings::default());
            answers.sql = Some(engine.map_err(|source| StartError::Thread {
                what: "the SQL threads",
                source,
            })?);
        }
        Ok(answers)
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

    /// What the front ends read from.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
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
        self.http_stop.send_replace(true);
        if let (Some(runtime), Some(task)) = (self.runtime.take(), self.http_task.take()) {
            if runtime.block_on(task).is_err() {
                warn!("The HTTP front end ended in a panic.");
            }
            runtime.shutdown_background();
        }
        self.catalog.close();
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
