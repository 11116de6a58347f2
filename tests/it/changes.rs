//! What changed from one span to another, heat maps, and calls per request: over HTTP, in SQL and
//! on the pages.

use pinbad::clock::ManualClock;
use prost::Message as _;
use serde_json::{Value as Json, json};

use crate::harness::{Here, Sender, await_until, nobody_listens, pass};
use crate::packets::request;
use crate::past::START_SECS;

/// Sends a minute's requests: script, how many, seconds each.
fn minute(here: &Here, clock: &ManualClock, requests: &[(&str, u64, f32)]) {
    let mut sender = Sender::new(&here.site);
    for (script, count, secs) in requests {
        for _ in 0..*count {
            let mut packet = request("h", "s", script);
            packet.request_time = Some(*secs);
            packet.status = Some(if *secs > 0.4 { 500 } else { 200 });
            packet.add_timer(1, *secs, &[("group", "db")]);
            sender.send(&packet.encode_to_vec());
        }
    }
    sender.at_rest();
    pass(&here.site, clock, 1_000);
    pass(&here.site, clock, 59_000);
}

/// The members of a change, in this order.
fn numbers(change: &Json) -> Json {
    let names = ["before", "after", "change", "calls", "slower", "new", "gone"];
    names.iter().map(|name| change[name].clone()).collect()
}

#[test]
fn a_new_daemon_says_from_when_on_it_can_compare() {
    let (here, clock, _dir) = Here::with_own_history(START_SECS, &[]);
    let page = here.site.get("/changes").body;
    assert_has!(page => "there is nothing to compare");
    for _ in 0..2 {
        minute(&here, &clock, &[("/a", 1, 0.25)]);
    }
    let parts = [
        "A comparison with all of the 15 min before is possible from ",
        ">22:30:00</time> on, in 28 min; from ",
        ">22:16:00</time> on with a part of them. ",
        "from=-1m&amp;compare=span\">the last minute with the one before</a>",
    ];
    let says_all = |page: &String| parts.iter().all(|part| page.contains(part));
    await_until("two minutes are kept", || here.site.get("/changes").body, says_all);
    let page = here.site.get("/changes?from=-1m&compare=span").body;
    assert_has!(page => ">/a</bdi>");
    here.stop();
}

#[test]
fn there_is_no_percentage_of_a_sum_over_a_part_of_a_span() {
    // Of the first minute, 40 seconds are counted.
    let (here, clock, _dir) = Here::with_own_history(START_SECS + 20, &[]);
    for _ in 0..2 {
        minute(&here, &clock, &[("/a", 1, 0.25)]);
    }
    let found = await_until(
        "both minutes are counted",
        || here.site.json("/api/v1/changes?from=-1m&compare=span"),
        |it| it["covered_seconds"] == 60 && it["covered_seconds_before"] != 0,
    );
    let said = " of the span before were counted, and 60 s of the other: ";
    assert_has!(found["partial"].to_string() => said);
    let page = here.site.get("/changes?from=-1m&compare=span").body;
    assert_has!(page => said, ">/a</bdi>");
    assert_lacks!(page => " % of ");
    here.stop();
}

