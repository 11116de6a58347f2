//! A server on port 0 and the source behind it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::http::{Answers, HttpSettings, serve};
use crate::query::error::QueryError;
use crate::query::read_model::{
    Distribution, FollowStep, Followed, ReadModel, ReportAnswer, ReportSummary, RequestDetail,
    RequestPage, RequestSearch, Scanned, SlowestPage, TimerDetail, TimerGroups, TimerSearch,
};
use crate::query::table::Table;
use crate::report::DefinedBy;
use crate::report::native::ReportForm;
use crate::state::annotations::Annotations;
use crate::telemetry::reading::{Group, Kind, Place, Reading};
use crate::value::{Column, ColumnType, Unit, Value};

/// How long a test waits for what must come, however busy the machine is. A server whose bound is taken out waits longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The columns of a report by script and status, with two percentiles.
pub(super) const COLUMNS: [(&str, ColumnType); 22] = [
    ("req_count", ColumnType::Int),
    ("req_per_sec", ColumnType::Float),
    ("req_time_total", ColumnType::Float),
    ("req_time_percent", ColumnType::Float),
    ("req_time_per_sec", ColumnType::Float),
    ("ru_utime_total", ColumnType::Float),
    ("ru_utime_percent", ColumnType::Float),
    ("ru_utime_per_sec", ColumnType::Float),
    ("ru_stime_total", ColumnType::Float),
    ("ru_stime_percent", ColumnType::Float),
    ("ru_stime_per_sec", ColumnType::Float),
    ("traffic_total", ColumnType::Float),
    ("traffic_percent", ColumnType::Float),
    ("traffic_per_sec", ColumnType::Float),
    ("script_name", ColumnType::Varchar(512)),
    ("status", ColumnType::Int),
    ("memory_footprint_total", ColumnType::Float),
    ("memory_footprint_percent", ColumnType::Float),
    ("req_time_median", ColumnType::Float),
    ("limit", ColumnType::Varchar(255)),
    ("p95", ColumnType::Float),
    ("p99_9", ColumnType::Float),
];

/// A report of so many rows; the last one stands for all others.
pub(super) struct Rows {
    columns: Vec<Column>,
    scripts: Vec<String>,
}

impl Rows {
    pub(super) fn new(rows: usize) -> Self {
        let column =
            |(name, column_type): &(&str, ColumnType)| Column::new(*name, *column_type, Unit::None);
        Self {
            columns: COLUMNS.iter().map(column).collect(),
            scripts: (0..rows)
                .map(|row| format!("/shop/page-{:05}.php", row * 7919 % 99_991))
                .collect(),
        }
    }
}

impl Table for Rows {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn len(&self) -> usize {
        self.scripts.len()
    }

    fn value(&self, row: usize, column: usize) -> Value<'_> {
        let other = row + 1 == self.scripts.len();
        let number = row as u64;
        // By number, so that a large answer costs what is written and not this.
        match column {
            0 => Value::Int(1 + (row % 100) as i64),
            2 | 5 | 8 => Value::Micros(number * 1_000_003 % 10_000_019),
            14 if other => Value::Text("(other)".into()),
            14 => Value::Text(self.scripts[row].as_str().into()),
            15 if other => Value::Null,
            15 => Value::Int([200, 404, 500][row % 3]),
            19 => Value::Text(if row.is_multiple_of(2) { "even" } else { "odd" }.into()),
            21 => Value::Null,
            12 => Value::Float(f64::NAN),
            _ => Value::Float((number + 1) as f64 / 7.0 + column as f64),
        }
    }
}

/// Rows of table `request`, as far as the front end looks at them.
struct Requests(Vec<Column>, Vec<u64>);

impl Table for Requests {
    fn columns(&self) -> &[Column] {
        &self.0
    }

    fn len(&self) -> usize {
        self.1.len()
    }

