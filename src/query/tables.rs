//! The tables in which the daemon speaks of itself: `status`, `active_reports`, `v2_stats`,
//! `v2_active`; with `annotation`, `many_calls` and `releases`.
//!
//! They are read like reports (kind `status`), always exist, and can be created under other names
//! by their COMMENT (`status`, `active` or `active_reports`, `v2/stats`, `v2/active`), as in Pinba.
//! The catalog takes a [`StatusSnapshot`] of everything under one hold of the lock and builds the
//! rows from that, without any lock; the row of `status` has numbers of `/api/v1/status`. Columns
//! are those of [`FixedTable`]. Columns without a counterpart in this daemon are NULL:
//!
//! | table | NULL | why |
//! |---|---|---|
//! | `v2_stats` | `udp_poll_total`, `udp_recv_eagain` | a receiver waits inside its one call; only calls that bring something are counted, as `udp_recv_total` |
//! | `v2_stats` | `udp_batch_send_total`, `udp_batch_send_err` | receivers write into shared blocks; requests are counted, as `udp_packet_send_*` |
//! | `v2_stats` | `repacker_poll_total`, `repacker_recv_total`, `repacker_recv_eagain`, `repacker_batch_send_total`, `repacker_batch_send_by_timer`, `repacker_batch_send_by_size`, `repacker_ru_utime`, `repacker_ru_stime` | receivers repack; their processor time is `udp_ru_*` |
//! | `v2_stats` | `coordinator_batches_received`, `coordinator_batch_send_total`, `coordinator_batch_send_err`, `coordinator_control_requests` | the merger calls the reports; nothing is sent to them, nothing can be refused |
//! | `v2_stats` | `dictionary_mem_hash`, `dictionary_mem_list` | one figure, `dictionary_mem_strings`, for all that `pool.words_memory` is used for |
//! | `v2_active` | `batches_sent`, `batches_received`, `packets_lost` | as above: there are no batches, and no report loses a packet that another one gets |
//! | `v2_active` | `packets_dropped_by_*`, `timers_skipped_by_*` | not told apart: `packets_received - packets_aggregated` and `timers_scanned - timers_aggregated` are their sums |
//! | `v2_active` | `last_tick_prepare_duration`, `last_snapshot_merge_duration` | a tick closes inside a merge; a reading needs no merging of ticks |
//! | all | processor time, where the system has no `/proc` | |
//!
//! Columns with a slightly different meaning:
//!
//! | column | here |
//! |---|---|
//! | `active_reports.ru_utime_per_packet`, `ru_stime_per_packet` | the merger's processor time per request in microseconds, pools included, divided evenly: over the families of reports, then over the reports of a family; summed up over all rows it is all of it |
//! | `active_reports.flags` | also `folded: N groups` while groups (combinations of the keys of all reports that are counted together) are under `(other)` for lack of rows, `folded by memory`, `no percentiles` |
//! | `active_reports.use_cnt` | histogram views of the report included |
//! | `v2_active` | has a row for every report, not only pinba2's |
//! | `v2_active.packets_aggregated`, `timers_aggregated` | counted once for all reports that share their groups, so what only one of them leaves out is in it |
//! | `v2_active.approx_mem_used` | bytes; what reports share is divided evenly |
//! | `v2_active.ru_utime`, `ru_stime` | the merger's, divided as above |
//! | `v2_stats.udp_packet_send_*` | requests put into the temporary pool, and those that gave way there |
//! | `v2_stats.coordinator_ru_*` | the merger's |

use std::sync::Arc;

use serde_json::Value as Json;

use super::create_table::{self, CreateTable};
use super::samples;
use super::table::{Rows, Table};
use crate::grammar::FixedTable;
use crate::grammar::native::{FormError, ReportForm};
use crate::profile::definition::SampleReport;
use crate::report::definition::{Defaults, Definition};
use crate::report::{DefinedBy, Usage};
use crate::telemetry::cpu::CpuTimes;
use crate::telemetry::{MergeCounters, SocketCounters};
use crate::value::{Column, Value};

pub(crate) mod active;
pub(super) mod squid;
mod stats;

pub(super) use stats::{BUILD, refusals};

/// The kind of these tables in `GET /api/v1/reports`.
pub const KIND: &str = "status";

