//! The daemon's answers as tables.
//!
//! The first tabs show reports that every daemon has, with selected columns; any other report is
//! shown whole, keys first. A row opens its requests if its keys are fields or tags that the daemon
//! can search by. Called on the polling thread. Pure.

use ratatui::style::Color;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::cell::Unit;
use super::location::{ByKey, Conditions, Location};
use super::table::{Column, Content, Row};
use crate::cli::format::{self, clock, tag_text, visible};
use crate::series::Metric;
use crate::value;
use crate::value::text::{self, lasting};

/// The key of the overflow row.
const OTHER: &str = "(other)";
/// Medians in seconds that stand out a little, and a lot.
const SLOW_SECS: (f64, f64) = (0.5, 2.0);

/// A report as the daemon lists it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReportInfo {
    /// Its name.
    pub name: String,
    /// Its kind; empty if it is not listed.
    pub kind: String,
    /// Its key columns.
    pub keys: Vec<String>,
    /// Its columns.
    pub columns: Vec<ReportColumn>,
    /// Its definition, whose keys have the names of tags.
    pub definition: Json,
}

/// A column of it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ReportColumn {
    /// Its name.
    pub name: String,
    /// Its SQL type.
    #[serde(rename = "type")]
    pub sql_type: String,
    /// The unit of its numbers.
    #[serde(default)]
    pub unit: String,
}

impl ReportInfo {
    /// Reads an element of `/api/v1/reports`.
    pub fn of(listed: &Json) -> Self {
        Self::deserialize(listed).unwrap_or_default()
    }

    /// Infers a report that is not listed (as by an alias) from its rows: texts are its keys.
    pub fn seen(name: &str, body: &Json) -> Self {
        let first = format::list(body, "rows").first().and_then(Json::as_object);
        let columns = first.into_iter().flatten().map(|(name, value)| {
            let sql_type = if value.is_string() { "text" } else { "double" };
            json!({"name": name, "type": sql_type})
        });
        Self::of(&json!({"name": name, "columns": columns.collect::<Vec<_>>()}))
    }

    /// The report with one of the columns that reports have without listing them.
    pub fn with_column(&self, name: &str) -> Self {
        let unit = match Metric::parse(name).map(|it| it.unit()) {
            Some("s") => value::Unit::Seconds,
            _ if name.ends_with("_count") => value::Unit::Count,
            _ => value::Unit::None,
        };
        let (name, unit) = (name.to_owned(), unit.name().to_owned());
        let column = ReportColumn { name, sql_type: "double".to_owned(), unit };
        Self { columns: [&self.columns[..], &[column]].concat(), ..self.clone() }
    }

    /// Its keys without the legacy one, which repeats them.
    fn own_keys(&self) -> impl Iterator<Item = &str> + Clone {
        self.keys.iter().map(String::as_str).filter(|key| *key != "index_value")
    }

    /// The heading of a column: for a tag its name, which columns of Pinba's reports do not have.
    fn heading<'a>(&'a self, column: &'a str) -> &'a str {
        let at = self.own_keys().position(|key| key == column);
        let key = at.and_then(|at| self.definition["keys"][at].as_str());
        key.and_then(|key| key.strip_prefix(['@', '+'])).unwrap_or(column)
    }

    /// The column to sort by initially: time, else a count, else any number.
    pub fn first_sort(&self) -> Option<&str> {
        const WANTED: [&str; 5] =
            ["req_time_total", "time_total", "timer_value", "req_count", "hit_count"];
        let rank = |column: &&ReportColumn| {
            let no_number = self.keys.contains(&column.name) || column.is_text();
            let wanted = WANTED.iter().position(|wanted| column.name == *wanted);
            wanted.unwrap_or(WANTED.len() + usize::from(no_number))
        };
        Some(self.columns.iter().min_by_key(rank)?.name.as_str())
    }
}

impl ReportColumn {
    fn is_text(&self) -> bool {
        self.sql_type.starts_with("varchar") || self.sql_type == "text"
    }

    /// The unit to format it by.
    fn unit(&self) -> Unit {
        let is_whole = matches!(self.sql_type.as_str(), "int" | "bigint");
        match value::Unit::named(&self.unit) {
            _ if self.is_text() => Unit::Text,
            unit => Unit::of(unit.unwrap_or_default(), is_whole),
        }
    }
}

/// An object with further members; anything else counts as an empty object.
pub(super) fn with<const N: usize>(object: &Json, more: [(&str, Json); N]) -> Json {
    let mut members = object.as_object().cloned().unwrap_or_default();
    members.extend(more.map(|(name, value)| (name.to_owned(), value)));
    Json::Object(members)
}

/// User and system time together.
pub(super) fn cpu(row: &Json, names: [&str; 2]) -> Option<f64> {
    let [user, system] = names.map(|name| row[name].as_f64());
    Some(user? + system?)
}

