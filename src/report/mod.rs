//! The reports: running aggregates over sliding windows, exact under add and retire.
//!
//! ```text
//!   request --(filters, route)--> group of each family --(tick closes)--> journal --(tick leaves)--> taken away
//!                                    |
//!   a reading of a report  <--(projection: group -> row)
//! ```
//!
//! One engine for every kind of report: a [`Definition`](definition::Definition) says what is counted and how it is
//! shown. Reports that count the same records share a family of groups, so a packet is counted once per family.
//! The merger adds and advances; whoever asks reads under the same lock ([`Live`](crate::merger::Live)). Memory is
//! bounded by `[reports] memory` and `rows_max`: past them new keys are counted under `(other)`.

mod arrivals;
mod budget;
pub mod builtin;
mod chunked;
pub mod comment;
mod counts;
pub mod ddl;
pub mod definition;
mod dimension;
mod family;
pub mod form;
mod groups;
pub mod histogram;
mod journal;
mod projection;
mod read;
pub mod reading;
mod registry;
mod route;
pub mod row_key;
pub mod shape;
pub mod totals;
mod window;

pub use self::arrivals::{Arrival, Arrivals, per_hit};
pub use self::family::Flow;
pub use self::registry::saved::{NotRestored, ReportsCut, ReportsRestore};
pub use self::registry::{Defined, DefinedBy, Entry, Filling, Reports, Usage};
pub use self::window::Ticks;
