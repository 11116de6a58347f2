//! Pools and reports that are full at once, for entries that fill them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use prost::Message as _;

use crate::clock::ManualClock;
use crate::config::{PoolConfig, ReportsConfig};
use crate::input::Decode as _;
use crate::input::pinba::{Decoder, model};
use crate::input::record::{Hasher, TextLimits};
use crate::merger::{Live, Pulse};
use crate::pool::Pool;
use crate::query::catalog::Catalog;
use crate::query::status::Status;
use crate::report::definition::{Defaults, Definition};
use crate::report::native::ReportForm;
use crate::report::reading::Want;
use crate::report::{DefinedBy, Reports, Ticks, builtin};
use crate::ring::{RingPlan, TempRing};
use crate::telemetry::Counters;

/// How far back all of it reaches.
pub(super) const HISTORY: Duration = Duration::from_secs(10);
/// Longer than any report here reaches, milliseconds.
pub(super) const AWAY_MS: u64 = 60_000;

/// The defaults with which a COMMENT is read.
pub(super) fn defaults() -> Defaults {
    Defaults {
        history: HISTORY,
        ..Defaults::default()
    }
}

/// The base reports, and one of each kind that keeps something of its own.
pub(super) fn definitions() -> Vec<(Definition, DefinedBy)> {
    let defaults = defaults();
    let base = builtin::reports(&defaults).into_iter();
    let mut all: Vec<_> = base.map(|report| (report, DefinedBy::BuiltIn)).collect();
    for json in [
        r#"{"level": "request", "keys": ["script_name", "+env"], "window": "5s", "percentiles": [50, 99.9]}"#,
        r#"{"level": "timer", "keys": ["@group", {"key": "@op", "missing": "empty"}], "window": "20s"}"#,
        r#"{"level": "packet", "filters": ["min_time=0.5"], "histogram": "hv=0:60000:512"}"#,
        r#"{"comment": "tag2_info:group,op"}"#,
    ] {
        let members = serde_json::from_str(json).expect("JSON");
        let name = format!("r{}", all.len());
        let form = ReportForm::from_members(&name, members).expect("a form");
        let report = form.definition(&defaults).expect("a report");
        all.push((report, DefinedBy::RunTime));
    }
    all
}

/// A hasher that does not differ from run to run.
pub(super) fn hasher() -> Hasher {
    Hasher::with_seed(7)
}

/// Without reports, for so many requests.
pub(super) fn empty(requests: usize) -> Live {
    let history = Ticks::of(HISTORY);
    let pool = Pool::new(
        &PoolConfig {
            request_pool_size: requests,
            timer_pool_size: requests * 2,
            stats_history: HISTORY,
            words_memory: 1 << 20,
        },
        hasher(),
    );
    let reports = Reports::new(
        &ReportsConfig {
            rows_max: 6,
            memory: 4 << 20,
            error_status: 500,
        },
        history,
    );
    Live::new(pool, reports, history)
}

/// With all of [`definitions`].
pub(super) fn with_reports(requests: usize) -> Live {
    let mut live = empty(requests);
    live.reports.define_at_start(definitions(), &live.pool, 0);
    live
}

/// Reads all reports, as a front end would, and gives what they counted; the rows of each make up
/// its sum.
pub(super) fn read_all(live: &Live) -> u64 {
    let want = Want {
        keys: true,
        quantiles: true,
        histograms: true,
    };
    let mut counted = 0;
    for entry in live.reports.iter() {
        let reading = live
            .reports
            .read(entry, want, &live.pool, 1_700_000_000_000);
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
        let script = format!(
            "/{}",
            ["a", "b\"\\\n", "<é>", "a,b;c", ""][number as usize % 5]
        );
        let mut sent = model::Request::named(format!("h{}", number % 9), "s", script);
        sent.request_time = Some(number as f32 / 7.0);
        sent.status = Some(200 + number % 4 * 100);
        sent.schema = (number % 3 == 0).then(|| b"https".to_vec());
        sent.add_tag(
            "env",
            if number % 2 == 0 {
                "prod"
            } else {
                "t\"e\u{1}st"
            },
        );
        sent.add_timer(1 + number, 0.25, &[("group", "db"), ("op", "read")]);
        let taken = decoder.decode(&sent.encode_to_vec(), 1_700_000_000, &mut records);
        assert_eq!(taken, Ok(1));
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
