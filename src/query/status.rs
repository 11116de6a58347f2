//! The daemon's status: the columns of Pinba's `status`, then its own numbers, each with kind and
//! help.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::task::AbortHandle;

use super::tables::{BUILD, refusals};
use crate::access::tls::Tls;
use crate::clickhouse::{Fleet, ShipStatus};
use crate::config::RewriteRule;
use crate::history::History;
use crate::input::rewrite::RuleCounters;
use crate::input::udp::kernel::KernelGauge;
use crate::input::udp::senders::Senders;
use crate::merger::{GatheringPeriod, Live, SharedLive, answering};
use crate::profile::{Profile, STATS};
use crate::ring::TempRing;
use crate::state::snapshot_writer::Snapshots;
use crate::telemetry::Counters;
use crate::telemetry::reading::{Group, Kind, Place, Reading, readings};

/// For how long a loss is mentioned, milliseconds.
const LATELY_MS: u64 = 600_000;
/// Time between two looks at the losses that are remembered, milliseconds.
const LOSSES_APART_MS: u64 = 10_000;

/// One listed socket, or Squid log source.
#[derive(Debug)]
pub struct SocketStatus {
    /// The bound address, or a description.
    pub address: String,
    /// Reads the kernel's drops of datagrams.
    pub gauge: Option<KernelGauge>,
    /// Whether it outlives the process.
    pub handed_over: bool,
}

/// The sources of all counters.
#[derive(Debug)]
pub struct Status {
    /// Counters of receivers and merger.
    pub counters: Counters,
    /// The sockets, in the order of `counters.sockets`.
    pub sockets: Vec<SocketStatus>,
    /// The senders, if they are counted.
    pub sources: Option<Arc<Senders>>,
    /// The temporary pool.
    pub ring: Arc<TempRing>,
    /// Capacity of the temporary pool in requests.
    pub temp_pool_size: usize,
    /// The interval of merger runs.
    pub gathering_period: Arc<GatheringPeriod>,
    /// The name rules.
    pub rewrites: Vec<RewriteRule>,
    /// Their counters, in the same order.
    pub rule_counters: Arc<RuleCounters>,
    /// The state of snapshots; `None` without `state.dir`.
    pub snapshots: Option<Arc<Snapshots>>,
    /// The latest time of what was stored before this start, unix seconds.
    pub stored_until: u64,
    /// Why nothing is kept although that was wanted.
    pub nothing_kept: Option<String>,
    /// Samples of PHP's functions; `None` without a `[[stat]]`.
    pub profile: Option<Arc<Profile>>,
    /// The past on disk; `None` without `history.dir`.
    pub history: Option<History>,
    /// The losses at some moments of the last minutes: monotonic milliseconds and number,
    /// oldest first.
    pub losses: Mutex<VecDeque<(u64, u64)>>,
    /// Certificates of the front ends, once these have started.
    pub certificates: Arc<OnceLock<Vec<Arc<Tls>>>>,
    /// Shipping to ClickHouse; `None` without `clickhouse.url`.
    pub shipping: Option<Arc<ShipStatus>>,
    /// Everything shipped there by the fleet.
    pub fleet: Option<Fleet>,
    /// Why not everything is pushed over OTLP, if so: of metrics, and of spans.
    pub pushing: Arc<Mutex<[Option<String>; 2]>>,
    /// Statements that were ended and may still run: since when, monotonic milliseconds, oldest
    /// first.
    pub overdue_statements: Mutex<Vec<(u64, AbortHandle)>>,
    /// When and why the configuration was not reloaded, until it is.
    pub not_reloaded: Mutex<Option<String>>,
}

