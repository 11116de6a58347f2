//! `/api/v1/alerts` and `/api/v1/silences`: the alerts, and the silences that suppress their
//! notifications.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde_json::{Map, Value as Json, json};

use crate::access::Pass;
use crate::alert::rule::{Rule, RuleError};
use crate::alert::silence::Silence;
use crate::alert::{Alerts, Rules};
use crate::config::units::parse_duration;
use crate::config::{Config, suggest};
use crate::http::answer::format::{Answer, created, ok};
use crate::http::answer::json::bare;
use crate::http::app::App;
use crate::http::error::Problem;
use crate::http::params::{self, NoParams, Params, Rounding};
use crate::http::request_checks::{JsonBody, members};
use crate::http::time_range::{END, NOT_BEFORE, Span};
use crate::limits::{ALERT_LABELS_MAX, SILENCES_MAX};
use crate::query::catalog::Catalog;
use crate::query::catalog::alerts::{alert, objective};
use crate::query::error::QueryError;
use crate::query::question::ReportQuestion;
use crate::report::row_key::key_of;

const EXAMPLE: &str =
    r#"{"matchers": {"alertname": "slow_checkout"}, "for": "2h", "reason": "migration"}"#;
/// Lists of a configuration whose rules can be replayed over the past.
const RULE_LISTS: [&str; 2] = ["alert", "slo"];
const RULES_EXAMPLE: &str =
    r#"{"alert": [{"name": "slow", "report": "report_by_script_name", "when": "p95 > 1s"}]}"#;
/// Maximum length of a reason or a matcher, bytes.
const TEXT_BYTES_MAX: usize = 1_024;

/// `GET /api/v1/alerts`
pub(in crate::http) async fn list(State(app): State<Arc<App>>, _: NoParams) -> Answer {
    let view = app.settings.alerts.view();
    let rows: Vec<Json> = view.alerts.iter().map(alert).collect();
    let rule = |(rule, rows): &(Arc<Rule>, usize)| {
        let rows = rule.objective().is_none().then_some(rows);
        json!({"text": rule.words(), "rows": rows})
    };
    let rules: Vec<Json> = view.rules.iter().map(rule).collect();
    ok(json!({"rows": rows, "more": view.more, "rules": rules}))
}

/// `GET /api/v1/slos`
pub(in crate::http) async fn slos(State(app): State<Arc<App>>, _: NoParams) -> Answer {
    let rows: Vec<Json> = app.settings.alerts.view().objectives.iter().map(objective).collect();
    ok(json!({ "rows": rows }))
}

/// `GET /api/v1/alerts/test`
pub(in crate::http) async fn replay(State(app): State<Arc<App>>, params: Params) -> Answer {
    let rules = app.settings.alerts.rules();
    replayed(&app, params, move |_| Ok(rules)).await
}

/// `POST /api/v1/alerts/test`: replays rules that need not be active.
pub(in crate::http) async fn replay_given(
    State(app): State<Arc<App>>,
    params: Params,
    JsonBody(body): JsonBody,
) -> Answer {
    let config = given(body)?;
    let rules = move |source: &Catalog| {
        let line = |it: &RuleError| format!("{}: {}", it.place_in_list, it.problem);
        let lines = |all: &[RuleError]| all.iter().map(line).collect::<Vec<_>>().join("; ");
        let wrong = |errors: Vec<RuleError>| Problem::parameter("alert", lines(&errors));
        source.rules_of(&config).map(Arc::new).map_err(wrong)
    };
    replayed(&app, params, rules).await
}

/// Parses the rules of a body: a configuration that contains nothing else.
fn given(body: Option<Json>) -> Result<Config, Problem> {
    let lists = body.as_ref().and_then(Json::as_object);
    let fits = |lists: &&Map<String, Json>| lists.keys().all(|it| RULE_LISTS.contains(&&**it));
    let table = lists.filter(|it| !it.is_empty()).filter(fits);
    let table = table.and_then(|lists| toml::Table::try_from(lists).ok());
    let table = table.ok_or_else(|| {
        Problem::bad(format!("the body must hold entries of a configuration: {RULES_EXAMPLE}"))
    })?;
    let config = Config::from_toml("alert", &table.to_string());
    config.map_err(|errors| Problem::parameter("alert", errors.to_string()))
}

