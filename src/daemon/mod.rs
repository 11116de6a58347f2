//! The daemon: builds all stages in path order, each on its named threads, and stops them in the
//! same order.
//!
//! ```text
//!   receivers (one a socket) -> ring -> merger -> Live <- catalog <- http, mysql
//! ```
//!
//! [`Daemon::start`] returns once every socket is bound, so packets sent afterwards are received.
//! Receivers run while the snapshot is still being read: packets wait in the temporary ring
//! meanwhile. Stopping goes from the sockets inwards: receivers first, then the merger drains the
//! ring, then history is written, then the front ends end, then the snapshot is written. A panic on
//! one of these threads ends the process (`threads`).

use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tracing::warn;

pub use self::error::{Misconfigured, StartError};
use self::frontends::{Frontends, Served};
use self::history::OpenHistory;
use self::opened::Opened;
use self::profile::RunningProfile;
use self::receivers::Receivers;
use self::startup::Startup;
use self::threads::Worker;
use crate::access::tls::Certificates;
use crate::access::{UserStore, Users};
use crate::alert::{Alerts, Rules};
use crate::clock::{Clock, why_clock_behind};
use crate::config::Config;
use crate::daemon::socket_activation::ActivatedSockets;
use crate::input::record::Hasher;
use crate::input::stat;
use crate::merger::{GatheringPeriod, Merger, Pulse};
use crate::metrics::otlp as push;
use crate::query::catalog::Catalog;
use crate::query::definitions::Definitions;
use crate::query::status::Status;
use crate::report::definition::Defaults;
use crate::shutdown::Shutdown;
use crate::state::folder::{self, KeptFolder};
use crate::state::last_end::{LastEnd, RunningMark};
use crate::state::snapshot_writer::{CutAt, SnapshotFile, SnapshotWriter, Snapshots};
use crate::state::{self, State, StateError};
use crate::telemetry::Counters;
use crate::telemetry::losses::LossLog;

pub mod alerts;
pub mod disk_plan;
mod error;
mod frontends;
#[cfg_attr(not(feature = "sql"), path = "no_history.rs")]
mod history;
pub mod instruments;
pub mod malloc;
pub mod memory_limit;
pub mod memory_plan;
mod opened;
pub(crate) mod otlp;
mod profile;
mod receivers;
mod releases;
pub mod reload;
pub mod socket_activation;
mod sockets;
#[cfg_attr(not(feature = "sql"), path = "no_sql.rs")]
mod sql;
pub(crate) mod squid;
mod startup;
pub mod supervisor;
mod threads;

/// A running daemon. Dropping it stops it.
#[derive(Debug)]
pub struct Daemon {
    udp: Vec<SocketAddr>,
    catalog: Arc<Catalog>,
    users: Arc<UserStore>,
    receivers: Vec<Worker>,
    profile: Option<RunningProfile>,
    gathering: Arc<GatheringPeriod>,
    /// The merger, and what takes what it counts, in the order in which they stop.
    counting: Vec<Worker>,
    snapshot_writer: Option<Arc<SnapshotWriter>>,
    snapshot_thread: Option<Worker>,
    alerts: Arc<Alerts>,
    alert_threads: Mutex<Vec<Worker>>,
    /// What writes down what was counted, in the order in which it stops.
    writing: Vec<Worker>,
    clock: Arc<dyn Clock>,
    frontends: Frontends,
}

impl Daemon {
    /// Builds every stage and starts its threads.
    ///
    /// # Errors
    /// Fails if an address cannot be bound, a report cannot be defined, `state.dir` cannot be used,
    /// or the system cannot create a thread; everything already started is stopped again.
    pub fn start(config: &Config, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        Self::start_with(config, clock, ActivatedSockets::default())
    }

