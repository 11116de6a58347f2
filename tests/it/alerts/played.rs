//! Rules played over the past, what `pinbad check` says of them, and objectives, whose budgets rest
//! on the past.

use std::path::Path;
use std::sync::Arc;

use pinbad::clock::{Clock, ManualClock};
use prost::Message as _;
use serde_json::{Value as Json, json};

use crate::harness::{Here, Sender, await_condition, await_until, pass, pinbad, run};
use crate::packets::request;
use crate::past::START_SECS;

/// A site with twelve minutes of past, of which the fourth to the seventh have errors in one of
/// five requests for `/a`.
fn with_past(dir: &Path, rule: &str) -> Here {
    let clock = Arc::new(ManualClock::new(START_SECS * 1_000));
    let here = started(dir, rule, &clock);
    send_past(&here, &clock);
    here
}

fn started(dir: &Path, rule: &str, clock: &Arc<ManualClock>) -> Here {
    let history = format!("history.dir={}", dir.display());
    let settings = [&history, "history.free_min=0", "history.flush_period=60s", rule];
    let clock = Arc::<ManualClock>::clone(clock) as Arc<dyn Clock>;
    Here::with_clock(&settings, clock)
}

fn send_past(here: &Here, clock: &ManualClock) {
    let mut sender = Sender::new(&here.site);
    for minute in 0..12 {
        for number in 0..20 {
            let mut packet = request("h", "s", if number % 2 == 0 { "/a" } else { "/b" });
            let fails = number < 4 && number % 2 == 0 && (3..7).contains(&minute);
            packet.status = Some(if fails { 500 } else { 200 });
            sender.send(&packet.encode_to_vec());
        }
        sender.at_rest();
        pass(&here.site, clock, 1_000);
        pass(&here.site, clock, 58_000);
        // Whether anything came in them is known a second later.
        pass(&here.site, clock, 1_000);
    }
    let from = format!("/api/v1/info?from={START_SECS}");
    let count = || here.site.get(&from).any_json()["req_count"].as_u64();
    await_until("all of it is in history", count, |it| *it == Some(240));
}

