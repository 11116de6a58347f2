//! How far rows are shipped, as the file `cursor` keeps it.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::shipment::{ShipPosition, ShipmentRows};
use crate::config::ShippedRows;
use crate::history::Resolution;
use crate::history::disk::{Done, damaged, read_existing};
use crate::history::manifest;
use crate::history::part::Part;

/// The file in it with the progress of shipping.
pub(super) const CURSOR: &str = "cursor";
/// The newest format of that file.
pub(super) const FORMAT: u32 = 1;

/// The names under which rows are shipped. They are part of the keys in ClickHouse, so a shipment
/// keeps the names it began with, even if the host is renamed meanwhile.
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

/// Older versions wrote fewer fields.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
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
    pub(super) of: Vec<u64>,
    /// The names it is shipped under.
    pub(super) sending_as: Option<Identity>,
    /// The number of the file being shipped, and its names.
    pub(super) file_as: Option<(u64, Identity)>,
    pub(super) refused: Vec<Refused>,
    /// Rows lost before they were shipped.
    pub(super) dropped: u64,
    /// The numbers of parts that could not be read and are not shipped, even when they are back.
    pub(super) given_up: Vec<u64>,
    /// The numbers from which parts of rollups, and of raw requests, are not shipped; none of a
    /// kind that is.
    pub(super) off: [Option<u64>; 2],
    /// The positions up to which these were shipped when that began.
    pub(super) off_at: [ShipPosition; 2],
    /// Rows of these that cannot be shipped any more: their pieces are gone.
    pub(super) passed: [u64; 2],
    /// Pieces that go with a commit, and such rows: they count as soon as the pieces are gone.
    pub(super) passing: Vec<(u64, [u64; 2])>,
}

impl Cursor {
    /// Sets what to ship from now on, of these parts and later ones. Unwanted rows that can no
    /// longer be shipped are lost to ClickHouse: returns their number.
    pub(super) fn set_kinds(
        &mut self,
        what: &[ShippedRows],
        next: u64,
        parts: &[Arc<Part>],
    ) -> u64 {
        self.pass(parts, &[]);
        let mut lost = 0;
        for (at, kind) in [ShippedRows::Rollups, ShippedRows::Requests].into_iter().enumerate() {
            let is_wanted = what.contains(&kind);
            if !is_wanted && self.off[at].is_none() {
                // What is being sent is sent on.
                self.off_at[at] = self.sending.unwrap_or(self.done);
                self.off[at] = Some(next);
            } else if is_wanted && self.off[at].is_some() {
                let here = parts.iter().map(|part| self.unshipped(part, &self.done)[at]);
                lost += here.sum::<u64>() + std::mem::take(&mut self.passed[at]);
                self.off[at] = None;
            }
        }
        self.dropped += lost;
        lost
    }

    /// The rows of a piece up to a position that are not shipped because their kind is off, by
    /// kind.
    fn unshipped(&self, piece: &Arc<Part>, to: &ShipPosition) -> [u64; 2] {
        let (kind, mut rows) = (usize::from(piece.is_raw()), [0; 2]);
        let units = ShipmentRows::Pieces(self.off_at[kind], *to);
        let is_minute = piece.resolution == Resolution::Minute && units.has(piece);
        if self.off[kind].is_some() && is_minute && !self.given_up.contains(&piece.number()) {
            rows[kind] = units.rows(piece);
        }
        rows
    }

    /// Counts the rows of pieces that went with the last commit: if that was made, they are not
    /// `here`. Records which are to go with the next.
    pub(super) fn pass(&mut self, here: &[Arc<Part>], gone: &[Arc<Part>]) {
        let is_gone = |number: u64| here.iter().all(|part| part.number() != number);
        for (_, rows) in self.passing.drain(..).filter(|it| is_gone(it.0)) {
            self.passed.iter_mut().zip(rows).for_each(|(passed, rows)| *passed += rows);
        }
        let all = ShipPosition { below: u64::MAX, whole: u64::MAX, ..self.done };
        let rows = gone.iter().map(|part| (part.number(), self.unshipped(part, &all)));
        self.passing = rows.collect();
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

/// Reads the file, if there is one: a line as the manifest has them, of older versions the JSON
/// alone.
pub(super) fn read(path: &Path) -> Done<Option<Cursor>> {
    let Some(text) = read_existing(path)? else { return Ok(None) };
    let json = if text.starts_with(b"{") { Some(&*text) } else { manifest::checked(&text) };
    let json = json.ok_or_else(|| damaged(path, "its checksum is wrong".to_owned()))?;
    manifest::of_format(FORMAT, json, path).map(Some)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::history::disk::StoreError;

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
        // The newline at its end has no meaning.
        for at in 0..(written.len() - 1) * 8 {
            let mut flipped = written.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            // A checksum may also be written in capitals.
            assert!(at / 8 < 8 || matches!(read_back(&flipped), Err(StoreError::Damaged { .. })));
        }
        let newer = read_back(&manifest::line(&serde_json::json!({ "format": FORMAT + 1 })));
        assert!(matches!(newer, Err(StoreError::Newer { .. })));
    }
}
