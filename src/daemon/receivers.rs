//! The receivers' threads, one a socket.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::StartError;
use super::threads::{join, spawn};
use crate::clock::Clock;
use crate::ingest::socket::ReceiveSocket;
use crate::ingest::sources::{Everyone, Sources, Watch};
use crate::ingest::{Inlet, receive};
use crate::shutdown::Shutdown;
use crate::telemetry::SocketCounters;
use crate::wire::{Decoder, Rewrite};

/// What one receiver thread is started with.
pub(super) struct Receiver {
    pub(super) index: usize,
    pub(super) socket: ReceiveSocket,
    pub(super) inlet: Inlet,
    pub(super) counters: Arc<SocketCounters>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) sources: Option<Arc<Sources>>,
}

impl Receiver {
    fn run(self, decoder: Decoder<impl Rewrite>, shutdown: &Shutdown) {
        let (socket, inlet, counters) = (&self.socket, self.inlet, &self.counters);
        match self.sources.map(Watch::new) {
            Some(watch) => receive::run(
                socket,
                watch,
                decoder,
                inlet,
                counters,
                &*self.clock,
                shutdown,
            ),
            None => receive::run(
                socket,
                Everyone,
                decoder,
                inlet,
                counters,
                &*self.clock,
                shutdown,
            ),
        }
    }
}

/// The receivers' threads. Dropping them stops them.
#[derive(Debug, Default)]
pub(super) struct Receivers {
    shutdown: Shutdown,
    threads: Vec<JoinHandle<()>>,
}

impl Receivers {
    /// Starts one.
    pub(super) fn start(
        &mut self,
        receiver: Receiver,
        decoder: Decoder<impl Rewrite + Send + 'static>,
    ) -> Result<(), StartError> {
        let (shutdown, name) = (self.shutdown.clone(), format!("receive-{}", receiver.index));
        let run = move || receiver.run(decoder, &shutdown);
        self.threads.push(spawn(&name, "a receiver thread", run)?);
        Ok(())
    }

    /// Stops all, and waits for that.
    pub(super) fn stop(&mut self) {
        self.shutdown.request();
        for thread in self.threads.drain(..) {
            join(thread);
        }
    }
}

impl Drop for Receivers {
    fn drop(&mut self) {
        self.stop();
    }
}
