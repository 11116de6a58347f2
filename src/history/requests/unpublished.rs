//! Requests that are in no file yet: in pieces, collected ones, and after those the ones only in
//! the pool, each with weight 1. All have one encoding, and are read as the columns of files.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::packed::{Kept, REQUEST, TIMER, unpack};
use crate::history::columns::BatchBuilder;
use crate::history::pending::PackedRows;
use crate::merger::{SharedLive, answering};

/// Rows of the pool that are copied under one hold of its lock.
const COPIED: usize = 256;

/// Requests in transit to the disk at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Unpublished {
    /// The collected ones, with their weights.
    pub(super) kept: Arc<[(f64, Kept)]>,
    pub(super) live: SharedLive,
    /// Those only in the pool.
    pub(super) ids: Range<u64>,
    /// The run of requests merged now.
    pub(crate) run: u64,
    /// The first id of this run.
    pub(crate) begin: u64,
    /// Whether not all are kept.
    pub(crate) is_sample: bool,
}

impl Unpublished {
    /// When the oldest was received, in unix seconds.
    pub(super) fn kept_from(&self) -> Option<u64> {
        let collected = self.kept.iter().map(|(_, kept)| kept.received);
        let pooled = answering(&self.live).pool.requests.held(self.ids.start);
        let pooled = pooled.map(|row| row.timestamp);
        collected.chain(pooled).min().map(u64::from)
    }

    /// The next rows of the pool, each with weight 1.
    fn copy(&mut self) -> io::Result<Arc<[(f64, Kept)]>> {
        let pool = &answering(&self.live).pool;
        let mut scratch = Vec::new();
        let ids = self.ids.by_ref().take(COPIED);
        let rows = ids.map(|id| {
            let left = || io::Error::other("requests left the memory while they were read");
            let row = pool.requests.held(id).ok_or_else(left)?;
            let kept = Kept::copy(pool, (self.run, id), &row, &mut scratch);
            Ok((1.0, kept))
        });
        rows.collect()
    }
}

/// Encoded rows, one after the other.
#[derive(Debug)]
pub(super) enum Packed {
    Pending(Box<PackedRows>),
    /// Those in memory: from this one of the collected ones on.
    Memory {
        from: usize,
        of: Unpublished,
        scratch: Vec<u8>,
    },
}

impl Packed {
    /// Adds the next request's rows of a table; returns false if there is none.
    pub(super) fn push_next(&mut self, table: &str, to: &mut BatchBuilder) -> io::Result<bool> {
        match self {
            Self::Pending(rows) => {
                let row = rows.next()?;
                row.map(|row| push(table, row, to)).transpose()?;
                Ok(row.is_some())
            }
            Self::Memory { from, of, scratch } => {
                if *from == of.kept.len() {
                    (*from, of.kept) = (0, of.copy()?);
                }
                let Some((weight, kept)) = of.kept.get(*from) else {
                    return Ok(false);
                };
                *from += 1;
                scratch.clear();
                if kept.push(table, *weight, scratch) > 0 {
                    push(table, scratch, to)?;
                }
                Ok(true)
            }
        }
    }
}

/// Adds an encoded row to a table's columns: tags are stored with their requests.
fn push(table: &str, packed: &[u8], to: &mut BatchBuilder) -> io::Result<()> {
    if table == TIMER {
        to.push_timers(&unpack(packed)?);
        return Ok(());
    }
    let (request, weight) = unpack(packed)?;
    match table {
        REQUEST => to.push_request(&request, weight),
        _ => to.push_tags(&request, weight),
    }
    Ok(())
}
