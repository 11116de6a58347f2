//! Pools and reports that are full at once, for entries that fill them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use crate::clock::ManualClock;
use crate::input::pinba::{Decoder, model};
use crate::input::record::{Hasher, TextLimits};
use crate::merger::test_harness::{self, Limits};
use crate::merger::{Live, Pulse};
use crate::query::catalog::Catalog;
use crate::query::status::Status;
use crate::report::DefinedBy;
use crate::report::definition::{Defaults, Definition};
use crate::report::read::reading::Want;
use crate::ring::{RingPlan, TempRing};
use crate::telemetry::Counters;

/// How far back all of it reaches.
pub(super) const HISTORY: Duration = Duration::from_secs(10);
/// Longer than any report here reaches, milliseconds.
pub(super) const AWAY_MS: u64 = 60_000;

/// The defaults with which a COMMENT is read.
pub(super) fn defaults() -> Defaults {
    test_harness::defaults(HISTORY)
}

/// The base reports, and one of each kind that keeps something of its own.
pub(super) fn definitions() -> Vec<(Definition, DefinedBy)> {
    test_harness::of_each_kind(&defaults(), ["5s", "20s"], 512)
}

/// A hasher that does not differ from run to run.
pub(super) fn hasher() -> Hasher {
    Hasher::with_seed(7)
}

/// For so many requests, with these reports.
fn live(requests: usize, reports: Vec<(Definition, DefinedBy)>) -> Live {
    let limits = Limits {
        window: HISTORY,
        requests,
        timers: requests * 2,
        words: 1 << 20,
        rows_max: 6,
        memory: 4 << 20,
    };
    limits.live(&hasher(), reports)
}

/// Without reports, for so many requests.
pub(super) fn empty(requests: usize) -> Live {
    live(requests, Vec::new())
}

/// With all of [`definitions`].
pub(super) fn with_reports(requests: usize) -> Live {
    live(requests, definitions())
}

/// Reads all reports, as a front end would, and gives what they counted; the rows of each make up
/// its sum.
pub(super) fn read_all(live: &Live) -> u64 {
    let want = Want { keys: true, quantiles: true, histograms: true };
    let mut counted = 0;
    for entry in live.reports.iter() {
        let reading = live.reports.read(entry, want, &live.pool, 1_700_000_000_000);
        let rows: u64 = reading.totals.iter().map(|row| row.requests).sum();
        let name = &entry.definition.name;
        assert!(rows >= reading.grand.requests, "rows of {name}");
        counted += reading.grand.requests;
    }
    counted
}

/// Some requests with names that want quoting, and the reports of them.
pub(crate) fn catalog() -> Catalog {
    let counters = Counters::new(1);
    let (ring, ..) = TempRing::new(RingPlan::new(1024, 1 << 20, 1), &counters.sockets);
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let status = Status::bare(counters, ring);
    let mut live = with_reports(64);
    let mut decoder = Decoder::new(TextLimits::default(), hasher());
    let mut records = Vec::new();
    for number in 0..40_u32 {
        let script = format!("/{}", ["a", "b\"\\\n", "<é>", "a,b;c", ""][number as usize % 5]);
        let mut sent = model::Request::named(format!("h{}", number % 9), "s", script);
        sent.request_time = Some(number as f32 / 7.0);
        sent.status = Some(200 + number % 4 * 100);
        sent.schema = (number % 3 == 0).then(|| b"https".to_vec());
        sent.add_tag("env", ["prod", "t\"e\u{1}st"][number as usize % 2]);
        sent.add_timer(1 + number, 0.25, &[("group", "db"), ("op", "read")]);
        test_harness::decode(&mut decoder, &sent, &mut records);
    }
    live.merge(&records, 0);
    live.advance(1_000);
    Catalog::new(
        Arc::new(RwLock::new(live)),
        clock,
        defaults(),
        true,
        status,
        Arc::new(Pulse::default()),
    )
}
