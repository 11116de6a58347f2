//! Tables `request`, `timer` and `request_tag` of database `history`: raw requests of the past.
//!
//! They have the columns of the live tables, then `run`, `weight`, `time` and the further columns
//! of files. All conditions on rows are tested in the scan, and so are bounds that a sort with a
//! limit finds at run time; column statistics of the files decide what is read at all.

use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::stream::{BoxStream, StreamExt as _};

use super::declared;
use super::scan::{Scan, batches_of};
use crate::history::requests::TABLES;
use crate::history::requests::read::{READER_BYTES, Reader, Wanted};
use crate::history::requests::view::View;
use crate::query::catalog::Catalog;
use crate::report::comment::FixedTable;

/// The columns of a table; `None` if it is none of these.
pub(super) fn view(catalog: &Catalog, name: &str) -> Option<View> {
    let mut tables = TABLES.into_iter();
    let table = tables.find(|table| table.eq_ignore_ascii_case(name))?;
    if !catalog.has_history() {
        return None;
    }
    let columns = FixedTable::raw(table)?.columns(catalog.defaults());
    Some(View::live(table, &declared::schema(table, &columns)))
}

/// A share of the rows of a scan.
///
/// # Errors
/// Fails if there is not enough memory.
pub(super) fn batches(
    scan: &Scan,
    view: &Arc<View>,
    partition: usize,
    memory: MemoryReservation,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let Some(at) = &scan.past else {
        return Ok(futures::stream::empty().boxed());
    };
    memory.try_grow(READER_BYTES)?;
    let wanted = Wanted {
        view: Arc::clone(view),
        shown: scan.columns.to_vec(),
        schema: Arc::clone(&scan.schema),
        conditions: scan.conditions.iter().chain(&scan.filters).cloned().collect(),
    };
    let mut reader = Reader::new(at, wanted, partition, scan.pieces());
    Ok(batches_of(move || {
        let _until_read = &memory;
        reader.next().map_err(Into::into)
    }))
}
