//! pinbad: a Pinba-compatible statistics daemon. PHP's UDP packets in, live reports out.
//!
//! Six named calls and one queue, from the socket to the answer. The modules stand in this order:
//!
//! ```text
//! receive::run -> Decoder::decode -> Inlet::publish ‖ Merger::merge -> Pool::append -> Reports::add   ⇐   Catalog
//!    ingest            wire           ingest::ring      merger           pool           report            query
//! ```
//!
//! | thread | how many | does |
//! |---|---|---|
//! | `receive-N` | one a socket | datagrams to records, records to the ring |
//! | `merge` | one | ring to pool and reports; ticks |
//! | `http` | two, and up to a few that read | questions |
//! | main | one | waits for a signal |
//!
//! | memory | fixed at start by |
//! |---|---|
//! | temporary ring | `ingest.temp_pool_size`, `ingest.temp_pool_bytes` |
//! | raw rows | `pool.request_pool_size`, `pool.timer_pool_size` |
//! | texts and tag sets | `pool.words_memory` |
//! | report groups, journals, histograms | `reports.memory` |
//! | name rules, if there are any | the number of `[[rewrite]]` entries |
//!
//! A module may know the ones before it, never the ones after it. `daemon` alone knows all of them. Everything up to
//! `report` is plain code on its own threads; tasks begin at `query`.
//!
//! Beside the path: [`manual`] for those who run it, `load` and `bench` to send packets and to measure, `import` for the
//! reports of an old Pinba, `tail` and `top` to look at a running daemon from a terminal; these three ask it through
//! `client`, over HTTP.

pub mod config;

pub mod wire;

pub mod ingest;

pub mod pool;

pub mod report;

pub mod merger;

pub mod state;

pub mod access;

pub mod query;

#[cfg(feature = "sql")]
pub mod sql;

pub mod series;

pub mod metrics;

pub mod http;

#[cfg(feature = "sql")]
pub mod mysql;

pub mod load;

pub mod client;

pub mod tail;

pub mod top;

pub mod plan;

pub mod daemon;

pub mod reload;

pub mod import;

pub mod bench;

#[cfg(any(test, fuzzing))]
pub mod fuzz;

pub mod args;
pub mod ask;
pub mod clock;
pub mod doctor;
pub mod handed;
pub mod heap;
pub mod limits;
pub mod manual;
pub mod packed;
pub mod shutdown;
pub mod supervisor;
pub mod telemetry;
pub mod value;
