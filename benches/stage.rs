//! The path without sockets and threads: packet -> decode -> ring -> merge -> pool and reports, with time moved by hand.
//!
//! Runs on one thread. A simulated second holds as many packets as the plan's rate, however long that takes, so that a window
//! of a day passes in seconds.

use std::time::Duration;

use pinbad::cli::load::TrafficOptions;
use pinbad::cli::load::traffic::Traffic;
use pinbad::config::Config;
use pinbad::input::Decode as _;
use pinbad::input::pinba::Decoder;
use pinbad::input::record::{Hasher, TextLimits};
use pinbad::input::udp::receive::DECODE_BATCH;
use pinbad::instruments;
use pinbad::merger::{Live, MERGE_BLOCK};
use pinbad::pool::Pool;
use pinbad::report::definition::Defaults;
use pinbad::report::native::ReportForm;
use pinbad::report::{DefinedBy, Reports, Ticks, builtin};
use pinbad::ring::{Consumer, Producer, RingPlan, TempRing};

/// Packets that a receiver takes in one batch when it keeps up.
const BATCH: usize = 50;
/// When the packets were received, as the decoder is told.
const UNIX_SECS: u32 = 1_700_000_000;

/// What a stage is made for: 100,000 packets/s over a window of ten seconds, unless it is changed.
pub(crate) struct Plan {
    pub(crate) traffic: TrafficOptions,
    /// Different packets, sent in turn.
    pub(crate) packets: usize,
    /// Packets in a simulated second.
    pub(crate) rate: u64,
    /// Simulated time between two runs of the merger.
    pub(crate) period_ms: u64,
    pub(crate) window: Duration,
    pub(crate) config: Config,
    pub(crate) reports: Vec<ReportForm>,
}

impl Plan {
    /// With the built-in reports, and so many tag reports as dashboards have them.
    pub(crate) fn new(traffic: TrafficOptions, tag_reports: usize) -> Self {
        let tags = include_str!("tag_reports.txt").lines().take(tag_reports);
        let forms =
            builtin::comments()
                .map(|(name, comment)| ReportForm::of_comment(name, comment))
                .chain(tags.map(|comment| {
                    ReportForm::of_comment(&comment.replace([':', ','], "_"), comment)
                }));
        Self {
            traffic,
            packets: 100_000,
            rate: 100_000,
            period_ms: 10,
            window: Duration::from_secs(10),
            config: Config::default(),
            reports: forms.collect(),
        }
    }

    /// Packets in one run of the merger.
    pub(crate) fn packets_per_merge(&self) -> usize {
        ((self.rate * self.period_ms / 1000) as usize).max(1)
    }
}

/// Switches instruments on that the environment names, as `instruments.enabled` does, apart by commas; without, none are registered.
fn measure_itself() {
    let Ok(enabled) = std::env::var("PINBAD_BENCH_INSTRUMENTS") else {
        return;
    };
    let settings = instruments::Settings {
        enabled: enabled.split(',').map(str::to_owned).collect(),
        classes_max: Config::default().instruments.classes_max(),
    };
    instruments::start(&settings, &[&DECODE_BATCH, &MERGE_BLOCK]);
}

/// The stages, ready to run.
pub(crate) struct Stage {
    hasher: Hasher,
    decoder: Decoder,
    producer: Producer,
    consumer: Consumer,
    pub(crate) live: Live,
    pub(crate) now_ms: u64,
    period_ms: u64,
    packets_per_merge: usize,
    /// How long the whole window is, and the tick that is still running.
    window_ms: u64,
    packets: Vec<Vec<u8>>,
    next: usize,
    /// The packets as records, a batch for each gathering period, once the merger alone is run.
    batches: Vec<Vec<u8>>,
}

impl Stage {
    /// Stages with nothing in them.
    pub(crate) fn new(plan: &Plan) -> Self {
        measure_itself();
        let mut config = plan.config.clone();
        config.pool.stats_history = plan.window;
        let defaults = Defaults {
            history: plan.window,
            ..Defaults::default()
        };
        let definition = |form: &ReportForm| form.definition(&defaults).expect("a valid report");
        let definitions = plan.reports.iter().map(definition);
        let hasher = Hasher::new();
        let history = Ticks::of(plan.window);
        let pool = Pool::new(&config.pool, hasher.clone());
        let mut reports = Reports::new(&config.reports, history);
        let definitions = definitions.map(|it| (it, DefinedBy::BuiltIn));
        reports.define_at_start(definitions.collect(), &pool, 0);
        let ingest = &config.ingest;
        let ring = RingPlan::new(ingest.temp_pool_size, ingest.temp_pool_bytes, 1);
        let (_, mut producers, consumer) = TempRing::new(ring, &[Default::default()]);
        let mut traffic = Traffic::new(&plan.traffic);
        Self {
            decoder: Decoder::new(TextLimits::default(), hasher.clone()),
            hasher,
            producer: producers.remove(0),
            consumer,
            live: Live::new(pool, reports, history),
            now_ms: 0,
            period_ms: plan.period_ms,
            packets_per_merge: plan.packets_per_merge(),
            window_ms: history.tick_ms * (history.count + 1),
            packets: (0..plan.packets)
                .map(|_| traffic.packet().to_vec())
                .collect(),
            next: 0,
            batches: Vec::new(),
        }
    }

    /// Stages that have run until as much expires as arrives.
    pub(crate) fn full(plan: &Plan) -> Self {
        let mut stage = Self::new(plan);
        for _ in 0..stage.window_ms / plan.period_ms {
            stage.receive_and_merge();
        }
        stage
    }

    /// One gathering period: packets in, merged, time moved on.
    pub(crate) fn receive_and_merge(&mut self) {
        let mut stage = DECODE_BATCH.begin();
        for taken in 1..=self.packets_per_merge {
            // What the generator makes is valid.
            let _requests =
                self.decoder
                    .decode(&self.packets[self.next], UNIX_SECS, &mut self.producer);
            self.next = (self.next + 1) % self.packets.len();
            if taken % BATCH == 0 || taken == self.packets_per_merge {
                self.producer.publish();
                drop(stage);
                stage = DECODE_BATCH.begin();
            }
        }
        drop(stage);
        self.live.advance(self.now_ms);
        while let Some(block) = self.consumer.pop() {
            self.live.merge(&block.bytes, self.now_ms);
            self.consumer.give_back(block);
        }
        self.now_ms += self.period_ms;
    }

    /// One gathering period of the merger alone: the packets as records, over and over.
    pub(crate) fn merge(&mut self) {
        if self.batches.is_empty() {
            let mut decoder = Decoder::new(TextLimits::default(), self.hasher.clone());
            for packets in self.packets.chunks(self.packets_per_merge) {
                let mut records = Vec::new();
                for packet in packets {
                    let _requests = decoder.decode(packet, UNIX_SECS, &mut records);
                }
                self.batches.push(records);
            }
        }
        let period = (self.now_ms / self.period_ms) as usize;
        let batch = &self.batches[period % self.batches.len()];
        self.live.advance(self.now_ms);
        self.live.merge(batch, self.now_ms);
        self.now_ms += self.period_ms;
    }
}
