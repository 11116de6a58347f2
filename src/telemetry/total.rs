//! All counters of one daemon, including those that sources declare beside their input.

use std::sync::Arc;

use parking_lot::Mutex;

use super::counters::{LoginCounters, MergeCounters, MySqlCounters, SocketCounters};
use super::reading::SeriesCounts;
use crate::input::squid::{Followed, Source};
use crate::input::{otlp, stat};

/// All counters of one daemon.
#[derive(Debug, Clone)]
pub struct Counters {
    /// One set for each socket in the order of opening, then one for each `[[otlp_input]]` and one
    /// for each source of Squid's lines.
    pub sockets: Vec<Arc<SocketCounters>>,
    /// Counters of the merger.
    pub merge: Arc<MergeCounters>,
    /// Counters of the MySQL listener.
    pub mysql: Arc<MySqlCounters>,
    /// Counters of logins.
    pub logins: Arc<LoginCounters>,
    /// OTLP inputs, whose sockets follow the real ones.
    pub otlps: Vec<Arc<otlp::Source>>,
    /// Sources of Squid's lines, whose sockets come last.
    pub squids: Vec<Arc<Source>>,
    /// Sources of samples.
    pub stats: Vec<Arc<stat::Source>>,
    /// The part of these counters that `/metrics` leaves out: they had it when they came back after
    /// an end that was not clean, smaller than they had been scraped.
    pub unscraped: Arc<Mutex<SeriesCounts>>,
}

impl Counters {
    /// Creates counters for `sockets` sockets, all zero.
    pub(crate) fn new(sockets: usize) -> Self {
        Self {
            sockets: (0..sockets).map(|_| Arc::default()).collect(),
            merge: Arc::default(),
            mysql: Arc::default(),
            logins: Arc::default(),
            otlps: Vec::new(),
            squids: Vec::new(),
            stats: Vec::new(),
            unscraped: Arc::default(),
        }
    }

    /// Returns the sources of Squid's lines, with their ring counters as they are now.
    pub(crate) fn followed(&self) -> Followed {
        // Their sockets come last.
        let first = self.sockets.len().saturating_sub(self.squids.len());
        let squids = self.squids.iter().zip(self.sockets.iter().skip(first));
        Followed(squids.map(|(source, socket)| (Arc::clone(source), Arc::clone(socket))).collect())
    }

    /// Returns the sum over all sockets.
    pub(crate) fn total(&self) -> SocketCounters {
        let total = SocketCounters::default();
        self.sockets.iter().for_each(|it| total.absorb(it));
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::record::RejectReason;

    #[test]
    fn sockets_add_up() {
        let counters = Counters::new(3);
        for (socket, count) in counters.sockets.iter().zip([1, 20, 300]) {
            socket.requests_decoded.add(count);
            let mut invalid = [0; RejectReason::COUNT];
            invalid[RejectReason::Empty as usize] = count;
            socket.requests_invalid.add(&invalid);
            socket.requests_popped.add(count);
        }
        let total = counters.total();
        assert_eq!(total.requests_decoded.get(), 321);
        assert_eq!(total.requests_invalid.total(), 321);
        assert_eq!(total.requests_popped.get(), 321);
    }
}
