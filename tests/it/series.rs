//! The last hour over HTTP: what is drawn is what was sent, second by second; what is not kept says
//! so; and what it takes of memory stays in its budget under a flood of names.

use serde_json::Value as Json;

use crate::harness::{Here, START_SECS, Sender, await_condition};
use crate::packets::packet;

const GROUPS: &str = r#"report=[{name = "groups", comment = "tag_info:group"}]"#;

/// A line, once it is as long as it must be: the series thread may be a moment behind the clock.
fn line(here: &Here, query: &str, to: u64) -> Json {
    let target = format!("/api/v1/reports/{query}&to={to}");
    await_condition("the seconds are complete", || {
        let reply = here.site.get(&target);
        if reply.status == 404 {
            return Err(reply.body.into());
        }
        let line = reply.json();
        let from = line["from"].as_u64().unwrap();
        let points = line["points"].as_array().unwrap().len() as u64;
        let step = line["step"].as_u64().unwrap();
        if from + points * step >= to { Ok(line) } else { Err(line) }
    })
}

fn points(line: &Json) -> Vec<Option<f64>> {
    let points = line["points"].as_array().unwrap();
    points.iter().map(Json::as_f64).collect()
}

#[test]
fn what_was_sent_is_drawn_second_by_second() {
    let (here, clock) = Here::with_manual_clock(&[GROUPS, "metrics.reports=[]"]);
    let mut sender = Sender::new(&here.site);
    // Second n: n requests of /a, of which one fails in even ones; one slow request of /b in the
    // fourth.
    for second in 1..=6_u64 {
        for n in 0..second {
            let status = if second.is_multiple_of(2) && n == 0 { 500 } else { 200 };
            sender.send(&packet("/a", status, 0.1 * (n + 1) as f32));
        }
        if second == 4 {
            sender.send(&packet("/b", 200, 2.0));
        }
        sender.at_rest();
        clock.advance_ms(1000);
    }
    let (from, end) = (START_SECS, START_SECS + 6);
    let ask = |query: &str| points(&line(&here, &format!("{query}&from={from}"), end));
    let known = |values: &[f64]| -> Vec<Option<f64>> { values.iter().copied().map(Some).collect() };

    let a = "report_by_script_name/series?script_name=/a";
    assert_eq!(ask(&format!("{a}&metric=req_count")), known(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    assert_eq!(
        ask(&format!("{a}&metric=error_percent")),
        known(&[0.0, 50.0, 0.0, 25.0, 0.0, 100.0 / 6.0])
    );
    let whole = "report_by_script_name/series?metric=req_per_sec";
    let all = known(&[1.0, 2.0, 3.0, 5.0, 5.0, 6.0]);
    assert_eq!(ask(whole), all);
    assert_eq!(ask("info/series?metric=req_count"), all);
    let failed = "report_by_status/series?status=500&metric=req_count";
    assert_eq!(ask(failed), known(&[0.0, 1.0, 0.0, 1.0, 0.0, 1.0]));

    // A row of its own only in one second: nothing else is an average of nothing.
    let b = "report_by_script_name/series?script_name=/b&metric=time_avg";
    assert_eq!(ask(b), [None, None, None, Some(2.0), None, None]);

    // Percentiles by the rule of pages, rounded up, whatever the report's own: the sample at that
    // rank, within 0.8 %.
    let p50 = ask("info/series?metric=p50");
    for (point, exact) in p50.iter().zip([0.1, 0.1, 0.2, 0.3, 0.3, 0.3]) {
        assert!((point.unwrap() / exact - 1.0).abs() < 0.008, "{p50:?}");
    }
    let shown = "/api/v1/reports/report_by_script_name?percentiles=50";
    let shown = here.site.json(shown)["rows"].as_array().unwrap().clone();
    let shown = shown.iter().find(|row| row["script_name"] == "/a").unwrap();
    let whole_line =
        line(&here, &format!("{a}&metric=p50&step=3600&from={}", from - from % 3600), end);
    assert_eq!(points(&whole_line).last().copied().flatten(), shown["p50"].as_f64());

    // Timers, by the tag of a report of the configuration.
    let db = "groups/series?group_value=db&metric=hit_count";
    let keys = here.site.json("/api/v1/reports");
    let keys = keys["reports"].as_array().unwrap();
    let keys = &keys.iter().find(|it| it["name"] == "groups").unwrap()["keys"];
    let db = db.replace("group_value", keys[0].as_str().unwrap());
    assert_eq!(ask(&db), known(&[2.0, 4.0, 6.0, 10.0, 10.0, 12.0]));

    // Larger steps add up; the head says what the points are.
    let head = line(&here, &format!("{a}&metric=time_total&step=3&from={from}"), end);
    assert_eq!(
        (&head["report"], &head["key"]["script_name"], &head["unit"]),
        (&"report_by_script_name".into(), &"/a".into(), &"s".into())
    );
    assert_eq!(head["step"], 3);
    let sum: f64 = points(&head).into_iter().flatten().sum();
    assert!((sum - 5.6).abs() < 1e-4, "{head}");
    here.stop();
}

#[test]
fn what_is_not_kept_says_so_and_why() {
    let (here, clock) = Here::with_manual_clock(&["series.reports=report_by_status"]);
    here.site.send([packet("/a", 200, 0.1)]);
    clock.advance_ms(2000);
    let site = &here.site;
    line(&here, "report_by_status/series?status=200&from=1700000000", START_SECS + 2);
    let get = |query: &str| site.get(&format!("/api/v1/reports/{query}"));
    assert!(get("nope/series").problem(404).contains("no report called"));
    let untracked = get("report_by_hostname/series").problem(404);
    assert_has!(untracked => "series.reports does not name it");
    assert!(untracked.contains("report_by_status"), "{untracked}");
    let unknown = get("report_by_status/series?status=404").problem(404);
    assert_has!(unknown => "had no request in the last hour");
    for (query, said) in cases![
        "metric=p101" => "accepted: req_count";
        "metric=p99_9999999" => "; a percentile is above 0 and at most 100, as p95 or p99_9";
        "metric=speed" => "there is no metric";
        "metric=req_cuont" => "did you mean \"req_count\"? accepted: ";
        "limit=5" => "accepted: metric, step, from, to, tz, compare, fleet, dc, collector, status";
        "step=0" => "from 1 to 86400";
        "step=x" => "a whole number";
        "step=15min" => "accepted: a whole number of seconds from 1 to 86400";
        "from=yesterday" => "accepted: unix seconds";
        "from=20&to=10" => "not before to";
        "from=-1h&to=-1h" => "not before to";
        "from=10" => "too many points";
        "status=200&key.status=200" => "more than once";
    ] {
        let problem = get(&format!("report_by_status/series?{query}")).problem(400);
        assert!(problem.contains(said), "{query}: {problem}");
    }
    let day = get("report_by_status/series?step=86400").json();
    assert_eq!(day["step"], 86_400);
    // Tracked for the metrics' sake, and so drawn too.
    let report = "report_by_script_name/series?metric=req_count";
    assert_eq!(site.get(&format!("/api/v1/reports/{report}")).status, 200);
    here.stop();

    let here = Here::start(&["series.memory=0"]);
    let reply = here.site.get("/api/v1/reports/report_by_status/series");
    let problem = reply.problem(404);
    assert!(problem.contains("series.memory is 0"), "{problem}");
    here.stop();
}

#[test]
fn without_raw_rows_there_are_charts_all_the_same() {
    let (here, clock) = Here::with_manual_clock(&["pool.request_pool_size=0"]);
    here.site.send((0..50).map(|_| packet("/a", 200, 0.1)));
    clock.advance_ms(2000);
    let query = "report_by_status/series?status=200&metric=req_count";
    let line = line(&here, &format!("{query}&from={START_SECS}"), START_SECS + 1);
    assert_eq!(points(&line)[0], Some(50.0));
    let series = here.site.json("/api/v1/status")["series"].clone();
    assert_members!(series => {"requests_counted": 50, "requests_missed": 0});
    here.stop();
}

/// From when it is made until it is dropped, by any way of making it, and again after a restart.
#[test]
fn a_report_made_at_run_time_has_charts() {
    let state = tempfile::tempdir().unwrap();
    let dir = format!("state.dir={}", state.path().display());
    let settings = [dir.as_str(), "series.reports=[]"];
    let (here, clock) = Here::with_manual_clock(&settings);
    let mut sender = Sender::new(&here.site);
    let mut send = |requests: usize| {
        for _ in 0..requests {
            sender.send(&packet("/a", 200, 0.1));
        }
        sender.at_rest();
    };
    send(5);
    clock.advance_ms(1000);
    send(6);
    let own = r#"{"name": "own", "level": "timer", "keys": ["@group"]}"#;
    let reply = here.site.post("/api/v1/reports", own);
    assert_eq!(reply.status, 201, "{}", reply.body);
    let ask = |query: &str, seconds: u64| {
        let to = START_SECS + seconds;
        points(&line(&here, &format!("own/series?{query}&from={START_SECS}"), to))
    };
    // It is filled with what is there; a line begins with what comes.
    assert_eq!(here.site.rows("own")[0]["req_count"], 11);
    send(7);
    clock.advance_ms(1000);
    send(8);
    clock.advance_ms(1000);
    let db = "timer_group=db&metric=req_count";
    assert_eq!(ask(db, 3), [None, Some(7.0), Some(8.0)]);
    let db = "timer_group=db&metric=hit_count";
    assert_eq!(ask(db, 3), [None, Some(14.0), Some(16.0)]);
    let page = here.site.get("/reports/own/row?timer_group=db").body;
    assert_has!(page => "past-traffic");
    assert_lacks!(page => "No charts");
    // A reason is said once.
    let none = here.site.get("/reports/own/row?timer_group=none").body;
    assert_eq!(none.matches("is kept: it had no request").count(), 1, "{none}");

    // Another one of its name has nothing of it.
    assert_eq!(here.site.delete("/api/v1/reports/own").status, 200);
    assert_eq!(here.site.get("/api/v1/reports/own/series").status, 404);
    let other = r#"{"name": "own", "level": "request", "keys": ["script_name"]}"#;
    assert_eq!(here.site.post("/api/v1/reports", other).status, 201);
    send(9);
    clock.advance_ms(1000);
    let a = "script_name=/a&metric=req_count";
    assert_eq!(ask(a, 4), [None, None, None, Some(9.0)]);
    here.stop();

    let (here, clock) = Here::with_manual_clock(&settings);
    here.site.send([packet("/a", 200, 0.1)]);
    clock.advance_ms(1000);
    let again = line(&here, &format!("own/series?{a}&from={START_SECS}"), START_SECS + 1);
    assert_eq!(points(&again).last(), Some(&Some(1.0)));
    here.stop();
}
