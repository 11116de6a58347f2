//! `/api/v1/stream/requests`: raw requests as they pass, as server-sent events or as a line each.
//!
//! A task for each client takes one step after the other from the source, on a thread that may block, and hands over what it
//! found in pieces; hyper asks for the next piece when the socket has room. A client that reads slowly holds up nothing
//! but its own task: what passes meanwhile stays in the pool, which is there anyway, and when it is too much the task
//! jumps forward and tells how many it missed.
//!
//! Bounded are the clients (`followers_max`; beyond it 503), the rows a second for each ([`RATE_MAX`]) and the bytes on
//! the way (two pieces). Every [`HEARTBEAT`] something is sent, so that a peer that is gone is noticed. Ends on stop.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::connection::Endless;
use super::error::Problem;
use super::gate::Permit;
use super::json as write;
use super::params::Params;
use super::requests;
use super::routes::App;
use super::writer::{Format, Writer};
use crate::query::source::{FollowStep, Followed, RequestSearch};

/// Rows a second that one client gets at most, and what `rate` may be.
const RATE_MAX: u64 = 20_000;
/// Rows of one piece.
const PIECE_ROWS: usize = 256;
/// Bytes of texts in one piece; one row may go beyond.
const PIECE_BYTES: usize = 64 * 1024;
/// How often a client that has everything looks again.
const LOOK: Duration = Duration::from_millis(100);
/// How long nothing is sent at most.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How far back the allowance of rows is saved up.
const SAVED_SECS: f64 = 0.2;

/// How rows are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Server-sent events: each row an event with its id, `missed` an event of its own.
    Events,
    /// An object a line; `{"missed":N}` is a line, a heartbeat an empty one.
    Lines,
}

impl Shape {
    const NAMES: [&str; 2] = ["sse", "ndjson"];

    const fn media_type(self) -> &'static str {
        match self {
            Self::Events => "text/event-stream",
            Self::Lines => Format::Ndjson.media_type(),
        }
    }

    /// What is sent at once, so that the client knows that it is through.
    const fn greeting(self) -> &'static [u8] {
        match self {
            Self::Events => b"retry: 1000\n\n",
            Self::Lines => b"\n",
        }
    }

    const fn heartbeat(self) -> &'static [u8] {
        match self {
            Self::Events => b":\n\n",
            Self::Lines => b"\n",
        }
    }
}

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    search: Arc<RequestSearch>,
    shape: Shape,
    /// At most so many rows a second, and the others are not missed.
    rate: Option<u64>,
    /// The end after so many rows.
    limit: Option<u64>,
    timers: bool,
    after_id: Option<u64>,
}

/// `GET /api/v1/stream/requests`
pub(super) async fn read(
    State(app): State<App>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let asked = parse(request.uri().query(), request.headers())?;
    let place = app
        .follower()
        .ok_or_else(|| Problem::busy("too many clients follow the requests; ask again later"))?;
    let last = app.ask(|source| Ok(source.last_request_id()?)).await?;
    let after_id = asked.after_id.unwrap_or(last);
    let shape = asked.shape;
    let (pieces, taken) = mpsc::channel(1);
    tokio::spawn(drive(app, asked, after_id, pieces, place));
    let mut response = Response::new(Body::new(Pieces(taken)));
    response.extensions_mut().insert(Endless);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(shape.media_type()));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    // Asks nginx to pass on what it gets, when it gets it.
    let buffering = HeaderName::from_static("x-accel-buffering");
    headers.insert(buffering, HeaderValue::from_static("no"));
    Ok(response)
}

fn parse(query: Option<&str>, headers: &HeaderMap) -> Result<Asked, Problem> {
    let mut params = Params::parse(query)?;
    let rate = params.number("rate")?;
    if rate.is_some_and(|rate| !(1..=RATE_MAX).contains(&rate)) {
        let why = format!("requests a second; accepted: 1 to {RATE_MAX}");
        return Err(Problem::parameter("rate", why));
    }
    let limit = params.number("limit")?;
    if limit == Some(0) {
        let why = "0 requests would be none; accepted: from 1 on, or no limit";
        return Err(Problem::parameter("limit", why));
    }
    let after_id = params.number("after_id")?;
    let timers = requests::with_timers(&mut params)?;
    let mut search = RequestSearch::default();
    requests::conditions(&mut params, &mut search)?;
    let shape = shape(params.take("format").as_deref(), headers)?;
    let (rest, known) = params.into_rest();
    if let Some((name, _)) = rest.first() {
        return Err(match name.as_str() {
            "since" | "until" | "before_id" => Problem::parameter(
                name,
                "a stream shows requests as they pass, not those of before; GET /api/v1/requests does",
            ),
            _ => super::params::unknown(name, known),
        });
    }
    // What a browser's EventSource saw last; it comes with a new connection, the parameter with the address.
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    Ok(Asked {
        search: Arc::new(search),
        shape,
        rate,
        limit,
        timers,
        after_id: seen.and_then(|id| id.parse().ok()).or(after_id),
    })
}

