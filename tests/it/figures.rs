//! Figures that must not contradict each other: the same question by other ways, and with other
//! parameters.

use serde_json::Value as Json;

use crate::harness::{Here, START_SECS, Site, await_condition};
use crate::packets::request;

const REPORTS: &str = r#"report=[{name = "groups", comment = "tag_info:group::95"}, {name = "v2", comment = "v2/request/60/~script/hv=0:1000:1000,p95/no_filters"}, {name = "own", level = "request", keys = ["script_name"], percentiles = [50]}]"#;

/// One request for each time, milliseconds, all of one script.
fn send(here: &Here, times_ms: &[u32]) {
    here.site.send(times_ms.iter().map(|ms| {
        let mut packet = request("h", "s", "/a");
        packet.request_time = Some(*ms as f32 / 1e3);
        packet
    }));
}

/// The first row of a report.
fn row(site: &Site, report: &str, query: &str) -> serde_json::Map<String, Json> {
    let answer = site.json(&format!("/api/v1/reports/{report}?{query}"));
    let row = answer["rows"].as_array().and_then(|rows| rows.first());
    let row = row.and_then(Json::as_object);
    row.unwrap_or_else(|| panic!("{answer}")).clone()
}

#[test]
fn a_parameter_adds_columns_and_changes_none() {
    let (here, _clock) = Here::with_manual_clock(&[REPORTS]);
    send(&here, &[1, 2, 4, 8, 256]);
    for report in ["info", "report_by_script_name", "groups", "v2", "own"] {
        let own = row(&here.site, report, "");
        let more = row(&here.site, report, "percentiles=50,95,99.9");
        assert!(own.len() < more.len(), "{report}");
        for (own, more) in own.iter().zip(&more) {
            assert_eq!(own, more, "{report}");
        }
        for name in ["p50", "p95", "p99_9"] {
            assert!(more[name].is_number(), "{report}: {more:?}");
        }
        // Units do not change within a row.
        if report == "report_by_script_name" {
            let number = |name: &str| more[name].as_f64().unwrap();
            let [total, rate] = ["memory_footprint_total", "memory_footprint_per_sec"].map(number);
            assert_eq!(total, 5.0 * 4096.0 / 1024.0);
            assert_eq!(rate, total, "{more:?}");
            assert_eq!(number("error_count"), 0.0);
        }
    }
    let problem = here.site.get("/api/v1/reports/status?percentiles=50");
    let said = problem.problem(400);
    assert!(said.contains("has none to add"), "{said}");
    here.stop();
}

#[test]
fn a_percentile_is_the_same_on_pages_and_in_charts() {
    let (here, clock) = Here::with_manual_clock(&[REPORTS]);
    // And of one request the median, and the time of all together.
    for (times_ms, shown, cells) in [(&[1, 2, 4, 8, 256][..], 0.256, 2), (&[250], 0.25, 4)] {
        here.site.post("/api/v1/reset", "{}");
        send(&here, times_ms);
        let from = clock_secs(&clock);
        clock.advance_ms(1000);
        for report in ["report_by_script_name", "own"] {
            let of_report = row(&here.site, report, "percentiles=95,99");
            for metric in ["p95", "p99"] {
                assert_eq!(of_report[metric].as_f64(), Some(shown), "{of_report:?}");
            }
        }
        let report = "report_by_script_name";
        for metric in ["p95", "p99"] {
            let target = format!(
                "/api/v1/reports/{report}/series?script_name=/a&metric={metric}&from={from}&to={}",
                from + 1
            );
            await_condition("the chart has that second", || {
                let reply = here.site.get(&target);
                if reply.status != 200 {
                    return Err(reply.body);
                }
                match reply.json()["points"][0].as_f64() {
                    Some(point) if point == shown => Ok(()),
                    _ => Err(reply.body),
                }
            });
        }
        // An address of its own: pages are shared for a second.
        let page = here.site.get(&format!("/reports/{report}?limit={}", 20 * cells));
        let shown = format!(">{} ms</td>", shown * 1e3);
        assert_eq!(page.body.matches(&shown).count(), cells, "{page:?}");
    }
    // Pinba's own tables keep its rule.
    here.site.post("/api/v1/reset", "{}");
    send(&here, &[1, 2, 4, 8, 256]);
    let own = row(&here.site, "report_by_script_name", "");
    let median = own["req_time_median"].as_f64().unwrap();
    assert!((median - 0.002).abs() < 0.000_1, "{own:?}");
    here.stop();
}

fn clock_secs(clock: &pinbad::clock::ManualClock) -> u64 {
    use pinbad::clock::Clock as _;
    let now = clock.unix_ms() / 1_000;
    assert!(now >= START_SECS);
    now
}

