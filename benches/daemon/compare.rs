//! The daemon against the bare loop, round by round, then memory and answers once the pools are full.
//!
//! In each round both get the same packets one right after the other, so that what else the machine does falls on both. Of
//! rates the best round counts, of processor time the median. The window is a few seconds long while rates are measured, so
//! that as much expires as arrives; memory and answers are measured with the default one.

use std::thread;
use std::time::Duration;

use pinbad::cli::format::{bytes, grouped, seconds};

use crate::clients::{Times, fetch};
use crate::load::{FILL_KEYS, Load, Lossless, Trial};
use crate::receiver::{Daemon, Receiver, Sink};
use crate::stage::TAG_REPORTS;
use crate::table::{Table, median};
use crate::{Options, Result};

struct Case {
    name: &'static str,
    /// Which packets: 0 without timers, 1 with five.
    load: usize,
    tag_reports: usize,
    /// The lossless rate in parts of the bare loop's, at least.
    rate_goal: f64,
    /// Processor time a packet at most, microseconds.
    cpu_goal: Option<f64>,
}

const CASES: [Case; 3] = [
    Case {
        name: "no timers",
        load: 0,
        tag_reports: 0,
        rate_goal: 0.9,
        cpu_goal: Some(2.5),
    },
    Case {
        name: "5 timers of 3 tags",
        load: 1,
        tag_reports: 0,
        rate_goal: 0.85,
        cpu_goal: None,
    },
    Case {
        name: "5 timers, 5 tag reports",
        load: 1,
        tag_reports: TAG_REPORTS.len(),
        rate_goal: 0.8,
        cpu_goal: Some(3.5),
    },
];

/// What one receiver made of one case in one round.
#[derive(Clone, Copy)]
struct Sample {
    lossless: Lossless,
    steady: Trial,
}

/// The bare loop and the daemon, in each round.
type Samples = Vec<[Sample; 2]>;

pub(crate) fn run(options: &Options) -> Result<Table> {
    let loads = [
        Load::with_timers(options, 0)?,
        Load::with_timers(options, 5)?,
    ];
    let rounds = if options.quick { 1 } else { 3 };
    let mut samples: [Samples; CASES.len()] = Default::default();
    let mut granted_bytes = 0;
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        for (number, case) in CASES.iter().enumerate() {
            let load = &loads[case.load];
            let sink = match case.tag_reports {
                0 => {
                    let sink = Sink::start(options.receivers(), options.recv_buffer)?;
                    granted_bytes = sink.granted_bytes();
                    sample(options, "bare loop", case, load, &sink)?
                }
                // The bare loop has no reports.
                _ => samples[number - 1][round - 1][0],
            };
            let reports = &TAG_REPORTS[..case.tag_reports];
            let daemon = start(options, &["pool.stats_history=5s"], reports)?;
            let daemon = sample(options, "pinbad", case, load, &daemon)?;
            samples[number].push([sink, daemon]);
        }
    }
    let mut table = Table::new(
        "The whole daemon against a bare receive loop",
        " | bare loop | pinbad | ratio | goal | reached",
    );
    let found = samples
        .each_ref()
        .map(|samples| [0, 1].map(|who| Found::of(samples, who)));
    for (case, [bare, ours]) in CASES.iter().zip(&found) {
        let ratio = ours.rate / bare.rate.max(1.0);
        let bytes = loads[case.load].packet_bytes();
        table.row([
            format!("lossless packets/s, {bytes:.0} bytes, {}", case.name),
            bare.rate_cell(),
            ours.rate_cell(),
            format!("{ratio:.2}"),
            format!("at least {:.2}", case.rate_goal),
            reached(ratio >= case.rate_goal),
        ]);
    }
    for (case, found) in CASES.iter().zip(&found) {
        let [bare, ours] = found.each_ref().map(|it| format!("{:.1} %", it.flood_lost));
        let name = format!("lost with the sender at full speed, {}", case.name);
        table.row([name, bare, ours]);
    }
    let rate = grouped(f64::from(options.rate));
    for (case, [bare, ours]) in CASES.iter().zip(&found) {
        let goal = case.cpu_goal.map(|goal| format!("at most {goal:.1} us"));
        let met = case.cpu_goal.map(|goal| reached(ours.cpu_us <= goal));
        table.row([
            format!("CPU a packet at {rate}/s, {}", case.name),
            format!("{:.2} us", bare.cpu_us),
            format!("{:.2} us", ours.cpu_us),
            format!("{:.2}", ours.cpu_us / bare.cpu_us.max(1e-9)),
            goal.unwrap_or_default(),
            met.unwrap_or_default(),
        ]);
    }
    let steady_lost: u64 = found.iter().flatten().map(|it| it.steady_lost).sum();
    let lossless = median(samples[1].iter().map(|it| it[1].lossless.rate));
    let table = memory_and_answers(options, (lossless * 0.6).clamp(10_000.0, 200_000.0), table)?;
    Ok(table
        .note(format!(
            "Lossless: every packet sent is received and merged, and nothing is left in buffers soon after the last; (sender): \
             the sender could not send faster. The best round counts. {steady_lost} packets were lost where CPU was measured."
        ))
        .note(format!(
            "{rounds} round(s); {} receiver(s) with {} of receive buffer granted, {} sending thread(s), up to {} packets in one \
             piece (--gso); a window of 5 s, so that as much expires as arrives; the 18 base reports and info.",
            options.receivers(),
            bytes(granted_bytes as f64),
            options.senders(),
            options.gso,
        ))
        .note(
            "CPU: user and system time of all threads that receive; delivery on loopback runs on the sender's account.",
        ))
}

