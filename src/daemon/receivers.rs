//! The receiving side: the temporary ring and the receiver threads, one per socket,
//! `[[otlp_input]]` or Squid log source, that push requests into it.

use std::net::SocketAddr;
use std::sync::Arc;

use tracing::info;

use super::error::StartError;
use super::otlp;
use super::squid::{OpenSource, Opened};
use super::threads::Worker;
use crate::clock::Clock;
use crate::config::Config;
use crate::input::otlp::Source;
use crate::input::pinba::{Decoder, RepeatedTags};
use crate::input::record::{Confirmed, Hasher, TextLimits};
use crate::input::rewrite::{NameRules, RuleCounters};
use crate::input::squid;
use crate::input::udp::kernel::KernelGauge;
use crate::input::udp::receive;
use crate::input::udp::senders::Senders;
use crate::input::udp::socket::ReceiveSocket;
use crate::input::{Decode, Lane};
use crate::query::status::{SocketStatus, Status};
use crate::ring::{Consumer, RingPlan, TempRing};
use crate::shutdown::Shutdown;
use crate::state::counters::SocketName;
use crate::telemetry::Counters;
use crate::telemetry::reading::Group;

/// The receivers, and the data about them that other stages need.
pub(super) struct Receivers {
    pub(super) threads: Vec<Worker>,
    /// The bound addresses.
    pub(super) addresses: Vec<SocketAddr>,
    /// The names of the sockets in snapshots.
    pub(super) names: Vec<SocketName>,
    /// The sockets, as the status shows them.
    pub(super) statuses: Vec<SocketStatus>,
    /// The counters before anything is received.
    pub(super) before: Vec<Group>,
    /// Counts by sender, if enabled.
    pub(super) senders: Option<Arc<Senders>>,
    pub(super) rule_counters: Arc<RuleCounters>,
    /// Names of tags that the merger has to confirm.
    pub(super) confirmed: Confirmed,
    pub(super) ring: Arc<TempRing>,
    /// The merger's end of the ring.
    pub(super) consumer: Consumer,
}

impl Receivers {
    /// Creates the ring and starts a thread for each socket and each source.
    pub(super) fn start(
        config: &Config,
        sockets: Vec<ReceiveSocket>,
        squids: Vec<OpenSource>,
        counters: &Counters,
        clock: &Arc<dyn Clock>,
        hasher: &Hasher,
    ) -> Result<Self, StartError> {
        let ingest = &config.ingest;
        let lanes = counters.sockets.len();
        let plan = RingPlan::new(ingest.temp_pool_size, ingest.temp_pool_bytes, lanes);
        let (ring, producers, consumer) = TempRing::new(plan, &counters.sockets);
        let mut addresses: Vec<_> = sockets.iter().map(|socket| socket.address).collect();
        addresses.dedup();
        let names = names(&sockets, &counters.otlps, &squids);
        let opened = sockets.iter().map(Some).chain(counters.otlps.iter().map(|_| None));
        let opened = opened.chain(squids.iter().map(OpenSource::socket));
        let statuses = names.iter().zip(opened).zip(&counters.sockets);
        let statuses = statuses.map(|((name, socket), counters)| SocketStatus {
            address: name.address.clone(),
            gauge: socket.map(|it| KernelGauge::new(&it.socket, Arc::clone(counters))),
            handed_over: socket.is_some_and(|it| it.handed_over),
        });
        let statuses: Vec<_> = statuses.collect();
        let watched = ingest.watches_sources();
        let places = RepeatedTags::places(sockets.len(), config.pool.request_pool_size);
        let mut receivers = Self {
            threads: Vec::with_capacity(sockets.len()),
            addresses,
            names,
            before: Status::before_start(counters, &statuses),
            statuses,
            senders: watched.then(|| Senders::new(&ingest.allow, ingest.source_rate_max)),
            rule_counters: Arc::new(RuleCounters::new(config.rewrites.len())),
            confirmed: Confirmed::new(sockets.len() * places),
            ring,
            consumer,
        };
        let limits = TextLimits::new(ingest.text_bytes_max, ingest.script_name_bytes_max);
        let shared = Arc::clone(&receivers.rule_counters);
        let rules = || NameRules::new(&config.rewrites, hasher.clone(), Arc::clone(&shared));
        let lanes = producers.into_iter().zip(&counters.sockets).enumerate();
        let mut lanes = lanes.map(|(index, (producer, counters))| {
            let (counters, clock) = (Arc::clone(counters), Arc::clone(clock));
            Receiver { index, lane: Lane { producer, counters, clock } }
        });
        for (index, (socket, receiver)) in sockets.into_iter().zip(&mut lanes).enumerate() {
            let repeats = RepeatedTags::new(places, index, receivers.confirmed.clone());
            let (senders, hasher) = (receivers.senders.clone(), hasher.clone());
            receivers.threads.push(match config.rewrites.is_empty() {
                true => {
                    let decoder = Decoder::new(limits, hasher).repeating(repeats);
                    receiver.start(socket, senders, decoder)?
                }
                false => {
                    let decoder = Decoder::with_rules(limits, hasher, rules()).repeating(repeats);
                    receiver.start(socket, senders, decoder)?
                }
            });
        }
        for (source, receiver) in counters.otlps.iter().zip(&mut lanes) {
            source.begin(receiver.lane, (limits, hasher.clone()), rules());
            let index = receivers.threads.len();
            let source = Arc::clone(source);
            let run = move |stop: &Shutdown| source.run(stop);
            let thread = Worker::start(&format!("otlp-{index}"), "a thread for spans", run)?;
            receivers.threads.push(thread);
        }
        for (squid, receiver) in squids.into_iter().zip(&mut lanes) {
            let (senders, texts) = (receivers.senders.clone(), (limits, hasher.clone()));
            receivers.threads.push(receiver.start_squid(squid, senders, texts, rules())?);
        }
        Ok(receivers)
    }
}

