//! Reads requests of the past: from files, pieces and memory, as of one moment.
//!
//! Conditions are tested here. Statistics of files and their row groups decide which of them are
//! read; of a row group the columns of conditions are read first, the others for the rows that
//! pass. Conditions may become stricter meanwhile (a search for the slowest ten learns what counts
//! as slow): in files and pieces the longest requests come first, so the rest is seldom read then.
//!
//! Bounded: a row group of one file, some rows of a piece, and the collected requests, which are
//! shared.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::{io, iter};

use datafusion::arrow::array::{
    ArrayRef, AsArray as _, BooleanArray, Int64Array, RecordBatch, TimestampMillisecondArray,
};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::utils::{collect_columns, conjunction};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::{
    snapshot_generation, snapshot_physical_expr,
};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{
    ArrowPredicate, ArrowPredicateFn, ArrowReaderMetadata, RowSelection,
};

use super::REQUEST;
use super::condition::Condition;
use super::unpublished::{Unpublished, push};
use super::view::{Bounds, View};
use crate::history::columns::BatchBuilder;
use crate::history::parquet::{BATCH_ROWS, Opened, ReadAs};
use crate::history::pending::PackedRows;
use crate::history::read_unit::{Batches, unread_error};
use crate::history::{Dataset, Part, Resolution};

/// Rows of a piece read first: twice as many each time, up to a batch.
const FIRST_ROWS: usize = 256;
/// Approximate memory of a reader: the stored columns of a row group, and a batch.
pub(crate) const READER_BYTES: usize = 8 << 20;

/// Requests of the past at one moment.
#[derive(Debug, Clone)]
pub(crate) struct RequestsSnapshot {
    /// On disk, the newest first.
    pub(crate) parts: Vec<Arc<Part>>,
    /// In memory; `None` if none are kept now.
    pub(crate) unpublished: Option<Unpublished>,
}

impl RequestsSnapshot {
    /// Those of these parts that have requests.
    pub(crate) fn new(parts: &[Arc<Part>], unpublished: Option<Unpublished>) -> Self {
        let mut parts: Vec<_> = parts.iter().filter(|part| part.is_raw()).cloned().collect();
        parts.sort_by_key(|part| Reverse(part.span.end));
        Self { parts, unpublished }
    }

    /// When the oldest was received, in unix seconds.
    pub(crate) fn kept_from(&self) -> Option<u64> {
        let memory = self.unpublished.iter().filter_map(Unpublished::kept_from);
        let parts = self.parts.iter().map(|part| part.span.start);
        memory.chain(parts).min()
    }

    /// Rows of a table on disk.
    pub(crate) fn rows(&self, table: &str) -> u64 {
        let of_table = Dataset::raw(table);
        let sections = self.parts.iter().flat_map(|part| &part.sections);
        let of_table = sections.filter(|section| *section.dataset == of_table);
        of_table.map(|section| section.rows).sum()
    }

    /// One of several shares of the parts with rows of a table, newest first.
    fn share(&self, table: &str, share: usize, shares: usize) -> VecDeque<Arc<Part>> {
        let of = [table, packed_in(table)].map(Dataset::raw);
        let has = |part: &&Arc<Part>| part.has(&of[usize::from(!part.is_published())]);
        let parts = self.parts.iter().filter(has);
        parts.skip(share).step_by(shares).cloned().collect()
    }
}

/// The wanted columns and rows.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) view: Arc<View>,
    /// The columns of the view to show.
    pub(crate) shown: Vec<usize>,
    /// The schema of these.
    pub(crate) schema: SchemaRef,
    /// Conditions over the view. They may change; rows that passed before need not pass any more.
    pub(crate) conditions: Vec<Arc<dyn PhysicalExpr>>,
}

/// Reads a share of them.
pub(crate) struct Reader {
    wanted: Wanted,
    /// The columns of files that are needed.
    needed: BTreeSet<&'static str>,
    /// Those in memory, unless they were read: before the others.
    memory: Option<Unpublished>,
    /// The next ones on disk.
    parts: VecDeque<Arc<Part>>,
    /// The rows being read, and their part if they are on disk.
    reading: Option<(Option<Arc<Part>>, Reading)>,
    /// Generation of the conditions from which the tests were made.
    generation: Option<u64>,
    tests: Vec<Condition>,
    pruning: Option<PruningPredicate>,
    /// Rows read, at least in part.
    pub(crate) looked_at: u64,
}

/// The current source.
enum Reading {
    File {
        opened: Opened,
        groups: Range<usize>,
        /// Those of the group before.
        batches: Batches,
    },
    Packed {
        rows: PackedRows,
        /// Rows of the next batch.
        next: usize,
    },
}

