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

use datafusion::arrow::array::{
    ArrayRef, Float32Array, Int64Array, StringViewBuilder, UInt32Array,
};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;

use super::condition::{Condition, Test};
use super::ranges::Ranges;
use super::raw::{Lane, Raw};
use super::scan::PoolScan;
use super::texts::Texts;
use crate::pool::Pool;
use crate::pool::requests::RequestSlices;
use crate::pool::timers::TimerSlices;
use crate::pool::words::{NONE, Words};
use crate::sql::snapshot::{Snapshot, expired};
use crate::wire::micros;

/// Rows in a batch, about.
const BATCH_ROWS: usize = 8_192;

/// Rows looked at under one hold of the lock, when few columns are shown.
const HOLD_ROWS: u64 = 8_192;

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
    origins: Texts,
    sets: Texts,
    words: Texts,
    scratch: Scratch,
    /// What it holds of the memory of queries.
    memory: MemoryReservation,
}

/// A column on its way.
#[derive(Debug)]
enum Out {
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(List, usize, Vec<u32>),
}

/// Which list has the texts of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Origins,
    Sets,
    Words,
}

/// The columns of the list of origins.
const ORIGIN_LANES: [Lane; 4] = [
    Lane::Hostname,
    Lane::ServerName,
    Lane::ScriptName,
    Lane::Schema,
];

#[derive(Debug, Default)]
struct Scratch {
    /// Offsets of the rows that pass.
    rows: Vec<u32>,
    /// Places of their origins, of their sets.
    places: Vec<u32>,
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
            origins: Texts::new(ORIGIN_LANES.len()),
            sets: Texts::new(1),
            words: Texts::new(1),
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
        for list in [&mut self.origins, &mut self.sets, &mut self.words] {
            list.begin();
        }
        let mut holds = 0;
        while self.rows < BATCH_ROWS.min(self.wanted) && holds < HOLDS_IDLE_MAX {
            let Some(ids) = self.piece() else {
                break;
            };
            self.hold(ids)?;
            holds += 1;
        }
        if self.rows == 0 && self.left.is_empty() {
            return Ok(None);
        }
        let lists = [&mut self.origins, &mut self.sets, &mut self.words];
        let lists: usize = lists.into_iter().map(Texts::memory).sum();
        self.memory.try_resize(lists + self.matcher.memory())?;
        self.batch().map(Some)
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

    /// Makes ranges of the conditions on ids, at the start and whenever the filters of other nodes say more.
    fn narrow(&mut self) -> Result<()> {
        let generation = self.filters.iter().map(snapshot_generation).sum();
        if self.generation == Some(generation) {
            return Ok(());
        }
        let start = self.generation.replace(generation).is_none();
        let mut conditions: Vec<Condition> = self.conditions.to_vec();
        let lanes = self.raw.lanes();
        for filter in &self.filters {
            let column = |at: usize| {
                let column = *self.columns.get(at)?;
                Some((column, lanes[column].kind()))
            };
            Condition::hints(&**filter, &column, &mut conditions);
        }
        if self.raw == Raw::Tag {
            self.matcher = Matcher::new(self.raw, conditions);
            return Ok(());
        }
        let narrow = |walk: &Self, from: Ranges, conditions: &[Condition]| -> Result<Ranges> {
            let mut ids = from;
            for condition in conditions {
                if let Test::Ints(ranges) = &condition.test {
                    ids = match lanes[condition.column] {
                        Lane::Id => ids.and(ranges),
                        Lane::Timestamp => walk.of_timestamps(&ids, ranges)?,
                        Lane::Owner => ids.and(&walk.of_requests(ranges)?),
                        _ => continue,
                    };
                }
            }
            Ok(ids)
        };
        if start {
            let all = match self.raw.by_timers() {
                true => &self.snapshot.timers,
                false => &self.snapshot.requests,
            };
            let all = Ranges::between(all.start.cast_signed(), all.end.cast_signed() - 1);
            let (pieces, at) = (self.partitions as u64, self.partition as u64);
            let ids = narrow(self, all, &self.conditions)?;
            let (count, share) = (ids.count(), ids.count().div_ceil(pieces));
            let first = (share * at).min(count);
            self.left = ids.part(first, share.min(count - first)).into_queue();
        }
        let left = Ranges::from_pairs(std::mem::take(&mut self.left).into());
        let left = narrow(self, left, &conditions[self.conditions.len()..])?;
        self.left = left.into_queue();
        conditions.retain(|condition| {
            let lane = lanes[condition.column];
            !matches!(lane, Lane::Id | Lane::Timestamp | Lane::Owner)
                || !matches!(condition.test, Test::Ints(_))
        });
        self.matcher = Matcher::new(self.raw, conditions);
        Ok(())
    }

