//! SIGTERM, SIGINT and SIGHUP, for the commands that run until one arrives.

use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::signal_name;

use super::Failure;
use crate::shutdown::Shutdown;

/// Catches SIGHUP alone: it must not end a start, while the other signals end one that waits for
/// its configuration.
pub(super) fn hangup() -> Result<Signals, Failure> {
    Signals::new([SIGHUP]).map_err(cannot_wait)
}

/// Catches the others too.
pub(super) fn add_others(signals: &Signals) -> Result<(), Failure> {
    [SIGTERM, SIGINT].into_iter().try_for_each(|it| signals.add_signal(it)).map_err(cannot_wait)
}

/// Waits for any of them and returns its name.
pub(super) fn wait(signals: &mut Signals) -> &'static str {
    signals.forever().next().and_then(signal_name).unwrap_or_default()
}

fn cannot_wait(error: io::Error) -> Failure {
    Failure::failed(format!("cannot wait for signals: {error}"))
}

/// Runs a command that ends by itself, or soon after a signal.
///
/// # Errors
/// The error of the command.
pub fn until_signal(command: impl FnOnce(&Shutdown) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut signals = hangup()?;
    add_others(&signals)?;
    let shutdown = Shutdown::new();
    let requested = shutdown.clone();
    // Not joined: it waits for a signal that may never come, and ends with the process.
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            wait(&mut signals);
            requested.request();
        })
        .map_err(cannot_wait)?;
    command(&shutdown)
}
