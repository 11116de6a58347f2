//! The first requests that match, the newest or the slowest: what is found so far says what need not be looked at any more.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column as Place, DynamicFilterPhysicalExpr, lit as number,
};

use super::{ID, RECEIVED, RUN, TIME, conditions, int, reader};
use crate::history::requests::REQUEST;
use crate::history::requests::read::RequestsAt;
use crate::history::requests::view::View;
use crate::query::catalog::past::rfc3339;
use crate::query::past::{PastRequests, RequestName};

/// How long a search may look.
pub(in crate::query::catalog) const SEARCH_MAX: Duration = Duration::from_secs(10);

/// By what requests are ordered: the largest come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::query::catalog) struct Key([i64; 4]);

impl Key {
    pub(super) fn of(batch: &RecordBatch, row: usize, is_slowest: bool) -> Self {
        let [time, received, run, id] = [TIME, RECEIVED, RUN, ID].map(|name| int(batch, name, row));
        match is_slowest {
            true => Self([time, received, run, id]),
            false => Self([received, run, id, 0]),
        }
    }

    pub(in crate::query::catalog) fn name(self, is_slowest: bool) -> RequestName {
        let Self(numbers) = self;
        let at = usize::from(is_slowest);
        let [received, run, id] = [at, at + 1, at + 2].map(|at| numbers[at].cast_unsigned());
        RequestName { received, run, id }
    }
}

/// Below what requests are not wanted any more.
struct Floor {
    condition: Arc<DynamicFilterPhysicalExpr>,
    first: Arc<dyn PhysicalExpr>,
    key: Option<Key>,
}

impl Floor {
    fn new(first: &str) -> Self {
        let schema = View::stored(REQUEST).schema;
        let place = schema.index_of(first).unwrap_or_default();
        let first: Arc<dyn PhysicalExpr> = Arc::new(Place::new(first, place));
        let condition = DynamicFilterPhysicalExpr::new(vec![Arc::clone(&first)], number(true));
        Self {
            condition: Arc::new(condition),
            first,
            key: None,
        }
    }

    fn raise(&mut self, key: Key) {
        self.key = Some(key);
        let Key([least, ..]) = key;
        let above = BinaryExpr::new(Arc::clone(&self.first), Operator::GtEq, number(least));
        // What cannot be told is not left out.
        let _told = self.condition.update(Arc::new(above));
    }
}

/// The first requests, each as something else.
pub(in crate::query::catalog) struct First<T, C> {
    is_slowest: bool,
    limit: usize,
    /// What each takes, and all together may take.
    cost: C,
    cost_max: usize,
    floor: Floor,
    found: Vec<(Key, T)>,
}

impl<T, C: Fn(&T) -> usize> First<T, C> {
    /// None yet, of the first `limit` of a search that take `cost_max` together.
    pub(in crate::query::catalog) fn of(question: &PastRequests, cost_max: usize, cost: C) -> Self {
        Self {
            is_slowest: question.slowest,
            limit: question.search.limit,
            cost,
            cost_max,
            floor: Floor::new(if question.slowest { TIME } else { RECEIVED }),
            found: Vec::new(),
        }
    }

    /// Looks for them for as long as a search may; what cannot be read or was not looked at is said.
    pub(in crate::query::catalog) fn find(
        &mut self,
        at: &RequestsAt,
        question: &PastRequests,
        partial: &mut Vec<String>,
        mut made_of: impl FnMut(&RecordBatch, usize) -> T,
    ) {
        let mut reader = reader(at, REQUEST, conditions(question));
        reader.narrow(Arc::clone(&self.floor.condition) as _);
        let until = Instant::now() + SEARCH_MAX;
        loop {
            if Instant::now() > until
                && let Some(reached) = reader.reached()
            {
                let secs = SEARCH_MAX.as_secs();
                let reached = rfc3339(reached);
                partial.push(format!("not all was looked at within {secs} s: nothing from before {reached} is certain"));
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
            let key = Key::of(batch, row, self.is_slowest);
            if self.floor.key.is_none_or(|floor| key > floor) {
                self.found.push((key, made_of(batch, row)));
            }
            if self.found.len() >= self.limit + (self.limit / 4).max(64) {
                self.cut();
            }
        }
    }

    /// Leaves out those that come too late, and with them whatever comes later than the last that stays.
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

    /// What was found, in its order, and whether there may be more.
    pub(in crate::query::catalog) fn finish(mut self) -> (Vec<(Key, T)>, bool) {
        self.cut();
        let is_full = self.found.len() == self.limit;
        (self.found, is_full)
    }
}
