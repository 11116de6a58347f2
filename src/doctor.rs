//! `pinbad doctor`: is this machine set up for what the configuration asks of it?
//!
//! Looks at what the kernel grants (receive buffers, descriptors, memory), whether the addresses can be had, and whether
//! `state.dir` can be written, and says for each what to change and how. It binds what `serve` would bind, for a moment; a
//! daemon that runs already is therefore found "in use". Called by `main`; changes nothing and stops nothing. What cannot be
//! read (no `/proc`, no permission) is left out.

use std::fmt;
use std::fs;
use std::net::TcpListener;
use std::path::Path;

use crate::config::Config;
use crate::config::units::{exact_bytes, rounded_bytes};
use crate::ingest::kernel;
use crate::ingest::socket::{self, RecvBuffer, SocketError};
use crate::plan::MemoryPlan;

/// Descriptors beside connections and UDP sockets: log, runtimes, snapshot files.
const DESCRIPTORS_BESIDE: u64 = 64;

/// What was found about one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether something should be changed.
    pub verdict: Verdict,
    /// What was looked at.
    pub what: &'static str,
    /// What was found.
    pub found: String,
    /// What to change, as commands or settings; empty when nothing.
    pub change: String,
}

/// How one thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Right as it is.
    Right,
    /// It works, and would work better.
    Better,
    /// `serve` would fail, or lose packets.
    Wrong,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.verdict {
            Verdict::Right => "ok    ",
            Verdict::Better => "better",
            Verdict::Wrong => "wrong ",
        };
        write!(f, "{mark}  {:<17} {}", self.what, self.found)?;
        for line in self.change.lines() {
            write!(f, "\n{:26}-> {line}", "")?;
        }
        Ok(())
    }
}

/// Looks at everything.
#[must_use]
pub fn examine(config: &Config) -> Vec<Finding> {
    let ingest = &config.ingest;
    let asked = ingest.recv_buffer_bytes;
    // Open only for the question.
    let opened = socket::open(&ingest.listen, ingest.receivers, asked).map(|sockets| {
        let buffers = sockets.iter().map(|socket| socket.buffer);
        buffers.collect::<Vec<_>>()
    });
    let buffers = match &opened {
        Ok(buffers) => buffers.clone(),
        // Somebody has the address; what would be granted can be asked all the same.
        Err(_) => socket::grantable(asked).map_or_else(
            |_| Vec::new(),
            |buffer| vec![buffer; ingest.listen.len() * ingest.receivers],
        ),
    };
    let allowed = kernel::udp_memory_max();
    let plan = MemoryPlan::of(config).granted(&buffers, allowed);
    let mut findings = vec![udp(config, opened)];
    findings.extend(front("HTTP", "http.listen", config.http.listen));
    if cfg!(feature = "sql") {
        findings.extend(front("MySQL", "mysql.listen", config.mysql.listen));
    }
    findings.extend(allowed.map(|allowed| udp_memory(&plan, allowed)));
    findings.push(traffic(&plan));
    findings.extend(descriptors(config));
    findings.extend(memory(&plan, allowed));
    findings.push(cores(config));
    findings.extend(state_dir(config));
    findings
}

fn right(what: &'static str, found: String) -> Finding {
    Finding {
        verdict: Verdict::Right,
        what,
        found,
        change: String::new(),
    }
}

/// Whether the UDP addresses could be had, and what buffers their sockets got.
fn udp(config: &Config, opened: Result<Vec<RecvBuffer>, SocketError>) -> Finding {
    let ingest = &config.ingest;
    let asked = ingest.recv_buffer_bytes;
    match opened {
        Err(error) => Finding {
            verdict: Verdict::Wrong,
            what: "UDP",
            found: error.to_string(),
            change: String::new(),
        },
        Ok(buffers) => {
            let granted = buffers.iter().map(|buffer| buffer.granted_bytes).min();
            let granted = granted.unwrap_or_default();
            let found = format!(
                "{} can be had; each socket gets {} of receive buffer",
                ingest
                    .listen
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", "),
                rounded_bytes(granted as u64)
            );
            if granted >= asked {
                return right("UDP", found);
            }
            Finding {
                verdict: Verdict::Better,
                what: "UDP",
                found: format!(
                    "{found}, {} are asked for (ingest.recv_buffer)",
                    exact_bytes(asked as u64)
                ),
                change: format!(
                    "sysctl -w net.core.rmem_max={asked}     (and in /etc/sysctl.d/ for the next boot)\n\
                     or give the program CAP_NET_ADMIN: setcap cap_net_admin+ep PATH, AmbientCapabilities= in systemd"
                ),
            }
        }
    }
}

