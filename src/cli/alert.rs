//! `pinbad alert`: firing alerts of a running daemon, and silences.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as FlagGroup, Subcommand};
use serde_json::{Map, Value as Json, json};

use super::client::{Client, ClientFlags};
use super::format::{aligned, list, visible};
use super::{Failure, print};
use crate::alert::rule::{budget, place_in_list};
use crate::config::units::exact_duration;
use crate::config::{Config, ConfigFlags};
use crate::http::encode;
use crate::value::text::{count, joined, name_or_empty, number, numbered};

/// The commands of `pinbad alert`.
#[derive(Debug, Subcommand)]
pub enum AlertCommand {
    /// List what fires, what is about to, and what ended in the last 15 minutes; then the
    /// rules, the budgets of objectives and the silences.
    Ls(LsFlags),
    /// Play rules over the past that the daemon keeps, those in force or those of a file: when each
    /// would have fired, and for how long.
    Test(TestFlags),
    /// Tell nobody of new alerts with these labels for a while; or, with --end, tell of them again.
    Silence(SilenceFlags),
}

/// The flags of `ls`.
#[derive(Debug, Clone, FlagGroup)]
pub struct LsFlags {
    /// Which daemon.
    #[command(flatten)]
    pub client: ClientFlags,
    /// Print what the daemon answers, as JSON.
    #[arg(long)]
    pub json: bool,
}

/// The flags of `test`.
#[derive(Debug, Clone, FlagGroup)]
pub struct TestFlags {
    /// From when on: -7d, RFC 3339 or unix seconds.
    #[arg(long, value_name = "WHEN", default_value = "-1d", allow_hyphen_values = true)]
    pub from: String,
    /// Until when.
    #[arg(long, value_name = "WHEN", default_value = "now", allow_hyphen_values = true)]
    pub to: String,
    /// The rules of this configuration file, in place of those in force.
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The time zone in which --from and --to are, such as Europe/Berlin.
    #[arg(long, value_name = "ZONE", default_value = "UTC", allow_hyphen_values = true)]
    pub tz: String,
    /// Which daemon.
    #[command(flatten)]
    pub client: ClientFlags,
    /// Print what the daemon answers, as JSON.
    #[arg(long)]
    pub json: bool,
}

/// The flags of `silence`.
#[derive(Debug, Clone, FlagGroup)]
pub struct SilenceFlags {
    /// Labels that an alert must have, each as it is or prefix*: alertname=slow_checkout
    /// script_name=/shop*
    #[arg(value_name = "LABEL=TEXT", required_unless_present = "end")]
    pub matchers: Vec<String>,
    /// For how long.
    #[arg(long = "for", value_name = "DURATION", default_value = "2h")]
    pub lasting: String,
    /// Why; required.
    #[arg(long, value_name = "TEXT", required_unless_present = "end")]
    pub reason: Option<String>,
    /// End the silence of this number.
    #[arg(long, value_name = "ID", conflicts_with_all = ["matchers", "reason"])]
    pub end: Option<u64>,
    /// Which daemon.
    #[command(flatten)]
    pub client: ClientFlags,
}

/// Runs a command.
///
/// # Errors
/// Fails if there is no daemon, or it refuses.
pub fn execute(command: &AlertCommand) -> Result<(), Failure> {
    match command {
        AlertCommand::Ls(flags) => ls(flags),
        AlertCommand::Test(flags) => test(flags),
        AlertCommand::Silence(flags) => silence(flags),
    }
}

fn ls(flags: &LsFlags) -> Result<(), Failure> {
    let client = Client::at(&flags.client.url, &flags.client.access)?;
    let alerts = client.get("/api/v1/alerts")?;
    if flags.json {
        return print(&super::format::visible_json(&alerts.to_string()));
    }
    let silences = client.get("/api/v1/silences")?;
    let slos = client.get("/api/v1/slos")?;
    print(&listed(&alerts, &slos, &silences))
}

