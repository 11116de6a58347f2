//! How the cost of a packet grows: with reports, distinct keys, timers, the window, receivers and questions.
//!
//! What one thread can do is measured in this process ([`Stage`]: no sockets, simulated time, so a day passes in
//! seconds); receivers and questions need the real daemon. Processor time, not time on the clock: what else the machine
//! does hardly disturbs it. Every table is bounded in packets, all of them take a few minutes.

mod forms;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use self::forms::{by_comment, by_fields, by_timer_tags, filtered};
use super::asked::{beside, milliseconds};
use super::client::Client;
use super::options::BenchOptions;
use super::part::Part;
use super::stage::{Stage, StagePlan};
use super::table::{Table, grouped, megabytes};
use super::whole::{TAG_REPORTS, reports_setting};
use super::{BenchError, go_on, search, trial};
use crate::load::{Distribution, LoadOptions, Packets, TrafficOptions};
use crate::report::form::ReportForm;
use crate::shutdown::Shutdown;

/// All tables, one after the other.
pub(super) fn run(
    options: &BenchOptions,
    shutdown: &Shutdown,
    progress: &mut dyn Write,
) -> Result<Vec<Table>, BenchError> {
    let growth = Growth { options, shutdown };
    let mut tables = Vec::new();
    for number in 0..6 {
        let start = Instant::now();
        let table = match number {
            0 => growth.reports(),
            1 => growth.keys(),
            2 => growth.timers(),
            3 => growth.windows(),
            4 => growth.receivers(),
            _ => growth.questions(),
        }?;
        writeln!(
            progress,
            "{}: {:.0} s",
            table.title,
            start.elapsed().as_secs_f64()
        )?;
        progress.flush()?;
        tables.push(table);
    }
    Ok(tables)
}

/// Connections that questions are asked on.
const CONNECTIONS: u32 = 4;

struct Growth<'a> {
    options: &'a BenchOptions,
    shutdown: &'a Shutdown,
}

