//! The server that metrics and spans are pushed to, and its answers.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use parking_lot::Mutex;
use prost::Message as _;
use ureq::Agent;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Response};

use super::GivenUp;
use super::body::Body;
use crate::access::{read_secret, roots};
use crate::config::OtlpConfig;
use crate::input::otlp::messages::{PartialSuccess, Response as Answer, Status};

/// Timeout of a request.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Longest `Retry-After` that is respected.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Maximum number of bytes read of an answer.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Maximum size of the file with headers: tokens of some providers have several thousand bytes.
const HEADERS_BYTES_MAX: usize = 16 << 10;
/// Reserved headers, which are set with the body.
const RESERVED: [&str; 4] = ["content-type", "content-encoding", "content-length", "host"];

/// The server's decision on a body, accepted or refused for good: why points are given up, how many
/// at most, and its message. An error is to be retried: its reason, and the delay that the server
/// asks for.
pub(super) type Decision = Result<(GivenUp, u64, String), (String, Option<Duration>)>;

/// The server.
#[derive(Debug)]
pub(super) struct Server {
    agent: Agent,
    /// Of metrics, and of spans.
    pub(super) urls: [String; 2],
    config: OtlpConfig,
    /// Headers of the file, read at start and after each body that was not accepted.
    headers: Mutex<HeaderMap>,
}

impl Server {
    /// Creates the server of a configuration, if there is one.
    pub(super) fn of(config: &OtlpConfig) -> Result<Option<Arc<Self>>, String> {
        if config.url.is_empty() {
            return Ok(None);
        }
        let trusted = ("otlp.ca_file", config.ca_file.as_deref());
        let headers = config.headers_file.as_deref().map(read_headers).transpose()?;
        Ok(Some(Arc::new(Self {
            agent: roots::agent(roots::settings(), &config.url, trusted, None)?,
            urls: urls(&config.url),
            config: config.clone(),
            headers: Mutex::new(headers.unwrap_or_default()),
        })))
    }

    /// Sends a body and waits for the answer, at most `patience`.
    pub(super) fn post(&self, body: &Body, patience: Duration) -> Decision {
        let mut request = self.agent.post(&self.urls[body.signal as usize]);
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.lock().clone());
        }
        request = request.header("content-type", "application/x-protobuf");
        if self.config.gzip {
            request = request.header("content-encoding", "gzip");
        }
        let request = request.config().timeout_global(Some(patience)).build();
        let sent = request.send(&body.bytes).map_err(|error| (roots::problem(&error), None));
        let decision = sent.and_then(|mut answer| decision(&mut answer));
        if !matches!(decision, Ok((GivenUp::Partial, ..)))
            && let Some(Ok(headers)) = self.config.headers_file.as_deref().map(read_headers)
        {
            *self.headers.lock() = headers;
        }
        decision
    }
}

/// Paths defined by the protocol, by signal.
const PATHS: [&str; 2] = ["/v1/metrics", "/v1/traces"];

/// Returns where metrics and spans go with a configured URL, which may be that of either.
pub fn urls(url: &str) -> [String; 2] {
    let url = url.trim_end_matches('/');
    let base = PATHS.iter().find_map(|path| url.strip_suffix(path)).unwrap_or(url);
    PATHS.map(|path| format!("{base}{path}"))
}

fn decision(answer: &mut Response<ureq::Body>) -> Decision {
    let status = answer.status().as_u16();
    let after = answer.headers().get("retry-after").cloned();
    // The page of a proxy, or of a wrong URL: what was sent is not where it should be.
    let media_type = answer.headers().get("content-type").map(HeaderValue::as_bytes);
    let is_page = media_type.is_some_and(|it| it.to_ascii_lowercase().starts_with(b"text/html"));
    let mut body = Vec::new();
    let mut limited = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).reader();
    // What came says enough.
    let _cut_off = limited.read_to_end(&mut body);
    let said = || {
        let said = Status::decode(&*body).map(|it| it.message).ok().filter(|it| !it.is_empty());
        let said = said.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
        let line: String = said.lines().next().unwrap_or_default().chars().take(300).collect();
        let with = if is_page { "with a web page: " } else { "" };
        format!("it answered {status} {with}{line}").trim_end().to_owned()
    };
    match status {
        // If the body of a success cannot be read, it still is a success.
        200..=299 if !is_page => {
            let partial = Answer::decode(&*body).ok().and_then(|it| it.partial_success);
            let PartialSuccess { rejected, error_message } = partial.unwrap_or_default();
            let rejected = u64::try_from(rejected).unwrap_or_default();
            Ok((GivenUp::Partial, rejected, error_message))
        }
        429 | 502..=504 => Err((said(), after.as_ref().and_then(retry_after))),
        _ => Ok((GivenUp::Refused, u64::MAX, said())),
    }
}