/// What all rounds made of one case.
struct Found {
    /// The highest lossless rate, and whether it was always the sender's limit.
    rate: f64,
    sender_bound: bool,
    /// Percent lost at full speed.
    flood_lost: f64,
    /// Of a packet, the median.
    cpu_us: f64,
    /// Packets lost while that was measured.
    steady_lost: u64,
}

impl Found {
    fn of(samples: &Samples, who: usize) -> Self {
        let each = || samples.iter().map(|round| round[who]);
        let sum = |of: fn(&Trial) -> u64| each().map(|it| of(&it.lossless.flood)).sum::<u64>();
        Self {
            rate: each().map(|it| it.lossless.rate).fold(0.0, f64::max),
            sender_bound: each().all(|it| it.lossless.sender_bound),
            flood_lost: sum(|it| it.lost) as f64 * 100.0 / sum(|it| it.sent).max(1) as f64,
            cpu_us: median(each().map(|it| it.steady.cpu_us())),
            steady_lost: each().map(|it| it.steady.lost).sum(),
        }
    }

    fn rate_cell(&self) -> String {
        let bound = if self.sender_bound { " (sender)" } else { "" };
        format!("{}{bound}", grouped(self.rate))
    }
}

fn sample(
    options: &Options,
    who: &str,
    case: &Case,
    load: &Load,
    to: &dyn Receiver,
) -> Result<Sample> {
    let time = |quick: f64, thorough: f64| {
        Duration::from_secs_f64(if options.quick { quick } else { thorough })
    };
    let rate = f64::from(options.rate);
    load.run(to, rate / 2.0, time(0.3, 1.0))?;
    let trials_max = if options.quick { 3 } else { 5 };
    let lossless = load.highest_lossless(to, time(0.7, 2.5), trials_max)?;
    let steady = load.run(to, rate, time(1.0, 4.0))?;
    eprintln!(
        "  {who}, {}: {} packets/s lossless, {:.2} us a packet",
        case.name,
        grouped(lossless.rate),
        steady.cpu_us(),
    );
    Ok(Sample { lossless, steady })
}

/// A daemon with default settings whose pools are filled at this rate.
fn memory_and_answers(options: &Options, rate: f64, mut table: Table) -> Result<Table> {
    eprintln!("memory and answers");
    let daemon = start(options, &[], &[])?;
    // What it does at start is done then.
    thread::sleep(Duration::from_millis(500));
    let empty = daemon.resident_bytes()?;
    let filled = Load::filling(options, rate)?.run_all(&daemon)?;
    let full = daemon.resident_bytes()?;
    let status = daemon.get("/api/v1/status")?;
    let count = |name: &str| grouped(status[name].as_f64().unwrap_or(0.0));
    let held = format!(
        "resident, {} requests and {} timers held, {} keys",
        count("request_rows"),
        count("timer_rows"),
        grouped(f64::from(FILL_KEYS)),
    );
    let mut row = |name: String, found: String, goal: String, met: bool| {
        table.row([
            name,
            "-".into(),
            found,
            String::new(),
            format!("at most {goal}"),
            reached(met),
        ]);
    };
    for (name, found, goal) in [
        ("resident, empty".to_owned(), empty, 40e6),
        (held, full, 300e6),
    ] {
        row(name, bytes(found as f64), bytes(goal), found as f64 <= goal);
    }
    let mut notes =
        String::from("Answers: to the last byte read and thrown away by a client on loopback");
    for (report, goal, times) in [
        ("report_by_script_name", 0.000_5, 500),
        ("report_by_hostname_server_and_script", 0.060, 20),
    ] {
        let path = format!("/api/v1/reports/{report}?limit=0");
        let rows = daemon.get(&path)?["rows"].as_array().map_or(0, Vec::len);
        let before = daemon.cpu();
        let times = if options.quick { times / 5 } else { times };
        let (mut took, mut size) = (Vec::new(), 0);
        for _ in 0..times {
            let (secs, bytes) = fetch(&daemon.client, &path)?;
            took.push(secs);
            size = bytes;
        }
        let spent = daemon.cpu().since(&before, |_| true).as_secs_f64();
        let median = Times::new(took).median();
        let name = format!("{report}, {} rows, every column", grouped(rows as f64));
        row(name, seconds(median), seconds(goal), median <= goal);
        notes += &format!(
            "; {rows} rows: {} of JSON, {} of the daemon's processor time",
            bytes(size as f64),
            seconds(spent / f64::from(times)),
        );
    }
    Ok(table.note(notes + ".").note(format!(
        "Memory: a daemon with default settings, filled at {} packets/s, {} lost.",
        grouped(filled.rate()),
        filled.lost
    )))
}

/// The daemon that cargo built beside this program, with what the options ask for, more settings, and reports with these
/// COMMENTs.
pub(crate) fn start(options: &Options, more: &[&str], comments: &[&str]) -> Result<Daemon> {
    let mut settings = vec![
        format!("ingest.recv_buffer={}", options.recv_buffer),
        format!("ingest.receivers={}", options.receivers()),
    ];
    settings.extend(more.iter().map(|setting| (*setting).to_owned()));
    let report = |(n, comment)| format!("{{name = \"bench_{n}\", comment = \"{comment}\"}}");
    let reports: Vec<String> = comments.iter().enumerate().map(report).collect();
    settings.push(format!("report=[{}]", reports.join(", ")));
    Daemon::start(env!("CARGO_BIN_EXE_pinbad"), &settings)
}

fn reached(reached: bool) -> String {
    if reached { "yes" } else { "no" }.to_owned()
}
