//! Receivers of notifications: Alertmanagers and a webhook. Each is sent the difference between the
//! present alerts and those it has confirmed.
//!
//! ```text
//!   present alerts  -(minus confirmed)->  messages, 64 a POST  -(2xx)->  confirmed
//! ```
//!
//! There is no queue of events, so nothing is lost while a receiver is unreachable. The confirmed
//! alerts are saved with the state, so a restart repeats nothing. Each receiver has a thread of its
//! own that waits for its answers; a slow receiver delays no other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tracing::{info, warn};
use ureq::Agent;

use super::state::{Phase, RESOLVED_SECS};
use super::{Alert, Alerts};
use crate::access::roots;
use crate::clock::{Clock, rfc3339};
use crate::config::AlertingConfig;
use crate::shutdown::Shutdown;

/// Maximum number of alerts in a POST.
const BATCH: usize = 64;
/// Timeout of a POST.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Interval between checks for something to send.
const PERIOD: Duration = Duration::from_millis(100);
/// Longest delay before a retry, milliseconds.
const RETRY_MS_MAX: u64 = 60_000;

/// Protocol of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Alertmanager's API, version 2.
    Alertmanager,
    /// JSON by POST, in the format of Alertmanager's own webhooks.
    Webhook,
}

/// The last confirmed message about an alert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    link: String,
    started: u64,
    /// End, unix seconds; 0 while the alert fires.
    ended: u64,
    /// Time of the last message, unix seconds.
    at: u64,
}

/// Confirmed messages by the alert's labels as text.
pub type ToldAlerts = BTreeMap<String, Told>;

/// A receiver.
#[derive(Debug)]
pub struct Receiver {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its URL, as configured.
    pub url: String,
    /// Interval at which a firing alert is sent again, seconds.
    period: u64,
    /// The certificates to trust.
    ca_file: Option<PathBuf>,
    /// Messages it has confirmed.
    pub told: Mutex<ToldAlerts>,
    /// Alerts accepted.
    pub sent: AtomicU64,
    /// Alerts refused.
    pub refused: AtomicU64,
    /// Failed attempts, which are retried.
    pub failed: AtomicU64,
}

/// A message about one alert.
#[derive(Debug, Clone, PartialEq)]
struct Message {
    id: String,
    told: Told,
    value: Option<f64>,
    reason: String,
}

/// Result of a POST.
enum Outcome {
    Taken,
    Refused(String),
    Failed(String),
}

