//! Texts that a function makes, as part of the memory of all queries.
//!
//! One [`Held`] per call of a function for a batch of rows. Small answers cost nothing; beyond that what is made is reserved
//! before it is kept, and given back when the last array that shares it is dropped, wherever it went by then. When there is no
//! room the call fails (`ResourcesExhausted`), and with it the query.

use std::sync::Arc;

use axum::body::Bytes;
use datafusion::arrow::array::{ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::buffer::Buffer;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::sql::error::SqlError;
use crate::sql::watch::Watch;

/// Bytes of text in a batch that are not counted.
const FREE: usize = 16 << 10;

/// Reserved at a time, bytes.
const STEP: usize = 64 << 10;

/// Bytes of text in a batch when no statement is known that they are for.
const UNWATCHED_MAX: usize = 32 << 20;

/// The texts of one batch.
pub(super) struct Held<'a> {
    watch: Option<&'a Watch>,
    bytes: usize,
    reservation: Option<MemoryReservation>,
}

impl<'a> Held<'a> {
    pub(super) fn new(watch: Option<&'a Watch>) -> Self {
        Self {
            watch,
            bytes: 0,
            reservation: None,
        }
    }

    /// How many there are.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many more.
    ///
    /// # Errors
    /// When there is no room for them.
    pub(super) fn add(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        if self.bytes <= FREE {
            return Ok(());
        }
        let Some(watch) = self.watch else {
            return match self.bytes <= UNWATCHED_MAX {
                true => Ok(()),
                false => Err(SqlError::out_of_memory("a column of texts is too long").into()),
            };
        };
        let reservation = self.reservation.get_or_insert_with(|| watch.reservation());
        match self.bytes.checked_sub(reservation.size()) {
            None | Some(0) => Ok(()),
            Some(missing) => reservation.try_grow(missing.next_multiple_of(STEP)),
        }
    }

    /// The array of these texts, which holds the memory as long as it is there.
    ///
    /// # Errors
    /// Arrow's, if the texts were none.
    pub(super) fn with(self, array: ArrayRef) -> Result<ArrayRef> {
        let (Some(reservation), Some(texts)) = (self.reservation, array.as_string_view_opt())
        else {
            return Ok(array);
        };
        let reservation = Arc::new(reservation);
        let (views, buffers, nulls) = texts.clone().into_parts();
        let buffers: Vec<Buffer> = buffers
            .iter()
            .map(|buffer| {
                let owner = Counted {
                    buffer: buffer.clone(),
                    _reservation: Arc::clone(&reservation),
                };
                Buffer::from(Bytes::from_owner(owner))
            })
            .collect();
        Ok(Arc::new(StringViewArray::try_new(views, buffers, nulls)?))
    }
}

/// Bytes that are counted until they are dropped.
struct Counted {
    buffer: Buffer,
    _reservation: Arc<MemoryReservation>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}
