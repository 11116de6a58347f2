//! `active_reports` and `v2_active`: the kind, size and cost of each report.
//!
//! Made from a [`StatusSnapshot`] on a front end's thread. There are as many rows as reports, which
//! `REPORTS_MAX` bounds.

use serde_json::{Value as Json, json};

use super::{ReportStatus, StatusSnapshot};
use crate::report::definition::v1_kinds::Tags;
use crate::report::definition::{Definition, Key, KeySource, Level};

/// Returns the path of a table in the notation of Pinba's server.
fn table_path(report: &ReportStatus) -> String {
    format!("./pinba/{}", report.definition.name)
}

pub(super) fn active_reports(look: &StatusSnapshot) -> Vec<Json> {
    let ids: Vec<String> = look.reports.iter().map(|it| id(&it.definition)).collect();
    let requests = look.merge.requests_merged.get();
    let per_packet = |secs: f64| (requests > 0).then(|| secs * 1e6 / requests as f64);
    look.listed()
        .map(|report| {
            let own = id(&report.definition);
            let sharing = ids.iter().filter(|id| **id == own).count();
            let share = look.share_of(report);
            json!({
                "id": own,
                "name": table_path(report),
                "kind": report.definition.kind.name(),
                "type": grouping(&report.definition),
                "results_cnt": report.rows,
                "ru_utime_per_packet": share.and_then(|share| per_packet(share.user_secs)),
                "ru_stime_per_packet": share.and_then(|share| per_packet(share.system_secs)),
                "use_cnt": sharing,
                "flags": flags(report),
            })
        })
        .collect()
}

/// Returns Pinba's own key of a report: type number, `|param`..., `|condition=value`...; for other
/// reports the COMMENT, or the name if there is none.
pub(crate) fn id(definition: &Definition) -> String {
    let comment = definition.comment.as_deref().unwrap_or(&definition.name);
    let Some((kind, number)) = definition.v1_kind() else { return comment.to_owned() };
    let mut sections = comment.split(':').skip(1);
    // Base reports ignore their params.
    let params = sections.next().filter(|_| kind.tags != Tags::None);
    let parts = params.into_iter().chain(sections.next()).filter(|section| !section.is_empty());
    let parts = parts.flat_map(|section| section.split(','));
    parts.fold(number.to_string(), |id, part| id + "|" + part)
}

/// Returns the keys of a report's rows: `grouped by script_name, status`.
pub(super) fn grouping(definition: &Definition) -> String {
    let names: Vec<String> = definition.keys.iter().map(|key| key.source.to_string()).collect();
    match names.is_empty() {
        true => "all requests in one row".to_owned(),
        false => format!("grouped by {}", names.join(", ")),
    }
}

/// Returns Pinba's flags, and additions that an operator should know.
pub(super) fn flags(report: &ReportStatus) -> String {
    let (definition, groups, usage) = (&report.definition, report.folded_groups, &report.usage);
    let folded = format!("folded: {groups} groups");
    let is_tag = |key: &Key| !matches!(key.source, KeySource::Field(_));
    let flags = [
        (!definition.filters.is_empty(), "conditional"),
        (definition.keys.iter().any(is_tag), "tagged"),
        (!definition.keys.is_empty(), "indexed"),
        (groups > 0, folded.as_str()),
        (usage.short_of_memory, "folded by memory"),
        (!usage.has_histograms, "no percentiles"),
    ];
    let flags = flags.into_iter().filter_map(|(is_set, flag)| is_set.then_some(flag));
    flags.collect::<Vec<&str>>().join(", ")
}

pub(super) fn v2_active(look: &StatusSnapshot) -> Vec<Json> {
    (1..).zip(look.listed()).map(|(id, report)| v2_report(look, id, report)).collect()
}

fn v2_report(look: &StatusSnapshot, id: u64, report: &ReportStatus) -> Json {
    let (definition, usage, flow) = (&report.definition, &report.usage, &report.usage.flow);
    let share = look.share_of(report);
    let kind = match definition.level {
        Level::Packet => "report_by_packet_data",
        Level::Request => "report_by_request_data",
        Level::Timer => "report_by_timer_data",
    };
    let uptime_ms = look.mono_ms.saturating_sub(report.made_ms);
    // Ticks close on time, whether they counted anything or not.
    let since_tick_ms = look.mono_ms % usage.ticks.tick_ms;
    let tick_closed_ms = look.unix_ms.saturating_sub(since_tick_ms);
    json!({
        "id": id,
        "table_name": table_path(report),
        "internal_name": definition.name.as_str(),
        "kind": kind,
        "uptime": uptime_ms as f64 / 1000.0,
        "time_window_sec": definition.window.as_secs(),
        "tick_count": usage.ticks.count,
        "approx_row_count": report.rows,
        "approx_mem_used": usage.heap_bytes as u64,
        "packets_received": flow.requests_offered,
        "packets_aggregated": flow.requests_counted,
        "timers_scanned": flow.timers_offered,
        "timers_aggregated": flow.timers_counted,
        "ru_utime": share.map(|share| share.user_secs),
        "ru_stime": share.map(|share| share.system_secs),
        "last_tick_time": tick_closed_ms as f64 / 1000.0,
    })
}
