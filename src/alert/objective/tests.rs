//! Worked examples, and a comparison with a naive evaluator that keeps every second.

use std::sync::Arc;

use super::*;
use crate::alert::ObjectiveView;
use crate::alert::engine::Engine;
use crate::alert::rule::Rule;
use crate::alert::state::{Event, Phase};
use crate::alert::windows::Gain;
use crate::config::Config;
use crate::grammar::builtin;
use crate::report::DefinedBy;
use crate::report::definition::Defaults;
use crate::report::histogram::Histogram;

/// A multiple of all steps.
const START: u64 = 1_699_920_000;

fn rules(text: &str) -> Result<Vec<Arc<Rule>>, String> {
    let defaults = Defaults::default();
    let reports = builtin::reports(&defaults).into_iter();
    let reports: Vec<_> = reports.map(|it| (it, DefinedBy::BuiltIn)).collect();
    let config = Config::from_toml("pinbad.toml", text).map_err(|errors| errors.to_string())?;
    Rule::all(&config, &reports, &defaults).map_err(|errors| errors[0].to_string())
}

fn of(more: &str) -> Result<Vec<Arc<Rule>>, String> {
    rules(&format!("[[slo]]\nname = \"x\"\n{more}\n"))
}

fn shop(objective: &str) -> Vec<Arc<Rule>> {
    of(&format!("report = \"report_by_script_name\"\nobjective = {objective}")).unwrap()
}

fn objective(rules: &[Arc<Rule>]) -> Arc<Objective> {
    Arc::clone(rules[0].objective().unwrap())
}

#[test]
fn an_objective_counts_all_rows_or_one_or_some() {
    let counts = |keys: &str| {
        let rules = of(&format!("report = \"report_by_script_name\"\nobjective = 99{keys}"));
        let objective = objective(&rules.unwrap());
        objective.only_row().map(|texts| texts.join(" "))
    };
    assert_eq!(counts("").as_deref(), Some(""));
    assert_eq!(counts("\nwhere = \"script_name=/a\"").as_deref(), Some("/a"));
    assert_eq!(counts("\nwhere = \"script_name=/a*\""), None);
    assert_eq!(counts("\nwhere = \"script_name!=/a\""), None);
}

/// A second with `total` requests, `errors` of them with errors.
fn second(total: u64, errors: u64) -> Count {
    Count { covered_secs: 1, total, errors, ..Count::default() }
}

/// Three days of good requests, `total` a second.
fn good_days(objective: &Arc<Objective>, total: u64) -> Budget {
    let mut budget = Budget::new(Arc::clone(objective));
    for now in START - 259_200..START {
        budget.total += &second(total, 0);
        budget.pass(now + 1);
    }
    budget
}

/// Returns the second, counted from the start, at which each pair of windows first alerts.
fn first_seconds(total: u64, errors: u64) -> [u64; 3] {
    let mut budget = good_days(&objective(&shop("99.5")), total);
    let mut first = [0; 3];
    for at in 1..20_000 {
        budget.total += &second(total, errors);
        budget.pass(START + at);
        for (first, burn) in first.iter_mut().zip(budget.burns()) {
            if *first == 0 && burn.holds == Some(true) {
                *first = at;
            }
        }
    }
    first
}

#[test]
fn budgets_burn_at_the_seconds_of_the_worked_example() {
    assert_eq!(first_seconds(1, 1), [260, 649, 1_297]);
    assert_eq!(first_seconds(10, 1), [2_593, 6_481, 12_961]);
    // Ten minutes of errors only, then none.
    let mut budget = good_days(&objective(&shop("99.5")), 1);
    let mut last = 0;
    for at in 1..2_000 {
        budget.total += &second(1, u64::from(at <= 600));
        budget.pass(START + at);
        if budget.burns()[0].holds == Some(true) {
            last = at;
        }
    }
    assert_eq!(last + 1 - 600, 279);
}

#[test]
fn a_budget_is_left_and_may_be_overdrawn() {
    let objective = objective(&shop("\"99.5%\""));
    let left = |total, bad| 1.0 - objective.burn(&second(total, bad)).unwrap();
    assert!((left(10_000_000, 20_000) - 0.6).abs() < 1e-12);
    assert!((left(2_592_000, 600) - (1.0 - 0.046_296)).abs() < 1e-6);
    assert!((left(1_000, 10) + 1.0).abs() < 1e-12);
    assert_eq!(objective.burn(&Count::default()), None);
    let mut budget = Budget::new(Arc::clone(&objective));
    for (hour, errors) in [0, 3, 2].into_iter().enumerate() {
        budget.total += &second(1_000, errors);
        (0..3_600).for_each(|at| budget.pass(START + hour as u64 * 3_600 + at + 1));
    }
    budget.total += &second(1_000, 5);
    let course: Vec<f64> = budget.course().into_iter().flatten().collect();
    let expected = [1.0, 0.85, 0.75, 0.5];
    let is_near = |(a, b): (&f64, f64)| (a - b).abs() < 1e-9;
    assert!(course.iter().zip(expected).all(is_near), "{course:?}");
    assert_eq!(budget.period().total, 4_000);
}

