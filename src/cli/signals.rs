//! SIGTERM, SIGINT and SIGHUP, for the commands that run until one arrives.

use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Failure;
use crate::shutdown::Shutdown;

/// The signals, caught from the creation of this value on.
#[derive(Debug)]
pub(super) struct Signals {
    runtime: Runtime,
    /// SIGTERM, SIGINT, SIGHUP.
    caught: [Signal; 3],
}

impl Signals {
    pub(super) fn listen() -> Result<Self, Failure> {
        let listen = || -> io::Result<Self> {
            let runtime = Builder::new_current_thread().enable_io().build()?;
            let entered = runtime.enter();
            let caught = [
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
                signal(SignalKind::hangup())?,
            ];
            drop(entered);
            Ok(Self { runtime, caught })
        };
        listen().map_err(cannot_wait)
    }

    /// Waits for any of them and returns its name.
    pub(super) fn wait(&mut self) -> &'static str {
        let [terminate, interrupt, hangup] = &mut self.caught;
        self.runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
                _ = hangup.recv() => "SIGHUP",
            }
        })
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
    let mut signals = Signals::listen()?;
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