fn test(flags: &TestFlags) -> Result<(), Failure> {
    let client = Client::at(&flags.client.url, &flags.client.access)?;
    let [from, to, tz] = [&flags.from, &flags.to, &flags.tz].map(|it| encode(it));
    let path = format!("/api/v1/alerts/test?from={from}&to={to}&tz={tz}");
    let found = match &flags.config {
        None => client.get(&path)?,
        Some(_) => {
            let flags = ConfigFlags { config: flags.config.clone(), ..ConfigFlags::default() };
            let config = Config::from_environment(&flags)?;
            let alerts: Vec<_> = config.alerts.iter().map(|it| &it.entry.table).collect();
            let slos: Vec<_> = config.slos.iter().map(|it| &it.entry.table).collect();
            let body = json!({"alert": alerts, "slo": slos});
            client.post(&path, &body, 200).map_err(|error| with_places(error.into(), &config))?
        }
    };
    match flags.json {
        true => print(&super::format::visible_json(&found.to_string()))?,
        false => print(&replayed(&found))?,
    }
    match timed_out(&found) {
        None => Ok(()),
        Some(_) => Err(Failure::reported()),
    }
}

/// The remark on a replay that did not come to its end.
fn timed_out(found: &Json) -> Option<&str> {
    let remarks = list(found, "partial").iter().filter_map(Json::as_str);
    remarks.into_iter().find(|it| it.starts_with("timed out: "))
}

/// Names file and line of the entries that a daemon refused, and says of reports that the file
/// defines why they cannot be played.
fn with_places(mut failure: Failure, config: &Config) -> Failure {
    let alerts = config.alerts.iter().map(|it| &it.entry).enumerate().map(|it| ("alert", it));
    let slos = config.slos.iter().map(|it| &it.entry).enumerate().map(|it| ("slo", it));
    let entries: Vec<_> = alerts.chain(slos).collect();
    for problem in &mut failure.problems {
        for (list, (index, entry)) in &entries {
            for key in entry.table.keys() {
                let place = format!("{}: {list}.{key}", entry.location_of(key));
                *problem = problem.replace(&place_in_list(list, *index, key), &place);
            }
        }
        for report in &config.configured_reports {
            let name = report.table.get("name").and_then(toml::Value::as_str).unwrap_or_default();
            let unknown = format!("there is no report called {name:?}");
            let why =
                format!("{unknown} in the daemon yet, and so no past of it ({})", report.location);
            *problem = problem.replace(&unknown, &why);
        }
    }
    failure
}

/// The members of an object, for a line.
fn pairs(of: &Json, shown: impl Fn(&str) -> &str) -> String {
    let pairs = of.as_object().into_iter().flatten();
    let pairs =
        pairs.map(|(name, it)| format!("{name}={}", shown(it.as_str().unwrap_or_default())));
    visible(&pairs.collect::<Vec<_>>().join(" ")).into_owned()
}

/// The keys of a row, for a line.
fn row_keys(of: &Json) -> String {
    pairs(&of["key"], name_or_empty)
}

/// Lists when rules would have fired, one line each.
fn replayed(found: &Json) -> String {
    let rows = list(found, "rows");
    let lines = rows.iter().map(|row| {
        let started = moment(row["started"].as_u64().unwrap_or_default());
        let lasted = row["seconds"].as_u64();
        let lasted = lasted.map_or("still firing".to_owned(), |secs| {
            format!("for {}", exact_duration(Duration::from_secs(secs)))
        });
        let [alert, severity] =
            ["alert", "severity"].map(|name| visible(row[name].as_str().unwrap_or_default()));
        let reason = row["reason"].as_str().filter(|it| !it.is_empty());
        let reason = reason.map_or(String::new(), |why| format!(" ({})", visible(why)));
        let line = format!("{started}  {lasted}{reason}  {alert}  {severity}  {}", row_keys(row));
        line.trim_end().to_owned()
    });
    let late = timed_out(found);
    let remarks = list(found, "partial").iter().filter(|it| late.is_none() || it.as_str() != late);
    let remarks = remarks.map(|it| format!("({})", visible(it.as_str().unwrap_or_default())));
    let mut lines: Vec<String> = lines.chain(remarks).collect();
    if rows.is_empty() {
        // After what was not played.
        let before = if late.is_some() { " before that" } else { "" };
        lines.push(match found["played"].as_u64().unwrap_or_default() {
            0 => "No rule was played.".to_owned(),
            rules => {
                let rules = numbered(rules, "rule was", "rules were");
                format!("{rules} played{before}, and none would have fired.")
            }
        });
    }
    if let Some(late) = late {
        let late = late.trim_start_matches("timed out: ");
        lines.insert(0, format!("Timed out: {}.", visible(late)));
    }
    lines.join("\n")
}