impl Status {
    /// The status of a daemon without sockets, users, rules, snapshots and history.
    pub fn bare(counters: Counters, ring: Arc<TempRing>) -> Self {
        Self {
            counters,
            sockets: Vec::new(),
            sources: None,
            ring,
            temp_pool_size: 1,
            gathering_period: Arc::new(GatheringPeriod::new(Duration::from_millis(10))),
            rewrites: Vec::new(),
            rule_counters: Arc::new(RuleCounters::new(0)),
            snapshots: None,
            stored_until: 0,
            nothing_kept: None,
            profile: None,
            history: None,
            losses: Mutex::default(),
            certificates: Arc::default(),
            shipping: None,
            fleet: None,
            pushing: Arc::default(),
            overdue_statements: Mutex::default(),
            not_reloaded: Mutex::default(),
        }
    }

    /// The counters alone, which a snapshot lets go on, as they are before anything is received.
    pub fn before_start(counters: &Counters, sockets: &[SocketStatus]) -> Vec<Group> {
        let mut top = counters.total().readings();
        top.extend(counters.merge.counts().readings());
        top.extend(counters.logins.counts().readings());
        top.extend(counters.mysql.counts().readings());
        let groups = std::iter::once(Group::new(Place::Top, top));
        let groups = groups.chain(socket_groups(counters, sockets));
        groups.chain(otlp_groups(counters)).chain(squid_groups(counters)).collect()
    }

    /// The counters of reports, which a snapshot lets go on too.
    pub fn of_reports(live: &SharedLive) -> Group {
        let mut counters = kept(&answering(live));
        counters.retain(|it| it.kind == Kind::Counter);
        Group::new(Place::Top, counters)
    }

    /// The numbers of `GET /api/v1/status`: the columns of Pinba's `status`, then the daemon's own.
    pub fn groups(&self, live: &SharedLive) -> Vec<Group> {
        // The ring is read before arrivals, so that nothing seems to be missing.
        let merge = self.counters.merge.counts();
        let depth = self.ring.depth();
        for gauge in self.sockets.iter().filter_map(|it| it.gauge.as_ref()) {
            // A failure leaves the last reading in place; the receiver logs it.
            let _last_reading_stays = gauge.refresh();
        }
        let total = self.counters.total();
        let (_, not_accepted) = refusals(&total);
        let mut came = total.readings();
        for reading in &mut came {
            // Under its own name it has always been one number.
            if reading.name == "requests_invalid" {
                reading.name = "requests_invalid_by_reason";
                reading.metric = Some("requests_invalid");
            }
        }
        let (kept, holds, timers, strings) = {
            let live = answering(live);
            let holds = live.holds.readings();
            (kept(&live), holds, live.pool.timers.len(), live.pool.strings.len())
        };
        let mut all = readings! {
            Alias current_temp_pool_size = depth, "";
            Alias current_timer_pool_size = timers, "";
            Alias lost_tmp_records = total.requests_overwritten.get(), "";
            Alias invalid_packets = total.datagrams_invalid.total(), "";
            Alias invalid_request_data = not_accepted, "";
            Gauge build_string = BUILD, "The daemon's version.";
            Gauge dictionary_size as "words" = strings, "Distinct texts that are kept.";
            Alias lost = total.lost(), "";
            Alias requests_invalid = total.requests_invalid.total(), "";
            Gauge ring_depth as "temp_pool_requests" = depth, "Requests that wait in the temporary pool.";
        };
        all.extend(came);
        all.extend(merge.readings());
        all.extend(holds);
        all.extend(kept);
        all.extend(self.counters.logins.counts().readings());
        all.extend(self.counters.mysql.counts().readings());
        let mut groups = vec![Group::new(Place::Top, all)];
        groups.extend(socket_groups(&self.counters, &self.sockets));
        groups.extend(self.rule_groups());
        groups.extend(otlp_groups(&self.counters));
        groups.extend(squid_groups(&self.counters));
        groups.extend(self.profile.iter().flat_map(|it| it.status()));
        for (list, is_empty) in [
            (SOCKETS, self.sockets.is_empty()),
            (OTLP_INPUTS, self.counters.otlps.is_empty()),
            (SQUIDS, self.counters.squids.is_empty()),
            (STATS, self.profile.is_none()),
            (REWRITES, self.rewrites.is_empty()),
            (CERTIFICATES, self.certificates().is_empty()),
        ] {
            if is_empty {
                groups.push(Group::new(list, Vec::new()));
            }
        }
        groups.extend(self.certificate_groups());
        groups.extend(self.snapshots.as_deref().map(snapshot_group));
        groups.extend(self.history.as_ref().map(History::status));
        groups.extend(self.shipping.as_deref().map(ShipStatus::group));
        groups
    }

