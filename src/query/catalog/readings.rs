//! Caches the last readings of reports: repeated questions share one until something changes.
//!
//! Kept by the catalog under a separate lock, which is held briefly. Bounded in number and in bytes
//! (a line of the memory plan): the oldest goes first, and one larger than the limit is not kept.
//! Outdated ones are removed with any read.

use std::sync::Arc;

use super::Catalog;
use crate::merger::answering;
use crate::report::Version;
use crate::report::definition::Definition;
use crate::report::read;
use crate::report::read::reading::{ANSWER_ROW_BYTES, Reading, Want};
use crate::report::read::selection::RowSelection;

/// Number of rows from which on only selected rows are read.
const CHOSEN_FROM: usize = 4_096;

/// Most readings.
const READINGS_MAX: usize = 8;
/// Most bytes of all together: one of 100,000 rows, or several smaller ones.
pub const READINGS_BYTES_MAX: usize = 32 << 20;

/// A reading and its source.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) definition: Arc<Definition>,
    pub(super) version: Version,
    pub(super) want: Want,
    pub(super) reading: Arc<Reading>,
}

/// The cached readings, oldest first.
#[derive(Debug, Default)]
pub(super) struct Readings(Vec<Kept>);

impl Readings {
    /// The current reading of a report, with at least the wanted parts.
    pub(super) fn find(
        &mut self,
        definition: &Arc<Definition>,
        version: Version,
        want: Want,
    ) -> Option<&mut Arc<Reading>> {
        let found = self.0.iter_mut().find(|kept| {
            Arc::ptr_eq(&kept.definition, definition)
                && kept.version == version
                && (kept.want.keys || !want.keys)
                && (kept.want.quantiles || !want.quantiles)
                && (kept.want.histograms || !want.histograms)
        });
        found.map(|kept| &mut kept.reading)
    }

    /// Caches a reading in place of the last one of its report.
    pub(super) fn keep(&mut self, new: Kept) {
        self.forget(&new.definition.name);
        let bytes = new.reading.heap_bytes();
        if bytes > READINGS_BYTES_MAX {
            return;
        }
        let held = |all: &[Kept]| all.iter().map(|kept| kept.reading.heap_bytes()).sum::<usize>();
        while self.0.len() >= READINGS_MAX || held(&self.0) + bytes > READINGS_BYTES_MAX {
            self.0.remove(0);
        }
        self.0.push(new);
    }

    /// Removes a report's reading.
    pub(super) fn forget(&mut self, name: &str) {
        self.0.retain(|kept| kept.definition.name != name);
    }
}

