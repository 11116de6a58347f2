//! The screen as ratatui's test terminal sees it.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use serde_json::json;

use super::*;
use crate::cli::client::ClientError;
use crate::cli::top::location::BY_KEY;
use crate::cli::top::poll::{Page, Update};
use crate::cli::top::stats::Sample;
use crate::cli::top::{timers, views};

const NAMES: [&str; 3] =
    ["/catalog/search.php", "/checkout/pay.php", "/\u{1b}[2J\u{9b}31m\u{202e}日本"];

fn sample(requests: u64) -> Sample {
    Sample {
        status: json!({"requests_merged": requests, "datagrams_received": requests,
            "received_bytes": requests * 300, "lost": requests / 100, "request_rows": 5904,
            "timer_rows": 13343, "dictionary_size": 90, "report_memory_bytes": 497_000,
            "report_memory_bytes_max": 268_435_456, "ring_depth": 1, "merge_lag_us": 5752}),
        requests: vec![Some(200.0)],
        latency: vec![Some(0.198)],
        step_secs: 1,
        unix_secs: 1_700_000_000,
    }
}

#[test]
fn a_step_that_may_not_be_over_is_not_shown() {
    let shown = |step_secs| {
        let requests = vec![Some(2.0), Some(12.0)];
        let line = past(&Sample { requests, step_secs, ..sample(1_000) }, 80);
        line.spans[3].content.trim().to_owned()
    };
    assert_eq!((shown(1), shown(2)), ("12.0".to_owned(), "2.00".to_owned()));
}

fn model() -> Model {
    let mut model = Model::new("http://127.0.0.1:30080", None, None, Duration::from_secs(1));
    model.take(Update::Sample(sample(1000), Duration::ZERO));
    model.take(Update::Sample(sample(1200), Duration::from_secs(1)));
    let rows: Vec<_> = NAMES
        .iter()
        .zip(1_u32..)
        .map(|(name, at)| {
            json!({"script_name": name, "req_count": at * 100, "req_per_sec": at, "req_time_total": f64::from(at) * 1.5,
                "req_time_percent": at * 10, "p50": 0.035 * f64::from(at), "p95": 0.09 * f64::from(at), "error_count": at - 1,
                "ru_utime_total": 1, "ru_stime_total": 0.5, "memory_footprint_total": 123_456, "traffic_per_sec": 620})
        })
        .collect();
    let body = json!({"window_seconds": 900.0, "covered_seconds": 83, "rows": rows});
    let page = Page { about: Vec::new(), tables: vec![views::by_key(&BY_KEY[0], &body)] };
    model.take(Update::Page(0, Ok(page)));
    model
}

fn press(model: &mut Model, key: char) {
    let code = match key {
        '\r' => KeyCode::Enter,
        '\t' => KeyCode::Tab,
        '\u{1b}' => KeyCode::Esc,
        c => KeyCode::Char(c),
    };
    model.press(code.into());
}

fn drawn(model: &mut Model, columns: u16, rows: u16, colour: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame, model, colour)).unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width.max(1));
    let rows = buffer.content.chunks(width);
    let line = |cells: &[ratatui::buffer::Cell]| {
        let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned()
    };
    rows.map(line).collect()
}

