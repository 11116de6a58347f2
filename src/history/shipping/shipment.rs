//! A shipment: rows that are sent together, and the way they are read.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ahash::RandomState;
use serde::{Deserialize, Serialize};

use crate::history::columns::Want;
use crate::history::disk::{Done, READ_TRIES, StoreError, Tries, unreadable};
use crate::history::merged::Merged;
use crate::history::part::{Part, datasets};
use crate::history::pending::PackedRows;
use crate::history::requests::packed::{REQUEST, TIMER, Tags, Timers, decoded};
use crate::history::{Dataset, Row};
use crate::pool::resolved::Request;
use crate::shutdown::Shutdown;

/// How far the pieces are shipped: see [`shipping`](super).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShipPosition {
    /// The number of the shipment.
    pub number: u32,
    pub(super) below: u64,
    pub(super) minute: u64,
    pub(super) whole: u64,
}

impl ShipPosition {
    /// Returns the time up to which the rows of a piece are covered. Raw requests are not added
    /// up, so it covers all of a piece's or none.
    fn upper(&self, piece: &Part) -> u64 {
        match piece.number() {
            number if number >= self.below => 0,
            number if number < self.whole || piece.is_raw() => u64::MAX,
            _ => self.minute,
        }
    }

    /// Whether all rows of a piece are covered.
    pub(super) fn covers(&self, part: &Part) -> bool {
        self.upper(part) >= part.span.end
    }
}

/// The rows that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShipmentRows {
    /// The rows up to the second position that are not up to the first.
    Pieces(ShipPosition, ShipPosition),
    /// The rows of the published file with this number.
    File(u64),
}

impl ShipmentRows {
    /// Returns the part of its minutes that it is: no two units have the same.
    pub(crate) fn part(&self) -> u32 {
        match self {
            Self::Pieces(_, to) => to.number,
            // Kept apart from the numbers of shipments.
            Self::File(number) => 1 << 31 | (*number as u32),
        }
    }

    /// Returns the times of those rows of a part that belong to it.
    pub(super) fn times(&self, part: &Part) -> Range<u64> {
        match self {
            Self::Pieces(from, to) if !part.is_published() => from.upper(part)..to.upper(part),
            Self::File(file) if *file == part.number() => 0..u64::MAX,
            Self::Pieces(..) | Self::File(_) => 0..0,
        }
    }

    pub(super) fn has(&self, part: &Part) -> bool {
        let times = self.times(part);
        times.start.max(part.span.start) < times.end.min(part.span.end)
    }

    /// Returns how many rows of a part that has some belong to it; if they cannot be read, all.
    pub(super) fn rows(&self, part: &Arc<Part>) -> u64 {
        let (times, mut rows) = (self.times(part), 0);
        let is_some = times.start > part.span.start || times.end < part.span.end;
        let mut count = |_: &Row| rows += 1;
        let mut sections = part.sections.iter().filter(|_| is_some);
        let read = sections
            .try_for_each(|of| part.read(&of.dataset, times.clone(), Want::Sums, &mut count));
        if is_some && read.is_ok() { rows } else { part.rows() }
    }
}

/// Rows of a piece that cannot be read and are lost.
#[derive(Debug)]
pub struct Unread {
    /// The piece.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
    /// The number of rows; 0 when they are counted with another shipment.
    pub rows: u64,
}

/// Rows that are shipped together.
#[derive(Debug)]
pub struct Shipment {
    /// The rows it has.
    pub units: ShipmentRows,
    pub(super) parts: Vec<Arc<Part>>,
    tries: Tries,
    /// Files that were tried often enough: they end where they cannot be read on.
    ends: Vec<PathBuf>,
}

