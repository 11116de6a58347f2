//! Releases from packet to verdict, with a clock that the test moves.

use std::sync::Arc;

use pinbad::clock::{Clock as _, ManualClock};
use prost::Message as _;
use serde_json::{Value as Json, json};

use crate::harness::{Here, Program, Sender, Site, await_until, pass};
use crate::packets::request;

/// 2024-02-28 22:00:00 UTC.
const START_SECS: u64 = 1_709_157_600;
/// Length of a window, seconds.
const WINDOW: u64 = 30;
const ALL: &str = "/api/v1/releases";

fn start(dir: &std::path::Path, clock: &Arc<ManualClock>) -> Here {
    let state = format!("state.dir={}", dir.display());
    let settings = [state.as_str(), "releases.after=30s", "series.memory=8MiB"];
    Here::with_clock(&settings, Arc::<ManualClock>::clone(clock))
}

/// Sends so many requests of each script under a release, then lets a window pass. The time of the
/// first script is `secs`, give or take what differs from window to window.
fn window(here: &Here, clock: &ManualClock, release: &str, count: u64, secs: f32) {
    let mut sender = Sender::new(&here.site);
    let at = clock.unix_ms() / 1_000 / WINDOW;
    for script in ["/checkout", "/search"] {
        let secs = if script == "/checkout" { secs } else { 0.25 };
        for number in 0..count {
            let mut packet = request("h", "s", script);
            let noise = ((at * 7) % 5) as f32 * 0.01 + (number % 10) as f32 * 0.05;
            packet.request_time = Some(secs * (1.0 + noise));
            packet.add_tag("release", release);
            sender.send(&packet.encode_to_vec());
        }
    }
    sender.at_rest();
    pass(&here.site, clock, 1_000);
    pass(&here.site, clock, (WINDOW - 1) * 1_000);
}

/// The release of this name, once it has a verdict.
fn judged(site: &Site, name: &str) -> Json {
    let row = || {
        let all = site.json(ALL);
        let rows = all["rows"].as_array().unwrap().iter();
        let mut rows = rows.filter(|it| it["release"] == name);
        rows.next().cloned().unwrap_or_default()
    };
    await_until("it is judged", row, |it| it["verdict"].is_object())
}

