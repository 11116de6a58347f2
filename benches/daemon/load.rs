//! Packets sent to a receiver: a trial at one rate, and the highest rate at which none is lost.
//!
//! A trial waits until each of its packets is accounted for, so that it costs the next one nothing.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use pinbad::cli::load::{Distribution, LoadOptions, Packets, TrafficOptions};
use pinbad::shutdown::Shutdown;

use crate::receiver::Receiver;
use crate::{Options, Result};

/// Each combination of 20 hosts, 10 servers and 500 scripts.
pub(crate) const FILL_KEYS: u32 = 100_000;
/// How long after the last packet all may take to be accounted for.
const SETTLE_MAX: Duration = Duration::from_secs(20);
/// A receiver keeps up if what waits in buffers after the last packet is gone within this share of the trial, or within a
/// few gathering periods.
const BACKLOG_MAX: (f64, Duration) = (0.05, Duration::from_millis(60));
/// How narrow the bounds of the search become, as a share of the rate.
const PRECISION: f64 = 0.04;

/// Packets encoded ahead, and how they are sent.
pub(crate) struct Load {
    packets: Packets,
    options: LoadOptions,
}

impl Load {
    pub(crate) fn new(options: LoadOptions) -> Result<Self> {
        let packets = Packets::prepare(&options)?;
        Ok(Self { packets, options })
    }

    /// So many timers a packet, and otherwise the defaults of `pinbad load`.
    pub(crate) fn with_timers(options: &Options, timers: u32) -> Result<Self> {
        let traffic = TrafficOptions {
            timers,
            ..TrafficOptions::default()
        };
        Self::new(load_options(options, traffic))
    }

    /// What fills the pools of a daemon with default settings: a million requests with five timers each.
    pub(crate) fn filling(options: &Options, rate: f64) -> Result<Self> {
        let traffic = TrafficOptions {
            timers: 5,
            distribution: Distribution::Each,
            ..TrafficOptions::default()
        };
        Self::new(LoadOptions {
            rate,
            count: Some(1_000_000),
            corpus: FILL_KEYS,
            ..load_options(options, traffic)
        })
    }

    pub(crate) fn packet_bytes(&self) -> f64 {
        self.packets.bytes_mean()
    }

    /// Sends at `rate` packets a second (0: as fast as the sender can).
    pub(crate) fn run(&self, to: &dyn Receiver, rate: f64, duration: Duration) -> Result<Trial> {
        let options = LoadOptions {
            rate,
            duration: Some(duration),
            count: None,
            ..self.options.clone()
        };
        self.send(options, to)
    }

    /// Sends as many as the options say.
    pub(crate) fn run_all(&self, to: &dyn Receiver) -> Result<Trial> {
        self.send(self.options.clone(), to)
    }

    fn send(&self, mut options: LoadOptions, to: &dyn Receiver) -> Result<Trial> {
        options.target = to.udp();
        let (before, cpu) = (to.counts()?, to.cpu());
        let sent = self
            .packets
            .send(&options, &Shutdown::new(), &mut io::sink())?;
        let end = Instant::now();
        if let Some(error) = sent.ended_by {
            return Err(error.into());
        }
        let all = before.done + before.lost + sent.packets;
        let after = loop {
            let counts = to.counts()?;
            if counts.done + counts.lost >= all {
                break counts;
            }
            if end.elapsed() > SETTLE_MAX {
                let missing = all - counts.done - counts.lost;
                return Err(
                    format!("{missing} packets are neither done nor counted as lost").into(),
                );
            }
            thread::sleep(Duration::from_millis(5));
        };
        Ok(Trial {
            sent: sent.packets,
            seconds: sent.seconds,
            settle: end.elapsed(),
            lost: after.lost - before.lost,
            cpu: to.cpu().since(&cpu, |_| true),
        })
    }

    /// First as fast as the sender can: if that is lossless, the sender is the limit. If not, the interval below it is halved
    /// until it is narrow enough or `trials_max` are used up. A trial that failed by bad luck costs precision, never the bound.
    pub(crate) fn highest_lossless(
        &self,
        to: &dyn Receiver,
        duration: Duration,
        trials_max: u32,
    ) -> Result<Lossless> {
        let flood = self.run(to, 0.0, duration)?;
        let mut found = Lossless {
            rate: flood.rate(),
            sender_bound: flood.kept_up(),
            flood,
        };
        if found.sender_bound {
            return Ok(found);
        }
        found.rate = 0.0;
        let (mut low, mut high) = (0.0_f64, flood.rate());
        // Near what was merged of the flood.
        let mut next = flood.done_rate().min(high * 0.97);
        for _ in 0..trials_max {
            let trial = self.run(to, next, duration)?;
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

pub(crate) fn load_options(options: &Options, traffic: TrafficOptions) -> LoadOptions {
    LoadOptions {
        senders: options.senders,
        sockets: 16,
        gso: options.gso,
        traffic,
        ..LoadOptions::default()
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
