//! Reports over all pinbads that ship to one ClickHouse, held against one more pinbad that got
//! every packet and has its history at home: the same rows, to the last digit.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pinbad::clock::{Clock as _, ManualClock};
use prost::Message as _;
use serde_json::{Value as Json, json};

use super::{ClickHouse, START_SECS, drain};
use crate::harness::{Here, Sender, await_condition, await_until};
use crate::packets::request;

/// Names of collectors, and where they are.
const MEMBERS: [(&str, &str); 3] = [("one", "ams"), ("two", "fra"), ("th'r\\ee", "fra")];
const REPORTS: &str = r#"report=[{name = "groups", comment = "tag_info:group"}, {name = "dcs", comment = "v2/request/60/~script,+dc/no_percentiles/no_filters"},
    {name = "own", comment = "v2/request/60/~script/hv=0:60000:600,p95/no_filters"}, {name = "linear", comment = "report1::histogram_max_time=2"}]"#;

fn start(dir: &Path, clock: &Arc<ManualClock>, more: &[&str]) -> Here {
    Here::with_history(dir, clock, &[&[REPORTS], more].concat())
}

fn member(at: usize, dir: &Path, port: u16, clock: &Arc<ManualClock>) -> Here {
    let (name, dc) = MEMBERS[at];
    let url = format!("clickhouse.url=http://127.0.0.1:{port}/");
    let name = format!("clickhouse.collector={}", toml(name));
    let dc = format!("clickhouse.dc={dc}");
    let more = [
        &url,
        &name,
        &dc,
        "clickhouse.create_tables=true",
        // However slow the machine is.
        "clickhouse.read_timeout=2m",
    ];
    start(dir, clock, &more)
}

/// As a text of the configuration.
fn toml(text: &str) -> String {
    Json::from(text).to_string()
}

/// Lets time pass for all at once.
fn pass(all: &[&Here], clock: &ManualClock, ms: u64) {
    let merges = |here: &Here| here.site.json("/api/v1/status")["merges"].as_u64().unwrap();
    clock.advance_ms(ms);
    let before: Vec<u64> = all.iter().map(|here| merges(here)).collect();
    for (here, before) in all.iter().zip(before) {
        await_until("the merger runs", || merges(here), |now| *now > before + 1);
    }
}

/// Each gets its own, the last of all gets everything; then twenty seconds pass.
fn send(members: &[&Here], everything: &Here, clock: &ManualClock, step: u64) {
    let mut senders: Vec<_> = members.iter().map(|here| Sender::new(&here.site)).collect();
    let mut all = Sender::new(&everything.site);
    for (at, sender) in (0_u64..).zip(&mut senders) {
        for number in 0..(step * 3 + at * 5) % 9 {
            let script = ["/", "/a'b\\", "/ä\n", "/only", "(other)"];
            let script = script[((step * 31 + number * 7 + at) % 5) as usize];
            let server = ["www", "o'ne"][(number % 2) as usize];
            let mut packet = request(MEMBERS[at as usize].1, server, script);
            let us = ((step + 1) * 7_919 * (at + 1) + number * 104_729) % 3_000_000;
            packet.request_time = Some(us as f32 / 1e6);
            packet.status = Some([200, 404, 500][((step + number) % 3) as usize]);
            packet.add_tag("dc", MEMBERS[at as usize].1);
            let packet = packet.encode_to_vec();
            sender.send(&packet);
            all.send(&packet);
        }
    }
    senders.iter().chain([&all]).for_each(|sender| {
        sender.at_rest();
    });
    let all = [members, &[everything]].concat();
    // Seconds first: what a minute was counted in is exact.
    pass(&all, clock, 1_000);
    pass(&all, clock, 19_000);
}

/// Rows without what depends on how many seconds were counted, which need not be the same in
/// several daemons.
fn counted(answer: &Json) -> Vec<Json> {
    let mut rows = answer["rows"].as_array().unwrap().clone();
    for row in &mut rows {
        let row = row.as_object_mut().unwrap();
        row.retain(|name, _| !name.contains("_per_sec") && !name.starts_with("time_interval"));
    }
    rows
}

