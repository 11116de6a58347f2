//! Notifications to systemd, or another supervisor that speaks its protocol.
//!
//! Reports ready when every socket is bound, then reloading and stopping when they begin, and
//! watchdog notifications as often as `WatchdogSec=` requires, but only while the merger runs: a
//! daemon that is stuck is restarted. Does nothing without `NOTIFY_SOCKET` in the environment.
//! Called by `serve`; the watchdog has its own thread.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use sd_notify::NotifyState;
use tracing::warn;

use crate::shutdown::Shutdown;

/// Longest delay until the watchdog thread notices a stop.
const NAP: Duration = Duration::from_millis(100);

/// Every socket is bound.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// The configuration is being reloaded; [`ready`] ends it.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// The stop has begun.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Notifies the watchdog until `shutdown`, as long as `alive` returns true. Does nothing without a
/// watchdog.
pub(crate) fn watch(shutdown: &Shutdown, alive: impl Fn() -> bool + Send + 'static) {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let shutdown = shutdown.clone();
    let thread = std::thread::Builder::new().name("alive".to_owned());
    let spawned = thread.spawn(move || {
        watchdog(limit, &shutdown, alive, || notify(&[NotifyState::Watchdog]));
    });
    if let Err(error) = spawned {
        warn!(%error, "No thread for watchdog notifications: the supervisor may restart the daemon.");
    }
}

/// Sends three notifications in the time in which the supervisor expects one, but none while not
/// `alive`.
fn watchdog(limit: Duration, shutdown: &Shutdown, alive: impl Fn() -> bool, notify: impl Fn()) {
    let every = limit / 3;
    let nap = NAP.min(every);
    let mut silent = Duration::MAX;
    while !shutdown.requested() {
        if silent >= every {
            silent = Duration::ZERO;
            if alive() {
                notify();
            } else {
                warn!("The merger stands still: the watchdog is not notified.");
            }
        }
        std::thread::sleep(nap);
        silent += nap;
    }
}

fn notify(state: &[NotifyState<'_>]) {
    let sent = match std::env::var_os("NOTIFY_SOCKET").unwrap_or_default().as_bytes() {
        [] => Ok(()),
        // The crate takes it for a path.
        [b'@', name @ ..] => notify_abstract(name, state),
        _ => sd_notify::notify(state),
    };
    if let Err(error) = sent {
        warn!(%error, "Cannot notify the supervisor.");
    }
}

/// Notifies at a socket in the abstract namespace.
fn notify_abstract(name: &[u8], state: &[NotifyState<'_>]) -> io::Result<()> {
    let text: String = state.iter().map(|state| format!("{state}\n")).collect();
    let address = SocketAddr::from_abstract_name(name)?;
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_watchdog_is_notified_only_while_the_merger_is_alive() {
        let (alive, asked, given) =
            (AtomicBool::new(true), AtomicUsize::new(0), AtomicUsize::new(0));
        let shutdown = Shutdown::new();
        let until = |counter: &AtomicUsize, count: usize| {
            while counter.load(Ordering::SeqCst) < count {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let is_alive = || {
                    asked.fetch_add(1, Ordering::SeqCst);
                    alive.load(Ordering::SeqCst)
                };
                let sign = || {
                    given.fetch_add(1, Ordering::SeqCst);
                };
                watchdog(Duration::from_millis(6), &shutdown, is_alive, sign);
            });
            until(&given, 3);
            alive.store(false, Ordering::SeqCst);
            // One may be in flight.
            until(&asked, asked.load(Ordering::SeqCst) + 2);
            let before = given.load(Ordering::SeqCst);
            until(&asked, asked.load(Ordering::SeqCst) + 3);
            assert_eq!(given.load(Ordering::SeqCst), before);
            alive.store(true, Ordering::SeqCst);
            until(&given, before + 1);
            shutdown.request();
        });
    }
}
