//! The first format of blocks: rows in a format of its own, left behind by older versions. It is
//! read, never written.
//!
//! ```text
//!   block:   | length | crc | rows, compressed by lz4 | length | crc | histograms of these |
//!   row:     | length | key | time, in units of the resolution | flags | extremes, if any | sums | length of the histogram, if any |
//! ```
//!
//! Numbers are of variable length (`value::varint`). Flags: 1 of the overflow row, 2 with extremes,
//! 4 with a histogram. Rows of raw requests are packed as today, one after the other.

use datafusion::arrow::array::RecordBatch;

use crate::history::columns::{BatchBuilder, Cell};
use crate::history::requests::packed::packed_len;
use crate::history::row::StoredRow;
use crate::history::{Dataset, Resolution};
use crate::report::totals::{Extremes, Totals};
use crate::value::varint;

pub(super) const MAGIC: [u8; 8] = *b"pinbadP1";

/// Returns the rows of a block; `None` if the bytes are not a block.
pub(super) fn batch(
    dataset: &Dataset,
    resolution: Resolution,
    mut rows: &[u8],
    mut histograms: &[u8],
) -> Option<RecordBatch> {
    let mut to = BatchBuilder::pending(dataset, resolution);
    while dataset.is_raw() && !rows.is_empty() {
        let row = rows.split_off(..packed_len(&dataset.report, rows)?);
        to.push_cells([Cell::Bytes(Some(row?))]);
    }
    while !rows.is_empty() {
        let len = usize::try_from(varint::take(&mut rows)).ok()?;
        let key = rows.split_off(..len)?;
        let time = (varint::take(&mut rows) as u64).saturating_mul(resolution.secs());
        let flags = *rows.split_off_first()?;
        let mut extremes = Extremes::NOTHING;
        if flags & 2 != 0 {
            extremes.time_min = varint::take(&mut rows) as u64;
            extremes.time_max = varint::take(&mut rows) as u64;
            extremes.memory_peak_max = varint::take(&mut rows) as u32;
        }
        let totals = Totals::take(&mut rows, false);
        let len = (flags & 4 != 0).then(|| varint::take(&mut rows) as usize);
        let histogram = len.map(|len| histograms.split_off(..len).ok_or(())).transpose().ok()?;
        let is_other = flags & 1 != 0;
        to.push_stored(&StoredRow { time, key, is_other, totals, extremes, histogram });
    }
    Some(to.finish())
}
