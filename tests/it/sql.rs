//! Statements over HTTP, asked of the real daemon: formats, values, errors. What SQL itself can do
//! is tested beside the engine.

use std::io::Write as _;
use std::net::TcpStream;

use datafusion::arrow::ipc::reader::StreamReader;
use prost::Message as _;
use serde_json::json;

use crate::access::basic;
use crate::harness::{Here, Sender, await_condition, pinbad, run};
use crate::packets::request;
use crate::screen::Screen;

/// A daemon that got requests of three scripts.
fn with_three_scripts() -> Here {
    let (here, _clock) = Here::with_manual_clock(&[]);
    let mut sender = Sender::new(&here.site);
    for (script, times) in [("/a.php", 3), ("/b.php", 2), ("/c.php", 1)] {
        for _ in 0..times {
            let mut packet = request("web1", "shop", script);
            packet.request_time = Some(0.1);
            sender.send(&packet.encode_to_vec());
        }
    }
    sender.at_rest();
    here
}

const COUNTS: &str =
    "/api/v1/sql?query=SELECT+script_name,+req_count+FROM+report_by_script_name+ORDER+BY+2+DESC";

#[test]
fn rows_come_in_every_format() {
    let here = with_three_scripts();
    let body = here.site.json(COUNTS);
    assert_eq!(body["columns"][0]["name"], "script_name");
    assert_eq!(body["columns"][1]["name"], "req_count");
    assert_eq!(body["rows"], json!([["/a.php", 3], ["/b.php", 2], ["/c.php", 1]]));

    let lines = here.site.get(&format!("{COUNTS}&format=ndjson"));
    assert_eq!(lines.content_type, "application/x-ndjson");
    let first: serde_json::Value =
        serde_json::from_str(lines.body.lines().next().unwrap()).unwrap();
    assert_eq!(first, json!({"script_name": "/a.php", "req_count": 3}));

    let csv = here.site.get(&format!("{COUNTS}&format=csv"));
    assert_eq!(csv.body, "script_name,req_count\r\n/a.php,3\r\n/b.php,2\r\n/c.php,1\r\n");

    let arrow = here.site.bytes(&format!("{COUNTS}&format=arrow"));
    let mut batches = StreamReader::try_new(&arrow[..], None).unwrap();
    assert_eq!(batches.next().unwrap().unwrap().num_rows(), 3);
    let none = here
        .site
        .bytes("/api/v1/sql?format=arrow&query=SELECT+status+FROM+report_by_status+WHERE+status=1");
    let batches = StreamReader::try_new(&none[..], None).unwrap();
    assert_eq!(batches.schema().field(0).name(), "status");
}

#[test]
fn single_precision_is_shown_in_its_own_digits() {
    let here = with_three_scripts();
    let query = "/api/v1/sql?query=SELECT+req_time_total+FROM+report_by_script_name+WHERE+script_name='/c.php'";
    assert_eq!(here.site.json(query)["rows"], json!([[0.1]]));
}

