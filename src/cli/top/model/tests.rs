//! Keys and news against what is shown and asked for.

use serde_json::json;

use super::*;
use crate::cli::client::ClientError;
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
    Page {
        about: Vec::new(),
        tables: vec![views::by_key(Tab::Scripts, &json!({"rows": rows}))],
    }
}

fn show(model: &mut Model, page: Page) {
    let serial = model.query().serial;
    model.take(Update::Page(serial, page));
}

fn selected(model: &Model) -> String {
    let row = model.view().table().unwrap().selected_row().unwrap();
    row.cells[0].format(crate::cli::top::cell::Unit::Text)
}

#[test]
fn one_goes_down_to_a_request_and_back() {
    let mut model = model();
    show(&mut model, scripts(&[("/a", 2), ("/b\u{1b}", 1)]));
    model.act(Action::Move(1));
    model.act(Action::Open);
    let conditions = vec![("script_name".to_owned(), "/b\u{1b}".to_owned())];
    let query = model.query();
    assert_eq!(query.location, Location::Requests(conditions));
    assert_eq!(model.path(), ["scripts", "script_name = /b\\x1b"]);
    let requests = [json!({"id": 7, "req_time": 1.0, "script_name": "/b"})];
    let tables = vec![
        crate::cli::top::timers::added_up(&requests, None),
        views::slowest("slowest".to_owned(), &[], &requests),
    ];
    model.take(Update::Page(
        query.serial,
        Page {
            about: Vec::new(),
            tables,
        },
    ));
    model.act(Action::Open);
    assert_eq!(
        model.query().serial,
        query.serial,
        "there is no timer to open"
    );
    model.act(Action::Other);
    model.act(Action::Open);
    assert_eq!(model.query().location, Location::Request(7));
    // What was asked for before comes late and finds its screen.
    model.take(Update::Page(0, scripts(&[("/c", 2), ("/b\u{1b}", 9)])));
    model.act(Action::Back);
    model.act(Action::Back);
    assert_eq!(
        (model.path().len(), selected(&model).as_str()),
        (1, "/b\\x1b")
    );
    model.act(Action::Back);
    assert_eq!(model.path(), ["scripts"]);
    assert!(!model.act(Action::Quit));
}

#[test]
fn a_filter_is_typed_kept_and_dropped() {
    let mut model = model();
    show(&mut model, scripts(&[("/a", 2), ("/b", 1)]));
    assert!(!model.query().all);
    model.act(Action::Filter);
    assert!(model.typing);
    for c in "bx".chars() {
        model.act(Action::Type(c));
    }
    model.act(Action::Erase);
    model.act(Action::Open);
    assert!(
        !model.typing && model.path().len() == 1,
        "Enter ends the typing"
    );
    assert_eq!((selected(&model).as_str(), model.query().all), ("/b", true));
    model.act(Action::Back);
    assert_eq!(model.view().table().unwrap().len(), 2);
    // It does not grow for ever.
    model.act(Action::Filter);
    for _ in 0..1000 {
        model.act(Action::Type('x'));
    }
    assert_eq!(model.view().table().unwrap().filter().len(), FILTER_MAX);
}

#[test]
fn sorts_tabs_and_pace_are_part_of_the_wish() {
    let mut model = model();
    assert_eq!(model.query().sort, None);
    show(&mut model, scripts(&[("/a", 2)]));
    assert_eq!(model.query().sort.as_deref(), Some("-req_time_total"));
    model.act(Action::Sort(-1));
    assert_eq!(model.query().sort.as_deref(), Some("-req_per_sec"));
    model.act(Action::Reverse);
    assert_eq!(model.query().sort.as_deref(), Some("req_per_sec"));
    model.act(Action::Sort(4));
    assert_eq!(model.query().sort.as_deref(), Some("-p95"));
    model.act(Action::Sort(1));
    assert_eq!(model.query().sort.as_deref(), Some("-error_count"));
    model.act(Action::Sort(1));
    assert_eq!(
        (model.query().sort, model.query().all),
        (None, true),
        "worked out here"
    );
    model.act(Action::Turn(-1));
    assert_eq!(model.query().location, Location::Tab(Tab::Reports));
    model.act(Action::Other);
    assert_eq!(model.query().location, Location::Tab(Tab::Scripts));
    model.act(Action::Tab(99));
    assert_eq!(model.tab, 0);
    for _ in 0..20 {
        model.act(Action::Slower(false));
    }
    assert_eq!(model.query().interval, INTERVALS.0);
    for _ in 0..40 {
        model.act(Action::Slower(true));
    }
    assert_eq!(model.query().interval, INTERVALS.1);
}

#[test]
fn standing_still_keeps_the_rows_but_opens_what_is_new() {
    let mut model = model();
    show(&mut model, scripts(&[("/a", 2)]));
    model.act(Action::Pause);
    show(&mut model, scripts(&[("/b", 2)]));
    assert_eq!(selected(&model), "/a");
    model.act(Action::Tab(1));
    show(&mut model, scripts(&[("/c", 2)]));
    assert_eq!(selected(&model), "/c");
    model.act(Action::Pause);
    show(&mut model, scripts(&[("/d", 2)]));
    assert_eq!(selected(&model), "/d");
}

#[test]
fn a_daemon_that_is_gone_leaves_what_was_there() {
    let mut model = model();
    assert_eq!(model.connection, Connection::Waiting);
    model.take(Update::Sample(Sample::default(), Duration::ZERO));
    show(&mut model, scripts(&[("/a", 2)]));
    let lost = ClientError::Unreachable {
        url: "http://h:1".to_owned(),
        problem: "refused\u{1b}".to_owned(),
    };
    model.take(Update::Lost(lost));
    assert_eq!(
        model.connection,
        Connection::Lost("http://h:1: refused\\x1b".to_owned())
    );
    assert_eq!(selected(&model), "/a");
    model.take(Update::Refused(0, "no such report".to_owned()));
    assert_eq!(model.view().refused.as_deref(), Some("no such report"));
    show(&mut model, scripts(&[("/a", 2)]));
    assert_eq!(
        (model.view().refused.as_deref(), &model.connection),
        (None, &Connection::There)
    );
}

#[test]
fn timers_are_grouped_by_one_tag_after_the_other() {
    let mut model = Model::new(
        "http://h:1",
        Some("r"),
        Some("+count"),
        Duration::from_secs(1),
    );
    assert_eq!(model.path(), ["reports", "report r"]);
    model.act(Action::Tab(4));
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
        model.act(Action::Group);
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