impl Receiver {
    /// Creates a receiver that has confirmed nothing yet.
    #[must_use]
    pub fn new(protocol: Protocol, url: &str, settings: &AlertingConfig) -> Self {
        Self {
            protocol,
            url: url.to_owned(),
            period: settings.period.as_secs().max(1),
            ca_file: settings.ca_file.clone(),
            told: Mutex::default(),
            sent: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Returns the messages to send now, ends first. Forgets confirmations that are no longer
    /// needed.
    fn due(&self, alerts: &[Alert], now: u64) -> Vec<Message> {
        let is_webhook = self.protocol == Protocol::Webhook;
        let mut told = self.told.lock();
        let (mut ends, mut begins) = (Vec::new(), Vec::new());
        let mut wanted = BTreeMap::new();
        for alert in alerts.iter().filter(|it| it.episode.phase != Phase::Pending) {
            // A firing alert takes precedence over a resolved one with the same labels.
            let place = wanted.entry(alert.id()).or_insert(alert);
            if alert.episode.phase == Phase::Firing {
                *place = alert;
            }
        }
        for (id, alert) in &wanted {
            let episode = &alert.episode;
            let before = told.get(id);
            let is_same = before.is_some_and(|it| it.started == episode.started);
            let is_open = before.is_some_and(|it| it.ended == 0);
            let is_late = before.is_some_and(|it| it.at + self.period <= now) && !is_webhook;
            match episode.phase {
                Phase::Firing if is_same && is_open && is_late => {
                    begins.push(alert.message(id, 0, now));
                }
                Phase::Firing if is_same && is_open => {}
                Phase::Firing => {
                    if let (true, true, Some(before)) = (is_open, is_webhook, before) {
                        let ended = episode.before.filter(|it| it.0 == before.started);
                        ends.push(before.ended(id, ended.map_or(episode.started, |it| it.1), ""));
                    } else if alert.silenced_by.is_none() {
                        begins.push(alert.message(id, 0, now));
                    }
                }
                _ if is_same && is_open => ends.push(alert.message(id, episode.ended, now)),
                _ if is_same && is_late && now < episode.ended + RESOLVED_SECS => {
                    ends.push(alert.message(id, episode.ended, now));
                }
                _ if is_same => {}
                // The alert was over before anything was sent.
                _ if is_webhook && alert.silenced_by.is_none() => {
                    ends.push(alert.message(id, episode.ended, now));
                }
                _ if is_webhook => {
                    let told_nothing = alert.message(id, episode.ended, now).told;
                    told.insert(id.clone(), told_nothing);
                }
                _ => {}
            }
        }
        told.retain(|id, it| {
            if wanted.contains_key(id) {
                return true;
            }
            if it.ended == 0 {
                // The rule was removed, or its labels changed.
                ends.push(it.ended(id, now, "rule"));
            }
            it.ended == 0 || now < it.ended + RESOLVED_SECS
        });
        ends.append(&mut begins);
        ends.truncate(BATCH);
        ends
    }

    /// Records that the receiver confirmed these messages.
    fn confirm(&self, messages: Vec<Message>, now: u64) {
        let mut told = self.told.lock();
        for Message { id, told: it, .. } in messages {
            told.insert(id, Told { at: now, ..it });
        }
    }

    /// Acts as a receiver that accepts everything; returns the end of each alert sent, 0 for a
    /// firing one.
    #[cfg(test)]
    pub(super) fn tell(&self, alerts: &[Alert], now: u64) -> Vec<u64> {
        let messages = self.due(alerts, now);
        let ended = messages.iter().map(|it| it.told.ended).collect();
        self.confirm(messages, now);
        ended
    }

    fn body(&self, messages: &[Message], now: u64, page: &str) -> Json {
        let until = now + 5 * self.period;
        match self.protocol {
            Protocol::Alertmanager => messages.iter().map(|it| it.alert(until)).collect(),
            Protocol::Webhook => webhook(messages, page),
        }
    }

    fn endpoint(&self) -> String {
        match self.protocol {
            Protocol::Alertmanager => format!("{}/api/v2/alerts", self.url.trim_end_matches('/')),
            Protocol::Webhook => self.url.clone(),
        }
    }

    /// Creates an agent for its URL.
    ///
    /// # Errors
    /// A problem with the certificates to trust.
    pub fn agent(&self) -> Result<Agent, String> {
        let settings = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .timeout_global(Some(ANSWER_MAX));
        let trusted = ("alerting.ca_file", self.ca_file.as_deref());
        roots::agent(settings, &self.url, trusted, None)
    }

    /// Sends messages until shutdown.
    pub fn run(&self, agent: &Agent, alerts: &Alerts, clock: &dyn Clock, stop: &Shutdown) {
        let (mut retry_ms, mut not_before) = (1_000, 0);
        while !stop.requested() {
            std::thread::sleep(PERIOD);
            if clock.mono_ms() < not_before {
                continue;
            }
            let now = clock.unix_ms() / 1_000;
            let messages = self.due(&alerts.view().alerts, now);
            if messages.is_empty() {
                continue;
            }
            let body = self.body(&messages, now, alerts.page()).to_string();
            let (agent, url) = (agent.clone(), self.endpoint());
            let Some(outcome) = stop
                .unless_requested(("alert-post", Duration::ZERO), move || post(&agent, &url, body))
            else {
                return;
            };
            let count = messages.len() as u64;
            match outcome.unwrap_or_else(Outcome::Failed) {
                Outcome::Taken => {
                    if retry_ms > 1_000 {
                        info!(url = self.url, "The receiver accepts alerts again.");
                    }
                    retry_ms = 1_000;
                    self.sent.fetch_add(count, Ordering::Relaxed);
                    self.confirm(messages, now);
                    alerts.changed();
                }
                Outcome::Refused(problem) => {
                    warn!(url = self.url, problem, "Refused alerts; they are not repeated.");
                    self.refused.fetch_add(count, Ordering::Relaxed);
                    self.confirm(messages, now);
                    alerts.changed();
                }
                Outcome::Failed(problem) => {
                    if retry_ms == 1_000 {
                        warn!(url = self.url, problem, "Cannot send alerts; trying again.");
                    }
                    self.failed.fetch_add(1, Ordering::Relaxed);
                    not_before = clock.mono_ms() + retry_ms;
                    retry_ms = (retry_ms * 2).min(RETRY_MS_MAX);
                }
            }
        }
    }
}

/// Posts a body and waits for the answer.
fn post(agent: &Agent, url: &str, body: String) -> Outcome {
    let sent = agent.post(url).header("content-type", "application/json").send(body);
    match sent {
        Err(error) => Outcome::Failed(roots::problem(&error)),
        Ok(answer) => match answer.status().as_u16() {
            200..=299 => Outcome::Taken,
            code @ (429 | 500..=599) => Outcome::Failed(format!("it answered {code}")),
            code => Outcome::Refused(format!("it answered {code}")),
        },
    }
}

impl Alert {
    /// Returns the labels as one text.
    fn id(&self) -> String {
        json!(self.labels).to_string()
    }

    fn message(&self, id: &str, ended: u64, now: u64) -> Message {
        Message {
            id: id.to_owned(),
            told: Told {
                labels: self.labels.clone(),
                annotations: self.annotations(),
                link: self.link.clone(),
                started: self.episode.started,
                ended,
                at: now,
            },
            value: self.episode.value,
            reason: self.episode.reason.clone(),
        }
    }
}

impl Told {
    fn ended(&self, id: &str, ended: u64, reason: &str) -> Message {
        Message {
            id: id.to_owned(),
            told: Self { ended: ended.max(self.started), ..self.clone() },
            value: None,
            reason: reason.to_owned(),
        }
    }
}

impl Message {
    fn alert(&self, until: u64) -> Json {
        let Told { labels, annotations, link, started, ended, .. } = &self.told;
        json!({
            "labels": labels,
            "annotations": annotations,
            "startsAt": rfc3339(*started),
            "endsAt": rfc3339(if *ended > 0 { *ended } else { until }),
            "generatorURL": link,
        })
    }
}

fn webhook(messages: &[Message], page: &str) -> Json {
    let status = |ended: u64| if ended > 0 { "resolved" } else { "firing" };
    let is_firing = messages.iter().any(|it| it.told.ended == 0);
    let alerts = messages.iter().map(|it| {
        let mut alert = it.alert(0);
        alert["status"] = status(it.told.ended).into();
        if it.told.ended == 0 {
            alert["endsAt"] = "0001-01-01T00:00:00Z".into();
        }
        alert["fingerprint"] = format!("{:08x}", crc32fast::hash(it.id.as_bytes())).into();
        alert["value"] = it.value.into();
        alert["state_reason"] = it.reason.clone().into();
        alert
    });
    let common = |of: fn(&Told) -> &BTreeMap<String, String>| {
        let mut common = messages.first().map(|it| of(&it.told).clone());
        for message in messages {
            let here = of(&message.told);
            let shared = common.iter_mut();
            shared.for_each(|it| it.retain(|name, text| here.get(name) == Some(text)));
        }
        common.unwrap_or_default()
    };
    json!({
        "receiver": "pinbad",
        "status": status(u64::from(!is_firing)),
        "alerts": alerts.collect::<Vec<_>>(),
        "groupLabels": {},
        "commonLabels": common(|it| &it.labels),
        "commonAnnotations": common(|it| &it.annotations),
        "externalURL": page,
        "version": "4",
        "groupKey": "{}:{}",
        "truncatedAlerts": 0,
    })
}
