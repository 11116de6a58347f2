//! The daemon: all stages built in path order, each on its named threads, and stopped in the same order.
//!
//! ```text
//!   receivers (one a socket) -> ring -> merger -> Live <- catalog <- http, mysql
//! ```
//!
//! [`Daemon::start`] returns once every socket is bound, so what is sent afterwards is received. Receivers run while the
//! snapshot is still being read: what comes in meanwhile waits in the temporary ring. Stopping goes from the sockets
//! inwards: receivers first, then the merger takes what they left, then the front ends end, then the snapshot is written.
//! A panic on one of these threads ends the process (`threads`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::RwLock;

use self::beginning::{Beginning, Past};
use self::fronts::{Behind, Fronts, NewCertificate};
use self::receivers::{Receiver, Receivers};
use self::threads::{join, spawn};
use crate::access::tls::{self, TlsError};
use crate::access::{SecretError, UserStore, Users};
use crate::clock::Clock;
use crate::config::Config;
use crate::handed::{Handed, HandedError};
use crate::ingest::socket::SocketError;
use crate::ingest::sources::Sources;
use crate::ingest::{RingPlan, TempRing};
use crate::merger::{GatheringPeriod, Merger, Pulse};
use crate::metrics::Metrics;
use crate::query::catalog::Catalog;
use crate::query::definitions::{ConfiguredError, Definitions};
use crate::query::status::Status;
use crate::report::definition::Defaults;
use crate::series::{self, ChoiceError, Series};
use crate::shutdown::Shutdown;
use crate::state::counters::SocketName;
use crate::state::keeper::{self, Keeper, Snapshots};
use crate::state::{self, StateError};
use crate::telemetry::Counters;
use crate::wire::{Decoder, Hasher, NameRules, RuleCounters, TextLimits};