#[test]
fn fleet_answers_are_those_of_one_that_got_everything() {
    let far = tempfile::tempdir().unwrap();
    let Some(clickhouse) = ClickHouse::start(far.path(), 0) else {
        return;
    };
    let homes = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let clock = Arc::new(ManualClock::new(START_SECS * 1_000));
    let members = [0, 1, 2].map(|at| member(at, homes[at].path(), clickhouse.port, &clock));
    let everything = start(homes[3].path(), &clock, &[]);
    let [one, two, three] = &members;
    for step in 0..54 {
        send(&[one, two, three], &everything, &clock, step);
    }
    // Long enough for the last minute to be shipped, too short for hours to be folded.
    let all = [one, two, three, &everything];
    (0..10).for_each(|_| pass(&all, &clock, 30_000));
    let span = START_SECS + 60..START_SECS + 18 * 60;
    for here in &all[..3] {
        drain(here, &clock, span.end + 60);
    }
    let asked = format!("from={}&to={}&limit=0", span.start, span.end);
    let before = format!("&compare={}", START_SECS - 960);
    compare_reports(one, &everything, &asked, &before);
    compare_lines(two, &everything, &span);
    compare_members(&members, &asked);
    from_and_to(three, &clock);
    pages(one, &span);

    // What is refused, each time with what is accepted.
    let report = "/api/v1/reports/report_by_script_name";
    for (query, status, part) in [
        ("fleet=yes", 400, "accepted: true, false"),
        ("fleet=false&dc=ams", 400, "fleet"),
        ("fleet=true&x=1", 400, "fleet, dc, collector"),
        ("fleet=true&from=now&to=-1h", 400, "from"),
    ] {
        let said = one.site.get(&format!("{report}?{query}")).problem(status);
        assert!(said.contains(part), "{query}: {said}");
    }
    let no_fleet = everything.site.get(&format!("{report}?fleet=true"));
    assert!(no_fleet.problem(400).contains("clickhouse.url is not set"));
    let page = everything.site.get("/reports").body;
    assert!(!page.contains("aria-label=\"Whose\""));

    let [one, two, three] = members;
    three.stop();
    everything.stop();
    one_is_down(&one, &two, &clock);
    clickhouse_fails(&one, far.path(), clickhouse, &clock);
    one.stop();
    two.stop();
}

/// Reports: all columns, percentiles, filters, sorting, comparisons.
fn compare_reports(fleet: &Here, everything: &Here, asked: &str, before: &str) {
    let queries = cases![
        "report_by_script_name" => "";
        "report_by_script_name" => "&percentiles=50,95,99.9";
        "report_by_script_name" => "&percentiles=95&sort=-p95,script_name&limit=3&offset=1";
        "report_by_script_name" => "&script_name=%2Fa%27b%5C";
        "report_by_script_name" => "&columns=script_name,req_time_median,p95&percentiles=95";
        "report_by_status" => "&percentiles=99";
        "report_by_server_name" => "";
        "groups" => "&percentiles=95";
        "dcs" => "";
        "dcs" => "&dc=ams&fleet=FLEET";
        "own" => "";
        "linear" => "&percentiles=95";
        "info" => "";
    ];
    for (report, more) in queries {
        for compare in ["", before] {
            // A key called dc stays one where the fleet is not meant.
            let (more, key) = match more.contains("FLEET") {
                true => ("", "&key.dc=ams"),
                false => (more, ""),
            };
            let sort = if more.contains("sort=") { "" } else { "&sort=-req_count" };
            let path = format!("/api/v1/reports/{report}?{asked}{more}{key}{sort}{compare}");
            let path =
                path.replacen("&limit=0", if more.contains("limit=") { "" } else { "&limit=0" }, 1);
            let here = everything.site.json(&path);
            let there = fleet.site.json(&format!("{path}&fleet=true"));
            let sorted = |answer: &Json| {
                let mut rows: Vec<String> = counted(answer).iter().map(Json::to_string).collect();
                if !more.contains("sort=") {
                    rows.sort();
                }
                rows
            };
            assert_eq!(sorted(&there), sorted(&here), "{path}");
            assert!(!sorted(&here).is_empty(), "{path}");
            for member in "from to compare_from compare_to window_seconds total_rows \
                 resolution_seconds percentile_error"
                .split(' ')
            {
                assert_eq!(there[member], here[member], "{path}: {member}");
            }
            if compare.is_empty() {
                assert_eq!(there["partial"], json!([]), "{path}");
            }
            rates(&there);
        }
    }
    let info = |here: &Here, more: &str| {
        here.site.json(&format!("/api/v1/info?{}{more}", asked.replace("&limit=0", "")))
    };
    let [here, there] = [info(everything, ""), info(fleet, "&fleet=true")];
    for name in ["req_count", "time_total", "ru_utime_total", "from", "to"] {
        assert_eq!(there[name], here[name], "{name}: {there}");
    }
}

/// Rates are of all pinbads together, over the seconds in which one was counting.
fn rates(answer: &Json) {
    let secs = answer["covered_seconds"].as_u64().unwrap();
    assert!(secs >= 900, "{answer}");
    for row in answer["rows"].as_array().unwrap() {
        if let Some((count, rate)) = row["req_count"].as_f64().zip(row["req_per_sec"].as_f64()) {
            assert!((count / secs as f64 - rate).abs() < 1e-5, "{row} {secs}");
        }
    }
}

