//! `active_reports` and `v2_active`: what each report is, how large it is, and what it costs.
//!
//! Made from a [`Look`] on a front end's thread; as many rows as there are reports, which `REPORTS_MAX` bounds.

use super::{Look, ReportLook, float, int, text};
use crate::report::comment::ActiveText;
use crate::value::Value;

/// Where Pinba's server keeps a table, as it would say.
fn table_path(report: &ReportLook) -> Value<'static> {
    text(format!("./pinba/{}", report.definition.name))
}

pub(super) fn active_reports(look: &Look) -> Vec<Vec<Value<'static>>> {
    let texts = |report: &ReportLook| ActiveText::new(&report.definition);
    let ids: Vec<String> = look.reports.iter().map(|it| texts(it).id).collect();
    let requests = look.merge.requests_merged;
    let per_packet = |secs: f64| (requests > 0).then(|| secs * 1e6 / requests as f64);
    look.listed()
        .map(|report| {
            let own = texts(report);
            let sharing = ids.iter().filter(|id| **id == own.id).count();
            let share = look.share_of(report);
            let flags = flags(&own, report);
            vec![
                text(own.id),
                table_path(report),
                text(own.kind),
                text(own.grouping),
                int(report.rows),
                float(share.and_then(|share| per_packet(share.user_secs))),
                float(share.and_then(|share| per_packet(share.system_secs))),
                int(sharing as u64),
                text(flags),
            ]
        })
        .collect()
}

/// Pinba's flags, and what an operator should know beside them.
fn flags(own: &ActiveText, report: &ReportLook) -> String {
    let mut flags: Vec<String> = Vec::new();
    if !own.flags.is_empty() {
        flags.push(own.flags.clone());
    }
    if report.folded_groups > 0 {
        flags.push(format!("folded: {} groups", report.folded_groups));
    }
    if report.usage.short_of_memory {
        flags.push("folded by memory".to_owned());
    }
    if !report.usage.has_histograms {
        flags.push("no percentiles".to_owned());
    }
    flags.join(", ")
}

pub(super) fn v2_active(look: &Look) -> Vec<Vec<Value<'static>>> {
    (1..)
        .zip(look.listed())
        .map(|(id, report)| {
            let usage = &report.usage;
            let flow = usage.flow;
            let share = look.share_of(report);
            // Ticks close when their time comes, whether anything was counted in them or not.
            let tick_closed_ms = look
                .unix_ms
                .saturating_sub(look.mono_ms % usage.ticks.tick_ms);
            vec![
                int(id),
                table_path(report),
                text(report.definition.name.as_str()),
                text(ActiveText::new(&report.definition).v2_kind),
                Value::Float(look.mono_ms.saturating_sub(report.made_ms) as f64 / 1000.0),
                int(report.definition.window.as_secs()),
                int(usage.ticks.count),
                int(report.rows),
                int(usage.heap_bytes as u64),
                Value::Null,                // batches_sent
                Value::Null,                // batches_received
                int(flow.requests_offered), // packets_received
                Value::Null,                // packets_lost
                int(flow.requests_counted), // packets_aggregated
                Value::Null,                // packets_dropped_by_bloom
                Value::Null,                // packets_dropped_by_filters
                Value::Null,                // packets_dropped_by_rfield
                Value::Null,                // packets_dropped_by_rtag
                Value::Null,                // packets_dropped_by_timertag
                int(flow.timers_offered),   // timers_scanned
                int(flow.timers_counted),   // timers_aggregated
                Value::Null,                // timers_skipped_by_bloom
                Value::Null,                // timers_skipped_by_filters
                Value::Null,                // timers_skipped_by_tags
                float(share.map(|share| share.user_secs)),
                float(share.map(|share| share.system_secs)),
                Value::Float(tick_closed_ms as f64 / 1000.0),
                Value::Null, // last_tick_prepare_duration
                Value::Null, // last_snapshot_merge_duration
            ]
        })
        .collect()
}
