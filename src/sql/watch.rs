//! What goes with a statement wherever it is worked on: until when, whether anybody still wants it, what its texts may take.
//!
//! Planning calculates constants and running calculates everything else, both by the functions of `functions`, which DataFusion
//! calls deep inside of tasks of its own, and which it gives nothing of the statement. So the [`Watch`] is bound to the task
//! ([`scope`]), and what DataFusion spawns from there has it, too ([`hand_on`]). Texts that functions make are counted with the
//! memory of all queries (`sql.memory`) until the last array that holds them is gone.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use datafusion::common::Result;
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::error::SqlError;

/// Longer constants stay calls in the plan, which may copy what it has for a constant.
const FOLDED_MAX: usize = 4 << 10;

/// What all constants of a statement that are longer may take together, bytes.
const CONSTANTS_MAX: usize = 32 << 20;

tokio::task_local! {
    static WATCH: Arc<Watch>;
}

/// Whether a statement still goes on, and what it took.
#[derive(Debug)]
pub(super) struct Watch {
    until: Instant,
    /// Nobody wants the rows any more.
    left: AtomicBool,
    /// Its plan runs.
    runs: AtomicBool,
    /// Bytes of long constants.
    constants: AtomicUsize,
    pool: Arc<dyn MemoryPool>,
}

impl Watch {
    pub(super) fn new(time_max: Duration, pool: &Arc<dyn MemoryPool>) -> Arc<Self> {
        Arc::new(Self {
            until: Instant::now() + time_max,
            left: AtomicBool::new(false),
            runs: AtomicBool::new(false),
            constants: AtomicUsize::new(0),
            pool: Arc::clone(pool),
        })
    }

    /// When its time is over.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Fails when the statement should end.
    pub(super) fn check(&self) -> Result<()> {
        if self.left.load(Ordering::Relaxed) || Instant::now() >= self.until {
            return Err(SqlError::interrupted("the query was stopped").into());
        }
        Ok(())
    }

    /// The rows are not wanted any more.
    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// From now on the plan runs.
    pub(super) fn run(&self) {
        self.runs.store(true, Ordering::Relaxed);
    }

    /// Counts a constant of so many bytes. While planning a long one fails, and DataFusion leaves it to be calculated later.
    pub(super) fn constant(&self, bytes: usize) -> Result<()> {
        if bytes <= FOLDED_MAX {
            return Ok(());
        }
        let all = match self.runs.load(Ordering::Relaxed) {
            true => self.constants.fetch_add(bytes, Ordering::Relaxed) + bytes,
            false => usize::MAX,
        };
        match all <= CONSTANTS_MAX {
            true => Ok(()),
            false => Err(SqlError::out_of_memory(format!(
                "the constants that the query calculates have more than {CONSTANTS_MAX} bytes"
            ))
            .into()),
        }
    }

    /// Nothing yet, of the memory of all queries.
    pub(super) fn reservation(&self) -> MemoryReservation {
        MemoryConsumer::new("texts").register(&self.pool)
    }
}

/// The statement that is worked on here.
pub(super) fn current() -> Option<Arc<Watch>> {
    WATCH.try_with(Arc::clone).ok()
}

/// Work for a statement.
pub(super) fn scope<T>(
    watch: Arc<Watch>,
    work: impl Future<Output = T>,
) -> impl Future<Output = T> {
    WATCH.scope(watch, work)
}

/// From now on what DataFusion spawns is work for the same statement.
pub(super) fn hand_on() {
    // It was set already by an engine before this one.
    let _set_already = set_join_set_tracer(&HandOn);
}

struct HandOn;

impl JoinSetTracer for HandOn {
    fn trace_future(
        &self,
        work: BoxFuture<'static, Box<dyn Any + Send>>,
    ) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match current() {
            Some(watch) => scope(watch, work).boxed(),
            None => work,
        }
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match current() {
            Some(watch) => Box::new(move || WATCH.sync_scope(watch, work)),
            None => work,
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::runtime::SpawnedTask;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[tokio::test]
    async fn what_is_spawned_works_for_the_same_statement() {
        hand_on();
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1_000));
        let watch = Watch::new(Duration::from_secs(60), &pool);
        let own = Arc::clone(&watch);
        let is_own = move || current().is_some_and(|watch| Arc::ptr_eq(&watch, &own));
        let work = async move {
            let blocking = is_own.clone();
            let within = async move {
                let deeper = SpawnedTask::spawn(async move { is_own() });
                deeper.await.expect("no panic")
            };
            let seen = SpawnedTask::spawn(within).await.expect("no panic");
            seen && SpawnedTask::spawn_blocking(blocking)
                .await
                .expect("no panic")
        };
        assert!(current().is_none());
        assert!(scope(watch, work).await);
    }

    #[test]
    fn long_constants_are_not_of_the_plan_and_not_without_end() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1_000));
        let watch = Watch::new(Duration::from_secs(60), &pool);
        assert!(watch.constant(FOLDED_MAX).is_ok());
        assert!(watch.constant(FOLDED_MAX + 1).is_err());
        watch.run();
        assert!(watch.constant(CONSTANTS_MAX).is_ok());
        assert!(watch.constant(FOLDED_MAX).is_ok());
        assert!(watch.constant(FOLDED_MAX + 1).is_err());
    }
}
