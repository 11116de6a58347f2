//! SQL over full pools: how long statements take, and that no packet is lost while they are asked.
//!
//! A daemon with the default settings gets a million requests with five timers each. Then one client asks each statement
//! many times over HTTP (those for one request ask for another one each time), and at the end two clients ask in a loop while
//! packets arrive at a steady rate. Times are from the question to the last byte, over loopback.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::asked::{Took, beside, milliseconds};
use super::client::Client;
use super::options::BenchOptions;
use super::part::Part;
use super::table::{Table, grouped};
use super::whole::fill;
use super::{BenchError, go_on, trial};
use crate::client::address::encoded;
use crate::load::{LoadOptions, Packets};
use crate::shutdown::Shutdown;

/// Clients that ask while packets arrive.
const CLIENTS: u64 = 2;

/// Where the id of a request goes.
const ID: &str = "{id}";

/// A statement, how often it is asked in a thorough run, and what its median should be at most, milliseconds.
struct Asked {
    name: &'static str,
    text: &'static str,
    times: u32,
    goal_ms: Option<f64>,
}

const STATEMENTS: [Asked; 8] = [
    Asked {
        name: "by script: GROUP BY over all requests",
        text: "SELECT script_name, count(*), avg(req_time) FROM request GROUP BY 1 ORDER BY 3 DESC LIMIT 10",
        times: 200,
        goal_ms: Some(20.0),
    },
    Asked {
        name: "one request: WHERE id = n",
        text: "SELECT * FROM request WHERE id = {id}",
        times: 2_000,
        goal_ms: Some(2.0),
    },
    Asked {
        name: "its timers: four tables joined",
        text: "SELECT t.id, r.script_name, t.hit_count, t.value, tag.name AS tag_name, tt.value AS tag_value FROM timer t \
               JOIN request r ON t.request_id = r.id JOIN timertag tt ON tt.timer_id = t.id JOIN tag ON tt.tag_id = tag.id \
               WHERE t.request_id = {id}",
        times: 2_000,
        goal_ms: Some(2.0),
    },
    Asked {
        name: "newest: ORDER BY id DESC LIMIT 50",
        text: "SELECT * FROM request ORDER BY id DESC LIMIT 50",
        times: 500,
        goal_ms: None,
    },
    Asked {
        name: "slowest: ORDER BY req_time DESC LIMIT 10",
        text: "SELECT * FROM request ORDER BY req_time DESC LIMIT 10",
        times: 50,
        goal_ms: None,
    },
    Asked {
        name: "errors: count of status >= 500",
        text: "SELECT count(*) FROM request WHERE status >= 500",
        times: 200,
        goal_ms: None,
    },
    Asked {
        name: "timers by tag: GROUP BY over all timer tags",
        text: "SELECT value, count(*) FROM timertag GROUP BY value ORDER BY 2 DESC LIMIT 10",
        times: 20,
        goal_ms: None,
    },
    Asked {
        name: "a report: report_by_script_name",
        text: "SELECT script_name, req_count, req_time_total / req_count AS average FROM report_by_script_name \
               ORDER BY req_time_total DESC LIMIT 10",
        times: 500,
        goal_ms: None,
    },
];

/// What two clients ask for in a loop.
const LOOPED: usize = 3;

/// All tables.
pub(super) fn run(
    options: &BenchOptions,
    shutdown: &Shutdown,
    progress: &mut dyn Write,
) -> Result<Vec<Table>, BenchError> {
    if !cfg!(feature = "sql") {
        return Err(BenchError::Part {
            part: "SQL",
            problem: "this program was built without it (--no-default-features)".to_owned(),
        });
    }
    let mut part = Part::daemon(options, &[])?;
    let load = fill(options, part.udp, 50_000.0);
    let packets = Packets::prepare(&load)?;
    writeln!(progress, "filling the pools")?;
    progress.flush()?;
    let filled = trial::measured(&mut part, &packets, &load, shutdown)?;
    let mut bench = Bench {
        options,
        shutdown,
        progress,
        part,
    };
    let mut tables = vec![bench.statements(filled.lost)?];
    tables.push(bench.beside_packets(&packets, &load)?);
    Ok(tables)
}

struct Bench<'a> {
    options: &'a BenchOptions,
    shutdown: &'a Shutdown,
    progress: &'a mut dyn Write,
    part: Part,
}

