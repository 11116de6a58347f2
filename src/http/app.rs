//! State shared by all handlers: the read model, the limits on concurrent queries, and caches of
//! pages.
//!
//! Queries run on threads that may block, each with a permit of its limit, so that neither a slow
//! query nor a panic in one affects the tasks that move bytes. A query goes on when its client
//! leaves, and keeps its permit.

use std::sync::Arc;
use std::time::Duration;

use axum::routing::MethodRouter;
use tokio::sync::watch;
use tracing::error;

use super::answer::body::RowBody;
use super::answer::format::Answer;
use super::concurrency_limit::{ConcurrencyLimit, Permit};
use super::error::Problem;
use super::page::cache::PageCache;
use super::page::rates::Rates;
use super::settings::HttpSettings;
use crate::query::catalog::Catalog;
use crate::sql::Engine;
use crate::telemetry::reading::Group;

/// Concurrent short queries: status, lists, single requests.
const SHORT_MAX: usize = 4;

/// Concurrent answers about the fleet.
const FLEET_MAX: usize = 4;

/// Concurrent streams of `/events`.
const LISTENERS_MAX: usize = 64;

/// A path and its handlers. GET implies HEAD.
pub(super) type Endpoint = (&'static str, MethodRouter<Arc<App>>);

/// State shared by all handlers.
pub(super) struct App {
    pub(super) source: Arc<Catalog>,
    /// Runs statements; `None` without SQL.
    pub(super) sql: Option<Engine>,
    /// For queries with short answers.
    short: ConcurrencyLimit,
    /// For reports, pages of requests and pages for people.
    readings: ConcurrencyLimit,
    /// For answers about the fleet, so that waiting for ClickHouse delays nothing else.
    fleet: ConcurrencyLimit,
    /// For answers that are written while they are sent.
    streams: ConcurrencyLimit,
    /// For clients that follow requests: nobody waits for a permit.
    pub(super) followers: ConcurrencyLimit,
    /// For imports of logs.
    pub(super) imports: ConcurrencyLimit,
    /// For replays of rules.
    pub(super) replays: ConcurrencyLimit,
    pub(super) settings: HttpSettings,
    /// Becomes true when the server stops.
    stopped: watch::Receiver<bool>,
    pub(super) pages: PageCache,
    /// For live pages.
    pub(super) listeners: ConcurrencyLimit,
    pub(super) rates: Rates,
    pub(super) instrument_rates: Rates,
}

impl App {
    pub(super) fn new(
        (source, sql): (Arc<Catalog>, Option<Engine>),
        settings: &HttpSettings,
        stopped: watch::Receiver<bool>,
    ) -> Arc<Self> {
        let limit = |what, permits| {
            ConcurrencyLimit::new(what, permits, settings.waiting_max, settings.patience)
        };
        let at_once = |what, permits| ConcurrencyLimit::new(what, permits, 0, Duration::ZERO);
        Arc::new(Self {
            source,
            sql,
            short: limit("queries", SHORT_MAX),
            readings: limit("readings", settings.readings_max),
            fleet: limit("answers about the fleet", FLEET_MAX),
            streams: limit("large answers", settings.streams_max),
            followers: at_once("followers", settings.followers_max),
            imports: limit("imports", 1),
            replays: limit("replays of alerts", 1),
            settings: settings.clone(),
            stopped,
            pages: PageCache::default(),
            listeners: at_once("live pages", LISTENERS_MAX),
            rates: Rates::default(),
            instrument_rates: Rates::default(),
        })
    }

    /// Completes when the server stops.
    pub(super) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopped = self.stopped.clone();
        async move {
            // An error means that the server is gone, which is a stop as well.
            let _gone = stopped.wait_for(|stopped| *stopped).await;
        }
    }

    /// Queries the read model, under a permit that the caller has.
    pub(super) async fn query_with<T: Send + 'static>(
        &self,
        permit: Option<Permit>,
        query: impl FnOnce(&Catalog) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let source = Arc::clone(&self.source);
        let work = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            query(source.as_ref())
        });
        work.await.unwrap_or_else(|failure| {
            error!(%failure, "A query panicked.");
            Err(Problem::internal())
        })
    }

    /// Runs a query, of which there may be so many at once.
    pub(super) async fn query_under<T: Send + 'static>(
        &self,
        limit: &ConcurrencyLimit,
        query: impl FnOnce(&Catalog) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = limit.enter().await?;
        self.query_with(Some(permit), query).await
    }

    /// Runs a query with a short answer.
    pub(super) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Catalog) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.query_under(&self.short, query).await
    }

    /// Runs a query that may read whole reports, for the fleet if so requested.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        is_fleet: bool,
        query: impl FnOnce(&Catalog) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.query_under(self.readings_of(is_fleet), query).await
    }

    fn readings_of(&self, is_fleet: bool) -> &ConcurrencyLimit {
        if is_fleet { &self.fleet } else { &self.readings }
    }

    /// Runs a query whose rows are the answer, for the fleet if so requested.
    pub(super) async fn read_rows(
        &self,
        is_fleet: bool,
        query: impl FnOnce(&Catalog) -> Result<RowBody, Problem> + Send + 'static,
    ) -> Answer {
        let permit = self.readings_of(is_fleet).enter().await?;
        let read = move |source: &Catalog| Ok((query(source)?, permit));
        let (body, permit) = self.query_with(None, read).await?;
        if body.is_whole() {
            return Ok(body.into_response(permit));
        }
        // The read permit is held until the stream has its own, so tables never outnumber permits.
        let stream = self.streams.enter().await?;
        drop(permit);
        Ok(body.into_response(stream))
    }

    /// The status, including that of the series and the metrics.
    pub(super) async fn status(&self) -> Result<Vec<Group>, Problem> {
        let settings = self.settings.clone();
        self.query(move |source| {
            let mut status = source.status_groups();
            status.extend(settings.series.map(|series| series.status()));
            status.extend(settings.metrics.status());
            Ok(status)
        })
        .await
    }
}
