//! Retention: removes published files by age, by total size, and when the disk gets full.
//!
//! To make room, raw requests go first, then the minutes, oldest first, then hours, then days.
//! Pending rows stay: they are published, and thereby summed to coarser ones, first.
//!
//! Age does not follow the wall clock alone, which may be wrong by years for a while: see
//! [`AgeClock`].

use std::sync::Arc;

use tracing::info;

use super::disk::{Done, StoreError};
use super::file_names::PENDING;
use super::part::Part;
use super::shipping::Shipping;
use super::store::Store;
use crate::clock::Clock;
use crate::state::folder::{self, HISTORY, StateError};
use crate::telemetry::counters::StoreCounters;

/// The limits of retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Seconds to keep minutes, hours and days.
    pub secs: [u64; 3],
    /// Most bytes of all files.
    pub size_max: u64,
    /// Bytes to keep free on the disk.
    pub free_min: u64,
}

impl Retention {
    /// Whether a part has expired at this unix second: all of an hour's minutes at once, and of a
    /// day's hours.
    pub(super) fn is_too_old(&self, part: &Part, now: u64) -> bool {
        let Part { resolution, span, .. } = part;
        let end = match resolution.coarser() {
            Some(_) => resolution.file_span(span.end.saturating_sub(1)).end,
            None => span.end,
        };
        now.saturating_sub(end) >= self.secs[*resolution as usize]
    }
}

/// The clock for ages. It moves towards the wall clock, but at most [`PACE`] times as fast as the
/// monotonic one, also over restarts: if the wall clock is wrong for an hour, only that many hours
/// of rows expire early. Downtime is made up for in the same way. Until a store has its first file,
/// after an hour, it follows freely: the clock of a new machine is often set right by then.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AgeClock {
    /// Unix milliseconds; `None` if never set.
    unix_ms: Option<u64>,
    /// When it last moved.
    mono_ms: Option<u64>,
}

/// How fast it follows a clock that is ahead.
const PACE: u64 = 4;

impl AgeClock {
    /// From the manifest.
    pub(super) fn of(unix_secs: Option<u64>) -> Self {
        Self { unix_ms: unix_secs.map(|secs| secs.saturating_mul(1_000)), mono_ms: None }
    }
}

impl Store {
    /// Lets data age by the clock; call it repeatedly.
    pub fn advance_age(&mut self, clock: &dyn Clock) {
        // A file that is away now may be there again later.
        let missing = self.manifest.missing.values();
        if !self.manifest.parts().chain(missing).any(|part| part.is_published()) {
            self.age.unix_ms = None;
        }
        let (unix_ms, mono_ms) = (clock.unix_ms(), clock.mono_ms());
        let before = self.age.mono_ms.replace(mono_ms).unwrap_or(mono_ms);
        let most = mono_ms.saturating_sub(before).saturating_mul(PACE);
        let at = self.age.unix_ms.get_or_insert(unix_ms);
        *at = unix_ms.clamp(at.saturating_sub(most), at.saturating_add(most));
        self.manifest.aged = self.age.unix_ms.map(|ms| ms / 1_000);
    }

    /// Removes expired data.
    ///
    /// # Errors
    /// Fails if that cannot be committed; then everything stays.
    pub fn expire(&mut self, now: u64) -> Done {
        self.attempt(|store| store.remove_what_goes(now))
    }

    /// Makes room before something is written; fails if that is impossible.
    pub(super) fn make_room(&mut self, now: u64) -> Done {
        match self.check_room() {
            Err(StoreError::Folder(StateError::NoRoom { .. })) => {
                self.remove_what_goes(now)?;
                self.check_room()
            }
            done => done,
        }
    }

    /// Fails if less than `history.free_min` is free, or another folder is in its place.
    pub(super) fn check_room(&self) -> Done {
        self.folder.check_in_place()?;
        let (path, needed) = (self.folder.path.clone(), self.retention.free_min);
        match self.disk.free(self.dir())? {
            free if free < needed => {
                Err(StateError::NoRoom { setting: HISTORY, path, free, needed }.into())
            }
            _ => Ok(()),
        }
    }

    /// Whether it seems that something can be written, without writing anything: `room` has to be
    /// free.
    pub(super) fn seems_writable(&self, room: u64) -> bool {
        let has_room = self.disk.free(self.dir()).is_ok_and(|free| free >= room);
        has_room && self.check_room().is_ok() && folder::seems_writable(self.dir())
    }

    fn remove_what_goes(&mut self, now: u64) -> Done {
        let mut kept = self.shipping.as_ref().map(Shipping::kept).unwrap_or_default();
        // A link whose piece was not published after all takes no room, and nothing goes with it.
        let pending = self.dir().join(PENDING);
        kept.retain(|it| !self.manifest.has(&pending.join(format!("{}.piece", it.number()))));
        // And whether it is only kept for ClickHouse: such a piece goes after the files that have
        // its rows.
        let parts = self.manifest.parts().map(|part| (part, false));
        let mut parts: Vec<_> = parts.chain(kept.iter().map(|part| (part, true))).collect();
        let all: u64 = parts.iter().map(|(part, _)| part.bytes).sum();
        let mut bytes = all + self.seconds.bytes();
        // Removed parts that are still being read will become free.
        let removed = self.removed.iter().map(|part| part.bytes).sum();
        let mut free = self.disk.free(self.dir())?.saturating_add(removed);
        let Retention { size_max, free_min, .. } = self.retention;
        let now = self.manifest.aged.map_or(now, |aged| aged.min(now));
        let file = |part: &Part| (!part.is_raw(), part.resolution, part.file_begin());
        parts.sort_by_key(|(part, is_kept)| (file(part), *is_kept, part.span.start));
        let (counters, mut gone) = (StoreCounters::default(), Vec::<Arc<Part>>::new());
        let mut counter = &counters.files_expired;
        for (part, is_kept) in parts {
            // The rows of other pieces are nowhere else, unless nothing is coarser.
            let may_go = part.is_published() || is_kept;
            let may_expire = may_go || part.resolution.coarser().is_none();
            let is_old = self.retention.is_too_old(part, now);
            // What is left of an hour or a day would stand for all of it.
            let is_rest = part.is_rolled() && !part.is_raw();
            let is_rest = is_rest && gone.last().is_some_and(|last| file(last) == file(part));
            counter = match may_go {
                _ if may_expire && is_old => &counters.files_expired,
                true if bytes > size_max => &counters.files_removed_by_size,
                true if free < free_min => &counters.files_removed_by_free_space,
                true if is_rest => counter,
                _ => continue,
            };
            counter.add(1);
            bytes -= part.bytes;
            free += part.bytes;
            gone.push(Arc::clone(part));
        }
        if gone.is_empty() {
            return Ok(());
        }
        let rows: u64 = gone.iter().map(|part| part.rows()).sum();
        let removed = gone.iter().filter(|part| self.manifest.has(&part.path));
        let removed: Vec<_> = removed.cloned().collect();
        if !removed.is_empty() {
            self.commit(Vec::new(), removed, None, || ())?;
        }
        if let Some(shipping) = &self.shipping {
            shipping.record_lost(&gone);
        }
        self.counters.absorb(&counters);
        let files = gone.len();
        // A part that somebody holds is not deleted.
        drop(gone);
        self.delete_removed();
        info!(files, rows, "Removed history that is no longer kept.");
        Ok(())
    }
}