    /// Starts with sockets opened elsewhere, in place of those of the configuration.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn start_with(
        config: &Config,
        clock: Arc<dyn Clock>,
        activated: ActivatedSockets,
    ) -> Result<Self, StartError> {
        let opened = Opened::open(config, &*clock, activated)?;
        let (sockets, otlps, squids) = (opened.sockets, opened.otlps, opened.squids);
        let kept = kept_in(config, opened.state.as_ref());
        startup::log_start(config, &sockets);

        let dir = config.state.dir.as_deref();
        let mut last_end = kept.as_ref().map(|it| LastEnd::of(&it.dir));
        let previous = dir.and_then(|dir| SnapshotFile::open(dir, clock.unix_secs()));
        let clock = startup::continued(clock, previous.as_ref());
        let users = Arc::new(UserStore::new(opened.users, Arc::clone(&clock)));
        let annotations = startup::open_annotations(config, kept.as_ref(), &*clock)?;
        let hasher = Hasher::new();
        let counters = Counters {
            logins: Arc::clone(&users.attempts.counters),
            otlps: otlps.iter().map(|it| Arc::clone(&it.0)).collect(),
            squids: squids.iter().map(|it| Arc::clone(&it.source)).collect(),
            stats: config.stats.iter().cloned().map(stat::Source::new).collect(),
            ..Counters::new(sockets.len() + otlps.len() + squids.len())
        };
        startup::go_on_counting(&counters, &sockets, &squids, previous.as_ref());
        let followed = counters.followed();
        // After that: positions of followed files in history take precedence over the snapshot.
        let mut history = OpenHistory::open(config, &clock, &counters.squids, kept.as_ref())?;
        let of_snapshot = previous.as_ref().map_or(0, |it| it.contents.unix_ms / 1000);
        let stored_until = of_snapshot.max(history.written());
        if let Some(why) = why_clock_behind(&*clock, stored_until) {
            warn!("Stored times are ahead: {why}.");
        }
        if config.history.dir.is_none() {
            counters.squids.iter().for_each(|it| it.begin(None));
        }
        let receivers = Receivers::start(config, sockets, squids, &counters, &clock, &hasher)?;

        let snapshots =
            opened.state.as_ref().map(|state| Snapshots::new(state, config.state.snapshot_period));
        if let Some(snapshots) = &snapshots {
            snapshots.check();
        }
        let samples = profile::open(config, &counters, &clock);
        let startup = Startup {
            config,
            hasher: &hasher,
            clock: &*clock,
            reports: opened.definitions.reports,
            squids: &counters.squids,
            profile: samples.as_deref(),
        };
        let mut live = startup.live(previous, snapshots.as_deref().zip(dir), last_end.as_ref());
        live.pool.confirm_repeats(receivers.confirmed.clone());
        let live = Arc::new(RwLock::new(live));
        // Before the first merge: history begins with the rows merged from now on.
        history.keep_requests(config, &live);
        let (refill, is_old) =
            history.refill(last_end.as_mut(), &*clock, &live, snapshots.as_deref());
        let end = last_end.as_ref();
        startup::log_last_end(end, snapshots.as_deref(), refill.as_ref());
        if end.is_some_and(|end| !end.clean) || is_old {
            startup::count_from_zero(&counters, &receivers.before, &live);
        }
        let pulse = Arc::new(Pulse::new(clock.mono_ms()));
        let gathering = Arc::new(GatheringPeriod::new(config.ingest.stats_gathering_period));
        // Before the first sample is taken.
        let rollup = history.minute_rows(config, samples.clone());
        let rules = &receivers.rule_counters;
        let profile = profile::start(config, samples.clone(), rules, &clock, &hasher)?;
        let rule_counters = receivers.rule_counters;
        let status = history.add_to(Status {
            profile: profile.as_ref().map(|it| Arc::clone(&it.profile)),
            sockets: receivers.statuses,
            sources: receivers.senders,
            temp_pool_size: config.ingest.temp_pool_size,
            gathering_period: Arc::clone(&gathering),
            rewrites: config.rewrites.clone(),
            rule_counters: Arc::clone(&rule_counters),
            snapshots: snapshots.clone(),
            stored_until,
            nothing_kept: startup::nothing_kept(config),
            ..Status::bare(counters.clone(), receivers.ring)
        });
        let certificates = Arc::clone(&status.certificates);
        let pools = instruments::pools(&live, &status);
        let catalog = Catalog::new(
            Arc::clone(&live),
            Arc::clone(&clock),
            opened.defaults,
            config.pool.request_pool_size > 0,
            status,
            Arc::clone(&pulse),
        );
        live.write().deltas.followed = followed;
        let to_cut = history.to_cut();
        let (alerts, followers) = (&opened.alerts, (&opened.alerts, &opened.releases.0));
        let (series, metrics, deltas, take) =
            startup::begin(opened.watch, config, &mut live.write(), &*clock, rollup, followers)?;
        let metrics = metrics.without(Arc::clone(&counters.unscraped));
        let catalog = history.attach_to(catalog, config, &rule_counters, refill);
        let mut catalog =
            catalog.keeping(opened.definitions.tables, annotations, followers, opened.state);
        if let Some(push) = metrics.push() {
            catalog.status.pushing = Arc::clone(&push.troubles);
        }
        let catalog = Arc::new(catalog);
        let served = Served {
            config,
            catalog: &catalog,
            users: &users,
            series,
            metrics: metrics.clone(),
            alerts,
            engine: sql::engine(config, &catalog)?,
            counters: &counters,
        };
        instruments::set_pools(pools, &served);
        let frontends = Frontends::start(&served, (opened.http, opened.mysql), otlps)?;
        let _set_once = certificates.set(frontends.certificates.clone());
        let alert_threads = alerts::start(alerts, config, &clock, &catalog)?;
        let mut writing: Vec<Worker> =
            releases::start(config, opened.releases.1, &catalog)?.into_iter().collect();
        let push_thread =
            otlp::start_push(config, &metrics, &catalog, (&clock, &live), receivers.before)?;
        let merger = Merger {
            consumer: receivers.consumer,
            live: Arc::clone(&live),
            counters: Arc::clone(&counters.merge),
            pulse,
            clock: Arc::clone(&clock),
            period: Arc::clone(&gathering),
        };
        let merge = Worker::start("merge", "the merger thread", move |stop| merger.run(stop));
        let run = move |stop: &Shutdown| deltas.run(stop, take);
        let series = Worker::start_nice("series", "the series thread", 5, run);
        let mut counting = vec![merge?, series?];
        counting.push(watch(LossLog::new(counters.clone()), &users, &clock)?);
        counting.extend(push_thread);
        writing.extend(history.start(&catalog)?);
        let snapshot_writer = snapshots.map(|snapshots| {
            Arc::new(SnapshotWriter {
                snapshots,
                live,
                counters: counters.clone(),
                sockets: receivers.names.into(),
                profile: samples,
                clock: Arc::clone(&clock),
                follows_files: config.follows_files(),
                history: to_cut,
            })
        });
        let mark = {
            let kept = kept.zip(end.cloned());
            let (catalog, clock) = (Arc::clone(&catalog), Arc::clone(&clock));
            move || {
                let kept = kept.as_ref().filter(|(it, _)| it.dir.is_dir() && it.is_made());
                let mut mark = catalog.mark.lock();
                if let (Some((folder, end)), None) = (kept, &*mark) {
                    let (lost, now_ms) = (catalog.missing_spans(), clock.unix_ms());
                    *mark = Some(RunningMark::set(&folder.dir, end, &lost, now_ms));
                }
            }
        };
        let snapshot_thread = snapshot_writer.clone().map(|writer| {
            let (what, mark) = ("the snapshot thread", mark.clone());
            Worker::start("snapshot", what, move |stop| writer.run(stop, mark))
        });
        let cannot_keep = !catalog.cannot_keep().is_empty();
        startup::log_ready(config, &receivers.addresses, &frontends, cannot_keep, opened.made);
        mark();
        Ok(Self {
            udp: receivers.addresses,
            catalog,
            users,
            receivers: receivers.threads,
            profile,
            gathering,
            counting,
            snapshot_thread: snapshot_thread.transpose()?,
            snapshot_writer,
            alerts: opened.alerts,
            alert_threads: Mutex::new(alert_threads),
            writing,
            clock,
            frontends,
        })
    }

    /// The bound UDP addresses, with real ports.
    pub fn udp_addresses(&self) -> &[SocketAddr] {
        &self.udp
    }

    /// The bound HTTP address, with its real port.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.frontends.http
    }

    /// The bound MySQL address, with its real port.
    pub fn mysql_address(&self) -> Option<SocketAddr> {
        self.frontends.mysql
    }

    /// The catalog that front ends read from.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Stops every stage and waits for it, then writes the snapshot.
    ///
    /// # Errors
    /// Fails if the snapshot cannot be written, or history has lost rows or raw requests;
    /// everything has stopped all the same.
    pub fn stop(mut self) -> std::io::Result<()> {
        self.stop_all()
    }

    fn stop_all(&mut self) -> std::io::Result<()> {
        self.receivers.iter().for_each(Worker::request_stop);
        self.profile = None;
        self.receivers.clear();
        if let Some(thread) = &self.snapshot_thread {
            // A snapshot in progress is abandoned: the last one will have more.
            thread.request_stop();
        }
        // The others after the merger, so that the last merged requests are counted too.
        self.counting.clear();
        let alert_threads = std::mem::take(&mut *self.alert_threads.lock());
        drop(alert_threads);
        self.writing.clear();
        self.frontends.stop();
        self.snapshot_thread = None;
        let last = |writer: Arc<SnapshotWriter>| writer.save(CutAt::Stop, &Shutdown::new());
        let saved = self.snapshot_writer.take().map_or(Ok(()), last);
        let saved = saved.map_err(std::io::Error::other);
        self.catalog.close();
        let lost = self.catalog.history_lost_at_stop();
        let mark = self.catalog.mark.lock().take();
        if let Some(mut mark) = mark {
            // The folder of one that was never opened may be another program's.
            let of_opened = lost.filter(|lost| lost.store != 0);
            of_opened.into_iter().for_each(|lost| mark.add_lost(lost));
            let missing = self.catalog.missing_spans();
            match &saved {
                Ok(()) => mark.clear(&missing),
                Err(_) => mark.keep_unsaved(&missing),
            }
        }
        match lost {
            Some(_) => Err(std::io::Error::other("rows of history are lost")),
            None => saved,
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Errors are in the log.
        let _logged = self.stop_all();
    }
}

