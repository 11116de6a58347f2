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

use lz4_flex::frame::FrameEncoder;

use crate::value::varint;

/// Rows being encoded, column by column.
#[derive(Debug)]
pub(super) struct Block {
    columns: Vec<Column>,
    /// Number of rows.
    pub(super) rows: u64,
}

#[derive(Debug)]
struct Column {
    name: &'static str,
    type_name: String,
    /// Consecutive streams: nulls or ends of arrays first.
    streams: [Vec<u8>; 4],
    /// Items so far, of arrays and of nested arrays.
    items: [u64; 2],
}

impl Block {
    /// Without rows; the columns have these names and types.
    pub(super) fn new(columns: impl Iterator<Item = (&'static str, String)>) -> Self {
        let columns = columns.map(|(name, type_name)| Column {
            name,
            type_name,
            streams: Default::default(),
            items: [0; 2],
        });
        Self { columns: columns.collect(), rows: 0 }
    }

    /// A writer for the values of one more row, in column order.
    pub(super) fn row(&mut self) -> RowWriter<'_> {
        self.rows += 1;
        RowWriter(self.columns.iter_mut())
    }

    /// Bytes so far, uncompressed.
    pub(super) fn bytes(&self) -> usize {
        let streams = self.columns.iter().flat_map(|column| &column.streams);
        streams.map(Vec::len).sum()
    }

    /// The block as sent: an LZ4 frame.
    pub(super) fn packed(&self) -> io::Result<Vec<u8>> {
        let mut to = FrameEncoder::new(Vec::with_capacity(self.bytes() / 4));
        let mut head = Vec::new();
        varint::push(&mut head, self.columns.len() as u128);
        varint::push(&mut head, self.rows.into());
        for column in &self.columns {
            column.name.push(&mut head);
            column.type_name.as_str().push(&mut head);
            to.write_all(&head)?;
            head.clear();
            column.streams.iter().try_for_each(|stream| to.write_all(stream))?;
        }
        to.finish().map_err(io::Error::other)
    }
}

/// Writes the values of a row, column by column.
pub(super) struct RowWriter<'b>(std::slice::IterMut<'b, Column>);

impl RowWriter<'_> {
    fn column(&mut self) -> &mut Column {
        self.0.next().expect("rows have the columns of their table")
    }

    /// A number, a Bool, a DateTime in 32 bits, or a String.
    pub(super) fn value(&mut self, value: impl Value) {
        value.push(&mut self.column().streams[0]);
    }

    /// Of UUID: two numbers of 64 bits.
    pub(super) fn uuid(&mut self, value: u128) {
        self.value(value.rotate_left(64));
    }

    /// Of Nullable(UInt64).
    pub(super) fn optional(&mut self, value: Option<u64>) {
        let [nulls, values, ..] = &mut self.column().streams;
        value.is_none().push(nulls);
        value.unwrap_or_default().push(values);
    }

    /// Of Array.
    pub(super) fn array(&mut self, values: impl Iterator<Item: Value>) {
        let column = self.column();
        let [ends, items, ..] = &mut column.streams;
        for value in values {
            column.items[0] += 1;
            value.push(items);
        }
        column.items[0].push(ends);
    }

    /// Of Map.
    pub(super) fn map<K: Value, V: Value>(&mut self, pairs: impl Iterator<Item = (K, V)>) {
        let column = self.column();
        let [ends, keys, values, _] = &mut column.streams;
        for (key, value) in pairs {
            column.items[0] += 1;
            key.push(keys);
            value.push(values);
        }
        column.items[0].push(ends);
    }

    /// Of Array(Map).
    pub(super) fn maps<K: Value, V: Value>(
        &mut self,
        maps: impl Iterator<Item: Iterator<Item = (K, V)>>,
    ) {
        let column = self.column();
        let [ends, inner_ends, keys, values] = &mut column.streams;
        for map in maps {
            column.items[0] += 1;
            for (key, value) in map {
                column.items[1] += 1;
                key.push(keys);
                value.push(values);
            }
            column.items[1].push(inner_ends);
        }
        column.items[0].push(ends);
    }
}

/// A value in a stream.
pub(super) trait Value {
    fn push(self, to: &mut Vec<u8>);
}

/// A length, seven bits per byte, lowest first, and the text.
impl Value for &str {
    fn push(self, to: &mut Vec<u8>) {
        varint::push(to, self.len() as u128);
        to.extend_from_slice(self.as_bytes());
    }
}

impl Value for bool {
    fn push(self, to: &mut Vec<u8>) {
        to.push(self.into());
    }
}

macro_rules! numbers {
    ($($number:ty)*) => { $(
        impl Value for $number {
            fn push(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
        }
    )* };
}

numbers!(u32 u64 u128);
