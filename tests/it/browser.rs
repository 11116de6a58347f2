//! The pages in headless Chromium, driven over WebDriver: what a person would click, see and be
//! told.
//!
//! Needs Debian's `chromium` and `chromium-driver`. Screenshots are kept under the test output, in
//! `$CARGO_TARGET_TMPDIR/page`, for people to look at. Each browser has a profile of its own, in a
//! folder that goes with it, and ends with its test.

mod driver;
mod pages;

use prost::Message as _;
use serde_json::json;

use self::driver::Browser;
use crate::harness::{Here, Program, Sender, await_condition, await_until};
use crate::page::{HOSTILE, hostile_request, ten_thousand_scripts};

/// A daemon with the demo's traffic, once there is something to see.
fn demo() -> Program {
    let program = Program::start(&["demo", "--rate", "400"], &[]);
    await_until(
        "there is traffic",
        || program.site.status().count("requests_merged"),
        |merged| *merged > 1500,
    );
    program
}

#[test]
fn from_the_overview_to_the_waterfall_of_a_slow_request() {
    let program = demo();
    let browser = Browser::start(&program.site);
    browser.open("/");
    assert!(browser.text("h1").contains("Overview"));
    browser.find("#past-times svg[role=img] path.line");
    // What is slow is said in the first window of it: by name, and as a table.
    for said in ["Takes the most time", "Slowest", "Fails the most"] {
        let leaders = browser.text(".leaders");
        assert!(leaders.contains(said), "{leaders}");
    }
    let table = browser.js(
        "const rows = document.querySelectorAll('#top-report_by_script_name tbody tr');
         return [document.querySelector('.leaders a').getBoundingClientRect().bottom, rows[4].getBoundingClientRect().bottom]",
    );
    // Above them is a line about alerts, and one about budgets.
    assert!(table[0].as_f64().unwrap() < 290.0, "{table}");
    assert!(table[1].as_f64().unwrap() < 800.0, "{table}");
    let slow = browser.text(".leaders div:nth-child(2)");
    let script = slow.lines().nth(1).unwrap_or_default();
    assert!(script.starts_with('/') && script.contains(" p95 ") && script.ends_with('s'), "{slow}");
    browser.assert_quiet();
    browser.picture("overview-light");

    browser.click("nav[aria-label='Top by'] a[href='/?sort=p95']");
    await_until(
        "the address holds the choice",
        || browser.target(),
        |target| *target == "/?sort=p95",
    );
    browser.click("#top-report_by_script_name tbody th a");
    browser.find("#spread svg[role=img]");
    browser.find("#row-timers tbody th a[href*='by=group'][href*='script_name=']");
    assert!(browser.target().starts_with("/reports/report_by_script_name/row?script_name="));
    browser.assert_quiet();
    browser.picture("row-light");
    let script = browser.text("h1");

    browser.click("#slowest tbody th a");
    browser.find("#waterfall svg.fall rect.run");
    assert!(browser.target().starts_with("/requests/"), "{}", browser.target());
    assert_eq!(browser.text("h1"), script);
    assert!(browser.text("#main").contains("not when it began"));
    let (shares, bars) = (
        browser.text(".shares"),
        browser.js("return document.querySelectorAll('.shares rect.run').length"),
    );
    assert!(shares.contains('%') && bars.as_u64().unwrap() > 0, "{shares}");
    browser.picture("request-light");
    browser.click("nav[aria-label='Group timers'] a[href*='by=group']");
    await_until("timers are grouped", || browser.target(), |target| target.ends_with("?by=group"));
    browser.find("#waterfall tbody tr");
    browser.assert_quiet();
}

#[test]
fn every_page_in_light_and_dark_on_a_desk_and_on_a_phone() {
    let program = demo();
    let site = &program.site;
    let id = site.json("/api/v1/requests?limit=1&min_time=0.1")["rows"][0]["id"].clone();
    let request = format!("/requests/{id}");
    let pages = cases![
        "overview" => "/";
        "reports" => "/reports";
        "report" => "/reports/report_by_script_name?sort=-p95";
        "row" => "/reports/report_by_script_name/row?script_name=%2Fcatalog%2Fsearch.php";
        "requests" => "/requests?order=slowest&status=200";
        "request" => request.as_str();
        "timers" => "/timers?by=group,server";
        "daemon" => "/daemon";
        "refusal" => "/requests/1?nope=1";
    ];
    let browser = Browser::start(site);
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        for (width, height, device) in [(1400, 1000, "desk"), (390, 844, "phone")] {
            browser.window(width, height, device == "phone");
            for (name, target) in pages {
                browser.open(target);
                // A refusal is one on purpose; the browser notes it.
                if name == "refusal" {
                    drop(browser.post("/se/log", &json!({"type": "browser"})));
                }
                let wide = browser.js("return document.documentElement.scrollWidth");
                assert!(
                    wide.as_u64().unwrap() <= u64::from(width),
                    "{target} is {wide} wide on a {device}"
                );
                let faint = browser.js(FAINT);
                assert_eq!(faint, json!([]), "{target} in {scheme}: text that is hard to read");
                let unnamed = browser.js(UNNAMED);
                assert_eq!(unnamed, json!([]), "{target}: things without a name");
                browser.assert_quiet();
                browser.picture(&format!("{name}-{device}-{scheme}"));
            }
        }
    }
}

