//! Every address and parameter of HTTP, asked over packets of real PHP that came by UDP.

mod making;

use serde_json::{Value as Json, json};

use crate::harness::{Here, START_SECS, Sender, talk};
use crate::packets::{corpus, corpus_names, request};
use crate::reports::REPORTS;

/// The columns of table `request`, in Pinba's order.
const REQUEST: [&str; 17] = [
    "id",
    "hostname",
    "req_count",
    "server_name",
    "script_name",
    "doc_size",
    "mem_peak_usage",
    "req_time",
    "ru_utime",
    "ru_stime",
    "timers_cnt",
    "status",
    "memory_footprint",
    "schema",
    "tags_cnt",
    "tags",
    "timestamp",
];

/// A daemon that got the packets of real PHP and the vector of the specification, in the order of
/// their names. Its clock stands still.
fn with_php() -> Here {
    let (here, _clock) =
        Here::with_manual_clock(&[r#"report=[{name = "configured", comment = "tag_info:group"}]"#]);
    let mut sender = Sender::new(&here.site);
    for name in corpus_names() {
        if name.starts_with("php-") || name == "spec-vector" {
            sender.send(&corpus(&name));
        }
    }
    sender.at_rest();
    here
}

fn keys(object: &Json) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

fn column<'a>(rows: &'a [Json], name: &str) -> Vec<&'a Json> {
    rows.iter().map(|row| &row[name]).collect()
}

fn ids(page: &Json) -> Vec<u64> {
    let rows = page["rows"].as_array().unwrap();
    rows.iter().map(|row| row["id"].as_u64().unwrap()).collect()
}

#[test]
fn the_list_of_reports_describes_what_reading_them_gives() {
    let here = with_php();
    let list = here.site.json("/api/v1/reports");
    let list = list["reports"].as_array().unwrap();
    let names = column(list, "name");
    for (name, _, _) in REPORTS {
        assert!(names.contains(&&json!(name)), "{name}");
    }
    assert!(names.contains(&&json!("info")) && names.contains(&&json!("configured")));
    for report in list {
        let name = report["name"].as_str().unwrap();
        for member in "kind comment keys window_seconds rows columns".split(' ') {
            assert!(report.get(member).is_some(), "{member} of {name}");
        }
        let columns = report["columns"].as_array().unwrap();
        let read = here.site.json(&format!("/api/v1/reports/{name}?limit=0"));
        let members =
            ["report", "window_seconds", "covered_seconds", "as_of", "total_rows", "rows"];
        let mut given = keys(&read);
        // Their timers have more tags than that table shows.
        given.retain(|it| name != "many_calls" || *it != "partial");
        assert_eq!(given, members, "{name}");
        let rows = read["rows"].as_array().unwrap();
        assert_eq!(read["total_rows"].as_u64(), Some(rows.len() as u64), "{name}");
        for row in rows {
            assert_eq!(column(columns, "name"), keys(row), "{name}");
            for column in columns {
                let value = &row[column["name"].as_str().unwrap()];
                let fits = match column["type"].as_str().unwrap() {
                    "int" | "bigint" => value.is_null() || value.is_i64() || value.is_u64(),
                    "float" | "double" => value.is_null() || value.is_number(),
                    _ => value.is_null() || value.is_string(),
                };
                assert!(fits, "{name}: {column} is {value}");
            }
        }
    }
    here.stop();
}

