//! Pages over a span of the past: their numbers are those of the API, every link keeps the time,
//! what is lacking is said.

use pinbad::clock::Clock as _;
use prost::Message as _;
use serde_json::Value as Json;

use crate::harness::{Here, Sender, Site, await_condition, pass};
use crate::packets::request;
use crate::page::{links, rows};
use crate::past::{START_SECS, ask, send};

const REPORT: &str = "/reports/report_by_script_name";

fn page(site: &Site, target: &str) -> String {
    let reply = site.get(target);
    assert_eq!(reply.status, 200, "{target}: {}", reply.body);
    reply.body
}

/// Names and counts of the first table of a page.
fn counts(page: &str) -> Vec<(String, String)> {
    let rows = rows(page, 1).into_iter();
    let name = |text: &str| text.replace("&quot;", "\"").replace("&amp;", "&");
    rows.map(|row| (name(&row[0]), row[1].clone())).collect()
}

fn count(row: &Json, column: &str) -> String {
    row[column].as_u64().unwrap_or_default().to_string()
}

#[test]
fn pages_show_what_the_api_answers() {
    let (here, clock, _dir) = Here::with_own_history(START_SECS, &[]);
    let mut sent = Vec::new();
    send(&here, &clock, 30, &mut sent);
    pass(&here.site, &clock, 2_000);
    let site = &here.site;
    await_condition("the last second is counted", || {
        let answer = site.json(&format!("/api/v1/info?from={START_SECS}"));
        match answer["req_count"].as_u64() {
            Some(count) if count == sent.len() as u64 => Ok(()),
            _ => Err(answer),
        }
    });
    let now = clock.unix_ms() / 1_000;
    for (from, to) in [(START_SECS, now), (START_SECS + 3_600, START_SECS + 9_000)] {
        let span = format!("from={from}&to={to}");
        let answer =
            ask(site, &format!("{span}&sort=-req_count,-req_time_total&percentiles=95,99"));
        let expected = answer["rows"].as_array().unwrap();
        let table = page(site, &format!("{REPORT}?{span}&sort=-req_count"));
        let shown = counts(&table);
        assert_eq!(shown.len(), expected.len());
        for (row, (script, requests)) in expected.iter().zip(&shown) {
            assert_eq!(row["script_name"], script.as_str(), "{answer}");
            assert_eq!(&count(row, "req_count"), requests, "{answer}");
        }
        // Parts of it: found, a page of it.
        let part = page(site, &format!("{REPORT}?{span}&script_name=%2Fa"));
        assert_eq!(counts(&part).len(), 1);
        let second = page(site, &format!("{REPORT}?{span}&sort=-req_count&limit=1&offset=1"));
        assert_eq!(counts(&second)[..], shown[1..2]);
        let own = page(site, &format!("{REPORT}?{span}&view=own&sort=-req_count"));
        assert_eq!(rows(&own, 1).len(), shown.len());

        let row = page(site, &format!("{REPORT}/row?script_name=%2Fa&{span}"));
        let of_row = expected.iter().find(|row| row["script_name"] == "/a").unwrap();
        let requests = count(of_row, "req_count");
        let ending = if requests == "1" { "" } else { "s" };
        let all = format!("<span class=\"legend\">{requests} request{ending}<");
        assert!(row.contains(&all), "{all}");
        assert_eq!(row.matches("class=\"plot\"").count(), 4);
        let overview = page(site, &format!("/?{span}"));
        assert!(overview.contains("Takes the most time"));
        // The line of all requests is that of `/series`.
        let picture = page(site, &format!("/reports/info/traffic.svg?{span}"));
        assert!(picture.contains("requests: at the end"));
        // Each chart says over which step its rates are, and the heat map what a column is.
        let step = picture.split_once("; by ").unwrap().1.split(" between").next().unwrap();
        let by = format!("<small>, by {}</small>", step);
        assert_eq!(row.matches(&by).count(), 4, "{by}");
        assert_has!(row => "<span>columns by ");
    }
    here.stop();
}

