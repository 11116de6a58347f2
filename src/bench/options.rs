//! What `pinbad bench` can be asked for, and what its hidden parts take.
//!
//! Read once by `main`. Every number is limited, so that a run is bounded in time whatever is asked for.

use clap::{Args, Subcommand};

use crate::load::LoadOptions;

/// What is measured, and how thoroughly.
#[derive(Debug, Clone, Args)]
pub struct BenchOptions {
    /// One round of short trials, half a minute in all, instead of several rounds in a few minutes
    #[arg(long)]
    pub quick: bool,
    /// Measure how the cost of a packet grows with reports, keys, timers, windows, receivers and questions instead
    #[arg(long)]
    pub growth: bool,
    /// Measure statements over a million requests and five million timers, by themselves and beside packets, instead
    #[arg(long, conflicts_with = "growth")]
    pub sql: bool,
    /// Print tables in markdown
    #[arg(long)]
    pub markdown: bool,
    /// Rounds: of rates the best counts, of processor time the median [default: 3, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20))]
    pub rounds: Option<u32>,
    /// The rate at which processor time is measured, packets a second
    #[arg(long, value_name = "PACKETS/S", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    pub rate: u32,
    /// Sockets (and threads) that receive, of the sink and of the daemon [default: one less than there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub receivers: Option<u32>,
    /// Receive buffer to ask for, bytes, of the sink and of the daemon
    #[arg(long, value_name = "BYTES", default_value_t = 64_000_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(65_536..=1_000_000_000))]
    pub recv_buffer: u32,
    /// Threads that send [default: half as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub senders: Option<u32>,
    /// Packets of equal length that the kernel may take in one piece, as of load: with 16 the sender costs so little
    /// that the receiver is the bottleneck, not the sender
    #[arg(long, value_name = "PACKETS", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pub gso: u32,
}

impl BenchOptions {
    /// How many rounds.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }

    /// Sockets that receive.
    pub(super) fn receivers(&self) -> u32 {
        self.receivers
            .unwrap_or_else(|| cores().saturating_sub(1).max(1))
    }

    /// The sender's settings, the same for all parts; target, rate and time are set for each trial.
    pub(super) fn load(&self) -> LoadOptions {
        LoadOptions {
            senders: self.senders.unwrap_or_else(|| (cores() / 2).clamp(1, 64)),
            sockets: 16,
            gso: self.gso,
            ..LoadOptions::default()
        }
    }
}

/// Cores that this process may use.
pub(super) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1))
}

/// The children that `bench` starts.
#[derive(Debug, Clone, Subcommand)]
pub enum BenchPart {
    /// Receive as the daemon does, and throw away
    Sink {
        /// Sockets, each with a thread
        #[arg(long)]
        receivers: u32,
        /// Receive buffer to ask for, bytes
        #[arg(long)]
        recv_buffer: u32,
    },
    /// `pinbad serve`, ended with the process that started it
    Serve {
        /// As for serve
        #[arg(last = true)]
        arguments: Vec<String>,
    },
}
