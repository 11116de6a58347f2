//! The daemon's answers as tables.
//!
//! The first tabs show reports that every daemon has, with a choice of columns; any other report is shown whole, its keys first.
//! A row opens its requests where its keys are fields or tags that the daemon can search by. Called on the polling thread. Pure.

use serde_json::Value as Json;

use super::cell::{Cell, Unit};
use super::location::{Location, Tab};
use super::table::{Column, Content, Row, Severity};
use crate::cli::format::{clock, tag_text, visible};

/// The key of the row that holds what overflowed.
const OTHER: &str = "(other)";
/// Medians that stand out a little, and much; seconds.
const SLOW_SECS: (f64, f64) = (0.5, 2.0);

/// A report as the daemon lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportInfo {
    /// Its key columns.
    pub keys: Vec<String>,
    /// Its columns and their types.
    pub columns: Vec<(String, String)>,
    /// Whether sizes are bytes in it, not KiB as in Pinba's.
    pub bytes: bool,
}

impl ReportInfo {
    /// From an element of `/api/v1/reports`.
    pub fn of(listed: &Json) -> Self {
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let list = |name: &str| listed[name].as_array().map_or(&[][..], Vec::as_slice);
        Self {
            keys: list("keys").iter().map(text).collect(),
            columns: list("columns")
                .iter()
                .map(|column| (text(&column["name"]), text(&column["type"])))
                .collect(),
            bytes: listed["kind"] == "native",
        }
    }

    /// From the rows of a report that is not listed, as by an alias: texts are its keys.
    pub fn seen(body: &Json) -> Self {
        let first = rows(body).first().and_then(Json::as_object);
        let columns = first.into_iter().flatten().map(|(name, value)| {
            let column_type = if value.is_string() { "text" } else { "double" };
            (name.clone(), column_type.to_owned())
        });
        Self {
            keys: Vec::new(),
            columns: columns.collect(),
            bytes: false,
        }
    }

    /// What a column holds.
    fn unit(&self, name: &str, column_type: &str) -> Unit {
        if !self.bytes {
            return unit(name, column_type);
        }
        match unit(name, column_type) {
            Unit::Kib => Unit::Bytes,
            Unit::Count if name.contains("traffic") => Unit::Bytes,
            other => other,
        }
    }

    /// The column to sort by at first: time, else a count, else any number.
    pub fn first_sort(&self) -> Option<&str> {
        const WANTED: [&str; 5] = [
            "req_time_total",
            "time_total",
            "timer_value",
            "req_count",
            "hit_count",
        ];
        let names = || self.columns.iter().map(|(name, _)| name.as_str());
        let wanted = WANTED
            .into_iter()
            .find(|name| names().any(|it| it == *name));
        let numbers = self.columns.iter().filter(|(name, column_type)| {
            !self.keys.contains(name) && unit(name, column_type) != Unit::Text
        });
        let first = wanted.or_else(|| numbers.map(|(name, _)| name.as_str()).next());
        first.or_else(|| names().next())
    }
}

fn rows(body: &Json) -> &[Json] {
    body["rows"].as_array().map_or(&[], Vec::as_slice)
}

/// The percentile that [`by_key`] shows beside the median: the report is asked for in native columns with it.
pub const PERCENTILE: &str = "95";
/// The columns of such a report that [`by_key`] looks at, beside the key.
pub const BY_KEY: [&str; 11] = [
    "req_count",
    "req_per_sec",
    "error_count",
    "req_time_total",
    "req_time_percent",
    "req_time_median",
    "p95",
    "ru_utime_total",
    "ru_stime_total",
    "memory_footprint_total",
    "traffic_per_sec",
];

