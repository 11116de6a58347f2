//! `/events`: once a second, that a second has passed, with the few numbers that every page shows.
//!
//! Server-sent events: browsers ask again by themselves when a stream ends. One task makes the event for all listeners, and
//! runs only while there are any. A listener has room for [`BEHIND_MAX`] events; one that is slower misses some and nobody waits
//! for it. At most [`LISTENERS_MAX`] listen at once, others are told 503. A peer that is gone is noticed by what is sent to it.
//! Streams end when the daemon stops.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, Response};
use hyper::body::Frame;
use parking_lot::Mutex;
use serde_json::{Map, Value as Json, json};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use crate::http::connection::Endless;
use crate::http::error::Problem;
use crate::http::routes::App;
use crate::series::{EVERYTHING, Line, Metric, Series};

/// Streams at once.
const LISTENERS_MAX: usize = 64;
/// Events that wait for a slow listener.
const BEHIND_MAX: usize = 2;
/// From one event to the next.
const PERIOD: Duration = Duration::from_secs(1);
/// The seconds that the numbers are about.
const LATELY_SECS: u64 = 5;
/// How soon a browser asks again, in the words of the protocol.
const RETRY: &str = "retry: 500\n\n";

/// Who listens.
#[derive(Debug, Default)]
pub(super) struct Hub {
    listeners: Mutex<Listeners>,
}

#[derive(Debug, Default)]
struct Listeners {
    all: Vec<mpsc::Sender<Bytes>>,
    /// Whether the task runs that sends to them.
    served: bool,
}

impl Hub {
    /// A place for one more; whether the task has to be started for it.
    fn join(&self) -> Result<(mpsc::Receiver<Bytes>, bool), Problem> {
        let mut listeners = self.listeners.lock();
        listeners.all.retain(|listener| !listener.is_closed());
        if listeners.all.len() >= LISTENERS_MAX {
            return Err(Problem::busy(format!(
                "{LISTENERS_MAX} pages are live already"
            )));
        }
        let (sender, receiver) = mpsc::channel(BEHIND_MAX);
        listeners.all.push(sender);
        let start = !std::mem::replace(&mut listeners.served, true);
        Ok((receiver, start))
    }

    /// Sends to everyone who has room; false when nobody is left.
    fn send(&self, event: &Bytes) -> bool {
        let mut listeners = self.listeners.lock();
        listeners.all.retain(|listener| {
            let sent = listener.try_send(event.clone());
            !matches!(sent, Err(mpsc::error::TrySendError::Closed(_)))
        });
        listeners.served = !listeners.all.is_empty();
        listeners.served
    }

    /// Ends all streams.
    fn end(&self) {
        *self.listeners.lock() = Listeners::default();
    }
}

/// `GET /events`
pub(super) async fn read(State(app): State<App>) -> Result<Response<Body>, Problem> {
    let (events, start) = app.kept().events.join()?;
    if start {
        tokio::spawn(serve(app));
    }
    let first = Some(Bytes::from_static(RETRY.as_bytes()));
    let mut response = Response::new(Body::new(Stream { first, events }));
    let media_type = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    // Asks nginx to pass on what it gets, when it gets it.
    let buffering = HeaderName::from_static("x-accel-buffering");
    response
        .headers_mut()
        .insert(buffering, HeaderValue::from_static("no"));
    response.extensions_mut().insert(Endless);
    Ok(response)
}

/// Sends an event a second until nobody listens.
async fn serve(app: App) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut stopped = app.stopped();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            // An error means that the server is gone, which is a stop as well.
            _ = stopped.wait_for(|stop| *stop) => {
                app.kept().events.end();
                return;
            }
        }
        // A look that fails is a second without news.
        let event = match numbers(&app).await {
            Ok(numbers) => Bytes::from(format!("event: second\ndata: {numbers}\n\n")),
            Err(_) => Bytes::from_static(b": busy\n\n"),
        };
        if !app.kept().events.send(&event) {
            return;
        }
    }
}

/// What every page shows: the last seconds, or what is left of that without a history.
async fn numbers(app: &App) -> Result<String, Problem> {
    let series = app.series();
    app.ask(move |source| {
        let status = source.status();
        let mut numbers = Map::new();
        for name in ["requests_merged", "merge_lag_us"] {
            numbers.extend(
                status
                    .get(name)
                    .map(|value| (name.to_owned(), value.clone())),
            );
        }
        if let Some(series) = series
            && let Some(now) = lately(&series)
        {
            numbers.extend(now);
        }
        Ok(Json::Object(numbers).to_string())
    })
    .await
}

/// The last seconds of all requests.
fn lately(series: &Series) -> Option<impl Iterator<Item = (String, Json)>> {
    const METRICS: [Metric; 4] = [
        Metric::ReqPerSec,
        Metric::P95,
        Metric::ErrorsPerSec,
        Metric::CpuPerSec,
    ];
    let to = series.coverage()?.to;
    let from = to.saturating_sub(LATELY_SECS);
    let lines = series.lines(EVERYTHING, None, &METRICS, from, to, LATELY_SECS)?;
    let newest = |line: Line| line.points.last().copied().flatten();
    Some(
        METRICS
            .into_iter()
            .zip(lines)
            .filter_map(move |(metric, line)| Some((metric.name(), json!(newest(line)?)))),
    )
}

/// The body of a stream.
struct Stream {
    first: Option<Bytes>,
    events: mpsc::Receiver<Bytes>,
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        self.events
            .poll_recv(context)
            .map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn slow_listeners_miss_events_and_nobody_else_does() {
        let hub = Hub::default();
        let (mut quick, start) = hub.join().unwrap();
        assert!(start);
        let (mut slow, start) = hub.join().unwrap();
        assert!(!start);
        for event in ["1", "2", "3", "4"] {
            assert!(hub.send(&Bytes::from(event)));
            assert_eq!(quick.recv().await.unwrap(), event);
        }
        let mut got = Vec::new();
        while let Ok(event) = slow.try_recv() {
            got.push(event);
        }
        assert_eq!(got, ["1", "2"]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn places_are_free_again_and_streams_end() {
        let hub = Hub::default();
        let mut listening: Vec<_> = (0..LISTENERS_MAX).map(|_| hub.join().unwrap().0).collect();
        assert_eq!(hub.join().unwrap_err().status.as_u16(), 503);
        listening.pop();
        listening.push(hub.join().unwrap().0);
        assert!(hub.send(&Bytes::from("last")));
        hub.end();
        for mut events in listening {
            assert_eq!(events.recv().await.unwrap(), "last");
            assert_eq!(events.recv().await, None);
        }
        assert!(hub.join().unwrap().1, "the task has to be started again");
        assert!(!hub.send(&Bytes::from("nobody is left")));
    }
}