#[test]
fn charts_and_their_legends_stay_in_their_boxes() {
    let program = demo();
    // A name without a place to break.
    let here = Here::start(&[]);
    here.site.send([hostile_request(&"long-".repeat(50).replace('-', ""))]);
    let row = "/reports/report_by_script_name/row?script_name=%2Fcatalog%2Fsearch.php";
    let pages = [
        (&program.site, vec!["/?span=1m", row, "/reports/info/row"]),
        (&here.site, vec!["/", "/requests/1", "/requests/1?by=group"]),
    ];
    for (site, targets) in pages {
        let browser = Browser::start(site);
        for (width, device) in [(1280, "small desk"), (1400, "desk"), (390, "phone")] {
            browser.window(width, 900, device == "phone");
            for target in &targets {
                browser.open(target);
                let outside = browser.js(OUTSIDE);
                assert_eq!(outside, json!([]), "{target} on a {device}");
            }
        }
    }
    here.stop();
}

/// Charts that are larger than what they stand in, parts of legends outside of their boxes, texts
/// outside of their pictures.
const OUTSIDE: &str = include_str!("browser/outside.js");

/// Text whose contrast with what is behind it, or with the bar behind it, is below 4.5, and lines,
/// bars and columns of pictures whose contrast is below 3 (WCAG 2 AA, 1.4.3 and 1.4.11).
const FAINT: &str = include_str!("browser/faint.js");

/// Controls without labels, tables without captions or scopes, pictures without titles, ids that
/// are there twice.
const UNNAMED: &str = include_str!("browser/unnamed.js");

#[test]
fn names_out_of_packets_stay_text() {
    let here = Here::start(&[]);
    here.site.send(HOSTILE.into_iter().map(hostile_request));
    let browser = Browser::start(&here.site);
    let mut targets = vec![
        "/".to_owned(),
        "/requests".into(),
        "/timers?by=group,server".into(),
        "/reports".into(),
    ];
    for name in HOSTILE {
        let name: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        targets.push(format!("/reports/report_by_script_name/row?script_name={name}"));
        targets.push(format!("/timers?by={name}&t.{name}={name}"));
    }
    let ids = 1..=HOSTILE.len();
    targets.extend(ids.map(|id| format!("/requests/{id}")));
    for target in targets {
        browser.open(&target);
        browser.find("main h1");
        let harm = browser.js(
            "return [window.harm || null, document.scripts.length, document.querySelectorAll('img, iframe, object, [onerror], [onload], a[href^=\"javascript\" i]').length]",
        );
        assert_eq!(harm, json!([null, 1, 0]), "{target}");
        browser.assert_quiet();
    }
    browser.open("/");
    browser.picture("hostile-desk-light");
    drop(browser);
    here.stop();
}

#[test]
fn pages_follow_the_second_until_they_are_paused() {
    let here = Here::start(&[]);
    let mut sender = Sender::new(&here.site);
    sender.send(&hostile_request("/first").encode_to_vec());
    sender.at_rest();
    let browser = Browser::start(&here.site);
    browser.open("/");
    browser.js("window.unchanged = true");
    assert_has!(browser.text("#top-report_by_script_name") => "/first");
    sender.send(&hostile_request("/second").encode_to_vec());
    await_until(
        "the second script shows",
        || browser.text("#top-report_by_script_name"),
        |text| text.contains("/second"),
    );
    browser.click("#live");
    assert_eq!(browser.text("#live"), "Resume");
    sender.send(&hostile_request("/third").encode_to_vec());
    sender.at_rest();
    // The daemon shows it to who asks; the page that is paused does not.
    await_until("a new look shows it", || here.site.get("/").body, |page| page.contains("/third"));
    assert_lacks!(browser.text("#top-report_by_script_name") => "/third");
    browser.click("#live");
    await_until(
        "the third script shows",
        || browser.text("#top-report_by_script_name"),
        |text| text.contains("/third"),
    );
    assert_eq!(browser.js("return window.unchanged"), json!(true), "it was loaded again");
    browser.assert_quiet();
    drop(browser);
    here.stop();
}

