//! `pinbad tail` against a real daemon: filters, formats, what it says when the daemon goes, and
//! how it ends.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use prost::Message as _;
use serde_json::Value as Json;

use crate::harness::{
    Here, Program, Running, Sender, Site, await_condition, nobody_listens, pinbad, run,
};
use crate::packets::request;

/// A `tail` under way, its lines as they come.
struct Tail {
    child: Running,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Tail {
    /// Starts it and waits for its heading: it is connected.
    fn start(http: SocketAddr, arguments: &[&str]) -> Self {
        let mut command = pinbad();
        command.args(["tail", "--url", &http.to_string()]);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Running(command.spawn().unwrap());
        let out = lines(child.stdout.take().unwrap());
        let err = lines(child.stderr.take().unwrap());
        let tail = Self { child, out, err };
        assert!(tail.line().starts_with("UTC       STATUS"));
        tail
    }

    #[track_caller]
    fn line(&self) -> String {
        self.out.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    #[track_caller]
    fn said(&self) -> String {
        self.err.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    fn end(&mut self, signal: &str) -> Option<i32> {
        let kill = format!("kill -{signal} {}", self.child.id());
        let mut shell = std::process::Command::new("sh");
        assert!(shell.args(["-c", &kill]).status().unwrap().success());
        await_condition("tail ends", || self.child.try_wait().unwrap().ok_or(())).code()
    }
}

fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn send(site: &Site, script: &str) {
    site.send([request("web-01", "shop", script)]);
}

#[test]
fn requests_are_printed_as_they_pass_and_ctrl_c_is_no_failure() {
    let here = Here::start(&[]);
    let mut tail =
        Tail::start(here.site.http, &["--timers", "--host", "web-01", "--tag", "env=test"]);
    let mut sender = Sender::new(&here.site);
    sender.send(&request("web-02", "shop", "/other").encode_to_vec());
    sender.send(&request("web-01", "shop", "/a").encode_to_vec());
    let line = tail.line();
    let (left, right) = line.split_at(8);
    assert!(left.split(':').all(|part| part.parse::<u8>().is_ok()), "{line}");
    assert_eq!(right, "     200     125 ms  web-01      shop        /a  env=test");
    assert_eq!(tail.line(), "                     250 ms   200 %     x2  group=db op=read");
    assert_eq!(tail.line(), "                     500 ms   400 %     x1  group=cache");
    assert_eq!(tail.end("INT"), Some(0));
    here.stop();
}

#[test]
fn an_outage_is_told_and_taken_up_again() {
    // An address at which nothing else in these tests takes its port while it is free.
    let mut first = Program::serve(&["http.listen=127.77.0.3:0"]);
    let http = first.site.http;
    let mut tail = Tail::start(http, &[]);
    send(&first.site, "/before");
    assert!(tail.line().contains("/before"));
    first.signal("TERM");
    first.wait();
    let said = tail.said();
    assert!(said.contains(&http.to_string()) && said.ends_with("; trying again"), "{said}");
    let second = Program::serve(&[&format!("http.listen={http}")]);
    assert_eq!(tail.said(), "pinbad: connected again");
    send(&second.site, "/after");
    assert!(tail.line().contains("/after"));
    assert_eq!(tail.end("TERM"), Some(0));
}

#[test]
fn json_is_what_the_daemon_sends_and_ends_after_so_many() {
    let here = Here::start(&[]);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                send(&here.site, "/\u{9b}2J\u{1b}[2J\u{202e}");
            }
        });
        let url = here.site.http.to_string();
        let said = run(pinbad().args(["tail", "--json", "-n", "3", "--url", &url]));
        let text = run(pinbad().args(["tail", "-n", "1", "--url", &url]));
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
        let rows: Vec<Json> =
            said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.len(), 3);
        let id = rows[0]["id"].as_u64().unwrap();
        assert_eq!(
            here.site.json(&format!("/api/v1/requests?before_id={}&limit=1", id + 1))["rows"][0],
            rows[0]
        );
        // Nothing of the name reaches the terminal as it is.
        for out in [&said.out, &text.out] {
            let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!out.contains(acts), "{out:?}");
        }
        assert!(text.out.contains("/\\u{9b}2J\\x1b[2J\\u{202e}"), "{text:?}");
    });
    here.stop();
}