#[test]
fn good_requests_are_told_apart_where_hours_of_history_do() {
    let defaults = Defaults::default();
    let buckets = builtin::reports(&defaults)[0].buckets;
    for (us, from) in
        [(100_000, 102_400), (200_000, 204_800), (500_000, 507_904), (1_000_000, 1_015_808)]
    {
        assert_eq!(buckets.told_apart_from(us), from);
    }
    let rules =
        of("report = \"report_by_script_name\"\ngood = \"req_time <= 500ms\"\nobjective = 99");
    let objective = objective(&rules.unwrap());
    let mut times = Histogram::new();
    for us in [1_000, 500_000, 507_903, 507_904, 9_000_000] {
        times.add(buckets.bucket(us), 1);
    }
    let totals = Totals { requests: 5, errors: 1, ..Totals::ZERO };
    let count = objective.count(&totals, Some(times.iter()), false);
    // The error may have been one of the slow ones.
    assert_eq!((count.total, count.slow, count.errors), (5, 2, 1));
    assert_eq!((count.bad(), objective.is_exact), (3, false));
    let unknown: Option<std::iter::Empty<(u32, u64)>> = None;
    assert_eq!(objective.count(&totals, unknown, false), Count::default());
    // By status, all requests of a row are errors or none is.
    let rules = of("report = \"report_by_status\"\ngood = \"req_time <= 500ms\"\nobjective = 99");
    let objective = self::objective(&rules.unwrap());
    let totals = Totals { errors: 5, ..totals };
    let count = objective.count(&totals, Some(times.iter()), false);
    assert_eq!((count.bad(), count.blurred, objective.is_exact), (5, 0, true));
    // `(other)` has requests of any status.
    let totals = Totals { errors: 1, ..totals };
    let count = objective.count(&totals, Some(times.iter()), true);
    assert_eq!((count.bad(), count.blurred), (3, 1));
    let mut budget = Budget::new(objective);
    assert!(ObjectiveView::of(&budget, &[]).is_exact);
    budget.total += &count;
    assert!(!ObjectiveView::of(&budget, &[]).is_exact);
}

/// Where nothing fails, that is known.
#[test]
fn without_failures_all_is_well() {
    let budget = good_days(&objective(&shop("99.5")), 1);
    assert_eq!(budget.burns().map(|it| it.holds), [Some(false); 3]);
}

#[test]
fn a_page_hides_the_ticket() {
    let rules = shop("99.5");
    let objective = objective(&rules);
    let mut engine = Engine::new(&rules, 1 << 20, 1);
    engine.budgets = vec![good_days(&objective, 1)];
    let mut happened = Vec::new();
    for at in 0..4_000 {
        let gain = Gain {
            unix: START + at,
            secs: 1,
            covered_secs: 1,
            counts: vec![(Arc::clone(&objective), second(1, u64::from(at < 1_400)))],
            ..Gain::default()
        };
        engine.take(&gain, &mut |rule: &Rule, event: &Event<'_>| {
            let severity = rule.entry.severity.clone();
            happened.push((event.unix - START, severity, event.episode.map(|it| it.phase)));
        });
    }
    let expected = [
        (260, "page", Phase::Firing),
        // Half an hour with less than 3 %; three days still have more than 0.5 %.
        (1_400 + 1_746, "page", Phase::Resolved),
        (1_400 + 1_746, "ticket", Phase::Firing),
    ];
    let expected = expected.map(|(at, name, phase)| (at, name.to_owned(), Some(phase)));
    // The resolved alert is forgotten later.
    assert_eq!(happened[..3], expected);
}

