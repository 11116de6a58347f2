//! The past over HTTP: every span of a report is a recount of what was sent, before and after a
//! restart; what is compared, what charts show, what is said where nothing is kept. And what DuckDB
//! and pandas read from the files.

mod other_readers;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use chrono::DateTime;
use pinbad::clock::{Clock as _, ManualClock};
use prost::Message as _;
use serde_json::{Value as Json, json};

use crate::harness::{Here, Sender, Site, await_condition, await_until, pass, run};
use crate::packets::request;

pub(crate) use self::other_readers::python;

/// 2024-02-28 22:00:00 UTC: a leap day is near.
pub(crate) const START_SECS: u64 = 1_709_157_600;
const SCRIPTS: [&str; 4] = ["/a", "/b", "/c?x=%20&y", "/ä\"\\"];

/// A request that was sent.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    secs: u64,
    script: &'static str,
    us: u64,
}

pub(crate) fn start(dir: &Path, clock: &Arc<ManualClock>) -> Here {
    Here::with_history(dir, clock, &[])
}

/// Some requests now and then, for so many steps.
pub(crate) fn send(here: &Here, clock: &ManualClock, steps: u64, sent: &mut Vec<Sent>) {
    let mut sender = Sender::new(&here.site);
    for step in 0..steps {
        for number in 0..=step % 5 {
            let script = SCRIPTS[(step + number) as usize % SCRIPTS.len()];
            let us = 1_000 + (step * 7_919 + number * 104_729) % 2_000_000;
            let mut packet = request("h", "s", script);
            packet.request_time = Some(us as f32 / 1e6);
            packet.status = Some(if number == 3 { 500 } else { 200 });
            sender.send(&packet.encode_to_vec());
            let us = (f64::from(us as f32 / 1e6) * 1e6).round_ties_even() as u64;
            let secs = clock.unix_ms() / 1_000;
            sent.push(Sent { secs, script, us });
        }
        sender.at_rest();
        // Seconds first: what a minute was counted in is exact.
        pass(&here.site, clock, 1_000);
        pass(&here.site, clock, 1_000 * (29 + step % 7 * 600));
    }
}

pub(crate) fn ask(site: &Site, query: &str) -> Json {
    site.json(&format!("/api/v1/reports/report_by_script_name?{query}"))
}

/// By script: requests and microseconds.
fn sums(answer: &Json) -> BTreeMap<String, (u64, u64)> {
    let rows = answer["rows"].as_array().unwrap().iter();
    let sums = rows.map(|row| {
        let secs = row["req_time_total"].as_f64().unwrap();
        let sums = (row["req_count"].as_u64().unwrap(), (secs * 1e6).round() as u64);
        (row["script_name"].as_str().unwrap().to_owned(), sums)
    });
    sums.collect()
}

fn recount(sent: &[Sent], span: Range<u64>) -> BTreeMap<String, (u64, u64)> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for request in sent.iter().filter(|it| span.contains(&it.secs)) {
        let sum = sums.entry(request.script.to_owned()).or_default();
        *sum = (sum.0 + 1, sum.1 + request.us);
    }
    sums
}

/// Every span is a recount.
fn check(site: &Site, sent: &[Sent], now: u64) {
    let mut spans = vec![(START_SECS - 86_400, now), (START_SECS, START_SECS + 7_200)];
    for at in 0..12 {
        let from = START_SECS + at * 5_003;
        spans.push((from, from + 1 + at * at * 1_777));
    }
    for (from, to) in spans {
        let answer = ask(site, &format!("limit=0&from={from}&to={to}"));
        let member = |name: &str| answer[name].as_u64().unwrap();
        let span = member("from")..member("to");
        assert_eq!(span, from / 60 * 60..to.next_multiple_of(60), "{answer}");
        assert_eq!(sums(&answer), recount(sent, span.clone()), "{from} {to}");
        assert_eq!(member("window_seconds"), span.end - span.start);
        assert!(member("covered_seconds") <= span.end - span.start, "{answer}");
        let error = answer["percentile_error"].as_f64().unwrap();
        let coarse = member("resolution_seconds") > 60;
        assert_eq!(error, if coarse { 1.0 / 32.0 } else { 1.0 / 128.0 });
        for row in answer["rows"].as_array().unwrap() {
            let script = row["script_name"].as_str().unwrap();
            let of_row = sent.iter().filter(|it| it.script == script && span.contains(&it.secs));
            let mut times: Vec<u64> = of_row.map(|it| it.us).collect();
            times.sort_unstable();
            let sample = times[(times.len() / 2).max(1) - 1] as f64 / 1e6;
            let median = row["req_time_median"].as_f64().unwrap();
            assert!((median - sample).abs() <= sample * error + 1e-6, "{row} {sample}");
            let rate = row["req_per_sec"].as_f64().unwrap();
            let covered = member("covered_seconds").max(1) as f64;
            assert!((rate * covered - times.len() as f64).abs() < 1e-6, "{answer}");
        }
    }
}

