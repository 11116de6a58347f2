//! Limits on connections: in total and per peer.
//!
//! A front end takes a [`Place`] for each connection before it does any work for it; dropping the
//! place frees it. One peer (for IPv6 a /64 network) cannot take all of them, so a client that
//! leaks connections, or an attacker with one address, leaves room for others. The table has one
//! entry for each peer with a place, hence no more entries than places.

use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::attempts::network;

/// Connection limits of a front end.
#[derive(Debug)]
pub struct ConnectionLimits {
    all_max: usize,
    peer_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    peers: HashMap<u128, usize, ahash::RandomState>,
}

/// Permit for a connection, returned on drop.
#[derive(Debug)]
pub struct Place {
    places: Arc<ConnectionLimits>,
    peer: u128,
}

impl ConnectionLimits {
    /// Creates limits of `all_max` places, of which one peer may have `peer_max`.
    pub(crate) fn new(all_max: usize, peer_max: usize) -> Arc<Self> {
        Arc::new(Self { all_max, peer_max, taken: Mutex::default() })
    }

    /// Takes a place for `peer`; `None` if the peer has its maximum or none is left.
    pub(crate) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let peer = network(peer);
        let mut taken = self.taken.lock();
        let of_peer = taken.peers.get(&peer).copied().unwrap_or(0);
        if taken.all >= self.all_max || of_peer >= self.peer_max {
            return None;
        }
        taken.all += 1;
        taken.peers.insert(peer, of_peer + 1);
        Some(Place { places: Arc::clone(self), peer })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.all -= 1;
        if let Some(of_peer) = taken.peers.get_mut(&self.peer) {
            *of_peer -= 1;
            if *of_peer == 0 {
                taken.peers.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_peer_cannot_take_all_and_places_come_back() {
        let places = ConnectionLimits::new(5, 3);
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut held: Vec<_> = (0..4).filter_map(|_| places.take(ip("10.0.0.1"))).collect();
        assert_eq!(held.len(), 3);
        // The same peer as a mapped address, and an IPv6 network.
        assert!(places.take(ip("::ffff:10.0.0.1")).is_none());
        held.extend(places.take(ip("2001:db8::1")));
        held.extend(places.take(ip("2001:db8::2")));
        assert_eq!(held.len(), 5);
        assert!(places.take(ip("10.0.0.2")).is_none(), "none is left");
        held.remove(0);
        held.extend(places.take(ip("10.0.0.1")));
        assert_eq!(held.len(), 5);
        held.clear();
        let taken = places.taken.lock();
        assert_eq!((taken.all, taken.peers.len()), (0, 0));
    }
}
