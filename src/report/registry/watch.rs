//! Watched reports: gains of their groups go to second logs, for charts, metrics and history.
//!
//! A [`WatchSettings`] selects them. When one comes or goes, earlier gains are set apart, with the
//! reports of that time: nothing is lost of a dropped report, and a new one has the gains since its
//! creation, and none of a predecessor. Readers share the list of watched reports ([`Watchlist`]),
//! and need no other lock for it.

use std::sync::Arc;

use ahash::RandomState;
use parking_lot::RwLock;

use super::{Entry, Reports};
use crate::pool::Pool;
use crate::report::definition::{DefinedBy, Definition};
use crate::report::directory::KnownGroups;
use crate::report::layout::Cell;
use crate::report::row_key::RowKeys;
use crate::report::second_log::{SecondLog, SecondLogWriter};

/// Bytes of a group in the second log, generously.
const LOGGED_BYTES: usize = 128;

/// In lists of reports: all that are not built in.
pub const CONFIGURED: &str = "*";

/// Id of a report's total.
pub const TOTAL_ID: u64 = 0;
/// `(other)`.
pub const OTHER_ID: u64 = 1;
/// Smallest id of an ordinary row.
pub const FIRST_ID: u64 = 2;

/// The reports to watch, by name. [`CONFIGURED`] includes those created at run time.
#[derive(Debug, Default)]
pub struct WatchSettings {
    /// Reports of the last hour, which also gets all that are created at run time; `None` if there
    /// is no last hour.
    pub charted: Option<Vec<String>>,
    /// Reports of `/metrics`.
    pub scraped: Vec<String>,
    /// Reports that history keeps; `None` if there is no history. A report's own setting takes
    /// precedence.
    pub kept: Option<Vec<String>>,
    /// Those that are pushed over OTLP.
    pub pushed: Vec<String>,
    /// Those of rules of alerts, and that of releases.
    pub alerted: Vec<String>,
    /// Reports that were there at the start and cannot be dropped are all watched; those created
    /// later as long as there are fewer than this, and those that can be dropped last.
    pub reports_max: usize,
    /// Approximate memory of a second's logs and of known groups, in bytes.
    pub bytes_max: usize,
}

impl WatchSettings {
    /// What a report is to be watched for; `None` if for nothing but alerts.
    fn uses(&self, entry: &Entry) -> Option<Uses> {
        let (definition, defined_by) = (&entry.definition, &entry.defined_by);
        let is_own = *defined_by != DefinedBy::BuiltIn;
        let is_in = |names: &Vec<String>| {
            let named = |name: &str| names.iter().any(|it| it == name);
            named(&definition.name) || is_own && named(CONFIGURED)
        };
        let is_charted = |names| defined_by.is_droppable() || is_in(names);
        let is_charted = self.charted.as_ref().is_some_and(is_charted);
        let [is_scraped, is_pushed] = [&self.scraped, &self.pushed].map(is_in);
        let is_kept = |names| definition.history.unwrap_or_else(|| is_in(names));
        let is_kept = self.kept.as_ref().is_some_and(is_kept);
        let is_used = is_charted || is_scraped || is_pushed || is_kept;
        is_used.then_some(Uses { is_scraped, is_pushed, is_kept })
    }
}

/// The readers of a report, beside charts and alerts.
#[derive(Default)]
struct Uses {
    is_scraped: bool,
    is_pushed: bool,
    is_kept: bool,
}

/// A report that is not watched because [`WatchSettings::reports_max`] others are.
#[derive(Debug)]
pub struct LeftOut {
    /// The report.
    pub definition: Arc<Definition>,
    /// Whether history would keep its past.
    pub is_kept: bool,
}

/// A watched report.
#[derive(Debug)]
pub struct Watched {
    /// A unique number, however often reports are dropped and created.
    pub number: u64,
    /// The report.
    pub definition: Arc<Definition>,
    /// The names of its keys: see [`key_names`].
    pub key_names: Vec<String>,
    /// Whether `/metrics` shows its rows.
    pub is_scraped: bool,
    /// Whether its rows are pushed over OTLP.
    pub is_pushed: bool,
    /// Whether history keeps its past.
    pub is_kept: bool,
    aggregate: usize,
    /// The position of its keys in those of a group.
    pub keys: RowKeys,
    ids: RandomState,
}