#[test]
fn every_span_is_a_recount_of_what_was_sent() {
    let (here, clock, dir) = Here::with_own_history(START_SECS, &[]);
    let mut sent = Vec::new();
    send(&here, &clock, 60, &mut sent);
    pass(&here.site, &clock, 2_000);
    let now = || clock.unix_ms() / 1_000;
    let all = recount(&sent, 0..u64::MAX);
    await_until(
        "the last second is counted",
        || ask(&here.site, &format!("limit=0&from={START_SECS}")),
        |answer| sums(answer) == all,
    );
    check(&here.site, &sent, now());

    let site = &here.site;
    // Everything, and each of its columns.
    let info = site.json(&format!("/api/v1/info?from={START_SECS}"));
    assert_eq!(info["req_count"], sent.len());
    assert_eq!(info["resolution_seconds"].as_u64().unwrap() % 60, 0, "{info}");
    // In other columns.
    let ranked = ask(
        site,
        &format!(
            "from={START_SECS}&percentiles=95&columns=script_name,error_count,p95,req_time_max"
        ),
    );
    assert!(ranked["rows"][0]["p95"].is_number(), "{ranked}");
    // The longest time is not kept: a percentile that is it may read as the start of its bucket.
    let error = ranked["percentile_error"].as_f64().unwrap();
    assert!([1.0 / 64.0, 1.0 / 16.0].contains(&error), "{ranked}");
    // Of one request each percentile is its time, also where nothing but percentiles is asked for.
    let points = |metric: &str| -> Vec<Option<f64>> {
        let from = now() / 60 * 60 - 36_000;
        let target = format!("series?metric={metric}&script_name=/a&step=60&from={from}");
        let line = site.json(&format!("/api/v1/reports/report_by_script_name/{target}"));
        line["points"].as_array().unwrap().iter().map(Json::as_f64).collect()
    };
    let [count, p95, avg] = ["req_count", "p95", "time_avg"].map(points);
    let ones = || (0..count.len()).filter(|at| count[*at] == Some(1.0));
    assert!(ones().count() > 0, "{count:?}");
    for at in ones() {
        let off = p95[at].unwrap() - avg[at].unwrap();
        assert!(off.abs() < 1e-9, "{:?} {:?}", p95[at], avg[at]);
    }
    // Filters and formats are those of live reports.
    let one = ask(site, &format!("from={START_SECS}&script_name=/a"));
    assert_eq!(
        (one["total_rows"].as_u64(), one["rows"][0]["script_name"].as_str()),
        (Some(1), Some("/a"))
    );
    let csv = site.get(&format!(
        "/api/v1/reports/report_by_script_name?from={START_SECS}&format=csv&columns=req_count"
    ));
    assert!(csv.body.starts_with("req_count\r\n"), "{}", csv.body);
    // What was before anything is kept: that rows of days begin earlier changes nothing.
    await_condition("a day is published", || {
        let day = ask(site, &format!("from={}", START_SECS - 86_400));
        match day["resolution_seconds"].as_u64() {
            Some(86_400) => Ok(()),
            _ => Err(day),
        }
    });
    let early = ask(site, &format!("from={}&to={}", START_SECS - 7_200, START_SECS - 3_600));
    assert_eq!(early["rows"], json!([]));
    assert_has!(early["partial"][0].as_str().unwrap() =>
        "nothing is kept from before 2024-02-28T22:00:00Z");

    described(site);
    compared(site, &sent);
    drawn(site, &sent, now());

    here.stop();
    let here = start(dir.path(), &clock);
    check(&here.site, &sent, now());
    send(&here, &clock, 9, &mut sent);
    here.stop();
    let here = start(dir.path(), &clock);
    check(&here.site, &sent, now());
    here.stop();
}

