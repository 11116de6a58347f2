//! The walk over the rows of a scan: a piece of the pool under a short hold of the lock, a batch when there is enough.
//!
//! First the conditions on ids, requests and timestamps become ranges of ids, so that rows out of question are never looked
//! at. Then the walk takes up to [`HOLD_ROWS`] rows at a time under the lock of `Live`, some fifty microseconds, tests the
//! other conditions on numbers (what a text condition says of an origin, a tag set or a word is found out once and
//! remembered) and copies the columns that are shown. A row that has left meanwhile and is not held any more ends it with an
//! error.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float32Array, Int64Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;

use super::condition::Condition;
use super::matcher::Matcher;
use super::owners::fill_owners;
use super::raw::{Lane, Raw};
use super::scan::PoolScan;
use super::shown::{
    Floats, List, Out, gather, ids, kib, origin_word, request_floats, seconds, tags_text,
};
use super::texts::Texts;
use crate::pool::Pool;
use crate::pool::requests::RequestSlices;
use crate::pool::timers::TimerSlices;
use crate::pool::words::NONE;
use crate::sql::snapshot::{Snapshot, expired};

mod names;
mod narrowing;

/// Rows in a batch, about.
const BATCH_ROWS: usize = 8_192;

/// Rows looked at under one hold of the lock, when few columns are shown.
const HOLD_ROWS: u64 = 8_192;

/// Tag pairs that are read under one hold of the lock, and at least one row: rows with thousands of them come in smaller pieces.
const HOLD_PAIRS: usize = 1 << 16;

/// Bytes of texts by which a batch may grow what is known of them, about.
const BATCH_TEXT_BYTES: usize = 4 << 20;

/// Holds without a row before others may have the thread.
const HOLDS_IDLE_MAX: usize = 64;

/// Requests that are looked up under one hold of the lock.
const LOOKUPS: usize = 512;

/// The walk of one partition.
#[derive(Debug)]
pub(super) struct Walk {
    snapshot: Arc<Snapshot>,
    raw: Raw,
    schema: SchemaRef,
    columns: Arc<[usize]>,
    conditions: Arc<[Condition]>,
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// What the filters said last, as the sum of their generations.
    generation: Option<u64>,
    partition: usize,
    partitions: usize,
    reverse: bool,
    /// Rows that are still wanted.
    wanted: usize,
    /// Ids to look at.
    left: VecDeque<(i64, i64)>,
    hold_rows: u64,
    matcher: Matcher,
    out: Vec<Out>,
    rows: usize,
    sets: Texts,
    words: Texts,
    scratch: Scratch,
    /// What it holds of the memory of queries.
    memory: MemoryReservation,
}

#[derive(Debug, Default)]
struct Scratch {
    /// Offsets of the rows that pass.
    rows: Vec<u32>,
    /// The requests of all timers of the piece.
    owners: Vec<i64>,
    /// For tables of tags: the id, the name and the value of each row.
    ids: Vec<i64>,
    names: Vec<u32>,
    values: Vec<u32>,
}

impl Walk {
    pub(super) fn new(
        scan: &PoolScan,
        snapshot: Arc<Snapshot>,
        partition: usize,
        partitions: usize,
        memory: MemoryReservation,
    ) -> Self {
        let lanes = scan.columns.iter().map(|&at| scan.raw.lanes()[at]);
        let out: Vec<Out> = lanes.map(Out::of).collect();
        Self {
            snapshot,
            raw: scan.raw,
            schema: Arc::clone(&scan.schema),
            columns: Arc::clone(&scan.columns),
            conditions: Arc::clone(&scan.conditions),
            filters: scan.filters.clone(),
            generation: None,
            partition,
            partitions,
            reverse: scan.reverse,
            wanted: scan.fetch.unwrap_or(usize::MAX),
            left: VecDeque::from([(i64::MIN, i64::MAX)]),
            hold_rows: (HOLD_ROWS * 4 / out.len().max(1) as u64).clamp(1_024, HOLD_ROWS),
            matcher: Matcher::default(),
            out,
            rows: 0,
            sets: Texts::default(),
            words: Texts::default(),
            scratch: Scratch::default(),
            memory,
        }
    }

