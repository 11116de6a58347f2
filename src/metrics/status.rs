//! The daemon's own counters as metrics: every number of `/api/v1/status`, with help and unit.
//!
//! Made from the status object when somebody scrapes, so the two cannot disagree. [`LINES`] gives each number its name,
//! kind and help; a number that has no line (of a part that is younger than this list) is shown as a gauge all the
//! same. Objects are split by reason, the list of sockets by socket, that of name rules by rule.

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use serde_json::{Map, Value as Json};

/// What a number of the status is as a metric.
struct Line {
    /// In the status; behind a dot what is inside an object.
    key: &'static str,
    /// Without `pinbad_`, unit and `_total`.
    name: &'static str,
    kind: Kind,
    help: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Only grows.
    Count,
    /// Only grows, bytes.
    Bytes,
    /// Moves both ways.
    Level,
    /// Moves both ways, bytes.
    LevelBytes,
    /// Moves both ways; microseconds in the status, seconds here.
    LevelMicros,
    /// What another number says too, under a name that Pinba had.
    Again,
}

const fn line(key: &'static str, name: &'static str, kind: Kind, help: &'static str) -> Line {
    Line {
        key,
        name,
        kind,
        help,
    }
}

use Kind::{Again, Bytes, Count, Level, LevelBytes, LevelMicros};