#[test]
fn what_is_wrong_is_said_with_its_exit_code() {
    let (nobody, _taken) = nobody_listens();
    let here = Here::start(&["pool.request_pool_size=0"]);
    let (nobody, here_url) = (nobody.to_string(), here.site.http.to_string());
    for (arguments, code, part) in [
        (&["--url", &nobody][..], 1, "Connection refused"),
        (&["--url", &here_url], 1, "pool.request_pool_size"),
        (&["--url", "ftp://h"], 2, "accepted: http://"),
        (&["--token-file", "/nowhere"], 2, "cannot read /nowhere"),
        (&["--min-time", "fast"], 2, "250ms"),
        (&["--tag", "env"], 2, "NAME=VALUE"),
    ] {
        let said = run(pinbad().arg("tail").args(arguments));
        assert_eq!(said.code, Some(code), "{arguments:?}: {said:?}");
        assert!(said.err.contains(part), "{arguments:?}: {said:?}");
        assert_eq!(said.out, "", "{arguments:?}");
    }
    here.stop();
}

#[test]
fn who_asks_goes_along() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "of-the-file\n").unwrap();
    let file = file.display().to_string();
    let plain = format!("http://{address}");
    let named = format!("http://me:secret@{address}");
    for (arguments, expected) in cases![
        &["--url", &plain][..] => "Bearer of-the-environment";
        &["--url", &plain, "--token-file", &file] => "Bearer of-the-file";
        &["--url", &named] => "Basic bWU6c2VjcmV0";
    ] {
        let (said, head) = std::thread::scope(|scope| {
            let answer = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let head: Vec<String> = BufReader::new(&stream)
                    .lines()
                    .map(Result::unwrap)
                    .take_while(|line| !line.is_empty())
                    .collect();
                let refusal =
                    "HTTP/1.1 401 Unauthorized\r\ncontent-length: 17\r\n\r\n{\"detail\": \"who\"}";
                std::io::Write::write_all(&mut stream, refusal.as_bytes()).unwrap();
                head
            });
            let mut command = pinbad();
            command.arg("tail").args(arguments).env("PINBAD_TOKEN", "of-the-environment");
            (run(&mut command), answer.join().unwrap())
        });
        assert_eq!(said.code, Some(1));
        assert!(said.err.starts_with("pinbad: who; give a token with"), "{}", said.err);
        let sent = head.iter().find_map(|line| line.strip_prefix("authorization: "));
        assert_eq!(sent, Some(expected));
    }
}

#[test]
fn a_daemon_with_users_and_tls_is_asked_as_one_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(path("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(path("key.pem"), key.serialize_pem()).unwrap();
    std::fs::write(path("token"), "a-token-of-some-length\n").unwrap();
    std::fs::write(path("wrong"), "another-token-of-that-length").unwrap();
    let config = format!(
        "[http]\ntls_cert = {:?}\ntls_key = {:?}\n[[user]]\nname = \"kim\"\ntoken_file = {:?}\n",
        path("cert.pem"),
        path("key.pem"),
        path("token")
    );
    std::fs::write(path("pinbad.toml"), config).unwrap();
    let program = Program::start(&["serve", "--config", &path("pinbad.toml")], &[]);
    let url = format!("https://localhost:{}", program.site.http.port());
    let command = |arguments: &[&str]| {
        let mut command = pinbad();
        command.args(arguments).args(["--url", &url]);
        command
    };
    let done = std::sync::atomic::AtomicBool::new(false);
    let (ours, token) = (path("cert.pem"), path("token"));
    let known = ["--ca-file", &ours, "--token-file", &token];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let packet = request("web-01", "shop", "/a").encode_to_vec();
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                socket.send_to(&packet, program.site.udp[0]).unwrap();
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let tail = run(command(&["tail", "-n", "1"]).args(known));
        let top = run(command(&["top", "--once"]).args(known));
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(tail.code, Some(0), "{tail:?}");
        assert!(tail.out.contains("/a  env=test"), "{tail:?}");
        assert_eq!(top.code, Some(0), "{top:?}");
        assert!(top.out.contains("scripts (1)"), "{top:?}");
    });
    let stranger = run(command(&["tail"]).args(["--token-file", &token]));
    assert_eq!(stranger.code, Some(1), "{stranger:?}");
    assert_has!(stranger.err.to_lowercase() => "certificate");
    let nobody = run(command(&["top", "--once"]).args(["--ca-file", &ours]));
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
    let wrong = run(command(&["tail"]).args(["--ca-file", &ours, "--token-file", &path("wrong")]));
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    let no_ca = run(command(&["tail"]).args(["--ca-file", &token]));
    assert_eq!(no_ca.code, Some(2), "{no_ca:?}");
    assert_has!(no_ca.err => "there is no certificate in");
}
