//! `/daemon`: how the daemon itself is doing: what it received and how fast, what was lost and why, what it keeps and uses.

use std::time::Instant;

use maud::{Markup, html};
use serde_json::{Map, Value as Json};

use super::frame::{self, Section};
use super::render::View;
use super::show::{self, visible};
use super::table::{Head, bar, narrow_table, table};
use crate::http::error::Problem;
use crate::http::settings::Planned;
use crate::telemetry::{cpu, memory};

/// Counters of what was lost or refused: name, what it means.
#[rustfmt::skip]
const LOSSES: [(&str, &str); 9] = [
    ("kernel_drops", "Packets that the kernel dropped: the socket's buffer was full"),
    ("datagrams_invalid", "Packets that could not be read"),
    ("requests_overwritten", "Requests overwritten in the temporary pool: the merger was behind"),
    ("requests_invalid", "Requests that break the rules"),
    ("elements_mended", "Parts of requests that were repaired or left out"),
    ("rows_evicted", "Raw rows that expired early: a pool was full"),
    ("words_overflowed", "Texts that are shown as (other): no room for more"),
    ("report_keys_folded", "Keys that are counted under (other): no memory for more"),
    ("receive_errors", "Errors of a socket"),
];

/// Counters of what was received.
#[rustfmt::skip]
const RECEIVED: [(&str, &str); 6] = [
    ("datagrams_received", "Packets received"),
    ("received_bytes", "Bytes received"),
    ("requests_decoded", "Requests decoded"),
    ("requests_merged", "Requests in the reports"),
    ("timers_merged", "Timers in the reports"),
    ("merges", "Runs of the merger"),
];

/// What is in memory: name, what it means, and the counter that says how much of it there is room for.
#[rustfmt::skip]
const IN_MEMORY: [(&str, &str, &str); 7] = [
    ("request_rows", "Raw requests", "request_rows_max"),
    ("timer_rows", "Raw timers", "timer_rows_max"),
    ("ring_depth", "Requests that wait for the merger", ""),
    ("dictionary_size", "Distinct texts", ""),
    ("origins", "Distinct combinations of host, server, script, schema, status", ""),
    ("tag_sets", "Distinct sets of tags", ""),
    ("report_families", "Aggregates that a request is counted in", ""),
];

/// What is shown of each socket.
#[rustfmt::skip]
const SOCKET: [(&str, &str); 7] = [
    ("datagrams_received", "Received"),
    ("datagrams_invalid", "Unreadable"),
    ("requests_decoded", "Requests"),
    ("requests_overwritten", "Overwritten"),
    ("kernel_drops", "Dropped by the kernel"),
    ("kernel_queue_bytes", "Waiting in the kernel"),
    ("recv_buffer_granted_bytes", "Buffer"),
];

/// A counter, or the sum of one that is kept by reason.
fn sum(value: &Json) -> f64 {
    match value {
        Json::Object(reasons) => reasons.values().map(sum).sum(),
        other => other.as_f64().unwrap_or(0.0),
    }
}

/// `GET /daemon`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    view.form()?.finish()?;
    let status = view.source.status();
    let reasons = view.source.unready();
    let get = |name: &str| status.get(name).map_or(0.0, sum);
    let main = html! {
        h1 { "Daemon" }
        div #state data-live {
            @if reasons.is_empty() {
                p.good { "Ready: all sockets are bound, and the merger keeps up: its last run began "
                    (show::micros(get("merge_lag_us") as u64)) " late." }
            } @else {
                p.problem { "Not ready: " (visible(&reasons.join("; "))) }
            }
        }
        div.columns #counters data-live { (counters(view, &status)) }
        (memory_plan(&view.app.settings.memory_plan))
        div #sockets data-live { (sockets(&status)) }
    };
    Ok(frame::page(Section::Daemon, "Daemon", &main))
}