/// The status has what the description says.
fn described(site: &Site) {
    let document = site.json("/api/v1/openapi.json");
    let schema = &document["components"]["schemas"]["HistoryStatus"]["properties"];
    let status = site.json("/api/v1/status");
    for member in status["history"].as_object().unwrap().keys() {
        assert!(schema.get(member).is_some(), "{member} is not described");
    }
    let schema = &document["components"]["schemas"]["Info"]["properties"];
    let span = format!("from={}&to={}", START_SECS - 7_200, START_SECS - 3_600);
    let nothing = site.json(&format!("/api/v1/info?{span}"));
    assert_eq!(nothing["req_count"], Json::Null, "{nothing}");
    for (column, value) in nothing.as_object().unwrap() {
        let kinds = schema[column]["type"].as_array();
        let may_be_null = kinds.is_some_and(|kinds| kinds.contains(&json!("null")));
        assert!(may_be_null || !value.is_null(), "{column}");
    }
}

/// An hour against the one before.
fn compared(site: &Site, sent: &[Sent]) {
    let from = START_SECS + 5 * 3_600;
    let span = from..from + 4 * 3_600;
    let query =
        format!("limit=0&from={}&to={}&compare=-4h&sort=-req_count_change", span.start, span.end);
    let answer = ask(site, &query);
    assert_eq!(
        (answer["compare_from"].as_u64(), answer["compare_to"].as_u64()),
        (Some(from - 4 * 3_600), Some(from))
    );
    let (now, before) = (recount(sent, span.clone()), recount(sent, from - 4 * 3_600..from));
    let rows = answer["rows"].as_array().unwrap();
    let mut last = f64::INFINITY;
    for row in rows {
        let script = row["script_name"].as_str().unwrap();
        let of = |sums: &BTreeMap<String, (u64, u64)>| sums.get(script).map(|sum| sum.0);
        assert_eq!(
            (row["req_count"].as_u64(), row["req_count_before"].as_u64()),
            (of(&now), of(&before)),
            "{row}"
        );
        let change = of(&now)
            .zip(of(&before))
            .map(|(now, before)| (now as f64 - before as f64) / before as f64);
        let shown = row["req_count_change"].as_f64();
        assert!(
            shown.zip(change).is_none_or(|(a, b)| (a - b).abs() < 1e-9)
                && shown.is_some() == change.is_some(),
            "{row}"
        );
        assert!(change.unwrap_or(f64::NEG_INFINITY) <= last, "{answer}");
        last = change.unwrap_or(f64::NEG_INFINITY);
        assert!(
            row.get("req_time_median_before").is_some() && row.get("script_name_before").is_none(),
            "{row}"
        );
    }
    let mut scripts: Vec<&String> = now.keys().chain(before.keys()).collect();
    scripts.sort();
    scripts.dedup();
    assert_eq!(rows.len(), scripts.len());
}

/// Charts of the past.
fn drawn(site: &Site, sent: &[Sent], now: u64) {
    for (step, script) in [(60, Some("/a")), (3_600, None), (86_400, Some("/b"))] {
        let from = START_SECS;
        let key = script.map(|script| format!("&script_name={script}")).unwrap_or_default();
        let from_asked = if step == 60 { now - 50 * 3_600 } else { from };
        let to = if step == 60 { from_asked + 40 * 3_600 } else { now };
        let target = format!(
            "/api/v1/reports/report_by_script_name/series?metric=req_count&step={step}&from={from_asked}&to={to}{key}"
        );
        let line = site.json(&target);
        assert_eq!(line["step"], step, "{line}");
        let recounted = |line: &Json, (from, points): (&str, &str), to: u64| {
            let begin = line[from].as_u64().unwrap();
            for (at, point) in line[points].as_array().unwrap().iter().enumerate() {
                let begin = begin + at as u64 * step;
                let span = begin..(begin + step).min(to.next_multiple_of(60));
                let is_it = |it: &&Sent| {
                    span.contains(&it.secs) && script.is_none_or(|script| script == it.script)
                };
                let count = sent.iter().filter(is_it).count() as f64;
                assert!(
                    point.as_f64().is_none_or(|point| point == count),
                    "{point} {count} at {begin}: {line}"
                );
                assert!(count == 0.0 || point.is_number(), "{line}");
            }
        };
        recounted(&line, ("from", "points"), to);
        // No multiple of an hour or a day, so the other line has steps of its own beginning.
        let compared = site.json(&format!("{target}&compare=90m"));
        assert_eq!(compared["points"], line["points"]);
        assert_eq!(compared["compare_to"], to - 5_400);
        recounted(&compared, ("compare_from", "points_before"), to - 5_400);
    }
    for from in [now, now + 60] {
        let target = format!("/api/v1/reports/report_by_script_name/series?from={from}");
        assert_eq!(site.json(&target)["points"], json!([]), "there is none yet");
    }
}

