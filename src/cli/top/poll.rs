//! Polls the daemon on its own thread, so that the screen responds however slow the daemon is.
//!
//! The screen sends the view to fetch ([`Query`]); the thread `poll` fetches it and the counters
//! once an interval and sends the resulting tables ([`Update`]). A new query is fetched at once.
//! Answers are bounded by their row limits and by the client's; the channel holds `WAITING`
//! updates, and when it is full the thread waits. The thread ends after the screen.

use std::io;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use serde_json::Value as Json;

use super::location::{Conditions, Location};
use super::stats::Sample;
use super::table::Content;
use super::timers;
use super::views::{self, ReportInfo};
use crate::cli::client::{Client, ClientError};
use crate::cli::format::visible;
use crate::http::encode;

/// Capacity of the channel, in updates.
const WAITING: usize = 4;
/// Row limit of a report, and the limit if the daemon cannot sort or a filter is set.
const ROWS: (usize, usize) = (1_000, 10_000);
/// Points of history at the start: five minutes by the second.
const PAST_POINTS: u64 = 300;
/// Newest requests whose timers are added up.
const TIMER_REQUESTS: usize = 300;
/// Slowest requests shown.
const SLOWEST: usize = 100;
/// Row limit of a search for the slowest requests, and most searches.
const SEARCH: (usize, usize) = (1_000, 3);

/// A view to fetch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Returned with the answer.
    pub serial: u64,
    /// The content to show.
    pub location: Location,
    /// Sort order for the daemon.
    pub sort: Option<String>,
    /// Whether more rows than usual are needed.
    pub all: bool,
    /// The tag by which timers are added up.
    pub tag: Option<String>,
    /// Time between two polls.
    pub interval: Duration,
}

/// A message from the poller.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// The counters, and the time since the previous ones.
    Sample(Sample, Duration),
    /// The tables of a view, or why the daemon refuses them.
    Page(u64, Result<Page, String>),
    /// The daemon does not answer.
    Lost(ClientError),
}

/// The content of a view.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Lines above the tables.
    pub about: Vec<(&'static str, String)>,
    /// The tables.
    pub tables: Vec<Content>,
}

/// Starts the thread. Of several queries the last counts.
///
/// # Errors
/// Fails if the system cannot create a thread.
pub fn start(client: Client, first: Query) -> io::Result<(Sender<Query>, Receiver<Update>)> {
    let (queries, wanted) = unbounded();
    let (updates, update) = bounded(WAITING);
    thread::Builder::new()
        .name("poll".to_owned())
        .spawn(move || run(Poller::new(client), first, &wanted, &updates))?;
    Ok((queries, update))
}

