//! Blocks in ClickHouse's Native format: one column after the other, each with its name, its type
//! and its values as in memory. It needs no library, and loses nothing; texts are sent plain, and
//! the server builds dictionaries where its tables want them.
//!
//! ```text
//!   block:   | columns | rows | column ..
//!   column:  | name | type | values: little-endian numbers, or texts each behind its length |
//!   Nullable: a byte for each row, 1 where there is none, before the values; Array and Map: where each ends, before the items
//! ```

use std::io::{self, Write as _};
use std::slice::from_mut;

use lz4_flex::frame::FrameEncoder;

use super::tables::Table;
use crate::value::varint;

/// Rows of a table being encoded, column by column.
#[derive(Debug)]
pub(super) struct Block {
    columns: Vec<Column>,
    /// Number of rows.
    pub(super) rows: u64,
}

/// Its name and type, and its values.
type Column = ((&'static str, String), Streams);

/// The values of a column as consecutive streams: nulls or ends of arrays first.
type Streams = [Vec<u8>; 4];

impl Block {
    /// Without rows.
    pub(super) fn new(table: &Table) -> Self {
        let columns = table.sent().map(|head| (head, Streams::default()));
        Self { columns: columns.collect(), rows: 0 }
    }

    /// A writer for the values of one more row, in column order.
    pub(super) fn row(&mut self) -> RowWriter<'_> {
        self.rows += 1;
        RowWriter(self.columns.iter_mut())
    }

    /// Bytes so far, uncompressed.
    pub(super) fn bytes(&self) -> usize {
        self.columns.iter().flat_map(|(_, streams)| streams).map(Vec::len).sum()
    }

    /// The block as sent: an LZ4 frame.
    pub(super) fn packed(&self) -> io::Result<Vec<u8>> {
        let mut to = FrameEncoder::new(Vec::with_capacity(self.bytes() / 4));
        let mut head = Vec::new();
        varint::push(&mut head, self.columns.len() as u128);
        varint::push(&mut head, self.rows.into());
        for ((name, type_name), streams) in &self.columns {
            (*name).push(from_mut(&mut head));
            type_name.as_str().push(from_mut(&mut head));
            to.write_all(&head)?;
            head.clear();
            streams.iter().try_for_each(|stream| to.write_all(stream))?;
        }
        to.finish().map_err(io::Error::other)
    }
}

/// Writes the values of a row, column by column.
pub(super) struct RowWriter<'b>(std::slice::IterMut<'b, Column>);

impl RowWriter<'_> {
    /// The value of the next column, which has the type of its Rust type: a number, a Bool, a
    /// String, Nullable of an `Option`, Array of [`Items`], Map of items that are pairs.
    pub(super) fn value(&mut self, value: impl Value) {
        let (_, streams) = self.0.next().expect("rows have the columns of their table");
        value.push(streams);
    }
}

/// A value in the streams of its type.
pub(super) trait Value {
    fn push(self, to: &mut [Vec<u8>]);
}

/// A length, seven bits per byte, lowest first, and the text.
impl Value for &str {
    fn push(self, to: &mut [Vec<u8>]) {
        varint::push(&mut to[0], self.len() as u128);
        to[0].extend_from_slice(self.as_bytes());
    }
}

macro_rules! numbers {
    ($($number:ty)*) => { $(
        impl Value for $number {
            fn push(self, to: &mut [Vec<u8>]) {
                to[0].extend_from_slice(&self.to_le_bytes());
            }
        }
    )* };
}

numbers!(u8 u32 u64 u128 f64);

impl Value for bool {
    fn push(self, to: &mut [Vec<u8>]) {
        u8::from(self).push(to);
    }
}

impl<V: Value + Default> Value for Option<V> {
    fn push(self, to: &mut [Vec<u8>]) {
        self.is_none().push(to);
        self.unwrap_or_default().push(&mut to[1..]);
    }
}

/// A name of a Map, and its value.
impl<K: Value, V: Value> Value for (K, V) {
    fn push(self, to: &mut [Vec<u8>]) {
        self.0.push(to);
        self.1.push(&mut to[1..]);
    }
}

/// The items of an Array or a Map.
pub(super) struct Items<I>(pub(super) I);

impl<I: Iterator<Item: Value>> Value for Items<I> {
    fn push(self, to: &mut [Vec<u8>]) {
        let mut end = to[0].last_chunk().map_or(0, |end| u64::from_le_bytes(*end));
        for item in self.0 {
            item.push(&mut to[1..]);
            end += 1;
        }
        end.push(to);
    }
}
