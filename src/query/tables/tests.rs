//! The daemon's tables about itself, over made-up figures: Pinba's and pinba2's words, and NULL for
//! unknown values.

use super::*;
use crate::grammar::comment::{self, Comment};
use crate::report::Flow;
use crate::report::Ticks;
use crate::telemetry::{MergeCounters, SocketCounters};

fn report(name: &str, comment: &str) -> ReportStatus {
    let defaults = Defaults::default();
    let Ok(Comment::Report(definition)) = comment::parse(name, comment, &defaults) else {
        panic!("{comment}")
    };
    let timers = u64::from(comment.contains("tag"));
    ReportStatus {
        usage: Usage {
            heap_bytes: 4096,
            sharing: 2,
            ticks: Ticks::of(definition.window),
            flow: Flow {
                requests_offered: 1000,
                requests_counted: 900,
                timers_offered: 5000 * timers,
                timers_counted: 70 * timers,
            },
            short_of_memory: false,
            has_histograms: true,
        },
        definition: definition.into(),
        rows: 7,
        folded_groups: 0,
        made_ms: 1_000,
    }
}

fn look() -> StatusSnapshot {
    let sockets = SocketCounters::default();
    sockets.datagrams_received.add(120);
    sockets.received_bytes.add(9_000);
    sockets.batches_received.add(30);
    sockets.requests_decoded.add(115);
    sockets.requests_pushed.add(110);
    sockets.requests_overwritten.add(10);
    let mut invalid = [0; crate::input::record::RejectReason::COUNT];
    invalid[crate::input::record::RejectReason::Truncated as usize] = 3;
    invalid[crate::input::record::RejectReason::TimerTagCounts as usize] = 2;
    sockets.datagrams_invalid.add(&invalid);
    sockets.requests_invalid.add(&invalid);
    let merge = MergeCounters::default();
    merge.requests_merged.add(100);
    let cpu = |user_secs, system_secs| Some(CpuTimes { user_secs, system_secs });
    StatusSnapshot {
        reports: vec![
            report("by_script", "report1::min_time=1"),
            report("view", "hv.report1::min_time=1"),
            report("groups", "tag_info:group"),
            report("packets", "v2/packet/60/no_keys/no_percentiles/no_filters"),
        ],
        families: 2,
        mono_ms: 61_500,
        unix_ms: 1_700_000_000_700,
        started_ms: 500,
        sockets: sockets.counts(),
        merge: merge.counts(),
        strings: (12, 65_536),
        process_cpu: cpu(8.0, 2.0),
        receivers_cpu: cpu(3.0, 1.0),
        merger_cpu: cpu(4.0, 0.5),
    }
}

/// Reads the built-in table of this kind; returns its rows as objects.
fn read(
    table: FixedTable,
    look: &StatusSnapshot,
) -> Vec<serde_json::Map<String, serde_json::Value>> {
    let defaults = Defaults::default();
    let tables = StatusTable::built_in();
    let table = tables.iter().find(|it| it.table == table).unwrap();
    let rows = table.with_rows(table.read(look, &defaults), &defaults);
    assert_eq!(rows.columns(), table.table.columns(&defaults));
    let listed = look.listed().count();
    assert_eq!(rows.len(), if table.table == FixedTable::V2Stats { 1 } else { listed });
    (0..rows.len())
        .map(|row| {
            let cell = |at| match rows.value(row, at) {
                Value::Null => serde_json::Value::Null,
                Value::Int(number) => number.into(),
                Value::Micros(us) => us.into(),
                Value::Float(number) => number.into(),
                Value::Text(text) => text.into_owned().into(),
            };
            let columns = rows.columns().iter().enumerate();
            columns.map(|(at, it)| (it.name.clone(), cell(at))).collect()
        })
        .collect()
}

#[test]
fn active_reports_has_pinbas_texts_and_leaves_views_out() {
    let mut look = look();
    look.reports[0].folded_groups = 17;
    look.reports[2].usage.short_of_memory = true;
    look.reports[2].usage.has_histograms = false;
    let rows = read(FixedTable::ActiveReports, &look);
    assert_eq!(
        serde_json::json!(rows[0]),
        serde_json::json!({
            "id": "9|min_time=1",
            "name": "./pinba/by_script",
            "kind": "base",
            "type": "grouped by script_name",
            "results_cnt": 7,
            // 4 s for 100 requests, over two families of two reports each.
            "ru_utime_per_packet": 10_000.0,
            "ru_stime_per_packet": 1_250.0,
            "use_cnt": 2,
            "flags": "conditional, indexed, folded: 17 groups",
        })
    );
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[1]["name"], "./pinba/groups");
    assert_eq!(rows[1]["kind"], "tag");
    assert_eq!(rows[1]["use_cnt"], 1);
    assert_eq!(rows[1]["flags"], "tagged, indexed, folded by memory, no percentiles");
    assert_eq!(rows[2]["type"], "all requests in one row");
    assert_eq!(rows[2]["flags"], "");
}

#[test]
fn costs_are_null_where_they_are_not_known() {
    let mut look = look();
    look.merger_cpu = None;
    let rows = read(FixedTable::ActiveReports, &look);
    assert!(rows.iter().all(|row| row["ru_utime_per_packet"].is_null()));
    let rows = read(FixedTable::V2Active, &look);
    assert!(rows.iter().all(|row| row["ru_stime"].is_null()));
    // Nothing merged yet: no packet to divide by.
    let mut look = self::look();
    look.merge = MergeCounters::default().counts();
    let rows = read(FixedTable::ActiveReports, &look);
    assert!(rows.iter().all(|row| row["ru_utime_per_packet"].is_null()));
}