/// The names of all sources in a snapshot, in the order of the counters.
pub(super) fn names(
    sockets: &[ReceiveSocket],
    otlps: &[Arc<Source>],
    squids: &[OpenSource],
) -> Vec<SocketName> {
    let sockets = sockets.iter().map(SocketName::of);
    let otlps = otlps.iter().map(|it| otlp::name(it));
    let squids = squids.iter().map(OpenSource::name);
    sockets.chain(otlps).chain(squids).collect()
}

/// The parts of one receiver thread.
struct Receiver {
    index: usize,
    lane: Lane,
}

impl Receiver {
    /// Starts the thread of a Squid log source, which owns the socket if there is one.
    fn start_squid(
        self,
        OpenSource { source, opened }: OpenSource,
        senders: Option<Arc<Senders>>,
        (limits, hasher): (TextLimits, Hasher),
        rules: NameRules,
    ) -> Result<Worker, StartError> {
        info!(from = %source.config.from, "Taking lines of Squid's log.");
        let decoder = squid::Decoder::new(source, limits, hasher, rules)
            .with_clock(Arc::clone(&self.lane.clock));
        let name = format!("squid-{}", self.index);
        let what = "a thread for a log of Squid's";
        match opened {
            Opened::Udp(socket) => self.start(socket, senders, decoder),
            Opened::Tcp(listener) => {
                let intake = squid::Intake { decoder, lane: self.lane };
                let run = move |stop: &Shutdown| {
                    squid::tcp::run(&listener, senders.as_deref(), intake, stop);
                };
                Worker::start(&name, what, run)
            }
            Opened::File(path, from_end) => {
                let intake = squid::Intake { decoder, lane: self.lane };
                let run = move |stop: &Shutdown| squid::file::run(&path, from_end, intake, stop);
                Worker::start(&name, what, run)
            }
        }
    }

    fn start(
        self,
        socket: ReceiveSocket,
        senders: Option<Arc<Senders>>,
        decoder: impl Decode + Send + 'static,
    ) -> Result<Worker, StartError> {
        let name = format!("receive-{}", self.index);
        let Lane { producer, counters, clock } = self.lane;
        Worker::start(&name, "a receiver thread", move |shutdown| {
            receive::run(&socket, senders, decoder, producer, &counters, &*clock, shutdown);
        })
    }
}