impl Reader {
    pub(crate) fn new(at: &RequestsSnapshot, wanted: Wanted, share: usize, shares: usize) -> Self {
        let view = &wanted.view;
        let tested = wanted.conditions.iter().flat_map(collect_columns);
        let tested = tested.map(|column| column.index());
        let needed = wanted.shown.iter().copied().chain(tested);
        let needed = needed.map(|column| view.stored_name(column));
        Self {
            needed: needed.chain([TIME]).collect(),
            memory: at.unpublished.clone().filter(|_| share == 0),
            parts: at.share(view.table, share, shares),
            wanted,
            reading: None,
            generation: None,
            tests: Vec::new(),
            pruning: None,
            looked_at: 0,
        }
    }

    /// Adds a condition on columns that are shown.
    pub(crate) fn narrow(&mut self, condition: Arc<dyn PhysicalExpr>) {
        self.wanted.conditions.push(condition);
    }

    /// The end of the hour of the next rows, in unix seconds: later ones are not newer.
    pub(crate) fn reached(&self) -> Option<u64> {
        let part = match &self.reading {
            Some((part, _)) => part.as_ref(),
            None => self.parts.front().filter(|_| self.memory.is_none()),
        };
        part.map(|part| part.span.end)
    }

    /// The next rows; perhaps none, so that others may use the thread; `None` at the end. After an
    /// error it may be called again to skip the unreadable part.
    pub(crate) fn next(&mut self) -> io::Result<Option<RecordBatch>> {
        self.refresh()?;
        if let Some((part, mut reading)) = self.reading.take() {
            let batch = self.read(&mut reading, part.is_some()).map_err(|error| match &part {
                Some(part) if !self.tests.iter().any(Condition::has_failed) => {
                    unread_error(part, &error)
                }
                _ => error,
            })?;
            if batch.is_some() {
                self.reading = Some((part, reading));
            }
            return Ok(Some(batch.unwrap_or_else(|| self.nothing())));
        }
        if let Some(of) = self.memory.take() {
            let rows = of.packed(packed_in(self.wanted.view.table));
            self.reading = Some((None, Reading::Packed { rows, next: BATCH_ROWS }));
        } else if let Some(part) = self.parts.pop_front() {
            let opened = self.open(&part).map_err(|error| unread_error(&part, &error))?;
            self.reading = opened.map(|reading| (Some(part), reading));
        } else {
            return Ok(None);
        }
        Ok(Some(self.nothing()))
    }

    /// A batch without rows.
    pub(crate) fn nothing(&self) -> RecordBatch {
        RecordBatch::new_empty(Arc::clone(&self.wanted.schema))
    }

    /// Updates the tests to the current conditions.
    fn refresh(&mut self) -> io::Result<()> {
        let conditions = &self.wanted.conditions;
        let generation = conditions.iter().map(snapshot_generation).sum();
        if self.generation == Some(generation) {
            return Ok(());
        }
        let mut current = Vec::new();
        for condition in conditions {
            let condition = snapshot_physical_expr(Arc::clone(condition))?;
            current.extend(split_conjunction(&condition).into_iter().cloned());
        }
        // Always true.
        let is_true = |condition: &Arc<dyn PhysicalExpr>| {
            let literal = condition.downcast_ref::<Literal>();
            literal.is_some_and(|literal| *literal.value() == ScalarValue::from(true))
        };
        current.retain(|condition| !is_true(condition));
        let view = &self.wanted.view;
        let tests = current.iter().map(|it| Condition::new(&view.schema, it));
        self.tests = tests.collect::<Result<_, _>>()?;
        // Those that become stricter come last, and pass the fewest rows: test them first. Numbers
        // are read faster than texts.
        self.tests.reverse();
        self.tests.sort_by_key(|test| test.has_texts());
        let schema = Arc::clone(&view.schema);
        let pruning = PruningPredicateBuilder::new().with_file_schema(schema);
        self.pruning = pruning.try_build(conjunction(current)).ok();
        self.generation = Some(generation);
        Ok(())
    }

    /// Whether any rows may satisfy the conditions, by what is known of the smallest and the largest
    /// value of columns of files.
    fn may_have(&self, bounds: impl Fn(&str) -> Bounds) -> bool {
        let columns = self.tests.iter().flat_map(|test| &test.columns);
        let statistics = || self.wanted.view.statistics(columns, bounds);
        let pruning = self.pruning.as_ref();
        let may_have = pruning.and_then(|pruning| pruning.prune(&statistics()).ok());
        may_have.is_none_or(|may_have| may_have != [false])
    }

    /// Opens a part if any of its rows may be wanted.
    fn open(&self, part: &Part) -> io::Result<Option<Reading>> {
        let Range { start, end } = part.span;
        let span = [start, end.saturating_sub(1)].map(|secs| {
            let moment = TimestampMillisecondArray::from(vec![secs.cast_signed() * 1_000]);
            Some(Arc::new(moment.with_timezone("UTC")) as ArrayRef)
        });
        if !self.may_have(|column| span.clone().map(|it| it.filter(|_| column == "received"))) {
            return Ok(None);
        }
        if !part.is_published() {
            let rows = PackedRows::open(part, packed_in(self.wanted.view.table))?;
            return Ok(Some(Reading::Packed { rows, next: FIRST_ROWS }));
        }
        let opened = Opened::new(&part.path, &ReadAs::new(Vec::new()))?;
        let groups = 0..opened.metadata.metadata().num_row_groups();
        Ok(Some(Reading::File { opened, groups, batches: Box::new(iter::empty()) }))
    }

