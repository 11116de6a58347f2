//! Rules, their windows and alerts, second by second.

mod cost;
mod intake;
mod naive;
mod receivers;
mod refill;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::engine::Engine;
use super::receiver::Receiver;
use super::rule::{Rule, RuleError, Window};
use super::state::{Event, Moment, Phase};
use super::windows::{Gain, ReportGain, RowGain};
use super::{Alert, Alerts};
use crate::config::Config;
use crate::dice::Dice;
use crate::grammar::builtin;
use crate::grammar::native::ReportForm;
use crate::report::DefinedBy;
use crate::report::definition::Defaults;
use crate::report::encoded_gain::encode;
use crate::report::row_key::push_key;
use crate::report::totals::{Extremes, Totals};

const REPORT: &str = "report_by_script_name";

/// A row's requests and errors in a second.
type Seen = (u64, u64);

fn config(text: &str) -> Config {
    Config::from_toml("pinbad.toml", text).unwrap()
}

fn all_rules(config: &Config) -> Result<Vec<Arc<Rule>>, Vec<RuleError>> {
    let defaults = Defaults::default();
    let reports = builtin::reports(&defaults).into_iter();
    let reports: Vec<_> = reports.map(|it| (it, DefinedBy::BuiltIn)).collect();
    Rule::all(config, &reports, &defaults)
}

fn rules(text: &str) -> Vec<Arc<Rule>> {
    all_rules(&config(text)).unwrap()
}

fn refusal(rule: &str) -> String {
    let text = format!("[[alert]]\nname = \"x\"\n{rule}\n");
    let errors = match Config::from_toml("pinbad.toml", &text) {
        Err(errors) => return errors.to_string(),
        Ok(config) => all_rules(&config).unwrap_err(),
    };
    errors.iter().map(ToString::to_string).collect()
}

fn key(script: &str) -> Box<[u8]> {
    let mut key = Vec::new();
    push_key(&mut key, script);
    key.into()
}

fn add_row(gain: &mut ReportGain, script: &str, (requests, errors): Seen) {
    let mut packed = Vec::new();
    let totals = Totals { requests, errors, time: u128::from(requests) * 1_000, ..Totals::ZERO };
    encode(&mut packed, &totals, Some([(700, requests)].into_iter()));
    let id = script.bytes().fold(7, |id, byte| id * 31 + u64::from(byte));
    let (key, packed) = (key(script), packed.into());
    gain.rows.push(RowGain { id, key, packed, extremes: Extremes::NOTHING });
}

/// A second of the report with these rows.
fn second(unix: u64, rows: &[(&str, Seen)]) -> Gain {
    let mut report = ReportGain::nothing(REPORT);
    rows.iter().for_each(|(script, seen)| add_row(&mut report, script, *seen));
    Gain { unix, secs: 1, covered_secs: 1, reports: vec![report], ..Gain::default() }
}

/// Events: second, script, new state.
type Happened = Vec<(u64, String, Option<Phase>)>;

fn take(engine: &mut Engine, gain: &Gain) -> Happened {
    let mut happened = Vec::new();
    engine.take(gain, &mut |_, event: &Event<'_>| {
        let key = event.key.map_or("(more)".to_owned(), |key| {
            let mut texts = crate::report::row_key::key_texts(key);
            texts.next().unwrap_or_default().to_owned()
        });
        happened.push((event.unix, key, event.episode.map(|it| it.phase)));
    });
    happened
}

#[test]
fn a_rule_has_a_hundred_alerts_and_the_rest_is_one() {
    let text = format!(
        "[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhen = \"req_count > 5\"\nwindow = 2\nmin_requests = 0\n"
    );
    let mut engine = Engine::new(&rules(&text), 8 << 20, 1);
    let names: Vec<String> = (0..250).map(|at| format!("/{at:03}")).collect();
    let rows: Vec<(&str, Seen)> = names.iter().map(|it| (it.as_str(), (9, 0))).collect();
    let happened = take(&mut engine, &second(1_000, &rows));
    assert_eq!(happened.len(), 101);
    let state = &engine.rules[0];
    assert_eq!((state.more, state.episodes[&None].value), (150, Some(150.0)));
    let labels = state.rule.labels(None);
    assert_eq!(labels["row"], "(more)");
    // A row with an alert keeps it, no matter which rows arrive.
    let rest = take(&mut engine, &second(1_001, &rows[100..]));
    assert!(rest.is_empty(), "{rest:?}");
    // Resolved alerts make room for others.
    assert_eq!(take(&mut engine, &second(1_002, &rows[100..])).len(), 200);
    assert_eq!(engine.rules[0].more, 50);
    // They have no place when they begin again; those that find none are forgotten in time.
    let firing = |engine: &Engine| {
        let own = engine.rules[0].alerts().filter(|it| it.0.is_some());
        own.filter(|it| it.1.phase == Phase::Firing).count()
    };
    take(&mut engine, &second(1_003, &rows));
    assert_eq!((firing(&engine), engine.rules[0].more), (100, 150));
    for at in 0..900 {
        take(&mut engine, &second(1_004 + at, &rows));
    }
    // And the one of the rest.
    assert_eq!((engine.rules[0].episodes.len(), engine.rules[0].more), (101, 150));
}

