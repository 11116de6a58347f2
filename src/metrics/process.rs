//! The process as Prometheus' own libraries show it: CPU, memory, open files, start time.
//!
//! Read from `/proc/self` at each scrape; without it the metrics are left out.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::telemetry::reading::{Group, Place, readings};
use crate::telemetry::{cpu, memory};

/// The kernel's data on the process.
pub(super) fn group(started: SystemTime) -> Group {
    let mut all = Vec::new();
    if let Some(times) = cpu::process() {
        all.extend(readings! {
            Counter cpu_seconds = times.user_secs + times.system_secs, "CPU time of the process, user and system.";
        });
    }
    if let Some([size, resident]) = memory::process_bytes() {
        all.extend(readings! {
            Gauge virtual_memory_bytes = size as f64, "Address space of the process.";
            Gauge resident_memory_bytes = resident as f64, "Memory of the process.";
        });
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        all.extend(readings! {
            Gauge open_fds = files.count() as f64, "Open files and sockets of the process.";
        });
    }
    let since = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    all.extend(readings! {
        Gauge start_time_seconds = since.as_secs_f64(), "When the process began, unix time.";
    });
    Group::new(Place::Top, all)
}
