//! Samples of PHP's stat extension: a stand-in for it plays captures, byte by byte, in bursts, with
//! every defect, and measures how long it has to wait for whoever reads.

mod reports;

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::harness::{Here, Site, Status, await_condition, pinbad};
use crate::packets::corpus_file;

fn corpus(name: &str) -> Vec<u8> {
    corpus_file(&format!("stat/{name}"))
}

/// The extension's side of the stream.
struct Extension {
    _folder: tempfile::TempDir,
    path: PathBuf,
    listener: UnixListener,
}

impl Extension {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zend.stat.stream");
        let listener = UnixListener::bind(&path).unwrap();
        Self { _folder: folder, path, listener }
    }

    fn setting(&self) -> String {
        format!("stat=[{{stream='unix://{}',name='web1',root='/var/www'}}]", self.path.display())
    }

    /// The next client.
    fn accept(&self) -> Player {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        Player { stream, waited: Duration::ZERO }
    }
}

/// Writes, and knows how long the longest write had to wait.
struct Player {
    stream: UnixStream,
    waited: Duration,
}

impl Player {
    fn write(&mut self, mut bytes: &[u8]) {
        let mut since = None;
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    since.get_or_insert_with(Instant::now);
                    std::thread::yield_now();
                }
                Err(error) => panic!("{error}"),
            }
        }
        self.waited = self.waited.max(since.map_or(Duration::ZERO, |it| it.elapsed()));
    }
}

/// The status of the one source, once it has so many lines.
#[track_caller]
fn received(site: &Site, lines: u64) -> Status {
    await_condition("all lines have come", || {
        let source = Status(site.status().0["stats"][0].clone());
        let known = source.count("samples") + source.count("lines_invalid");
        match known == lines && source.count("lines_received") == lines {
            true => Ok(source),
            false => Err(source),
        }
    })
}

/// All samples, oldest first.
fn samples(site: &Site) -> Vec<Json> {
    let answer = site.json("/api/v1/reports/sample?limit=0");
    let mut rows = answer["rows"].as_array().unwrap().clone();
    rows.reverse();
    rows
}

/// Parses a line of a capture independently of the daemon: turns it into JSON and reads that.
fn understood(line: &str) -> Json {
    let mut line = line.replace('\\', "\\\\").replace('\0', "\\u0000");
    line = line.replace("\"method\":", "\"method\": \"");
    // In a URI there may be quotes of its own.
    if let Some(begin) = line.find("\"uri\":") {
        let (begin, end) = (begin + 6, line.rfind("\"}, \"elapsed\": ").unwrap());
        let uri = line[begin..end].replace('"', "\\\"");
        line.replace_range(begin..end, &format!(" \"{uri}"));
    }
    let line: Json = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let shown = |text: &Json| match text.as_str() {
        None => Json::Null,
        Some(text) => text.replace('\0', "\\x00").into(),
    };
    // Sent in 32 bits, so that what is beyond 2 GiB is negative.
    let bytes = |sent: &Json| match sent.as_i64().unwrap() {
        bytes @ ..0 => bytes + (1 << 32),
        bytes => bytes,
    };
    let cut = |path: &Json| match path.as_str() {
        None => Json::Null,
        Some(path) => path.strip_prefix("/var/www").unwrap().into(),
    };
    let (request, symbol, opline, caller) =
        (&line["request"], &line["symbol"], &line["opline"], &line["caller"]);
    let arguments = line["arginfo"].as_array().map(|all| {
        let all = all.iter().map(|it| it.as_str().unwrap());
        let all = all.map(|it| if it.starts_with("int(") { "int" } else { it });
        all.collect::<Vec<_>>().join(", ")
    });
    let offset = opline["offset"].as_u64().filter(|it| *it < 1 << 24);
    let is_operation = offset.is_some() || opline["opcode"].is_string();
    json!({
        "host": "web1",
        "type": line["type"],
        "pid": request["pid"],
        "request_elapsed": request["elapsed"],
        "script": cut(&request["path"]),
        "path": request["path"],
        "method": request["method"],
        "uri": request["uri"],
        "uri_sent": request["uri"],
        "elapsed": line["elapsed"],
        "memory_used": bytes(&line["memory"]["used"]),
        "memory_peak": bytes(&line["memory"]["peak"]),
        "file": cut(&symbol["file"]),
        "scope": shown(&symbol["scope"]),
        "function": shown(&symbol["function"]),
        "arguments": arguments,
        "line": if is_operation { opline["line"].clone() } else { Json::Null },
        "offset": offset,
        "opcode": opline["opcode"],
        "caller_file": cut(&caller["file"]),
        "caller_scope": shown(&caller["scope"]),
        "caller_function": shown(&caller["function"]),
    })
}

