//! The pages as they are sent: sizes, headers, escaping, numbers that agree with the API, events.
//!
//! Tests that need a browser are in `browser`.

mod events;

use std::collections::{BTreeSet, VecDeque};
use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;

use pinbad::input::pinba::model::Request;
use prost::Message as _;
use serde_json::json;

use crate::harness::{Here, Program, Sender, Site, await_condition, await_until, connect};
use crate::packets::{packet, request};

/// Names that try to be something else.
pub(crate) const HOSTILE: [&str; 9] = [
    "<script>window.harm=1</script>",
    "\"><img src=x onerror=\"window.harm=1\">",
    "' onmouseover='window.harm=1",
    "javascript:window.harm=1",
    "</title></table><svg onload=window.harm=1>",
    "a\r\nb\t\u{0}\u{1b}[31m\u{7f}\u{85}",
    "\u{202e}gnp.evil\u{2066}\u{200f}\u{feff}",
    "%3Cscript%3E&lt;b&gt;&#60;i&#62;{{7*7}}${7*7}",
    "//evil.example/\\..\\..?a=b#c",
];

/// A request in which every text is this one, and as large as a name may be where that is asked
/// for.
pub(crate) fn hostile_request(name: &str) -> Request {
    let mut request = Request::named(name, name, name);
    request.request_time = Some(0.5);
    request.status = Some(500);
    request.schema = Some(name.into());
    request.add_tag(name, name);
    request.add_tag("env", name);
    request.add_timer(1, 0.25, &[("group", name), (name, name)]);
    request.add_timer(3, 0.5, &[("server", name)]);
    request
}

/// All addresses that a page refers to.
pub(crate) fn links(page: &str) -> Vec<String> {
    let attributes = [" href=\"", " src=\"", " action=\""];
    let mut links = Vec::new();
    for attribute in attributes {
        for rest in page.split(attribute).skip(1) {
            let link = rest.split('"').next().unwrap();
            links.push(link.replace("&amp;", "&"));
        }
    }
    links
}

#[test]
fn every_page_that_leads_from_another_escapes_everything() {
    let here = Here::start(&[]);
    here.site.send(HOSTILE.into_iter().map(hostile_request));
    let site = &here.site;
    // Reports whose keys are called so too.
    for form in [
        json!({"name": "by_tag", "level": "request", "keys": [format!("+{}", HOSTILE[0]), "+env"]}),
        json!({"name": "by_timer", "level": "timer", "keys": [format!("@{}", HOSTILE[1]), "script_name"]}),
    ] {
        let made = site.post("/api/v1/reports", &form.to_string());
        assert_eq!(made.status, 201, "{form}");
    }
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut waiting: VecDeque<String> = [
        "/".into(),
        "/reports/by_tag".into(),
        "/reports/by_timer".into(),
        "/timers?by=server,script_name".into(),
    ]
    .into();
    while let Some(target) = waiting.pop_front() {
        if known.len() >= 400 || !known.insert(target.clone()) {
            continue;
        }
        let reply = site.get(&target);
        assert_eq!(reply.status, 200, "{target}: {}", reply.body);
        if target.starts_with("/assets/") || target.starts_with("/api/") {
            continue;
        }
        let page = &reply.body;
        for harm in ["<script>", "<img", "onerror=\"", "<svg onload", "</title></table>"] {
            assert!(!page.contains(harm), "{target} has {harm}: {page}");
        }
        let raw = |character: char| {
            character.is_control()
                || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        };
        // In fields of forms values have to stay as they are; everywhere else signs stand for them.
        let mut shown = page.clone();
        for (from, to) in [("<input", ">"), ("<option", ">"), ("<textarea", "</textarea>")] {
            let mut pieces = shown.split(from);
            let first = pieces.next().unwrap().to_owned();
            shown = pieces.fold(first, |kept, piece| kept + piece.split_once(to).unwrap().1);
        }
        assert!(!shown.contains(raw), "{target}: {:?}", shown.chars().find(|it| raw(*it)));
        for link in links(page) {
            assert!(
                link.starts_with('/') && !link.starts_with("//") || link == "#main",
                "{target} leads to {link}"
            );
            if link != "#main" {
                waiting.push_back(link.split('#').next().unwrap().to_owned());
            }
        }
    }
    for part in "/requests/ /reports/by_tag/row? /reports/by_timer/row? /timers?by= \
         spread.svg"
        .split(' ')
    {
        assert!(known.iter().any(|target| target.contains(part)), "nothing leads to {part}");
    }
    here.stop();
}

