//! Who listens to `/events`: at most [`LISTENERS_MAX`] browsers, each of which has room for one event.
//!
//! A listener that is slower than the events misses some and nobody waits for it.

use axum::body::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::http::error::Problem;

/// Streams at once.
const LISTENERS_MAX: usize = 64;

/// The listeners, and what sends to them while there are any.
#[derive(Debug, Default)]
pub(in crate::http) struct Listeners(Mutex<Option<watch::Sender<Bytes>>>);

impl Listeners {
    /// One more listener; whether the task that sends has to be started for it.
    pub(super) fn join(&self) -> Result<(watch::Receiver<Bytes>, bool), Problem> {
        let mut sender = self.0.lock();
        let start = sender.is_none();
        let sender = sender.get_or_insert_default();
        if sender.receiver_count() >= LISTENERS_MAX {
            let why = format!("{LISTENERS_MAX} pages are live already");
            return Err(Problem::busy(why));
        }
        Ok((sender.subscribe(), start))
    }

    /// Sends to everyone; false when nobody is left.
    pub(super) fn send(&self, event: Bytes) -> bool {
        let mut sender = self.0.lock();
        let sent = sender.as_ref().is_some_and(|it| it.send(event).is_ok());
        if !sent {
            *sender = None;
        }
        sent
    }

    /// Ends all streams.
    pub(super) fn end(&self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn slow_listeners_miss_events_and_nobody_else_does() {
        let listeners = Listeners::default();
        let (mut quick, start) = listeners.join().unwrap();
        assert!(start);
        let (mut slow, start) = listeners.join().unwrap();
        assert!(!start);
        for event in ["1", "2", "3", "4"] {
            assert!(listeners.send(Bytes::from(event)));
            quick.changed().await.unwrap();
            assert_eq!(*quick.borrow_and_update(), event);
        }
        slow.changed().await.unwrap();
        assert_eq!(*slow.borrow_and_update(), "4");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn listeners_make_room_and_streams_end() {
        let hub = Listeners::default();
        let mut all: Vec<_> = (0..LISTENERS_MAX).map(|_| hub.join().unwrap().0).collect();
        assert_eq!(hub.join().unwrap_err().status.as_u16(), 503);
        all.pop();
        all.push(hub.join().unwrap().0);
        assert!(hub.send(Bytes::from("last")));
        hub.end();
        for mut events in all {
            events.changed().await.unwrap();
            assert_eq!(*events.borrow_and_update(), "last");
            assert!(events.changed().await.is_err());
        }
        assert!(hub.join().unwrap().1, "the task has to be started again");
        assert!(!hub.send(Bytes::from("nobody is left")));
    }
}