/// The kind of reports over samples.
pub const SAMPLES: &str = "sample";

/// The tables under their own names. Raw data is read in other ways.
pub(super) const TABLES: [FixedTable; 7] = [
    FixedTable::Status,
    FixedTable::ActiveReports,
    FixedTable::V2Stats,
    FixedTable::V2Active,
    FixedTable::Annotation,
    FixedTable::ManyCalls,
    FixedTable::Releases,
];

/// Other names of these tables, unless something else has them.
const ALIASES: [(&str, FixedTable); 2] =
    [("active", FixedTable::ActiveReports), ("stats", FixedTable::V2Stats)];

/// A row.
pub(super) type Row = Vec<Value<'static>>;

/// One of these tables, under some name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusTable {
    /// Its name.
    pub name: String,
    /// The fixed table that it shows.
    pub table: FixedTable,
    /// The COMMENT that created it.
    pub comment: String,
    /// Who defined it.
    pub defined_by: DefinedBy,
    /// The report over samples that it shows instead of `table`.
    pub samples: Option<Arc<SampleReport>>,
}

impl StatusTable {
    /// A table, or a report over samples, from a form.
    pub fn new(
        form: &ReportForm,
        table: FixedTable,
        samples: Option<SampleReport>,
        defined_by: DefinedBy,
    ) -> Self {
        let comment = match &samples {
            Some(report) => create_table::samples(&form.name, &report.into(), Vec::new()).comment,
            None => form.comment.as_deref().unwrap_or(table.comment()).to_owned(),
        };
        Self { name: form.name.clone(), table, comment, defined_by, samples: samples.map(Arc::new) }
    }

    /// The tables that always exist.
    pub fn built_in() -> Vec<Self> {
        TABLES.map(Self::of).into()
    }

    /// A table under its own name.
    pub(super) fn of(table: FixedTable) -> Self {
        let form = ReportForm::of_comment(table.name(), table.comment());
        Self::new(&form, table, None, DefinedBy::BuiltIn)
    }

    /// Its columns.
    pub fn columns(&self, defaults: &Defaults) -> Vec<Column> {
        match &self.samples {
            Some(report) => samples::columns(report),
            None => self.table.columns(defaults),
        }
    }

    /// The statement that creates it.
    pub fn create_table(&self, name: &str, defaults: &Defaults) -> CreateTable {
        match &self.samples {
            Some(report) => {
                create_table::samples(name, &ReportForm::from(&**report), self.columns(defaults))
            }
            None => create_table::fixed(name, self.table, defaults),
        }
    }

    /// Its form.
    pub fn form(&self) -> ReportForm {
        match &self.samples {
            Some(report) => ReportForm { name: self.name.clone(), ..ReportForm::from(&**report) },
            None => ReportForm::of_comment(&self.name, &self.comment),
        }
    }

    /// The name behind an alias.
    pub fn aliased(name: &str) -> Option<&'static str> {
        ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, table)| table.name())
    }

    /// The numbers of the columns by which rows can be selected.
    pub fn key_columns(&self) -> Vec<usize> {
        let keys = match (&self.samples, self.table) {
            (Some(report), _) => 0..report.keys.len(),
            // All but id and time.
            (None, FixedTable::Sample) => 2..25,
            // Up to the state.
            (None, FixedTable::StatRequest) => 0..9,
            (None, FixedTable::ActiveReports | FixedTable::V2Active) => 0..4,
            (None, FixedTable::SquidSwap | FixedTable::SquidSavings | FixedTable::ManyCalls) => {
                0..3
            }
            _ => 0..0,
        };
        keys.collect()
    }

    /// The rows of a table over a snapshot.
    pub fn read(&self, look: &StatusSnapshot, defaults: &Defaults) -> Vec<Row> {
        let rows = match self.table {
            FixedTable::ActiveReports => active::active_reports(look),
            FixedTable::V2Active => active::v2_active(look),
            FixedTable::V2Stats => vec![stats::v2_stats(look)],
            // None of these is ever created.
            _ => Vec::new(),
        };
        // Columns without a counterpart here are NULL.
        let columns = self.table.columns(defaults);
        rows.iter().map(|it| row_of(&columns, it)).collect()
    }

    /// The table with these rows.
    pub fn with_rows(&self, rows: Vec<Row>, defaults: &Defaults) -> Box<dyn Table> {
        let columns = self.columns(defaults).into();
        Box::new(Rows { columns, rows })
    }
}