impl Growth<'_> {
    /// 1 to 200 reports: over the same records, each with a filter of its own, and over timers.
    fn reports(&self) -> Result<Table, BenchError> {
        let mut table = Table::new(
            "Reports",
            &[
                "reports",
                "same records",
                "own filter each",
                "timer reports, 5 timers",
            ],
        );
        for count in [1, 2, 5, 10, 20, 50, 100, 200] {
            let mut row = vec![count.to_string()];
            for (timers, form) in [
                (0, by_fields as fn(usize) -> ReportForm),
                (0, filtered),
                (5, by_timer_tags),
            ] {
                let mut plan = StagePlan::new(TrafficOptions {
                    timers,
                    ..TrafficOptions::default()
                });
                (plan.rate, plan.base_reports) = (20_000, false);
                plan.config.pool.stats_history = Duration::from_secs(5);
                plan.reports = (0..count).map(form).collect();
                let (nanos, stage) = self.cost(&plan, Duration::from_secs(2))?;
                row.push(format!(
                    "{nanos:.0} ns in {}",
                    stage.live.reports.families()
                ));
            }
            table.row(row);
        }
        table.note(
            "CPU a packet, and in how many families the reports are kept: reports over the same records share one. \
             20,000 packets/s over 5 s, 100,000 combinations of host, server and script, zipf.",
        );
        Ok(table)
    }

    /// 10 to a million distinct keys, all equally frequent.
    fn keys(&self) -> Result<Table, BenchError> {
        let mut table = Table::new(
            "Distinct keys",
            &[
                "keys",
                "CPU a packet",
                "report memory",
                "folded",
                "with room for all",
                "report memory",
            ],
        );
        for keys in [10, 100, 1_000, 10_000, 100_000, 1_000_000_u32] {
            let mut row = vec![grouped(f64::from(keys))];
            for roomy in [false, true] {
                let mut plan = StagePlan::new(TrafficOptions {
                    hosts: 10,
                    servers: (keys / 10).clamp(1, 10),
                    scripts: (keys / 100).max(1),
                    statuses: 1,
                    schemas: 1,
                    distribution: Distribution::Each,
                    ..TrafficOptions::default()
                });
                plan.packets = keys.max(10_000) as usize;
                if roomy {
                    plan.config.reports.rows_max = 4_000_000;
                    plan.config.reports.memory_bytes = 8 << 30;
                    plan.config.pool.words_bytes = 1 << 30;
                }
                let (nanos, stage) = self.cost(&plan, Duration::from_secs(5))?;
                let (used, _, folded) = stage.live.reports.memory();
                row.extend([format!("{nanos:.0} ns"), megabytes(used as u64)]);
                if !roomy {
                    row.push(if folded > 0 { "yes" } else { "no" }.to_owned());
                }
            }
            table.row(row);
        }
        table.note(
            "18 base reports, 100,000 packets/s over 10 s: from 1,000,000 keys on each is seen once in the window. \
             With the default limits (100,000 rows a report, 256 MiB for all) further keys fold into (other).",
        );
        Ok(table)
    }

    /// 0 to 100 timers in a packet.
    fn timers(&self) -> Result<Table, BenchError> {
        let mut table = Table::new(
            "Timers",
            &[
                "timers",
                "bytes",
                "18 base reports",
                "a timer",
                "and 5 tag reports",
                "a timer",
            ],
        );
        let mut without = [0.0; 2];
        for timers in [0, 1, 2, 5, 10, 20, 50, 100_u32] {
            let mut row = vec![timers.to_string()];
            for (tags, without) in [0, TAG_REPORTS.len()].into_iter().zip(&mut without) {
                let mut plan = StagePlan::new(TrafficOptions {
                    timers,
                    ..TrafficOptions::default()
                });
                plan.rate = 100_000 / (1 + u64::from(timers) / 2);
                plan.packets = 20_000;
                plan.reports = TAG_REPORTS[..tags]
                    .iter()
                    .map(|comment| by_comment(comment))
                    .collect();
                let (nanos, stage) = self.cost(&plan, Duration::from_secs(5))?;
                if timers == 0 {
                    *without = nanos;
                }
                if row.len() == 1 {
                    row.push(format!("{:.0}", stage.packet_bytes()));
                }
                let each = (nanos - *without) / f64::from(timers.max(1));
                row.push(format!("{nanos:.0} ns"));
                row.push(if timers == 0 {
                    "-".to_owned()
                } else {
                    format!("{each:.0} ns")
                });
            }
            table.row(row);
        }
        table.note("CPU a packet, and what each timer of three tags adds to it. A window of 10 s, always full.");
        Ok(table)
    }

    /// Windows of 10 s to 24 h, always full.
    fn windows(&self) -> Result<Table, BenchError> {
        const RATES: [u64; 3] = [300, 10_000, 100_000];
        /// More packets than this would take too long to fill a window with.
        const FILL_MAX: u64 = 30_000_000;
        let mut table = Table::new("Window", &["window"]);
        for rate in RATES {
            table.head.push(format!("{}/s", grouped(rate as f64)));
            table.head.push("report memory".to_owned());
        }
        for (name, secs) in [
            ("10 s", 10),
            ("1 min", 60),
            ("15 min", 900),
            ("1 h", 3600),
            ("24 h", 86_400_u64),
        ] {
            let mut row = vec![name.to_owned()];
            for rate in RATES {
                if rate * secs > FILL_MAX {
                    row.extend(["-".to_owned(), "-".to_owned()]);
                    continue;
                }
                let mut plan = StagePlan::new(TrafficOptions::default());
                plan.rate = rate;
                plan.period = Duration::from_millis(if rate < 1000 { 100 } else { 10 });
                plan.config.pool.stats_history = Duration::from_secs(secs);
                // Whole ticks, half a million packets or so.
                let tick = (secs / 120).max(1);
                let ticks = (500_000 / (rate * tick)).clamp(2, 1000);
                let (nanos, stage) = self.cost(&plan, Duration::from_secs(tick * ticks))?;
                row.push(format!("{nanos:.0} ns"));
                row.push(megabytes(stage.live.reports.memory().0 as u64));
            }
            table.row(row);
        }
        table.note(
            "CPU a packet with a full window, all of time included: ticks that close and leave. 18 base reports, no \
             timers, 100,000 combinations of host, server and script, zipf. -: more than 30,000,000 packets to fill.",
        );
        Ok(table)
    }

    /// One and two receivers of the real daemon.
    fn receivers(&self) -> Result<Table, BenchError> {
        let mut table = Table::new(
            "Receivers",
            &[
                "receivers",
                "lossless packets/s",
                "CPU a packet there",
                "lost at full speed",
            ],
        );
        let load = LoadOptions {
            // Enough that the kernel spreads them over the receivers.
            sockets: 64,
            ..self.options.load()
        };
        let packets = Packets::prepare(&load)?;
        for receivers in [1, 2] {
            let settings = [
                "pool.stats_history=5s".to_owned(),
                format!("ingest.receivers={receivers}"),
            ];
            let mut part = Part::daemon(self.options, &settings)?;
            let second = Duration::from_secs(1);
            trial::run(&mut part, &packets, &load, 50_000.0, second, self.shutdown)?;
            let found =
                search::highest_lossless(&mut part, &packets, &load, second * 2, 4, self.shutdown)?;
            let there = trial::run(
                &mut part,
                &packets,
                &load,
                (found.rate * 0.9).max(1000.0),
                second * 3,
                self.shutdown,
            )?;
            table.row([
                receivers.to_string(),
                format!(
                    "{}{}",
                    grouped(found.rate),
                    if found.sender_bound { " (sender)" } else { "" }
                ),
                format!("{:.2} us at {}/s", there.cpu_us(), grouped(there.rate())),
                format!(
                    "{:.1} %",
                    found.flood.lost as f64 * 100.0 / found.flood.sent.max(1) as f64
                ),
            ]);
        }
        table.note(format!(
            "the daemon as a process, no timers, {} sending thread(s) with 64 sockets each on the same {} cores.",
            load.senders,
            super::options::cores()
        ));
        Ok(table)
    }

    /// Questions beside ingest.
    fn questions(&self) -> Result<Table, BenchError> {
        let mut table = Table::new(
            "Questions a second, beside 50,000 packets/s",
            &[
                "questions/s",
                "asked/s",
                "packets lost",
                "ingest CPU a packet",
                "CPU a question",
                "answer, median",
                "99 %",
            ],
        );
        let load = LoadOptions {
            traffic: TrafficOptions {
                timers: 5,
                ..TrafficOptions::default()
            },
            ..self.options.load()
        };
        let packets = Packets::prepare(&load)?;
        let mut settings = vec!["pool.stats_history=10s".to_owned()];
        settings.extend(reports_setting(&TAG_REPORTS));
        let mut part = Part::daemon(self.options, &settings)?;
        let rate = 50_000.0;
        trial::run(
            &mut part,
            &packets,
            &load,
            rate,
            Duration::from_secs(4),
            self.shutdown,
        )?;
        let http = part.http.ok_or_else(|| part.failed(&"it has no HTTP"))?;
        for questions in [0, 1, 10, 100, 1000_u32] {
            let connections = questions.min(CONNECTIONS);
            let clients = (0..connections)
                .map(|_| move |stop: &Shutdown| ask(http, questions / connections, stop));
            let time = Duration::from_secs(4);
            let load = (&packets, &load);
            let found = beside(clients, &mut part, load, (rate, time), self.shutdown)?;
            let (trial, took) = (&found.trial, &found.took);
            let shown = |ms: f64| match took.answers {
                0 => "-".to_owned(),
                _ => milliseconds(ms),
            };
            table.row([
                questions.to_string(),
                grouped(took.answers as f64 / trial.seconds),
                grouped(trial.lost as f64),
                found.ingest_a_packet(),
                shown(found.answering.as_secs_f64() * 1e3 / took.answers.max(1) as f64),
                shown(took.median),
                shown(took.most_of),
            ]);
        }
        table.note(
            "GET /api/v1/reports/report_by_script_name?sort=-req_time_total&limit=100, on up to 4 connections; 5 timers a packet, \
             18 base and 5 tag reports, window 10 s. Ingest: receivers and merger.",
        );
        Ok(table)
    }

    /// Processor time a packet, nanoseconds, over that much simulated time once the window is full.
    fn cost(&self, plan: &StagePlan, time: Duration) -> Result<(f64, Stage), BenchError> {
        go_on(self.shutdown)?;
        let stage = Stage::new(plan);
        let mut stage = stage.map_err(|problem| BenchError::Part {
            part: "a report",
            problem,
        })?;
        stage.fill_window();
        go_on(self.shutdown)?;
        let before = thread_cpu();
        let packets = stage.run(time);
        let spent = thread_cpu().saturating_sub(before);
        Ok((spent.as_secs_f64() * 1e9 / packets as f64, stage))
    }
}

