//! Reads the rows of a pool scan: each batch comes from one hold of the lock.
//!
//! Conditions on ids, requests and timestamps decide which ids are read (`narrowing`). Then up to
//! [`HOLD_ROWS`] rows are read per hold of the lock of `Live`, some fifty microseconds: first the
//! columns that the [`Filter`] tests; it runs without the lock; then the columns to show, for the
//! rows that passed. A row that is neither live nor held any more ends the scan with an error.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;

use super::columns::{Pairs, Piece, Values};
use super::filter::Filter;
use super::owners::owners;
use super::raw::{RowKey, TAGS};
use super::scan::Scan;
use super::texts::Texts;
use crate::grammar::FixedTable;
use crate::merger::answering;
use crate::pool::Pool;
use crate::sql::snapshot::{Snapshot, expired};

mod narrowing;

/// Rows read under one hold of the lock, when few columns are shown.
const HOLD_ROWS: u64 = 8_192;

/// Tag pairs read under one hold of the lock (at least one row): rows with thousands of them come
/// in smaller pieces.
const HOLD_PAIRS: usize = 1 << 16;

/// Holds without a result before the reader yields its thread.
const HOLDS_IDLE_MAX: usize = 64;

/// Requests looked up under one hold of the lock.
const LOOKUPS: usize = 512;

/// The reader of one partition.
#[derive(Debug)]
pub(super) struct Reader {
    scan: Scan,
    table: FixedTable,
    snapshot: Arc<Snapshot>,
    partition: usize,
    /// Sum of the generations of dynamic filters at the last read.
    generation: Option<u64>,
    /// Conditions of the statement that ids do not settle.
    conditions: Vec<Arc<dyn PhysicalExpr>>,
    filter: Filter,
    /// Rows still wanted.
    wanted: usize,
    /// Ids still to read.
    left: VecDeque<(i64, i64)>,
    texts: Texts,
    pairs: Pairs,
    /// Its share of the memory of queries.
    memory: MemoryReservation,
}

impl Reader {
    pub(super) fn new(
        scan: &Scan,
        table: FixedTable,
        snapshot: Arc<Snapshot>,
        partition: usize,
        memory: MemoryReservation,
    ) -> Self {
        Self {
            scan: scan.clone(),
            table,
            snapshot,
            partition,
            generation: None,
            conditions: Vec::new(),
            filter: Filter::default(),
            wanted: scan.fetch.unwrap_or(usize::MAX),
            left: VecDeque::new(),
            texts: Texts::default(),
            pairs: Pairs::default(),
            memory,
        }
    }

