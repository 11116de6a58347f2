//! History as the daemon runs it: opened at start, what writes, ships and reads it, its threads.

use std::sync::Arc;

use tracing::{debug, info, warn};

use super::error::StartError;
use super::startup::{ReadRows, TakeRows};
use super::threads::Worker;
use crate::clickhouse::{Fleet, ShippingThread};
use crate::clock::Clock;
use crate::config::{Config, KeptRequests};
use crate::delta::Second;
use crate::history::import::Importer;
use crate::history::{History, MinuteRollup, Parts, Requests, Retention, Store, Writer};
use crate::input::rewrite::RuleCounters;
use crate::input::squid::Source;
use crate::merger::SharedLive;
use crate::profile::Profile;
use crate::query::catalog::Catalog;
use crate::query::catalog::past::refill::Refill;
use crate::query::status::Status;
use crate::state::StateError;
use crate::state::folder::{HISTORY, KeptFolder};
use crate::state::last_end::LastEnd;
use crate::state::snapshot::HistoryFrom;
use crate::state::snapshot_writer::{CutHistory, PiecesCut, Snapshots};

/// History: nothing, or the stored data, its writer and its shipper.
#[derive(Default)]
pub(super) struct OpenHistory {
    history: Option<History>,
    writer: Option<Writer>,
    requests: Option<Requests>,
    shipper: Option<ShippingThread>,
    fleet: Option<Fleet>,
}

impl OpenHistory {
    /// Opens `history.dir`, if configured; if that fails the writer tries again.
    pub(super) fn open(
        config: &Config,
        clock: &Arc<dyn Clock>,
        squids: &[Arc<Source>],
        kept: Option<&KeptFolder>,
    ) -> Result<Self, StartError> {
        let settings = &config.history;
        let Some(dir) = settings.dir.clone() else { return Ok(Self::default()) };
        let followed: Vec<_> = squids.iter().filter(|it| it.is_followed()).cloned().collect();
        for source in squids {
            source.sums.lock().fresh.get_or_insert_default();
        }
        // Not a folder: the configuration is wrong.
        if let Err(error @ StateError::NotAFolder { .. }) =
            crate::state::folder::find(HISTORY, &dir)
        {
            return Err(error.into());
        }
        let retention = Retention {
            secs: [settings.retention_minute, settings.retention_hour, settings.retention_day]
                .map(|kept| kept.as_secs()),
            size_max: settings.size_max as u64,
            free_min: settings.free_min as u64,
        };
        let has_url = !config.clickhouse.url.is_empty();
        let shipper = has_url.then(|| ShippingThread::new(&config.clickhouse, Arc::clone(clock)));
        let shipper = shipper.transpose().map_err(StartError::Push)?;
        let fleet = has_url.then(|| Fleet::of(&config.clickhouse));
        let fleet = fleet.transpose().map_err(StartError::Push)?;
        let shipped = config.clickhouse.what.clone();
        let of_requests = match settings.requests {
            KeptRequests::None => 0,
            KeptRequests::Tail | KeptRequests::All => settings.memory / Requests::SHARE,
        };
        let memory = settings.memory - of_requests;
        let parts = Parts::default();
        let history = History::new(Arc::clone(&parts), memory, Arc::clone(clock));
        let from = |it: &Arc<Source>| it.config.from.to_string();
        history.keep_log(config.log_memory(), followed.iter().map(from).collect());
        let replayed = history.clone();
        let shipping = shipper.as_ref().map(ShippingThread::status);
        let folder = dir.clone();
        let kept = kept.filter(|it| it.setting == HISTORY).cloned();
        let open = move || {
            let opened = Store::open(&dir, retention);
            let error = opened.as_ref().err().and_then(|it| it.of_folder());
            kept.iter().for_each(|it| it.was_opened(error));
            let mut store = opened?;
            store.share(Arc::clone(&parts));
            let kept = store.ship(shipping.as_ref().map(|_| &*shipped))?;
            replayed.replay(&mut store);
            for source in &followed {
                source.begin(store.files().get(&from(source)).cloned());
            }
            if let Some((status, kept)) = shipping.as_ref().zip(kept) {
                status.begin(kept);
            }
            debug!(dir = %dir.display(), run = store.run(), "Keeping the past of reports.");
            Ok(store)
        };
        let open = (folder, Box::new(open) as _);
        let writer = Writer::new(history.clone(), open, settings.flush_period);
        Ok(Self { history: Some(history), writer: Some(writer), shipper, fleet, ..Self::default() })
    }

    /// The unix second at which its files were written last; 0 if there are none.
    pub(super) fn written(&self) -> u64 {
        let earlier = self.history.as_ref().and_then(History::earlier);
        let parts = earlier.iter().flat_map(|it| it.parts.iter());
        parts.map(|part| part.written).max().unwrap_or_default()
    }

    /// Keeps raw requests from now on: called before the first merge.
    pub(super) fn keep_requests(&mut self, config: &Config, live: &SharedLive) {
        let writer = self.writer.as_mut();
        self.requests = writer.and_then(|writer| writer.keep_requests(config, live));
    }