/// What a tab shows of its report: traffic, times, errors, processor and memory of each key.
pub fn by_key(tab: Tab, body: &Json) -> Content {
    let Some((_, key)) = tab.report() else {
        return Content::default();
    };
    let heading = match tab {
        Tab::Servers => "server",
        Tab::Hosts => "host",
        Tab::Statuses => "status",
        _ => "script",
    };
    let columns = vec![
        Column::known(
            key,
            heading,
            if tab == Tab::Statuses {
                Unit::Plain
            } else {
                Unit::Text
            },
        ),
        Column::known("req_count", "count", Unit::Count),
        Column::known("req_per_sec", "req/s", Unit::Rate),
        Column::known("req_time_total", "total", Unit::Seconds),
        Column::known("req_time_percent", "% time", Unit::Percent),
        Column::known("req_time_median", "median", Unit::Seconds),
        Column::known("p95", "p95", Unit::Seconds),
        Column::known("error_count", "errors", Unit::Count),
        Column::own("avg", Unit::Seconds),
        Column::own("cpu", Unit::Seconds),
        Column::own("memory", Unit::Bytes),
        Column::known("traffic_per_sec", "out/s", Unit::Bytes),
    ];
    let row = |row: &Json| {
        let number = |name: &str| row[name].as_f64();
        let each = |sum: Option<f64>| match (sum, number("req_count")) {
            (Some(sum), Some(count)) if count > 0.0 => Cell::Number(sum / count),
            _ => Cell::Nothing,
        };
        let cpu = number("ru_utime_total").zip(number("ru_stime_total"));
        let own = |name: &str| match name {
            "avg" => each(number("req_time_total")),
            "cpu" => each(cpu.map(|(user, system)| user + system)),
            _ => each(number("memory_footprint_total")),
        };
        let cells = columns.iter().map(|column| match column.known {
            true => Cell::of(&row[&column.name]),
            false => own(&column.name),
        });
        Row {
            cells: cells.collect(),
            target: requests(std::iter::once(key), row),
            severity: match tab {
                Tab::Statuses => status_severity(number("status")),
                _ => time_severity(number("req_time_median")),
            },
        }
    };
    Content {
        title: tab.title().to_owned(),
        rows: rows(body).iter().map(row).collect(),
        columns,
        total: body["total_rows"].as_u64(),
        sort: "req_time_total".to_owned(),
        choices: Vec::new(),
    }
}

/// Any report as it is, its keys first.
pub fn any(name: &str, info: &ReportInfo, body: &Json) -> Content {
    let (mut columns, mut others) = (Vec::new(), Vec::new());
    for (name, column_type) in &info.columns {
        let column = Column::known(name, name, info.unit(name, column_type));
        if info.keys.contains(name) {
            // The legacy key, which says the same once more.
            if name != "index_value" || info.keys.len() == 1 {
                columns.push(column);
            }
        } else {
            others.push(column);
        }
    }
    // Texts name a row; they come before numbers even if they are no keys.
    others.sort_by_key(|column| column.unit != Unit::Text);
    columns.append(&mut others);
    let keys = info.keys.iter().filter(|key| *key != "index_value");
    let row = |row: &Json| Row {
        cells: columns
            .iter()
            .map(|column| Cell::of(&row[&column.name]))
            .collect(),
        target: requests(keys.clone().map(String::as_str), row),
        severity: status_severity(row["status"].as_f64()),
    };
    Content {
        title: visible(name).into_owned(),
        rows: rows(body).iter().map(row).collect(),
        total: body["total_rows"].as_u64(),
        sort: info.first_sort().unwrap_or_default().to_owned(),
        choices: Vec::new(),
        columns,
    }
}

/// The list of reports.
pub fn list(body: &Json) -> Content {
    let columns = vec![
        Column::own("report", Unit::Text),
        Column::own("kind", Unit::Text),
        Column::own("keys", Unit::Text),
        Column::own("rows", Unit::Count),
        Column::own("window", Unit::Seconds),
    ];
    let listed = body["reports"].as_array().map_or(&[][..], Vec::as_slice);
    let row = |report: &Json| {
        let keys = ReportInfo::of(report).keys;
        let keys = keys.iter().filter(|key| *key != "index_value");
        let name = report["name"].as_str().unwrap_or_default();
        Row {
            cells: vec![
                Cell::text(name),
                Cell::of(&report["kind"]),
                Cell::text(&keys.map(String::as_str).collect::<Vec<_>>().join(", ")),
                Cell::of(&report["rows"]),
                Cell::of(&report["window_seconds"]),
            ],
            target: Some(Location::Report(name.to_owned())),
            severity: Severity::Normal,
        }
    };
    Content {
        title: Tab::Reports.title().to_owned(),
        columns,
        rows: listed.iter().map(row).collect(),
        total: None,
        sort: "rows".to_owned(),
        choices: Vec::new(),
    }
}

