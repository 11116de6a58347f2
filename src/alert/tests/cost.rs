//! Cost of many rules over many rows.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Defaults, Engine, REPORT, Seen, builtin, push_key, rules, second, take};
use crate::alert::rule_index::RuleIndex;
use crate::dice::Dice;
use crate::report::definition::Definition;

/// CPU time of this thread.
fn on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Run `cargo test --release -- --ignored --nocapture a_thousand_rules` to print the cost.
#[test]
#[ignore = "for measuring: in a release build"]
#[expect(clippy::print_stderr, reason = "what it measures")]
fn a_thousand_rules_over_a_hundred_thousand_rows() {
    const ROWS: usize = 100_000;
    let text = (0..1_000).map(|at| {
        let (what, window) = [
            ("p95 > 800ms", "60s"),
            ("errors / req_count > 5%", "5m"),
            ("req_per_sec > 1000", "10s"),
            ("p99 > 2s", "1h"),
        ][at % 4];
        format!(
            "[[alert]]\nname = \"x{at}\"\nreport = \"{REPORT}\"\nwhen = \"{what}\"\nwindow = \"{window}\"\n\
             where = \"script_name=/{at:03}/*\"\n"
        )
    });
    let mut engine = Engine::new(&rules(&text.collect::<String>()), 256 << 20, 1);
    let names: Vec<String> = (0..ROWS).map(|at| format!("/{:03}/{at}", at % 1_000)).collect();
    let (mut random, mut longest) = (Dice(1), Duration::ZERO);
    let seconds = 120;
    let mut spent = Duration::ZERO;
    for unix in 0..seconds {
        let busy: BTreeSet<usize> = (0..2_000).map(|_| random.index(ROWS)).collect();
        let rows: Vec<(&str, Seen)> = busy.iter().map(|at| (&*names[*at], (5, 0))).collect();
        let gain = second(unix, &rows);
        let start = on_cpu();
        take(&mut engine, &gain);
        let took = on_cpu() - start;
        (spent, longest) = (spent + took, longest.max(took));
    }
    eprintln!(
        "{} a second, the longest {longest:?}; {} bytes",
        format_args!("{:?}", spent / seconds as u32),
        engine.room.used
    );
}

/// The work of the series thread for rows that it has not seen: which rules select them.
#[test]
#[ignore = "for measuring: in a release build"]
#[expect(clippy::print_stderr, reason = "what it measures")]
fn a_thousand_rules_choose_new_rows() {
    let text = (0..1_000).map(|at| {
        format!(
            "[[alert]]\nname = \"x{at}\"\nreport = \"{REPORT}\"\nwhen = \"p95 > 1\"\nwhere = \"script_name=/{at:03}/*\"\n"
        )
    });
    let rules = rules(&text.collect::<String>());
    let keys = (0..2_000).map(|at| {
        let mut key = Vec::new();
        push_key(&mut key, &format!("/{:03}/{at}", at % 2_000));
        key
    });
    let keys: Vec<Vec<u8>> = keys.collect();
    let timed = |selects: &dyn Fn(&[u8]) -> bool| {
        let start = on_cpu();
        let selected = keys.iter().filter(|key| selects(key)).count();
        (selected, on_cpu() - start)
    };
    let mut index = RuleIndex::default();
    rules.iter().for_each(|it| index.add(it));
    let found = timed(&|key| index.selecting(key).next().is_some());
    let looked_at = timed(&|key| rules.iter().any(|it| it.concerns(key)));
    assert_eq!((found.0, looked_at.0), (1_000, 1_000));
    eprintln!("2,000 new rows: {:?}; by looking at each rule {:?}", found.1, looked_at.1);
    let start = on_cpu();
    let reports = builtin::reports(&Defaults::default());
    let is_over = |report: &Definition| rules.iter().filter(|it| it.report == *report).count();
    let over: Vec<usize> = reports.iter().map(is_over).collect();
    eprintln!("{over:?} rules are over the reports: {:?}", on_cpu() - start);
}
