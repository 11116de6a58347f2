//! Dictionaries of a scan: each distinct text is copied once, rows refer to its index.
//!
//! Pool rows have ids where tables show texts. A dictionary assigns each new id an index and copies
//! its text under the lock; a column is then taken from the list by the indexes of its rows, which
//! copies no text. Within one query an id has one meaning (see `snapshot`). A dictionary beyond
//! [`KNOWN_MAX`] is reset, so its size is bounded.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, StringViewBuilder, UInt32Array};
use datafusion::arrow::compute::{concat, take};
use datafusion::common::Result;

use super::columns::Values;

/// Entries of a list.
const KNOWN_MAX: usize = 32_768;

/// Most parts of a list: each has buffers of its own, and arrays with many buffers are slow.
const PIECES_MAX: usize = 64;

/// Bytes of text after which it is reset.
const BYTES_MAX: usize = 8 << 20;

const UNKNOWN: u32 = u32::MAX;

/// The numbers met so far, and their texts by index.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// Index in the list, by number.
    places: Vec<u32>,
    /// Length of the list.
    known: u32,
    pieces: usize,
    list: Option<ArrayRef>,
    /// Texts not in `list` yet.
    new: StringViewBuilder,
    /// Total bytes of text.
    bytes: usize,
}

impl Texts {
    /// Call before the rows of a batch: indexes given from now on are valid until the batch is
    /// built. Returns whether the list was reset.
    pub(super) fn begin(&mut self) -> bool {
        let full =
            self.known as usize > KNOWN_MAX || self.pieces > PIECES_MAX || self.bytes > BYTES_MAX;
        if full {
            *self = Self::default();
        }
        full
    }

    /// The index of a number; adds its text if it is new.
    #[inline]
    pub(super) fn place<T: AsRef<str>>(
        &mut self,
        number: usize,
        text: impl FnOnce() -> Option<T>,
    ) -> u32 {
        match self.places.get(number) {
            Some(&place) if place != UNKNOWN => return place,
            Some(_) => {}
            None => self.places.resize(number + 1, UNKNOWN),
        }
        let text = text();
        self.bytes += text.as_ref().map_or(0, |text| text.as_ref().len());
        self.new.append_option(text);
        let place = self.known;
        self.known += 1;
        self.places[number] = place;
        place
    }

    /// Approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        // A view in the list, and one in the part it grew by.
        self.places.len() * size_of::<u32>() + self.known as usize * 32 + self.bytes
    }

    /// All texts so far, by index.
    pub(super) fn list(&mut self) -> Result<&ArrayRef> {
        let new: ArrayRef = Arc::new(self.new.finish());
        let list = match self.list.take() {
            Some(list) if new.is_empty() => list,
            known => {
                self.pieces += 1;
                let known = known.iter().chain([&new]).map(AsRef::as_ref);
                concat(&known.collect::<Vec<_>>())?
            }
        };
        Ok(self.list.insert(list))
    }

    /// A column as an array.
    pub(super) fn array(&mut self, values: Values) -> Result<ArrayRef> {
        Ok(match values {
            Values::Array(array) => array,
            Values::Texts(places) => take(self.list()?, &UInt32Array::from(places), None)?,
        })
    }
}
