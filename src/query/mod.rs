//! Reading: what can be asked of the daemon.
//!
//! Every front end (HTTP, SQL, the MySQL wire, metrics) sees only the [`source::Source`] and the
//! [`table::Table`]s that it gives out. A table is a finished answer: owned, without locks, bounded by what the pools and
//! reports hold, so a slow client can hold on to memory but never to a lock. What may be asked at once is bounded by the front
//! end. From here on, and only from here on, there are asynchronous tasks; the source itself is synchronous code.
//!
//! Nothing here may stop the daemon: what goes wrong becomes an [`error::QueryError`], which each front end
//! translates once into its own terms.

pub mod error;

pub mod table;

pub mod source;

pub mod raw;

pub mod status;

pub mod tables;

pub mod definitions;

pub mod catalog;
