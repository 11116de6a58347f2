//! Texts on their way out: each distinct one is copied once, rows refer to it.
//!
//! Rows of the pools have numbers where tables show texts. A scan gives each number that it meets (a word, a tag set) a place
//! in a list of its own, and the texts of new ones are read under the lock of the moment; a batch is then the list taken
//! at the places of its rows, which copies sixteen bytes a row and no text. Within one query a number means one thing (see
//! `snapshot`). All columns of words have one list. A list that grew past [`KNOWN_MAX`] begins anew, so its size is bounded whatever was sent.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, StringViewBuilder, UInt32Array};
use datafusion::arrow::compute::{concat, take};
use datafusion::common::Result;

/// Entries of a list.
const KNOWN_MAX: usize = 32_768;

/// Pieces of a list: each has buffers of its own, and arrays with many buffers are slow.
const PIECES_MAX: usize = 64;

/// Bytes of texts after which it begins anew.
const BYTES_MAX: usize = 8 << 20;

const UNKNOWN: u32 = u32::MAX;

/// The numbers met so far, and their texts in the order of their places.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// By number: its place in the list.
    places: Vec<u32>,
    /// The place of what has no text.
    absent: Option<u32>,
    /// Entries of the list.
    known: u32,
    pieces: usize,
    list: Option<ArrayRef>,
    /// What is not in `list` yet.
    new: StringViewBuilder,
    /// Bytes of all texts.
    bytes: usize,
}

impl Texts {
    /// Before the rows of a batch: places given from now on hold until the batch is made.
    pub(super) fn begin(&mut self) {
        if self.known as usize > KNOWN_MAX || self.pieces > PIECES_MAX || self.bytes > BYTES_MAX {
            *self = Self::default();
        }
    }

    /// Numbers that follow are below `end`.
    pub(super) fn expect(&mut self, end: usize) {
        if self.places.len() < end {
            self.places.resize(end, UNKNOWN);
        }
    }

    /// The place of a number, with its text when it is new.
    #[inline]
    pub(super) fn place<T: AsRef<str>>(&mut self, number: u32, text: impl FnOnce() -> T) -> u32 {
        let place = self.places[number as usize];
        if place != UNKNOWN {
            return place;
        }
        let text = text();
        let text = text.as_ref();
        self.bytes += text.len();
        self.new.append_value(text);
        let place = self.known;
        self.known += 1;
        self.places[number as usize] = place;
        place
    }

    /// The place of what has no text.
    pub(super) fn absent(&mut self) -> u32 {
        if let Some(place) = self.absent {
            return place;
        }
        self.new.append_null();
        let place = self.known;
        self.known += 1;
        self.absent = Some(place);
        place
    }

    /// Bytes of the texts alone.
    pub(super) fn text_bytes(&self) -> usize {
        self.bytes
    }

    /// About what it takes.
    pub(super) fn memory(&self) -> usize {
        // A view in the list, and one in the piece that it grew by.
        self.places.len() * size_of::<u32>() + self.known as usize * 32 + self.bytes
    }

    /// The texts at these places.
    pub(super) fn at(&mut self, places: Vec<u32>) -> Result<ArrayRef> {
        let new = self.new.finish();
        let list: ArrayRef = match self.list.take() {
            Some(list) if new.is_empty() => list,
            Some(list) => {
                self.pieces += 1;
                concat(&[&list, &new])?
            }
            None => {
                self.pieces += 1;
                Arc::new(new)
            }
        };
        let found = take(&list, &UInt32Array::from(places), None);
        self.list = Some(list);
        Ok(found?)
    }
}