/// The rows without what a capture does not say.
fn without_times(rows: Vec<Json>) -> Vec<Json> {
    let known = |mut row: Json| {
        let members = row.as_object_mut().unwrap();
        for name in ["id", "time", "run"] {
            assert!(members.remove(name).unwrap().as_f64().unwrap() > 0.0);
        }
        row
    };
    rows.into_iter().map(known).collect()
}

#[test]
fn every_line_of_the_captures_is_a_sample_with_all_that_it_says() {
    for (name, piece) in [("stat-samples-web.ndjson", 1), ("stat-samples.ndjson", 1_000)] {
        let extension = Extension::new();
        let here = Here::start(&[&extension.setting()]);
        let bytes = corpus(name);
        let mut player = extension.accept();
        for piece in bytes.chunks(piece) {
            player.write(piece);
        }
        let lines = bytes.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n');
        let expected: Vec<_> =
            lines.map(|line| understood(std::str::from_utf8(line).unwrap())).collect();
        let source = received(&here.site, expected.len() as u64);
        assert_eq!(source.count("lines_invalid"), 0, "{source:?}");
        let rows = without_times(samples(&here.site));
        assert_eq!(rows.len(), expected.len());
        for (row, expected) in rows.iter().zip(&expected) {
            assert_eq!(row, expected);
        }
        let profile = here.site.json("/api/v1/profile?limit=0");
        assert!(profile["window_seconds"].is_u64(), "{profile}");
        let counted = |member: &str| profile[member].as_u64().unwrap();
        assert_eq!(counted("samples") + counted("idle"), rows.len() as u64);
        let stacks = profile["stacks"].as_array().unwrap().iter();
        let mut stacks: Vec<_> = stacks
            .map(|stack| {
                let frames = stack["frames"].as_array().unwrap().iter();
                let frames: Vec<_> = frames.map(|it| it.as_str().unwrap()).collect();
                format!("{} {}", frames.join(";"), stack["samples"])
            })
            .collect();
        stacks.sort_unstable();
        let folded = here.site.get("/profile?format=folded").body;
        let mut folded: Vec<_> = folded.lines().collect();
        folded.sort_unstable();
        assert_eq!(stacks, folded);
        assert_eq!(counted("total_stacks"), folded.len() as u64);
        let few = here.site.json("/api/v1/profile?limit=2")["stacks"].clone();
        assert_eq!(few.as_array().unwrap(), &profile["stacks"].as_array().unwrap()[..2]);
    }
}

/// A line that is good, of a function.
fn line(elapsed: f64, uri: &str, function: &str) -> String {
    format!(
        r#"{{"type": "internal", "request": {{"pid": 7, "elapsed": 0.5, "path": "/var/www/a.php", "method":GET", "uri":{uri}"}}, "elapsed": {elapsed:.10}, "memory": {{"used": 7, "peak": 8}}, "symbol": {{"function": "{function}"}}}}"#
    )
}

