//! The promises of the daemon, each asked of the real thing: it is started on ports of its own,
//! gets real packets by UDP and is asked over HTTP. One binary, so that it is linked once.
//!
//! `harness` starts and stops daemons, in this process (with a clock that a test moves) or as the
//! program itself. No test sleeps for a fixed time: whatever takes time is asked for until it is
//! there, or until a deadline that is an error. Every test stops what it started.

#![allow(clippy::unwrap_used, reason = "a test may say `cannot happen` in the shortest way")]

/// Tables of cases, and checks that show what they saw.
#[macro_use]
mod cases;

/// Seeded chance.
mod dice;
/// Figures that must agree, whichever way they are asked for.
mod figures;
/// Starting and stopping daemons, sending packets, asking over HTTP.
mod harness;
/// A MariaDB of the test's own.
#[cfg(feature = "sql")]
mod mariadb;
/// The packets that tests send, and what they have to become.
mod packets;
/// A terminal for programs that want one.
mod screen;

/// Who may ask, and that secrets are not seen.
mod access;
/// Rules that fire and end, and who is told: a real Alertmanager, and a webhook.
mod alerts;
/// Annotations: notes that people make of events.
mod annotations;
/// Reports made while packets pour in.
mod backfill;
/// The receivers that the bench `daemon` starts, and how they end.
mod bench;
/// The pages in headless Chromium.
mod browser;
/// The capacity of the buffers while the merger stands still.
mod burst;
/// What changed from one span to another, heat maps, calls per request.
#[cfg(feature = "sql")]
mod changes;
/// Rows of history in ClickHouse.
#[cfg(feature = "sql")]
mod clickhouse;
/// The passage of time: rows and reports expire by ticks; a wall clock that jumps affects neither.
mod clock;
/// Where data is kept, and folders that cannot be written.
mod folders;
/// The past on disk: restarts, folders that cannot be used, what the status says.
#[cfg(feature = "sql")]
mod history;
/// Packets that mean harm.
mod hostile;
/// Every address and parameter of HTTP, over data that came by UDP.
mod http;
/// Logs that are imported into the past.
#[cfg(feature = "sql")]
mod import_log;
/// Every datagram ends in exactly one counter, whatever it is.
mod ingest;
/// Killed at any moment, again and again: what is there afterwards.
mod killed;
/// `pinbad load` and `pinbad demo` against the daemon.
mod load;
/// No memory per packet, counted.
mod memory;
/// `/metrics`: counters that only grow, `promtool`, a real Prometheus.
mod metrics;
/// Every kind of report against a naive recount of what was sent.
mod model;
/// MySQL's clients, real ones, and one that behaves badly.
#[cfg(feature = "sql")]
mod mysql;
/// Operator tools: supervisor, doctor, man pages, completions, systemd units.
mod operate;
/// Spans of OpenTelemetry, over HTTP: bodies of PHP, the SDKs of Python and Node.
mod otlp;
mod otlp_push;
/// More than fits: what gives way is counted, and reports stay right.
mod overload;
/// The pages as they are sent: sizes, headers, escaping, numbers.
mod page;
/// Reports over spans of the past, over HTTP, and what others read from the files.
#[cfg(feature = "sql")]
mod past;
/// Pages over spans of the past.
#[cfg(feature = "sql")]
mod past_pages;
/// Raw requests of the past, over HTTP and SQL.
#[cfg(feature = "sql")]
mod past_requests;
/// Raw timers of the past by any tags, on pages.
#[cfg(feature = "sql")]
mod past_timers;
/// Real PHP with the stock extension.
mod php;
/// Everything full, and the memory that `check` promises.
mod plan;
/// The commands of the README and of the manual, as they stand there.
mod readme;
/// Releases: marked, judged, there after a restart.
mod releases;
/// The base reports against a recount of the packets.
mod reports;
/// Restarts: rows, reports and counters survive, and so does traffic that arrives meanwhile.
mod restart;
/// Name rules in the running daemon.
mod rewrite;
/// Reports made at run time, what is kept of them, and the tables in which the daemon speaks of
/// itself.
mod runtime;
/// No descriptors left, readers that do not read.
mod scarce;
/// The last hour over HTTP.
mod series;
/// Starting, checking and stopping the program: signals, exit codes, ports that are taken, bad
/// configurations.
mod shutdown;
/// Statements over HTTP.
#[cfg(feature = "sql")]
mod sql;
#[cfg(feature = "sql")]
mod sql_history;
/// Statements against a real MariaDB with the same rows.
#[cfg(feature = "sql")]
mod sql_mariadb;
/// Squid's logs, over the network and from files; a real Squid.
mod squid;
/// Samples of PHP's stat extension, of which there is a stand-in.
mod stat;
/// The folder of the state as others on the machine see it.
mod state;
/// Requests as they pass, over HTTP.
mod stream;
/// `pinbad tail`.
mod tail;
/// `pinbad top`, on a terminal and without.
mod top;