    /// The requests among `ids` whose timestamps are in these ranges. Timestamps never fall from one request to the next.
    fn of_timestamps(&self, ids: &Ranges, timestamps: &Ranges) -> Result<Ranges> {
        let live = self.snapshot.live().read();
        let requests = &live.pool.requests;
        let Range { start, end } = self.snapshot.requests;
        if start < requests.held_id() && start < end {
            return Err(expired());
        }
        // The first request at or after a second.
        let first_at = |second: i64| {
            let (mut from, mut to) = (start, end);
            while from < to {
                let middle = from + (to - from) / 2;
                match requests.timestamp(middle) {
                    Some(timestamp) if i64::from(timestamp) >= second => to = middle,
                    _ => from = middle + 1,
                }
            }
            from.cast_signed()
        };
        let pairs = timestamps.pairs().iter().take(LOOKUPS).map(|&(low, high)| {
            let end = high.checked_add(1).map_or(end.cast_signed(), first_at);
            (first_at(low), end - 1)
        });
        if timestamps.pairs().len() > LOOKUPS {
            // So many seconds cover what there is anyway; they are tested row by row.
            return Ok(ids.clone());
        }
        Ok(ids.and(&Ranges::from_pairs(pairs.collect())))
    }

    /// The timers of these requests.
    fn of_requests(&self, requests: &Ranges) -> Result<Ranges> {
        let all = &self.snapshot.requests;
        let all = Ranges::between(all.start.cast_signed(), all.end.cast_signed() - 1);
        let requests = requests.and(&all);
        let mut timers = Vec::with_capacity(requests.pairs().len());
        for pairs in requests.pairs().chunks(LOOKUPS) {
            let live = self.snapshot.live().read();
            for &(low, high) in pairs {
                let start = first_timer(&live.pool, low.cast_unsigned()).ok_or_else(expired)?;
                let end = match (high + 1).cast_unsigned() {
                    next if next >= self.snapshot.requests.end => self.snapshot.timers.end,
                    next => first_timer(&live.pool, next).ok_or_else(expired)?,
                };
                timers.push((start.cast_signed(), end.cast_signed() - 1));
            }
        }
        Ok(Ranges::from_pairs(timers))
    }