fn moment(unix: u64) -> String {
    let moment = chrono::DateTime::from_timestamp(unix.cast_signed(), 0).unwrap_or_default();
    moment.format("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// The error budget of an objective, and how fast it burns over each of its windows.
fn budget_line(slo: &Json) -> String {
    let mut rates: BTreeMap<Option<u64>, Option<f64>> = BTreeMap::new();
    for burn in list(slo, "burn") {
        for window in ["long", "short"] {
            rates.insert(burn[window].as_u64(), burn[format!("burn_{window}")].as_f64());
        }
    }
    let rates = rates.into_iter().map(|(secs, rate)| {
        let window = exact_duration(Duration::from_secs(secs.unwrap_or_default()));
        format!("{} over {window}", rate.map_or("unknown".to_owned(), number))
    });
    format!(
        "objective: {}: {} of the error budget left; burn rate {}",
        visible(slo["name"].as_str().unwrap_or_default()),
        slo["budget_left"].as_f64().map_or("an unknown part".to_owned(), budget),
        joined(rates, ", ")
    )
}

/// Formats alerts, budgets and silences for people.
fn listed(alerts: &Json, slos: &Json, silences: &Json) -> String {
    let text = |of: &Json, name: &str| visible(of[name].as_str().unwrap_or_default()).into_owned();
    let mut rows = vec![
        ["STATE", "SINCE", "UNTIL", "ALERT", "SEVERITY", "ROW", "LAST VALUE", "CONDITION", ""]
            .map(str::to_owned),
    ];
    for alert in list(alerts, "rows") {
        let firings = alert["firings"].as_u64().filter(|many| *many > 1);
        let first = moment(alert["first_started"].as_u64().unwrap_or_default());
        let remarks = [
            alert["silenced_by"].as_u64().map(|id| format!("silenced by {id}")),
            firings.map(|many| format!("fired {} times since {first}", count(many))),
            Some(text(alert, "reason")).filter(|reason| !reason.is_empty()),
        ];
        rows.push([
            text(alert, "state"),
            moment(alert["since"].as_u64().unwrap_or_default()),
            alert["ended"].as_u64().map_or_else(String::new, moment),
            text(alert, "alert"),
            text(alert, "severity"),
            match alert["key"].as_object() {
                Some(keys) if keys.is_empty() => format!("rows of {}", text(alert, "report")),
                _ => row_keys(alert),
            },
            text(alert, "value_text"),
            text(alert, "condition"),
            joined(remarks.into_iter().flatten(), "; "),
        ]);
    }
    let mut lines = match rows.len() {
        1 => vec!["No alert is firing.".to_owned()],
        _ => aligned(&rows, 9),
    };
    if let Some(more) = alerts["more"].as_u64().filter(|more| *more > 0) {
        lines.push(format!("and {more} further rows that share one alert"));
    }
    for rule in list(alerts, "rules") {
        let rows = rule["rows"].as_u64().map(|rows| numbered(rows, "row", "rows"));
        let rows = rows.map(|rows| format!("; {rows} now")).unwrap_or_default();
        lines.push(format!("rule: {}{rows}", text(rule, "text")));
    }
    lines.extend(list(slos, "rows").iter().map(budget_line));
    for it in list(silences, "rows") {
        let (labels, until) =
            (pairs(&it["matchers"], |it| it), moment(it["ends"].as_u64().unwrap_or_default()));
        lines.push(format!("silence {}: {labels} until {until}: {}", it["id"], text(it, "reason")));
    }
    lines.join("\n")
}

fn silence(flags: &SilenceFlags) -> Result<(), Failure> {
    let client = Client::at(&flags.client.url, &flags.client.access)?;
    if let Some(id) = flags.end {
        client.delete(&format!("/api/v1/silences/{id}"))?;
        return print(&format!("Silence {id} has ended."));
    }
    let mut matchers = Map::new();
    for matcher in &flags.matchers {
        let wrong = || {
            Failure::usage(format!(
                "{matcher}: accepted: LABEL=TEXT, as in alertname=slow_checkout"
            ))
        };
        let (label, text) = matcher.split_once('=').ok_or_else(wrong)?;
        matchers.insert(label.to_owned(), text.into());
    }
    let body = json!({"matchers": matchers, "for": flags.lasting, "reason": flags.reason});
    let made = client.post("/api/v1/silences", &body, 201)?;
    let until = moment(made["ends"].as_u64().unwrap_or_default());
    let kept = if made["persistent"] == true { "" } else { ", or until the daemon stops" };
    let remark = made["remark"].as_str();
    let remark = remark.map_or_else(String::new, |it| format!("\nWarning: {}.", visible(it)));
    print(&format!("Silence {} holds until {until}{kept}.{remark}", made["id"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_what_fires_and_why() {
        let alerts = json!({
            "rows": [{
                "alert": "slow", "report": "r", "key": {"script_name": "/a\u{1b}"}, "state": "firing", "since": 0,
                "reason": "", "value_text": "912.3 ms", "condition": "p95 > 800 ms", "severity": "page", "silenced_by": 3,
                "firings": 2, "first_started": 60,
            }, {
                "alert": "over", "state": "resolved", "since": 60, "ended": 120,
                "value_text": "371 ms", "condition": "p95 > 700 ms", "key": {"hostname": ""},
                "firings": 1, "first_started": 90, "reason": "no data",
            }, {"alert": "shop", "report": "by_script", "state": "firing", "since": 0, "key": {}}],
            "more": 2,
            "rules": [{"text": "slow: words", "rows": 7}],
        });
        let silences = json!({"rows": [{"id": 3, "matchers": {"alertname": "slow"}, "ends": 0, "reason": "why"}]});
        let slos = json!({"rows": [
            {"name": "shop", "budget_left": -0.5, "burn": [
                {"long": 3_600, "short": 300, "burn_long": 1.5, "burn_short": 20.0},
                {"long": 259_200, "short": 21_600, "burn_long": null, "burn_short": 0.25},
            ]},
            {"name": "new", "budget_left": null, "burn": []},
        ]});
        let text = listed(&alerts, &slos, &silences);
        for part in [
            "firing",
            "/a",
            "912.3 ms    p95 > 800 ms",
            "silenced by 3; fired 2 times since 1970-01-01 00:01:00Z\n",
            "resolved  1970-01-01 00:01:00Z  1970-01-01 00:02:00Z  over",
            "hostname=(empty)",
            "371 ms      p95 > 700 ms  no data\n",
            "rows of by_script",
            "2 further rows",
            "slow: words; 7 rows",
            "objective: shop: \u{2212}50 % of the error budget left; burn rate 20.0 over 5m, 1.50 over 1h, 0.250 over 6h, unknown over 3d",
            "objective: new: an unknown part of the error budget left",
            "alertname=slow until",
            ": why",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains('\u{1b}'));
        let none = json!({});
        assert!(listed(&none, &none, &none).contains("No alert is firing."));
        let found = json!({
            "rows": [
                {"alert": "slow", "severity": "page", "key": {"script_name": "/a"}, "started": 60, "ended": 180, "seconds": 120, "reason": "no data"},
                {"alert": "slow", "severity": "page", "key": {}, "started": 240, "ended": null, "seconds": null},
            ],
            "partial": ["x: why"],
        });
        let expected = "1970-01-01 00:01:00Z  for 2m (no data)  slow  page  script_name=/a\n1970-01-01 00:04:00Z  still firing  slow  page\n(x: why)";
        assert_eq!(replayed(&found), expected);
        let none = json!({"partial": ["x: why"], "played": 0});
        assert_eq!(replayed(&none), "(x: why)\nNo rule was played.");
        let some = json!({"partial": ["x: why"], "played": 2});
        assert_eq!(replayed(&some), "(x: why)\n2 rules were played, and none would have fired.");
        let late = json!({"played": 1, "partial": ["timed out: nothing from A to B was evaluated", "x: why"]});
        let expected = "Timed out: nothing from A to B was evaluated.\n(x: why)\n1 rule was played before that, and none would have fired.";
        assert_eq!(replayed(&late), expected);
    }
}