/// Binds a front end's address.
fn front(what: &'static str, key: &str, address: Option<std::net::SocketAddr>) -> Option<Finding> {
    let address = address?;
    Some(match TcpListener::bind(address) {
        Ok(_) => right(what, format!("{address} can be had")),
        Err(error) => Finding {
            verdict: Verdict::Wrong,
            what,
            found: format!("{address} cannot be had: {error}"),
            change: format!("stop what listens there (a pinbad that runs?), or change {key}"),
        },
    })
}

/// What all UDP sockets of the machine may hold together.
fn udp_memory(plan: &MemoryPlan, allowed: u64) -> Finding {
    let ours = plan.kernel.bytes;
    let found = format!(
        "all UDP sockets of this machine may hold {}; ours may come to {}",
        rounded_bytes(allowed),
        rounded_bytes(ours)
    );
    if ours <= allowed {
        return right("kernel memory", found);
    }
    let wanted = ours / rustix::param::page_size() as u64 * 5 / 4;
    Finding {
        verdict: Verdict::Better,
        what: "kernel memory",
        found,
        change: format!(
            "sysctl -w net.ipv4.udp_mem=\"{} {} {wanted}\", or a smaller ingest.recv_buffer",
            wanted / 2,
            wanted * 3 / 4
        ),
    }
}

/// How long the buffers last.
fn traffic(plan: &MemoryPlan) -> Finding {
    let spans: Vec<String> = plan
        .backlog
        .iter()
        .map(|backlog| {
            format!(
                "{:.1} s at {}/s",
                backlog.ring_secs + backlog.kernel_secs,
                backlog.packets_per_second
            )
        })
        .collect();
    right(
        "buffers",
        format!(
            "if the daemon stood still they would hold {}",
            spans.join(", ")
        ),
    )
}

/// Whether connections and sockets fit under the limit of descriptors.
fn descriptors(config: &Config) -> Option<Finding> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
    let sockets = (config.ingest.listen.len() * config.ingest.receivers) as u64;
    let needed = sockets
        + DESCRIPTORS_BESIDE
        + crate::http::HttpSettings::new(Vec::new()).connections_max as u64
        + config.mysql_limits.connections_max as u64;
    let found = format!("{limit} may be open, {needed} may be needed");
    if limit >= needed {
        return Some(right("descriptors", found));
    }
    Some(Finding {
        verdict: Verdict::Better,
        what: "descriptors",
        found,
        change: format!("ulimit -n {needed}, or LimitNOFILE={needed} in systemd"),
    })
}

/// Whether what the plan says fits into what the machine, or its control group, has.
fn memory(plan: &MemoryPlan, allowed: Option<u64>) -> Option<Finding> {
    // Sockets hold no more than that together, whatever each of them may.
    let sockets = allowed.map_or(plan.kernel.bytes, |allowed| allowed.min(plan.kernel.bytes));
    let needed = plan.total_bytes() + sockets;
    let has = available()?;
    let found = format!(
        "{} available; the plan comes to {}, socket buffers included",
        rounded_bytes(has),
        rounded_bytes(needed)
    );
    if needed <= has {
        return Some(right("memory", found));
    }
    Some(Finding {
        verdict: Verdict::Wrong,
        what: "memory",
        found,
        change: "smaller pools (`pinbad check` shows what takes how much), or more memory"
            .to_owned(),
    })
}

/// Bytes that can be had: of the machine, and under the limit of the control group if there is one.
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = group
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(u64::MAX);
    Some((kib * 1024).min(limit))
}

fn cores(config: &Config) -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let receivers = config.ingest.receivers * config.ingest.listen.len();
    let found = format!(
        "{cores}; {} and a merger want one each",
        if receivers == 1 {
            "1 receiver".to_owned()
        } else {
            format!("{receivers} receivers")
        }
    );
    if receivers < cores {
        return right("cores", found);
    }
    Finding {
        verdict: Verdict::Better,
        what: "cores",
        found,
        change: format!(
            "ingest.receivers = {}",
            (cores.saturating_sub(1) / config.ingest.listen.len().max(1)).max(1)
        ),
    }
}

/// Whether `state.dir` can be written to.
fn state_dir(config: &Config) -> Option<Finding> {
    let dir = config.state_dir.as_deref()?;
    let wrong = |found: String| Finding {
        verdict: Verdict::Wrong,
        what: "state.dir",
        found,
        change: format!("mkdir -p {0} && chown USER {0}", dir.display()),
    };
    Some(match writable(dir) {
        Ok(()) => right("state.dir", format!("{} can be written", dir.display())),
        Err(error) => wrong(format!("{} cannot be written: {error}", dir.display())),
    })
}