    /// If the previous process was killed, or its snapshot cannot be read or is not the last one,
    /// reads from history the data that was lost. Also returns whether the snapshot is an old one.
    pub(super) fn refill(
        &mut self,
        last_end: Option<&mut LastEnd>,
        clock: &dyn Clock,
        live: &SharedLive,
        snapshots: Option<&Snapshots>,
    ) -> (Option<Refill>, bool) {
        let Some(last_end) = last_end else { return (None, false) };
        if let Some(history) = &self.history {
            let is_kill = !last_end.clean && !last_end.unsaved;
            let lost = is_kill.then(|| history.lost_by_kill()).flatten();
            lost.into_iter().for_each(|lost| last_end.add_lost(lost));
            history.keep_lost_at_stops(&last_end.lost_at_stops);
        }
        if let Some(writer) = self.writer.as_mut().filter(|_| !last_end.clean) {
            writer.write_restored();
        }
        let earlier = self.history.as_ref().and_then(History::earlier);
        let restored = snapshots.and_then(|snapshots| snapshots.status().restored);
        let restored = restored.map(|restored| {
            // Numbers of files say nothing of those in another folder.
            let is_other = matches!((restored.history_from, &earlier),
                (Some(HistoryFrom::Cut { store, .. }), Some(here)) if store != here.store);
            (restored.time, restored.history_from.filter(|_| !is_other))
        });
        let parts = earlier.map(|it| it.parts);
        // A stop writes its snapshot after everything else.
        let is_old = restored.zip(parts.as_ref()).is_some_and(|((time, from), parts)| {
            let first = match from {
                Some(HistoryFrom::File(file) | HistoryFrom::Cut { file, .. }) => file,
                _ => 0,
            };
            parts.iter().any(|part| part.number() >= first && part.written > time as u64)
        });
        let is_lost = restored.is_none() && snapshots.is_some() && parts.is_some();
        let clean = last_end.clean && !is_lost && !is_old;
        let spans = LastEnd { clean, ..last_end.clone() };
        let spans = spans.lacking(restored, clock.unix_ms() / 1000);
        let live = live.read();
        if let Some(history) = &self.history
            && let Some((_, Some(HistoryFrom::Cut { secs, file, .. }))) = restored
        {
            // A kill before the first snapshot of this process leaves the restored one.
            let windows = live.reports.iter().map(|it| it.definition.window.as_secs());
            let until = clock.unix_ms() / 1000 + windows.max().unwrap_or_default();
            history.keep_apart(PiecesCut { file, secs, until });
        }
        let reports = live.reports.iter().map(|entry| &*entry.definition);
        let error_status = live.reports.error_status;
        let refill = Refill::read(self.history.as_ref(), reports, error_status, &spans);
        let is_filled = refill.as_ref().and_then(Refill::filled).is_some();
        if is_filled && last_end.clean && is_old {
            warn!(
                "The snapshot is older than history: reports are filled from history, by the minute; other data since then is missing."
            );
        } else if is_filled && last_end.clean && is_lost {
            info!("No snapshot came back: reports are filled from history, by the minute.");
        }
        (refill, is_old)
    }

    /// Adds the importer of logs and the refill to the catalog.
    pub(super) fn attach_to(
        &mut self,
        mut catalog: Catalog,
        config: &Config,
        rule_counters: &Arc<RuleCounters>,
        refill: Option<Refill>,
    ) -> Catalog {
        let writer = self.writer.as_ref();
        catalog.importer = writer.map(|writer| Importer::new(config, rule_counters, writer));
        *catalog.refill.get_mut() = refill.map(Arc::new);
        catalog
    }

    /// The status, with that of history.
    pub(super) fn add_to(&mut self, status: Status) -> Status {
        Status {
            history: self.history.clone(),
            shipping: self.shipper.as_ref().map(ShippingThread::status),
            fleet: self.fleet.take(),
            ..status
        }
    }

    /// The taker of each second's rows.
    pub(super) fn minute_rows(
        &self,
        config: &Config,
        profile: Option<Arc<Profile>>,
    ) -> Option<TakeRows> {
        let (history, error_status) = (self.history.clone()?, config.reports.error_status);
        let mut minutes = MinuteRollup::new(history, error_status, profile);
        Some(Box::new(move |second: &Second, missed, read: ReadRows<'_>| {
            minutes.take_rows(second, missed, read);
        }))
    }

    /// History, for snapshots.
    pub(super) fn to_cut(&self) -> Option<Arc<dyn CutHistory>> {
        Some(Arc::new(self.history.clone()?))
    }

    /// Starts the threads, in the order in which they have to stop.
    pub(super) fn start(mut self, catalog: &Arc<Catalog>) -> Result<Vec<Worker>, StartError> {
        if let Some(writer) = &mut self.writer {
            let catalog = Arc::clone(catalog);
            writer.on_restored(Box::new(move || catalog.refill_again()));
        }
        let requests = self.requests.map(|requests| {
            let what = "the thread that copies raw requests";
            Worker::start("requests", what, move |stop| requests.run(stop))
        });
        let writer = self.writer.map(|writer| {
            let what = "the history thread";
            Worker::start_nice("history", what, 10, move |stop| writer.run(stop))
        });
        // The last files are shipped after the next start.
        let shipper = self.shipper.map(|shipper| {
            let what = "the thread that ships to ClickHouse";
            Worker::start_nice("clickhouse", what, 10, move |stop| shipper.run(stop))
        });
        [requests, writer, shipper].into_iter().flatten().collect()
    }
}