/// A page of parts of minutes is one of these minutes, with all of its numbers and pictures; a cell
/// of its heat map leads to just the requests in it.
#[test]
fn all_of_a_page_is_over_the_same_minutes() {
    let (here, clock, _dir) =
        Here::with_own_history(START_SECS, &["history.requests=all", "pool.stats_history=1h"]);
    let site = &here.site;
    for second in 0..180_u64 {
        site.send((0..=second % 3).map(|_| request("h", "s", "/a")));
        pass(site, &clock, 1_000);
    }
    pass(site, &clock, 60_000);
    let minutes = format!("from={}&to={}", START_SECS + 60, START_SECS + 180);
    let part = format!("from={}&to={}&tz=UTC", START_SECS + 77, START_SECS + 133);
    await_condition("both minutes are counted", || {
        let answer = site.json(&format!("/api/v1/info?{minutes}"));
        if answer["req_count"] == 240 { Ok(()) } else { Err(answer) }
    });
    let row = format!("{REPORT}/row?script_name=%2Fa");
    for target in [format!("/?{part}"), format!("{row}&{part}")] {
        let body = page(site, &target);
        let plot = format!("data-from=\"{}\" data-to=\"{}\"", START_SECS + 60, START_SECS + 180);
        assert_eq!(body.matches(&plot).count(), 4, "{target}");
        assert_has!(body => "<span>240 requests</span>", "from all 240 raw requests"; "{target}");
        // Links keep what was given.
        assert_has!(body => format!("from={}&amp;to=", START_SECS + 77); "{target}");
        let cells = body.split("class=\"cells\"").nth(1).and_then(|it| it.split("</g>").next());
        let counts = links(cells.unwrap()).into_iter().map(|link| {
            let api = link.replacen("/requests?", "/api/v1/requests?limit=0&", 1);
            let found = site.json(&api.replace("&sort=-req_time", ""));
            found["rows"].as_array().unwrap().len()
        });
        assert_eq!(counts.sum::<usize>(), 240, "{target}");
        let timers = page(site, &format!("/timers?{part}"));
        assert_has!(timers => "of all 240 raw requests"; "{target}");
    }
    here.stop();
}

#[test]
fn every_link_keeps_the_time() {
    let (here, clock, _dir) = Here::with_own_history(START_SECS, &[]);
    let mut sent = Vec::new();
    send(&here, &clock, 5, &mut sent);
    let site = &here.site;
    // One that is in memory.
    site.send([request("h", "s", "/now")]);
    let newest = site.json("/api/v1/requests?limit=1");
    let newest = newest["rows"][0]["id"].as_u64().unwrap();
    let time = "from=2024-02-28T23%3A00&to=2024-02-29&tz=Europe%2FBerlin&compare=-1d";
    let control = ["live", "1 h", "6 h", "24 h", "7 d", "30 d", "nothing"];
    for target in [
        "/".to_owned(),
        "/reports".into(),
        "/changes".into(),
        "/calls".into(),
        REPORT.into(),
        format!("{REPORT}/row?script_name=%2Fa"),
        "/requests".into(),
        format!("/requests/{newest}"),
        "/timers".into(),
    ] {
        let mark = if target.contains('?') { '&' } else { '?' };
        let body = page(site, &format!("{target}{mark}{time}"));
        // The others pass the choice on.
        let compares = target == "/" || target == "/changes" || target.starts_with("/reports");
        for name in control {
            let is_offered = compares || name != "nothing";
            assert_eq!(body.contains(&format!(">{name}</a>")), is_offered, "{target}");
        }
        // By the clocks of the zone.
        assert_has!(body => "2024-02-28 23:00 to 2024-02-29 00:00 Europe/Berlin"; "{target}");
        let (head, after) = body.split_once("<nav class=\"time\"").unwrap();
        let (own, rest) = after.split_once("</nav>").unwrap();
        let chosen = "aria-current=\"true\">the day before";
        assert_eq!(own.contains(chosen), compares, "{target}");
        let leads = links(&format!("{head}{rest}"));
        for link in leads {
            let leads = !link.starts_with("/assets/") && link != "#main";
            let named = ["/api/v1/openapi.json", "/api/v1/status"].contains(&link.as_str());
            // What can be compared now is offered.
            let named = named || link.starts_with("/changes?") && link.contains("compare=span");
            // A form has the time in fields.
            let acts = rest.contains(&format!("action=\"{link}\""));
            assert!(
                !leads || named || acts || link.contains("tz=Europe%2FBerlin&compare=-1d"),
                "{target} leads to {link}"
            );
        }
        let forms = rest.split("<form").skip(1);
        for form in forms.filter(|form| form.contains("method=\"get\"")) {
            let form = form.split("</form>").next().unwrap();
            let field = "type=\"hidden\" name=\"from\" value=\"2024-02-28T23:00\"";
            assert_eq!(form.matches(field).count(), 1, "{target}: {form}");
        }
    }
    here.stop();
}