#[test]
fn defects_are_survived_and_lies_are_not_believed() {
    let extension = Extension::new();
    let rule = "rewrite=[{field='script_name',cut='?'}]";
    let here = Here::start(&[&extension.setting(), rule]);
    let mut player = extension.accept();
    let fake = r#"/x"}, "elapsed": 99.0, "memory": {"used": 1, "peak": 1}, "symbol": {"function": "evil"}}"#;
    let long = "y".repeat(70_000);
    let negative = line(2.5, "/n?q", "md5").replace("\"used\": 7", "\"used\": -7");
    let offset = r#"{"type": "user", "request": {"pid": 7, "elapsed": 0.5}, "elapsed": 2.6, "memory": {"used": 1, "peak": 1}, "symbol": {"file": "/var/www/a.php"}, "opline": {"line": 3, "offset": -12345678901234, "opcode": "ECHO"}}"#;
    let mut sent: Vec<Vec<u8>> = [
        line(2.0, fake, "md5"),
        line(1.0, fake, "late"),
        negative,
        offset.to_owned(),
        line(3.0, &long, "long"),
        "<script>alert(1)</script>".to_owned(),
        line(4.0, "/a", "md5").replace("4.0", "four"),
    ]
    .map(String::into_bytes)
    .into();
    let mut bytes = line(5.0, "/a", "Latin-X").into_bytes();
    let at = bytes.iter().position(|byte| *byte == b'X').unwrap();
    bytes[at] = 0xe9;
    sent.push(bytes);
    for line in &sent {
        player.write(line);
        player.write(b"\n");
    }
    let site = &here.site;
    let source = received(site, 8);
    assert_eq!((source.count("samples"), source.count("lines_invalid")), (5, 3));
    let reasons = &source.0["lines_invalid_by_reason"];
    assert_members!(reasons => {"too_long": 1, "no_sample": 1, "bad_number": 1});
    assert_eq!(source.0["last_invalid"]["reason"], "bad_number");
    let mended = &source.0["samples_mended_by_reason"];
    for reason in "memory_wrapped offset_dropped out_of_order injected escaped".split(' ') {
        assert_eq!(mended[reason], 1, "{mended}");
    }
    let rows = samples(site);
    let functions: Vec<_> = rows.iter().map(|row| row["function"].as_str()).collect();
    assert_eq!(functions, [Some("md5"), Some("late"), Some("md5"), None, Some("Latin-\\xe9")]);
    assert_eq!(rows[0]["uri_sent"], fake);
    assert_eq!(rows[2]["memory_used"], 4_294_967_289_u64);
    assert_members!(rows[2] => {"uri": "/n", "uri_sent": "/n?q"});
    assert_members!(rows[3] => {"offset": null, "line": 3});
    // A restart of PHP: the next run.
    drop(player);
    let mut player = extension.accept();
    player.write((line(0.9, "/a", "again") + "\n").as_bytes());
    let source = received(site, 9);
    assert_eq!(source.count("runs"), 2);
    let only: Vec<_> = site.json("/api/v1/reports/sample?function=again&limit=0")["rows"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!((only.len(), &only[0]["run"]), (1, &json!(2)));
    assert_eq!(site.post("/api/v1/reset", "{}").status, 200);
    assert!(samples(site).is_empty());
}

/// The longest that a sender may have to wait.
const WAIT_MAX: Duration = Duration::from_millis(10);

#[test]
fn whoever_reads_the_sender_does_not_wait() {
    let extension = Extension::new();
    let here = Here::start(&[&extension.setting(), "profile.pool_size=20000"]);
    let mut player = extension.accept();
    let bytes = corpus("stat-samples.ndjson");
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let site = &here.site;
    // The pool is full.
    for _ in 0..20 {
        player.write(&bytes);
    }
    let mut sent = 20 * 1_053;
    received(site, sent);
    let mut paths = vec![
        "/api/v1/reports/sample?format=csv&limit=0",
        "/api/v1/reports/profile_lines?limit=0",
        "/profile?format=folded",
        "/api/v1/reports/profile_functions/series?from=-15m&step=1",
    ];
    if cfg!(feature = "sql") {
        paths.push(
            "/api/v1/sql?query=SELECT%20script%2C%20line%2C%20COUNT(*)%20FROM%20sample%20GROUP%20BY%201%2C%202",
        );
    }
    // Other tests may keep the machine busy for a while. What makes the sender wait by itself does
    // so in each round.
    let mut rounds = 0;
    loop {
        player.waited = Duration::ZERO;
        let over = &AtomicBool::new(false);
        sent += std::thread::scope(|threads| {
            let playing = threads.spawn(|| {
                let (since, mut sent) = (Instant::now(), 0);
                while since.elapsed() < Duration::from_secs(2) {
                    // 10,000 a second, in bursts of a few.
                    let due = since.elapsed().as_micros() as usize / 100;
                    while sent < due {
                        player.write(lines[sent % lines.len()]);
                        sent += 1;
                    }
                    std::thread::sleep(Duration::from_micros(300));
                }
                sent as u64
            });
            for path in &paths {
                threads.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        // 503: others hold much of what has left so small a pool.
                        let status = site.get(path).status;
                        assert!(matches!(status, 200 | 503), "{path}: {status}");
                    }
                });
            }
            let sent = playing.join();
            over.store(true, Ordering::Relaxed);
            sent.unwrap()
        });
        rounds += 1;
        if player.waited <= WAIT_MAX {
            break;
        }
        assert!(rounds < 20, "a write waited {:?}", player.waited);
    }
    let source = received(site, sent);
    assert_eq!(source.count("samples"), sent);
    assert_eq!(source.count("lines_dropped"), 0);
    // A stop closes the connection at once, whoever reads.
    player.stream.set_nonblocking(false).unwrap();
    let closing = std::thread::spawn(move || {
        assert_eq!(player.stream.read(&mut [0]).unwrap(), 0);
        Instant::now()
    });
    let since = Instant::now();
    here.stop();
    let stopped = Instant::now();
    let closed = closing.join().unwrap();
    assert!(closed <= stopped && closed - since < Duration::from_secs(5));
}

