//! The daemon's stream of requests, read line by line on a thread of its own, and connected again when it breaks.
//!
//! The thread (`lines`) blocks in the socket, while whoever takes the lines waits with a time limit and can see a stop. Between
//! the two is a channel of `WAITING` lines: when it is full the thread waits, then the connection, and the daemon counts what
//! is missed. The thread ends with the receiver; it is not joined, because it may block in the socket.

use std::io::{self, BufRead, BufReader, Read};
use std::thread;
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, bounded};

use super::StreamQuery;
use crate::cli::client::{Client, ClientError};

/// Lines on the way.
const WAITING: usize = 256;
/// Longest line, bytes: one request with all its timers.
const LINE_BYTES_MAX: u64 = 32 << 20;
/// First and longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// There is a connection.
    Connected,
    /// A line, without its end. Heartbeats are empty lines and are left out.
    Line(String),
    /// The connection is lost or did not come about, and will be tried again after a pause.
    Lost(ClientError),
    /// It is over: the daemon refuses, or has sent all that was asked for.
    Ended(Result<(), ClientError>),
}

/// Starts to read.
///
/// # Errors
/// When the system gives no thread.
pub(super) fn follow(client: Client, query: StreamQuery) -> io::Result<Receiver<Event>> {
    let (sender, receiver) = bounded(WAITING);
    thread::Builder::new()
        .name("lines".to_owned())
        .spawn(move || run(&client, query, &sender))?;
    Ok(receiver)
}

/// Ends when nobody listens any more, which a send finds out.
fn run(client: &Client, mut query: StreamQuery, events: &Sender<Event>) {
    let mut pause = PAUSES.0;
    while let Some(path) = query.path() {
        let lost = match client.stream(&path) {
            Ok(stream) => {
                if events.send(Event::Connected).is_err() {
                    return;
                }
                pause = PAUSES.0;
                let Some(end) = read(stream, &mut query, events) else {
                    return;
                };
                ClientError::Unreachable {
                    url: client.url().to_owned(),
                    problem: end,
                }
            }
            Err(lost @ ClientError::Unreachable { .. }) => lost,
            // Too many at once: there may be room later.
            Err(busy @ ClientError::Refused { status: 503, .. }) => busy,
            Err(refused) => {
                drop(events.send(Event::Ended(Err(refused))));
                return;
            }
        };
        if query.path().is_none() {
            break;
        }
        if events.send(Event::Lost(lost)).is_err() {
            return;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSES.1);
    }
    drop(events.send(Event::Ended(Ok(()))));
}

/// Reads one answer to its end and says how it ended; `None`: nobody listens.
fn read(stream: impl Read, query: &mut StreamQuery, events: &Sender<Event>) -> Option<String> {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let taken = (&mut stream)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line);
        match taken {
            Err(error) => return Some(error.to_string()),
            Ok(_) if line.last() != Some(&b'\n') => {
                return Some("the daemon ended the connection".to_owned());
            }
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if text.is_empty() {
            continue;
        }
        query.received(text);
        events.send(Event::Line(text.to_owned())).ok()?;
    }
}