#[test]
fn rules_in_force_and_those_of_a_file_are_played_over_the_past() {
    let dir = tempfile::tempdir().unwrap();
    let rule = "alert=[{name = \"failing\", report = \"report_by_script_name\", when = \"errors / req_count > 10%\", \
                window = \"1m\", for = \"2m\", min_requests = 10}]";
    let here = with_past(&dir.path().join("history"), rule);
    let (url, until) = (format!("http://{}", here.site.http), START_SECS + 720);
    let test = |more: &[&str]| {
        let (from, to) = (START_SECS.to_string(), until.to_string());
        let mut span = vec!["alert", "test", "--url", &url, "--to", &to];
        if more.first() != Some(&"--from") {
            span.extend(["--from", &from]);
        }
        let said = run(pinbad().args(span).args(more));
        (said.code, said.out + &said.err)
    };
    // It holds at the ends of four minutes: for two of them it is pending.
    let expected = "2024-02-28 22:06:00Z  for 2m  failing  warning  script_name=/a\n";
    assert_eq!(test(&[]), (Some(0), expected.to_owned()));

    // History begins where it begins, however early one asks.
    let begun = std::time::Instant::now();
    let early = test(&["--from", "-10y"]);
    assert_eq!(early, (Some(0), expected.to_owned()));
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());

    // Those that are not in force.
    let file = dir.path().join("other.toml");
    let given = |text: &str| {
        std::fs::write(&file, text).unwrap();
        test(&["--config", file.to_str().unwrap()])
    };
    let other = "[[alert]]\nname = \"any\"\nreport = \"report_by_script_name\"\nwhen = \"errors > 0\"\nmin_requests = 1\n";
    let expected = "2024-02-28 22:04:00Z  for 4m  any  warning  script_name=/a\n";
    assert_eq!(given(other), (Some(0), expected.to_owned()));
    // Of these nothing can be played.
    let of_minutes = "history has minutes, and its window is no whole number of them)\n";
    let (code, said) = given(&(other.to_owned() + "window = \"90s\"\n"));
    assert_eq!((code, said), (Some(0), format!("(any: {of_minutes}No rule was played.\n")));
    let (code, said) = given(&(other.to_owned() + "for = \"5s\"\n"));
    let of_for = of_minutes.replace("window", "for");
    assert_eq!((code, said), (Some(0), format!("(any: {of_for}No rule was played.\n")));
    let (code, said) = given(&(other.to_owned() + "window = \"1h\"\n"));
    assert_eq!(code, Some(0));
    assert_has!(said => "any: its window of 1 h begins empty at 2024-02-28T22:0");
    let unkept = other.replace("any", "more").replace("_script_name", "_script_and_status");
    let (code, said) = given(&unkept);
    assert_eq!(code, Some(1));
    assert_has!(said => "the past of report \"report_by_script_and_status\" is not kept: ");
    let (code, said) = given(&(unkept + other));
    assert_eq!(code, Some(0));
    assert_has!(said => expected, "the past of report \"report_by_script_and_status\" is not kept: ");
    let (code, said) = given(&other.replace("errors > 0", "bugs > 0"));
    assert_eq!(code, Some(1));
    assert_has!(said => "other.toml:4: alert.when: ", "has no number \"bugs\"; accepted: req_count, ");
    let own = "[[report]]\nname = \"mine\"\ncomment = \"tag_info:group\"\n";
    let (code, said) = given(&(own.to_owned() + &other.replace("report_by_script_name", "mine")));
    assert_eq!(code, Some(1));
    assert_has!(said => "other.toml:6: alert.report: there is no report called \"mine\" in the daemon yet");
    let problem = here.site.get("/api/v1/alerts/test?from=-1h&to=-2h").problem(400);
    assert_eq!(problem, "from: is not before to");
    let (code, said) = given(&other.replace("when", "whenever"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("other.toml:4: alert.whenever"), "{said}");
    let refused = |body| here.site.post("/api/v1/alerts/test", body).problem(400);
    for body in ["[]", "{}", "{\"user\": []}", "{\"alert\": null}"] {
        let problem = refused(body);
        assert!(problem.contains("the body must hold"), "{problem}");
    }

    // Nobody waits for a replay whose client is gone; another one has its place.
    let replay = format!("/api/v1/alerts/test?from={START_SECS}&to=");
    let mut gone = std::net::TcpStream::connect(here.site.http).unwrap();
    let long = format!("GET {replay}{} HTTP/1.1\r\nHost: x\r\n\r\n", START_SECS + 400_000_000);
    std::io::Write::write_all(&mut gone, long.as_bytes()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(gone);
    let next = || here.site.get(&format!("{replay}{until}")).status;
    await_until("another replay", next, |status| *status == 200);

    // What a rule concerns now, where there is a daemon.
    let (path, http) = (file.to_str().unwrap(), here.site.http.to_string());
    let check = |where_: &str| {
        std::fs::write(&file, format!("{other}where = \"{where_}\"\n")).unwrap();
        run(pinbad().args(["check", "--config", path, "--http", &http])).out
    };
    for (where_, rows) in cases![
        "script_name=/*" => "2 rows of the daemon at URL now: /a; /b\n";
        "script_name=/b" => "1 row of the daemon at URL now: /b\n";
        "script_name=/c" => "0 rows of the daemon at URL now\n";
    ] {
        let said = check(where_);
        let expected = format!("concerns {}", rows.replace("URL", &url));
        assert!(said.contains(&expected), "{said}");
    }
    here.stop();
}

#[test]
fn a_budget_is_counted_live_and_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_SECS * 1_000));
    let slo = "slo=[{name = \"shop\", report = \"report_by_script_name\", objective = 90, period = \"1d\"}, \
               {name = \"a\", report = \"report_by_script_name\", where = \"script_name=/a\", good = \"req_time <= 500ms\", \
               objective = 99.5}]";
    let here = started(dir.path(), slo, &clock);
    send_past(&here, &clock);
    let rows = |here: &Here| here.site.json("/api/v1/slos")["rows"].clone();
    let totals = |here: &Here| {
        let rows = rows(here);
        let rows = rows.as_array().unwrap().iter();
        let totals = rows.map(|it| (it["total"].clone(), it["bad"].clone()));
        totals.collect::<Vec<_>>()
    };
    let expected: [(Json, Json); 2] = [(240.into(), 8.into()), (120.into(), 8.into())];
    await_until("all of it is counted", || totals(&here), |it| *it == expected);
    // Seconds without requests are covered when their end is seen.
    await_until(
        "twelve minutes are covered",
        || rows(&here)[0]["covered_seconds"].as_u64(),
        |covered| covered.is_some_and(|it| (700..=721).contains(&it)),
    );
    let shop = &rows(&here)[0];
    assert_eq!((&shop["name"], &shop["exact"]), (&"shop".into(), &true.into()));
    // Of 240 requests 24 may be bad.
    let left = shop["budget_left"].as_f64().unwrap();
    assert!((left - (1.0 - 8.0 / 24.0)).abs() < 1e-9, "{shop}");
    assert_eq!(shop["burn"][0]["state"], "unknown", "half an hour is lacking");
    assert_has!(here.site.get("/reports/slo").body => "66.7 %");
    let metrics = here.site.get("/metrics").body;
    assert_has!(metrics => "pinbad_slo_budget_left{slo=\"shop\"} 0.6666");
    // Twelve minutes are not half of any longer window: nobody tells a rate over them.
    assert_lacks!(metrics => "window=\"1h\"");
    assert_eq!(shop["burn"][0]["burn_long"], Json::Null);
    let page = here.site.get("/alerts").body;
    let shown = crate::page::rows(page.split("id=\"slos\"").nth(1).unwrap(), 1);
    assert_eq!(shown[0][7..], ["\u{2013}"; 4], "{shown:?}");
    let sql = here.site.sql("SELECT slo, objective, total, bad, exact, state FROM slo");
    let expected_rows =
        json!([["shop", 90, 240, 8, 1, "unknown"], ["a", 99.5, 120, 8, 0, "unknown"]]);
    assert_eq!(sql, expected_rows);
    let page = here.site.get("/alerts").body;
    assert_has!(page => "shop: 90 % of the requests", "\u{2264}\u{a0}8", "too little counted yet");
    assert_lacks!(page => ">unknown<");
    pass(&here.site, &clock, 7_000);
    await_condition("the time of the budget is exact", || {
        let covered = rows(&here)[0]["covered_seconds"].as_u64().unwrap();
        let [minutes, secs] = [covered / 60, covered % 60];
        let said = format!("66.7 %</span> (of {minutes} min {secs} s)");
        let overview = here.site.get("/").body;
        let is_said = overview.contains("Error budget left") && overview.contains(&said);
        if is_said { Ok(()) } else { Err(overview) }
    });
    here.stop();
    // What history has by the minute.
    let again = started(dir.path(), slo, &clock);
    await_until("the budget goes on", || totals(&again), |it| *it == expected);
    again.stop();
}