#[test]
fn pages_say_that_a_source_cannot_be_reached() {
    let here = Here::start(&["stat=[{stream='unix:///dev/null',name='web1'}]"]);
    let said = "No samples come from unix:///dev/null: ";
    await_condition("the profile says so", || {
        let page = here.site.get("/profile").body;
        page.contains(said).then_some(()).ok_or(page)
    });
    let daemon = here.site.get("/daemon").body;
    assert_has!(daemon => said, "Healthy? <span class=\" bad\">No</span>");
    here.stop();
}

#[test]
fn a_socket_that_is_not_there_is_no_ill_health() {
    let here = Here::start(&["stat=[{stream='unix:///nowhere/at-all',name='web1'}]"]);
    let said = "<p class=\"note\">No samples come from unix:///nowhere/at-all: ";
    await_condition("the daemon says so", || {
        let page = here.site.get("/daemon").body;
        page.contains(said).then_some(()).ok_or(page)
    });
    // Threads of other tests may be stuck.
    assert_lacks!(here.site.get("/daemon").body => "<p class=\"problem\">No samples come from");
    // Without samples there are no boxes.
    let profile = here.site.get("/profile").body;
    assert_has!(profile => "0 samples with something running", "No samples.");
    assert_lacks!(profile => "Samples as boxes");
    here.stop();
}

#[test]
fn without_an_entry_there_is_nothing_of_it() {
    let here = Here::start(&[]);
    let status = here.site.status();
    assert_eq!(status.0["stats"], json!([]));
    assert!(status.0.get("profile").is_none());
    assert_eq!(here.site.get("/api/v1/reports/sample").status, 404);
}

