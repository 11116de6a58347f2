//! Pages as responses: built on a thread that may block, shared for a second, with errors as pages
//! too.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};
use maud::{Markup, html};

use super::compressed::Text;
use super::frame;
use super::time::{Time, take_whose};
use crate::access::{Pass, Role};
use crate::config::suggest;
use crate::http::app::App;
use crate::http::error::Problem;
use crate::http::fleet;
use crate::http::params::Params;
use crate::http::request_checks::header;
use crate::http::time_range::Span;
use crate::query::catalog::Catalog;
use crate::query::error::QueryError;

/// Content security policy of pages: nothing inline, nothing from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";

/// The input of a page.
pub(super) struct View<'a> {
    pub(super) source: &'a Catalog,
    pub(super) app: &'a App,
    /// The parameters in the path of the route.
    pub(super) path: Vec<String>,
    /// The selected time.
    pub(super) time: Time,
    /// Whether the client may change something.
    may_change: bool,
    uri: &'a Uri,
}

impl View<'_> {
    /// The parameters; empty ones count as absent, since forms send them.
    pub(super) fn form(&self) -> Result<Params, Problem> {
        without_time(Params::of_form(self.uri.query())?)
    }

    /// The parameters, including empty ones: a key may be the empty text.
    pub(super) fn params(&self) -> Result<Params, Problem> {
        without_time(Params::parse(self.uri.query())?)
    }

    /// The whole page, of the section with this URL.
    pub(super) fn page(
        &self,
        section: &str,
        title: &str,
        main: &Markup,
    ) -> Result<Markup, Problem> {
        let (path, params) = (self.uri.path(), self.params()?);
        let members = self.source.fleet_members();
        // The data of other pages is not shipped, or not added up.
        let absent = absent(self.app);
        let is_current =
            ["/alerts", "/releases", "/daemon"].contains(&section) || absent.contains(&section);
        let is_here = !is_current && !["/", "/reports"].contains(&section);
        // These show the present, and stay live, whatever time their links pass on.
        let has_past = !is_current && !["/profile", "/reports"].contains(&path);
        // The daemon itself has no past and no fleet, alerts and releases are current, and a
        // section without data has nothing at any time.
        let control = html! {
            @if !is_current {
                (self.time.control(path, &params))
                @if let Some(members) = members { (self.time.choice(&members, path, &params)) }
            }
        };
        // The page of the daemon has them itself.
        let problems = if section == "/daemon" { Vec::new() } else { self.source.troubles() };
        let problems = super::formatting::visible(&problems.join("; "));
        let main = &html! {
            div #troubles data-live { @if !problems.is_empty() { p.problem { "Trouble with pinbad: " (problems) ". " a href="/daemon" { "How the daemon is doing" } } } }
            @if let Some((lost, start)) = self.source.refilled().zip(self.source.lost_until()).filter(|_| self.time.spans.is_none()) { p.note { "Before the start at " (self.time.moment(start)) " pinbad could not save what it had in memory. From " (self.time.moment(lost.start)) " to " (self.time.moment(lost.end)) " reports hold what history kept of them, by the minute; the rest is lost, and so are the raw requests since the last snapshot." } }
            @if is_here { (self.time.only_here()) } (main)
        };
        let past = self.time.refresh().filter(|_| has_past);
        Ok(frame::page(&self.time, past, &control, section, title, main, &absent))
    }

    /// For a client that may not change anything: who may, in words.
    pub(super) fn who_changes(&self) -> Option<&'static str> {
        let who = match self.app.settings.access.has_no_users() {
            true => "clients on its own machine, or inside its container,",
            false => "users with the role admin",
        };
        (!self.may_change).then_some(who)
    }

    /// The first parameter in the path of the route.
    pub(super) fn name(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }
}

/// The sections without data, which the navigation leaves out.
fn absent(app: &App) -> Vec<&'static str> {
    let source = &app.source;
    let optional = [
        ("/squid", source.knows_squid()),
        ("/profile", source.has_samples()),
        ("/alerts", !app.settings.alerts.rules().is_empty()),
        ("/releases", source.releases.tag().is_some()),
    ];
    optional.into_iter().filter(|(_, is_there)| !is_there).map(|(path, _)| path).collect()
}

/// Marks the parameters of the time, which every page has, as read.
fn without_time(mut params: Params) -> Result<Params, Problem> {
    Span::take_compared(&mut params);
    take_whose(&mut params)?;
    Ok(params)
}

/// Builds a page, or a picture.
pub(super) type Page = fn(&View<'_>) -> Result<Markup, Problem>;

/// How a page is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Built at most once a second, however many look at it.
    Shared,
    /// Shared as well, and of two spans in any case, so that there is something to compare.
    Compared,
    /// Like `Shared`, but the span is not widened: raw requests are found to the second.
    ExactSpan,
    /// Made each time: one's own changes must be seen at once.
    Fresh,
    /// Shared as well; plain text with `format=folded`.
    OrFolded,
    /// A stand-alone chart, for wikis and tickets. Errors are problem documents: nobody reads a
    /// page inside a picture.
    Picture,
}

