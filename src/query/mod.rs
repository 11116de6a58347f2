//! The read side: one interface behind every front end.
//!
//! HTTP, SQL, the MySQL wire and metrics see only the [`catalog::Catalog`] and the
//! [`table::Table`]s that it returns. A table is a finished answer: owned, without locks, bounded
//! by the contents of pools and reports, so a slow client can hold on to memory but never to a
//! lock. Each front end bounds the number of concurrent calls. Asynchronous tasks begin in the
//! front ends; everything here is synchronous.
//!
//! Nothing here may stop the daemon: failures become [`error::QueryError`], which each front end
//! translates once into its own terms.

pub mod error;

pub mod table;

pub mod question;

pub mod answer;

pub mod attribution;

pub mod heatmap;

pub mod requests;

pub mod timer_groups;

mod samples;

pub mod status;

pub mod create_table;

pub mod tables;

pub mod definitions;

pub mod catalog;
