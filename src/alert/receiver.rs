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

use super::state::{Episode, Phase, RESOLVED_SECS};
use super::{Alert, Alerts};
use crate::access::roots;
use crate::backoff::BackOff;
use crate::clock::{Clock, rfc3339};
use crate::config::AlertingConfig;
use crate::shutdown::Shutdown;

/// Maximum number of alerts in a POST.
const BATCH: usize = 64;
/// Timeout of a POST.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Interval between checks for something to send.
const PERIOD: Duration = Duration::from_millis(100);
/// First and longest delay before a retry, milliseconds.
const RETRY_MS: (u64, u64) = (1_000, 60_000);

/// A message about an alert; the last confirmed one is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    link: String,
    started: u64,
    /// End, unix seconds; 0 while the alert fires.
    pub(super) ended: u64,
    /// Time of the last message, unix seconds.
    at: u64,
    /// End of an alert that was told as firing, and its reason, from when it is seen: the alert may
    /// be forgotten before the receiver can be told.
    #[serde(default)]
    over: Option<(u64, String)>,
    /// The value then.
    #[serde(skip)]
    value: Option<f64>,
    /// Reason for the end, if other than that the condition no longer holds.
    #[serde(skip)]
    pub(super) reason: String,
}

/// Confirmed messages by the alert's labels as text.
pub type ToldAlerts = BTreeMap<String, Told>;

/// A receiver.
#[derive(Debug, Default)]
pub struct Receiver {
    /// True if it takes JSON in the format of Alertmanager's own webhooks, false if it is an
    /// Alertmanager (API version 2).
    is_webhook: bool,
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

impl Receiver {
    /// Creates a receiver that has confirmed nothing yet.
    pub(super) fn new(is_webhook: bool, url: &str, settings: &AlertingConfig) -> Self {
        Self {
            is_webhook,
            url: url.to_owned(),
            period: settings.period.as_secs().max(1),
            ca_file: settings.ca_file.clone(),
            ..Self::default()
        }
    }

    /// Returns the messages to send now, ends first. Forgets confirmations that are no longer
    /// needed.
    pub(super) fn due(&self, alerts: &[Alert], now: u64) -> Vec<(String, Told)> {
        let mut told = self.told.lock();
        // Of alerts with the same labels the first of the list: a firing one takes precedence.
        let id = |it: &Alert| json!(it.labels).to_string();
        let fired = alerts.iter().rev().filter_map(|it| Some((it, it.episode.last_fired()?)));
        let wanted: BTreeMap<_, _> = fired.map(|it| (id(it.0), it)).collect();
        for (id, it) in told.iter_mut().filter(|it| it.1.ended == 0) {
            let end = it.end(wanted.get(id).map(|it| it.1), now);
            it.over = end.and_then(|end| it.over.take().or(Some(end)));
        }
        let mut due = Vec::new();
        for (id, (alert, episode)) in &wanted {
            let before = told.get(id);
            let same = before.filter(|it| it.started == episode.started);
            // The end of the last one comes first; an Alertmanager takes a new beginning for it.
            let is_in_turn = self.is_webhook || episode.phase != Phase::Firing;
            if let Some(last) = before.filter(|it| is_in_turn && same.is_none() && it.ended == 0) {
                due.push((id.clone(), last.end_message(now)));
                continue;
            }
            // A message in the future was sent before the clock was set back.
            let is_old =
                |it: &Told| !self.is_webhook && (it.at > now || it.at + self.period <= now);
            let is_heard = alert.silenced_by.is_none();
            let is_due = match (episode.phase, same) {
                (Phase::Firing, Some(it)) if it.ended == 0 => is_old(it),
                (Phase::Firing, _) => is_heard,
                (_, Some(it)) => it.ended == 0 || is_old(it) && now < episode.ended + RESOLVED_SECS,
                // The alert was over before anything was sent. One that was sent may be later.
                _ => self.is_webhook && before.is_none_or(|it| it.started < episode.started),
            };
            let message = is_due.then(|| (id.clone(), alert.message(episode, now)));
            match is_heard || same.is_some() {
                true => due.extend(message),
                false => told.extend(message),
            }
        }
        let gone = told.iter().filter(|it| it.1.ended == 0 && !wanted.contains_key(it.0));
        due.extend(gone.map(|(id, it)| (id.clone(), it.end_message(now))));
        told.retain(|id, it| {
            wanted.contains_key(id) || it.ended == 0 || now < it.ended + RESOLVED_SECS
        });
        due.sort_by_key(|it| it.1.ended == 0);
        due.truncate(BATCH);
        due
    }

    /// Returns where to post messages, and the body.
    pub(super) fn request(&self, due: &[(String, Told)], now: u64, page: &str) -> (String, Json) {
        if self.is_webhook {
            return (self.url.clone(), webhook(due, page));
        }
        let until = rfc3339(now + 5 * self.period);
        let alerts = due.iter().map(|it| it.1.alert(&until));
        (format!("{}/api/v2/alerts", self.url.trim_end_matches('/')), alerts.collect())
    }

    /// Creates an agent for its URL.
    ///
    /// # Errors
    /// A problem with the certificates to trust.
    pub fn agent(&self) -> Result<Agent, String> {
        let settings = roots::settings().timeout_global(Some(ANSWER_MAX));
        let trusted = ("alerting.ca_file", self.ca_file.as_deref());
        roots::agent(settings, &self.url, trusted, None)
    }