#[test]
fn an_empty_name_is_said_in_words() {
    let text = format!(
        "[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhen = \"req_count > 5\"\nwindow = 2\nmin_requests = 0\n"
    );
    let summary = rules(&text)[0].summary(Some(&key("")), Some(7.0));
    assert!(summary.starts_with("script_name (empty): req_count > 5 over 2s"), "{summary}");
}

#[test]
fn rows_without_room_are_not_judged() {
    let text = format!(
        "[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhen = \"req_count > 5\"\nwindow = 2\nmin_requests = 0\n"
    );
    let mut engine = Engine::new(&rules(&text), 2_000, 1);
    let names: Vec<String> = (0..250).map(|at| format!("/{at:03}")).collect();
    let rows: Vec<(&str, Seen)> = names.iter().map(|it| (it.as_str(), (9, 0))).collect();
    for unix in 0..50 {
        let happened = take(&mut engine, &second(unix, &rows));
        assert!(happened.len() < 10, "{happened:?}");
        assert!(engine.room.used <= engine.room.max);
    }
    for unix in 50..60 {
        take(&mut engine, &second(unix, &[]));
    }
    assert_eq!(engine.room.used, 0, "all that was taken is given back");
}

#[test]
fn a_row_that_fires_again_says_how_often() {
    for hold in [0, 2] {
        let text = format!(
            "[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhen = \"req_count > 5\"\nwindow = 2\nfor = {hold}\nmin_requests = 0\n"
        );
        let rules = rules(&text);
        let mut engine = Engine::new(&rules, 1 << 20, 1);
        let mut unix = 1_000;
        let mut pass = |engine: &mut Engine, secs: u64, rows: &[(&str, Seen)]| {
            for _ in 0..secs {
                take(engine, &second(unix, rows));
                unix += 1;
            }
            let mut alerts = engine.alerts().map(|(.., it)| (it.firings, it.first_started));
            alerts.next()
        };
        for times in 1..=3 {
            let fired = pass(&mut engine, 5, &[("/a", (9, 0))]);
            assert_eq!(fired, Some((times, 1_001 + hold)), "for {hold} s");
            assert_eq!(pass(&mut engine, 5, &[]), fired, "it is over");
        }
        let mut again = Engine::new(&rules, 1 << 20, 1);
        again.restore(engine.save(), 0);
        assert_eq!(pass(&mut again, 1, &[]), Some((3, 1_001 + hold)));
        assert_eq!(pass(&mut engine, 900, &[]), None);
        let once = pass(&mut engine, 5, &[("/a", (9, 0))]);
        assert_eq!(once.map(|it| it.0), Some(1), "it was forgotten");
    }
}

/// In windows above a minute a step has several seconds, of which each adds to the row's frame.
#[test]
fn the_seconds_of_a_step_are_added_up() {
    let text = format!(
        "[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhen = \"p95 < 15\"\nwindow = 120\nmin_requests = 120\n"
    );
    for (memory, expected) in [(1 << 20, 1), (700, 0)] {
        let mut engine = Engine::new(&rules(&text), memory, 1);
        let rows = [("/a", (2, 0)), ("/b", (1, 0))];
        let mut happened = Vec::new();
        for unix in 0..60 {
            happened.extend(take(&mut engine, &second(unix, &rows)));
            assert!(engine.room.used <= memory);
        }
        let fired = vec![(60, "/a".to_owned(), Some(Phase::Firing)); expected];
        assert_eq!(happened, fired, "{memory} bytes");
        (60..190).for_each(|unix| _ = take(&mut engine, &second(unix, &[])));
        assert_eq!(engine.room.used, 0);
    }
}