/// The time that the rates of an answer are over, in words; empty for one without a window.
fn over(body: &Json, kind: &str) -> String {
    let secs = |name: &str| body[name].as_f64().unwrap_or_default() as u64;
    let [covered, window] = ["covered_seconds", "window_seconds"].map(secs);
    match (text::last(covered, window), text::last(window, window)) {
        _ if window == 0 => String::new(),
        // As in pinba2.
        (part, whole) if part != whole && kind.starts_with("v2/") => {
            format!("{part}; rates over {}", lasting(window))
        }
        (part, _) => part,
    }
}

/// A fraction of a whole; `None` if the whole is nothing.
pub(super) fn part(of: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| of / whole)
}

/// The table of a tab: traffic, times, errors, processor and memory of each key. The report is
/// requested with percentiles and therefore has its native columns too. The median is the one of
/// pages, in place of Pinba's own, which can be above the longest time.
pub fn by_key(&(title, heading, key): &ByKey, body: &Json) -> Content {
    let unit = match key {
        "status" => Unit::Plain,
        _ => Unit::Text,
    };
    let columns = Column::known_but(
        &["avg", "cpu", "memory"],
        &[
            (key, heading, unit),
            ("req_count", "count", Unit::Count),
            ("req_per_sec", "req/s", Unit::Number),
            ("req_time_total", "total", Unit::Seconds),
            ("req_time_median", "median", Unit::Seconds),
            ("p95", "p95", Unit::Seconds),
            ("error_count", "errors", Unit::Count),
            ("req_time_percent", "% time", Unit::Percent),
            ("avg", "avg", Unit::Seconds),
            ("cpu", "cpu", Unit::Seconds),
            ("memory", "memory", Unit::Kib),
            ("traffic_per_sec", "out/s", Unit::Kib),
        ],
    );
    let row = |row: &Json| {
        let number = |name: &str| row[name].as_f64();
        let unmeasured = number("unmeasured_count").unwrap_or(0.0);
        let each = |sum: Option<f64>, but: f64| {
            let both = sum.zip(number("req_count"));
            json!(both.and_then(|(sum, count)| part(sum, count - but)))
        };
        let cpu = cpu(row, ["ru_utime_total", "ru_stime_total"]);
        let memory = number("memory_footprint_total");
        let values = with(
            row,
            [
                ("req_time_median", json!(number("p50"))),
                ("avg", each(number("req_time_total"), 0.0)),
                ("cpu", each(cpu, unmeasured)),
                ("memory", each(memory, unmeasured)),
            ],
        );
        Row {
            values,
            target: requests(std::iter::once(key), row),
            colour: match key {
                "status" => status_colour(row),
                _ => colour(number("p50"), SLOW_SECS),
            },
        }
    };
    Content {
        title: title.to_owned(),
        over: over(body, ""),
        rows: format::list(body, "rows").iter().map(row).collect(),
        columns,
        total: body["total_rows"].as_u64(),
        sort: "req_time_total".to_owned(),
        ..Content::default()
    }
}

/// Any report with all its columns, keys first.
pub fn any(info: &ReportInfo, body: &Json) -> Content {
    let is_key = |column: &ReportColumn| info.keys.contains(&column.name);
    let mut columns: Vec<&ReportColumn> = info.columns.iter().collect();
    columns.retain(|column| column.name != "index_value" || info.keys.len() == 1 && is_key(column));
    // Texts name a row; they come before numbers even if they are not keys.
    columns.sort_by_key(|column| match is_key(column) {
        true => 0,
        false => 1 + u8::from(!column.is_text()),
    });
    let keys = columns.iter().filter(|column| is_key(column)).count();
    let columns = columns.iter().map(|column| {
        let name = column.name.as_str();
        (name, info.heading(name), column.unit())
    });
    let row = |row: &Json| Row {
        values: row.clone(),
        target: requests(info.own_keys(), row),
        colour: status_colour(row),
    };
    Content {
        title: visible(&info.name).into_owned(),
        over: over(body, &info.kind),
        columns: Column::known_but(&[], &columns.collect::<Vec<_>>()),
        rows: format::list(body, "rows").iter().map(row).collect(),
        total: body["total_rows"].as_u64(),
        sort: info.first_sort().unwrap_or_default().to_owned(),
        has_more: true,
        keys,
        ..Content::default()
    }
}

