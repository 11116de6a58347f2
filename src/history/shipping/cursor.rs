//! How far rows are shipped, as the file `cursor` keeps it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::shipment::{ShipPosition, ShipmentRows};
use crate::config::ShippedRows;
use crate::history::Resolution;
use crate::history::disk::{Done, StoreError, damaged, read_existing};
use crate::history::manifest::{self, Format, Manifest};
use crate::history::part::Part;

/// The file in it with the progress of shipping.
pub(super) const CURSOR: &str = "cursor";
/// The newest format of that file.
pub(super) const FORMAT: u32 = 1;

/// The names under which rows are shipped. They are part of the keys in ClickHouse, so a shipment keeps
/// the names it began with, even if the host is renamed meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The shipping daemon.
    pub collector: String,
    /// Its data centre.
    pub dc: String,
}

/// Rows that ClickHouse refused, set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The rows.
    pub units: ShipmentRows,
    /// The destination table.
    pub table: String,
    /// Their number.
    pub rows: u64,
    /// The error.
    pub error: String,
    /// The names under which they were sent; absent in older entries.
    pub identity: Option<Identity>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Cursor {
    pub(super) format: u32,
    /// The next part's number when this began: files below it are shipped.
    pub(super) begin: u64,
    /// Files below this one are shipped.
    pub(super) files: u64,
    /// The position up to which rows are shipped.
    pub(super) done: ShipPosition,
    /// The position up to which rows are being shipped.
    pub(super) sending: Option<ShipPosition>,
    /// The numbers of the pieces that have them; none if an older version began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) of: Vec<u64>,
    /// The names it is shipped under.
    pub(super) sending_as: Option<Identity>,
    /// The number of the file being shipped, and its names.
    pub(super) file_as: Option<(u64, Identity)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) refused: Vec<Refused>,
    /// Rows lost before they were shipped.
    #[serde(default)]
    pub(super) dropped: u64,
    /// The numbers of parts that could not be read and are not shipped, even when they are back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) given_up: Vec<u64>,
    /// The numbers from which parts of rollups, and of raw requests, are not shipped; none of a kind
    /// that is.
    #[serde(default)]
    pub(super) off: [Option<u64>; 2],
}

impl Cursor {
    /// Sets what to ship from now on. Unwanted rows that can no longer be shipped are lost to
    /// ClickHouse: returns their number.
    pub(super) fn set_kinds(&mut self, what: &[ShippedRows], manifest: &Manifest) -> u64 {
        let mut lost = 0;
        let kinds = [(false, ShippedRows::Rollups), (true, ShippedRows::Requests)];
        for (off, (is_raw, kind)) in self.off.iter_mut().zip(kinds) {
            if !what.contains(&kind) {
                off.get_or_insert(manifest.next);
            } else if let Some(since) = off.take() {
                let parts = manifest.parts().filter(|part| {
                    let is_kind = part.is_raw() == is_raw && part.resolution == Resolution::Minute;
                    let is_over = part.is_published() || part.number() < self.done.below;
                    is_kind && part.number() >= since && is_over
                });
                lost += parts.map(|part| part.rows()).sum::<u64>();
            }
        }
        self.dropped += lost;
        lost
    }

    /// Records that all up to a position was shipped, or is lost.
    pub(super) fn end(&mut self, to: ShipPosition) {
        self.done = to;
        (self.sending, self.sending_as) = (None, None);
        self.of.clear();
    }

    /// Whether a part has rows of a kind that is shipped, or is being shipped, whatever its kind.
    pub(super) fn ships(&self, part: &Part) -> bool {
        let number = part.number();
        let is_wanted = self.off[usize::from(part.is_raw())].is_none()
            && part.resolution == Resolution::Minute
            && !self.given_up.contains(&number);
        is_wanted || self.of.contains(&number)
    }

    /// Whether rows of a part are still to be shipped, apart from refused ones.
    pub(super) fn lacks(&self, part: &Part) -> bool {
        let number = part.number();
        let lacks = match part.is_published() {
            true => !part.is_raw() && number < self.begin && number >= self.files,
            false => !self.done.covers(part),
        };
        lacks && self.ships(part)
    }

    pub(super) fn needs(&self, part: &Part) -> bool {
        let mut refused = self.refused.iter();
        self.lacks(part) || self.ships(part) && refused.any(|it| it.units.has(part))
    }
}

/// Reads the file, if there is one: a line as the manifest has them, of older versions the JSON alone.
pub(super) fn read(path: &Path) -> Done<Option<Cursor>> {
    let Some(text) = read_existing(path)? else { return Ok(None) };
    let json = if text.starts_with(b"{") { Some(&*text) } else { manifest::checked(&text) };
    let json = json.ok_or_else(|| damaged(path, "its checksum is wrong".to_owned()))?;
    let bad = |error: serde_json::Error| damaged(path, error.to_string());
    match serde_json::from_slice::<Format>(json).map_err(bad)?.format {
        ..=FORMAT => serde_json::from_slice(json).map_err(bad).map(Some),
        found => Err(StoreError::Newer { path: path.to_owned(), found, known: FORMAT }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_flipped_bit_is_noticed_and_older_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(CURSOR);
        let cursor = Cursor { format: FORMAT, begin: 7, dropped: 12, ..Cursor::default() };
        let read_back = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            read(&path).map(|it| it.map(|it| (it.begin, it.dropped)))
        };
        let written = manifest::line(&cursor);
        assert_eq!(read_back(&written).unwrap(), Some((7, 12)));
        assert_eq!(read_back(&serde_json::to_vec(&cursor).unwrap()).unwrap(), Some((7, 12)));
        for at in 0..written.len() * 8 {
            let mut flipped = written.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            // A checksum may also be written in capitals.
            assert!(at / 8 < 8 || matches!(read_back(&flipped), Err(StoreError::Damaged { .. })));
        }
        let newer = read_back(&manifest::line(&serde_json::json!({ "format": FORMAT + 1 })));
        assert!(matches!(newer, Err(StoreError::Newer { .. })));
    }
}