#[cfg(feature = "sql")]
mod of_the_past {
    use pinbad::clock::{Clock as _, ManualClock};

    use super::{Json, START_SECS, row, send};
    use crate::harness::{Here, await_condition, pass};

    /// Sends a request a second for so many seconds.
    fn go_on(here: &Here, clock: &ManualClock, secs: u64) {
        for _ in 0..secs {
            send(here, &[100]);
            pass(&here.site, clock, 1_000);
        }
    }

    #[test]
    fn what_is_compared_does_not_overlap_and_half_a_sum_is_not_compared() {
        let (here, clock, _dir) = Here::with_own_history(START_SECS / 60 * 60, &[]);
        // Five minutes and a half: of the four minutes before the last four only one and a half
        // were counted.
        clock.advance_ms(1_000);
        go_on(&here, &clock, 20);
        for _ in 0..31 {
            pass(&here.site, &clock, 10_000);
        }
        go_on(&here, &clock, 10);
        let now = clock.unix_ms() / 1_000;
        let asked = format!("/api/v1/reports/info?from={}&to={now}&compare=-3m", now - 180);
        let answer = await_condition("the last second is counted", || {
            let answer = here.site.json(&asked);
            match answer["rows"][0]["req_count"].as_u64() {
                Some(10) => Ok(answer),
                _ => Err(answer),
            }
        });
        let member = |name: &str| answer[name].as_u64().unwrap();
        let (from, to) = (member("from"), member("to"));
        let (from_before, to_before) = (member("compare_from"), member("compare_to"));
        assert_eq!(to - from, 240, "{answer}");
        assert_eq!(to_before, from, "{answer}");
        assert_eq!(to_before - from_before, to - from, "{answer}");
        let row = &answer["rows"][0];
        assert_eq!(row["req_count_before"], 20, "{answer}");
        for sum in ["req_count_change", "time_total_change"] {
            assert_eq!(row[sum], Json::Null, "{answer}");
        }
        assert!(row["req_time_median_change"].is_number(), "{answer}");
        let partial = answer["partial"].to_string();
        assert!(partial.contains("not counted for equally long"), "{answer}");
        here.stop();
    }

    #[test]
    fn parameters_change_nothing_of_the_past_either() {
        let (here, clock, _dir) = Here::with_own_history(START_SECS, &[]);
        send(&here, &[1, 2, 4, 8, 256]);
        pass(&here.site, &clock, 2_000);
        let now = clock.unix_ms() / 1_000;
        let span = format!("from={START_SECS}&to={now}");
        await_condition("they are counted", || {
            let answer = here.site.json(&format!("/api/v1/info?{span}"));
            match answer["req_count"].as_u64() {
                Some(5) => Ok(()),
                _ => Err(answer),
            }
        });
        let own = row(&here.site, "report_by_script_name", &span);
        let more = format!("{span}&percentiles=50,95");
        let more = row(&here.site, "report_by_script_name", &more);
        for (own, more) in own.iter().zip(&more) {
            assert_eq!(own, more);
        }
        assert_eq!(more["p95"].as_f64(), Some(0.256));
        let series = format!(
            "/api/v1/reports/report_by_script_name/series?script_name=/a&metric=p95&step=60&{span}"
        );
        let points = here.site.json(&series);
        let mut known = points["points"].as_array().unwrap().iter();
        assert!(known.any(|point| point.as_f64() == Some(0.256)), "{points}");
        here.stop();
    }

    #[test]
    fn arrow_has_the_rows_that_json_has() {
        use datafusion::arrow::array::AsArray as _;
        use datafusion::arrow::datatypes::{Float64Type, Int64Type};
        use datafusion::arrow::ipc::reader::StreamReader;

        let (here, _clock) = crate::harness::Here::with_manual_clock(&[super::REPORTS]);
        send(&here, &[1, 2, 4, 8, 256]);
        let query = "columns=script_name,req_count,req_time_total,p95";
        let json = row(&here.site, "report_by_script_name", query);
        let target = format!("/api/v1/reports/report_by_script_name?{query}&format=arrow");
        let stream = here.site.bytes(&target);
        let reader = StreamReader::try_new(stream.as_slice(), None).unwrap();
        let batches: Vec<_> = reader.map(Result::unwrap).collect();
        assert_eq!(batches.len(), 1);
        let columns = batches[0].columns();
        assert_eq!(columns[0].as_string::<i32>().value(0), json["script_name"]);
        assert_eq!(columns[1].as_primitive::<Int64Type>().value(0), json["req_count"]);
        for (at, name) in [(2, "req_time_total"), (3, "p95")] {
            let number = columns[at].as_primitive::<Float64Type>().value(0);
            assert_eq!(Some(number), json[name].as_f64(), "{name}");
        }
        here.stop();
    }

