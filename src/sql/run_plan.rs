//! Runs a plan on the engine's own threads, within the limits, until its rows are sent or unwanted.
//!
//! The threads run at low priority, so receivers and the merger go first. A query waits briefly for
//! a permit; it ends when its reader is gone, its time is over, its answer is too long, or all
//! queries together exceed their memory. Nothing spills to disk.
//!
//! A join cannot be interrupted from outside, so plans are made [`interruptible`]: the output of a
//! join passes a node that yields, and a join condition is a function call, which checks whether
//! the statement should end, and lets others have the thread.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::cancellation;
use super::engine::Engine;
use super::error::SqlError;
use super::functions;
use super::reply::{Reply, Rows, Running, SqlColumn};
use crate::config::SqlConfig;
use crate::config::units::exact_bytes;
use crate::instruments::{Active, Instrument};

/// Batches produced ahead of the reader.
const BATCHES_AHEAD: usize = 2;

/// Longest wait for a permit.
const PLACE_WAIT: Duration = Duration::from_millis(500);

/// Waits for a permit.
pub(super) static PLACE: Instrument = Instrument::wait("wait/synch/cond/sql/permit", "wait");

/// Niceness of the engine's threads relative to the others.
const NICENESS: i32 = 10;

/// Lowers the priority of the calling thread. On Linux priorities belong to threads; elsewhere to
/// the process, which is left alone. A refusal only affects speed.
pub(super) fn give_way() {
    #[cfg(target_os = "linux")]
    let _refused = rustix::process::setpriority_process(None, NICENESS);
}

impl Engine {
    /// Acquires a permit to plan and run a query; waits briefly.
    ///
    /// # Errors
    /// Fails if none becomes free.
    pub(super) async fn place(&self) -> std::result::Result<OwnedSemaphorePermit, SqlError> {
        let free = Arc::clone(&self.0.running);
        if let Ok(place) = Arc::clone(&free).try_acquire_owned() {
            return Ok(place);
        }
        let _waiting = PLACE.begin_in_task();
        let free = free.acquire_owned();
        match tokio::time::timeout(PLACE_WAIT, free).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(SqlError::busy(format!(
                "{} queries run already (sql.queries_max); ask again in a moment",
                self.0.settings.limits.queries_max
            ))),
        }
    }

    /// Runs a plan for the current statement under the permit it was planned with: right here as
    /// long as it need not wait, which covers small results, and after that in a task of its own.
    ///
    /// # Errors
    /// Errors of DataFusion. Later ones come with the rows.
    pub(super) async fn start(
        &self,
        place: OwnedSemaphorePermit,
        plan: Arc<dyn ExecutionPlan>,
        columns: Arc<[SqlColumn]>,
    ) -> std::result::Result<Reply, SqlError> {
        let nobody = || SqlError::internal("a plan without a statement");
        let guard = cancellation::current().ok_or_else(nobody)?;
        guard.run();
        let plan = interruptible(plan)?;
        let schema = plan.schema();
        let fields = schema.fields().iter().zip(&*columns);
        let fields = fields.map(|(field, column)| field.as_ref().clone().with_name(&column.name));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let context = self.context();
        let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
        let limits = self.0.settings.limits.clone();
        let (until, late) = (guard.until, guard.late.clone());
        let mut work = Box::pin(cancellation::scope(Arc::clone(&guard), async move {
            let work = run(plan, context, &limits, &sender);
            let ended = tokio::time::timeout_at(until.into(), work).await;
            // The error may wait for a slow reader.
            drop(place);
            if let Err(error) = ended.unwrap_or(Err(late)) {
                let _nobody_waits = sender.send(Err(error)).await;
            }
        }));
        let running = match futures::poll!(&mut work) {
            Poll::Ready(()) => None,
            Poll::Pending => {
                let task = self.runtime()?.spawn(work);
                let catalog = Arc::clone(&self.0.catalog);
                Some(Running { task: task.abort_handle(), watch: Some(guard), catalog })
            }
        };
        Ok(Reply::Rows(Rows {
            columns,
            schema,
            event: Box::new(Active::NONE),
            batches,
            _running: running,
        }))
    }
}

/// Sends the rows of a plan to the reader.
async fn run(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    limits: &SqlConfig,
    sender: &mpsc::Sender<std::result::Result<RecordBatch, SqlError>>,
) -> std::result::Result<(), SqlError> {
    let failed = |error: datafusion::common::DataFusionError| {
        let error = SqlError::from(error);
        match error.code {
            1041 => SqlError::out_of_memory(format!(
                "the query needs more memory than all queries together may have, {} (sql.memory); ask for a shorter time, \
                 fewer groups or fewer columns",
                exact_bytes(limits.memory as u64)
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

/// Makes the joins of a plan notice when they should end: a join whose condition refuses all pairs
/// comes back to nobody in between, so its condition asks.
pub(super) fn interruptible(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let asking = |filter: &JoinFilter| {
        let (condition, schema) = (Arc::clone(filter.expression()), filter.schema());
        let condition = functions::around(functions::INTERRUPTIBLE, condition, schema)?;
        let columns = filter.column_indices().to_vec();
        Ok::<_, DataFusionError>(Some(JoinFilter::new(condition, columns, Arc::clone(schema))))
    };
    plan.transform_up(|node| {
        let join: Arc<dyn ExecutionPlan> = match node.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) => match join.filter() {
                Some(filter) => {
                    let join = NestedLoopJoinExecBuilder::from(join).with_filter(asking(filter)?);
                    Arc::new(join.build()?)
                }
                None => node,
            },
            None => match node.downcast_ref::<HashJoinExec>() {
                Some(join) => match join.filter() {
                    Some(filter) => join.builder().with_filter(asking(filter)?).build_exec()?,
                    None => node,
                },
                None if node.is::<CrossJoinExec>() => node,
                None => return Ok(Transformed::no(node)),
            },
        };
        // One row may produce many: this node yields if they are read without a pause.
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(join))))
    })
    .data()
}
