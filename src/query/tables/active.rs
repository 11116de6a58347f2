//! `active_reports` and `v2_active`: the kind, size and cost of each report.
//!
//! Made from a [`StatusSnapshot`] on a front end's thread. There are as many rows as reports, which
//! `REPORTS_MAX` bounds.

use super::{ReportStatus, Row, StatusSnapshot, float, int, text};
use crate::report::definition::v1_kinds::Tags;
use crate::report::definition::{Definition, KeySource, Level};
use crate::value::Value;

/// Returns the path of a table in the notation of Pinba's server.
fn table_path(report: &ReportStatus) -> Value<'static> {
    text(format!("./pinba/{}", report.definition.name))
}

pub(super) fn active_reports(look: &StatusSnapshot) -> Vec<Row> {
    let texts = |report: &ReportStatus| ActiveText::new(&report.definition);
    let ids: Vec<String> = look.reports.iter().map(|it| texts(it).id).collect();
    let requests = look.merge.requests_merged.get();
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
                text(report.definition.kind.name()),
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

/// Returns Pinba's flags, and additions that an operator should know.
fn flags(own: &ActiveText, report: &ReportStatus) -> String {
    let (groups, usage) = (report.folded_groups, &report.usage);
    let flags = [
        (!own.flags.is_empty(), own.flags.clone()),
        (groups > 0, format!("folded: {groups} groups")),
        (usage.short_of_memory, "folded by memory".to_owned()),
        (!usage.has_histograms, "no percentiles".to_owned()),
    ];
    let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
    let flags: Vec<String> = flags.map(|(_, flag)| flag).collect();
    flags.join(", ")
}

pub(super) fn v2_active(look: &StatusSnapshot) -> Vec<Vec<(&'static str, Value<'static>)>> {
    (1..).zip(look.listed()).map(|(id, report)| v2_report(look, id, report)).collect()
}

fn v2_report(
    look: &StatusSnapshot,
    id: u64,
    report: &ReportStatus,
) -> Vec<(&'static str, Value<'static>)> {
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
    vec![
        ("id", int(id)),
        ("table_name", table_path(report)),
        ("internal_name", text(definition.name.as_str())),
        ("kind", text(kind)),
        ("uptime", Value::Float(uptime_ms as f64 / 1000.0)),
        ("time_window_sec", int(definition.window.as_secs())),
        ("tick_count", int(usage.ticks.count)),
        ("approx_row_count", int(report.rows)),
        ("approx_mem_used", int(usage.heap_bytes as u64)),
        ("packets_received", int(flow.requests_offered)),
        ("packets_aggregated", int(flow.requests_counted)),
        ("timers_scanned", int(flow.timers_offered)),
        ("timers_aggregated", int(flow.timers_counted)),
        ("ru_utime", float(share.map(|share| share.user_secs))),
        ("ru_stime", float(share.map(|share| share.system_secs))),
        ("last_tick_time", Value::Float(tick_closed_ms as f64 / 1000.0)),
    ]
}

/// The text columns of `active_reports` that follow from the definition alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActiveText {
    /// Pinba's own key of the report: type number, `|param`..., `|condition=value`...; for other
    /// reports the COMMENT, or the name if there is none.
    pub(crate) id: String,
    /// Its grouping: `grouped by script_name, status`.
    pub(crate) grouping: String,
    /// The applicable ones of `conditional`, `tagged`, `indexed`.
    pub(crate) flags: String,
}

impl ActiveText {
    /// The texts of a report.
    pub(crate) fn new(definition: &Definition) -> Self {
        let mut keys = definition.keys.iter().map(|key| &key.source);
        let names: Vec<String> = keys.clone().map(KeySource::to_string).collect();
        let grouping = match names.is_empty() {
            true => "all requests in one row".to_owned(),
            false => format!("grouped by {}", names.join(", ")),
        };
        let is_tagged = keys.any(|key| !matches!(key, KeySource::Field(_)));
        let flags = [
            ("conditional", !definition.filters.is_empty()),
            ("tagged", is_tagged),
            ("indexed", !names.is_empty()),
        ];
        let flags = flags.into_iter().filter_map(|(flag, is)| is.then_some(flag));
        let flags: Vec<&str> = flags.collect();
        Self { id: id(definition), grouping, flags: flags.join(", ") }
    }
}

fn id(definition: &Definition) -> String {
    let comment = definition.comment.as_deref().unwrap_or(&definition.name);
    let Some((kind, number)) = definition.v1_kind() else { return comment.to_owned() };
    let mut sections = comment.split(':').skip(1);
    // Base reports ignore their params.
    let params = sections.next().filter(|_| kind.tags != Tags::None);
    let parts = params.into_iter().chain(sections.next()).filter(|section| !section.is_empty());
    let parts = parts.flat_map(|section| section.split(','));
    parts.fold(number.to_string(), |id, part| id + "|" + part)
}