/// The list of reports.
pub fn list(body: &Json) -> Content {
    let row = |report: &Json| {
        let keys = ReportInfo::of(report).own_keys().collect::<Vec<_>>().join(", ");
        let name = report["name"].as_str().unwrap_or_default();
        let window = report["window_seconds"].as_f64().filter(|secs| *secs > 0.0);
        let more = [
            ("keys", json!((!keys.is_empty()).then_some(keys))),
            ("window_seconds", json!(window)),
        ];
        Row {
            values: with(report, more),
            target: Some(Location::Report(name.to_owned())),
            colour: Color::Reset,
        }
    };
    Content {
        title: Location::Reports.title(),
        columns: Column::list(&[
            ("name", "report", Unit::Text),
            ("kind", "kind", Unit::Text),
            ("keys", "keys", Unit::Text),
            ("rows", "rows", Unit::Count),
            ("window_seconds", "window", Unit::Span),
        ]),
        rows: format::list(body, "reports").iter().map(row).collect(),
        sort: "rows".to_owned(),
        ..Content::default()
    }
}

/// Single requests, without the columns of the conditions, which are the same in all rows.
pub fn slowest(title: String, conditions: &Conditions, requests: &[Json]) -> Content {
    let mut columns = Column::list(&[
        ("script_name", "script", Unit::Text),
        ("at", "at (UTC)", Unit::Text),
        ("req_time", "time", Unit::Seconds),
        ("status", "status", Unit::Plain),
        ("hostname", "host", Unit::Text),
        ("server_name", "server", Unit::Text),
        ("cpu", "cpu", Unit::Seconds),
        ("memory_footprint", "memory", Unit::Kib),
        ("timers_cnt", "timers", Unit::Count),
        ("tags", "tags", Unit::Text),
        ("id", "id", Unit::Plain),
    ]);
    columns.retain(|column| conditions.iter().all(|(name, _)| *name != column.name));
    let row = |row: &Json| {
        let at = row["timestamp"].as_u64().map_or_else(String::new, clock);
        let cpu = cpu(row, ["ru_utime", "ru_stime"]);
        Row {
            values: with(row, [("at", json!(at)), ("cpu", json!(cpu))]),
            target: row["id"].as_u64().map(Location::Request),
            colour: status_colour(row),
        }
    };
    Content {
        title,
        rows: requests.iter().map(row).collect(),
        columns,
        sort: "req_time".to_owned(),
        ..Content::default()
    }
}

/// The details of one request, line by line.
pub fn about(request: &Json) -> Vec<(&'static str, String)> {
    let shown = |name: &str, unit: Unit| unit.format(&request[name]);
    let [script, server, host, schema] =
        ["script_name", "server_name", "hostname", "schema"].map(|name| shown(name, Unit::Text));
    let [time, user, system] =
        ["req_time", "ru_utime", "ru_stime"].map(|name| shown(name, Unit::Seconds));
    let [document, memory, peak] =
        ["doc_size", "memory_footprint", "mem_peak_usage"].map(|name| shown(name, Unit::Kib));
    let status = shown("status", Unit::Plain);
    let count = shown("req_count", Unit::Count);
    let at = request["timestamp"].as_u64().map_or_else(String::new, clock);
    let mut lines = vec![
        ("script", script),
        ("server, host", format!("{server}, {host}  {schema}")),
        (
            "time",
            format!("{time}   status {status}   cpu {user} user, {system} system   at {at} UTC"),
        ),
        (
            "size",
            format!("document {document}   memory {memory}, peak {peak}   requests in it {count}"),
        ),
    ];
    let tags = tag_text(&request["tags"]);
    if !tags.is_empty() {
        lines.push(("tags", tags));
    }
    lines
}

/// The requests with these keys, if the daemon can search by them.
fn requests<'a>(keys: impl Iterator<Item = &'a str>, row: &Json) -> Option<Location> {
    let mut conditions = Conditions::new();
    for key in keys {
        let value = match &row[key] {
            Json::String(text) if text == OTHER => return None,
            Json::String(text) => text.clone(),
            Json::Number(number) => number.to_string(),
            // NULL is an absent schema, or a numeric key in the overflow row.
            _ if key == "schema" => String::new(),
            _ => return None,
        };
        let parameter = match key {
            "script_name" | "server_name" | "hostname" | "status" | "schema" => key.to_owned(),
            "script" => "script_name".to_owned(),
            "server" => "server_name".to_owned(),
            "host" => "hostname".to_owned(),
            key => match key.strip_prefix("tag_") {
                Some(tag) if tag != "value" && !tag.ends_with("_value") => format!("tag.{tag}"),
                // A timer's tag does not select requests; the other keys may.
                _ => continue,
            },
        };
        conditions.push((parameter, value));
    }
    (!conditions.is_empty()).then_some(Location::Requests(conditions))
}

fn status_colour(row: &Json) -> Color {
    colour(row["status"].as_f64(), (400.0, 500.0))
}

