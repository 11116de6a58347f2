//! What daemons meet outside: processes that end with their test, connections on which a test says
//! what it wants, and a server of HTTP that records what it gets.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::{Deref, DerefMut};
use std::process::Child;
use std::sync::{Arc, Mutex};

use super::{PATIENCE, Site};

/// A process that is ended with its test, in whatever state it is.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, or it shall: nothing to do about an error here.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

/// An address that was free a moment ago, for programs that cannot be asked to take any: at an `ip`
/// at which nothing else in these tests takes one.
pub(crate) fn free_address(ip: &str) -> SocketAddr {
    let listener = TcpListener::bind((ip, 0)).unwrap();
    listener.local_addr().unwrap()
}

/// A connection on which a read waits for a minute at most.
pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Says this to a server and reads until it closes: the head in lower case, and the body.
pub(crate) fn talk(to: SocketAddr, text: &str) -> (String, Vec<u8>) {
    let mut stream = connect(to);
    stream.write_all(text.as_bytes()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let end = reply.windows(4).position(|it| it == b"\r\n\r\n");
    let body = reply.split_off(end.map_or(reply.len(), |end| end + 4));
    (String::from_utf8(reply).unwrap().to_lowercase(), body)
}

impl Site {
    /// Says a head to it, with lines of its own; the head in lower case, and the body.
    pub(crate) fn talk(&self, target: &str, more: &str) -> (String, Vec<u8>) {
        let head = "HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        talk(self.http, &format!("GET {target} {head}{more}\r\n"))
    }
}

/// A head and a body.
pub(crate) type Message = (String, Vec<u8>);

/// A server that answers as it is told, or else takes everything.
pub(crate) struct Collector {
    pub(crate) url: String,
    /// Bodies that it took, with their heads in lower case.
    pub(crate) taken: Arc<Mutex<Vec<Message>>>,
    /// Each is the head of an answer and its body; an empty one closes the connection instead.
    pub(crate) answers: Arc<Mutex<VecDeque<Message>>>,
    /// While a test holds it, nothing is answered.
    pub(crate) gate: Arc<Mutex<()>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::start_at("http", |stream| stream)
    }

    /// With connections opened in a way of its own.
    pub(crate) fn start_at<S: Read + Write>(
        scheme: &str,
        open: impl Fn(TcpStream) -> S + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = Self {
            url: format!("{scheme}://{}", listener.local_addr().unwrap()),
            taken: Arc::default(),
            answers: Arc::default(),
            gate: Arc::default(),
        };
        let (taken, answers, gate) = (
            Arc::clone(&collector.taken),
            Arc::clone(&collector.answers),
            Arc::clone(&collector.gate),
        );
        // It ends with the process: it is blocked in `accept` until then.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(open(stream.unwrap()));
                let (mut head, mut line) = (String::new(), String::new());
                while reader.read_line(&mut line).unwrap_or(0) > 2 {
                    head += &line.to_ascii_lowercase();
                    line.clear();
                }
                let mut lines = head.lines();
                let length = lines.find_map(|it| it.strip_prefix("content-length:"));
                let mut body = vec![0; length.map_or(0, |it| it.trim().parse().unwrap())];
                // A client that does not trust a certificate says nothing.
                if reader.read_exact(&mut body).is_err() || head.is_empty() {
                    continue;
                }
                drop(gate.lock().unwrap());
                let answer = answers.lock().unwrap().pop_front();
                let (answer, text) = answer.unwrap_or_else(|| ("200 OK".to_owned(), Vec::new()));
                if answer.is_empty() {
                    continue;
                }
                if answer.starts_with('2') {
                    taken.lock().unwrap().push((head, body));
                }
                let length = text.len();
                let answer = format!(
                    "HTTP/1.1 {answer}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                );
                // Who has gone does not hear it.
                let _ = reader.get_mut().write_all(&[answer.as_bytes(), &text].concat());
            }
        });
        collector
    }

    /// Answers these statuses to the next requests.
    pub(crate) fn answer(&self, heads: &[&str]) {
        let answers = heads.iter().map(|it| ((*it).to_owned(), Vec::new()));
        self.answers.lock().unwrap().extend(answers);
    }

    /// Bodies with this in their heads.
    pub(crate) fn bodies(&self, part: &str) -> Vec<Vec<u8>> {
        let taken = self.taken.lock().unwrap();
        let fit = taken.iter().filter(|(head, _)| head.contains(part));
        fit.map(|(_, body)| body.clone()).collect()
    }
}
