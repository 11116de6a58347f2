//! Receivers: a bare loop on threads of this process, or a daemon as a child.
//!
//! The bare loop calls `recvmmsg` into the daemon's buffers and throws the packets away: what the
//! kernel can deliver on this machine. The child gets SIGTERM when this process ends, whatever ends
//! it, and is killed when its [`Daemon`] is dropped. Processor time is read by thread from `/proc`,
//! so the loop's is known although the sender is in the same process.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hint::black_box;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pinbad::cli::client::{AccessFlags, Client, ClientError};
use pinbad::input::udp::batch::Batch;
use pinbad::input::udp::kernel;
use pinbad::input::udp::socket::{self, ReceiveSocket};
use pinbad::shutdown::Shutdown;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::Value as Json;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const LOCAL: &str = "127.0.0.1:0";
/// How long the daemon may take to start.
const START_MAX: Duration = Duration::from_secs(20);

/// Packets that a receiver has counted since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Packets that were merged, or thrown away by the bare loop.
    pub(crate) done: u64,
    /// Packets that the kernel or the temporary pool had no room for.
    pub(crate) lost: u64,
}

/// Somebody who receives packets.
pub(crate) trait Receiver {
    /// Where.
    fn udp(&self) -> SocketAddr;
    fn counts(&self) -> Result<Counts>;
    /// Processor time of its threads so far.
    fn cpu(&self) -> Cpu;
}

/// The bare loop.
pub(crate) struct Sink {
    sockets: Vec<ReceiveSocket>,
    received: Arc<AtomicU64>,
    stop: Shutdown,
}

impl Sink {
    pub(crate) fn start(receivers: u32, recv_buffer: u32) -> Result<Self> {
        let sockets = socket::open(&[LOCAL.parse()?], receivers as usize, recv_buffer as usize)?;
        let sink = Self { sockets, received: Arc::default(), stop: Shutdown::new() };
        for socket in &sink.sockets {
            let (socket, received) = (Arc::clone(&socket.socket), Arc::clone(&sink.received));
            let stop = sink.stop.clone();
            let run = move || {
                let mut batch = Batch::new(false);
                while !stop.requested() {
                    if let Ok(packets) = batch.receive(socket.as_fd()) {
                        // Used, or the compiler might think that nobody needs the bytes.
                        black_box(batch.datagrams().last());
                        received.fetch_add(packets as u64, Ordering::Relaxed);
                    }
                }
            };
            thread::Builder::new().name("sink".to_owned()).spawn(run)?;
        }
        Ok(sink)
    }

    /// Receive buffer that the kernel granted each socket, bytes.
    pub(crate) fn granted_bytes(&self) -> usize {
        self.sockets[0].buffer.granted_bytes
    }
}

impl Receiver for Sink {
    fn udp(&self) -> SocketAddr {
        self.sockets[0].address
    }

    fn counts(&self) -> Result<Counts> {
        let mut lost = 0;
        for socket in &self.sockets {
            lost += u64::from(kernel::read(socket.socket.as_fd())?.drops);
        }
        let done = self.received.load(Ordering::Relaxed);
        Ok(Counts { done, lost })
    }

    fn cpu(&self) -> Cpu {
        let mut cpu = Cpu::of(std::process::id());
        cpu.0.retain(|_, (name, _)| name == "sink");
        cpu
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.stop.request();
    }
}

/// `pinbad serve` as a child.
pub(crate) struct Daemon {
    child: Child,
    udp: SocketAddr,
    pub(crate) client: Client,
}