/// Single requests, without the columns of the conditions: those are the same in all rows.
pub fn slowest(title: String, conditions: &[(String, String)], requests: &[Json]) -> Content {
    let columns = [
        ("script_name", "script", Unit::Text),
        ("", "at (UTC)", Unit::Text),
        ("", "time", Unit::Seconds),
        ("status", "status", Unit::Plain),
        ("hostname", "host", Unit::Text),
        ("server_name", "server", Unit::Text),
        ("", "cpu", Unit::Seconds),
        ("", "memory", Unit::Kib),
        ("", "timers", Unit::Count),
        ("", "tags", Unit::Text),
        ("", "id", Unit::Plain),
    ];
    let fixed = |parameter: &str| conditions.iter().any(|(name, _)| name == parameter);
    let shown: Vec<usize> = (0..columns.len())
        .filter(|at| !fixed(columns[*at].0))
        .collect();
    let row = |row: &Json| {
        let cpu = row["ru_utime"].as_f64().zip(row["ru_stime"].as_f64());
        let at = row["timestamp"].as_u64().map_or_else(String::new, clock);
        let cells = [
            Cell::of(&row["script_name"]),
            Cell::Text(at),
            Cell::of(&row["req_time"]),
            Cell::of(&row["status"]),
            Cell::of(&row["hostname"]),
            Cell::of(&row["server_name"]),
            cpu.map_or(Cell::Nothing, |(user, system)| Cell::Number(user + system)),
            Cell::of(&row["memory_footprint"]),
            Cell::of(&row["timers_cnt"]),
            Cell::of(&row["tags"]),
            Cell::of(&row["id"]),
        ];
        Row {
            cells: shown.iter().map(|at| cells[*at].clone()).collect(),
            target: row["id"].as_u64().map(Location::Request),
            severity: status_severity(row["status"].as_f64()),
        }
    };
    Content {
        title,
        rows: requests.iter().map(row).collect(),
        columns: shown
            .iter()
            .map(|at| Column::own(columns[*at].1, columns[*at].2))
            .collect(),
        total: None,
        sort: "time".to_owned(),
        choices: Vec::new(),
    }
}

/// What is known of one request, line by line.
pub fn about(request: &Json) -> Vec<(String, String)> {
    let shown = |name: &str, unit: Unit| Cell::of(&request[name]).format(unit);
    let mut lines = vec![
        ("script".to_owned(), shown("script_name", Unit::Text)),
        (
            "server, host".to_owned(),
            format!(
                "{}, {}  {}",
                shown("server_name", Unit::Text),
                shown("hostname", Unit::Text),
                shown("schema", Unit::Text),
            ),
        ),
        (
            "time".to_owned(),
            format!(
                "{}   status {}   cpu {} user, {} system   at {} UTC",
                shown("req_time", Unit::Seconds),
                shown("status", Unit::Plain),
                shown("ru_utime", Unit::Seconds),
                shown("ru_stime", Unit::Seconds),
                request["timestamp"]
                    .as_u64()
                    .map_or_else(String::new, clock),
            ),
        ),
        (
            "size".to_owned(),
            format!(
                "document {}   memory {}, peak {}   requests in it {}",
                shown("doc_size", Unit::Kib),
                shown("memory_footprint", Unit::Kib),
                shown("mem_peak_usage", Unit::Kib),
                shown("req_count", Unit::Count),
            ),
        ),
    ];
    let tags = tag_text(&request["tags"]);
    if !tags.is_empty() {
        lines.push(("tags".to_owned(), tags));
    }
    lines
}

/// The requests that have these keys, where each can be searched by.
fn requests<'a>(keys: impl Iterator<Item = &'a str>, row: &Json) -> Option<Location> {
    let mut conditions = Vec::new();
    for key in keys {
        let value = match &row[key] {
            Json::String(text) if text == OTHER => return None,
            Json::String(text) => text.clone(),
            Json::Number(number) => number.to_string(),
            // A whole number of the row of all others; a schema that is not there is the empty text.
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
                // The tag of a timer: it does not choose requests, what stands beside it may.
                _ => continue,
            },
        };
        conditions.push((parameter, value));
    }
    (!conditions.is_empty()).then_some(Location::Requests(conditions))
}

