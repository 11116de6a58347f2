//! Grafana's MySQL data source: its lists of tables and columns, and the dashboard that is shipped,
//! every panel of it with variables and macros written out as Grafana does, over live and past time
//! ranges.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};

use super::Shop;
use super::client::Client;
use crate::harness::await_condition;

/// Queries that Grafana sends by itself to offer tables and columns, and the expressions its editor
/// makes of a time column.
const ASKED_BY_GRAFANA: [&str; 6] = [
    "SELECT DISTINCT TABLE_SCHEMA from information_schema.TABLES where TABLE_TYPE != 'SYSTEM VIEW' ORDER BY TABLE_SCHEMA",
    "SELECT table_name FROM information_schema.tables WHERE table_schema = 'pinba' ORDER BY table_name",
    "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'pinba' \
     AND table_name = 'request' AND data_type IN ('int','bigint') ORDER BY column_name",
    "SELECT $__unixEpochGroupAlias(timestamp, $__interval), count(*) AS n FROM request \
     WHERE $__unixEpochFilter(timestamp) GROUP BY 1 ORDER BY 1",
    "SELECT $__timeGroupAlias(FROM_UNIXTIME(timestamp), $__interval), count(*) AS n FROM request \
     WHERE $__timeFilter(FROM_UNIXTIME(timestamp)) GROUP BY 1 ORDER BY 1",
    "SELECT $__time(FROM_UNIXTIME(timestamp)), req_time FROM request ORDER BY 1 LIMIT 5",
];

type Rows = Vec<Vec<Option<String>>>;

/// A viewer of the dashboard.
struct Viewer {
    board: Json,
    client: Client,
    /// The time at which the requests sent by `fill` were received.
    now: u64,
}

impl Viewer {
    fn of(shop: &Shop) -> Self {
        let board = concat!(env!("CARGO_MANIFEST_DIR"), "/config/grafana/pinbad-mysql.json");
        let board = std::fs::read_to_string(board).unwrap();
        Self {
            board: serde_json::from_str(&board).unwrap(),
            client: Client::connect(shop.mysql),
            now: SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs(),
        }
    }

    /// A time range as the dashboard sees it: the values of its variables, in their order.
    fn variables(&mut self, span: &Range<u64>) -> Vec<(String, Vec<String>)> {
        let list = self.board["templating"]["list"].as_array().unwrap();
        let list: Vec<Json> = list.iter().filter(|it| it["type"] == "query").cloned().collect();
        let mut values = Vec::new();
        for variable in list {
            let query = expanded(variable["query"].as_str().unwrap(), span, &values);
            let rows = self.client.rows(&query).into_iter();
            let found = rows.map(|row| row[0].clone().unwrap()).collect();
            values.push((variable["name"].as_str().unwrap().to_owned(), found));
        }
        values
    }

    /// Returns the rows that each panel shows, by its title.
    fn panels(&mut self, span: &Range<u64>) -> BTreeMap<String, Rows> {
        let variables = self.variables(span);
        let mut shown = BTreeMap::new();
        for panel in self.board["panels"].as_array().unwrap().clone() {
            let Some(statement) = panel["targets"][0]["rawSql"].as_str() else {
                continue;
            };
            let query = expanded(statement, span, &variables);
            let title = panel["title"].as_str().unwrap();
            let key = format!("{title} {}", panel["type"].as_str().unwrap());
            shown.insert(key, self.client.rows(&query));
        }
        assert!(shown.len() > 12, "{shown:?}");
        shown
    }
}