/// Nor do the further seconds of a step take memory that is not counted.
#[test]
fn what_a_running_step_gained_is_counted() {
    let text = format!(
        "[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhen = \"p95 > 15\"\nwindow = 120\n"
    );
    let mut engine = Engine::new(&rules(&text), 1 << 20, 1);
    let used = [1, 1_000_000].map(|requests| {
        take(&mut engine, &second(1_000, &[("/a", (requests, 0))]));
        engine.room.used
    });
    assert!(used[0] < used[1], "{used:?}");
    assert_eq!(used[1], engine.windows[0].bytes());
}

#[test]
fn what_is_absent_fires_once_it_has_been_there() {
    let text = format!(
        "[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhere = \"script_name=/a*\"\nabsent = true\nwindow = 3\n"
    );
    let rules = rules(&text);
    let mut engine = Engine::new(&rules, 1 << 20, 1);
    assert!(take(&mut engine, &second(1, &[])).is_empty());
    take(&mut engine, &second(2, &[("/a", (1, 0)), ("/b", (1, 0))]));
    for unix in [3, 4] {
        assert!(take(&mut engine, &second(unix, &[])).is_empty());
    }
    // Three seconds later the state is in the file.
    let mut again = Engine::new(&rules, 1 << 20, 1);
    again.restore(engine.save(), 0);
    let fired = |unix| vec![(unix, "/a".to_owned(), Some(Phase::Firing))];
    // Nor does a reload of the same rule empty its window.
    engine.replace(&self::rules(&text), 5, &mut |_, _| ());
    assert_eq!(take(&mut engine, &second(5, &[])), fired(6));
    for unix in [5, 6] {
        assert!(take(&mut again, &second(unix, &[])).is_empty(), "not covered yet");
    }
    assert_eq!(take(&mut again, &second(7, &[])), fired(8));
    let over = take(&mut engine, &second(6, &[("/a", (1, 0))]));
    assert_eq!(over, [(7, "/a".to_owned(), Some(Phase::Resolved))]);
    // With gain in `(other)` nothing can be decided.
    let mut gain = second(7, &[]);
    gain.reports[0].has_other = true;
    for _ in 0..10 {
        assert!(take(&mut engine, &gain).is_empty());
    }
}

#[test]
fn a_row_that_is_away_for_a_week_is_forgotten() {
    const DAY: u64 = 86_400;
    let text =
        format!("[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nabsent = true\nwindow = 3\n");
    let rules = rules(&text);
    let window = Window { covered_secs: 3, ..Window::default() };
    let evaluate = |engine: &mut Engine, is_there: bool, passed: u64| {
        let key = key("/a");
        let row = [(&*key, Some((false, None)))];
        let rows = if is_there { &row[..] } else { &[] };
        let state = &mut engine.rules[0];
        state.evaluate(Moment { unix: 1, passed }, &window, rows, &mut |_, _| ());
        let alert = state.alerts().next();
        (state.known.len(), alert.map(|it| (it.1.phase, it.1.reason.clone())))
    };
    let mut engine = Engine::new(&rules, 1 << 20, 1);
    assert_eq!(evaluate(&mut engine, true, 1), (1, None));
    let firing = Some((Phase::Firing, String::new()));
    for _ in 0..6 {
        assert_eq!(evaluate(&mut engine, false, DAY), (1, firing.clone()));
    }
    let mut again = Engine::new(&rules, 1 << 20, 1);
    again.restore(engine.save(), 0);
    assert_eq!(evaluate(&mut again, false, DAY), (0, firing));
    let over = Some((Phase::Resolved, "no data".to_owned()));
    assert_eq!(evaluate(&mut again, false, DAY), (0, over));
}

