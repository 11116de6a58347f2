//! Raw timers of the past by any tags, and requests of the past by their tags, whatever those
//! contain: on pages that show what the same pages showed while all was in memory.

use pinbad::clock::{Clock as _, ManualClock};
use pinbad::input::pinba::model::Request;

use crate::harness::{Here, Site, await_condition, await_until, pass};
use crate::packets::request;
use crate::page::{links, rows};

/// 2024-02-28 22:50:00 UTC.
const START_SECS: u64 = 1_709_160_600;
const SPAN: &str = "from=1709160600&to=1709161200";

/// Tags that could be read in two ways, and a search for each.
const TAGS: [(&str, &str, &str); 5] = [
    ("a", "1", "tag.a=1"),
    ("a", "1,b=2", "tag.a=1%2Cb%3D2"),
    ("b", "2", "tag.b=2"),
    ("a=b", "c", "tag.a%3Db=c"),
    ("a", "b=c", "tag.a=b%3Dc"),
];

fn send(here: &Here) {
    here.site.send((0..300_u32).map(|number| {
        let host = ["web1", "web2", "web3"][(number % 3) as usize];
        let mut packet = request(host, "shop", &format!("/{}.php", number % 7));
        packet.request_time = Some(number as f32 / 64.0);
        let value = f32::from((number * 37 % 101) as u16) / 1024.0;
        let op = format!("op{}", number % 5);
        packet.add_timer(number % 4 + 1, value, &[("group", "db"), ("op", &op)]);
        let (name, tag, _) = TAGS[(number % 5) as usize];
        packet.add_tag(name, tag);
        packet
    }));
}

/// The tables of a page, and the addresses of its requests.
fn shown(site: &Site, target: &str) -> (Vec<Vec<Vec<String>>>, Vec<String>) {
    let answer = site.get(target);
    assert_eq!(answer.status, 200, "{target}: {}", answer.body);
    let tables = answer.body.matches("<table").count();
    let tables = (1..=tables).map(|table| rows(&answer.body, table));
    let mut links = links(&answer.body);
    links.retain(|link| link.starts_with("/requests/"));
    (tables.collect(), links)
}

#[test]
fn timers_and_tags_of_the_past_are_those_that_were_sent() {
    let (here, clock, _dir) =
        Here::with_own_history(START_SECS, &["history.requests=all", "pool.stats_history=1h"]);
    send(&here);
    let site = &here.site;
    let mut targets = [
        "/timers?by=group",
        "/timers?by=group,op&sort=-hits&limit=100",
        "/timers?by=script_name,status&t.group=db",
        "/timers?by=%2Ba,%2Benv,hostname&min_time=1",
        "/timers?by=op&hostname=web2&t.group=cache",
        "/timers?by=group&script_name=/nowhere.php",
    ]
    .map(str::to_owned)
    .to_vec();
    targets.extend(TAGS.map(|(.., search)| format!("/timers?by=group&{search}")));
    let live: Vec<_> = targets.iter().map(|target| shown(site, target)).collect();
    let found: Vec<_> = TAGS
        .iter()
        .map(|(.., search)| site.json(&format!("/api/v1/requests?limit=0&{search}")))
        .collect();
    let check = |step: &str| {
        for (target, (tables, links)) in targets.iter().zip(&live) {
            let (of_past, of_run) = shown(site, &format!("{target}&{SPAN}"));
            assert_eq!(of_past, *tables, "{step}: {target}");
            for (link, live) in of_run.iter().zip(links) {
                assert!(link.starts_with(&format!("{live}?run=1")), "{link} {live}");
            }
        }
        for ((.., search), live) in TAGS.iter().zip(&found) {
            let past = site.json(&format!("/api/v1/requests?limit=0&{SPAN}&{search}"));
            let ids = |answer: &serde_json::Value| -> Vec<u64> {
                let rows = answer["rows"].as_array().unwrap().iter();
                let mut ids: Vec<_> = rows.map(|row| row["id"].as_u64().unwrap()).collect();
                ids.sort_unstable();
                ids
            };
            assert_eq!(ids(&past).len(), 60, "{step}: {search}");
            assert_eq!(ids(&past), ids(live), "{step}: {search}");
        }
    };
    let of_history = |name: &str| site.json("/api/v1/status")["history"][name].as_u64();
    check("in memory");
    await_condition("all is in a piece", || {
        clock.advance_ms(1_000);
        match of_history("raw_requests_kept") {
            Some(300) => Ok(()),
            other => Err(other),
        }
    });
    check("in a piece");
    clock.advance_ms(3_800_000);
    await_condition("all is published", || {
        clock.advance_ms(300);
        match of_history("raw_pieces_pending") {
            Some(0) => Ok(()),
            other => Err(other),
        }
    });
    check("in files");
    // A row's timers, long after they left the memory.
    let row = format!("/reports/report_by_script_name/row?script_name=/3.php&{SPAN}");
    let page = site.get(&row).body;
    assert_has!(page => "from all 43 raw requests that are kept and match");
    here.stop();
}

