//! Reports: what is asked for is what comes.

use std::sync::atomic::Ordering;

use serde_json::{Value as Json, json};

use super::harness::{Reply, Server, script_and_status};

/// The names of the columns of report `r`, as they are listed.
fn columns(server: &Server) -> Vec<String> {
    let listed = server.get("/api/v1/reports").json();
    let columns = listed["reports"][0]["columns"].as_array().unwrap().clone();
    let names = columns.iter().map(|column| column["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

fn names(reply: &Reply, member: &str) -> Vec<Json> {
    let rows = reply.json()["rows"].clone();
    rows.as_array().unwrap().iter().map(|row| row[member].clone()).collect()
}

#[test]
fn an_answer_has_its_members_in_order() {
    let server = Server::start();
    let reply = server.get("/api/v1/reports/r?limit=2");
    assert_eq!(reply.status, 200);
    let body = reply.json();
    let members: Vec<&String> = body.as_object().unwrap().keys().collect();
    let expected = ["report", "window_seconds", "covered_seconds", "as_of", "total_rows", "rows"];
    assert_eq!(members, expected);
    assert_members!(body => {
        "report": "r", "window_seconds": 900, "covered_seconds": 17, "as_of": 1_700_000_000.25,
        "total_rows": 300,
    });
    let rows = body["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let members: Vec<&String> = rows[1].as_object().unwrap().keys().collect();
    assert_eq!(members, columns(&server).iter().collect::<Vec<_>>());
    assert_eq!(members[..3], ["script_name", "status", "tag_limit"]);
    let one = server.get("/api/v1/reports/r?script_name=/shop/page-07919.php");
    assert_has!(one.body => "\"req_time_total\":1.000003,");
    let other = server.get("/api/v1/reports/r?script_name=(other)");
    assert_eq!(other.json()["rows"][0]["status"], Json::Null);
    assert!(reply.header("content-length").is_some(), "{reply:?}");
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_has!(reply.header("content-security-policy").unwrap() => "default-src 'none'");
    assert!(reply.header("access-control-allow-origin").is_none());
}

#[test]
fn percentiles_are_checked() {
    let server = Server::start();
    let get = |text: &str| server.get(&format!("/api/v1/reports/r?percentiles={text}&limit=1"));
    assert_eq!(get("95,99.9").status, 200);
    for (text, part) in [
        ("", "is a number greater than 0"),
        ("95,", "is a number greater than 0"),
        ("p95", "is a number greater than 0"),
        ("0", "greater than 0 and at most 100"),
        ("101", "greater than 0 and at most 100"),
        ("95,95", "given twice"),
    ] {
        let reply = get(text);
        assert_eq!(reply.status, 400, "{text}: {reply:?}");
        assert!(reply.body.contains(part), "{text}: {reply:?}");
    }
    let reply = server.get("/api/v1/reports/r?columns=p99_999999&limit=1");
    assert!(reply.json()["rows"][0]["p99_999999"].is_number(), "{reply:?}");
}

#[test]
fn a_hundred_rows_come_unless_told_otherwise() {
    let server = Server::start();
    let rows = |query: &str| {
        server.get(&format!("/api/v1/reports/r{query}")).json()["rows"].as_array().unwrap().len()
    };
    assert_eq!(rows(""), 100);
    assert_eq!(rows("?limit=0"), 300);
    assert_eq!(rows("?limit=7"), 7);
    assert_eq!(rows("?limit=1000"), 300);
    assert_eq!(rows("?offset=299"), 1);
    assert_eq!(rows("?offset=300"), 0);
    assert_eq!(rows("?offset=99999999999999999&limit=18446744073709551615"), 0);
    assert_eq!(rows("?limit=18446744073709551616"), 300);
    assert_eq!(rows("?status=18446744073709551616"), 0);
    let empty = Server::of(0).get("/api/v1/reports/r").json();
    assert_eq!(empty["rows"], json!([]));
}

#[test]
fn rows_are_sorted_by_several_columns() {
    let server = Server::start();
    let sort = "/api/v1/reports/r?sort=-status,script_name";
    let reply = server.get(&format!("{sort}&limit=0&columns=script_name,status"));
    let mut expected: Vec<_> = (0..299).map(script_and_status).collect();
    expected.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut expected: Vec<Json> = expected.into_iter().map(|it| it.0.into()).collect();
    expected.push("(other)".into());
    assert_eq!(names(&reply, "script_name"), expected);
    let page = server.get(&format!("{sort}&limit=5&offset=10"));
    assert_eq!(names(&page, "script_name"), expected[10..15]);
}

#[test]
fn null_comes_last_either_way() {
    let server = Server::start();
    for sort in ["status", "-status"] {
        let reply = server.get(&format!("/api/v1/reports/r?sort={sort}&limit=0&columns=status"));
        let statuses = names(&reply, "status");
        assert_eq!(statuses[299], Json::Null, "{sort}");
        assert_eq!(statuses.iter().filter(|status| status.is_null()).count(), 1);
        assert_eq!(statuses[0], if sort == "status" { 200 } else { 500 });
    }
}

#[test]
fn columns_come_in_the_order_asked_for() {
    let server = Server::start();
    let reply =
        server.get("/api/v1/reports/r?columns=p95,script_name&sort=-req_count&status=200&limit=1");
    let row = reply.json()["rows"][0].clone();
    let members: Vec<&String> = row.as_object().unwrap().keys().collect();
    assert_eq!(members, ["p95", "script_name"]);
    assert_eq!(row["p95"].as_f64().map(f64::is_finite), Some(true));
}

/// One by which rows are sorted alone is not shown, whatever others are.
#[test]
fn rows_are_sorted_by_a_percentile_that_is_not_listed() {
    let server = Server::start();
    let get = |query: &str| server.get(&format!("/api/v1/reports/r?limit=9&{query}"));
    let columns = |reply: &Reply| {
        let first = reply.json()["rows"][0].clone();
        first.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    let by_p42 = names(&get("columns=script_name,status&sort=-p42"), "script_name");
    for shown in ["percentiles=99,95", "percentiles=95&columns=script_name,p95,p13", ""] {
        let sorted = get(&format!("{shown}&sort=-p42"));
        assert_eq!(sorted.status, 200, "{shown}: {sorted:?}");
        assert_eq!(names(&sorted, "script_name"), by_p42, "{shown}");
        assert_eq!(columns(&sorted), columns(&get(shown)), "{shown}");
    }
}

#[test]
fn keys_filter_rows() {
    let server = Server::start();
    let total = |query: &str| {
        let reply = server.get(&format!("/api/v1/reports/r?{query}"));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["total_rows"].as_u64().unwrap()
    };
    assert_eq!(total("status=404"), 100);
    assert_eq!(total("status=500"), 99);
    assert_eq!(total("status=1"), 0);
    assert_eq!(total("script_name=/shop/page-07919.php"), 1);
    assert_eq!(total("script_name=%2Fshop%2Fpage-07919.php&status=404"), 1);
    assert_eq!(total("script_name=/shop/page-07919.php&status=200"), 0);
    assert_eq!(total("script_name=(other)"), 1);
    assert_eq!(total("key.status=404"), 100);
    assert_eq!(total("key.tag_limit=even&limit=3"), 150);
    // A key that is called like a parameter.
    let limits = server.get("/api/v1/reports/limits?key.limit=odd&limit=3").json();
    assert_eq!(limits["total_rows"], 1);
    // The prefix is no part of the key that picks the row of a view, or the requests of a script.
    server.post("/api/v1/reports", r#"{"name": "hvs", "comment": "hv.report1"}"#);
    let path = "/api/v1/reports/hvs?columns=cnt&limit=2000&";
    let [bare, prefixed] = ["", "key."].map(|prefix| {
        let reply = server.get(&format!("{path}{prefix}index_value=/shop/page-07919.php"));
        names(&reply, "cnt")
    });
    assert!(bare.iter().any(|count| *count == 1) && bare == prefixed, "{bare:?} {prefixed:?}");
    let page = "/reports/hvs?key.index_value=/shop/page-07919.php";
    assert_has!(server.get(page).body => "<td");
}

#[test]
fn rows_are_sorted_by_columns_that_are_not_shown() {
    let server = Server::of(6);
    let path = "/api/v1/reports/report_by_script_name?limit=3";
    let usual = server.get(path).json();
    let columns = |reply: &Json| reply["rows"][0].as_object().unwrap().len();
    for by in ["-error_count", "-p95", "p99_9,-p95"] {
        let sorted = server.get(&format!("{path}&sort={by}")).json();
        assert_eq!(columns(&sorted), columns(&usual), "{sorted}");
        let shown = server.get(&format!("{path}&sort={by}&columns=script_name,p95")).json();
        let names = |reply: &Json| {
            let rows = reply["rows"].as_array().unwrap().clone();
            rows.iter().map(|row| row["script_name"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&shown), names(&sorted), "{by}");
    }
}

#[test]
fn a_column_that_can_be_named_can_be_named_alone() {
    let server = Server::of(6);
    for query in [
        "info?columns=req_per_sec",
        "report_by_script_name?columns=script_name,timer_count",
        "report_by_script_name?columns=script_name&sort=-timer_count",
        "report_by_script_name?columns=p95",
    ] {
        assert_eq!(server.get(&format!("/api/v1/reports/{query}")).status, 200, "{query}");
    }
    let path = "/api/v1/reports/report_by_script_name?columns=eror_count";
    let unknown = server.get(path).problem(400);
    assert_has!(unknown => "did you mean \"error_count\"?", "timer_count", "p95");
}

#[test]
fn a_column_may_be_called_like_a_percentile() {
    let server = Server::start();
    server.post("/api/v1/reports", r#"{"name": "hvs", "comment": "hv.report1"}"#);
    assert_eq!(server.get("/api/v1/reports/releases?columns=release,p95&sort=-p95").status, 200);
    for (query, why) in cases![
        "releases?percentiles=95" => "percentiles: \"releases\" has none to add";
        "hvs?index_value=/a&columns=p50" => "columns: there is no column \"p50\"";
        "hvs?index_value=/a&percentiles=50" => "percentiles: \"hvs\" has none to add";
    ] {
        assert_has!(server.get(&format!("/api/v1/reports/{query}")).problem(400) => why);
    }
    let unknown = server.get("/api/v1/reports/nowhere?columns=p95").problem(404);
    assert_has!(unknown => "no report called \"nowhere\"");
}

#[test]
fn the_rows_of_own_columns_are_linked() {
    let server = Server::of(6);
    let name = "report_by_script_name";
    let listed = server.get("/api/v1/reports").json();
    let listed = listed["reports"].as_array().unwrap();
    let report = listed.iter().find(|report| report["name"] == name).unwrap();
    assert_eq!(report["keys"], json!(["script_name"]));
    let page = server.get(&format!("/reports/{name}?view=own")).body;
    let links: Vec<&str> = page.split("href=\"").filter_map(|it| it.split('"').next()).collect();
    let rows = links.iter().filter(|link| link.contains("/row?"));
    let rows: Vec<u16> = rows.map(|link| server.get(&link.replace("&amp;", "&")).status).collect();
    assert_eq!(rows, [200; 6]);
}

#[test]
fn timers_are_summed_by_the_usual_tag_if_no_key_is_named() {
    let server = Server::of(6);
    let reply = server.get("/timers?by=,");
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_has!(reply.body => "<li><bdi>group</bdi></li>");
    // One that nothing has may be another, misspelled.
    let meant = "No timer here has &quot;gruop&quot;; did you mean &quot;group&quot;?";
    for path in ["/timers", "/calls", "/requests/3"] {
        assert_has!(server.get(&format!("{path}?by=gruop")).body => meant);
        assert_lacks!(server.get(&format!("{path}?by=group")).body => "No timer here");
    }
    assert_has!(server.get("/timers?by=group,sript_name").body => "did you mean &quot;script_name&quot;?");
}

/// Of tags and rows, where an answer is empty.
#[test]
fn names_that_only_data_have_are_suggested() {
    let server = Server::of(6);
    let meant = "no request in memory has a tag \"enb\"; did you mean \"env\"?";
    let found = server.get("/api/v1/requests?tag.enb=prod").json();
    assert_eq!(found["partial"], json!([meant]));
    assert_has!(server.get("/requests?tag.enb=prod").body => "did you mean &quot;env&quot;?");
    let none = server.get("/api/v1/requests?tag.env=nosuch").json();
    assert_eq!((&none["rows"], none.get("partial")), (&json!([]), None));
    let name = "report_by_script_name";
    let script = script_and_status(0).0;
    let wrong = script.replacen('/', "/x", 1);
    let found = server.get(&format!("/api/v1/reports/{name}?script_name={wrong}")).json();
    assert_has!(found.to_string() => "no row matches; did you mean ");
    let page = server.get(&format!("/reports/{name}/row?script_name={wrong}")).body;
    assert_has!(page => "No row matches; did you mean &quot;");
    let page = server.get(&format!("/reports/{name}/row?script_name={script}")).body;
    assert_lacks!(page => "did you mean");
}

/// Whatever else is lacking: there is no history here.
#[test]
fn without_a_fleet_that_is_the_reason() {
    let server = Server::start();
    for path in [
        "reports/r?fleet=true",
        "reports/r?dc=x",
        "reports/r?collector=x&from=-1h",
        "reports/r/series?fleet=true&metric=req_count",
        "reports/r/heatmap?dc=x",
        "info?fleet=true",
        "changes?fleet=true",
    ] {
        let said = server.get(&format!("/api/v1/{path}")).problem(400);
        assert!(said.contains("clickhouse.url is not set"), "{path}: {said}");
    }
    let page = server.get("/reports/r?fleet=true");
    assert_eq!(page.status, 400);
    assert_has!(page.body => "clickhouse.url is not set");
}

#[test]
fn bad_parameters_say_what_is_accepted() {
    let server = Server::start();
    let detail = |query: &str| server.get(&format!("/api/v1/reports/r?{query}")).problem(400);
    for (query, parts) in cases![
        "colour=red" => &["colour: unknown parameter",
            "sort, limit, offset, columns, percentiles, format, from, to, tz, compare, fleet, dc, collector, script_name, status, tag_limit"][..];
        "req_count=1" => &["req_count: is not a key column", "script_name, status"];
        "sort=nothing" =>
            &["sort: there is no column \"nothing\"", "script_name, status, tag_limit, req_count", "p99_9"];
        "sort=-" => &["sort:", "names with commas"];
        "sort=" => &["sort:"];
        "sort=req_count,-req_count" => &["sort: column \"req_count\" is given more than once"];
        "columns=req_count,x" => &["columns: there is no column \"x\""];
        "columns=req_time_p95" => &["no column \"req_time_p95\"; did you mean \"p95\"?"];
        "columns=p101" => &["there is no column \"p101\"", "at most 100, as p95 or p99_9"];
        "columns=," => &["columns:"];
        "columns=p95,p95" => &["columns: column \"p95\" is given more than once"];
        "limit=ten" => &["limit: \"ten\"", "whole number from 0"];
        "limit=-1" => &["limit:"];
        "limit=" => &["limit:"];
        "offset=1.5" => &["offset:"];
        "limit=1&limit=2" => &["limit: is given more than once"];
        "status=ok" => &["status: \"ok\"", "whole number"];
        "format=xml" => &["format: \"xml\"", "json, ndjson, csv"];
        "script_name=%ff" => &["not text"];
    ] {
        let detail = detail(query);
        for part in parts {
            assert!(detail.contains(part), "{query}: {detail}");
        }
    }
}

#[test]
fn formats() {
    let server = Server::start();
    let query =
        "/api/v1/reports/r?columns=script_name,status,p99_9,req_time_total&offset=298&sort=status";
    let csv = server.get(&format!("{query}&format=csv"));
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
    assert_eq!(csv.header("x-pinbad-total-rows"), Some("300"));
    assert_eq!(csv.header("x-pinbad-covered-seconds"), Some("17"));
    assert_eq!(csv.header("x-pinbad-as-of"), Some("1700000000.25"));
    let lines: Vec<&str> = csv.body.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 3, "{}", csv.body);
    assert_eq!(lines[0], "script_name,status,p99_9,req_time_total");
    assert!(lines[2].starts_with("(other),,"), "{}", csv.body);

    let ndjson = server.get(&format!("{query}&format=ndjson"));
    assert_eq!(ndjson.header("content-type"), Some("application/x-ndjson"));
    let rows: Vec<Json> =
        ndjson.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows, *server.get(query).json()["rows"].as_array().unwrap());

    let by_accept = server.ask("GET", query, &[("accept", "text/csv")], None);
    assert_eq!(by_accept.body, csv.body);
    assert_eq!(by_accept.header("vary"), Some("accept"));
    let asked = format!("{query}&format=json");
    assert_eq!(server.ask("GET", &asked, &[("accept", "text/csv")], None).json()["report"], "r");
    let detail = server.ask("GET", query, &[("accept", "image/png")], None).problem(406);
    assert!(detail.contains("text/csv"), "{detail}");
}

#[test]
fn a_large_answer_is_the_same_in_pieces() {
    let server = Server::of(20_000);
    let reply = server.get("/api/v1/reports/r?limit=0&sort=script_name");
    assert_eq!(reply.header("transfer-encoding"), Some("chunked"), "{:?}", reply.headers);
    assert!(reply.body.len() > 4_000_000);
    let scripts = names(&reply, "script_name");
    assert_eq!(scripts.len(), 20_000);
    assert!(scripts.is_sorted_by_key(|script| script.as_str().unwrap().to_owned()));
    let csv = server.get("/api/v1/reports/r?limit=0&sort=script_name&format=csv");
    assert_eq!(csv.body.lines().count(), 20_001);
}

#[test]
fn unknown_and_failing_reports() {
    let server = Server::start();
    let detail = server.get("/api/v1/reports/nope?limit=1").problem(404);
    assert_has!(detail => "\"nope\"", "GET /api/v1/reports");
    server.clock.panics.store(true, Ordering::SeqCst);
    let detail = server.get("/api/v1/reports/r").problem(500);
    server.clock.panics.store(false, Ordering::SeqCst);
    assert!(!detail.contains("as the test wants it"), "{detail}");
    assert_eq!(server.get("/api/v1/reports/a%20b%2Fc%3F").json()["report"], "a b/c?");
    server.get("/api/v1/reports/%ff").problem(400);
}

#[test]
fn the_list_has_everything_about_a_report() {
    let server = Server::start();
    let body = server.get("/api/v1/reports").json();
    let report = &body["reports"][0];
    let members: Vec<&String> = report.as_object().unwrap().keys().collect();
    let expected = [
        "name",
        "kind",
        "comment",
        "keys",
        "window_seconds",
        "rows",
        "columns",
        "definition",
        "defined",
        "persistent",
        "complete",
    ];
    assert_eq!(members, expected);
    assert_eq!(
        report["columns"][0],
        json!({"name": "script_name", "type": "varchar(512)", "unit": "none"})
    );
    assert_members!(report => {"window_seconds": 900, "defined": "built-in"});
    assert_has!(server.get("/api/v1/reports?x=1").problem(400) => "none here");
}

#[test]
fn reports_are_made_and_dropped() {
    let server = Server::start();
    let reply = server.post("/api/v1/reports", r#"{"name":"a.b","comment":"tag_info:group"}"#);
    assert_eq!(reply.status, 201);
    assert_eq!(reply.header("location"), Some("/api/v1/reports/a.b"));
    assert_eq!(reply.json()["name"], "a.b");
    assert_eq!(reply.json()["persistent"], false);
    let listed = server.get("/api/v1/reports").json();
    let mut reports = listed["reports"].as_array().unwrap().iter();
    let made = reports.find(|report| report["name"] == "a.b").unwrap();
    assert_eq!(made["comment"], "tag_info:group");

    for name in ["r", "request", "coverage"] {
        let form = format!(r#"{{"name":"{name}","comment":"report9"}}"#);
        assert_has!(server.post("/api/v1/reports", &form).problem(409) => "built-in");
    }
    let bad = server.post("/api/v1/reports", r#"{"name":"x","comment":"tag_info:"}"#);
    assert!(bad.problem(400).starts_with("comment: COMMENT 'tag_info:'"));
    assert_has!(bad.body => r#""parameter":"comment""#);
    for (member, value) in [("level", r#""row""#), ("keys", "7"), ("lvel", r#""timer""#)] {
        let form = format!(r#"{{"name":"x","{member}":{value}}}"#);
        let bad = server.post("/api/v1/reports", &form);
        let said = bad.problem(400);
        assert!(said.starts_with(&format!("{member}: ")), "{said}");
        assert_has!(bad.body => format!(r#""parameter":"{member}""#));
    }
    for body in ["", "[]", "\"x\"", "{", "{}", r#"{"name":""}"#, r#"{"name":7}"#] {
        server.post("/api/v1/reports", body).problem(400);
    }

    let mine = r#"{"name":"mine","comment":"tag_info:group"}"#;
    assert_eq!(server.post("/api/v1/reports", mine).status, 201);
    let dropped = server.delete("/api/v1/reports/mine");
    assert_eq!(
        (dropped.status, dropped.json()),
        (200, json!({"dropped": "mine", "persistent": false}))
    );
    assert_has!(server.delete("/api/v1/reports/r").problem(409) => "it is built in");
    server.delete("/api/v1/reports/nope").problem(404);
    server.delete("/api/v1/reports/mine?now=1").problem(400);
}

#[test]
fn the_small_endpoints() {
    let server = Server::start();
    let info = server.get("/api/v1/info").json();
    assert_eq!(info["req_count"], 300);
    let status = server.get("/api/v1/status").json();
    assert!(status["datagrams_invalid"].is_object(), "{status}");
    assert_eq!(server.get("/healthz").json(), json!({"status": "ok"}));
    assert_eq!(server.get("/readyz").json(), json!({"status": "ready"}));
    server.clock.clock.advance_ms(10_000);
    let detail = server.get("/readyz").problem(503);
    assert_has!(detail => "the merger has not run for 10 s");
    assert_eq!(server.requests(), 300);
    assert_eq!(server.post("/api/v1/reset", "").json(), json!({"reset": true}));
    assert_eq!(server.post("/api/v1/reset", "{}").status, 200);
    server.post("/api/v1/reset", r#"{"what":"all"}"#).problem(400);
    assert_eq!(server.requests(), 0);
    for path in ["info", "status", "openapi.json"] {
        server.get(&format!("/api/v1/{path}?limit=1")).problem(400);
    }
    let page = server.get("/");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_has!(page.header("content-security-policy").unwrap() => "style-src");
    assert_eq!(page.status, 200, "{}", page.body);
    let page = server.get("/reports").body;
    assert!(page.contains("href=\"/reports/a%20b%2Fc%3F\""), "{page}");
    assert_has!(page => ">script_name, status, tag_limit</td>");
}