    fn certificates(&self) -> &[Arc<Tls>] {
        self.certificates.get().map_or(&[], Vec::as_slice)
    }

    fn certificate_groups(&self) -> impl Iterator<Item = Group> {
        self.certificates().iter().enumerate().map(|(at, tls)| {
            let texts = json!({"of": tls.section(), "file": tls.certificate()});
            let readings = readings! {
                Gauge expires_timestamp_seconds = tls.expires().unwrap_or_default(), "When the certificate of a front end is no longer valid, unix time.";
            };
            let label = ("of", tls.section().to_owned());
            Group::listed(CERTIFICATES, at, label, readings).with_texts(texts)
        })
    }

    fn rule_groups(&self) -> impl Iterator<Item = Group> {
        let rules = self.rewrites.iter().zip(self.rule_counters.counts());
        rules.enumerate().map(|(at, (rule, counts))| {
            let readings = readings! {
                Counter tried = counts.tried, "Texts that a name rule was tried on.";
                Counter matched = counts.matched, "Texts that a name rule changed.";
            };
            let texts = json!({
                "field": rule.field.to_string(),
                "form": rule.change.form(),
                "pattern": rule.change.pattern(),
                "replace": rule.change.replace(),
                "stop": rule.stop,
                "place": rule.location.to_string(),
                "remark": counts.remark(),
            });
            let pattern = rule.change.pattern().unwrap_or_default();
            Group {
                labels: vec![
                    ("rule", at.to_string()),
                    ("field", rule.field.to_string()),
                    ("pattern", pattern.to_owned()),
                ],
                ..Group::new(REWRITES, readings).with_texts(texts)
            }
        })
    }

    /// Losses of the last minutes: how much, and in how many milliseconds at most. It looks at the
    /// counters when it is asked, so the first time it reaches back to the start.
    pub(super) fn lost_lately(&self, now_ms: u64) -> Option<(u64, u64)> {
        let lost = self.counters.total().lost();
        let mut looks = self.losses.lock();
        if looks.back().is_none_or(|it| it.0 + LOSSES_APART_MS <= now_ms) {
            looks.push_back((now_ms, lost));
        }
        while looks.get(1).is_some_and(|it| it.0 + LATELY_MS <= now_ms) {
            looks.pop_front();
        }
        let (since_ms, before) = *looks.front()?;
        let more = lost.saturating_sub(before);
        (more > 0).then_some((more, now_ms.saturating_sub(since_ms)))
    }

    /// Why the daemon is behind, if so: more than half of the temporary pool waits for the merger.
    pub fn behind(&self) -> Option<String> {
        let depth = self.ring.depth();
        let room = self.temp_pool_size;
        let why = || format!("the merger is behind: {depth} of {room} requests wait");
        (depth * 2 > room as u64).then(why)
    }
}

const SOCKETS: Place = Place::List("sockets", "socket");
const OTLP_INPUTS: Place = Place::List("otlp_inputs", "otlp_input");
const SQUIDS: Place = Place::List("squids", "squid");
const REWRITES: Place = Place::List("rewrites", "rewrite");
const CERTIFICATES: Place = Place::List("certificates", "certificate");

fn socket_groups(counters: &Counters, sockets: &[SocketStatus]) -> impl Iterator<Item = Group> {
    let sockets = sockets.iter().zip(&counters.sockets);
    sockets.enumerate().map(|(at, (socket, counters))| {
        let address = socket.address.clone();
        let texts = json!({"address": address, "handed_over": socket.handed_over});
        let readings = counters.counts().readings();
        Group::listed(SOCKETS, at, ("address", address), readings).with_texts(texts)
    })
}

