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
    type_name: &'static str,
    /// Consecutive streams: nulls or ends of arrays first.
    streams: [Vec<u8>; 4],
    /// Items so far, of arrays and of nested arrays.
    items: [u64; 2],
}

impl Block {
    /// Without rows; the columns have these names and types.
    pub(super) fn new(columns: &[(&'static str, &'static str)]) -> Self {
        let columns = columns.iter().map(|&(name, type_name)| Column {
            name,
            type_name,
            streams: Default::default(),
            items: [0; 2],
        });
        Self {
            columns: columns.collect(),
            rows: 0,
        }
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
        push_length(&mut head, self.columns.len() as u64);
        push_length(&mut head, self.rows);
        for column in &self.columns {
            push_text(&mut head, column.name);
            push_text(&mut head, column.type_name);
            to.write_all(&head)?;
            head.clear();
            column
                .streams
                .iter()
                .try_for_each(|stream| to.write_all(stream))?;
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

    fn bytes(&mut self, bytes: &[u8]) {
        self.column().streams[0].extend_from_slice(bytes);
    }

    /// Of Bool.
    pub(super) fn bool(&mut self, value: bool) {
        self.bytes(&[value.into()]);
    }

    /// Of UInt32 and DateTime.
    pub(super) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Of UInt64.
    pub(super) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// Of UInt128.
    pub(super) fn u128(&mut self, value: u128) {
        self.bytes(&value.to_le_bytes());
    }

    /// Of UUID: two numbers of 64 bits.
    pub(super) fn uuid(&mut self, value: u128) {
        self.bytes(&value.rotate_left(64).to_le_bytes());
    }

    /// Of Nullable(UInt64).
    pub(super) fn optional(&mut self, value: Option<u64>) {
        let [nulls, values, ..] = &mut self.column().streams;
        nulls.push(value.is_none().into());
        values.extend_from_slice(&value.unwrap_or_default().to_le_bytes());
    }

    /// Of String.
    pub(super) fn text(&mut self, text: &str) {
        push_text(&mut self.column().streams[0], text);
    }

    /// Of Array(String).
    pub(super) fn texts<'t>(&mut self, texts: impl Iterator<Item = &'t str>) {
        let column = self.column();
        let [ends, items, ..] = &mut column.streams;
        for text in texts {
            column.items[0] += 1;
            push_text(items, text);
        }
        ends.extend_from_slice(&column.items[0].to_le_bytes());
    }

    /// Of Array(UInt64).
    pub(super) fn u64s(&mut self, values: impl Iterator<Item = u64>) {
        self.items(values.map(u64::to_le_bytes));
    }

    /// Of Array(UInt32).
    pub(super) fn u32s(&mut self, values: impl Iterator<Item = u32>) {
        self.items(values.map(u32::to_le_bytes));
    }

    /// Of Array(Bool).
    pub(super) fn bools(&mut self, values: impl Iterator<Item = bool>) {
        self.items(values.map(|it| [it.into()]));
    }

    fn items<const N: usize>(&mut self, values: impl Iterator<Item = [u8; N]>) {
        let column = self.column();
        let [ends, items, ..] = &mut column.streams;
        for value in values {
            column.items[0] += 1;
            items.extend_from_slice(&value);
        }
        ends.extend_from_slice(&column.items[0].to_le_bytes());
    }

    /// Of Map(String, String).
    pub(super) fn map<'t>(&mut self, pairs: impl Iterator<Item = (&'t str, &'t str)>) {
        let column = self.column();
        let [ends, keys, values, _] = &mut column.streams;
        for (key, value) in pairs {
            column.items[0] += 1;
            push_text(keys, key);
            push_text(values, value);
        }
        ends.extend_from_slice(&column.items[0].to_le_bytes());
    }

    /// Of Array(Map(String, String)).
    pub(super) fn maps<'t, M>(&mut self, maps: impl Iterator<Item = M>)
    where
        M: Iterator<Item = (&'t str, &'t str)>,
    {
        let column = self.column();
        let [ends, inner_ends, keys, values] = &mut column.streams;
        for map in maps {
            column.items[0] += 1;
            for (key, value) in map {
                column.items[1] += 1;
                push_text(keys, key);
                push_text(values, value);
            }
            inner_ends.extend_from_slice(&column.items[1].to_le_bytes());
        }
        ends.extend_from_slice(&column.items[0].to_le_bytes());
    }

    /// Of Map(UInt32, UInt64).
    pub(super) fn counts(&mut self, counts: impl Iterator<Item = (u32, u64)>) {
        let column = self.column();
        let [ends, keys, values, _] = &mut column.streams;
        for (key, value) in counts {
            column.items[0] += 1;
            keys.extend_from_slice(&key.to_le_bytes());
            values.extend_from_slice(&value.to_le_bytes());
        }
        ends.extend_from_slice(&column.items[0].to_le_bytes());
    }
}

fn push_text(to: &mut Vec<u8>, text: &str) {
    push_length(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

/// Seven bits per byte, lowest first.
fn push_length(to: &mut Vec<u8>, length: u64) {
    crate::report::varint::push(to, length.into());
}
