//! How the cost of a packet grows: with reports, distinct keys, timers, the window, receivers and queries.
//!
//! What one thread can do is measured in this process ([`Stage`]); receivers and queries need the daemon. Processor time, not
//! time on the clock: what else the machine does hardly disturbs it. Every table is bounded in packets.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use pinbad::cli::client::Client;
use pinbad::cli::format::{bytes, grouped, seconds};
use pinbad::cli::load::{Distribution, LoadOptions, TrafficOptions};
use pinbad::report::form::ReportForm;
use pinbad::shutdown::Shutdown;

use crate::clients::{beside, fetch};
use crate::compare::start;
use crate::load::{Load, load_options};
use crate::stage::{Plan, Stage, TAG_REPORTS};
use crate::table::Table;
use crate::{Options, Result, cores};

pub(crate) fn run(options: &Options) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    for (name, table) in [
        ("reports", reports as fn(&Options) -> Result<Table>),
        ("keys", keys),
        ("timers", timers),
        ("windows", windows),
        ("receivers", receivers),
        ("queries", queries),
    ] {
        let start = Instant::now();
        tables.push(table(options)?);
        eprintln!("{name}: {:.0} s", start.elapsed().as_secs_f64());
    }
    Ok(tables)
}

fn with_timers(timers: u32) -> TrafficOptions {
    TrafficOptions {
        timers,
        ..TrafficOptions::default()
    }
}

