//! The comparison: round by round, each part in turn, then memory and answers once the pools are full.
//!
//! In each round the bare loop and the daemon get the same traffic one right after the other, so that what else the
//! machine does falls on both. Of rates the best round counts, of processor time the median. The daemon keeps a window
//! of a few seconds for this, so that as much expires as arrives; memory and answers are measured with the default one.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::client::Client;
use super::figures::{Answer, Figures, Full, Round, Sample};
use super::options::BenchOptions;
use super::part::Part;
use super::table::{grouped, median};
use super::{BenchError, go_on, search, trial};
use crate::load::{Distribution, LoadOptions, Packets, TrafficOptions};
use crate::shutdown::Shutdown;

/// The window of the daemon while rates are measured: longer than a trial, shorter than a search.
const HISTORY: &str = "pool.stats_history=5s";
/// Five tag reports as dashboards have them.
pub(super) const TAG_REPORTS: [&str; 5] = [
    "tag_info:group",
    "tag2_info:group,server",
    "tagN_info:group,server,operation",
    "tag_report:group",
    "tag_report2:group",
];
/// What fills the pools: each combination of 20 hosts, 10 servers and 500 scripts, ten times.
const FILL_REQUESTS: u64 = 1_000_000;
pub(super) const FILL_KEYS: u32 = 100_000;

/// How long and how often.
#[derive(Debug, Clone, Copy)]
struct Effort {
    warm: Duration,
    trial: Duration,
    trials_max: u32,
    steady: Duration,
    answers: (u32, u32),
}

impl Effort {
    fn of(options: &BenchOptions) -> Self {
        let ms = Duration::from_millis;
        if options.quick {
            Self {
                warm: ms(300),
                trial: ms(700),
                trials_max: 3,
                steady: ms(1000),
                answers: (100, 5),
            }
        } else {
            Self {
                warm: ms(1000),
                trial: ms(2500),
                trials_max: 5,
                steady: ms(4000),
                answers: (500, 20),
            }
        }
    }
}

pub(super) fn run(
    options: &BenchOptions,
    shutdown: &Shutdown,
    progress: &mut dyn Write,
) -> Result<Figures, BenchError> {
    let mut bench = Bench {
        options,
        effort: Effort::of(options),
        shutdown,
        progress,
        granted_bytes: 0,
    };
    let load = |timers| LoadOptions {
        traffic: TrafficOptions {
            timers,
            ..TrafficOptions::default()
        },
        ..options.load()
    };
    let (plain, timers) = (load(0), load(5));
    let packets = [Packets::prepare(&plain)?, Packets::prepare(&timers)?];
    let mut rounds = Vec::new();
    for number in 1..=options.rounds() {
        bench.say(&format!("round {number} of {}", options.rounds()))?;
        rounds.push(Round {
            plain: [
                bench.sink("no timers", &packets[0], &plain)?,
                bench.daemon("no timers", 0, &packets[0], &plain)?,
            ],
            timers: [
                bench.sink("5 timers", &packets[1], &timers)?,
                bench.daemon("5 timers", 0, &packets[1], &timers)?,
            ],
            tags: bench.daemon("5 timers, 5 tag reports", 5, &packets[1], &timers)?,
        });
    }
    let lossless = median(rounds.iter().map(|round| round.timers[1].found.rate));
    let full = bench.full((lossless * 0.6).clamp(10_000.0, 200_000.0))?;
    Ok(Figures {
        rounds,
        full,
        packet_bytes: [packets[0].bytes_mean(), packets[1].bytes_mean()],
        granted_bytes: bench.granted_bytes,
    })
}

struct Bench<'a> {
    options: &'a BenchOptions,
    effort: Effort,
    shutdown: &'a Shutdown,
    progress: &'a mut dyn Write,
    granted_bytes: u64,
}