    #[test]
    fn sql_has_percentiles_by_name_and_not_in_a_star() {
        let (here, _clock) = crate::harness::Here::with_manual_clock(&[super::REPORTS]);
        send(&here, &[1, 2, 4, 8, 256]);
        let ask = |query: &str| {
            let body = serde_json::json!({"query": query}).to_string();
            here.site.post("/api/v1/sql", &body).json()
        };
        let names = |answer: &Json| -> Vec<String> {
            let columns = answer["columns"].as_array().unwrap().iter();
            columns.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
        };
        let answer =
            ask("SELECT script_name, P95, r.p50 FROM report_by_script_name r ORDER BY p99");
        assert_eq!(names(&answer), ["script_name", "P95", "p50"]);
        assert_eq!(answer["rows"], serde_json::json!([["/a", 0.256, 0.004_015]]));
        let star = names(&ask("SELECT * FROM report_by_script_name"));
        assert!(!star.contains(&"p95".to_owned()), "{star:?}");
        // Beside a star, and in the order of one that is not shown.
        let both = names(&ask("SELECT *, p95 FROM report_by_script_name"));
        assert_eq!(both[..star.len()], star);
        assert_eq!(both[star.len()..], ["p95"]);
        let joined = "SELECT a.*, b.p99 FROM report_by_script_name a JOIN own b ON a.script_name = b.script_name";
        let joined = names(&ask(joined));
        assert_eq!(joined[..star.len()], star);
        assert_eq!(joined[star.len()..], ["p99"]);
        let ordered = names(&ask("SELECT * FROM report_by_script_name WHERE p50 > 0 ORDER BY p95"));
        assert_eq!(ordered, star);
        // One that a report has itself is its own: here by Pinba's rule.
        let own = ask("SELECT p95, p99 FROM `groups` WHERE tag_value = 'db'");
        assert_eq!(own["rows"].as_array().map(Vec::len), Some(1), "{own}");
        // Errors are there by their name too.
        let errors = ask("SELECT MAX(r.error_count) AS e FROM report_by_script_name r");
        assert!(errors["rows"][0][0].is_number(), "{errors}");
        let both = names(&ask("SELECT *, error_count, p95 FROM report_by_script_name"));
        assert_eq!(both[..star.len()], star);
        assert_eq!(both[star.len()..], ["error_count", "p95"]);
        let named = "/api/v1/reports/report_by_script_name?columns=script_name,error_count";
        let row = &here.site.json(named)["rows"][0];
        assert!(row["error_count"].is_number() && row["p95"].is_null(), "{row}");
        let in_part = "SELECT q.p95 FROM (SELECT p95 FROM report_by_script_name) q";
        assert_eq!(ask(in_part)["rows"], serde_json::json!([[0.256]]));
        // Any there is, by the name of its column or as one writes the number.
        let any = "SELECT r.`p99.9`, p20, p75 FROM report_by_script_name r ORDER BY p12_5";
        let answer = ask(any);
        let secs: Vec<f64> =
            answer["rows"][0].as_array().unwrap().iter().filter_map(Json::as_f64).collect();
        assert!(secs[1] < 0.001_1 && (0.007_8..0.008_2).contains(&secs[2]), "{answer}");
        assert_eq!(secs[0], 0.256, "{answer}");
        let answer = ask("SELECT P99_9, r.* FROM report_by_script_name r");
        assert_eq!(names(&answer)[..2], ["P99_9".to_owned(), star[0].clone()]);
        assert_eq!(answer["rows"][0][0], 0.256);
        // What there is not is said, with what was meant.
        let refused = |query: &str| {
            let body = serde_json::json!({"query": query}).to_string();
            here.site.post("/api/v1/sql", &body).problem(400)
        };
        for (query, meant) in cases![
            "SELECT req_cuont FROM report_by_script_name" => "did you mean \"req_count\"?";
            "SELECT * FROM report_by_script_nam" => "did you mean \"report_by_script_name\"?";
            "SELECT * FROM nodb.request" => "doesn't exist; there are the databases ";
            "SELECT COUTN(req_time) FROM request" => "FUNCTION pinba.coutn does not exist; did you mean \"count\"?";
            "SELECT COUTN(*) FROM request" => "only COUNT takes * as its argument; did you mean \"count\"?";
            "SELECT p95 FROM request" => "Unknown column 'p95'; reports of database pinba have it";
            "SELECT p99_9 FROM request" => "there is percentile(req_time, 99.9) over pinba.request";
            "SELECT p101 FROM report_by_script_name" => "above 0 and at most 100, as p95 or p99_9";
            "SELECT NOW() - INTERVAL 15 min" => "units are MICROSECOND, SECOND, MINUTE, HOUR,";
            "SELECT NOW() - INTERVAL 15 MINUTES" => "units are MICROSECOND, SECOND, MINUTE, HOUR,";
            "SELECT MD5(1)" => "pinbad does not support the function md5()";
            "SELECT req_count FROM info LIMIT 'x'" => "LIMIT takes a number, not the text 'x'";
            "SELECT 1 FROM" => "Expected: ";
            "selct 1" => "near 'selct 1'; did you mean \"SELECT\"?";
            "SELECT * FORM info" => "near 'FORM info'; did you mean \"FROM\"?";
        ] {
            let said = refused(query);
            assert!(said.contains(meant), "{query}: {said}");
            assert!(!said.contains("sql parser"), "{query}: {said}");
        }
        for (target, meant) in [
            ("report_by_script_name?colums=p95", "columns"),
            ("report_by_script_name?script_nam=/a", "script_name"),
        ] {
            let said = here.site.get(&format!("/api/v1/reports/{target}"));
            let meant = format!("unknown parameter; did you mean {meant:?}? accepted: ");
            let said = said.problem(400);
            assert!(said.contains(&meant), "{target}: {said}");
        }
        let form = r#"{"name": "x", "lvel": "timer"}"#;
        let said = here.site.post("/api/v1/reports", form).problem(400);
        assert_has!(said => "lvel: is unknown; did you mean \"level\"? accepted: ");
        for (target, meant) in [
            ("/api/v1/report", "/api/v1/reports"),
            ("/api/v1/reports/report_by_scrpt", "report_by_script_name"),
            ("/api/v1/reports/report_by_scirpt_name", "report_by_script_name"),
            ("/api/v1/reports/report_by_scirpt_name/series", "report_by_script_name"),
        ] {
            let said = here.site.get(target).problem(404);
            let meant = format!("did you mean {meant:?}?");
            assert!(said.contains(&meant), "{target}: {said}");
        }
        for wrong in ["columns=req_cuont", "sort=-req_cnt"] {
            let said = here.site.get(&format!("/api/v1/reports/info?{wrong}")).problem(400);
            assert!(said.contains("did you mean \"req_count\"?"), "{said}");
        }
        // A table whose columns are not those of the report.
        let create = "CREATE TABLE mine (script_name varchar(64), requests int, KEY (script_name)) ENGINE=PINBA COMMENT='report1'";
        let made = ask(create);
        let info = made["info"].as_str().unwrap();
        assert_has!(info => "'mine' has no requests; it has req_count, "; "{made}");
        let made = ask(
            "CREATE TABLE fine (`script_name` varchar(64), PRIMARY KEY (x)) ENGINE=PINBA COMMENT='report1'",
        );
        assert_eq!(made["info"], "", "{made}");
        here.stop();
    }
}

