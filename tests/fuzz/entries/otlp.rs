//! A body with spans, protobuf or JSON, twice and then through pool and reports.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::live::{self, AWAY_MS};
use crate::clock::ManualClock;
use crate::config::Config;
use crate::input::Lane;
use crate::input::otlp::{Form, Source};
use crate::input::record::TextLimits;
use crate::input::rewrite::NameRules;
use crate::ring::{RingPlan, TempRing};
use crate::shutdown::Shutdown;
use crate::telemetry::Counters;

thread_local! {
    static CONFIG: Config = {
        let text = "[[otlp_input]]\nlisten = '127.0.0.1:0'\ninternal = true\nattributes = ['tenant']\n";
        Config::from_toml("pinbad.toml", text).expect("a configuration")
    };
}

/// Any body.
pub fn otlp(body: &[u8]) {
    let records = records(body);
    let mut live = live::with_reports(16);
    live.merge(&records, 0);
    live.advance(1_000);
    assert!(live::read_all(&live) > 0 || records.is_empty());
    live.advance(1_000 + AWAY_MS);
    assert_eq!(live::read_all(&live), 0, "it has left the reports");
}

/// Returns the records made of a body, which is taken twice; its first byte selects the encoding.
/// Every span is counted once.
fn records(body: &[u8]) -> Vec<u8> {
    let source = CONFIG.with(|config| Source::new(config.otlp_inputs[0].clone(), None));
    let sockets = Counters::new(1).sockets;
    let (_, mut producers, mut consumer) = TempRing::new(RingPlan::new(1024, 4 << 20, 1), &sockets);
    // A time in the corpus.
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let lane = Lane {
        producer: producers.remove(0),
        counters: Arc::clone(&sockets[0]),
        clock: Arc::<ManualClock>::clone(&clock),
    };
    let rules = NameRules::new(&[], live::hasher(), Arc::default());
    source.begin(lane, (TextLimits::default(), live::hasher()), rules);
    let form = if body.first() == Some(&b'{') { Form::Json } else { Form::Protobuf };
    let mut refused = 0;
    for _ in 0..2 {
        let taken = source.take(body, form, IpAddr::V4(Ipv4Addr::LOCALHOST));
        refused += taken.ok().flatten().map_or(0, |it| it.rejected.cast_unsigned());
        clock.advance_ms(7_000);
    }
    let stop = Shutdown::new();
    stop.request();
    source.run(&stop);
    let counters = &source.counters;
    assert_eq!(counters.spans_refused.total(), refused, "the sender was told");
    let parts = [
        counters.requests.get(),
        counters.timers.get(),
        counters.spans_merged.get(),
        counters.spans_left_out.total(),
        refused,
    ];
    assert_eq!(counters.spans_received.get(), parts.iter().sum::<u64>(), "{counters:?}");
    assert_eq!(counters.spans_waiting.get(), 0, "everything has left");
    assert_eq!(counters.waiting_bytes.get(), 0);
    let mut records = Vec::new();
    while let Some(block) = consumer.pop() {
        records.extend(&block.bytes);
        consumer.give_back(block);
    }
    records
}
