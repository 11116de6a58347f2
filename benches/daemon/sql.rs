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
use serde::Deserialize;

use crate::clients::{Times, beside, fetch};
use crate::compare::start;
use crate::load::Load;
use crate::receiver::{Daemon, Receiver as _};
use crate::table::Table;
use crate::{Options, Result};

/// The statements of `statements.toml`.
#[derive(Deserialize)]
struct Statements {
    statements: Vec<Statement>,
}

#[derive(Deserialize)]
struct Statement {
    name: String,
    /// How often it runs.
    times: usize,
    /// What its median should be at most, seconds.
    goal: Option<f64>,
    text: String,
}

/// How many of them, from the first, two clients run in a loop.
const LOOPED: usize = 3;

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let daemon = start(options, &[], &[])?;
    let Statements { statements } = toml::from_str(include_str!("statements.toml"))?;
    eprintln!("filling the pools");
    let load = Load::filling(options, 50_000.0)?;
    let lost = load.run_all(&daemon)?.lost;
    let each = each(options, &daemon, &statements)?.note(format!(
        "From the query to the last byte, one client on loopback; another id each time. Of the packets that filled the \
         pools {} were lost.",
        grouped(lost as f64)
    ));
    let looped = beside_packets(options, &daemon, &load, &statements[..LOOPED])?;
    Ok(vec![each, looped])
}

/// Each statement by itself.
fn each(options: &Options, daemon: &Daemon, statements: &[Statement]) -> Result<Table> {
    let status = daemon.get("/api/v1/status")?;
    let count = |name: &str| grouped(status[name].as_f64().unwrap_or(0.0));
    let (requests, timers) = (count("request_rows"), count("timer_rows"));
    let mut table = Table::new(
        format!("SQL over HTTP, {requests} requests and {timers} timers in the pools"),
        "statement | rows | least | median | 99 % | daemon's CPU | goal, median | met",
    );
    let mut ids = Ids::new(daemon, 1)?;
    for Statement {
        name,
        times,
        goal,
        text,
    } in statements
    {
        let times = match options.quick {
            true => (times / 10).max(5),
            false => *times,
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
        let mut row = vec![name.clone(), rows.to_string()];
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
fn beside_packets(
    options: &Options,
    daemon: &Daemon,
    load: &Load,
    looped: &[Statement],
) -> Result<Table> {
    let rate = f64::from(options.rate);
    let time = Duration::from_secs(if options.quick { 4 } else { 20 });
    let mut table = Table::new(
        format!("SQL beside packets, {} s each", time.as_secs()),
        "run by two clients in a loop | packets/s | packets lost | answers/s | median | 99 % | SQL's CPU | ingest CPU a packet",
    );
    for (name, clients) in [("nothing", 0), ("GROUP BY, one request, its timers", 2)] {
        let clients: Result<Vec<Ids>> = (0..clients).map(|seed| Ids::new(daemon, seed)).collect();
        let clients = clients?.into_iter().map(|mut ids| {
            move |client: &Client, stop: &Shutdown| {
                let mut took = Vec::new();
                while !stop.requested() {
                    for statement in looped {
                        took.push(fetch(client, &ids.path(&statement.text))?.0);
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