/// Events for those that ask for them by name, else lines.
fn shape(parameter: Option<&str>, headers: &HeaderMap) -> Result<Shape, Problem> {
    match parameter {
        Some("sse") => return Ok(Shape::Events),
        Some("ndjson") => return Ok(Shape::Lines),
        Some(name) => {
            let problem = Problem::parameter("format", format!("{name:?} is not a format"));
            return Err(problem.accepting(Shape::NAMES));
        }
        None => {}
    }
    let mut accepted = headers.get_all(ACCEPT).iter().peekable();
    if accepted.peek().is_none() {
        return Ok(Shape::Lines);
    }
    let ranges = accepted.filter_map(|header| header.to_str().ok());
    let ranges = ranges.flat_map(|header| header.split(','));
    let mut lines = false;
    for range in ranges {
        let essence = range.split(';').next().unwrap_or_default().trim();
        match essence.to_ascii_lowercase().as_str() {
            "text/event-stream" => return Ok(Shape::Events),
            "*/*"
            | "application/*"
            | "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl" => lines = true,
            _ => {}
        }
    }
    if lines {
        return Ok(Shape::Lines);
    }
    let why = "none of the media types in Accept can be had here";
    Err(Problem::new(StatusCode::NOT_ACCEPTABLE, why)
        .accepting(["text/event-stream", "application/x-ndjson"]))
}

/// Follows the requests until the client leaves, has what it wanted, or the server stops.
async fn drive(app: App, asked: Asked, after_id: u64, pieces: mpsc::Sender<Bytes>, _place: Permit) {
    let mut stopped = app.stopped();
    tokio::select! {
        // An error means that the server is gone, which is a stop as well.
        _ = stopped.wait_for(|stopped| *stopped) => {}
        () = pieces.closed() => {}
        () = follow(&app, &asked, after_id, &pieces) => {}
    }
}

async fn follow(app: &App, asked: &Asked, mut after_id: u64, pieces: &mpsc::Sender<Bytes>) {
    let greeting = Bytes::from_static(asked.shape.greeting());
    if pieces.send(greeting).await.is_err() {
        return;
    }
    let mut sent = Instant::now();
    let mut allowance = Allowance::new(asked.rate.unwrap_or(RATE_MAX), sent);
    let mut left = asked.limit.unwrap_or(u64::MAX);
    loop {
        let allowed = allowance.whole(Instant::now());
        let rows_max = allowed.min(left).min(PIECE_ROWS as u64);
        let mut found = None;
        if rows_max > 0 {
            let step = FollowStep {
                after_id,
                rows_max: rows_max as usize,
                bytes_max: PIECE_BYTES,
                timers: asked.timers,
                // What is beyond the allowance is not wanted; beyond a piece there is the next one.
                sample: asked.rate.is_some() && allowed <= PIECE_ROWS as u64,
            };
            let asked = asked.clone();
            let taken = app.step(move |source| {
                let mut found = source.follow(&asked.search, step)?;
                if asked.rate.is_some() {
                    found.missed = 0;
                }
                let (rows, at, more) = (found.table.len(), found.after_id, found.more);
                Ok((rows as u64, at, more, piece(asked.shape, found)))
            });
            // A refusal in the middle of an answer can only be its end.
            let Ok(taken) = taken.await else { return };
            found = Some(taken);
        }
        let mut more = false;
        if let Some((rows, at, further, bytes)) = found {
            after_id = at;
            more = further;
            allowance.spend(rows);
            left -= rows;
            if !bytes.is_empty() {
                if pieces.send(bytes.into()).await.is_err() || left == 0 {
                    return;
                }
                sent = Instant::now();
            }
        }
        if sent.elapsed() >= HEARTBEAT {
            let heartbeat = Bytes::from_static(asked.shape.heartbeat());
            if pieces.send(heartbeat).await.is_err() {
                return;
            }
            sent = Instant::now();
        }
        if !more {
            sleep(LOOK).await;
        } else if allowance.whole(Instant::now()) == 0 {
            sleep(allowance.wait().min(LOOK)).await;
        }
    }
}

/// How many rows a client may have now.
#[derive(Debug)]
struct Allowance {
    per_second: f64,
    saved: f64,
    at: Instant,
}

impl Allowance {
    fn new(per_second: u64, now: Instant) -> Self {
        Self {
            per_second: per_second as f64,
            saved: 1.0,
            at: now,
        }
    }

