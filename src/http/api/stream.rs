//! `/api/v1/stream/requests`: raw requests as they arrive, as server-sent events or one per line.
//! And `/api/v1/stream/samples`, likewise for samples of PHP's stat extension.
//!
//! The body of each client takes one step after the other from the read model, on a thread that may
//! block, when the socket has room for the next piece. A slow client holds up only itself: new
//! requests stay in the pool, which exists anyway, and if they become too many the client skips
//! ahead and gets the number it missed.
//!
//! Bounds: the number of clients (`followers_max`; beyond it 503), the rows a second for each
//! ([`RATE_MAX`]) and the bytes of a piece. Something is sent every [`HEARTBEAT`], so that a
//! vanished peer is noticed. Ends on stop.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use futures::{StreamExt as _, stream};
use tokio::time::{Instant, sleep};

use super::requests::timers_member;
use super::search::{conditions, sample_conditions, with_timers};
use crate::http::answer::endless::endless;
use crate::http::answer::format::{Answer, Format};
use crate::http::answer::json as write;
use crate::http::answer::writer::RowWriter;
use crate::http::app::App;
use crate::http::concurrency_limit::Permit;
use crate::http::error::Problem;
use crate::http::params::Params;
use crate::profile::definition::SampleKey;
use crate::query::answer::Followed;
use crate::query::catalog::Catalog;
use crate::query::question::{FollowStep, RequestSearch};
use crate::report::definition::Pattern;

/// Most rows a second for one client, and the largest `rate`.
const RATE_MAX: u64 = 20_000;
/// Rows of one piece.
const PIECE_ROWS: usize = 256;
/// Bytes of texts in one piece; one row may exceed it.
const PIECE_BYTES: usize = 64 * 1024;
/// Interval at which a client that has everything is served again.
const POLL: Duration = Duration::from_millis(100);
/// Longest time without sending anything.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How many seconds of the row allowance can be saved up.
const SAVED_SECS: f64 = 0.2;

/// The formats: an object per line (`{"missed":N}` is a line, a heartbeat an empty one), or
/// server-sent events, each row with its id and `missed` as an event of its own.
const FORMATS: &[Format] = &[Format::Ndjson, Format::Sse];

/// The parameters of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Options {
    subject: Subject,
    format: Format,
    /// Most rows a second; other rows do not count as missed.
    rate: Option<u64>,
    /// Rows until the end.
    left: u64,
    after_id: Option<u64>,
}

/// The kind of stream and its filters.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    Requests(Arc<RequestSearch>),
    Samples(Arc<[(SampleKey, Pattern)]>),
}

/// `GET /api/v1/stream/requests`
pub(in crate::http) async fn read(
    State(app): State<Arc<App>>,
    params: Params,
    headers: HeaderMap,
) -> Answer {
    let options = parse(params, &headers)?;
    follow(app, options, |source| Ok(source.raw()?.last_id())).await
}

/// `GET /api/v1/stream/samples`
pub(in crate::http) async fn samples(
    State(app): State<Arc<App>>,
    mut params: Params,
    headers: HeaderMap,
) -> Answer {
    let filters = sample_conditions(&mut params).into();
    let options = common(params, &headers, Subject::Samples(filters))?;
    let none = "no samples are taken: there is no [[stat]] in the configuration";
    follow(app, options, move |source| {
        source.last_sample_id().ok_or_else(|| Problem::not_found(none))
    })
    .await
}

/// Streams everything from now on, or after the id that the client has. `last` returns the latest
/// id.
async fn follow(
    app: Arc<App>,
    options: Options,
    last: impl FnOnce(&Catalog) -> Result<u64, Problem> + Send + 'static,
) -> Answer {
    let too_many = "too many clients follow what passes; ask again later";
    let permit = app.followers.try_enter().ok_or_else(|| Problem::busy(too_many))?;
    let last = app.query(last).await?;
    let format = options.format;
    let greeting = if format == Format::Sse { "retry: 1000\n\n" } else { "\n" };
    let stopped = app.stopped();
    let now = Instant::now();
    let follower = Follower {
        app,
        after_id: options.after_id.unwrap_or(last),
        allowance: Allowance::new(options.rate.unwrap_or(RATE_MAX), now),
        options,
        sent: now,
        more: true,
        _permit: permit,
    };
    let pieces = stream::unfold(follower, async |mut follower| {
        let piece = follower.next().await?;
        Some((piece, follower))
    });
    // Sent at once, so that the client knows that it is connected.
    let greeting = stream::iter([Bytes::from(greeting)]);
    let pieces = greeting.chain(pieces).take_until(Box::pin(stopped));
    Ok(endless(format, pieces))
}

fn parse(mut params: Params, headers: &HeaderMap) -> Result<Options, Problem> {
    let timers = with_timers(&mut params)?;
    let mut search = RequestSearch { timers, ..RequestSearch::default() };
    conditions(&mut params, &mut search)?;
    for name in ["since", "until", "before_id"] {
        if params.get(name).is_some() {
            let why = "a stream shows requests as they pass, not those of before; GET /api/v1/requests does";
            return Err(Problem::parameter(name, why));
        }
    }
    common(params, headers, Subject::Requests(Arc::new(search)))
}

/// Parses the parameters that all streams have.
fn common(mut params: Params, headers: &HeaderMap, subject: Subject) -> Result<Options, Problem> {
    let rate = params.number_in("rate", 1..=RATE_MAX)?;
    let left = params.number_in("limit", 1..=u64::MAX)?;
    let after_id = params.number("after_id")?;
    let format = Format::wanted(params.text("format").as_deref(), headers, FORMATS)?;
    params.finish()?;
    // The last event seen by a browser's EventSource; sent on reconnect, while the parameter is
    // part of the URL.
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let (left, after_id) = (left.unwrap_or(u64::MAX), seen.or(after_id));
    Ok(Options { subject, format, rate, left, after_id })
}

