//! Asks the daemon, on a thread of its own, so that the screen answers whatever the daemon does.
//!
//! The screen says what it shows ([`Wish`]); the thread (`poll`) asks for that and for the counters, again and again, and
//! sends what it got, made into tables already ([`News`]). A new wish is met at once. Answers are bounded by the rows asked
//! for and by the client's limits; the channel holds `WAITING` news, and when it is full the thread waits. It ends when the
//! screen is gone.

use std::io;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use serde_json::Value as Json;

use super::grid::Content;
use super::pulse::{self, Look};
use super::timers;
use super::views::{self, Shape, Tab};
use crate::client::address::encoded;
use crate::client::shown::visible;
use crate::client::{Client, ClientError};

/// News on the way.
const WAITING: usize = 4;
/// Rows of a report that are asked for, and where the daemon cannot sort or a filter is set.
const ROWS: (usize, usize) = (1_000, 10_000);
/// Points of the past that are asked for: five minutes by the second.
const PAST_POINTS: u64 = 300;
/// Newest requests of which latency is taken.
const LATENCY_REQUESTS: usize = 200;
/// Newest requests whose timers are added up.
const TIMER_REQUESTS: usize = 300;
/// Slowest requests that are shown.
const SLOWEST: usize = 100;
/// Requests that a search for the slowest asks for at once, and how often it asks.
const SEARCH: (usize, usize) = (1_000, 3);

/// Parameters of a search for requests, and their values.
pub type Conditions = Vec<(String, String)>;

/// What the screen shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A view that is always there.
    Tab(Tab),
    /// A report.
    Report(String),
    /// The requests that meet these conditions: their timers, and the slowest of them.
    Requests(Conditions),
    /// One request.
    Request(u64),
}

/// What to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// Comes back with the answer.
    pub serial: u64,
    /// What is shown.
    pub place: Place,
    /// How the daemon shall sort.
    pub sort: Option<String>,
    /// Whether more rows than usual are needed.
    pub all: bool,
    /// The tag by which timers are added up.
    pub tag: Option<String>,
    /// How often.
    pub interval: Duration,
}

/// What the daemon said.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// What was before the first look: requests a second and their 95th percentile.
    Past(Vec<Option<f64>>, Vec<Option<f64>>),
    /// Its counters, so long after those before.
    Look(Look, Duration),
    /// What is shown, as of now.
    Page(u64, Page),
    /// It cannot be shown.
    Refused(u64, String),
    /// There is no daemon.
    Lost(ClientError),
}

/// What a place shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Lines before the tables.
    pub about: Vec<(String, String)>,
    /// The tables.
    pub tables: Vec<Content>,
}

/// Starts to ask. What is sent last counts.
///
/// # Errors
/// When the system gives no thread.
pub fn start(client: Client, first: Wish) -> io::Result<(Sender<Wish>, Receiver<News>)> {
    let (wishes, wanted) = unbounded();
    let (news, told) = bounded(WAITING);
    thread::Builder::new()
        .name("poll".to_owned())
        .spawn(move || drop(run(Poller::new(client), first, &wanted, &news)))?;
    Ok((wishes, told))
}

/// The end of the channel is the end of it.
struct Gone;

fn run(
    mut poller: Poller,
    mut wish: Wish,
    wanted: &Receiver<Wish>,
    news: &Sender<News>,
) -> Result<(), Gone> {
    let tell = |told: News| news.send(told).map_err(|_| Gone);
    let mut before: Option<Instant> = None;
    let mut shown = None;
    let (requests, latency) = (
        poller.past("req_per_sec", wish.interval),
        poller.past("p95", wish.interval),
    );
    tell(News::Past(requests, latency))?;
    loop {
        let start = Instant::now();
        match poller.look() {
            Ok(look) => {
                let since = before
                    .replace(start)
                    .map_or(Duration::ZERO, |it| start - it);
                tell(News::Look(look, since))?;
            }
            Err(error) => {
                before = None;
                tell(told(wish.serial, error))?;
            }
        }
        loop {
            // One request does not change.
            let again = !matches!(wish.place, Place::Request(_)) || shown != Some(wish.serial);
            if again && before.is_some() {
                match poller.page(&wish) {
                    Ok(page) => {
                        shown = Some(wish.serial);
                        tell(News::Page(wish.serial, page))?;
                    }
                    Err(error) => tell(told(wish.serial, error))?,
                }
            }
            let left = wish.interval.saturating_sub(start.elapsed());
            match wanted.recv_timeout(left) {
                Ok(newer) => wish = wanted.try_iter().last().unwrap_or(newer),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return Err(Gone),
            }
        }
    }
}