#[test]
fn rows_of_other_keys_are_forgotten() {
    let text = "[[alert]]\nname = \"x\"\nreport = \"mine\"\nabsent = true\nwindow = 2\n";
    let by = |key: &str| {
        let defaults = Defaults::default();
        let comment = format!("v2/request/60/{key}/no_percentiles/no_filters");
        let report = ReportForm::of_comment("mine", &comment).definition(&defaults).unwrap();
        Rule::all(&config(text), &[(report, DefinedBy::BuiltIn)], &defaults).unwrap()
    };
    let mut engine = Engine::new(&by("+a"), 1 << 20, 1);
    for unix in 1..=3 {
        let rows: &[(&str, Seen)] = if unix == 1 { &[("h", (1, 0))] } else { &[] };
        let mut gain = second(unix, rows);
        gain.reports[0].report = "mine".to_owned();
        take(&mut engine, &gain);
    }
    let saved = serde_json::to_string(&engine.save()).unwrap();
    let restored = |rules: &[Arc<Rule>], saved: &str| {
        let mut engine = Engine::new(rules, 1 << 20, 1);
        engine.restore(serde_json::from_str(saved).unwrap(), 0);
        (engine.rules[0].known.len(), engine.rules[0].episodes.len())
    };
    assert_eq!(restored(&by("+a"), &saved), (1, 1));
    assert_eq!(restored(&by("+b"), &saved), (0, 0));
    let older = saved.replace("[\\\"+a\\\"] mine", "mine");
    assert!(older.len() < saved.len(), "{saved}");
    assert_eq!(restored(&by("+a"), &older), (1, 1));

    let mut ended = Vec::new();
    engine.replace(&by("+b"), 9, &mut |_, event| {
        ended.push(event.episode.unwrap().reason.clone());
    });
    assert_eq!(ended, ["rule"]);
    assert!(engine.rules[0].known.is_empty());
}

/// Requests that waited while nothing was merged are in the last step that ends with their gain.
#[test]
fn what_waits_to_be_read_is_not_absent() {
    for window in [20, 70] {
        let text = format!(
            "[[alert]]\nname = \"gone\"\nreport = \"{REPORT}\"\nabsent = true\nwindow = {window}\n\
             [[alert]]\nname = \"few\"\nreport = \"{REPORT}\"\nwhen = \"req_count < 100\"\nwindow = {window}\n"
        );
        let mut engine = Engine::new(&rules(&text), 1 << 20, 1);
        let mut unix = 1_000;
        let mut happened = Vec::new();
        for secs in [1; 100].into_iter().chain([102, 1, 1, 32, 9, 9, 9]).chain([1; 100]) {
            let gain = second(unix, &[("/a", (6 * secs, 0))]);
            happened.extend(take(&mut engine, &Gain { secs, covered_secs: secs, ..gain }));
            unix += secs;
        }
        assert!(happened.is_empty(), "window {window}: {happened:?}");
        // The time of an evaluation after a stall is that of its end.
        let fired = take(&mut engine, &Gain { secs: 100, covered_secs: 100, ..second(unix, &[]) });
        let fired: Vec<_> = fired.into_iter().map(|it| (it.0 - unix, it.2)).collect();
        assert_eq!(fired, [(100, Some(Phase::Firing))], "window {window}");
    }
}

/// Of requests that waited, an unknown part is in a window that begins inside their time.
#[test]
fn what_waits_to_be_read_is_not_all_in_a_shorter_window() {
    let rule = |name: &str, when: &str, window: u64| {
        format!(
            "[[alert]]\nname = \"{name}\"\nreport = \"{REPORT}\"\nwhen = \"{when}\"\nwindow = {window}\nmin_requests = 0\n"
        )
    };
    // Two requests a second.
    let text = rule("many", "req_count > 25", 10)
        + &rule("fast", "req_per_sec > 2.5", 10)
        + &rule("few", "req_count < 15", 10)
        + &rule("many_of_few_seconds", "req_count > 8", 4);
    let mut engine = Engine::new(&rules(&text), 1 << 20, 1);
    let mut unix = 1_000;
    for secs in [1; 20].into_iter().chain([7; 9]).chain([1; 20]).chain([30]).chain([1; 40]) {
        let gain = second(unix, &[("/a", (2 * secs, 0))]);
        let happened = take(&mut engine, &Gain { secs, covered_secs: secs, ..gain });
        assert!(happened.is_empty(), "{secs} s from {unix} on: {happened:?}");
        unix += secs;
    }
    // What holds with and without the gain in which the window begins is known.
    let text = rule("failing", "errors > 3", 10);
    let mut engine = Engine::new(&rules(&text), 1 << 20, 1);
    let phases = [(0, None), (0, None), (2, Some(Phase::Firing)), (2, None), (0, None)];
    for (errors, phase) in phases.into_iter().chain([(0, Some(Phase::Resolved))]) {
        let gain = second(unix, &[("/a", (14, 7 * errors))]);
        let happened = take(&mut engine, &Gain { secs: 7, covered_secs: 7, ..gain });
        let happened: Vec<_> = happened.into_iter().map(|it| it.2).collect();
        assert_eq!(happened, Vec::from_iter(phase.map(Some)), "from {unix} on");
        unix += 7;
    }
}