    /// The next batch; one without rows when nothing was found in a while; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.narrow()?;
        if self.raw == Raw::Tag {
            return self.tags();
        }
        for list in [&mut self.sets, &mut self.words] {
            list.begin();
        }
        let text_bytes_max = self.text_bytes() + BATCH_TEXT_BYTES;
        let mut holds = 0;
        while self.rows < BATCH_ROWS.min(self.wanted)
            && holds < HOLDS_IDLE_MAX
            && self.text_bytes() < text_bytes_max
        {
            let Some(ids) = self.piece() else {
                break;
            };
            self.hold(ids)?;
            let lists = self.sets.memory() + self.words.memory();
            self.memory.try_resize(lists + self.matcher.memory())?;
            holds += 1;
        }
        if self.rows == 0 && self.left.is_empty() {
            return Ok(None);
        }
        self.batch().map(Some)
    }

    fn text_bytes(&self) -> usize {
        self.sets.text_bytes() + self.words.text_bytes()
    }

    /// Takes the next ids to look at under one hold.
    fn piece(&mut self) -> Option<Range<u64>> {
        let (low, high) = match self.reverse {
            false => self.left.pop_front()?,
            true => self.left.pop_back()?,
        };
        // Without columns and conditions there is nothing to look at: the count is all.
        let most = match self.out.is_empty() && self.matcher.is_empty() && !self.raw.has_pairs() {
            true => u64::MAX,
            false => self
                .hold_rows
                .min(if self.matcher.is_empty() && !self.raw.has_pairs() {
                    self.wanted as u64
                } else {
                    u64::MAX
                }),
        };
        let rows = (high - low + 1).cast_unsigned().min(most).max(1);
        let (ids, rest) = if self.reverse {
            let from = high + 1 - rows.cast_signed();
            (from..high + 1, (low, from - 1))
        } else {
            let to = low + rows.cast_signed();
            (low..to, (to, high))
        };
        if rest.0 <= rest.1 {
            match self.reverse {
                false => self.left.push_front(rest),
                true => self.left.push_back(rest),
            }
        }
        Some(ids.start.cast_unsigned()..ids.end.cast_unsigned())
    }

    /// Looks at these rows under the lock.
    fn hold(&mut self, ids: Range<u64>) -> Result<()> {
        let snapshot = Arc::clone(&self.snapshot);
        if self.out.is_empty() && self.matcher.is_empty() && !self.raw.has_pairs() {
            self.rows += (ids.end - ids.start) as usize;
            snapshot.look_at(ids.end - ids.start);
            return Ok(());
        }
        let live = snapshot.live().read();
        let pool = &live.pool;
        self.sets.expect(pool.tag_sets.end());
        self.words.expect(pool.words.end());
        let ids = match self.reads_pairs() {
            true => self.few_pairs(pool, ids)?,
            false => ids,
        };
        snapshot.look_at(ids.end - ids.start);
        if self.raw.by_timers() {
            let parts = pool.timers.slices(ids.clone()).ok_or_else(expired)?;
            if self
                .columns
                .iter()
                .any(|&at| self.raw.lanes()[at] == Lane::Owner)
            {
                let owners = &mut self.scratch.owners;
                fill_owners(pool, &ids, &snapshot.requests, owners).ok_or_else(expired)?;
            }
            let middle = parts[0].tags.len();
            let owners = std::mem::take(&mut self.scratch.owners);
            let (first, second) = owners.split_at(middle.min(owners.len()));
            let mut parts = [
                (parts[0], ids.start, first),
                (parts[1], ids.start + middle as u64, second),
            ];
            if self.reverse {
                parts.reverse();
            }
            for (timers, base, owners) in parts {
                self.timers(pool, timers, base, owners);
            }
            self.scratch.owners = owners;
        } else {
            let parts = pool.requests.slices(ids.clone()).ok_or_else(expired)?;
            let middle = parts[0].len() as u64;
            let mut parts = [(parts[0], ids.start), (parts[1], ids.start + middle)];
            if self.reverse {
                parts.reverse();
            }
            for (requests, base) in parts {
                self.requests(pool, requests, base);
            }
        }
        Ok(())
    }

    /// Whether it looks at every tag of a row.
    fn reads_pairs(&self) -> bool {
        let shows = |out: &Out| matches!(out, Out::Texts(List::Sets, _));
        self.raw.has_pairs() || self.matcher.reads_sets() || self.out.iter().any(shows)
    }

    /// As many of these rows as may be read under one hold with the tags that they have; the others are left for the next.
    fn few_pairs(&mut self, pool: &Pool, ids: Range<u64>) -> Result<Range<u64>> {
        let parts = match self.raw.by_timers() {
            true => pool
                .timers
                .slices(ids.clone())
                .map(|it| it.map(|of| of.tags)),
            false => {
                let requests = pool.requests.slices(ids.clone());
                requests.map(|it| it.map(|of| of.request_tags))
            }
        };
        let [first, second] = parts.ok_or_else(expired)?;
        let mut pairs = 0;
        let mut fits = |set: &&u32| {
            let fits = pairs < HOLD_PAIRS;
            pairs += pool.tag_sets.pairs(**set).len();
            fits
        };
        let sets = first.iter().chain(second);
        Ok(if self.reverse {
            let from = ids.end - sets.rev().take_while(&mut fits).count() as u64;
            if ids.start < from {
                let rest = (ids.start.cast_signed(), from.cast_signed() - 1);
                self.left.push_back(rest);
            }
            from..ids.end
        } else {
            let to = ids.start + sets.take_while(&mut fits).count() as u64;
            if to < ids.end {
                let rest = (to.cast_signed(), ids.end.cast_signed() - 1);
                self.left.push_front(rest);
            }
            ids.start..to
        })
    }

    /// Rows of requests that lie side by side, the first of them with the id `base`.
    fn requests(&mut self, pool: &Pool, requests: RequestSlices<'_>, base: u64) {
        if requests.is_empty() {
            return;
        }
        if self.raw == Raw::RequestTag {
            self.pairs(pool, requests.request_tags, base);
            return;
        }
        let mut rows = std::mem::take(&mut self.scratch.rows);
        self.matcher.requests(pool, &requests, &mut rows);
        self.cut(&mut rows);
        for at in 0..self.out.len() {
            let lane = self.raw.lanes()[self.columns[at]];
            match &mut self.out[at] {
                Out::Ints(out) => match lane {
                    Lane::Id => ids(&rows, base, out),
                    Lane::RequestCount => {
                        gather(&rows, requests.request_count, out, |n| i64::from(n.max(1)));
                    }
                    Lane::TimersCount => gather(&rows, requests.timers, out, i64::from),
                    Lane::Timestamp => gather(&rows, requests.timestamp, out, i64::from),
                    Lane::Status => gather(&rows, requests.origin, out, |origin| {
                        i64::from(pool.origins.get(origin).status)
                    }),
                    _ => gather(&rows, requests.request_tags, out, |set| {
                        pool.tag_sets.pairs(set).len() as i64
                    }),
                },
                Out::Floats(out) => match request_floats(&requests, lane) {
                    Floats::Bytes(column) => gather(&rows, column, out, kib),
                    Floats::Seconds(column) => gather(&rows, column, out, seconds),
                },
                Out::Texts(List::Words, out) => {
                    let list = &mut self.words;
                    gather(&rows, requests.origin, out, |origin| {
                        match origin_word(pool.origins.get(origin), lane) {
                            NONE => list.absent(),
                            word => list.place(word, || pool.words.text(word)),
                        }
                    });
                }
                Out::Texts(List::Sets, out) => {
                    let list = &mut self.sets;
                    gather(&rows, requests.request_tags, out, |set| {
                        list.place(set, || tags_text(pool, set))
                    });
                }
            }
        }
        self.rows += rows.len();
        self.scratch.rows = rows;
    }

    /// The same of timers.
    fn timers(&mut self, pool: &Pool, timers: TimerSlices<'_>, base: u64, owners: &[i64]) {
        if timers.tags.is_empty() {
            return;
        }
        if self.raw == Raw::TimerTag {
            self.pairs(pool, timers.tags, base);
            return;
        }
        let mut rows = std::mem::take(&mut self.scratch.rows);
        self.matcher.timers(&timers, &mut rows);
        self.cut(&mut rows);
        for at in 0..self.out.len() {
            let lane = self.raw.lanes()[self.columns[at]];
            match &mut self.out[at] {
                Out::Ints(out) => match lane {
                    Lane::Id => ids(&rows, base, out),
                    Lane::Owner => gather(&rows, owners, out, |id| id),
                    _ => gather(&rows, timers.hit_count, out, i64::from),
                },
                Out::Floats(out) => gather(&rows, timers.value, out, seconds),
                Out::Texts(..) => {}
            }
        }
        self.rows += rows.len();
        self.scratch.rows = rows;
    }

    /// The tags of rows whose sets these are.
    fn pairs(&mut self, pool: &Pool, sets: &[u32], base: u64) {
        let Scratch {
            ids: row_ids,
            names,
            values,
            ..
        } = &mut self.scratch;
        row_ids.clear();
        names.clear();
        values.clear();
        let mut add = |offset: usize, set: u32| {
            if !self.matcher.set_may(pool, set) {
                return;
            }
            let id = (base + offset as u64).cast_signed();
            for (name, value) in pool.tag_sets.pairs(set) {
                if self.matcher.pair(&pool.words, name, value) {
                    row_ids.push(id);
                    names.push(name);
                    values.push(value);
                }
            }
        };
        let sets = sets.iter().copied().enumerate();
        if self.reverse {
            sets.rev().for_each(|(offset, set)| add(offset, set));
        } else {
            sets.for_each(|(offset, set)| add(offset, set));
        }
        let count = row_ids.len().min(self.wanted.saturating_sub(self.rows));
        for at in 0..self.out.len() {
            let lane = self.raw.lanes()[self.columns[at]];
            match &mut self.out[at] {
                Out::Ints(out) => match lane {
                    Lane::Id => out.extend_from_slice(&row_ids[..count]),
                    _ => out.extend(names[..count].iter().map(|&name| i64::from(name))),
                },
                Out::Texts(_, out) => {
                    let list = &mut self.words;
                    let words = if lane == Lane::Name {
                        &*names
                    } else {
                        &*values
                    };
                    out.extend(
                        words[..count]
                            .iter()
                            .map(|&word| list.place(word, || pool.words.text(word))),
                    );
                }
                Out::Floats(_) => {}
            }
        }
        self.rows += count;
    }

    /// Brings rows that passed into their order and leaves out those beyond the limit.
    fn cut(&self, rows: &mut Vec<u32>) {
        if self.reverse {
            rows.reverse();
        }
        rows.truncate(self.wanted.saturating_sub(self.rows));
    }

    /// What was gathered, as a batch.
    fn batch(&mut self) -> Result<RecordBatch> {
        let rows = std::mem::take(&mut self.rows).min(self.wanted);
        if self.wanted != usize::MAX {
            self.wanted -= rows;
            if self.wanted == 0 {
                self.left.clear();
            }
        }
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.out.len());
        for out in &mut self.out {
            arrays.push(match out {
                Out::Ints(ints) => Arc::new(Int64Array::from(std::mem::take(ints))),
                Out::Floats(floats) => Arc::new(Float32Array::from(std::mem::take(floats))),
                Out::Texts(List::Words, places) => self.words.at(std::mem::take(places))?,
                Out::Texts(List::Sets, places) => self.sets.at(std::mem::take(places))?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
}

impl Raw {
    /// Whether one row of the pool makes any number of rows of the table.
    const fn has_pairs(self) -> bool {
        matches!(self, Self::TimerTag | Self::RequestTag)
    }
}