/// Sends requests of ten thousand scripts.
pub(crate) fn ten_thousand_scripts(site: &Site) {
    site.send((0..10_000).map(|script| {
        let name =
            format!("/shop/{}/page-{script:05}.php", ["catalog", "cart", "account"][script % 3]);
        request("web-01", "shop.example.com", &name)
    }));
}

#[test]
fn pages_are_small_with_large_reports_behind_them() {
    let here = Here::start(&[]);
    let site = &here.site;
    ten_thousand_scripts(site);
    let page = site.get("/").body;
    let files: BTreeSet<String> =
        links(&page).into_iter().filter(|link| link.starts_with("/assets/")).collect();
    assert_eq!(files.len(), 3);
    let assets: usize = files.iter().map(|file| site.get(file).body.len()).sum();
    for target in "/ /reports /reports/report_by_script_name?limit=100 \
         /reports/report_by_script_name?limit=100&view=own&sort=-req_time_total \
         /reports/report_by_script_name/row?script_name=%2Fshop%2Fcart%2Fpage-00001.php \
         /requests?limit=100 /timers?by=script_name,group /requests/1 /daemon"
        .split(' ')
    {
        let reply = site.get(target);
        assert_eq!(reply.status, 200, "{target}");
        let bytes = reply.body.len() + assets;
        // In blocks each cell has the name of its column.
        let is_own = target.contains("view=own");
        assert_eq!(reply.body.matches(" data-l=").count() >= 1_700, is_own, "{target}");
        let most = if is_own { 155_000 } else { 105_000 };
        assert!(bytes <= most, "{target}: {bytes} bytes with style and script");
    }
    here.stop();
}

/// Compressed is what it is otherwise, and its length is its own.
#[test]
fn pages_are_compressed_for_who_accepts_it() {
    let here = Here::start(&[]);
    let raw = |target: &str, more: &str| {
        let (head, body) = here.site.talk(target, more);
        assert_has!(head => format!("content-length: {}\r\n", body.len()));
        (head, body)
    };
    let page = here.site.get("/").body;
    let mut targets: Vec<String> = links(&page);
    targets.retain(|link| link.starts_with("/assets/") && !link.ends_with(".svg"));
    targets.push("/requests?limit=1&nope=1".to_owned());
    assert_eq!(targets.len(), 3);
    for target in targets {
        let (head, plain) = raw(&target, "accept-encoding: br\r\n");
        assert!(!head.contains("content-encoding"), "{target}: {head}");
        assert!(head.contains("vary: accept-encoding"), "{target}: {head}");
        let (head, body) = raw(&target, "accept-encoding: br, gzip\r\n");
        assert!(head.contains("content-encoding: gzip"), "{target}: {head}");
        assert!(head.contains("vary: accept-encoding"), "{target}: {head}");
        let mut read = Vec::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut read).unwrap();
        assert_eq!(read, plain, "{target}");
        assert!(body.len() < plain.len(), "{target}");
    }
    here.stop();
}

