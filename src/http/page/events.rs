//! `/events`: once a second, that a second has passed, with the few numbers that every page shows.
//!
//! Server-sent events: browsers connect again by themselves when a stream ends. One task makes the event for all listeners, and
//! runs only while there are any. A peer that is gone is noticed by what is sent to it. Streams end when the daemon stops.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use futures::{StreamExt as _, stream};
use serde_json::{Map, Value as Json};
use tokio::time::MissedTickBehavior;

use crate::http::answer::endless::endless;
use crate::http::answer::format::Format;
use crate::http::app::{Answer, App};
use crate::http::error::Problem;
use crate::series::{EVERYTHING, Metric, Series};

/// From one event to the next.
const PERIOD: Duration = Duration::from_secs(1);
/// The seconds that the numbers are about.
const RECENT_SECS: u64 = 5;
/// How soon a browser connects again, in the words of the protocol.
const RETRY: &str = "retry: 500\n\n";

/// `GET /events`
pub(super) async fn read(State(app): State<Arc<App>>) -> Answer {
    let (events, start) = app.listeners.join()?;
    if start {
        tokio::spawn(send(app));
    }
    let events = stream::unfold(events, async |mut events| {
        events.changed().await.ok()?;
        let event = events.borrow_and_update().clone();
        Some((event, events))
    });
    let retry = stream::iter([Bytes::from_static(RETRY.as_bytes())]);
    Ok(endless(Format::Sse, retry.chain(events)))
}

/// Sends an event a second until nobody listens.
async fn send(app: Arc<App>) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut stopped = std::pin::pin!(app.stopped());
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stopped.as_mut() => return app.listeners.end(),
        }
        // A query that fails is a second without news.
        let event = match numbers(&app).await {
            Ok(numbers) => Bytes::from(format!("event: second\ndata: {numbers}\n\n")),
            Err(_) => Bytes::from_static(b": busy\n\n"),
        };
        if !app.listeners.send(event) {
            return;
        }
    }
}

/// What every page shows: the last seconds, or what is left of that without a history.
async fn numbers(app: &App) -> Result<String, Problem> {
    let series = app.settings.series.clone();
    app.query(move |source| {
        let status = source.status();
        let mut numbers = Map::new();
        for name in ["requests_merged", "merge_lag_us"] {
            let value = status.get(name).cloned();
            numbers.extend(value.map(|value| (name.to_owned(), value)));
        }
        numbers.extend(series.iter().filter_map(recent).flatten());
        Ok(Json::Object(numbers).to_string())
    })
    .await
}

/// The last seconds of all requests together.
fn recent(series: &Series) -> Option<impl Iterator<Item = (String, Json)> + use<>> {
    const METRICS: [Metric; 4] = [
        Metric::ReqPerSec,
        Metric::P95,
        Metric::ErrorsPerSec,
        Metric::CpuPerSec,
    ];
    let to = series.coverage()?.to;
    let from = to.saturating_sub(RECENT_SECS);
    let lines = series.lines(EVERYTHING, None, &METRICS, from, to, RECENT_SECS)?;
    let newest = METRICS.into_iter().zip(lines);
    Some(newest.filter_map(|(metric, line)| {
        let newest = line.points.last().copied().flatten()?;
        Some((metric.name(), newest.into()))
    }))
}
