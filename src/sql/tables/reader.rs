//! Reads the rows of a scan: a piece of the pool per short hold of the lock, a batch when there is enough.
//!
//! Conditions on ids, requests and timestamps decide which ids are read (`narrowing`). Then up to [`HOLD_ROWS`] rows are read per
//! hold of the lock of `Live`, some fifty microseconds: first the columns that the [`Filter`] tests; it runs without the lock;
//! then the columns shown, of the rows that passed. A row that is neither live nor held any more ends the scan with an error.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;

use super::columns::{Buffer, Dictionaries, Dictionary, Pairs, Rows};
use super::filter::Filter;
use super::owners::fill_owners;
use super::raw::{PoolTable, RowField};
use super::scan::PoolScan;
use crate::pool::Pool;
use crate::sql::snapshot::{Snapshot, expired};

mod narrowing;

/// Rows in a batch, about.
const BATCH_ROWS: usize = 8_192;

/// Rows read under one hold of the lock, when few columns are shown.
const HOLD_ROWS: u64 = 8_192;

/// Tag pairs that are read under one hold of the lock, and at least one row: rows with thousands of them come in smaller pieces.
const HOLD_PAIRS: usize = 1 << 16;

/// Bytes of texts by which a batch may grow the dictionaries, about.
const BATCH_TEXT_BYTES: usize = 4 << 20;

/// Holds without a row before others may have the thread.
const HOLDS_IDLE_MAX: usize = 64;

/// Requests that are looked up under one hold of the lock.
const LOOKUPS: usize = 512;

/// The reader of one partition.
#[derive(Debug)]
pub(super) struct Reader {
    scan: PoolScan,
    snapshot: Arc<Snapshot>,
    partition: usize,
    /// The generations of the filters of other nodes, added up, when they were last read.
    generation: Option<u64>,
    /// The conditions of the statement that ids do not settle.
    conditions: Vec<Arc<dyn PhysicalExpr>>,
    filter: Filter,
    /// Rows that are still wanted.
    wanted: usize,
    /// Ids to read.
    left: VecDeque<(i64, i64)>,
    hold_rows: u64,
    /// The filter's columns of a piece.
    tested: Vec<Buffer>,
    shown: Vec<Buffer>,
    rows: usize,
    texts: Dictionaries,
    /// The requests of all timers of a piece.
    owners: Vec<i64>,
    pairs: Pairs,
    /// What it holds of the memory of queries.
    memory: MemoryReservation,
}

impl Reader {
    pub(super) fn new(
        scan: &PoolScan,
        snapshot: Arc<Snapshot>,
        partition: usize,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let shown = scan.buffers(&scan.columns);
        Ok(Self {
            snapshot,
            partition,
            generation: None,
            conditions: Vec::new(),
            filter: Filter::new(&scan.table_schema, &[])?,
            wanted: scan.fetch.unwrap_or(usize::MAX),
            left: VecDeque::from([(i64::MIN, i64::MAX)]),
            hold_rows: (HOLD_ROWS * 4 / shown.len().max(1) as u64).clamp(1_024, HOLD_ROWS),
            tested: Vec::new(),
            shown,
            rows: 0,
            texts: Dictionaries::default(),
            owners: Vec::new(),
            pairs: Pairs::default(),
            memory,
            scan: scan.clone(),
        })
    }