#[test]
fn headers() {
    let here = Here::start(&[]);
    let raw = |target: &str| here.site.talk(target, "").0;
    for target in ["/", "/reports", "/reports/nope", "/requests?nope=1"] {
        let reply = raw(target);
        let policy = "content-security-policy: default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'\r\n";
        assert!(reply.contains(policy), "{target}: {reply}");
        assert_has!(reply => "cache-control: no-store"; "{target}");
        assert_has!(reply => "content-type: text/html; charset=utf-8"; "{target}");
    }
    let page = here.site.get("/").body;
    for file in links(&page).iter().filter(|link| link.starts_with("/assets/")) {
        assert_has!(raw(file) => "cache-control: public, max-age=31536000, immutable"; "{file}");
    }
    assert_eq!(here.site.get("/assets/pinbad.00000000.css").status, 404);
    here.stop();
}

/// A browser that has no password gets a page, and is asked for one; everything else gets a problem
/// document.
#[test]
fn who_is_not_let_in_is_told_so_by_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(path("token"), "a-token-of-some-length").unwrap();
    let config = format!("[[user]]\nname = \"kim\"\ntoken_file = {:?}\n", path("token"));
    std::fs::write(path("pinbad.toml"), config).unwrap();
    let program = Program::start(&["serve", "--config", &path("pinbad.toml")], &[]);
    let ask = |accept: &str| {
        let (head, body) = program.site.talk("/requests", &format!("accept: {accept}\r\n"));
        (head, String::from_utf8(body).unwrap())
    };
    let (head, page) = ask("text/html,application/xhtml+xml,*/*;q=0.8");
    assert!(head.starts_with("http/1.1 401"), "{page}");
    assert!(head.contains("content-type: text/html"), "{page}");
    assert!(head.contains("www-authenticate: basic"), "{page}");
    assert!(page.contains("<h1>Log in</h1>"), "{page}");
    // Nothing of what there is behind it.
    assert!(!page.contains("href") && !page.contains("src="), "{page}");
    let (document, _) = ask("*/*");
    assert!(document.starts_with("http/1.1 401"), "{document}");
    assert_has!(document => "application/problem+json");
}

#[test]
fn mistakes_are_said_by_pages() {
    let here = Here::start(&[]);
    let site = &here.site;
    for (target, status, part) in cases![
        "/reports/nope" => 404, "There is no report called";
        "/reports/report_by_status?sort=nope" => 400, "there is no column";
        "/reports/report_by_status?nope=1" => 400,
            "accepted: from, to, tz, compare, fleet, dc, collector, sort, limit, offset, q, view, status";
        "/reports/report_by_status?limit=101" => 400, "from 1 to 100";
        "/reports/report_by_status/row" => 400, "is missing";
        "/requests?min_time=x" => 400, "accepted: seconds";
        "/requests?since=-1h&until=-2h" => 400, "since: is later than until";
        "/timers?since=-1h&until=-2h" => 400, "since: is later than until";
        "/requests?nope=1" => 400, "unknown parameter";
        "/requests/77" => 404, "no request 77";
        "/requests/x" => 400, "whole number";
        "/timers?sort=nope" => 400, "accepted: time";
        "/daemon?x=1" => 400, "unknown parameter";
        "/?sort=nope" => 400, "accepted: time, p95, count, errors";
        "/?sort=p59" => 400, "did you mean &quot;p95&quot;? accepted: time, p95, count, errors";
        "/requests?order=slowset" => 400, "did you mean &quot;slowest&quot;?";
        "/?tz=Europe/Berln" => 400, "or UTC; did you mean &quot;Europe/Berlin&quot;?";
        "/?fromm=-1h" => 400, "unknown parameter";
        "/reports/%ff" => 400, "UTF-8";
    ] {
        let reply = site.get(target);
        assert_eq!(
            (reply.status, reply.content_type.as_str()),
            (status, "text/html; charset=utf-8"),
            "{target}"
        );
        assert!(reply.body.contains(part), "{target}: {}", reply.body);
        // It leads to the pages that there are, and to no other.
        assert!(!reply.body.contains("href=\"/alerts\""), "{target}");
    }
    // A time that is refused can be corrected in its form.
    let refused = site.get("/reports?from=soon&tz=Europe/Berlin&q=x").body;
    for part in
        ["<details open>", "value=\"soon\"", "value=\"Europe/Berlin\"", "name=\"q\" value=\"x\""]
    {
        assert_has!(refused => part);
    }
    // A histogram view and the daemon's tables are no rankings, and are shown in their own columns.
    let form = r#"{"name": "hist", "comment": "hv.report1"}"#;
    assert_eq!(site.post("/api/v1/reports", form).status, 201);
    for target in "/reports/hist /reports/hist?index_value=x /reports/status \
         /reports/active_reports"
        .split(' ')
    {
        assert_eq!(site.get(target).status, 200, "{target}");
    }
    let nothing = site.get("/api/v1/reports/hist");
    assert_eq!(nothing.status, 400, "{}", nothing.body);
    assert_has!(nothing.body => "index_value: is missing");
    assert_eq!(site.json("/api/v1/reports/hist?index_value=x")["total_rows"], 0);
    assert_eq!(site.ask("POST", "/reports", Some("{}")).status, 405);
    here.stop();

    let here = Here::start(&["pool.request_pool_size=0"]);
    assert_eq!(here.site.get("/").status, 200);
    assert_eq!(here.site.get("/requests").status, 404);
    here.stop();
}