    fn value(&self, row: usize, column: usize) -> Value<'_> {
        match column {
            0 => Value::Int(self.1[row] as i64),
            1 => Value::Text("web\"1".into()),
            2 => Value::Micros(250_000),
            3 => Value::Null,
            4 => Value::Text("env=prod,a=1".into()),
            _ => Value::Int(1_700_000_000),
        }
    }
}

fn requests(ids: Vec<u64>) -> Box<dyn Table> {
    let columns = [
        ("id", ColumnType::BigInt),
        ("hostname", ColumnType::Varchar(255)),
        ("req_time", ColumnType::Float),
        ("schema", ColumnType::Varchar(255)),
        ("tags", ColumnType::Text),
        ("timestamp", ColumnType::Int),
    ];
    let column = |(name, column_type): (&str, _)| Column::new(name, column_type, Unit::None);
    Box::new(Requests(columns.into_iter().map(column).collect(), ids))
}

/// The source: fixed rows, and a memory of what it was asked.
#[derive(Default)]
pub(in crate::http) struct Sample {
    pub(super) rows: AtomicUsize,
    pub(super) search: Mutex<RequestSearch>,
    pub(super) needed: Mutex<Option<Option<Vec<String>>>>,
    pub(super) form: Mutex<Option<ReportForm>>,
    pub(super) resets: AtomicUsize,
    pub(super) unready: AtomicBool,
    pub(super) raw_off: AtomicBool,
    /// Readings wait as long as this is set.
    pub(super) held: AtomicBool,
    /// Readings begun.
    pub(super) asked: AtomicUsize,
    pub(super) annotations: Annotations,
}

pub(super) fn summary(name: &str) -> ReportSummary {
    ReportSummary {
        name: name.into(),
        kind: "base".into(),
        comment: Some("report9".into()),
        keys: vec!["script_name".into(), "status".into()],
        window_seconds: 900.0,
        rows: 7,
        columns: Rows::new(0).columns,
        definition: json!({"level": "request"}),
        defined: DefinedBy::BuiltIn,
        persistent: true,
        complete: true,
    }
}

impl ReadModel for Sample {
    fn info(&self) -> Result<Box<dyn Table>, QueryError> {
        Ok(Box::new(Rows::new(1)))
    }

    fn status_groups(&self) -> Vec<Group> {
        let invalid = json!({"truncated": 2});
        let readings = vec![
            Reading::new(Kind::Alias, "current_temp_pool_size", "", 0_u64),
            Reading::new(
                Kind::Counter,
                "datagrams_invalid",
                "Of which nothing was taken.",
                invalid,
            ),
        ];
        vec![Group::new(Place::Top, readings)]
    }

    fn annotations(&self) -> &Annotations {
        &self.annotations
    }

    fn reports(&self) -> Vec<ReportSummary> {
        vec![summary("r"), summary("a b/c?")]
    }

    fn report(
        &self,
        name: &str,
        needed: Option<&[String]>,
        _equal: &[(String, String)],
    ) -> Result<ReportAnswer, QueryError> {
        *self.needed.lock().unwrap() = Some(needed.map(<[String]>::to_vec));
        self.asked.fetch_add(1, Ordering::SeqCst);
        while self.held.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        match name {
            "r" | "a b/c?" => Ok(ReportAnswer {
                window_seconds: 900.0,
                covered_seconds: 17,
                as_of_ms: 1_700_000_000_250,
                key_columns: vec![14, 15, 19],
                table: Box::new(Rows::new(self.rows.load(Ordering::SeqCst))),
            }),
            "busy" => Err(QueryError::Busy("later".into())),
            "panics" => panic!("as the test wants it"),
            _ => Err(QueryError::unknown_report(name)),
        }
    }

