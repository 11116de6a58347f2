//! The judge: a real MariaDB that has the same rows answers the same statements, and the answers
//! are held side by side.
//!
//! `tests/sql/corpus.sql` has the statements: those of Pinboard and of other clients of Pinba,
//! Grafana's, and some for every function and operator of MySQL's that is done here. Both servers
//! are asked by the same client, so that numbers are compared as they are printed.
//! `tests/sql/refused.sql` has what is not done: each has to be an error that names it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Command;

use prost::Message as _;
use serde_json::Value as Json;

use crate::harness::{Here, Said, Sender, Site, run};
use crate::mariadb::MariaDb;
use crate::packets::request;

/// Statements that are answered as MariaDB answers them.
const CORPUS: &str = include_str!("../sql/corpus.sql");

/// The same with `sql.case_insensitive`.
const CASE: &str = include_str!("../sql/case.sql");

/// Statements that are refused.
const REFUSED: &str = include_str!("../sql/refused.sql");

/// Reports as Pinboard and the plugins of Munin make them.
const REPORTS: [(&str, &str); 11] = cases![
    "ipm_pinba_report_by_server_90_95_99" => "report2:::90,95,99";
    "ipm_pinba_report_by_hostname_90_95_99" => "report3:::90,95,99";
    "ipm_pinba_report_by_hostname_and_server_90_95_99" => "report6:::90,95,99";
    "ipm_pinba_tag_info_group_server_name" => "tagN_info:group,__server_name::90,95,99";
    "ipm_pinba_tag_info_group_server_server_name" =>
        "tagN_info:group,server,__server_name::90,95,99";
    "ipm_pinba_tag_info_group_server_name_hostname" =>
        "tagN_info:group,__server_name,__hostname::90,95,99";
    "ipm_pinba_tag_info_group_server_server_name_hostname" =>
        "tagN_info:group,server,__server_name,__hostname::90,95,99";
    "ipm_pinba_tag_info_category_server_name" => "tagN_info:category,__server_name::90,95,99";
    "tag_info_group_operation" => "tag2_info:group,operation";
    "report_by_script_name_95" => "v2/request/60/~script/hv=0:60000:60000,p95/no_filters";
    "report_script_span" => "v2/request/60/~script/no_percentiles/no_filters";
];

/// The tables that both have, beside those of [`REPORTS`].
const TABLES: [&str; 12] = [
    "request",
    "timer",
    "timertag",
    "tag",
    "info",
    "status",
    "report_by_script_name",
    "report_by_server_name",
    "report_by_hostname",
    "report_by_hostname_and_server",
    "report_by_hostname_server_and_script",
    "report_by_status",
];

/// Gives it the rows that the daemon has.
fn load(maria: &MariaDb, site: &Site, collation: &str) {
    let mut script = "CREATE DATABASE pinba; USE pinba;\n".to_owned();
    let reports = sql(site, "SHOW TABLES LIKE '%\\_%'").to_string();
    let own = REPORTS.iter().map(|(name, _)| *name);
    // Not every daemon has them.
    let own = own.filter(|name| reports.contains(name));
    for table in TABLES.into_iter().chain(own) {
        let made = sql(site, &format!("SHOW CREATE TABLE {table}"));
        let made = made["rows"][0][1].as_str().unwrap();
        let end = made.rfind("\n) ENGINE=").unwrap();
        let form = format!("ENGINE=MyISAM DEFAULT CHARSET=utf8mb4 COLLATE={collation}");
        writeln!(script, "{}\n) {form};", &made[..end]).unwrap();
        let rows = sql(site, &format!("SELECT * FROM {table}"));
        for row in rows["rows"].as_array().unwrap() {
            let values: Vec<String> = row.as_array().unwrap().iter().map(literal).collect();
            let values = values.join(", ");
            writeln!(script, "INSERT INTO {table} VALUES ({values});").unwrap();
        }
    }
    maria.sql(&script);
}

/// Runs statements against the daemon, with the same client that asks MariaDB.
fn ask(mysql: SocketAddr, statements: &str) -> Said {
    let port = mysql.port().to_string();
    run(Command::new("mariadb")
        .args(["--no-defaults", "--default-character-set=utf8mb4", "--batch"])
        .args(["-h", "127.0.0.1", "-P", &port, "-e", statements])
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C.UTF-8"))
}

fn literal(value: &Json) -> String {
    match value {
        Json::Null => "NULL".to_owned(),
        Json::String(text) => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''")),
        other => other.to_string(),
    }
}

fn sql(site: &Site, statement: &str) -> Json {
    let body = serde_json::json!({"query": statement}).to_string();
    let reply = site.post("/api/v1/sql", &body);
    assert_eq!(reply.status, 200, "{statement}: {}", reply.body);
    reply.json()
}

/// Sends requests that differ in all that statements look at. No two times of a host and script are
/// the same.
fn fill(site: &Site) {
    site.send((0..24_u32).map(|number| {
        let host = ["web1", "web2", "web3"][number as usize % 3];
        let server = ["shop", "blog"][number as usize / 4 % 2];
        let script = ["/index.php", "/cart.php", "/каталог.php", "/a'b.php"][number as usize % 4];
        let mut request = request(host, server, script);
        request.request_time = Some(0.125 + 0.031 * number as f32);
        request.ru_utime = Some(0.01 * ((number * 7 % 24) as f32));
        request.memory_peak = Some(1_000_000 + number * 4_099);
        request.document_size = Some(number * 1_000);
        request.status = Some([200, 200, 404, 500, 503][number as usize % 5]);
        let group = ["fs", "db", "cache"][number as usize % 3];
        let (hits, value) = (number % 5 + 1, 0.001 * (number + 1) as f32);
        let tags = [("group", group), ("server", "s1"), ("operation", "get")];
        request.add_timer(hits, value, &tags);
        request.add_timer(1, 2.0 * value, &[("category", group)]);
        request
    }));
}

/// An answer, or that there was none; sorted if the order of rows is not promised.
fn answer(said: Said, sorted: bool) -> Vec<Vec<String>> {
    if said.code != Some(0) {
        return vec![vec![format!("no answer: {}", said.err.trim())]];
    }
    let lines = said.out.lines();
    let mut rows: Vec<Vec<String>> =
        lines.map(|line| line.split('\t').map(str::to_owned).collect()).collect();
    if sorted && !rows.is_empty() {
        rows[1..].sort();
    }
    rows
}

/// Whether two values say the same: the last digit of a double may differ, since sums are made in
/// different orders.
fn same(ours: &str, theirs: &str) -> bool {
    if ours == theirs {
        return true;
    }
    let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).count();
    match (ours.parse::<f64>(), theirs.parse::<f64>()) {
        (Ok(left), Ok(right)) if digits(ours).max(digits(theirs)) >= 15 => {
            (left - right).abs() <= 1e-12 * left.abs().max(right.abs())
        }
        _ => false,
    }
}