#[test]
fn what_is_not_kept_is_said() {
    let (here, _clock, _dir) = Here::with_own_history(START_SECS, &[]);
    for (report, query, status, said) in cases![
        "report_by_hostname_and_script" => "from=-1d", 404, "history.reports does not name it";
        "nope" => "from=-1d", 404, "no report";
        "status" => "from=-1d", 404, "status";
        "report_by_script_name" => "from=-1d&to=-2d", 400, "is not before to";
        "report_by_script_name" => "from=yesterday", 400, "RFC 3339";
        "report_by_script_name" => "from=-1d&tz=Mars", 400, "Europe/Berlin";
        "report_by_script_name" => "compare=-1d", 400, "needs from";
        "report_by_script_name" => "from=-1d&compare=x", 400, "-1w";
        "report_by_script_name/series" => "compare=-1d", 400, "needs from";
        "report_by_script_name" => "from=-1d&sort=req_count_change", 400, "there is no column";
    ] {
        let problem = here.site.get(&format!("/api/v1/reports/{report}?{query}")).problem(status);
        assert!(problem.contains(said), "{report} {query}: {problem}");
    }
    here.stop();
    let here = Here::start(&[]);
    let problem = here.site.get("/api/v1/reports/report_by_script_name?from=-1d").problem(404);
    assert_has!(problem => "--data DIR (data.dir) keeps it");
    here.site.get("/api/v1/info?from=-1d").problem(404);
    here.stop();
}

/// A process that ends within its first second covers none, but what it counted is there: the points
/// add up to the report, and have no rates.
#[test]
fn a_second_that_a_stop_cuts_short_has_its_requests() {
    let (here, clock, dir) = Here::with_own_history(START_SECS, &[]);
    here.site.send([request("h", "s", "/a"), request("h", "s", "/a")]);
    here.stop();
    clock.advance_ms(300_000);
    let here = Here::with_history(dir.path(), &clock, &[]);
    let span = format!("from={START_SECS}&to={}", START_SECS + 60);
    let point = |metric: &str| {
        let of = format!("metric={metric}&step=60&{span}");
        let line = here.site.json(&format!("/api/v1/reports/info/series?{of}"));
        assert_eq!(line["points"].as_array().unwrap().len(), 1, "{line}");
        line["points"][0].as_f64()
    };
    assert_eq!((point("req_count"), point("req_per_sec")), (Some(2.0), None));
    assert!(point("p50").is_some());
    assert_eq!(here.site.json(&format!("/api/v1/info?{span}"))["req_count"], 2);
    here.stop();
}

