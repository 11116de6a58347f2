//! `pinbad tail`: prints the requests of a running daemon as they arrive, one per line.
//!
//! Called by `main`, on its thread; the connection is read on another one (`stream`), so a stop is
//! noticed within a moment even while nothing arrives. Shows the daemon's stream with the filters
//! that the flags name. A lost connection is reported on stderr and resumed where it broke, however
//! long that takes; only the first must succeed. Names are shown, never executed
//! ([`format`](mod@crate::cli::format)).

use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::Args as FlagGroup;
use crossbeam::channel::RecvTimeoutError;
use serde_json::Value as Json;

use crate::cli::client::{Client, ClientFlags};
use crate::cli::{Failure, format};
use crate::config::units::parse_duration;
use crate::http::encode;
use crate::shutdown::Shutdown;

mod columns;
mod stream;

use columns::Columns;
use stream::Event;

/// Longest delay until a stop is noticed.
const EVENT_WAIT: Duration = Duration::from_millis(100);

/// The flags of `tail`.
#[derive(Debug, Clone, FlagGroup)]
pub struct TailFlags {
    /// Which daemon.
    #[command(flatten)]
    pub client: ClientFlags,
    /// Only of this script.
    #[arg(long, value_name = "NAME")]
    pub script: Option<String>,
    /// Only of this host.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Only of this server.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Only of this schema.
    #[arg(long, value_name = "NAME")]
    pub schema: Option<String>,
    /// Only with this status.
    #[arg(long, value_name = "NUMBER", value_parser = within(0..=u32::MAX))]
    pub status: Option<u32>,
    /// Only requests that took at least this long: 250ms, 1.5s; a plain number is seconds.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub min_time: Option<String>,
    /// Only requests that took at most this long.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub max_time: Option<String>,
    /// Only those with this request tag; may be given for several tags, and all must be there.
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = pair)]
    pub tags: Vec<(String, String)>,
    /// At most so many a second; the others are left out [default: as many as come].
    #[arg(long, value_name = "PER_SECOND", value_parser = within(1..=20_000_u32))]
    pub rate: Option<u32>,
    /// End after so many.
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = within(1..=u64::MAX))]
    pub limit: Option<u64>,
    /// Under each request its timers.
    #[arg(long)]
    pub timers: bool,
    /// The lines as the daemon sends them: an object each.
    #[arg(long)]
    pub json: bool,
}

/// Parses a whole number in a range.
fn within<N>(range: RangeInclusive<N>) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| format!("accepted: a whole number, {least} to {most}"))
    }
}

/// Formats a duration as seconds with six decimals, as the daemon expects.
fn seconds(text: &str) -> Result<String, String> {
    let time = parse_duration(text)
        .map_err(|why| format!("{why}; accepted: 250ms, 1.5s, or seconds such as 0.25"))?;
    Ok(format!("{}.{:06}", time.as_secs(), time.subsec_micros()))
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("no tag; accepted: NAME=VALUE, as in env=production".to_owned()),
    }
}

/// The query for the daemon, and the progress made.
struct StreamQuery {
    query: String,
    after_id: Option<u64>,
    left: Option<u64>,
}

impl StreamQuery {
    fn new(flags: &TailFlags) -> Self {
        let mut query = String::from("/api/v1/stream/requests?format=ndjson");
        let number = |number: u32| number.to_string();
        let filters = [
            ("script_name", flags.script.clone()),
            ("hostname", flags.host.clone()),
            ("server_name", flags.server.clone()),
            ("schema", flags.schema.clone()),
            ("status", flags.status.map(number)),
            ("min_time", flags.min_time.clone()),
            ("max_time", flags.max_time.clone()),
            ("rate", flags.rate.map(number)),
            ("timers", flags.timers.then(|| "1".to_owned())),
        ];
        for (name, value) in filters {
            if let Some(value) = value {
                query += &format!("&{name}={}", encode(&value));
            }
        }
        for (name, value) in &flags.tags {
            query += &format!("&tag.{}={}", encode(name), encode(value));
        }
        Self { query, after_id: None, left: flags.limit }
    }

    /// The path to connect to next; `None` once enough requests have arrived.
    fn path(&self) -> Option<String> {
        let mut path = self.query.clone();
        if let Some(id) = self.after_id {
            path.push_str(&format!("&after_id={id}"));
        }
        match self.left {
            Some(0) => return None,
            Some(left) => path.push_str(&format!("&limit={left}")),
            None => {}
        }
        Some(path)
    }

    fn received(&mut self, line: &str) {
        #[derive(serde::Deserialize)]
        struct Row {
            id: u64,
        }
        if let Ok(Row { id }) = serde_json::from_str(line) {
            self.after_id = Some(id);
            self.left = self.left.map(|left| left.saturating_sub(1));
        }
    }
}

