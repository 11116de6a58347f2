//! `pinbad check`: validates the configuration, and prints the listeners and the memory plan.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value as Json;
use tracing::{Level, warn};

use super::client::{AccessFlags, Client};
use super::format::visible;
use super::{Failure, doctor, print};
use crate::alert::rule::Rule;
use crate::config::units::{exact_duration, rounded_bytes};
use crate::config::{Config, ConfigFlags, OtlpTraces};
use crate::daemon;
use crate::daemon::disk_plan;
use crate::daemon::memory_limit::{self, Limits, Scaled};
use crate::daemon::memory_plan::{MemoryPlan, counted};
use crate::http::encode;
use crate::metrics::otlp::urls;
use crate::report::row_key::push_key;
use crate::series::EVERYTHING;
use crate::state::folder::{self, HISTORY};
use crate::state::{self, StateError};
use crate::telemetry::log;
use crate::value::text::joined;

/// Longest wait for a daemon that is asked for its rows.
const DAEMON_WAIT_MAX: Duration = Duration::from_secs(2);
/// Rows of a rule that are named; the others are counted.
const ROWS_NAMED: usize = 5;

/// Checks the configuration, and the secrets and certificates that it names.
///
/// # Errors
/// All problems found.
pub fn execute(flags: &ConfigFlags) -> Result<(), Failure> {
    let mut config = Config::from_environment(flags).map_err(Failure::of_configuration)?;
    // What is checked is logged as at the start: secrets that everybody may read, for one.
    log::init(config.log.format, Level::WARN).map_err(Failure::failed)?;
    if let Some(problem) = config.shipping_refused() {
        warn!("The daemon would not start as this user: {problem}.");
    }
    let limits = Limits::of(&config);
    let scaled = match memory_limit::fit(&mut config) {
        Ok(scaled) => scaled,
        Err(error) => {
            print(&error.plan.to_string())?;
            return Err(Failure::usage(error));
        }
    };
    let rules = daemon::check(&config).map_err(|errors| Failure::misconfigured(&errors))?;
    let rules = rules.iter();
    let alerts = rules.map(|rule| rule.words() + &rows_now(&config, rule).unwrap_or_default());
    let alerts = section("Alerts ([[alert]], [[slo]])", alerts);
    let releases = match &config.releases.tag[..] {
        [] => String::new(),
        tags => format!(
            "\nReleases ([releases]): by the request tag {}; each is compared with the one before {} after its first request, and after a day.",
            first_sent(tags),
            exact_duration(config.releases.after)
        ),
    };
    let shown = |front: Option<SocketAddr>| {
        front.map_or_else(|| "off".to_owned(), |address| address.to_string())
    };
    let udp = joined(&config.ingest.listen, ", ");
    let udp = format!("{udp}; sockets per address: {}", config.ingest.receivers);
    let mut lines = vec![
        ("UDP", udp),
        ("HTTP", shown(config.http.listen)),
        ("MySQL", shown(config.mysql.listen)),
    ];
    let spans = config.otlp_inputs.iter();
    lines.extend(spans.map(|input| ("spans", input.listen.to_string())));
    lines.extend(pushes(&config).map(|push| ("OTLP", push)));
    let managers = config.alerting.alertmanager.iter();
    let receivers = managers.chain([&config.alerting.webhook]).filter(|url| !url.is_empty());
    lines.extend(receivers.map(|url| ("alerts", url.clone())));
    let shipped = Some(&config.clickhouse.url).filter(|url| !url.is_empty());
    lines.extend(shipped.map(|url| ("rows", format!("to ClickHouse at {url}"))));
    lines.extend(config.squids.iter().map(|squid| ("Squid", squid.from.to_string())));
    lines.extend(config.stats.iter().map(|stat| ("stat", stat.stream.to_string())));
    let shown_dir = |dir: &Option<PathBuf>| dir.as_ref().map(|dir| dir.display().to_string());
    let kept = [("state", &config.state.dir), ("history", &config.history.dir)];
    let kept = kept.iter().filter_map(|(what, dir)| Some(format!("{what} in {}", shown_dir(dir)?)));
    let mut kept = joined(kept, ", ");
    if kept.is_empty() {
        let why = config.folder_refused.iter();
        let why: String = why.map(|why| format!("; {why}")).collect();
        kept = format!("in memory only: a restart loses it; --data DIR (data.dir) keeps it{why}");
    }
    lines.push(("data", kept));
    let line = |(what, text): (&str, String)| format!("\n  {what:<7}{text}");
    let lines: String = lines.into_iter().map(line).collect();
    let heading = format!("History, {}", disk_plan::assumption());
    let history = section(&heading, disk_plan::estimated_retention(&config));
    let scaled = scaled.map_or(String::new(), |Scaled { limit, settings }| {
        format!(
            "\nThis control group may have {} of memory; reduced because of that: {}.",
            rounded_bytes(limit),
            settings.join(" ")
        )
    });
    let folders = unusable_folders(&config);
    let plan = MemoryPlan::of(&config);
    let verdict = match folders.is_empty() {
        true => "The configuration is valid.",
        false => "Settings are valid, but a folder cannot be used; the last lines say why.",
    };
    print(&format!("{verdict}{lines}\n\n{plan}\n{limits}{scaled}{history}{alerts}{releases}"))?;
    if folders.is_empty() { Ok(()) } else { Err(Failure { code: 1, problems: folders }) }
}

