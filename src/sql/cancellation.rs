//! The state of a running statement: its deadline, whether it was cancelled, and the memory of its
//! texts.
//!
//! Functions run deep inside DataFusion's tasks, both while planning (constants) and while
//! executing, and know nothing of the statement. So the [`StatementGuard`] is bound to the task
//! ([`scope`]) and inherited by every task that DataFusion spawns. Texts made by functions count as
//! memory of queries (`sql.memory`) until the last array that holds them is dropped.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datafusion::common::Result;
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::error::SqlError;
use super::session::Session;
use super::settings::SqlSettings;
use crate::instruments::summary::Summary;

/// Longer constants stay calls in the plan, because plans may copy constants.
const FOLDED_MAX: usize = 4 << 10;

/// Most bytes for all longer constants of a statement together.
const CONSTANTS_MAX: usize = 32 << 20;

/// Longest time for which a calculation keeps a thread from other statements.
const TURN: Duration = Duration::from_millis(50);

/// Time for which it then waits: enough for another thread to take over.
const PAUSE: Duration = Duration::from_millis(1);

thread_local! {
    /// When this thread began to work for the task that it works for, or others could last have had
    /// it.
    static TURN_BEGAN: std::cell::Cell<Instant> = std::cell::Cell::new(Instant::now());
}

tokio::task_local! {
    static GUARD: Arc<StatementGuard>;
}

/// Whether a statement should go on, and what it has used.
#[derive(Debug)]
pub(super) struct StatementGuard {
    /// The session as it was when the statement began.
    pub(super) session: Session,
    /// The deadline.
    pub(super) until: Instant,
    /// The error of a statement past it.
    pub(super) late: SqlError,
    /// Nobody wants the rows any more.
    left: AtomicBool,
    /// Its plan is running.
    runs: AtomicBool,
    /// Bytes of long constants.
    constants: AtomicUsize,
    pool: Arc<dyn MemoryPool>,
    /// Sums over the instruments, read once per statement.
    summary: OnceLock<Arc<Summary>>,
}

impl StatementGuard {
    /// The guard of a statement that starts now: it may take `sql.time_max`, or less if its session
    /// says so.
    pub(super) fn new(
        session: &Session,
        settings: &SqlSettings,
        pool: &Arc<dyn MemoryPool>,
    ) -> Arc<Self> {
        let seconds = session.number("max_statement_time").unwrap_or(0.0);
        let millis = session.number("max_execution_time").unwrap_or(0);
        let limits = [
            (
                Duration::try_from_secs_f64(seconds).unwrap_or_default(),
                SqlError::timeout("Query execution was interrupted (max_statement_time exceeded)"),
            ),
            (
                Duration::from_millis(millis),
                SqlError::execution_timeout(
                    "Query execution was interrupted, maximum statement execution time exceeded",
                ),
            ),
        ];
        let time_max = settings.limits.time_max;
        let seconds = time_max.as_secs_f64();
        let late = format!("the query took longer than {seconds} s (sql.time_max)");
        let (mut time, mut late) = (time_max, SqlError::timeout(late));
        for (own_time, own_late) in limits {
            if !own_time.is_zero() && own_time < time {
                (time, late) = (own_time, own_late);
            }
        }
        Arc::new(Self {
            session: session.clone(),
            until: Instant::now() + time,
            late,
            left: AtomicBool::new(false),
            runs: AtomicBool::new(false),
            constants: AtomicUsize::new(0),
            pool: Arc::clone(pool),
            summary: OnceLock::new(),
        })
    }

    /// Sums over the instruments, the same for all tables of the statement.
    pub(super) fn summary(&self) -> Arc<Summary> {
        Arc::clone(self.summary.get_or_init(|| Arc::new(Summary::read())))
    }

    /// Fails if the statement should end. Lets others have the thread from time to time.
    pub(super) fn check(&self) -> Result<()> {
        let now = Instant::now();
        if self.left.load(Ordering::Relaxed) || now >= self.until {
            // A client that left does not see the message.
            return Err(self.late.clone().into());
        }
        if now - TURN_BEGAN.get() > TURN {
            pass_on_the_thread();
            TURN_BEGAN.set(Instant::now());
        }
        Ok(())
    }

