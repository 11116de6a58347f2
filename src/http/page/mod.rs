//! The pages: what is slow, where and since when, for people with a browser.
//!
//! Every page is built on the server, whole, from one read of the data, and works without
//! JavaScript: links and forms with GET, the filters in the URL, so that a URL can be pasted into a
//! chat. A small script (`live.js`) swaps changed parts whenever [`events`] announces a second, and
//! creates and drops reports through the API. Nothing comes from outside: one style sheet and one
//! script, compiled in, and a content security policy that allows no others.
//!
//! | file | shows |
//! |---|---|
//! | `overview` | the last hour, and the top rows by time, p95, count, errors |
//! | `reports`, `report`, `row` | the list, one report as a table, one row with its charts, histogram and slowest requests |
//! | `requests`, `request` | the search, and one request with the waterfall of its timers |
//! | `timers`, `calls` | raw timers by any tags; their hits per request |
//! | `squid` | what Squid's lines say |
//! | `profile` | samples of PHP's functions |
//! | `releases` | what ran, and what each release changed |
//! | `alerts` | what fires, rules, silences, who is told |
//! | `changes` | which keys the change from one span to another comes from |
//! | `health`, `inside` | the daemon itself; where its time and its memory go |
//!
//! Below them: `render` (pages and errors as responses), [`frame`] (the parts common to all pages),
//! `table` (one table), `columns` (the columns of tables), [`time`] (now, or which span of the
//! past), `ranking` (rows of reports), `timer_groups` (sums over raw timers), [`chart`] (SVG),
//! `history` (charts of the last hour), `formatting` (numbers and hostile names as text), `cache`
//! (each page is built at most once a second), `compressed`.
//!
//! Names come from packets. They reach a page only as text of maud's templates, which escape
//! everything, or percent-encoded in a URL that begins with a slash; characters that are invisible
//! or change the direction of text are shown as signs (`formatting`).

mod alerts;
mod assets;
pub(super) mod cache;
mod calls;
mod changes;
mod chart;
mod columns;
mod compressed;
mod events;
mod formatting;
mod frame;
mod health;
mod history;
mod inside;
mod overview;
mod profile;
mod ranking;
pub(super) mod rates;
mod releases;
pub(super) mod render;
mod report;
mod reports;
mod request;
mod requests;
mod row;
mod squid;
mod table;
mod time;
mod timer_groups;
mod timers;

use std::sync::Arc;

use axum::routing::{MethodRouter, get};

use self::render::{Kind, route};
use super::app::{App, Endpoint};

/// Most bytes of pages while `readings` of them are being built: those kept for a second, and sums
/// over raw timers.
pub const fn bytes_max(readings: usize) -> usize {
    cache::BYTES + readings * timers::SUMS_BYTES
}

/// The page at `/`.
pub(super) fn overview() -> MethodRouter<Arc<App>> {
    route(Kind::Shared, overview::page)
}

/// The paths of all other pages.
pub(super) fn paths() -> Vec<Endpoint> {
    vec![
        ("/reports", route(Kind::Fresh, reports::page)),
        ("/reports/{name}", route(Kind::Shared, report::page)),
        ("/reports/{name}/row", route(Kind::Shared, row::page)),
        ("/reports/{name}/{chart}", route(Kind::Picture, row::picture)),
        ("/requests", route(Kind::ExactSpan, requests::page)),
        ("/requests/{id}", route(Kind::Shared, request::page)),
        ("/timers", route(Kind::Shared, timers::page)),
        ("/calls", route(Kind::Shared, calls::page)),
        ("/squid", route(Kind::Shared, squid::page)),
        ("/profile", route(Kind::OrFolded, profile::page)),
        ("/alerts", route(Kind::Shared, alerts::page)),
        ("/changes", route(Kind::Compared, changes::page)),
        ("/releases", route(Kind::Shared, releases::page)),
        ("/daemon", route(Kind::Shared, health::page)),
        ("/daemon/inside", route(Kind::Shared, inside::page)),
        ("/assets/{file}", get(assets::read)),
        ("/events", get(events::read)),
    ]
}