/// Asks `per_second` (at least 1) times a second until `stop`; milliseconds of each answer.
fn ask(http: std::net::SocketAddr, per_second: u32, stop: &Shutdown) -> std::io::Result<Vec<f64>> {
    let mut client = Client::connect(http)?;
    let mut took = Vec::new();
    let (start, mut due) = (Instant::now(), Duration::ZERO);
    while !stop.requested() {
        let now = start.elapsed();
        if now < due {
            thread::sleep((due - now).min(Duration::from_millis(50)));
            continue;
        }
        // Little is made up for: a daemon that answers too slowly is asked less often, and the table says so.
        let behind_max = Duration::from_millis(100);
        due = (due + Duration::from_secs(1) / per_second).max(now.saturating_sub(behind_max));
        let asked = Instant::now();
        client.get("/api/v1/reports/report_by_script_name?sort=-req_time_total&limit=100")?;
        took.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    Ok(took)
}

/// Processor time of this thread so far.
fn thread_cpu() -> Duration {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = line.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_processor_time_of_the_thread() {
        let before = thread_cpu();
        let mut plan = StagePlan::new(TrafficOptions::default());
        plan.packets = 2000;
        let mut stage = Stage::new(&plan).unwrap();
        stage.run(Duration::from_millis(20));
        assert!(thread_cpu() > before);
    }
}
