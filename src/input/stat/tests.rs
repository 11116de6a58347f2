//! Valid, defective and forged lines; and the reading of a socket.

use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::{Duration, Instant};

use super::line::{BadLine, Frame, Operation, Request, SampleType, UNITS, arguments, split};
use super::*;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::limits::LINE_BYTES_MAX;
use crate::shutdown::Shutdown;

const USER: &[u8] = br#"{"type": "user", "request": {"pid": 29967, "elapsed": 0.8996877840, "path": "/var/www/app/work.php", "method":GET", "uri":/work.php?s=0.5&q=a%22b"}, "elapsed": 0.9010036500, "memory": {"used": 590168, "peak": 659800}, "symbol": {"file": "/var/www/app/work.php", "scope": "App\Models\User", "function": "App\Models\{closure}"}, "arginfo": ["int(0.0000000000)","bool(true)"], "opline": {"line": 6, "offset": 2, "opcode": "SPACESHIP"}}"#;

fn text(bytes: Option<&[u8]>) -> Option<&str> {
    bytes.map(|bytes| std::str::from_utf8(bytes).unwrap())
}

#[test]
fn a_line_of_php_code() {
    let line = split(USER).unwrap();
    assert_eq!(line.sample_type, SampleType::User);
    assert_eq!(line.elapsed, 9_010_036_500);
    assert_eq!((line.used, line.peak), (590_168, 659_800));
    let request = Request::read(line.request).unwrap();
    assert_eq!((request.pid, request.elapsed), (29_967, 8_996_877_840));
    assert_eq!(text(request.path), Some("/var/www/app/work.php"));
    assert_eq!(text(request.method), Some("GET"));
    assert_eq!(text(request.uri), Some("/work.php?s=0.5&q=a%22b"));
    assert!(request.unquoted);
    let symbol = Frame::read(line.symbol.unwrap()).unwrap();
    assert_eq!(text(symbol.scope), Some("App\\Models\\User"));
    assert_eq!(text(symbol.function), Some("App\\Models\\{closure}"));
    let arguments: Vec<_> = arguments(line.arguments.unwrap()).collect();
    assert_eq!(arguments, [(&b"int"[..], true), (b"bool(true)", false)]);
    let operation = Operation::read(line.operation.unwrap()).unwrap();
    assert_eq!((operation.line, operation.offset), (Some(6), Some(2)));
    assert_eq!(text(operation.opcode), Some("SPACESHIP"));
    assert!(line.caller.is_none() && !operation.offset_dropped);
}

#[test]
fn quotes_may_be_there_as_well() {
    let line = String::from_utf8(USER.to_vec()).unwrap();
    let line = line.replace("\"method\":GET", "\"method\": \"GET");
    let line = line.replace("\"uri\":/", "\"uri\": \"/");
    let line = split(line.as_bytes()).unwrap();
    let request = Request::read(line.request).unwrap();
    assert_eq!(text(request.method), Some("GET"));
    assert_eq!(text(request.uri), Some("/work.php?s=0.5&q=a%22b"));
    assert!(!request.unquoted);
}

#[test]
fn a_sample_inside_a_uri_is_no_sample() {
    let fake = r#"/x"}, "elapsed": 9.0, "memory": {"used": 1, "peak": 1}, "symbol": {"function": "evil"}, "caller": {"file": "/e"}}"#;
    for uri in
        [fake, &format!("/x\", \"method\":POST\", \"uri\":{fake}"), "/?a=\"}, \"type\": \"user\""]
    {
        let line = format!(
            r#"{{"type": "internal", "request": {{"pid": 1, "elapsed": 0.5, "path": "/a.php", "method":GET", "uri":{uri}"}}, "elapsed": 1.5, "memory": {{"used": 7, "peak": 8}}, "symbol": {{"function": "md5"}}}}"#
        );
        let line = split(line.as_bytes()).unwrap();
        assert_eq!((line.elapsed, line.used), (15 * UNITS / 10, 7), "{uri}");
        let request = Request::read(line.request).unwrap();
        assert_eq!(text(request.uri), Some(uri));
        assert_eq!(text(request.method), Some("GET"));
        let symbol = Frame::read(line.symbol.unwrap()).unwrap();
        assert_eq!(text(symbol.function), Some("md5"));
    }
}

