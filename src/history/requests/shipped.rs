//! The requests of a piece, each with its timers, for a sink.

use std::collections::HashMap;

use super::packed::{Request, Tags, Timers, next, open};
use super::{REQUEST, TIMER};
use crate::history::disk::StoreError;
use crate::history::merged::unreadable;
use crate::history::part::Part;
use crate::shutdown::Shutdown;

/// Takes a request, for how many it stands, and its timers, if it has any.
pub(crate) type TakeRequest<'t> =
    dyn FnMut(&Request<'_, Tags<'_>>, f64, Option<&Timers<'_>>) -> bool + 't;

impl Part {
    /// Calls `each` for the requests of a piece, until that is false. In memory are their timers, packed: a piece has no more than fit
    /// into the share that requests have of `history.memory`.
    pub(in crate::history) fn requests(
        &self,
        stop: &Shutdown,
        each: &mut TakeRequest<'_>,
    ) -> Result<(), StoreError> {
        let mut timers: HashMap<(u64, u64), Box<[u8]>> = HashMap::new();
        let mut source = open(self, TIMER)?;
        while next(&mut source, |bytes| {
            let (of, rest) = postcard::take_from_bytes::<Timers<'_>>(bytes)?;
            let packed = bytes.get(..bytes.len() - rest.len()).unwrap_or_default();
            timers.insert((of.run, of.request), packed.into());
            Ok(((), rest))
        })
        .map_err(unreadable(&self.path))?
        .is_some()
        {
            if stop.requested() {
                return Err(StoreError::Stopped);
            }
        }
        let mut source = open(self, REQUEST)?;
        let mut goes_on = true;
        while goes_on
            && next(&mut source, |bytes| {
                let (request, rest) = postcard::take_from_bytes::<Request<'_, Tags<'_>>>(bytes)?;
                let (weight, rest) = postcard::take_from_bytes(rest)?;
                let of = timers.get(&(request.run, request.id));
                let of = of.map(|packed| postcard::from_bytes::<Timers<'_>>(packed));
                goes_on = each(&request, weight, of.transpose()?.as_ref());
                Ok(((), rest))
            })
            .map_err(unreadable(&self.path))?
            .is_some()
        {}
        match stop.requested() {
            true => Err(StoreError::Stopped),
            false => Ok(()),
        }
    }
}
