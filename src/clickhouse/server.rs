//! A client of ClickHouse's HTTP interface: sends statements with rows, and reads results.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use ureq::http::Response;
use ureq::typestate::WithBody;
use ureq::{Agent, Body, RequestBuilder};

use crate::access::{read_secret, roots};
use crate::config::ClickHouseConfig;
use crate::config::secret::Secret;
use crate::history::{StoreError, digest};
use crate::instruments::Instrument;
use crate::limits::SECRET_BYTES_MAX;
use crate::shutdown::Shutdown;

/// Waits for ClickHouse to store rows or execute a statement.
pub(super) static ANSWER: Instrument = Instrument::wait("wait/io/socket/clickhouse/answer", "recv");

/// Longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Longest wait for an answer, before which the rows have to be stored.
const ANSWER_MAX: Duration = Duration::from_secs(300);
/// Longest wait for the rest of an answer whose head has arrived: a few bytes.
const BODY_MAX: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 60_000 });
/// Longest row of an answer: a histogram has fewer than 3,000 buckets, a key a few texts.
const ROW_BYTES_MAX: u64 = 1 << 20;
/// What the names of ClickHouse's own headers begin with, such as that of the query's id, which it
/// has sent with every answer for years.
const ITS_HEADERS: &str = "x-clickhouse-";
/// Longest answer without such a header that is not taken for a page, bytes: ClickHouse says
/// nothing, or a word.
const SHORT_BYTES: usize = 16;
/// Longest error text that is read.
const ERROR_BYTES_MAX: u64 = 16 << 10;

/// Server errors caused by the rows or the table: a number and ClickHouse's name per line. All
/// others are temporary.
const REFUSALS: &str = include_str!("refusals.txt");

/// The reason why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// A stop was requested.
    #[error("stopped")]
    Stopped,
    /// It may succeed later.
    #[error("{0}")]
    Later(String),
    /// These rows will never be accepted.
    #[error("{0}")]
    Refused(String),
    /// A file with rows cannot be read.
    #[error("{}: {reason}", .path.display())]
    Unreadable { path: PathBuf, reason: String },
}

/// The result of a request.
pub(super) type Sent<T = ()> = Result<T, Failure>;

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Stopped => Self::Stopped,
            StoreError::Damaged { path, reason } => Self::Unreadable { path, reason },
            StoreError::Unreadable { path, source } => {
                Self::Unreadable { path, reason: source.to_string() }
            }
            error => Self::Later(error.to_string()),
        }
    }
}

/// A server.
#[derive(Debug)]
pub(super) struct Server {
    agent: Agent,
    url: String,
    pub(super) config: ClickHouseConfig,
    /// Content of its password file, and when that was last changed.
    password: Mutex<(Option<Secret>, Option<SystemTime>)>,
}

impl Server {
    /// The server of the configuration.
    pub(super) fn of(config: &ClickHouseConfig) -> Result<Self, String> {
        let url = config.url.trim_end_matches('/');
        let settings = roots::settings()
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_recv_response(Some(ANSWER_MAX))
            .timeout_recv_body(Some(BODY_MAX))
            .timeout_send_body(Some(ANSWER_MAX));
        let trusted = ("clickhouse.ca_file", config.ca_file.as_deref());
        let server = Self {
            agent: roots::agent(settings, url, trusted, None)?,
            url: url.to_owned(),
            config: config.clone(),
            password: Mutex::default(),
        };
        server.read_password()?;
        Ok(server)
    }

    /// Runs a statement without rows, and without a database in case it creates one.
    pub(super) fn execute(&self, statement: &str, stop: &Shutdown) -> Sent {
        self.post(self.request(&[]), statement.as_bytes().to_vec(), stop)
    }

    /// Inserts rows, which are packed. Inserts of the same ones are deduplicated.
    pub(super) fn insert(&self, statement: &str, rows: Vec<u8>, stop: &Shutdown) -> Sent {
        let token = digest(&rows, 32);
        let parameters = [
            ("database", self.config.database.as_str()),
            ("query", statement),
            ("insert_deduplication_token", token.as_str()),
            // Accepted means stored, on all shards.
            ("async_insert", "0"),
            ("insert_distributed_sync", "1"),
            // However many days and months a block has: a clock may have been wrong.
            ("max_partitions_per_insert_block", "0"),
        ];
        let request = self.request(&parameters).header("content-encoding", "lz4");
        self.post(request, rows, stop)
    }

    /// Reads the password again if its file has been changed.
    fn read_password(&self) -> Result<(), String> {
        let Some(file) = &self.config.password_file else { return Ok(()) };
        let changed = file.metadata().and_then(|it| it.modified()).ok();
        let mut password = self.password.lock();
        if password.0.is_none() || changed != password.1 {
            let read = read_secret(file, SECRET_BYTES_MAX).map_err(|problem| {
                format!("clickhouse.password_file: {}: {problem}", file.display())
            })?;
            *password = (Some(Secret::new(read)), changed);
        }
        Ok(())
    }

