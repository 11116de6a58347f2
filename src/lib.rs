//! pinbad: a Pinba-compatible statistics daemon. PHP's UDP packets in, live reports out.
//!
//! Six named calls and one queue, from the socket to the answer. The modules stand in this order:
//!
//! ```text
//! receive::run -> Decoder::decode -> Producer::publish ‖ Merger::merge -> Pool::append -> Reports::add   ⇐   Catalog
//!  input::udp      input::pinba          ring            merger          pool           report           query
//! ```
//!
//! | thread | how many | does |
//! |---|---|---|
//! | `receive-N` | one a socket | datagrams to records, records to the ring |
//! | `otlp-N` | one an `[[otlp_input]]` | what waited of traces to the ring |
//! | `otlp_input` | two an `[[otlp_input]]` | bodies with spans |
//! | `squid-N` | one a `[[squid]]` entry of connections or a file | the same with lines |
//! | `stat-N` | one a `[[stat]]` entry | what its socket has to a queue |
//! | `profile` | one, with a `[[stat]]` | queues to samples in their pool |
//! | `merge` | one | ring to pool and reports; ticks |
//! | `series` | one | what groups gained, second by second, to the last hour and `/metrics` |
//! | `otlp-push` | one, with `otlp.url` | what rows gained, and own counters, to a server of OpenTelemetry |
//! | `history`, `requests` | one each, with `history.dir` | rows and files of the past on disk; raw requests for it |
//! | `clickhouse` | one, with `clickhouse.url` | what history has written, to ClickHouse |
//! | `alerts` | one, with an `[[alert]]` | rules over what rows gained in their windows |
//! | `alert-send` | one a receiver | who fires and who does not any more, to Alertmanager or a webhook |
//! | `releases` | one, with a `releases.tag` | looks whether the tag is sent; annotations and verdicts |
//! | `http` | two, and up to a few that read | questions |
//! | main | one | waits for a signal |
//!
//! | memory | fixed at start by |
//! |---|---|
//! | temporary ring | `ingest.temp_pool_size`, `ingest.temp_pool_bytes` |
//! | raw rows | `pool.request_pool_size`, `pool.timer_pool_size` |
//! | samples | `profile.pool_size` |
//! | texts and tag sets | `pool.words_memory` |
//! | report groups, journals, histograms | `reports.memory` |
//! | last hour; rows on their way to the disk | `series.memory`; `history.memory` |
//! | windows of rules of alerts | `alerting.memory` |
//! | releases and their scripts | `limits` |
//! | spans that wait, if there is an `[[otlp_input]]` | `limits` |
//! | name rules, if there are any | the number of `[[rewrite]]` entries |
//!
//! A module may know the ones before it, never the ones after it. `daemon` alone knows all of them.
//! Everything up to `report` is plain code on its own threads; tasks begin at `query`.
//!
//! Beside the path: `cli` has one module a command of the program, and [`manual`] is for those who
//! run it.

// History, SQL and its clients are most of the users of some functions.
#![cfg_attr(
    not(feature = "sql"),
    allow(dead_code, unused_imports, unreachable_pub, reason = "the feature `sql` uses it")
)]

#[cfg(test)]
#[macro_use]
#[path = "../tests/it/cases.rs"]
pub(crate) mod cases;

#[cfg(test)]
#[path = "../tests/it/dice.rs"]
pub(crate) mod dice;

pub mod config;

pub mod instruments;

pub mod input;

pub mod ring;

pub mod pool;

pub mod profile;

pub mod report;

pub mod grammar;

pub mod delta;

pub mod merger;

pub mod state;

pub mod access;

pub mod alert;

pub mod release;

#[cfg(feature = "sql")]
pub mod history;

#[cfg(feature = "sql")]
pub mod clickhouse;

pub mod query;

#[cfg(feature = "sql")]
pub mod sql;

pub mod series;

pub mod metrics;

pub mod http;

#[cfg(feature = "sql")]
pub mod mysql;

pub mod daemon;

pub mod cli;

#[cfg(not(feature = "sql"))]
mod without_sql;
#[cfg(not(feature = "sql"))]
pub use without_sql::{clickhouse, history, sql};

#[cfg(any(test, fuzzing))]
#[path = "../tests/fuzz/entries/mod.rs"]
pub mod fuzz;

pub mod backoff;
pub mod clock;
pub mod limits;
pub mod manual;
pub mod shutdown;
pub mod telemetry;
pub mod value;