impl Bench<'_> {
    fn say(&mut self, what: &str) -> Result<(), BenchError> {
        writeln!(self.progress, "{what}")?;
        Ok(self.progress.flush()?)
    }

    fn sink(
        &mut self,
        what: &str,
        packets: &Packets,
        load: &LoadOptions,
    ) -> Result<Sample, BenchError> {
        let mut part = Part::sink(self.options)?;
        self.granted_bytes = part.granted_bytes;
        self.sample("bare loop", what, &mut part, packets, load)
    }

    fn daemon(
        &mut self,
        what: &str,
        tag_reports: usize,
        packets: &Packets,
        load: &LoadOptions,
    ) -> Result<Sample, BenchError> {
        let mut settings = vec![HISTORY.to_owned()];
        settings.extend(reports_setting(&TAG_REPORTS[..tag_reports]));
        let mut part = Part::daemon(self.options, &settings)?;
        self.sample("daemon", what, &mut part, packets, load)
    }

    fn sample(
        &mut self,
        who: &str,
        what: &str,
        part: &mut Part,
        packets: &Packets,
        load: &LoadOptions,
    ) -> Result<Sample, BenchError> {
        let Effort {
            warm,
            trial,
            trials_max,
            steady,
            ..
        } = self.effort;
        let rate = f64::from(self.options.rate);
        trial::run(part, packets, load, rate / 2.0, warm, self.shutdown)?;
        let found =
            search::highest_lossless(part, packets, load, trial, trials_max, self.shutdown)?;
        let steady = trial::run(part, packets, load, rate, steady, self.shutdown)?;
        self.say(&format!(
            "  {who}, {what}: {} packets/s lossless{}; at full speed {} sent/s, {} lost; at {}/s {:.2} us a packet",
            grouped(found.rate),
            if found.sender_bound { " (the sender's limit)" } else { "" },
            grouped(found.flood.rate()),
            grouped(found.flood.lost as f64),
            grouped(steady.rate()),
            steady.cpu_us(),
        ))?;
        Ok(Sample { found, steady })
    }

    /// Memory and answers, in a daemon with default settings.
    fn full(&mut self, rate: f64) -> Result<Full, BenchError> {
        self.say("memory and answers")?;
        let mut part = Part::daemon(self.options, &[])?;
        // What it does at start is done then.
        std::thread::sleep(Duration::from_millis(500));
        let empty_bytes = part.resident_bytes();
        let load = fill(self.options, part.udp, rate);
        let packets = Packets::prepare(&load)?;
        let filled = trial::measured(&mut part, &packets, &load, self.shutdown)?;
        drop(packets);
        let full_bytes = part.resident_bytes();
        let status = part.status()?;
        let count = |name: &str| status[name].as_u64().unwrap_or(0);
        let (requests, timers) = (count("request_rows"), count("timer_rows"));
        let (small, large) = self.effort.answers;
        let small = self.answer(&mut part, "report_by_script_name", small)?;
        let large = self.answer(&mut part, "report_by_hostname_server_and_script", large)?;
        Ok(Full {
            empty_bytes,
            full_bytes,
            requests,
            timers,
            fill: filled,
            small,
            large,
        })
    }

    /// Asks for a whole report `times` times, after once to warm up.
    fn answer(&mut self, part: &mut Part, report: &str, times: u32) -> Result<Answer, BenchError> {
        let http = part.http.ok_or_else(|| part.failed(&"it has no HTTP"))?;
        let mut client = Client::connect(http).map_err(|error| part.failed(&error))?;
        let path = format!("/api/v1/reports/{report}?limit=0");
        let first = client.json(&path).map_err(|error| part.failed(&error))?;
        let rows = first["rows"].as_array().map_or(0, Vec::len) as u64;
        let (mut took, mut bytes) = (Vec::new(), 0);
        let before = part.cpu();
        for _ in 0..times {
            go_on(self.shutdown)?;
            let start = Instant::now();
            bytes = client.skim(&path).map_err(|error| part.failed(&error))?;
            took.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let spent = part.cpu().since(&before);
        Ok(Answer {
            rows,
            bytes,
            whole_ms: median(took),
            server_cpu_ms: spent.as_secs_f64() * 1e3 / f64::from(times.max(1)),
        })
    }
}

/// The packets that fill the pools of a daemon with default settings, `rate` of them a second.
pub(super) fn fill(options: &BenchOptions, target: SocketAddr, rate: f64) -> LoadOptions {
    LoadOptions {
        target,
        rate,
        count: Some(FILL_REQUESTS),
        corpus: FILL_KEYS,
        traffic: TrafficOptions {
            timers: 5,
            hosts: 20,
            servers: 10,
            scripts: 500,
            distribution: Distribution::Each,
            ..TrafficOptions::default()
        },
        ..options.load()
    }
}

/// A setting that adds reports with these COMMENTs.
pub(super) fn reports_setting(comments: &[&str]) -> Option<String> {
    let tables: Vec<String> = comments
        .iter()
        .enumerate()
        .map(|(number, comment)| format!("{{name = \"bench_{number}\", comment = \"{comment}\"}}"))
        .collect();
    (!tables.is_empty()).then(|| format!("report=[{}]", tables.join(", ")))
}