#[test]
fn burn_rates_are_those_of_a_naive_evaluator_second_by_second() {
    let objective = objective(&shop("99"));
    let mut budget = Budget::new(Arc::clone(&objective));
    // Cumulative sums by second.
    let mut sums = vec![Count::default()];
    let mut random = 7_u64;
    let mut dice = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    let (mut rate, mut fired) = (0, 0);
    for at in 1..40_000_u64 {
        if dice(600) == 0 {
            rate = [0, 1, 8, 60][dice(4) as usize];
        }
        let total = dice(4);
        let errors = (0..total).filter(|_| dice(100) < rate).count() as u64;
        // Some seconds are not counted.
        let count = match at / 2_000 % 9 {
            7 => Count::default(),
            _ => second(total, errors),
        };
        budget.total += &count;
        budget.pass(START + at);
        let mut sum = sums[at as usize - 1];
        sum += &count;
        sums.push(sum);
        let window = |secs: u64| {
            let step = [(3_600, 1), (21_600, 10), (u64::MAX, 60)];
            let step = step.iter().find(|it| secs <= it.0).map_or(1, |it| it.1);
            let begin = ((START + at) / step * step - secs).saturating_sub(START);
            sums[at as usize] - sums[begin as usize]
        };
        for burn in budget.burns() {
            let [long, short] = [burn.rate.long, burn.rate.short].map(window);
            let part = |it: &Count| it.errors as f64 / it.total as f64;
            let exceeds = |it: &Count| part(it) > burn.rate.threshold() * 0.01 + 1e-12;
            let is_known = long.covered_secs * 2 >= burn.rate.long
                && short.covered_secs * 2 >= burn.rate.short
                && long.total >= 100;
            let expected = match (is_known, exceeds(&long) && exceeds(&short)) {
                (false, _) => None,
                // One failure of a few requests is not worth an alert.
                (true, true) => (long.errors >= 5).then_some(true),
                (true, false) => Some(false),
            };
            assert_eq!(burn.holds, expected, "second {at}: {burn:?} {long:?} {short:?}");
            fired += u64::from(expected == Some(true));
        }
    }
    assert!(fired > 100, "{fired}");
}

#[test]
fn an_objective_in_words_says_what_cannot_happen() {
    let rules = of(
        "report = \"report_by_script_name\"\nwhere = \"script_name=/a*\"\ngood = \"req_time <= 0.5\"\nobjective = 90",
    );
    let words = rules.unwrap()[0].words();
    let expected = "x (page): 90 % of the requests of report_by_script_name (script_name=/a*) take less than 508 ms and are not \
                    errors, over 30d; fires while the budget for the others burns too fast: more than 14.4 times its even \
                    pace over both 1h and 5m (never: not even with every request bad), or more than 6 times its even pace over both 6h and \
                    30m; ";
    assert!(words.starts_with(expected), "{words}");
}

#[test]
fn what_is_wrong_is_refused_by_file_line_and_key() {
    for (entry, problem) in cases![
        "report = \"report_by_script_name\"" =>
            "slo: no objective; accepted: objective = 50 to 99.999 percent, as in 99.5";
        "report = \"report_by_script_name\"\nobjective = 100" =>
            "pinbad.toml:4: slo.objective = 100: out of range";
        "report = \"report_by_script_name\"\nobjective = 99.9999" =>
            "slo.objective = 99.9999: out of range";
        "report = \"report_by_script_name\"\nobjective = 99.99951" => "out of range";
        "report = \"report_by_script_name\"\nobjective = 99.12345" => "more than three decimals";
        "report = \"report_by_script_nam\"\nobjective = 99" =>
            "pinbad.toml:3: slo.report: there is no report called \"report_by_script_nam\"; did you mean";
        "report = \"info\"\nobjective = 99\nwhere = \"host=a\"" =>
            "pinbad.toml:5: slo.where: there is no key \"host\"";
        "report = \"info\"\nobjective = 99\ngood = \"p95 <= 1\"" =>
            "slo.good = \"p95 <= 1\": not about req_time; accepted: \"req_time <= DURATION\"";
        "report = \"info\"\nobjective = 99\ngood = \"req_time < 1\"" => "no <=";
        "report = \"info\"\nobjective = 99\ngood = \"req_time <= 1parsec\"" =>
            "\"parsec\" is not a unit of time";
        "report = \"info\"\nobjective = 99\nperiod = \"1h\"" =>
            "slo.period = \"1h\": too short; accepted: a duration from 1d to 90d";
        "report = \"info\"\nobjective = 99\nwindow = \"1h\"" =>
            "slo.window = \"1h\": unknown setting; [[slo]] takes name, ";
        "report = \"info\"\nobjective = 99\n[[alert]]\nname = \"x\"\nreport = \"info\"\nwhen = \"p95 > 1\"" =>
            "slo.name = \"x\": the entry at pinbad.toml:5 has it too";
    ] {
        let error = of(entry).unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
}