    /// Returns the delays before retries: an alert expires unless it is sent at its interval.
    pub(super) fn back_off(&self) -> BackOff {
        BackOff::new(RETRY_MS.0, RETRY_MS.1.min(self.period * 1_000))
    }

    /// Sends messages until shutdown.
    pub fn run(&self, agent: &Agent, alerts: &Alerts, clock: &dyn Clock, stop: &Shutdown) {
        let mut back_off = self.back_off();
        while !stop.requested() {
            std::thread::sleep(PERIOD);
            let now = clock.unix_ms() / 1_000;
            // Also while nothing can be sent: an alert may end, and be forgotten by then.
            let messages = self.due(&alerts.view().alerts, now);
            if messages.is_empty() || !back_off.is_over(clock.mono_ms()) {
                continue;
            }
            let (url, body) = self.request(&messages, now, &alerts.page);
            let agent = agent.clone();
            let post = move || post(&agent, &url, &body.to_string());
            let Some(answer) = stop.unless_requested(("alert-post", Duration::ZERO), post) else {
                return;
            };
            let counter = match answer.flatten() {
                Err(problem) => {
                    if back_off.failed(clock.mono_ms(), None) {
                        warn!(url = self.url, problem, "Cannot send alerts; trying again.");
                    }
                    self.failed.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                Ok(Some(problem)) => {
                    warn!(url = self.url, problem, "Refused alerts; they are not repeated.");
                    &self.refused
                }
                Ok(None) => {
                    if back_off.succeeded() {
                        info!(url = self.url, "The receiver accepts alerts again.");
                    }
                    &self.sent
                }
            };
            counter.fetch_add(messages.len() as u64, Ordering::Relaxed);
            self.told.lock().extend(messages);
            alerts.changed();
        }
    }
}

/// Posts a body and waits for the answer. Returns why it was refused for good, if it was.
///
/// # Errors
/// Why it has to be sent again.
fn post(agent: &Agent, url: &str, body: &str) -> Result<Option<String>, String> {
    let sent = agent.post(url).header("content-type", "application/json").send(body);
    match sent.map_err(|error| roots::problem(&error))?.status().as_u16() {
        200..=299 => Ok(None),
        code @ (429 | 500..=599) => Err(format!("it answered {code}")),
        code => Ok(Some(format!("it answered {code}"))),
    }
}

impl Alert {
    /// Returns the message about an episode: its last, or while that is pending the one before.
    fn message(&self, episode: &Episode, at: u64) -> Told {
        let Episode { started, ended, value, reason, .. } = episode.clone();
        let (rule, key) = (&self.rule, self.key.as_deref());
        let usual = [("summary", rule.summary(key, value)), ("threshold", rule.threshold())];
        let texts = usual.into_iter().chain(value.map(|it| ("value", rule.value_text(key, it))));
        let annotations = texts.map(|(name, text)| (name.to_owned(), text)).collect();
        let (labels, link) = (self.labels.clone(), self.link.clone());
        Told { labels, annotations, link, started, ended, at, over: None, value, reason }
    }
}

impl Told {
    /// Returns when and why this alert ended, if it did, by what is there now with its labels.
    fn end(&self, there: Option<&Episode>, now: u64) -> Option<(u64, String)> {
        let previous = there.and_then(|it| it.previous.as_deref());
        let same = there.into_iter().chain(previous).find(|it| it.started == self.started);
        let (ended, reason) = match (same, there) {
            (Some(same), _) if same.phase == Phase::Resolved => (same.ended, &*same.reason),
            (Some(_), _) => return None,
            (None, Some(next)) if next.started > self.started => (next.since, ""),
            // The rule was removed, or its labels changed.
            (None, _) => (now, "rule"),
        };
        Some((ended.max(self.started), reason.to_owned()))
    }

    /// Returns the message that this alert is over.
    fn end_message(&self, at: u64) -> Self {
        let (ended, reason) = self.over.clone().unwrap_or_else(|| (at, String::new()));
        Self { ended, at, value: None, reason, over: None, ..self.clone() }
    }

    /// Returns it as Alertmanager takes it; a firing alert ends at `until`. Times are at most that
    /// of the message: after the clock was set back they could lie in the future, and Alertmanager
    /// takes an alert that ends there for one that fires.
    fn alert(&self, until: &str) -> Json {
        let (ended, is_over) = (self.ended.min(self.at), self.ended > 0);
        let started = self.started.min(if is_over { ended } else { self.at });
        json!({
            "labels": self.labels,
            "annotations": self.annotations,
            "startsAt": rfc3339(started),
            "endsAt": if is_over { rfc3339(ended) } else { until.to_owned() },
            "generatorURL": self.link,
        })
    }
}

fn webhook(messages: &[(String, Told)], page: &str) -> Json {
    let status = |is_firing| if is_firing { "firing" } else { "resolved" };
    let alerts = messages.iter().map(|(id, told)| {
        let mut alert = told.alert("0001-01-01T00:00:00Z");
        alert["status"] = status(told.ended == 0).into();
        alert["fingerprint"] = format!("{:08x}", crc32fast::hash(id.as_bytes())).into();
        alert["value"] = told.value.into();
        alert["state_reason"] = told.reason.clone().into();
        alert
    });
    let common = |of: fn(&Told) -> &BTreeMap<String, String>| {
        let mut all = messages.iter().map(|it| of(&it.1));
        let mut common = all.next().cloned().unwrap_or_default();
        all.for_each(|it| common.retain(|name, text| it.get(name) == Some(text)));
        common
    };
    json!({
        "receiver": "pinbad",
        "status": status(messages.iter().any(|it| it.1.ended == 0)),
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
