//! The reports: running aggregates over sliding windows, exact under add and expire.
//!
//! The path of a record, a few dozen at a time, aggregate by aggregate:
//!
//! ```text
//!   Reports::add                 Arrivals: requests that the pool took in, with their timers
//!    -> RecordDeltas::work_out   a Delta each: times, bytes, hits, its sample; once for all aggregates
//!    -> Aggregate::assign        its group: origin and tag sets -> classes -> number, by arrays of the GroupCache
//!    -> Aggregate::look_up       if it is new there: filters, KeyIds, KeyTable; a row in every RowMap
//!    -> Groups::find_slots       of all, before the first is counted: what they wait for overlaps
//!    -> RunningTick::count       two cache lines of the group's Front: sums, and the sample after earlier ones
//!    -> RunningTick::make_room   samples of a full front go to Blocks
//!    -> overflow::relieve        if the Budget is exceeded: gains of rare groups go to `(other)`
//! ```
//!
//! The path of a second and of a tick, a few thousand groups at a time, between which readers get
//! the lock:
//!
//! ```text
//!   Reports::cut_some            the wall clock's second is over
//!    -> RunningTick::cut_some    fronts are settled into slots
//!    -> SecondLogWriter::write   what groups gained, by their number in the Directory, if somebody reads it
//!   Reports::take_second         a SecondLog per aggregate, of which the reader makes rows (see `delta`)
//!   Reports::advance_some        a tick is over
//!    -> Aggregate::retire_some   a tick leaves the window: its TickLog is subtracted, empty groups are removed,
//!                                their memory is given back
//!    -> Aggregate::settle_some   slots are settled and measured
//!    -> Aggregate::close_some    and moved to the TickLogs and into their Group
//!    -> close_together           if they do not fit in the Allowance: rare groups go to `(other)`
//!    -> Aggregate::begin_tick    keys under `(other)` get rows, if there are some
//! ```
//!
//! The path of an answer, a few hundred groups at a time: `read_into` adds groups to their rows,
//! then reads keys and histograms of the selected rows; [`ColumnLayout`](layout::ColumnLayout)
//! makes columns of the [`Reading`](read::reading::Reading).
//!
//! One engine serves every kind of report: a [`Definition`](definition::Definition) says what is
//! counted and how it is shown. Reports that count the same records share an aggregate, so a packet
//! is counted once per aggregate. The merger adds and advances; readers read under the same lock
//! ([`Live`](crate::merger::Live)). Memory is bounded by `[reports] memory` and `rows_max`: past
//! them new keys overflow into `(other)`.
//!
//! Its words, each for one thing:
//!
//! | word | means |
//! |---|---|
//! | record | a request or a timer that is counted |
//! | delta | what one record adds |
//! | gain | totals, extremes and histogram of a group or row over some time |
//! | aggregate | the groups that reports on the same records share; its *scope* says which |
//! | group | the records with equal values of all group keys: the finest row |
//! | slot, front | the gain of a group in the running tick; its part that records write to |
//! | tick, tick log | a slice of the window; the gains in it, until they are subtracted |
//! | second log | the gains of an aggregate in a second, for charts, metrics and history |
//! | row | the groups that a report shows as one; the *overflow row* is `(other)` |
//! | definition, layout | what a report counts; its columns |
//! | reading | a report at one moment |
//!
//! | part | files |
//! |---|---|
//! | definitions | `definition`, which `grammar` parses; `v1_kinds` |
//! | live reports | `registry`: `time` advances it, `watch` logs seconds, `snapshot` saves it |
//! | aggregation | `arrivals`, `aggregate` (`assign`, `close`), `group_key`, `group_cache`, `key_table`, `chunked`, `window` |
//! | groups | `groups` (`running_tick`, `slot`, `cut_second`; `closed_ticks`) |
//! | gains | `totals`, `histogram` (`counts`; quantiles), `encoded_gain`, `tick_log`, `second_log`, `directory` |
//! | overflow | `budget` (memory), `aggregate::overflow`, `groups::move_slots`; `row_map` (`rows_max`) |
//! | reading | `row_map`, `read` (`selection`, `reading`), `aggregate::counted_meanwhile`, `columns`, `layout`, `row_key` |

mod aggregate;
mod arrivals;
mod budget;
mod chunked;
pub(crate) mod columns;
pub mod definition;
mod directory;
pub(crate) mod encoded_gain;
mod group_cache;
mod group_key;
mod groups;
pub mod histogram;
mod key_table;
pub mod layout;
pub mod read;
pub(crate) mod registry;
pub mod row_key;
mod row_map;
mod second_log;
mod tick_log;
pub mod totals;
mod window;

pub use self::aggregate::Flow;
pub(crate) use self::aggregate::snapshot::AggregateCut;
pub use self::aggregate::snapshot::{SavedAggregate, SavedPart};
pub use self::arrivals::Arrivals;
pub use self::definition::DefinedBy;
pub use self::directory::KnownGroups;
pub(crate) use self::group_key::field_string;
pub use self::registry::snapshot::{NotRestored, ReportsCut, ReportsRestore};
pub(crate) use self::registry::watch::label_names;
pub use self::registry::watch::{
    CONFIGURED, FIRST_ID, LeftOut, OTHER_ID, SecondPart, TOTAL_ID, WatchSettings, Watched,
    WatchedReports, Watchlist, key_names,
};
pub use self::registry::{Entry, Filling, Reports, Usage, Version};
pub use self::second_log::SecondLog;
pub use self::window::Ticks;
