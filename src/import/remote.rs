//! A running daemon, asked for what reports it has, and to make one more.
//!
//! Over the client that all commands share ([`Client`]), with its time limits: a report that has to be filled takes a
//! while, a daemon that is gone does not.

use std::time::Duration;

use serde_json::{Map, Value as Json};

use crate::client::{Client, ClientError};
use crate::report::form::ReportForm;

/// Where the reports are.
const REPORTS: &str = "/api/v1/reports";

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
pub struct Remote(Client);

impl Remote {
    /// The daemon that a client asks.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    /// All reports.
    ///
    /// # Errors
    /// When there is no daemon.
    pub fn reports(&self) -> Result<Vec<RemoteReport>, ClientError> {
        let body = self.0.get(REPORTS)?;
        match body.get("reports").and_then(Json::as_array) {
            Some(list) => Ok(list.iter().map(report).collect()),
            None => Err(self.0.refusal(REPORTS, 200, Ok(body))),
        }
    }

    /// Makes a report; true when it will be there after a restart.
    ///
    /// # Errors
    /// When the daemon refuses, or is gone.
    pub fn create(&self, form: &ReportForm) -> Result<bool, ClientError> {
        // A form has text keys and finite numbers only.
        let form = serde_json::to_string(form).unwrap_or_default();
        match self.0.ask("POST", REPORTS, Some(form))? {
            (201, Ok(made)) => Ok(made.get("persistent") == Some(&Json::Bool(true))),
            (status, body) => Err(self.0.refusal(REPORTS, status, body)),
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