impl Watched {
    /// The id of the row with this key: a keyed hash, so two rows have the same one with a chance
    /// of 1 in 2^64.
    pub fn row_id(&self, key: &[u8]) -> u64 {
        self.ids.hash_one(key).max(FIRST_ID)
    }

    /// The id of the row of a group, if it has one; the row's key is written to `key`.
    pub fn row_of(&self, groups: &KnownGroups, group: u32, key: &mut Vec<u8>) -> Option<u64> {
        let is_other = self.keys.row_of(groups, group, key)?;
        Some(if is_other { OTHER_ID } else { self.row_id(key) })
    }
}

/// The column of each key, in key order; if there is none, the key as written in a definition.
pub fn key_names(definition: &Definition) -> Vec<String> {
    let columns = definition.layout.columns();
    let keys = definition.keys.iter().enumerate();
    keys.map(|(at, key)| {
        let shown = columns.iter().find(|column| column.cell == Cell::Key(at));
        shown.map_or_else(|| key.source.to_string(), |it| it.column.name.clone())
    })
    .collect()
}

/// A label for each key, by its name in the letters that labels may have; another name where two
/// would be the same, or one `is_taken`.
pub(crate) fn label_names(
    keys: &[String],
    prefix: &str,
    is_taken: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for key in keys {
        let mut name = key.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) && !name.starts_with(prefix) {
            name.insert_str(0, prefix);
        }
        while is_taken(&name) || names.contains(&name) {
            name.push('_');
        }
        names.push(name);
    }
    names
}

/// Reports that are watched at the same time.
pub type WatchedReports = Arc<[Arc<Watched>]>;

/// The list of watched reports.
#[derive(Debug, Clone, Default)]
pub struct Watchlist(Arc<RwLock<WatchedReports>>);

impl Watchlist {
    /// The current list.
    pub fn now(&self) -> WatchedReports {
        Arc::clone(&self.0.read())
    }
}

/// Gains of the groups of watched reports while the list was unchanged, within one second.
#[derive(Debug)]
pub struct SecondPart {
    /// The reports.
    pub reports: WatchedReports,
    /// Logs with the number of their aggregate.
    logs: Vec<(usize, SecondLog)>,
}

impl SecondPart {
    /// The log of the groups that a report may count.
    pub fn of(&self, report: &Watched) -> Option<&SecondLog> {
        let is_watched = self.reports.iter().any(|it| it.number == report.number);
        let mut logs = self.logs.iter().filter(|_| is_watched);
        logs.find(|(aggregate, _)| *aggregate == report.aggregate).map(|(_, log)| log)
    }

    /// The logs of all aggregates.
    pub fn logs(&self) -> impl Iterator<Item = &SecondLog> {
        self.logs.iter().map(|(_, log)| log)
    }

    /// Drops the gains, which nobody will read; keeps changes of directories.
    pub fn drop_gains(&mut self) {
        self.logs.iter_mut().for_each(|(_, log)| log.drop_gains());
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.logs().map(|it| size_of::<SecondLog>() + it.bytes()).sum::<usize>()
    }
}

/// The watched reports, and their gains.
#[derive(Debug, Default)]
pub(super) struct Watch {
    settings: WatchSettings,
    list: Watchlist,
    left_out: Vec<LeftOut>,
    /// The last number of a report or a directory.
    count: u64,
    /// Gains in the running second before the list changed.
    parts: Vec<SecondPart>,
}

impl Reports {
    /// Starts to log the gains of these reports' groups, until they are taken.
    pub fn watch(&mut self, settings: WatchSettings, pool: &Pool) -> Watchlist {
        self.watch = Watch { settings, ..Watch::default() };
        self.update_watched(pool);
        self.watch.list.clone()
    }

    /// Also watches reports of these names, for alert rules and releases.
    pub fn watch_for_alerts(&mut self, names: Vec<String>, pool: &Pool) {
        self.watch.settings.alerted = names;
        self.update_watched(pool);
    }

    /// The reports that are watched now.
    pub fn watched(&self) -> WatchedReports {
        self.watch.list.now()
    }