/// Requests of one second, each with many timers of a group.
fn send_second(here: &Here, clock: &ManualClock, group: &str, requests: u32) {
    here.site.send((0..requests).map(|number| {
        let mut packet = Request::named("web", "shop", format!("/{}.php", number % 7).as_str());
        packet.request_time = Some(0.125);
        for _ in 0..58 {
            packet.add_timer(1, 1.0 / 1024.0, &[("group", group)]);
        }
        packet
    }));
    pass(&here.site, clock, 1_000);
}

/// The shares of groups on the overview, percent, and on what they rest. The page that the heading
/// leads to has the same numbers.
fn shares(site: &Site, span: &str) -> (Vec<(String, f64)>, String) {
    let page = site.get(&format!("/?{span}")).body;
    let table = page.split("id=\"top-timers\"").nth(1).expect("there is a table");
    let table = table.split("</section>").next().unwrap();
    let rests_on = table.split("<small>").nth(1).unwrap();
    let rests_on = rests_on.split("</small>").next().unwrap().to_owned();
    let groups = rows(table, 1);
    let page = site.get(&format!("/timers?by=group&{span}")).body;
    let numbers = |rows: &[Vec<String>]| rows.iter().map(|row| row[..3].to_vec()).collect();
    let [here, there]: [Vec<Vec<String>>; 2] = [&groups, &rows(&page, 1)].map(|it| numbers(it));
    assert_eq!(here, there);
    let shares = groups.into_iter().map(|row| {
        let share = row.iter().find_map(|cell| cell.strip_suffix(" %"));
        (row[0].clone(), share.unwrap().parse().unwrap())
    });
    let mut shares: Vec<(String, f64)> = shares.collect();
    shares.sort_by(|a, b| a.0.cmp(&b.0));
    (shares, rests_on)
}

#[test]
fn groups_of_a_span_rest_on_all_of_it() {
    let (here, clock, _dir) =
        Here::with_own_history(START_SECS, &["history.requests=all", "pool.stats_history=1h"]);
    let site = &here.site;
    // First one group, then the other, which fills all that one answer looks at.
    for _ in 0..5 {
        send_second(&here, &clock, "http", 200);
        clock.advance_ms(60_000);
    }
    for _ in 0..2 {
        send_second(&here, &clock, "mysql", 250);
    }
    let (first, rests_on) = shares(site, SPAN);
    for ((group, share), (expected, of_all)) in first.iter().zip([("http", 2.0), ("mysql", 1.0)]) {
        assert_eq!(group, expected);
        assert!((share - of_all * 100.0 / 3.0).abs() < 5.0, "{first:?}");
    }
    assert_eq!(first.len(), 2, "{first:?}");
    assert!(
        rests_on.ends_with(
            "raw requests that are kept, 2024-02-28 22:50 to 23:00 UTC; numbers are estimates"
        ),
        "{rests_on}"
    );
    let (_, all) = rests_on.split_once("of about ").unwrap();
    let all = all.split(' ').next().unwrap().replace(',', "");
    let all: u32 = all.parse().unwrap();
    assert!((1_350..=1_650).contains(&all), "{rests_on}");
    // Asked again, wherever the requests are by then, it is the same.
    assert_eq!(shares(site, SPAN).0, first);
    clock.advance_ms(3_800_000);
    await_condition("all is published", || {
        clock.advance_ms(300);
        let status = site.json("/api/v1/status");
        match status["history"]["raw_pieces_pending"].as_u64() {
            Some(0) => Ok(()),
            other => Err(other),
        }
    });
    assert_eq!(shares(site, SPAN).0, first);
    here.stop();
}

