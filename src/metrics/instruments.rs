//! Sums over the daemon's instruments: events and seconds, for each that has counted.

use crate::instruments::registry::registry;
use crate::instruments::summary;
use crate::telemetry::reading::{Group, Place, readings};

const INSTRUMENTS: Place = Place::List("instruments", "instrument");

/// Returns them, one group each.
pub(super) fn groups() -> Vec<Group> {
    let Some(registry) = registry() else { return Vec::new() };
    let groups = summary::since_start().into_iter().map(|(instrument, totals)| {
        let readings = readings! {
            Counter events = totals.count, "Events of the daemon's own instruments.";
            Counter time_seconds = registry.picos(instrument, totals.sum) as f64 / 1e12, "Time of those events that were timed.";
        };
        let labels = vec![("instrument", instrument.name.to_owned())];
        Group { labels, ..Group::new(INSTRUMENTS, readings) }
    });
    groups.collect()
}