#[test]
fn a_full_pool_has_the_newest_requests_and_says_of_what_time() {
    let here = Here::start(&["pool.request_pool_size=100"]);
    here.site.send((0..300).map(|_| {
        let mut packet = request("web-01", "shop", "/a");
        packet.request_time = Some(12_346.0);
        packet
    }));
    for target in ["/", "/timers", "/calls", "/requests?order=slowest"] {
        let page = || here.site.get(target).body;
        let is_said = |page: &String| page.contains("the newest 100 raw requests in memory, last ");
        await_until(target, page, is_said);
    }
    // Figures have the unit of the legends below them.
    assert_has!(here.site.get("/").body => "<dd class=\"big\">3.4");
    here.stop();
}

#[test]
fn tables_of_the_daemon_itself_tell_what_is_now() {
    let here = Here::start(&[]);
    let site = &here.site;
    let page = |name: &str| site.get(&format!("/reports/{name}")).body;
    let empty = page("annotation");
    assert_has!(empty => "<caption>annotation</caption>", "The table has no rows now.");
    let note = r#"{"text": "deployed", "time": 1700000000}"#;
    assert_eq!(site.post("/api/v1/annotations", note).status, 201);
    let moment = "<time datetime=\"2023-11-14T22:13:20Z\">2023-11-14 22:13:20</time>";
    // Another page than the one that was built a moment ago.
    assert_has!(page("annotation?limit=20") => moment);
    // What has no value is not what did not fit.
    let active = page("active_reports");
    assert_lacks!(active => "(other)", "(empty)", "./pinba/");
    let active = rows(&active, 1).concat();
    assert!(active.iter().any(|cell| cell == "report_by_hostname_and_script"), "{active:?}");
    let reports = site.json("/api/v1/reports")["reports"].clone();
    let active = reports.as_array().unwrap().iter();
    let active = active.clone().find(|it| it["name"] == "active_reports");
    let columns = active.unwrap()["columns"].as_array().unwrap().iter();
    let units = columns.filter(|it| it["name"].as_str().unwrap().ends_with("_per_packet"));
    let units: Vec<_> = units.map(|it| it["unit"].clone()).collect();
    assert_eq!(units, ["microseconds"; 2]);
    here.stop();
}

/// Its figures, its search and all that it leads to are of the requests without the text.
/// Links keep the span of the page that they are on; what has no past stays live all the same.
#[test]
fn pages_of_the_present_stay_live() {
    let here = Here::start(&[]);
    let page = |path: &str| {
        let reply = here.site.get(&format!("{path}?from=-2h&to=-1h"));
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.body
    };
    for path in ["/alerts", "/releases", "/daemon", "/daemon/inside", "/profile", "/reports"] {
        assert_lacks!(page(path) => "data-past"; "{path}");
    }
    assert_has!(page("/requests") => "data-past=\"0\"", "aria-label=\"Time\"");
    // Nor has what is not there a time to choose.
    for path in ["/squid", "/profile"] {
        assert_lacks!(page(path) => "aria-label=\"Time\""; "{path}");
    }
    here.stop();
}