async fn replayed(
    app: &Arc<App>,
    mut params: Params,
    rules: impl FnOnce(&Catalog) -> Result<Arc<Rules>, Problem> + Send + 'static,
) -> Answer {
    let span = Span::take(&mut params);
    params.finish()?;
    // It goes with the client.
    let client = Arc::new(());
    let waits = Arc::downgrade(&client);
    let body = app.query_under(&app.replays, move |source| {
        let now = source.unix_ms();
        let (from, to) = span.ends(now)?;
        let to = to.unwrap_or(now / 1_000);
        let from = from.unwrap_or(to.saturating_sub(86_400));
        if from >= to {
            return Err(Problem::parameter("from", NOT_BEFORE));
        }
        let is_left = || waits.strong_count() == 0;
        Ok(source.replay_alerts(&rules(source)?, &(from..to), is_left)?)
    });
    let body = body.await;
    drop(client);
    ok(body?)
}

/// `GET /api/v1/silences`
pub(in crate::http) async fn silences(State(app): State<Arc<App>>, _: NoParams) -> Answer {
    let alerts = app.settings.alerts.clone();
    let rows = app.query(move |source| Ok(alerts.silences(source.unix_ms() / 1_000)));
    ok(json!({"rows": rows.await?}))
}

/// `POST /api/v1/silences`
pub(in crate::http) async fn silence(
    State(app): State<Arc<App>>,
    _: NoParams,
    pass: Option<Extension<Pass>>,
    JsonBody(body): JsonBody,
) -> Answer {
    let author = pass.and_then(|Extension(pass)| pass.identity.name);
    let alerts = app.settings.alerts.clone();
    let body = app.query(move |source| {
        let now = source.unix_ms() / 1_000;
        let mut silence = form(body, now)?;
        silence.author = author.map(|name| name.to_string());
        let full =
            || format!("there are {SILENCES_MAX} silences, which is as many as there may be");
        let added = alerts.silence(silence, now).ok_or_else(|| Problem::busy(full()))?;
        let mut row = json!(added);
        row["persistent"] = alerts.keep().into();
        let unkept = alerts.why_not_kept().map(|why| format!("it cannot be kept now: {why}"));
        let remarks = [unkept, unmatched(source, &alerts, &added)?].into_iter().flatten();
        row["remark"] = remarks.reduce(|all, more| format!("{all}; {more}")).into();
        Ok(row)
    });
    created(body.await?)
}

/// Returns why a silence matches nothing, if so: no alert, and no row that could raise one.
fn unmatched(
    source: &Catalog,
    alerts: &Alerts,
    silence: &Silence,
) -> Result<Option<String>, QueryError> {
    let view = alerts.view();
    if view.alerts.iter().any(|it| silence.fits(&it.labels)) {
        return Ok(None);
    }
    let rules = alerts.rules();
    if rules.is_empty() {
        return Ok(Some("there is no [[alert]] and no [[slo]], so no alert".to_owned()));
    }
    // An objective has no keys.
    let mut read: BTreeMap<(&str, &[String]), Vec<Vec<u8>>> = BTreeMap::new();
    for rule in &*rules {
        let keys = match read.entry((&*rule.entry.report, &*rule.keys)) {
            Entry::Occupied(read) => read.into_mut(),
            Entry::Vacant(place) => place.insert(row_keys(source, rule)?),
        };
        let mut keys = keys.iter().filter(|key| rule.concerns(key));
        if keys.any(|key| silence.fits(&rule.labels(Some(key)))) {
            return Ok(None);
        }
    }
    let names: BTreeSet<&str> = rules.iter().flat_map(|it| it.label_names()).collect();
    let unknown = silence.matchers.keys().find(|it| !names.contains(it.as_str()));
    let names = Vec::from_iter(names).join(", ");
    Ok(Some(match unknown {
        Some(name) => format!("no alert could have the label {name:?}; there are {names}"),
        None => {
            let given = silence.matchers.get("alertname").map_or("", String::as_str);
            let alerts = rules.iter().map(|it| it.entry.name.as_str());
            let is_known = alerts.clone().any(|it| it == given);
            let question = if is_known { String::new() } else { suggest::question(given, alerts) };
            format!("no row that a rule judges has these labels now{question}")
        }
    }))
}

