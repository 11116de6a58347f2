//! The encoding of requests in transit from the pool to a file: each request separately, and its
//! timers separately, because files order those differently.
//!
//! ```text
//!   request:  its time first, that runs can be merged without reading more | .. | names and values of its tags | weight
//!   timers:   weight, run, id and second of the request | how many | timer ..
//! ```
//!
//! Uses postcard; texts are borrowed on both sides. Copied under the lock of
//! [`Live`](crate::merger::Live), so it is made in one go.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::history::Part;
use crate::history::disk::{Done, unreadable};
use crate::pool::Pool;
use crate::pool::requests::RequestRow;
use crate::pool::resolved::{Request, Timer};

/// The tables: each has a folder of that name.
pub(crate) const TABLES: [&str; 3] = [REQUEST, TIMER, REQUEST_TAG];
pub(crate) const REQUEST: &str = "request";
pub(crate) const TIMER: &str = "timer";
pub(crate) const REQUEST_TAG: &str = "request_tag";

/// The timers of a request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Timers<'a> {
    pub(crate) weight: f64,
    pub(crate) run: u64,
    pub(crate) request: u64,
    pub(crate) received: u32,
    #[serde(borrow)]
    pub(crate) timers: Vec<Timer<Tags<'a>>>,
}

/// Names and values in packet order.
pub(crate) type Tags<'a> = Vec<(&'a str, &'a str)>;

/// A request copied out of the pool; readers share its content.
#[derive(Debug, Clone)]
pub(in crate::history) struct Kept {
    pub(super) time_us: u64,
    pub(super) id: u64,
    pub(super) received: u32,
    /// Start of the timers.
    timers_at: u32,
    packed: Arc<[u8]>,
}

impl Kept {
    /// Copies a row with everything that belongs to it; `scratch` is working memory.
    pub(super) fn copy(
        pool: &Pool,
        (run, id): (u64, u64),
        row: &RequestRow,
        scratch: &mut Vec<u8>,
    ) -> Self {
        let request = pool.resolve((run, id), row);
        scratch.clear();
        push(scratch, &request);
        let timers_at = scratch.len() as u32;
        let timers = pool.timers_of(row).count();
        if timers > 0 {
            push(scratch, &(run, id, row.timestamp, timers as u64));
        }
        pool.resolve_timers(row).for_each(|timer| push(scratch, &timer));
        Self {
            time_us: request.time_us,
            id,
            received: row.timestamp,
            timers_at,
            packed: scratch.as_slice().into(),
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.packed.len() + 16
    }

    /// Appends the request, or its timers if these are the table's, as one that stands for `weight`
    /// requests; returns how many rows of the table that is, 0 if there are no timers.
    pub(super) fn push(&self, table: &str, weight: f64, to: &mut Vec<u8>) -> u64 {
        let (request, timers) = self.packed.split_at(self.timers_at as usize);
        if table != TIMER {
            to.extend_from_slice(request);
            push(to, &weight);
            return 1;
        }
        let count = unpack::<(u64, u64, u32, u64)>(timers).map_or(0, |head| head.3);
        if count > 0 {
            push(to, &weight);
            to.extend_from_slice(timers);
        }
        count
    }
}

/// Decodes a row: a [`Request`] and its weight, [`Timers`], or what either begins with.
pub(in crate::history) fn unpack<'a, T: Deserialize<'a>>(packed: &'a [u8]) -> io::Result<T> {
    postcard::from_bytes(packed).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Decodes a row of a piece, if there is one.
pub(in crate::history) fn decoded<'r, T: Deserialize<'r>>(
    row: io::Result<Option<&'r [u8]>>,
    piece: &Part,
) -> Done<Option<T>> {
    row.and_then(|row| row.map(unpack).transpose()).map_err(unreadable(&piece.path))
}

/// Length of the first of some encoded rows of a table.
pub(in crate::history) fn packed_len(table: &str, rows: &[u8]) -> Option<usize> {
    let rest = match table {
        TIMER => postcard::take_from_bytes::<Timers<'_>>(rows).ok()?.1,
        _ => postcard::take_from_bytes::<(Request<'_, Tags<'_>>, f64)>(rows).ok()?.1,
    };
    Some(rows.len() - rest.len())
}

/// Appends data that can always be encoded: numbers, texts, and lists of known length. Texts are
/// copied as a whole, which [`postcard::to_extend`] does byte by byte.
fn push(to: &mut Vec<u8>, what: &impl Serialize) {
    let written = postcard::to_io(what, to);
    debug_assert!(written.is_ok(), "{written:?}");
}
