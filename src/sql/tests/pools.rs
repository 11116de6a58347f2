//! A catalog over pools that a test fills directly, without sockets and threads.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::cli::load::TrafficOptions;
use crate::cli::load::traffic::Traffic;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::input::Decode as _;
use crate::input::pinba::Decoder;
use crate::input::record::{Hasher, TextLimits};
use crate::merger::{Pulse, test_harness};
use crate::query::catalog::Catalog;
use crate::query::status::Status;
use crate::report::definition::Defaults;
use crate::ring::{RingPlan, TempRing};
use crate::telemetry::Counters;

/// Pools, reports, and the catalog over them.
pub(crate) struct Pools {
    pub(crate) catalog: Arc<Catalog>,
    decoder: Decoder,
    pub(crate) now_ms: u64,
    pub(crate) unix_secs: u32,
}

impl Pools {
    /// Pools with this capacity, and the built-in reports.
    pub(crate) fn new(requests: usize, timers: usize) -> Self {
        let mut config = Config::default();
        config.pool.request_pool_size = requests;
        config.pool.timer_pool_size = timers;
        let hasher = Hasher::new();
        let defaults = Defaults::default();
        let live = test_harness::live(&config, &hasher, test_harness::with_own(&defaults, &[]));
        let counters = Counters::new(1);
        let (ring, ..) = TempRing::new(RingPlan::new(1024, 1 << 20, 1), &counters.sockets);
        let status = Status::bare(counters, ring);
        let catalog = Catalog::new(
            Arc::new(RwLock::new(live)),
            Arc::new(SystemClock::new()),
            defaults,
            requests > 0,
            status,
            Arc::new(Pulse::default()),
        );
        Self {
            catalog: Arc::new(catalog),
            decoder: Decoder::new(TextLimits::default(), hasher),
            now_ms: 1_000,
            unix_secs: 1_700_000_000,
        }
    }

    /// Receives packets, all in one merge.
    pub(crate) fn receive<'a>(&mut self, packets: impl IntoIterator<Item = &'a [u8]>) {
        let mut records = Vec::new();
        for packet in packets {
            self.decoder.decode(packet, self.unix_secs, &mut records).expect("a valid packet");
        }
        let mut live = self.catalog.live.write();
        live.advance(self.now_ms);
        live.merge(&records, self.now_ms);
    }

    /// Receives generated packets, a hundred a second.
    pub(crate) fn fill(&mut self, options: &TrafficOptions, packets: usize) {
        let mut traffic = Traffic::new(options);
        let mut left = packets;
        while left > 0 {
            let some: Vec<Vec<u8>> = (0..left.min(100)).map(|_| traffic.packet()).collect();
            left -= some.len();
            self.receive(some.iter().map(Vec::as_slice));
            self.unix_secs += 1;
        }
    }
}
