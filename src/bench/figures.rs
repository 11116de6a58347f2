//! What the comparison found, as the table that is printed: figures, ratios, goals, and what they mean.

use super::options::BenchOptions;
use super::search::Found;
use super::table::{Table, grouped, median, megabytes};
use super::trial::Trial;
use super::whole::FILL_KEYS;

/// What one part made of one traffic in one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) found: Found,
    pub(super) steady: Trial,
}

/// One round: the same traffic to the bare loop and to the daemon.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    pub(super) plain: [Sample; 2],
    pub(super) timers: [Sample; 2],
    pub(super) tags: Sample,
}

/// The daemon with full pools.
#[derive(Debug, Clone, Copy)]
pub(super) struct Full {
    pub(super) empty_bytes: u64,
    pub(super) full_bytes: u64,
    pub(super) requests: u64,
    pub(super) timers: u64,
    pub(super) fill: Trial,
    pub(super) small: Answer,
    pub(super) large: Answer,
}

/// What answers cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) rows: u64,
    pub(super) bytes: usize,
    /// From the question to the last byte, over loopback.
    pub(super) whole_ms: f64,
    /// Processor time of the daemon, the kernel's part of sending included.
    pub(super) server_cpu_ms: f64,
}

/// All that was measured.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) rounds: Vec<Round>,
    pub(super) full: Full,
    pub(super) packet_bytes: [f64; 2],
    pub(super) granted_bytes: u64,
}

impl Figures {
    /// The table of the comparison.
    pub(super) fn table(&self, options: &BenchOptions) -> Table {
        let mut table = Table::new(
            "The whole daemon against a bare receive loop",
            &["", "bare loop", "pinbad", "ratio", "goal", "reached"],
        );
        let rate = |sample: &Sample| sample.found.rate;
        let cpu = |sample: &Sample| sample.steady.cpu_us();
        let [plain_bytes, timers_bytes] = self.packet_bytes;
        type Pick = fn(&Round) -> (Sample, Sample);
        let plain: Pick = |round| (round.plain[0], round.plain[1]);
        let timers: Pick = |round| (round.timers[0], round.timers[1]);
        let tags: Pick = |round| (round.timers[0], round.tags);
        for (name, pick, goal) in [
            (
                format!("lossless packets/s, {plain_bytes:.0} bytes, no timers"),
                plain,
                0.9,
            ),
            (
                format!("lossless packets/s, {timers_bytes:.0} bytes, 5 timers of 3 tags"),
                timers,
                0.85,
            ),
            ("same, and 5 tag reports".to_owned(), tags, 0.8),
        ] {
            let of = |who: fn((Sample, Sample)) -> Sample| {
                let rates = self.rounds.iter().map(|round| rate(&who(pick(round))));
                rates.fold(0.0, f64::max)
            };
            let ratio = of(|pair| pair.1) / of(|pair| pair.0).max(1.0);
            let limit = |who: fn((Sample, Sample)) -> Sample| {
                let sender = self
                    .rounds
                    .iter()
                    .all(|round| who(pick(round)).found.sender_bound);
                if sender { " (sender)" } else { "" }
            };
            table.row([
                name,
                format!("{}{}", grouped(of(|pair| pair.0)), limit(|pair| pair.0)),
                format!("{}{}", grouped(of(|pair| pair.1)), limit(|pair| pair.1)),
                format!("{ratio:.2}"),
                format!("at least {goal:.2}"),
                yes(ratio >= goal),
            ]);
        }
        for (name, pick) in [
            ("no timers", plain),
            ("5 timers", timers),
            ("5 timers, 5 tag reports", tags),
        ] {
            let lost = |who: fn((Sample, Sample)) -> Sample| {
                let floods = self.rounds.iter().map(|round| who(pick(round)).found.flood);
                let (lost, sent) = floods.fold((0, 0), |(lost, sent), flood| {
                    (lost + flood.lost, sent + flood.sent)
                });
                format!("{:.1} %", lost as f64 * 100.0 / (sent as f64).max(1.0))
            };
            table.row([
                format!("lost with the sender at full speed, {name}"),
                lost(|pair| pair.0),
                lost(|pair| pair.1),
                String::new(),
                String::new(),
                String::new(),
            ]);
        }
        let at = grouped(f64::from(options.rate));
        for (name, pick, goal) in [
            (
                format!("CPU a packet at {at}/s, no timers"),
                plain,
                Some(2.5),
            ),
            (format!("CPU a packet at {at}/s, 5 timers"), timers, None),
            (
                format!("CPU a packet at {at}/s, 5 timers, 5 tag reports"),
                tags,
                Some(3.5),
            ),
        ] {
            let of = |who: fn((Sample, Sample)) -> Sample| {
                median(self.rounds.iter().map(|round| cpu(&who(pick(round)))))
            };
            let (bare, ours) = (of(|pair| pair.0), of(|pair| pair.1));
            table.row([
                name,
                format!("{bare:.2} us"),
                format!("{ours:.2} us"),
                format!("{:.2}", ours / bare.max(1e-9)),
                goal.map_or_else(String::new, |goal| format!("at most {goal:.1} us")),
                goal.map_or_else(String::new, |goal| yes(ours <= goal)),
            ]);
        }
        self.memory_and_answers(&mut table);
        let lost: u64 = self
            .rounds
            .iter()
            .flat_map(|round| {
                [
                    round.plain[0],
                    round.plain[1],
                    round.timers[0],
                    round.timers[1],
                    round.tags,
                ]
            })
            .map(|sample| sample.steady.lost)
            .sum();
        table.note(format!(
            "lossless: every packet sent is received and merged, and nothing is left in buffers soon after the last; \
             (sender): the sender could not send faster. The best round counts: \
             whatever else runs only takes away. {lost} packets were lost where CPU was measured."
        ));
        table.note(format!(
            "{} round(s); {} receiver(s) with {} of receive buffer granted, {} sending thread(s){}; a window of 5 s, so \
             that as much expires as arrives; the 18 base reports and info.",
            self.rounds.len(),
            options.receivers(),
            megabytes(self.granted_bytes),
            options.load().senders,
            match options.gso {
                1 => String::new(),
                gso => format!(" with up to {gso} packets in one piece (--gso)"),
            },
        ));
        table.note(
            "CPU: user and system time of all threads of the receiving process; delivery on loopback runs on the \
             sender's account.",
        );
        table
    }

