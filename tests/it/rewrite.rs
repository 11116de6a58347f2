//! Name rules in the running daemon: what readers see, and what the status says of the rules.

use std::net::UdpSocket;
use std::sync::Arc;

use pinbad::clock::SystemClock;
use pinbad::config::Config;
use pinbad::daemon::Daemon;
use pinbad::input::pinba::model;
use pinbad::query::question::{ReportQuestion, RequestQuestion, RequestSearch};
use pinbad::query::table::Table;
use prost::Message as _;

use crate::harness::{await_until, pinbad, run};

const CONFIG: &str = r#"
[ingest]
listen = ["127.0.0.1:0"]
receivers = 2
[http]
listen = ""
[mysql]
listen = ""

[[report]]
name = "by_script"
comment = "report1"

[[report]]
name = "by_server"
comment = "tag_info:server"

[[rewrite]]
field = "script_name"
cut = "?"

[[rewrite]]
field = "script_name"
pattern = '^/user/\d+$'
replace = "/user/*"

[[rewrite]]
field = "@server"
pattern = '\d+'
replace = "*"

[[rewrite]]
field = "+nowhere"
cut = "x"
"#;

/// The texts of one column, sorted.
fn texts(table: &dyn Table, column: &str) -> Vec<String> {
    let at = table.columns().iter().position(|c| c.name == column).unwrap();
    let mut texts: Vec<_> = (0..table.len())
        .map(|row| match table.value(row, at) {
            pinbad::value::Value::Text(text) => text.into_owned(),
            other => panic!("{column}: {other:?}"),
        })
        .collect();
    texts.sort();
    texts
}

#[test]
fn readers_see_rewritten_names_and_the_status_what_each_rule_did() {
    let config = Config::from_toml("rules.toml", CONFIG).unwrap();
    let daemon = Daemon::start(&config, Arc::new(SystemClock::new())).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 0..20 {
        let script = match number % 4 {
            0 => "/index.php".to_owned(),
            1 => format!("/index.php?n={number}"),
            _ => format!("/user/{number}?from=/"),
        };
        let mut packet = model::Request::named("web-1", "example.org", script);
        packet.add_timer(1, 0.5, &[("server", format!("db-{number}"))]);
        let packet = packet.encode_to_vec();
        socket.send_to(&packet, daemon.udp_addresses()[0]).unwrap();
    }
    let catalog = daemon.catalog();
    await_until(
        "all merged",
        || catalog.status()["requests_merged"].clone(),
        |merged| *merged == 20,
    );

    let question = ReportQuestion::default();
    let report = |name: &str| catalog.report(name, &question).unwrap().table;
    assert_eq!(texts(&*report("by_script"), "script_name"), ["/index.php", "/user/*"]);
    assert_eq!(texts(&*report("by_server"), "tag_value"), ["db-*"]);
    let search = RequestSearch { limit: 100, ..RequestSearch::default() };
    let question = RequestQuestion { search, ..RequestQuestion::default() };
    let page = catalog.requests(&question).unwrap();
    let mut raw = texts(&*page.table, "script_name");
    raw.dedup();
    assert_eq!(raw, ["/index.php", "/user/*"]);

    let status = catalog.status();
    let rule = |at: usize| {
        let rule = &status["rewrites"][at];
        let texts = ["field", "form", "pattern", "replace", "place", "remark"];
        let texts = texts.map(|member| rule[member].as_str().unwrap_or("-").to_owned());
        (texts.join(" | "), rule["tried"].as_u64(), rule["matched"].as_u64())
    };
    for (at, shown, tried, matched) in cases![
        0 => "script_name | cut | ? |  | rules.toml:18 | -", 20, 15;
        1 => r"script_name | pattern | ^/user/\d+$ | /user/* | rules.toml:22 | -", 20, 10;
        2 => r"@server | pattern | \d+ | * | rules.toml:27 | matches everything", 20, 20;
        3 => "+nowhere | cut | x |  | rules.toml:32 | never matched", 0, 0;
    ] {
        assert_eq!(rule(at), (shown.to_owned(), Some(tried), Some(matched)));
    }
    assert_eq!(status["rewrites"].as_array().unwrap().len(), 4);
    daemon.stop().unwrap();
}

#[test]
fn a_daemon_without_rules_lists_none() {
    let config = CONFIG.split("[[rewrite]]").next().unwrap();
    let config = Config::from_toml("rules.toml", config).unwrap();
    let daemon = Daemon::start(&config, Arc::new(SystemClock::new())).unwrap();
    assert_eq!(daemon.catalog().status()["rewrites"], serde_json::json!([]));
    daemon.stop().unwrap();
}

#[test]
fn check_finds_a_rule_that_cannot_be_and_shows_what_rules_take() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.toml");
    let check = |config: &str| {
        std::fs::write(&path, config).unwrap();
        run(pinbad().arg("check").arg("--config").arg(&path))
    };
    let said = check(CONFIG);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_has!(said.out => "4 rules ([[rewrite]]), 2 with patterns");

    let said = check(&CONFIG.replace(r"'^/user/\d+$'", "'^/user/('"));
    assert_eq!(said.code, Some(2), "{said:?}");
    let expected = format!(
        "pinbad: {}:24: rewrite.pattern = '^/user/(': unclosed group; accepted: a regular expression",
        path.display()
    );
    assert!(said.err.starts_with(&expected), "{}", said.err);
}