/// Parses `Retry-After`: seconds or a date.
fn retry_after(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    let until = || {
        let date = DateTime::parse_from_rfc2822(text).ok()?;
        u64::try_from(date.timestamp() - chrono::Utc::now().timestamp()).ok()
    };
    let secs = text.parse().ok().or_else(until)?;
    Some(Duration::from_secs(secs).min(RETRY_AFTER_MAX))
}

/// Reads the headers of a file, one a line. Error messages never contain values.
fn read_headers(path: &Path) -> Result<HeaderMap, String> {
    let failed = |at: &str, problem: &str| {
        format!(
            "otlp.headers_file: {}{at}: {problem}; accepted: a header a line, as in \"Authorization: Bearer ...\", without {}",
            path.display(),
            RESERVED.join(", ")
        )
    };
    let text = read_secret(path, HEADERS_BYTES_MAX).map_err(|problem| failed("", &problem))?;
    let text = String::from_utf8(text).map_err(|_| failed("", "not UTF-8"))?;
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let headers =
        lines.map(|(line, at)| header(line).map_err(|problem| failed(&format!(":{at}"), &problem)));
    headers.collect()
}

/// Parses a header.
fn header(line: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = line.split_once(':').ok_or("no colon")?;
    let name = HeaderName::try_from(name.trim()).map_err(|_| "not the name of a header")?;
    let value = HeaderValue::try_from(value.trim());
    let mut value = value.map_err(|_| "not the value of a header")?;
    value.set_sensitive(true);
    match RESERVED.contains(&name.as_str()) {
        true => Err(format!("{name} is not for you to set")),
        false => Ok((name, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_and_has_an_end() {
        let after = |text: &'static str| retry_after(&HeaderValue::from_static(text));
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("86400"), Some(RETRY_AFTER_MAX));
        assert_eq!(after("Wed, 21 Oct 2099 07:28:00 GMT"), Some(RETRY_AFTER_MAX));
        assert_eq!(after("Wed, 21 Oct 2015 07:28:00 GMT"), None);
        assert_eq!(after("soon"), None);
    }

    #[test]
    fn a_url_is_that_of_the_server_or_of_either_signal() {
        let expected = ["http://h:1/x/v1/metrics", "http://h:1/x/v1/traces"].map(str::to_owned);
        for path in ["", "/", "/v1/metrics", "/v1/traces/"] {
            assert_eq!(urls(&format!("http://h:1/x{path}")), expected, "{path}");
        }
    }

    #[test]
    fn the_beginning_of_a_long_refusal_is_shown() {
        let page = format!("<html>no such tenant\n{}", "x".repeat(100_000));
        let answer = Response::builder().status(400).body(ureq::Body::builder().data(page));
        let problem = "it answered 400 <html>no such tenant".to_owned();
        assert_eq!(decision(&mut answer.unwrap()), Ok((GivenUp::Refused, u64::MAX, problem)));
    }

    #[test]
    fn a_web_page_is_no_success() {
        let decided = |media_type: &str| {
            let answer = Response::builder().status(200).header("content-type", media_type);
            let body = ureq::Body::builder().data("<html>\nPlease log in");
            decision(&mut answer.body(body).unwrap())
        };
        let problem = "it answered 200 with a web page: <html>".to_owned();
        let refused = Ok((GivenUp::Refused, u64::MAX, problem));
        assert_eq!(decided("Text/HTML; charset=utf-8"), refused);
        assert_eq!(decided("text/plain"), Ok((GivenUp::Partial, 0, String::new())));
    }

    #[test]
    fn headers_are_read_and_what_is_wrong_is_said_without_their_values() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("headers");
        std::fs::write(&file, "Authorization: Bearer hunter2\n\nX-Scope-OrgID: shop\n").unwrap();
        let headers = read_headers(&file).unwrap();
        assert_eq!(headers["authorization"], "Bearer hunter2");
        assert_eq!(headers["x-scope-orgid"], "shop");
        let token = "x".repeat(HEADERS_BYTES_MAX - "A: ".len());
        std::fs::write(&file, format!("A: {token}\n")).unwrap();
        assert_eq!(read_headers(&file).unwrap()["a"], *token);
        for (text, why) in cases![
            "" => "headers: empty";
            &format!("AB: {token}") => "headers: too long, more than 16384 bytes";
            "X-A: 1\nhunter2" => "headers:2: no colon";
            "hunter 2: x" => "headers:1: not the name of a header";
            "Content-Type: hunter2" => "headers:1: content-type is not for you";
        ] {
            std::fs::write(&file, text).unwrap();
            let said = read_headers(&file).unwrap_err();
            assert_has!(said => why, "accepted: a header a line");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
