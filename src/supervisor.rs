//! Word to whoever supervises the process: systemd, by its notification socket.
//!
//! Ready when every socket is bound, reloading and stopping when that begins, and a sign of life as often as
//! `WatchdogSec=` asks for it, but only while the merger does its work: a daemon that stands still is restarted. Without
//! `NOTIFY_SOCKET` in the environment all of it does nothing. Called by `main`; the signs of life come from a thread of
//! their own.

use std::time::Duration;

use sd_notify::NotifyState;
use tracing::warn;

use crate::shutdown::Shutdown;

/// How finely the thread of the signs of life notices a stop.
const NAP: Duration = Duration::from_millis(100);

/// Every socket is bound.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The configuration is being read anew; [`ready`] ends it.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// The stop has begun.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Gives signs of life until `shutdown`, as long as `alive` says so. Does nothing when nobody asks for them.
pub fn watch(shutdown: &Shutdown, alive: impl Fn() -> bool + Send + 'static) {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    let (every, shutdown) = (limit / 3, shutdown.clone());
    let thread = std::thread::Builder::new().name("alive".to_owned());
    let spawned = thread.spawn(move || {
        let mut silent = Duration::MAX;
        while !shutdown.requested() {
            if silent >= every {
                silent = Duration::ZERO;
                if alive() {
                    tell(&[NotifyState::Watchdog]);
                } else {
                    warn!("The merger stands still: no sign of life for the supervisor.");
                }
            }
            std::thread::sleep(NAP);
            silent += NAP;
        }
    });
    if let Err(error) = spawned {
        warn!(%error, "No thread for signs of life: the supervisor may restart the daemon.");
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!(%error, "Cannot tell the supervisor.");
    }
}