#[test]
fn a_change_is_told_apart_by_its_keys() {
    let (here, clock, _dir) = Here::with_own_history(START_SECS, &[]);
    let site = &here.site;
    let form = json!({"name": "groups", "level": "timer", "keys": ["@group"]});
    assert_eq!(site.post("/api/v1/reports", &form.to_string()).status, 201);
    minute(&here, &clock, &[("/idle", 1, 0.25)]);
    minute(&here, &clock, &[("/a", 4, 0.25), ("/gone", 1, 0.125)]);
    minute(&here, &clock, &[("/a", 6, 0.5), ("/new", 2, 0.25)]);
    let span = format!("from={}&to={}", START_SECS + 120, START_SECS + 180);
    let changes = |query: &str| site.json(&format!("/api/v1/changes?{query}"));

    let found = await_until(
        "both minutes are counted",
        || changes(&span),
        |it| it["change"] == 2.375 && it["covered_seconds"] == it["covered_seconds_before"],
    );
    assert_eq!(found["unit"], "seconds");
    assert_eq!(found["compare_from"], START_SECS + 60);
    assert_eq!(found["covered_seconds"], found["covered_seconds_before"]);
    let expected = json!([1.125, 3.5, 2.375, 0.75, 1.25, 0.5, -0.125]);
    assert_eq!(numbers(&found), expected, "{found}");
    let rows = found["rows"].as_array().unwrap();
    let keys: Vec<&Json> = rows.iter().map(|row| &row["key"]["script_name"]).collect();
    assert_eq!(keys, ["/a", "/new", "/gone"]);
    assert_eq!(numbers(&rows[0]), json!([1, 3, 2, 0.75, 1.25, 0, 0]));
    assert_eq!(numbers(&found["other"]), json!([0, 0, 0, 0, 0, 0, 0]));
    // What is cut off is in `other`; the whole stays.
    let cut = changes(&format!("{span}&limit=1"));
    assert_eq!(numbers(&cut["other"]), json!([0.125, 0.5, 0.375, 0, 0, 0.5, -0.125]));
    assert_eq!(numbers(&cut), expected);
    // The spans swapped.
    let swapped =
        format!("from={}&to={}&compare={}", START_SECS + 60, START_SECS + 120, START_SECS + 120);
    let back = json!([3.5, 1.125, -2.375, -0.75, -1.25, 0.125, -0.5]);
    assert_eq!(numbers(&changes(&swapped)), back);
    let errors = changes(&format!("{span}&measure=errors"));
    assert_eq!(numbers(&errors), json!([0, 6, 6, 1, 5, 0, 0]), "{errors}");
    let timers = changes(&format!("{span}&report=groups"));
    // Each packet has timers of its own, a quarter of a second of db and half of one of cache.
    assert_eq!(timers["change"], 2.375 + 3.0 * 0.75, "{timers}");
    // Keys are as in the report: a status is a number.
    let statuses = changes(&format!("{span}&report=report_by_status"));
    let statuses = statuses["rows"].as_array().unwrap().iter().map(|row| &row["key"]["status"]);
    let mut statuses: Vec<_> = statuses.map(Json::as_u64).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [Some(200), Some(500)]);
    // Without a span, no second between the two is in neither.
    pass(site, &clock, 37_000);
    let live = changes("");
    assert_eq!(live["compare_to"], live["from"], "{live}");
    assert_eq!(live["to"].as_u64().unwrap() - live["from"].as_u64().unwrap(), 900, "{live}");
    // Against a week before: nothing was counted then.
    let live = changes("compare=1w");
    assert_eq!(live["rows"], json!([]));
    assert_has!(live["partial"].to_string() => "nothing was counted");

    for (query, status, said) in [
        ("measure=speed", 400, "time, errors, memory, traffic, cpu"),
        ("report=groups&measure=errors", 400, "accepted: time, cpu"),
        ("report=nope", 404, "no report"),
        ("report=status", 400, "has no sums by key"),
        ("compare=x", 400, "such as -1w"),
        ("limit=0", 400, "from 1 to 1000"),
        ("from=yesterday", 400, "RFC 3339"),
        ("by=script", 400, "measure"),
    ] {
        let target = format!("/api/v1/changes?{query}");
        let problem = site.get(&target).problem(status);
        assert!(problem.contains(said), "{query}: {problem}");
        // The page takes the same, and says the same.
        let page = site.get(&format!("/changes?{query}"));
        assert_eq!(page.status, status, "{query}");
    }
    let page = site.get(&format!("/changes?{span}")).body;
    for part in [
        "+2.38 s",
        "+211 % of ",
        "\u{2212}0.125 s",
        "report_by_script_name/row?script_name=%2Fa&amp;from=",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // Above the table and in it a sum is the same text.
    assert_lacks!(page => "125 ms");
    let all = crate::page::rows(&page, 1).pop().unwrap();
    let [change, per_call] = [&all[3], &all[5]];
    assert_has!(page => &format!("<dd class=\"big\">{change} <small>"), &format!("<dd class=\"big\">{per_call}</dd>"));
    // Timers of a report are not compared.
    let target = format!("/timers?by=group&{span}&compare=span");
    let is_counted = |page: &String| page.contains("counted by groups");
    let page = await_until("the report is complete", || site.get(&target).body, is_counted);
    assert_has!(page => ">Of timers' time<");
    assert_lacks!(page => "compared with", "changes of sums");
    // Without a span the present is compared; a link to a page that cannot compare leaves that out.
    let now = site.get("/changes?compare=-1w");
    assert!(now.status == 200 && now.body.contains("href=\"/requests\""), "{now:?}");
    let overview = site.get(&format!("/?{span}")).body;
    assert!(overview.contains("href=\"/changes?from="), "{overview}");
    here.stop();

    let here = Here::start(&[]);
    let page = here.site.get("/changes");
    assert!(page.body.contains("Nothing to compare with. No history is kept"), "{page:?}");
    here.site.get("/api/v1/changes").problem(404);
    here.stop();
}