/// Every number of the status.
const LINES: &[Line] = &[
    line("current_temp_pool_size", "", Again, ""),
    line("current_timer_pool_size", "", Again, ""),
    line("lost_tmp_records", "", Again, ""),
    line("invalid_packets", "", Again, ""),
    line("invalid_request_data", "", Again, ""),
    line(
        "dictionary_size",
        "words",
        Level,
        "Distinct texts that are kept",
    ),
    line(
        "datagrams_received",
        "datagrams_received",
        Count,
        "Datagrams taken from the sockets; each is accepted or invalid",
    ),
    line(
        "datagrams_accepted",
        "datagrams_accepted",
        Count,
        "Datagrams of which at least one request was taken",
    ),
    line(
        "datagrams_invalid",
        "datagrams_invalid",
        Count,
        "Datagrams of which nothing was taken, by the first reason that was found",
    ),
    line(
        "requests_decoded",
        "requests_decoded",
        Count,
        "Requests of accepted datagrams; each is invalid, overwritten, merged or still waiting",
    ),
    line("requests_invalid", "", Again, ""),
    line(
        "requests_invalid_by_reason",
        "requests_invalid",
        Count,
        "Requests of accepted datagrams that were refused, by reason",
    ),
    line(
        "requests_merged",
        "requests_merged",
        Count,
        "Requests taken into pool and reports",
    ),
    line(
        "requests_overwritten",
        "requests_overwritten",
        Count,
        "Requests that gave way to newer ones because the temporary pool was full",
    ),
    line(
        "ring_depth",
        "temp_pool_requests",
        Level,
        "Requests that wait in the temporary pool",
    ),
    line(
        "kernel_drops",
        "kernel_drops",
        Count,
        "Datagrams that the kernel dropped because a receive buffer was full",
    ),
    line(
        "rows_evicted",
        "rows_evicted",
        Count,
        "Raw requests that left the pool before their time because it was full",
    ),
    line(
        "timers_merged",
        "timers_merged",
        Count,
        "Timers taken into pool and reports",
    ),
    line(
        "elements_mended",
        "elements_mended",
        Count,
        "Elements left out of, or changed in, requests that were taken, by what was done",
    ),
    line(
        "received_bytes",
        "received",
        Bytes,
        "Size of the datagrams taken from the sockets",
    ),
    line(
        "receive_errors",
        "receive_errors",
        Count,
        "Calls to the kernel for datagrams that failed",
    ),
    line("merges", "merges", Count, "Runs of the merger"),
    line(
        "merge_lag_us",
        "merge_lag",
        LevelMicros,
        "How late the last run of the merger began",
    ),
    line(
        "request_rows",
        "request_rows",
        Level,
        "Raw requests that are kept",
    ),
    line(
        "request_rows_max",
        "request_rows_max",
        Level,
        "Raw requests that there is room for",
    ),
    line(
        "timer_rows",
        "timer_rows",
        Level,
        "Raw timers that are kept",
    ),
    line(
        "timer_rows_max",
        "timer_rows_max",
        Level,
        "Raw timers that there is room for",
    ),
    line(
        "origins",
        "origins",
        Level,
        "Distinct hosts, servers, scripts, schemas and statuses together that are kept",
    ),
    line(
        "tag_sets",
        "tag_sets",
        Level,
        "Distinct sets of tags that are kept",
    ),
    line(
        "words_overflowed",
        "words_overflowed",
        Count,
        "Texts that were not kept because pool.words_memory was used up",
    ),
    line(
        "report_families",
        "report_families",
        Level,
        "Groups of reports that share what they count",
    ),
    line(
        "report_memory_bytes",
        "report_memory",
        LevelBytes,
        "Memory of all reports together",
    ),
    line(
        "report_memory_bytes_max",
        "report_memory_max",
        LevelBytes,
        "What it may be (reports.memory)",
    ),
    line(
        "report_keys_folded",
        "report_keys_folded",
        Count,
        "Keys counted under (other) because reports.memory was used up",
    ),
    line(
        "series.memory_bytes",
        "series_memory",
        LevelBytes,
        "Memory of the last hour",
    ),
    line(
        "series.memory_bytes_max",
        "series_memory_max",
        LevelBytes,
        "What it may be (series.memory)",
    ),
    line(
        "series.reports",
        "series_reports",
        Level,
        "Reports of which the last hour is kept",
    ),
    line(
        "series.rows",
        "series_rows",
        Level,
        "Rows of which the last hour is kept",
    ),
    line(
        "series.rows_full",
        "series_rows_full",
        Level,
        "Rows of the last second that are kept with percentiles",
    ),
    line(
        "series.rows_without_percentiles",
        "series_rows_without_percentiles",
        Level,
        "Rows of the last second that are kept without percentiles, for want of memory",
    ),
    line(
        "series.rows_folded",
        "series_rows_folded",
        Level,
        "Rows of the last second that are only in the total, for want of memory",
    ),
    line(
        "series.requests_counted",
        "series_requests_counted",
        Count,
        "Requests that the last hour and the metrics of rows have counted",
    ),
    line(
        "series.requests_missed",
        "series_requests_missed",
        Count,
        "Requests that left the pool before the last hour and the metrics of rows could count them",
    ),
    line(
        "metrics.series",
        "metrics_series",
        Level,
        "Series of rows that have a place",
    ),
    line(
        "metrics.series_max",
        "metrics_series_max",
        Level,
        "What it may be (metrics.series_max)",
    ),
    line(
        "metrics.rows",
        "metrics_rows",
        Level,
        "Rows that have series of their own",
    ),
    line(
        "metrics.requests_folded",
        "metrics_requests_folded",
        Count,
        "Requests counted under (other) because metrics.series_max was used up, over all reports",
    ),
    line(
        "snapshot.period_seconds",
        "snapshot_period_seconds",
        Level,
        "How often a snapshot is written; 0: at the stop only (state.snapshot_period)",
    ),
    line(
        "snapshot.written",
        "snapshots_written",
        Count,
        "Snapshots that were written to state.dir",
    ),
    line(
        "snapshot.failed",
        "snapshots_failed",
        Count,
        "Snapshots that could not be written to state.dir; the one before stays",
    ),
    line(
        "snapshot.last_timestamp",
        "snapshot_timestamp_seconds",
        Level,
        "When the newest snapshot in state.dir was finished: what came since is lost should the process be killed",
    ),
    line(
        "snapshot.damaged_files",
        "snapshot_damaged_files",
        Level,
        "Snapshots in state.dir that could not be read and were set aside",
    ),
];

