//! The manual: pages for those who run pinbad, beside the README. [`index`] lists them.
//!
//! Each page is a Markdown file in `src/manual/`, which reads well on its own; here they are part
//! of `cargo doc`. A page that no longer says what the code does is a defect like any other: change
//! both together.

#[doc = include_str!("manual/access.md")]
pub mod access {}
#[doc = include_str!("manual/alerts.md")]
pub mod alerts {}
#[doc = include_str!("manual/changes.md")]
pub mod changes {}
#[doc = include_str!("manual/clickhouse.md")]
pub mod clickhouse {}
#[doc = include_str!("manual/configuration.md")]
pub mod configuration {}
#[doc = include_str!("manual/differences.md")]
pub mod differences {}
#[doc = include_str!("manual/history.md")]
pub mod history {}
#[doc = include_str!("manual/http.md")]
pub mod http {}
#[doc = include_str!("manual/index.md")]
pub mod index {}
#[doc = include_str!("manual/instruments.md")]
pub mod instruments {}
#[doc = include_str!("manual/metrics.md")]
pub mod metrics {}
#[doc = include_str!("manual/migration.md")]
pub mod migration {}
#[doc = include_str!("manual/mysql.md")]
pub mod mysql {}
#[doc = include_str!("manual/operations.md")]
pub mod operations {}
#[doc = include_str!("manual/otlp.md")]
pub mod otlp {}
#[doc = include_str!("manual/pages.md")]
pub mod pages {}
#[doc = include_str!("manual/php.md")]
pub mod php {}
#[doc = include_str!("manual/reports.md")]
pub mod reports {}
#[doc = include_str!("manual/restart.md")]
pub mod restart {}
#[doc = include_str!("manual/speed.md")]
pub mod speed {}
#[doc = include_str!("manual/sql.md")]
pub mod sql {}
#[doc = include_str!("manual/squid.md")]
pub mod squid {}
#[doc = include_str!("manual/stat.md")]
pub mod stat {}
#[doc = include_str!("manual/tables.md")]
pub mod tables {}
#[doc = include_str!("manual/terminal.md")]
pub mod terminal {}
#[doc = include_str!("manual/trust.md")]
pub mod trust {}