fn told(serial: u64, error: ClientError) -> News {
    match error {
        ClientError::Refused { detail, .. } => News::Refused(serial, visible(&detail).into_owned()),
        error => News::Lost(error),
    }
}

/// Asks one thing after the other.
#[derive(Debug)]
pub struct Poller {
    client: Client,
    /// The newest request that was seen.
    last_id: u64,
    /// Whether there is raw data.
    raw: bool,
    /// The report that was asked for last.
    shape: Option<(String, Shape)>,
}

impl Poller {
    /// Nothing is asked yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            last_id: 0,
            raw: true,
            shape: None,
        }
    }

    /// What the daemon kept of a metric, in steps of about the interval; nothing where it keeps nothing.
    fn past(&self, metric: &str, interval: Duration) -> Vec<Option<f64>> {
        let step = interval.as_secs().max(1);
        let reach = step * PAST_POINTS;
        let now = SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_secs();
        let from = now.saturating_sub(reach.min(3_600));
        let path = format!(
            "/api/v1/reports/info/series?metric={metric}&from={from}&step={}",
            step.min(3_600)
        );
        let Ok(answer) = self.client.get(&path) else {
            return Vec::new();
        };
        let points = answer["points"].as_array().into_iter().flatten();
        points.map(Json::as_f64).collect()
    }

    /// The counters, and the latency of what came since the last time.
    ///
    /// # Errors
    /// When there is no daemon, or it refuses.
    pub fn look(&mut self) -> Result<Look, ClientError> {
        let mut look = Look::of(&self.client.get("/api/v1/status")?);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        look.unix_secs = now.as_secs();
        if self.raw {
            match self.requests(&[], &format!("limit={LATENCY_REQUESTS}")) {
                Ok(rows) => look.latency = self.latency(&rows),
                Err(ClientError::Refused { status: 404, .. }) => self.raw = false,
                Err(error) => return Err(error),
            }
        }
        Ok(look)
    }

    fn latency(&mut self, rows: &[Json]) -> Option<(f64, f64)> {
        let id = |row: &Json| row["id"].as_u64().unwrap_or_default();
        let newest = rows.first().map(id)?;
        // Ids that begin anew are those of another daemon.
        let seen = if newest < self.last_id {
            0
        } else {
            self.last_id
        };
        self.last_id = newest;
        let new = rows.iter().take_while(|row| id(row) > seen);
        pulse::latency(new.filter_map(|row| row["req_time"].as_f64()).collect())
    }

    /// What a place shows.
    ///
    /// # Errors
    /// When there is no daemon, or it refuses.
    pub fn page(&mut self, wish: &Wish) -> Result<Page, ClientError> {
        let tables = match &wish.place {
            Place::Tab(Tab::Timers) => {
                let rows = self.requests(&[], &format!("timers=1&limit={TIMER_REQUESTS}"))?;
                vec![timers::added_up(&rows, wish.tag.as_deref())]
            }
            Place::Tab(Tab::Requests) => {
                let newest = self.requests(&[], &format!("limit={TIMER_REQUESTS}"))?;
                vec![self.slowest(&[], newest)?]
            }
            Place::Tab(Tab::Reports) => vec![views::list(&self.client.get("/api/v1/reports")?)],
            Place::Tab(tab) => {
                let Some((report, key)) = tab.report() else {
                    return Ok(Page::default());
                };
                let sort = wish.sort.as_deref().unwrap_or("-req_time_total");
                let columns = views::BY_KEY.join(",");
                let columns = format!("&percentiles={}&columns={key},{columns}", views::PERCENTILE);
                let body = self.report(report, wish.all, sort, &columns)?;
                vec![views::by_key(*tab, &body)]
            }
            Place::Report(name) => vec![self.any_report(name, wish)?],
            Place::Requests(conditions) => {
                let limit = format!("timers=1&limit={TIMER_REQUESTS}");
                let newest = self.requests(conditions, &limit)?;
                vec![
                    timers::added_up(&newest, wish.tag.as_deref()),
                    self.slowest(conditions, newest)?,
                ]
            }
            Place::Request(id) => {
                let request = self.client.get(&format!("/api/v1/requests/{id}"))?;
                return Ok(Page {
                    about: views::about(&request),
                    tables: vec![timers::of_request(&request)],
                });
            }
        };
        Ok(Page {
            about: Vec::new(),
            tables,
        })
    }

    fn any_report(&mut self, name: &str, wish: &Wish) -> Result<Content, ClientError> {
        if self.shape.as_ref().is_none_or(|(known, _)| known != name) {
            let list = self.client.get("/api/v1/reports")?;
            let mut listed = list["reports"].as_array().into_iter().flatten();
            // One that is not listed may have an alias; if not, reading it says so.
            if let Some(listed) = listed.find(|listed| listed["name"] == name) {
                self.shape = Some((name.to_owned(), Shape::of(listed)));
            }
        }
        let known = self.shape.as_ref().filter(|(known, _)| known == name);
        let shape = known.map(|(_, shape)| shape.clone());
        let first = shape.as_ref().and_then(Shape::first_sort);
        let sort = match (&wish.sort, first) {
            (Some(sort), _) => sort.clone(),
            (None, Some(first)) => format!("-{first}"),
            (None, None) => String::new(),
        };
        let body = self.report(name, wish.all, &sort, "")?;
        let shape = shape.unwrap_or_else(|| Shape::seen(&body));
        Ok(views::any(name, &shape, &body))
    }

    fn report(&self, name: &str, all: bool, sort: &str, more: &str) -> Result<Json, ClientError> {
        let limit = if all { ROWS.1 } else { ROWS.0 };
        let mut path = format!("/api/v1/reports/{}?limit={limit}{more}", encoded(name));
        if !sort.is_empty() {
            path.push_str(&format!("&sort={}", encoded(sort)));
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
            path.push_str(&format!("&{}={}", encoded(name), encoded(value)));
        }
        match self.client.get(&path)?.get_mut("rows").map(Json::take) {
            Some(Json::Array(rows)) => Ok(rows),
            _ => Ok(Vec::new()),
        }
    }

    /// The slowest of all that are in memory. The newest say what is slow among them; then a search from that time on finds
    /// those that are slower, wherever they are, unless they are too many: then the bound is raised and it begins anew.
    fn slowest(
        &self,
        conditions: &[(String, String)],
        newest: Vec<Json>,
    ) -> Result<Content, ClientError> {
        let time = |row: &Json| row["req_time"].as_f64().unwrap_or_default();
        let mut rows = newest;
        let mut whole = rows.len() < TIMER_REQUESTS;
        for _ in 0..SEARCH.1 {
            if whole {
                break;
            }
            rows.sort_by(|a, b| time(b).total_cmp(&time(a)));
            // A tenth of the newest, so that the search finds some more than are shown.
            let bound = rows.get(rows.len() / 10).map_or(0.0, time);
            let more = format!("limit={}&min_time={bound:.6}", SEARCH.0);
            rows = self.requests(conditions, &more)?;
            whole = rows.len() < SEARCH.0;
        }
        rows.sort_by(|a, b| time(b).total_cmp(&time(a)));
        rows.truncate(SLOWEST);
        let title = match whole {
            true => "slowest requests in memory".to_owned(),
            false => format!("slowest of the newest {} or more requests", SEARCH.0),
        };
        Ok(views::slowest(title, conditions, &rows))
    }
}
