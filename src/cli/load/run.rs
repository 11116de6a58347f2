//! The run of `load`: prepares the packets, starts the senders, watches them, adds up.
//!
//! Each sender is a thread of its own with a few connected sockets, which it uses in turn, a batch each: a daemon that
//! has several receivers on one port spreads packets by their source port. Senders share nothing but the prepared
//! packets and a stop flag; each counts on its own and adds to the count of all once a batch. What ends a run early: the
//! caller's shutdown, an answer that nobody listens, an error of a socket. Packets that the kernel has no buffer for
//! are tried again and counted.

use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::shutdown::Shutdown;

use super::corpus::Corpus;
use super::pace::{Pace, Step};
use super::sender::{self, BATCH_PACKETS_MAX};
use super::summary::Summary;
use super::{LoadError, LoadOptions, connect};
use crate::cli::format::grouped;

/// What a run takes that is given neither a time nor a count.
const DURATION: Duration = Duration::from_secs(10);
/// No sleep is longer, so that a stop is heard soon.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// How long the end of a run may go unnoticed while progress is reported.
const PROGRESS_PAUSE: Duration = Duration::from_millis(10);
/// How long to leave a kernel alone that has no buffers.
const NO_BUFFERS_PAUSE: Duration = Duration::from_micros(200);

/// Sends what `options` describe, and returns when it is sent, when the time is over, or when `shutdown` is requested.
/// Writes a line a second to `progress` when the options ask for it.
///
/// # Errors
/// When nothing could be sent at all. A run that ended early is no error here: its summary says
/// [why](Sent::ended_by).
pub fn run(
    options: &LoadOptions,
    shutdown: &Shutdown,
    progress: &mut dyn Write,
) -> Result<Summary, LoadError> {
    check_target(options)?;
    let packets = Packets::prepare(options)?;
    let sent = packets.send(options, shutdown, progress)?;
    Ok(packets.summary(options.target, sent))
}

fn check_target(options: &LoadOptions) -> Result<(), LoadError> {
    let target = options.target;
    if !options.allow_remote && !target.ip().to_canonical().is_loopback() {
        return Err(LoadError(format!(
            "{target} is not a loopback address; --allow-remote sends there all the same"
        )));
    }
    Ok(())
}

fn cannot_send(target: SocketAddr, error: &io::Error) -> LoadError {
    LoadError(format!("cannot send to {target}: {error}"))
}

/// Packets that are ready to be sent, as often as wanted: for whoever sends the same ones at several rates.
#[derive(Debug)]
pub struct Packets(Corpus);

/// How sending went.
#[derive(Debug, Default)]
pub struct Sent {
    /// Packets that the kernel took.
    pub packets: u64,
    /// From the first to the last, seconds.
    pub seconds: f64,
    /// How many should have been sent; `None` when only the clock ended the run.
    pub planned: Option<u64>,
    /// Packets that left more than 10 ms after they were due: this machine was too busy for the rate.
    pub late: u64,
    /// Batches of which the kernel took only a part; the rest was sent again.
    pub short_sends: u64,
    /// Times that the kernel had no buffer; the packets were sent again.
    pub no_buffers: u64,
    /// CPU time of all senders, the kernel's part included: on loopback that is also the delivery to the receiver's socket.
    pub sender_cpu: Duration,
    /// Why the run ended early, if it did.
    pub ended_by: Option<LoadError>,
    /// Of each sender: its first packet and how many it sent.
    shares: Vec<(usize, u64)>,
}

impl Sent {
    /// Adds what another sender did at the same time.
    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.seconds = self.seconds.max(other.seconds);
        self.late += other.late;
        self.short_sends += other.short_sends;
        self.no_buffers += other.no_buffers;
        self.sender_cpu += other.sender_cpu;
        self.shares.extend(other.shares);
    }
}

