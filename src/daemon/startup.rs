//! Inputs of a start: `state.dir`, the restored snapshot, and the definitions of what the last hour
//! and the metrics keep.
//!
//! Called by [`Daemon::start`](super::Daemon::start), on its thread, before anything is received.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tracing::{debug, error, info, warn};

use super::error::StartError;
use super::frontends::Frontends;
use super::receivers;
use super::squid::OpenSource;
use crate::alert::Alerts;
use crate::alert::intake::Intake;
use crate::clock::{Clock, ContinuedClock, rfc3339};
use crate::config::data_folder::is_temporary;
use crate::config::{Config, PoolConfig};
use crate::daemon::memory_plan::MemoryPlan;
use crate::delta::{Reader, RowReader, Second};
use crate::input::record::Hasher;
use crate::input::squid::Source;
use crate::input::udp::kernel;
use crate::input::udp::socket::ReceiveSocket;
use crate::merger::{Live, SharedLive};
use crate::metrics::otlp::Push;
use crate::metrics::{self, Metrics};
use crate::pool::Pool;
use crate::pool::activities::Activities;
use crate::pool::timers::TIMER_ROW_BYTES;
use crate::profile::Profile;
use crate::query::catalog::past::refill::Refill;
use crate::query::definitions::Definitions;
use crate::query::status::Status;
use crate::release::{self, Releases};
use crate::report::definition::{Defaults, Definition};
use crate::report::{DefinedBy, NotRestored, Reports, Ticks, WatchSettings};
use crate::series::{self, Series};
use crate::state::annotations::Annotations;
use crate::state::folder::{KeptFolder, STATE};
use crate::state::last_end::LastEnd;
use crate::state::snapshot::{self, Restored};
use crate::state::snapshot_writer::{self, RestoredSnapshot, SnapshotFile, Snapshots};
use crate::state::{self, State, StateError};
use crate::telemetry::Counters;
use crate::telemetry::reading::Group;
use crate::value::text::joined;

/// The inputs for the initial rows and reports of a process.
pub(super) struct Startup<'a> {
    pub(super) config: &'a Config,
    pub(super) hasher: &'a Hasher,
    pub(super) clock: &'a dyn Clock,
    pub(super) reports: Vec<(Definition, DefinedBy)>,
    pub(super) squids: &'a [Arc<Source>],
    pub(super) profile: Option<&'a Profile>,
}

impl Startup<'_> {
    /// Restores the snapshot, and clears it if a reset came later; starts empty if there is none,
    /// or it turns out to be damaged after all.
    pub(super) fn live(
        self,
        previous: Option<SnapshotFile>,
        kept: Option<(&Snapshots, &Path)>,
        last_end: Option<&LastEnd>,
    ) -> Live {
        let now_ms = self.clock.mono_ms();
        if let (Some(previous), Some((snapshots, dir))) = (previous, kept) {
            match self.restored(&previous, now_ms) {
                Ok((mut live, restored)) => {
                    if last_end.is_some_and(|end| end.was_reset_after(restored.time)) {
                        info!("A reset came after that snapshot: only its counters and ids stay.");
                        live.clear();
                        self.profile.iter().for_each(|it| it.clear());
                        self.squids.iter().for_each(|it| it.sums.lock().clear());
                    }
                    snapshots.set_restored(restored);
                    return live;
                }
                Err(error) => {
                    self.profile.iter().for_each(|it| it.clear());
                    snapshot_writer::set_aside(dir, &error, self.clock.unix_secs());
                }
            }
        }
        let mut live = self.empty();
        let Live { pool, reports, .. } = &mut live;
        reports.define_at_start(self.reports, pool, now_ms);
        live
    }

    fn empty(&self) -> Live {
        let history = Ticks::of(self.config.pool.stats_history);
        let mut pool = Pool::new(&self.config.pool, self.hasher.clone());
        if !self.config.squids.is_empty() {
            pool.activities = Activities::new(Activities::rows_max(&self.config.pool));
        }
        Live::new(pool, Reports::new(&self.config.reports, history), history)
    }

    fn restored(
        &self,
        previous: &SnapshotFile,
        now_ms: u64,
    ) -> Result<(Live, RestoredSnapshot), String> {
        let start = Instant::now();
        let mut live = self.empty();
        let reader = previous.reader().map_err(|error| error.to_string())?;
        let (reports, squids) = (self.reports.clone(), self.squids);
        let restored = snapshot::restore(reader, &mut live, reports, squids, self.profile, now_ms);
        let Restored { requests, left_out } = restored.map_err(|error| error.to_string())?;
        // A changed setting concerns most of them.
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for NotRestored { report, reason } in &left_out {
            by_reason.entry(reason).or_default().push(report);
        }
        for (reason, reports) in by_reason {
            let (count, reports) = (reports.len(), reports.join(", "));
            warn!(
                count,
                reports, reason, "Reports of the snapshot did not come back as they were."
            );
        }
        let unix_ms = previous.contents.unix_ms;
        let seconds = start.elapsed().as_secs_f64();
        info!(
            requests,
            snapshot_age_secs = self.clock.unix_ms().saturating_sub(unix_ms) / 1000,
            secs = seconds,
            "Restored the snapshot."
        );
        let restored = RestoredSnapshot {
            time: unix_ms as f64 / 1e3,
            requests,
            seconds,
            left_out,
            history_from: previous.contents.history_from,
        };
        Ok((live, restored))
    }
}

