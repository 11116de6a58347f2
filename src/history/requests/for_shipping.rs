//! The requests of a piece, each with its timers, for ClickHouse.

use std::collections::HashMap;
use std::ops::Range;

use super::packed::{REQUEST, TIMER, Tags, Timers, unpack};
use crate::history::disk::{StoreError, unreadable};
use crate::history::part::Part;
use crate::history::pending::PackedRows;
use crate::pool::resolved::Request;
use crate::shutdown::Shutdown;

/// Takes a request, the number of requests it stands for, and its timers, if any.
pub(crate) type TakeRequest<'t> =
    dyn FnMut(&Request<'_, Tags<'_>>, f64, Option<&Timers<'_>>) -> bool + 't;

impl Part {
    /// Calls `each` for the requests of a piece until it returns false. Their timers are in memory,
    /// packed: a piece has no more than fit into the share of `history.memory` for requests.
    pub(in crate::history) fn requests(
        &self,
        stop: &Shutdown,
        each: &mut TakeRequest<'_>,
    ) -> Result<(), StoreError> {
        let mut packed = Vec::new();
        let mut at: HashMap<(u64, u64), Range<usize>, ahash::RandomState> = HashMap::default();
        let mut source = PackedRows::open(self, TIMER)?;
        while let Some(row) = source.next().map_err(unreadable(&self.path))? {
            let of: (f64, u64, u64) = unpack(row).map_err(unreadable(&self.path))?;
            let begin = packed.len();
            packed.extend_from_slice(row);
            at.insert((of.1, of.2), begin..packed.len());
            StoreError::unless_stopped(stop)?;
        }
        let mut source = PackedRows::open(self, REQUEST)?;
        let timers_of = |request: &Request<'_, Tags<'_>>| {
            let at = at.get(&(request.run, request.id));
            at.map(|at| unpack(&packed[at.clone()])).transpose()
        };
        while let Some(row) = source.next().map_err(unreadable(&self.path))? {
            let (request, weight) = unpack(row).map_err(unreadable(&self.path))?;
            let timers = timers_of(&request).map_err(unreadable(&self.path))?;
            if !each(&request, weight, timers.as_ref()) {
                break;
            }
        }
        StoreError::unless_stopped(stop)
    }
}