/// A past is kept of 64 reports. Those of the configuration come first; one that has lost its place
/// shows what it has.
#[test]
fn reports_without_a_place_say_so() {
    let state = tempfile::tempdir().unwrap();
    let state = format!("state.dir={}", state.path().display());
    let (here, clock, dir) = Here::with_own_history(START_SECS, &[&state]);
    let mut without = Vec::new();
    for number in 0..70 {
        let form =
            json!({"name": format!("r{number}"), "level": "request", "keys": ["script_name"]});
        let made = here.site.post("/api/v1/reports", &form.to_string()).json();
        let partial = made.get("partial").map(|it| it[0].as_str().unwrap().to_owned());
        match partial {
            Some(partial) => {
                assert_has!(partial => "64 reports are read second by second");
                without.push(number);
            }
            None => assert!(without.is_empty(), "{number}"),
        }
    }
    let first = without[0];
    assert_eq!(without, (first..70).collect::<Vec<_>>());
    let form = json!({"name": "off", "level": "request", "keys": ["hostname"], "history": false});
    here.site.post("/api/v1/reports", &form.to_string());
    let past = |here: &Here, name: &str| here.site.get(&format!("/api/v1/reports/{name}?from=-1d"));
    let count = |here: &Here, name: &str| {
        let past = past(here, name).json();
        let rows = past["rows"].as_array().unwrap().iter();
        (
            rows.map(|row| row["req_count"].as_u64().unwrap()).sum::<u64>(),
            past["partial"].to_string(),
        )
    };
    let mut sent = Vec::new();
    send(&here, &clock, 8, &mut sent);
    let last = format!("r{}", first - 1);
    await_until("all are there", || count(&here, &last).0, |count| *count == sent.len() as u64);
    for (name, why) in [
        (format!("r{first}"), "is not kept: 64 reports are read second by second"),
        ("off".to_owned(), "is not kept: it has history = false; it is kept of"),
        ("report_by_schema".to_owned(), "is not kept: history.reports does not name it; it is"),
    ] {
        assert_has!(past(&here, &name).problem(404) => why);
    }
    here.stop();

    let own: Vec<String> = (0..10)
        .map(|number| format!("{{name = \"own{number}\", comment = \"tag_info:a\"}}"))
        .collect();
    let own = format!("report=[{}]", own.join(", "));
    let here = Here::with_history(dir.path(), &clock, &[&state, &own]);
    assert_eq!(past(&here, "own9").status, 200);
    let (requests, partial) = count(&here, &last);
    assert_eq!(requests, sent.len() as u64);
    assert_has!(partial => "nothing is added now: 64 reports");
    let rows = here.site.sql(&format!("SELECT count(*) FROM history.{last}"));
    assert!(rows[0][0].as_u64() > Some(0), "{rows}");
    here.stop();
}

/// Days of a zone are those of its clocks; a report that is defined otherwise begins anew, says so,
/// and has its past again when it is defined as before. All of that before and after a restart.
#[test]
fn days_of_a_zone_and_definitions_that_change() {
    // 2024-03-30 22:30 UTC: half an hour before a day of 23 hours in Berlin.
    const BEGIN: u64 = 1711837800;
    const BERLIN: Range<u64> = BEGIN + 1_800..BEGIN + 1_800 + 23 * 3_600;
    let (mut here, clock, dir) = Here::with_own_history(BEGIN, &[]);
    let define = |site: &Site, least: &str| {
        site.delete("/api/v1/reports/slow");
        let filters = [format!("min_time={least}")];
        let form = json!({"name": "slow", "level": "request", "keys": ["script_name"], "filters": filters});
        let made = site.post("/api/v1/reports", &form.to_string());
        assert_eq!(made.status, 201, "{made:?}");
    };
    let mut sent = Vec::new();
    define(&here.site, "1");
    for hour in 0..27 {
        if hour == 12 {
            define(&here.site, "0.1");
        }
        let mut sender = Sender::new(&here.site);
        for number in 0..=hour % 4 {
            let mut packet = request("h", "s", "/a");
            packet.request_time = Some(if number == 0 { 1.5 } else { 0.125 });
            sender.send(&packet.encode_to_vec());
            let us = if number == 0 { 1_500_000 } else { 125_000 };
            let secs = clock.unix_ms() / 1_000;
            sent.push(Sent { secs, script: "/a", us });
        }
        sender.at_rest();
        pass(&here.site, &clock, 1_000);
        pass(&here.site, &clock, 3_599_000);
    }
    let day = "from=2024-03-31&to=2024-04-01&tz=Europe/Berlin&compare=-1d";
    let check = |site: &Site, least_us: u64, since: Range<u64>| {
        let all = ask(site, day);
        let member = |name: &str| all[name].as_u64().unwrap();
        assert_eq!(member("from")..member("to"), BERLIN);
        let before = member("compare_from")..member("compare_to");
        assert_eq!(before, BERLIN.start - 86_400..BERLIN.start, "{all}");
        assert_eq!(sums(&all), recount(&sent, BERLIN), "{all}");
        let slow = site.json(&format!("/api/v1/reports/slow?{day}"));
        let counted = sent.iter().filter(|it| it.us >= least_us);
        let counted: Vec<Sent> = counted.cloned().collect();
        let since = since.start.max(BERLIN.start)..since.end.min(BERLIN.end);
        assert_eq!(sums(&slow), recount(&counted, since), "{slow}");
        let partial = slow["partial"].to_string();
        assert!(partial.contains("another definition"), "{partial}");
    };
    let changed = BEGIN + 12 * 3_600;
    check(&here.site, 100_000, changed..u64::MAX);
    here.stop();
    here = start(dir.path(), &clock);
    define(&here.site, "0.1");
    check(&here.site, 100_000, changed..u64::MAX);
    define(&here.site, "1");
    check(&here.site, 1_000_000, 0..changed);
    here.stop();
}

