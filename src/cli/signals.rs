//! SIGTERM, SIGINT and SIGHUP, for the commands that run until one arrives.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Failure;
use crate::shutdown::Shutdown;

/// The signals that are caught, each with its name.
#[derive(Debug)]
pub(super) struct Signals {
    runtime: Runtime,
    caught: Vec<(&'static str, Signal)>,
}

impl Signals {
    /// Catches SIGHUP alone: it must not end a start, while the other signals end one that waits
    /// for its configuration.
    pub(super) fn hangup() -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_io().build().map_err(cannot_wait)?;
        Self { runtime, caught: Vec::new() }.and("SIGHUP", SignalKind::hangup())
    }

    /// Catches the others too.
    pub(super) fn and_the_others(self) -> Result<Self, Failure> {
        self.and("SIGTERM", SignalKind::terminate())?.and("SIGINT", SignalKind::interrupt())
    }

    fn and(mut self, name: &'static str, kind: SignalKind) -> Result<Self, Failure> {
        let entered = self.runtime.enter();
        self.caught.push((name, signal(kind).map_err(cannot_wait)?));
        drop(entered);
        Ok(self)
    }

    /// Waits for any of them and returns its name.
    pub(super) fn wait(&mut self) -> &'static str {
        let Self { runtime, caught } = self;
        runtime.block_on(poll_fn(|context| {
            let came = caught
                .iter_mut()
                .find_map(|(name, signal)| signal.poll_recv(context).is_ready().then_some(*name));
            came.map_or(Poll::Pending, Poll::Ready)
        }))
    }
}

fn cannot_wait(error: io::Error) -> Failure {
    Failure::failed(format!("cannot wait for signals: {error}"))
}

/// Runs a command that ends by itself, or soon after a signal.
///
/// # Errors
/// The error of the command.
pub fn until_signal(command: impl FnOnce(&Shutdown) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut signals = Signals::hangup()?.and_the_others()?;
    let shutdown = Shutdown::new();
    let requested = shutdown.clone();
    // Not joined: it waits for a signal that may never come, and ends with the process.
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            signals.wait();
            requested.request();
        })
        .map_err(cannot_wait)?;
    command(&shutdown)
}