    /// The next batch; one without rows when nothing was found in a while; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.narrow()?;
        for texts in [&mut self.texts.strings, &mut self.texts.tag_sets] {
            if texts.begin() {
                self.filter.forget();
            }
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
            self.read(ids)?;
            let texts = self.texts.strings.memory() + self.texts.tag_sets.memory();
            self.memory.try_resize(texts + self.filter.memory())?;
            holds += 1;
        }
        if self.rows == 0 && self.left.is_empty() {
            return Ok(None);
        }
        self.batch().map(Some)
    }

    fn text_bytes(&self) -> usize {
        self.texts.strings.text_bytes() + self.texts.tag_sets.text_bytes()
    }

    /// Whether one row of the pool is one row of the table, whatever is in it.
    fn takes_every_row(&self) -> bool {
        self.filter.is_empty() && !self.scan.table.is_of_pairs()
    }

    /// Takes the next ids to read under one hold.
    fn piece(&mut self) -> Option<Range<u64>> {
        let reverse = self.scan.reverse;
        let (low, high) = match reverse {
            false => self.left.pop_front()?,
            true => self.left.pop_back()?,
        };
        // Without columns and conditions there is nothing to read: the count is all.
        let most = match self.takes_every_row() {
            true if self.shown.is_empty() => u64::MAX,
            true => self.hold_rows.min(self.wanted as u64),
            false => self.hold_rows,
        };
        let rows = (high - low + 1).cast_unsigned().min(most).max(1);
        let (ids, rest) = match reverse {
            true => {
                let from = high + 1 - rows.cast_signed();
                (from..high + 1, (low, from - 1))
            }
            false => {
                let to = low + rows.cast_signed();
                (low..to, (to, high))
            }
        };
        self.put_back(rest);
        Some(ids.start.cast_unsigned()..ids.end.cast_unsigned())
    }

    /// Leaves ids for the next piece.
    fn put_back(&mut self, ids: (i64, i64)) {
        if ids.0 <= ids.1 {
            match self.scan.reverse {
                false => self.left.push_front(ids),
                true => self.left.push_back(ids),
            }
        }
    }

    /// Reads these rows of the pool.
    fn read(&mut self, mut ids: Range<u64>) -> Result<()> {
        let snapshot = Arc::clone(&self.snapshot);
        if self.shown.is_empty() && self.takes_every_row() {
            self.rows += (ids.end - ids.start) as usize;
            snapshot.count_rows(ids.end - ids.start);
            return Ok(());
        }
        let count = {
            let live = snapshot.live().read();
            if self.reads_pairs() {
                ids = self.few_pairs(&live.pool, ids)?;
            }
            if self.scan.table != PoolTable::Tag {
                snapshot.count_rows(ids.end - ids.start);
            }
            let count = self.begin(&live.pool, &ids)?;
            if self.filter.is_empty() {
                let mut rows: Vec<u32> = (0..count as u32).collect();
                self.cut(&mut rows);
                return self.show(&live.pool, &ids, &rows);
            }
            let all: Vec<u32> = (0..count as u32).collect();
            let (columns, mut tested) = (
                self.filter.columns.clone(),
                std::mem::take(&mut self.tested),
            );
            tested.iter_mut().for_each(Buffer::clear);
            self.fill(&live.pool, &ids, &all, &columns, &mut tested)?;
            self.tested = tested;
            count
        };
        let mut rows = self
            .filter
            .passing(count, &mut self.tested, &mut self.texts)?;
        self.cut(&mut rows);
        if rows.is_empty() {
            return Ok(());
        }
        self.show(&snapshot.live().read().pool, &ids, &rows)
    }

    /// Brings rows that passed into their order and leaves out those beyond the limit.
    fn cut(&self, rows: &mut Vec<u32>) {
        if self.scan.reverse {
            rows.reverse();
        }
        rows.truncate(self.wanted.saturating_sub(self.rows));
    }

    /// Reads the columns that are shown.
    fn show(&mut self, pool: &Pool, ids: &Range<u64>, rows: &[u32]) -> Result<()> {
        let (columns, mut shown) = (
            Arc::clone(&self.scan.columns),
            std::mem::take(&mut self.shown),
        );
        self.fill(pool, ids, rows, &columns, &mut shown)?;
        self.shown = shown;
        self.rows += rows.len();
        Ok(())
    }

    /// Finds out how many rows of the table these rows of the pool are, and what belongs to them.
    fn begin(&mut self, pool: &Pool, ids: &Range<u64>) -> Result<usize> {
        let Pairs {
            ids: of,
            names,
            values,
        } = &mut self.pairs;
        of.clear();
        names.clear();
        values.clear();
        let sets = match self.scan.table {
            PoolTable::Request => return Ok((ids.end - ids.start) as usize),
            PoolTable::Timer => {
                let needs = |columns: &[usize]| {
                    columns
                        .iter()
                        .any(|&at| self.scan.table.fields()[at] == RowField::Owner)
                };
                if needs(&self.scan.columns) || needs(&self.filter.columns) {
                    fill_owners(pool, ids, &self.snapshot.requests, &mut self.owners)
                        .ok_or_else(expired)?;
                }
                return Ok((ids.end - ids.start) as usize);
            }
            PoolTable::Tag => {
                for id in ids.clone().filter_map(|id| u32::try_from(id).ok()) {
                    if pool.strings.is_timer_tag(id) {
                        of.push(id.into());
                        names.push(id);
                    }
                }
                return Ok(of.len());
            }
            PoolTable::TimerTag | PoolTable::RequestTag => tag_sets(self.scan.table, pool, ids)?,
        };
        for (id, set) in ids.clone().zip(sets.into_iter().flatten()) {
            for (name, value) in pool.tag_sets.pairs(*set) {
                of.push(id.cast_signed());
                names.push(name);
                values.push(value);
            }
        }
        Ok(of.len())
    }

    /// Adds columns of some of the rows that began with [`begin`](Self::begin).
    fn fill(
        &mut self,
        pool: &Pool,
        ids: &Range<u64>,
        rows: &[u32],
        columns: &[usize],
        buffers: &mut [Buffer],
    ) -> Result<()> {
        self.texts.strings.expect(pool.strings.end());
        self.texts.tag_sets.expect(pool.tag_sets.end());
        let table = self.scan.table;
        let requests;
        let of = match table {
            PoolTable::Request => {
                requests = pool.requests.slices(ids.clone()).ok_or_else(expired)?;
                Rows::Requests(&requests)
            }
            PoolTable::Timer => {
                let timers = pool.timers.slices(ids.clone()).ok_or_else(expired)?;
                Rows::Timers(timers, &self.owners)
            }
            PoolTable::TimerTag | PoolTable::RequestTag => {
                // What they have may be something else by now if they are not held any more.
                tag_sets(table, pool, ids)?;
                Rows::Pairs(&self.pairs)
            }
            PoolTable::Tag => {
                let names = rows.iter().map(|&row| self.pairs.names[row as usize]);
                if !names.into_iter().all(|id| pool.strings.is_timer_tag(id)) {
                    return Err(expired());
                }
                Rows::Pairs(&self.pairs)
            }
        };
        for (&at, buffer) in columns.iter().zip(buffers) {
            let field = table.fields()[at];
            of.read(pool, ids.start, rows, field, &mut self.texts, buffer);
        }
        Ok(())
    }

    /// Whether every tag of a row is read.
    fn reads_pairs(&self) -> bool {
        let shows = |buffer: &Buffer| matches!(buffer, Buffer::Texts(Dictionary::TagSets, _));
        let mut buffers = self.shown.iter().chain(&self.tested);
        matches!(self.scan.table, PoolTable::TimerTag | PoolTable::RequestTag) || buffers.any(shows)
    }

    /// As many of these rows as may be read under one hold with the tags that they have; the others are left for the next.
    fn few_pairs(&mut self, pool: &Pool, ids: Range<u64>) -> Result<Range<u64>> {
        let sets = tag_sets(self.scan.table, pool, &ids)?;
        let mut pairs = 0;
        let mut fits = |set: &&u32| {
            let fits = pairs < HOLD_PAIRS;
            pairs += pool.tag_sets.pairs(**set).len();
            fits
        };
        let sets = sets[0].iter().chain(sets[1]);
        Ok(if self.scan.reverse {
            let from = ids.end - sets.rev().take_while(&mut fits).count() as u64;
            self.put_back((ids.start.cast_signed(), from.cast_signed() - 1));
            from..ids.end
        } else {
            let to = ids.start + sets.take_while(&mut fits).count() as u64;
            self.put_back((to.cast_signed(), ids.end.cast_signed() - 1));
            ids.start..to
        })
    }

    /// What was read, as a batch.
    fn batch(&mut self) -> Result<RecordBatch> {
        let rows = std::mem::take(&mut self.rows).min(self.wanted);
        if self.wanted != usize::MAX {
            self.wanted -= rows;
            if self.wanted == 0 {
                self.left.clear();
            }
        }
        let arrays = self.shown.iter_mut().map(|buffer| self.texts.array(buffer));
        let arrays = arrays.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.scan.schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
}

/// The tag sets of requests or timers.
fn tag_sets<'a>(table: PoolTable, pool: &'a Pool, ids: &Range<u64>) -> Result<[&'a [u32]; 2]> {
    let sets = match table.by_timers() {
        true => pool
            .timers
            .slices(ids.clone())
            .map(|it| it.map(|of| of.tags)),
        false => pool
            .requests
            .slices(ids.clone())
            .map(|it| it.map(|of| of.request_tags)),
    };
    sets.ok_or_else(expired)
}