/// Checks that the system has memory for the largest tables of the pools, which would end the
/// process otherwise.
pub(super) fn check_pools(config: &PoolConfig) -> Result<(), StartError> {
    let bytes = Pool::bytes_max(config);
    // Columns are tables of their own.
    let of_timers = bytes.timers / TIMER_ROW_BYTES * size_of::<u64>();
    let largest = [("pool.request_pool_size", bytes.origins), ("pool.timer_pool_size", of_timers)];
    for (key, bytes) in largest {
        let reserved = Vec::<u8>::new().try_reserve_exact(bytes);
        reserved.map_err(|_| StartError::NoMemory { key, bytes })?;
    }
    Ok(())
}

/// A clock that continues where the snapshot's ended.
pub(super) fn continued(clock: Arc<dyn Clock>, previous: Option<&SnapshotFile>) -> Arc<dyn Clock> {
    match previous {
        None => clock,
        Some(previous) => {
            let now_ms = previous.contents.mono_now(clock.unix_ms());
            Arc::new(ContinuedClock::new(clock, now_ms))
        }
    }
}

/// Continues counters where those of the snapshot ended, before anything counts.
pub(super) fn go_on_counting(
    counters: &Counters,
    sockets: &[ReceiveSocket],
    squids: &[OpenSource],
    previous: Option<&SnapshotFile>,
) {
    for (socket, counters) in sockets.iter().zip(&counters.sockets) {
        if socket.handed_over {
            state::counters::begin_drops(socket, counters);
        }
    }
    if let Some(previous) = previous {
        let names = receivers::names(sockets, &counters.otlps, squids);
        previous.contents.counters.restore(counters, &names, sockets);
    }
}

/// Makes `/metrics` count from 0: the last process may have shown larger counters than the snapshot
/// has, and Prometheus takes one that comes back smaller for reset and adds all of it again.
pub(super) fn count_from_zero(counters: &Counters, before: &[Group], live: &SharedLive) {
    let mut restored = metrics::counts(before);
    restored.extend(metrics::counts(&[Status::of_reports(live)]));
    *counters.unscraped.lock() = restored;
}

/// Receives each second, with the number of requests missed before it.
pub(super) type TakeSecond = Box<dyn FnMut(&Second, u64) + Send>;

