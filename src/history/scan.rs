//! Scans rows of the past, of a report or of raw requests: from files, pieces and memory, as of one
//! moment.
//!
//! Conditions are tested here. Statistics of parts and of row groups decide which of them are read;
//! of a row group the columns of conditions are read first, the others for the rows that pass.
//! Conditions may become stricter meanwhile (a search for the slowest ten learns what counts as
//! slow): in files and pieces the longest requests come first, so the rest is seldom read then.
//!
//! Bounded: a row group of one file, or some rows of a piece; rows in memory are shared.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::{io, iter};

use datafusion::arrow::array::{
    ArrayRef, AsArray as _, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions,
    TimestampMillisecondArray,
};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Int64Type, SchemaRef, TimestampMillisecondType};
use datafusion::arrow::error::ArrowError;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::utils::conjunction;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::{
    snapshot_generation, snapshot_physical_expr,
};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use parquet::arrow::arrow_reader::{ArrowPredicate, ArrowPredicateFn};

use self::condition::Condition;
use super::Resolution;
use super::columns::Batches;
use super::parquet::{Bounds, ReadAs};
use super::part::Part;
use super::read_unit::{ReadUnit, unread_error};
use super::requests::REQUEST;
use super::sql_columns::View;

pub(crate) mod condition;

/// Approximate memory of a scan of raw requests: the stored columns of a row group, and a batch.
pub(crate) const REQUESTS_BYTES: usize = 8 << 20;

/// Rows to read.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) rows: SourceRows,
    /// The resolution that they are shown by.
    pub(crate) by: Resolution,
}

/// Where rows lie.
#[derive(Debug, Clone)]
pub(crate) enum SourceRows {
    /// Those of a part that begin in a span.
    OnDisk(Arc<Part>, Range<u64>),
    InMemory(ReadUnit),
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
    pub(crate) read_as: ReadAs,
}

/// Reads the rows of some sources.
pub(crate) struct Scan {
    wanted: Wanted,
    /// The next ones.
    sources: VecDeque<Source>,
    /// The one being read.
    reading: Option<Reading>,
    /// Generation of the conditions from which the tests were made.
    generation: Option<u64>,
    tests: Vec<Condition>,
    pruning: Option<PruningPredicate>,
    /// Rows read, at least in part.
    pub(crate) looked_at: u64,
}

/// A source being read.
struct Reading {
    source: Source,
    units: VecDeque<ReadUnit>,
    /// Those of the unit before.
    batches: Batches,
}

