//! The process as Prometheus' own libraries show it: CPU, memory, open files, start time.
//!
//! Read from `/proc/self` at each scrape; without it the metrics are left out.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::telemetry::{cpu, memory};

/// Writes the kernel's data on the process.
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
    if let Some([size, resident]) = memory::process_bytes() {
        let help = "Address space of the process";
        gauge("process_virtual_memory", help, Some(&bytes), size as f64)?;
        let help = "Memory of the process";
        gauge(
            "process_resident_memory",
            help,
            Some(&bytes),
            resident as f64,
        )?;
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        let help = "Open files and sockets of the process";
        gauge("process_open_fds", help, None, files.count() as f64)?;
    }
    let since = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let help = "When the process began, unix time";
    let since = since.as_secs_f64();
    gauge("process_start_time", help, Some(&seconds), since)
}