/// In reports that keep the shortest time and in those that do not, in charts and of timers.
#[test]
fn of_one_request_each_percentile_is_its_time() {
    let here = Here::start(&[]);
    let mut packet = request("web-01", "shop", "/a");
    packet.request_time = Some(0.096);
    packet.add_timer(1, 0.096, &[("group", "one")]);
    here.site.send([packet]);
    let row = rows(&here.site.get("/reports/report_by_script_name").body, 1).remove(0);
    assert_eq!(row[4..9], ["96.0 ms", "100 %", "96.0 ms", "96.0 ms", "96.0 ms"]);
    let timers = rows(&here.site.get("/timers?by=group&t.group=one").body, 1).remove(0);
    assert_eq!(timers[3..7], ["96.0 ms"; 4]);
    await_until(
        "its second is complete",
        || here.site.json("/api/v1/reports/info/series?metric=p95&step=1").to_string(),
        |series| series.contains("0.096"),
    );
    here.stop();
}

/// The bar above a page shows what its charts of all requests do.
#[test]
fn charts_of_all_requests_say_what_the_bar_shows() {
    let here = Here::start(&[]);
    let row = "/reports/report_by_script_name/row?script_name=%2Fa";
    let mut sender = Sender::new(&here.site);
    let packet = request("web-01", "shop", "/a").encode_to_vec();
    let metrics = ["req_per_sec", "p95", "errors_per_sec"];
    let key = |metric: &str| format!("&quot;{metric}&quot;:");
    let has_all = |page: &String| metrics.iter().all(|it| page.contains(&key(it)));
    let page = || {
        sender.send(&packet);
        here.site.get("/").body
    };
    let page = await_until("a second is complete", page, has_all);
    let number = |before: &str, ends: &[char]| {
        let value = page.split(before).nth(1).unwrap().split(ends).next().unwrap();
        value.parse::<f64>().unwrap()
    };
    let said = number(&key("req_per_sec"), &[',', '}']);
    let shown = number(">requests <b>", &['<']);
    assert!((said - shown).abs() <= shown / 100.0, "{said} {shown}");
    let said = number(&key("p95"), &[',', '}']) * 1e3;
    let shown = number(">p95 <b>", &[' ']);
    assert!((said - shown).abs() <= shown / 100.0, "{said} {shown}");
    assert_lacks!(here.site.get(row).body => "data-now");
    here.stop();
}

#[test]
fn a_row_of_the_empty_key_is_of_that_key_alone() {
    let here = Here::start(&[]);
    let site = &here.site;
    let mut secure = request("web", "", "/a");
    secure.schema = Some("https".into());
    secure.add_timer(1, 0.25, &[("group", "of-https")]);
    let mut plain = request("web", "shop", "/b");
    plain.request_time = Some(0.0);
    plain.add_timer(1, 0.25, &[("", "x"), ("group", "")]);
    plain.add_tag("env", "");
    site.send([secure, plain]);
    let row = site.get("/reports/report_by_schema/row?schema=").body;
    assert_has!(row => "<title>(empty) \u{b7} pinbad</title>", "href=\"/requests/2\"");
    assert_lacks!(row => "href=\"/requests/1\"", "of-https", "Not part of this search");
    let links = links(&row).into_iter();
    let searches: Vec<String> =
        links.filter(|it| ["/requests?", "/timers?"].iter().any(|to| it.starts_with(to))).collect();
    assert!(searches.len() > 2, "{row}");
    for search in searches {
        let page = site.get(&search).body;
        assert_has!(page => "/requests/2"; "{search}");
        assert_lacks!(page => "/requests/1", "of-https"; "{search}");
    }
    // A form without JavaScript sends the fields that were left empty.
    let all = site.get("/requests?schema=&script_name=&sort=-timestamp").body;
    assert_has!(all => "/requests/1", "/requests/2");
    let table = site.get("/reports/report_by_schema?schema=&q=").body;
    assert_has!(table => "row?schema=\"");
    assert_lacks!(table => "row?schema=https");
    let one = site.get("/requests/2").body;
    assert_has!(one => "tag.env=%28empty%29", "schema=%28empty%29", "<b>0</b>;");
    assert_has!(site.get("/requests/1").body => "server_name=%28empty%29");
    here.stop();
}

