//! The engine against a naive evaluator that keeps every second of every row and scans all of them
//! each time.

use super::*;

/// A naive evaluator that keeps everything and implements the state table directly.
struct Naive {
    window: u64,
    hold: u64,
    keep: u64,
    /// By second of the stream: whether it was counted, and its rows.
    seconds: BTreeMap<u64, (bool, BTreeMap<String, Seen>)>,
    /// By script: state, the second of the stream at which it was entered, the first second of
    /// those that count toward leaving it, and the last one known.
    states: BTreeMap<String, State>,
}

#[derive(Default, Clone)]
struct State {
    phase: Option<Phase>,
    /// Steps that advance the clock.
    clock: u64,
    is_ending: bool,
    unknown: Option<u64>,
    /// Steps since the end of the alert before a pending one.
    over: Option<u64>,
}

impl Naive {
    /// `errors / req_count > 0.1` with 30 requests at least.
    fn truth(&self, now: u64, script: &str) -> Option<bool> {
        let window = self.seconds.range(now.saturating_sub(self.window)..now);
        let counted = window.clone().filter(|it| it.1.0).count() as u64;
        let rows = window.filter_map(|it| it.1.1.get(script));
        let (requests, errors) = rows.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        let is_known = counted * 2 >= self.window && requests >= 30;
        is_known.then(|| errors * 10 > requests)
    }

    fn step(&mut self, now: u64, unix: u64, passed: u64) -> Happened {
        let mut scripts: BTreeSet<String> = self.states.keys().cloned().collect();
        scripts.extend(self.seconds.values().flat_map(|it| it.1.keys().cloned()));
        let mut happened = Vec::new();
        for script in scripts {
            let truth = self.truth(now, &script);
            let state = self.states.entry(script.clone()).or_default();
            let before = state.phase;
            state.unknown = match (truth, state.unknown) {
                (None, Some(secs)) => Some(secs + passed),
                (None, None) => Some(0),
                _ => None,
            };
            let unknown = state.unknown.unwrap_or(0);
            let clock = state.clock + passed;
            let over = state.over.map(|secs| secs + passed);
            let dropped = match over {
                Some(over) if over < 900 => (Some(Phase::Resolved), over),
                _ => (None, 0),
            };
            state.over = match (before, truth) {
                (Some(Phase::Resolved), Some(true)) => Some(clock),
                (Some(Phase::Pending), _) => over,
                _ => None,
            };
            let mut is_new = false;
            (state.phase, state.clock) = match (before, truth) {
                (None | Some(Phase::Resolved), Some(true)) => {
                    is_new = true;
                    state.is_ending = false;
                    let fires = self.hold == 0;
                    (Some(if fires { Phase::Firing } else { Phase::Pending }), 0)
                }
                (None, _) => (None, 0),
                (Some(Phase::Resolved), _) if clock >= 900 => (None, 0),
                (Some(Phase::Resolved), _) => (before, clock),
                (Some(Phase::Pending), Some(false)) => dropped,
                (Some(Phase::Pending), Some(true)) if clock >= self.hold => {
                    (Some(Phase::Firing), 0)
                }
                (Some(Phase::Pending), Some(true)) => (before, clock),
                (Some(Phase::Pending), None) if unknown >= self.window.max(self.hold) => dropped,
                (Some(Phase::Firing), Some(true)) => {
                    state.is_ending = false;
                    (before, 0)
                }
                (Some(Phase::Firing), Some(false)) => {
                    let clock = if state.is_ending { clock } else { 0 };
                    state.is_ending = true;
                    match clock >= self.keep {
                        true => (Some(Phase::Resolved), 0),
                        false => (before, clock),
                    }
                }
                (Some(Phase::Firing), None) if unknown >= (2 * self.window).max(600) => {
                    (Some(Phase::Resolved), 0)
                }
                (Some(Phase::Pending | Phase::Firing), None) => (before, state.clock),
            };
            if before != state.phase || is_new {
                let is_dropped = before == Some(Phase::Pending);
                let told = state.phase.filter(|it| !(is_dropped && *it == Phase::Resolved));
                happened.push((unix, script, told));
            }
        }
        happened
    }
}

