//! Processor time of a packet in two builds of the daemon, measured in turns: this build and
//! another one (of any commit).
//!
//! Default settings and window, so a run is of users' load: each daemon is warm when it is
//! measured, a process of its own sends, and processor time is read by thread. In turns, because
//! the machine's speed drifts; the ratio is of one pair of runs.

use std::ffi::OsStr;
use std::time::Duration;

use pinbad::cli::format::grouped;

use crate::clients::median;
use crate::load::{Load, pace};
use crate::receiver::Receiver;
use crate::table::Table;
use crate::{Options, Result, compare};

/// 20,000 different packets: 500 scripts, 20 hosts, 10 servers, 400 tag sets of timers.
const PACKETS: &str =
    "--corpus=20000 --scripts=500 --hosts=20 --servers=10 --distribution=uniform --tag-values=20";

/// A name, timers in a packet, tag reports.
const CASES: [(&str, u32, usize); 3] =
    [("no timers", 0, 0), ("5 timers", 5, 0), ("5 timers, 5 tag reports", 5, 5)];

/// Packets a second; 0: as fast as the sender can.
const RATES: [u32; 5] = [25_000, 50_000, 100_000, 150_000, 0];

/// Threads whose time is told apart, by the beginnings of their names.
const THREADS: [&str; 3] = ["receive", "merge", "series"];

/// One run of one program.
struct Run {
    /// Processor time a packet, microseconds: of all threads, and of each of [`THREADS`].
    all: f64,
    threads: [f64; THREADS.len()],
    lost: u64,
}

pub(crate) fn run(options: &Options, other: &OsStr) -> Result<Table> {
    let mut table = Table::new(
        "Processor time a packet, in turns with another build",
        "load | other | ours | ratio | ours: receive, merge, series | lost: other, ours",
    );
    let pairs = if options.quick { 1 } else { 5 };
    for (name, timers, tag_reports) in CASES {
        let load = Load::new(options, &format!("{PACKETS} --timers={timers}"))?;
        for rate in RATES {
            let pace = match rate {
                0 => "full speed".to_owned(),
                rate => format!("{}/s", grouped(rate.into())),
            };
            let mut runs = Vec::new();
            for _ in 0..pairs {
                let [other, ours] = [Some(other), None]
                    .map(|program| measure(options, &load, rate, tag_reports, program));
                runs.push([other?, ours?]);
            }
            let us = |of: fn(&[Run; 2]) -> f64| median(runs.iter().map(of));
            let lost = |of: usize| grouped(runs.iter().map(|it| it[of].lost).sum::<u64>() as f64);
            let threads = (0..THREADS.len()).map(|at| {
                let of_thread = runs.iter().map(|[_, ours]| ours.threads[at]);
                format!("{:.2}", median(of_thread))
            });
            let threads: Vec<String> = threads.collect();
            eprintln!("  {name}, {pace}: {:.2}", us(|[a, b]| b.all / a.all));
            table.row([
                format!("{name}, {pace}"),
                format!("{:.2} us", us(|[other, _]| other.all)),
                format!("{:.2} us", us(|[_, ours]| ours.all)),
                format!("{:.2}", us(|[other, ours]| ours.all / other.all)),
                threads.join(", "),
                format!("{}, {}", lost(0), lost(1)),
            ]);
        }
    }
    Ok(table.note(format!(
        "Medians of {pairs} pair(s); default settings, window and features; all threads of the daemon. {PACKETS}"
    )))
}

fn measure(
    options: &Options,
    load: &Load,
    rate: u32,
    tag_reports: usize,
    program: Option<&OsStr>,
) -> Result<Run> {
    let reports: Vec<&str> = include_str!("../tag_reports.txt").lines().take(tag_reports).collect();
    let daemon = compare::start(options, program, &[], &reports)?;
    let secs = |quick, thorough| Duration::from_secs(if options.quick { quick } else { thorough });
    load.run_apart(&daemon, &pace(rate.into(), secs(2, 4)))?;
    let before = daemon.cpu();
    let trial = load.run_apart(&daemon, &pace(rate.into(), secs(4, 8)))?;
    let after = daemon.cpu();
    let packets = (trial.sent - trial.lost).max(1) as f64;
    let us =
        |named: &dyn Fn(&str) -> bool| after.since(&before, named).as_secs_f64() * 1e6 / packets;
    Ok(Run {
        all: us(&|_| true),
        threads: THREADS.map(|thread| us(&|name| name.starts_with(thread))),
        lost: trial.lost,
    })
}
