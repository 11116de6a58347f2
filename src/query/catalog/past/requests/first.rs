//! Finds the first matching requests: the newest, the slowest, or a sample. Results so far decide
//! what need not be read any more.
//!
//! A sample contains the requests with the largest shuffled numbers: each request is equally likely
//! to be among them, whenever it came, and the same question finds the same ones.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{AsArray as _, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, DynamicFilterPhysicalExpr, lit as number,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::prelude::ident;

use super::{ID, RECEIVED, RUN, TIME, computed, conditions, int, reader};
use crate::clock::rfc3339;
use crate::history::requests::{REQUEST, RequestsSnapshot};
use crate::history::scan::condition::physical;
use crate::history::sql_columns::View;
use crate::query::question::{RequestName, RequestQuestion};

/// Time limit of a search.
pub(in crate::query::catalog) const SEARCH_MAX: Duration = Duration::from_secs(10);

/// The order of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::query::catalog) enum Order {
    Newest,
    Slowest,
    /// By shuffled numbers.
    Shuffled,
}

/// Exclusive upper bound of shuffled numbers.
const SHUFFLED_END: i64 = 1 << 62;

/// The shuffled number of a request: splitmix64 of its name.
fn shuffled(run: i64, id: i64) -> i64 {
    let mixed = run.cast_unsigned().rotate_left(40) ^ id.cast_unsigned();
    let mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 2).cast_signed()
}

/// The shuffled numbers of rows in files.
fn shuffled_rows() -> Expr {
    computed("shuffled", [RUN, ID], DataType::Int64, |numbers| {
        let [runs, ids] = numbers.map(|it| it.as_primitive::<Int64Type>().values());
        let numbers = runs.iter().zip(ids).map(|(run, id)| shuffled(*run, *id));
        Arc::new(Int64Array::from_iter_values(numbers))
    })
}

/// The sort key of requests: the largest come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::query::catalog) struct Key {
    /// By the order; equal ones come by their names.
    rank: i64,
    pub(in crate::query::catalog) name: RequestName,
}

impl Key {
    fn of(batch: &RecordBatch, row: usize, order: Order) -> Self {
        let name = name_of(batch, row);
        let rank = match order {
            Order::Newest => name.received.cast_signed(),
            Order::Slowest => int(batch, TIME, row),
            Order::Shuffled => shuffled(name.run.cast_signed(), name.id.cast_signed()),
        };
        Self { rank, name }
    }

    /// For a shuffled order, the weight of each request down to this one.
    pub(in crate::query::catalog) fn stands_for(self) -> f64 {
        SHUFFLED_END as f64 / (SHUFFLED_END - self.rank) as f64
    }
}

pub(super) fn name_of(batch: &RecordBatch, row: usize) -> RequestName {
    let [received, run, id] = [RECEIVED, RUN, ID].map(|name| int(batch, name, row).cast_unsigned());
    RequestName { received, run, id }
}

/// The key below which requests are not wanted any more.
struct Floor {
    condition: Arc<DynamicFilterPhysicalExpr>,
    rank: Arc<dyn PhysicalExpr>,
    key: Option<Key>,
}

impl Floor {
    fn new(order: Order) -> Self {
        let rank = match order {
            Order::Newest => ident(RECEIVED),
            Order::Slowest => ident(TIME),
            Order::Shuffled => shuffled_rows(),
        };
        let rank = physical(&rank, &View::stored(REQUEST).schema);
        let rank = rank.expect("it is made of columns that there are");
        let columns = collect_columns(&rank).into_iter().map(|it| Arc::new(it) as _).collect();
        let condition = DynamicFilterPhysicalExpr::new(columns, number(true));
        Self { condition: Arc::new(condition), rank, key: None }
    }

    fn raise(&mut self, key: Key) {
        self.key = Some(key);
        let above = BinaryExpr::new(Arc::clone(&self.rank), Operator::GtEq, number(key.rank));
        // Undecidable ones are kept.
        let _told = self.condition.update(Arc::new(above));
    }
}

/// The first requests, each converted to `T`.
pub(in crate::query::catalog) struct First<T, C> {
    order: Order,
    limit: usize,
    /// The cost of each, and the limit for all.
    cost: C,
    cost_max: usize,
    floor: Floor,
    found: Vec<(Key, T)>,
    /// The second before which some may be missing, because the time was over.
    pub(in crate::query::catalog) unread_before: Option<u64>,
}

impl<T, C: Fn(&T) -> usize> First<T, C> {
    /// The first `limit` requests that cost at most `cost_max` together; none yet.
    pub(in crate::query::catalog) fn of(
        order: Order,
        limit: usize,
        cost_max: usize,
        cost: C,
    ) -> Self {
        let (floor, found) = (Floor::new(order), Vec::new());
        Self { order, limit, cost, cost_max, floor, found, unread_before: None }
    }

    /// Searches within the time limit; returns remarks on unreadable or unread data.
    pub(in crate::query::catalog) fn find(
        &mut self,
        at: &RequestsSnapshot,
        question: (&Range<u64>, &RequestQuestion),
        partial: &mut Vec<String>,
        mut made_of: impl FnMut(&RecordBatch, usize) -> T,
    ) {
        let mut reader = reader(at, REQUEST, None, conditions(question));
        reader.narrow(Arc::clone(&self.floor.condition) as _);
        let until = Instant::now() + SEARCH_MAX;
        loop {
            if Instant::now() > until
                && let Some(reached) = reader.reached()
            {
                let secs = SEARCH_MAX.as_secs();
                self.unread_before = Some(reached);
                let reached = rfc3339(reached);
                partial.push(format!("the search timed out after {secs} s: results from before {reached} may be incomplete"));
                break;
            }
            match reader.next() {
                Ok(None) => break,
                Ok(Some(batch)) => self.take(&batch, &mut made_of),
                Err(error) => partial.push(error.to_string()),
            }
        }
    }

    fn take(&mut self, batch: &RecordBatch, made_of: &mut impl FnMut(&RecordBatch, usize) -> T) {
        for row in 0..batch.num_rows() {
            let key = Key::of(batch, row, self.order);
            if self.floor.key.is_none_or(|floor| key > floor) {
                self.found.push((key, made_of(batch, row)));
            }
            if self.found.len() >= self.limit + (self.limit / 4).max(64) {
                self.cut();
            }
        }
    }

    /// Drops those past the limits.
    fn cut(&mut self) {
        self.found.sort_unstable_by_key(|(key, _)| Reverse(*key));
        let mut cost = 0;
        let fits = self.found.iter().take_while(|(_, found)| {
            cost += (self.cost)(found);
            cost <= self.cost_max
        });
        let fits = fits.count();
        if fits < self.found.len() {
            self.limit = self.limit.min(fits.max(1));
        }
        self.found.truncate(self.limit);
        if let Some((last, _)) = self.found.last().filter(|_| self.found.len() == self.limit) {
            self.floor.raise(*last);
        }
    }

    /// The results in order, and whether there may be more.
    pub(in crate::query::catalog) fn finish(mut self) -> (Vec<(Key, T)>, bool) {
        self.cut();
        let is_full = self.found.len() == self.limit;
        (self.found, is_full)
    }
}