    fn create_report(&self, form: ReportForm) -> Result<ReportSummary, QueryError> {
        if form.name == "r" {
            return Err(QueryError::ReportExists {
                name: form.name,
                defined: "built-in".into(),
            });
        }
        if form.comment.as_deref() == Some("tag_info:") {
            return Err(QueryError::bad_value(
                "comment",
                "\"tag_info:\" names no tag",
            ));
        }
        let report = ReportSummary {
            persistent: false,
            complete: false,
            ..summary(&form.name)
        };
        *self.form.lock().unwrap() = Some(form);
        Ok(report)
    }

    fn drop_report(&self, name: &str) -> Result<bool, QueryError> {
        match name {
            "mine" => Ok(false),
            "r" => Err(QueryError::ReportFixed {
                name: name.into(),
                reason: "it is built in".into(),
            }),
            _ => Err(QueryError::unknown_report(name)),
        }
    }

    fn rankings(
        &self,
        names: &[&str],
        _percentiles: &[f64],
    ) -> Result<Vec<ReportAnswer>, QueryError> {
        // What the overview shows is there, in the columns of this sample.
        let there = |name: &str| name == "info" || name.starts_with("report_by_");
        let answer = |name: &&str| {
            let name = if there(name) { "r" } else { name };
            self.report(name, None, &[])
        };
        names.iter().map(answer).collect()
    }

    fn distribution(
        &self,
        _name: &str,
        _equal: &[(String, String)],
    ) -> Result<Option<Distribution>, QueryError> {
        Ok(None)
    }

    fn slowest(
        &self,
        search: &RequestSearch,
        _scanned_max: usize,
    ) -> Result<SlowestPage, QueryError> {
        Ok(SlowestPage {
            table: self.requests(search)?.table,
            scanned: Scanned::default(),
        })
    }

    fn timer_groups(&self, _search: &TimerSearch) -> Result<TimerGroups, QueryError> {
        Ok(TimerGroups::default())
    }

    fn requests(&self, search: &RequestSearch) -> Result<RequestPage, QueryError> {
        if self.raw_off.load(Ordering::SeqCst) {
            return Err(QueryError::RawDataOff);
        }
        *self.search.lock().unwrap() = search.clone();
        let last = search.before_id == Some(2);
        Ok(RequestPage {
            as_of_ms: 1_700_000_000_250,
            table: requests(if last { vec![1] } else { vec![3, 2] }),
            timers: if search.timers && !last {
                vec![self.request(3)?.timers, Vec::new()]
            } else {
                Vec::new()
            },
            next_before_id: (!last).then_some(2),
        })
    }

    fn last_request_id(&self) -> Result<u64, QueryError> {
        if self.raw_off.load(Ordering::SeqCst) {
            return Err(QueryError::RawDataOff);
        }
        Ok(3)
    }

    /// One request a step: the next one.
    fn follow(&self, search: &RequestSearch, step: FollowStep) -> Result<Followed, QueryError> {
        *self.search.lock().unwrap() = search.clone();
        let id = step.after_id + 1;
        Ok(Followed {
            table: requests(vec![id]),
            timers: if step.timers {
                vec![self.request(3)?.timers]
            } else {
                Vec::new()
            },
            after_id: id,
            missed: u64::from(id == 5),
            more: true,
        })
    }

    fn request(&self, id: u64) -> Result<RequestDetail, QueryError> {
        if id != 3 {
            return Err(QueryError::UnknownRequest { id });
        }
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let timer = TimerDetail {
            id: 9,
            hit_count: 2,
            value_us: 1_500_000,
            ru_utime_us: 1,
            ru_stime_us: 0,
            tags: vec![pair("group", "db")],
        };
        Ok(RequestDetail {
            row: requests(vec![3]),
            tags: vec![pair("env", "prod"), pair("a", "1")],
            timers: vec![
                timer.clone(),
                TimerDetail {
                    id: 10,
                    tags: Vec::new(),
                    ..timer
                },
            ],
            activities: None,
        })
    }