mod beginning;
mod fronts;
mod receivers;
mod threads;
#[cfg(feature = "sql")]
mod variables;

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
    /// A socket that was handed over.
    #[error(transparent)]
    Handed(#[from] HandedError),
    /// A thread or the runtime.
    #[error("cannot start {what}: {source}")]
    Thread {
        /// What was to be started.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
}

impl StartError {
    /// Whether it is the configuration that has to change, and not the machine.
    #[must_use]
    pub const fn is_configuration(&self) -> bool {
        match self {
            Self::Report(_) | Self::User(_) | Self::Tls(_) | Self::Choice { .. } => true,
            Self::State(error) => matches!(error, StateError::NotAFolder { .. }),
            Self::Socket(_)
            | Self::Http { .. }
            | Self::MySql { .. }
            | Self::Handed(_)
            | Self::Thread { .. } => false,
        }
    }
}

/// A running daemon. Dropping it stops it.
#[derive(Debug)]
pub struct Daemon {
    udp: Vec<SocketAddr>,
    http: Option<SocketAddr>,
    mysql: Option<SocketAddr>,
    catalog: Arc<Catalog>,
    users: Arc<UserStore>,
    receivers: Receivers,
    gathering: Arc<GatheringPeriod>,
    merger_stop: Shutdown,
    merger: Option<JoinHandle<()>>,
    series: Option<Series>,
    metrics: Metrics,
    filler_stop: Shutdown,
    filler: Option<JoinHandle<()>>,
    keeper: Option<Arc<Keeper>>,
    keeper_stop: Shutdown,
    keeping: Option<JoinHandle<()>>,
    fronts: Fronts,
}

impl Daemon {
    /// Builds every stage and starts its threads.
    ///
    /// # Errors
    /// When an address cannot be had, a configured report cannot be, `state.dir` cannot be used, or the system gives no
    /// thread; whatever had been started is stopped again.
    pub fn start(config: &Config, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        Self::start_with(config, clock, Handed::default())
    }

    /// The same with sockets that somebody else opened, which take the place of those of the configuration.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(
        config: &Config,
        clock: Arc<dyn Clock>,
        handed: Handed,
    ) -> Result<Self, StartError> {
        let defaults = defaults(config);
        let mut definitions = Definitions::new(&config.configured_reports, &defaults)?;
        let users = Users::load(&config.users, |name| std::env::var_os(name))?;
        let past = Past::of(config, &definitions)?;
        let sockets = beginning::open_sockets(config, handed.udp)?;
        // After the sockets: a second daemon of one configuration is to hear of its port.
        let state = beginning::open_state(config, &*clock, &mut definitions, &defaults)?;
        // And the addresses of the front ends: one that is taken ends the start before anything is received.
        let http = beginning::open_front(config.http.listen, handed.http)
            .map_err(|(address, source)| StartError::Http { address, source })?;
        let mysql = beginning::open_front(config.mysql.listen, handed.mysql)
            .map_err(|(address, source)| StartError::MySql { address, source })?;
        beginning::log_start(config, &sockets);

        let dir = config.state_dir.as_deref();
        let found = dir.and_then(|dir| keeper::find(dir, clock.unix_secs()));
        let clock = beginning::continued(clock, found.as_ref());
        let users = Arc::new(UserStore::new(users, Arc::clone(&clock)));
        let hasher = Hasher::new();
        let counters = Counters::new(sockets.len());
        beginning::go_on_counting(&counters, &sockets, found.as_ref());
        let plan = RingPlan::new(
            config.ingest.temp_pool_size,
            config.ingest.temp_pool_bytes,
            sockets.len(),
        );
        let (ring, inlets, outlet) = TempRing::new(plan, &counters.sockets);
        let rule_counters = Arc::new(RuleCounters::new(config.rewrites.len()));
        let mut udp: Vec<_> = sockets.iter().map(|socket| socket.address).collect();
        udp.dedup();
        let names = sockets.iter().map(SocketName::of).collect();
        let status_sockets = beginning::socket_statuses(&sockets, &counters);
        let watched = config.ingest.watches_sources();
        let sources =
            watched.then(|| Sources::new(&config.ingest.allow, config.ingest.source_rate_max));
        let mut receivers = Receivers::default();
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
                receivers.start(receiver, Decoder::new(limits, hasher))?;
            } else {
                let shared = Arc::clone(&rule_counters);
                let rules = NameRules::new(&config.rewrites, hasher.clone(), shared);
                let decoder = Decoder::with_rules(limits, hasher, rules);
                receivers.start(receiver, decoder)?;
            }
        }

        let snapshots = dir.map(|dir| Snapshots::new(dir, config.snapshot_period));
        let beginning = Beginning {
            config,
            hasher: &hasher,
            clock: &*clock,
            reports: definitions.reports,
        };
        let live = Arc::new(RwLock::new(
            beginning.live(found, snapshots.as_deref().zip(dir)),
        ));
        let pulse = Arc::new(Pulse::new(clock.mono_ms()));
        let gathering = Arc::new(GatheringPeriod::new(config.ingest.stats_gathering_period));
        let status = Status {
            sockets: status_sockets,
            counters: counters.clone(),
            sources,
            users: Arc::clone(&users),
            ring,
            temp_pool_size: config.ingest.temp_pool_size,
            gathering_period: Arc::clone(&gathering),
            rewrites: config.rewrites.clone(),
            rule_counters,
            snapshots: snapshots.clone(),
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
        let keeper = snapshots.map(|snapshots| {
            Arc::new(Keeper {
                snapshots,
                live: Arc::clone(&live),
                counters: counters.clone(),
                sockets: names,
                clock: Arc::clone(&clock),
            })
        });
        let feed = series::Feed {
            live: Arc::clone(&live),
            pulse: Arc::clone(&pulse),
            clock: Arc::clone(&clock),
        };
        let (series, filler) = Series::new(past.plan, feed);
        let mut daemon = Self {
            udp,
            http: None,
            mysql: None,
            catalog,
            users,
            receivers,
            gathering: Arc::clone(&gathering),
            merger_stop: Shutdown::new(),
            merger: None,
            // Set when all runs: a start that fails half way writes nothing.
            keeper: None,
            keeper_stop: Shutdown::new(),
            keeping: None,
            series: (config.series.memory_bytes > 0).then_some(series),
            metrics: past.metrics,
            filler_stop: Shutdown::new(),
            filler: None,
            fronts: Fronts::new(),
        };
        let behind = Behind {
            config,
            catalog: &daemon.catalog,
            users: &daemon.users,
            series: daemon.series.clone(),
            metrics: daemon.metrics.clone(),
            engine: fronts::engine(config, &daemon.catalog)?,
            #[cfg(feature = "sql")]
            counters: &counters,
        };
        if let Some(listener) = http {
            daemon.http = Some(daemon.fronts.start_http(&behind, listener)?);
        }
        if let Some(listener) = mysql {
            daemon.mysql = Some(daemon.fronts.start_mysql(&behind, listener)?);
        }
        daemon.start_merger(Merger {
            outlet,
            live,
            counters: Arc::clone(&counters.merge),
            pulse,
            clock,
            period: gathering,
        })?;
        let stop = daemon.filler_stop.clone();
        let fill = move || filler.run(&stop);
        daemon.filler = Some(spawn("series", "the series thread", fill)?);
        daemon.start_keeper(keeper)?;
        Ok(daemon)
    }

    fn start_keeper(&mut self, keeper: Option<Arc<Keeper>>) -> Result<(), StartError> {
        if let Some(keeper) = &keeper {
            let (keeper, stop) = (Arc::clone(keeper), self.keeper_stop.clone());
            let thread = spawn("snapshot", "the snapshot thread", move || keeper.run(&stop))?;
            self.keeping = Some(thread);
        }
        self.keeper = keeper;
        Ok(())
    }

    fn start_merger(&mut self, merger: Merger) -> Result<(), StartError> {
        let stop = self.merger_stop.clone();
        let thread = spawn("merge", "the merger thread", move || merger.run(&stop))?;
        self.merger = Some(thread);
        Ok(())
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

    /// The address of the MySQL wire that is bound, with its real port.
    #[must_use]
    pub fn mysql_address(&self) -> Option<SocketAddr> {
        self.mysql
    }

    /// What the files of `tls_cert` and `tls_key` hold now, as after a renewal; nothing changes yet.
    pub(crate) fn read_certificates(&self) -> Result<Vec<NewCertificate>, TlsError> {
        self.fronts.read_certificates()
    }

    /// The users of all front ends; who they are can be replaced while the daemon runs.
    #[must_use]
    pub fn users(&self) -> &Arc<UserStore> {
        &self.users
    }

    /// The last hour; `None`: not kept.
    #[must_use]
    pub fn series(&self) -> Option<&Series> {
        self.series.as_ref()
    }

    /// What the front ends read from.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// How often the merger runs.
    #[must_use]
    pub fn gathering(&self) -> &GatheringPeriod {
        &self.gathering
    }

    /// Where snapshots are kept, if they are.
    #[must_use]
    pub fn snapshots(&self) -> Option<&Arc<Snapshots>> {
        self.keeper.as_ref().map(|keeper| &keeper.snapshots)
    }

    /// Stops every stage and waits for it, then writes the snapshot.
    ///
    /// # Errors
    /// When it cannot be written; everything has stopped all the same.
    pub fn stop(mut self) -> std::io::Result<()> {
        self.stop_all()
    }

    fn stop_all(&mut self) -> std::io::Result<()> {
        self.receivers.stop();
        // One that is being written right now is given up: the last one will have more.
        self.keeper_stop.request();
        self.merger_stop.request();
        if let Some(thread) = self.merger.take() {
            join(thread);
        }
        // After the merger: what it took in last is counted too.
        self.filler_stop.request();
        if let Some(thread) = self.filler.take() {
            join(thread);
        }
        self.fronts.stop();
        if let Some(thread) = self.keeping.take() {
            join(thread);
        }
        let last = |keeper: Arc<Keeper>| keeper.save(&Shutdown::new());
        let saved = self.keeper.take().map_or(Ok(()), last);
        self.catalog.close();
        saved
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // What went wrong is in the log.
        let _logged = self.stop_all();
    }
}

/// Finds out whether a start can make use of what a configuration names: reports, secrets, certificates, a `state.dir` that
/// is no file. Starts nothing and binds nothing.
///
/// # Errors
/// Everything that it cannot make use of.
pub fn check(config: &Config) -> Result<(), Vec<StartError>> {
    let mut errors = Vec::new();
    match Definitions::new(&config.configured_reports, &defaults(config)) {
        Ok(definitions) => errors.extend(Past::of(config, &definitions).err()),
        Err(error) => errors.push(error.into()),
    }
    let users = Users::load(&config.users, |name| std::env::var_os(name));
    errors.extend(users.err().map(StartError::from));
    for files in [&config.http.tls, &config.mysql.tls].into_iter().flatten() {
        errors.extend(tls::acceptor(files).err().map(StartError::from));
    }
    // Who looks need not be who will serve: what is a matter of rights is left to `doctor`.
    if let Some(Err(error @ StateError::NotAFolder { .. })) =
        config.state_dir.as_deref().map(state::look)
    {
        errors.push(error.into());
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
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