/// Numbers of one socket.
const SOCKET_LINES: &[Line] = &[
    line(
        "datagrams_received",
        "socket_datagrams_received",
        Count,
        "Datagrams taken from the socket",
    ),
    line(
        "datagrams_accepted",
        "socket_datagrams_accepted",
        Count,
        "Datagrams of the socket of which at least one request was taken",
    ),
    line(
        "datagrams_invalid",
        "socket_datagrams_invalid",
        Count,
        "Datagrams of the socket of which nothing was taken",
    ),
    line(
        "requests_decoded",
        "socket_requests_decoded",
        Count,
        "Requests of accepted datagrams of the socket",
    ),
    line(
        "requests_invalid",
        "socket_requests_invalid",
        Count,
        "Requests of accepted datagrams of the socket that were refused",
    ),
    line(
        "requests_overwritten",
        "socket_requests_overwritten",
        Count,
        "Requests of the socket that gave way to newer ones because the temporary pool was full",
    ),
    line(
        "kernel_drops",
        "socket_kernel_drops",
        Count,
        "Datagrams that the kernel dropped because the receive buffer of the socket was full",
    ),
    line(
        "kernel_queue_bytes",
        "socket_kernel_queue",
        LevelBytes,
        "What waits in the receive buffer of the socket, with the kernel's own book-keeping",
    ),
    line(
        "recv_buffer_asked_bytes",
        "socket_recv_buffer_asked",
        LevelBytes,
        "Receive buffer asked for (ingest.recv_buffer)",
    ),
    line(
        "recv_buffer_granted_bytes",
        "socket_recv_buffer_granted",
        LevelBytes,
        "Receive buffer granted",
    ),
];

/// Numbers of one name rule.
const RULE_LINES: &[Line] = &[
    line(
        "tried",
        "rewrite_tried",
        Count,
        "Texts that a name rule was tried on",
    ),
    line(
        "matched",
        "rewrite_matched",
        Count,
        "Texts that a name rule changed",
    ),
];

/// A label and its value.
type Label = (&'static str, String);

/// Writes all numbers of the status.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    status: &Map<String, Json>,
) -> std::fmt::Result {
    if let Some(version) = status.get("build_string").and_then(Json::as_str) {
        let help = "The daemon's version";
        let kind = MetricType::Info;
        let mut metric = encoder.encode_descriptor("pinbad_build", help, None, kind)?;
        metric.encode_info(&[("version", version)])?;
    }
    for (key, value) in status {
        match value {
            Json::Array(list) => encode_list(encoder, key, list)?,
            Json::Object(inner) if inner.keys().any(|name| has_line(key, name)) => {
                let derived = if key == "snapshot" {
                    of_snapshots(inner)
                } else {
                    Vec::new()
                };
                let derived = derived.iter().map(|(name, value)| (*name, value));
                let inner = inner.iter().map(|(name, value)| (name.as_str(), value));
                for (name, value) in inner.chain(derived) {
                    let key = format!("{key}.{name}");
                    encode_number(encoder, LINES, &key, &[(Vec::new(), value)])?;
                }
            }
            Json::Object(reasons) => {
                let by_reason: Vec<(Vec<Label>, &Json)> = reasons
                    .iter()
                    .map(|(reason, count)| (vec![("reason", reason.clone())], count))
                    .collect();
                encode_number(encoder, LINES, key, &by_reason)?;
            }
            value => encode_number(encoder, LINES, key, &[(Vec::new(), value)])?,
        }
    }
    Ok(())
}

/// What of snapshots is no number by itself in the status: when the newest one was finished, by this process or the one
/// before, and how many lie there damaged.
fn of_snapshots(snapshot: &Map<String, Json>) -> Vec<(&'static str, Json)> {
    let time = |of: &str| {
        snapshot
            .get(of)?
            .get("time")
            .filter(|time| time.is_number())
    };
    let damaged = snapshot.get("damaged").and_then(Json::as_array);
    let time = time("last").or_else(|| time("restored")).cloned();
    let damaged = damaged.map(|files| files.len().into());
    let named = [("last_timestamp", time), ("damaged_files", damaged)];
    let known = named
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    known.collect()
}