#[test]
fn a_cell_of_a_live_heat_map_leads_to_requests_in_memory() {
    let here = Here::start(&[]);
    let site = &here.site;
    site.send((0..40).map(|_| hostile_request("/a")));
    let row = "/reports/report_by_script_name/row?script_name=%2Fa";
    // It may be there before the second of these requests.
    let found = await_condition("it has cells", || {
        let body = site.get(row).body;
        let cells = body.split("class=\"cells\"").nth(1).and_then(|it| it.split("</g>").next());
        let found = cells.map(links).unwrap_or_default();
        if found.is_empty() { Err(body) } else { Ok(found) }
    });
    let found = found.into_iter().map(|link| {
        assert!(link.contains("&since=") && link.contains("&until="), "{link}");
        let api = link.replacen("/requests", "/api/v1/requests", 1);
        let api = api.replace("&sort=-req_time", "");
        site.json(&api)["rows"].as_array().unwrap().len()
    });
    assert_eq!(found.sum::<usize>(), 40);
    here.stop();
}

/// The texts of the cells of a table's first rows, as a reader would see them.
pub(crate) fn rows(page: &str, table: usize) -> Vec<Vec<String>> {
    let table = page.split("<table").nth(table).unwrap().split("</table>").next().unwrap();
    let body = table.split("<tbody>").nth(1).unwrap();
    body.split("<tr>")
        .skip(1)
        .map(|row| {
            let cells = row.split("</td>").flat_map(|cell| cell.split("</th>"));
            let text = |cell: &str| {
                let mut text = String::new();
                for piece in cell.split('<') {
                    text.push_str(piece.split_once('>').map_or(piece, |(_, text)| text));
                }
                text.trim().to_owned()
            };
            cells.map(text).filter(|text| !text.is_empty()).collect()
        })
        .collect()
}