/// A statement with Grafana's variables and macros written out as its MySQL data source does.
fn expanded(statement: &str, span: &Range<u64>, variables: &[(String, Vec<String>)]) -> String {
    let mut text = statement.to_owned();
    for (name, values) in variables {
        let quoted: Vec<String> = values.iter().map(|it| format!("'{it}'")).collect();
        text = text.replace(&format!("${{{name}:sqlstring}}"), &quoted.join(","));
        text = text.replace(&format!("${{{name}:raw}}"), &values.join(","));
    }
    text = text.replace("$__interval", "15s");
    let Range { start: from, end: to } = span;
    while let Some((before, rest)) = text.split_once("$__") {
        let (name, rest) = rest.split_once('(').unwrap();
        let mut depth = 1;
        let end = rest.find(|c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        let (arguments, after) = rest.split_at(end.unwrap());
        let column = arguments.split(", ").next().unwrap();
        let written = match name {
            "unixEpochFrom" => from.to_string(),
            "unixEpochTo" => to.to_string(),
            "unixEpochGroup" => format!("{column} DIV 15 * 15"),
            "unixEpochGroupAlias" => format!("{column} DIV 15 * 15 AS \"time\""),
            "unixEpochFilter" => format!("{column} >= {from} AND {column} <= {to}"),
            "timeGroup" => format!("UNIX_TIMESTAMP({column}) DIV 15 * 15"),
            "timeGroupAlias" => format!("UNIX_TIMESTAMP({column}) DIV 15 * 15 AS \"time\""),
            "timeFilter" => {
                format!("{column} BETWEEN FROM_UNIXTIME({from}) AND FROM_UNIXTIME({to})")
            }
            "time" => format!("UNIX_TIMESTAMP({column}) as time_sec"),
            other => panic!("what does Grafana make of {other}?"),
        };
        text = format!("{before}{written}{}", &after[1..]);
    }
    assert!(!text.contains('$'), "{text}");
    text
}

fn number(cell: &Option<String>) -> f64 {
    cell.as_ref().unwrap().parse().unwrap()
}

/// Twelve requests of two scripts, servers and statuses, three of them errors; the sixth and the
/// twelfth of each are the slowest.
fn check(shown: &BTreeMap<String, Rows>, is_past: bool) {
    let one = |title: &str| number(&shown[&format!("{title} stat")][0][0]);
    assert_eq!(one("Requests"), 12.0);
    assert_eq!(one("Errors"), 3.0);
    let secs = 0.125 * 78.0;
    assert!((one("Time of all requests") - secs).abs() < 1e-3);
    assert!(one("Requests/s") > 0.0);
    let rows = |title: &str| &shown[title];
    let scripts = rows("Scripts by total time table");
    let counts: Vec<_> =
        scripts.iter().map(|row| (row[0].as_deref().unwrap(), number(&row[1]))).collect();
    assert_eq!(counts, [("/каталог.php", 6.0), ("/index.php", 6.0)]);
    for row in scripts {
        let (median, mean) = (number(&row[5]), number(&row[4]));
        assert!((median / mean - 1.0).abs() < 0.25, "{row:?}");
    }
    let of = |title: &str, column: usize| rows(title).iter().map(move |row| number(&row[column]));
    assert_eq!(of("Servers by total time table", 1).sum::<f64>(), 12.0);
    assert_eq!(of("Statuses table", 1).collect::<Vec<_>>(), [9.0, 3.0]);
    assert_eq!(of("Hosts table", 1).collect::<Vec<_>>(), [4.0; 3]);
    assert_eq!(of("Requests timeseries", 1).sum::<f64>(), 12.0);
    assert_eq!(of("Requests timeseries", 2).sum::<f64>(), 3.0);
    let times = rows("Request time timeseries");
    assert!(!times.is_empty());
    for row in times {
        let [p50, p95, p99] = [2, 3, 4].map(|at| number(&row[at]));
        assert!(p50 <= p95 && p95 <= p99 && p99 <= 1.6, "{row:?}");
        assert_eq!(row.len(), if is_past { 5 } else { 6 });
    }
    let of_scripts = rows("95th percentile of the scripts that take the most time timeseries");
    let slowest = of_scripts.iter().filter(|row| row[1].as_deref() == Some("/каталог.php"));
    let slowest = slowest.map(|row| number(&row[2])).fold(0.0, f64::max);
    assert!((1.35..1.6).contains(&slowest), "{of_scripts:?}");
    let slow = "Slowest requests: live, as far back as the raw pool reaches; of the past, those that history keeps table";
    let times: Vec<f64> = of(slow, 6).collect();
    assert_eq!(times.len(), 12);
    assert!((times[0] - 1.5).abs() < 1e-6 && times.is_sorted_by(|a, b| a >= b));
    let scripts = rows("Slowest scripts of a server table");
    let counts = scripts.iter().map(|row| number(&row[2]));
    assert_eq!(counts.sum::<f64>(), 12.0, "{scripts:?}");
    let of_all = scripts.iter().map(|row| number(&row[2]) * number(&row[3]));
    assert!((of_all.sum::<f64>() - secs).abs() < 1e-3, "{scripts:?}");
}

#[test]
fn the_dashboard_shows_the_past_where_there_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = format!("history.dir={}", dir.path().display());
    for has_past in [true, false] {
        let settings = [dir.as_str(), "history.free_min=0"];
        let shop = Shop::with(&settings[..if has_past { 2 } else { 0 }]);
        let mut viewer = Viewer::of(&shop);
        let now = viewer.now;
        for statement in ASKED_BY_GRAFANA {
            let query = expanded(statement, &(now - 600..now + 60), &[]);
            viewer.client.rows(&query);
        }
        let live = now - 600..now + 60;
        check(&viewer.panels(&live), false);
        if has_past {
            await_condition("the last second is counted", || {
                let counted = "SELECT SUM(req_count) FROM history.info";
                match viewer.client.rows(counted)[0][0].as_deref() {
                    Some("12") => Ok(()),
                    other => Err(other.map(str::to_owned)),
                }
            });
        }
        for days in [1, 5, 200] {
            let span = now - days * 86_400..now + 60;
            check(&viewer.panels(&span), has_past);
            let variables: BTreeMap<_, _> = viewer.variables(&span).into_iter().collect();
            assert_eq!(variables["past"], [if has_past { "/* past */" } else { "#" }]);
            assert_eq!(variables["server"].len(), 2);
            let resolution = match days {
                1 => "finest",
                5 => "'hour'",
                _ => "'day'",
            };
            assert!(variables["rows"][0].contains(resolution), "{variables:?}");
        }
    }
}

#[test]
fn the_dashboard_shows_annotations() {
    let shop = Shop::open();
    let mut viewer = Viewer::of(&shop);
    let now = viewer.now;
    for (text, time) in [("before", now - 7_200), ("deployed", now - 60)] {
        let note = json!({"text": text, "time": time, "tags": ["a", "b"]}).to_string();
        assert_eq!(shop.site().post("/api/v1/annotations", &note).status, 201);
    }
    let target = &viewer.board["annotations"]["list"][0]["target"];
    let query = expanded(target["rawSql"].as_str().unwrap(), &(now - 3_600..now), &[]);
    let row = [(now - 60).to_string(), "deployed".to_owned(), "a,b".to_owned()];
    assert_eq!(viewer.client.rows(&query), [row.map(Some)]);
}