impl Catalog {
    /// Returns the cached reading if nothing has changed, else reads the report. The second value
    /// is the number of rows to select from, if only the selected rows were read. `None` if the
    /// report was dropped.
    pub(super) fn reading(
        &self,
        definition: &Arc<Definition>,
        selection: &RowSelection<'_>,
    ) -> Option<(Arc<Reading>, Option<usize>)> {
        // Dropped last: large ones take their time, and the merger waits for the lock.
        let mut stale;
        let mut live = answering(&self.live);
        let entry = live.reports.find(&definition.name)?.clone();
        if !Arc::ptr_eq(&entry.definition, definition) {
            return None;
        }
        let layout = &definition.layout;
        let want = layout.want(selection.needed(layout.columns().len()));
        if let Some(refill) = self.refill() {
            let now_ms = self.clock.unix_ms();
            let (of, asked) = (std::slice::from_ref(&entry), [(&entry, want)]);
            let read = Self::read_refilled(&mut live, &refill, of, &asked, now_ms);
            drop(live);
            return match read.and_then(|mut read| read.pop()) {
                Some(reading) => Some((Arc::new(reading), None)),
                None => self.reading(definition, selection),
            };
        }
        let version = live.reports.version(&entry);
        // Few rows are read as a whole, and cached; so are those requested before, if nothing has
        // changed.
        let rows = live.reports.rows(&entry);
        let mut is_whole = rows < CHOSEN_FROM || layout.is_histogram_view();
        {
            let mut readings = self.readings.lock();
            let is_stale = |kept: &mut Kept| {
                let found = live.reports.find(&kept.definition.name);
                found.is_none_or(|found| {
                    !Arc::ptr_eq(&found.definition, &kept.definition)
                        || live.reports.version(found) != kept.version
                })
            };
            stale = readings.0.extract_if(.., is_stale).collect::<Vec<_>>();
            if let Some(reading) = readings.find(definition, version, want) {
                // The same rows, over more time.
                let covered_secs = live.reports.covered_secs(&entry);
                drop(live);
                if reading.covered_secs != covered_secs {
                    let reading = Arc::make_mut(reading);
                    (reading.covered_secs, reading.as_of_ms) = (covered_secs, self.clock.unix_ms());
                }
                return Some((Arc::clone(reading), None));
            }
            let again = readings.find(definition, version, Want::default());
            is_whole |= again.is_some() && rows * ANSWER_ROW_BYTES <= READINGS_BYTES_MAX;
        }
        let now_ms = self.clock.unix_ms();
        // Reuses the memory of the last one of this report, if it has about this size: nobody else
        // needs it, unless it is being written.
        let fits = |kept: &mut Kept| {
            Arc::ptr_eq(&kept.definition, definition)
                && kept.reading.histograms.is_empty()
                && kept.reading.heap_bytes() / 2 <= rows * ANSWER_ROW_BYTES
        };
        let memory = stale.extract_if(.., fits).last();
        let memory = memory.and_then(|kept| Arc::into_inner(kept.reading)).unwrap_or_default();
        let some = Some(selection).filter(|it| !is_whole && !it.has_all());
        let read = read::read_into(memory, &mut live, &entry, want, some, now_ms);
        drop(live);
        let Some(read) = read else { return self.reading(definition, selection) };
        let reading = Arc::new(read.reading);
        let total = read.selected.as_ref().map(|selected| selected.total);
        if let Some(version) = read.version {
            let (want, reading) = match read.selected {
                Some(selected) => (selected.want, Arc::new(selected.from)),
                None => (want, Arc::clone(&reading)),
            };
            self.readings.lock().keep(Kept {
                definition: Arc::clone(definition),
                version,
                want,
                reading,
            });
        }
        drop(stale);
        Some((reading, total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::builtin;
    use crate::report::definition::Defaults;

    fn of(at: usize, bytes: usize) -> Kept {
        let mut definition = builtin::reports(&Defaults::default()).remove(0);
        definition.name = format!("r{at}");
        let mut reading = Reading::default();
        reading.histograms = vec![Vec::with_capacity(bytes / size_of::<(u32, u64)>())];
        Kept {
            definition: Arc::new(definition),
            version: (0, 0),
            want: Want::default(),
            reading: Arc::new(reading),
        }
    }

    fn names(readings: &Readings) -> Vec<&str> {
        let kept = readings.0.iter();
        kept.map(|kept| kept.definition.name.as_str()).collect()
    }

    #[test]
    fn the_last_ones_are_kept_while_there_is_room() {
        let mut readings = Readings::default();
        for at in 0..10 {
            readings.keep(of(at, 1000));
        }
        assert_eq!(names(&readings), ["r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"]);
        readings.keep(of(4, 1000));
        assert_eq!(names(&readings)[5..], ["r8", "r9", "r4"]);
        // As many of the oldest go as necessary.
        readings.keep(of(20, 31 << 20));
        assert_eq!(names(&readings).len(), 8);
        readings.keep(of(21, 2 << 20));
        assert_eq!(names(&readings), ["r21"]);
        readings.keep(of(22, 29 << 20));
        assert_eq!(names(&readings), ["r21", "r22"]);
        // One that is too large only removes the last one of its own report.
        readings.keep(of(22, 33 << 20));
        assert_eq!(names(&readings), ["r21"]);
    }

    #[test]
    fn what_is_out_of_date_goes_when_anything_is_read() {
        let catalog = crate::fuzz::live::catalog();
        let all: Vec<Arc<Definition>> = {
            let live = catalog.live.read();
            let entries = live.reports.iter();
            entries.map(|entry| Arc::clone(&entry.definition)).collect()
        };
        let read = |of| catalog.reading(of, &RowSelection::default()).unwrap().0;
        let first: Vec<_> = all[..3].iter().map(read).collect();
        assert!(Arc::ptr_eq(&first[1], &read(&all[1])), "nothing has changed");
        assert_eq!(catalog.readings.lock().0.len(), 3);
        let gone = Arc::downgrade(&first[0]);
        let (rows, covered_secs) = (first[1].totals.as_ptr(), first[1].covered_secs);
        drop(first);
        catalog.live.write().advance(3_000);
        let later = read(&all[1]);
        assert_eq!(later.totals.as_ptr(), rows, "time alone changes no row");
        assert_eq!(later.covered_secs, covered_secs + 2);
        drop(later);
        assert!(gone.upgrade().is_some());
        catalog.live.write().advance(60_000);
        read(&all[1]);
        assert_eq!(names(&catalog.readings.lock()), [all[1].name.as_str()]);
        assert!(gone.upgrade().is_none());
    }
}
