//! Peers that are not let in, and what protects those that are.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::harness::{PATIENCE, Reply, Server, read_reply, until_closed};
use crate::access::tls::{Certificates, Tls};
use crate::access::{Access, UserStore, Users};
use crate::clock::SystemClock;
use crate::config::{Config, TlsFiles};
use crate::http::{HttpSettings, page, routes};

const TOKEN: &str = "a-token-of-kims-own";

/// With a user `kim`, an administrator, who has a token.
fn with_users() -> HttpSettings {
    let entry = "[[user]]\nname = \"kim\"\nrole = \"admin\"\ntoken_env = \"T\"\n";
    let config = Config::from_toml("pinbad.toml", entry).unwrap();
    let users = Users::load(&config.users, |_| Some(TOKEN.into())).unwrap();
    let store = UserStore::new(users, Arc::new(SystemClock::new()));
    HttpSettings { access: Access::new(&Arc::new(store), false, ""), ..HttpSettings::new(&[]) }
}

fn tls(dir: &tempfile::TempDir) -> Tls {
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let certificate = rcgen::CertificateParams::new(names).unwrap();
    let files = TlsFiles {
        section: "http",
        cert: dir.path().join("cert.pem"),
        key: dir.path().join("key.pem"),
    };
    std::fs::write(&files.cert, certificate.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    Tls::load(&files, &mut Certificates::default()).unwrap()
}

/// A connection from another address of this machine.
fn connect_from(source: &str, to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let source: IpAddr = source.parse().unwrap();
    socket.bind(&SocketAddr::new(source, 0).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

fn ask(mut stream: TcpStream) -> Reply {
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .unwrap();
    read_reply(stream)
}

#[test]
fn handshakes_that_do_not_come_about_are_ended() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(HttpSettings {
        tls: Some(Arc::new(tls(&dir))),
        handshake_max: Duration::from_millis(200),
        idle_max: 10 * PATIENCE,
        ..HttpSettings::new(&[])
    });
    // Nothing; the beginning of a hello that promises 512 bytes; the same, byte by byte, for as
    // long as it is let. Each may be closed before all of that is written.
    assert_eq!(until_closed(server.connect()), b"");
    let mut stream = server.connect();
    drop(stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00"));
    assert_eq!(until_closed(stream), b"");
    let mut stream = server.connect();
    drop(stream.write_all(b"\x16\x03\x01\x02\x00\x01"));
    let start = Instant::now();
    while stream.write_all(b"\x00").is_ok() {
        assert!(start.elapsed() < PATIENCE, "it is let in for ever");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The head that comes too slowly is waited for by hyper, also below TLS; see `refusals`.
}

#[test]
fn one_peer_leaves_places_to_others() {
    let server = Server::with(HttpSettings {
        connections_max: 10,
        peer_connections_max: 2,
        ..HttpSettings::new(&[])
    });
    let mut held: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for stream in &mut held {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
    }
    let refused = ask(server.connect());
    assert!(refused.problem(503).contains("too many connections"));
    assert_eq!(ask(connect_from("127.0.0.2", server.address)).status, 200);
    drop(held);
    let patience = Instant::now();
    while ask(server.connect()).status != 200 {
        assert!(patience.elapsed() < PATIENCE, "places do not come back");
    }
}

#[test]
fn a_stranger_that_is_turned_away_is_told_nothing() {
    let server = Server::with(HttpSettings { connections_max: 1, ..with_users() });
    let mut held = server.connect();
    held.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert!(held.read(&mut [0; 1024]).unwrap() > 0);
    let mut stranger = server.connect();
    // It may be closed already.
    drop(stranger.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"));
    assert_eq!(until_closed(stranger), b"");
}

/// Every path that the router has, so that a new one cannot be forgotten: a stranger learns from
/// none of them even whether it is there.
#[test]
fn a_stranger_gets_401_from_every_path_and_method() {
    let server = Server::with(with_users());
    let of_api = routes::endpoints().into_iter();
    let all = of_api.chain(page::paths()).map(|(path, _)| path.to_owned());
    let methods = ["GET", "HEAD", "POST", "DELETE", "OPTIONS", "PATCH", "BREW"];
    let mut tried = 0;
    for path in all.chain(["/no/such/path".to_owned()]) {
        for (name, value) in
            [("{name}", "r"), ("{id}", "1"), ("{chart}", "chart.svg"), ("{file}", "page.css")]
        {
            if let Some((before, after)) = path.split_once(name) {
                let path = format!("{before}{value}{after}");
                for method in methods {
                    assert_stranger(&server, method, &path);
                }
            }
        }
        for method in methods {
            assert_stranger(&server, method, &path);
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried}");
    assert_eq!(server.clock.asked.load(Ordering::SeqCst), 0);
    assert_eq!(server.requests(), 300);
}

#[track_caller]
fn assert_stranger(server: &Server, method: &str, path: &str) {
    // Braces are not allowed in a target.
    let target = path.replace(['{', '}'], "");
    let reply = server.ask(method, &target, &[], None);
    assert_eq!(reply.status, 401, "{method} {target}");
    assert!(reply.header("allow").is_none(), "{method} {target}");
    if method != "HEAD" {
        let detail = reply.problem(401);
        assert_eq!(detail, "this needs a user name and password, or a token");
    }
}

#[test]
fn a_connection_that_is_kept_alive_is_asked_for_credentials_each_time() {
    let server = Server::with(with_users());
    let mut stream = server.connect();
    for (authorization, status) in [
        (format!("authorization: Bearer {TOKEN}\r\n"), "200"),
        (String::new(), "401"),
        (format!("authorization: Bearer {TOKEN}\r\n"), "200"),
    ] {
        let head = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{authorization}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut reply = [0; 2048];
        let bytes = stream.read(&mut reply).unwrap();
        let text = String::from_utf8_lossy(&reply[..bytes]).into_owned();
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{text}");
    }
}

#[test]
fn every_answer_says_how_browsers_shall_take_it() {
    let open = Server::start();
    let closed = Server::with(with_users());
    let answers = ["/", "/healthz", "/api/v1/reports", "/api/v1/openapi.json", "/nope"];
    let answers = answers.map(|target| open.get(target));
    let strangers = ["/", "/nope"].map(|target| closed.get(target));
    // Nobody's handler answers this one.
    let full = Server::with(HttpSettings { connections_max: 1, ..HttpSettings::new(&[]) });
    let mut held = full.connect();
    held.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert!(held.read(&mut [0; 1024]).unwrap() > 0);
    let turned_away = full.get("/");
    assert!(turned_away.problem(503).contains("too many connections"));
    assert_eq!(turned_away.header("retry-after"), Some("1"));
    for reply in answers.iter().chain(&strangers).chain([&turned_away]) {
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{name}: {reply:?}");
        }
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        for telling in ["server", "x-powered-by", "access-control-allow-origin"] {
            assert_eq!(reply.header(telling), None, "{reply:?}");
        }
    }
    assert_eq!(strangers.each_ref().map(|reply| reply.status), [401, 401]);
}
