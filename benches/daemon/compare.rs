//! The daemon against the bare loop, round by round, then memory and answers once the pools are
//! full.
//!
//! In each round both get the same packets one right after the other, so that what else the machine
//! does falls on both. Of rates the best round counts, of processor time the median. The window is
//! a few seconds long while rates are measured, so that as much expires as arrives; memory and
//! answers are measured with the default one.

use std::ffi::OsStr;
use std::thread;
use std::time::Duration;

use pinbad::cli::format::{bytes, grouped, secs};

use crate::clients::{Times, median};
use crate::load::{FILL, FILLING, Load, Trial, pace};
use crate::receiver::{Daemon, Receiver, Sink};
use crate::table::Table;
use crate::{Options, Result};

/// A name; which packets (0 without timers, 1 with five); tag reports; the lossless rate in parts
/// of the bare loop's, at least; and processor time a packet at the paced rate at most,
/// microseconds.
type Case = (&'static str, usize, usize, f64, f64);

/// The report with the most rows.
const LARGE: &str = "report_by_hostname_server_and_script";

const CASES: [Case; 3] = [
    ("no timers", 0, 0, 0.9, 1.7),
    ("5 timers of 3 tags", 1, 0, 0.85, 3.0),
    ("5 timers, 5 tag reports", 1, 5, 0.8, 4.0),
];

pub(crate) fn run(options: &Options) -> Result<Table> {
    let loads = [
        Load::new(options, "--timers=0 --corpus=10000")?,
        Load::new(options, "--timers=5 --corpus=10000")?,
    ];
    let rounds = if options.quick { 1 } else { 3 };
    // The bare loop and the daemon, in each case.
    let mut found: [[Found; 2]; CASES.len()] = Default::default();
    let mut granted_bytes = 0;
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        for ((name, load, tag_reports, ..), [bare, ours]) in CASES.into_iter().zip(&mut found) {
            let load = &loads[load];
            // The bare loop has no reports.
            if tag_reports == 0 {
                let sink = Sink::start(options.receivers, options.recv_buffer)?;
                granted_bytes = sink.granted_bytes();
                eprintln!("  bare loop, {name}");
                bare.measure(options, load, &sink)?;
            }
            let reports = include_str!("../tag_reports.txt").lines();
            let reports: Vec<&str> = reports.take(tag_reports).collect();
            let daemon = start(options, None, &["pool.stats_history=5s"], &reports)?;
            eprintln!("  pinbad, {name}");
            ours.measure(options, load, &daemon)?;
        }
    }
    found[2][0] = found[1][0].clone();
    let mut table = Table::new(
        "The whole daemon against a bare receive loop",
        " | bare loop | pinbad | ratio | goal | reached",
    );
    for ((name, load, _, goal, _), [bare, ours]) in CASES.into_iter().zip(&found) {
        let ratio = ours.rate / bare.rate.max(1.0);
        let bytes = loads[load].packet_bytes();
        table.row([
            format!("lossless packets/s, {bytes:.0} bytes, {name}"),
            bare.rate_cell(),
            ours.rate_cell(),
            format!("{ratio:.2}"),
            format!("at least {goal:.2}"),
            reached(ratio >= goal),
        ]);
    }
    let paced = format!("{}/s", grouped(f64::from(options.paced_rate)));
    let paces = ["full speed", &paced].into_iter().enumerate();
    for (at, pace) in paces.clone() {
        for ((name, ..), found) in CASES.into_iter().zip(&found) {
            let lost = found.each_ref().map(|it| {
                let sum = |of: fn(&Trial) -> u64| it.trials[at].iter().map(of).sum::<u64>() as f64;
                let (lost, sent) = (sum(|it| it.lost), sum(|it| it.sent));
                format!("{} of {}", grouped(lost), grouped(sent))
            });
            table.row([format!("lost at {pace}, {name}")].into_iter().chain(lost));
        }
    }
    for (at, pace) in paces {
        for ((name, .., goal), found) in CASES.into_iter().zip(&found) {
            let cpu_us = |it: &Found| median(it.trials[at].iter().map(Trial::cpu_us));
            let [bare, ours] = found.each_ref().map(cpu_us);
            let mut row = vec![
                format!("CPU a packet at {pace}, {name}"),
                format!("{bare:.2} us"),
                format!("{ours:.2} us"),
                format!("{:.2}", ours / bare.max(1e-9)),
            ];
            if pace == paced {
                row.extend([format!("at most {goal:.1} us"), reached(ours <= goal)]);
            }
            table.row(row);
        }
    }
    let fill_rate = (found[1][1].rate * 0.6).clamp(10_000.0, 200_000.0);
    let table = memory_and_answers(options, fill_rate, table)?;
    Ok(table
        .note(format!(
            "Lossless: every packet sent is received and merged, and nothing is left in buffers soon after the last; (sender): \
             the sender could not send faster. The best round counts. At {paced} another process sends, `pinbad load`."
        ))
        .note(format!(
            "{rounds} round(s); {} receiver(s) with {} of receive buffer granted, {} sending thread(s), up to {} packets in one \
             piece (--gso); a window of 5 s, so that as much expires as arrives; the 18 base reports and info.",
            options.receivers,
            bytes(granted_bytes as f64),
            options.senders,
            options.gso,
        ))
        .note(
            "CPU: user and system time of all threads that receive; delivery on loopback runs on the sender's account.",
        ))
}

