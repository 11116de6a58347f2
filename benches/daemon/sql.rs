//! SQL over full pools: how long statements take, and that no packet is lost meanwhile.
//!
//! A daemon with the default settings gets a million requests with five timers each. Then one client runs each statement many
//! times over HTTP, and at the end two clients run some in a loop while packets arrive at a steady rate.

use std::io;
use std::time::Duration;

use pinbad::cli::client::Client;
use pinbad::cli::client::address::encoded;
use pinbad::cli::format::{grouped, seconds};
use pinbad::shutdown::Shutdown;

use crate::clients::{Times, beside, fetch};
use crate::compare::{PROGRAM, settings};
use crate::load::Load;
use crate::receiver::{Daemon, Receiver as _};
use crate::table::Table;
use crate::{Options, Result};

/// Name, text, how often it runs, what its median should be at most. `{id}` is another request's each time.
const STATEMENTS: [(&str, &str, usize, Option<f64>); 12] = [
    (
        "by script: GROUP BY over all requests",
        "SELECT script_name, count(*), avg(req_time) FROM request GROUP BY 1 ORDER BY 3 DESC LIMIT 10",
        200,
        Some(0.020),
    ),
    (
        "one request: WHERE id = n",
        "SELECT * FROM request WHERE id = {id}",
        2_000,
        Some(0.002),
    ),
    (
        "its timers: four tables joined",
        "SELECT t.id, r.script_name, t.hit_count, t.value, tag.name AS tag_name, tt.value AS tag_value FROM timer t \
         JOIN request r ON t.request_id = r.id JOIN timertag tt ON tt.timer_id = t.id JOIN tag ON tt.tag_id = tag.id \
         WHERE t.request_id = {id}",
        2_000,
        Some(0.002),
    ),
    (
        "newest: ORDER BY id DESC LIMIT 50",
        "SELECT * FROM request ORDER BY id DESC LIMIT 50",
        500,
        None,
    ),
    (
        "slowest: ORDER BY req_time DESC LIMIT 10",
        "SELECT * FROM request ORDER BY req_time DESC LIMIT 10",
        50,
        None,
    ),
    (
        "errors: count of status >= 500",
        "SELECT count(*) FROM request WHERE status >= 500",
        200,
        None,
    ),
    (
        "timers by tag: GROUP BY over all timer tags",
        "SELECT value, count(*) FROM timertag GROUP BY value ORDER BY 2 DESC LIMIT 10",
        20,
        None,
    ),
    (
        "a report: report_by_script_name",
        "SELECT script_name, req_count, req_time_total / req_count AS average FROM report_by_script_name \
         ORDER BY req_time_total DESC LIMIT 10",
        500,
        None,
    ),
    ("nothing: SELECT 1", "SELECT 1", 2_000, None),
    ("every request", "SELECT * FROM request", 5, None),
    ("every timer", "SELECT * FROM timer", 5, None),
    (
        "every row: report_by_hostname_server_and_script",
        "SELECT * FROM report_by_hostname_server_and_script",
        20,
        None,
    ),
];

/// How many of them, from the first, two clients run in a loop.
const LOOPED: usize = 3;

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let daemon = Daemon::start(PROGRAM, &settings(options))?;
    eprintln!("filling the pools");
    let load = Load::filling(options, 50_000.0)?;
    let lost = load.run_all(&daemon)?.lost;
    let statements = statements(options, &daemon)?.note(format!(
        "From the query to the last byte, one client on loopback; another id each time. Of the packets that filled the \
         pools {} were lost.",
        grouped(lost as f64)
    ));
    Ok(vec![statements, beside_packets(options, &daemon, &load)?])
}