#[test]
fn a_page_says_what_is_gone() {
    let here = Here::start(&[]);
    let mut nameless = hostile_request("/a");
    nameless.add_timer(1, 0.5, &[("server", "db")]);
    here.site.send([nameless]);
    let form = r#"{"name": "short_lived", "level": "request", "keys": ["hostname"]}"#;
    assert_eq!(here.site.post("/api/v1/reports", form).status, 201);
    let browser = Browser::start(&here.site);
    // The name of a row stands before its bar.
    browser.open("/timers?by=group");
    let behind = browser.js(
        "const cells = [...document.querySelectorAll('#timers th.key')].filter((it) => it.textContent === 'without');
         return cells.map((it) => {
           const range = document.createRange();
           range.selectNodeContents(it.lastChild);
           const { left, top, width, height } = range.getBoundingClientRect();
           return document.elementFromPoint(left + width / 2, top + height / 2).closest('.bar') !== null;
         })",
    );
    assert_eq!(behind, json!([false]));
    browser.open("/reports/short_lived");
    assert_eq!(here.site.ask("DELETE", "/api/v1/reports/short_lived", None).status, 200);
    await_until(
        "the page says that the report is gone",
        || browser.text("#troubles"),
        |text| text.contains("There is no report called"),
    );
    browser.open("/");
    await_until("it is live", || browser.text("#tick"), |text| text.contains("last 5 s"));
    here.stop();
    await_until("it is not", || browser.text("#tick"), |text| text.starts_with("not live"));
    assert_eq!(browser.js("return document.querySelector('[data-away]') !== null"), true);
}

#[test]
fn reports_are_made_and_dropped_and_themes_are_remembered() {
    let here = Here::start(&[]);
    let browser = Browser::start(&here.site);
    browser.open("/timers");
    browser.click("a[href$='#make-h']");
    await_until(
        "a name can be typed into the form that is filled in",
        || browser.js("return [document.readyState, document.activeElement.name]"),
        |state| *state == json!(["complete", "name"]),
    );
    browser.open("/reports");
    browser.keys("#make [name=name]", "by_group");
    browser.keys("#make [name=definition]", "tag_info:");
    browser.click("#make button");
    await_until("the mistake is said", || browser.text("#made"), |said| said.contains("comment"));
    // The browser notes every refusal.
    drop(browser.post("/se/log", &json!({"type": "browser"})));
    browser.keys("#make [name=definition]", "group::50,99.9");
    browser.click("#make button");
    await_until(
        "the new report shows",
        || browser.target(),
        |target| *target == "/reports/by_group",
    );
    browser.assert_quiet();
    browser.open("/reports");
    browser.click("button[data-drop=by_group]");
    browser.post("/alert/accept", &json!({}));
    await_until(
        "the report is gone",
        || here.site.get("/api/v1/reports/by_group"),
        |reply| reply.status == 404,
    );

    let dark = || browser.js("return getComputedStyle(document.body).backgroundColor").to_string();
    browser.prefer("dark");
    await_until("it offers the other", || browser.text("#theme"), |name| name == "Light");
    browser.prefer("light");
    await_until("it offers the other", || browser.text("#theme"), |name| name == "Dark");
    let light = dark();
    browser.click("#theme");
    assert_ne!(dark(), light);
    browser.open("/daemon");
    assert_ne!(dark(), light, "the choice is forgotten");
    browser.assert_quiet();
    drop(browser);
    here.stop();
}

