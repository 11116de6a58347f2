//! Packets sent to a receiver: a trial at one rate, and the highest rate at which none is lost.
//!
//! A trial waits until each of its packets is accounted for, so that it costs the next one nothing.

use std::io;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use pinbad::cli::load::{LoadOptions, Packets};
use pinbad::shutdown::Shutdown;
use serde_json::Value as Json;

use crate::receiver::{Receiver, program};
use crate::{Options, Result};

/// Packets with five timers over each combination of 20 hosts, 10 servers and 500 scripts.
pub(crate) const FILLING: &str = "--timers=5 --distribution=each --corpus=100000";
/// How many of them fill the pools of a daemon with default settings.
pub(crate) const FILL: &str = "--count=1000000";
/// How long after the last packet all may take to be accounted for.
const SETTLE_MAX: Duration = Duration::from_secs(20);
/// A receiver keeps up if what waits in buffers after the last packet is gone within this share of
/// the trial, or within a few gathering periods.
const BACKLOG_MAX: (f64, Duration) = (0.05, Duration::from_millis(60));
/// How narrow the bounds of the search become, as a share of the rate.
const PRECISION: f64 = 0.04;

/// How packets are sent at `rate` a second (0: as fast as the sender can), as flags of
/// `pinbad load`.
pub(crate) fn pace(rate: f64, duration: Duration) -> String {
    format!("--rate={rate} --duration={}ms", duration.as_millis())
}

/// Packets encoded ahead, and how they are sent.
pub(crate) struct Load {
    packets: Packets,
    /// As `pinbad load` has them.
    flags: String,
}

impl Load {
    /// Prepares the packets that `pinbad load` makes with these flags.
    pub(crate) fn new(options: &Options, flags: &str) -> Result<Self> {
        let Options { senders, gso, .. } = options;
        let flags = format!("{flags} --sockets=16 --senders={senders} --gso={gso}");
        let packets = Packets::prepare(&LoadOptions::parse(&format!("{flags} --rate=0"))?)?;
        Ok(Self { packets, flags })
    }

    pub(crate) fn packet_bytes(&self) -> f64 {
        self.packets.bytes_mean()
    }

    fn flags(&self, to: &dyn Receiver, pace: &str) -> String {
        format!("{} {pace} --target={}", self.flags, to.udp())
    }

    /// Sends from here.
    pub(crate) fn run(&self, to: &dyn Receiver, pace: &str) -> Result<Trial> {
        let options = LoadOptions::parse(&self.flags(to, pace))?;
        Trial::of(to, || {
            let packets = &self.packets;
            let sent = packets.send(&options, &Shutdown::new(), &mut io::sink())?;
            let done = (sent.packets, sent.seconds);
            Ok(sent.ended_by.map_or(Ok(done), Err)?)
        })
    }

    /// Has a process of its own send the same.
    pub(crate) fn run_apart(&self, to: &dyn Receiver, pace: &str) -> Result<Trial> {
        let mut load = program();
        load.args(["load", "--format=json"]);
        load.args(self.flags(to, pace).split_whitespace());
        Trial::of(to, || {
            let output = load.stderr(Stdio::inherit()).output()?;
            let sent: Json = serde_json::from_slice(&output.stdout)?;
            let (packets, seconds) = (&sent["totals"]["packets"], &sent["seconds"]);
            let sent = packets.as_u64().zip(seconds.as_f64());
            sent.ok_or("load does not say what it sent".into())
        })
    }

    /// First as fast as the sender can: if that is lossless, the sender is the limit. If not, the
    /// interval below it is halved until it is narrow enough or `trials_max` are used up. A trial
    /// that failed by bad luck costs precision, never the bound.
    pub(crate) fn highest_lossless(
        &self,
        to: &dyn Receiver,
        duration: Duration,
        trials_max: u32,
    ) -> Result<Lossless> {
        let flood = self.run(to, &pace(0.0, duration))?;
        let mut found = Lossless { rate: flood.rate(), sender_bound: flood.kept_up(), flood };
        if found.sender_bound {
            return Ok(found);
        }
        found.rate = 0.0;
        let (mut low, mut high) = (0.0_f64, flood.rate());
        // Near what was merged of the flood.
        let mut next = flood.done_rate().min(high * 0.97);
        for _ in 0..trials_max {
            let trial = self.run(to, &pace(next, duration))?;
            if trial.kept_up() {
                low = low.max(next);
                // A sender that does not reach the rate has shown less.
                found.rate = found.rate.max(trial.rate());
            } else {
                high = high.min(next);
            }
            if high - low <= high * PRECISION {
                break;
            }
            next = match low {
                0.0 => high * 0.85,
                low => f64::midpoint(low, high),
            };
        }
        Ok(found)
    }
}

/// How a trial went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial {
    /// Packets sent.
    pub(crate) sent: u64,
    pub(crate) seconds: f64,
    /// From the last packet until all were accounted for.
    settle: Duration,
    /// Packets that the kernel or the temporary pool had no room for.
    pub(crate) lost: u64,
    /// Processor time of the receiver, user and system, until all were accounted for.
    cpu: Duration,
}

impl Trial {
    /// Runs `send`, which returns how many packets it sent in how many seconds, and waits until
    /// they are accounted for.
    fn of(to: &dyn Receiver, send: impl FnOnce() -> Result<(u64, f64)>) -> Result<Self> {
        let (before, cpu) = (to.counts()?, to.cpu());
        let (sent, seconds) = send()?;
        let end = Instant::now();
        let all = before.done + before.lost + sent;
        let after = loop {
            let counts = to.counts()?;
            if counts.done + counts.lost >= all {
                break counts;
            }
            if end.elapsed() > SETTLE_MAX {
                let missing = all - counts.done - counts.lost;
                return Err(
                    format!("{missing} packets are neither done nor counted as lost").into()
                );
            }
            thread::sleep(Duration::from_millis(5));
        };
        Ok(Self {
            sent,
            seconds,
            settle: end.elapsed(),
            lost: after.lost - before.lost,
            cpu: to.cpu().since(&cpu, |_| true),
        })
    }

    /// Packets a second that were sent.
    pub(crate) fn rate(&self) -> f64 {
        self.sent as f64 / self.seconds.max(1e-9)
    }

    fn done_rate(&self) -> f64 {
        (self.sent - self.lost) as f64 / (self.seconds + self.settle.as_secs_f64()).max(1e-9)
    }

    /// Processor time a packet, microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / (self.sent - self.lost).max(1) as f64
    }

    /// Whether every packet arrived, and buffers did not fill up, which would lose packets later.
    fn kept_up(&self) -> bool {
        let share = Duration::from_secs_f64(self.seconds * BACKLOG_MAX.0);
        self.lost == 0 && self.settle <= share.max(BACKLOG_MAX.1)
    }
}

/// How a search ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lossless {
    /// Packets a second, the highest that was seen lossless; 0 when none was.
    pub(crate) rate: f64,
    /// Whether the sender could not send faster.
    pub(crate) sender_bound: bool,
    /// The trial at full speed.
    pub(crate) flood: Trial,
}
