//! Raw requests of the past over HTTP and SQL, by curl's and by MySQL's means: each is found once
//! at any moment, in memory, in pieces and in files, over restarts; conditions, orders and pages
//! are a recount of what was sent.

use std::collections::BTreeSet;

use pinbad::clock::{Clock as _, ManualClock};
use prost::Message as _;
use serde_json::{Value as Json, json};

use crate::harness::{Here, Sender, Site, await_condition};
use crate::mysql::tools::{fine, tool};
use crate::packets::request;
use crate::page::{links, rows};

/// 2024-02-28 22:50:00 UTC.
const START_SECS: u64 = 1_709_160_600;

/// A request that was sent: its script is its number.
#[derive(Debug, Clone)]
struct Sent {
    number: u64,
    secs: u64,
    host: &'static str,
    us: u64,
    run: u64,
}

/// What is kept of raw requests, as `history.requests` says, and room for them.
fn settings(keep: &'static str) -> [&'static str; 4] {
    [keep, "mysql.listen=127.0.0.1:0", "pool.request_pool_size=20000", "pool.stats_history=1h"]
}

fn send(here: &Here, clock: &ManualClock, run: u64, count: u64, sent: &mut Vec<Sent>) {
    let mut sender = Sender::new(&here.site);
    let secs = clock.unix_ms() / 1_000;
    for _ in 0..count {
        let number = sent.len() as u64;
        let host = ["web1", "web2", "web3"][(number * 7 % 11 % 3) as usize];
        let us = 1_000 + number * 104_729 % 2_000_000;
        let mut packet = request(host, "shop", &number.to_string());
        packet.request_time = Some(us as f32 / 1e6);
        if number.is_multiple_of(5) {
            packet.tag_name.clear();
            packet.tag_value.clear();
        }
        sender.send(&packet.encode_to_vec());
        let us = (f64::from(us as f32 / 1e6) * 1e6).round_ties_even() as u64;
        sent.push(Sent { number, secs, host, us, run });
    }
    sender.at_rest();
}

fn of_history(site: &Site, name: &str) -> u64 {
    site.json("/api/v1/status")["history"][name].as_u64().unwrap()
}

fn scripts(answer: &Json) -> Vec<u64> {
    let rows = answer["rows"].as_array().unwrap().iter();
    rows.map(|row| row["script_name"].as_str().unwrap().parse().unwrap()).collect()
}

fn numbers<'a>(sent: impl Iterator<Item = &'a Sent>) -> Vec<u64> {
    let mut numbers: Vec<u64> = sent.map(|it| it.number).collect();
    numbers.sort_unstable();
    numbers
}

fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}

