//! Keys and updates, and the resulting screens and queries.

use serde_json::json;

use super::*;
use crate::cli::client::ClientError;
use crate::cli::top::location::BY_KEY;
use crate::cli::top::stats::Sample;
use crate::cli::top::views;

fn model() -> Model {
    Model::new("http://h:1", None, None, Duration::from_secs(1))
}

fn scripts(rows: &[(&str, u64)]) -> Page {
    let rows: Vec<_> = rows
        .iter()
        .map(|(name, count)| json!({"script_name": name, "req_count": count, "req_time_total": count}))
        .collect();
    Page { about: Vec::new(), tables: vec![views::by_key(&BY_KEY[0], &json!({"rows": rows}))] }
}

fn show(model: &mut Model, page: Page) {
    let serial = model.query().serial;
    model.take(Update::Page(serial, Ok(page)));
}

fn selected(model: &Model) -> String {
    let row = model.view().table().unwrap().selected_row().unwrap();
    crate::cli::top::cell::Unit::Text.format(&row.values["script_name"])
}

fn press(model: &mut Model, keys: &str) -> bool {
    keys.chars().all(|key| {
        let code = match key {
            '\r' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{8}' => KeyCode::Backspace,
            '\u{1b}' => KeyCode::Esc,
            c => KeyCode::Char(c),
        };
        model.press(code.into())
    })
}

#[test]
fn one_goes_down_to_a_request_and_back() {
    let mut model = model();
    show(&mut model, scripts(&[("/a", 2), ("/b\u{1b}", 1)]));
    press(&mut model, "j");
    press(&mut model, "\r");
    let conditions = vec![("script_name".to_owned(), "/b\u{1b}".to_owned())];
    // Its tables are on their way.
    press(&mut model, "\t");
    let query = model.query();
    assert_eq!(query.location, Location::Requests(conditions));
    assert_eq!(model.path(), ["scripts", "script_name = /b\\x1b"]);
    let requests = [json!({"id": 7, "req_time": 1.0, "script_name": "/b"})];
    let tables = vec![
        crate::cli::top::timers::added_up(&requests, None),
        views::slowest("slowest".to_owned(), &Vec::new(), &requests),
    ];
    model.take(Update::Page(query.serial, Ok(Page { about: Vec::new(), tables })));
    press(&mut model, "\r");
    assert_eq!(model.query().serial, query.serial, "there is no timer to open");
    press(&mut model, "\t");
    press(&mut model, "\r");
    assert_eq!(model.query().location, Location::Request(7));
    // The answer to an earlier query comes late and finds its screen.
    model.take(Update::Page(0, Ok(scripts(&[("/c", 2), ("/b\u{1b}", 9)]))));
    press(&mut model, "\u{1b}");
    press(&mut model, "\u{1b}");
    assert_eq!((model.path().len(), selected(&model).as_str()), (1, "/b\\x1b"));
    press(&mut model, "\u{1b}");
    assert_eq!(model.path(), ["scripts"]);
    assert!(!press(&mut model, "q"));
}

#[test]
fn a_filter_is_typed_kept_and_dropped() {
    let mut model = model();
    show(&mut model, scripts(&[("/a", 2), ("/b", 1)]));
    assert!(!model.query().all);
    press(&mut model, "/");
    assert!(model.typing);
    press(&mut model, "bx");
    press(&mut model, "\u{8}");
    press(&mut model, "\r");
    assert!(!model.typing && model.path().len() == 1, "Enter ends the typing");
    assert_eq!((selected(&model).as_str(), model.query().all), ("/b", true));
    press(&mut model, "\u{1b}");
    assert_eq!(model.view().table().unwrap().rows().len(), 2);
    // It does not grow without bound.
    press(&mut model, "/");
    for _ in 0..1000 {
        press(&mut model, "x");
    }
    assert_eq!(model.view().table().unwrap().filter.len(), FILTER_MAX);
}

