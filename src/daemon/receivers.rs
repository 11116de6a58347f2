//! The way in: the temporary ring and the receiver threads, one per socket, that put requests into it.

use std::net::SocketAddr;
use std::sync::Arc;

use super::error::StartError;
use super::threads::Worker;
use crate::clock::Clock;
use crate::config::Config;
use crate::input::Decode;
use crate::input::pinba::Decoder;
use crate::input::record::{Hasher, TextLimits};
use crate::input::rewrite::{NameRules, RuleCounters};
use crate::input::udp::kernel::KernelGauge;
use crate::input::udp::receive;
use crate::input::udp::senders::Senders;
use crate::input::udp::socket::ReceiveSocket;
use crate::query::status::SocketStatus;
use crate::ring::{Consumer, Producer, RingPlan, TempRing};
use crate::state::counters::SocketName;
use crate::telemetry::{Counters, SocketCounters};

/// What receives, and what others need to know of it.
pub(super) struct Receivers {
    pub(super) threads: Vec<Worker>,
    /// The addresses that are bound.
    pub(super) addresses: Vec<SocketAddr>,
    /// The sockets, as snapshots call them.
    pub(super) names: Vec<SocketName>,
    /// The sockets, as the status shows them.
    pub(super) statuses: Vec<SocketStatus>,
    /// Who sends, if that is counted.
    pub(super) senders: Option<Arc<Senders>>,
    pub(super) rule_counters: Arc<RuleCounters>,
    pub(super) ring: Arc<TempRing>,
    /// The merger's end of the ring.
    pub(super) consumer: Consumer,
}

impl Receivers {
    /// Makes the ring and starts a thread for each socket.
    pub(super) fn start(
        config: &Config,
        sockets: Vec<ReceiveSocket>,
        counters: &Counters,
        clock: &Arc<dyn Clock>,
        hasher: &Hasher,
    ) -> Result<Self, StartError> {
        let ingest = &config.ingest;
        let plan = RingPlan::new(ingest.temp_pool_size, ingest.temp_pool_bytes, sockets.len());
        let (ring, producers, consumer) = TempRing::new(plan, &counters.sockets);
        let mut addresses: Vec<_> = sockets.iter().map(|socket| socket.address).collect();
        addresses.dedup();
        let statuses = sockets.iter().zip(&counters.sockets);
        let statuses = statuses.map(|(socket, counters)| SocketStatus {
            address: socket.address,
            gauge: KernelGauge::new(Arc::clone(&socket.socket), Arc::clone(counters)),
            handed_over: socket.handed_over,
        });
        let watched = ingest.watches_sources();
        let mut receivers = Self {
            threads: Vec::with_capacity(sockets.len()),
            addresses,
            names: sockets.iter().map(SocketName::of).collect(),
            statuses: statuses.collect(),
            senders: watched.then(|| Senders::new(&ingest.allow, ingest.source_rate_max)),
            rule_counters: Arc::new(RuleCounters::new(config.rewrites.len())),
            ring,
            consumer,
        };
        let limits = TextLimits::new(ingest.text_bytes_max, ingest.script_name_bytes_max);
        for (index, (socket, producer)) in sockets.into_iter().zip(producers).enumerate() {
            let receiver = Receiver {
                index,
                socket,
                producer,
                counters: Arc::clone(&counters.sockets[index]),
                clock: Arc::clone(clock),
                senders: receivers.senders.clone(),
            };
            let hasher = hasher.clone();
            receivers.threads.push(if config.rewrites.is_empty() {
                receiver.start(Decoder::new(limits, hasher))?
            } else {
                let shared = Arc::clone(&receivers.rule_counters);
                let rules = NameRules::new(&config.rewrites, hasher.clone(), shared);
                receiver.start(Decoder::with_rules(limits, hasher, rules))?
            });
        }
        Ok(receivers)
    }
}

/// What one receiver thread is started with.
struct Receiver {
    index: usize,
    socket: ReceiveSocket,
    producer: Producer,
    counters: Arc<SocketCounters>,
    clock: Arc<dyn Clock>,
    senders: Option<Arc<Senders>>,
}

impl Receiver {
    fn start(self, decoder: impl Decode + Send + 'static) -> Result<Worker, StartError> {
        let name = format!("receive-{}", self.index);
        Worker::start(&name, "a receiver thread", move |shutdown| {
            receive::run(
                &self.socket,
                self.senders,
                decoder,
                self.producer,
                &self.counters,
                &*self.clock,
                shutdown,
            );
        })
    }
}
