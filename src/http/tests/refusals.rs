//! Refusals and their form; and misbehaving clients.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::harness::{PATIENCE, Server, read_reply, until_closed};
use crate::http::HttpSettings;

/// Rows whose answer fits in no socket buffer.
const LARGE: usize = 20_000;

const CLOSE: &str = "connection: close\r\n\r\n";

#[test]
fn unknown_paths() {
    let server = Server::start();
    for path in "/nope /api /api/v1 /api/v1/reports/ /api/v1/reports/r/x /api/v2/info \
         //"
    .split(' ')
    {
        server.get(path).problem(404);
    }
    assert_has!(server.get("/reprots").problem(404) => "did you mean \"/reports\"?");
    // Without an engine, or built without one.
    let asked = server.get("/api/v1/sql?query=SELECT+1");
    assert!(asked.problem(501).contains("SQL"));
    let raw = server.raw(&format!("GET /nope HTTP/1.1\r\nhost: localhost\r\n{CLOSE}"));
    assert_eq!(raw.header("x-content-type-options"), Some("nosniff"));
    raw.problem(404);
}

#[test]
fn methods() {
    let server = Server::start();
    for (method, path, allow) in [
        ("PUT", "/api/v1/reports", "GET, HEAD, POST, OPTIONS"),
        ("DELETE", "/api/v1/reports", "GET, HEAD, POST, OPTIONS"),
        ("POST", "/api/v1/reports/r", "GET, HEAD, DELETE, OPTIONS"),
        ("GET", "/api/v1/reset", "POST, OPTIONS"),
        ("HEAD", "/api/v1/reset", "POST, OPTIONS"),
        ("GET", "/api/v1/test-packet", "POST, OPTIONS"),
        ("PATCH", "/api/v1/info", "GET, HEAD, OPTIONS"),
        ("BREW", "/", "GET, HEAD, OPTIONS"),
    ] {
        let reply = server.ask(method, path, &[], None);
        assert_eq!(reply.status, 405, "{method} {path}");
        assert_eq!(reply.header("allow"), Some(allow), "{method} {path}");
        if method != "HEAD" {
            assert!(reply.problem(405).contains(allow), "{method} {path}");
        }
        let reply = server.ask("OPTIONS", path, &[], None);
        assert_eq!((reply.status, reply.header("allow")), (204, Some(allow)));
        assert!(reply.header("access-control-allow-origin").is_none());
    }
    let star = server.raw(&format!("OPTIONS * HTTP/1.1\r\nhost: localhost\r\n{CLOSE}"));
    assert_eq!(star.status, 204);
    server.ask("OPTIONS", "/nope", &[], None).problem(404);
}

#[test]
fn head_is_get_without_the_body() {
    let server = Server::start();
    for path in "/ /healthz /api/v1/reports/r?limit=3 /api/v1/openapi.json /nope".split(' ') {
        let get = server.get(path);
        let head = server.ask("HEAD", path, &[], None);
        assert_eq!(head.status, get.status, "{path}");
        assert_eq!(head.body, "");
        for header in ["content-type", "content-length"] {
            assert_eq!(head.header(header), get.header(header), "{path} {header}");
        }
    }
    let server = Server::of(20_000);
    assert_eq!(server.ask("HEAD", "/api/v1/reports/r?limit=0", &[], None).status, 200);
}

#[test]
fn hosts_and_origins() {
    let server = Server::start();
    let with = |headers: &[(&str, &str)]| server.ask("GET", "/api/v1/info", headers, None);
    assert_eq!(with(&[("host", "localhost:1")]).status, 200);
    assert_eq!(with(&[("host", "stats.EXAMPLE")]).status, 200);
    assert_eq!(with(&[("host", "[::1]:30080")]).status, 200);
    let detail = with(&[("host", "rebound.example")]).problem(421);
    assert_has!(detail => "rebound.example", "stats.example");
    let own = format!("http://{}", server.address);
    assert_eq!(with(&[("origin", &own)]).status, 200);
    with(&[("origin", "http://evil.example")]).problem(403);
    with(&[("origin", "null")]).problem(403);
    // An image in another site's page, and a link there: neither sends an origin.
    let image = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "no-cors"),
        ("sec-fetch-dest", "image"),
    ];
    let detail = with(&image).problem(403);
    assert!(detail.contains("another site"), "{detail}");
    let link = [image[0], ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    with(&link).problem(403);
    assert_eq!(server.ask("GET", "/", &link, None).status, 200);
    assert_eq!(with(&[("sec-fetch-site", "same-origin")]).status, 200);
    let json = ("content-type", "application/json");
    let reply =
        server.ask("POST", "/api/v1/reset", &[json, ("origin", "http://evil.example")], Some(""));
    reply.problem(403);
    assert_eq!(server.requests(), 300);
    server.raw(&format!("GET / HTTP/1.1\r\n{CLOSE}")).problem(400);
    server.raw(&format!("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n{CLOSE}")).problem(400);
    let absolute =
        format!("GET http://evil.example/healthz HTTP/1.1\r\nhost: localhost\r\n{CLOSE}");
    server.raw(&absolute).problem(421);
    assert_eq!(server.raw("GET /healthz HTTP/1.0\r\n\r\n").status, 200);
}