impl Scan {
    pub(crate) fn new(sources: impl Iterator<Item = Source>, wanted: Wanted) -> Self {
        Self {
            wanted,
            sources: sources.collect(),
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
        let next = self.reading.as_ref().map(|reading| &reading.source).or(self.sources.front())?;
        let SourceRows::OnDisk(part, _) = &next.rows else { return None };
        Some(part.span.end)
    }

    /// The next rows; perhaps none, so that others may use the thread; `None` at the end. After an
    /// error it may be called again to skip the unreadable part.
    pub(crate) fn next(&mut self) -> io::Result<Option<RecordBatch>> {
        self.refresh()?;
        let Some(mut reading) = self.reading.take() else {
            let Some(source) = self.sources.pop_front() else { return Ok(None) };
            let units = self.units_of(&source)?;
            let batches: Batches = Box::new(iter::empty());
            self.reading = Some(Reading { source, units, batches });
            return Ok(Some(self.nothing()));
        };
        let batch = self.read(&mut reading).map_err(|error| match &reading.source.rows {
            SourceRows::OnDisk(part, _) if !self.tests.iter().any(Condition::has_failed) => {
                unread_error(part, &error)
            }
            _ => error,
        })?;
        if batch.is_some() {
            self.reading = Some(reading);
        }
        Ok(Some(batch.unwrap_or_else(|| self.nothing())))
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
        let pruning = PruningPredicateBuilder::new().with_file_schema(Arc::clone(&view.schema));
        self.pruning = pruning.try_build(conjunction(current)).ok();
        self.generation = Some(generation);
        Ok(())
    }

    /// Whether any rows of a source may satisfy the conditions, by what is known of the smallest
    /// and the largest value of stored columns.
    fn may_have(&self, of: &Source, bounds: impl Fn(&str) -> Bounds) -> bool {
        let columns = self.tests.iter().flat_map(|test| &test.columns);
        let statistics = || self.wanted.view.statistics(columns, of.by, bounds);
        let pruning = self.pruning.as_ref();
        let may_have = pruning.and_then(|pruning| pruning.prune(&statistics()).ok());
        may_have.is_none_or(|may_have| may_have != [false])
    }

    /// The units of a source; none if no row of it may be wanted.
    fn units_of(&self, source: &Source) -> io::Result<VecDeque<ReadUnit>> {
        let Wanted { view, read_as, .. } = &self.wanted;
        let (part, times) = match &source.rows {
            SourceRows::OnDisk(part, times) => (part, times),
            SourceRows::InMemory(unit) => return Ok([unit.clone()].into()),
        };
        let (start, end) = (part.span.start.max(times.start), part.span.end.min(times.end));
        let span = [start, end.saturating_sub(1)].map(|secs| {
            let moment = TimestampMillisecondArray::from(vec![secs.cast_signed() * 1_000]);
            Some(Arc::new(moment.with_timezone("UTC")) as ArrayRef)
        });
        // Of a report it may be a key.
        let is_time = |it: &str| it == TIME || it == "received" && view.dataset.is_raw();
        if !self.may_have(source, |column| span.clone().map(|it| it.filter(|_| is_time(column)))) {
            return Ok(VecDeque::new());
        }
        let units = ReadUnit::of_part(part, times, &view.dataset, read_as);
        Ok(units.map_err(|error| unread_error(part, &error))?.into())
    }

    /// The next rows of a source; `None` at its end.
    fn read(&mut self, reading: &mut Reading) -> io::Result<Option<RecordBatch>> {
        let Wanted { view, shown, schema, .. } = &self.wanted;
        let Reading { source, units, batches } = reading;
        if let Some(mut rows) = batches.next().transpose()? {
            // Those of a file have passed the tests.
            if !matches!(&source.rows, SourceRows::OnDisk(part, _) if part.is_published()) {
                self.looked_at += rows.num_rows() as u64;
                let is_on_disk = matches!(source.rows, SourceRows::OnDisk(..));
                if is_on_disk && !self.may_follow(source, &rows) {
                    *batches = Box::new(iter::empty());
                }
                for test in &self.tests {
                    let passing = passes(test, view, &rows, source.by)?;
                    rows = filter_record_batch(&rows, &passing).map_err(io::Error::other)?;
                }
            }
            let rows = match &source.rows {
                SourceRows::OnDisk(_, times) => within(rows, times)?,
                SourceRows::InMemory(_) => rows,
            };
            let arrays = shown.iter().map(|column| view.array(*column, &rows, source.by));
            let arrays = arrays.collect::<io::Result<_>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
            let shown = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options);
            return shown.map(Some).map_err(io::Error::other);
        }
        let Some(unit) = units.pop_front() else { return Ok(None) };
        if self.may_have(source, |column| unit.bounds(column)) {
            self.looked_at += unit.rows_of_file().unwrap_or_default();
            *batches = self.batches_of(&unit, source.by)?;
        }
        Ok(Some(self.nothing()))
    }

    /// Whether a piece may have more after these rows: the longest requests come first.
    fn may_follow(&self, source: &Source, rows: &RecordBatch) -> bool {
        let times = rows.column_by_name(REQUEST_TIME);
        let times = times.and_then(|times| times.as_primitive_opt::<Int64Type>());
        let last = times.and_then(|times| times.values().last().copied());
        let Some(last) = last.filter(|_| self.wanted.view.dataset.report == REQUEST) else {
            return true;
        };
        let last: ArrayRef = Arc::new(Int64Array::from(vec![last]));
        let longest = |column: &str| Some(Arc::clone(&last)).filter(|_| column == REQUEST_TIME);
        self.may_have(source, |column| [None, longest(column)])
    }

