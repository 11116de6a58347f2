//! The run of `load`: prepares the packets, starts the senders, watches them and adds up their
//! counts.
//!
//! Each sender is a thread with a few connected sockets, which it uses in turn, one batch each: a
//! daemon with several receivers on one port spreads packets by their source port. Senders share
//! only the prepared packets and a stop flag; each counts by itself and updates the common count
//! once per batch. A run ends early on the caller's shutdown, on an answer that nobody listens, or
//! on a socket error. Packets that the kernel has no buffer for are retried and counted.

use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::shutdown::Shutdown;

use super::pace::{Pace, Step};
use super::sender::{self, BATCH_PACKETS_MAX};
use super::summary::Summary;
use super::{LoadOptions, Packets, connect};
use crate::cli::format::grouped;

/// Longest sleep, so that a stop is noticed soon.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// How long the end of a run may go unnoticed while progress is reported.
const PROGRESS_PAUSE: Duration = Duration::from_millis(10);
/// Pause after the kernel ran out of buffers.
const NO_BUFFERS_PAUSE: Duration = Duration::from_micros(200);

/// Sends the traffic that `options` describe, and returns when it is sent, when the time is over,
/// or when `shutdown` is requested. Writes a line a second to `progress` if the options ask for it.
///
/// # Errors
/// When nothing could be sent at all. A run that ended early is not an error: its summary gives the
/// [reason](Sent::ended_by).
pub fn run(
    options: &LoadOptions,
    shutdown: &Shutdown,
    progress: &mut dyn Write,
) -> io::Result<Summary> {
    check_target(options)?;
    let packets = Packets::prepare(options)?;
    let sent = packets.send(options, shutdown, progress)?;
    Ok(Summary { target: options.target, totals: packets.totals(&sent.shares), sent })
}

fn check_target(options: &LoadOptions) -> io::Result<()> {
    let target = options.target;
    if !options.allow_remote && !target.ip().to_canonical().is_loopback() {
        return Err(io::Error::other(format!(
            "{target} is not a loopback address; --allow-remote sends there all the same"
        )));
    }
    Ok(())
}

fn cannot_send(target: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::other(match error.kind() {
        // The kernel reports that no socket is bound to the target.
        io::ErrorKind::ConnectionRefused => {
            format!("nobody listens on {target}; is the daemon running, and on that port?")
        }
        _ => format!("cannot send to {target}: {error}"),
    })
}

/// Results of sending.
#[derive(Debug, Default)]
pub struct Sent {
    /// Packets that the kernel accepted.
    pub packets: u64,
    /// Time from the first to the last packet, seconds.
    pub seconds: f64,
    /// Packets that should have been sent; `None` when only the clock ended the run.
    pub planned: Option<u64>,
    /// Packets that left more than 10 ms after they were due: this machine was too busy for the
    /// rate.
    pub late: u64,
    /// Batches that the kernel accepted only in part; the rest was sent again.
    pub short_sends: u64,
    /// Times that the kernel had no buffer; the packets were sent again.
    pub no_buffers: u64,
    /// CPU time of all senders, the kernel's part included: on loopback that is also the delivery
    /// to the receiver's socket.
    pub sender_cpu: Duration,
    /// The error that ended the run early, if any.
    pub ended_by: Option<io::Error>,
    /// For each sender: its first packet and the number it sent.
    shares: Vec<(usize, u64)>,
}

impl Sent {
    /// Adds the results of another sender that ran at the same time.
    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.seconds = self.seconds.max(other.seconds);
        self.late += other.late;
        self.short_sends += other.short_sends;
        self.no_buffers += other.no_buffers;
        self.sender_cpu += other.sender_cpu;
        self.ended_by = self.ended_by.take().or(other.ended_by);
        self.shares.extend(other.shares);
    }
}

impl Packets {
    /// Sends these packets as [`run()`] does; target, rate, time, senders and sockets are those of
    /// `options`.
    ///
    /// # Errors
    /// As for [`run()`].
    pub fn send(
        &self,
        options: &LoadOptions,
        shutdown: &Shutdown,
        progress: &mut dyn Write,
    ) -> io::Result<Sent> {
        check_target(options)?;
        let senders: Vec<Sender<'_>> = (0..options.senders)
            .map(|index| Sender::new(index, options, self))
            .collect::<Result<_, _>>()
            .map_err(|error| cannot_send(options.target, &error))?;
        // Requested by a sender that cannot go on.
        let (stop, shown) = (Shutdown::new(), AtomicU64::new(0));
        let stopped = || shutdown.requested() || stop.requested();
        let start = Instant::now();
        thread::scope(|scope| {
            let mut threads = Vec::with_capacity(senders.len());
            for (index, sender) in senders.into_iter().enumerate() {
                let (stop, stopped, shown) = (&stop, &stopped, &shown);
                let send = move || {
                    let mut sent = sender.send_all(start, stopped, shown);
                    let error = sent.ended_by.take();
                    sent.ended_by = error.map(|error| {
                        stop.request();
                        cannot_send(options.target, &error)
                    });
                    sent
                };
                let thread = thread::Builder::new().name(format!("load-{index}"));
                let spawned = thread.spawn_scoped(scope, send);
                threads.push(spawned.inspect_err(|_| stop.request())?);
            }
            if options.progress {
                let done = || threads.iter().all(|thread| thread.is_finished());
                report_progress(progress, &shown, start, done)?;
            }
            let mut all = Sent { planned: options.packets_planned(), ..Sent::default() };
            for thread in threads {
                all.add(thread.join().expect("no sender panicked"));
            }
            Ok(all)
        })
    }
}

