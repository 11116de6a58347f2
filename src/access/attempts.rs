//! Limits failed logins per peer: slows down guessing, in a fixed amount of memory.
//!
//! A keyed hash of its address maps each peer to a slot among [`FAILED_LOGIN_PLACES`] (for IPv6 the
//! hash of its /64 network, which is what one customer gets). A slot is one number: the time at
//! which all of its failures are forgotten. Every login attempt advances it by [`FAILED_LOGIN_MS`],
//! a success moves it back. When it is more than [`FAILED_LOGINS_BURST`] attempts ahead of the
//! present, further attempts are refused without a check, so a right guess reveals as little as a
//! wrong one. Two peers may share a slot and thus the limit: with thousands of guessing peers this
//! is intended, with a few it does not happen.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::{FAILED_LOGIN_MS, FAILED_LOGIN_PLACES, FAILED_LOGINS_BURST};
use crate::telemetry::counters::LoginCounters;

/// Failed logins of all peers.
#[derive(Debug)]
pub struct Attempts {
    /// Milliseconds of the monotonic clock. Relaxed: each number is self-contained.
    forgotten_ms: Box<[AtomicU64]>,
    hasher: ahash::RandomState,
    /// Counters of logins.
    pub counters: Arc<LoginCounters>,
}

impl Attempts {
    /// Begins an attempt of `peer`, which counts as failed until [`Attempts::succeeded`] is called.
    ///
    /// # Errors
    /// If too many attempts have failed: the milliseconds until the next one will be checked.
    pub(super) fn begin(&self, peer: IpAddr, now_ms: u64) -> Result<(), u64> {
        let ahead_max = FAILED_LOGINS_BURST * FAILED_LOGIN_MS;
        let moved = self.place(peer).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |until| {
            let after = until.max(now_ms) + FAILED_LOGIN_MS;
            (after <= now_ms + ahead_max).then_some(after)
        });
        moved.map(drop).map_err(|until| {
            self.counters.logins_held_back.add(1);
            until + FAILED_LOGIN_MS - now_ms - ahead_max
        })
    }

    /// Takes back an attempt that succeeded.
    pub(super) fn succeeded(&self, peer: IpAddr) {
        let place = self.place(peer);
        // This may fall behind the present, but `begin` counts from the present on: attempts cannot
        // be saved up.
        let _always_some = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |until| {
            Some(until.saturating_sub(FAILED_LOGIN_MS))
        });
    }

    /// Returns the first of some peers that does not share the slot of `peer`, for tests: the hash
    /// key is random for each table, and any two addresses share a slot in one table of
    /// [`FAILED_LOGIN_PLACES`].
    #[cfg(test)]
    pub(super) fn elsewhere(&self, peer: IpAddr, among: impl Fn(u8) -> String) -> IpAddr {
        let mut others = (0..=255).map(|n| among(n).parse().unwrap());
        others
            .find(|other| !std::ptr::eq(self.place(*other), self.place(peer)))
            .expect("256 addresses do not share one place")
    }

    fn place(&self, peer: IpAddr) -> &AtomicU64 {
        let at = self.hasher.hash_one(network(peer)) as usize % self.forgotten_ms.len();
        &self.forgotten_ms[at]
    }
}

/// Returns the number that identifies a peer: an IPv4 address, or a /64 network of IPv6.
pub(super) fn network(peer: IpAddr) -> u128 {
    match peer.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits() >> 64 << 64,
    }
}

/// Starts without failures.
impl Default for Attempts {
    fn default() -> Self {
        let places = (0..FAILED_LOGIN_PLACES).map(|_| AtomicU64::new(0));
        Self {
            forgotten_ms: places.collect(),
            hasher: ahash::RandomState::new(),
            counters: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ten_failures_at_once_then_one_a_second() {
        let attempts = Attempts::default();
        let peer = ip("192.0.2.7");
        let now = 1_000_000;
        for _ in 0..10 {
            assert_eq!(attempts.begin(peer, now), Ok(()));
        }
        assert_eq!(attempts.begin(peer, now), Err(1000));
        assert_eq!(attempts.begin(peer, now + 400), Err(600));
        // A refused attempt does not extend the wait.
        assert_eq!(attempts.begin(peer, now + 1000), Ok(()));
        assert_eq!(attempts.begin(peer, now + 1000), Err(1000));
        assert_eq!(attempts.counters.logins_held_back.get(), 3);
        // Other peers are not held back, and later ten attempts at once are possible again.
        let other = attempts.elsewhere(peer, |n| format!("198.51.100.{n}"));
        assert_eq!(attempts.begin(other, now), Ok(()));
        let later = now + 60_000;
        let taken = (0..20).filter(|_| attempts.begin(peer, later).is_ok());
        assert_eq!(taken.count(), 10);
    }

    #[test]
    fn successes_cost_nothing_and_save_nothing_up() {
        let attempts = Attempts::default();
        let peer = ip("::ffff:192.0.2.7");
        for _ in 0..1000 {
            assert_eq!(attempts.begin(peer, 5000), Ok(()));
            attempts.succeeded(ip("192.0.2.7"));
        }
        let taken = (0..20).filter(|_| attempts.begin(peer, 5000).is_ok());
        assert_eq!(taken.count(), 10);
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let attempts = Attempts::default();
        for host in 0..10 {
            assert_eq!(attempts.begin(ip(&format!("2001:db8::{host}")), 1), Ok(()));
        }
        assert!(attempts.begin(ip("2001:db8::ffff"), 1).is_err());
        let peer = ip("2001:db8::1");
        let other = attempts.elsewhere(peer, |n| format!("2001:db8:0:1{n:02x}::1"));
        assert!(attempts.begin(other, 1).is_ok());
    }

    #[test]
    fn a_million_peers_find_no_more_than_the_places() {
        let attempts = Attempts::default();
        let peers = (0..1_000_000_u32).map(|bits| IpAddr::V4(bits.into()));
        let taken = peers.filter(|peer| attempts.begin(*peer, 1).is_ok()).count();
        let most = FAILED_LOGIN_PLACES * FAILED_LOGINS_BURST as usize;
        assert!(taken <= most && taken > most * 9 / 10, "{taken}");
    }
}