/// Receives each second with shared access to its rows, which are assembled once for all receivers.
pub(super) type TakeRows = Box<dyn FnMut(&Second, u64, ReadRows<'_>) + Send>;

/// Feeds the rows to a reader.
pub(super) type ReadRows<'a> = &'a mut dyn FnMut(&mut dyn RowReader);

/// Passes the rows of a second to all of these, and to the readers already given.
fn take_all(
    second: &Second,
    missed: u64,
    takers: &mut [TakeRows],
    readers: &mut [&mut dyn RowReader],
) {
    let Some((first, others)) = takers.split_first_mut() else {
        second.read(readers);
        return;
    };
    first(second, missed, &mut |reader| {
        let mut readers: Vec<&mut dyn RowReader> =
            readers.iter_mut().map(|it| &mut **it as _).collect();
        readers.push(reader);
        take_all(second, missed, others, &mut readers);
    });
}

/// The reports that the last hour, the metrics and history keep; those of alerts are not known yet.
pub(super) fn watched(
    config: &Config,
    definitions: &Definitions,
) -> Result<WatchSettings, StartError> {
    // Those that come with sources are made later, and can be named too.
    let mut definitions = definitions.clone();
    definitions.add_others(config, (&[], Vec::new()), &super::defaults(config));
    let chosen = |key: &'static str, names: &[String]| {
        let names = [&[series::EVERYTHING.to_owned()], names].concat();
        match series::check_names(&names, &definitions.reports) {
            Ok(()) => Ok(names),
            Err(source) => Err(StartError::Choice { key, source }),
        }
    };
    let scraped = chosen("metrics.reports", &config.metrics.reports)?;
    let charted = chosen("series.reports", &config.series.reports)?;
    let kept = chosen("history.reports", &config.history.reports)?;
    let (memory, has_history) = (config.series.memory, config.history.dir.is_some());
    let of_history = if has_history { config.history.memory / 16 } else { 0 };
    Ok(WatchSettings {
        charted: (memory > 0).then_some(charted),
        scraped,
        kept: has_history.then_some(kept),
        pushed: match chosen("otlp.reports", &config.otlp.reports)? {
            _ if config.otlp.url.is_empty() => Vec::new(),
            pushed => pushed,
        },
        alerted: Vec::new(),
        reports_max: series::REPORTS_MAX,
        bytes_max: Series::stream_bytes(memory) + of_history,
    })
}

/// Creates the last hour and the metrics, and the function that passes each second to them and
/// to history.
pub(super) fn begin(
    mut watch: WatchSettings,
    config: &Config,
    live: &mut Live,
    clock: &dyn Clock,
    history: Option<TakeRows>,
    (alerts, releases): (&Arc<Alerts>, &Releases),
) -> Result<(Option<Series>, Metrics, Reader, TakeSecond), StartError> {
    let memory = config.series.memory;
    watch.alerted = [alerts.reports(), vec![release::REPORT.to_owned()]].concat();
    let (watched, reader) = live.watch(watch, clock.mono_ms(), clock.unix_ms());
    let left_out = live.reports.left_out().iter().map(|it| &*it.definition.name);
    let left_out: Vec<&str> = left_out.collect();
    if !left_out.is_empty() {
        warn!(reports = ?left_out, "{}.", series::why_left_out());
    }
    let (buckets, series_max) = (&config.metrics.buckets, config.metrics.series_max);
    let push = Push::new(config, clock).map_err(StartError::Push)?;
    let metrics = Metrics::new(watched.clone(), buckets, series_max);
    let metrics = metrics.with(alerts.clone(), push.clone());
    let of_rows = metrics.clone();
    let mut takers: Vec<TakeRows> = vec![Box::new(move |_, _, read| of_rows.take_rows(read))];
    let series = (memory > 0).then(|| {
        let (series, mut hour) = Series::new(watched, memory);
        let take = move |second: &Second, missed, read: ReadRows<'_>| {
            hour.take_rows(second, missed, read);
        };
        takers.push(Box::new(take));
        series
    });
    // Holds its lock until those after it have the second: objectives read their past by that.
    takers.extend(history);
    if let Some(push) = push {
        takers.push(Box::new(move |second, _, read| {
            push.take_rows(second, read);
        }));
    }
    let mut intake = Intake::new(alerts.clone());
    takers.push(Box::new(move |second, missed, read| {
        intake.take_rows(second, missed, read);
    }));
    let releases = releases.clone();
    takers.push(Box::new(move |second, _, read| {
        releases.take_rows(second, read);
    }));
    let take = move |second: &Second, missed| take_all(second, missed, &mut takers, &mut []);
    Ok((series, metrics, reader, Box::new(take)))
}