#[test]
fn v2_active_has_pinba2s_words() {
    let rows = read(FixedTable::V2Active, &look());
    assert_eq!(
        serde_json::json!(rows[1]),
        serde_json::json!({
            "id": 2, "table_name": "./pinba/groups", "internal_name": "groups",
            "kind": "report_by_timer_data", "uptime": 60.5, "time_window_sec": 900, "tick_count": 120,
            "approx_row_count": 7, "approx_mem_used": 4096,
            "batches_sent": null, "batches_received": null,
            "packets_received": 1000, "packets_lost": null, "packets_aggregated": 900,
            "packets_dropped_by_bloom": null, "packets_dropped_by_filters": null,
            "packets_dropped_by_rfield": null, "packets_dropped_by_rtag": null,
            "packets_dropped_by_timertag": null,
            "timers_scanned": 5000, "timers_aggregated": 70,
            "timers_skipped_by_bloom": null, "timers_skipped_by_filters": null,
            "timers_skipped_by_tags": null,
            "ru_utime": 1.0, "ru_stime": 0.125,
            // Ticks of 7.5 s: the last one closed at 60 s of the monotonic clock, 1.5 s ago.
            "last_tick_time": 1_699_999_999.2,
            "last_tick_prepare_duration": null, "last_snapshot_merge_duration": null,
        })
    );
    assert_eq!(rows[2]["kind"], "report_by_packet_data");
    assert_eq!(rows[2]["timers_scanned"], 0);
}

#[test]
fn v2_stats_and_status_tell_what_was_counted() {
    let look = look();
    let stats = &read(FixedTable::V2Stats, &look)[0];
    for (column, value) in [
        ("uptime", 61.0),
        ("ru_utime", 8.0),
        ("ru_stime", 2.0),
        ("udp_recv_total", 30.0),
        ("udp_recv_bytes", 9000.0),
        ("udp_recv_packets", 120.0),
        ("udp_packet_decode_err", 3.0),
        ("udp_packet_send_total", 110.0),
        ("udp_packet_send_err", 10.0),
        ("udp_ru_utime", 3.0),
        ("udp_ru_stime", 1.0),
        ("repacker_recv_packets", 115.0),
        ("repacker_packet_validate_err", 7.0),
        ("coordinator_ru_utime", 4.0),
        ("coordinator_ru_stime", 0.5),
        ("dictionary_size", 12.0),
        ("dictionary_mem_strings", 65_536.0),
    ] {
        assert_eq!(stats[column].as_f64(), Some(value), "{column}");
    }
    assert_eq!(stats["version_info"], env!("CARGO_PKG_VERSION"));
    assert_eq!(stats["build_string"], BUILD);
    // The NULL columns are exactly those that the documentation of `tables` lists.
    let documentation = include_str!("../tables.rs");
    for (column, value) in stats {
        let listed = documentation
            .lines()
            .filter_map(|line| line.strip_prefix("//! | `v2_stats` | "))
            .filter_map(|line| line.split(" | ").next())
            .any(|columns| columns.contains(&format!("`{column}`")));
        assert_eq!(listed, value.is_null(), "{column}");
    }
}

#[test]
fn only_tables_of_the_daemons_own_can_be_asked_for() {
    let defaults = Defaults::default();
    let ask = |comment: &str| read_form(&ReportForm::of_comment("x", comment), &defaults);
    for (comment, table) in [
        ("active", FixedTable::ActiveReports),
        ("active_reports", FixedTable::ActiveReports),
        ("v2/active", FixedTable::V2Active),
        ("v2/stats", FixedTable::V2Stats),
        ("status", FixedTable::Status),
    ] {
        assert_eq!(ask(comment), Ok(FormTarget::Table(table, None)), "{comment}");
    }
    for comment in ["request", "timer", "timertag", "tag"] {
        assert!(matches!(ask(comment), Err(FormError::Fixed(_))), "{comment}");
    }
    assert!(matches!(ask("report1"), Ok(FormTarget::Report(_))));
    assert_eq!(StatusTable::aliased("active"), Some("active_reports"));
    assert_eq!(StatusTable::aliased("stats"), Some("v2_stats"));
    assert_eq!(StatusTable::aliased("status"), None);
}

#[test]
fn active_reports_speak_pinba() {
    let texts = |comment: &str| {
        let report = report("r", comment);
        (active::id(&report.definition), active::flags(&report))
    };
    for (comment, id, flags) in [
        ("report1", "9", "indexed"),
        ("info", "8", ""),
        ("report18::min_time=1,tag.a=b", "26|min_time=1|tag.a=b", "conditional, indexed"),
        ("tagN_report2:a,b:max_time=1:50", "35|a|b|max_time=1", "conditional, tagged, indexed"),
        ("rtag_info:a", "36|a", "tagged, indexed"),
        ("rtagN_report:a", "41|a", "tagged, indexed"),
    ] {
        assert_eq!(texts(comment), (id.to_owned(), flags.to_owned()), "{comment}");
    }
    assert_eq!(active::grouping(&report("r", "report1").definition), "grouped by script_name");
    assert_eq!(active::grouping(&report("r", "info").definition), "all requests in one row");
}