/// Ends when a send finds that the screen is gone.
fn run(
    mut poller: Poller,
    mut query: Query,
    wanted: &Receiver<Query>,
    updates: &Sender<Update>,
) -> Option<()> {
    let (mut sampled, mut shown): (Option<Instant>, _) = (None, None);
    loop {
        if sampled.is_none_or(|at| at.elapsed() >= query.interval) {
            let now = Instant::now();
            match poller.sample(query.interval) {
                Ok(sample) => {
                    let since = sampled.replace(now).map(|before| now - before);
                    let sample = Update::Sample(sample, since.unwrap_or_default());
                    updates.send(sample).ok()?;
                }
                Err(error) => {
                    sampled = None;
                    updates.send(update(query.serial, error)).ok()?;
                }
            }
        }
        // A single request does not change.
        let again = !matches!(query.location, Location::Request(_)) || shown != Some(query.serial);
        if again && sampled.is_some() {
            let page = poller.page(&query);
            shown = page.is_ok().then_some(query.serial).or(shown);
            let page = page.map(|page| Update::Page(query.serial, Ok(page)));
            let page = page.unwrap_or_else(|error| update(query.serial, error));
            updates.send(page).ok()?;
        }
        let spent = sampled.map_or(Duration::ZERO, |at| at.elapsed());
        match wanted.recv_timeout(query.interval.saturating_sub(spent)) {
            Ok(newer) => query = wanted.try_iter().last().unwrap_or(newer),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

fn update(serial: u64, error: ClientError) -> Update {
    match error {
        ClientError::Refused { detail, .. } => {
            Update::Page(serial, Err(visible(&detail).into_owned()))
        }
        error => Update::Lost(error),
    }
}

fn unix_secs() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs()
}

/// Fetches views and counters.
#[derive(Debug)]
pub struct Poller {
    client: Client,
    /// The report fetched last.
    info: Option<ReportInfo>,
    /// Requests in memory, as of the last sample.
    in_memory: Option<u64>,
}

impl Poller {
    /// A poller that has fetched nothing yet.
    pub fn new(client: Client) -> Self {
        Self { client, info: None, in_memory: None }
    }

    /// The daemon's history of a metric, and the seconds of its steps: the daemon may have longer
    /// ones only. Empty if it keeps none.
    fn past(&self, metric: &str, from: u64, step: u64) -> (Vec<Option<f64>>, u64) {
        let path = format!("/api/v1/reports/info/series?metric={metric}&from={from}&step={step}");
        let answer = self.client.get(&path).unwrap_or_default();
        let points = answer["points"].as_array().into_iter().flatten().map(Json::as_f64);
        (points.collect(), answer["step"].as_u64().unwrap_or(step))
    }

    /// Fetches the counters, and the last minutes.
    ///
    /// # Errors
    /// Fails if there is no daemon, or it refuses.
    pub fn sample(&mut self, interval: Duration) -> Result<Sample, ClientError> {
        let status = self.client.get("/api/v1/status")?;
        self.in_memory = status["request_rows"].as_u64();
        let (step, unix_secs) = (interval.as_secs().clamp(1, 3_600), unix_secs());
        let from = unix_secs.saturating_sub((step * PAST_POINTS).min(3_600));
        let (requests, step) = self.past("req_per_sec", from, step);
        let (latency, step_secs) = self.past("p95", from, step);
        Ok(Sample { status, requests, latency, step_secs: step.max(step_secs), unix_secs })
    }

    /// Fetches the content of a view.
    ///
    /// # Errors
    /// Fails if there is no daemon, or it refuses.
    pub fn page(&mut self, query: &Query) -> Result<Page, ClientError> {
        let mut about = Vec::new();
        let tables = match &query.location {
            Location::ByKey(tab) => {
                let report = format!("report_by_{}", tab.2);
                let sort = query.sort.as_deref().or(Some("-req_time_total"));
                let body = self.report(&report, query.all, sort, "&percentiles=50,95")?;
                vec![views::by_key(tab, &body)]
            }
            Location::Timers => {
                let rows = self.requests(&[], &format!("timers=1&limit={TIMER_REQUESTS}"))?;
                vec![timers::added_up(&rows, query.tag.as_deref())]
            }
            Location::Slowest => {
                let newest = self.requests(&[], &format!("limit={TIMER_REQUESTS}"))?;
                let slowest = self.slowest(&Vec::new(), newest)?;
                // Those of the sample may be gone by now.
                let least = slowest.rows.len() as u64;
                let total = self.in_memory.map(|all| all.max(least));
                vec![Content { total, ..slowest }]
            }
            Location::Reports => vec![views::list(&self.client.get("/api/v1/reports")?)],
            Location::Report(name) => vec![self.any_report(name, query)?],
            Location::Requests(conditions) => {
                let limit = format!("timers=1&limit={TIMER_REQUESTS}");
                let newest = self.requests(conditions, &limit)?;
                vec![
                    timers::added_up(&newest, query.tag.as_deref()),
                    self.slowest(conditions, newest)?,
                ]
            }
            Location::Request(id) => {
                let request = self.client.get(&format!("/api/v1/requests/{id}"))?;
                about = views::about(&request);
                vec![timers::of_request(&request)]
            }
        };
        Ok(Page { about, tables })
    }

    fn any_report(&mut self, name: &str, query: &Query) -> Result<Content, ClientError> {
        if self.info.as_ref().is_none_or(|info| info.name != name) {
            let list = self.client.get("/api/v1/reports")?;
            let mut listed = list["reports"].as_array().into_iter().flatten();
            // A report that is not listed may have an alias; otherwise reading it gives an error.
            let listed = listed.find(|listed| listed["name"] == name);
            self.info = listed.map(ReportInfo::of);
        }
        let first = self.info.as_ref().and_then(ReportInfo::first_sort);
        let first = first.map(|first| format!("-{first}"));
        let sort = query.sort.as_ref().or(first.as_ref()).map(String::as_str);
        let by = sort.map(|sort| sort.strip_prefix('-').unwrap_or(sort));
        let is_more = |info: &&ReportInfo| info.columns.iter().all(|it| Some(&*it.name) != by);
        if let Some((info, by)) = self.info.as_ref().filter(is_more).zip(by) {
            let info = info.with_column(by);
            let names: Vec<_> = info.columns.iter().map(|it| it.name.replace(',', "\\,")).collect();
            let more = format!("&columns={}", encode(&names.join(",")));
            match self.report(name, query.all, sort, &more) {
                // There is no such column: the table says so.
                Err(ClientError::Refused { status: 400, .. }) => {}
                body => return Ok(views::any(&info, &body?)),
            }
        }
        let sort = sort.filter(|_| self.info.as_ref().is_none_or(|info| !is_more(&info)));
        let body = self.report(name, query.all, sort, "")?;
        Ok(match &self.info {
            Some(info) => views::any(info, &body),
            None => views::any(&ReportInfo::seen(name, &body), &body),
        })
    }

    fn report(
        &self,
        name: &str,
        all: bool,
        sort: Option<&str>,
        more: &str,
    ) -> Result<Json, ClientError> {
        let limit = if all { ROWS.1 } else { ROWS.0 };
        let mut path = format!("/api/v1/reports/{}?limit={limit}{more}", encode(name));
        if let Some(sort) = sort {
            path.push_str(&format!("&sort={}", encode(sort)));
        }
        self.client.get(&path)
    }

    fn requests(
        &self,
        conditions: &[(String, String)],
        more: &str,
    ) -> Result<Vec<Json>, ClientError> {
        let mut path = format!("/api/v1/requests?{more}");
        for (name, value) in conditions {
            path.push_str(&format!("&{}={}", encode(name), encode(value)));
        }
        match self.client.get(&path)?.get_mut("rows").map(Json::take) {
            Some(Json::Array(rows)) => Ok(rows),
            _ => Ok(Vec::new()),
        }
    }

    /// The slowest requests in memory. The newest show what counts as slow; a search above that
    /// time then finds slower ones, wherever they are. If it finds too many, the bound is raised
    /// and the search starts again.
    fn slowest(&self, conditions: &Conditions, newest: Vec<Json>) -> Result<Content, ClientError> {
        let time = |row: &Json| row["req_time"].as_f64().unwrap_or_default();
        let slowest_first = |mut rows: Vec<Json>| {
            rows.sort_by(|a, b| time(b).total_cmp(&time(a)));
            rows
        };
        let mut whole = newest.len() < TIMER_REQUESTS;
        let mut rows = slowest_first(newest);
        for _ in 0..SEARCH.1 {
            if whole {
                break;
            }
            // A tenth of the newest, so that the search finds some more than are shown.
            let bound = rows.get(rows.len() / 10).map_or(0.0, time);
            let more = format!("limit={}&min_time={bound:.6}", SEARCH.0);
            let found = self.requests(conditions, &more)?;
            whole = found.len() < SEARCH.0;
            rows = slowest_first(found);
        }
        rows.truncate(SLOWEST);
        let title = match whole {
            true => "slowest requests in memory".to_owned(),
            false => format!("slowest of the newest {} or more requests", SEARCH.0),
        };
        Ok(views::slowest(title, conditions, &rows))
    }
}