/// Series of a row, and of all rows.
fn compare_lines(fleet: &Here, everything: &Here, span: &std::ops::Range<u64>) {
    for metric in "req_count p95 errors time_avg p99_9 memory_avg".split(' ') {
        for (step, key) in
            [(60, ""), (300, "&script_name=%2F%C3%A4%0A"), (120, "&script_name=%2Fnone")]
        {
            let path = format!(
                "/api/v1/reports/report_by_script_name/series?metric={metric}&from={}&to={}&step={step}{key}",
                // From before the last hour in memory: of the history.
                span.start - 660,
                span.end
            );
            let mut here = everything.site.json(&path);
            let there = fleet.site.json(&format!("{path}&fleet=true"));
            here["partial"] = there["partial"].clone();
            assert_eq!(there, here, "{path}");
        }
    }
}

/// One collector's rows are those that it has at home; a data centre's are of all in it.
fn compare_members(members: &[Here; 3], asked: &str) {
    let [one, two, three] = members;
    let report = |here: &Here, more: &str| {
        let path = format!(
            "/api/v1/reports/report_by_script_name?{asked}&sort=script_name&percentiles=50,99"
        );
        here.site.json(&format!("{path}{more}"))
    };
    for (at, encoded) in [(0, "one"), (1, "two"), (2, "th%27r%5Cee")] {
        let here = report(&members[at], "");
        let mut there = report(&members[2 - at], &format!("&collector={encoded}"));
        for changing in ["as_of", "partial"] {
            assert!(there[changing] != Json::Null);
            there[changing] = here[changing].clone();
        }
        assert_eq!(there, here, "{encoded}");
    }
    let requests = |answer: &Json| -> u64 {
        let rows = answer["rows"].as_array().unwrap().iter();
        rows.map(|row| row["req_count"].as_u64().unwrap()).sum()
    };
    let fra = requests(&report(two, "")) + requests(&report(three, ""));
    assert!(fra > 0);
    for more in ["&dc=fra", "&fleet=true&collector=two,th%27r%5Cee", "&dc=fra,nowhere"] {
        assert_eq!(requests(&report(one, more)), fra, "{more}");
    }
    let said = report(one, "&dc=fra,nowhere")["partial"].to_string();
    assert_has!(said => "nowhere", "has shipped nothing");
    let nobody = report(one, "&dc=fra&collector=one");
    assert_eq!((requests(&nobody), nobody["covered_seconds"].as_u64()), (0, Some(0)));
}

/// Without `from` and `to` it is the window, up to the newest minute that all have shipped; and so
/// is "now".
fn from_and_to(here: &Here, clock: &ManualClock) {
    let newest = (clock.unix_ms() / 1_000 - 180) / 60 * 60;
    let ask = |more: &str| {
        let path = format!("/api/v1/reports/report_by_script_name?fleet=true{more}");
        let answer = here.site.json(&path);
        [answer["from"].as_u64().unwrap(), answer["to"].as_u64().unwrap()]
    };
    assert_eq!(ask(""), [newest - 900, newest]);
    assert_eq!(ask("&from=-5m"), [newest - 300, newest]);
    assert_eq!(ask("&to=-10m"), [newest - 4_200, newest - 600]);
    let line = here.site.json("/api/v1/reports/info/series?fleet=true&metric=req_count");
    assert_eq!(line["from"], newest - 300);
    assert_eq!(line["points"].as_array().unwrap().len(), 5);
    let later = format!("/api/v1/reports/info?fleet=true&from={newest}&to={}", newest + 120);
    let said = here.site.json(&later)["partial"].to_string();
    assert!(said.contains("are shipped later"), "{said}");
}

