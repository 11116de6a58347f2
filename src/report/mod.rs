//! The reports: running aggregates over sliding windows, exact under add and expire.
//!
//! The path of a record, some dozens at a time, aggregate by aggregate:
//!
//! ```text
//!   Arrivals            requests that the pool took in, with their timers
//!    -> RecordDeltas    what each adds: times, bytes, hits, its sample; once for all aggregates
//!    -> GroupCache      numbers of origin and tag sets -> classes -> number of the group, by arrays
//!    -> look_up         what is new there: filters, key ids, KeyTable; a new group gets its row in every RowMap
//!    -> Groups::count   the two cache lines of the group's Front: sums, and the sample behind those before it
//!    -> Block           samples of a front that was full, one behind the other
//! ```
//!
//! The path of a second and of a tick, some thousand groups at a time, between which readers get
//! the lock:
//!
//! ```text
//!   Reports::cut_some      the wall clock's second is over: fronts are settled into slots,
//!    -> SecondLogWriter    and what groups gained is logged by number, if somebody reads it;
//!    -> Directory          the key of a group that is new to readers goes with it
//!   Reports::take_second   the logs of all aggregates, of which the reader makes rows (see `delta`)
//!   Reports::advance_some  a tick is over: slots go to the TickLog and into their groups,
//!    -> close_some         as far as the Budget has room; the rest goes to `(other)`
//!    -> retire_some        a tick leaves the window: its log is subtracted, groups without anything go
//!    -> forget_gone        their numbers are given away when the GroupCache has forgotten them
//! ```
//!
//! One engine serves every kind of report: a [`Definition`](definition::Definition) says what is
//! counted and how it is shown. Reports that count the same records share an aggregate, so a packet
//! is counted once per aggregate. The merger adds and advances; readers read under the same lock
//! ([`Live`](crate::merger::Live)). Memory is bounded by `[reports] memory` and `rows_max`: past
//! them new keys overflow into `(other)`.
//!
//! | part | files |
//! |---|---|
//! | definitions | `definition`, `comment` (both COMMENT grammars), `v1_kinds`, `form` (TOML and JSON), `builtin`, `ddl` |
//! | aggregation | `arrivals`, `aggregate`, `group_key`, `group_cache`, `groups`, `key_table`, `counts`, `tick_log`, `window`, `gain`, `directory`, `second_log`, `registry` |
//! | overflow | `aggregate::overflow`, `groups::overflow`, `budget` |
//! | reading | `row_map`, `read`, `selection`, `changes`, `reading`, `histogram`, `columns` and `layout` (columns of v1, v2, native), `row_key` |

mod aggregate;
mod arrivals;
mod budget;
pub mod builtin;
mod changes;
mod chunked;
mod columns;
pub mod comment;
pub(crate) mod counts;
pub mod ddl;
pub mod definition;
mod directory;
pub(crate) mod gain;
mod group_cache;
mod group_key;
mod groups;
pub mod histogram;
mod key_table;
pub mod layout;
pub mod native;
pub mod read;
pub mod reading;
pub(crate) mod registry;
pub mod row_key;
mod row_map;
mod second_log;
pub mod selection;
mod tick_log;
pub mod totals;
mod v1_kinds;
pub(crate) mod varint;
mod window;

pub use self::aggregate::Flow;
pub use self::aggregate::snapshot::{SavedAggregate, SavedPart};
pub use self::arrivals::Arrivals;
pub use self::definition::DefinedBy;
pub use self::directory::KnownGroups;
pub(crate) use self::group_key::field_word;
pub use self::registry::snapshot::{NotRestored, ReportsCut, ReportsRestore};
pub use self::registry::watch::{
    CONFIGURED, Choice, FIRST_ID, OTHER_ID, SecondPart, TOTAL_ID, Watched, WatchedReports,
    Watchlist, key_names,
};
pub use self::registry::{Entry, Filling, Reports, Usage, Version};
pub use self::second_log::SecondLog;
pub use self::window::Ticks;
