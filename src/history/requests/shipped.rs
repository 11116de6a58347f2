//! The requests of a piece, each with its timers, for a sink.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

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
        let mut packed = Vec::new();
        let mut at: HashMap<(u64, u64), Range<usize>, ahash::RandomState> = HashMap::default();
        let mut source = open(self, TIMER)?;
        while next(&mut source, |bytes| {
            let (past, rest): (PastTimers<'_>, _) = postcard::take_from_bytes(bytes)?;
            let (_, run, request, ..) = past;
            let begin = packed.len();
            packed.extend_from_slice(bytes.get(..bytes.len() - rest.len()).unwrap_or_default());
            at.insert((run, request), begin..packed.len());
            Ok(((), rest))
        })
        .map_err(unreadable(&self.path))?
        .is_some()
        {
            StoreError::unless_stopped(stop)?;
        }
        let mut source = open(self, REQUEST)?;
        let mut goes_on = true;
        while goes_on
            && next(&mut source, |bytes| {
                let (request, rest) = postcard::take_from_bytes::<Request<'_, Tags<'_>>>(bytes)?;
                let (weight, rest) = postcard::take_from_bytes(rest)?;
                let of = at.get(&(request.run, request.id));
                let of = of.and_then(|at| packed.get(at.clone()));
                let of = of.map(postcard::from_bytes::<Timers<'_>>);
                goes_on = each(&request, weight, of.transpose()?.as_ref());
                Ok(((), rest))
            })
            .map_err(unreadable(&self.path))?
            .is_some()
        {}
        StoreError::unless_stopped(stop)
    }
}

/// [`Timers`], of which only whose they are is taken: weight, run, request, second, timers.
type PastTimers<'a> = (f64, u64, u64, u32, Past<PastTimer<'a>>);

/// Number, hits, value, user and system time, tags.
type PastTimer<'a> = (u64, u32, u64, u64, u64, Past<(&'a [u8], &'a [u8])>);

/// Items that are read past.
struct Past<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Past<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Past(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Past<T> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<T>()?.is_some() {}
        Ok(self)
    }
}