/// Opens `state.dir`, if configured, and adds the reports kept there and those of sources.
pub(super) fn open_state(
    config: &Config,
    clock: &dyn Clock,
    definitions: &mut Definitions,
    defaults: &Defaults,
) -> Result<Option<State>, StateError> {
    let Some(dir) = &config.state.dir else {
        definitions.add_others(config, (&[], Vec::new()), defaults);
        return Ok(None);
    };
    let state = State::open(dir, clock.unix_secs())?;
    let saved = (state.reports(), state.dropped().to_vec());
    for (report, reason) in definitions.add_others(config, saved, defaults) {
        warn!(
            report,
            reason,
            dir = %dir.display(),
            "Left out a report that was made at run time; it stays in state.dir."
        );
    }
    let reports = state.reports().len();
    debug!(dir = %dir.display(), reports, "Keeping the reports that are made at run time.");
    Ok(Some(state))
}

/// Opens the annotations in `state.dir`, or in `history.dir`; without either, or if the latter
/// cannot be read, they are kept in memory.
pub(super) fn open_annotations(
    config: &Config,
    folder: Option<&KeptFolder>,
    clock: &dyn Clock,
) -> Result<Annotations, StateError> {
    // Those of a demo would not survive it.
    let is_temporary = config.data.dir.as_deref().is_some_and(is_temporary);
    let Some(folder) = folder.filter(|it| it.setting == STATE || !is_temporary) else {
        return Ok(Annotations::default());
    };
    let opened = Annotations::open(folder, clock.unix_secs());
    opened.or_else(|error| match folder.setting {
        STATE => Err(error),
        _ => {
            error!(%error, "Annotations are kept in memory only.");
            Ok(Annotations::default())
        }
    })
}

/// Logs what was restored after an unclean end, and what is missing still.
pub(super) fn log_last_end(
    last_end: Option<&LastEnd>,
    snapshots: Option<&Snapshots>,
    refill: Option<&Refill>,
) {
    let lacking = refill.and_then(Refill::why_lacking);
    let Some(end) = last_end.filter(|end| !end.clean) else {
        lacking.iter().for_each(|lacking| warn!("{lacking}"));
        return;
    };
    let snapshot = snapshots.and_then(|snapshots| snapshots.status().restored);
    let snapshot = snapshot.filter(|it| !end.was_reset_after(it.time));
    let snapshot = snapshot.map(|it| rfc3339(it.time as u64));
    let filled = refill.and_then(Refill::filled);
    let history =
        filled.map(|filled| format!("{} to {}", rfc3339(filled.start), rfc3339(filled.end)));
    let back = match (&snapshot, &history) {
        (Some(_), Some(_)) => {
            "Raw requests are back up to the snapshot, reports also as far as history goes, by the minute, of which the last may lack its end; what came later is lost."
        }
        (Some(_), None) => {
            "Raw requests and reports are back up to the snapshot; what came later is lost."
        }
        (None, Some(_)) => {
            "Reports are back as far as history goes, by the minute, of which the last may lack its end; what came later is lost, and so are raw requests and live charts."
        }
        (None, None) => "What was in memory is lost.",
    };
    let how = match end.unsaved {
        true => "The last stop could not write its snapshot.",
        false => "The last end was not clean: a kill, a crash or a power cut.",
    };
    warn!(snapshot, history, lacking, "{how} {back}");
}

/// The reason why a daemon that should keep its data in the usual folder keeps it in memory.
pub(super) fn nothing_kept(config: &Config) -> Option<String> {
    let folders = [&config.state.dir, &config.history.dir];
    let reason = config.folder_refused.as_ref();
    let reason = reason.filter(|_| folders.iter().all(|dir| dir.is_none()));
    let why = format!(
        "all data is kept in memory, and a restart loses it: {}; --data DIR (data.dir) names another folder, \"\" none",
        reason?
    );
    warn!("{why}");
    Some(why)
}

