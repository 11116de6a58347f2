//! The process as Prometheus' own libraries show it: CPU, memory, open files, start time.
//!
//! Read from `/proc/self` at each scrape; without it the metrics are left out.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::telemetry::{cpu, memory};

/// Writes the kernel's data on the process.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, started: SystemTime) -> std::fmt::Result {
    let (seconds, bytes) = (Some(&Unit::Seconds), Some(&Unit::Bytes));
    if let Some(times) = cpu::process() {
        let help = "CPU time of the process, user and system";
        let secs = times.user_secs + times.system_secs;
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("process_cpu", help, seconds, kind)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&secs, None)?;
    }
    let mut gauge = |name, help, unit, value: f64| {
        let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        metric.encode_gauge(&value)
    };
    if let Some([size, resident]) = memory::process_bytes().map(|it| it.map(|it| it as f64)) {
        let help = "Address space of the process";
        gauge("process_virtual_memory", help, bytes, size)?;
        let help = "Memory of the process";
        gauge("process_resident_memory", help, bytes, resident)?;
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        let help = "Open files and sockets of the process";
        gauge("process_open_fds", help, None, files.count() as f64)?;
    }
    let since = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let help = "When the process began, unix time";
    gauge("process_start_time", help, seconds, since.as_secs_f64())
}
