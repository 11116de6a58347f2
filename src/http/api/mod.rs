//! The endpoints for programs: reports, raw requests, annotations, SQL, streams, metrics, and their
//! description.

pub(super) mod alerts;
pub(super) mod annotations;
pub(super) mod changes;
pub(super) mod health;
pub(super) mod heatmap;
pub(super) mod imports;
pub(super) mod metrics;
pub(super) mod openapi;
pub(super) mod profile;
pub(super) mod releases;
pub(super) mod reports;
pub(super) mod requests;
pub(super) mod search;
pub(super) mod series;
pub(super) mod sources;
#[cfg_attr(not(feature = "sql"), path = "no_sql.rs")]
pub(super) mod sql;
pub(super) mod stream;
pub(super) mod test_packet;
