//! The machine that figures were measured on; figures without it say nothing.

use std::fs;
use std::io::{self, Write};

use super::options::cores;

/// Prints processor, cores, kernel, memory and how busy the machine was.
pub(super) fn write(out: &mut dyn Write, load_before: &str) -> io::Result<()> {
    let build = if cfg!(debug_assertions) {
        "DEBUG BUILD: these figures say nothing"
    } else {
        "release build"
    };
    writeln!(
        out,
        "pinbad {} ({build}), {} cores of {}, {} of memory, Linux {}, load average {load_before} before and {} after",
        env!("CARGO_PKG_VERSION"),
        cores(),
        processor(),
        memory(),
        kernel(),
        load_average(),
    )
}

/// Processes that ran or waited for a core in the last minute, on average.
pub(super) fn load_average() -> String {
    first_word("/proc/loadavg")
}

fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        ["model name", "Model", "CPU part"]
            .contains(&name.trim())
            .then(|| value.trim().to_owned())
    });
    model.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn memory() -> String {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.map_or_else(
        || "?".to_owned(),
        |kib| format!("{:.0} GiB", kib / f64::from(1 << 20)),
    )
}

fn kernel() -> String {
    first_word("/proc/sys/kernel/osrelease")
}

fn first_word(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}