fn marks(site: &Site) -> Vec<String> {
    let found = site.json("/api/v1/annotations?tag=release");
    let rows = found["rows"].as_array().unwrap().iter();
    rows.map(|row| row["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_slow_release_is_marked_and_named_over_a_restart_and_a_good_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_SECS * 1_000));
    let here = start(dir.path(), &clock);
    let site = &here.site;
    assert_eq!(site.json(ALL), json!({"tag": null, "rows": []}));
    assert_has!(site.get("/releases").body => "No request names its release");
    let empty = site.get("/").body;
    assert_lacks!(empty => "/releases"; "nothing, when there is nothing");
    assert_has!(empty => "All requests, last ", ", since the start<");
    let report = "/api/v1/reports/report_by_release";
    site.get(report).problem(404);

    // The first requests with the tag make the report, and are counted too.
    let mut first = request("h", "s", "/checkout");
    first.add_tag("release", "1.0");
    let mut sender = Sender::new(site);
    (0..25).for_each(|_| sender.send(&first.encode_to_vec()));
    sender.at_rest();
    await_until("the tag is found", || site.json(ALL), |it| it["tag"] == "release");
    assert_eq!(site.json(report)["rows"][0]["tag_release"], "1.0");
    site.delete(report).problem(409);
    pass(site, &clock, WINDOW * 1_000);
    for _ in 0..17 {
        window(&here, &clock, "1.0", 30, 0.2);
    }
    // The first release has none to be compared with.
    let all = await_until(
        "it is counted",
        || site.json(ALL),
        |it| it["rows"][0]["requests"] == 25 + 17 * 60,
    );
    let row = &all["rows"][0];
    assert_members!(row => {"verdict": null, "share": 1.0, "first_seen": START_SECS});
    let began = clock.unix_ms() / 1_000;
    window(&here, &clock, "1.1", 120, 0.25);
    let slow = judged(site, "1.1");
    let verdict = &slow["verdict"];
    assert_members!(verdict => {"result": "slower", "against": "1.0", "at": began + WINDOW});
    let findings = verdict["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{slow}");
    assert_members!(findings[0] => {"script": "/checkout", "what": "slower"});
    let ratio = findings[0]["after"].as_f64().unwrap() / findings[0]["before"].as_f64().unwrap();
    assert!((1.2..1.3).contains(&ratio), "{slow}");
    let text = verdict["text"].as_str().unwrap();
    assert!(text.starts_with("slower: /checkout +2"), "{text}");
    // At the same mix: half of /checkout, which went from 0.2 s to 0.25 s, and half of /search.
    let [before, after] = [0, 1].map(|at| verdict["same_mix_p50"][at].as_f64().unwrap());
    assert!((0.25..0.30).contains(&before) && after > 1.05 * before, "{slow}");
    let p95 = [0, 1].map(|at| verdict["same_mix_p95"][at].as_f64().unwrap());
    assert!(p95.into_iter().all(|it| (0.34..0.42).contains(&it)), "{slow}");
    assert_has!(site.get("/releases").body => " on average; p50 ", "; p95 ");
    assert_members!(slow => {"first_seen": began, "requests": 240});
    assert_eq!(
        await_until("it is marked", || marks(site), |it| it.len() > 1),
        ["Release 1.1", "Release 1.0"]
    );
    let page = site.get("/releases").body;
    assert_has!(page => "1.1 after 1.0", "script_name=%2Fcheckout");
    let overview = await_until(
        "it is on the overview",
        || site.get("/").body,
        |it| it.contains("Release 1.1"),
    );
    assert_has!(overview => "slower: /checkout +2");
    #[cfg(feature = "sql")]
    assert_eq!(
        site.sql("SELECT `release`, verdict, against, requests, p95 > 0.2 FROM releases ORDER BY first_seen"),
        json!([["1.0", null, null, 1045, 1], ["1.1", "slower", "1.0", 240, 1]])
    );
    here.stop();

    let here = start(dir.path(), &clock);
    let site = &here.site;
    let [again, slow] = [judged(site, "1.1"), slow].map(|mut row| {
        // Known some seconds later.
        row.as_object_mut().unwrap().remove("running_since");
        row
    });
    assert_eq!(again, slow);
    // Its windows go on where they were.
    for _ in 0..17 {
        window(&here, &clock, "1.1", 30, 0.25);
    }
    window(&here, &clock, "1.2", 120, 0.25);
    let same = judged(site, "1.2");
    let verdict = &same["verdict"];
    assert_members!(verdict => {"result": "no notable change", "findings": [], "tests": 2});
    let seen = verdict["smallest_seen"].as_f64().unwrap();
    assert!((0.1..0.2).contains(&seen), "{same}");
    window(&here, &clock, "1.3", 12, 0.5);
    let few = judged(site, "1.3");
    assert_eq!(few["verdict"]["result"], "not enough to judge", "{few}");
    let known = ["Release 1.3", "Release 1.2", "Release 1.1", "Release 1.0"];
    assert_eq!(await_until("all are marked", || marks(site), |it| it.len() > 3), known);
    here.stop();
}

#[test]
fn a_tag_that_is_preferred_to_the_one_in_use_is_told_of_once() {
    let program = Program::serve(&[r#"releases.tag=["release", "version"]"#]);
    let site = &program.site;
    let tagged = |tag: &str| {
        let mut packet = request("h", "s", "/a");
        packet.add_tag(tag, "1.0");
        packet
    };
    let warnings = || {
        let log = program.log();
        let told = log.iter().filter(|line| line["in_use"] == "version");
        told.map(|line| format!("{} {}", line["level"], line["tag"])).collect::<Vec<_>>()
    };
    site.send([tagged("version")]);
    await_until("a tag is found", || site.json(ALL), |it| it["tag"] == "version");
    assert!(warnings().is_empty());
    site.send([tagged("release")]);
    let told = await_until("the log has it", warnings, |it| !it.is_empty());
    assert_eq!(told, [r#""WARN" "release""#]);
    assert_eq!(site.json(ALL)["tag"], "version");
}
