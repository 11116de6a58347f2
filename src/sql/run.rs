//! Running a plan: on the engine's own threads, within the limits, until there is no row left or nobody who wants them.
//!
//! The threads run at low priority: receivers and the merger go first, whatever is asked. A query that finds all places taken
//! waits a moment for one. It ends early when its reader is gone, when its time is over, when its answer grows too long, or
//! when all queries together hold more memory than they may; nothing is spilled to disk.
//!
//! A thread that is inside a join cannot be interrupted from outside, so joins are made to look up now and then: whatever
//! they bring passes a node that yields ([`Watched`]), and conditions that they test pair by pair ask [`Watch`] whether
//! the query still goes on, as functions do by themselves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::error::SqlError;
use super::reply::{Reply, Rows, Running, SqlColumn};
use super::settings::SqlSettings;
use super::watch::{self, Watch};
use crate::config::units::exact_bytes;

/// Batches that are made and not yet taken.
const BATCHES_AHEAD: usize = 2;

/// How long a query waits for a place.
const PLACE_WAIT: Duration = Duration::from_millis(500);

/// How much nicer than the rest the engine's threads are.
const NICENESS: i32 = 10;

/// Makes the calling thread one that gives way. On Linux priorities belong to threads; elsewhere to the process, which is
/// left as it is. A refusal changes nothing but the pace.
pub(super) fn give_way() {
    #[cfg(target_os = "linux")]
    let _refused = rustix::process::setpriority_process(None, NICENESS);
}

/// A place among the queries that may run at once; waits a moment for it.
///
/// # Errors
/// When none becomes free.
pub(super) async fn place(
    places: &Arc<Semaphore>,
    queries_max: usize,
) -> std::result::Result<OwnedSemaphorePermit, SqlError> {
    match tokio::time::timeout(PLACE_WAIT, Arc::clone(places).acquire_owned()).await {
        Ok(Ok(place)) => Ok(place),
        _ => Err(SqlError::busy(format!(
            "{queries_max} queries run already (sql.queries_max); ask again in a moment"
        ))),
    }
}

/// Runs a plan in the place that was taken for it.
///
/// # Errors
/// DataFusion's. What goes wrong later comes with the rows.
pub(super) fn start(
    runtime: &tokio::runtime::Handle,
    place: OwnedSemaphorePermit,
    watch: Arc<Watch>,
    settings: &SqlSettings,
    plan: Arc<dyn ExecutionPlan>,
    context: impl FnOnce(&Arc<dyn ExecutionPlan>) -> Arc<TaskContext>,
    columns: Arc<[SqlColumn]>,
) -> std::result::Result<Reply, SqlError> {
    watch.run();
    let plan = watched(plan, &watch)?;
    let schema = schema_named(&plan.schema(), &columns);
    let context = context(&plan);
    let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
    let limits = settings.clone();
    let until = watch.until();
    let task = runtime.spawn(watch::scope(Arc::clone(&watch), async move {
        let _place = place;
        let work = run(plan, context, &limits, &sender);
        let ended = match tokio::time::timeout_at(until.into(), work).await {
            Ok(ended) => ended,
            Err(_) => Err(late(&limits)),
        };
        if let Err(error) = ended {
            // What was stopped because time was over says so.
            let error = match error.code == 1317 && Instant::now() >= until {
                true => late(&limits),
                false => error,
            };
            let _nobody_waits = sender.send(Err(error)).await;
        }
    }));
    Ok(Reply::Rows(Rows {
        columns,
        schema,
        batches,
        _running: Running::new(task.abort_handle(), Some(watch)),
    }))
}

/// A schema with the names that the answer's columns have.
fn schema_named(schema: &Schema, columns: &[SqlColumn]) -> SchemaRef {
    let fields = schema.fields().iter().zip(columns);
    let fields: Vec<_> = fields
        .map(|(field, column)| field.as_ref().clone().with_name(&column.name))
        .collect();
    Arc::new(Schema::new(fields))
}

/// The statement's time is over.
pub(super) fn late(limits: &SqlSettings) -> SqlError {
    SqlError::timeout(format!(
        "the query took longer than {} s (sql.time_max)",
        limits.time_max.as_secs_f64()
    ))
}

/// Sends the rows of a plan to who wants them.
async fn run(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    limits: &SqlSettings,
    sender: &mpsc::Sender<std::result::Result<RecordBatch, SqlError>>,
) -> std::result::Result<(), SqlError> {
    let failed = |error: datafusion::common::DataFusionError| {
        let error = SqlError::from(error);
        match error.code {
            1041 => SqlError::out_of_memory(format!(
                "the query needs more memory than all queries together may have, {} (sql.memory)",
                exact_bytes(limits.memory_max as u64)
            )),
            _ => error,
        }
    };
    let mut stream = execute_stream(plan, context).map_err(failed)?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(failed)?;
        rows += batch.num_rows() as u64;
        if rows > limits.rows_max {
            return Err(SqlError::too_many_rows(format!(
                "the answer has more than {} rows (sql.rows_max); use LIMIT",
                limits.rows_max
            )));
        }
        if batch.num_rows() > 0 && sender.send(Ok(batch)).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// The plan with joins that notice when they should end.
pub(super) fn watched(
    plan: Arc<dyn ExecutionPlan>,
    watch: &Arc<Watch>,
) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
            let Some(filter) = join.filter() else {
                return Ok(Transformed::yes(Arc::new(CooperativeExec::new(node))));
            };
            let expression = Arc::new(Watched {
                inner: Arc::clone(filter.expression()),
                watch: Arc::clone(watch),
            });
            let filter = JoinFilter::new(
                expression,
                filter.column_indices().to_vec(),
                Arc::clone(filter.schema()),
            );
            let join = NestedLoopJoinExecBuilder::new(
                Arc::clone(join.left()),
                Arc::clone(join.right()),
                *join.join_type(),
            )
            .with_projection_ref(join.projection().clone())
            .with_filter(Some(filter))
            .build()?;
            return Ok(Transformed::yes(Arc::new(CooperativeExec::new(Arc::new(
                join,
            )))));
        }
        // One row may make many: who reads them without a pause yields here.
        Ok(
            match node.is::<HashJoinExec>() || node.is::<CrossJoinExec>() {
                true => Transformed::yes(Arc::new(CooperativeExec::new(node))),
                false => Transformed::no(node),
            },
        )
    })
    .data()
}

/// A condition that fails when the query was stopped.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn PhysicalExpr>,
    watch: Arc<Watch>,
}

impl std::fmt::Display for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Watched {}

impl std::hash::Hash for Watched {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl PhysicalExpr for Watched {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.inner.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.inner.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.watch.check()?;
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self {
            inner: children.pop().unwrap_or_else(|| Arc::clone(&self.inner)),
            watch: Arc::clone(&self.watch),
        }))
    }

    fn fmt_sql(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt_sql(f)
    }
}