    /// Gains in the completed second.
    pub fn take_second(&mut self, pool: &Pool) -> Vec<SecondPart> {
        self.share_out();
        let last = self.take_part(true, pool);
        let mut parts = std::mem::take(&mut self.watch.parts);
        parts.push(last);
        parts
    }

    /// Replaces all directories, after readers lost their knowledge of groups. Call it at the end
    /// of a second.
    pub fn begin_directories(&mut self, pool: &Pool) {
        self.follow_watched(true, pool);
    }

    /// The reports that are not watched for lack of room.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.watch.left_out
    }

    /// Call this after a report was added, or before the aggregate of an unlisted one is removed.
    pub(super) fn update_watched(&mut self, pool: &Pool) {
        let before = self.watch.list.now();
        let settings = &self.watch.settings;
        let mut now: Vec<Arc<Watched>> = Vec::new();
        let (mut stay, mut left_out) = (0, Vec::new());
        // As at a start: those that can be dropped get what the others leave.
        let (last, first): (Vec<_>, Vec<_>) =
            self.entries.iter().partition(|it| it.defined_by.is_droppable());
        for entry in first.into_iter().chain(last) {
            let known = before.iter().find(|it| Arc::ptr_eq(&it.definition, &entry.definition));
            let uses = settings.uses(entry);
            let is_alerted = settings.alerted.contains(&entry.definition.name);
            let is_settled = known.is_some() || before.is_empty();
            let has_room =
                now.len() < settings.reports_max || !entry.defined_by.is_droppable() && is_settled;
            if !is_alerted && !has_room {
                left_out.extend(uses.map(|uses| LeftOut {
                    definition: Arc::clone(&entry.definition),
                    is_kept: uses.is_kept,
                }));
            } else if let Some(known) = known {
                stay += 1;
                now.push(Arc::clone(known));
            } else if is_alerted || uses.is_some() {
                let uses = uses.unwrap_or_default();
                self.watch.count += 1;
                now.push(Arc::new(Watched {
                    number: self.watch.count,
                    definition: Arc::clone(&entry.definition),
                    key_names: key_names(&entry.definition),
                    is_scraped: uses.is_scraped,
                    is_pushed: uses.is_pushed,
                    is_kept: uses.is_kept,
                    aggregate: entry.aggregate,
                    keys: self.aggregate(entry).row_map(entry.report).keys.clone(),
                    ids: RandomState::default(),
                }));
            }
        }
        self.watch.left_out = left_out;
        if (before.len(), now.len()) != (stay, stay) {
            let part = self.take_part(false, pool);
            self.watch.parts.push(part);
            *self.watch.list.0.write() = now.into();
            // New readers know nothing.
            self.follow_watched(before.is_empty(), pool);
        }
    }

    fn take_part(&mut self, is_over: bool, pool: &Pool) -> SecondPart {
        let logs = self.aggregates.iter_mut().enumerate().filter_map(|(at, aggregate)| {
            Some((at, aggregate.as_mut()?.take_second_log(is_over, &pool.strings)?))
        });
        SecondPart { reports: self.watch.list.now(), logs: logs.collect() }
    }

    /// Keeps second logs for the aggregates of watched reports, and for no others. `anew`: with new
    /// directories.
    fn follow_watched(&mut self, anew: bool, pool: &Pool) {
        let list = self.watch.list.now();
        for (at, aggregate) in self.aggregates.iter_mut().enumerate() {
            let Some(aggregate) = aggregate else { continue };
            let reports = list.iter().filter(|report| report.aggregate == at).count();
            let keys = aggregate.scope.group_keys.len();
            if anew || (reports > 0) != aggregate.second_log.is_some() {
                self.watch.count += 1;
                // Earlier gains have been taken.
                let new = || SecondLogWriter::new(self.watch.count, keys, &pool.strings);
                aggregate.second_log = (reports > 0).then(new);
            }
            if let Some(log) = &mut aggregate.second_log {
                log.directory.expect(keys, reports);
            }
        }
        self.share_out();
    }

    /// Divides the remaining memory for this second's logs and known groups among the aggregates of
    /// watched reports.
    fn share_out(&mut self) {
        let bytes_max = self.watch.settings.bytes_max;
        let written: usize = self.watch.parts.iter().map(SecondPart::bytes).sum();
        let logs = self.aggregates.iter_mut().flatten().filter_map(|it| {
            let logged = it.groups.keys.len() * LOGGED_BYTES;
            Some((logged, it.second_log.as_mut()?))
        });
        let mut logs: Vec<_> = logs.collect();
        logs.sort_unstable_by_key(|&(logged, _)| logged);
        let needs: Vec<usize> = logs.iter().map(|it| it.0).collect();
        let known: usize = logs.iter().map(|it| it.1.directory.bytes()).sum();
        let shares = shares(bytes_max.saturating_sub(known + written), &needs);
        for ((_, log), share) in logs.into_iter().zip(shares) {
            log.allow(share);
        }
    }
}