    /// The next batch; an empty one if nothing was found for a while; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.narrow()?;
        for _ in 0..HOLDS_IDLE_MAX {
            let next = match self.scan.reverse {
                _ if self.wanted == 0 => None,
                false => self.left.pop_front(),
                true => self.left.pop_back(),
            };
            let Some(ids) = next else { return Ok(None) };
            if self.texts.begin() {
                self.filter.forget();
            }
            let batch = self.read(ids)?;
            let memory = self.texts.memory() + self.filter.memory();
            self.memory.try_resize(memory)?;
            if batch.num_rows() > 0 {
                self.wanted -= batch.num_rows();
                return Ok(Some(batch));
            }
        }
        Ok(Some(RecordBatch::new_empty(Arc::clone(&self.scan.schema))))
    }

    /// Takes the first of these ids, in reading order, and leaves the others for the next hold.
    fn take(&mut self, (low, high): (i64, i64), rows: u64) -> Range<u64> {
        let all = (high - low + 1).cast_unsigned();
        let rows = rows.min(all).cast_signed();
        let (from, to) = match self.scan.reverse {
            false => (low, low + rows),
            true => (high + 1 - rows, high + 1),
        };
        if low < from {
            self.left.push_back((low, from - 1));
        }
        if to <= high {
            self.left.push_front((to, high));
        }
        from.cast_unsigned()..to.cast_unsigned()
    }

    /// Reads the first of these pool rows, as many as fit one hold of the lock.
    fn read(&mut self, ids: (i64, i64)) -> Result<RecordBatch> {
        let shown = Arc::clone(&self.scan.columns);
        // Without columns and conditions there is nothing to read but the count.
        let counts = shown.is_empty() && self.filter.is_empty() && !self.table.is_of_pairs();
        let mut most = match counts {
            true => u64::MAX,
            false => (HOLD_ROWS * 4 / shown.len().max(1) as u64).clamp(1_024, HOLD_ROWS),
        };
        if self.filter.is_empty() && !self.table.is_of_pairs() {
            most = most.min(self.wanted as u64);
        }
        let ids = self.take(ids, most);
        let snapshot = Arc::clone(&self.snapshot);
        let live = answering(&snapshot.live);
        let ids = self.begin(&live.pool, ids)?;
        let count = match self.table.is_of_pairs() {
            true => self.pairs.ids.len(),
            false => (ids.end - ids.start) as usize,
        };
        if self.table != FixedTable::Tag {
            snapshot.count_rows(ids.end - ids.start);
        }
        if counts {
            return self.batch(count, Vec::new());
        }
        let mut rows: Vec<u32> = (0..count as u32).collect();
        if self.filter.is_empty() {
            self.cut(&mut rows);
            let read = self.fill(&live.pool, &ids, &rows, &shown)?;
            drop(live);
            return self.batch(rows.len(), read);
        }
        let tested = self.filter.columns.clone();
        let tested = self.fill(&live.pool, &ids, &rows, &tested)?;
        drop(live);
        rows = self.filter.passing(rows, &tested, &mut self.texts)?;
        self.cut(&mut rows);
        let read = match rows.is_empty() {
            true => return Ok(RecordBatch::new_empty(Arc::clone(&self.scan.schema))),
            false => self.fill(&answering(&snapshot.live).pool, &ids, &rows, &shown)?,
        };
        self.batch(rows.len(), read)
    }

    /// Orders the rows that passed and cuts those beyond the limit. Tags were read in that order
    /// already.
    fn cut(&self, rows: &mut Vec<u32>) {
        if self.scan.reverse && !self.table.is_of_pairs() {
            rows.reverse();
        }
        rows.truncate(self.wanted);
    }

    /// Reads the tags of these rows if the table or its output needs them, for as many rows as fit
    /// one hold. The others are left for the next.
    fn begin(&mut self, pool: &Pool, ids: Range<u64>) -> Result<Range<u64>> {
        self.pairs.clear();
        let mut columns = self.scan.columns.iter().chain(&self.filter.columns);
        let sets = match self.table {
            FixedTable::Tag => {
                let names = ids.clone().filter_map(|id| u32::try_from(id).ok());
                let names = names.filter(|&id| pool.strings.is_timer_tag(id));
                let mut names: Vec<u32> = names.collect();
                if self.scan.reverse {
                    names.reverse();
                }
                for name in names {
                    self.pairs.push(name.into(), name, name);
                }
                return Ok(ids);
            }
            FixedTable::SquidActivity => {
                self.pairs.push_activities(pool, &ids, self.scan.reverse);
                return Ok(ids);
            }
            FixedTable::Request if !columns.any(|&at| at == TAGS) => return Ok(ids),
            FixedTable::TimerTag => pool.timers.slices(ids.clone()).map(|it| it.map(|of| of.tags)),
            FixedTable::Request | FixedTable::RequestTag => {
                pool.requests.slices(ids.clone()).map(|it| it.map(|of| of.request_tags))
            }
            _ => return Ok(ids),
        };
        let [first, second] = sets.ok_or_else(expired)?;
        let all = first.len() + second.len();
        let (mut rows, mut pairs) = (0, 0);
        while rows < all && pairs < HOLD_PAIRS {
            let row = if self.scan.reverse { all - 1 - rows } else { rows };
            let set = first.get(row).or_else(|| second.get(row - first.len()));
            let tags = set.map(|&set| pool.tag_sets.pairs(set));
            for (name, value) in tags.into_iter().flatten() {
                pairs += 1;
                if self.table.is_of_pairs() {
                    self.pairs.push(ids.start + row as u64, name, value);
                }
            }
            rows += 1;
        }
        let ids = (ids.start.cast_signed(), ids.end.cast_signed() - 1);
        Ok(self.take(ids, rows as u64))
    }

    /// Reads columns of some of the rows that [`begin`](Self::begin) selected.
    fn fill(
        &mut self,
        pool: &Pool,
        ids: &Range<u64>,
        rows: &[u32],
        columns: &[usize],
    ) -> Result<Vec<Values>> {
        let table = self.table;
        let (requests, timers) = match table {
            FixedTable::Tag => (0..0, 0..0),
            _ if table.by_timers() => (0..0, ids.clone()),
            _ => (ids.clone(), 0..0),
        };
        // Slots of rows that are no longer held may have been reused.
        let held = pool.requests.slices(requests).zip(pool.timers.slices(timers));
        let (requests, timers) = held.ok_or_else(expired)?;
        let mut names = rows.iter().map(|&row| self.pairs.names[row as usize]);
        if table == FixedTable::Tag && !names.all(|name| pool.strings.is_timer_tag(name)) {
            return Err(expired());
        }
        let is_owner = |&at: &usize| table.key(at) == Some(RowKey::Owner);
        let owners = match columns.iter().any(is_owner) {
            true => owners(pool, ids, self.snapshot.requests()).ok_or_else(expired)?,
            false => Vec::new(),
        };
        let mut piece = Piece {
            pool,
            first: ids.start,
            rows,
            requests,
            timers,
            owners: &owners,
            pairs: &self.pairs,
            texts: &mut self.texts,
        };
        let read = columns.iter().map(|&at| table.reads()[at](&mut piece));
        Ok(read.collect())
    }

    /// Builds a batch from the values read.
    fn batch(&mut self, rows: usize, read: Vec<Values>) -> Result<RecordBatch> {
        let arrays = read.into_iter().map(|values| self.texts.array(values));
        let arrays = arrays.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.scan.schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
}