fn has_line(key: &str, name: &str) -> bool {
    let parts = |line: &Line| line.key.split_once('.') == Some((key, name));
    LINES.iter().any(parts)
}

/// A list of objects: each number becomes a metric, each object a label.
fn encode_list(encoder: &mut DescriptorEncoder<'_>, key: &str, list: &[Json]) -> std::fmt::Result {
    let lines = match key {
        "sockets" => SOCKET_LINES,
        "rewrites" => RULE_LINES,
        _ => return Ok(()),
    };
    for line in lines {
        let numbers: Vec<(Vec<Label>, &Json)> = list
            .iter()
            .enumerate()
            .filter_map(|(at, object)| {
                let text = |name: &str| {
                    let text = object.get(name).and_then(Json::as_str);
                    text.unwrap_or_default().to_owned()
                };
                let labels = match key {
                    "sockets" => vec![("socket", at.to_string()), ("address", text("address"))],
                    _ => vec![
                        ("rule", at.to_string()),
                        ("field", text("field")),
                        ("pattern", text("pattern")),
                    ],
                };
                Some((labels, object.get(line.key)?))
            })
            .collect();
        encode_number(encoder, lines, line.key, &numbers)?;
    }
    Ok(())
}

/// One metric with its numbers; texts, flags and empty lists are left out.
fn encode_number(
    encoder: &mut DescriptorEncoder<'_>,
    lines: &[Line],
    key: &str,
    numbers: &[(Vec<Label>, &Json)],
) -> std::fmt::Result {
    let known = lines.iter().find(|line| line.key == key);
    let kind = known.map_or(Level, |line| line.kind);
    if kind == Again || !numbers.iter().any(|(_, value)| value.is_number()) {
        return Ok(());
    }
    let name = match known {
        Some(line) => format!("pinbad_{}", line.name),
        None => format!(
            "pinbad_{}",
            key.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
        ),
    };
    let help = known.map_or("A number of /api/v1/status", |line| line.help);
    let unit = match kind {
        Bytes | LevelBytes => Some(Unit::Bytes),
        LevelMicros => Some(Unit::Seconds),
        Count | Level | Again => None,
    };
    let grows = matches!(kind, Count | Bytes);
    let metric_type = if grows {
        MetricType::Counter
    } else {
        MetricType::Gauge
    };
    let mut metric = encoder.encode_descriptor(&name, help, unit.as_ref(), metric_type)?;
    for (labels, value) in numbers {
        if labels.is_empty() {
            write_number(&mut metric, kind, value)?;
        } else {
            let labels = Labels(labels);
            write_number(&mut metric.encode_family(&labels)?, kind, value)?;
        }
    }
    Ok(())
}

fn write_number(metric: &mut MetricEncoder<'_>, kind: Kind, value: &Json) -> std::fmt::Result {
    match (value.as_u64(), value.as_f64()) {
        (Some(count), _) if matches!(kind, Count | Bytes) => {
            metric.encode_counter::<NoLabelSet, u64, u64>(&count, None)
        }
        (Some(micros), _) if kind == LevelMicros => metric.encode_gauge(&(micros as f64 / 1e6)),
        (Some(level), _) => metric.encode_gauge(&level),
        (None, Some(level)) => metric.encode_gauge(&level),
        (None, None) => Ok(()),
    }
}

#[derive(Debug)]
struct Labels<'a>(&'a [Label]);

impl EncodeLabelSet for Labels<'_> {
    fn encode(
        &self,
        encoder: &mut prometheus_client::encoding::LabelSetEncoder<'_>,
    ) -> std::fmt::Result {
        use prometheus_client::encoding::EncodeLabel;
        for (name, value) in self.0 {
            (*name, value.as_str()).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}