#[test]
fn bodies() {
    let server = Server::start();
    for (method, path) in
        [("POST", "/api/v1/reset"), ("POST", "/api/v1/reports"), ("DELETE", "/api/v1/reports/mine")]
    {
        for headers in [
            &[][..],
            &[("content-type", "text/plain")],
            &[("content-type", "application/x-www-form-urlencoded")],
            &[("content-type", "application/jsonp")],
        ] {
            let detail = server.ask(method, path, headers, None).problem(415);
            assert!(detail.contains("application/json"), "{detail}");
        }
    }
    assert_eq!(server.requests(), 300);
    let charset = [("content-type", "Application/JSON; charset=utf-8")];
    assert_eq!(server.ask("POST", "/api/v1/reset", &charset, Some("{}")).status, 200);

    let fits = format!(r#"{{"name":"x","comment":"{}"}}"#, "c".repeat(1_000_000));
    let detail = server.post("/api/v1/reports", &fits).problem(400);
    assert!(detail.starts_with("comment: "), "{}", &detail[..80]);
    let announced = "POST /api/v1/reports HTTP/1.1\r\nhost: localhost\r\n\
        content-type: application/json\r\ncontent-length: 1048577\r\n";
    server.raw(&format!("{announced}{CLOSE}")).problem(413);
    // Without a declared length the bytes are counted as they come.
    let mut chunked = "POST /api/v1/reports HTTP/1.1\r\nhost: localhost\r\n\
        content-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        .to_owned();
    for _ in 0..17 {
        chunked.push_str(&format!("{:x}\r\n{}\r\n", 1 << 16, " ".repeat(1 << 16)));
    }
    let mut stream = server.connect();
    stream.write_all(chunked.as_bytes()).unwrap();
    read_reply(stream).problem(413);
    let detail = server.post("/api/v1/reports", "{\"name\": ").problem(400);
    assert_has!(detail => "not JSON", "line 1");
    let deep = "[".repeat(100_000);
    server.post("/api/v1/reports", &deep).problem(400);
}

#[test]
fn long_heads() {
    let server = Server::start();
    let long = "x".repeat(9000);
    assert_has!(server.get(&format!("/api/v1/reports/r?sort={long}")).problem(414) => "8192");
    server.get(&format!("/{long}")).problem(414);
    let wide = "x".repeat(17_000);
    server.ask("GET", "/", &[("x-wide", &wide)], None).problem(431);
    // Refused by hyper itself, before authentication: host and connection are two of a hundred.
    for (count, status) in [(98, 200), (99, 431), (1000, 431)] {
        let many = "x: y\r\n".repeat(count);
        let text = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}{CLOSE}");
        assert_eq!(server.raw(&text).status, status, "{count}");
    }
    for (length, refused_by) in [(65_533, "accepted: 8192"), (65_534, "")] {
        let long = "x".repeat(length);
        let reply = server.raw(&format!("GET /{long} HTTP/1.1\r\nhost: localhost\r\n{CLOSE}"));
        assert_eq!(reply.status, 414, "{length}");
        assert!(reply.body.contains(refused_by), "{length}: {reply:?}");
        assert_eq!(reply.body.is_empty(), refused_by.is_empty(), "{reply:?}");
    }
}