/// Where a sample is kept, numbers are estimates only if something was left out, whatever a
/// condition leaves of it; and a list of requests says that they are a sample only then.
#[test]
fn few_requests_are_no_sample() {
    let (here, clock, _dir) = Here::with_own_history(START_SECS, &["pool.stats_history=1h"]);
    send_second(&here, &clock, "http", 20);
    let page = |target: &str| here.site.get(&format!("{target}{SPAN}")).body;
    let targets =
        ["/timers?by=group&", "/timers?by=group&hostname=web&", "/requests?", "/requests?limit=2&"];
    assert_has!(page(targets[0]) => "1,160 timers of all 20 raw requests that are kept");
    for target in targets {
        assert_lacks!(page(target) => "only a sample is kept");
    }
    // More than there is room for, soon after the span: perhaps in the same flush.
    pass(&here.site, &clock, 1_000);
    let span = format!("from={START_SECS}&to={}", clock.unix_ms() / 1_000);
    pass(&here.site, &clock, 1_000);
    here.site.send((0..3_000).map(|_| Request::named("web", "shop", "/a.php")));
    for target in targets {
        await_condition(target, || {
            let page = here.site.get(&format!("{target}{span}")).body;
            if page.contains("only a sample is kept") { Ok(()) } else { Err(page) }
        });
    }
    here.stop();
}

#[test]
fn where_no_requests_are_kept_those_in_memory_are_shown() {
    let (here, _clock, _dir) =
        Here::with_own_history(START_SECS, &["history.requests=none", "pool.stats_history=1h"]);
    send(&here);
    let site = &here.site;
    let why = site.get(&format!("/api/v1/requests?{SPAN}")).problem(404);
    assert!(why.contains("history.requests"), "{why}");
    for target in ["/requests?limit=100", "/requests?order=slowest", "/timers?by=op"] {
        let past = shown(site, &format!("{target}&{SPAN}"));
        let (tables, links) = shown(site, target);
        assert_eq!(past.0, tables, "{target}");
        for (link, live) in past.1.iter().zip(links) {
            assert_eq!(*link, format!("{live}?{SPAN}"));
        }
        let other = site.get(&format!("{target}&from=1709150000&to=1709150600")).body;
        assert!(other.contains("in memory match"), "{other}");
    }
    here.stop();
}

#[test]
fn groups_of_the_live_page_rest_on_all_of_its_window() {
    let (here, clock, _dir) =
        Here::with_own_history(START_SECS, &["history.requests=none", "pool.stats_history=1h"]);
    let site = &here.site;
    // First one group, then the other: of 160,000 timers a page looks at 150,000.
    for _ in 0..5 {
        send_second(&here, &clock, "http", 400);
    }
    for _ in 0..2 {
        send_second(&here, &clock, "mysql", 400);
    }
    let (shares, rests_on) = shares(site, "");
    for ((group, share), (expected, of_all)) in shares.iter().zip([("http", 5.0), ("mysql", 2.0)]) {
        assert_eq!(group, expected);
        assert!((share - of_all * 100.0 / 7.0).abs() < 2.0, "{shares:?}");
    }
    assert!(
        rests_on.ends_with("of 2,800 raw requests in memory, last 7 s; numbers are estimates"),
        "{rests_on}"
    );
    // And the sums, of two digits, stand for all of them, as those of a report do: 400 * 58 ms times 5 and 2, in
    // steps of 1/1024 s.
    let page = site.get("/timers?by=group").body;
    let hits = |group: &str| {
        let row = rows(&page, 1).into_iter().find(|row| row[0] == group).unwrap();
        row[7].replace(',', "").parse::<f64>().unwrap()
    };
    for (group, sent) in [("http", 116_000.0), ("mysql", 46_400.0)] {
        assert!((hits(group) / sent - 1.0).abs() < 0.05, "{group}: {page}");
    }
    // A report of the same tag has counted them all.
    let form = r#"{"name": "by_group", "comment": "tag_info:group"}"#;
    assert_eq!(site.post("/api/v1/reports", form).status, 201);
    for target in ["/?", "/timers?by=group&", "/timers?by=group"] {
        let is_counted = |page: &String| page.contains("counted by by_group");
        await_until("the report is complete", || site.get(target).body, is_counted);
    }
    let said = self::shares(site, "").1;
    assert!(said.starts_with("by total time, counted by by_group, last "), "{said}");
    let page = site.get("/timers?by=group").body;
    let exact: Vec<String> = rows(&page, 1).into_iter().map(|row| row[7].clone()).collect();
    assert_eq!(exact, ["116,000", "46,400"]);
    assert!(rows(&page, 1).iter().all(|row| row[6] == "\u{2013}"), "the longest hit is not known");
    // It has counted no part of them.
    let part = site.get("/timers?by=group&script_name=/1.php").body;
    assert_has!(part => "raw requests in memory that match");
    here.stop();
}