/// Everything that was sent is found, once, by every way.
fn check(here: &Here, clock: &ManualClock, sent: &[Sent]) {
    let site = &here.site;
    let to = clock.unix_ms() / 1_000 + 1;
    let all = numbers(sent.iter());
    let total = sent.len();
    let rows = site.sql(
        "SELECT COUNT(*), COUNT(DISTINCT script_name), COUNT(DISTINCT CONCAT(run, '-', id)), SUM(weight) FROM history.request",
    );
    assert_eq!(rows, json!([[total, total, total, total]]));
    let tagged = sent.iter().filter(|it| !it.number.is_multiple_of(5)).count();
    let counts =
        "SELECT (SELECT COUNT(*) FROM history.timer), (SELECT COUNT(*) FROM history.request_tag)";
    assert_eq!(site.sql(counts), json!([[2 * total, tagged]]));
    // Pages, the newest first.
    let mut found = Vec::new();
    let mut page = format!("/api/v1/requests?from={START_SECS}&to={to}&limit=37");
    let first = page.clone();
    loop {
        let answer = site.json(&page);
        let rows = answer["rows"].as_array().unwrap();
        found.extend(
            rows.iter().map(|row| row["timestamp"].as_u64().unwrap()).zip(scripts(&answer)),
        );
        match answer["next_before"].as_str() {
            Some(next) => page = format!("{first}&before={next}"),
            None => break,
        }
    }
    assert!(found.is_sorted_by(|a, b| a.0 >= b.0));
    assert_eq!(sorted(found.into_iter().map(|it| it.1).collect()), all);
    // The slowest of a host.
    let mut slowest: Vec<&Sent> = sent.iter().filter(|it| it.host == "web2").collect();
    slowest.sort_by_key(|it| std::cmp::Reverse(it.us));
    slowest.truncate(10);
    let slowest: Vec<f64> = slowest.iter().map(|it| it.us as f64 / 1e6).collect();
    let times = |answer: &Json| -> Vec<f64> {
        let rows = answer["rows"].as_array().unwrap().iter();
        rows.map(|row| row["req_time"].as_f64().unwrap()).collect()
    };
    let answer =
        site.json(&format!("{first}&sort=-req_time&hostname=web2").replace("limit=37", "limit=10"));
    assert_eq!(times(&answer), slowest, "{}", answer["partial"]);
    let by_sql = "SELECT req_time FROM history.request WHERE hostname = 'web2' ORDER BY req_time DESC LIMIT 10";
    for (row, secs) in site.sql(by_sql).as_array().unwrap().iter().zip(&slowest) {
        assert!((row[0].as_f64().unwrap() - secs).abs() < 1e-6, "{row} {secs}");
    }
    // Conditions.
    let middle = sent[total / 2].secs;
    let all_of = |query: &str| {
        scripts(&site.json(&format!("/api/v1/requests?limit=0&from={START_SECS}&to={to}&{query}")))
    };
    for (query, condition) in cases![
        "min_time=1&hostname=web1" =>
            Box::new(|it: &Sent| it.us >= 1_000_000 && it.host == "web1") as Box<dyn Fn(&Sent) -> bool>;
        "tag.env=test" => Box::new(|it: &Sent| !it.number.is_multiple_of(5));
        "tag.env=tes" => Box::new(|_: &Sent| false);
        "tags_cnt=0&status=200&timers_cnt=2" => Box::new(|it: &Sent| it.number.is_multiple_of(5));
        "schema=" => Box::new(|_: &Sent| true);
        "script_name=7" => Box::new(|it: &Sent| it.number == 7);
        &format!("since={middle}") => Box::new(|it: &Sent| it.secs >= middle);
    ] {
        let expected = numbers(sent.iter().filter(|it| condition(it)));
        assert_eq!(sorted(all_of(query)), expected, "{query}");
    }
    let before = format!("/api/v1/requests?limit=0&from={START_SECS}&to={middle}");
    if middle > START_SECS {
        let expected = numbers(sent.iter().filter(|it| it.secs < middle));
        assert_eq!(sorted(scripts(&site.json(&before))), expected);
    }
    for (condition, expected) in [
        (
            format!("time < FROM_UNIXTIME({middle})"),
            sent.iter().filter(|it| it.secs < middle).count(),
        ),
        (
            format!("timestamp >= {middle} AND hostname <> 'web1'"),
            sent.iter().filter(|it| it.secs >= middle && it.host != "web1").count(),
        ),
    ] {
        let count = format!("SELECT COUNT(*) FROM history.request WHERE {condition}");
        assert_eq!(site.sql(&count), json!([[expected]]), "{condition}");
    }
    // One of each run, in full.
    let newest = site.json(
        &format!("/api/v1/requests?limit=0&from={START_SECS}&to={to}&timers=1")
            .replace("limit=0", "limit=500"),
    );
    let rows = newest["rows"].as_array().unwrap();
    for row in rows.iter().step_by(97) {
        let (run, id) = (&row["run"], &row["id"]);
        let one = site.json(&format!("/api/v1/requests/{id}?run={run}"));
        assert_eq!((&one["script_name"], &one["run"]), (&row["script_name"], run));
        assert_eq!(one["timers"], row["timers"]);
        assert_eq!(one["timers"][0]["tags"], json!({"group": "db", "op": "read"}), "{one}");
        let number: u64 = row["script_name"].as_str().unwrap().parse().unwrap();
        assert_eq!(sent[number as usize].run, run.as_u64().unwrap());
        let tags = if number.is_multiple_of(5) { json!({}) } else { json!({"env": "test"}) };
        assert_eq!(one["tags"], tags);
    }
}

/// The pages show the same, and lead from one to the other.
fn check_pages(here: &Here, clock: &ManualClock, sent: &[Sent]) {
    let to = clock.unix_ms() / 1_000 + 1;
    let span = format!("from={START_SECS}&to={to}");
    let page = |target: &str| {
        let answer = here.site.get(target);
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        answer.body
    };
    let links = |page: &str, path: &str| -> Vec<String> {
        let of_path = links(page).into_iter();
        of_path.filter(|link| link.starts_with(path)).collect()
    };
    let slowest = sent.iter().filter(|it| it.host == "web2");
    let slowest = slowest.max_by_key(|it| it.us).unwrap();
    let found = page(&format!("/requests?hostname=web2&order=slowest&limit=5&{span}"));
    let opened = links(&found, "/requests/");
    assert_eq!(opened.len(), 5, "{found}");
    assert_has!(opened[0] => format!("?run={}&{span}", slowest.run));
    let one = page(&opened[0]);
    assert_has!(one => format!("<h1><bdi>{}</bdi></h1>", slowest.number), "read");
    assert_lacks!(one => "Represents");
    // All of them, page by page.
    let mut next = format!("/requests?limit=100&{span}");
    let mut count = 0;
    loop {
        let found = page(&next);
        count += links(&found, "/requests/").len();
        let mut older = links(&found, "/requests?").into_iter();
        match older.find(|link| link.contains("&before=")) {
            Some(older) => next = older,
            None => break,
        }
    }
    assert_eq!(count, sent.len());
    let row = format!("/reports/report_by_script_name/row?script_name=7&{span}");
    assert_eq!(links(&page(&row), "/requests/").len(), 1);
}