    /// The next rows of the current source; `None` at its end.
    fn read(&mut self, reading: &mut Reading, is_on_disk: bool) -> io::Result<Option<RecordBatch>> {
        let Wanted { view, shown, schema, .. } = &self.wanted;
        match reading {
            Reading::File { opened, groups, batches } => {
                if let Some(batch) = batches.next().transpose()? {
                    return view.batch(shown, schema, &batch).map(Some);
                }
                let Some(group) = groups.next() else {
                    return Ok(None);
                };
                if self.may_have(|column| bounds(&opened.metadata, group, column)) {
                    let rows = opened.all(group);
                    self.looked_at += rows.row_count() as u64;
                    *batches = self.rows_of(opened, group, rows)?;
                }
                Ok(Some(self.nothing()))
            }
            Reading::Packed { rows, next } => {
                if *next == 0 {
                    return Ok(None);
                }
                let table = Dataset::raw(view.table);
                let is_needed = |name: &str| self.needed.contains(name);
                let mut columns = BatchBuilder::published(&table, Resolution::Minute, is_needed);
                let mut is_end = false;
                while !is_end && columns.rows < *next {
                    match rows.next()? {
                        Some(row) => push(view.table, row, &mut columns)?,
                        None => is_end = true,
                    }
                }
                self.looked_at += columns.rows as u64;
                let stored = columns.finish();
                *next = match is_end || is_on_disk && !self.may_follow(&stored) {
                    true => 0,
                    false => (*next * 2).min(BATCH_ROWS),
                };
                let mut rows = stored;
                for test in &self.tests {
                    let passing = passes(test, view, &rows)?;
                    rows = filter_record_batch(&rows, &passing).map_err(io::Error::other)?;
                }
                view.batch(shown, schema, &rows).map(Some)
            }
        }
    }

    /// Whether a piece may have more after these rows: the longest come first.
    fn may_follow(&self, rows: &RecordBatch) -> bool {
        let times = rows.column_by_name(TIME);
        let times = times.and_then(|times| times.as_primitive_opt::<Int64Type>());
        let last = times.and_then(|times| times.values().last().copied());
        let Some(last) = last.filter(|_| self.wanted.view.table == REQUEST) else {
            return true;
        };
        let last: ArrayRef = Arc::new(Int64Array::from(vec![last]));
        self.may_have(|column| [None, Some(Arc::clone(&last)).filter(|_| column == TIME)])
    }

    /// The rows of a row group that pass.
    fn rows_of(&self, opened: &Opened, group: usize, all: RowSelection) -> io::Result<Batches> {
        let Wanted { view, shown, .. } = &self.wanted;
        let name = |column: &usize| view.stored_name(*column);
        let tests = self.tests.iter().map(|test| {
            let (of_test, view) = (opened.mask(test.columns.iter().map(name)), Arc::clone(view));
            let test = test.clone();
            let passes = move |batch: RecordBatch| {
                let passes = passes(&test, &view, &batch);
                passes.map_err(|error| ArrowError::ExternalError(error.into()))
            };
            Box::new(ArrowPredicateFn::new(of_test, passes)) as Box<dyn ArrowPredicate>
        });
        opened.batches(group, all, shown.iter().map(name), tests.collect())
    }
}

/// The table of a table's rows in pieces, where tags are stored with their requests.
fn packed_in(table: &str) -> &str {
    match table {
        super::REQUEST_TAG => REQUEST,
        _ => table,
    }
}

/// The column by which requests are sorted.
const TIME: &str = "req_time_us";

/// The smallest and the largest value of a column in a row group.
fn bounds(opened: &ArrowReaderMetadata, group: usize, column: &str) -> Bounds {
    let (schema, stored) = (opened.schema(), opened.parquet_schema());
    let Ok(converter) = StatisticsConverter::try_new(column, schema, stored) else {
        return [None, None];
    };
    let group = || [opened.metadata().row_group(group)];
    [converter.row_group_mins(group()).ok(), converter.row_group_maxes(group()).ok()]
}

/// For which of these rows of a file a condition is true.
fn passes(test: &Condition, view: &View, stored: &RecordBatch) -> io::Result<BooleanArray> {
    let columns = test.columns.iter().map(|column| view.array(*column, stored));
    let columns = columns.collect::<io::Result<_>>()?;
    Ok(test.passes(columns, stored.num_rows())?)
}

#[cfg(test)]
mod tests;
