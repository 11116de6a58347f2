//! The memory that the process really takes, as the kernel accounts for it. Read from `/proc` when somebody asks.

/// Bytes of the process that are in memory; `None` where there is no such `/proc`.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_takes_some_memory() {
        let bytes = super::resident_bytes().unwrap();
        assert!((1 << 20..1 << 34).contains(&bytes), "{bytes}");
    }
}
