//! `/metrics` for Prometheus, in its classic text format and as OpenMetrics.
//!
//! Counters and histograms per row of the chosen reports come from the series thread, once a
//! second, and only grow; the daemon's own numbers are those of `/api/v1/status` at the moment, but
//! counters leave out what came back from a snapshot after an end that was not clean.
//! [`otlp`] pushes the same to others. A windowed report cannot be scraped as a rate; these can.
//! Written on the front end's blocking threads; what bounds it is the budget of series
//! (`metrics.series_max`).

mod alerts;
mod classic;
pub mod exemplars;
mod instruments;
pub mod otlp;
mod process;
mod rows;
mod status;

pub(crate) use self::status::counts;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, RwLock};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use self::exemplars::Traced;
use self::otlp::Push;
use self::rows::Rows;
use crate::alert::Alerts;
use crate::delta::RowReader;
use crate::report::Watchlist;
use crate::telemetry::reading::{Group, SeriesCounts};

/// Bytes per series in the daemon: its numbers, its share of a name, and its lines while they are
/// being sent.
pub const SERIES_BYTES: usize = 512;

/// The data behind the metrics; cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    rows: Arc<RwLock<Rows>>,
    started: SystemTime,
    alerts: Arc<Alerts>,
    push: Option<Push>,
    unscraped: Arc<Mutex<SeriesCounts>>,
}

/// The format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The classic text format, which everything understands.
    Classic,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The content type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Classic => classic::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl Metrics {
    /// Metrics of the scraped reports among `watched`, with histograms up to these bounds, in
    /// `series_max` series.
    pub fn new(watched: Watchlist, buckets: &[Duration], series_max: usize) -> Self {
        let bounds =
            buckets.iter().map(|bound| u64::try_from(bound.as_micros()).unwrap_or(u64::MAX));
        let rows = Rows::new(watched, bounds.collect(), series_max);
        Self {
            rows: Arc::new(RwLock::new(rows)),
            started: SystemTime::now(),
            alerts: Arc::default(),
            push: None,
            unscraped: Arc::default(),
        }
    }

    /// The same with these alerts, and what is pushed.
    pub fn with(self, alerts: Arc<Alerts>, push: Option<Push>) -> Self {
        Self { alerts, push, ..self }
    }

    /// The same without these counts of the daemon's own counters.
    pub fn without(self, unscraped: Arc<Mutex<SeriesCounts>>) -> Self {
        Self { unscraped, ..self }
    }

    /// Counts the rows of a second, provided by `read`, under one hold of the lock: a scrape sees
    /// the second in all reports or in none. Called by the series thread.
    pub fn take_rows(&self, read: impl FnOnce(&mut dyn RowReader)) {
        let mut rows = self.rows.write();
        rows.follow();
        read(&mut *rows);
    }

    /// The rows' share of their budget, and what was pushed, for the daemon's status.
    pub fn status(&self) -> Vec<Group> {
        let rows = self.rows.read().status();
        let push = self.push.as_ref().map(Push::status);
        std::iter::once(rows).chain(push).collect()
    }

    /// What is pushed, if a server is configured.
    pub const fn push(&self) -> Option<&Push> {
        self.push.as_ref()
    }

    /// Writes all metrics; `status` is the current content of `/api/v1/status`. Only OpenMetrics
    /// has exemplars, those among `traced`.
    pub fn write(&self, status: Vec<Group>, format: Format, traced: Vec<Traced>) -> String {
        let mut registry = Registry::default();
        let exemplars: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
        registry.register_collector(Box::new(Scrape {
            metrics: self.clone(),
            status,
            traced,
            exemplars: Arc::clone(&exemplars),
        }));
        let mut text = String::with_capacity(64 << 10);
        // Writing to a String cannot fail, and the collector fails only with it.
        let _ = text::encode(&mut text, &registry);
        match format {
            Format::OpenMetrics => with_exemplars(text, &exemplars.lock()),
            Format::Classic => classic::classic(&text),
        }
    }
}

#[derive(Debug)]
struct Scrape {
    metrics: Metrics,
    status: Vec<Group>,
    traced: Vec<Traced>,
    /// Of each bucket of rows.
    exemplars: Arc<Mutex<Vec<Option<String>>>>,
}