#[test]
fn a_page_that_is_not_there_leads_to_pages() {
    let (here, _clock) = Here::with_manual_clock(&[]);
    // One without what it is about says so in a sentence.
    let squid = here.site.get("/squid").body;
    assert_has!(squid => "Squid's log is not read: the configuration has no");
    assert!(!squid.contains("class=\"panel"), "{squid}");
    let browser = |target: &str| {
        let address = format!("http://{}{target}", here.site.http);
        let said = crate::harness::run(std::process::Command::new("curl").args([
            "--silent",
            "--header",
            "accept: text/html",
            "--write-out",
            "%{http_code}",
            &address,
        ]));
        said.out
    };
    let page = browser("/requets");
    assert!(page.ends_with("404"), "{page}");
    assert_has!(page => "<a href=\"/requests\">Did you mean /requests?</a>");
    assert!(page.contains("<a href=\"/reports\">Reports</a>"), "{page}");
    let page = browser("/reports/report_by_scirpt_name");
    assert_has!(page => "did you mean &quot;report_by_script_name&quot;?");
    assert!(!page.contains("GET /api"), "{page}");
    let page = browser("/reports/report_by_script_name?sort=-req_cuont");
    assert_has!(page => "there is no column &quot;req_cuont&quot;; did you mean &quot;req_count&quot;? accepted: ");
    let said = here.site.get("/api/v1/reports/report_by_scrip").problem(404);
    assert!(
        said.ends_with(
            "did you mean \"report_by_script_name\"? GET /api/v1/reports lists those that there are"
        ),
        "{said}"
    );
    // Programs are told as before.
    let said = here.site.get("/requets").problem(404);
    assert!(said.contains("openapi.json"), "{said}");
    here.stop();
}