    fn reset(&self) -> Result<(), QueryError> {
        self.resets.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn unready(&self) -> Vec<String> {
        match self.unready.load(Ordering::SeqCst) {
            true => vec!["the merger is behind".into(), "no socket".into()],
            false => Vec::new(),
        }
    }
}

/// What came back.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// In lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(given, _)| given == name)
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> Json {
        assert_eq!(
            self.header("content-type"),
            Some("application/json"),
            "{self:?}"
        );
        serde_json::from_str(&self.body).unwrap()
    }

    /// Asserts that this is a problem of that status and gives its detail.
    #[track_caller]
    pub(super) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let body: Json = serde_json::from_str(&self.body).unwrap();
        assert_eq!(body["status"], status);
        body["detail"].as_str().unwrap().to_owned()
    }
}

/// The front end under test. Stops when it is dropped.
pub(super) struct Server {
    pub(super) source: Arc<Sample>,
    pub(super) address: SocketAddr,
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    pub(super) task: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start() -> Self {
        Self::with(HttpSettings::new(&["Stats.example".into()]))
    }

    pub(super) fn with(settings: HttpSettings) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let source = Arc::new(Sample::default());
        source.rows.store(300, Ordering::SeqCst);
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shared: Arc<dyn ReadModel> = Arc::<Sample>::clone(&source);
        let task = runtime.spawn(serve(listener, Answers::new(shared), settings, async {
            stopped.await.unwrap();
        }));
        Self {
            source,
            address,
            runtime,
            stop: Some(stop),
            task: Some(task),
        }
    }

    /// Asks the server to stop, without waiting for it.
    pub(super) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until it has.
    pub(super) fn stopped(&mut self) {
        let task = self.task.take().unwrap();
        let ended = async { tokio::time::timeout(PATIENCE, task).await };
        self.runtime.block_on(ended).expect("it ends").unwrap();
    }

    pub(super) fn get(&self, target: &str) -> Reply {
        self.ask("GET", target, &[], None)
    }

    pub(super) fn post(&self, target: &str, body: &str) -> Reply {
        self.ask(
            "POST",
            target,
            &[("content-type", "application/json")],
            Some(body),
        )
    }

    pub(super) fn delete(&self, target: &str) -> Reply {
        self.ask(
            "DELETE",
            target,
            &[("content-type", "application/json")],
            None,
        )
    }

    /// Through ureq.
    pub(super) fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Reply {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .timeout_global(Some(PATIENCE))
            .build();
        let url = format!("http://{}{target}", self.address);
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let agent = ureq::Agent::new_with_config(config);
        let mut response = match body {
            Some(body) => agent.run(request.body(body.to_owned()).unwrap()),
            None => agent.run(request.body(()).unwrap()),
        }
        .unwrap();
        let text = |value: &ureq::http::HeaderValue| value.to_str().unwrap().to_owned();
        Reply {
            status: response.status().as_u16(),
            headers: response
                .headers()
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), text(value)))
                .collect(),
            body: response
                .body_mut()
                .with_config()
                .limit(1 << 30)
                .read_to_string()
                .unwrap(),
        }
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes as they are and reads to the end of the connection: the text must ask for it to be closed.
    pub(super) fn raw(&self, request: &str) -> Reply {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        read_reply(stream)
    }
}

/// What comes until the server closes.
#[track_caller]
pub(super) fn until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("it is not closed: {error}"),
    }
    bytes
}

/// One reply up to the end of the connection; a chunked body stays as it is.
pub(super) fn read_reply(mut stream: TcpStream) -> Reply {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
    let mut lines = head.lines();
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .unwrap_or("0");
    let headers = lines.filter_map(|line| line.split_once(": "));
    Reply {
        status: status.parse().unwrap(),
        headers: headers
            .map(|(n, v)| (n.to_lowercase(), v.to_owned()))
            .collect(),
        body: body.to_owned(),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).unwrap_or_default();
        }
        if let Some(task) = self.task.take() {
            drop(self.runtime.block_on(task));
        }
    }
}
