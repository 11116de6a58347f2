//! The tables that are always there: raw data, the word list, and what the daemon says of itself.
//!
//! They are no reports, so the engine knows nothing of them; a COMMENT may name them (an old dump does), and
//! `pinbad tables` prints them. Their rows are made elsewhere; the columns here are the contract.

use crate::report::definition::Defaults;
use crate::value::ColumnType::{BigInt, Double, Float, Int, Text, Varchar};
use crate::value::{Column, ColumnType};

/// A table that is not a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FixedTable {
    /// Raw requests.
    Request,
    /// Raw timers.
    Timer,
    /// Tags of raw timers.
    TimerTag,
    /// Names of timer tags.
    Tag,
    /// Pinba's own counters.
    Status,
    /// The live reports, Pinba's columns.
    ActiveReports,
    /// pinba2's counters.
    V2Stats,
    /// The live reports, pinba2's columns.
    V2Active,
}

impl FixedTable {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Request,
        Self::Timer,
        Self::TimerTag,
        Self::Tag,
        Self::Status,
        Self::ActiveReports,
        Self::V2Stats,
        Self::V2Active,
    ];

    /// The table's name.
    #[must_use]
    pub const fn table(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Timer => "timer",
            Self::TimerTag => "timertag",
            Self::Tag => "tag",
            Self::Status => "status",
            Self::ActiveReports => "active_reports",
            Self::V2Stats => "v2_stats",
            Self::V2Active => "v2_active",
        }
    }

    /// The COMMENT that names it; `active_reports` also goes by `active`.
    #[must_use]
    pub const fn comment(self) -> &'static str {
        match self {
            Self::V2Stats => "v2/stats",
            Self::V2Active => "v2/active",
            other => other.table(),
        }
    }

    /// The v1 table that a COMMENT names.
    pub(super) fn v1(kind: &str) -> Option<Self> {
        if kind == "active" {
            return Some(Self::ActiveReports);
        }
        Self::ALL.into_iter().find(|table| table.comment() == kind)
    }

    /// Its columns in order. Ids are 64-bit and declared lengths follow what texts are cut at.
    #[must_use]
    pub fn columns(self, defaults: &Defaults) -> Vec<Column> {
        let text = Varchar(defaults.text_bytes_max);
        let script = Varchar(defaults.script_name_bytes_max);
        match self {
            Self::Request => columns(&[
                ("id", BigInt),
                ("hostname", text),
                ("req_count", Int),
                ("server_name", text),
                ("script_name", script),
                ("doc_size", Float),
                ("mem_peak_usage", Float),
                ("req_time", Float),
                ("ru_utime", Float),
                ("ru_stime", Float),
                ("timers_cnt", Int),
                ("status", Int),
                ("memory_footprint", Float),
                ("schema", text),
                ("tags_cnt", Int),
                ("tags", Text),
                ("timestamp", Int),
            ]),
            Self::Timer => columns(&[
                ("id", BigInt),
                ("request_id", BigInt),
                ("hit_count", Int),
                ("value", Float),
            ]),
            Self::TimerTag => columns(&[("timer_id", BigInt), ("tag_id", Int), ("value", text)]),
            Self::Tag => columns(&[("id", Int), ("name", text)]),
            Self::Status => columns(&[
                ("current_temp_pool_size", Int),
                ("current_timer_pool_size", Int),
                ("lost_tmp_records", Int),
                ("invalid_packets", Int),
                ("invalid_request_data", Int),
                ("build_string", Varchar(256)),
                ("dictionary_size", Int),
            ]),
            Self::ActiveReports => columns(&[
                ("id", Varchar(256)),
                ("name", Varchar(256)),
                ("kind", Varchar(32)),
                ("type", Varchar(64)),
                ("results_cnt", Int),
                ("ru_utime_per_packet", Float),
                ("ru_stime_per_packet", Float),
                ("use_cnt", Int),
                ("flags", Varchar(255)),
            ]),
            Self::V2Stats => columns(&V2_STATS),
            Self::V2Active => columns(&V2_ACTIVE),
        }
    }
}

fn columns(list: &[(&str, ColumnType)]) -> Vec<Column> {
    list.iter()
        .map(|&(name, column_type)| Column {
            name: name.to_owned(),
            column_type,
        })
        .collect()
}

const V2_STATS: [(&str, ColumnType); 37] = [
    ("uptime", Double),
    ("ru_utime", Double),
    ("ru_stime", Double),
    ("udp_poll_total", BigInt),
    ("udp_recv_total", BigInt),
    ("udp_recv_eagain", BigInt),
    ("udp_recv_bytes", BigInt),
    ("udp_recv_packets", BigInt),
    ("udp_packet_decode_err", BigInt),
    ("udp_batch_send_total", BigInt),
    ("udp_batch_send_err", BigInt),
    ("udp_packet_send_total", BigInt),
    ("udp_packet_send_err", BigInt),
    ("udp_ru_utime", Double),
    ("udp_ru_stime", Double),
    ("repacker_poll_total", BigInt),
    ("repacker_recv_total", BigInt),
    ("repacker_recv_eagain", BigInt),
    ("repacker_recv_packets", BigInt),
    ("repacker_packet_validate_err", BigInt),
    ("repacker_batch_send_total", BigInt),
    ("repacker_batch_send_by_timer", BigInt),
    ("repacker_batch_send_by_size", BigInt),
    ("repacker_ru_utime", Double),
    ("repacker_ru_stime", Double),
    ("coordinator_batches_received", BigInt),
    ("coordinator_batch_send_total", BigInt),
    ("coordinator_batch_send_err", BigInt),
    ("coordinator_control_requests", BigInt),
    ("coordinator_ru_utime", Double),
    ("coordinator_ru_stime", Double),
    ("dictionary_size", BigInt),
    ("dictionary_mem_hash", BigInt),
    ("dictionary_mem_list", BigInt),
    ("dictionary_mem_strings", BigInt),
    ("version_info", Text),
    ("build_string", Text),
];

const V2_ACTIVE: [(&str, ColumnType); 29] = [
    ("id", BigInt),
    ("table_name", Varchar(128)),
    ("internal_name", Varchar(128)),
    ("kind", Varchar(64)),
    ("uptime", Double),
    ("time_window_sec", BigInt),
    ("tick_count", BigInt),
    ("approx_row_count", BigInt),
    ("approx_mem_used", BigInt),
    ("batches_sent", BigInt),
    ("batches_received", BigInt),
    ("packets_received", BigInt),
    ("packets_lost", BigInt),
    ("packets_aggregated", BigInt),
    ("packets_dropped_by_bloom", BigInt),
    ("packets_dropped_by_filters", BigInt),
    ("packets_dropped_by_rfield", BigInt),
    ("packets_dropped_by_rtag", BigInt),
    ("packets_dropped_by_timertag", BigInt),
    ("timers_scanned", BigInt),
    ("timers_aggregated", BigInt),
    ("timers_skipped_by_bloom", BigInt),
    ("timers_skipped_by_filters", BigInt),
    ("timers_skipped_by_tags", BigInt),
    ("ru_utime", Double),
    ("ru_stime", Double),
    ("last_tick_time", Double),
    ("last_tick_prepare_duration", Double),
    ("last_snapshot_merge_duration", Double),
];