/// The lines of a file of statements, without comments.
fn statements(file: &'static str) -> impl Iterator<Item = &'static str> {
    let lines = file.lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Asks both for what a file has, and says where they differ.
fn compared(mysql: SocketAddr, maria: &MariaDb, file: &'static str, at_least: usize) -> String {
    let mut wrong = String::new();
    let mut asked = 0;
    for line in statements(file) {
        let (mark, statement) = match line.as_bytes()[0] {
            mark @ (b'~' | b'!') => (mark, &line[1..]),
            _ => (b' ', line),
        };
        asked += 1;
        let text = format!("USE pinba; SET time_zone = '+00:00'; {statement}");
        let ours = answer(ask(mysql, &text), mark == b'~');
        let theirs = answer(maria.try_sql(&text), mark == b'~');
        let equal = ours.len() == theirs.len()
            && ours.iter().zip(&theirs).all(|(ours, theirs)| {
                let mut cells = ours.iter().zip(theirs);
                ours.len() == theirs.len() && cells.all(|(ours, theirs)| same(ours, theirs))
            });
        if equal == (mark == b'!') {
            writeln!(wrong, "{line}\n  ours   {ours:?}\n  theirs {theirs:?}").unwrap();
        }
    }
    assert!(asked >= at_least, "{asked} statements");
    wrong
}

/// A daemon with requests and the reports, and a MariaDB with the same rows.
fn both() -> (Here, SocketAddr, MariaDb) {
    let reports =
        REPORTS.map(|(name, comment)| format!("{{name = \"{name}\", comment = \"{comment}\"}}"));
    let reports = format!("report=[{}]", reports.join(", "));
    let (here, _clock) = Here::with_manual_clock(&["mysql.listen=127.0.0.1:0", &reports]);
    let mysql = here.site.mysql.unwrap();
    fill(&here.site);
    let maria = MariaDb::start(&["--character-set-server=utf8mb4"]);
    // Texts are told apart by their bytes, as here by default.
    load(&maria, &here.site, "utf8mb4_nopad_bin");
    (here, mysql, maria)
}

#[test]
fn answers_are_those_of_mariadb() {
    let (_here, mysql, maria) = both();
    let wrong = compared(mysql, &maria, CORPUS, 140);
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn upper_and_lower_case_can_be_one() {
    let settings = ["mysql.listen=127.0.0.1:0", "sql.case_insensitive=true"];
    let (here, _clock) = Here::with_manual_clock(&settings);
    let mysql = here.site.mysql.unwrap();
    let mut sender = Sender::new(&here.site);
    for (host, script) in [
        ("web1", "/index.php"),
        ("WEB1", "/Index.php"),
        ("Web2", "/cart.php"),
        ("web2", "/INDEX.php"),
        ("web3", "/index.php"),
        ("Web1", "/cart.PHP"),
        ("app", "/index.php"),
    ] {
        let server = if host == "app" { "Blog" } else { "Shop" };
        sender.send(&request(host, server, script).encode_to_vec());
    }
    sender.at_rest();
    let maria = MariaDb::start(&["--character-set-server=utf8mb4"]);
    load(&maria, &here.site, "utf8mb4_general_ci");
    let wrong = compared(mysql, &maria, CASE, 20);
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn what_is_not_done_is_refused_by_name() {
    let (_here, mysql, maria) = both();
    let mut wrong = String::new();
    for line in statements(REFUSED) {
        let (name, statement) = line.split_once(": ").unwrap();
        let theirs = maria.try_sql(&format!("USE pinba; {statement}"));
        // It has to be a statement, or there is nothing to refuse.
        if theirs.code != Some(0) {
            writeln!(wrong, "{line}\n  MariaDB: {}", theirs.err).unwrap();
        }
        let ours = ask(mysql, &format!("USE pinba; {statement}"));
        // The client says the statement, too.
        let error = ours.err.lines().find(|line| line.starts_with("ERROR "));
        let error = error.unwrap_or_default().to_lowercase();
        if ours.code == Some(0) || !error.contains(&name.to_lowercase()) {
            writeln!(wrong, "{line}\n  {}{}", ours.out, ours.err).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