/// Prints requests until there are enough, or a stop. `colour`: the output is a terminal that may
/// be coloured.
///
/// # Errors
/// Fails if the daemon cannot be reached at first, or refuses; or if output fails.
pub fn execute(
    flags: &TailFlags,
    colour: bool,
    shutdown: &Shutdown,
    out: impl Write,
    err: impl Write,
) -> Result<(), Failure> {
    let client = Client::at(&flags.client.url, &flags.client.access)?;
    let events = stream::follow(client, StreamQuery::new(flags)).map_err(Failure::failed)?;
    let mut printer = Printer {
        out: BufWriter::new(out),
        err,
        columns: (!flags.json).then(|| Columns::new(colour)),
        lost: false,
    };
    while !shutdown.requested() {
        match events.recv_timeout(EVENT_WAIT) {
            Ok(event) => printer.handle(event?, events.is_empty()).map_err(Failure::write)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    printer.out.flush().map_err(Failure::write)
}

struct Printer<O: Write, E: Write> {
    out: BufWriter<O>,
    err: E,
    /// `None` prints lines as they come.
    columns: Option<Columns>,
    /// Whether the connection is lost.
    lost: bool,
}

impl<O: Write, E: Write> Printer<O, E> {
    /// Prints an event; `last` flushes the output, since nothing more is waiting.
    fn handle(&mut self, event: Event, last: bool) -> io::Result<()> {
        match event {
            Event::Connected => {
                if std::mem::take(&mut self.lost) {
                    self.notify("connected again")?;
                }
                if let Some(columns) = &mut self.columns {
                    columns.begin(&mut self.out)?;
                }
            }
            Event::Line(line) => self.line(&line)?,
            Event::Lost(error) => {
                if !std::mem::replace(&mut self.lost, true) {
                    self.notify(&format!("{error}; trying again"))?;
                }
            }
        }
        if last { self.out.flush() } else { Ok(()) }
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        let Some(columns) = &mut self.columns else {
            return writeln!(self.out, "{}", format::visible_json(line));
        };
        let row: Json = serde_json::from_str(line).unwrap_or_default();
        match row.get("missed").and_then(Json::as_u64) {
            Some(missed) => {
                let missed = format::grouped(missed as f64);
                self.notify(&format!("missed {missed} requests: this end is too slow"))
            }
            None => columns.row(&mut self.out, &row),
        }
    }

    /// Prints a note about the connection between the lines.
    fn notify(&mut self, text: &str) -> io::Result<()> {
        self.out.flush()?;
        writeln!(self.err, "pinbad: {}", format::visible(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::client::ClientError;

    fn flags(line: &str) -> Result<TailFlags, clap::Error> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            flags: TailFlags,
        }
        let words = std::iter::once("tail").chain(line.split_whitespace());
        <Line as clap::Parser>::try_parse_from(words).map(|line| line.flags)
    }

    #[test]
    fn flags_become_the_query() {
        let query = StreamQuery::new(
            &flags("--script /a&b --host h --min-time 250ms --max-time 2 --tag env=x=y --rate 5 --timers -n 3")
                .unwrap(),
        );
        assert_eq!(
            query.path().unwrap(),
            "/api/v1/stream/requests?format=ndjson&script_name=%2Fa%26b&hostname=h&min_time=0.250000\
             &max_time=2.000000&rate=5&timers=1&tag.env=x%3Dy&limit=3"
        );
        for bad in [
            "--rate 0",
            "--rate 20001",
            "-n 0",
            "--min-time 1x",
            "--tag env",
            "--tag =x",
            "--status ok",
        ] {
            assert_eq!(flags(bad).unwrap_err().exit_code(), 2, "{bad}");
        }
    }

    #[test]
    fn a_new_connection_goes_on_where_the_last_one_was() {
        let mut query = StreamQuery::new(&flags("-n 2").unwrap());
        query.received(r#"{"missed":5}"#);
        query.received(r#"{"id":7,"hostname":"h"}"#);
        assert!(query.path().unwrap().ends_with("&after_id=7&limit=1"));
        query.received(r#"{"id":9}"#);
        assert_eq!(query.path(), None);
    }

    #[test]
    fn an_outage_is_said_once() {
        let mut printer = Printer {
            out: BufWriter::new(Vec::new()),
            err: Vec::new(),
            columns: Some(Columns::new(false)),
            lost: false,
        };
        let lost = || {
            Event::Lost(ClientError::Unreachable {
                url: "http://h:1".to_owned(),
                problem: "refused".to_owned(),
            })
        };
        let missed = Event::Line(r#"{"missed":1204}"#.to_owned());
        for event in [Event::Connected, lost(), lost(), Event::Connected, missed] {
            printer.handle(event, true).unwrap();
        }
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(
            text(printer.err),
            "pinbad: http://h:1: refused; trying again\npinbad: connected again\n\
             pinbad: missed 1,204 requests: this end is too slow\n"
        );
        let out = text(printer.out.into_inner().unwrap());
        assert_eq!(out.lines().count(), 1, "the heading, once: {out}");
    }
}