#[test]
fn sorts_tabs_and_pace_are_part_of_the_wish() {
    let mut model = model();
    assert_eq!(model.query().sort, None);
    show(&mut model, scripts(&[("/a", 2)]));
    assert_eq!(model.query().sort.as_deref(), Some("-req_time_total"));
    press(&mut model, "<");
    assert_eq!(model.query().sort.as_deref(), Some("-req_per_sec"));
    press(&mut model, "r");
    assert_eq!(model.query().sort.as_deref(), Some("req_per_sec"));
    press(&mut model, ">>>");
    assert_eq!(model.query().sort.as_deref(), Some("-p95"));
    press(&mut model, ">");
    assert_eq!(model.query().sort.as_deref(), Some("-error_count"));
    press(&mut model, ">>");
    assert_eq!((model.query().sort, model.query().all), (None, true), "worked out here");
    model.press(KeyCode::Left.into());
    assert_eq!(model.query().location, Location::Reports);
    press(&mut model, "\t");
    assert_eq!(model.query().location, Location::ByKey(&BY_KEY[0]));
    press(&mut model, "9");
    assert_eq!(model.tab, 0);
    for _ in 0..20 {
        press(&mut model, "+");
    }
    assert_eq!(model.query().interval, INTERVALS.0);
    for _ in 0..40 {
        press(&mut model, "-");
    }
    assert_eq!(model.query().interval, INTERVALS.1);
}

#[test]
fn standing_still_keeps_the_rows_but_opens_what_is_new() {
    let mut model = model();
    show(&mut model, scripts(&[("/a", 2)]));
    press(&mut model, "p");
    show(&mut model, scripts(&[("/b", 2)]));
    assert_eq!(selected(&model), "/a");
    press(&mut model, "2");
    show(&mut model, scripts(&[("/c", 2)]));
    assert_eq!(selected(&model), "/c");
    press(&mut model, "p");
    show(&mut model, scripts(&[("/d", 2)]));
    assert_eq!(selected(&model), "/d");
}

#[test]
fn a_daemon_that_is_gone_leaves_what_was_there() {
    let mut model = model();
    assert_eq!(model.lost, None);
    model.take(Update::Sample(Sample::default(), Duration::ZERO));
    show(&mut model, scripts(&[("/a", 2)]));
    let lost = ClientError::Unreachable {
        url: "http://h:1".to_owned(),
        problem: "refused\u{1b}".to_owned(),
    };
    model.take(Update::Lost(lost));
    assert_eq!(model.lost.as_deref(), Some("http://h:1: refused\\x1b"));
    assert_eq!(selected(&model), "/a");
    model.take(Update::Page(0, Err("no such report".to_owned())));
    assert_eq!(model.view().refused.as_deref(), Some("no such report"));
    show(&mut model, scripts(&[("/a", 2)]));
    assert_eq!((model.view().refused.as_deref(), &model.lost), (None, &None));
}

#[test]
fn timers_are_grouped_by_one_tag_after_the_other() {
    let mut model = Model::new("http://h:1", Some("r"), Some("+count"), Duration::from_secs(1));
    assert_eq!(model.path(), ["reports", "report r"]);
    press(&mut model, "5");
    let request =
        json!({"timers": [{"tags": {"group": "db", "server": "a"}}, {"tags": {"group": "x"}}]});
    let mut seen = Vec::new();
    for _ in 0..4 {
        let tag = model.query().tag;
        let page = Page {
            about: Vec::new(),
            tables: vec![crate::cli::top::timers::added_up(
                std::slice::from_ref(&request),
                tag.as_deref(),
            )],
        };
        show(&mut model, page);
        seen.push(tag);
        press(&mut model, "t");
    }
    let tag = |name: &str| Some(name.to_owned());
    assert_eq!(seen, [None, tag("group"), tag("server"), None]);
}

#[test]
fn one_cannot_go_deeper_and_deeper() {
    let mut model = model();
    for id in 0..100 {
        model.open(Location::Request(id));
    }
    assert_eq!(model.path().len(), OPENED_MAX + 1);
}

#[test]
fn a_filter_takes_letters_and_arrows_still_move() {
    for typing in [false, true] {
        let mut model = model();
        show(&mut model, scripts(&[("/q", 2), ("/bq", 1)]));
        press(&mut model, if typing { "/" } else { "" });
        model.press(KeyCode::Down.into());
        assert_eq!(selected(&model), "/bq");
        let end = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!model.press(end));
        assert!(model.press(KeyCode::F(5).into()));
        assert_eq!(press(&mut model, "q"), typing);
        press(&mut model, "\u{1}");
        let filter = &model.view().table().unwrap().filter;
        assert_eq!(filter, if typing { "q" } else { "" });
    }
}