#[test]
fn what_is_wrong_is_said_with_mysqls_numbers() {
    let here = with_three_scripts();
    for (query, status, code) in [
        ("SELEKT+1", 400, 1064),
        ("SELECT+1+FROM+nothing_here", 400, 1146),
        ("SELECT+no_such+FROM+report_by_script_name", 400, 1054),
    ] {
        let reply = here.site.get(&format!("/api/v1/sql?query={query}"));
        assert_eq!(reply.status, status, "{query}: {}", reply.body);
        let body: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(body["code"], code, "{query}: {body}");
    }
    let missing = here.site.get("/api/v1/sql");
    assert!(missing.problem(400).contains("query"));
    let odd = here.site.post("/api/v1/sql", r#"{"query": "SELECT 1", "limit": 1}"#);
    assert!(odd.problem(400).contains("accepted: query, values"));
}

/// Reports are made and dropped by administrators, and by nobody's link.
#[test]
fn making_and_dropping_wants_an_administrator_and_a_post() {
    let dir = tempfile::tempdir().unwrap();
    let password = dir.path().join("password");
    std::fs::write(&password, "hunter2-hunter2").unwrap();
    let users = format!(
        "user=[{{name = \"kim\", role = \"admin\", password_file = {password:?}}}, \
         {{name = \"lee\", password_file = {password:?}}}]"
    );
    let here = Here::start(&[&users]);
    let site = &here.site;
    let make = "CREATE TABLE mine (x int) ENGINE=PINBA COMMENT='report1'";
    let drop = "DROP TABLE mine";
    let post = |user: &str, statement: &str| {
        site.log_in(&basic(user, "hunter2-hunter2"));
        site.post("/api/v1/sql", &json!({ "query": statement }).to_string())
    };
    let get = |user: &str, statement: &str| {
        site.log_in(&basic(user, "hunter2-hunter2"));
        let query = statement.replace(' ', "+");
        site.get(&format!("/api/v1/sql?query={query}"))
    };
    let is_there = || site.get("/api/v1/reports/mine").status == 200;
    for (statement, there) in [(make, false), (drop, true)] {
        for reply in [post("lee", statement), get("lee", statement), get("kim", statement)] {
            let said = reply.problem(403);
            assert!(said.contains("you need the role admin"), "{said}");
            assert!(reply.body.contains("\"code\":1227"), "{}", reply.body);
            assert_eq!(is_there(), there, "{statement}");
        }
        let reply = post("kim", statement);
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(is_there(), !there, "{statement}");
    }
    // What only reads may come in a body too.
    assert_eq!(post("lee", "SELECT 1").status, 200);
}

#[test]
fn the_command_prints_a_table_or_csv() {
    let here = with_three_scripts();
    let ask = |arguments: &[&str]| {
        let url = format!("http://{}", here.site.http);
        run(pinbad().args(["query", "--url", &url]).args(arguments))
    };
    let statement = "SELECT script_name, req_count FROM report_by_script_name ORDER BY 2 DESC";
    let csv = ask(&[statement]);
    assert_eq!((csv.code, csv.out.lines().count()), (Some(0), 4), "{csv:?}");
    let table = ask(&["--format", "table", statement]);
    assert_eq!(
        table.out,
        "script_name  req_count\n-----------  ---------\n/a.php               3\n\
         /b.php               2\n/c.php               1\n(3 rows)\n"
    );
    // What has no rows has no lines, of names neither.
    let made = "CREATE TABLE made (script varchar(64)) ENGINE=PINBA COMMENT='report1'";
    for statement in [made, "DROP TABLE made"] {
        let none = ask(&[statement]);
        assert_eq!((none.code, none.out.as_str()), (Some(0), ""), "{none:?}");
    }
    let wrong = ask(&["SELECT 1 FROM nothing_here"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains("nothing_here"), "{wrong:?}");
    let nobody = run(pinbad().args(["query", "--url", "http://127.0.0.1:1", "SELECT 1"]));
    assert_eq!(nobody.code, Some(1));
}

#[test]
fn the_command_runs_several_statements_one_after_the_other() {
    let here = with_three_scripts();
    let url = format!("http://{}", here.site.http);
    let query = |format: &str, text: &str| {
        run(pinbad().args(["query", "--url", &url, "--format", format, text]))
    };
    let two = "SELECT 1 AS a; -- one; then\nSELECT 'x;y' AS `b;c`; /* the end; */";
    for (format, expected) in [
        ("table", "a\n-\n1\n(1 row)\n\nb;c\n---\nx;y\n(1 row)\n"),
        ("csv", "a\r\n1\r\n\n\"b;c\"\r\n\"x;y\"\r\n"),
        ("ndjson", "{\"a\":1}\n{\"b;c\":\"x;y\"}\n"),
    ] {
        let both = query(format, two);
        assert_eq!((both.code, both.out.as_str()), (Some(0), expected), "{both:?}");
    }
    let json = query("json", two).out;
    let objects = serde_json::Deserializer::from_str(&json).into_iter::<serde_json::Value>();
    assert_eq!(objects.map(Result::unwrap).count(), 2, "{json}");
    let wrong = query("ndjson", "SELECT 1 AS a; SELECT 2 FROM nothing_here; SELECT 3 AS c");
    assert_eq!((wrong.code, wrong.out.as_str()), (Some(1), "{\"a\":1}\n"));
    assert!(wrong.err.contains("statement 2: "), "{wrong:?}");
    assert!(wrong.err.contains("nothing_here"), "{wrong:?}");
}

/// Names come in packets: in whichever format, and in errors, a terminal is to show them and no
/// more.
#[test]
fn the_command_lets_no_name_act_on_a_terminal() {
    let here = with_three_scripts();
    let name = "\u{1b}]0;owned\u{7}\u{9b}2J";
    let url = format!("http://{}", here.site.http);
    let ask = |format: &str, statement: &str| {
        let mut command = pinbad();
        command.args(["query", "--url", &url, "--format", format, statement]);
        command
    };
    let does_nothing = |shown: &str| {
        assert!(shown.contains("owned"), "{shown:?}");
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{shown:?}");
    };
    for format in ["table", "csv", "json", "ndjson"] {
        let mut screen = Screen::start(ask(format, &format!("SELECT '{name}' AS x")), 100, 20);
        assert!(screen.end().success(), "{format}");
        does_nothing(&String::from_utf8_lossy(&screen.bytes()));
    }
    let wrong = run(&mut ask("csv", &format!("SELECT `{name}` FROM info")));
    assert_eq!(wrong.code, Some(1));
    does_nothing(&wrong.err);
    let mut screen = Screen::start(ask("arrow", "SELECT 1"), 100, 20);
    assert_eq!(screen.end().code(), Some(2));
}

/// Would take hours.
const LONG: &str = "SELECT count(*) FROM request a, request b, request c, request d, request e, request f, request g, request h, \
     request i, request j, request k, request l, request m WHERE a.status + m.status < 0";

/// A daemon with so many requests and these limits.
fn with_limits(requests: u32, limits: &[&str]) -> Here {
    let (here, _clock) = Here::with_manual_clock(limits);
    let script = |number| format!("/{number}.php");
    let packets = (0..requests).map(|number| request("web1", "shop", &script(number)));
    here.site.send(packets);
    here
}

/// Sends a statement that must fail; returns the HTTP status, MySQL's error number and the message.
fn refused(here: &Here, statement: &str) -> (u16, u64, String) {
    let body = json!({"query": statement}).to_string();
    let reply = here.site.post("/api/v1/sql", &body);
    let problem: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
    let detail = problem["detail"].as_str().unwrap_or_default().to_owned();
    let code = problem["code"].as_u64().unwrap_or_default();
    (reply.status, code, detail)
}

#[test]
fn each_limit_is_an_error_that_names_its_setting() {
    let wide = "SELECT a.script_name, b.script_name FROM request a, request b ORDER BY 2, 1";
    for (limit, statement, status, code) in [
        ("sql.rows_max=100", "SELECT id FROM request", 413, 1104),
        ("sql.time_max=200ms", LONG, 503, 1969),
        ("sql.memory=16MiB", wide, 503, 1041),
        ("sql.text_max=1KiB", &LONG.repeat(9), 400, 1153),
    ] {
        let here = with_limits(1_000, &[limit]);
        let (got, number, detail) = refused(&here, statement);
        assert_eq!((got, number), (status, code), "{limit}: {detail}");
        let setting = limit.split('=').next().unwrap();
        assert!(detail.contains(setting), "{limit}: {detail}");
        // It left nothing behind.
        assert_eq!(here.site.json("/api/v1/sql?query=SELECT+1")["rows"], json!([[1]]));
    }
}

/// One place for queries is taken, by a client that asked for what takes hours; when it leaves, the
/// place is free.
#[test]
fn a_client_that_leaves_ends_its_query() {
    let limits = ["sql.queries_max=1", "sql.threads=1", "sql.time_max=1h"];
    let here = with_limits(50, &limits);
    let mut leaving = TcpStream::connect(here.site.http).unwrap();
    let statement = LONG.replace('+', "%2B").replace(' ', "+").replace('<', "%3C");
    let asked =
        format!("GET /api/v1/sql?query={statement} HTTP/1.1\r\nhost: {}\r\n\r\n", here.site.http);
    leaving.write_all(asked.as_bytes()).unwrap();
    await_condition("it runs", || {
        let (status, code, detail) = refused(&here, "SELECT 1");
        match (status, code) {
            (503, 1040) if detail.contains("sql.queries_max") => Ok(()),
            _ => Err((status, code, detail)),
        }
    });
    drop(leaving);
    await_condition("its place is free", || {
        match here.site.get("/api/v1/sql?query=SELECT+1").status {
            200 => Ok(()),
            other => Err(other),
        }
    });
}