fn counters(view: &View<'_>, status: &Map<String, Json>) -> Markup {
    let get = |name: &str| status.get(name).map_or(0.0, sum);
    let used = [cpu::process(), cpu::threads(|name| name == "merge")];
    let used = used.map(|cpu| cpu.map_or(0.0, |cpu| cpu.user_secs + cpu.system_secs));
    let growing = RECEIVED.iter().map(|(name, _)| get(name)).chain(used);
    let rates = view.app.rates.since(Instant::now(), growing.collect());
    let rate = |at: usize, shown: &dyn Fn(f64) -> String| match &rates {
        Some(rates) => html! { (shown(rates[at])) },
        None => html! { span.none { "\u{2013}" } },
    };
    let row = |name: &str, what: Markup, value: Markup| html! { th.key scope="row" title=(name) { (what) } td { (value) } };
    let part = |part: f64| html! { " " small { (show::percent(100.0 * part)) } };

    let received = RECEIVED.iter().enumerate().map(|(at, (name, meaning))| {
        let shown = |value: f64| match *name {
            "received_bytes" => show::bytes(value),
            _ if value < 100.0 => show::number(value),
            _ => show::count(value as u64),
        };
        html! { (row(name, html! { (meaning) }, html! { (shown(get(name))) })) td { (rate(at, &shown)) } }
    });
    let in_memory = IN_MEMORY.iter().map(|(name, meaning, room)| {
        let (held, room) = (get(name), get(room));
        let what = html! {
            @if room > 0.0 { (bar(held / room)) }
            span { (meaning) @if room > 0.0 { ", of " (show::count(room as u64)) } }
        };
        let value = html! { (show::count(held as u64)) @if room > 0.0 { (part(held / room)) } };
        row(name, what, value)
    });
    let losses = LOSSES.iter().map(|(name, meaning)| {
        let reasons = match *name {
            "requests_invalid" => "requests_invalid_by_reason",
            name => name,
        };
        let reasons = status.get(reasons).and_then(Json::as_object);
        let reasons = reasons.into_iter().flatten().filter(|(_, count)| sum(count) > 0.0);
        let count = get(name);
        html! {
            th.key scope="row" title=(name) {
                (meaning)
                @for (reason, count) in reasons { br; small { (visible(reason)) ": " (show::count(sum(count) as u64)) } }
            }
            td.bad[count > 0.0] { (show::count(count as u64)) }
        }
    });
    let cores = |at: usize| rate(RECEIVED.len() + at, &show::number);
    let (reports, room) = (get("report_memory_bytes"), get("report_memory_bytes_max"));
    let share = if room > 0.0 { reports / room } else { 0.0 };
    let resident = memory::process_bytes().map(|[_, resident]| show::bytes(resident as f64));
    let resident = resident.unwrap_or_else(|| "\u{2013}".to_owned());
    let usage = [
        row("", html! { "Cores busy, all threads" }, cores(0)),
        row("", html! { "Cores busy, the merger" }, cores(1)),
        row("", html! { "Memory of the process" }, html! { (resident) }),
        row(
            "report_memory_bytes",
            html! { (bar(share)) span { "Memory of the reports, of " (show::bytes(room)) } },
            html! { (show::bytes(reports)) (part(share)) },
        ),
    ];
    let [since, now] = ["Since the start", "Now, per s"].map(Head::number);
    let heads = [Head::text("Counter"), since, now];
    html! {
        (narrow_table("Received", &heads, &received.collect::<Vec<_>>()))
        (narrow_table("In memory", &[], &in_memory.collect::<Vec<_>>()))
        (narrow_table("Lost, refused, repaired", &[], &losses.collect::<Vec<_>>()))
        (narrow_table("CPU and memory", &[], &usage))
    }
}

fn memory_plan(plan: &[Planned]) -> Markup {
    let heads = [
        Head::text("Part"),
        Head::number("At most"),
        Head::text("Why"),
    ];
    let row = |planned: &Planned| {
        html! { th.key scope="row" { (planned.name) } td { (show::bytes(planned.bytes as f64)) } td.key.text { (planned.why) } }
    };
    let total: u64 = plan.iter().map(|planned| planned.bytes).sum();
    let total = html! { th.key scope="row" { b { "total" } } td { b { (show::bytes(total as f64)) } } td {} };
    let rows: Vec<Markup> = plan.iter().map(row).chain([total]).collect();
    let caption = html! { "Memory plan: the most that the daemon uses, whatever is sent to it" };
    html! { @if !plan.is_empty() { (table("Memory plan", &caption, &heads, &rows, "")) } }
}

fn sockets(status: &Map<String, Json>) -> Markup {
    let mut heads = vec![Head::text("Address")];
    heads.extend(SOCKET.map(|(_, title)| Head::number(title)));
    let losses = ["kernel_drops", "requests_overwritten", "datagrams_invalid"];
    let row = |socket: &Json| {
        html! {
            th.key scope="row" { (visible(socket["address"].as_str().unwrap_or_default())) }
            @for (name, _) in SOCKET {
                @let count = sum(&socket[name]);
                td.bad[count > 0.0 && losses.contains(&name)] {
                    @if name.ends_with("_bytes") { (show::bytes(count)) } @else { (show::count(count as u64)) }
                }
            }
        }
    };
    let sockets = status.get("sockets").and_then(Json::as_array);
    let rows: Vec<Markup> = sockets.into_iter().flatten().map(row).collect();
    table("Sockets", &html! { "Sockets" }, &heads, &rows, "")
}