/// The switch, and what leads on from there.
fn pages(here: &Here, span: &std::ops::Range<u64>) {
    let get = |path: &str| {
        let reply = here.site.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.body
    };
    let page = get("/reports/report_by_script_name");
    assert!(page.contains("aria-label=\"Whose\""), "{page}");
    assert_has!(page => "href=\"/reports/report_by_script_name?fleet=true\">fleet</a>");
    let time = format!("from={}&to={}", span.start, span.end);
    let page = get(&format!("/reports/report_by_script_name?{time}&fleet=true"));
    for part in [
        ">this daemon</a>",
        "fleet=true&amp;dc=ams\">ams</a>",
        "<option value=\"th'r\\\\ee\">",
        "/reports/report_by_script_name/row?script_name=%2Fonly",
        "fleet=true",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let row =
        get(&format!("/reports/report_by_script_name/row?script_name=%2Fonly&{time}&fleet=true"));
    for part in ["This daemon only", "past-traffic", "spread-svg", "class=\"line c", "fleet=true"] {
        assert!(row.contains(part), "{part}: {row}");
    }
    let overview = get(&format!("/?{time}&fleet=true"));
    assert_has!(overview => "Takes the most time");
    assert_lacks!(overview => "top-timers");
    get("/?fleet=true&dc=fra");
    assert!(get("/requests?fleet=true").contains("This daemon only"));
    let svg = get(&format!(
        "/reports/report_by_script_name/traffic.svg?script_name=%2Fonly&{time}&fleet=true"
    ));
    assert!(svg.starts_with("<svg"), "{svg}");
}

/// Of what the one that is down has not shipped, every answer says so: who, where, since when.
fn one_is_down(one: &Here, two: &Here, clock: &ManualClock) {
    let down = clock.unix_ms() / 1_000;
    for _ in 0..12 {
        pass(&[one, two], clock, 30_000);
    }
    let now = clock.unix_ms() / 1_000;
    for here in [one, two] {
        drain(here, clock, now - 120);
    }
    let lists = |query: &str| {
        await_condition("the others have shipped all", || {
            let answer = one.site.json(&format!("/api/v1/{query}fleet=true"));
            let all = answer["partial"].as_array().unwrap().iter();
            let all: Vec<String> = all.map(|it| it.as_str().unwrap().to_owned()).collect();
            let late: Vec<&String> = all.iter().filter(|it| it.contains("is late")).collect();
            match late[..] {
                [one] => Ok(one.clone()),
                _ => Err(all),
            }
        })
    };
    let metric = "metric=req_count&";
    for query in
        ["reports/report_by_script_name?", "info?", &format!("reports/info/series?{metric}")]
    {
        let late = lists(query);
        assert!(late.contains("th'r") && late.contains("\"fra\""), "{late}");
        let (_, since) = late.split_once("since ").unwrap();
        let since = chrono::DateTime::parse_from_rfc3339(since).unwrap().timestamp() as u64;
        assert!(since <= down + 60 && since + 600 >= down, "{late}: {down}");
    }
    // Who asks for others alone is not told.
    let other = one.site.json("/api/v1/reports/info?collector=one,two");
    assert_eq!(other["partial"], json!([]), "{other}");
    // Idle is not silent: nothing was sent to the others either.
    let idle = one.site.json("/api/v1/reports/info?fleet=true&from=-3m");
    assert_eq!(idle["rows"][0]["req_count"], 0, "{idle}");
    assert!(idle["covered_seconds"].as_u64().unwrap() > 0, "{idle}");
}

/// ClickHouse is slow, cuts its answer, refuses, is gone: an error that says so, and what is local
/// answers meanwhile.
fn clickhouse_fails(one: &Here, far: &Path, clickhouse: ClickHouse, clock: &Arc<ManualClock>) {
    let fails = |part: &str| {
        for path in [
            "reports/report_by_script_name?percentiles=95&",
            "info?",
            "reports/info/series?",
            "reports/info/heatmap?",
        ] {
            let said = one.site.get(&format!("/api/v1/{path}fleet=true")).problem(503);
            assert_has!(said => part, "the fleet cannot be queried");
        }
        let page = one.site.get("/reports/report_by_script_name?from=-1h&fleet=true");
        assert_eq!(page.status, 503);
        let here = "href=\"/reports/report_by_script_name?from=-1h\"";
        assert_has!(page.body => part, here);
        let local = one.site.get("/api/v1/reports/report_by_script_name?from=-1h");
        assert_eq!(local.status, 200);
    };
    std::fs::write(far.join("fault-select"), "refuse").unwrap();
    fails("Memory limit exceeded");
    std::fs::write(far.join("fault-select"), "cut").unwrap();
    fails("fleet cannot be queried");
    std::fs::write(far.join("fault-select"), "hang").unwrap();
    let home = tempfile::tempdir().unwrap();
    let url = format!("clickhouse.url=http://127.0.0.1:{}/", clickhouse.port);
    let more = [&url, "clickhouse.what=[]", "clickhouse.read_timeout=2s"];
    let hasty = start(home.path(), clock, &more);
    let waiting = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                waiting.fetch_add(1, Ordering::SeqCst);
                let reply = hasty.site.get("/api/v1/info?fleet=true");
                assert_eq!(reply.status, 503, "{}", reply.body);
            });
        }
        await_condition("all are asked", || match waiting.load(Ordering::SeqCst) {
            12 => Ok(()),
            some => Err(some),
        });
        for path in "/api/v1/status /api/v1/reports/info?from=-1h \
             /api/v1/reports/report_by_script_name /"
            .split(' ')
        {
            assert_eq!(hasty.site.get(path).status, 200);
        }
    });
    hasty.stop();
    std::fs::remove_file(far.join("fault-select")).unwrap();
    drop(clickhouse);
    fails("127.0.0.1");
}