#[test]
fn numbers_agree_with_what_was_sent() {
    let here = Here::start(&[]);
    here.site.send((0..100_u16).map(|number| {
        let mut packet = request("web-01", "shop", if number < 60 { "/a" } else { "/b" });
        packet.request_time = Some(f32::from(number) / 64.0);
        packet.status = Some(if number % 20 == 0 { 503 } else { 200 });
        packet
    }));
    let site = &here.site;
    // /a: 0 to 59 64ths, /b: 60 to 99.
    let shown = |target: &str| rows(&site.get(target).body, 1);
    let scripts = shown("/reports/report_by_script_name?sort=-req_count");
    assert_eq!(scripts.len(), 2, "{scripts:?}");
    assert_eq!(scripts[0][..2], ["/a", "60"]);
    assert_eq!(scripts[0][3], "3 5.0 %");
    // 60 x 59 / 2 / 64 = 27.65625 s.
    assert_eq!(scripts[0][4], "27.7 s");
    // The same numbers with the same units: by total time, /b has 60 to 99 64ths.
    let overview = site.get("/").body;
    assert_has!(overview => "Slowest, with 10 requests or more");
    let daemon = site.get("/daemon").body;
    let plan = site.get("/daemon/inside").body;
    let total = plan.rsplit("<b>").next().and_then(|it| it.split("</b>").next()).unwrap();
    assert!(total.ends_with(" MiB") && daemon.contains(&format!("of {total}<")), "{total}");
    let lost = daemon.split("aria-label=\"Lost?\"").nth(1).unwrap();
    let lost = rows(lost, 1).concat();
    assert_eq!(lost[..4], ["Packets received", "100", "Requests in the reports", "100"]);
    assert_eq!(lost[4..], ["Waiting for the merger", "0"]);
    let panel = overview.split("id=\"top-report_by_script_name\"").nth(1).unwrap();
    let panel = rows(panel, 1);
    assert_eq!(panel[0][..3], ["/b", "49.7 s", "64.2 %"]);
    assert!(panel[0][4].ends_with(" s"), "{panel:?}");
    let b = shown("/reports/report_by_script_name?q=b&sort=p95");
    assert_eq!(b[0][0], "/b");
    // The 38th of 60 to 99 is 97 64ths: 1.515625 s, to a percent.
    let p95: f64 = b[0][7].strip_suffix(" s").unwrap().parse().unwrap();
    assert!((p95 - 97.0 / 64.0).abs() < 0.02, "{b:?}");
    // The slowest are the last; ids count from 1, and stand behind the time of arrival.
    let id = |row: &Vec<String>| row[0].split(' ').next_back().unwrap().to_owned();
    let slowest = shown("/requests?sort=-req_time&limit=3");
    let ids: Vec<String> = slowest.iter().map(id).collect();
    assert_eq!(ids, ["#100", "#99", "#98"]);
    let failed = shown("/requests?order=slowest&status=503&script_name=%2Fa");
    let ids: Vec<String> = failed.iter().map(id).collect();
    assert_eq!(ids, ["#41", "#21", "#1"]);
    // Each has two timers: 2 hits of group db in 0.25 s, 1 of cache in 0.5 s.
    let by_tags = "/timers?by=group,op&sort=-hits";
    assert_has!(site.get(by_tags).body => "<span class=\"none\">without</span>");
    let timers = shown(by_tags);
    assert_eq!(timers[0][..5], ["db", "read", "25.0 s", "33.3 %", "125 ms"]);
    assert_eq!(timers[0][8..11], ["200", "100", "100"]);
    assert_eq!(timers[1][..5], ["cache", "without", "50.0 s", "66.7 %", "500 ms"]);
    assert_eq!(timers[1][8..11], ["100", "100", "100"]);
    let timers = shown("/timers?by=script_name&t.group=db&min_time=1");
    assert_eq!(timers[0][0], "/b");
    assert_eq!(timers[0][7..10], ["72", "36", "36"]);
    // All 60 are in the histogram of the row.
    let row = site.get("/reports/report_by_script_name/row?script_name=%2Fa").body;
    assert!(row.contains("60 requests<"), "{row}");
    assert!(row.contains("<dd class=\"big\">27.7 s</dd>"), "{row}");
    let svg = site.get("/reports/report_by_script_name/spread.svg?script_name=%2Fa&theme=dark");
    assert_eq!((svg.status, svg.content_type.as_str()), (200, "image/svg+xml"));
    assert!(
        svg.body.starts_with("<svg xmlns=") && svg.body.contains("60 values in"),
        "{}",
        svg.body
    );
    here.stop();
}

/// Of times beyond the last bucket no percentile is known.
#[test]
fn percentiles_beyond_the_buckets_are_lower_bounds() {
    let comment = "v2/request/900/~script/hv=0:50:500,p50,p95/no_filters";
    let here = Here::start(&[&format!("report=[{{name='v2',comment='{comment}'}}]")]);
    let times = [("/a", 0.01), ("/a", 0.2), ("/b", 0.5), ("/b", 1.0), ("/b", 1.5)];
    here.site.send(times.into_iter().map(|(script, secs)| packet(script, 200, secs)));
    // The p95 and p99 of /a, and all three of /b.
    let shown = |address: &str| {
        let page = here.site.get(address).body;
        (page.matches("\u{2265}\u{a0}50.0 ms").count(), page.contains("or as a mean"))
    };
    await_until("all are counted", || shown("/reports/v2"), |shown| *shown == (5, false));
    assert_eq!(shown("/reports/v2/row?script=%2Fa"), (2, false));
    // As in SQL.
    assert_eq!(shown("/reports/v2?view=own"), (0, true));
    here.stop();
}