/// What a column of any report holds, by its name and type.
fn unit(name: &str, column_type: &str) -> Unit {
    let is_quantile = |name: &str| {
        let digits = name.strip_prefix('p').unwrap_or_default();
        !digits.is_empty()
            && digits
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    let has = |part: &str| name.contains(part);
    if column_type.starts_with("varchar") || column_type == "text" {
        Unit::Text
    } else if has("percent") {
        Unit::Percent
    } else if matches!(name, "status" | "id") {
        Unit::Plain
    } else if column_type == "int" || column_type == "bigint" {
        if has("memory") || has("kbytes") {
            Unit::Kib
        } else {
            Unit::Count
        }
    } else if has("traffic") || has("kbytes") || has("memory") || has("doc_size") {
        Unit::Kib
    } else if has("per_sec") {
        Unit::Rate
    } else if is_quantile(name) || has("time") || has("value") || has("median") {
        Unit::Seconds
    } else {
        Unit::Number
    }
}

fn status_severity(status: Option<f64>) -> Severity {
    match status {
        Some(status) if status >= 500.0 => Severity::Critical,
        Some(status) if status >= 400.0 => Severity::Warning,
        _ => Severity::Normal,
    }
}

fn time_severity(secs: Option<f64>) -> Severity {
    match secs {
        Some(secs) if secs >= SLOW_SECS.1 => Severity::Critical,
        Some(secs) if secs >= SLOW_SECS.0 => Severity::Warning,
        _ => Severity::Normal,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tab_works_out_what_its_report_does_not_have() {
        let body = json!({"total_rows": 2, "rows": [
            {"script_name": "/a", "req_count": 4, "req_per_sec": 2.0, "req_time_total": 8.0, "req_time_percent": 80.0,
             "ru_utime_total": 1.0, "ru_stime_total": 1.0, "traffic_per_sec": 1.0, "memory_footprint_total": 400.0,
             "req_time_median": 2.5, "p95": 3.0, "error_count": 1},
            {"script_name": "(other)", "req_count": 0, "req_time_total": 0.0}]});
        let content = by_key(Tab::Scripts, &body);
        let shown = |row: usize| -> Vec<String> {
            let cells = content.rows[row].cells.iter();
            cells
                .zip(&content.columns)
                .map(|(cell, column)| cell.format(column.unit))
                .collect()
        };
        assert_eq!(
            shown(0),
            [
                "/a", "4", "2.00", "8.00 s", "80.0%", "2.50 s", "3.00 s", "1", "2.00 s", "500 ms",
                "100 B", "1 B"
            ]
        );
        assert_eq!(shown(1)[6..], ["-"; 6]);
        assert_eq!(content.rows[0].severity, Severity::Critical);
        let conditions = vec![("script_name".to_owned(), "/a".to_owned())];
        assert_eq!(content.rows[0].target, Some(Location::Requests(conditions)));
        assert_eq!(content.rows[1].target, None);
    }

    #[test]
    fn any_report_shows_its_keys_first() {
        let column = |name: &str, column_type: &str| (name.to_owned(), column_type.to_owned());
        let info = ReportInfo {
            keys: ["host", "tag_env", "timer_group", "index_value"]
                .map(str::to_owned)
                .into(),
            columns: vec![
                column("req_count", "int"),
                column("p99_9", "double"),
                column("traffic_total", "float"),
                column("host", "varchar(255)"),
                column("tag_env", "varchar(255)"),
                column("timer_group", "varchar(255)"),
                column("index_value", "varchar(255)"),
            ],
            bytes: false,
        };
        let body = json!({"rows": [{"req_count": 1, "host": "h", "tag_env": "prod", "timer_group": "db"}]});
        let content = any("r\u{1b}", &info, &body);
        let names: Vec<&str> = content
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "host",
                "tag_env",
                "timer_group",
                "req_count",
                "p99_9",
                "traffic_total"
            ]
        );
        let kinds: Vec<Unit> = content.columns[3..]
            .iter()
            .map(|column| column.unit)
            .collect();
        assert_eq!(kinds, [Unit::Count, Unit::Seconds, Unit::Kib]);
        let native = ReportInfo {
            bytes: true,
            ..info.clone()
        };
        assert_eq!(any("r", &native, &body).columns[5].unit, Unit::Bytes);
        assert_eq!(native.unit("memory_footprint_total", "bigint"), Unit::Bytes);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let conditions = vec![pair("hostname", "h"), pair("tag.env", "prod")];
        assert_eq!(content.rows[0].target, Some(Location::Requests(conditions)));
        assert_eq!(
            (content.title.as_str(), content.sort.as_str()),
            ("r\\x1b", "req_count")
        );
    }

    #[test]
    fn odd_answers_make_empty_tables() {
        for body in [
            json!(null),
            json!([]),
            json!({"rows": 1}),
            json!({"rows": [null, 7]}),
        ] {
            let _odd = by_key(Tab::Scripts, &body);
            let _odd = by_key(Tab::Reports, &body);
            let _odd = any("x", &ReportInfo::of(&body), &body);
            let _odd = list(&body);
            let _odd = about(&body);
            let _odd = slowest(String::new(), &[], rows(&body));
        }
    }
}