/// Divides `left` by needs, smallest first. Those that need less than an even share get that, the
/// others share the rest. Any surplus is added to all, for new groups.
fn shares(mut left: usize, needs: &[usize]) -> Vec<usize> {
    let others = (1..=needs.len()).rev();
    let shares = needs.iter().zip(others).map(|(&need, others)| {
        let share = need.min(left / others);
        left -= share;
        share
    });
    let mut shares: Vec<usize> = shares.collect();
    let beside = left / needs.len().max(1);
    shares.iter_mut().for_each(|share| *share += beside);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::record::Hasher;
    use crate::merger::Live;
    use crate::merger::test_harness::{self, Limits};

    /// What can be dropped gets the places that the rest leaves, the oldest first, whenever it and
    /// the rest were made.
    #[test]
    fn the_configuration_comes_first_and_those_without_a_place_are_told() {
        let limits = Limits::SMALL;
        let defaults = test_harness::defaults(limits.window);
        let mut live = limits.live(&Hasher::new(), test_harness::with_own(&defaults, &[]));
        let choice = WatchSettings {
            kept: Some(vec!["info".to_owned(), CONFIGURED.to_owned()]),
            reports_max: 3,
            bytes_max: 1 << 20,
            ..WatchSettings::default()
        };
        live.watch(choice, 0, 0);
        let define = |live: &mut Live, name: &str, by: DefinedBy| {
            let form = r#"{"level": "request", "keys": ["+env"]}"#;
            let definition = Arc::new(test_harness::definition(name, form, &defaults));
            assert!(live.reports.define(definition, by, &live.pool).is_none());
        };
        let kept = |live: &Live| {
            let kept = live.reports.watched();
            let kept = kept.iter().filter(|it| it.is_kept);
            let left_out = live.reports.left_out().iter().filter(|it| it.is_kept);
            let left_out = left_out.map(|it| it.definition.name.clone());
            let kept: Vec<String> = kept.map(|it| it.definition.name.clone()).collect();
            (kept.join(" "), left_out.collect::<Vec<String>>().join(" "))
        };
        let is = |kept: &str, left_out: &str| (kept.to_owned(), left_out.to_owned());
        for name in ["a", "b", "c"] {
            define(&mut live, name, DefinedBy::RunTime);
        }
        assert_eq!(kept(&live), is("info a b", "c"));
        define(&mut live, "own", DefinedBy::Configuration("pinbad.toml:1".to_owned()));
        assert_eq!(kept(&live), is("info own a", "b c"));
        assert!(live.reports.remove("a", &mut live.pool));
        assert_eq!(kept(&live), is("info own b", "c"));
        // A rule gets what it needs.
        live.reports.watch_for_alerts(vec!["c".to_owned()], &live.pool);
        assert_eq!(kept(&live), is("info own b c", ""));
        live.reports.watch_for_alerts(Vec::new(), &live.pool);
        assert_eq!(kept(&live), is("info own b", "c"));
        assert!(live.reports.remove("own", &mut live.pool));
        assert_eq!(kept(&live), is("info b c", ""));
    }

    #[test]
    fn who_needs_little_leaves_the_rest_to_the_others() {
        assert_eq!(shares(900, &[10, 20, 1000]), [10, 20, 870]);
        assert_eq!(shares(900, &[10, 600, 1000]), [10, 445, 445]);
        assert_eq!(shares(900, &[0, 100, 200]), [200, 300, 400]);
        assert_eq!(shares(0, &[0, 7]), [0, 0]);
        assert!(shares(900, &[]).is_empty());
    }
}
