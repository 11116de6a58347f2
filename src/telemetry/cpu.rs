//! CPU time of the daemon's threads, as accounted by the kernel.
//!
//! Read from `/proc` on demand (`active_reports`, `v2_stats`), so that no stage measures itself and
//! nothing is spent while nobody asks. Threads are told apart by the names that the daemon gives
//! them. Exact to a clock tick of the kernel (usually 10 ms) of the sum since start. `None` where
//! there is no such `/proc`.

use std::path::Path;

/// CPU time since start, seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CpuTimes {
    /// User mode.
    pub user_secs: f64,
    /// Kernel mode.
    pub system_secs: f64,
}

/// Returns the CPU time of the process, ended threads included.
pub(crate) fn process() -> Option<CpuTimes> {
    read(Path::new("/proc/self/stat")).map(|(_, times)| times)
}

/// Returns the CPU time of the present threads whose name satisfies `wanted`, or `None` if there is
/// no such thread.
pub(crate) fn threads(wanted: impl Fn(&str) -> bool) -> Option<CpuTimes> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    tasks
        .filter_map(|task| read(&task.ok()?.path().join("stat")))
        .filter(|(name, _)| wanted(name))
        .map(|(_, times)| times)
        .reduce(|sum, more| CpuTimes {
            user_secs: sum.user_secs + more.user_secs,
            system_secs: sum.system_secs + more.system_secs,
        })
}

fn read(path: &Path) -> Option<(String, CpuTimes)> {
    let text = std::fs::read(path).ok()?;
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    parse(&String::from_utf8_lossy(&text), ticks_per_second as f64)
}

/// Parses `pid (name) state ppid ..`, with user and system time as fields 14 and 15. A name may
/// contain anything, `)` included.
fn parse(text: &str, ticks_per_second: f64) -> Option<(String, CpuTimes)> {
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    // The rest after the name begins with field 3.
    let mut fields = after.split_ascii_whitespace().skip(14 - 3);
    let mut secs = || Some(fields.next()?.parse::<u64>().ok()? as f64 / ticks_per_second);
    let times = CpuTimes { user_secs: secs()?, system_secs: secs()? };
    Some((name.to_owned(), times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_kernel_is_read() {
        let line = "77 (a) (b) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9 0 1 2";
        let (name, times) = parse(line, 100.0).unwrap();
        assert_eq!(name, "a) (b");
        assert_eq!((times.user_secs, times.system_secs), (2.5, 0.5));
        for cut in ["", "77 (a", "77 (a) R 1 2", "77 (a) R 1 2 3 4 5 6 7 8 9 10 x 0"] {
            assert_eq!(parse(cut, 100.0), None, "{cut}");
        }
    }

    #[test]
    fn a_thread_that_works_is_found_by_its_name() {
        let (started, wait) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("cpu-probe".to_owned());
        let thread = thread
            .spawn(move || {
                let mut sum = 0_u64;
                let is_probe = |name: &str| name == "cpu-probe";
                while threads(is_probe).is_some_and(|t| t.user_secs + t.system_secs < 0.02) {
                    sum = (0..100_000_u64).fold(sum, |sum, at| sum.wrapping_mul(31) ^ at);
                }
                started.send(sum).unwrap();
                stopped.recv().unwrap_or_default();
            })
            .unwrap();
        wait.recv().unwrap();
        let own = threads(|name| name == "cpu-probe").unwrap();
        let all = process().unwrap();
        assert!(own.user_secs + own.system_secs >= 0.02, "{own:?}");
        assert!(all.user_secs + all.system_secs >= own.user_secs, "{all:?}");
        assert_eq!(threads(|name| name == "nobody's name"), None);
        drop(stop);
        thread.join().unwrap();
    }
}