/// Rows keep their gain while rules come and go; of rows that none selected, the gain is unknown.
#[test]
fn windows_outlive_a_reload() {
    let rule = |name: &str, when: &str, script: &str| {
        format!(
            "[[alert]]\nname = \"{name}\"\nreport = \"{REPORT}\"\nwhen = \"{when}\"\n\
             where = \"script_name={script}\"\nwindow = 4\nmin_requests = 0\n"
        )
    };
    let busy = rule("busy", "req_count > 7", "/a");
    let mut engine = Engine::new(&rules(&busy), 1 << 20, 1);
    let both = [("/a", (2, 0)), ("/b", (2, 0))];
    for unix in 1..=3 {
        assert!(take(&mut engine, &second(unix, &both)).is_empty());
    }
    let few = rule("few", "req_count < 7", "/*");
    engine.replace(&rules(&(few + &busy)), 4, &mut |_, _| ());
    let fired = |unix, script: &str| vec![(unix, script.to_owned(), Some(Phase::Firing))];
    assert_eq!(take(&mut engine, &second(4, &both)), fired(5, "/a"));
    for unix in 5..=8 {
        assert!(take(&mut engine, &second(unix, &both)).is_empty());
    }
    let less = [("/a", (2, 0)), ("/b", (1, 0))];
    assert!(take(&mut engine, &second(9, &less)).is_empty());
    assert_eq!(take(&mut engine, &second(10, &less)), fired(11, "/b"));
    engine.replace(&rules(&busy), 11, &mut |_, _| ());
    assert!(take(&mut engine, &second(11, &both)).is_empty());
    let mut selected = [0];
    engine.windows[0].count(&mut selected);
    assert_eq!(selected, [1]);
}

/// A part of the window tells of sums only what the rest cannot change.
#[test]
fn half_a_window_is_not_taken_for_a_whole_one() {
    let judged = |when: &str, secs: u64| {
        let text = format!(
            "[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhen = \"{when}\"\nwindow = 4\nmin_requests = 0\n"
        );
        let mut engine = Engine::new(&rules(&text), 1 << 20, 1);
        let seconds = (1..=secs).map(|unix| take(&mut engine, &second(unix, &[("/a", (2, 1))])));
        seconds.map(|happened| happened.len()).collect::<Vec<_>>()
    };
    for (when, from) in [
        ("req_count < 15", 4),
        ("15 >= req_count", 4),
        ("req_count / 2 == 4", 4),
        ("req_count != 15", 4),
        ("100 - req_count > 50", 4),
        ("10 / req_count > 0.2", 4),
        ("req_count - 2 * errors >= 0", 4),
        ("req_count * req_per_sec > 1", 4),
        ("req_count * (1 - 3) < 0 - 6", 4),
        ("0 - req_count < 0 - 3", 2),
        ("req_count > 3", 2),
        ("3 < req_count", 2),
        ("errors / req_count < 0.9", 2),
        ("req_per_sec < 15", 2),
        ("p95 < 15", 2),
    ] {
        let expected: Vec<usize> = (1..=4).map(|second| usize::from(second == from)).collect();
        assert_eq!(judged(when, 4), expected, "{when}");
    }
    // Nor does an alert end before the rest is known.
    let text = format!(
        "[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhen = \"req_count > 7\"\nwindow = 4\nmin_requests = 0\n"
    );
    let mut engine = Engine::new(&rules(&text), 1 << 20, 1);
    for unix in 1..=4 {
        take(&mut engine, &second(unix, &[("/a", (2, 0))]));
    }
    let mut again = Engine::new(&rules(&text), 1 << 20, 1);
    again.restore(engine.save(), 0);
    for unix in 5..=8 {
        assert!(take(&mut again, &second(unix, &[("/a", (2, 0))])).is_empty());
    }
    assert_eq!(again.alerts().next().unwrap().2.phase, Phase::Firing);
}