#[test]
fn errors_that_fell_are_good() {
    let (here, clock, _dir) = Here::with_own_history(START_SECS, &[]);
    let site = &here.site;
    let mut sender = Sender::new(site);
    for failing in [0, 10, 5] {
        for number in 0..20 {
            let mut packet = request("h", "s", "/x");
            packet.status = Some(if number < failing { 500 } else { 200 });
            sender.send(&packet.encode_to_vec());
        }
        sender.at_rest();
        pass(site, &clock, 1_000);
        pass(site, &clock, 59_000);
    }
    await_condition("all is counted", || {
        let answer = site.json(&format!("/api/v1/info?from={START_SECS}"));
        if answer["req_count"] == 60 { Ok(()) } else { Err(answer) }
    });
    let minutes = [START_SECS + 60, START_SECS + 120];
    for ([before, from], class) in [(minutes, "good"), ([minutes[1], minutes[0]], "bad")] {
        let to = from + 60;
        let page = page(site, &format!("/?from={from}&to={to}&compare={before}"));
        assert_has!(page => format!("<dt>Errors</dt><dd class=\"big {class}\">"));
    }
    here.stop();
}

#[test]
fn what_changed_is_shown_and_what_is_lacking_is_said() {
    let (here, clock, _dir) = Here::with_own_history(START_SECS, &[]);
    let mut sent = Vec::new();
    send(&here, &clock, 30, &mut sent);
    pass(&here.site, &clock, 2_000);
    let site = &here.site;
    let from = START_SECS + 2 * 3_600;
    let span = format!("from={from}&to={}&compare=-2h", from + 7_200);
    let answer = ask(site, &format!("{span}&percentiles=95,99&sort=-p95_change"));
    let table = page(site, &format!("{REPORT}?{span}"));
    let expected = answer["rows"].as_array().unwrap();
    let names = |shown: &[(String, String)]| -> Vec<String> {
        shown.iter().map(|(name, _)| name.clone()).collect()
    };
    let by_change: Vec<&str> =
        expected.iter().filter_map(|row| row["script_name"].as_str()).collect();
    // What got slower is first.
    assert_eq!(names(&counts(&table)), by_change);
    for (row, shown) in expected.iter().zip(rows(&table, 1)) {
        let change = row["req_count_change"].as_f64().unwrap() * 100.0;
        let digits = usize::from(change.abs() < 9.95);
        let sign = if change < 0.0 { '\u{2212}' } else { '+' };
        let text = match change {
            0.0 => "0 %".to_owned(),
            change => format!("{sign}{:.digits$} %", change.abs()),
        };
        assert_eq!(shown[2], text, "{shown:?} {row}");
    }
    let chart = page(site, &format!("{REPORT}/times.svg?script_name=%2Fa&{span}"));
    assert_eq!(chart.matches("stroke-dasharray=\"4 3\"").count(), 3);
    assert_has!(chart => "p95 before: at the end ", "; by the minute between ");
    let overview = page(site, &format!("/?{span}"));
    assert!(overview.contains(">what got slower</a>"));
    assert!(overview.contains("below each number its change"));
    let cpu = overview.split("<dt>CPU</dt>").nth(1).unwrap().split("</dd>").next().unwrap();
    assert_has!(cpu => "cores busy</small> <small class=\"change\"", " %</small>");
    // Of a share, the difference.
    assert_has!(overview => " points</small>");
    let alone = page(site, &format!("/?from={from}&to={}&compare=-1w", from + 7_200));
    assert_lacks!(alone => "below each number its change");
    let shown = rows(overview.split("id=\"top-report_by_script_name\"").nth(1).unwrap(), 1);
    let changes = shown.iter().flatten().filter(|cell| cell.ends_with(" %"));
    assert!(changes.count() > shown.len(), "{shown:?}");

    let early = page(site, &format!("{REPORT}?from={}&to={from}", START_SECS - 7_200));
    assert!(early.contains("Incomplete: nothing is kept from before 2024-02-28 22:00:00 UTC."));
    // Of what nobody counted there are no zeros.
    let nothing = format!("from={}&to={}", START_SECS - 86_400, START_SECS - 82_800);
    let info = site.json(&format!("/api/v1/info?{nothing}"));
    assert_eq!(info["covered_seconds"], 0, "{info}");
    for column in ["req_count", "time_total", "req_time_median"] {
        assert_eq!(info[column], Json::Null, "{column}: {info}");
    }
    let year = "from=2030-01-01&to=2031-01-01&tz=UTC";
    for target in ["info", "reports/report_by_script_name", "requests"] {
        let answer = site.json(&format!("/api/v1/{target}?{year}"));
        let told = "the span has not begun: it starts at 2030-01-01T00:00:00Z";
        assert_eq!(answer["partial"][0], told, "{target} {answer}");
    }
    let told = "Incomplete: the span has not begun: it starts at 2030-01-01 00:00:00 UTC.";
    assert_has!(page(site, &format!("/?{year}")) => told);
    let overview = page(site, &format!("/?{nothing}"));
    assert_has!(
        overview => ", no data", "No data is kept of this time.", "<span>no data</span>"
    );
    // Nor is there a picture that a heat map without times could lead to.
    let row = page(site, &format!("{REPORT}/row?script_name=%2Fa&{nothing}"));
    assert_has!(row => "<figcaption>Heat map of the request time");
    let charts = links(&row).into_iter().filter(|link| link.contains(".svg"));
    for chart in charts {
        assert_eq!(site.get(&chart).status, 200, "{chart}");
    }
    // The list of reports leads to a histogram view, which compares nothing.
    let view = r#"{"name": "hist", "comment": "hv.report1"}"#;
    assert_eq!(site.post("/api/v1/reports", view).status, 201);
    let list = links(&page(site, &format!("/reports?{span}")));
    page(site, list.iter().find(|link| link.starts_with("/reports/hist?")).unwrap());
    for (target, status, part) in cases![
        format!("{REPORT}?from=yesterday") => 400, "RFC 3339";
        format!("{REPORT}?from=-1d&to=-2d") => 400, "is not before to";
        "/?compare=-1d".into() => 400, "needs from";
        "/reports/report_by_schema?from=-1d".into() => 404, "history.reports does not name it";
    ] {
        let reply = site.get(&target);
        assert_eq!(reply.status, status, "{target}");
        assert!(reply.body.contains(part), "{target}: {}", reply.body);
    }
    here.stop();
}