/// Results of all rounds of one case.
#[derive(Default, Clone)]
struct Found {
    /// The highest lossless rate, and whether somebody else than the sender was ever the limit.
    rate: f64,
    bound: bool,
    /// Of each round: with the sender at full speed, and paced.
    trials: [Vec<Trial>; 2],
}

impl Found {
    /// Adds a round.
    fn measure(&mut self, options: &Options, load: &Load, to: &dyn Receiver) -> Result<()> {
        let time = |quick: f64, thorough: f64| {
            Duration::from_secs_f64(if options.quick { quick } else { thorough })
        };
        let rate = f64::from(options.paced_rate);
        load.run(to, &pace(rate / 2.0, time(0.3, 1.0)))?;
        let trials_max = if options.quick { 3 } else { 5 };
        let lossless = load.highest_lossless(to, time(0.7, 2.5), trials_max)?;
        let paced = load.run_apart(to, &pace(rate, time(1.0, 4.0)))?;
        self.rate = self.rate.max(lossless.rate);
        self.bound |= !lossless.sender_bound;
        self.trials[0].push(lossless.flood);
        self.trials[1].push(paced);
        let (rate, cpu_us) = (grouped(lossless.rate), paced.cpu_us());
        let reached = grouped(paced.rate());
        eprintln!("    {rate} packets/s lossless, {cpu_us:.2} us a packet at {reached}/s");
        Ok(())
    }

    fn rate_cell(&self) -> String {
        let bound = if self.bound { "" } else { " (sender)" };
        format!("{}{bound}", grouped(self.rate))
    }
}

/// A daemon with default settings whose pools are filled at this rate.
fn memory_and_answers(options: &Options, rate: f64, mut table: Table) -> Result<Table> {
    eprintln!("memory and answers");
    let daemon = start(options, None, &[], &[])?;
    // What it does at start is done then.
    thread::sleep(Duration::from_millis(500));
    let empty = daemon.resident_bytes()?;
    let load = Load::new(options, FILLING)?;
    let filled = load.run(&daemon, &format!("--rate={rate} {FILL}"))?;
    let full = daemon.resident_bytes()?;
    let status = daemon.get("/api/v1/status")?;
    let count = |name: &str| grouped(status[name].as_f64().unwrap_or(0.0));
    let held = format!(
        "resident, {} requests and {} timers held, 100,000 keys",
        count("request_rows"),
        count("timer_rows"),
    );
    let mut row = |name: String, shown: fn(f64) -> String, found: f64, goal: f64| {
        let (ours, goal_cell) = (shown(found), format!("at most {}", shown(goal)));
        let [bare, ratio] = ["-".to_owned(), String::new()];
        table.row([name, bare, ours, ratio, goal_cell, reached(found <= goal)]);
    };
    row("resident, empty".to_owned(), bytes, empty as f64, 40e6);
    row(held, bytes, full as f64, 300e6);
    let mut notes =
        String::from("Answers: to the last byte read and thrown away by a client on loopback");
    for (report, query, goal, times) in [
        ("report_by_script_name", "limit=0", 0.000_5, 500),
        (LARGE, "limit=0", 0.060, 20),
        (LARGE, "sort=-req_time_total&limit=20", 0.010, 50),
    ] {
        let path = format!("/api/v1/reports/{report}?{query}");
        let rows = daemon.get(&path)?["rows"].as_array().map_or(0, Vec::len);
        let times = if options.quick { times / 5 } else { times };
        let took = Times::of(&daemon, times, || {
            // After another packet the last answer is of no use for a part of it.
            if report == LARGE {
                drop(load.run(&daemon, "--count=1"));
            }
            path.clone()
        })?;
        let name = format!("{report}, {} rows ({query})", grouped(rows as f64));
        row(name, secs, took.median(), goal);
        notes += &format!(
            "; {rows} rows: {} of JSON, {} of the daemon's processor time",
            bytes(took.bytes as f64),
            secs(took.cpu),
        );
    }
    let status = daemon.get("/api/v1/status")?;
    let held = status["lock_hold_answers_us"].as_f64().unwrap_or(0.0) / 1e6;
    let name = "the longest that any of these held the lock at once".to_owned();
    row(name, secs, held, 0.002);
    Ok(table.note(notes + ".").note(format!(
        "Memory: a daemon with default settings, filled at {} packets/s, {} lost.",
        grouped(filled.rate()),
        filled.lost
    )))
}

/// A daemon, of this build unless another program is given, with what the options ask for, more
/// settings, and reports with these COMMENTs.
pub(crate) fn start(
    options: &Options,
    program: Option<&OsStr>,
    more: &[&str],
    comments: &[&str],
) -> Result<Daemon> {
    let mut settings = vec![
        format!("ingest.recv_buffer={}", options.recv_buffer),
        format!("ingest.receivers={}", options.receivers),
    ];
    settings.extend(more.iter().map(|setting| (*setting).to_owned()));
    settings.extend_from_slice(&options.set);
    let report = |(n, comment)| format!("{{name = \"bench_{n}\", comment = \"{comment}\"}}");
    let reports: Vec<String> = comments.iter().enumerate().map(report).collect();
    settings.push(format!("report=[{}]", reports.join(", ")));
    Daemon::start(program, &settings)
}

pub(crate) fn reached(reached: bool) -> String {
    if reached { "yes" } else { "no" }.to_owned()
}