    /// Records that nobody wants the rows any more.
    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Records that the plan starts to run.
    pub(super) fn run(&self) {
        self.runs.store(true, Ordering::Relaxed);
    }

    /// Counts a constant of `bytes` bytes. Fails for a long one while planning, so that DataFusion
    /// leaves it to be calculated at run time.
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

    /// An empty reservation of the memory of all queries.
    pub(super) fn reservation(&self) -> MemoryReservation {
        MemoryConsumer::new("texts").register(&self.pool)
    }
}

/// Makes another thread run the tasks that wait for this one. A calculation returns to the runtime
/// only with rows, which a join may not find for long.
fn pass_on_the_thread() {
    let handle = Handle::try_current();
    if handle.is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread) {
        tokio::task::block_in_place(|| std::thread::sleep(PAUSE));
    }
}

/// The guard of the statement that this task works for.
pub(super) fn current() -> Option<Arc<StatementGuard>> {
    GUARD.try_with(Arc::clone).ok()
}

/// Fails if the statement that this task works for should end.
pub(super) fn check() -> Result<()> {
    GUARD.try_with(|guard| guard.check()).unwrap_or(Ok(()))
}

/// Runs `work` on behalf of a statement.
pub(super) fn scope<T>(
    guard: Arc<StatementGuard>,
    work: impl Future<Output = T>,
) -> impl Future<Output = T> {
    GUARD.scope(guard, async {
        let mut work = std::pin::pin!(work);
        let turn = std::future::poll_fn(|context| {
            TURN_BEGAN.set(Instant::now());
            work.as_mut().poll(context)
        });
        turn.await
    })
}

/// Makes tasks that DataFusion spawns inherit the statement of their parent.
pub(super) fn inherit_in_spawned_tasks() {
    // An earlier engine of this process set it already.
    let _set_already = set_join_set_tracer(&Inherit);
}

struct Inherit;

impl JoinSetTracer for Inherit {
    fn trace_future(
        &self,
        work: BoxFuture<'static, Box<dyn Any + Send>>,
    ) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match current() {
            Some(guard) => scope(guard, work).boxed(),
            None => work,
        }
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match current() {
            Some(guard) => Box::new(move || GUARD.sync_scope(guard, work)),
            None => work,
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::runtime::SpawnedTask;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    fn guard(pool: &Arc<dyn MemoryPool>) -> Arc<StatementGuard> {
        let session = Session::new(1, "me@here", false);
        StatementGuard::new(&session, &SqlSettings::default(), pool)
    }

    #[tokio::test]
    async fn what_is_spawned_works_for_the_same_statement() {
        inherit_in_spawned_tasks();
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1_000));
        let guard = guard(&pool);
        let own = Arc::clone(&guard);
        let is_own = move || current().is_some_and(|guard| Arc::ptr_eq(&guard, &own));
        let work = async move {
            let blocking = is_own.clone();
            let within = async move {
                let deeper = SpawnedTask::spawn(async move { is_own() });
                deeper.await.expect("no panic")
            };
            let seen = SpawnedTask::spawn(within).await.expect("no panic");
            seen && SpawnedTask::spawn_blocking(blocking).await.expect("no panic")
        };
        assert!(current().is_none());
        assert!(scope(guard, work).await);
    }

    #[test]
    fn long_constants_are_not_of_the_plan_and_not_without_end() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1_000));
        let guard = guard(&pool);
        assert!(guard.constant(FOLDED_MAX).is_ok());
        assert!(guard.constant(FOLDED_MAX + 1).is_err());
        guard.run();
        assert!(guard.constant(CONSTANTS_MAX).is_ok());
        assert!(guard.constant(FOLDED_MAX).is_ok());
        assert!(guard.constant(FOLDED_MAX + 1).is_err());
    }
}