fn writable(dir: &Path) -> std::io::Result<()> {
    let probe = dir.join(format!(".doctor-{}", std::process::id()));
    fs::write(&probe, b"")?;
    fs::remove_file(&probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &[&str]) -> Config {
        let flags = crate::config::ConfigFlags {
            set: settings.iter().map(|&setting| setting.to_owned()).collect(),
            ..crate::config::ConfigFlags::default()
        };
        Config::load(&flags, []).unwrap()
    }

    fn found(findings: &[Finding], what: &str) -> Finding {
        findings
            .iter()
            .find(|finding| finding.what == what)
            .unwrap()
            .clone()
    }

    const FREE: [&str; 3] = [
        "ingest.listen=127.0.0.1:0",
        "http.listen=127.0.0.1:0",
        "mysql.listen=127.0.0.1:0",
    ];

    #[test]
    fn a_machine_with_room_has_its_addresses() {
        let findings = examine(&config(&FREE));
        assert_eq!(found(&findings, "HTTP").verdict, Verdict::Right);
        assert_ne!(found(&findings, "UDP").verdict, Verdict::Wrong);
        assert!(found(&findings, "buffers").found.contains("/s"));
    }

    #[test]
    fn what_is_taken_is_named_with_its_setting() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let http = format!("http.listen={}", taken.local_addr().unwrap());
        let findings = examine(&config(&[FREE[0], &http, FREE[2]]));
        let http = found(&findings, "HTTP");
        assert_eq!(http.verdict, Verdict::Wrong);
        assert!(http.change.contains("http.listen"), "{http}");

        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let listen = format!("ingest.listen={}", udp.local_addr().unwrap());
        let findings = examine(&config(&[&listen, FREE[1], FREE[2]]));
        let udp = found(&findings, "UDP");
        assert_eq!(udp.verdict, Verdict::Wrong);
        assert!(udp.found.contains("ingest.listen"), "{udp}");
    }

    /// The seconds of the `buffers` line, at 10,000 a second.
    fn seconds(findings: &[Finding]) -> f64 {
        let said = found(findings, "buffers").found;
        let spans = said.split_once("hold ").unwrap().1;
        spans.split_once(" s at ").unwrap().0.parse().unwrap()
    }

    #[test]
    fn seconds_are_those_of_what_the_kernel_grants() {
        // More than most kernels allow all sockets together; and where the address is taken they are asked all the same.
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let taken = format!("ingest.listen={}", udp.local_addr().unwrap());
        for listen in [FREE[0], &taken] {
            let settings = [
                listen,
                FREE[1],
                FREE[2],
                "ingest.recv_buffer=1GB",
                "ingest.receivers=64",
            ];
            let config = config(&settings);
            let granted = socket::grantable(config.ingest.recv_buffer_bytes).unwrap();
            let bytes = 64 * granted.kernel_bytes as u64;
            let bytes = bytes.min(kernel::udp_memory_max().unwrap_or(u64::MAX));
            let ring = MemoryPlan::of(&config).backlog[0].ring_secs;
            let packets = bytes / crate::plan::TYPICAL_PACKET_CHARGE;
            let expected = ring + packets as f64 / 10_000.0;
            let seconds = seconds(&examine(&config));
            assert!((seconds - expected).abs() < 0.1, "{seconds} {expected}");
        }
    }

    #[test]
    fn all_sockets_together_hold_what_the_machine_allows() {
        let Some(allowed) = kernel::udp_memory_max() else {
            return;
        };
        let each = 1_000_000_000;
        let buffer = RecvBuffer {
            asked_bytes: each,
            granted_bytes: each,
            kernel_bytes: 2 * each,
        };
        let sockets = vec![buffer; usize::try_from(allowed).unwrap() / each + 1];
        let plan = MemoryPlan::of(&config(&FREE)).granted(&sockets, Some(allowed));
        let kernel = udp_memory(&plan, allowed);
        assert_eq!(kernel.verdict, Verdict::Better, "{kernel}");
        assert!(kernel.change.contains("net.ipv4.udp_mem"), "{kernel}");
        let packets = allowed / crate::plan::TYPICAL_PACKET_CHARGE;
        let expected = plan.backlog[0].ring_secs + packets as f64 / 10_000.0;
        let seconds = seconds(&[traffic(&plan)]);
        assert!((seconds - expected).abs() < 0.1, "{seconds} {expected}");
    }

    #[test]
    fn a_plan_larger_than_the_machine_is_wrong() {
        let settings = [FREE[0], FREE[1], FREE[2], "reports.memory=1TiB"];
        let memory = found(&examine(&config(&settings)), "memory");
        assert_eq!(memory.verdict, Verdict::Wrong, "{memory}");
    }

    #[test]
    fn a_state_dir_that_is_not_there_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let there = format!("state.dir={}", folder.path().display());
        let findings = examine(&config(&[FREE[0], FREE[1], FREE[2], &there]));
        assert_eq!(found(&findings, "state.dir").verdict, Verdict::Right);
        let gone = format!("state.dir={}", folder.path().join("gone").display());
        let findings = examine(&config(&[FREE[0], FREE[1], FREE[2], &gone]));
        assert_eq!(found(&findings, "state.dir").verdict, Verdict::Wrong);
    }
}
