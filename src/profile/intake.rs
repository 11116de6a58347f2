//! The thread that turns lines into samples.
//!
//! Visits the sources in turn and takes queued chunks, one chunk under each hold of the pool's
//! lock; sleeps briefly when nothing is queued. Whether a new connection reaches the same run of
//! the extension is determined by its clock: if the clock went back, or shows another start, it is
//! another run. Each dump is a run of its own, whatever its clock shows.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::names::Names;
use super::pool::Run;
use super::{POOL, Pool, Profile};
use crate::input::stat::line::{self, BadLine, Defect, UNITS};
use crate::input::stat::{Chunk, Lines, Source};
use crate::instruments::Instrument;
use crate::shutdown::Shutdown;

/// Turning lines of a stat extension into samples; work is counted in lines.
pub(crate) static TAKE_SAMPLES: Instrument = Instrument::new("stage/profile/take samples");

/// Pause when nothing is queued.
const NAP: Duration = Duration::from_millis(5);

/// Maximum number of chunks taken from one source before the next source's turn.
const CHUNKS: usize = 16;

/// Distance by which a clock may go back within a run, because samples arrive slightly out of
/// order.
const DISORDER: u64 = UNITS / 100;

/// How far starts of one run may seem to lie apart when a connection is made, microseconds: earlier
/// when the samples before all arrived late, later when one waited for the connection.
const STARTS_APART_US: RangeInclusive<i64> = -1_000_000..=10_000_000;

/// State of the profile thread.
#[derive(Debug)]
pub struct Intake {
    profile: Arc<Profile>,
    feeds: Vec<Feed>,
    names: Names,
}

/// The thread's state for one source.
#[derive(Debug)]
pub(super) struct Feed {
    source: Arc<Source>,
    host: Arc<str>,
    lines: Lines,
    connection: u64,
    /// True until the first line of the connection is taken.
    fresh: bool,
    /// Whether the connection brings a dump.
    is_dump: bool,
    run: Arc<Run>,
    /// Time of the newest sample of the run.
    newest: u64,
}

impl Intake {
    /// Creates an intake for the sources of `profile`.
    pub(crate) fn new(profile: Arc<Profile>, names: Names) -> Self {
        let feeds = profile.sources.iter();
        let feeds = feeds.map(|source| Feed::new(Arc::clone(source), &profile));
        Self { feeds: feeds.collect(), profile, names }
    }

    /// Takes samples until `shutdown` is requested and nothing is queued.
    pub(crate) fn run(mut self, shutdown: &Shutdown) {
        loop {
            let stops = shutdown.requested();
            if self.turn() {
                continue;
            }
            self.names.publish();
            if stops {
                return;
            }
            thread::sleep(NAP);
        }
    }

    /// Takes some of the queued chunks of each source; returns true if there were any.
    pub(crate) fn turn(&mut self) -> bool {
        let mut any = false;
        for feed in &mut self.feeds {
            for _ in 0..CHUNKS {
                let Some(chunk) = feed.source.queue.pop() else { break };
                any = true;
                feed.take(&chunk, &self.profile, &mut self.names);
            }
        }
        any
    }
}

impl Feed {
    pub(super) fn new(source: Arc<Source>, profile: &Profile) -> Self {
        let host = super::host_of(&source.config);
        Self {
            source,
            lines: Lines::default(),
            connection: 0,
            fresh: true,
            is_dump: false,
            run: profile.next_run(&host),
            host,
            newest: 0,
        }
    }

    /// Takes the lines that are completed by a chunk.
    pub(super) fn take(&mut self, chunk: &Chunk, profile: &Profile, names: &mut Names) {
        let counters = &self.source.counters;
        let mut cut = false;
        if chunk.connection != self.connection {
            self.connection = chunk.connection;
            self.fresh = true;
            self.is_dump = chunk.is_dump;
            cut |= self.lines.cut();
        }
        if chunk.after_gap {
            cut |= self.lines.resume();
        }
        counters.lines_cut.add(cut.into());
        let received_us = i64::try_from(chunk.received_ms.saturating_mul(1000)).unwrap_or(i64::MAX);
        let mut lines = std::mem::take(&mut self.lines);
        let mut stage = TAKE_SAMPLES.begin();
        let mut pool = POOL.lock(&profile.pool);
        let (mut received, mut taken) = (0, 0);
        lines.feed(&chunk.bytes, |line, is_whole| {
            received += 1;
            let parsed = if is_whole { line::split(line) } else { Err(BadLine::TooLong) };
            let added = parsed.and_then(|it| self.add(&mut pool, &it, received_us, profile, names));
            match added {
                Ok(()) => taken += 1,
                Err(reason) => self.source.reject(reason, line),
            }
        });
        drop(pool);
        self.lines = lines;
        let counters = &self.source.counters;
        stage.worked(received);
        counters.lines_received.add(received);
        counters.samples.add(taken);
    }

    fn add(
        &mut self,
        pool: &mut Pool,
        line: &line::Line<'_>,
        received_us: i64,
        profile: &Profile,
        names: &mut Names,
    ) -> Result<(), BadLine> {
        let counters = &self.source.counters;
        if std::mem::take(&mut self.fresh) {
            let went_back = line.elapsed.saturating_add(DISORDER) < self.newest;
            let apart_us = received_us.saturating_sub(self.run.time_us(line.elapsed));
            let is_first = self.newest == 0;
            let is_other = self.is_dump || went_back || !STARTS_APART_US.contains(&apart_us);
            if is_first || is_other {
                counters.runs.add(1);
            }
            if !is_first && is_other {
                self.run = profile.next_run(&self.host);
                self.newest = 0;
            }
        }
        let mut defects = [0_u64; Defect::COUNT];
        let defect = |it: Defect| defects[it as usize] += 1;
        pool.add(&self.run, self.source.config.root.as_deref(), line, names, defect)?;
        self.run.received(line.elapsed, received_us);
        self.newest = self.newest.max(line.elapsed);
        if defects != [0; Defect::COUNT] {
            counters.samples_mended.add(&defects);
        }
        Ok(())
    }
}