#[test]
fn a_screen_of_80_by_24() {
    let lines = text(&drawn(&mut model(), 80, 24, true));
    let expected = "\
pinbad 127.0.0.1:30080                                    every 1s  22:13:20 UTC
last 1.00 s: 200 req/s  200 pkt/s  58.6 KiB/s  lost 2.00/s (12)  refused 0/s (0)
rows 5,904 requests, 13,343 timers; reports 485 KiB of 256 MiB; 1 waiting
by the second: req/s               █ 200        p95                 █ 198 ms
 1 scripts  2 servers  3 hosts  4 statuses  5 timers  6 requests  7 reports
scripts (3), last 83 s  7 of 12 columns
script                          count   req/s  ▼total   median      p95   errors
/\\x1b[2J\\u{9b}31m\\u{202e}日 本      300    3.00  4.50 s   105 ms   270 ms        2
/checkout/pay.php                 200    2.00  3.00 s  70.0 ms   180 ms        1
/catalog/search.php               100    1.00  1.50 s  35.0 ms  90.0 ms        0";
    assert_eq!(lines[..10].join("\n"), expected);
    assert_eq!(lines[10..23], vec![""; 13]);
    assert_eq!(
        lines[23],
        "q end  ? help  Enter open  <> sort  r turn  / filter  p pause  +- pace  1-7 view"
    );
}

#[test]
fn rates_stand_still_in_a_pause_and_are_between_two_polls_after_it() {
    let mut model = model();
    let rate = |model: &mut Model| {
        let line = text(&drawn(model, 80, 24, true)).swap_remove(1);
        line.split_once(" req/s").unwrap().0.to_owned()
    };
    press(&mut model, 'p');
    for requests in [1500, 1800] {
        model.take(Update::Sample(sample(requests), Duration::from_secs(1)));
        assert_eq!(rate(&mut model), "last 1.00 s: 200");
    }
    press(&mut model, 'p');
    assert_eq!(rate(&mut model), "last 1.00 s: 300");
    model.take(Update::Sample(sample(2600), Duration::from_secs(2)));
    assert_eq!(rate(&mut model), "last 2.00 s: 400");
}

#[test]
fn no_size_is_too_small_and_the_table_stays_longest() {
    for columns in [0, 1, 2, 5, 20, 39, 80, 300] {
        for rows in [0, 1, 2, 3, 4, 7, 8, 17, 18, 60] {
            let mut model = model();
            for key in ['?', '?', '/', 'x', '\r'] {
                drawn(&mut model, columns, rows, true);
                press(&mut model, key);
            }
            press(&mut model, '\u{1b}');
            press(&mut model, '\r');
            drawn(&mut model, columns, rows, false);
        }
    }
    let lines = text(&drawn(&mut model(), 40, 4, true));
    assert!(lines[1].contains("/\\x1b[2…") || lines[2].contains("/\\x1b[2…"), "{lines:?}");
    assert!(text(&drawn(&mut model(), 40, 1, true))[0].contains("/\\x1b[2…"));
}

#[test]
fn without_colours_there_are_none_and_the_selection_shows_all_the_same() {
    let mut failing = model();
    let lost =
        ClientError::Unreachable { url: "http://h".to_owned(), problem: "refused".to_owned() };
    failing.take(Update::Lost(lost));
    for model in [&mut model(), &mut failing] {
        let plain = drawn(model, 80, 24, false);
        let coloured =
            |cell: &&ratatui::buffer::Cell| cell.fg != Color::Reset || cell.bg != Color::Reset;
        assert_eq!(plain.content.iter().find(coloured), None);
        let selected = plain.cell((0, 7)).unwrap();
        assert!(selected.modifier.contains(Modifier::REVERSED));
        assert!(drawn(model, 80, 24, true).content.iter().any(|cell| coloured(&cell)));
    }
    assert!(
        text(&drawn(&mut failing, 80, 24, false))[1].starts_with("No answer: http://h: refused")
    );
}

#[test]
fn nothing_that_a_terminal_would_execute_is_drawn() {
    let mut model = model();
    let evil = "\u{1b}[2J\u{7}\u{9b}x\u{202e}\n";
    let request = json!({"id": 1, "script_name": evil, "hostname": evil, "server_name": evil, "schema": evil,
        "req_time": 1, "status": 200, "timestamp": 1, "tags": {evil: evil},
        "timers": [{"value": 0.5, "hit_count": 1, "tags": {evil: [evil, evil]}}]});
    press(&mut model, '\r');
    let tables = vec![
        timers::added_up(std::slice::from_ref(&request), Some(evil)),
        views::slowest(
            evil.escape_debug().to_string(),
            &Vec::new(),
            std::slice::from_ref(&request),
        ),
    ];
    model.take(Update::Page(model.query().serial, Ok(Page { about: Vec::new(), tables })));
    let check = |model: &mut Model| {
        let lines = text(&drawn(model, 200, 40, true));
        let acts = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!lines.concat().contains(acts), "{lines:#?}");
        lines.join("\n")
    };
    assert!(check(&mut model).contains("\\x1b[2J\\x07\\u{9b}x\\u{202e}\\n"));
    press(&mut model, '\t');
    press(&mut model, '\r');
    let page = Page { about: views::about(&request), tables: vec![timers::of_request(&request)] };
    model.take(Update::Page(model.query().serial, Ok(page)));
    assert!(check(&mut model).contains("tags  \\x1b[2J"));
    model.take(Update::Page(model.query().serial, Err("gone".to_owned())));
    assert!(check(&mut model).contains("gone"));
    press(&mut model, '/');
    check(&mut model);
}

#[test]
fn the_selected_row_stays_in_sight() {
    let mut model = model();
    let rows: Vec<_> = (0..500)
        .map(|at| json!({"script_name": format!("/{at:03}"), "req_time_total": 1000 - at}))
        .collect();
    let page =
        Page { about: Vec::new(), tables: vec![views::by_key(&BY_KEY[0], &json!({"rows": rows}))] };
    model.take(Update::Page(0, Ok(page)));
    let mut seen = |keys: &[KeyCode]| {
        for key in keys {
            model.press((*key).into());
        }
        let buffer = drawn(&mut model, 80, 24, false);
        let lines = text(&buffer);
        let selected_style = (7..23)
            .find(|row| buffer.cell((0, *row)).unwrap().modifier.contains(Modifier::REVERSED));
        lines[usize::from(selected_style.expect("the selection is in sight"))][..4].to_owned()
    };
    assert_eq!(seen(&[]), "/000");
    assert_eq!(seen(&[KeyCode::PageDown]), "/016");
    assert_eq!(seen(&[KeyCode::End]), "/499");
    assert_eq!(seen(&[KeyCode::Up; 3]), "/496");
    assert_eq!(seen(&[KeyCode::PageUp]), "/480");
    assert_eq!(seen(&[KeyCode::Home]), "/000");
}
