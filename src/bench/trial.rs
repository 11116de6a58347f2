//! One trial: sends packets to a part at a rate, waits until each of them is accounted for, and says how it went.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::part::{Counts, Part};
use super::{BenchError, go_on};
use crate::load::{LoadOptions, Packets};
use crate::shutdown::Shutdown;

/// How long after the last packet all may take to be accounted for.
const SETTLE_MAX: Duration = Duration::from_secs(20);
/// How often a part is asked.
const GLANCE: Duration = Duration::from_millis(5);
/// A part keeps up if what waits in buffers after the last packet is gone within this share of the trial...
const BACKLOG_SHARE_MAX: f64 = 0.05;
/// ... or within this time, a few gathering periods.
const BACKLOG_MAX: Duration = Duration::from_millis(60);

/// How a trial went.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    /// Packets sent.
    pub(super) sent: u64,
    /// How long that took.
    pub(super) seconds: f64,
    /// From the last packet until all were accounted for.
    pub(super) settle: Duration,
    /// Packets that the kernel or the temporary pool had no room for.
    pub(super) lost: u64,
    /// Processor time of the part, user and system, from before the first packet until all were accounted for.
    pub(super) cpu: Duration,
}

impl Trial {
    /// Packets a second that were sent.
    pub(super) fn rate(&self) -> f64 {
        self.sent as f64 / self.seconds.max(1e-9)
    }

    /// Packets a second that the part got done.
    pub(super) fn done_rate(&self) -> f64 {
        (self.sent - self.lost) as f64 / (self.seconds + self.settle.as_secs_f64()).max(1e-9)
    }

    /// Processor time a packet, microseconds.
    pub(super) fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / (self.sent - self.lost).max(1) as f64
    }

    /// Whether every packet arrived, and the part kept up: buffers that fill up would lose packets later.
    pub(super) fn kept_up(&self) -> bool {
        let share = Duration::from_secs_f64(self.seconds * BACKLOG_SHARE_MAX);
        self.lost == 0 && self.settle <= share.max(BACKLOG_MAX)
    }
}

/// Sends `packets` to `part` at `rate` a second (0: as fast as the sender can) for `duration`.
pub(super) fn run(
    part: &mut Part,
    packets: &Packets,
    load: &LoadOptions,
    rate: f64,
    duration: Duration,
    shutdown: &Shutdown,
) -> Result<Trial, BenchError> {
    let options = LoadOptions {
        target: part.udp,
        rate,
        duration: Some(duration),
        count: None,
        ..load.clone()
    };
    measured(part, packets, &options, shutdown)
}

/// The same, with options that say all.
pub(super) fn measured(
    part: &mut Part,
    packets: &Packets,
    options: &LoadOptions,
    shutdown: &Shutdown,
) -> Result<Trial, BenchError> {
    go_on(shutdown)?;
    let (before, cpu_before) = (part.counts()?, part.cpu());
    let sent = packets.send(options, shutdown, &mut io::sink())?;
    let end = Instant::now();
    go_on(shutdown)?;
    if let Some(error) = sent.ended_by {
        return Err(error.into());
    }
    let after = settled(part, before.settled() + sent.packets, end, shutdown)?;
    let cpu = part.cpu().since(&cpu_before);
    Ok(Trial {
        sent: sent.packets,
        seconds: sent.seconds,
        settle: end.elapsed(),
        lost: after.lost() - before.lost(),
        cpu,
    })
}

/// Waits until `part` has accounted for `packets` packets since its start.
fn settled(
    part: &mut Part,
    packets: u64,
    since: Instant,
    shutdown: &Shutdown,
) -> Result<Counts, BenchError> {
    loop {
        go_on(shutdown)?;
        let counts = part.counts()?;
        if counts.settled() >= packets {
            return Ok(counts);
        }
        if since.elapsed() > SETTLE_MAX {
            let missing = packets - counts.settled();
            return Err(part.failed(&format!(
                "{missing} packets are neither done nor counted as lost"
            )));
        }
        thread::sleep(GLANCE);
    }
}