/// How often the log is told of losses and failed logins, if there is a line due.
const WATCH_PERIOD: Duration = Duration::from_millis(200);

/// Starts the thread that logs losses and failed logins once they are due.
fn watch(
    mut losses: LossLog,
    users: &Arc<UserStore>,
    clock: &Arc<dyn Clock>,
) -> Result<Worker, StartError> {
    let (users, clock) = (Arc::clone(users), Arc::clone(clock));
    Worker::start("watch", "the thread that logs losses", move |stop: &Shutdown| {
        while !stop.requested() {
            let now_ms = clock.mono_ms();
            losses.look(now_ms);
            users.log_failures(now_ms);
            std::thread::sleep(WATCH_PERIOD);
        }
        losses.tell();
        users.log_failures(u64::MAX);
    })
}

/// Checks the reports, secrets and certificates that a configuration names, and that `state.dir`
/// and `history.dir` are not files; returns the rules of alerts. Starts, binds and changes nothing:
/// it decides for `check`, `doctor` and a reload what a start could use.
///
/// # Errors
/// Everything that a start could not use.
pub(crate) fn check(config: &Config) -> Result<Rules, Vec<Misconfigured>> {
    let defaults = defaults(config);
    let (mut definitions, wrong) = Definitions::read(&config.configured_reports, &defaults);
    let mut errors: Vec<StartError> = wrong.into_iter().map(StartError::from).collect();
    let mut rules = Rules::new();
    if errors.is_empty() {
        // Of reports that are not there it would only say that.
        errors.extend(startup::watched(config, &definitions).err());
        let saved = config.state.dir.as_deref().and_then(|dir| state::saved(dir).ok());
        let (kept, dropped) = saved.unwrap_or_default();
        definitions.add_others(config, (&kept, dropped), &defaults);
        match alerts::rules(config, &definitions.reports) {
            Ok(all) => rules = all,
            Err(wrong) => errors.extend(wrong.into_iter().map(StartError::from)),
        }
    }
    for user in &config.users {
        let loaded = Users::load(slice::from_ref(user), |name| std::env::var_os(name));
        errors.extend(loaded.err().map(StartError::from));
    }
    let mut certificates = Certificates::default();
    let tls = config.fronts().filter_map(|front| front.tls());
    let tls = tls.filter_map(|files| certificates.read(&files).err());
    errors.extend(tls.map(StartError::from));
    // The user who runs this need not be the daemon's: permissions are left to the commands.
    let kept = [(folder::STATE, &config.state.dir), (folder::HISTORY, &config.history.dir)];
    let within =
        |data: &&PathBuf| kept.iter().any(|(_, dir)| dir.iter().any(|it| it.starts_with(data)));
    let data = config.data.dir.as_ref().filter(within).cloned();
    let mut refused: Option<&Path> = None;
    for (setting, dir) in iter::once((folder::DATA, &data)).chain(kept) {
        // What lies in a folder that is none was said with it.
        let dir = dir.as_deref().filter(|dir| refused.is_none_or(|it| !dir.starts_with(it)));
        let found = dir.map(|dir| folder::find(setting, dir));
        if let Some(Err(error @ StateError::NotAFolder { .. })) = found {
            errors.push(error.into());
            refused = refused.or(dir);
        }
    }
    errors.extend(no_history(config).err());
    errors.extend(push::check(config).err().map(StartError::Push));
    let receivers = Alerts::new(config, Vec::new());
    let agents = receivers.receivers.iter().map(|it| it.agent());
    errors.extend(agents.filter_map(|it| it.err().map(StartError::Push)));
    #[cfg(feature = "sql")]
    errors.extend(crate::clickhouse::check(&config.clickhouse).err().map(StartError::Push));
    match errors.is_empty() {
        true => Ok(rules),
        false => Err(errors.into_iter().map(|error| Misconfigured::of(config, error)).collect()),
    }
}

/// The folder with the files that are rewritten, and the record of how the process ended.
fn kept_in(config: &Config, state: Option<&State>) -> Option<KeptFolder> {
    let history = config.history.dir.as_ref().map(|dir| KeptFolder::new(folder::HISTORY, dir));
    state.map(|state| state.folder.clone()).or(history)
}

/// Fails if the configuration asks for history and this build has none.
fn no_history(config: &Config) -> Result<(), StartError> {
    match cfg!(feature = "sql") || config.history.dir.is_none() {
        true => Ok(()),
        false => Err(StartError::NoHistory),
    }
}

/// Defaults of report definitions, from the configuration.
pub fn defaults(config: &Config) -> Defaults {
    let length = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX);
    Defaults {
        raw_window: config.pool.stats_history,
        script_name_bytes_max: length(config.ingest.script_name_bytes_max),
        text_bytes_max: length(config.ingest.text_bytes_max),
        ..Defaults::default()
    }
}

/// An address of this machine from which packets reach `bound`.
pub(crate) fn local(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}