#[test]
fn reports_are_sorted_cut_filtered_and_written_as_asked() {
    let here = with_php();
    let site = &here.site;
    let read = |query: &str| {
        let answer = site.json(&format!("/api/v1/reports/report_by_script_name?{query}"));
        let rows = answer["rows"].as_array().unwrap().clone();
        (answer["total_rows"].as_u64().unwrap(), rows)
    };
    let (total, all) = read("limit=0");
    assert!(total > 8 && all.len() as u64 == total);

    let (_, rows) = read("sort=-req_count,script_name&limit=0");
    let shown: Vec<_> = rows
        .iter()
        .map(|row| (std::cmp::Reverse(row["req_count"].as_u64()), row["script_name"].as_str()))
        .collect();
    assert!(shown.is_sorted(), "{shown:?}");
    assert_members!(rows[0] => {"script_name": "/index.php", "req_count": 3});
    let (_, rows) = read("sort=req_time_total&limit=0");
    assert!(column(&rows, "req_time_total").is_sorted_by_key(|time| time.as_f64().unwrap()));

    // Pages put together are the whole.
    let mut pages = Vec::new();
    for offset in (0..total).step_by(3) {
        let (whole, rows) = read(&format!("sort=script_name&limit=3&offset={offset}"));
        assert_eq!(whole, total);
        pages.extend(rows);
    }
    assert_eq!(pages, read("sort=script_name&limit=0").1);
    assert!(read(&format!("offset={total}")).1.is_empty());

    let (_, rows) = read("columns=script_name,req_count&sort=script_name");
    assert!(rows.iter().all(|row| keys(row) == ["script_name", "req_count"]), "{rows:?}");

    let (found, rows) = read("script_name=/missing.php");
    assert_eq!((found, rows.len()), (1, 1));
    assert_eq!(rows[0]["script_name"], "/missing.php");
    assert_eq!(read("script_name=/nothing").0, 0);
    // A text that is not plain: percent-encoded UTF-8 with quotes and a backslash.
    let odd = "/%D0%BA%D0%B0%D1%82%D0%B0%D0%BB%D0%BE%D0%B3/%D1%82%D0%BE%D0%B2%D0%B0%D1%80%3Fid%3D1%26q%3D%22quoted%22%27%5C";
    assert_eq!(
        read(&format!("script_name={odd}")).1[0]["script_name"],
        "/каталог/товар?id=1&q=\"quoted\"'\\"
    );
    let by_status = site.json("/api/v1/reports/report_by_script_and_status?status=404");
    assert_eq!(by_status["total_rows"], 1);
    assert_eq!(by_status["rows"][0]["index_value"], "404:/missing.php");
    here.stop();
}

#[test]
fn rows_come_as_json_lines_and_csv_too() {
    let here = with_php();
    let site = &here.site;
    let path = "/api/v1/reports/report_by_script_name?sort=script_name&limit=0";
    let rows = site.json(path)["rows"].as_array().unwrap().clone();
    let lines = site.get(&format!("{path}&format=ndjson"));
    assert_eq!(lines.content_type, "application/x-ndjson");
    let parsed: Vec<Json> =
        lines.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(parsed, rows);
    let csv = site.get(&format!("{path}&format=csv&columns=script_name,req_count"));
    assert!(csv.content_type.starts_with("text/csv"), "{csv:?}");
    let mut lines = csv.body.lines();
    assert_eq!(lines.next(), Some("script_name,req_count"));
    assert_eq!(lines.clone().count(), rows.len());
    // Commas and quotes are quoted as RFC 4180 says.
    let odd = r#""/каталог/товар?id=1&q=""quoted""'\",1"#;
    assert!(lines.any(|line| line == odd), "{}", csv.body);
    let requests = site.get("/api/v1/requests?limit=2&format=csv");
    assert_eq!(requests.body.lines().next(), Some(&*REQUEST.join(",")));
    assert_eq!(requests.body.lines().count(), 3);
    let requests = site.get("/api/v1/requests?limit=2&format=ndjson");
    assert_eq!(requests.body.lines().count(), 2);
    here.stop();
}

#[test]
fn requests_come_newest_first_page_by_page_and_as_searched() {
    let here = with_php();
    let site = &here.site;
    let all = site.json("/api/v1/requests?limit=0");
    let every = ids(&all);
    assert_eq!(every.len(), 17);
    assert!(every.is_sorted_by(|newer, older| newer > older), "{every:?}");
    assert_eq!(all["next_before_id"], Json::Null);
    for row in all["rows"].as_array().unwrap() {
        assert_eq!(keys(row), REQUEST);
        assert_eq!(row["timestamp"], START_SECS);
    }
    let mut paged = Vec::new();
    let mut next = String::new();
    loop {
        let page = site.json(&format!("/api/v1/requests?limit=5{next}"));
        paged.extend(ids(&page));
        match page["next_before_id"].as_u64() {
            Some(id) => next = format!("&before_id={id}"),
            None => break,
        }
        assert!(paged.len() <= 17, "{paged:?}");
    }
    assert_eq!(paged, every);

    let count = |query: &str| ids(&site.json(&format!("/api/v1/requests?limit=0&{query}"))).len();
    // The vector of the specification took 0.25 s, both bounds belong to the range; one other took
    // 12.5 s.
    assert_eq!(count("min_time=0.25&max_time=0.25"), 1);
    assert_eq!(count("min_time=0.25"), 2);
    assert_eq!(count("min_time=0.250001"), 1);
    assert_eq!(count("max_time=0.249999"), 15);
    assert_eq!(count("min_time=12.500001"), 0);
    assert_eq!(count(&format!("since={START_SECS}&until={START_SECS}")), 17);
    assert_eq!(count(&format!("since={}", START_SECS + 1)), 0);
    assert_eq!(count(&format!("until={}", START_SECS - 1)), 0);
    assert_eq!(count("status=404"), 1);
    assert_eq!(count("script_name=/index.php"), 3);
    assert_eq!(count("hostname=h1&server_name=s1&schema=http"), 1);
    assert_eq!(count("schema="), 13);
    assert_eq!(count("timers_cnt=200"), 1);
    assert_eq!(count("tag.env=prod"), 1);
    assert_eq!(count("tag.page=home"), 3);
    assert_eq!(count("tag.page=home&script_name=/missing.php"), 0);
    assert_eq!(count("tag.app=shop&tag.browser=chrome"), 1);
    here.stop();
}

