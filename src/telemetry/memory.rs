//! Memory of the process, as accounted by the kernel. Read from `/proc` on demand.

/// Returns the size of the process's address space and of its resident part, bytes; `None` where
/// there is no such `/proc`.
pub(crate) fn process_bytes() -> Option<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages = text.split_ascii_whitespace().map(|pages| pages.parse().ok());
    let mut bytes =
        pages.map(|pages: Option<u64>| Some(pages? * rustix::param::page_size() as u64));
    Some([bytes.next()??, bytes.next()??])
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_takes_some_memory() {
        let [size, resident] = super::process_bytes().unwrap();
        assert!((1 << 20..1 << 34).contains(&resident), "{resident}");
        assert!(size >= resident, "{size}");
    }
}