/// Adds exemplars, which the library takes from its own histograms only, to the lines of buckets.
fn with_exemplars(text: String, exemplars: &[Option<String>]) -> String {
    if exemplars.iter().all(Option::is_none) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + (4 << 10));
    let mut exemplars = exemplars.iter();
    let buckets = rows::DURATIONS.map(|(name, _)| format!("{name}_seconds_bucket{{"));
    for line in text.lines() {
        out.push_str(line);
        if buckets.iter().any(|it| line.starts_with(it)) {
            let exemplar = exemplars.next().and_then(Option::as_deref);
            out.push_str(exemplar.unwrap_or_default());
        }
        out.push('\n');
    }
    out
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        // The usage is that of the rows written here: the status is older, and a second may have
        // closed since.
        let rows = self.metrics.rows.read();
        let mut status = self.status.clone();
        status.retain(|group| group.place != rows::STATUS);
        status.push(rows.status());
        status::encode(&mut encoder, "pinbad", &status, &self.metrics.unscraped.lock())?;
        let (process, nothing) = ([process::group(self.metrics.started)], SeriesCounts::new());
        status::encode(&mut encoder, "process", &process, &nothing)?;
        let further = [instruments::groups(), alerts::groups(&self.metrics.alerts)].concat();
        status::encode(&mut encoder, "pinbad", &further, &nothing)?;
        rows.encode(&mut encoder, &self.traced, &mut self.exemplars.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::record::RejectReason;
    use crate::telemetry::Counters;
    use crate::telemetry::reading::{Kind, Place, Reading};

    #[test]
    fn every_number_of_the_status_is_there_with_its_kind_and_help() {
        let counters = Counters::new(2);
        counters.merge.requests_merged.add(7);
        counters.merge.merge_lag_us.set(1500);
        counters.mysql.mysql_statements.add(8);
        counters.mysql.mysql_connections_open.set(2);
        counters.logins.logins_failed.add(9);
        let mut invalid = [0; RejectReason::COUNT];
        invalid[RejectReason::Empty as usize] = 2;
        counters.sockets[1].datagrams_invalid.add(&invalid);
        let mut top = counters.total().readings();
        top.push(Reading::new(Kind::Alias, "lost_tmp_records", "", 6_u64));
        top.push(Reading {
            value: "1.2.3".into(),
            ..Reading::new(Kind::Gauge, "build_string", "The version.", 1_u64)
        });
        top.extend(counters.merge.counts().readings());
        top.extend(counters.mysql.counts().readings());
        top.extend(counters.logins.counts().readings());
        top.push(Reading::new(Kind::Gauge, "report_memory_bytes_max", "It may.", 1_usize));
        let socket = |at: usize| Group {
            labels: vec![("socket", at.to_string())],
            ..Group::new(Place::List("sockets", "socket"), counters.sockets[at].counts().readings())
        };
        let snapshot = vec![
            Reading::new(Kind::Gauge, "period_seconds", "How often.", 300.0),
            Reading {
                metric: Some("snapshots_written"),
                ..Reading::new(Kind::Counter, "written", "Written.", 8_u64)
            },
        ];
        let older = vec![Reading::new(Kind::Counter, "requests_folded", "Folded.", 40_u64)];
        let status = vec![
            Group::new(Place::Top, top),
            socket(0),
            socket(1),
            Group::new(Place::Object("snapshot"), snapshot),
            Group::new(rows::STATUS, older),
        ];
        let metrics = Metrics::new(Watchlist::default(), &[], 100);
        let text = metrics.write(status.clone(), Format::Classic, Vec::new());
        for line in [
            "# HELP pinbad_requests_merged_total Requests merged into the main pool and the reports",
            "# TYPE pinbad_requests_merged_total counter",
            "pinbad_requests_merged_total 7",
            "# HELP pinbad_mysql_statements_total Statements of MySQL clients, prepared ones when they are executed",
            "# TYPE pinbad_mysql_statements_total counter",
            "pinbad_mysql_statements_total 8",
            "# TYPE pinbad_mysql_connections_open gauge",
            "pinbad_mysql_connections_open 2",
            "# TYPE pinbad_logins_failed_total counter",
            "pinbad_logins_failed_total 9",
            "pinbad_merge_lag_seconds 0.0015",
            "pinbad_datagrams_invalid_total{reason=\"empty\"} 2",
            "pinbad_received_bytes_total 0",
            "pinbad_report_memory_max_bytes 1",
            "pinbad_snapshot_period_seconds 300.0",
            "pinbad_snapshots_written_total 8",
            "pinbad_socket_datagrams_invalid_total{socket=\"1\"} 2",
            "pinbad_socket_recv_buffer_asked_bytes{socket=\"0\"} 0",
            // From the rows next to it, not from the older status.
            "pinbad_metrics_requests_folded_total 0",
            "pinbad_build_info{version=\"1.2.3\"} 1",
        ] {
            assert!(text.lines().any(|is| is == line), "{line}\nin\n{text}");
        }
        assert_lacks!(text => "lost_tmp"; "the same as requests_overwritten");
        let open = metrics.write(status, Format::OpenMetrics, Vec::new());
        assert!(open.contains("# UNIT pinbad_merge_lag_seconds seconds\n"));
        assert!(open.ends_with("# EOF\n"));
    }
}
