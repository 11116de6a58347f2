//! One run: the engine and the list of everything that was sent, side by side.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pinbad::config::{PoolConfig, ReportsConfig};
use pinbad::grammar::builtin;
use pinbad::grammar::native::ReportForm;
use pinbad::input::Decode as _;
use pinbad::input::pinba::{Decoder, model};
use pinbad::input::record::{Hasher, TextLimits};
use pinbad::merger::Live;
use pinbad::pool::{HELD_MS, Pool};
use pinbad::report::definition::{Defaults, Definition};
use pinbad::report::{DefinedBy, Reports, Ticks};
use prost::Message as _;

use super::compare;
use super::recount::{ERROR_STATUS, recount};
use super::reports::{self, Given, Report, Settings};
use super::traffic::{Seen, Traffic, Variety, read};
use crate::dice::Dice;

/// How a run is set up.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) variety: Variety,
    pub(super) request_rows: usize,
    pub(super) timer_rows: usize,
    pub(super) history_secs: u64,
    pub(super) rows_max: usize,
    pub(super) memory_bytes: usize,
    /// Reports beside the built-in ones, at start.
    pub(super) reports: u64,
    pub(super) packets_a_burst: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            variety: Variety::Few,
            request_rows: 5_000,
            timer_rows: 20_000,
            history_secs: 60,
            rows_max: 100_000,
            memory_bytes: 256 << 20,
            reports: 20,
            packets_a_burst: 12,
        }
    }
}

/// A report of the engine, and which requests it knows.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) report: Report,
    /// Ids from..until.
    ids: Vec<(u64, u64)>,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) plan: Plan,
    settings: Settings,
    defaults: Defaults,
    traffic: Traffic,
    decoder: Decoder,
    pub(super) live: Live,
    pub(super) now_ms: u64,
    /// Request `id` is at `id - 1`.
    sent: Vec<Seen>,
    /// Ids below this were thrown away by a reset.
    cleared_before: u64,
    /// Raw rows: (id, timers).
    rows: VecDeque<(u64, usize)>,
    pub(super) reports: Vec<Known>,
    names: u64,
}

fn tick_of(window_ms: u64, at_ms: u64) -> (u64, u64) {
    // max(1 s, window / 120) wide, whole milliseconds.
    let width = window_ms.div_ceil(120).max(1000);
    (at_ms / width, window_ms.div_ceil(width))
}

