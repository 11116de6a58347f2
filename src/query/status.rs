//! What the daemon says of itself: the columns of Pinba's `status`, then its own counters.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use super::tables::{BUILD, refusals};
use crate::access::{UserStore, Users};
use crate::clock::Clock;
use crate::config::RewriteRule;
use crate::ingest::TempRing;
use crate::ingest::kernel::KernelGauge;
use crate::ingest::sources::Sources;
use crate::merger::{GatheringPeriod, SharedLive};
use crate::state::keeper::Snapshots;
use crate::telemetry::Counters;
use crate::telemetry::counters::{CountsBy, Reason};
use crate::wire::{Mend, Refusal, RuleCounters};

/// One socket, as it is listed.
#[derive(Debug)]
pub struct SocketStatus {
    /// Where it is bound.
    pub address: std::net::SocketAddr,
    /// Reads what the kernel dropped.
    pub gauge: KernelGauge,
    /// Whether it outlives the process.
    pub handed_over: bool,
}

/// Everything that counts.
#[derive(Debug)]
pub struct Status {
    /// Of receivers and merger.
    pub counters: Counters,
    /// The sockets, in the order of `counters.sockets`.
    pub sockets: Vec<SocketStatus>,
    /// Who sends, if that is counted.
    pub sources: Option<Arc<Sources>>,
    /// Who may ask, and who failed to log in.
    pub users: Arc<UserStore>,
    /// The temporary pool.
    pub ring: Arc<TempRing>,
    /// Requests that the temporary pool holds.
    pub temp_pool_size: usize,
    /// How often the merger runs.
    pub gathering_period: Arc<GatheringPeriod>,
    /// The name rules.
    pub rewrites: Vec<RewriteRule>,
    /// Theirs, in their order.
    pub rule_counters: Arc<RuleCounters>,
    /// What became of snapshots; `None` without `state.dir`.
    pub snapshots: Option<Arc<Snapshots>>,
}

impl Status {
    /// The status of a daemon without sockets, users and rules: for whoever looks at pools and reports alone.
    #[must_use]
    pub fn bare(counters: Counters, ring: Arc<TempRing>, clock: Arc<dyn Clock>) -> Self {
        Self {
            counters,
            sockets: Vec::new(),
            sources: None,
            users: Arc::new(UserStore::new(Users::none(), clock)),
            ring,
            temp_pool_size: 1,
            gathering_period: Arc::new(GatheringPeriod::new(Duration::from_millis(10))),
            rewrites: Vec::new(),
            rule_counters: Arc::new(RuleCounters::new(0)),
            snapshots: None,
        }
    }

    /// The object of `GET /api/v1/status`.
    pub fn object(&self, live: &SharedLive) -> Map<String, Json> {
        // What is in the ring is asked for before what came in, so that nothing seems to be missing.
        let merge = self.counters.merge.counts();
        let depth = self.ring.depth();
        for socket in &self.sockets {
            // A failure leaves the last reading in place; the receiver logs it.
            let _last_reading_stays = socket.gauge.refresh();
        }
        let total = self.counters.total();
        let (timers, words, origins, tag_sets, requests, room, memory, folded, families) = {
            let live = live.read();
            let (used, limit, folded) = live.reports.memory();
            let pool = &live.pool;
            (
                pool.timers.len(),
                pool.words.len(),
                pool.origins.len(),
                pool.tag_sets.len(),
                pool.requests.len(),
                (pool.requests.size(), pool.timers.size()),
                (used, limit),
                folded,
                live.reports.families(),
            )
        };
        let requests_invalid = total.requests_invalid.total();
        let (_, not_accepted) = refusals(&total);
        let object = json!({
            "current_temp_pool_size": depth,
            "current_timer_pool_size": timers,
            "lost_tmp_records": total.requests_overwritten,
            "invalid_packets": total.datagrams_invalid.total(),
            "invalid_request_data": not_accepted,
            "build_string": BUILD,
            "dictionary_size": words,
            "datagrams_received": total.datagrams_received,
            "datagrams_accepted": total.datagrams_accepted,
            "datagrams_invalid": by_reason::<Refusal, { Refusal::COUNT }>(&total.datagrams_invalid),
            "requests_decoded": total.requests_decoded,
            "requests_invalid": requests_invalid,
            "requests_invalid_by_reason": by_reason::<Refusal, { Refusal::COUNT }>(&total.requests_invalid),
            "requests_merged": merge.requests_merged,
            "requests_overwritten": total.requests_overwritten,
            "ring_depth": depth,
            "kernel_drops": total.kernel_drops,
            "rows_evicted": merge.rows_evicted,
            "timers_merged": merge.timers_merged,
            "elements_mended": by_reason::<Mend, { Mend::COUNT }>(&total.elements_mended),
            "received_bytes": total.received_bytes,
            "receive_errors": total.receive_errors,
            "merges": merge.merges,
            "merge_lag_us": merge.merge_lag_us,
            "request_rows": requests,
            "request_rows_max": room.0,
            "timer_rows": timers,
            "timer_rows_max": room.1,
            "origins": origins,
            "tag_sets": tag_sets,
            "words_overflowed": merge.words_overflowed,
            "report_families": families,
            "report_memory_bytes": memory.0,
            "report_memory_bytes_max": memory.1,
            "report_keys_folded": folded,
            "logins_failed": self.users.attempts.failed.get(),
            "logins_held_back": self.users.attempts.held_back.get(),
            "sockets": self.socket_list(),
            "rewrites": self.rule_list(),
            "snapshot": self.snapshots.as_deref().map(snapshot),
        });
        let mut object = match object {
            Json::Object(object) => object,
            _ => Map::new(),
        };
        let mysql = self.counters.mysql.counts().readings();
        object.extend(
            mysql
                .iter()
                .map(|reading| (reading.name.to_owned(), reading.value.into())),
        );
        object
    }

