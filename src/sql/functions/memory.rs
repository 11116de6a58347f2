//! Counts data kept by functions as memory of queries: texts they make, and numbers of percentiles.
//!
//! One [`Room`] per call of a function on a batch, or per group. Small results are free; beyond
//! that, memory is reserved before a text is kept, and released when the last array that shares it
//! is dropped. Without room the call fails (`ResourcesExhausted`).

use std::sync::Arc;

use axum::body::Bytes;
use datafusion::arrow::array::{ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::buffer::Buffer;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::sql::cancellation;
use crate::sql::error::SqlError;

/// Bytes not counted.
const FREE: usize = 16 << 10;

/// Step of reservations, in bytes.
const STEP: usize = 64 << 10;

/// Limit in bytes outside of any statement.
const UNGUARDED_MAX: usize = 32 << 20;

/// Memory of queries that grows with the data a function keeps.
#[derive(Debug, Default)]
pub(super) struct Room(Option<MemoryReservation>);

impl Room {
    /// Reserves room for `bytes` bytes in all.
    ///
    /// # Errors
    /// Fails if there is none.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<()> {
        if bytes <= self.0.as_ref().map_or(FREE, MemoryReservation::size) {
            return Ok(());
        }
        if self.0.is_none() {
            self.0 = cancellation::current().map(|guard| guard.reservation());
        }
        match &mut self.0 {
            Some(reservation) => reservation.try_resize(bytes.next_multiple_of(STEP)),
            None if bytes <= UNGUARDED_MAX => Ok(()),
            None => Err(SqlError::out_of_memory("a column of texts is too long").into()),
        }
    }

    /// Whether the data is counted here.
    pub(super) fn is_counted(&self) -> bool {
        self.0.is_some()
    }

    /// Ties the reservation to the array: it is released with the array.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub(super) fn with(self, array: ArrayRef) -> Result<ArrayRef> {
        let (Some(reservation), Some(texts)) = (self.0, array.as_string_view_opt()) else {
            return Ok(array);
        };
        let reservation = Arc::new(reservation);
        let (views, buffers, nulls) = texts.clone().into_parts();
        let buffers: Vec<Buffer> = buffers
            .iter()
            .map(|buffer| {
                let owner =
                    Counted { buffer: buffer.clone(), _reservation: Arc::clone(&reservation) };
                Buffer::from(Bytes::from_owner(owner))
            })
            .collect();
        Ok(Arc::new(StringViewArray::try_new(views, buffers, nulls)?))
    }
}

/// Bytes that count until they are dropped.
struct Counted {
    buffer: Buffer,
    _reservation: Arc<MemoryReservation>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}
