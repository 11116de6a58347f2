//! History: the reports of months, on disk, in Parquet files that other programs read too.
//!
//! ```text
//!   delta::Second --(series thread)--> rows of the running minutes --(history thread)--> pieces --> files --> coarser rows
//!                                                    \______________________________________/
//!                                                         reading: a span of one report
//! ```
//!
//! The gain of a report's key in a minute is a [`Row`]; rows of one key and time may be several,
//! and are summed whenever they are read. Minutes are rolled up to hours, hours to days
//! ([`Resolution`]).

pub(crate) mod chart_lines;
mod columns;
mod dataset;
mod disk;
mod file_names;
mod flush;
mod handle;
pub(crate) mod histogram;
pub(crate) mod import;
pub mod inspect;
mod log_of_seconds;
mod manifest;
mod merged;
mod minutes;
pub mod parquet;
mod part;
mod pending;
mod publish;
pub(crate) mod read_plan;
pub(crate) mod read_unit;
pub(crate) mod requests;
mod resolution;
mod retention;
mod row;
pub(crate) mod scan;
mod shipping;
pub(crate) mod sql_columns;
mod store;
pub(crate) mod sums;
mod thread;
mod unflushed;

use crate::instruments::Instrument;

/// Stages and waits of history.
pub(crate) static INSTRUMENTS: [&Instrument; 13] = [
    &requests::COLLECT,
    &thread::FLUSH,
    &thread::FLUSH_REQUESTS,
    &thread::LOG,
    &thread::IMPORT,
    &publish::PUBLISH,
    &requests::PUBLISH_REQUESTS,
    &thread::RETAIN,
    &handle::MEMORY,
    &requests::COPIER,
    &shipping::LOCK,
    &disk::HISTORY_WRITE,
    &disk::HISTORY_SYNC,
];

pub(crate) use self::dataset::{COVERAGE, digest};
pub use self::dataset::{Coverage, Dataset};
pub(crate) use self::disk::READ_TRIES;
pub use self::disk::StoreError;
pub(crate) use self::handle::Earlier;
pub use self::handle::History;
pub use self::minutes::MinuteRollup;
pub use self::part::{Part, Parts, Section};
pub use self::requests::Requests;
pub use self::resolution::Resolution;
pub use self::retention::Retention;
pub use self::row::{Gain, Row};
pub use self::shipping::{Identity, Refused, Shipment, ShipmentRows, Shipping, Unread, Waiting};
pub use self::store::Store;
pub(crate) use self::thread::Writer;
pub use self::unflushed::UnflushedRows;
