//! All pages at three widths, in light and dark, and at widths between these: nothing is cut, sticks
//! out or lies over something else, by the boxes of the layout; and what a first visit leads to.

use serde_json::json;

use super::driver::Browser;
use super::{FAINT, UNNAMED, demo};
use crate::harness::{Here, Site, await_until};
#[cfg(feature = "sql")]
use crate::harness::{Sender, pass};
use crate::page::hostile_request;
#[cfg(feature = "sql")]
use crate::past;

/// The script that finds elements that are cut off or overlap.
const LAYOUT: &str = include_str!("layout.js");

/// A phone, a small desk and a wide one; for each, widths at which the same page must fit too.
const WIDTHS: [(u32, bool, &[u32]); 3] =
    [(400, true, &[360]), (1280, false, &[1100, 1024, 760]), (1920, false, &[])];

/// Opens each page at each width, and looks at it in both schemes.
fn walk(site: &Site, set: &str, targets: &[String]) {
    let browser = Browser::start(site);
    // So many pages need not be loaded again every second too.
    browser.open("/");
    browser.js("localStorage.setItem('paused', 'yes')");
    let mut all = Vec::new();
    for (width, phone, others) in WIDTHS {
        browser.window(width, 900, phone);
        for (at, target) in targets.iter().enumerate() {
            browser.prefer("light");
            browser.open(target);
            // What is folded is part of the page.
            browser
                .js("for (const it of document.querySelectorAll('main details')) it.open = true");
            for scheme in ["light", "dark"] {
                browser.prefer(scheme);
                for (what, script) in [("layout", LAYOUT), ("faint", FAINT), ("unnamed", UNNAMED)] {
                    let wrong = browser.js(script);
                    if wrong != json!([]) {
                        all.push(format!("{what} of {target}, {width}, {scheme}: {wrong:.400}"));
                    }
                }
            }
            browser.assert_quiet();
            browser.picture(&format!("{set}-{at}-{width}"));
            for other in others {
                browser.window(*other, 900, phone);
                let wrong = browser.js(LAYOUT);
                if wrong != json!([]) {
                    all.push(format!("layout of {target}, {other}: {wrong:.400}"));
                }
            }
            browser.window(width, 900, phone);
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

fn owned(targets: &[&str]) -> Vec<String> {
    targets.iter().map(|&target| target.to_owned()).collect()
}

#[test]
fn nothing_is_cut_at_any_width() {
    let program = demo();
    let id = program.site.json("/api/v1/requests?limit=1&min_time=0.1")["rows"][0]["id"].clone();
    let mut targets = owned(&[
        "/",
        "/?sort=errors&span=1h",
        "/reports",
        "/reports/report_by_script_name?sort=-p95",
        "/reports/report_by_script_name?view=own",
        "/reports/report_by_hostname_script_and_status",
        "/reports/report_by_script_name/row?script_name=%2Fcatalog%2Fsearch.php",
        "/reports/info/row",
        "/requests",
        "/requests?order=slowest&status=200",
        "/timers?by=group,server,operation",
        "/daemon",
        "/daemon/inside",
        "/changes",
        "/releases",
        "/alerts",
        "/calls",
        "/squid",
        "/profile",
        "/reports/status",
        "/reports/releases",
        "/reports/alerts",
        "/reports/slo",
    ]);
    targets.push(format!("/requests/{id}"));
    targets.push(format!("/requests/{id}?by=group"));
    walk(&program.site, "demo", &targets);
}

#[test]
fn on_a_phone_orders_are_named_and_a_lone_choice_has_room() {
    let program = demo();
    let browser = Browser::start(&program.site);
    browser.window(400, 900, true);
    browser.open("/reports/report_by_script_name");
    let head =
        "return getComputedStyle(document.querySelector('.wide thead tr'), '::before').content";
    assert_eq!(browser.js(head), "\"Sort by\"");
    browser.open("/changes");
    let width = "return document.querySelector('.filters select').getBoundingClientRect().width";
    let width = browser.js(width).as_f64().unwrap();
    assert!(width > 300.0, "{width}");
}

/// Numbers come and go every second: nothing below the header moves.
#[test]
fn the_header_is_as_high_whatever_it_says() {
    // All sections that there are.
    let here = Here::start(&[
        "squid=[{listen='udp://127.0.0.1:0'}]",
        "stat=[{stream='unix:///nowhere/at-all'}]",
        "alert=[{name='quiet', report='info', absent=true}]",
    ]);
    let browser = Browser::start(&here.site);
    browser.open("/");
    browser.js("localStorage.setItem('paused', 'yes')");
    let said = r"const parts = [['paused'], ['last 5 s: 1.00 requests/s'], ['not live', 'the daemon is busy or away'],
            ['last 5 s: 119 requests/s', 'p95 342 ms', '0.200 errors/s'],
            ['last 5 s: 12,300 requests/s', 'p95 1.23 s', '12.3 errors/s']];
        const tick = document.querySelector('#tick');
        const box = (it) => it.getBoundingClientRect();
        const all = parts.map((parts) => {
            const part = (text, at) => Object.assign(document.createElement('span'), { textContent: (at ? ' \u00b7 ' : '') + text });
            tick.replaceChildren(...parts.map(part));
            const [top, first] = [box(document.querySelector('header.top')), box(tick.firstChild)];
            const fits = first.left >= 0 && first.top >= 0 && first.bottom <= top.bottom && box(document.querySelector('#theme')).right <= innerWidth;
            return [top.height, fits];
        });
        return [new Set(all.map(([height]) => height)).size, all.every(([, fits]) => fits)]";
    for width in
        [360, 400, 640, 900, 1000, 1120, 1200, 1280, 1290, 1300, 1310, 1320, 1340, 1400, 1920]
    {
        browser.window(width, 900, width <= 400);
        browser.open("/");
        assert_eq!(browser.js(said), json!([1, true]), "{width}");
    }
    browser.assert_quiet();
    drop(browser);
    here.stop();
}

/// A rule's name wraps where it does not fit.
#[test]
fn long_names_of_rules_fit() {
    let rule = "alert=[{name='failing_requests_of_a_script_in_the_long_namespace_of_somebody', \
                report='report_by_script_name', when='req_count > 5', window='2s', min_requests=0}]";
    let here = Here::start(&[rule]);
    await_until(
        "it fires, or did",
        || {
            here.site.send((0..10).map(|_| hostile_request("/a")));
            here.site.get("/alerts").body
        },
        |page| !page.contains("0 firing, 0 pending"),
    );
    walk(&here.site, "rules", &owned(&["/alerts"]));
    here.stop();
}

/// One long name takes what the short ones beside it leave, at every width.
#[test]
fn short_names_beside_a_long_one_are_whole() {
    use pinbad::input::pinba::model::Request;

    let here = Here::start(&[]);
    let long = format!("/l{}ng", "o".repeat(110));
    here.site.send([long.as_str(), "/cart/list.php"].map(|script| {
        let (host, server) = ("web-frontend-eu-01.example", "www.shop.example.com");
        let mut packet = Request::named(host, server, script);
        packet.request_time = Some(0.25);
        packet.add_tag("release", "2026.11.29-frontend");
        // A number that is longer than its place on a phone.
        packet.add_timer(
            u32::MAX,
            0.125,
            &[("group", "elasticsearch-search"), ("server", "database-01.internal")],
        );
        packet
    }));
    let targets = owned(&[
        "/reports/report_by_hostname_server_and_script",
        "/reports/report_by_hostname_and_script",
        "/requests",
        "/timers?by=group,server,script_name",
    ]);
    walk(&here.site, "beside", &targets);
    here.stop();
}

/// Names as they come: of a front controller, without a place to break, wide, in another script; two
/// that differ in their middles.
#[cfg(feature = "sql")]
const NAMES: [&str; 8] = [
    "/a",
    "/var/www/vhosts/shop.example.com/httpdocs/public/index.php/cart/list",
    "/var/www/vhosts/blog.example.com/httpdocs/public/index.php/cart/list",
    "/looooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooong",
    "/UPPER/CASE/LETTERS/ARE/WIDER/THAN/OTHERS/CHECKOUT.PHP",
    "/WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW",
    "/\u{5e97}\u{8217}/\u{5546}\u{54c1}\u{8a73}\u{7d30}\u{30da}\u{30fc}\u{30b8}/\u{30ab}\u{30fc}\u{30c8}\u{306b}\u{5165}\u{308c}\u{308b}.php",
    "/\u{43a}\u{430}\u{442}\u{430}\u{43b}\u{43e}\u{433}/\u{442}\u{43e}\u{432}\u{430}\u{440}\u{44b}/\u{43f}\u{43e}\u{438}\u{441}\u{43a}.php",
];

/// Spans that are compared, and long names.
#[cfg(feature = "sql")]
#[test]
fn long_names_and_comparisons_fit_too() {
    use pinbad::input::pinba::model::Request;
    use prost::Message as _;

    let start = past::START_SECS;
    let (here, clock, _dir) = Here::with_own_history(start, &[]);
    let mut sender = Sender::new(&here.site);
    for minute in 0..10_u16 {
        for (at, name) in NAMES.iter().enumerate() {
            for number in 0..=minute % 4 {
                let place = |kind: &str| format!("{kind}-{}", &name[1..]);
                let mut packet = Request::named(&*place("host"), &*place("server"), *name);
                let secs = f32::from(minute * 37 + number * 11) / 16.0;
                let secs = secs * 10_f32.powi(-(at as i32));
                packet.request_time = Some(secs);
                packet.status = Some(if number == 3 { 500 } else { 200 });
                packet.add_tag("environment", "production");
                packet.add_tag("release", name);
                packet.add_timer(3, secs / 4.0, &[("group", "mysql"), ("server", name)]);
                // Names of tags are choices: of lists, and of links.
                packet.add_timer(1, secs / 8.0, &[(name, "cart")]);
                sender.send(&packet.encode_to_vec());
            }
        }
        sender.at_rest();
        pass(&here.site, &clock, 1_000);
        pass(&here.site, &clock, 59_000);
    }
    let longest = format!("/api/v1/requests?limit=1&script_name={}", NAMES[3]);
    let id = here.site.json(&longest)["rows"][0]["id"].clone();
    let span = format!("from={}&to={}", start + 300, start + 600);
    let compared = format!("{span}&compare=span&tz=Europe%2FBerlin");
    let row = "/reports/report_by_script_name/row?script_name=%2Fvar%2Fwww%2Fvhosts%2Fshop.example.com%2Fhttpdocs%2Fpublic%2Findex.php%2Fcart%2Flist";
    let mut targets = owned(&[
        "/",
        "/reports/report_by_hostname_server_and_script",
        "/reports/report_by_script_name?view=own",
        "/requests?limit=20",
        "/timers?by=group,server,script_name",
        "/calls?by=server",
        row,
    ]);
    targets.push(format!("/requests/{id}"));
    targets.extend([
        format!("/?{span}"),
        format!("/?{compared}"),
        format!("/changes?{span}"),
        format!("/changes?{compared}&measure=errors&report=report_by_status"),
        format!("/reports/report_by_script_name?{compared}"),
        format!("{row}&{compared}"),
        format!("/requests?limit=20&{compared}"),
        format!("/timers?by=group,server&{compared}"),
    ]);
    walk(&here.site, "names", &targets);
    here.stop();
}

/// A daemon to which nobody sends: how to point PHP at it, and one packet at the push of a button,
/// on the way of all packets.
#[test]
fn a_first_visit_leads_to_a_packet() {
    let here = Here::start(&[]);
    let targets =
        ["/", "/reports/report_by_hostname_server_and_script", "/requests", "/timers", "/daemon"];
    walk(&here.site, "empty", &owned(&targets));
    let browser = Browser::start(&here.site);
    browser.open("/");
    let start = browser.text(".start");
    let server = format!("pinba.server = {}", here.site.udp[0]);
    assert!(start.contains(&server), "{start}");
    browser.click("button[data-send]");
    await_until(
        "the test packet shows",
        || browser.text("#numbers"),
        |text| text.contains("/test-packet"),
    );
    let status = here.site.status();
    assert_eq!(status.count("datagrams_received"), 1);
    assert_eq!(status.count("timers_merged"), 1);
    browser.assert_quiet();
    drop(browser);
    here.stop();
}

/// Every moment of a page is by the clocks of one zone, which it names; another is one click away.
#[cfg(feature = "sql")]
#[test]
fn a_page_has_one_zone() {
    let here = Here::start(&[]);
    let sent = here.site.post("/api/v1/test-packet", "");
    assert_eq!(sent.status, 200, "{sent:?}");
    here.site.at_rest(1);
    let browser = Browser::start(&here.site);
    browser.cdp("Emulation.setTimezoneOverride", &json!({"timezoneId": "Asia/Tokyo"}));
    browser.open("/requests");
    let clock = || browser.text("#found tbody time");
    let received = clock();
    assert_eq!(received.len(), "07:05:11".len(), "{received}");
    browser.click("#zone a");
    await_until(
        "the page is in Tokyo's time",
        || browser.text("#zone"),
        |text| *text == "Times in Asia/Tokyo",
    );
    let hour = |text: &str| {
        let clock = text.rsplit(' ').next().unwrap();
        clock.split(':').next().unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(hour(&clock()), (hour(&received) + 9) % 24);
    browser.assert_quiet();
    drop(browser);
    here.stop();
}