    /// Looks at these rows under the lock.
    fn hold(&mut self, ids: Range<u64>) -> Result<()> {
        let snapshot = Arc::clone(&self.snapshot);
        snapshot.look_at(ids.end - ids.start);
        if self.out.is_empty() && self.matcher.is_empty() && !self.raw.has_pairs() {
            self.rows += (ids.end - ids.start) as usize;
            return Ok(());
        }
        let live = snapshot.live().read();
        let pool = &live.pool;
        self.origins.expect(pool.origins.end());
        self.sets.expect(pool.tag_sets.end());
        self.words.expect(pool.words.end());
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
        let mut places = std::mem::take(&mut self.scratch.places);
        places.clear();
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
                Out::Texts(List::Origins, _, out) => {
                    if places.is_empty() {
                        let list = &mut self.origins;
                        gather(&rows, requests.origin, &mut places, |origin| {
                            list.place(origin, |columns| {
                                let origin = pool.origins.get(origin);
                                for (column, lane) in columns.iter_mut().zip(ORIGIN_LANES) {
                                    let word = origin_word(origin, lane);
                                    column.push((word != NONE).then(|| pool.words.text(word)));
                                }
                            })
                        });
                    }
                    out.extend_from_slice(&places);
                }
                Out::Texts(_, _, out) => {
                    let list = &mut self.sets;
                    gather(&rows, requests.request_tags, out, |set| {
                        list.place(set, |columns| {
                            columns[0].push(Some(&tags_text(pool, set)));
                        })
                    });
                }
            }
        }
        self.rows += rows.len();
        self.scratch.rows = rows;
        self.scratch.places = places;
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
                Out::Texts(_, _, out) => {
                    let list = &mut self.words;
                    let words = if lane == Lane::Name {
                        &*names
                    } else {
                        &*values
                    };
                    out.extend(words[..count].iter().map(|&word| {
                        list.place(word, |columns| {
                            columns[0].push(Some(pool.words.text(word)));
                        })
                    }));
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
        let mut shared: Option<(List, UInt32Array)> = None;
        for out in &mut self.out {
            arrays.push(match out {
                Out::Ints(ints) => Arc::new(Int64Array::from(std::mem::take(ints))),
                Out::Floats(floats) => Arc::new(Float32Array::from(std::mem::take(floats))),
                Out::Texts(list, column, places) => {
                    let places = std::mem::take(places);
                    // Columns of origins have the same places.
                    let places = match shared.take() {
                        Some((List::Origins, places)) if *list == List::Origins => places,
                        _ => UInt32Array::from(places),
                    };
                    let texts = match list {
                        List::Origins => &mut self.origins,
                        List::Sets => &mut self.sets,
                        List::Words => &mut self.words,
                    };
                    let array = texts.column(*column, &places)?;
                    shared = Some((*list, places));
                    array
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    /// The names of timer tags, all in one batch.
    fn tags(&mut self) -> Result<Option<RecordBatch>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        self.left.clear();
        let passes = |matcher: &mut Matcher, id: u32, name: &str| {
            matcher
                .others
                .iter()
                .all(|condition| match &condition.test {
                    Test::Ints(ranges) => ranges.contains(i64::from(id)),
                    Test::Text { test, negated } => test.passes(name) != *negated,
                    Test::Null(null) => !null,
                    Test::Floats(_) => true,
                })
        };
        let mut found: Vec<(u32, String)> = Vec::new();
        let few = self.matcher.others.iter().find_map(|condition| {
            let Test::Ints(ranges) = &condition.test else {
                return None;
            };
            (ranges.count() <= LOOKUPS as u64).then(|| ranges.pairs().to_vec())
        });
        match few {
            // Looked up, as a join wants them.
            Some(pairs) => {
                let live = self.snapshot.live().read();
                let words = &live.pool.words;
                for id in pairs.into_iter().flat_map(|(low, high)| low..=high) {
                    if let Ok(id) = u32::try_from(id)
                        && words.is_timer_tag(id)
                        && passes(&mut self.matcher, id, words.text(id))
                    {
                        found.push((id, words.text(id).to_owned()));
                    }
                }
            }
            None => {
                let tags = self.snapshot.tags();
                let passing = tags
                    .iter()
                    .filter(|(id, name)| passes(&mut self.matcher, *id, name));
                found.extend(passing.cloned());
            }
        }
        found.truncate(self.wanted);
        let arrays = self.columns.iter().map(|&at| match self.raw.lanes()[at] {
            Lane::NameNumber => {
                let ids = found.iter().map(|&(id, _)| i64::from(id));
                Arc::new(Int64Array::from_iter_values(ids)) as ArrayRef
            }
            _ => {
                let mut names = StringViewBuilder::with_capacity(found.len());
                found.iter().for_each(|(_, name)| names.append_value(name));
                Arc::new(names.finish()) as ArrayRef
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(found.len()));
        let schema = Arc::clone(&self.schema);
        let arrays = arrays.collect();
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options)?;
        Ok((batch.num_rows() > 0).then_some(batch))
    }
}

impl Raw {
    /// Whether one row of the pool makes any number of rows of the table.
    const fn has_pairs(self) -> bool {
        matches!(self, Self::TimerTag | Self::RequestTag)
    }
}

impl Out {
    fn of(lane: Lane) -> Self {
        use super::condition::Kind;
        match lane.kind() {
            Kind::Int => Self::Ints(Vec::new()),
            Kind::Float => Self::Floats(Vec::new()),
            Kind::Text => match lane {
                Lane::Tags => Self::Texts(List::Sets, 0, Vec::new()),
                Lane::Name | Lane::Value => Self::Texts(List::Words, 0, Vec::new()),
                lane => {
                    let column = ORIGIN_LANES.iter().position(|&of| of == lane);
                    Self::Texts(List::Origins, column.unwrap_or_default(), Vec::new())
                }
            },
        }
    }
}

/// The columns of requests that are shown as floats.
enum Floats<'a> {
    Bytes(&'a [u32]),
    Seconds(&'a [f32]),
}

fn request_floats<'a>(requests: &RequestSlices<'a>, lane: Lane) -> Floats<'a> {
    match lane {
        Lane::DocumentSize => Floats::Bytes(requests.document_size),
        Lane::MemoryPeak => Floats::Bytes(requests.memory_peak),
        Lane::MemoryFootprint => Floats::Bytes(requests.memory_footprint),
        Lane::RuUtime => Floats::Seconds(requests.ru_utime),
        Lane::RuStime => Floats::Seconds(requests.ru_stime),
        _ => Floats::Seconds(requests.request_time),
    }
}

/// Seconds as they count: to the microsecond.
#[inline]
fn seconds(sent: f32) -> f32 {
    (micros(sent) as f64 / 1e6) as f32
}

#[inline]
fn kib(bytes: u32) -> f32 {
    (f64::from(bytes) / 1024.0) as f32
}

#[inline]
fn gather<T: Copy, U>(rows: &[u32], column: &[T], out: &mut Vec<U>, mut shown: impl FnMut(T) -> U) {
    out.extend(rows.iter().map(|&row| shown(column[row as usize])));
}

fn ids(rows: &[u32], base: u64, out: &mut Vec<i64>) {
    out.extend(
        rows.iter()
            .map(|&row| (base + u64::from(row)).cast_signed()),
    );
}

fn origin_word(origin: &crate::pool::origins::Origin, lane: Lane) -> u32 {
    match lane {
        Lane::Hostname => origin.hostname,
        Lane::ServerName => origin.server_name,
        Lane::ScriptName => origin.script_name,
        _ => origin.schema,
    }
}

/// `name=value,name=value`, in packet order.
fn tags_text(pool: &Pool, set: u32) -> String {
    let mut text = String::new();
    for (name, value) in pool.tag_sets.pairs(set) {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(pool.words.text(name));
        text.push('=');
        text.push_str(pool.words.text(value));
    }
    text
}

/// The id of a held request's first timer.
fn first_timer(pool: &Pool, request: u64) -> Option<u64> {
    let low = pool.requests.first_timer(request)?;
    Some(pool.timers.full_id(low))
}

/// The requests of these timers. `None` when they are not held any more.
fn fill_owners(
    pool: &Pool,
    timers: &Range<u64>,
    requests: &Range<u64>,
    owners: &mut Vec<i64>,
) -> Option<()> {
    owners.clear();
    // The last request that begins at or before a timer, between these two.
    let find = |timer: u64, mut from: u64, mut to: u64| -> Option<u64> {
        while to - from > 1 {
            let middle = from + (to - from) / 2;
            if first_timer(pool, middle)? <= timer {
                from = middle;
            } else {
                to = middle;
            }
        }
        Some(from)
    };
    let from = requests.start.max(pool.requests.held_id());
    let mut request = find(timers.start, from, requests.end)?;
    let mut timer = timers.start;
    while timer < timers.end {
        let mut next = request + 1;
        let mut end = timers.end;
        if next < requests.end {
            let begins = first_timer(pool, next)?;
            if begins <= timer {
                // Requests without timers lie between: leap over them, further each time.
                let mut step = 1;
                while next < requests.end && first_timer(pool, next)? <= timer {
                    request = next;
                    next = next.saturating_add(step);
                    step *= 2;
                }
                request = find(timer, request, next.min(requests.end))?;
                continue;
            }
            end = end.min(begins);
        }
        let count = (end - timer) as usize;
        owners.extend(std::iter::repeat_n(request.cast_signed(), count));
        timer = end;
        request += 1;
    }
    Some(())
}

/// The conditions that ranges of ids do not settle.
#[derive(Debug, Default)]
struct Matcher {
    origins: Vec<(Lane, Test)>,
    sets: Vec<(Lane, Test)>,
    names: Vec<(Lane, Test)>,
    values: Vec<(Lane, Test)>,
    others: Vec<Condition>,
    /// What was found out of each origin, set, name and value.
    of_origins: Verdicts,
    of_sets: Verdicts,
    of_names: Verdicts,
    of_values: Verdicts,
}

/// What was found out, by number.
#[derive(Debug, Default)]
struct Verdicts(Vec<u8>);

impl Verdicts {
    #[inline]
    fn get(&mut self, number: u32, judge: impl FnOnce() -> bool) -> bool {
        let at = number as usize;
        if at >= self.0.len() {
            self.0.resize((at + 1).next_power_of_two(), 0);
        }
        if self.0[at] == 0 {
            self.0[at] = 1 + u8::from(judge());
        }
        self.0[at] == 2
    }
}

impl Matcher {
    fn new(raw: Raw, conditions: Vec<Condition>) -> Self {
        let mut matcher = Self::default();
        for condition in conditions {
            let lane = raw.lanes()[condition.column];
            let list = match lane {
                _ if raw == Raw::Tag => {
                    matcher.others.push(condition);
                    continue;
                }
                Lane::Hostname
                | Lane::ServerName
                | Lane::ScriptName
                | Lane::Schema
                | Lane::Status => &mut matcher.origins,
                Lane::Tags | Lane::TagsCount => &mut matcher.sets,
                Lane::Name | Lane::NameNumber => &mut matcher.names,
                Lane::Value => &mut matcher.values,
                _ => {
                    matcher.others.push(condition);
                    continue;
                }
            };
            list.push((lane, condition.test));
        }
        matcher
    }

    /// About what it takes.
    fn memory(&self) -> usize {
        let verdicts = [
            &self.of_origins,
            &self.of_sets,
            &self.of_names,
            &self.of_values,
        ];
        verdicts.iter().map(|verdicts| verdicts.0.len()).sum()
    }

    /// Whether every row passes.
    fn is_empty(&self) -> bool {
        let lists = [&self.origins, &self.sets, &self.names, &self.values];
        lists.iter().all(|list| list.is_empty()) && self.others.is_empty()
    }

    /// The offsets of the requests that pass.
    fn requests(&mut self, pool: &Pool, requests: &RequestSlices<'_>, rows: &mut Vec<u32>) {
        rows.clear();
        rows.extend(0..requests.len() as u32);
        let lanes = Raw::Request.lanes();
        for Condition { column, test } in &self.others {
            match (lanes[*column], test) {
                (Lane::RequestCount, Test::Ints(ranges)) => {
                    keep(rows, requests.request_count, |n| {
                        ranges.contains(i64::from(n.max(1)))
                    });
                }
                (Lane::TimersCount, Test::Ints(ranges)) => {
                    keep(rows, requests.timers, |n| ranges.contains(i64::from(n)));
                }
                (Lane::Timestamp, Test::Ints(ranges)) => {
                    keep(rows, requests.timestamp, |n| ranges.contains(i64::from(n)));
                }
                (lane, Test::Floats(test)) => match request_floats(requests, lane) {
                    Floats::Bytes(column) => {
                        keep(rows, column, |n| test.passes(f64::from(kib(n))));
                    }
                    Floats::Seconds(column) => {
                        keep(rows, column, |n| test.passes(f64::from(seconds(n))));
                    }
                },
                // None of these columns is ever NULL.
                (_, Test::Null(true)) => rows.clear(),
                _ => {}
            }
        }
        if !self.origins.is_empty() {
            let (verdicts, tests) = (&mut self.of_origins, &self.origins);
            keep(rows, requests.origin, |origin| {
                verdicts.get(origin, || origin_passes(pool, origin, tests))
            });
        }
        if !self.sets.is_empty() {
            let (verdicts, tests) = (&mut self.of_sets, &self.sets);
            keep(rows, requests.request_tags, |set| {
                verdicts.get(set, || {
                    tests.iter().all(|(_, test)| match test {
                        Test::Ints(ranges) => {
                            ranges.contains(pool.tag_sets.pairs(set).len() as i64)
                        }
                        Test::Text { test, negated } => {
                            test.passes(&tags_text(pool, set)) != *negated
                        }
                        Test::Null(null) => !null,
                        Test::Floats(_) => true,
                    })
                })
            });
        }
    }

    /// The offsets of the timers that pass.
    fn timers(&self, timers: &TimerSlices<'_>, rows: &mut Vec<u32>) {
        rows.clear();
        rows.extend(0..timers.tags.len() as u32);
        for Condition { test, .. } in &self.others {
            match test {
                Test::Ints(ranges) => {
                    keep(rows, timers.hit_count, |n| ranges.contains(i64::from(n)));
                }
                Test::Floats(test) => {
                    keep(rows, timers.value, |n| test.passes(f64::from(seconds(n))));
                }
                Test::Null(true) => rows.clear(),
                Test::Null(false) | Test::Text { .. } => {}
            }
        }
    }

    /// Whether any tag of a set may pass.
    #[inline]
    fn set_may(&mut self, pool: &Pool, set: u32) -> bool {
        if !self.others.is_empty() && self.others.iter().any(|c| c.test == Test::Null(true)) {
            return false;
        }
        if self.names.is_empty() && self.values.is_empty() {
            return true;
        }
        let mut verdicts = std::mem::take(&mut self.of_sets);
        let may = verdicts.get(set, || {
            let mut pairs = pool.tag_sets.pairs(set);
            pairs.any(|(name, value)| self.pair(&pool.words, name, value))
        });
        self.of_sets = verdicts;
        may
    }

    /// Whether a tag passes.
    #[inline]
    fn pair(&mut self, words: &Words, name: u32, value: u32) -> bool {
        let (names, values) = (&self.names, &self.values);
        (names.is_empty() || self.of_names.get(name, || word_passes(words, name, names)))
            && (values.is_empty()
                || self
                    .of_values
                    .get(value, || word_passes(words, value, values)))
    }
}

#[inline]
fn keep<T: Copy>(rows: &mut Vec<u32>, column: &[T], mut passes: impl FnMut(T) -> bool) {
    rows.retain(|&row| passes(column[row as usize]));
}

fn origin_passes(pool: &Pool, origin: u32, tests: &[(Lane, Test)]) -> bool {
    let origin = pool.origins.get(origin);
    tests.iter().all(|(lane, test)| {
        if *lane == Lane::Status {
            return match test {
                Test::Ints(ranges) => ranges.contains(i64::from(origin.status)),
                Test::Null(null) => !null,
                _ => true,
            };
        }
        let word = origin_word(origin, *lane);
        match test {
            Test::Null(null) => (word == NONE) == *null,
            Test::Text { test, negated } => {
                word != NONE && test.passes(pool.words.text(word)) != *negated
            }
            _ => true,
        }
    })
}

fn word_passes(words: &Words, word: u32, tests: &[(Lane, Test)]) -> bool {
    tests.iter().all(|(_, test)| match test {
        Test::Ints(ranges) => ranges.contains(i64::from(word)),
        Test::Text { test, negated } => test.passes(words.text(word)) != *negated,
        Test::Null(null) => !null,
        Test::Floats(_) => true,
    })
}
