//! A running daemon, asked over its HTTP interface: what reports it has, and to make one more.
//!
//! Blocking, one request at a time, with time limits: a report that has to be filled takes a while, a daemon that is
//! gone does not. No proxy: the environment's is for the world outside.

use std::time::Duration;

use serde_json::{Map, Value as Json};
use thiserror::Error;
use ureq::http::Request;

use crate::report::form::ReportForm;

/// Longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Longest wait for an answer: filling a report from a full pool may take seconds.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// Longest answer that is read, bytes.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Why the daemon did not do it.
#[derive(Debug, Error)]
pub enum RemoteError {
    /// Nobody there, or the connection broke.
    #[error("{url}: {problem}")]
    Unreachable {
        /// What was asked.
        url: String,
        /// What went wrong.
        problem: String,
    },
    /// Somebody else's answer.
    #[error("{url}: this is no pinbad, it answered {answered}")]
    NotOurs {
        /// What was asked.
        url: String,
        /// What came.
        answered: String,
    },
    /// A refusal, in the daemon's words.
    #[error("{0}")]
    Refused(String),
}

/// A report of the daemon.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteReport {
    /// Its definition; with the name alone when this program cannot read it.
    pub form: ReportForm,
    /// Its window.
    pub window: Option<Duration>,
}

/// A daemon.
#[derive(Debug)]
pub struct Remote {
    url: String,
    agent: ureq::Agent,
}

impl Remote {
    /// The daemon at this URL (`http://127.0.0.1:30080`); nothing is asked yet.
    #[must_use]
    pub fn new(url: &str) -> Self {
        let url = url.trim_end_matches('/');
        let url = match url.contains("://") {
            true => url.to_owned(),
            false => format!("http://{url}"),
        };
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_global(Some(ANSWER_MAX))
            .build();
        Self {
            url,
            agent: config.new_agent(),
        }
    }

    /// All reports.
    ///
    /// # Errors
    /// When there is no daemon.
    pub fn reports(&self) -> Result<Vec<RemoteReport>, RemoteError> {
        let (status, body) = self.ask("GET", String::new())?;
        let list = body
            .as_ref()
            .ok()
            .and_then(|body| body.get("reports")?.as_array())
            .filter(|_| status == 200);
        let Some(list) = list else {
            return Err(self.not_ours(status, body));
        };
        Ok(list.iter().map(report).collect())
    }

    /// Makes a report; true when it will be there after a restart.
    ///
    /// # Errors
    /// When the daemon refuses, or is gone.
    pub fn create(&self, form: &ReportForm) -> Result<bool, RemoteError> {
        // A form has text keys and finite numbers only.
        let (status, body) = self.ask("POST", serde_json::to_string(form).unwrap_or_default())?;
        match (status, &body) {
            (201, Ok(made)) => Ok(made.get("persistent") == Some(&Json::Bool(true))),
            (_, Ok(problem)) => match problem.get("detail").and_then(Json::as_str) {
                Some(detail) => Err(RemoteError::Refused(detail.to_owned())),
                None => Err(self.not_ours(status, body)),
            },
            (_, Err(_)) => Err(self.not_ours(status, body)),
        }
    }

    /// Status and body; a body that is no JSON as its beginning.
    fn ask(&self, method: &str, body: String) -> Result<(u16, Result<Json, String>), RemoteError> {
        let url = self.reports_url();
        let failed = |problem: String| RemoteError::Unreachable {
            url: url.clone(),
            problem,
        };
        let request = Request::builder().method(method).uri(&url);
        let answer = if method == "GET" {
            let request = request
                .body(())
                .map_err(|error| failed(error.to_string()))?;
            self.agent.run(request)
        } else {
            let request = request.header("content-type", "application/json");
            let request = request
                .body(body)
                .map_err(|error| failed(error.to_string()))?;
            self.agent.run(request)
        };
        let mut answer = answer.map_err(|error| failed(error.to_string()))?;
        let text = answer
            .body_mut()
            .with_config()
            .limit(ANSWER_BYTES_MAX)
            .read_to_string()
            .map_err(|error| failed(error.to_string()))?;
        let json = serde_json::from_str(&text);
        let body = json.map_err(|_| text.chars().take(80).collect());
        Ok((answer.status().as_u16(), body))
    }

    fn reports_url(&self) -> String {
        format!("{}/api/v1/reports", self.url)
    }

    fn not_ours(&self, status: u16, body: Result<Json, String>) -> RemoteError {
        let text = match &body {
            Ok(Json::Object(problem)) => problem.get("detail").and_then(Json::as_str),
            Ok(_) => None,
            Err(text) => text.lines().next(),
        };
        RemoteError::NotOurs {
            url: self.reports_url(),
            answered: match text {
                Some(text) if !text.trim().is_empty() => format!("{status}: {}", text.trim()),
                _ => status.to_string(),
            },
        }
    }
}

/// A report as it is listed.
fn report(listed: &Json) -> RemoteReport {
    let text = |member: &str| listed.get(member).and_then(Json::as_str);
    let name = text("name").unwrap_or_default();
    let native = || -> Option<ReportForm> {
        let members: &Map<String, Json> = listed.get("definition")?.as_object()?;
        ReportForm::from_members(name, members.clone()).ok()
    };
    let form = match text("comment") {
        Some(comment) => ReportForm::of_comment(name, comment),
        None => native().unwrap_or_else(|| ReportForm {
            name: name.to_owned(),
            ..ReportForm::default()
        }),
    };
    let window = listed.get("window_seconds").and_then(Json::as_f64);
    RemoteReport {
        form,
        window: window
            .and_then(|secs| Duration::try_from_secs_f64(secs).ok())
            .filter(|window| !window.is_zero()),
    }
}