    /// The rows of a unit: of a file those that pass, with the columns to show; of others all, with
    /// those of conditions too.
    fn batches_of(&self, unit: &ReadUnit, by: Resolution) -> io::Result<Batches> {
        let Wanted { view, shown, .. } = &self.wanted;
        let name = |column: &usize| view.stored_name(*column);
        let tested = self.tests.iter().flat_map(|test| &test.columns).map(name);
        let tested = tested.chain([REQUEST_TIME]).filter(|_| unit.rows_of_file().is_none());
        let needed: Vec<&str> = shown.iter().map(name).chain(tested).chain([TIME]).collect();
        unit.batches(&view.dataset, &needed, None, |opened| {
            let tests = self.tests.iter().map(|test| {
                let of_test = opened.mask(test.columns.iter().map(name));
                let (view, test) = (Arc::clone(view), test.clone());
                let passes = move |batch: RecordBatch| {
                    let passes = passes(&test, &view, &batch, by);
                    passes.map_err(|error| ArrowError::ExternalError(error.into()))
                };
                Box::new(ArrowPredicateFn::new(of_test, passes)) as Box<dyn ArrowPredicate>
            });
            tests.collect()
        })
    }
}

/// The column of the minutes, hours or days of a report's rows.
const TIME: &str = "time";
/// The column by which raw requests are sorted.
const REQUEST_TIME: &str = "req_time_us";

/// The rows that begin in a span, if they are such of a report.
fn within(rows: RecordBatch, times: &Range<u64>) -> io::Result<RecordBatch> {
    let begins = rows.column_by_name(TIME);
    let begins = begins.and_then(|it| it.as_primitive_opt::<TimestampMillisecondType>());
    let Some(begins) = begins else { return Ok(rows) };
    let is_within = |ms: i64| times.contains(&(u64::try_from(ms).unwrap_or_default() / 1_000));
    let is_within = BooleanArray::from_unary(begins, is_within);
    filter_record_batch(&rows, &is_within).map_err(io::Error::other)
}

/// For which of these stored rows a condition is true.
fn passes(
    test: &Condition,
    view: &View,
    stored: &RecordBatch,
    by: Resolution,
) -> io::Result<BooleanArray> {
    let columns = test.columns.iter().map(|column| view.array(*column, stored, by));
    Ok(test.passes(columns.collect::<io::Result<_>>()?, stored.num_rows())?)
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::condition::physical;
    use super::*;
    use crate::history::{Dataset, Gain, Retention, Store, UnflushedRows};
    use crate::report::definition::Level;
    use crate::report::row_key::key_of;

    /// Whatever a key is called that comes from packets, its rows are found.
    #[test]
    fn keys_may_have_the_names_of_other_columns() {
        let keys = ["received", "timer_value_total", "key_timer_value_total"];
        let dataset = Arc::new(Dataset {
            report: "odd".to_owned(),
            hash: "0123456789abcdef".to_owned(),
            level: Level::Timer,
            keys: keys.map(str::to_owned).into(),
            ..Dataset::coverage()
        });
        let dir = tempfile::tempdir().unwrap();
        let retention = Retention { secs: [u64::MAX; 3], size_max: u64::MAX, free_min: 0 };
        let mut store = Store::open(dir.path(), retention).unwrap();
        let mut rows = UnflushedRows::default();
        for texts in [["a", "b", "c"], ["d", "e", "f"]] {
            rows.add(&dataset, 60, &key_of(texts), false, &Gain::default());
        }
        store.flush(&rows, 60, || ()).unwrap();
        while store.publish_due(7_200, &mut |_| Ok(())).unwrap() {}
        let parts = Arc::clone(&store.parts().read());
        let view = Arc::new(View::of_report(&dataset));
        let names: Vec<&str> = view.key_columns().map(|(shown, _)| shown).collect();
        assert_eq!(names, ["received", "key_key_timer_value_total", "key_timer_value_total"]);
        let text = |text: &str| lit(ScalarValue::Utf8View(Some(text.to_owned())));
        for (name, is) in names.into_iter().zip(["d", "e", "f"]) {
            let sources = parts.iter().map(|part| Source {
                rows: SourceRows::OnDisk(Arc::clone(part), part.span.clone()),
                by: part.resolution,
            });
            let wanted = Wanted {
                view: Arc::clone(&view),
                shown: (0..view.schema.fields().len()).collect(),
                schema: Arc::clone(&view.schema),
                conditions: vec![physical(&col(name).eq(text(is)), &view.schema).unwrap()],
                read_as: ReadAs::default(),
            };
            let mut scan = Scan::new(sources, wanted);
            let batches = iter::from_fn(|| scan.next().unwrap());
            let found: usize = batches.map(|batch| batch.num_rows()).sum();
            assert_eq!(found, parts.len(), "{name}");
        }
    }
}
