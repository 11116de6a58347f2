//! The path without sockets and threads: datagram -> decode -> ring -> merge -> pool and reports, on one thread, with
//! time moved by hand.
//!
//! What `growth` measures. Simulated time makes a window of a day pass in seconds: [`Stage::run`] decodes and
//! merges as many packets as come in that much time at the rate it was made for.

use std::time::Duration;

use crate::config::Config;
use crate::ingest::{Inlet, Outlet, RingPlan, TempRing};
use crate::load::TrafficOptions;
use crate::load::traffic::Traffic;
use crate::merger::Live;
use crate::pool::Pool;
use crate::report::definition::{Defaults, Definition};
use crate::report::form::ReportForm;
use crate::report::{DefinedBy, Reports, Ticks, builtin};
use crate::wire::{Decoder, Hasher, TextLimits};

/// Datagrams that a receiver takes in one batch when it keeps up.
const BATCH: u64 = 50;

/// What a stage is made for.
#[derive(Debug, Clone)]
pub struct StagePlan {
    /// What the packets hold.
    pub traffic: TrafficOptions,
    /// Different packets, sent in turn.
    pub packets: usize,
    /// Packets in a simulated second.
    pub rate: u64,
    /// Simulated time between two runs of the merger.
    pub period: Duration,
    /// Sizes, and the window in `pool.stats_history`.
    pub config: Config,
    /// Whether the reports that are always there are there.
    pub base_reports: bool,
    /// Further reports.
    pub reports: Vec<ReportForm>,
}

impl StagePlan {
    /// 100,000 packets/s of `traffic` over a window of ten seconds, with the base reports and the sizes of default.
    #[must_use]
    pub fn new(traffic: TrafficOptions) -> Self {
        let mut config = Config::default();
        config.pool.stats_history = Duration::from_secs(10);
        Self {
            traffic,
            packets: 100_000,
            rate: 100_000,
            period: Duration::from_millis(10),
            config,
            base_reports: true,
            reports: Vec::new(),
        }
    }
}

/// The stages, ready to run.
#[derive(Debug)]
pub struct Stage {
    decoder: Decoder,
    inlet: Inlet,
    outlet: Outlet,
    /// Pool and reports.
    pub live: Live,
    now_ms: u64,
    period_ms: u64,
    per_merge: u64,
    window: Duration,
    packets: Vec<u8>,
    bounds: Vec<usize>,
    next: usize,
}

impl Stage {
    /// Makes packets and stages.
    ///
    /// # Errors
    /// When a report cannot be.
    pub fn new(plan: &StagePlan) -> Result<Self, String> {
        let config = &plan.config;
        let window = config.pool.stats_history;
        let defaults = Defaults {
            history: window,
            ..Defaults::default()
        };
        let mut definitions = if plan.base_reports {
            builtin::reports(&defaults)
        } else {
            Vec::new()
        };
        for form in &plan.reports {
            let made: Result<Definition, _> = form.definition(&defaults);
            definitions.push(made.map_err(|error| format!("{}: {error}", form.name))?);
        }
        let hasher = Hasher::new();
        let history = Ticks::of(window);
        let pool = Pool::new(&config.pool, hasher.clone());
        let mut reports = Reports::new(&config.reports, history);
        let definitions = definitions.into_iter().map(|it| (it, DefinedBy::BuiltIn));
        reports.define_at_start(definitions.collect(), &pool, 0);
        let (size, bytes) = (config.ingest.temp_pool_size, config.ingest.temp_pool_bytes);
        let (_, mut inlets, outlet) =
            TempRing::new(RingPlan::new(size, bytes, 1), &[Default::default()]);
        let mut traffic = Traffic::new(&plan.traffic);
        let (mut packets, mut bounds) = (Vec::new(), vec![0]);
        for _ in 0..plan.packets.max(1) {
            use prost::Message;
            let encoded = traffic.next_request().encode(&mut packets);
            encoded.map_err(|error| error.to_string())?;
            bounds.push(packets.len());
        }
        let period_ms = (plan.period.as_millis() as u64).max(1);
        Ok(Self {
            decoder: Decoder::new(TextLimits::default(), hasher),
            inlet: inlets.swap_remove(0),
            outlet,
            live: Live::new(pool, reports, history),
            now_ms: 0,
            period_ms,
            per_merge: (plan.rate * period_ms / 1000).max(1),
            window,
            packets,
            bounds,
            next: 0,
        })
    }

    /// Mean length of a packet, bytes.
    #[must_use]
    pub fn packet_bytes(&self) -> f64 {
        self.packets.len() as f64 / (self.bounds.len() - 1) as f64
    }

    /// Runs until as much expires as arrives.
    pub fn fill_window(&mut self) {
        let ticks = Ticks::of(self.window);
        self.run_ms(ticks.tick_ms * (ticks.count + 1));
    }

    /// Runs for that much simulated time; returns how many packets that were.
    pub fn run(&mut self, time: Duration) -> u64 {
        self.run_ms(time.as_millis() as u64)
    }

    fn run_ms(&mut self, time_ms: u64) -> u64 {
        let merges = (time_ms / self.period_ms).max(1);
        for _ in 0..merges {
            self.receive_and_merge();
        }
        merges * self.per_merge
    }

    /// One gathering period: packets in, merged, time moved on.
    pub fn receive_and_merge(&mut self) {
        let mut left = self.per_merge;
        while left > 0 {
            let batch = left.min(BATCH);
            for _ in 0..batch {
                let packet = &self.packets[self.bounds[self.next]..self.bounds[self.next + 1]];
                self.next += 1;
                if self.next + 1 == self.bounds.len() {
                    self.next = 0;
                }
                // What the generator makes is valid.
                let _taken: Result<u32, _> =
                    self.decoder.decode(packet, 1_700_000_000, &mut self.inlet);
            }
            self.inlet.publish();
            left -= batch;
        }
        self.live.advance(self.now_ms);
        while let Some(block) = self.outlet.pop() {
            self.live.merge(block.bytes(), self.now_ms);
            self.outlet.give_back(block);
        }
        self.now_ms += self.period_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_window_holds_as_many_as_come_in_it() {
        let mut plan = StagePlan::new(TrafficOptions::default());
        plan.config.pool.stats_history = Duration::from_secs(3);
        (plan.packets, plan.rate) = (500, 1000);
        let mut stage = Stage::new(&plan).unwrap();
        assert_eq!(stage.run(Duration::from_secs(1)), 1000);
        stage.fill_window();
        // The running tick has just begun or just ended.
        let held = stage.live.pool.requests.len();
        assert!((2000..=3000).contains(&held), "{held}");
        let before = stage.live.reports.memory().0;
        stage.fill_window();
        let after = stage.live.reports.memory().0;
        assert!(
            after < before * 2,
            "as much expires as arrives: {before}, {after}"
        );
    }
}