#[test]
fn a_key_that_was_sent_as_other_has_a_row_of_its_own() {
    let (here, clock, _dir) = Here::with_own_history(START_SECS, &[]);
    let site = &here.site;
    const REPORTS: [(&str, &[&str]); 2] =
        [("pairs", &["hostname", "script_name"]), ("statuses", &["status", "script_name"])];
    for (name, keys) in REPORTS {
        let form = json!({"name": name, "level": "request", "keys": keys}).to_string();
        assert_eq!(site.post("/api/v1/reports", &form).status, 201);
    }
    pass(site, &clock, 1_000);
    let sent = [("h", "/a"), ("h", "(other)"), ("i", "(other)"), ("(other)", "/a")];
    let sent = sent.into_iter().chain([("(other)", "(other)")]);
    site.send(sent.map(|(host, script)| request(host, "s", script)));
    pass(site, &clock, 1_000);
    pass(site, &clock, 1_000);
    for (name, keys) in REPORTS {
        let rows = |query: &str| {
            let answer = site.json(&format!("/api/v1/reports/{name}?limit=0{query}"));
            let rows = answer["rows"].as_array().unwrap().iter();
            let rows = rows.map(|row| {
                let key = keys.iter().map(|key| row[*key].to_string());
                (key.collect(), row["req_count"].as_u64().unwrap())
            });
            rows.collect::<BTreeMap<Vec<String>, u64>>()
        };
        let live = rows("");
        assert_eq!(live.values().sum::<u64>(), 5);
        let past = format!("&from={START_SECS}");
        await_until("it is the same in the past", || rows(&past), |past| *past == live);
    }
    let row = "hostname=h&script_name=(other)&metric=req_count";
    for from in [START_SECS, START_SECS - 86_400] {
        let line = site.json(&format!("/api/v1/reports/pairs/series?{row}&from={from}"));
        let points = line["points"].as_array().unwrap().iter();
        assert_eq!(points.filter_map(Json::as_u64).sum::<u64>(), 1, "{line}");
    }
    here.stop();
}

/// A report that was made while the daemon ran has a past from then on, and says what it lacks.
#[test]
fn an_answer_says_for_how_long_a_report_was_not_there() {
    let (here, clock, _dir) = Here::with_own_history(START_SECS, &[]);
    let site = &here.site;
    pass(site, &clock, 1_000);
    pass(site, &clock, 20_000);
    let form = json!({"name": "late", "level": "request", "keys": ["hostname"]}).to_string();
    assert_eq!(site.post("/api/v1/reports", &form).status, 201);
    pass(site, &clock, 1_000);
    site.send([request("h", "s", "/a")]).assert_accounted();
    pass(site, &clock, 10_000);
    pass(site, &clock, 1_000);
    let ask = |report: &str| site.json(&format!("/api/v1/reports/{report}?from={START_SECS}"));
    let asked = || ["report_by_hostname", "late"].map(ask);
    let [all, _] = await_until("both have a past", asked, |[all, late]| {
        let [whole, part] = [all, late].map(|it| it["covered_seconds"].as_u64().unwrap());
        let without = whole.saturating_sub(part);
        let lacks = format!("for {without} s the daemon ran without this report");
        part > 9 && without > 9 && late["partial"].to_string().contains(&lacks)
    });
    assert_lacks!(all["partial"].to_string() => "without");
    here.stop();
}