/// A step that is not over has no rate yet: 24 requests in its first second would be 24 a second, and
/// 2.4 later.
#[test]
fn a_live_chart_says_nothing_that_it_takes_back() {
    let (here, clock) = Here::with_manual_clock(&[]);
    let site = &here.site;
    site.send((0..24).map(|_| request("web-01", "shop", "/a")));
    for (ms, said) in [
        (1_000, "requests: last 5 s 24.0; by 10 s no data yet."),
        (8_000, "requests: last 5 s 0; by 10 s no data yet."),
        (1_000, "requests: last 5 s 0; by 10 s between 2.40 and 2.40."),
    ] {
        clock.advance_ms(ms);
        let svg = || site.get("/reports/info/traffic.svg?span=15m").body;
        await_until(said, svg, |svg| svg.contains(said));
    }
    here.stop();
}

#[test]
fn charts_have_addresses_of_their_own() {
    let here = Here::start(&[]);
    let site = &here.site;
    site.send((0..20).map(|_| request("web-01", "shop", "/<a>")));
    for (target, part) in cases![
        "/reports/info/traffic.svg" => "requests: last 5 s";
        "/reports/info/times.svg?span=1m" => "p95: last 5 s";
        "/reports/info/errors.svg?span=1h&theme=dark" => "errors: last 5 s 0; by 20 s ";
        "/reports/report_by_script_name/times.svg?script_name=%2F%3Ca%3E&theme=dark" =>
            "p50: last 5 s 12";
        "/reports/report_by_status/cpu.svg?key.status=200" => "busy: last 5 s";
    ] {
        let reply = await_until(
            target,
            || site.get(target),
            |reply| reply.status == 200 && reply.body.contains(part),
        );
        assert_eq!(reply.content_type, "image/svg+xml");
        assert!(
            reply.body.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox"),
            "{}",
            reply.body
        );
        assert_lacks!(reply.body => "style", "<a>");
        assert_has!(reply.body => "<path class=\"line c");
    }
    let page = site.get("/reports/report_by_script_name/row?script_name=%2F%3Ca%3E&span=5m").body;
    // Rates by another step would be others.
    assert_eq!(page.matches("</a><small>, by 2 s</small></div>").count(), 4, "{page}");
    for name in ["traffic", "times", "errors", "cpu"] {
        let address =
            format!("/reports/report_by_script_name/{name}.svg?script_name=%2F%3Ca%3E&amp;span=5m");
        assert!(page.contains(&address), "{page}");
    }
    for (target, status, part) in cases![
        "/reports/info/nope.svg" => 404, "traffic.svg";
        "/reports/info/traffic.svg?span=2h" => 400, "1m, 5m, 15m, 1h";
        "/reports/info/traffic.svg?theme=x" => 400, "light, dark";
        "/reports/report_by_status/traffic.svg" => 400, "is missing";
        "/reports/report_by_status/traffic.svg?status=200&x=1" => 400, "unknown parameter";
        "/reports/report_by_schema/traffic.svg?schema=" => 404, "report_by_schema";
        "/reports/nope/traffic.svg" => 404, "no report";
    ] {
        let detail = site.get(target).problem(status);
        assert!(detail.contains(part), "{target}: {detail}");
    }
    here.stop();

    let here = Here::start(&["series.memory=0"]);
    assert_has!(here.site.get("/reports/info/traffic.svg").problem(404) => "series.memory");
    assert_eq!(here.site.get("/").status, 200);
    here.stop();
}
