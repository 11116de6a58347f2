//! The receiver threads, one per socket.

use std::sync::Arc;

use super::StartError;
use super::threads::Worker;
use crate::clock::Clock;
use crate::input::Decode;
use crate::input::udp::receive;
use crate::input::udp::senders::{SenderFilter, Senders};
use crate::input::udp::socket::ReceiveSocket;
use crate::ring::Producer;
use crate::telemetry::SocketCounters;

/// What one receiver thread is started with.
pub(super) struct Receiver {
    pub(super) index: usize,
    pub(super) socket: ReceiveSocket,
    pub(super) producer: Producer,
    pub(super) counters: Arc<SocketCounters>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) senders: Option<Arc<Senders>>,
}

impl Receiver {
    /// Starts the thread.
    pub(super) fn start(self, decoder: impl Decode + Send + 'static) -> Result<Worker, StartError> {
        let name = format!("receive-{}", self.index);
        Worker::start(&name, "a receiver thread", move |shutdown| {
            receive::run(
                &self.socket,
                self.senders.map(SenderFilter::new),
                decoder,
                self.producer,
                &self.counters,
                &*self.clock,
                shutdown,
            );
        })
    }
}