/// Runs a command of the program with this on its standard input.
fn command(arguments: &[&str], input: &str) -> (Option<i32>, String) {
    let mut child = pinbad()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may not read it.
    let _unread = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn settings_are_sent_as_frames_and_never_one_that_kills() {
    let control = Extension::new();
    let address = format!("unix://{}", control.path.display());
    let set = |arguments: &[&str], input: &str| {
        let arguments = [&["stat", "set"], arguments, &["--control", &address]].concat();
        command(&arguments, input)
    };
    for (arguments, input, frame) in [
        (&["interval", "1000"][..], "", Some([8, 1000])),
        (&["auto", "off"], "", Some([2, 0])),
        (&["arginfo", "off"], "", Some([16, 0])),
        (&["arginfo", "on"], "yes\nyes\n", Some([16, 1])),
        (&["arginfo", "on"], "yes\nno\n", None),
        (&["arginfo", "on"], "", None),
        (&["interval", "9"], "", None),
        (&["samplers", "4"], "", None),
    ] {
        let (code, said) = set(arguments, input);
        let Some(frame) = frame else {
            assert_ne!(code, Some(0), "{said}");
            continue;
        };
        assert_eq!(code, Some(0), "{said}");
        assert_has!(said => "Workers that were forked before keep their settings");
        // Opened, written to, closed.
        let (mut stream, _) = control.listener.accept().unwrap();
        let mut sent = Vec::new();
        stream.read_to_end(&mut sent).unwrap();
        assert_eq!(sent, frame.map(i64::to_ne_bytes).concat());
    }
    control.listener.set_nonblocking(true).unwrap();
    assert!(control.listener.accept().is_err(), "what was refused was not even opened");
    let (code, said) = command(&["stat", "set", "auto", "on"], "");
    assert_eq!(code, Some(2));
    assert!(said.contains("give --control"), "{said}");
}

#[test]
fn doctor_names_a_socket_that_is_missing_or_refused() {
    let extension = Extension::new();
    let folder = tempfile::tempdir().unwrap();
    let refused = folder.path().join("refused");
    drop(UnixListener::bind(&refused).unwrap());
    let missing = folder.path().join("missing");
    let setting = format!(
        "stat=[{{stream='{}',control='{}'}},{{stream='{}'}}]",
        extension.path.display(),
        missing.display(),
        refused.display()
    );
    let (_, said) = command(&["doctor", "--udp", "127.0.0.1:0", "--set", &setting], "");
    let line = |path: &PathBuf| {
        let path = path.display().to_string();
        let line = said.lines().find(|line| line.contains(&path));
        line.unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    assert!(line(&extension.path).contains("can be connected to"));
    assert!(line(&missing).contains("is not there yet"));
    assert!(line(&refused).contains("refused"));
}

#[test]
fn a_dump_is_imported_and_its_last_sample_is_of_now() {
    let folder = tempfile::tempdir().unwrap();
    let stream = format!("unix://{}", folder.path().join("dump.stream").display());
    let here = Here::start(&[&format!("stat=[{{stream='{stream}',name='dump'}}]")]);
    let file = format!("{}/tests/corpus/stat/stat-samples.ndjson", env!("CARGO_MANIFEST_DIR"));
    let (code, said) = command(&["import-stat", "--to", &stream, &file], "");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1053 lines"), "{said}");
    received(&here.site, 1_053);
    let all = samples(&here.site);
    let newest = all.iter().map(|it| it["time"].as_f64().unwrap()).fold(0.0, f64::max);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!((now.as_secs_f64() - newest).abs() < 60.0);
    let (code, said) =
        command(&["import-stat", "--to", &stream, "-"], &(line(9.0, "/a", "md5") + "\n"));
    assert_eq!(code, Some(0), "{said}");
    received(&here.site, 1_054);
    let (code, said) = command(&["import-stat", "/nowhere"], "");
    assert_eq!(code, Some(2), "{said}");
}
