//! The process as Prometheus' own libraries show it: CPU, memory, open files, start.
//!
//! Read from `/proc/self` when somebody scrapes; where there is none, the metrics are left out.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::telemetry::cpu;

/// Writes what the kernel says of the process.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, started: SystemTime) -> std::fmt::Result {
    let (seconds, bytes) = (Unit::Seconds, Unit::Bytes);
    if let Some(times) = cpu::process() {
        let counter = ConstCounter::new(times.user_secs + times.system_secs);
        let help = "CPU time of the process, user and system";
        let kind = counter.metric_type();
        let metric = encoder.encode_descriptor("process_cpu", help, Some(&seconds), kind)?;
        counter.encode(metric)?;
    }
    let mut gauge = |name, help, unit: Option<&Unit>, value: f64| {
        let gauge = ConstGauge::new(value);
        let metric = encoder.encode_descriptor(name, help, unit, gauge.metric_type())?;
        gauge.encode(metric)
    };
    let [size, resident] = memory_pages();
    let page = rustix::param::page_size() as f64;
    for (name, help, pages) in [
        (
            "process_virtual_memory",
            "Address space of the process",
            size,
        ),
        ("process_resident_memory", "Memory of the process", resident),
    ] {
        if let Some(pages) = pages {
            gauge(name, help, Some(&bytes), pages as f64 * page)?;
        }
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        let help = "Open files and sockets of the process";
        gauge("process_open_fds", help, None, files.count() as f64)?;
    }
    let since = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let help = "When the process began, unix time";
    gauge(
        "process_start_time",
        help,
        Some(&seconds),
        since.as_secs_f64(),
    )
}

/// Address space and memory, in pages.
fn memory_pages() -> [Option<u64>; 2] {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut fields = text.split_ascii_whitespace().map(|it| it.parse().ok());
    [0, 1].map(|_| fields.next().flatten())
}
