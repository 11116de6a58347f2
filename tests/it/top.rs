//! `pinbad top` as its users see it: on a terminal, with keys, and as plain text.

use std::process::Command;

use prost::Message as _;

use crate::harness::{
    Here, Program, Said, Sender, Site, await_condition, await_until, nobody_listens, pinbad, run,
};
use crate::packets::request;
use crate::screen::Screen;

/// Clears the screen, renames the window, turns the direction: if it is executed.
const EVIL: &str = "/\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}x";
/// The same, shown.
const EVIL_SHOWN: &str = "/\\x1b[2J\\x1b]0;owned\\x07\\u{9b}31m\\u{202e}x";

/// A few scripts, the first of which is slow, and one with a hostile name.
fn fill(site: &Site) {
    let mut sender = Sender::new(site);
    for at in 0..20 {
        let mut slow = request("web-01", "shop", "/slow");
        slow.request_time = Some(2.0 + at as f32 / 8.0);
        slow.status = Some(500);
        sender.send(&slow.encode_to_vec());
        sender.send(&request("web-02", "shop", "/quick").encode_to_vec());
    }
    let mut evil = request(EVIL, EVIL, EVIL);
    evil.add_tag(EVIL, EVIL);
    evil.add_timer(1, 0.5, &[(EVIL, EVIL)]);
    sender.send(&evil.encode_to_vec());
    sender.at_rest();
}

fn top(site: &Site, arguments: &[&str]) -> Command {
    let mut command = pinbad();
    command.args(["top", "--url", &site.http.to_string()]).args(arguments);
    command.env_remove("NO_COLOR").env_remove("COLUMNS");
    command
}

fn once(site: &Site, arguments: &[&str]) -> Said {
    run(&mut top(site, arguments))
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn without_a_terminal_it_is_plain_text() {
    let here = Here::start(&[r#"report=[{name = "groups", comment = "tag_info:group::95"}]"#]);
    fill(&here.site);
    let said = once(&here.site, &[]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!said.out.contains(acts), "{:?}", said.out);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].starts_with(&format!("pinbad http://{}  ", here.site.http)));
    assert!(
        lines[1].starts_with("41 requests in ") && lines[1].ends_with("lost 0, refused 0"),
        "{}",
        lines[1]
    );
    assert!(lines[4].starts_with("scripts (3), last "), "{}", lines[4]);
    let heading = [
        "script", "count", "req/s", "▼total", "median", "p95", "errors", "%", "time", "avg", "cpu",
        "memory", "out/s",
    ];
    assert_eq!(words(lines[5]), heading);
    // 20 requests of 2.0 to 4.375 s; each has 3/32 s of processor time, 4 kB of memory.
    let slow = words(lines[6]);
    assert_eq!((slow[0], slow[1], &slow[3..5]), ("/slow", "20", &["63.8", "s"][..]));
    // A column has one unit, here that of the fast ones.
    assert_eq!(slow[7..10], ["4,227", "ms", "20"]);
    assert_eq!(slow[12..16], ["3,188", "ms", "93.8", "ms"]);
    assert!(said.out.contains(EVIL_SHOWN));
    for title in [
        "servers (2), last ",
        "hosts (3), last ",
        "statuses (2), last ",
        "timers of 41 requests, by all tags (3)",
    ] {
        assert!(lines.iter().any(|it| it.starts_with(title)), "{title}: {}", said.out);
    }

    // The smallest first, one row; and a report of one's own.
    let said = once(&here.site, &["--once", "--sort", "+req_count", "-n", "1"]);
    assert!(said.out.lines().nth(6).unwrap().starts_with(EVIL_SHOWN), "{said:?}");
    for sort in ["p95", "errors"] {
        let said = once(&here.site, &["--sort", sort, "-n", "1"]);
        let lines: Vec<&str> = said.out.lines().collect();
        assert!(lines[5].contains(&format!("▼{sort}")), "{}", lines[5]);
        assert_eq!(words(lines[6])[0], "/slow", "{sort}");
    }
    // By columns that the report has without listing them.
    for sort in ["p95", "error_count"] {
        let said = once(&here.site, &["--report", "report_by_script_name", "--sort", sort]);
        let lines: Vec<&str> = said.out.lines().collect();
        assert!(lines[5].contains(&format!("▼{sort}")), "{said:?}");
        assert_eq!(words(lines[6])[0], "/slow", "{sort}");
    }
    let said = once(&here.site, &["--report", "groups", "--sort", "p95"]);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[4].starts_with("groups (2)"), "{}", lines[4]);
    for (columns, is_whole) in [("40", false), ("1000", true)] {
        let mut sized = top(&here.site, &["--report", "groups"]);
        let sized = run(sized.env("COLUMNS", columns)).out;
        let caption = sized.lines().nth(4).unwrap_or_default();
        assert!(caption.starts_with("groups (2), last "), "{sized}");
        assert_eq!(caption.ends_with(" columns"), !is_whole, "{sized}");
    }
    assert!(lines[5].contains("▼p95"), "{}", lines[5]);
    assert_eq!((words(lines[6])[0], words(lines[7])[0]), ("cache", "db"));
    here.stop();
}