/// Takes a request, the number of requests it stands for, and its timers, if any.
pub(crate) type TakeRequest<'t, E> =
    dyn FnMut(&Request<'_, Tags<'_>>, f64, Option<&Timers<'_>>) -> Result<(), E> + 't;

impl Shipment {
    pub(super) fn of<'p>(units: ShipmentRows, parts: impl Iterator<Item = &'p Arc<Part>>) -> Self {
        let parts = parts.filter(|part| units.has(part)).cloned().collect();
        Self { units, parts, tries: Tries::default(), ends: Vec::new() }
    }

    /// Returns the number of rows of its files, of which it may have only some.
    pub(crate) fn rows_max(&self) -> u64 {
        self.parts.iter().map(|part| part.rows()).sum()
    }

    /// Returns the datasets of its rows.
    pub(crate) fn datasets(&self) -> Vec<Arc<Dataset>> {
        datasets(self.parts.iter())
    }

    /// Calls `each` for its rows of a dataset, one per key and minute. A damaged piece ends at the
    /// damage, each time at the same row: rows sent before are never sent again with less in them.
    /// Returns the damaged pieces.
    ///
    /// # Errors
    /// When a file cannot be read, with its path and the reason; [`StoreError::Stopped`]; and the
    /// first of `each`, which ends it.
    pub fn rows<E: From<StoreError>>(
        &self,
        dataset: &Dataset,
        stop: &Shutdown,
        each: &mut dyn FnMut(&Row) -> Result<(), E>,
    ) -> Result<Vec<Unread>, E> {
        let parts = || self.parts.iter().filter(|part| part.has(dataset));
        let opened = parts().map(|part| {
            let rows = part.reader(dataset, self.units.times(part), Want::All);
            Ok((&*part.path, rows.map_err(unreadable(&part.path))?))
        });
        let opened = opened.collect::<Done<Vec<_>>>()?.into_iter();
        let mut rows = Merged::new(opened, dataset, Some(&*self.ends))?;
        while let Some(row) = rows.next()? {
            StoreError::unless_stopped(stop)?;
            each(&row)?;
        }
        let damaged = parts().zip(rows.damages()).filter_map(|(part, damage)| {
            let (reason, read) = damage?;
            // Its minutes may be shipped one after the other: it is counted with the last of them.
            let is_last = self.units.times(part).end >= part.span.end;
            let rows = part.rows_of(dataset).saturating_sub(read) * u64::from(is_last);
            Some(Unread { path: part.path.clone(), reason, rows })
        });
        Ok(damaged.collect())
    }

    /// Calls `each` for its raw requests, but not those of pieces that were tried often enough,
    /// which it returns. The timers of a piece are in memory, packed: it has no more than fit into
    /// the share of `history.memory` for requests.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub(crate) fn requests<E: From<StoreError>>(
        &self,
        stop: &Shutdown,
        each: &mut TakeRequest<'_, E>,
    ) -> Result<Vec<Unread>, E> {
        let raw = self.parts.iter().filter(|part| part.is_raw());
        let (unread, whole): (Vec<_>, Vec<_>) = raw.partition(|it| self.ends.contains(&it.path));
        for piece in whole {
            let mut timers: HashMap<_, Box<[u8]>, RandomState> = HashMap::default();
            let mut rows = PackedRows::open(piece, TIMER)?;
            while let Some((_, run, id)) = decoded::<(f64, u64, u64)>(rows.peek(), piece)? {
                StoreError::unless_stopped(stop)?;
                let row = rows.next().map_err(unreadable(&piece.path))?;
                timers.insert((run, id), row.unwrap_or_default().into());
            }
            let mut rows = PackedRows::open(piece, REQUEST)?;
            while let Some(row) = decoded(rows.next(), piece)? {
                StoreError::unless_stopped(stop)?;
                let (request, weight): (Request<'_, Tags<'_>>, f64) = row;
                let timers = timers.get(&(request.run, request.id)).map(|row| &**row);
                let timers: Option<Timers<'_>> = decoded(Ok(timers), piece)?;
                each(&request, weight, timers.as_ref())?;
            }
        }
        let left_out = |piece: &Arc<Part>| Unread {
            path: piece.path.clone(),
            reason: "it could not be read time and again".to_owned(),
            rows: piece.rows(),
        };
        Ok(unread.into_iter().map(left_out).collect())
    }

    /// Records that a file could not be read; returns how often in a row. After some tries it ends
    /// where it cannot be read on, as at damage.
    pub(crate) fn unread(&mut self, path: &Path) -> u32 {
        let tries = self.tries.count(path);
        if tries >= READ_TRIES {
            self.ends.push(path.to_owned());
        }
        tries
    }
}