/// The meaning of a form.
#[derive(Debug, Clone, PartialEq)]
pub enum FormTarget {
    /// A report.
    Report(Box<Definition>),
    /// One of these tables under another name, or that of samples, summed by a report.
    Table(FixedTable, Option<SampleReport>),
}

/// Reads a form for a report or one of these tables.
///
/// # Errors
/// As for [`ReportForm::definition`]; tables of raw data cannot be created.
pub fn read_form(form: &ReportForm, defaults: &Defaults) -> Result<FormTarget, FormError> {
    match form.definition(defaults) {
        Ok(definition) => Ok(FormTarget::Report(Box::new(definition))),
        Err(FormError::Samples(report)) => Ok(FormTarget::Table(FixedTable::Sample, Some(report))),
        Err(FormError::Fixed(table))
            if TABLES.contains(&table) || FixedTable::SQUID.contains(&table) =>
        {
            Ok(FormTarget::Table(table, None))
        }
        Err(error) => Err(error),
    }
}

/// The data behind all these tables, at one moment.
#[derive(Debug)]
pub struct StatusSnapshot {
    /// The reports, including histogram views, in order.
    pub reports: Vec<ReportStatus>,
    /// Number of aggregates.
    pub families: usize,
    /// Monotonic milliseconds.
    pub mono_ms: u64,
    /// Wall clock, milliseconds since 1970.
    pub unix_ms: u64,
    /// Monotonic milliseconds when the daemon started.
    pub started_ms: u64,
    /// Sums over the sockets.
    pub sockets: SocketCounters,
    /// The merger.
    pub merge: MergeCounters,
    /// Number of distinct texts, and their bytes.
    pub strings: (u64, u64),
    /// The whole process.
    pub process_cpu: Option<CpuTimes>,
    /// All receivers.
    pub receivers_cpu: Option<CpuTimes>,
    /// The merger.
    pub merger_cpu: Option<CpuTimes>,
}

impl StatusSnapshot {
    /// The reports with a row: histogram views are another view of one of them.
    fn listed(&self) -> impl Iterator<Item = &ReportStatus> {
        self.reports.iter().filter(|report| !report.definition.layout.is_histogram_view())
    }

    /// A report's share of the merger's processor time.
    fn share_of(&self, report: &ReportStatus) -> Option<CpuTimes> {
        let shares = (self.families * report.usage.sharing).max(1) as f64;
        self.merger_cpu.map(|all| CpuTimes {
            user_secs: all.user_secs / shares,
            system_secs: all.system_secs / shares,
        })
    }
}

/// One report at one moment.
#[derive(Debug)]
pub struct ReportStatus {
    /// Its definition.
    pub definition: Arc<Definition>,
    /// Current number of rows.
    pub rows: u64,
    /// Groups of its aggregate under `(other)` for lack of rows: combinations of keys, so several
    /// may be one key of this report.
    pub folded_groups: u64,
    /// Its memory and counts.
    pub usage: Usage,
    /// Monotonic milliseconds at its creation.
    pub made_ms: u64,
}

/// The row of an object: of each column the member of its name, as text if it has members itself;
/// NULL if there is none.
pub(super) fn row_of(columns: &[Column], object: &Json) -> Row {
    let value = |column: &Column| match &object[&column.name] {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Int((*truth).into()),
        Json::String(member) => text(member),
        Json::Number(number) => number.as_u64().map_or_else(|| float(number.as_f64()), int),
        further => text(further.to_string()),
    };
    columns.iter().map(value).collect()
}

/// A count as a value.
pub(crate) fn int(count: u64) -> Value<'static> {
    i64::try_from(count).map_or(Value::Float(count as f64), Value::Int)
}

/// A number as a value, NULL if unknown.
pub(super) fn float(number: Option<f64>) -> Value<'static> {
    number.map_or(Value::Null, Value::Float)
}

pub(super) fn text(text: impl Into<String>) -> Value<'static> {
    Value::Text(text.into().into())
}

#[cfg(test)]
mod tests;