/// The tags of `releases.tag`, of which one is used.
fn first_sent(tags: &[String]) -> String {
    match tags {
        [tag] => tag.clone(),
        tags => format!("that is sent first of {}", tags.join(", ")),
    }
}

/// Lines under a heading; nothing if there are none.
fn section(heading: &str, lines: impl IntoIterator<Item = String>) -> String {
    let lines: String = lines.into_iter().map(|line| format!("\n  {line}")).collect();
    if lines.is_empty() { lines } else { format!("\n{heading}:{lines}") }
}

/// The metrics that are pushed, and where to.
pub(super) fn pushes(config: &Config) -> Option<String> {
    let (otlp, everything) = (&config.otlp, [EVERYTHING.to_owned()]);
    let reports = [&everything[..], &otlp.reports[..]].concat().join(", ");
    let period = exact_duration(otlp.period);
    let [metrics, traces] = urls(&otlp.url);
    let traces = match otlp.traces {
        OtlpTraces::None => String::new(),
        OtlpTraces::Slow | OtlpTraces::Tail => format!(", traces to {traces}"),
    };
    let pushes = format!("metrics of {reports} to {metrics} every {period}{traces}");
    Some(pushes).filter(|_| !otlp.url.is_empty())
}

/// The rows of a running daemon that a rule concerns now; `None` if no daemon answers.
fn rows_now(config: &Config, rule: &Rule) -> Option<String> {
    let url = doctor::url(config).filter(|_| rule.objective().is_none())?;
    let client = Client::at(&url, &AccessFlags::default().trusting(config)).ok()?;
    let columns = joined(rule.keys.iter().map(|it| encode(it)), ",");
    let report = encode(&rule.entry.report);
    let path = match columns.is_empty() {
        true => format!("/api/v1/reports/{report}?limit=1"),
        false => format!("/api/v1/reports/{report}?limit=0&columns={columns}"),
    };
    let answer = client.patient_for(DAEMON_WAIT_MAX).get(&path).ok()?;
    let mut found = Vec::new();
    for row in answer["rows"].as_array().into_iter().flatten() {
        let text = |name: &String| match &row[name] {
            Json::String(text) => text.clone(),
            Json::Null => String::new(),
            other => other.to_string(),
        };
        let texts: Vec<String> = rule.keys.iter().map(text).collect();
        let mut key = Vec::new();
        texts.iter().for_each(|text| push_key(&mut key, text));
        if rule.concerns(&key) {
            found.push(visible(&texts.join(", ")).into_owned());
        }
    }
    let (count, named) = (found.len(), !rule.keys.is_empty());
    found.truncate(ROWS_NAMED);
    let more = if count > found.len() { ", ..." } else { "" };
    let names = match found.join("; ") {
        names if named && count > 0 => format!(": {names}{more}"),
        _ => String::new(),
    };
    let rows = counted(count, "row", "rows");
    Some(format!("\n    concerns {rows} of the daemon at {url} now{names}"))
}

/// Folders that cannot be used, and what to do about it. One that another pinbad has locked is that
/// of the running daemon.
fn unusable_folders(config: &Config) -> Vec<String> {
    let state = config.state.dir.as_deref();
    let history = config.history.dir.as_deref();
    let free_min = config.history.free_min as u64;
    let checked = [
        state.map(|dir| (dir, state::check(dir))),
        history.map(|dir| (dir, folder::check(HISTORY, dir, free_min))),
    ];
    let wrong = checked.into_iter().flatten().filter_map(|(dir, found)| {
        let Err(error) = found else { return doctor::folders::unreadable_history(config, dir) };
        let advice = match &error {
            StateError::InUse { .. } => return None,
            StateError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                format!("run this as the user of the daemon, or {}", error.advice(dir))
            }
            _ => error.advice(dir),
        };
        Some(folder::advised(error, &advice))
    });
    wrong.collect()
}
