//! Who may: every way in, without credentials, with wrong ones and with right ones; and that
//! secrets stay where they are.
#![expect(clippy::print_stdout, reason = "what could not be tried is for whoever runs the tests")]

mod senders;
mod tls;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message as _;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::Value as Json;

use crate::harness::{Here, Program, Said, Sender, await_condition, connect, pinbad, run, talk};
use crate::packets::request;
use crate::restart::Holder;

/// Secrets that must never be seen anywhere.
const PASSWORD: &str = "hunter2-hunter2";
const TOKEN: &str = "tok3n-tok3n-tok3n-tok3n";

/// A configuration file with an administrator `kim` (password and token), a reader `lee` and a
/// script `ci` that annotates (passwords), and its folder.
struct Configured {
    dir: tempfile::TempDir,
    config: String,
}

impl Configured {
    fn new(more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("password"), format!("{PASSWORD}\n")).unwrap();
        std::fs::write(path("token"), TOKEN).unwrap();
        let text = format!(
            "{more}\n[[user]]\nname = \"kim\"\nrole = \"admin\"\npassword_file = {:?}\ntoken_file = {:?}\n\
             [[user]]\nname = \"lee\"\npassword_file = {:?}\n\
             [[user]]\nname = \"ci\"\nrole = \"annotate\"\npassword_file = {:?}\n",
            path("password"),
            path("token"),
            path("password"),
            path("password"),
        );
        std::fs::write(path("pinbad.toml"), text).unwrap();
        Self { config: path("pinbad.toml"), dir }
    }

    fn serve(&self, settings: &[&str]) -> Program {
        let program = Program::start(&["serve", "--config", &self.config], settings);
        program.site.log_in(&basic("kim", PASSWORD));
        program
    }
}

/// Both questions to a daemon with users say where credentials are taken from, and so does a look at
/// the machine beside it.
#[test]
fn doctor_says_how_to_log_in() {
    let configured = Configured::new("");
    let program = configured.serve(&[]);
    let (http, url) = (program.site.http.to_string(), format!("http://{}", program.site.http));
    let doctor = |flags: &[&str]| {
        let said = run(pinbad().arg("doctor").args(flags).env_remove("PINBAD_TOKEN"));
        said.out + &said.err
    };
    let own = ["--http", &http, "--udp", "127.0.0.1:0", "--mysql", "127.0.0.1:0"];
    for flags in [&["--ready", &url][..], &["--running", &url], &own] {
        assert_has!(doctor(flags) => "--token-file FILE or PINBAD_TOKEN"; "{flags:?}");
    }
    let token = configured.dir.path().join("token").to_str().unwrap().to_owned();
    let ready = doctor(&["--ready", &url, "--token-file", &token]);
    assert_has!(ready => format!("{url}: ready"));
}