#[test]
fn the_keyboard_reaches_everything() {
    let program = demo();
    let browser = Browser::start(&program.site);
    // Without a scroll that takes its time.
    let media = json!({"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]});
    browser.cdp("Emulation.setEmulatedMedia", &media);
    browser.open("/");
    browser.click("#live");
    browser.open("/");
    let tab = || {
        let key = json!({"type": "key", "id": "keyboard", "actions": [
            {"type": "keyDown", "value": "\u{e004}"}, {"type": "keyUp", "value": "\u{e004}"}]});
        browser.post("/actions", &json!({"actions": [key]}));
    };
    let focused =
        "const it = document.activeElement; return (it.textContent || it.ariaLabel || '').trim()";
    tab();
    assert_eq!(browser.js(focused), "Skip to the content");
    let width = browser.js("return document.activeElement.getBoundingClientRect().width");
    assert!(width.as_f64().unwrap() > 20.0);
    // Everything that can be used, in the order in which it stands on the page, each with a ring
    // around it.
    let all = browser.js(
        "window.reached = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex=\"0\"]')]
           .filter((it) => it.checkVisibility() && it.tabIndex >= 0).slice(1); return window.reached.length",
    );
    let all = all.as_u64().unwrap();
    assert!(all > 50, "{all}");
    for number in 0..all {
        tab();
        let here = browser.js(
            "const it = document.activeElement;
             const { top, bottom } = it.getBoundingClientRect();
             return [window.reached.indexOf(it), getComputedStyle(it).outlineStyle, bottom > 0 && top < innerHeight, it.outerHTML.slice(0, 100)]",
        );
        assert_eq!(here[0], number, "{here}");
        assert_ne!(here[1], "none", "{here}");
        assert_eq!(here[2], true, "{here}");
    }
    let first = [
        "pinbad", "Overview", "Reports", "Requests", "Timers", "Alerts", "Releases", "Daemon",
        "Resume",
    ];
    let seen = browser.js("return window.reached.slice(0, 9).map((it) => it.textContent.trim())");
    assert_eq!(seen, json!(first));
    let forced = browser.js("return [...document.querySelectorAll('[tabindex]')].filter((it) => it.tabIndex > 0).length");
    assert_eq!(forced, 0);
}

/// Nothing that is on the screen moves while one reads, and what comes over the wire is little.
#[test]
fn pages_stand_still_and_weigh_little() {
    let program = demo();
    let browser = Browser::start(&program.site);
    for (width, height, phone) in [(1400, 1000, false), (390, 844, true)] {
        browser.window(width, height, phone);
        for target in ["/", "/reports/report_by_script_name/row?script_name=%2Findex.php"] {
            // An alert of the demo that begins to fire moves what is below it, once.
            let mut moved = (0..3).map(|_| {
                browser.open(target);
                // Three seconds of the daemon pass.
                await_until(
                    "the page follows",
                    || browser.text("#tick"),
                    |text| text.contains("requests/s"),
                );
                let moved = browser.js(
                    "return new Promise((done) => {
                       let moved = 0;
                       new PerformanceObserver((list) => { for (const it of list.getEntries()) moved += it.value; })
                         .observe({ type: 'layout-shift', buffered: true });
                       setTimeout(() => done(moved), 3000);
                     })",
                );
                moved.as_f64().unwrap()
            });
            assert!(moved.any(|moved| moved < 0.02), "{target} at {width} moves");
            let sent = browser.js(
                "const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
                 const once = new Map(all.filter((it) => it.decodedBodySize).map((it) => [it.name, it.decodedBodySize]));
                 return [...once.values()].reduce((sum, bytes) => sum + bytes, 0)",
            );
            let bytes = sent.as_u64().unwrap();
            assert!((1_000..=100_000).contains(&bytes), "{target}: {bytes} bytes");
            browser.assert_quiet();
        }
    }
}

/// A browser that was never here, and reports of ten thousand rows: what the first look takes, and
/// that it is one look. How long it takes is for a release build to say.
#[test]
fn the_first_look_at_ten_thousand_scripts_weighs_little() {
    let here = Here::start(&[]);
    ten_thousand_scripts(&here.site);
    for target in ["/", "/reports/report_by_script_name?sort=-p95&limit=100"] {
        let browser = Browser::start(&here.site);
        browser.open(target);
        let table = browser.text("table:has(a[href*='/row?script_name='])");
        assert!(table.contains("/shop/"), "{table}");
        // The first event comes at once, and asks for nothing: the page is as new.
        await_condition("the page is live", || {
            let text = browser.text("#tick");
            if text.is_empty() { Err(text) } else { Ok(()) }
        });
        // Of what is asked for again, the first answer; and what the page asked for while it was as
        // good as new.
        let got = browser.js(
            "const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].filter((it) => it.decodedBodySize);
             const once = new Map([...all].reverse().map((it) => [it.name, [it.name, it.transferSize, it.encodedBodySize, it.decodedBodySize]]));
             const again = all.filter((it) => it.startTime > 0 && it.startTime < 900 && it.name === location.href);
             return [[...once.values()], again.length]",
        );
        assert_eq!(got[1], 0, "{target}: {got}");
        let got = got[0].as_array().unwrap();
        let sum = |at: usize| got.iter().map(|it| it[at].as_u64().unwrap()).sum::<u64>();
        assert!((3..=4).contains(&got.len()), "{target}: {got:?}");
        assert!(sum(1) <= 40_000 && sum(3) <= 100_000, "{target}: {got:?}");
        assert!(sum(2) * 2 < sum(3), "{target} is not compressed: {got:?}");
        browser.assert_quiet();
    }
    here.stop();
}