#[test]
fn a_budget_that_burns_fires() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_SECS * 1_000));
    let slo = "slo=[{name = \"shop\", report = \"info\", objective = 99, min_requests = 20}]";
    let here = started(dir.path(), slo, &clock);
    let mut sender = Sender::new(&here.site);
    for _ in 0..40 {
        for number in 0..4 {
            let mut packet = request("h", "s", "/a");
            packet.status = Some(if number == 0 { 500 } else { 200 });
            sender.send(&packet.encode_to_vec());
        }
        sender.at_rest();
        pass(&here.site, &clock, 1_000);
        pass(&here.site, &clock, 59_000);
    }
    let fired = || here.site.json("/api/v1/alerts")["rows"].clone();
    let rows = await_until("it fires", fired, |rows| rows[0]["state"] == "firing");
    let row = &rows[0];
    assert_eq!((&row["alert"], &row["severity"]), (&"shop".into(), &"page".into()));
    // A quarter of the requests where one of a hundred may be bad.
    assert_eq!(row["value"], 25.0);
    assert_eq!(rows.as_array().unwrap().len(), 1, "a page hides the ticket");
    // While the past is read, they show nothing.
    let burn = || here.site.json("/api/v1/slos")["rows"][0]["burn"].clone();
    let burn = await_until("its windows", burn, |burn| burn[0]["state"] == "firing");
    assert_eq!(burn[2]["state"], "unknown");
    here.stop();
}

/// What history had in the hour in which a window begins is in it, from its beginning on.
#[test]
fn a_window_that_is_filled_from_history_begins_within_an_hour() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new((START_SECS + 41 * 60) * 1_000));
    let slo = "slo=[{name = \"shop\", report = \"report_by_script_name\", objective = 90, period = \"7d\"}]";
    let here = started(dir.path(), slo, &clock);
    for errors in [2, 6, 4] {
        let mut sender = Sender::new(&here.site);
        for number in 0..20 {
            let mut packet = request("h", "s", "/a");
            packet.status = Some(if number < errors { 500 } else { 200 });
            sender.send(&packet.encode_to_vec());
        }
        sender.at_rest();
        pass(&here.site, &clock, 1_000);
        pass(&here.site, &clock, 90 * 60_000);
    }
    let from = format!("/api/v1/info?from={START_SECS}");
    let count = || here.site.get(&from).any_json()["req_count"].as_u64();
    await_until("all of it is in history", count, |it| *it == Some(60));
    here.stop();
    // Six hours ago it was 22:21.
    clock.set_unix_ms((START_SECS + (6 * 60 + 21) * 60) * 1_000);
    let here = started(dir.path(), slo, &clock);
    let burn = || here.site.json("/api/v1/slos")["rows"][0]["burn"][1]["burn_long"].as_f64();
    // 12 of 60, where one of ten may be bad.
    await_until("it is filled", burn, |burn| burn.is_some_and(|it| (it - 2.0).abs() < 1e-9));
    here.stop();
}
