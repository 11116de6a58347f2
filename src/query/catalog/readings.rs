//! The last readings of reports: who asks again before anything has changed gets the same one.
//!
//! Kept by the catalog under a lock of its own, which is held for a moment. Bounded in number and in bytes (a line of the memory
//! plan): the oldest goes first, and one that is larger than all may be is not kept. What is out of date goes when
//! anything is read.

use std::sync::Arc;

use crate::report::definition::Definition;
use crate::report::reading::{Reading, Want};

/// Readings that are kept at most.
const READINGS_MAX: usize = 8;
/// What they may take together, bytes: one of 100,000 rows, or more that are smaller.
pub const READINGS_BYTES_MAX: usize = 32 << 20;

/// A reading, and what it was made from.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) definition: Arc<Definition>,
    pub(super) version: (usize, u64),
    pub(super) want: Want,
    pub(super) reading: Arc<Reading>,
}

/// The readings that are kept, oldest first.
#[derive(Debug, Default)]
pub(super) struct Readings(Vec<Kept>);

impl Readings {
    /// Takes out what is not current any more: to be dropped where nobody waits for that.
    pub(super) fn take_stale(&mut self, is_current: impl Fn(&Kept) -> bool) -> Vec<Kept> {
        self.0.extract_if(.., |kept| !is_current(kept)).collect()
    }

    /// The reading of a report as it is now, with at least what is wanted.
    pub(super) fn find(
        &self,
        definition: &Arc<Definition>,
        version: (usize, u64),
        want: Want,
    ) -> Option<Arc<Reading>> {
        let found = self.0.iter().find(|kept| {
            Arc::ptr_eq(&kept.definition, definition)
                && kept.version == version
                && (kept.want.keys || !want.keys)
                && (kept.want.quantiles || !want.quantiles)
                && (kept.want.histograms || !want.histograms)
        });
        found.map(|kept| Arc::clone(&kept.reading))
    }

    /// Keeps a reading in place of the last one of its report.
    pub(super) fn keep(&mut self, new: Kept) {
        self.forget(&new.definition.name);
        let bytes = new.reading.heap_bytes();
        if bytes > READINGS_BYTES_MAX {
            return;
        }
        let mut kept: usize = self.0.iter().map(|kept| kept.reading.heap_bytes()).sum();
        let mut leaving = 0;
        while self.0.len() - leaving >= READINGS_MAX || kept + bytes > READINGS_BYTES_MAX {
            kept -= self.0[leaving].reading.heap_bytes();
            leaving += 1;
        }
        self.0.drain(..leaving);
        self.0.push(new);
    }

    /// Lets go of a report's.
    pub(super) fn forget(&mut self, name: &str) {
        self.0.retain(|kept| kept.definition.name != name);
    }

    /// Lets go of all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::builtin;
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
        assert_eq!(
            names(&readings),
            ["r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"]
        );
        readings.keep(of(4, 1000));
        assert_eq!(names(&readings)[5..], ["r8", "r9", "r4"]);
        // As many of the oldest go as have to.
        readings.keep(of(20, 31 << 20));
        assert_eq!(names(&readings).len(), 8);
        readings.keep(of(21, 2 << 20));
        assert_eq!(names(&readings), ["r21"]);
        readings.keep(of(22, 29 << 20));
        assert_eq!(names(&readings), ["r21", "r22"]);
        // One that is too large leaves the others, but not the last one of its own report.
        readings.keep(of(22, 33 << 20));
        assert_eq!(names(&readings), ["r21"]);
    }

    #[test]
    fn what_is_out_of_date_goes_when_anything_is_read() {
        let catalog = crate::fuzz::live::catalog();
        let all: Vec<String> = {
            let live = catalog.live().read();
            let entries = live.reports.iter();
            entries.map(|entry| entry.definition.name.clone()).collect()
        };
        let read = |name: &str| catalog.reading(name, None, None).unwrap().1;
        let first: Vec<_> = all[..3].iter().map(|name| read(name)).collect();
        assert!(
            Arc::ptr_eq(&first[1], &read(&all[1])),
            "nothing has changed"
        );
        assert_eq!(catalog.readings.lock().0.len(), 3);
        let gone = Arc::downgrade(&first[0]);
        drop(first);
        assert!(gone.upgrade().is_some());
        catalog.live().write().advance(60_000);
        read(&all[1]);
        assert_eq!(names(&catalog.readings.lock()), [all[1].as_str()]);
        assert!(gone.upgrade().is_none());
    }
}