impl Daemon {
    /// Starts it, or another program, with these settings beside the defaults.
    pub(crate) fn start(other: Option<&OsStr>, settings: &[String]) -> Result<Self> {
        // Free a moment ago, and nobody else is looking for one.
        let udp = UdpSocket::bind(LOCAL)?.local_addr()?;
        let http = TcpListener::bind(LOCAL)?.local_addr()?;
        let mut command = other.map_or_else(program, child);
        command
            .args(["serve", "--mysql", "", "--set", "log.level=warn"])
            .args(["--udp", &udp.to_string(), "--http", &http.to_string()])
            .args(settings.iter().flat_map(|setting| ["--set", setting]));
        let mut daemon = Self {
            child: command.spawn()?,
            udp,
            client: Client::at(&format!("http://{http}"), &AccessFlags::default())?,
        };
        let start = Instant::now();
        while let Err(error) = daemon.get("/api/v1/status") {
            if daemon.child.try_wait()?.is_some() || start.elapsed() > START_MAX {
                return Err(format!("the daemon did not start: {error}").into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(daemon)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the daemon's answer to GET `path`.
    pub(crate) fn get(&self, path: &str) -> std::result::Result<Json, ClientError> {
        self.client.get(path)
    }

    /// Processor time of the whole process so far, of threads that have ended too.
    pub(crate) fn spent(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id()))?;
        // Behind the name, which may have spaces in it.
        let (_, fields) = stat.rsplit_once(')').ok_or("no name")?;
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.map(str::parse::<u64>).sum::<std::result::Result<_, _>>()?;
        Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
    }

    /// Memory of it that is in RAM, bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let mut lines = status.lines();
        let kib = lines.find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"));
        Ok(kib.ok_or("no VmRSS")?.trim().parse::<u64>()? * 1024)
    }
}

impl Receiver for Daemon {
    fn udp(&self) -> SocketAddr {
        self.udp
    }

    fn counts(&self) -> Result<Counts> {
        let status = self.get("/api/v1/status")?;
        let number = |name: &str| status[name].as_u64().ok_or(format!("no {name} in /status"));
        Ok(Counts {
            // What `load` sends is valid and holds one request each; what is not would be missing
            // here and be seen.
            done: number("requests_merged")?,
            lost: number("kernel_drops")? + number("requests_overwritten")?,
        })
    }

    fn cpu(&self) -> Cpu {
        Cpu::of(self.id())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It keeps nothing, so there is nothing that it should save.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// The program that cargo built beside this one, or `PINBAD_PROGRAM`.
pub(crate) fn program() -> Command {
    let built = || env!("CARGO_BIN_EXE_pinbad").into();
    child(&std::env::var_os("PINBAD_PROGRAM").unwrap_or_else(built))
}

/// A program as a child that ends when this process is gone.
#[expect(unsafe_code, reason = "there is no safe call between fork and exec")]
fn child(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    let end_with_us =
        || set_parent_process_death_signal(Some(Signal::TERM)).map_err(io::Error::from);
    // SAFETY: it makes one system call (prctl) and allocates nothing, which is allowed after fork.
    unsafe { command.env_clear().pre_exec(end_with_us) };
    command
}

/// Processor time, user and system, by thread: its number, its name.
pub(crate) struct Cpu(HashMap<OsString, (String, Duration)>);

impl Cpu {
    fn of(process: u32) -> Self {
        let tasks = fs::read_dir(format!("/proc/{process}/task"));
        let thread = |task: fs::DirEntry| {
            let spent = fs::read_to_string(task.path().join("schedstat")).ok()?;
            let name = fs::read_to_string(task.path().join("comm")).ok()?;
            let spent = Duration::from_nanos(spent.split(' ').next()?.parse().ok()?);
            Some((task.file_name(), (name.trim_end().to_owned(), spent)))
        };
        Self(tasks.into_iter().flatten().flatten().filter_map(thread).collect())
    }

    /// Returns the processor time spent since `before` by threads with such names; threads that
    /// ended in between count as zero.
    pub(crate) fn since(&self, before: &Self, named: impl Fn(&str) -> bool) -> Duration {
        let threads = self.0.iter().filter(|(_, (name, _))| named(name));
        let spent = threads.map(|(thread, (_, after))| {
            let before = before.0.get(thread).map_or(Duration::ZERO, |it| it.1);
            after.saturating_sub(before)
        });
        spent.sum()
    }
}