/// Returns the `Authorization` header of a user.
pub(crate) fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// One request on a connection of its own: status, head and body as they came.
fn ask(
    to: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
) -> (u16, String, String) {
    let mut text = format!("{method} {target} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        text.push_str("host: localhost\r\n");
    }
    if method != "GET" {
        text.push_str("content-type: application/json\r\ncontent-length: 0\r\n");
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    answer(to, &format!("{text}\r\n"))
}

/// A connection from another address of this machine.
fn connect_from(from: SocketAddr, to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&from.into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

fn answer(to: SocketAddr, text: &str) -> (u16, String, String) {
    let (head, body) = talk(to, text);
    let status = head.split(' ').nth(1).unwrap_or("0").parse().unwrap();
    (status, head, String::from_utf8(body).unwrap())
}

/// All that the daemon has for a peer without credentials, whatever it asks for, is this.
fn assert_nothing_but_401((status, head, body): &(u16, String, String)) {
    assert_eq!(*status, 401, "{head}\n{body}");
    assert!(head.contains("www-authenticate: basic realm="), "{head}");
    assert!(head.contains("www-authenticate: bearer realm="), "{head}");
    assert_has!(head => "content-type: application/problem+json");
    assert!(head.contains("cache-control: no-store"), "{head}");
    if !body.is_empty() {
        let problem: Json = serde_json::from_str(body).unwrap();
        let members: Vec<_> = problem.as_object().unwrap().keys().collect();
        assert_eq!(members, ["type", "title", "status", "detail"], "{body}");
    }
    let all = format!("{head}{body}").to_lowercase();
    for telling in "pinba /api/ report kim lee localhost version".split(' ') {
        assert!(!all.contains(telling), "{telling:?} is in {all}");
    }
}

#[test]
fn without_credentials_there_is_nothing_but_401() {
    let configured = Configured::new("");
    let program = configured.serve(&[]);
    let http = program.site.http;
    for method in ["GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "BREW"] {
        for target in "/ /healthz /readyz /api/v1/info /api/v1/status /api/v1/reports \
             /api/v1/reports/report_by_script_name?limit=0&no_such=1 /api/v1/requests/1 \
             /api/v1/reset /api/v1/openapi.json /api/v1/sql?query=SELECT+1 \
             /api/v1/reports/report_by_script_name/series /api/v1/sources /api/v1/stream/requests \
             /api/v1/stream/samples /metrics /reports/report_by_script_name /nothing/here \
             *"
        .split(' ')
        {
            if target == "*" && method != "OPTIONS" {
                continue;
            }
            assert_nothing_but_401(&ask(http, method, target, &[]));
        }
    }
    // No other check speaks before this one does.
    let long = format!("/{}", "x".repeat(9000));
    let wide = "x".repeat(17_000);
    for (target, header) in [
        ("/", ("host", "evil.example")),
        ("/", ("origin", "http://evil.example")),
        (long.as_str(), ("x", "y")),
        ("/", ("x-wide", wide.as_str())),
        ("/", ("accept", "image/png")),
    ] {
        assert_nothing_but_401(&ask(http, "GET", target, &[header]));
    }
    assert_nothing_but_401(&answer(http, "GET / HTTP/1.0\r\n\r\n"));
    // Each of these would be an attempt and be slowed down were there more than ten.
    for authorization in [
        basic("kim", "wrong"),
        basic("nobody", PASSWORD),
        basic("kim", ""),
        basic("", ""),
        format!("Bearer {PASSWORD}"),
        "Bearer ".to_owned(),
        "Bearer x".to_owned(),
    ] {
        assert_nothing_but_401(&ask(http, "GET", "/", &[("authorization", &authorization)]));
    }
    for authorization in ["", "Basic", "Basic !!", "Digest a=b", "Basic a2lt"] {
        assert_nothing_but_401(&ask(http, "GET", "/", &[("authorization", authorization)]));
    }
    let twice = [("authorization", "Bearer x"), ("authorization", &basic("kim", PASSWORD))];
    assert_nothing_but_401(&ask(http, "GET", "/", &twice));
    // Nothing of it was done.
    let status = program.site.status();
    assert_eq!(status.count("requests_merged"), 0);
}

#[test]
fn each_role_may_do_what_it_may() {
    let configured = Configured::new("");
    let program = configured.serve(&[]);
    let http = program.site.http;
    program.site.send([request("h", "s", "/x")]);
    let [kim, lee, ci] = ["kim", "lee", "ci"].map(|name| basic(name, PASSWORD));
    let token = format!("Bearer {TOKEN}");
    for who in [&kim, &lee, &ci, &token] {
        for target in "/ /healthz /readyz /api/v1/requests /api/v1/openapi.json".split(' ') {
            let (status, head, _) = ask(http, "GET", target, &[("authorization", who)]);
            assert_eq!(status, 200, "{target}: {head}");
            assert!(!head.contains("www-authenticate"), "{head}");
        }
        let (status, ..) = ask(http, "GET", "/nothing", &[("authorization", who)]);
        assert_eq!(status, 404);
    }
    for (method, target) in [
        ("POST", "/api/v1/reset"),
        ("POST", "/api/v1/reports"),
        ("DELETE", "/api/v1/reports/report1"),
        ("DELETE", "/api/v1/annotations/1"),
        ("PUT", "/api/v1/info"),
    ] {
        for (name, who) in [("lee", &lee), ("ci", &ci)] {
            let (status, head, body) = ask(http, method, target, &[("authorization", who)]);
            assert_eq!(status, 403, "{method} {target}: {head} {body}");
            assert!(body.contains(name) && body.contains("admin"), "{body}");
        }
    }
    let annotate = |who: &str| {
        program.site.log_in(who);
        let reply = program.site.post("/api/v1/annotations", r#"{"text": "deployed"}"#);
        program.site.log_in(&kim);
        reply
    };
    let refused = annotate(&lee).problem(403);
    assert!(refused.contains("role \"annotate\""), "{refused}");
    assert_eq!(annotate(&ci).json()["author"], "ci");
    assert_eq!(annotate(&token).json()["author"], "kim");
    assert_eq!(program.site.delete("/api/v1/annotations/1").status, 200);
    let requests = || {
        let answer = program.site.json("/api/v1/requests");
        answer["rows"].as_array().unwrap().len()
    };
    assert_eq!(requests(), 1);
    let (status, ..) = ask(http, "POST", "/api/v1/reset", &[("authorization", &token)]);
    assert_eq!(status, 200);
    assert_eq!(requests(), 0);
}

#[test]
fn guessing_is_slow_and_the_guessed_password_waits_too() {
    let configured = Configured::new("");
    let program = configured.serve(&[]);
    let http = program.site.http;
    let right = format!("Bearer {TOKEN}");
    let with = |token: &str| ask(http, "GET", "/", &[("authorization", token)]);
    // One attempt a second is looked at; on a slow machine it may be the right one.
    let waits = (0..200).any(|_| {
        let (status, head, _) = with("Bearer wrong");
        assert_eq!(status, 401);
        head.contains("retry-after: 1") && with(&right).0 == 401
    });
    assert!(waits, "wrong tokens without end are looked at, or the right one at once");
    // From another address of this machine it is taken meanwhile. Any one may share a place with
    // this one; eight do not.
    let mut replies = (2..=9).map(|n| {
        let from = SocketAddr::new(IpAddr::from([127, 0, 0, n]), 0);
        let mut stream = connect_from(from, http);
        let head = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close";
        write!(stream, "{head}\r\nauthorization: {right}\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    });
    assert!(
        replies.any(|reply| reply.starts_with("HTTP/1.1 200")),
        "failures of one peer hold all others back"
    );
    await_condition("the right token is taken again", || {
        let (status, ..) = with(&right);
        if status == 200 { Ok(()) } else { Err(status) }
    });
}

#[test]
fn probes_may_be_let_in_and_then_nothing_else_is() {
    let configured = Configured::new("[http]\nopen_health = true");
    let program = configured.serve(&[]);
    let http = program.site.http;
    for target in ["/healthz", "/readyz"] {
        assert_eq!(ask(http, "GET", target, &[]).0, 200);
    }
    for target in "/ /healthz/ /api/v1/status //healthz /healthz/../api/v1/status".split(' ') {
        assert_nothing_but_401(&ask(http, "GET", target, &[]));
    }
}

#[test]
fn anonymous_readers_read_and_no_more() {
    let configured = Configured::new("[http]\nallow_anonymous = true");
    let program = configured.serve(&[]);
    let http = program.site.http;
    assert_eq!(ask(http, "GET", "/api/v1/status", &[]).0, 200);
    assert_eq!(ask(http, "POST", "/api/v1/reset", &[]).0, 403);
    let wrong = basic("kim", "wrong");
    assert_nothing_but_401(&ask(http, "GET", "/", &[("authorization", &wrong)]));
    let right = basic("kim", PASSWORD);
    assert_eq!(ask(http, "POST", "/api/v1/reset", &[("authorization", &right)]).0, 200);
    // Who may change nothing is not offered to, at the same moment.
    for (path, offer, refusal) in [
        ("/", "data-send", "Only users with the role admin can send a test packet."),
        ("/reports", "id=\"make\"", "Only users with the role admin can create and drop reports."),
    ] {
        let page = |headers: &[(&str, &str)]| ask(http, "GET", path, headers).2;
        for _ in 0..2 {
            let (theirs, reader) = (page(&[("authorization", &right)]), page(&[]));
            assert_has!(theirs => offer);
            assert_lacks!(theirs => refusal);
            assert_has!(reader => refusal);
            assert_lacks!(reader => offer);
        }
    }
}

/// Without users everything is for this machine; elsewhere, with the operator's word, there is
/// reading.
#[test]
fn without_users_this_machine_may_all_and_others_may_read() {
    let program = Program::serve(&["http.listen=0.0.0.0:0", "http.allow_anonymous=true"]);
    let http = program.site.http;
    let local = SocketAddr::new("127.0.0.1".parse().unwrap(), http.port());
    assert_eq!(ask(local, "POST", "/api/v1/reset", &[]).0, 200);
    // Credentials that nobody can check harm nobody.
    let whoever = [("authorization", "Bearer whatever")];
    assert_eq!(ask(local, "POST", "/api/v1/reset", &whoever).0, 200);
    // A machine without any has nowhere to be asked from; what is decided has unit tests.
    let Some(own) = own_address() else { return };
    let from_outside = SocketAddr::new(own, http.port());
    let host = own.to_string();
    let host = [("host", host.as_str())];
    assert_eq!(ask(from_outside, "GET", "/api/v1/status", &host).0, 200);
    assert_has!(ask(local, "GET", "/", &[]).2 => "data-send");
    let page = ask(from_outside, "GET", "/", &host).2;
    assert_has!(page => "Only clients on its own machine, or inside its container, can send");
    assert_lacks!(page => "data-send");
    let (status, _, body) = ask(from_outside, "POST", "/api/v1/reset", &host);
    assert_eq!(status, 403, "{body}");
    assert!(body.contains("[[user]]"), "{body}");
}

/// An address of this machine that is not loopback: what it would send from.
fn own_address() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback()).then_some(own)
}

#[test]
fn an_open_address_wants_users_or_the_operators_word() {
    let settings = ["--set", "http.listen=0.0.0.0:0", "--set", "mysql.listen="];
    let said = run(pinbad().arg("check").args(settings));
    assert_eq!(said.code, Some(2), "{said:?}");
    for part in ["http.listen", "[[user]]", "allow_anonymous = true", "loopback"] {
        assert!(said.err.contains(part), "{said:?}");
    }
    let configured = Configured::new("");
    let said = run(pinbad().args(["check", "--config", &configured.config]).args(settings));
    assert_eq!(said.code, Some(0), "{said:?}");
}

/// A listener that was handed over is held to the same rule: users, the operator's word, or nobody
/// from elsewhere gets in.
#[test]
fn an_open_listener_that_is_handed_over_wants_the_same() {
    let Some(own) = own_address() else {
        println!("left out: this machine has no address but loopback");
        return;
    };
    let mut holder = Holder::new(1);
    holder.http = std::net::TcpListener::bind((own, 0)).unwrap();
    let (mut command, sockets) = holder.command("udp:http");
    let said = run(command.args(["serve", "--set", "mysql.listen="]));
    assert_eq!(said.code, Some(1), "{said:?}");
    for part in ["LISTEN_FDS", "[[user]]", "allow_anonymous = true"] {
        assert!(said.err.contains(part), "{part}: {said:?}");
    }
    drop(sockets);
    let configured = Configured::new("");
    let (command, sockets) = holder.command("udp:http");
    let program = Program::start_as(command, &["serve", "--config", &configured.config], &[]);
    drop(sockets);
    assert_eq!(program.site.http, holder.http.local_addr().unwrap());
    for target in ["/", "/api/v1/info", "/metrics"] {
        assert_nothing_but_401(&ask(program.site.http, "GET", target, &[]));
    }
    let kim = basic("kim", PASSWORD);
    let (status, ..) = ask(program.site.http, "GET", "/", &[("authorization", &kim)]);
    assert_eq!(status, 200);
}

/// Who follows what passes does so as long as it may.
#[test]
fn streams_end_when_their_user_goes() {
    let configured = Configured::new("");
    let program = configured.serve(&[]);
    let follow = |name: &str, path: &str| {
        let mut stream = connect(program.site.http);
        let text = format!(
            "GET {path} HTTP/1.0\r\nhost: localhost\r\nauthorization: {}\r\n\r\n",
            basic(name, PASSWORD)
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.contains(" 200 OK\r\n"), "{head}");
        stream
    };
    let streams = ["/api/v1/stream/requests", "/events"];
    let [mut requests, mut seconds] = streams.map(|path| follow("kim", path));
    let lees = streams.map(|path| follow("lee", path));
    let config = std::fs::read_to_string(&configured.config).unwrap();
    std::fs::write(&configured.config, config.replace("\"lee\"", "\"ann\"")).unwrap();
    program.signal("HUP");
    for mut stream in lees {
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    // The other one is there, and hears of what comes.
    let mut sender = Sender::new(&program.site);
    sender.send(&request("h", "s", "/after").encode_to_vec());
    let hear = |stream: &mut TcpStream, text: &str| {
        let mut heard = String::new();
        while !heard.contains(text) {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            heard.push(char::from(byte[0]));
        }
    };
    hear(&mut requests, "/after");
    for _ in 0..3 {
        hear(&mut seconds, "event: second");
    }
}

/// A name that is not configured is refused, one that is is answered to.
#[test]
fn host_names_are_answered_to_as_configured() {
    let program = Program::serve(&["http.host_names=[stats.example.com,Other.Example]"]);
    let http = program.site.http;
    for (host, status) in [
        ("stats.example.com", 200),
        ("STATS.example.com:443", 200),
        ("other.example", 200),
        ("example.com", 421),
    ] {
        assert_eq!(ask(http, "GET", "/healthz", &[("host", host)]).0, status, "{host}");
    }
}

/// The command line, the environment that others may see, the log at its most talkative, and every
/// answer.
#[test]
fn secrets_are_seen_nowhere() {
    let configured = Configured::new("");
    let log_level = ["log.level=trace"];
    let mut program = configured.serve(&log_level);
    let http = program.site.http;
    let wrong = "wr0ng-wr0ng-wr0ng";
    for who in [
        basic("kim", PASSWORD),
        format!("Bearer {TOKEN}"),
        basic("kim", wrong),
        basic("kim", wrong),
        format!("Bearer {wrong}"),
    ] {
        ask(http, "GET", "/api/v1/info", &[("authorization", &who)]);
    }
    let mut seen = String::new();
    let kim = basic("kim", PASSWORD);
    for target in "/ /api/v1/status /api/v1/info /api/v1/reports /api/v1/openapi.json \
         /nothing"
        .split(' ')
    {
        let (_, head, body) = ask(http, "GET", target, &[("authorization", &kim)]);
        seen.push_str(&head);
        seen.push_str(&body);
    }
    let command_line = std::fs::read(format!("/proc/{}/cmdline", program.id())).unwrap();
    seen.push_str(&String::from_utf8_lossy(&command_line));
    program.signal("TERM");
    program.wait();
    let log = program.log();
    // The first at once; the last of those after it at the stop, with the number of the others.
    let refused: Vec<&Json> =
        log.iter().filter(|line| line["message"].to_string().contains("efused a login")).collect();
    assert_eq!(refused.len(), 2, "{log:?}");
    for (line, user, others) in
        [(refused[0], "kim", Json::Null), (refused[1], "(token)", Json::from(1))]
    {
        for (name, shown) in [("protocol", "HTTP"), ("user", user), ("peer", "127.0.0.1")] {
            assert_eq!(line[name], shown, "{line}");
        }
        assert_eq!(line["others"], others, "{line}");
    }
    seen.push_str(&format!("{log:?}"));
    let said = run(pinbad().args(["check", "--config", &configured.config]));
    seen.push_str(&said.out);
    seen.push_str(&said.err);
    assert!(seen.contains("Ready."), "the log is there");
    for secret in [PASSWORD, TOKEN, wrong] {
        let encoded = STANDARD.encode(format!("kim:{secret}"));
        for form in [secret, encoded.trim_end_matches('=')] {
            let at = seen.find(form);
            assert!(at.is_none(), "{:?}", at.map(|at| &seen[at.saturating_sub(200)..at]));
        }
    }
}

#[test]
fn a_secret_that_is_not_there_ends_the_start_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("pinbad.toml");
    std::fs::write(&config, "[[user]]\nname = \"a\"\npassword_file = \"/nowhere/password\"\n")
        .unwrap();
    for command in ["check", "serve"] {
        let said = run(pinbad().args([
            command,
            "--config",
            config.to_str().unwrap(),
            "--udp",
            "127.0.0.1:0",
        ]));
        assert_eq!(said.code, Some(2), "{said:?}");
        for part in ["pinbad.toml:1", "user.password_file", "/nowhere/password", "No such file"] {
            assert!(said.err.contains(part), "{part:?}: {said:?}");
        }
    }
}