#[test]
fn one_request_comes_with_its_tags_and_timers() {
    let here = with_php();
    let site = &here.site;
    let id = ids(&site.json("/api/v1/requests?hostname=h1"))[0];
    let request = site.json(&format!("/api/v1/requests/{id}"));
    let timer_id = request["timers"][0]["id"].clone();
    assert_eq!(
        request,
        json!({
            "id": id,
            "hostname": "h1",
            "req_count": 1,
            "server_name": "s1",
            "script_name": "/a",
            "doc_size": 2,
            "mem_peak_usage": 1024,
            "req_time": 0.25,
            "ru_utime": 0.01,
            "ru_stime": 0.002,
            "timers_cnt": 1,
            "status": 200,
            "memory_footprint": 4096,
            "schema": "http",
            "tags_cnt": 1,
            "tags": {"env": "prod"},
            "timestamp": START_SECS,
            "timers": [{
                "id": timer_id,
                "hit_count": 2,
                "value": 0.1,
                "ru_utime": 0.03,
                "ru_stime": 0.01,
                "tags": {"group": "db", "op": "read"},
            }],
        })
    );
    assert_eq!(keys(&request), [&REQUEST[..], &["timers"]].concat());
    // Numbers are shown as they are, not cut: what was sent is what is read.
    let id = ids(&site.json("/api/v1/requests?hostname=cli-host"))[0];
    let request = site.json(&format!("/api/v1/requests/{id}"));
    assert_eq!(request["doc_size"], 120.5625);
    let timers = request["timers"].as_array().unwrap();
    assert_eq!(column(timers, "hit_count"), [7, 3]);
    assert_eq!(column(timers, "value"), [&json!(3.5), &json!(0.25)]);
    // What is not UTF-8 is text nevertheless, and all 200 timers of a heavy page are there in their
    // order.
    let id = ids(&site.json("/api/v1/requests?script_name=/heavy/page"))[0];
    let timers = site.json(&format!("/api/v1/requests/{id}"))["timers"].as_array().unwrap().clone();
    assert_eq!(timers.len(), 200);
    assert!(column(&timers, "id").is_sorted_by_key(|id| id.as_u64()));
    let all = site.json("/api/v1/requests?limit=0").to_string();
    assert!(all.contains(r"значение \\xff\\xfe bytes"), "{all}");
    here.stop();
}

#[test]
fn what_cannot_be_is_a_problem_that_says_what_can() {
    let here = with_php();
    let site = &here.site;
    for (target, status, part) in cases![
        "/api/v1/reports/nothing" => 404, "no report called \"nothing\"";
        "/api/v1/requests/999999" => 404, "999999";
        "/api/v1/requests/abc" => 400, "abc";
        "/api/v1/requests/-1" => 400, "-1";
        "/api/v1/nothing" => 404, "";
        "/api/v1/reports/report_by_status?sort=colour" => 400, "accepted: req_count";
        "/api/v1/reports/report_by_status?columns=colour" => 400, "colour";
        "/api/v1/reports/report_by_status?columns=" => 400, "columns";
        "/api/v1/reports/report_by_status?limit=-1" => 400, "limit";
        "/api/v1/reports/report_by_status?limit=many" => 400, "limit";
        "/api/v1/reports/report_by_status?limit=1&limit=2" => 400, "limit";
        "/api/v1/reports/report_by_status?offset=x" => 400, "offset";
        "/api/v1/reports/report_by_status?format=xml" => 400, "ndjson";
        "/api/v1/reports/report_by_status?colour=red" => 400, "accepted: sort";
        "/api/v1/reports/report_by_status?req_count=1" => 400, "req_count";
        "/api/v1/reports/report_by_status?status=%ff" => 400, "";
        "/api/v1/requests?min_time=soon" => 400, "min_time";
        "/api/v1/requests?limit=100001" => 400, "100000";
        "/api/v1/requests?before_id=x" => 400, "before_id";
        "/api/v1/requests?colour=red" => 400, "colour";
        "/api/v1/status?x=1" => 400, "x";
        "/api/v1/info?x=1" => 400, "x";
        "/api/v1/reports?x=1" => 400, "x";
        "/healthz?x=1" => 400, "x";
    ] {
        let detail = site.get(target).problem(status);
        assert!(detail.contains(part), "{target}: {detail}");
    }
    site.get(&format!("/api/v1/info?{}", "x".repeat(9000))).problem(414);
    for target in ["/api/v1/info", "/api/v1/reports/report1", "/api/v1/requests"] {
        site.ask("PUT", target, Some("{}")).problem(405);
    }
    site.get("/api/v1/reset").problem(405);
    here.stop();
}

