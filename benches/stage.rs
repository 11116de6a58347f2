//! The path without sockets and threads: packet -> decode -> ring -> merge -> pool and reports,
//! with time moved by hand.
//!
//! Runs on one thread. A simulated second holds as many packets as the plan's rate, however long
//! that takes, so that a window of a day passes in seconds.

use std::sync::Arc;
use std::time::Duration;

use crossbeam::atomic::AtomicCell;
use parking_lot::RwLock;
use pinbad::cli::load::TrafficOptions;
use pinbad::cli::load::traffic::Traffic;
use pinbad::clock::{Clock, ManualClock};
use pinbad::config::Config;
use pinbad::daemon;
use pinbad::grammar::builtin;
use pinbad::grammar::native::ReportForm;
use pinbad::input::Decode as _;
use pinbad::input::pinba::Decoder;
use pinbad::input::record::{Hasher, TextLimits};
use pinbad::input::udp::receive::{DECODE_BATCH, RECEIVE};
use pinbad::instruments::{self, IDLE};
use pinbad::merger::{Live, Merger};
use pinbad::pool::Pool;
use pinbad::report::definition::Defaults;
use pinbad::report::{DefinedBy, Reports, Ticks};
use pinbad::ring::{Producer, RingPlan, TempRing};

/// Packets that a receiver takes in one batch when it keeps up.
const BATCH: usize = 50;
/// When the packets were received, as the decoder is told.
const UNIX_SECS: u32 = 1_700_000_000;

/// The conditions of a stage: by default 100,000 packets/s over a window of ten seconds.
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
            builtin::comments().map(|(name, comment)| ReportForm::of_comment(name, comment)).chain(
                tags.map(|comment| {
                    ReportForm::of_comment(&comment.replace([':', ','], "_"), comment)
                }),
            );
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

/// Switches instruments on that the environment names, as `instruments.enabled` does, apart by
/// commas: `%` for all, nothing for none. Without it none are registered.
fn measure_itself() {
    let Ok(enabled) = std::env::var("PINBAD_BENCH_INSTRUMENTS") else {
        return;
    };
    let settings = instruments::Settings {
        enabled: enabled.split_terminator(',').map(str::to_owned).collect(),
        classes_max: Config::default().instruments.classes_max(),
    };
    instruments::start(&settings, &daemon::instruments::all());
}

/// The stages, ready to run.
pub(crate) struct Stage {
    hasher: Hasher,
    decoder: Decoder,
    producer: Producer,
    pub(crate) merger: Merger,
    clock: Arc<ManualClock>,
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
        let defaults = Defaults { raw_window: plan.window, ..Defaults::default() };
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
        let clock = Arc::new(ManualClock::new(u64::from(UNIX_SECS) * 1_000));
        let merger = Merger {
            consumer,
            live: Arc::new(RwLock::new(Live::new(pool, reports, history))),
            counters: Arc::default(),
            pulse: Arc::default(),
            clock: Arc::<ManualClock>::clone(&clock),
            period: Arc::new(AtomicCell::new(Duration::from_millis(plan.period_ms))),
        };
        Self {
            decoder: Decoder::new(TextLimits::default(), hasher.clone()),
            hasher,
            producer: producers.remove(0),
            merger,
            clock,
            period_ms: plan.period_ms,
            packets_per_merge: plan.packets_per_merge(),
            window_ms: history.tick_ms * (history.count + 1),
            packets: (0..plan.packets).map(|_| traffic.packet()).collect(),
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

    /// One gathering period: packets in, merged, time moved on. With every wait that receiver and
    /// merger have, and nobody to wait for.
    #[inline(never)]
    pub(crate) fn receive_and_merge(&mut self) {
        let mut left = self.packets_per_merge;
        while left > 0 {
            drop(RECEIVE.begin());
            let mut stage = DECODE_BATCH.begin();
            let batch = left.min(BATCH);
            stage.worked(batch as u64);
            for _ in 0..batch {
                // What the generator makes is valid.
                let _requests =
                    self.decoder.decode(&self.packets[self.next], UNIX_SECS, &mut self.producer);
                self.next = (self.next + 1) % self.packets.len();
            }
            self.producer.publish();
            left -= batch;
        }
        drop(IDLE.begin());
        self.merger.merge();
        self.clock.advance_ms(self.period_ms);
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
        let now_ms = self.clock.mono_ms();
        let period = (now_ms / self.period_ms) as usize;
        let batch = &self.batches[period % self.batches.len()];
        let mut live = self.merger.live.write();
        live.advance(now_ms);
        live.merge(batch, now_ms);
        drop(live);
        self.clock.advance_ms(self.period_ms);
    }
}