/// Three scripts that fail at random, with gaps, lost seconds, changes of the wall clock and
/// restarts: both evaluators agree to the second.
#[test]
fn alerts_fire_and_end_at_the_seconds_that_a_naive_evaluator_says() {
    for (seed, window, hold, keep) in
        [(1, 10, 0, 0), (2, 20, 7, 5), (3, 60, 30, 60), (4, 120, 60, 30), (5, 300, 0, 120)]
    {
        let text = format!(
            "[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhen = \"errors / req_count > 10%\"\n\
             window = {window}\nfor = {hold}\nkeep = {keep}\n"
        );
        let rules = rules(&text);
        let step = rules[0].step;
        let mut engine = Engine::new(&rules, 1 << 20, 1);
        let mut naive =
            Naive { window, hold, keep, seconds: BTreeMap::new(), states: BTreeMap::new() };
        let (mut random, mut now, mut unix, mut fired) =
            (Dice(seed), 1_700_000_000, 1_700_000_000, 0);
        let mut rates = [0, 0, 0];
        for _ in 0..6_000 {
            for rate in &mut rates {
                if random.below(90) == 0 {
                    *rate = [0, 2, 40][random.below(3) as usize];
                }
            }
            let quiet = random.below(700);
            let mut gain = second(unix, &[]);
            let scripts = ["/a", "/b", "/c"];
            for (script, rate) in scripts.iter().zip(rates) {
                let requests = if now / 900 % 4 == 3 { 0 } else { random.below(20) };
                if requests > 0 {
                    let errors = requests * rate / 100;
                    add_row(&mut gain.reports[0], script, (requests, errors));
                    let rows = &mut naive.seconds.entry(now).or_default().1;
                    rows.insert((*script).to_owned(), (requests, errors));
                }
            }
            match quiet {
                0 => gain.lost_secs = random.below(900),
                // The report is not watched.
                1..=20 => {
                    gain.reports.clear();
                    naive.seconds.remove(&now);
                }
                _ => {}
            }
            let lost = gain.lost_secs;
            if lost > 0 {
                let rows = naive.seconds.remove(&now);
                naive.seconds.extend(rows.map(|rows| (now + lost, rows)));
            }
            if !gain.reports.is_empty() {
                naive.seconds.entry(now + lost).or_default().0 = true;
            }
            let found = take(&mut engine, &gain);
            let mut expected = Vec::new();
            for _ in 0..=lost {
                now += 1;
                if now % step == 0 {
                    expected.extend(naive.step(now, 0, step));
                }
            }
            let found: Happened = found.into_iter().map(|it| (0, it.1, it.2)).collect();
            let sorted = |mut it: Happened| {
                it.sort_by(|a, b| (&a.1, a.2).cmp(&(&b.1, b.2)));
                it
            };
            assert_eq!(sorted(found), sorted(expected.clone()), "seed {seed}, second {now}");
            fired += expected.iter().filter(|it| it.2 == Some(Phase::Firing)).count();
            // The wall clock is set.
            unix = match random.below(500) {
                0 => unix + 7_200,
                1 => unix - 3_600,
                _ => unix + 1,
            };
            if random.below(400) == 0 {
                // A reload with the same rule, which keeps its alerts and its window.
                engine.replace(&self::rules(&text), unix, &mut |_, _| ());
            }
            if random.below(2_000) == 0 {
                // An immediate restart.
                let saved = engine.save();
                let json = serde_json::to_string(&saved).unwrap();
                let next = now.next_multiple_of(step);
                engine = Engine::new(&rules, 1 << 20, 1);
                engine.restore(serde_json::from_str(&json).unwrap(), 1);
                naive.seconds.clear();
                // It starts at the beginning of a step.
                (now, unix) = (next, next);
            }
            let begin = now.saturating_sub(window + 1);
            naive.seconds = naive.seconds.split_off(&begin);
        }
        assert!(fired > 5, "seed {seed}: {fired}");
        assert_eq!(engine.rules.len(), 1);
    }
}
