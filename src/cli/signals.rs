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

/// SIGHUP alone, caught from the creation of this value on: it must not end a start, while the
/// other signals end one that waits for its configuration.
#[derive(Debug)]
pub(super) struct Hangup {
    runtime: Runtime,
    hangup: Signal,
}

impl Hangup {
    pub(super) fn catch() -> Result<Self, Failure> {
        let catch = || -> io::Result<Self> {
            let runtime = Builder::new_current_thread().enable_io().build()?;
            let entered = runtime.enter();
            let hangup = signal(SignalKind::hangup())?;
            drop(entered);
            Ok(Self { runtime, hangup })
        };
        catch().map_err(cannot_wait)
    }

    /// Catches the others too.
    pub(super) fn and_the_others(self) -> Result<Signals, Failure> {
        let Self { runtime, hangup } = self;
        let entered = runtime.enter();
        let terminate = signal(SignalKind::terminate()).map_err(cannot_wait)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(cannot_wait)?;
        drop(entered);
        Ok(Signals { runtime, caught: [terminate, interrupt, hangup] })
    }
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        Hangup::catch()?.and_the_others()
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