    fn socket_list(&self) -> Vec<Json> {
        self.sockets
            .iter()
            .zip(&self.counters.sockets)
            .map(|(socket, counters)| {
                let counts = counters.counts();
                json!({
                    "address": socket.address.to_string(),
                    "handed_over": socket.handed_over,
                    "datagrams_received": counts.datagrams_received,
                    "datagrams_accepted": counts.datagrams_accepted,
                    "datagrams_invalid": counts.datagrams_invalid.total(),
                    "requests_decoded": counts.requests_decoded,
                    "requests_invalid": counts.requests_invalid.total(),
                    "requests_overwritten": counts.requests_overwritten,
                    "kernel_drops": counts.kernel_drops,
                    "kernel_queue_bytes": counts.kernel_queue_bytes,
                    "recv_buffer_asked_bytes": counts.recv_buffer_asked_bytes,
                    "recv_buffer_granted_bytes": counts.recv_buffer_granted_bytes,
                })
            })
            .collect()
    }

    fn rule_list(&self) -> Vec<Json> {
        self.rewrites
            .iter()
            .zip(self.rule_counters.counts())
            .map(|(rule, counts)| {
                json!({
                    "field": rule.field.to_string(),
                    "form": rule.change.form(),
                    "pattern": rule.change.pattern(),
                    "replace": rule.change.replace(),
                    "stop": rule.stop,
                    "place": rule.place.to_string(),
                    "tried": counts.tried,
                    "matched": counts.matched,
                    "remark": counts.remark(),
                })
            })
            .collect()
    }

    /// The gathering period in milliseconds.
    #[must_use]
    pub fn gathering_period_ms(&self) -> u64 {
        self.gathering_period.get().as_millis() as u64
    }

    /// Why the daemon is behind, if it is: more than half of the temporary pool waits for the merger.
    #[must_use]
    pub fn behind(&self) -> Option<String> {
        let depth = self.ring.depth();
        (depth * 2 > self.temp_pool_size as u64).then(|| {
            format!(
                "the merger is behind: {depth} of {} requests wait",
                self.temp_pool_size
            )
        })
    }
}

/// What became of snapshots. Times are seconds since 1970, spans seconds.
fn snapshot(snapshots: &Snapshots) -> Json {
    let figures = snapshots.figures();
    let secs = |ms: u64| ms as f64 / 1e3;
    let last = figures.last.map(|last| {
        json!({
            "time": secs(last.unix_ms),
            "bytes": last.bytes,
            "requests": last.requests,
            "seconds": last.took.as_secs_f64(),
            "held_seconds": last.held.as_secs_f64(),
        })
    });
    let restored = figures.restored.map(|restored| {
        let left_out = restored.left_out.iter();
        let left_out: Vec<Json> = left_out
            .map(|(report, reason)| json!({"report": report, "reason": reason}))
            .collect();
        json!({
            "time": secs(restored.unix_ms),
            "requests": restored.requests,
            "seconds": restored.took.as_secs_f64(),
            "left_out": left_out,
        })
    });
    json!({
        "period_seconds": snapshots.period().as_secs_f64(),
        "written": figures.written,
        "failed": figures.failed,
        "error": figures.error,
        "last": last,
        "restored": restored,
        "damaged": snapshots.damaged(),
    })
}

/// Counts under the names of their reasons.
fn by_reason<R: Reason, const N: usize>(counts: &CountsBy<N>) -> Map<String, Json> {
    counts
        .0
        .iter()
        .enumerate()
        .map(|(at, &count)| (R::name_of(at).to_owned(), count.into()))
        .collect()
}