fn otlp_groups(counters: &Counters) -> impl Iterator<Item = Group> {
    counters.otlps.iter().enumerate().map(|(at, input)| {
        let listen = input.config.listen.to_string();
        let readings = input.counters.counts().readings();
        let group = Group::listed(OTLP_INPUTS, at, ("listen", listen.clone()), readings);
        let texts = json!({
            "listen": listen,
            "name": input.config.name,
            "place": input.config.location.to_string(),
            "bodies_refused_by_reason": group.value("bodies_refused"),
            "spans_left_out_by_reason": group.value("spans_left_out"),
            "spans_refused_by_reason": group.value("spans_refused"),
        });
        group.with_texts(texts)
    })
}

fn squid_groups(counters: &Counters) -> impl Iterator<Item = Group> {
    counters.squids.iter().enumerate().map(|(at, squid)| {
        let from = squid.config.from.to_string();
        let readings = squid.counters.counts().readings();
        let group = Group::listed(SQUIDS, at, ("from", from.clone()), readings);
        let texts = json!({
            "from": from,
            "name": squid.config.name,
            "place": squid.config.location.to_string(),
            "lines_invalid_by_reason": group.value("lines_invalid"),
            "last_invalid": squid.example.lock().clone(),
        });
        group.with_texts(texts)
    })
}

/// Current contents of pools and reports.
fn kept(live: &Live) -> Vec<Reading> {
    let (pool, reports) = (&live.pool, &live.reports);
    let (used, limit, overflowed) = reports.memory();
    readings! {
        Gauge request_rows = pool.requests.len(), "Raw requests that are kept.";
        Gauge request_rows_max = pool.requests.size(), "How many raw requests fit.";
        Gauge timer_rows = pool.timers.len(), "Raw timers that are kept.";
        Gauge timer_rows_max = pool.timers.size(), "How many raw timers fit.";
        Gauge origins = pool.origins.len(), "Distinct hosts, servers, scripts, schemas and statuses together that are kept.";
        Gauge tag_sets = pool.tag_sets.len(), "Distinct sets of tags that are kept.";
        Gauge report_families = reports.aggregates(), "Groups of reports that share what they count.";
        Gauge report_memory_bytes = used, "Memory of all reports together.";
        Gauge report_memory_bytes_max = limit, "Limit of that memory (reports.memory).";
        Counter report_keys_folded = overflowed, "Keys counted under (other) because reports.memory was used up.";
    }
}

/// The state of snapshots.
fn snapshot_group(snapshots: &Snapshots) -> Group {
    let status = snapshots.status();
    let last = status.last.map(|it| it.time);
    let newest = last.or_else(|| status.restored.as_ref().map(|it| it.time));
    let mut readings = readings! {
        Gauge period_seconds = status.period_seconds, "How often a snapshot is written; 0: at the stop only (state.snapshot_period).";
        Counter written as "snapshots_written" = status.written, "Snapshots that were written to state.dir.";
        Counter failed as "snapshots_failed" = status.failed, "Snapshots that could not be written to state.dir; the one before stays.";
        Gauge failing = u8::from(status.error.is_some()), "1 when the last attempt to write one failed, or the folder cannot be written.";
        Gauge disk_free_bytes = status.disk_free_bytes, "Free space on the disk of state.dir.";
        Gauge disk_needed_bytes = status.disk_needed_bytes, "Space that the next snapshot needs there, beside the last one.";
        Gauge damaged_files = status.damaged.len(), "Snapshots in state.dir that could not be read and were set aside.";
    };
    if let Some(time) = newest {
        readings.extend(readings! {
            Gauge timestamp_seconds = time, "When the newest snapshot in state.dir was finished: what came since is lost should the process be killed.";
        });
    }
    let texts = serde_json::to_value(status).unwrap_or_default();
    Group::new(Place::Object("snapshot"), readings).with_texts(texts)
}