/// One client that follows the requests.
struct Follower {
    app: Arc<App>,
    options: Options,
    /// The last id that the client has.
    after_id: u64,
    allowance: Allowance,
    /// When something was last sent.
    sent: Instant,
    /// Whether more is available already.
    more: bool,
    _permit: Permit,
}

impl Follower {
    /// The next piece, once there is one. `None` if the client has everything it wanted, or the
    /// read model refuses to go on, which can only end an answer in progress.
    async fn next(&mut self) -> Option<Bytes> {
        while self.options.left > 0 {
            if !self.more {
                sleep(POLL).await;
            } else if self.allowance.whole(Instant::now()) == 0 {
                sleep(self.allowance.wait().min(POLL)).await;
            }
            let piece = self.step().await.ok()?;
            if !piece.is_empty() {
                self.sent = Instant::now();
                return Some(piece.into());
            }
            if self.sent.elapsed() >= HEARTBEAT {
                self.sent = Instant::now();
                let is_event = self.options.format == Format::Sse;
                return Some(Bytes::from(if is_event { ":\n\n" } else { "\n" }));
            }
        }
        None
    }

    /// Takes the rows that may be sent now.
    async fn step(&mut self) -> Result<Vec<u8>, Problem> {
        let allowed = self.allowance.whole(Instant::now());
        let rows_max = allowed.min(self.options.left).min(PIECE_ROWS as u64);
        if rows_max == 0 {
            return Ok(Vec::new());
        }
        let step = FollowStep {
            after_id: self.after_id,
            rows_max: rows_max as usize,
            bytes_max: PIECE_BYTES,
            // Rows beyond the allowance are not wanted; those beyond a piece go into the next one.
            sample: self.options.rate.is_some() && allowed <= PIECE_ROWS as u64,
        };
        let options = self.options.clone();
        let followed = self.app.query_with(None, move |source| {
            let mut followed = match &options.subject {
                Subject::Requests(search) => source.raw()?.follow(search, step),
                Subject::Samples(filters) => {
                    let gone = || Problem::not_found("no samples are taken");
                    source.follow_samples(filters, step).ok_or_else(gone)?
                }
            };
            if options.rate.is_some() {
                followed.missed = 0;
            }
            let (rows, after_id, more) = (followed.table.len(), followed.after_id, followed.more);
            Ok((rows as u64, after_id, more, piece(options.format, followed)))
        });
        let (rows, after_id, more, piece) = followed.await?;
        self.after_id = after_id;
        self.more = more;
        self.options.left -= rows;
        self.allowance.spend(rows);
        Ok(piece)
    }
}

/// The number of rows a client may get now.
#[derive(Debug)]
struct Allowance {
    per_second: f64,
    saved: f64,
    at: Instant,
}

impl Allowance {
    fn new(per_second: u64, now: Instant) -> Self {
        Self { per_second: per_second as f64, saved: 1.0, at: now }
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

    /// Time until the next row.
    fn wait(&self) -> Duration {
        Duration::from_secs_f64(((1.0 - self.saved) / self.per_second).clamp(0.000_1, 1.0))
    }
}

/// Encodes the rows of a step.
fn piece(format: Format, followed: Followed) -> Vec<u8> {
    let table = followed.table.as_ref();
    let events = format == Format::Sse;
    let mut out = Vec::new();
    if followed.missed > 0 {
        let start = if events { "event: missed\ndata: " } else { "" };
        let end = if events { "\n\n" } else { "\n" };
        let missed = followed.missed;
        out.extend_from_slice(format!("{start}{{\"missed\":{missed}}}{end}").as_bytes());
    }
    let mut writer = RowWriter::of_table(Format::Ndjson, table);
    if !followed.timers.is_empty() {
        writer = writer.with_member("timers", timers_member(followed.timers));
    }
    let id = table.column("id").filter(|_| events);
    let rows: Vec<usize> = (0..table.len()).collect();
    let cells = writer.rows(table, &rows);
    for row in rows.iter().copied() {
        if let Some(id) = id {
            out.extend_from_slice(b"id: ");
            write::value(&mut out, &table.value(row, id));
            out.extend_from_slice(b"\ndata: ");
        }
        writer.row(&mut out, &cells, row, false);
        if events {
            out.push(b'\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn options(query: &str, headers: &[(&'static str, &'static str)]) -> Result<Options, String> {
        let header = |(name, value): &(&'static str, &'static str)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        };
        let headers = headers.iter().map(header).collect();
        let params = Params::parse(Some(query)).unwrap();
        parse(params, &headers).map_err(|problem| problem.body())
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_says_so() {
        for (query, part) in [
            ("since=1", "GET /api/v1/requests"),
            ("until=1", "GET /api/v1/requests"),
            ("before_id=1", "GET /api/v1/requests"),
            ("rate=0", "from 1 to 20000"),
            ("rate=20001", "from 1 to 20000"),
            ("limit=0", "from 1 on"),
            ("timers=yes", "accepted: 0, 1"),
            ("format=csv", "accepted: ndjson, sse"),
            ("script=/a", "script_name"),
        ] {
            let problem = options(query, &[]).unwrap_err();
            assert!(problem.contains(part), "{query}: {problem}");
        }
    }

    #[test]
    fn a_new_connection_goes_on_where_the_old_one_was() {
        assert_eq!(options("after_id=7", &[]).unwrap().after_id, Some(7));
        let again = options("after_id=7", &[("last-event-id", "9")]).unwrap();
        assert_eq!(again.after_id, Some(9));
        assert_eq!(options("", &[("last-event-id", "x")]).unwrap().after_id, None);
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