/// Returns the keys of the rows of a rule's report.
fn row_keys(source: &Catalog, rule: &Rule) -> Result<Vec<Vec<u8>>, QueryError> {
    if rule.keys.is_empty() {
        return Ok(vec![Vec::new()]);
    }
    let question = ReportQuestion { needed: Some(rule.keys.clone()), ..ReportQuestion::default() };
    let table = source.report(&rule.entry.report, &question)?.table;
    let columns: Vec<usize> = rule.keys.iter().filter_map(|name| table.column(name)).collect();
    let key = |row| key_of(columns.iter().map(|column| table.value(row, *column).plain()));
    Ok((0..table.len()).map(key).collect())
}

/// `DELETE /api/v1/silences/{id}`
pub(in crate::http) async fn end_silence(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    _: NoParams,
    _: JsonBody,
) -> Answer {
    let id = params::id(&id)?;
    match app.settings.alerts.end_silence(id) {
        true => ok(json!({"deleted": id})),
        false => Err(Problem::not_found(format!("there is no silence {id}"))),
    }
}

/// Parses the silence of a body.
fn form(body: Option<Json>, now: u64) -> Result<Silence, Problem> {
    let mut members = members(body, EXAMPLE)?;
    let matchers = members.shift_remove("matchers").unwrap_or_default();
    let matchers = serde_json::from_value::<BTreeMap<String, String>>(matchers).ok();
    let fits = |it: &BTreeMap<String, String>| {
        let is_short =
            |(name, text): (&String, &String)| name.len().max(text.len()) <= TEXT_BYTES_MAX;
        (1..=ALERT_LABELS_MAX).contains(&it.len()) && it.iter().all(is_short)
    };
    let matchers = matchers.filter(fits).ok_or_else(|| {
        let why = format!(
            "must be 1 to {ALERT_LABELS_MAX} labels, each with its text or prefix*: {EXAMPLE}"
        );
        Problem::parameter("matchers", why)
    })?;
    let text = |name| Some(bare(&members.shift_remove(name)?));
    let [lasting, until] = ["for", "until"].map(text);
    let (by, ends, range) = match (lasting, until) {
        (Some(lasting), None) => {
            let accepted = "accepted: a duration such as \"2h\"";
            let wrong = |why| Problem::parameter("for", format!("{why}; {accepted}"));
            let ends = now.saturating_add(parse_duration(&lasting).map_err(wrong)?.as_secs());
            ("for", ends, "longer than 0, and end before the year 10000")
        }
        (None, Some(until)) => {
            let why = "must be unix seconds, or RFC 3339 such as \"2023-11-14T22:13:20Z\"";
            let ends = params::moment(&until, Rounding::Up);
            let ends = ends.ok_or_else(|| Problem::parameter("until", why))?;
            ("until", ends, "later than now, and before the year 10000")
        }
        _ => {
            let why = format!("one of for, until says when it ends: {EXAMPLE}");
            return Err(Problem::parameter("for", why));
        }
    };
    if ends <= now || ends >= END.unsigned_abs() {
        return Err(Problem::parameter(by, format!("must be {range}")));
    }
    let reason = members.shift_remove("reason").unwrap_or_default();
    let reason = reason.as_str().filter(|it| !it.trim().is_empty() && it.len() <= TEXT_BYTES_MAX);
    let reason = reason.map(str::to_owned).ok_or_else(|| {
        let why = format!("must say why, in up to {TEXT_BYTES_MAX} bytes: {EXAMPLE}");
        Problem::parameter("reason", why)
    })?;
    params::no_others(&members, &["matchers", "for", "until", "reason"])?;
    Ok(Silence { id: 0, matchers, starts: now, ends, reason, author: None })
}
