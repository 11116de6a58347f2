//! Which rules select a row, and what is lost before a second.

use std::sync::Arc;

use super::{Alerts, Phase, REPORT, config, key, receivers, rules};
use crate::alert::View;
use crate::alert::intake::Intake;
use crate::alert::rule::Rule;
use crate::alert::rule_index::RuleIndex;
use crate::delta::Second;

/// Rules are found by the texts that they ask for just as by looking at each of them.
#[test]
fn rules_that_select_a_row_are_found() {
    let mut text = String::new();
    let conditions = ["=/a", " = /a* ", "=/ab*", "=/\u{e4}*", "=*", " != /ab", "="];
    for (at, condition) in conditions.into_iter().enumerate() {
        text += &format!(
            "[[alert]]\nname = \"x{at}\"\nreport = \"{REPORT}\"\nwhen = \"p95 > 1\"\nwhere = \"script_name{condition}\"\n"
        );
    }
    let rules = rules(&text);
    let texts = ["", "/", "/a", "/ab", "/abc", "/b", "/\u{e4}/x", "/\u{e5}"];
    let selected = texts.map(|text| {
        let (key, rules) = (key(text), rules.iter());
        rules.map(|it| u8::from(it.concerns(&key)).to_string()).collect::<String>()
    });
    let expected = "0000111 0000110 1100110 0110100 0110110 0000110 0001110 0000110".split(' ');
    assert_eq!(selected.to_vec(), expected.collect::<Vec<_>>());
    let mut found = 0;
    for bits in 0..1_u32 << rules.len() {
        let chosen = rules.iter().enumerate();
        let chosen = chosen.filter(|(at, _)| bits & 1 << at != 0);
        let chosen: Vec<Arc<Rule>> = chosen.map(|it| Arc::clone(it.1)).collect();
        let mut index = RuleIndex::default();
        chosen.iter().for_each(|it| index.add(it));
        for text in texts {
            let key = key(text);
            let expected = chosen.iter().any(|it| it.concerns(&key));
            assert_eq!(index.selecting(&key).next().is_some(), expected, "{text} {bits:b}");
            found += usize::from(expected);
        }
    }
    assert!(found > 100 && found < texts.len() << rules.len(), "{found}");
}

/// Requests that are lost before the first second do not stand for a day.
#[test]
fn the_first_second_follows_no_other() {
    let text =
        format!("[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhen = \"req_count > 5\"\n");
    let alerts = Arc::new(Alerts::new(&config(""), rules(&text)));
    let mut intake = Intake::new(Arc::clone(&alerts));
    let mut second = Second::default();
    second.secs = 1;
    for (unix, missed) in [(1_000, 7), (1_001, 0), (1_012, 7)] {
        second.unix_secs = unix;
        intake.take_rows(&second, missed, |_| ());
    }
    let lost = |_| alerts.queue.lock().pop_front().map(|gain| gain.lost_secs);
    assert_eq!([0, 1, 2].map(lost), [Some(1), Some(0), Some(10)]);
}

/// A stall of the merger: what came meanwhile is counted after it.
#[test]
fn seconds_in_which_nothing_was_merged_go_to_the_next_one() {
    let text =
        format!("[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhen = \"req_count > 5\"\n");
    let alerts = Arc::new(Alerts::new(&config(""), rules(&text)));
    let mut intake = Intake::new(Arc::clone(&alerts));
    let mut second = Second::default();
    for (unix, secs) in [(1_000, 1), (1_001, 32), (1_033, 1), (1_034, 1), (1_035, 0)] {
        (second.unix_secs, second.secs) = (unix, secs);
        intake.take_rows(&second, 0, |_| ());
    }
    let mut queue = alerts.queue.lock();
    let queued = std::iter::from_fn(|| queue.pop_front());
    let found: Vec<_> = queued.map(|it| (it.unix, it.secs, it.covered_secs)).collect();
    assert_eq!(found, [(1_000, 1, 1), (1_001, 1, 1), (1_002, 32, 32), (1_034, 1, 1)]);
}

/// Their time passes with the seconds.
#[test]
fn alerts_of_rules_that_are_gone_are_forgotten() {
    let alerts = Arc::new(Alerts::new(&config(""), Vec::new()));
    let mut intake = Intake::new(Arc::clone(&alerts));
    let mut second = Second::default();
    second.secs = 1;
    let mut is_queued = || {
        intake.take_rows(&second, 0, |_| ());
        alerts.queue.lock().pop_front().is_some()
    };
    assert!(!is_queued());
    let over = receivers::alert(Phase::Resolved, (100, 200), None);
    *alerts.view.write() = Arc::new(View { alerts: vec![over], ..View::default() });
    assert!(is_queued());
}
