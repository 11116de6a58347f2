//! Texts on their way out: each distinct one is copied once, rows refer to it.
//!
//! Rows of the pools have numbers where tables show texts. A scan gives each number that it meets (an origin, a tag set, a
//! word) a place in a list of its own, and the texts of new ones are read under the lock of the moment; a batch is then the
//! list taken at the places of its rows, which copies sixteen bytes a row and no text. Within one query a number means one
//! thing (see `snapshot`). A list that grew past [`KNOWN_MAX`] begins anew, so its size is bounded whatever was sent.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringViewBuilder, UInt32Array};
use datafusion::arrow::compute::{concat, take};
use datafusion::common::Result;

/// Entries of a list.
const KNOWN_MAX: usize = 32_768;

/// Pieces of a list: each has buffers of its own, and arrays with many buffers are slow.
const PIECES_MAX: usize = 64;

const UNKNOWN: u32 = u32::MAX;

/// The numbers met so far, and columns of texts for them.
#[derive(Debug)]
pub(super) struct Texts {
    /// By number: its place in the lists.
    places: Vec<u32>,
    /// Numbers in the lists.
    known: u32,
    pieces: usize,
    columns: Vec<TextColumn>,
    /// Bytes of all texts that were pushed.
    bytes: usize,
}

/// The texts of one column, in the order of the places.
#[derive(Debug)]
pub(super) struct TextColumn {
    list: Option<ArrayRef>,
    /// What is not in `list` yet.
    new: StringViewBuilder,
    /// Bytes of the texts pushed since this was asked for.
    bytes: usize,
}

impl TextColumn {
    /// The text of a new number.
    pub(super) fn push(&mut self, text: Option<&str>) {
        self.bytes += text.map_or(0, str::len);
        self.new.append_option(text);
    }
}

impl Texts {
    /// Lists for so many columns.
    pub(super) fn new(columns: usize) -> Self {
        let column = || TextColumn {
            list: None,
            new: StringViewBuilder::new().with_deduplicate_strings(),
            bytes: 0,
        };
        Self {
            places: Vec::new(),
            known: 0,
            pieces: 0,
            bytes: 0,
            columns: std::iter::repeat_with(column).take(columns).collect(),
        }
    }

    /// Before the rows of a batch: places given from now on hold until the batch is made.
    pub(super) fn begin(&mut self) {
        if self.known as usize > KNOWN_MAX || self.pieces > PIECES_MAX {
            *self = Self::new(self.columns.len());
        }
    }

    /// Numbers that follow are below `end`.
    pub(super) fn expect(&mut self, end: usize) {
        if self.places.len() < end {
            self.places.resize(end, UNKNOWN);
        }
    }

    /// The place of a number; when it is new, `fill` pushes one text to each column.
    #[inline]
    pub(super) fn place(&mut self, number: u32, fill: impl FnOnce(&mut [TextColumn])) -> u32 {
        let place = self.places[number as usize];
        if place != UNKNOWN {
            return place;
        }
        let place = self.known;
        self.known += 1;
        self.places[number as usize] = place;
        fill(&mut self.columns);
        place
    }

    /// About what it takes.
    pub(super) fn memory(&mut self) -> usize {
        for column in &mut self.columns {
            self.bytes += std::mem::take(&mut column.bytes);
        }
        // A view in the list, one in the piece that it grew by, and one to find doubles by.
        self.places.len() * size_of::<u32>()
            + self.known as usize * self.columns.len() * 48
            + self.bytes
    }

    /// A column with the texts at these places.
    pub(super) fn column(&mut self, column: usize, places: &UInt32Array) -> Result<ArrayRef> {
        let column = &mut self.columns[column];
        let new = column.new.finish();
        if !new.is_empty() || column.list.is_none() {
            self.pieces += 1;
            column.list = Some(match &column.list {
                None => Arc::new(new),
                Some(list) => concat(&[list, &new])?,
            });
        }
        let list = column.list.as_ref().expect("made just above");
        Ok(take(list, places, None)?)
    }
}
