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
    let shutdown = shutdown.clone();
    let thread = std::thread::Builder::new().name("alive".to_owned());
    let spawned = thread.spawn(move || {
        signs(limit, &shutdown, alive, || tell(&[NotifyState::Watchdog]));
    });
    if let Err(error) = spawned {
        warn!(%error, "No thread for signs of life: the supervisor may restart the daemon.");
    }
}

/// Three signs in the time in which the supervisor wants one, but none while it is not `alive`.
fn signs(limit: Duration, shutdown: &Shutdown, alive: impl Fn() -> bool, sign: impl Fn()) {
    let every = limit / 3;
    let nap = NAP.min(every);
    let mut silent = Duration::MAX;
    while !shutdown.requested() {
        if silent >= every {
            silent = Duration::ZERO;
            if alive() {
                sign();
            } else {
                warn!("The merger stands still: no sign of life for the supervisor.");
            }
        }
        std::thread::sleep(nap);
        silent += nap;
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!(%error, "Cannot tell the supervisor.");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn signs_come_while_it_is_alive_and_not_while_it_is_not() {
        let (alive, asked, given) = (
            AtomicBool::new(true),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
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
                signs(Duration::from_millis(6), &shutdown, is_alive, sign);
            });
            until(&given, 3);
            alive.store(false, Ordering::SeqCst);
            // One may be on its way.
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