    fn whole(&mut self, now: Instant) -> u64 {
        let since = now.duration_since(self.at).as_secs_f64();
        let most = (self.per_second * SAVED_SECS).max(1.0);
        self.saved = (self.saved + since * self.per_second).min(most);
        self.at = now;
        self.saved as u64
    }

    fn spend(&mut self, rows: u64) {
        self.saved -= rows as f64;
    }

    /// Until the next row.
    fn wait(&self) -> Duration {
        Duration::from_secs_f64(((1.0 - self.saved) / self.per_second).clamp(0.000_1, 1.0))
    }
}

/// What a step found, as it is sent.
fn piece(shape: Shape, found: Followed) -> Vec<u8> {
    let table = found.table.as_ref();
    let mut out = Vec::new();
    if found.missed > 0 {
        out.extend_from_slice(match shape {
            Shape::Events => b"event: missed\ndata: {\"missed\":",
            Shape::Lines => b"{\"missed\":",
        });
        write::uint(&mut out, found.missed);
        out.extend_from_slice(match shape {
            Shape::Events => b"}\n\n",
            Shape::Lines => b"}\n",
        });
    }
    let columns: Vec<usize> = (0..table.columns().len()).collect();
    let mut writer = Writer::new(Format::Ndjson, table, &columns);
    if !found.timers.is_empty() {
        writer = writer.with_member("timers", requests::timers_member(found.timers));
    }
    let id = table.column("id");
    for row in 0..table.len() {
        if shape == Shape::Events {
            if let Some(id) = id {
                out.extend_from_slice(b"id: ");
                write::value(&mut out, &table.value(row, id));
                out.push(b'\n');
            }
            out.extend_from_slice(b"data: ");
        }
        writer.row(&mut out, table, row);
        out.extend_from_slice(match shape {
            Shape::Events => b"\n\n",
            Shape::Lines => b"\n",
        });
    }
    out
}

/// The body: pieces as they come.
struct Pieces(mpsc::Receiver<Bytes>);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str, headers: &[(&'static str, &'static str)]) -> Result<Asked, String> {
        let header = |(name, value): &(&'static str, &'static str)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        };
        let headers = headers.iter().map(header).collect();
        parse(Some(query), &headers).map_err(|problem| problem.body())
    }

    #[test]
    fn events_are_for_those_that_ask_for_them() {
        let shape = |accept| asked("", &[("accept", accept)]).map(|asked| asked.shape);
        assert_eq!(asked("", &[]).unwrap().shape, Shape::Lines);
        assert_eq!(shape("*/*"), Ok(Shape::Lines));
        assert_eq!(shape("text/event-stream"), Ok(Shape::Events));
        assert_eq!(shape("application/x-ndjson"), Ok(Shape::Lines));
        assert!(shape("text/csv").unwrap_err().contains("text/event-stream"));
        let named = asked("format=sse", &[("accept", "text/csv")]).unwrap();
        assert_eq!(named.shape, Shape::Events);
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_says_so() {
        for (query, part) in [
            ("since=1", "GET /api/v1/requests"),
            ("until=1", "GET /api/v1/requests"),
            ("before_id=1", "GET /api/v1/requests"),
            ("rate=0", "accepted: 1 to 20000"),
            ("rate=20001", "accepted: 1 to 20000"),
            ("limit=0", "from 1 on"),
            ("timers=yes", "accepted: 0, 1"),
            ("format=csv", "accepted: sse, ndjson"),
            ("script=/a", "script_name"),
        ] {
            let problem = asked(query, &[]).unwrap_err();
            assert!(problem.contains(part), "{query}: {problem}");
        }
    }

    #[test]
    fn a_new_connection_goes_on_where_the_old_one_was() {
        assert_eq!(asked("after_id=7", &[]).unwrap().after_id, Some(7));
        let again = asked("after_id=7", &[("last-event-id", "9")]).unwrap();
        assert_eq!(again.after_id, Some(9));
        assert_eq!(asked("", &[("last-event-id", "x")]).unwrap().after_id, None);
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn an_allowance_is_saved_up_for_a_moment_only() {
        let start = Instant::now();
        let mut allowance = Allowance::new(50, start);
        assert_eq!(allowance.whole(start), 1);
        allowance.spend(1);
        assert_eq!(allowance.whole(start), 0);
        assert_eq!(allowance.whole(start + Duration::from_millis(100)), 5);
        assert_eq!(allowance.whole(start + Duration::from_secs(60)), 10);
        let mut slow = Allowance::new(1, start);
        slow.spend(1);
        assert_eq!(slow.whole(start + Duration::from_millis(900)), 0);
        assert!(slow.wait() < Duration::from_millis(101));
        assert_eq!(slow.whole(start + Duration::from_secs(60)), 1);
    }
}