#[test]
fn every_request_is_found_once_at_any_moment() {
    let (mut here, clock, dir) =
        Here::with_own_history(START_SECS, &settings("history.requests=all"));
    let mut sent = Vec::new();
    for run in 1..=2 {
        let mut before = sent.len();
        for step in 0..3 {
            send(&here, &clock, run, 60, &mut sent);
            check(&here, &clock, &sent);
            clock.advance_ms(20_000);
            send(&here, &clock, run, 40, &mut sent);
            // Some of it is on disk now.
            let of_run = (sent.len() - before) as u64;
            await_condition("all is kept", || {
                clock.advance_ms(1_000);
                match of_history(&here.site, "raw_requests_kept") {
                    kept if kept == of_run => Ok(()),
                    kept => Err((kept, of_run)),
                }
            });
            check(&here, &clock, &sent);
            if step == 1 {
                // The hour is over.
                clock.advance_ms(3_800_000);
                await_condition("all is published", || {
                    clock.advance_ms(300);
                    match of_history(&here.site, "raw_pieces_pending") {
                        0 => Ok(()),
                        pieces => Err(pieces),
                    }
                });
                check(&here, &clock, &sent);
                check_pages(&here, &clock, &sent);
            }
        }
        here.stop();
        before = sent.len();
        here = Here::with_history(dir.path(), &clock, &settings("history.requests=all"));
        check(&here, &clock, &sent);
        assert_eq!(before, sent.len());
    }
    let site = &here.site;
    // Ids begin anew with a run, and each names its own.
    let of = |run: u64| site.json(&format!("/api/v1/requests/1?run={run}"))["script_name"].clone();
    assert_eq!((of(1), of(2)), (json!("0"), json!("300")));
    for (target, status) in [
        ("/api/v1/requests/1?run=7", 404),
        ("/api/v1/requests/100000?run=1", 404),
        ("/api/v1/requests?sort=-req_time", 400),
        ("/api/v1/requests?from=-1d&before_id=7", 400),
        ("/api/v1/requests?from=-1d&before=7", 400),
    ] {
        site.get(target).problem(status);
    }
    // MySQL's client.
    let ask =
        |text: &str| fine(tool("mariadb", site.mysql.unwrap()).args(["history", "-e", text])).out;
    assert_eq!(
        ask(
            "SELECT COUNT(*) AS n, MIN(run) AS a, MAX(run) AS b, SUM(weight) AS w FROM request WHERE time >= '2024-02-28'"
        ),
        "n\ta\tb\tw\n600\t1\t2\t600\n"
    );
    let described = ask("DESCRIBE request");
    for line in [
        "req_time\tfloat\tYES",
        "run\tbigint",
        "weight\tdouble",
        "time\tdatetime",
        "timestamp\tint",
    ] {
        assert_has!(described => format!("\n{line}"); "{line}");
    }
    let tables = ask("SHOW TABLES");
    assert!(
        ["request", "timer", "request_tag"]
            .iter()
            .all(|name| tables.contains(&format!("\n{name}\n")))
    );
    let columns = "SELECT COUNT(*) AS n FROM information_schema.columns WHERE table_schema = 'history' AND table_name = 'timer'";
    assert_eq!(ask(columns), "n\n11\n");
    let joined = "SELECT t.tags, t.value, t.hit_count FROM request r JOIN timer t ON t.run = r.run AND t.request_id = r.id \
                  WHERE r.script_name = '301' ORDER BY t.id";
    assert_eq!(
        ask(joined),
        "tags\tvalue\thit_count\n{\"group\":\"db\",\"op\":\"read\"}\t0.25\t2\n{\"group\":\"cache\"}\t0.5\t1\n"
    );
    here.stop();
}