#[test]
fn numbers_that_cannot_be() {
    let line = |memory: &str, offset: &str| {
        format!(
            r#"{{"type": "user", "request": {{"pid": 1, "elapsed": 0}}, "elapsed": 2, "memory": {{"used": {memory}, "peak": 5}}, "symbol": {{"file": "/a"}}, "opline": {{"line": 3, "offset": {offset}, "opcode": "ECHO"}}}}"#
        )
    };
    let wrapped = line("-1", "1");
    let wrapped = split(wrapped.as_bytes()).unwrap();
    assert_eq!((wrapped.used, wrapped.memory_wrapped), (4_294_967_295, true));
    let low = line("-2147483648", "1");
    assert_eq!(split(low.as_bytes()).unwrap().used, 2_147_483_648);
    let beyond = line("-2147483649", "1");
    assert_eq!(split(beyond.as_bytes()), Err(BadLine::BadNumber));
    for garbage in "-7 18446744073709551615 99999999999999999999999 16777216".split(' ') {
        let line = line("1", garbage);
        let line = split(line.as_bytes()).unwrap();
        let operation = Operation::read(line.operation.unwrap()).unwrap();
        assert_eq!(operation.offset, None);
        assert!(operation.offset_dropped);
        assert_eq!(text(operation.opcode), Some("ECHO"));
        assert_eq!(operation.line, Some(3));
    }
    // Without an operation there is no line either.
    let nothing = Operation::read(br#""line": 1842899760, "offset": -691119400"#).unwrap();
    assert_eq!(nothing, Operation { offset_dropped: true, ..Operation::default() });
}

#[test]
fn what_is_no_sample_says_why() {
    for (line, reason) in [
        (&b""[..], BadLine::NoSample),
        (b"GET / HTTP/1.1", BadLine::NoSample),
        (br#"{"type": "other", "request": {}"#, BadLine::NoSample),
        (&USER[..100], BadLine::CutOff),
        (&USER[..USER.len() - 1], BadLine::BadSymbol),
        (br#"{"type": "memory", "request": {"pid": 1, "elapsed": 0}, "elapsed": x, "memory": {"used": 1, "peak": 1}}"#, BadLine::BadNumber),
        (br#"{"type": "memory", "request": {"pid": 1, "elapsed": 0}, "elapsed": 1, "memory": {"used": 1, "peak": 1}, "more": {}}"#, BadLine::BadSymbol),
    ] {
        assert_eq!(split(line), Err(reason), "{}", line.escape_ascii());
    }
    assert_eq!(Request::read(b"\"pid\": x"), Err(BadLine::BadNumber));
    assert_eq!(Request::read(b"\"id\": 1"), Err(BadLine::BadRequest));
    let request = b"\"pid\": 1, \"elapsed\": 0.1, \"host\": \"x\"";
    assert_eq!(Request::read(request), Err(BadLine::BadRequest));
    assert_eq!(Frame::read(b"\"line\": 1"), Err(BadLine::BadSymbol));
    for cut in 0..USER.len() {
        // No part of it is a sample, and nothing panics.
        if let Ok(line) = split(&USER[..cut]) {
            let read = Operation::read(line.operation.unwrap_or(b"x"));
            assert!(read.is_err(), "{cut}");
        }
    }
}

/// The lines of bytes that arrive in pieces of this length, and whether each was whole.
fn lines(bytes: &[u8], piece: usize) -> Vec<(usize, bool)> {
    let (mut lines, mut got) = (Lines::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        lines.feed(piece, |line, whole| got.push((line.len(), whole)));
    }
    got
}

#[test]
fn lines_end_with_a_newline_alone_and_are_not_endless() {
    let mut bytes = b"one\n\0two\r\n".to_vec();
    bytes.extend_from_slice(&vec![b'x'; 3 * LINE_BYTES_MAX]);
    bytes.extend_from_slice(b"\nlast\nbegun");
    for piece in [1, 7, 4096, bytes.len()] {
        let got = lines(&bytes, piece);
        assert_eq!(got.len(), 4, "{piece}");
        assert_eq!((got[0], got[1], got[3]), ((3, true), (5, true), (4, true)));
        assert!(!got[2].1 && got[2].0 > LINE_BYTES_MAX);
    }
    let mut lines = Lines::default();
    lines.feed(b"begun", |_, _| panic!("it has no end"));
    assert!(lines.resume());
    let mut got = Vec::new();
    lines.feed(b"rest\nnext\n", |line, _| got.push(line.to_vec()));
    assert_eq!(got, [b"next"]);
}

#[test]
fn a_full_queue_lets_the_oldest_go() {
    let queue = Queue::default();
    let chunk = |number| Chunk {
        connection: number,
        received_ms: 0,
        after_gap: false,
        is_dump: false,
        bytes: vec![b'\n'; 1 << 20].into(),
    };
    let dropped: Vec<_> = (1..=20).map(|number| queue.push(chunk(number))).collect();
    let all: u64 = dropped.iter().map(|(bytes, _)| bytes).sum();
    assert_eq!(all, 5 << 20);
    assert!(dropped.iter().all(|(bytes, lines)| bytes == lines));
    let first = queue.pop().unwrap();
    assert_eq!((first.connection, first.after_gap), (6, true));
    let next = queue.pop().unwrap();
    assert_eq!((next.connection, next.after_gap), (7, false));
}

/// Nobody takes the chunks of a dump until nothing more is read; none is dropped.
#[test]
fn a_dump_waits_for_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stream");
    let source = source(&path);
    let shutdown = Shutdown::new();
    let listener = UnixListener::bind(&path).unwrap();
    let client = {
        let (source, shutdown) = (Arc::clone(&source), shutdown.clone());
        thread::spawn(move || client::run(&source, &SystemClock::new(), &shutdown))
    };
    let (mut stream, _) = listener.accept().unwrap();
    drop(listener);
    let line = [vec![b'x'; 1023], vec![b'\n']].concat();
    let sender = thread::spawn(move || {
        stream.write_all(client::DUMP).unwrap();
        (0..2 * QUEUE_BYTES_MAX / line.len()).for_each(|_| stream.write_all(&line).unwrap());
    });
    let (mut bytes, mut seen) = (0, 0);
    while bytes < 2 * QUEUE_BYTES_MAX {
        thread::sleep(Duration::from_millis(20));
        let received = source.counters.bytes_received.get();
        if received == seen {
            while let Some(chunk) = source.queue.pop() {
                bytes += chunk.bytes.len();
            }
        }
        seen = received;
        assert_eq!(source.counters.lines_dropped.get(), 0);
    }
    assert_eq!(bytes, 2 * QUEUE_BYTES_MAX);
    sender.join().unwrap();
    shutdown.request();
    client.join().unwrap();
}

/// A source whose extension has its socket at this path.
pub(crate) fn source(path: &std::path::Path) -> Arc<Source> {
    let text = format!(
        "[[stat]]\nstream = 'unix://{}'\nname = 'web1'\nroot = '/var/www'\n",
        path.display()
    );
    let config = Config::from_toml("pinbad.toml", &text).unwrap();
    Source::new(config.stats[0].clone())
}

#[test]
fn a_connection_is_made_again_and_closed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stream");
    let source = source(&path);
    let shutdown = Shutdown::new();
    let client = {
        let (source, shutdown) = (Arc::clone(&source), shutdown.clone());
        thread::spawn(move || client::run(&source, &SystemClock::new(), &shutdown))
    };
    let wait = |what: &str, holds: &dyn Fn() -> bool| {
        let since = Instant::now();
        while !holds() {
            assert!(since.elapsed() < Duration::from_secs(30), "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    };
    wait("nobody is there", &|| source.counters.connections_failed.get() > 0);
    assert!(source.problem.lock().is_some());
    let listener = UnixListener::bind(&path).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"one\n").unwrap();
    wait("bytes come", &|| source.counters.bytes_received.get() == 4);
    drop(stream);
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"two\n").unwrap();
    wait("and more", &|| source.counters.bytes_received.get() == 8);
    assert_eq!(source.counters.connections.get(), 2);
    assert_eq!(source.queue.pop().map(|it| it.connection), Some(1));
    assert_eq!(source.queue.pop().map(|it| it.connection), Some(2));
    shutdown.request();
    client.join().unwrap();
    // A read from a closed connection fails.
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut rest).unwrap();
    assert!(rest.is_empty());
}