#[test]
fn what_has_no_past_says_so_and_offers_none() {
    let (here, _clock, _dir) = Here::with_own_history(START_SECS, &[]);
    let site = &here.site;
    for (name, why) in
        [("status", "has no past: its rows are as of now"), ("report_by_schema", "is not kept")]
    {
        let refused = site.get(&format!("/reports/{name}?from=-1h&tz=UTC"));
        assert_eq!(refused.status, 404, "{name}");
        let live = format!("<a href=\"/reports/{name}?tz=UTC\">The same page, live</a>");
        assert_has!(refused.body => why, "report_by_script_name", live.as_str());
        let body = page(site, &format!("/reports/{name}"));
        let control = body.split("<nav class=\"time\"").nth(1).unwrap();
        let control = control.split("</nav>").next().unwrap();
        assert_has!(control => why);
        assert_eq!(control.matches("<a ").count(), 1, "{control}");
    }
    let api = site.get("/api/v1/reports/status?from=-1h").problem(404);
    assert_has!(api => "has no past");
    let list = links(&page(site, "/reports?from=-1h"));
    let leads = |name: &str| list.iter().any(|it| it.starts_with(&format!("/reports/{name}?")));
    assert!(leads("report_by_script_name") && !leads("status") && !leads("report_by_schema"));
    here.stop();
}

#[test]
fn without_history_the_control_says_why() {
    let here = Here::start(&[]);
    // The daemon itself has no past to choose.
    let daemon = page(&here.site, "/daemon?from=-1d");
    assert!(!daemon.contains("<nav class=\"time\""), "{daemon}");
    for target in ["/", "/reports", "/requests"] {
        let body = page(&here.site, target);
        let control = body.split("<nav class=\"time\"").nth(1).unwrap();
        let control = control.split("</nav>").next().unwrap();
        assert_has!(control => "--data DIR (data.dir) keeps it");
        assert_eq!(control.matches("<a ").count(), 1, "{control}");
        assert!(!body.contains("class=\"plot\""));
    }
    let refused = here.site.get("/?from=-1d");
    assert!(refused.status == 404 && refused.body.contains("data.dir"), "{refused:?}");
    // What is in memory can be narrowed all the same.
    assert_eq!(here.site.get("/requests?from=-1d").status, 200);
    here.stop();
}