/// Whether what was merged at `merged_ms` is in the last ticks of the window, the running one
/// included.
fn inside(window_ms: u64, merged_ms: u64, now_ms: u64) -> bool {
    let (tick, _) = tick_of(window_ms, merged_ms);
    let (now, ticks) = tick_of(window_ms, now_ms);
    tick + ticks > now
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan) -> Self {
        let mut dice = Dice(seed);
        let history = Duration::from_secs(plan.history_secs);
        let defaults = Defaults { raw_window: history, ..Defaults::default() };
        let settings = Settings {
            history_ms: plan.history_secs * 1000,
            histogram_max_secs: defaults.histogram_max_secs,
            histogram_size: defaults.histogram_size,
        };
        let hasher = Hasher::new();
        let pool = Pool::new(
            &PoolConfig {
                request_pool_size: plan.request_rows,
                timer_pool_size: plan.timer_rows,
                stats_history: history,
                words_memory: 8 << 20,
            },
            hasher.clone(),
        );
        let mut engine = Reports::new(
            &ReportsConfig {
                rows_max: plan.rows_max,
                memory: plan.memory_bytes,
                error_status: ERROR_STATUS,
            },
            Ticks::of(history),
        );
        // Clocks do not start at zero, and raw rows keep 32 bits of them.
        let now_ms = match dice.once_in(3) {
            true => u64::from(u32::MAX) - dice.below(2_000_000),
            false => dice.below(10_000_000),
        };
        let mut known = Vec::new();
        let mut definitions = Vec::new();
        let built_in = builtin::reports(&defaults);
        for (number, definition) in built_in.into_iter().enumerate() {
            known.push(reports::built_in(number, &settings));
            definitions.push((definition, DefinedBy::BuiltIn));
        }
        let mut names = 0;
        let mut more: Vec<Report> = Vec::new();
        if plan.reports >= 15 {
            more.extend(reports::every_tag_kind(&mut dice, &settings));
        }
        while (more.len() as u64) < plan.reports {
            more.push(reports::any(&mut dice, &settings));
        }
        for mut report in more {
            names += 1;
            report.name = format!("r{names}");
            definitions.push((define(&report, &defaults), DefinedBy::RunTime));
            known.push(report);
        }
        engine.define_at_start(definitions, &pool, now_ms);
        let known = known.into_iter().map(|report| Known { report, ids: vec![(1, u64::MAX)] });
        Self {
            traffic: Traffic::new(plan.variety),
            decoder: Decoder::new(TextLimits::default(), hasher),
            live: Live::new(pool, engine, Ticks::of(history)),
            reports: known.collect(),
            dice,
            plan,
            settings,
            defaults,
            now_ms,
            sent: Vec::new(),
            cleared_before: 1,
            rows: VecDeque::new(),
            names,
        }
    }

    fn next_id(&self) -> u64 {
        self.sent.len() as u64 + 1
    }

    /// Sends some datagrams and merges them as one block, in the tick that runs.
    pub(super) fn burst(&mut self) {
        let mut block = Vec::new();
        let mut seen = Vec::new();
        for _ in 0..self.dice.within(1, self.plan.packets_a_burst) {
            let datagram = self.traffic.datagram(&mut self.dice);
            let said = read(&datagram);
            self.decode(&datagram, &mut block);
            seen.extend(said);
        }
        self.merge(&block, seen);
    }

    /// Appends the records of a datagram.
    pub(super) fn decode(&mut self, datagram: &[u8], block: &mut Vec<u8>) {
        let taken = self.decoder.decode(datagram, 1_700_000_000, block);
        let requests = read(datagram).len();
        assert_eq!(taken.unwrap_or(0) as usize, requests, "requests of a datagram");
    }

    /// Merges what was read from the datagrams in `block`.
    pub(super) fn merge(&mut self, block: &[u8], seen: Vec<Seen>) {
        let timers: usize = seen.iter().map(|seen| seen.timers.len()).sum();
        let merged = self.live.merge(block, self.now_ms);
        assert_eq!(merged, (seen.len() as u64, timers as u64), "requests and timers merged");
        for mut one in seen {
            one.id = self.next_id();
            one.merged_ms = self.now_ms;
            self.keep_row(&one);
            self.sent.push(one);
        }
        assert_eq!(self.live.pool.requests.len(), self.rows.len(), "raw rows");
    }

    /// The raw pool by its rules: whole requests with their timers, the oldest give way.
    fn keep_row(&mut self, seen: &Seen) {
        if self.plan.request_rows == 0 {
            return;
        }
        while self.rows.len() >= self.plan.request_rows {
            self.rows.pop_front();
        }
        let timers = |rows: &VecDeque<(u64, usize)>| rows.iter().map(|(_, n)| n).sum::<usize>();
        while timers(&self.rows) + seen.timers.len() > self.plan.timer_rows {
            self.rows.pop_front();
        }
        self.rows.push_back((seen.id, seen.timers.len()));
    }

    /// Lets time pass.
    pub(super) fn advance(&mut self, ms: u64) {
        self.now_ms += ms;
        self.live.advance(self.now_ms);
        let (history_ms, now_ms) = (self.settings.history_ms, self.now_ms);
        while let Some(&(id, _)) = self.rows.front() {
            if inside(history_ms, self.sent[id as usize - 1].merged_ms, now_ms) {
                break;
            }
            self.rows.pop_front();
        }
        assert_eq!(self.live.pool.requests.len(), self.rows.len(), "raw rows");
    }

    /// Empties everything but the list of reports.
    pub(super) fn clear(&mut self) {
        self.live.clear();
        self.cleared_before = self.next_id();
        self.rows.clear();
    }

    fn oldest_row(&self) -> u64 {
        self.rows.front().map_or(self.next_id(), |&(id, _)| id)
    }

    /// Makes a report as the catalog does: filled from the raw rows piece by piece, while the
    /// merger goes on.
    pub(super) fn create(&mut self) -> Result<(), String> {
        let mut report = reports::any(&mut self.dice, &self.settings);
        self.names += 1;
        report.name = format!("r{}", self.names);
        let definition = Arc::new(define(&report, &self.defaults));
        let mut next = self.oldest_row();
        let Live { reports, pool, .. } = &mut self.live;
        let Some(mut filling) = reports.define(definition, DefinedBy::RunTime, pool) else {
            return self.joined(report);
        };
        let mut ids: Vec<(u64, u64)> = Vec::new();
        loop {
            let piece = self.dice.within(1, 400);
            next = next.max(self.oldest_row());
            let end = (next + piece).min(self.next_id());
            match ids.last_mut() {
                Some((_, until)) if *until == next => *until = end,
                _ => ids.push((next, end)),
            }
            next = end;
            let Live { reports, pool, .. } = &mut self.live;
            match reports.fill(filling, pool, piece as usize) {
                Some(more) => filling = more,
                None => break,
            }
            if self.dice.once_in(2) {
                self.burst();
            }
            if self.dice.once_in(4) {
                let ms = self.dice.below(3000);
                self.advance(ms);
            }
        }
        if next != self.next_id() {
            return Err(format!("live with requests up to {next} of {}", self.next_id()));
        }
        ids.push((next, u64::MAX));
        self.reports.push(Known { report, ids });
        self.check(self.reports.len() - 1)
    }

    /// A report that found others to share with knows what they know.
    fn joined(&mut self, report: Report) -> Result<(), String> {
        let mut candidates: Vec<Vec<(u64, u64)>> = Vec::new();
        let sharing = self.reports.iter().filter(|known| known.report.might_share(&report));
        for known in sharing {
            if !candidates.contains(&known.ids) {
                candidates.push(known.ids.clone());
            }
        }
        if self.sent.is_empty() {
            candidates.push(vec![(1, u64::MAX)]);
        }
        let mut why = format!("{} shares with nobody", report.name);
        self.reports.push(Known { report, ids: Vec::new() });
        let at = self.reports.len() - 1;
        for ids in candidates {
            self.reports[at].ids = ids;
            match self.check(at) {
                Ok(()) => return Ok(()),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// Drops a report made at run time, if there is one.
    pub(super) fn drop_one(&mut self) {
        let (built_in, all) = (19, self.reports.len() as u64);
        if all > built_in {
            let at = self.dice.within(built_in, all - 1) as usize;
            let known = self.reports.remove(at);
            let Live { reports, pool, .. } = &mut self.live;
            assert!(reports.remove(&known.report.name, pool), "it was there");
        }
    }

    /// Compares one report with the recount.
    pub(super) fn check(&self, at: usize) -> Result<(), String> {
        let Known { report, ids } = &self.reports[at];
        let knows = |id: u64| {
            id >= self.cleared_before && ids.iter().any(|&(from, until)| from <= id && id < until)
        };
        // Merges come in order of time: the last that is inside, and all before it that are.
        let inside: Vec<&Seen> = self
            .sent
            .iter()
            .rev()
            .take_while(|seen| inside(report.window_ms, seen.merged_ms, self.now_ms))
            .filter(|seen| knows(seen.id))
            .collect();
        let rows = recount(report, inside.iter().rev().copied());
        let oldest = inside.last().map(|it| it.merged_ms);
        let span_ms = oldest.map(|oldest| self.now_ms - oldest);
        let covered = span_ms.map_or(0, |ms| (ms.min(report.window_ms) / 1000).max(1));
        compare::compare(&self.live, report, &rows, covered, &self.plan).map_err(|problem| {
            format!(
                "{} {:?} at {} ms with {} requests inside, known {ids:?}: {problem}",
                report.name,
                report.given,
                self.now_ms,
                inside.len()
            )
        })
    }

    pub(super) fn check_some(&mut self, count: u64) -> Result<(), String> {
        for _ in 0..count {
            let at = self.dice.below(self.reports.len() as u64) as usize;
            self.check(at)?;
        }
        Ok(())
    }

    pub(super) fn check_all(&self) -> Result<(), String> {
        (0..self.reports.len()).try_for_each(|at| self.check(at))
    }

    /// Merges one and the same request over and over, which ends the epoch in which the pool holds
    /// the names of all requests so far, as soon as their rows are gone.
    pub(super) fn end_epoch(&mut self) {
        let mut packet = model::Request::named("flush-host", "flush-server", "/flush");
        packet.request_time = Some(1.0);
        let datagram = packet.encode_to_vec();
        let mut block = Vec::new();
        for _ in 0..8192 / 64 {
            block.clear();
            for _ in 0..64 {
                assert_eq!(self.decoder.decode(&datagram, 1_700_000_000, &mut block), Ok(1));
            }
            let seen = (0..64).flat_map(|_| read(&datagram)).collect();
            self.merge(&block, seen);
        }
    }

    /// Lets all windows and an epoch pass, then returns the numbers of words, origins and tag sets
    /// that are still kept.
    pub(super) fn names_after_a_flush(&mut self) -> (usize, usize, usize) {
        let longest_window_ms = 86_400_000;
        self.advance(2 * longest_window_ms);
        self.end_epoch();
        self.advance(2 * longest_window_ms);
        // What left is held for a moment, for queries that began before.
        self.advance(HELD_MS);
        for entry in self.live.reports.iter() {
            let rows = usize::from(entry.definition.keys.is_empty());
            assert_eq!(self.live.reports.rows(entry), rows, "rows of {}", entry.definition.name);
        }
        let pool = &self.live.pool;
        (pool.strings.len(), pool.origins.len(), pool.tag_sets.len())
    }

    /// Something happens, whatever it is.
    pub(super) fn step(&mut self) -> Result<(), String> {
        match self.dice.below(100) {
            0..50 => self.burst(),
            50..75 => {
                let ms = self.dice.below(3000);
                self.advance(ms);
            }
            75..84 => {
                let ms = self.dice.within(3_000, 30_000);
                self.advance(ms);
            }
            84..87 => {
                let ms = self.dice.within(30_000, 1_200_000);
                self.advance(ms);
            }
            87 if self.dice.once_in(2) => {
                let ms = self.dice.within(1_200_000, 100_000_000);
                self.advance(ms);
            }
            88..93 => self.create()?,
            93..98 => self.drop_one(),
            98 if self.dice.once_in(4) => self.clear(),
            _ => self.check_some(3)?,
        }
        self.check_some(2)
    }
}

fn define(report: &Report, defaults: &Defaults) -> Definition {
    let form = match &report.given {
        Given::Comment(comment) => ReportForm::of_comment(&report.name, comment),
        Given::Json(json) => {
            let members = serde_json::from_str(json).expect("an object");
            ReportForm::from_members(&report.name, members).expect("a form")
        }
    };
    form.definition(defaults).unwrap_or_else(|error| panic!("{:?}: {error}", report.given))
}