/// For reading, the script is not needed: neither for links nor for searching.
#[test]
fn without_javascript_pages_can_be_read_and_searched() {
    let program = demo();
    let browser = Browser::start(&program.site);
    browser.cdp("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    browser.open("/");
    browser.find("#past-times svg path.line");
    browser.click("#top-report_by_script_name tbody th a");
    browser.find("#slowest tbody th a");
    browser.open("/requests");
    browser.keys("form.filters [name=script_name]", "/index.php");
    browser.click("form.filters button");
    await_until(
        "the search is in the address",
        || browser.target(),
        |target| target.contains("script_name=%2Findex.php"),
    );
    browser.find("#found tbody th a");
    browser.picture("requests-without-javascript");
    // What takes a script says how to do it without.
    browser.open("/reports");
    browser.find("noscript code");
    assert_eq!(browser.js("return document.querySelector('#make').checkVisibility()"), false);
    assert_eq!(browser.js("return document.querySelector('#live').checkVisibility()"), false);
    browser.picture("reports-without-javascript");
    browser.assert_quiet();
}

/// A drag over a chart leads to that part of its span; without a mouse the form does, and every
/// link keeps the time.
#[test]
#[cfg(feature = "sql")]
fn a_drag_over_a_chart_leads_into_the_past() {
    let dir = tempfile::tempdir().unwrap();
    let folder = format!("history.dir={}", dir.path().display());
    let here = Here::start(&[&folder, "history.free_min=0"]);
    here.site.send([hostile_request("/first")]);
    let browser = Browser::start(&here.site);
    browser.open("/");
    browser.find("#past-times svg rect.plot");
    let drag = |parts: [f64; 2]| {
        let plot = browser.js(
            "document.querySelector('#past-times').scrollIntoView({behavior: 'instant', block: 'center'});
             const it = document.querySelector('#past-times rect.plot').getBoundingClientRect();
             return [it.left, it.width, it.top + it.height / 2]",
        );
        let place = |at: usize| plot[at].as_f64().unwrap();
        let to = |part: f64| json!({"type": "pointerMove", "duration": 0, "x": (place(0) + place(1) * part) as i64, "y": place(2) as i64});
        let mouse = json!({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [
            to(parts[0]), {"type": "pointerDown", "button": 0}, to(parts[1]), {"type": "pointerUp", "button": 0}]});
        browser.post("/actions", &json!({"actions": [mouse]}));
    };
    let leads_to = |what: &str, wanted: &dyn Fn(&str) -> bool| {
        await_until(what, || browser.target(), |target| wanted(target))
    };
    drag([0.25, 0.75]);
    let target = leads_to("a part of the chart", &|it| it.contains("from=") && it.contains("to="));
    let span = browser.js("return document.querySelector('main').dataset.past");
    // It may be a part of the running minute.
    assert!(["0", "60"].iter().any(|it| span == *it), "{target}: {span}");
    // Of that a part again.
    browser.find("#past-times svg rect.plot");
    drag([0.9, 0.1]);
    leads_to("a part of that part", &|it| it.contains("from=") && it != target);
    browser.find(".time summary[aria-current]");
    browser.assert_quiet();

    browser.click(".time summary");
    browser.js("for (const it of document.querySelectorAll('.time input')) it.value = ''");
    browser.keys(".time input[name=from]", "-1h");
    browser.keys(".time input[name=tz]", "Europe/Berlin");
    browser.click(".time button");
    leads_to("the form's span", &|it| it.contains("from=-1h") && it.contains("tz=Europe%2FBerlin"));
    assert_eq!(browser.js(FAINT), json!([]));
    assert_eq!(browser.js(UNNAMED), json!([]));
    browser.picture("overview-past");
    browser.click("#top-report_by_script_name tbody th a");
    leads_to("a row of the same span", &|it| it.contains("/row?") && it.contains("from=-1h"));
    browser.find("#spread svg[role=img]");
    browser.picture("row-past");
    browser.assert_quiet();
    drop(browser);
    here.stop();
}
