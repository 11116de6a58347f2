//! The daemon's stream of requests, read line by line on its own thread and reconnected when it
//! breaks.
//!
//! The thread (`lines`) blocks in the socket, while the consumer waits with a time limit and can
//! notice a stop. Between them is a channel of `WAITING` lines: when it is full the thread waits,
//! then the connection, and the daemon counts the requests missed. The thread ends with the
//! receiver; it is not joined, because it may block in the socket.

use std::io::{self, BufRead, BufReader, Read};
use std::thread;
use std::time::Duration;

use crossbeam::channel::{Receiver, SendError, Sender, bounded};

use super::StreamQuery;
use crate::cli::client::{Client, ClientError};

/// Capacity of the channel, in lines.
const WAITING: usize = 256;
/// Longest line, in bytes: one request with all its timers.
const LINE_BYTES_MAX: u64 = 32 << 20;
/// First and longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// An event; an error is final: the daemon refuses, or was never there.
pub(super) type News = Result<Event, ClientError>;

/// An event after which more may follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// The connection was made.
    Connected,
    /// A line, without its end. Heartbeats are empty lines and are left out.
    Line(String),
    /// The connection broke or failed; it is retried after a pause.
    Lost(ClientError),
}

/// Starts to read.
///
/// # Errors
/// Fails if the system cannot create a thread.
pub(super) fn follow(client: Client, query: StreamQuery) -> io::Result<Receiver<News>> {
    let (sender, receiver) = bounded(WAITING);
    thread::Builder::new().name("lines".to_owned()).spawn(move || run(&client, query, &sender))?;
    Ok(receiver)
}

/// Ends when everything requested has arrived, or when a send finds no receiver.
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
            // Too many streams at once: there may be room later.
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

/// Reads one answer to its end and returns how it ended.
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