/// Each statement by itself.
fn statements(options: &Options, daemon: &Daemon) -> Result<Table> {
    let status = daemon.get("/api/v1/status")?;
    let count = |name: &str| grouped(status[name].as_f64().unwrap_or(0.0));
    let (requests, timers) = (count("request_rows"), count("timer_rows"));
    let mut table = Table::new(
        format!("SQL over HTTP, {requests} requests and {timers} timers in the pools"),
        &[
            "statement",
            "rows",
            "least",
            "median",
            "99 %",
            "daemon's CPU",
            "goal, median",
            "met",
        ],
    );
    let mut ids = Ids::new(daemon, 1)?;
    for (name, text, times, goal) in STATEMENTS {
        let times = if options.quick {
            (times / 10).max(5)
        } else {
            times
        };
        let rows = daemon.get(&ids.path(text))?["rows"]
            .as_array()
            .map_or(0, Vec::len);
        let before = daemon.cpu();
        let took: io::Result<Vec<f64>> = (0..times)
            .map(|_| Ok(fetch(&daemon.client, &ids.path(text))?.0))
            .collect();
        let spent = daemon.cpu().since(&before, |_| true).as_secs_f64();
        let took = Times::new(took?);
        let mut row = vec![name.to_owned(), rows.to_string()];
        row.extend(took.cells());
        row.push(seconds(spent / times as f64));
        row.extend(goal.map(seconds));
        row.extend(goal.map(|goal| if took.median() <= goal { "yes" } else { "no" }.to_owned()));
        table.row(row);
        eprintln!("  {name}: {}", seconds(took.median()));
    }
    Ok(table)
}

/// Two clients in a loop while packets arrive.
fn beside_packets(options: &Options, daemon: &Daemon, load: &Load) -> Result<Table> {
    let rate = f64::from(options.rate);
    let time = Duration::from_secs(if options.quick { 4 } else { 20 });
    let mut table = Table::new(
        format!("SQL beside packets, {} s each", time.as_secs()),
        &[
            "run by two clients in a loop",
            "packets/s",
            "packets lost",
            "answers/s",
            "median",
            "99 %",
            "SQL's CPU",
            "ingest CPU a packet",
        ],
    );
    for (name, clients) in [("nothing", 0), ("GROUP BY, one request, its timers", 2)] {
        let clients: Result<Vec<Ids>> = (0..clients).map(|seed| Ids::new(daemon, seed)).collect();
        let clients = clients?.into_iter().map(|mut ids| {
            move |client: &Client, stop: &Shutdown| {
                let mut took = Vec::new();
                while !stop.requested() {
                    for (_, text, ..) in &STATEMENTS[..LOOPED] {
                        took.push(fetch(client, &ids.path(text))?.0);
                    }
                }
                Ok(took)
            }
        });
        let found = beside(clients, daemon, load, (rate, time))?;
        let [_, median, most] = found.times.cells();
        let secs = found.trial.seconds;
        table.row([
            name.to_owned(),
            grouped(found.trial.rate()),
            grouped(found.trial.lost as f64),
            grouped(found.times.count() as f64 / secs),
            median,
            most,
            format!("{:.0} %", found.answering.as_secs_f64() * 100.0 / secs),
            found.ingest,
        ]);
    }
    Ok(table.note(
        "Five timers a packet; the sender, the clients and the daemon share the cores. Lost: no room in the kernel's buffers \
         or in the temporary pool.",
    ))
}

/// Ids of requests, spread over all of the pool but its oldest tenth, which may be leaving.
struct Ids {
    first: u64,
    count: u64,
    state: u64,
}

impl Ids {
    fn new(daemon: &Daemon, seed: u64) -> Result<Self> {
        let bounds = daemon.get(&path("SELECT min(id), max(id) FROM request"))?;
        let id = |at: usize| bounds["rows"][0][at].as_u64().ok_or("the pool is empty");
        let (first, last) = (id(0)?, id(1)?);
        let first = first + (last - first) / 10;
        Ok(Self {
            first,
            count: last - first + 1,
            state: seed,
        })
    }

    /// The path of a statement, about another request each time.
    fn path(&mut self, text: &str) -> String {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let id = self.first + (self.state >> 33) % self.count;
        path(&text.replace("{id}", &id.to_string()))
    }
}

fn path(statement: &str) -> String {
    format!("/api/v1/sql?query={}", encoded(statement))
}
