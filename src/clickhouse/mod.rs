//! ClickHouse: what history writes on many machines, in one place.
//!
//! ```text
//!   history: pieces --(minute over)--> shipment --(Native, LZ4)--> HTTP --> rollup, coverage, request
//!               \--(published before it was shipped)--> unshipped/
//! ```
//!
//! A unit is the rows of a store, a report and a minute that were shipped together, its part of that minute. Rows
//! replace each other by unit and key, so a unit that is sent twice counts once, however late
//! ([`history::Shipping`](crate::history::Shipping) says what belongs to it). Without `clickhouse.url` there is no thread and no connection.
//!
//! [`Fleet`] reads what all of them have shipped.

mod fleet;
mod native;
mod requests;
mod rollups;
mod server;
mod sink;
mod tables;
mod views;

use crate::instruments::Instrument;

/// What its thread does, and waits for.
pub(crate) static INSTRUMENTS: [&Instrument; 2] = [&sink::SHIP, &server::ANSWER];

pub use self::fleet::Fleet;
pub(crate) use self::fleet::{Counted, FleetRows, Points};
pub use self::sink::{ShipFrom, ShipStatus, Sink};
pub use self::tables::statements;
pub use self::views::views;
