//! The whole daemon, measured from outside: `cargo bench --bench daemon` prints tables in markdown.
//!
//! Without a flag: the highest lossless rate and the processor time of a packet against a bare
//! receive loop, memory, and how long answers take. With `--queries`: SQL over full pools, and
//! queries beside packets; with `--samples`: samples of PHP's stat extension; with `--otlp`: spans
//! beside packets, and rows that are pushed; with `--history`: questions about thirty days of the
//! past; with `--turns`: what a packet costs two builds of the daemon. `PINBAD_PROGRAM` is another
//! program to measure. The daemon is a child process (`receiver`), the sender is that of `pinbad
//! load`; all packets go over loopback, and every wait has an end. Progress goes to stderr.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its tables and its progress are for the terminal"
)]

mod clients;
mod compare;
#[cfg(feature = "sql")]
mod history;
mod load;
mod push;
mod queries;
mod receiver;
mod samples;
mod spans;
mod table;
mod turns;

use clap::Parser;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Measure the daemon against a bare receive loop.
#[derive(Debug, Parser)]
struct Options {
    /// Statements over a million requests and five million timers, and queries beside packets,
    /// instead
    #[arg(long)]
    queries: bool,
    /// Samples of PHP's stat extension, at 10,000 and 300,000 a second and beside readers, instead
    #[arg(long)]
    samples: bool,
    /// Spans over OTLP in turns with the same requests as packets, and the push of 10,000 rows,
    /// instead
    #[arg(long)]
    otlp: bool,
    /// What a packet costs this build and another program, in turns, instead
    #[arg(long, value_name = "PROGRAM")]
    turns: Option<std::ffi::OsString>,
    /// Questions about thirty days of the past instead
    #[cfg(feature = "sql")]
    #[arg(long)]
    history: bool,
    /// Where these lie, and stay: written there when there is nothing; a temporary folder otherwise
    #[cfg(feature = "sql")]
    #[arg(long)]
    folder: Option<std::path::PathBuf>,
    /// Only those with this in their name
    #[cfg(feature = "sql")]
    #[arg(long)]
    only: Option<String>,
    /// One round of short trials instead of three: half a minute instead of a few
    #[arg(long)]
    quick: bool,
    /// The rate at which another process sends while processor time is measured, packets a second
    #[arg(long, default_value_t = 150_000)]
    paced_rate: u32,
    /// The rate of packets beside queries, packets a second
    #[arg(long, default_value_t = 100_000)]
    rate: u32,
    /// Sockets (and threads) that receive: one less than there are cores
    #[arg(long, default_value_t = cores().saturating_sub(1).max(1))]
    receivers: u32,
    /// Receive buffer to ask for, bytes
    #[arg(long, default_value_t = 64_000_000)]
    recv_buffer: u32,
    /// A setting of the daemon, as of serve: what counting senders costs, for instance
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Threads that send: half as many as there are cores
    #[arg(long, default_value_t = (cores() / 2).max(1))]
    senders: u32,
    /// Packets of equal length that the kernel may take in one piece, as of load
    #[arg(long, default_value_t = 1)]
    gso: u32,
    /// What cargo passes to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let load_before = word("/proc/loadavg", "");
    let tables = match (options.queries, &options.turns) {
        (_, Some(other)) => vec![turns::run(&options, other)?],
        #[cfg(feature = "sql")]
        _ if options.history => history::run(&options)?,
        _ if options.samples => vec![samples::run(&options)?],
        _ if options.otlp => vec![spans::run(&options)?, push::run(&options)?],
        (true, None) => queries::run(&options)?,
        (false, None) => vec![compare::run(&options)?],
    };
    let build = match cfg!(debug_assertions) {
        true => "DEBUG BUILD: these figures say nothing",
        false => "dist build",
    };
    println!(
        "pinbad {} ({build}), {} cores, {}, Linux {}, {} kB of memory, load average {load_before} before and {} after",
        env!("CARGO_PKG_VERSION"),
        cores(),
        std::env::consts::ARCH,
        word("/proc/sys/kernel/osrelease", ""),
        word("/proc/meminfo", "MemTotal:"),
        word("/proc/loadavg", ""),
    );
    for table in tables {
        print!("{table}");
    }
    Ok(())
}

/// The first word after `label` in a file of the kernel's.
fn word(path: &str, label: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(label));
    let word = lines.find_map(|rest| rest.split_whitespace().next());
    word.unwrap_or("?").to_owned()
}

/// Cores that this process may use.
fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}
