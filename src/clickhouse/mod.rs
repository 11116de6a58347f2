//! ClickHouse: collects the history of many machines in one place.
//!
//! ```text
//!   history: pieces --(minute over)--> shipment --(Native, LZ4)--> HTTP --> rollup, coverage, request
//!               \--(published before it was shipped)--> unshipped/
//! ```
//!
//! A unit is the rows of a store, a report and a minute that were shipped together: its part of
//! that minute. Rows replace each other by unit and key, so a unit sent twice counts once, however
//! late ([`history::Shipping`](crate::history::Shipping) defines its content). Without
//! `clickhouse.url` there is no thread and no connection.
//!
//! [`Fleet`] reads everything that was shipped.

mod fleet;
mod native;
mod rows;
mod server;
mod shipper;
mod tables;
mod views;

use crate::config::ClickHouseConfig;
use crate::instruments::Instrument;

/// Stages and waits of its thread.
pub(crate) static INSTRUMENTS: [&Instrument; 2] = [&shipper::SHIP, &server::ANSWER];

/// Checks whether the secret and the certificates of a configuration can be used.
///
/// # Errors
/// The reason why it cannot.
pub fn check(config: &ClickHouseConfig) -> Result<(), String> {
    let is_configured = !config.url.is_empty();
    is_configured.then(|| server::Server::of(config)).transpose().map(drop)
}

pub use self::fleet::Fleet;
pub(crate) use self::fleet::{Counted, FleetRows};
pub use self::shipper::{ShipStatus, ShippingThread};
pub(crate) use self::tables::statements;
pub(crate) use self::views::views;