/// Keys whose names have the same letters have labels of their own.
#[test]
fn no_label_hides_another() {
    let defaults = Defaults::default();
    let form = ReportForm::of_comment(
        "odd",
        "v2/request/60/+a-b,+a.b,+severity,+severity_/no_percentiles/no_filters",
    );
    let reports = [(form.definition(&defaults).unwrap(), DefinedBy::BuiltIn)];
    let config = config("[[alert]]\nname = \"x\"\nreport = \"odd\"\nwhen = \"req_count > 1\"\n");
    let rules = Rule::all(&config, &reports, &defaults).unwrap();
    let mut key = Vec::new();
    ["1", "2", "3", "4"].iter().for_each(|text| push_key(&mut key, text));
    let labels = rules[0].labels(Some(&key));
    let texts: BTreeSet<&str> = labels.values().map(String::as_str).collect();
    assert_eq!(texts, BTreeSet::from(["1", "2", "3", "4", "odd", "warning", "x"]), "{labels:?}");
}

#[test]
fn percentiles_need_requests_and_a_rule_in_words_says_so() {
    let text = format!(
        "[[alert]]\nname = \"slow\"\nreport = \"{REPORT}\"\nwhen = \"p95 > 800ms\"\nwindow = \"5m\"\nfor = \"2m\"\nseverity = \"page\"\n"
    );
    let rule = &rules(&text)[0];
    assert_eq!(
        rule.words(),
        format!(
            "slow (page): a row of {REPORT} has p95 > 800 ms over 5m; fires once this has held for 2m, resolves when it no longer holds; \
             evaluated every 10s; no verdict while less than half of the window is covered or it has fewer than 100 requests"
        )
    );
    let any = rules(&format!("{text}min_requests = 0\n"))[0].words();
    assert!(any.ends_with("half of the window is covered"), "{any}");
    let labels = rule.labels(Some(&key("/a")));
    let expected =
        [("alertname", "slow"), ("report", REPORT), ("script_name", "/a"), ("severity", "page")];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(labels, BTreeMap::from(expected));
}

#[test]
fn what_is_wrong_is_refused_by_file_line_and_key() {
    for (rule, problem) in cases![
        "report = \"report_by_scriptname\"\nwhen = \"p95 > 1\"" =>
            "pinbad.toml:3: alert.report: there is no report called \"report_by_scriptname\"; did you mean";
        "report = \"info\"\nwhen = \"p95 > 1\"\nwhere = \"host=a\"" =>
            "pinbad.toml:5: alert.where: there is no key \"host\"; accepted: none: this report has one row";
        "report = \"report_by_status\"\nwhen = \"p95 > 1\"\nwhere = \"500\"" =>
            "\"500\" is not a condition; accepted: KEY=text, KEY!=text or KEY=prefix*, where KEY is status";
        "report = \"info\"\nwhen = \"p95 > 1x\"" =>
            "pinbad.toml:4: alert.when: \"p95 > 1x\": \"x\" is not a unit";
        "report = \"info\"\nwhen = \"p95 > 1\"\nwindow = \"95s\"" =>
            "pinbad.toml:5: alert.window: 1m35s is not a whole number of 10 s";
        "report = \"info\"" =>
            "alert: no condition; accepted: one of when = \"CONDITION\", absent = true";
        "report = \"info\"\nwhen = \"p95 > 1\"\nabsent = true" =>
            "pinbad.toml:5: alert.absent = true: there is when too";
        "when = \"p95 > 1\"" => "alert: no report; accepted: report = the name of a report";
        "report = \"info\"\nwhen = \"p95 > 1\"\nwindow = \"2d\"" =>
            "alert.window = \"2d\": too long";
        "report = \"info\"\nwhen = \"p95 > 1\"\nlabels = {severity = \"x\"}" =>
            "\"severity\" is not a label";
        "report = \"info\"\nwhen = \"p95 > 1\"\nwindw = 1" =>
            "alert.windw = 1: unknown setting; did you mean alert.window?";
        "report = \"info\"\nwhen = \"p95 > 1\"\n[[alert]]\nname = \"x\"\nreport = \"info\"\nwhen = \"p95 > 1\"" =>
            "pinbad.toml:6: alert.name = \"x\": the entry at pinbad.toml:1 has it too";
    ] {
        let error = refusal(rule);
        assert!(error.contains(problem), "{error}");
    }
}