impl Bench<'_> {
    fn http(&self) -> Result<SocketAddr, BenchError> {
        let http = self.part.http;
        http.ok_or_else(|| self.part.failed(&"it has no HTTP"))
    }

    /// The ids of the requests in the pool.
    fn ids(&mut self) -> Result<(u64, u64), BenchError> {
        let answer = self
            .part
            .get(&path("SELECT min(id), max(id) FROM request"))?;
        let id = |at: usize| answer["rows"][0][at].as_u64();
        let found = id(0).zip(id(1)).filter(|(first, last)| first < last);
        found.ok_or_else(|| self.part.failed(&format!("its pool is empty: {answer}")))
    }

    /// Each statement by itself.
    fn statements(&mut self, lost: u64) -> Result<Table, BenchError> {
        let status = self.part.status()?;
        let count = |name: &str| grouped(status[name].as_f64().unwrap_or(0.0));
        let mut table = Table::new(
            format!(
                "SQL over HTTP, {} requests and {} timers in the pools",
                count("request_rows"),
                count("timer_rows")
            ),
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
        let ids = self.ids()?;
        let http = self.http()?;
        let mut client = Client::connect(http).map_err(|error| self.part.failed(&error))?;
        for asked in &STATEMENTS {
            let times = match self.options.quick {
                true => (asked.times / 10).max(5),
                false => asked.times,
            };
            let mut lines = Ids::new(ids, 1);
            let first = client.json(&lines.path(asked.text));
            let first = first.map_err(|error| self.part.failed(&error))?;
            let rows = first["rows"].as_array().map_or(0, Vec::len);
            let mut took = Vec::with_capacity(times as usize);
            let before = self.part.cpu();
            for _ in 0..times {
                go_on(self.shutdown)?;
                let path = lines.path(asked.text);
                let start = Instant::now();
                client
                    .get(&path)
                    .map_err(|error| self.part.failed(&error))?;
                took.push(start.elapsed().as_secs_f64() * 1e3);
            }
            let spent = self.part.cpu().since(&before);
            let took = Took::of(took);
            table.row([
                asked.name.to_owned(),
                rows.to_string(),
                milliseconds(took.least),
                milliseconds(took.median),
                milliseconds(took.most_of),
                milliseconds(spent.as_secs_f64() * 1e3 / f64::from(times)),
                asked
                    .goal_ms
                    .map_or("-".to_owned(), |goal| format!("{goal:.0} ms")),
                asked
                    .goal_ms
                    .map_or("", |goal| if took.median <= goal { "yes" } else { "NO" })
                    .to_owned(),
            ]);
            writeln!(
                self.progress,
                "  {}: {}",
                asked.name,
                milliseconds(took.median)
            )?;
            self.progress.flush()?;
        }
        table.note(format!(
            "From the question to the last byte, one client on loopback; another id each time. Of the packets that filled the \
             pools {} were lost.",
            grouped(lost as f64)
        ));
        Ok(table)
    }

    /// Two clients in a loop while packets arrive.
    fn beside_packets(
        &mut self,
        packets: &Packets,
        load: &LoadOptions,
    ) -> Result<Table, BenchError> {
        let rate = f64::from(self.options.rate);
        let time = Duration::from_secs(if self.options.quick { 4 } else { 20 });
        writeln!(
            self.progress,
            "two clients ask while {} packets/s arrive",
            grouped(rate)
        )?;
        self.progress.flush()?;
        let mut table = Table::new(
            "SQL beside packets",
            &[
                "asked by two clients in a loop",
                "packets/s",
                "packets lost",
                "answers/s",
                "median",
                "99 %",
                "SQL's CPU",
                "ingest CPU a packet",
            ],
        );
        let http = self.http()?;
        for looping in [false, true] {
            let ids = self.ids()?;
            let clients = if looping { CLIENTS } else { 0 };
            let clients = (0..clients).map(|number| {
                let ids = Ids::new(ids, number + 2);
                move |stop: &Shutdown| in_a_loop(http, ids, stop)
            });
            let load = (packets, load);
            let found = beside(clients, &mut self.part, load, (rate, time), self.shutdown)?;
            let (trial, took) = (&found.trial, &found.took);
            table.row([
                if looping {
                    "GROUP BY, one request, its timers"
                } else {
                    "nothing"
                }
                .to_owned(),
                grouped(trial.rate()),
                grouped(trial.lost as f64),
                grouped(took.answers as f64 / trial.seconds),
                milliseconds(took.median),
                milliseconds(took.most_of),
                format!(
                    "{:.0} %",
                    found.answering.as_secs_f64() * 100.0 / trial.seconds
                ),
                found.ingest_a_packet(),
            ]);
        }
        table.note(format!(
            "Over {} s each, five timers a packet; the sender, the clients and the daemon share the cores. Lost: no room in the \
             kernel's buffers or in the temporary pool.",
            time.as_secs()
        ));
        Ok(table)
    }
}

/// Asks one after the other until `stop`; milliseconds of each answer.
fn in_a_loop(http: SocketAddr, mut ids: Ids, stop: &Shutdown) -> std::io::Result<Vec<f64>> {
    let mut client = Client::connect(http)?;
    let mut took = Vec::new();
    while !stop.requested() {
        for asked in &STATEMENTS[..LOOPED] {
            let path = ids.path(asked.text);
            let start = Instant::now();
            client.get(&path)?;
            took.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(took)
}

/// Ids of requests that are asked for, spread over all of the pool but its oldest tenth, which may be leaving.
struct Ids {
    first: u64,
    count: u64,
    state: u64,
}

impl Ids {
    fn new((first, last): (u64, u64), seed: u64) -> Self {
        let first = first + (last - first) / 10;
        Self {
            first,
            count: last - first + 1,
            state: seed,
        }
    }

    /// The path that asks for a statement, about another request each time.
    fn path(&mut self, text: &str) -> String {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let id = self.first + (self.state >> 33) % self.count;
        path(&text.replace(ID, &id.to_string()))
    }
}

/// The path that asks for a statement.
fn path(statement: &str) -> String {
    format!("/api/v1/sql?query={}", encoded(statement))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_asked_about_another_request_each_time() {
        let mut ids = Ids::new((100, 1_099), 1);
        let paths: Vec<String> = (0..50).map(|_| ids.path("id = {id}")).collect();
        for path in &paths {
            let id = path.strip_prefix("/api/v1/sql?query=id%20%3D%20").unwrap();
            assert!((199..=1_099).contains(&id.parse().unwrap()), "{path}");
        }
        assert!(paths.iter().collect::<std::collections::HashSet<_>>().len() > 40);
    }
}