impl Packets {
    /// Encodes the packets that `options` describe, no more than will be sent.
    ///
    /// # Errors
    /// When a packet does not fit a datagram, or all of them do not fit the memory for them.
    pub fn prepare(options: &LoadOptions) -> Result<Self, LoadError> {
        let packets = Plan::new(options)
            .packets
            .unwrap_or(u64::MAX)
            .min(u64::from(options.corpus));
        let corpus = Corpus::new(&options.traffic, packets as usize)?;
        Ok(Self(if options.gso > 1 {
            corpus.in_runs(options.gso as usize)
        } else {
            corpus
        }))
    }

    /// Mean length of a packet, bytes.
    pub fn bytes_mean(&self) -> f64 {
        self.0.bytes() as f64 / self.0.len() as f64
    }

    /// Sends them as [`run()`] does: target, rate, time, senders and sockets are those of `options`.
    ///
    /// # Errors
    /// As for [`run()`].
    pub fn send(
        &self,
        options: &LoadOptions,
        shutdown: &Shutdown,
        progress: &mut dyn Write,
    ) -> Result<Sent, LoadError> {
        check_target(options)?;
        let target = options.target;
        let plan = Plan::new(options);
        let senders: Vec<Sender<'_>> = (0..options.senders)
            .map(|index| Sender::new(index, options, &plan, &self.0))
            .collect::<Result<_, _>>()
            .map_err(|error| cannot_send(target, &error))?;

        let watch = Watch {
            shutdown,
            ended_by: Mutex::new(None),
            stop: Shutdown::new(),
            target,
        };
        let shown = AtomicU64::new(0);
        let start = Instant::now();
        let mut sent = thread::scope(|scope| -> io::Result<Sent> {
            let mut threads = Vec::with_capacity(senders.len());
            for sender in senders {
                let (watch, shown) = (&watch, &shown);
                let spawned = thread::Builder::new()
                    .name(format!("load-{}", sender.index))
                    .spawn_scoped(scope, move || sender.send_all(start, watch, shown));
                threads.push(spawned.inspect_err(|_| watch.stop.request())?);
            }
            if options.progress {
                let done = || threads.iter().all(|thread| thread.is_finished());
                report_progress(progress, &shown, start, done)?;
            }
            let mut all = Sent::default();
            for thread in threads {
                all.add(thread.join().expect("no sender panicked"));
            }
            Ok(all)
        })?;
        sent.planned = plan.packets;
        sent.ended_by = watch.ended_by.into_inner().expect("no sender panicked");
        Ok(sent)
    }

    /// Adds up what was in the packets that were sent.
    fn summary(&self, target: SocketAddr, sent: Sent) -> Summary {
        Summary {
            target,
            totals: self.0.totals(&sent.shares),
            sent,
        }
    }
}

/// How much is sent in all.
#[derive(Debug)]
struct Plan {
    /// Packets, if that is limited.
    packets: Option<u64>,
    duration: Option<Duration>,
}

impl Plan {
    fn new(options: &LoadOptions) -> Self {
        let duration = match (options.duration, options.count) {
            (None, None) => Some(DURATION),
            (duration, _) => duration,
        };
        // What the rate gives in the time; at full speed only the clock knows.
        let by_rate = duration
            .filter(|_| options.rate > 0.0)
            .map(|duration| ((duration.as_secs_f64() * options.rate).round() as u64).max(1));
        let packets = match (options.count, by_rate) {
            (Some(count), Some(by_rate)) => Some(count.min(by_rate)),
            (count, by_rate) => count.or(by_rate),
        };
        Self { packets, duration }
    }
}

/// What all senders look at.
#[derive(Debug)]
struct Watch<'a> {
    /// The caller's.
    shutdown: &'a Shutdown,
    /// Our own: set by a sender that cannot go on.
    stop: Shutdown,
    ended_by: Mutex<Option<LoadError>>,
    target: SocketAddr,
}

