//! Which release is running, for the time after a rollback: a release that was there before gets
//! the requests again.
//!
//! Called by the `tracker`, by the second. Releases that share the requests, as during
//! a roll-out, do not take turns.

use std::collections::BTreeMap;

use super::tracker::Counted;

/// Seconds that are counted together.
const SECS: u64 = 10;
/// Part of their requests that the running release has.
const PERCENT: u64 = 90;
/// Fewest requests that tell; where there are fewer, the next seconds are counted too. Of two
/// releases with half of the requests each, none has so many of them by chance.
const REQUESTS_MIN: u64 = 50;

/// The running release.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// Its name, and since when.
    pub(super) now: Option<(String, u64)>,
    /// The same once it has come back, until that has an annotation.
    pub(super) back: Option<(String, u64)>,
    /// Unix second from which on is counted.
    start: u64,
    /// Requests since then, by number of the release.
    pub(super) counts: BTreeMap<u32, u64>,
}

impl Running {
    /// Begins a second. Returns whether another of these releases turned out to be running.
    pub(super) fn begin_second(&mut self, unix: u64, releases: &[Counted]) -> bool {
        if self.counts.is_empty() {
            self.start = unix;
        }
        let all: u64 = self.counts.values().sum();
        if unix.abs_diff(self.start) < SECS || all < REQUESTS_MIN {
            return false;
        }
        let began = std::mem::replace(&mut self.start, unix);
        let counts = std::mem::take(&mut self.counts);
        let most = counts.into_iter().max_by_key(|(_, requests)| *requests);
        let most = most.filter(|(_, requests)| requests * 100 >= all * PERCENT);
        let found = most.and_then(|(id, _)| releases.iter().find(|it| it.id == id));
        let Some(Counted { name, first_seen, .. }) = found else { return false };
        let is_back = match &self.now {
            Some((running, _)) if running == name => return false,
            Some((_, since)) => first_seen <= since,
            None => false,
        };
        self.now = Some((name.clone(), if is_back { began } else { *first_seen }));
        self.back = self.now.clone().filter(|_| is_back);
        true
    }
}