#[test]
fn a_heat_map_of_a_fleet_that_does_not_answer_can_be_had_later() {
    let (nobody, _taken) = nobody_listens();
    let url = format!("clickhouse.url=http://{nobody}/");
    let (here, _clock, _dir) = Here::with_own_history(START_SECS, &[&url]);
    for lines in ["heatmap", "series"] {
        let target = format!("/api/v1/reports/info/{lines}?fleet=true");
        assert_has!(here.site.get(&target).problem(503) => "the fleet cannot be queried");
    }
    here.stop();
}

#[test]
fn a_heat_map_has_every_request_in_its_cell() {
    let (here, clock, _dir) = Here::with_own_history(START_SECS, &[]);
    let site = &here.site;
    minute(&here, &clock, &[("/idle", 1, 0.25)]);
    minute(&here, &clock, &[("/a", 4, 0.25), ("/b", 1, 0.125)]);
    minute(&here, &clock, &[("/a", 6, 0.5), ("/b", 2, 0.25)]);
    let span = format!("from={}&to={}", START_SECS + 60, START_SECS + 180);
    let map = |query: &str| {
        let target = format!("/api/v1/reports/report_by_script_name/heatmap?{span}{query}");
        site.json(&target)
    };
    let rows = |map: &Json| {
        let columns = map["columns"].as_array().unwrap().iter();
        let mut rows = vec![0; map["edges"].as_array().unwrap().len() - 1];
        for column in columns.filter_map(Json::as_array) {
            for (row, count) in rows.iter_mut().zip(column) {
                *row += count.as_u64().unwrap();
            }
        }
        rows
    };
    // Few requests have large cells: a row is a doubling, a column five seconds. The span ends with
    // the last second that is counted: until that is its own end, there are fewer.
    let is_whole = |it: &Json| it["total"] == 13 && it["step"] == 5;
    let recent = await_until("all of the span is counted", || map(""), is_whole);
    let edges = json!([0.065536, 0.131072, 0.262144, 0.524288]);
    assert_eq!(recent["edges"], edges, "{recent}");
    assert_eq!(rows(&recent), [1, 6, 6], "{recent}");
    assert_eq!(recent["total"], 13);
    let errors = recent["errors"].as_array().unwrap().iter();
    assert_eq!(errors.filter_map(Json::as_u64).sum::<u64>(), 6, "{recent}");
    let of_row = map("&script_name=%2Fa");
    // Ten in two cells are enough: an eighth of a doubling each.
    assert_eq!(rows(&of_row), [4, 0, 0, 0, 0, 0, 0, 0, 6], "{of_row}");
    let unknown = [
        ("%2Fnone", "it had no request"),
        ("(other)", "no line of a row that is really called so"),
    ];
    for (script, why) in unknown {
        let target =
            format!("/api/v1/reports/report_by_script_name/heatmap?{span}&script_name={script}");
        let problem = site.get(&target).problem(404);
        assert!(problem.contains(why), "{target}: {problem}");
    }
    assert_eq!(of_row["key"], json!({"script_name": "/a"}));
    for lines in ["heatmap", "series"] {
        let target = format!("/api/v1/reports/report_by_status/{lines}?status=200&{span}");
        assert_eq!(site.json(&target)["key"], json!({"status": 200}), "{lines}");
    }

    let page = format!("/reports/report_by_script_name/row?script_name=%2Fa&{span}");
    let page = site.get(&page).body;
    for part in
        ["data-edges=\"245760,", "href=\"/requests?script_name=%2Fa&amp;from=", "10 requests"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let picture = site.get(&format!("/reports/info/heat.svg?theme=dark&{span}"));
    assert_has!(picture.body => "13 values in 24 columns");
    assert!(site.get("/").body.contains("Heat map of the request time"));

    // The same from history, by the minute, when the last hour does not reach back.
    pass(site, &clock, 7_200_000);
    let old = await_until("the hour is over", || map(""), |it| it["step"] == 60);
    assert_eq!((&old["edges"], &old["step"]), (&edges, &json!(60)), "{old}");
    assert_eq!(old["columns"], json!([[1, 4, 0], [0, 2, 6]]));
    assert_eq!(old["errors"], json!([0, 6]));
    for (target, status, said) in cases![
        "report_by_script_name/heatmap?script=%2Fa" => 400, "script_name";
        "report_by_script_name/heatmap?from=soon" => 400, "RFC 3339";
        "nope/heatmap" => 404, "no report";
    ] {
        let problem = site.get(&format!("/api/v1/reports/{target}")).problem(status);
        assert!(problem.contains(said), "{target}: {problem}");
    }
    here.stop();
}

/// What objectives allow is a line in the heat maps of their rows, and errors are a row on top.
#[test]
fn a_heat_map_shows_what_is_too_long_and_what_failed() {
    let slo = "slo=[{name = \"fast\", report = \"report_by_script_name\", where = \"script_name=/a*\", good = \"req_time <= 300ms\", \
               objective = 99}, {name = \"all\", report = \"report_by_hostname\", good = \"req_time <= 10s\", objective = 99}]";
    let (here, clock) = Here::with_manual_clock(&[slo]);
    let site = &here.site;
    minute(&here, &clock, &[("/a", 20, 0.25), ("/b", 20, 0.25)]);
    minute(&here, &clock, &[("/a", 6, 0.5), ("/b", 20, 0.25)]);
    let map = |query: &str| site.json(&format!("/api/v1/reports/{query}"));
    let of = |script: &str| map(&format!("report_by_script_name/heatmap?script_name=%2F{script}"));
    let all = || map("report_by_script_name/heatmap");
    await_until("all are counted", all, |it| it["total"] == 66);
    let of_a = of("a");
    assert_eq!(of_a["total"], 26, "{of_a}");
    // The end of the bucket that 300 ms are in, of 16 to a doubling.
    let allowed = json!([{"slo": "fast", "slow_from": 0.311_296}]);
    assert_eq!(of_a["limits"], allowed, "{of_a}");
    let failed: u64 = of_a["errors"].as_array().unwrap().iter().filter_map(Json::as_u64).sum();
    assert_eq!(failed, 6);
    assert_eq!(of("b")["limits"], json!([]));
    let total = map("info/heatmap");
    assert_eq!(total["limits"][0]["slo"], "all", "{total}");
    assert_eq!(total["limits"].as_array().unwrap().len(), 1);

    let row = |script: &str| {
        let page = format!("/reports/report_by_script_name/row?span=5m&script_name=%2F{script}");
        site.get(&page).body
    };
    let page = row("a");
    assert_has!(page =>
        "<line class=\"limit\"", ">311 ms</text>", "dashed: fast allows 311 ms</span>",
        "on top: 6 errors</span>", ">errors</text>", "6 requests, 6 errors</title>"
    );
    assert_lacks!(row("b") => "class=\"limit\"", ">errors</text>");
    // Nothing in the overview takes that long.
    let page = site.get("/?span=5m").body;
    assert_has!(page => "dashed: all allows 10.5 s, above the map");
    assert_lacks!(page => "<line class=\"limit\"");
    let dark = "/reports/report_by_script_name/heat.svg?theme=dark&span=5m&script_name=%2Fa";
    let picture = site.get(dark).body;
    assert_has!(picture =>
        " 6 errors. An objective allows 311 ms.", "stroke=\"#ffffff\" stroke-width=\"1.4\""
    );
    here.stop();
}

/// Of more tags than the table has room for, those that most requests have are shown, whatever one
/// odd request brings, and a condition reaches the others.
#[test]
fn calls_are_shown_of_the_tags_that_most_requests_have() {
    const OFTEN: [&str; 8] = ["action", "backend", "cache", "class", "db", "driver", "group", "op"];
    let here = Here::start(&[]);
    let site = &here.site;
    let mut sender = Sender::new(site);
    let mut odd = request("h", "s", "/odd");
    for number in 0..300 {
        odd.add_timer(1, 0.125, &[(&*format!("a{number:03}"), "x")]);
    }
    for number in 0..20 {
        let mut packet = request("h", "s", "/list");
        for name in OFTEN {
            packet.add_timer(200, 0.125, &[(name, "x")]);
        }
        if number < 10 {
            packet.add_timer(100, 0.125, &[("endpoint", "x")]);
        }
        sender.send(&packet.encode_to_vec());
    }
    sender.send(&odd.encode_to_vec());
    sender.at_rest();
    let rows = |query: &str| {
        let answer = site.post("/api/v1/sql", &json!({ "query": query }).to_string());
        let answer: Json = serde_json::from_str(&answer.body).unwrap();
        answer["rows"].clone()
    };
    let names = rows("SELECT DISTINCT tag_name FROM many_calls ORDER BY 1");
    assert_eq!(names, json!(OFTEN.map(|name| [name])));
    let of = |name: &str| {
        rows(&format!(
            "SELECT hits_max FROM many_calls WHERE tag_name = '{name}' AND tag_value = 'x'"
        ))
    };
    for (name, hits) in [("group", 200), ("endpoint", 100), ("a150", 1)] {
        assert_eq!(of(name), json!([[hits]]), "{name}");
    }
    let answer = site.json("/api/v1/reports/many_calls");
    let partial = answer["partial"][0].as_str().unwrap();
    assert_has!(partial => "192 tags are left out", "the 8 shown: \"endpoint\", \"a000\", ");
    let endpoint = site.json("/api/v1/reports/many_calls?tag_name=endpoint");
    assert_eq!(endpoint["rows"][0]["hits_max"], 100, "{endpoint}");
    assert!(endpoint.get("partial").is_none(), "{endpoint}");
    let page = site.get("/calls?by=op").body;
    assert_has!(page => "<option value=\"op\" selected>", "<option value=\"endpoint\">");
    here.stop();
}

#[test]
fn too_many_calls_are_found_with_an_example() {
    let here = Here::start(&[]);
    let site = &here.site;
    let mut sender = Sender::new(site);
    let mut send = |script: &str, hits: &[u32]| {
        let mut packet = request("h", "s", script);
        for hits in hits {
            packet.add_timer(*hits, 0.125, &[("group", "db"), ("server", "db1")]);
        }
        sender.send(&packet.encode_to_vec());
    };
    (0..10).for_each(|_| send("/list", &[200]));
    send("/list", &[150, 100]);
    (0..9).for_each(|_| send("/list", &[200]));
    send("/one", &[1]);
    sender.at_rest();
    let sql = |columns: &str| {
        let query = format!(
            "SELECT {columns} FROM many_calls WHERE script_name = '/list' AND tag_name = 'server'"
        );
        let answer = site.post("/api/v1/sql", &json!({ "query": query }).to_string());
        let answer: Json = serde_json::from_str(&answer.body).unwrap();
        answer["rows"].clone()
    };
    let numbers = sql("tag_value, req_count, hit_count, hits_mean, hits_max");
    assert_eq!(numbers, json!([["db1", 20, 4_050, 202.5, 250]]));
    let p95 = sql("hits_p95")[0][0].as_u64().unwrap();
    assert!((199..=202).contains(&p95), "{p95}");
    let id = sql("request_id")[0][0].clone();
    let total = site.json("/api/v1/reports/many_calls")["total_rows"].clone();
    let listed = site.json("/api/v1/reports");
    let mut listed = listed["reports"].as_array().unwrap().iter();
    let listed = listed.find(|it| it["name"] == "many_calls").unwrap();
    assert_eq!(listed["rows"], total);
    let example = site.json(&format!("/api/v1/requests/{id}"));
    let hits = example["timers"].as_array().unwrap().iter();
    let hits = hits.filter(|it| it["tags"]["server"] == "db1");
    let hits: Vec<&Json> = hits.map(|it| &it["hit_count"]).collect();
    assert_eq!(hits, [150, 100], "{example}");

    let page = site.get("/calls").body;
    let link = format!("href=\"/requests/{id}?by=group\">#{id}<");
    for part in [
        &link,
        "/timers?by=group&amp;script_name=%2Flist&amp;t.group=db",
        // Of group db each packet has two hits more.
        ">252<",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.find(&link) < page.find("%2Fone"), "{page}");
    let one = site.get("/calls?by=server&script_name=%2Fone").body;
    assert_lacks!(one => "%2Flist");
    assert_has!(one => "t.server=db1");
    // The rows after the first ones are on the next page.
    let first = site.get("/calls?limit=1").body;
    assert_has!(first => "%2Flist", "rel=\"next\" href=\"/calls?limit=1&amp;offset=1\"");
    let second = site.get("/calls?limit=1&offset=1").body;
    assert_has!(second => "%2Fone", "rel=\"prev\" href=\"/calls?limit=1\"");
    assert_lacks!(second => "script_name=%2Flist");
    let timers = site.get("/timers?by=script_name&limit=1").body;
    assert_has!(timers => "offset=1\"");
    // Links say the empty text in words, and that a tag named like a field is one.
    let mut odd = request("h", "s", "/odd");
    odd.add_timer(1, 0.125, &[("group", ""), ("status", "miss")]);
    sender.send(&odd.encode_to_vec());
    sender.at_rest();
    for (by, link) in [
        ("group", "/timers?by=group&amp;script_name=%2Fodd&amp;t.group=%28empty%29"),
        ("status", "/timers?by=%40status&amp;script_name=%2Fodd&amp;t.status=miss"),
    ] {
        assert_has!(site.get(&format!("/calls?by={by}&script_name=%2Fodd")).body => link);
    }
    // They keep the other conditions.
    let mut production = request("h", "s", "/prod");
    production.add_tag("stage", "prod");
    production.add_timer(1, 0.125, &[("group", "db")]);
    sender.send(&production.encode_to_vec());
    sender.at_rest();
    let page = site.get("/calls?by=group&hostname=h&tag.stage=prod&sort=group&limit=5").body;
    let link = "\"/timers?hostname=h&amp;tag.stage=prod&amp;by=group&amp;script_name=%2Fprod&amp;t.group=db\"";
    assert_has!(page => link);
    // Its form passes on the conditions, and not the order: the column may be the tag.
    let form = page.split("<form").find(|it| it.contains("<select name=\"by\"")).unwrap();
    assert_has!(form => "name=\"hostname\" value=\"h\"", "name=\"limit\" value=\"5\"");
    assert_lacks!(form => "name=\"sort\"");
    let bad = site.get("/calls?limit=0");
    assert!(bad.status == 400 && bad.body.contains("from 1 to 100"), "{bad:?}");
    here.stop();
}