/// The pool alone had them so far.
#[test]
fn a_reset_takes_no_raw_request_from_history() {
    let (here, clock, _dir) =
        Here::with_own_history(START_SECS, &settings("history.requests=tail"));
    let mut sent = Vec::new();
    send(&here, &clock, 1, 60, &mut sent);
    assert_eq!(here.site.post("/api/v1/reset", "").status, 200);
    assert_eq!(here.site.sql("SELECT COUNT(*) FROM request"), json!([[0]]));
    let kept = "SELECT COUNT(*), SUM(weight) FROM history.request";
    assert_eq!(here.site.sql(kept), json!([[60, 60]]));
    assert_eq!(here.site.sql("SELECT COUNT(*) FROM history.timer"), json!([[120]]));
    here.stop();
}

/// Their seconds never run backwards, so a span does not have them.
#[test]
fn after_a_clock_that_was_ahead_answers_name_the_second_of_requests() {
    let (here, clock, _dir) = Here::with_own_history(START_SECS, &settings("history.requests=all"));
    let url = format!("/api/v1/requests?from={START_SECS}&to={}", START_SECS + 20);
    let mut sent = Vec::new();
    send(&here, &clock, 1, 1, &mut sent);
    let answer = here.site.json(&url);
    assert_eq!(scripts(&answer), [0]);
    assert_lacks!(answer["partial"].to_string() => "ahead");
    clock.set_unix_ms((START_SECS + 40 * 86_400) * 1_000);
    send(&here, &clock, 1, 1, &mut sent);
    clock.set_unix_ms((START_SECS + 10) * 1_000);
    send(&here, &clock, 1, 1, &mut sent);
    let answer = here.site.json(&url);
    assert_eq!(scripts(&answer), [0]);
    assert_has!(answer["partial"].to_string() => "the clock was ahead", "2024-04-08T22:50:00Z");
    here.stop();
}

#[test]
fn weights_of_a_sample_say_how_many_there_were() {
    let (here, clock, _dir) =
        Here::with_own_history(START_SECS, &settings("history.requests=tail"));
    here.site.send((0..9_000_u32).map(|number| {
        let mut packet = request("web", "shop", ["/a", "/b"][(number % 2) as usize]);
        packet.request_time = Some(number as f32 / 1e4);
        packet.add_timer(1, 0.125, &[("group", "db")]);
        packet
    }));
    let site = &here.site;
    let check = || {
        let weight = site.sql("SELECT SUM(weight) FROM history.request");
        assert!((weight[0][0].as_f64().unwrap() - 9_000.0).abs() < 1e-6, "{weight}");
        let to = clock.unix_ms() / 1_000 + 1;
        let answer = site.json(&format!("/api/v1/requests?limit=0&from={START_SECS}&to={to}"));
        let rows = answer["rows"].as_array().unwrap();
        let weights = rows.iter().map(|row| row["weight"].as_f64().unwrap());
        assert!((weights.sum::<f64>() - 9_000.0).abs() < 1e-6);
        let partial = answer["partial"].to_string();
        let is_said = partial.contains("a sample is kept");
        assert_eq!(is_said, rows.len() < 9_000, "{partial}");
        let ids: BTreeSet<u64> = rows.iter().map(|row| row["id"].as_u64().unwrap()).collect();
        assert_eq!(ids.len(), rows.len());
        rows.len()
    };
    await_condition("a sample of them is kept", || match check() {
        9_000.. => Err(()),
        _ => Ok(()),
    });
    await_condition("it is written", || {
        clock.advance_ms(1_000);
        match of_history(site, "raw_requests_kept") {
            0 => Err(check()),
            _ => Ok(()),
        }
    });
    check();
    // The slowest stand for themselves; others of the span were left out all the same.
    let to = clock.unix_ms() / 1_000 + 1;
    let slowest = format!("/api/v1/requests?limit=2&sort=-req_time&from={START_SECS}&to={to}");
    let slowest = site.json(&slowest);
    assert_eq!(slowest["rows"][1]["weight"], 1.0);
    assert_has!(slowest["partial"].to_string() => "a sample is kept");
    // Timers count as often as their requests, and so are estimates: of both halves, and of a row.
    let span = format!("from={START_SECS}&to={}", clock.unix_ms() / 1_000 + 1);
    let page = site.get(&format!("/timers?by=script_name&{span}")).body;
    assert_has!(page => "raw requests that are kept, standing for about 9,000, 20");
    let hits = rows(&page, 1).into_iter().map(|row| row[7].replace(',', "").parse::<u32>());
    let hits: Vec<u32> = hits.map(Result::unwrap).collect();
    assert!(hits.len() == 2 && hits.iter().all(|hits| hits % 100 == 0), "{hits:?}");
    let row = format!("/reports/report_by_script_name/row?script_name=%2Fa&{span}");
    for page in [format!("/?{span}"), row] {
        assert_has!(site.get(&page).body => ", standing for about ");
    }
    here.stop();
}