/// 1 to 200 reports: over the same records, each with a filter of its own, and over timers.
fn reports(_: &Options) -> Result<Table> {
    const FIELDS: [&str; 5] = ["script_name", "server_name", "hostname", "status", "schema"];
    const TAGS: [&str; 3] = ["@group", "@server", "@operation"];
    let keys = |names: &[&'static str], chosen: usize| -> Vec<&'static str> {
        let bits = names.iter().enumerate();
        bits.filter(|(bit, _)| chosen & (1 << bit) != 0)
            .map(|(_, name)| *name)
            .collect()
    };
    let by_fields = |n: usize| form(n, "request", &keys(&FIELDS, n % 31 + 1), None);
    let filtered = |n: usize| {
        let filter = format!("min_time=0.{:06}", 1000 + n * 100);
        form(n, "request", &["script_name"], Some(filter))
    };
    let by_tags = |n: usize| {
        form(
            n,
            "timer",
            &keys(&[&TAGS[..], &FIELDS].concat(), n + 1),
            None,
        )
    };
    let kinds: [(u32, &dyn Fn(usize) -> ReportForm); 3] =
        [(0, &by_fields), (0, &filtered), (5, &by_tags)];
    let mut table = Table::new(
        "Reports",
        "reports | same records | own filter each | timer reports, 5 timers",
    );
    for count in [1, 2, 5, 10, 20, 50, 100, 200] {
        let mut row = vec![count.to_string()];
        for (timers, form) in kinds {
            let (nanos, stage) = cost(
                &Plan {
                    rate: 20_000,
                    window: Duration::from_secs(5),
                    reports: (0..count).map(form).collect(),
                    ..Plan::new(with_timers(timers), 0)
                },
                2_000,
            );
            row.push(format!(
                "{nanos:.0} ns in {}",
                stage.live.reports.aggregates()
            ));
        }
        table.row(row);
    }
    Ok(table.note(
        "CPU a packet, and how many aggregates the reports share: reports over the same records have one. \
         20,000 packets/s over 5 s, 100,000 combinations of host, server and script, zipf.",
    ))
}

fn form(n: usize, level: &str, keys: &[&str], filter: Option<String>) -> ReportForm {
    let form = serde_json::json!({
        "name": format!("r{n}"),
        "level": level,
        "keys": keys,
        "filters": filter.into_iter().collect::<Vec<_>>(),
        "percentiles": [95],
    });
    serde_json::from_value(form).expect("a form as it is documented")
}

/// 10 to a million distinct keys, all equally frequent.
fn keys(_: &Options) -> Result<Table> {
    let mut table = Table::new(
        "Distinct keys",
        "keys | CPU a packet | report memory | folded | with room for all | report memory",
    );
    for keys in [10, 100, 1_000, 10_000, 100_000, 1_000_000_u32] {
        let mut plan = Plan::new(
            TrafficOptions {
                hosts: 10,
                servers: (keys / 10).clamp(1, 10),
                scripts: (keys / 100).max(1),
                statuses: 1,
                schemas: 1,
                distribution: Distribution::Each,
                ..TrafficOptions::default()
            },
            0,
        );
        plan.packets = keys.max(10_000) as usize;
        let (nanos, stage) = cost(&plan, 5_000);
        let (used, _, folded) = stage.live.reports.memory();
        plan.config.reports.rows_max = 4_000_000;
        plan.config.reports.memory = 8 << 30;
        plan.config.pool.words_memory = 1 << 30;
        let (roomy_nanos, stage) = cost(&plan, 5_000);
        table.row([
            grouped(f64::from(keys)),
            format!("{nanos:.0} ns"),
            bytes(used as f64),
            if folded > 0 { "yes" } else { "no" }.to_owned(),
            format!("{roomy_nanos:.0} ns"),
            bytes(stage.live.reports.memory().0 as f64),
        ]);
    }
    Ok(table.note(
        "18 base reports, 100,000 packets/s over 10 s: from 1,000,000 keys on each is seen once in the window. \
         With the default limits (100,000 rows a report, 256 MiB for all) further keys fold into (other).",
    ))
}

/// 0 to 100 timers in a packet.
fn timers(_: &Options) -> Result<Table> {
    let mut table = Table::new(
        "Timers",
        "timers | bytes | 18 base reports | a timer | and 5 tag reports | a timer",
    );
    let mut without = [0.0; 2];
    for timers in [0, 1, 2, 5, 10, 20, 50, 100_u32] {
        let mut row = vec![timers.to_string()];
        for (tag_reports, without) in [0, TAG_REPORTS.len()].into_iter().zip(&mut without) {
            let (nanos, stage) = cost(
                &Plan {
                    rate: 100_000 / (1 + u64::from(timers) / 2),
                    packets: 20_000,
                    ..Plan::new(with_timers(timers), tag_reports)
                },
                5_000,
            );
            if tag_reports == 0 {
                let bytes: usize = stage.packets.iter().map(Vec::len).sum();
                row.push((bytes / stage.packets.len()).to_string());
            }
            row.push(format!("{nanos:.0} ns"));
            row.push(match timers {
                0 => "-".to_owned(),
                timers => format!("{:.0} ns", (nanos - *without) / f64::from(timers)),
            });
            if timers == 0 {
                *without = nanos;
            }
        }
        table.row(row);
    }
    Ok(table.note("CPU a packet, and what each timer of three tags adds to it. A window of 10 s, always full."))
}

/// Windows of 10 s to 24 h, always full.
fn windows(_: &Options) -> Result<Table> {
    const RATES: [u64; 3] = [300, 10_000, 100_000];
    /// More packets than this would take too long to fill a window with.
    const FILL_MAX: u64 = 30_000_000;
    let mut table = Table::new(
        "Window",
        "window | 300/s | report memory | 10,000/s | report memory | 100,000/s | report memory",
    );
    for (name, secs) in [
        ("10 s", 10),
        ("1 min", 60),
        ("15 min", 900),
        ("1 h", 3_600),
        ("24 h", 86_400),
    ] {
        let mut row = vec![name.to_owned()];
        for rate in RATES {
            if rate * secs > FILL_MAX {
                row.extend(["-".to_owned(), "-".to_owned()]);
                continue;
            }
            // Whole ticks, half a million packets or so.
            let tick = (secs / 120).max(1);
            let ticks = (500_000 / (rate * tick)).clamp(2, 1000);
            let (nanos, stage) = cost(
                &Plan {
                    rate,
                    period_ms: if rate < 1000 { 100 } else { 10 },
                    window: Duration::from_secs(secs),
                    ..Plan::new(TrafficOptions::default(), 0)
                },
                tick * ticks * 1000,
            );
            row.push(format!("{nanos:.0} ns"));
            row.push(bytes(stage.live.reports.memory().0 as f64));
        }
        table.row(row);
    }
    Ok(table.note(
        "CPU a packet with a full window, all of time included: ticks that close and leave. 18 base reports, no \
         timers, 100,000 combinations of host, server and script, zipf. -: more than 30,000,000 packets to fill.",
    ))
}

/// One and two receivers of the daemon.
fn receivers(options: &Options) -> Result<Table> {
    let mut table = Table::new(
        "Receivers",
        "receivers | lossless packets/s | CPU a packet there | lost at full speed",
    );
    let load = Load::new(LoadOptions {
        // Enough that the kernel spreads them over the receivers.
        sockets: 64,
        ..load_options(options, TrafficOptions::default())
    })?;
    for receivers in [1, 2] {
        let receivers_setting = format!("ingest.receivers={receivers}");
        let daemon = start(options, &[&receivers_setting, "pool.stats_history=5s"], &[])?;
        let second = Duration::from_secs(1);
        load.run(&daemon, 50_000.0, second)?;
        let found = load.highest_lossless(&daemon, second * 2, 4)?;
        let there = load.run(&daemon, (found.rate * 0.9).max(1000.0), second * 3)?;
        let bound = if found.sender_bound { " (sender)" } else { "" };
        let lost = found.flood.lost as f64 * 100.0 / found.flood.sent.max(1) as f64;
        table.row([
            receivers.to_string(),
            format!("{}{bound}", grouped(found.rate)),
            format!("{:.2} us at {}/s", there.cpu_us(), grouped(there.rate())),
            format!("{lost:.1} %"),
        ]);
    }
    Ok(table.note(format!(
        "The daemon as a process, no timers, {} sending thread(s) with 64 sockets each on the same {} cores.",
        options.senders(),
        cores()
    )))
}

/// Queries beside packets.
fn queries(options: &Options) -> Result<Table> {
    const CONNECTIONS: u32 = 4;
    let mut table = Table::new(
        "Queries a second, beside 50,000 packets/s",
        "queries/s | answered/s | packets lost | ingest CPU a packet | CPU a query | median | 99 %",
    );
    let load = Load::with_timers(options, 5)?;
    let daemon = start(options, &["pool.stats_history=10s"], &TAG_REPORTS)?;
    let (rate, time) = (50_000.0, Duration::from_secs(4));
    load.run(&daemon, rate, time)?;
    for queries in [0, 1, 10, 100, 1000_u32] {
        let connections = queries.min(CONNECTIONS);
        let clients = (0..connections).map(|_| {
            move |client: &Client, stop: &Shutdown| query(client, queries / connections, stop)
        });
        let found = beside(clients, &daemon, &load, (rate, time))?;
        let count = found.times.count();
        let [_, median, most] = found.times.cells();
        table.row([
            queries.to_string(),
            grouped(count as f64 / found.trial.seconds),
            grouped(found.trial.lost as f64),
            found.ingest,
            match count {
                0 => "-".to_owned(),
                count => seconds(found.answering.as_secs_f64() / count as f64),
            },
            median,
            most,
        ]);
    }
    Ok(table.note(
        "GET /api/v1/reports/report_by_script_name?sort=-req_time_total&limit=100, on up to 4 connections; 5 timers a packet, \
         18 base and 5 tag reports, window 10 s. Ingest: receivers and merger.",
    ))
}

/// Sends `per_second` (at least 1) queries a second until `stop`; how long each took.
fn query(client: &Client, per_second: u32, stop: &Shutdown) -> io::Result<Vec<f64>> {
    let mut took = Vec::new();
    let (start, mut due) = (Instant::now(), Duration::ZERO);
    while !stop.requested() {
        let now = start.elapsed();
        if now < due {
            thread::sleep((due - now).min(Duration::from_millis(50)));
            continue;
        }
        // Little is made up for: a daemon that answers too slowly gets fewer queries, and the table says so.
        let behind_max = Duration::from_millis(100);
        due = (due + Duration::from_secs(1) / per_second).max(now.saturating_sub(behind_max));
        let path = "/api/v1/reports/report_by_script_name?sort=-req_time_total&limit=100";
        took.push(fetch(client, path)?.0);
    }
    Ok(took)
}

/// Processor time a packet, nanoseconds, over that much simulated time once the window is full.
fn cost(plan: &Plan, time_ms: u64) -> (f64, Stage) {
    let mut stage = Stage::full(plan);
    let before = thread_cpu();
    let packets = stage.run_ms(time_ms);
    let spent = thread_cpu() - before;
    (spent as f64 / packets as f64, stage)
}

/// Processor time of this thread so far, nanoseconds.
fn thread_cpu() -> u64 {
    crate::word("/proc/thread-self/schedstat", "")
        .parse()
        .unwrap_or(0)
}
