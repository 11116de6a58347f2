//! Queries over full pools: how long SQL statements take, and that no packet is lost meanwhile.
//!
//! A daemon with the default settings gets a million requests with five timers each. Then one
//! client runs each statement many times over HTTP, and at the end clients read a report, or run
//! some of the statements, while packets arrive at a steady rate.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use pinbad::cli::format::{grouped, secs};
use pinbad::http::encode;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Deserialize;

use crate::clients::{BESIDE, Times, beside, cells};
use crate::compare::{reached, start};
use crate::load::{FILL, FILLING, Load};
use crate::receiver::Daemon;
use crate::table::Table;
use crate::{Options, Result};

/// An entry of `statements.toml`.
#[derive(Deserialize)]
struct Statement {
    name: String,
    /// How often it runs.
    times: usize,
    /// Goal for the median, seconds.
    goal: Option<f64>,
    text: String,
}

/// How many of them, from the first, two clients run in a loop.
const LOOPED: usize = 3;
/// The report that is read while packets arrive, and the number of connections that read it.
const REPORT: &str = "/api/v1/reports/report_by_script_name?sort=-req_time_total&limit=100";
const CONNECTIONS: u32 = 4;

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let daemon = start(options, None, &[], &[])?;
    let mut file: HashMap<String, Vec<Statement>> =
        toml::from_str(include_str!("statements.toml"))?;
    let statements = file.remove("statements").unwrap_or_default();
    eprintln!("filling the pools");
    let load = Load::new(options, FILLING)?;
    let lost = load.run(&daemon, &format!("--rate=50000 {FILL}"))?.lost;
    let status = daemon.get("/api/v1/status")?;
    let count = |name: &str| grouped(status[name].as_f64().unwrap_or(0.0));
    let (requests, timers) = (count("request_rows"), count("timer_rows"));
    let mut alone = Table::new(
        format!("SQL over HTTP, {requests} requests and {timers} timers in the pools"),
        "statement | rows | least | median | 99 % | daemon's CPU | goal, median | met",
    );
    let mut ids = Ids::new(&daemon, 1)?;
    for statement in &statements {
        let times = match options.quick {
            true => (statement.times / 10).max(5),
            false => statement.times,
        };
        let rows = daemon.get(&ids.path(&statement.text))?;
        let rows = rows["rows"].as_array().map_or(0, Vec::len);
        let took = Times::of(&daemon, times, || ids.path(&statement.text))?;
        let mut row = vec![statement.name.clone(), rows.to_string()];
        row.extend(cells(&took.sorted));
        row.push(secs(took.cpu));
        if let Some(goal) = statement.goal {
            row.extend([secs(goal), reached(took.median() <= goal)]);
        }
        alone.row(row);
        eprintln!("  {}: {}", statement.name, secs(took.median()));
    }
    let alone = alone.note(format!(
        "From the query to the last byte, one client on loopback; another id each time. Of the packets that filled the \
         pools {} were lost.",
        grouped(lost as f64)
    ));
    let at = (f64::from(options.rate), Duration::from_secs(if options.quick { 4 } else { 20 }));
    let mut table = Table::new(
        format!("Queries beside packets, {} s each", at.1.as_secs()),
        &format!("queries | {BESIDE}"),
    );
    for queries in [0, 1, 10, 100, 1000_u32] {
        let connections = queries.min(CONNECTIONS);
        let clients = (0..connections).map(|_| || REPORT.to_owned()).collect();
        let each = queries.checked_div(connections).unwrap_or(0);
        let cells = beside(&daemon, &load, at, clients, each)?;
        table.row([format!("a report, {queries} times a second")].into_iter().chain(cells));
    }
    let mut clients = Vec::new();
    for seed in 0..2 {
        let mut ids = Ids::new(&daemon, seed)?;
        let mut looped = statements[..LOOPED].iter().cycle();
        clients.push(move || {
            let statement = looped.next().map_or("", |statement| &statement.text);
            ids.path(statement)
        });
    }
    let cells = beside(&daemon, &load, at, clients, 0)?;
    let name = "GROUP BY, one request, its timers: two clients in a loop".to_owned();
    table.row([name].into_iter().chain(cells));
    let table = table.note(format!(
        "The report: GET {REPORT}, on up to {CONNECTIONS} connections. Five timers a packet; the sender, the clients and the \
         daemon share the cores. Lost: no room in the kernel's buffers or in the temporary pool. Ingest: receivers and merger."
    ));
    Ok(vec![alone, table])
}

/// Ids of requests, spread over all of the pool but its oldest tenth, which may be leaving.
struct Ids {
    ids: RangeInclusive<u64>,
    rng: StdRng,
}

impl Ids {
    fn new(daemon: &Daemon, seed: u64) -> Result<Self> {
        let bounds = daemon.get(&path("SELECT min(id), max(id) FROM request"))?;
        let id = |at: usize| bounds["rows"][0][at].as_u64().ok_or("the pool is empty");
        let (first, last) = (id(0)?, id(1)?);
        Ok(Self { ids: first + (last - first) / 10..=last, rng: StdRng::seed_from_u64(seed) })
    }

    /// The path of a statement, about another request each time.
    fn path(&mut self, text: &str) -> String {
        let id = self.rng.random_range(self.ids.clone());
        path(&text.replace("{id}", &id.to_string()))
    }
}

fn path(statement: &str) -> String {
    format!("/api/v1/sql?query={}", encode(statement))
}