    fn memory_and_answers(&self, table: &mut Table) {
        let full = &self.full;
        let mut memory = |name: String, bytes: u64, goal: u64| {
            table.row([
                name,
                "-".to_owned(),
                megabytes(bytes),
                String::new(),
                format!("at most {goal} MB"),
                yes(bytes <= goal * 1_000_000),
            ]);
        };
        memory("resident, empty".to_owned(), full.empty_bytes, 40);
        memory(
            format!(
                "resident, {} requests and {} timers held, {} keys",
                grouped(full.requests as f64),
                grouped(full.timers as f64),
                grouped(f64::from(FILL_KEYS)),
            ),
            full.full_bytes,
            300,
        );
        for (name, answer, goal) in [
            ("report_by_script_name", full.small, 0.5),
            ("report_by_hostname_server_and_script", full.large, 60.0),
        ] {
            table.row([
                format!("{name}, {} rows, every column", grouped(answer.rows as f64)),
                "-".to_owned(),
                format!("{:.2} ms", answer.whole_ms),
                String::new(),
                format!("at most {goal} ms"),
                yes(answer.whole_ms <= goal),
            ]);
        }
        table.note(format!(
            "answers: median, from the question to the last byte read and thrown away by a client on loopback ({} and {} of JSON); of that \
             {:.2} ms and {:.2} ms are processor time of the daemon, sending included.",
            megabytes(full.small.bytes as u64),
            megabytes(full.large.bytes as u64),
            full.small.server_cpu_ms,
            full.large.server_cpu_ms,
        ));
        table.note(format!(
            "memory: a daemon with default settings, filled at {} packets/s, {} lost.",
            grouped(full.fill.rate()),
            full.fill.lost
        ));
    }
}

fn yes(reached: bool) -> String {
    if reached { "yes" } else { "no" }.to_owned()
}