#[test]
fn pages_of_other_sites_cannot_ask() {
    let here = with_php();
    let site = &here.site;
    let end = "Connection: close\n\n";
    for (head, answer) in cases![
        "GET /api/v1/info HTTP/1.1\nHost: localhost:1\n" => "200";
        "GET /api/v1/info HTTP/1.1\nHost: evil.example\n" => "421";
        "GET /api/v1/info HTTP/1.1\n" => "400";
        "GET /api/v1/info HTTP/1.1\nHost: localhost\nOrigin: http://evil.example\n" => "403";
        "POST /api/v1/reset HTTP/1.1\nHost: localhost\nContent-Length: 0\n" => "415";
        "POST /api/v1/reset HTTP/1.1\nHost: localhost\nContent-Type: text/plain\nContent-Length: 0\n" =>
            "415";
        "DELETE /api/v1/reports/configured HTTP/1.1\nHost: localhost\n" => "415";
    ] {
        let (said, _) = talk(site.http, &format!("{head}{end}").replace('\n', "\r\n"));
        assert!(said.starts_with(&format!("http/1.1 {answer}")), "{head}: {said}");
    }
    // Nothing was reset.
    assert_eq!(site.json("/api/v1/info")["req_count"], 17);
    here.stop();
}

#[test]
fn it_says_whether_it_works_and_what_can_be_asked() {
    let here = with_php();
    let site = &here.site;
    assert_eq!(site.json("/healthz")["status"], "ok");
    assert_eq!(site.json("/readyz")["status"], "ready");
    let openapi = site.json("/api/v1/openapi.json");
    for path in "/healthz /api/v1/reports/{name} /api/v1/requests/{id} /api/v1/reset".split(' ') {
        assert!(openapi["paths"].get(path).is_some(), "{path}");
    }
    let page = site.get("/");
    assert_eq!(page.status, 200);
    assert!(page.content_type.starts_with("text/html"), "{page:?}");
    let head = site.ask("HEAD", "/api/v1/info", None);
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let status = site.json("/api/v1/status");
    let legacy = [
        "current_temp_pool_size",
        "current_timer_pool_size",
        "lost_tmp_records",
        "invalid_packets",
        "invalid_request_data",
        "build_string",
        "dictionary_size",
    ];
    assert_eq!(keys(&status)[..7], legacy);
    assert!(status["build_string"].as_str().unwrap().starts_with("pinbad "), "{status}");
    here.stop();
}

/// Many ask at once while packets come: every answer is whole, and no packet is lost to them.
#[test]
fn questions_do_not_cost_packets() {
    let here = Here::start(&[]);
    let packets = 20_000;
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut asked = 0_u32;
                    loop {
                        let info = here.site.json("/api/v1/info");
                        let rows = here.site.rows("report_by_script_name");
                        // Reports move on between the two questions, never back.
                        let count = |row: &Json| row["req_count"].as_u64().unwrap();
                        let shown = rows.first().map_or(0, count);
                        assert!(shown >= count(&info), "{info} {rows:?}");
                        let page = here.site.get("/api/v1/requests?limit=50");
                        assert_eq!(page.status, 200, "{page:?}");
                        asked += 1;
                        if shown == packets {
                            return asked;
                        }
                    }
                })
            })
            .collect();
        let status = here.site.send((0..packets).map(|_| request("h", "s", "/x")));
        status.assert_accounted();
        assert_eq!(status.count("requests_merged"), packets);
        assert!(asking.into_iter().all(|thread| thread.join().unwrap() > 0));
    });
    here.stop();
}
