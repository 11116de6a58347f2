//! `/daemon`: how the daemon itself is doing: what comes in, what was lost and why, how full everything is.

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, Uri};
use maud::{Markup, html};
use serde_json::{Map, Value as Json};

use super::ask::Given;
use super::frame::{self, Section};
use super::ranking::share_cell;
use super::show::{self, visible};
use crate::http::routes::App;
use crate::query::source::{Readiness, Source};

/// `GET /daemon`
pub(super) async fn read(State(app): State<App>, uri: Uri) -> Response<Body> {
    let given = Given::parse(uri.query());
    let view = given.and_then(|given| {
        given.only(&[], &[])?;
        Ok(|source: &dyn Source| Ok(page(&source.status(), &source.readiness())))
    });
    super::answer(app, &uri, view).await
}

/// Counters of what was lost or refused: name, what it means.
const LOSSES: [(&str, &str); 9] = [
    (
        "kernel_drops",
        "Packets that the kernel dropped: the socket's buffer was full",
    ),
    ("datagrams_invalid", "Packets that could not be read"),
    (
        "requests_overwritten",
        "Requests that gave way in the temporary pool: the merger was behind",
    ),
    ("requests_invalid", "Requests that break the rules"),
    (
        "elements_mended",
        "Parts of requests that were mended or left out",
    ),
    (
        "rows_evicted",
        "Raw rows that left before their time: a pool was full",
    ),
    (
        "words_overflowed",
        "Texts that are shown as (other): no room for more words",
    ),
    (
        "report_keys_folded",
        "Keys that are counted under (other): no memory for more",
    ),
    ("receive_errors", "Errors of a socket"),
];

/// Counters of what came in.
const CAME: [(&str, &str); 6] = [
    ("datagrams_received", "Packets received"),
    ("received_bytes", "Bytes received"),
    ("requests_decoded", "Requests decoded"),
    ("requests_merged", "Requests in the reports"),
    ("timers_merged", "Timers in the reports"),
    ("merges", "Runs of the merger"),
];

/// What is held now.
const HELD: [(&str, &str); 7] = [
    ("request_rows", "Raw requests in memory"),
    ("timer_rows", "Raw timers in memory"),
    ("ring_depth", "Requests that wait for the merger"),
    ("dictionary_size", "Distinct texts"),
    (
        "origins",
        "Distinct combinations of host, server, script, schema, status",
    ),
    ("tag_sets", "Distinct sets of tags"),
    ("report_families", "Counts that a request takes part in"),
];

/// A counter, or the sum of one that is kept by reason.
fn sum(value: &Json) -> f64 {
    match value {
        Json::Object(reasons) => reasons.values().map(sum).sum(),
        other => other.as_f64().unwrap_or(0.0),
    }
}

fn page(status: &Map<String, Json>, readiness: &Readiness) -> Markup {
    let get = |name: &str| status.get(name).map_or(0.0, sum);
    let main = html! {
        h1 { "Daemon" }
        div #state data-live {
            @if readiness.reasons.is_empty() {
                p.good { "Ready: all sockets are bound and the merger keeps up, "
                    (show::secs(get("merge_lag_us") / 1e6)) " behind." }
            } @else {
                p.problem { "Not ready: " (visible(&readiness.reasons.join("; "))) }
            }
        }
        div.columns #counters data-live {
            (table("Came in", &CAME, &get))
            (losses(status))
            (table("Held now", &HELD, &get))
            (memory(&get))
        }
        div #sockets data-live { (sockets(status)) }
    };
    frame::page(Section::Daemon, "Daemon", &main)
}

fn table(title: &str, counters: &[(&str, &str)], get: &impl Fn(&str) -> f64) -> Markup {
    html! {
        table {
            caption { (title) }
            tbody { @for (name, meaning) in counters {
                tr { th.key scope="row" title=(name) { (meaning) }
                    td { @if *name == "received_bytes" { (show::bytes(get(name))) } @else { (show::count(get(name) as u64)) } } }
            } }
        }
    }
}

/// What was lost, by reason where there is one.
fn losses(status: &Map<String, Json>) -> Markup {
    let reasons = |name: &str| {
        let by_reason = if name == "requests_invalid" {
            "requests_invalid_by_reason"
        } else {
            name
        };
        let reasons = status.get(by_reason).and_then(Json::as_object);
        reasons
            .into_iter()
            .flatten()
            .filter(|(_, count)| sum(count) > 0.0)
    };
    html! {
        table {
            caption { "Lost, refused, mended" }
            tbody { @for (name, meaning) in LOSSES {
                @let count = status.get(name).map_or(0.0, sum);
                tr { th.key scope="row" title=(name) { (meaning)
                        @for (reason, count) in reasons(name) { br; small { (visible(reason)) ": " (show::count(sum(count) as u64)) } } }
                    td.bad[count > 0.0] { (show::count(count as u64)) } }
            } }
        }
    }
}

fn memory(get: &impl Fn(&str) -> f64) -> Markup {
    let (used, most) = (get("report_memory_bytes"), get("report_memory_bytes_max"));
    let share = if most > 0.0 { 100.0 * used / most } else { 0.0 };
    html! {
        table {
            caption { "Memory of reports" }
            tbody {
                tr { th.key scope="row" { "In use" } td { (show::bytes(used)) } }
                tr { th.key scope="row" { "At most (reports.memory)" } td { (show::bytes(most)) } }
                tr { th.key scope="row" { "Share" } (share_cell(share)) }
            }
        }
    }
}

fn sockets(status: &Map<String, Json>) -> Markup {
    let columns = [
        ("datagrams_received", "Received"),
        ("datagrams_invalid", "Unreadable"),
        ("requests_decoded", "Requests"),
        ("requests_overwritten", "Gave way"),
        ("kernel_drops", "Dropped by the kernel"),
        ("kernel_queue_bytes", "Waiting in the kernel"),
        ("recv_buffer_granted_bytes", "Buffer"),
    ];
    let sockets = status.get("sockets").and_then(Json::as_array);
    html! {
        div.wide tabindex="0" role="region" aria-label="Sockets" {
            table {
                caption { "Sockets" }
                thead { tr { th.key scope="col" { "Address" } @for (_, title) in columns { th scope="col" { (title) } } } }
                tbody { @for socket in sockets.into_iter().flatten() {
                    tr {
                        th.key scope="row" { (visible(socket["address"].as_str().unwrap_or_default())) }
                        @for (name, _) in columns {
                            @let count = sum(&socket[name]);
                            td.bad[count > 0.0 && matches!(name, "kernel_drops" | "requests_overwritten" | "datagrams_invalid")] {
                                @if name.ends_with("_bytes") { (show::bytes(count)) } @else { (show::count(count as u64)) }
                            }
                        }
                    }
                } }
            }
        }
    }
}