#[test]
fn garbage_is_answered_or_closed_and_the_server_lives() {
    let server = Server::start();
    for garbage in [
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "\u{0}\u{1}\u{2}\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut stream = server.connect();
        stream.write_all(garbage.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 4"), "{garbage:?}: {reply:?}");
    }
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn slow_clients_are_cut_off() {
    // Nothing else shall end it: idle connections have another limit.
    let mut settings = HttpSettings::new(&[]);
    settings.head_max = Duration::from_millis(200);
    settings.idle_max = 10 * PATIENCE;
    let server = Server::with(settings);
    let mut stream = server.connect();
    // It may be closed already.
    drop(stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: loc"));
    until_closed(stream);
    until_closed(server.connect());
    let mut settings = HttpSettings::new(&[]);
    settings.head_max = 10 * PATIENCE;
    settings.idle_max = 10 * PATIENCE;
    settings.body_max = Duration::from_millis(200);
    let server = Server::with(settings);
    let mut stream = server.connect();
    let head = "POST /api/v1/reset HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
        content-type: application/json\r\ncontent-length: 2\r\n\r\n{";
    stream.write_all(head.as_bytes()).unwrap();
    read_reply(stream).problem(408);
}

#[test]
fn a_client_that_does_not_read_is_cut_off_and_others_are_served() {
    let mut settings = HttpSettings::new(&[]);
    settings.idle_max = Duration::from_secs(2);
    settings.streams_max = 1;
    settings.patience = Duration::from_millis(100);
    let server = Server::over(LARGE, true, settings.clone());
    // While it is stuck others are refused. A machine that was busy that long has not noticed: try
    // again.
    let stuck = (0..20).find_map(|_| {
        let start = Instant::now();
        let mut stuck = server.connect();
        stuck
            .write_all(b"GET /api/v1/reports/r?limit=0 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .unwrap();
        // Its answer has begun, so it has its permit.
        stuck.read_exact(&mut [0]).unwrap();
        // The one permit for large answers is taken; small ones still go out.
        assert_eq!(server.get("/api/v1/reports/r?limit=5").status, 200);
        let refused = server.get("/api/v1/reports/r?limit=0");
        if refused.status == 200 && start.elapsed() >= settings.idle_max {
            return None;
        }
        assert!(refused.problem(503).contains("large answers"));
        Some(stuck)
    });
    let mut stuck = stuck.expect("one of twenty takes less than two seconds");
    let patience = Instant::now();
    while server.get("/api/v1/reports/r?limit=0").status != 200 {
        assert!(patience.elapsed() < PATIENCE, "the stuck client keeps its place");
    }
    let mut rest = Vec::new();
    let ended_early = stuck.read_to_end(&mut rest).is_err() || !rest.ends_with(b"0\r\n\r\n");
    assert!(ended_early, "the answer to the stuck client should not be complete");
}

#[test]
fn too_many_queries_are_refused() {
    let mut settings = HttpSettings::new(&[]);
    settings.readings_max = 1;
    settings.waiting_max = 1;
    settings.patience = 2 * PATIENCE;
    let server = Server::with(settings);
    let held = server.clock.gate.lock();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (server, tell) = (&server, tell.clone());
            scope.spawn(move || {
                let status = server.get("/api/v1/reports/r?limit=1").status;
                tell.send(status).unwrap();
            });
        }
        // One is being answered and one waits; neither can come back before it is released.
        assert_eq!((told.recv().unwrap(), told.recv().unwrap()), (503, 503));
        assert_eq!(server.get("/readyz").status, 200);
        drop(held);
        assert_eq!((told.recv().unwrap(), told.recv().unwrap()), (200, 200));
    });
}

#[test]
fn too_many_connections_are_told_so() {
    let mut settings = HttpSettings::new(&[]);
    settings.connections_max = 2;
    let server = Server::with(settings);
    let mut held: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for stream in &mut held {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
    }
    let refused = server.get("/healthz");
    assert!(refused.problem(503).contains("too many connections"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    drop(held);
    let patience = Instant::now();
    while server.get("/healthz").status != 200 {
        assert!(patience.elapsed() < PATIENCE, "places are not given back");
    }
}

#[test]
fn connections_are_kept_alive() {
    let server = Server::start();
    let mut stream = server.connect();
    for _ in 0..3 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut reply = [0; 2048];
        let bytes = stream.read(&mut reply).unwrap();
        assert!(reply[..bytes].starts_with(b"HTTP/1.1 200"));
    }
}

/// A server whose own limits end nothing during a test.
fn long_suffering(requests: usize) -> Server {
    let mut settings = HttpSettings::new(&[]);
    settings.head_max = 10 * PATIENCE;
    settings.answer_max = 10 * PATIENCE;
    settings.idle_max = 10 * PATIENCE;
    Server::over(requests, true, settings)
}

/// Stops a server while it answers; returns whether the whole answer arrived.
fn finishes_what_is_under_way() -> bool {
    let mut server = long_suffering(300);
    let clock = Arc::clone(&server.clock);
    let held = clock.gate.lock();
    let _idle = server.connect();
    let mut asking = server.connect();
    asking.write_all(b"GET /api/v1/reports/r HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    while server.clock.asked.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    server.stop();
    drop(held);
    let reply = String::from_utf8(until_closed(asking)).unwrap();
    server.stopped();
    assert!(std::net::TcpStream::connect(server.address).is_err());
    reply.starts_with("HTTP/1.1 200") && reply.ends_with("]}\n")
}

#[test]
fn a_stop_finishes_what_is_under_way_and_nothing_else() {
    // It has half a second for that, which a busy machine may need for something else.
    assert!((0..20).any(|_| finishes_what_is_under_way()));
}

#[test]
fn a_stop_does_not_wait_for_a_client_that_does_not_read() {
    let mut server = long_suffering(LARGE);
    let mut stuck = server.connect();
    stuck.write_all(b"GET /api/v1/reports/r?limit=0 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    stuck.read_exact(&mut [0]).unwrap();
    server.stop();
    server.stopped();
}
