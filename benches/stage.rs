//! What the benchmarks of more than one stage share: the path without sockets and threads, and time moved by hand.

use pinbad::config::Config;
use pinbad::ingest::{Inlet, Outlet, RingPlan, TempRing};
use pinbad::load::TrafficOptions;
use pinbad::load::traffic::Traffic;
use pinbad::merger::Live;
use pinbad::pool::Pool;
use pinbad::report::definition::Defaults;
use pinbad::report::form::ReportForm;
use pinbad::report::{DefinedBy, Reports, Ticks, builtin};
use pinbad::wire::{Decoder, Hasher, TextLimits};

/// Packets in one run of the merger: 10 ms at 100,000 a second.
pub(crate) const PACKETS_PER_MERGE: usize = 1_000;
const PERIOD_MS: u64 = 10;
/// Different packets that are sent in turn.
const CORPUS: usize = 200_000;

/// Five tag reports as dashboards have them.
pub(crate) const TAG_REPORTS: [&str; 5] = [
    "tag_info:group",
    "tag2_info:group,server",
    "tagN_info:group,server,operation",
    "tag_report:group",
    "tag_report2:group",
];

/// The stages, ready to run.
pub(crate) struct Stage {
    decoder: Decoder,
    inlet: Inlet,
    outlet: Outlet,
    pub(crate) live: Live,
    pub(crate) now_ms: u64,
    corpus: Vec<Vec<u8>>,
    next: usize,
    hasher: Hasher,
}

impl Stage {
    /// Stages for this traffic, with the 18 base reports and the first `tag_reports` of [`TAG_REPORTS`], run until as
    /// much expires as arrives.
    pub(crate) fn full(traffic: &TrafficOptions, tag_reports: usize) -> Self {
        let base = builtin::comments().map(|(name, comment)| ReportForm::of_comment(name, comment));
        let tags = TAG_REPORTS
            .iter()
            .take(tag_reports)
            .map(|comment| ReportForm::of_comment(&comment.replace([':', ','], "_"), comment));
        let mut stage = Self::with_reports(traffic, base.chain(tags));
        stage.fill_window();
        stage
    }

    /// Stages for this traffic with these reports alone.
    pub(crate) fn with_reports(
        traffic: &TrafficOptions,
        forms: impl Iterator<Item = ReportForm>,
    ) -> Self {
        let mut config = Config::default();
        config.pool.stats_history = std::time::Duration::from_secs(10);
        let defaults = Defaults {
            history: config.pool.stats_history,
            ..Defaults::default()
        };
        let definitions = forms
            .map(|form| {
                (
                    form.definition(&defaults).expect("a valid report"),
                    DefinedBy::BuiltIn,
                )
            })
            .collect();
        let hasher = Hasher::new();
        let history = Ticks::of(config.pool.stats_history);
        let pool = Pool::new(&config.pool, hasher.clone());
        let mut reports = Reports::new(&config.reports, history);
        reports.define_at_start(definitions, &pool, 0);
        let ingest = &config.ingest;
        let plan = RingPlan::new(ingest.temp_pool_size, ingest.temp_pool_bytes, 1);
        let (_, mut inlets, outlet) = TempRing::new(plan, &[Default::default()]);
        let mut traffic = Traffic::new(traffic);
        Self {
            decoder: Decoder::new(TextLimits::default(), hasher.clone()),
            inlet: inlets.remove(0),
            outlet,
            live: Live::new(pool, reports, history),
            now_ms: 0,
            corpus: (0..CORPUS).map(|_| traffic.packet().to_vec()).collect(),
            next: 0,
            hasher,
        }
    }

    /// Runs until as much expires as arrives.
    pub(crate) fn fill_window(&mut self) {
        for _ in 0..12_000 / PERIOD_MS {
            self.receive_and_merge();
        }
    }

    /// One gathering period: packets in, merged, time moved on.
    pub(crate) fn receive_and_merge(&mut self) {
        for _ in 0..PACKETS_PER_MERGE / 50 {
            for _ in 0..50 {
                let packet = &self.corpus[self.next];
                self.next = (self.next + 1) % CORPUS;
                // What the generator makes is valid.
                let _taken = self.decoder.decode(packet, 1_700_000_000, &mut self.inlet);
            }
            self.inlet.publish();
        }
        self.live.advance(self.now_ms);
        while let Some(block) = self.outlet.pop() {
            self.live.merge(block.bytes(), self.now_ms);
            self.outlet.give_back(block);
        }
        self.now_ms += PERIOD_MS;
    }

    /// One gathering period of the merger alone.
    pub(crate) fn merge(&mut self, records: &[u8]) {
        self.live.advance(self.now_ms);
        self.live.merge(records, self.now_ms);
        self.now_ms += PERIOD_MS;
    }

    /// The corpus as records, a batch for each gathering period.
    pub(crate) fn decoded(&self) -> Decoded {
        let mut decoder = Decoder::new(TextLimits::default(), self.hasher.clone());
        let batches = self
            .corpus
            .chunks(PACKETS_PER_MERGE)
            .map(|packets| {
                let mut records = Vec::new();
                for packet in packets {
                    let _taken = decoder.decode(packet, 1_700_000_000, &mut records);
                }
                records
            })
            .collect();
        Decoded { batches, next: 0 }
    }
}

/// Records, batch after batch, over and over.
pub(crate) struct Decoded {
    batches: Vec<Vec<u8>>,
    next: usize,
}

impl Decoded {
    /// The next batch.
    pub(crate) fn next_batch(&mut self) -> &[u8] {
        self.next = (self.next + 1) % self.batches.len();
        &self.batches[self.next]
    }
}