/// Colour of a value: a warning from the first bound on, critical from the second.
fn colour(of: Option<f64>, (warning, critical): (f64, f64)) -> Color {
    match of {
        Some(number) if number >= critical => Color::Red,
        Some(number) if number >= warning => Color::Yellow,
        _ => Color::Reset,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::top::location::BY_KEY;

    #[test]
    fn a_tab_works_out_what_its_report_does_not_have() {
        let body = json!({"total_rows": 2, "rows": [
            {"script_name": "/a", "req_count": 4, "req_per_sec": 2.0, "req_time_total": 8.0, "req_time_percent": 80.0,
             "ru_utime_total": 1.0, "ru_stime_total": 1.0, "traffic_per_sec": 1.0, "memory_footprint_total": 400.0,
             "req_time_median": 9.0, "p50": 2.5, "p95": 3.0, "error_count": 1},
            {"script_name": "(other)", "req_count": 0, "req_time_total": 0.0}]});
        let content = by_key(&BY_KEY[0], &body);
        let shown = |row: usize| -> Vec<String> {
            let values = &content.rows[row].values;
            let columns = content.columns.iter();
            columns.map(|column| column.unit.format(&values[&column.name])).collect()
        };
        assert_eq!(
            shown(0),
            [
                "/a", "4", "2.00", "8.00 s", "2.50 s", "3.00 s", "1", "80.0 %", "2.00 s", "500 ms",
                "100 KiB", "1.00 KiB"
            ]
        );
        assert_eq!(shown(1)[6..], ["-"; 6]);
        assert_eq!(content.rows[0].colour, Color::Red);
        let conditions = vec![("script_name".to_owned(), "/a".to_owned())];
        assert_eq!(content.rows[0].target, Some(Location::Requests(conditions)));
        assert_eq!(content.rows[1].target, None);
    }

    #[test]
    fn any_report_shows_its_keys_first() {
        let column = |name: &str, sql_type: &str, unit: &str| ReportColumn {
            name: name.to_owned(),
            sql_type: sql_type.to_owned(),
            unit: unit.to_owned(),
        };
        let info = ReportInfo {
            keys: ["host", "tag_env", "timer_group"].map(str::to_owned).into(),
            columns: vec![
                column("req_count", "int", "count"),
                column("p99_9", "double", "seconds"),
                column("traffic_total", "float", "kib"),
                column("status", "int", "none"),
                column("host", "varchar(255)", "none"),
                column("tag_env", "varchar(255)", "none"),
                column("timer_group", "varchar(255)", "none"),
                column("index_value", "varchar(255)", "none"),
            ],
            name: "r\u{1b}".to_owned(),
            kind: "v2/timer".to_owned(),
            definition: json!({"keys": ["hostname", "+env", "@group"]}),
        };
        let mut body = json!({"window_seconds": 900.0, "covered_seconds": 471,
            "rows": [{"req_count": 1, "host": "h", "tag_env": "prod", "timer_group": "db"}]});
        let content = any(&info, &body);
        assert_eq!(content.over, "last 7 min 51 s; rates over 15 min");
        assert_eq!(by_key(&BY_KEY[0], &body).over, "last 7 min 51 s");
        body["covered_seconds"] = json!(893);
        assert_eq!(any(&info, &body).over, "last 15 min");
        let names: Vec<&str> = content.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(
            names,
            ["host", "tag_env", "timer_group", "req_count", "p99_9", "traffic_total", "status"]
        );
        let headings = [0, 1, 2].map(|at: usize| content.columns[at].title.as_str());
        assert_eq!((headings, content.keys), (["host", "env", "group"], 3));
        let kinds: Vec<Unit> = content.columns[3..].iter().map(|column| column.unit).collect();
        let shown = [Unit::Count, Unit::Seconds, Unit::Kib, Unit::Plain];
        assert_eq!(kinds, shown);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let conditions = vec![pair("hostname", "h"), pair("tag.env", "prod")];
        assert_eq!(content.rows[0].target, Some(Location::Requests(conditions)));
        assert_eq!((content.title.as_str(), content.sort.as_str()), ("r\\x1b", "req_count"));
    }

    #[test]
    fn reports_without_a_window_have_none() {
        let body = json!({"reports": [{"name": "a", "window_seconds": 900.0}, {"name": "b", "window_seconds": 0.0}]});
        let content = list(&body);
        let (window, rows) = (content.columns.last().unwrap(), &content.rows);
        let shown = [0, 1].map(|row: usize| window.unit.format(&rows[row].values[&window.name]));
        assert_eq!(shown, ["15 min", "-"]);
    }

    #[test]
    fn odd_answers_make_empty_tables() {
        for body in [json!(null), json!([]), json!({"rows": 1}), json!({"rows": [null, 7]})] {
            let _odd = by_key(&BY_KEY[0], &body);
            let _odd = any(&ReportInfo::of(&body), &body);
            let _odd = list(&body);
            let _odd = about(&body);
            let _odd = slowest(String::new(), &Vec::new(), format::list(&body, "rows"));
        }
    }
}