    /// Runs a read-only query on the caller's thread; passes on each row of the answer as it
    /// arrives, one per line. The server has the whole answer before it sends any, so that its
    /// errors are not mistaken for the end.
    pub(super) fn select(
        &self,
        query: &str,
        patience: Duration,
        each: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Sent {
        let failed = |problem: String| Failure::Later(format!("{}: {problem}", self.url));
        if patience.is_zero() {
            return Err(failed("it took too long".to_owned()));
        }
        let secs = (patience.as_secs() + 1).to_string();
        let parameters = [
            ("database", self.config.database.as_str()),
            ("default_format", "JSONEachRow"),
            ("output_format_json_quote_64bit_integers", "0"),
            ("output_format_json_validate_utf8", "1"),
            ("max_execution_time", secs.as_str()),
            // It may name the keys of many rows: by default a quarter of a megabyte is read.
            ("max_query_size", "16777216"),
            ("cancel_http_readonly_queries_on_client_close", "1"),
            ("wait_end_of_query", "1"),
        ];
        // All of it, instead of the limits of its steps.
        let request = self.request(&parameters).config().timeout_global(Some(patience));
        let request = request.timeout_recv_response(None).timeout_recv_body(None).build();
        let mut answer = request.send(query).map_err(|error| failed(roots::problem(&error)))?;
        let status = answer.status().as_u16();
        if status != 200 {
            let (said, _) = said(&mut answer);
            return Err(failed(format!("it answered {status}: {}", reason(&said))));
        }
        let mut body = BufReader::new(answer.body_mut().with_config().limit(u64::MAX).reader());
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = body.by_ref().take(ROW_BYTES_MAX).read_until(b'\n', &mut line);
            let read = read.map_err(|error| failed(error.to_string()))?;
            if read == 0 {
                return Ok(());
            }
            if line.last() != Some(&b'\n') {
                return Err(failed("its answer is cut, or has a row that is too long".to_owned()));
            }
            each(&line).map_err(failed)?;
        }
    }

    /// A request with a statement, or rows.
    fn request(&self, parameters: &[(&str, &str)]) -> RequestBuilder<WithBody> {
        let request = self.agent.post(format!("{}/", self.url));
        let mut request = request.query_pairs(parameters.iter().copied());
        if !self.config.user.is_empty() {
            request = request.header("x-clickhouse-user", &self.config.user);
        }
        let _old_one_if_unreadable = self.read_password();
        if let Some(password) = &self.password.lock().0 {
            request = request.header("x-clickhouse-key", password.reveal());
        }
        request
    }

    /// Runs on its own thread: a stop does not wait for the server.
    fn post(&self, request: RequestBuilder<WithBody>, body: Vec<u8>, stop: &Shutdown) -> Sent {
        let _waiting = ANSWER.begin();
        let answer = stop.unless_requested(("ship", Duration::ZERO), move || run(request, &body));
        match answer.ok_or(Failure::Stopped)?.flatten() {
            Ok(None) => Ok(()),
            Ok(Some(refusal)) => Err(Failure::Refused(refusal)),
            Err(problem) => Err(Failure::Later(format!("{}: {problem}", self.url))),
        }
    }
}

/// Sends a request; returns why its rows are refused for good, if they are. An error is why they
/// are to be sent again.
fn run(request: RequestBuilder<WithBody>, body: &[u8]) -> Result<Option<String>, String> {
    let mut answer = request.send(body).map_err(|error| roots::problem(&error))?;
    // An error after the head of the answer is in its body, which is empty otherwise, so rows are
    // stored only when the body has ended.
    let (text, ended) = said(&mut answer);
    let status = answer.status().as_u16();
    let code = text
        .split_once("Code: ")
        .and_then(|(_, rest)| rest.split_once(|it: char| !it.is_ascii_digit()))
        .and_then(|(code, _)| code.parse::<u32>().ok());
    let said = reason(&text);
    if status == 200 && code.is_none() {
        ended.map_err(|error| format!("its answer did not end: {error}"))?;
        // A proxy may answer 200 with a page of its own: such rows are not stored.
        let mut headers = answer.headers().keys();
        let is_page = text.trim().len() > SHORT_BYTES || text.contains(['<', '{']);
        if is_page && !headers.any(|it| it.as_str().starts_with(ITS_HEADERS)) {
            let problem = "it answered 200 with something that is not ClickHouse's";
            return Err(format!("{problem}: {said}"));
        }
        return Ok(None);
    }
    let mut refusals = REFUSALS.lines().filter_map(|line| line.split_once(' ')?.0.parse().ok());
    match code.is_some_and(|code| refusals.any(|it: u32| it == code)) {
        true => Ok(Some(said)),
        false => Err(format!("it answered {status}: {said}")),
    }
}

/// The start of an answer's text, and whether it was read to its end.
fn said(answer: &mut Response<Body>) -> (String, Result<(), String>) {
    let body = answer.body_mut().with_config().limit(u64::MAX).reader();
    let mut text = Vec::new();
    let ended = match body.take(ERROR_BYTES_MAX).read_to_end(&mut text) {
        Ok(read) if read as u64 == ERROR_BYTES_MAX => Err(format!("it has {read} bytes or more")),
        read => read.map(drop).map_err(|error| error.to_string()),
    };
    (String::from_utf8_lossy(&text).into_owned(), ended)
}