impl Watch<'_> {
    fn stopped(&self) -> bool {
        self.shutdown.requested() || self.stop.requested()
    }

    /// Ends the run; the first reason is kept.
    fn end(&self, error: io::Error) {
        let target = self.target;
        let error = match error.kind() {
            // The kernel says that no socket is bound to the target.
            io::ErrorKind::ConnectionRefused => LoadError(format!(
                "nobody listens on {target}; is the daemon running, and on that port?"
            )),
            _ => cannot_send(target, &error),
        };
        self.ended_by
            .lock()
            .expect("no sender panicked")
            .get_or_insert(error);
        self.stop.request();
    }
}

/// One sending thread's share.
#[derive(Debug)]
struct Sender<'a> {
    index: u32,
    sockets: Vec<UdpSocket>,
    corpus: &'a Corpus,
    /// The packet of the corpus that it begins with.
    first: usize,
    /// Packets in one piece.
    segments_max: usize,
    pace: Pace,
}

impl<'a> Sender<'a> {
    fn new(index: u32, options: &LoadOptions, plan: &Plan, corpus: &'a Corpus) -> io::Result<Self> {
        let (place, senders) = (u128::from(index), u128::from(options.senders));
        // Shares differ by one packet at most, and a corpus that is sent once is cut the same way: then any number of
        // senders sends each packet of it once.
        let cut = |whole: u64, place: u128| (u128::from(whole) * place / senders) as u64;
        let planned = plan.packets.map_or(u64::MAX, |packets| {
            cut(packets, place + 1) - cut(packets, place)
        });
        Ok(Self {
            index,
            sockets: (0..options.sockets)
                .map(|_| connect(options.target))
                .collect::<io::Result<_>>()?,
            corpus,
            first: cut(corpus.len() as u64, place) as usize,
            segments_max: options.gso as usize,
            pace: Pace::new(
                options.rate / f64::from(options.senders),
                planned,
                plan.duration,
            ),
        })
    }

    /// The thread: sends until the pace says that all is done, or somebody stops it. `shown` follows the packets of all.
    fn send_all(mut self, start: Instant, watch: &Watch<'_>, shown: &AtomicU64) -> Sent {
        let mut all = Sent::default();
        let mut sockets = (0..self.sockets.len()).cycle();
        let mut packet = self.first;
        let mut batch: [&[u8]; BATCH_PACKETS_MAX] = [&[]; BATCH_PACKETS_MAX];
        while !watch.stopped() {
            let now = start.elapsed();
            let packets = match self.pace.next(now) {
                Step::Done => break,
                Step::Wait(time) => {
                    thread::sleep(time.min(SLEEP_MAX));
                    continue;
                }
                Step::Send(packets) => packets,
            };
            let mut ahead = packet;
            for slot in &mut batch[..packets] {
                *slot = self.corpus.packet(ahead);
                ahead = (ahead + 1) % self.corpus.len();
            }
            let socket = &self.sockets[sockets.next().expect("a cycle has no end")];
            match sender::send_batch(socket.as_fd(), &batch[..packets], self.segments_max) {
                Ok(sent) => {
                    all.short_sends += u64::from(sent < packets);
                    packet = (packet + sent) % self.corpus.len();
                    self.pace.sent(sent, now);
                    shown.fetch_add(sent as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    all.no_buffers += 1;
                    thread::sleep(NO_BUFFERS_PAUSE);
                }
                Err(error) => watch.end(error),
            }
        }
        // The answer to the last packets is still with the sockets.
        for socket in &self.sockets {
            if let Ok(Some(error)) | Err(error) = socket.take_error() {
                watch.end(error);
            }
        }
        all.packets = self.pace.packets_sent();
        all.late = self.pace.packets_late();
        all.seconds = start.elapsed().as_secs_f64();
        all.sender_cpu = thread_cpu();
        all.shares = vec![(self.first, all.packets)];
        all
    }
}

/// Writes a line a second until all is `done`.
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

/// CPU time of the calling thread so far, the kernel's part of sending included; zero where the kernel does not say.
fn thread_cpu() -> Duration {
    let nanos = std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
