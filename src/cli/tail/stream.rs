//! The daemon's stream of requests, read line by line on a thread of its own, and connected again when it breaks.
//!
//! The thread (`lines`) blocks in the socket, while whoever takes the lines waits with a time limit and can see a stop. Between
//! the two is a channel of `WAITING` lines: when it is full the thread waits, then the connection, and the daemon counts what
//! is missed. The thread ends with the receiver; it is not joined, because it may block in the socket.

use std::io::{self, BufRead, BufReader, Read};
use std::thread;
use std::time::Duration;

use crossbeam::channel::{Receiver, SendError, Sender, bounded};

use super::StreamQuery;
use crate::cli::client::{Client, ClientError};

/// Lines on the way.
const WAITING: usize = 256;
/// Longest line, bytes: one request with all its timers.
const LINE_BYTES_MAX: u64 = 32 << 20;
/// First and longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// What happened; an error: the daemon refuses, or was never there, and it is over.
pub(super) type News = Result<Event, ClientError>;

/// What may be followed by more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// There is a connection.
    Connected,
    /// A line, without its end. Heartbeats are empty lines and are left out.
    Line(String),
    /// The connection is lost or did not come about, and will be tried again after a pause.
    Lost(ClientError),
}

/// Starts to read.
///
/// # Errors
/// When the system gives no thread.
pub(super) fn follow(client: Client, query: StreamQuery) -> io::Result<Receiver<News>> {
    let (sender, receiver) = bounded(WAITING);
    thread::Builder::new()
        .name("lines".to_owned())
        .spawn(move || run(&client, query, &sender))?;
    Ok(receiver)
}

/// Ends when all that was asked for has come, or when nobody listens any more, which a send finds out.
fn run(
    client: &Client,
    mut query: StreamQuery,
    events: &Sender<News>,
) -> Result<(), SendError<News>> {
    let (mut pause, mut connected) = (PAUSES.0, false);
    while let Some(path) = query.path() {
        let lost = match client.stream(&path, None) {
            Ok(stream) => {
                events.send(Ok(Event::Connected))?;
                (pause, connected) = (PAUSES.0, true);
                ClientError::Unreachable {
                    url: client.url().to_owned(),
                    problem: read(stream, &mut query, events)?,
                }
            }
            // Too many at once: there may be room later.
            Err(
                lost @ (ClientError::Unreachable { .. } | ClientError::Refused { status: 503, .. }),
            ) if connected => lost,
            Err(error) => return events.send(Err(error)),
        };
        if query.path().is_some() {
            events.send(Ok(Event::Lost(lost)))?;
            thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
    }
    Ok(())
}

/// Reads one answer to its end and says how it ended.
fn read(
    stream: impl Read,
    query: &mut StreamQuery,
    events: &Sender<News>,
) -> Result<String, SendError<News>> {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut longest = (&mut stream).take(LINE_BYTES_MAX);
        match longest.read_until(b'\n', &mut line) {
            Err(error) => return Ok(error.to_string()),
            Ok(_) if line.last() != Some(&b'\n') => {
                return Ok("the daemon ended the connection".to_owned());
            }
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if !text.is_empty() {
            query.received(text);
            events.send(Ok(Event::Line(text.to_owned())))?;
        }
    }
}
