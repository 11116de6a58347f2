//! The page: what is slow, where and since when, for people with a browser.
//!
//! Every page is made on the server, whole, from one look at the source, and reads without JavaScript: links and forms with
//! GET, the filters in the address, so that an address can be pasted into a chat. A small script (`live.js`) swaps what
//! changed when [`events`] says that a second has passed, and makes and drops reports through the API. Nothing comes from
//! outside: one style sheet and one script, compiled in, and a content security policy that allows no others.
//!
//! | file | shows |
//! |---|---|
//! | `overview` | the last hour, and what leads by time, p95, count, errors |
//! | `reports`, `report`, `row` | the list, one report as a table, one row with its past, histogram and slowest requests |
//! | `requests`, `request` | the search, and one request with the waterfall of its timers |
//! | `timers` | raw timers by any tags |
//! | `health` | the daemon itself |
//!
//! Below them: [`frame`] (what all pages have), [`ranking`] (tables of rows), [`groups`] (the small table of timers), [`chart`] (SVG), [`past`] (charts of the last hour), `show` (numbers and hostile
//! names as text), `second` (each page is made once a second at most, however many look), `compressed`, `ask` (parameters).
//!
//! Names come from packets. They reach a page only as text of maud's templates, which escape everything, or percent-encoded
//! in an address that begins with a slash; what is invisible or turns the direction of text is shown as a sign (`show`).

mod ask;
mod assets;
mod chart;
mod compressed;
mod events;
mod frame;
mod groups;
mod health;
mod overview;
mod past;
mod ranking;
mod report;
mod reports;
mod request;
mod requests;
mod row;
mod second;
mod show;
mod timers;

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};
use maud::Markup;

use self::compressed::Text;
use self::second::Seconds;
use super::Planned;
use super::error::Problem;
use super::routes::App;
use crate::query::source::Source;

pub(super) use self::compressed::around as compress;
pub(super) use self::overview::read;

/// What the pages keep between requests.
#[derive(Debug, Default)]
pub(super) struct Kept {
    seconds: Seconds,
    events: events::Hub,
    rates: health::Rates,
    plan: Arc<[Planned]>,
}

impl Kept {
    /// Nothing yet, but the memory plan.
    pub(super) fn new(plan: Arc<[Planned]>) -> Self {
        Self {
            plan,
            ..Self::default()
        }
    }
}

/// Bytes that pages take at most while `looks` of them are being made: those that are kept for a second, and sums over raw timers.
pub(super) const fn bytes_max(looks: usize) -> usize {
    second::BYTES + looks * timers::SUMS_BYTES
}

/// What a page may load and do. Nothing inline, nothing from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Every path beside `/`, the methods it knows, and their handlers.
pub(super) fn paths() -> [(&'static str, &'static str, MethodRouter<App>); 10] {
    const GET: &str = "GET, HEAD, OPTIONS";
    [
        ("/reports", GET, get(reports::read)),
        ("/reports/{name}", GET, get(report::read)),
        ("/reports/{name}/row", GET, get(row::read)),
        ("/reports/{name}/{chart}", GET, get(past::read)),
        ("/requests", GET, get(requests::read)),
        ("/requests/{id}", GET, get(request::read)),
        ("/timers", GET, get(timers::read)),
        ("/daemon", GET, get(health::read)),
        ("/assets/{file}", GET, get(assets::read)),
        ("/events", GET, get(events::read)),
    ]
}

/// Makes a page from a look at the source, or the page that says why not. Pages are shared for a second.
async fn answer(
    app: App,
    uri: &Uri,
    view: Result<impl FnOnce(&dyn Source) -> Result<Markup, Problem> + Send + 'static, Problem>,
) -> Response<Body> {
    let made = match view {
        Err(problem) => Err(problem),
        Ok(view) => shared(&app, uri, view).await,
    };
    match made {
        Ok(text) => html(StatusCode::OK, text),
        Err(problem) => refusal(&problem),
    }
}

/// The same without sharing: for pages on which one's own changes must be seen at once.
async fn fresh(
    app: App,
    view: Result<impl FnOnce(&dyn Source) -> Result<Markup, Problem> + Send + 'static, Problem>,
) -> Response<Body> {
    let made = match view {
        Err(problem) => Err(problem),
        Ok(view) => app.look(view).await,
    };
    match made {
        Ok(page) => html(StatusCode::OK, Text::new(page.into_string())),
        Err(problem) => refusal(&problem),
    }
}

/// A chart alone, for wikis and tickets. What goes wrong is a problem document: nobody reads a page inside of a picture.
async fn picture(
    app: App,
    uri: &Uri,
    view: Result<impl FnOnce(&dyn Source) -> Result<Markup, Problem> + Send + 'static, Problem>,
) -> Response<Body> {
    let made = match view {
        Err(problem) => Err(problem),
        Ok(view) => shared(&app, uri, view).await,
    };
    match made {
        Ok(text) => {
            let mut response = html(StatusCode::OK, text);
            let media_type = HeaderValue::from_static("image/svg+xml");
            response.headers_mut().insert(CONTENT_TYPE, media_type);
            response
        }
        Err(problem) => problem.into_response(),
    }
}

/// Makes a page, or takes the one that was made for the same address in this second.
async fn shared(
    app: &App,
    uri: &Uri,
    view: impl FnOnce(&dyn Source) -> Result<Markup, Problem> + Send + 'static,
) -> Result<Text, Problem> {
    let target = uri.path_and_query();
    let target = target.map_or("/", |target| target.as_str());
    let make = app.look(move |source| Ok(Text::new(view(source)?.into_string())));
    app.kept().seconds.get(target, make).await
}

/// Whether who asks prefers a page to a problem document, as browsers do.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// What is said to who is not let in: no links and no names, and nothing that would have to be loaded.
pub(super) fn stranger(problem: Problem) -> Response<Body> {
    let page = frame::alone(problem.status, problem.detail()).into_string();
    let mut response = problem.into_response();
    let media_type = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    *response.body_mut() = page.into();
    response
}

/// A page that says why there is no other.
fn refusal(problem: &Problem) -> Response<Body> {
    let page = frame::problem(problem.status, problem.detail());
    html(problem.status, Text::new(page.into_string()))
}

fn html(status: StatusCode, text: Text) -> Response<Body> {
    let mut response = text.into_response();
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
