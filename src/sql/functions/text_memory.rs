//! Counts the texts that functions make as memory of queries.
//!
//! One [`TextMemory`] per call of a function on a batch. Small results are free; beyond that memory is reserved before a text is
//! kept, and released when the last array that shares it is dropped. Without room the call fails (`ResourcesExhausted`).

use std::sync::Arc;

use axum::body::Bytes;
use datafusion::arrow::array::{ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::buffer::Buffer;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::sql::cancellation::StatementGuard;
use crate::sql::error::SqlError;

/// Bytes of text in a batch that are not counted.
const FREE: usize = 16 << 10;

/// Reserved at a time, bytes.
const STEP: usize = 64 << 10;

/// Bytes of text in a batch when no statement is known that they are for.
const UNGUARDED_MAX: usize = 32 << 20;

/// The texts of one batch.
pub(super) struct TextMemory<'a> {
    guard: Option<&'a StatementGuard>,
    bytes: usize,
    reservation: Option<MemoryReservation>,
}

impl<'a> TextMemory<'a> {
    pub(super) fn new(guard: Option<&'a StatementGuard>) -> Self {
        Self {
            guard,
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
        let Some(guard) = self.guard else {
            return match self.bytes <= UNGUARDED_MAX {
                true => Ok(()),
                false => Err(SqlError::out_of_memory("a column of texts is too long").into()),
            };
        };
        let reservation = self.reservation.get_or_insert_with(|| guard.reservation());
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