/// The folders for data that are not there yet, which the start makes.
pub(super) fn missing_folders(config: &Config) -> Option<String> {
    let dirs = [&config.state.dir, &config.history.dir].into_iter().flatten();
    let missing = joined(dirs.filter(|dir| !dir.exists()).map(|dir| dir.display()), ", ");
    (!missing.is_empty()).then_some(missing)
}

/// Logs that the daemon is ready: where it listens, and what it keeps where, in folders that it has
/// `made`, unless it has just logged that it `cannot_keep` that.
pub(super) fn log_ready(
    config: &Config,
    udp: &[SocketAddr],
    frontends: &Frontends,
    cannot_keep: bool,
    made: Option<String>,
) {
    let udp: Vec<String> = udp.iter().map(ToString::to_string).collect();
    let fronts = [
        (frontends.http, config.http.front().tls().is_some()),
        (frontends.mysql, config.mysql.front().tls().is_some()),
    ];
    // If one of them has TLS, it is logged for both.
    let says_tls = fronts.iter().any(|(address, tls)| address.is_some() && *tls);
    let [http, mysql] = fronts.map(|(address, tls)| match address {
        None => "off".to_owned(),
        Some(address) if !says_tls => address.to_string(),
        Some(address) => format!("{address} {} TLS", if tls { "with" } else { "without" }),
    });
    info!(udp = udp.join(","), http, mysql, "Ready.");
    let shown = |dir: &Option<PathBuf>| dir.as_ref().map(|dir| dir.display().to_string());
    let [data, state, history] =
        [&config.data.dir, &config.state.dir, &config.history.dir].map(shown);
    match (data, state, history) {
        _ if cannot_keep => {}
        (_, None, None) => {
            info!(
                "Keeping all data in memory: a restart loses it. --data DIR (data.dir) keeps it."
            );
        }
        (Some(data), None, Some(_)) if is_temporary(Path::new(&data)) => {
            info!(
                data,
                "Keeping the past in a temporary folder, which is removed when the daemon stops."
            );
        }
        (Some(data), _, _) if is_within(config) => info!(data, made, "Keeping data on disk."),
        (_, Some(state), Some(history)) => {
            info!(state, history, made, "Keeping data on disk.");
        }
        (_, None, Some(history)) => info!(
            history,
            made,
            "Keeping the past on disk, and recent requests in memory: a restart loses those. --data DIR (data.dir) keeps both."
        ),
        (_, Some(state), None) => info!(
            state,
            made,
            "Keeping reports and recent requests on disk, and no past. --data DIR (data.dir) keeps both."
        ),
    }
}

/// Whether all stored data lies in `data.dir`.
fn is_within(config: &Config) -> bool {
    let data = config.data.dir.as_deref();
    let mut dirs = [&config.state.dir, &config.history.dir].into_iter().flatten();
    data.is_some_and(|data| dirs.all(|dir| dir.starts_with(data)))
}

/// Logs the bound addresses and the memory plan.
pub(super) fn log_start(config: &Config, sockets: &[ReceiveSocket]) {
    for socket in sockets {
        let buffer = &socket.buffer;
        debug!(
            address = %socket.address,
            asked_bytes = buffer.asked_bytes,
            granted_bytes = buffer.granted_bytes,
            "Receiving."
        );
        if buffer.granted_bytes < buffer.asked_bytes {
            warn!(
                granted_bytes = buffer.granted_bytes,
                "The receive buffer is smaller than asked for: raise net.core.rmem_max (for a container: on its host), or \
                 give the process CAP_NET_ADMIN."
            );
        }
    }
    let buffers: Vec<_> = sockets.iter().map(|socket| socket.buffer).collect();
    MemoryPlan::of(config).granted(&buffers, kernel::udp_memory_max()).log();
}