/// The line of an error text that says what happened; the first one if none is ClickHouse's.
fn reason(text: &str) -> String {
    let mut lines = text.lines().filter(|it| !it.trim().is_empty());
    let its = text.lines().find(|it| it.contains("Code: "));
    let said = its.or_else(|| lines.next()).unwrap_or_default();
    said.chars().filter(|it| !it.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::config::Config;

    /// Answers with this, and keeps the connection open until the answer has ended.
    fn inserted(answer: &'static [u8]) -> Result<(), Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let text = format!("[history]\ndir = \"/h\"\n[clickhouse]\nurl = \"http://{address}\"\n");
        let config = Config::from_toml("pinbad.toml", &text).unwrap();
        let (ended, goes_on) = sync_channel::<()>(0);
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _request = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(answer).unwrap();
            let _over = goes_on.recv();
        });
        let server = Server::of(&config.clickhouse).unwrap();
        let done = server.insert("INSERT", b"rows".to_vec(), &Shutdown::new());
        drop(ended);
        thread.join().unwrap();
        done
    }

    #[test]
    fn a_new_password_is_sent_with_the_next_request() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        let write = |text: &str, secs| {
            std::fs::write(&file, text).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
            std::fs::File::open(&file).unwrap().set_modified(time).unwrap();
        };
        write("old\n", 1);
        let config = ClickHouseConfig {
            password_file: Some(file.clone()),
            url: "http://127.0.0.1:1".to_owned(),
            ..Config::default().clickhouse
        };
        let server = Server::of(&config).unwrap();
        let sent = || {
            let request = server.request(&[]);
            request.headers_ref().unwrap()["x-clickhouse-key"].to_str().unwrap().to_owned()
        };
        assert_eq!(sent(), "old");
        write("", 2);
        assert_eq!(sent(), "old");
        write("new\n", 3);
        assert_eq!(sent(), "new");
    }

    #[test]
    fn a_query_may_be_as_long_as_the_keys_of_many_rows() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        let config = ClickHouseConfig { url, ..Config::default().clickhouse };
        let server = Server::of(&config).unwrap();
        let answered = server.select("SELECT", Duration::from_secs(60), &mut |_| Ok(()));
        let request = thread.join().unwrap();
        assert_eq!(answered, Ok(()));
        assert!(request.contains("max_query_size=16777216"), "{request}");
    }

    /// The limit for the end of an answer to an insert is none for that to a query.
    #[test]
    fn an_answer_to_a_query_may_take_as_long_as_that_has() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _request = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n").unwrap();
            std::thread::sleep(BODY_MAX * 4);
            stream.write_all(b"{}\n").unwrap();
        });
        let config = ClickHouseConfig { url, ..Config::default().clickhouse };
        let (server, mut rows) = (Server::of(&config).unwrap(), 0);
        let answered = server.select("SELECT", Duration::from_secs(60), &mut |_| {
            rows += 1;
            Ok(())
        });
        assert_eq!((answered, rows), (Ok(()), 1));
        thread.join().unwrap();
    }

    #[test]
    fn rows_are_stored_when_the_answer_has_ended() {
        assert_eq!(inserted(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), Ok(()));
        let later = |answer, said: &str| match inserted(answer) {
            Err(Failure::Later(error)) => assert!(error.contains(said), "{error}"),
            other => panic!("{other:?}"),
        };
        later(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "timeout");
        later(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n\nab\r\n", "timeout");
        later(
            b"HTTP/1.1 500 No\r\nContent-Length: 99\r\n\r\nCode: 241. DB::Exception: Memory",
            "answered 500: Code: 241.",
        );
        // After the head, an error comes behind an empty line.
        later(
            b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n\n\nCode: 241. DB::Exception: Memory limit",
            "answered 200: Code: 241. DB::Exception: Memory limit",
        );
        later(
            b"HTTP/1.1 502 No\r\nContent-Length: 14\r\n\r\n\r\n \r\nBad <tag>",
            "answered 502: Bad <tag>",
        );
    }

    #[test]
    fn a_page_of_a_proxy_is_no_success() {
        let answer = |headers: &str, body: &str| {
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{headers}\r\n");
            inserted(String::leak(head + body).as_bytes())
        };
        let its = "X-ClickHouse-Query-Id: 5abe861c\r\n";
        assert_eq!(answer(its, "Ok.\n"), Ok(()));
        assert_eq!(answer("Server: nginx\r\n", ""), Ok(()));
        assert_eq!(answer("Server: nginx\r\n", "Ok.\n"), Ok(()));
        let later = |headers, body: &str| match answer(headers, body) {
            Err(Failure::Later(error)) => error,
            other => panic!("{other:?}"),
        };
        let said = later("Server: nginx\r\n", "<html>\nMaintenance</html>\n");
        assert_has!(said => "answered 200 with something that is not ClickHouse's: <html>");
        // More than is read: the end may be an error.
        assert_has!(later(its, &"x".repeat(20_000)) => "its answer did not end");
    }
}
