//! `pinbad doctor --running`: says in a sentence what holds a running daemon up most; and
//! `--ready`: asks whether it is ready.
//!
//! Reads its instruments twice, a second apart, over HTTP, and finds the thread that spent the
//! largest part of that second in one stage or wait, unless something has been waiting for longer
//! than that already. Changes nothing.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::cli::client::{Client, ClientError};
use crate::cli::{Failure, format, print};

/// Time between the two readings.
const APART: Duration = Duration::from_secs(1);

/// Longest wait for a sign that a pinbad has the address: whatever else has it may never answer.
pub(super) const HEALTH_MAX: Duration = Duration::from_secs(3);

/// A stage or wait that takes more than this part of a second is a bottleneck.
const NARROW: f64 = 0.5;

/// Finds stages and waits in progress for more than a second, except idling and sockets without
/// traffic.
const STUCK: &str = "SELECT t.NAME, e.EVENT_NAME, e.TIMER_WAIT / 1e12 FROM (
    SELECT THREAD_ID, EVENT_NAME, END_EVENT_ID, TIMER_WAIT FROM performance_schema.events_waits_current
    UNION ALL SELECT THREAD_ID, EVENT_NAME, END_EVENT_ID, TIMER_WAIT FROM performance_schema.events_stages_current) e
    JOIN performance_schema.threads t ON t.THREAD_ID = e.THREAD_ID
    WHERE e.END_EVENT_ID IS NULL AND e.TIMER_WAIT > 1000000000000
    AND e.EVENT_NAME <> 'idle' AND e.EVENT_NAME NOT LIKE 'wait/io/socket/%'";

/// Reads the time that each thread has spent, by stage and wait.
const SPENT: &str = "SELECT t.NAME, s.EVENT_NAME, s.SUM_TIMER_WAIT / 1e12, t.THREAD_ID FROM (
    SELECT * FROM performance_schema.events_waits_summary_by_thread_by_event_name
    UNION ALL SELECT * FROM performance_schema.events_stages_summary_by_thread_by_event_name) s
    JOIN performance_schema.threads t ON t.THREAD_ID = s.THREAD_ID
    WHERE s.COUNT_STAR > 0 AND s.EVENT_NAME <> 'idle' AND s.EVENT_NAME NOT LIKE 'wait/io/socket/%'";

/// A thread, its stage or wait, and the time in seconds or as a part of one.
type Spent = (String, String, f64);

/// Prints the sentence.
///
/// # Errors
/// Fails if there is no daemon, or it refuses.
pub(super) fn execute(client: &Client) -> Result<(), Failure> {
    let (before, began) = (spent(client)?, Instant::now());
    sleep(APART);
    let (after, secs) = (spent(client)?, began.elapsed().as_secs_f64());
    let grown = after.into_iter().map(|(at, (name, event, total))| {
        let before = before.get(&at).map_or(0.0, |(.., before)| *before);
        (name, event, (total - before) / secs)
    });
    let stuck = rows(client, STUCK)?;
    let stuck = stuck.iter().map(|row| (text(&row[0]), text(&row[1]), number(&row[2])));
    let said = sentence(stuck.collect(), grown.collect());
    print(&format::visible(&format!("{}: {said}", client.url())))
}

/// Prints whether the daemon is ready, and anything that does not work nevertheless.
///
/// # Errors
/// Fails if it is not ready, or there is no daemon.
pub(super) fn ready(client: &Client) -> Result<(), Failure> {
    let detail = match readiness(client) {
        // Anything else is no answer to this, and has its advice.
        Err(ClientError::Refused { status: 503, detail }) => {
            return Err(Failure::failed(format!("{}: {detail}", client.url())));
        }
        detail => detail?.map_or(String::new(), |detail| format!("; {detail}")),
    };
    print(&format::visible(&format!("{}: ready{detail}", client.url())))
}

/// What does not work although the daemon is ready.
///
/// # Errors
/// Fails if it is not ready, or there is no daemon.
pub(super) fn readiness(client: &Client) -> Result<Option<String>, ClientError> {
    let answer = client.get("/readyz")?;
    Ok(answer["detail"].as_str().map(str::to_owned))
}

/// Returns whether a pinbad answers there, if only that it wants credentials.
pub(super) fn serves(url: &str) -> bool {
    let client = Client::credulous(url).map(|client| client.patient_for(HEALTH_MAX));
    match client.and_then(|client| client.get("/healthz")) {
        Ok(answer) => answer["status"] == "ok",
        Err(error) => matches!(error, ClientError::Refused { .. }),
    }
}

/// Time spent by thread and instrument.
fn spent(client: &Client) -> Result<HashMap<(String, String), Spent>, ClientError> {
    let rows = rows(client, SPENT)?;
    let spent = rows.iter().map(|row| {
        let event = text(&row[1]);
        let at = (row[3].to_string(), event.clone());
        (at, (text(&row[0]), event, number(&row[2])))
    });
    Ok(spent.collect())
}

fn rows(client: &Client, statement: &str) -> Result<Vec<Json>, ClientError> {
    let answer = client.post("/api/v1/sql", &json!({ "query": statement }), 200)?;
    Ok(answer["rows"].as_array().cloned().unwrap_or_default())
}

fn text(value: &Json) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Numbers with many digits arrive as strings.
fn number(value: &Json) -> f64 {
    let written = value.as_str().and_then(|text| text.parse().ok());
    value.as_f64().or(written).unwrap_or(0.0)
}

fn widest(all: Vec<Spent>) -> Option<Spent> {
    all.into_iter().max_by(|a, b| a.2.total_cmp(&b.2))
}

fn sentence(stuck: Vec<Spent>, spent: Vec<Spent>) -> String {
    if let Some((thread, event, secs)) = widest(stuck) {
        return format!(
            "The bottleneck is {event}: {thread} has been at it for {secs:.1} s and still is."
        );
    }
    let Some((thread, event, part)) = widest(spent) else {
        return "Nothing is known: no stage or wait is measured (UPDATE performance_schema.setup_instruments).".to_owned();
    };
    let percent = 100.0 * part;
    match part >= NARROW {
        true => format!(
            "The bottleneck is {event}: it took {percent:.0} % of the last second of {thread}."
        ),
        false if percent < 0.05 => "There is no bottleneck: all threads are idle.".to_owned(),
        false => format!(
            "There is no bottleneck: what took most was {event}, {percent:.1} % of the last second of {thread}."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_is_named() {
        let spent = |event: &str, part| ("thread/pinbad/merge".to_owned(), event.to_owned(), part);
        let busy = vec![spent("stage/a", 0.2), spent("stage/b", 0.87)];
        assert_eq!(
            sentence(Vec::new(), busy.clone()),
            "The bottleneck is stage/b: it took 87 % of the last second of thread/pinbad/merge."
        );
        assert_eq!(
            sentence(vec![spent("wait/x", 3.21)], busy),
            "The bottleneck is wait/x: thread/pinbad/merge has been at it for 3.2 s and still is."
        );
        let idle = sentence(Vec::new(), vec![spent("stage/a", 0.002)]);
        assert!(idle.starts_with("There is no bottleneck") && idle.contains("0.2 %"), "{idle}");
        let idle = sentence(Vec::new(), vec![spent("stage/a", 0.000_4)]);
        assert_has!(idle => "all threads are idle");
        assert!(sentence(Vec::new(), Vec::new()).starts_with("Nothing is known"));
    }
}