#[test]
fn what_is_wrong_is_said_with_its_exit_code() {
    let (nobody, _taken) = nobody_listens();
    let here = Here::start(&["pool.request_pool_size=0"]);
    let said = run(pinbad().args(["top", "--once", "--url", &nobody.to_string()]));
    assert_eq!(said.code, Some(1));
    assert_eq!(
        said.err,
        format!(
            "pinbad: http://{nobody}: Connection refused (os error 111); is pinbad running? --url or --http says where\n"
        )
    );
    for (arguments, code, part) in cases![
        &["--report", "no\u{1b}such"][..] => 1, "\\u{1b}such";
        &["--report", "report_by_scrpt"] => 1, "did you mean \"report_by_script_name\"?";
        &["--sort", "speed"] => 2, "there is no column speed; accepted: script_name, req_count";
        &["--report", "report_by_status", "--sort", "speed"] => 2, "there is no column speed; accepted: status";
        &["--sort", "req_cuont"] => 2, "req_cuont; did you mean \"req_count\"? accepted: script_name";
        &["--interval", "0"] => 2, "200ms to 1h";
    ] {
        let said = once(&here.site, arguments);
        assert_eq!(said.code, Some(code), "{arguments:?}: {said:?}");
        assert!(said.err.contains(part), "{arguments:?}: {said:?}");
        assert!(!said.err.contains('\u{1b}'), "{said:?}");
    }
    // Without raw data the reports are there all the same.
    let said = once(&here.site, &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_has!(said.out => "statuses (0)");
    assert_lacks!(said.out => "timers of");
    here.stop();
}

#[test]
fn it_ends_with_its_terminal() {
    let here = Here::start(&[]);
    fill(&here.site);
    let mut screen = Screen::start(top(&here.site, &[]), 140, 30);
    screen.await_text("/slow");
    screen.hang_up("?");
    let status = screen.end();
    assert_eq!(status.code(), Some(1), "{status}");
    here.stop();
}

#[test]
#[cfg(feature = "sql")]
fn the_chart_names_the_step_that_the_daemon_has() {
    let folder = tempfile::tempdir().unwrap();
    let history = format!("history.dir={}", folder.path().display());
    let here = Here::start(&[&history, "history.free_min=0"]);
    let mut screen = Screen::start(top(&here.site, &[]), 140, 30);
    // The time before its start comes from the history.
    screen.await_text("by the minute: req/s");
    screen.press("q");
    assert_eq!(screen.end().code(), Some(0));
    here.stop();
}

#[test]
fn one_finds_the_timers_of_a_slow_request_and_leaves_the_terminal_as_it_was() {
    let here = Here::start(&[]);
    fill(&here.site);
    let mut screen = Screen::start(top(&here.site, &["--interval", "200ms"]), 140, 30);
    let line = screen.await_text("/slow");
    assert_eq!(words(&line)[..2], ["/slow", "20"]);
    screen.await_text(EVIL_SHOWN);
    assert!(screen.look(vt100::Screen::alternate_screen));

    // From the slow script to its slowest request, and to its timers.
    screen.press("\r");
    screen.await_text("scripts > script_name = /slow");
    screen.await_text("timers of 20 requests, by all tags (2)");
    screen.press("t");
    screen.await_text("timers of 20 requests, by tag group (2)");
    let slowest = screen.await_text("4.38 s");
    assert_has!(slowest => "500", "web-01");
    screen.press("\t\r");
    screen.await_text("server, host  shop, web-01");
    let timer = screen.await_text("group=db op=read");
    assert!(timer.contains("250 ms") && timer.contains("5.7 %"), "{timer}");

    // Back to the start, by the filter to the hostile one; its name was a name all the way.
    screen.press("\u{1b}");
    screen.await_text("slowest requests in memory (20)");
    screen.press("\u{1b}");
    screen.await_text("scripts (3)");
    screen.press("/31M");
    let caption = screen.await_text("filter: 31M_");
    assert!(caption.starts_with("scripts (1 of 3), last "), "{caption}");
    screen.press("\r\r");
    screen.await_text(&format!("scripts > script_name = {EVIL_SHOWN}"));
    screen.await_text("timers of 1 request, by");
    screen.press("?");
    screen.await_text("group timers by the next tag");
    screen.press("?7");
    screen.await_text("report_by_hostname_and_server");
    let written = String::from_utf8_lossy(&screen.bytes()).into_owned();
    assert!(
        !written.contains("\u{1b}]0;")
            && !written.contains("\u{9b}")
            && !written.contains('\u{202e}')
    );

    screen.press("q");
    assert_eq!(screen.end().code(), Some(0));
    assert!(!screen.look(vt100::Screen::alternate_screen));
    assert!(!screen.look(vt100::Screen::hide_cursor));
    here.stop();
}

#[test]
fn the_slowest_are_some_of_those_in_memory() {
    let here = Here::start(&[]);
    here.site.send((0..150).map(|_| request("web", "shop", "/a")));
    let mut screen = Screen::start(top(&here.site, &[]), 140, 30);
    screen.await_text("/a");
    screen.press("6");
    screen.await_text("slowest requests in memory (100 of 150)");
    screen.press("q");
    assert_eq!(screen.end().code(), Some(0));
    here.stop();
}

/// Waits until the keys are in the last line: it is drawn for this size.
fn await_keys(screen: &Screen) {
    await_until(
        "the keys in the last line",
        || screen.lines(),
        |lines| lines.last().unwrap().starts_with("q end"),
    );
}

#[test]
fn sizes_change_and_a_daemon_that_goes_comes_back() {
    // An address at which nothing else in these tests takes its port while it is free.
    let mut first = Program::serve(&["http.listen=127.77.0.4:0"]);
    let http = first.site.http;
    fill(&first.site);
    let mut screen = Screen::start(top(&first.site, &["--interval", "200ms"]), 80, 24);
    screen.await_text("median");
    screen.resize(40, 10);
    await_keys(&screen);
    screen.await_text("/slow");
    await_condition("only what has room is shown", || {
        let lines = screen.lines();
        match lines.iter().any(|line| line.contains("median")) {
            true => Err(lines),
            false => Ok(()),
        }
    });
    screen.resize(20, 4);
    await_keys(&screen);
    screen.await_text("/slow");
    screen.resize(160, 40);
    screen.await_text("out/s");

    first.signal("TERM");
    first.wait();
    let line = screen.await_text("No answer: ");
    assert!(line.contains("Connection refused"), "{line}");
    screen.await_text("/slow");
    // Keys are answered although nobody else answers.
    screen.press("2");
    screen.await_text("Waiting for rows.");
    let second = Program::serve(&[&format!("http.listen={http}")]);
    second.site.send([request("h", "another", "/a")]);
    screen.await_text("another");
    await_condition("it answers again", || {
        let lines = screen.lines();
        match lines.iter().any(|line| line.contains("No answer")) {
            true => Err(lines),
            false => Ok(()),
        }
    });
    screen.signal("TERM");
    assert_eq!(screen.end().code(), Some(0));
    assert!(!screen.look(vt100::Screen::alternate_screen));
}

#[test]
fn colours_are_for_those_who_want_them() {
    let here = Here::start(&[]);
    fill(&here.site);
    let coloured = |screen: &Screen| {
        screen.look(|seen| {
            let (rows, columns) = seen.size();
            let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
            cells.filter_map(|(row, column)| seen.cell(row, column)).any(|cell| {
                cell.fgcolor() != vt100::Color::Default || cell.bgcolor() != vt100::Color::Default
            })
        })
    };
    let mut plain = top(&here.site, &[]);
    plain.env("NO_COLOR", "1");
    let mut plain = Screen::start(plain, 80, 24);
    plain.await_text("/slow");
    assert!(!coloured(&plain));
    plain.press("\u{3}");
    assert_eq!(plain.end().code(), Some(0));
    let screen = Screen::start(top(&here.site, &[]), 80, 24);
    screen.await_text("/slow");
    await_condition("colours", || match coloured(&screen) {
        true => Ok(()),
        false => Err(screen.lines()),
    });
    here.stop();
}