/// The route of a page.
pub(super) fn route(kind: Kind, page: Page) -> MethodRouter<Arc<App>> {
    get(
        move |State(app): State<Arc<App>>,
              path: Result<Path<Vec<String>>, PathRejection>,
              pass: Option<Extension<Pass>>,
              uri: Uri,
              headers: HeaderMap| async move {
            let (path_shown, query) = (uri.path().to_owned(), uri.query().map(str::to_owned));
            let is_folded = kind == Kind::OrFolded
                && Params::of_form(uri.query()).is_ok_and(|it| it.get("format") == Some("folded"));
            let may_change = pass.is_some_and(|pass| pass.identity.role >= Role::Admin);
            let made = match path {
                Ok(Path(path)) => make(&app, path, uri, may_change, kind, page).await,
                Err(PathRejection::MissingPathParams(_)) => {
                    make(&app, Vec::new(), uri, may_change, kind, page).await
                }
                Err(_) => {
                    Err(QueryError::bad_value("name", "is not UTF-8 in percent-encoding").into())
                }
            };
            match made {
                Ok(text) if kind == Kind::Picture => answer(&text, &headers, "image/svg+xml"),
                Ok(text) if is_folded => answer(&text, &headers, "text/plain; charset=utf-8"),
                Ok(text) => answer(&text, &headers, HTML),
                Err(problem) if is_folded || kind == Kind::Picture => problem.into_response(),
                Err(problem) => {
                    let params = Params::parse(query.as_deref()).unwrap_or_default();
                    let is_given = |name: &str| params.get(name).is_some();
                    let without = |names: &[&'static str]| {
                        let changes: Vec<_> = names.iter().map(|name| (*name, None)).collect();
                        params.link(&path_shown, &changes)
                    };
                    let is_past = is_given("from") || is_given("to");
                    let other = match problem.status {
                        _ if is_given("fleet") => {
                            Some((without(&fleet::NAMES), "The same page for this daemon alone"))
                        }
                        StatusCode::NOT_FOUND if is_past => {
                            let live = without(&["from", "to", "compare"]);
                            Some((live, "The same page, live"))
                        }
                        _ => None,
                    };
                    // A time that was not accepted can be corrected where it was given.
                    let is_time = is_past || is_given("tz") || is_given("compare");
                    let is_bad = problem.status == StatusCode::BAD_REQUEST;
                    let time = (is_bad && is_time).then(|| Time::unread(&params));
                    let control = html! { @if let Some(time) = time { (time.control(&path_shown, &params)) } };
                    let detail = problem.detail_for_pages();
                    error_page(&app, problem.status, detail, other, &control, &headers)
                }
            }
        },
    )
}

async fn make(
    app: &Arc<App>,
    path: Vec<String>,
    uri: Uri,
    may_change: bool,
    kind: Kind,
    page: Page,
) -> Result<Text, Problem> {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    // No target has a `#`, so those who may only read share pages with each other.
    let target = format!("{target}{}", if may_change { "" } else { "#" });
    let shared = Arc::clone(app);
    let is_fleet = Params::of_form(uri.query()).is_ok_and(|params| fleet::is_named(&params));
    let text = app.read(is_fleet, move |source| {
        let report = path.first().filter(|_| uri.path().starts_with("/reports/"));
        let report = report.map(String::as_str);
        let view = View {
            source,
            app: &shared,
            time: Time::read(source, uri.query(), report, kind)?,
            path,
            may_change,
            uri: &uri,
        };
        Ok(Text::new(page(&view)?.into_string()))
    });
    match kind {
        Kind::Fresh => text.await,
        _ => app.pages.get(&target, text).await,
    }
}

/// Whether a client prefers a page to a problem document, as browsers do.
pub(in crate::http) fn is_wanted(headers: &HeaderMap) -> bool {
    header(headers, ACCEPT).is_some_and(|accept| accept.contains("text/html"))
}

/// The answer to a browser at a URL without a page.
pub(in crate::http) fn not_found(app: &App, path: &str, headers: &HeaderMap) -> Response<Body> {
    let meant = suggest::meant(path, frame::SECTIONS.map(|(path, _)| path));
    let question = meant.map(|path| format!("Did you mean {path}?"));
    let other = meant.zip(question.as_deref()).map(|(path, question)| (path.to_owned(), question));
    let detail = format!("There is no page at {path:?}");
    error_page(app, StatusCode::NOT_FOUND, &detail, other, &html! {}, headers)
}

fn error_page(
    app: &App,
    status: StatusCode,
    detail: &str,
    other: Option<(String, &str)>,
    control: &Markup,
    request: &HeaderMap,
) -> Response<Body> {
    let page = frame::problem(status, detail, other, Some((control, &absent(app))));
    let page = answer(&Text::new(page.into_string()), request, HTML);
    (status, page).into_response()
}

/// The answer to a browser without access: no links and no names, and nothing to load.
pub(in crate::http) fn stranger(problem: Problem) -> Response<Body> {
    let page = frame::problem(problem.status, problem.detail(), None, None).into_string();
    let mut response = problem.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(HTML));
    *response.body_mut() = page.into();
    response
}

fn answer(text: &Text, request: &HeaderMap, media_type: &'static str) -> Response<Body> {
    let mut response = text.response(request, media_type);
    let policy = HeaderValue::from_static(POLICY);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    response
}