/// One sending thread's share.
#[derive(Debug)]
struct Sender<'a> {
    sockets: Vec<UdpSocket>,
    packets: &'a Packets,
    /// Its first packet.
    first: usize,
    /// Packets in one piece.
    segments_max: usize,
    pace: Pace,
}

impl<'a> Sender<'a> {
    fn new(index: u32, options: &LoadOptions, packets: &'a Packets) -> io::Result<Self> {
        let (place, senders) = (u128::from(index), u128::from(options.senders));
        // Shares differ by one packet at most, and packets that are sent once are cut the same way:
        // then any number of senders sends each of them once.
        let cut = |whole: u64, place: u128| (u128::from(whole) * place / senders) as u64;
        let share = |packets| cut(packets, place + 1) - cut(packets, place);
        let planned = options.packets_planned().map_or(u64::MAX, share);
        let rate = options.rate / f64::from(options.senders);
        let sockets = (0..options.sockets).map(|_| connect(options.target));
        Ok(Self {
            sockets: sockets.collect::<io::Result<_>>()?,
            packets,
            first: cut(packets.len() as u64, place) as usize,
            segments_max: options.gso as usize,
            pace: Pace::new(rate, planned, options.time_planned()),
        })
    }

    /// Runs the thread: sends until the pace says that all is done, somebody stops it, or it cannot
    /// go on, in which case `ended_by` is set. `shown` counts the packets of all senders.
    fn send_all(mut self, start: Instant, stopped: impl Fn() -> bool, shown: &AtomicU64) -> Sent {
        let mut all = Sent::default();
        let mut sockets = self.sockets.iter().cycle();
        let mut packet = self.first;
        let mut batch: [&[u8]; BATCH_PACKETS_MAX] = [&[]; BATCH_PACKETS_MAX];
        let mut was_short = false;
        while !stopped() && all.ended_by.is_none() {
            let now = start.elapsed();
            let packets = match self.pace.next(now) {
                Step::Done => break,
                Step::Wait(time) => {
                    thread::sleep(time.min(SLEEP_MAX));
                    continue;
                }
                // The kernel keeps the error that ended a batch to itself. One that comes back for
                // a single packet is met by the next call.
                Step::Send(_) if was_short => 1,
                Step::Send(packets) => packets,
            };
            for (ahead, slot) in batch[..packets].iter_mut().enumerate() {
                *slot = self.packets.packet((packet + ahead) % self.packets.len());
            }
            let socket = sockets.next().expect("a cycle has no end");
            match sender::send_batch(socket.as_fd(), &batch[..packets], self.segments_max) {
                Ok(sent) => {
                    was_short = sent < packets;
                    all.short_sends += u64::from(was_short);
                    packet = (packet + sent) % self.packets.len();
                    self.pace.sent(sent, now);
                    shown.fetch_add(sent as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    all.no_buffers += 1;
                    thread::sleep(NO_BUFFERS_PAUSE);
                }
                Err(error) => all.ended_by = Some(error),
            }
        }
        // The answer to the last packets is still pending on the sockets.
        for socket in &self.sockets {
            if let Ok(Some(error)) | Err(error) = socket.take_error() {
                all.ended_by.get_or_insert(error);
            }
        }
        all.packets = self.pace.packets_sent;
        all.late = self.pace.packets_late;
        all.seconds = start.elapsed().as_secs_f64();
        all.sender_cpu = thread_cpu();
        all.shares = vec![(self.first, all.packets)];
        all
    }
}

/// Writes a line a second until all senders are `done`.
fn report_progress(
    progress: &mut dyn Write,
    shown: &AtomicU64,
    start: Instant,
    done: impl Fn() -> bool,
) -> io::Result<()> {
    let (mut seconds, mut before) = (1, 0);
    while !done() {
        thread::sleep(PROGRESS_PAUSE);
        if start.elapsed() >= Duration::from_secs(seconds) {
            let sent = shown.load(Ordering::Relaxed);
            let (all, last) = (grouped(sent as f64), grouped((sent - before) as f64));
            writeln!(progress, "{seconds:>5} s {all:>15} packets {last:>11}/s")?;
            progress.flush()?;
            (seconds, before) = (seconds + 1, sent);
        }
    }
    Ok(())
}

/// Returns the CPU time of the calling thread so far, including the kernel's part of sending.
fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
