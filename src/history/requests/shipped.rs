//! The requests of a piece, each with its timers, for a sink.

use std::collections::HashMap;
use std::ops::Range;

use super::packed::{REQUEST, TIMER, Tags, Timers, request};
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
        while source
            .next(|bytes| {
                let ((_, run, request), _) = postcard::take_from_bytes::<(f64, u64, u64)>(bytes)?;
                let begin = packed.len();
                packed.extend_from_slice(bytes);
                at.insert((run, request), begin..packed.len());
                Ok(())
            })
            .map_err(unreadable(&self.path))?
            .is_some()
        {
            StoreError::unless_stopped(stop)?;
        }
        let mut source = PackedRows::open(self, REQUEST)?;
        let mut goes_on = true;
        while goes_on
            && source
                .next(|bytes| {
                    let (request, weight) = request(bytes)?;
                    let of = at.get(&(request.run, request.id));
                    let of = of.and_then(|at| packed.get(at.clone()));
                    let of = of.map(postcard::from_bytes::<Timers<'_>>);
                    goes_on = each(&request, weight, of.transpose()?.as_ref());
                    Ok(())
                })
                .map_err(unreadable(&self.path))?
                .is_some()
        {}
        StoreError::unless_stopped(stop)
    }
}
