//! `/events`: one event per second, with the few numbers that every page shows.
//!
//! Server-sent events: browsers reconnect by themselves when a stream ends. The numbers are read
//! once a second for all listeners (`cache`). Sending reveals vanished peers. Streams end when the
//! daemon stops.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use futures::{StreamExt as _, stream};
use serde_json::Value as Json;
use tokio::time::MissedTickBehavior;

use super::compressed::Text;
use super::history::RECENT_SECS;
use crate::http::answer::endless::endless;
use crate::http::answer::format::{Answer, Format};
use crate::http::app::App;
use crate::http::error::Problem;
use crate::series::{EVERYTHING, Metric, Series};

/// Interval between events.
const PERIOD: Duration = Duration::from_secs(1);
/// How soon a browser reconnects, in the protocol's format.
const RETRY: &str = "retry: 500\n\n";

/// `GET /events`
pub(super) async fn read(State(app): State<Arc<App>>) -> Answer {
    let permit = app.listeners.try_enter();
    let permit = permit.ok_or_else(|| Problem::busy("too many pages are live already"))?;
    let stopped = app.stopped();
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let events = stream::unfold((app, ticks, permit), async |(app, mut ticks, permit)| {
        ticks.tick().await;
        // A failed query is a second without an update.
        let event = match app.pages.get("/events", numbers(&app)).await {
            Ok(event) => event.plain().clone(),
            Err(_) => Bytes::from_static(b": busy\n\n"),
        };
        Some((event, (app, ticks, permit)))
    });
    let retry = stream::iter([Bytes::from_static(RETRY.as_bytes())]);
    let events = retry.chain(events).take_until(Box::pin(stopped));
    Ok(endless(Format::Sse, events))
}

/// The numbers on every page: the last seconds, or the subset available without a history.
async fn numbers(app: &App) -> Result<Text, Problem> {
    let series = app.settings.series.clone();
    app.query(move |source| {
        let status = source.status();
        let known = |name: &str| Some((name.to_owned(), status.get(name)?.clone()));
        let own = ["requests_merged", "merge_lag_us"].into_iter().filter_map(known);
        let numbers: Json = own.chain(series.iter().flat_map(recent)).collect();
        Ok(Text::new(format!("event: second\ndata: {numbers}\n\n")))
    })
    .await
}

/// The last seconds of all requests together.
fn recent(series: &Series) -> impl Iterator<Item = (String, Json)> + use<> {
    let names = ["req_per_sec", "p95", "errors_per_sec", "cpu_per_sec"];
    let metrics: Vec<Metric> = names.into_iter().filter_map(Metric::parse).collect();
    let newest = series.newest(EVERYTHING, None, &metrics, RECENT_SECS).unwrap_or_default();
    let newest = names.into_iter().zip(newest);
    newest.filter_map(|(name, newest)| Some((name.to_owned(), newest?.into())))
}
